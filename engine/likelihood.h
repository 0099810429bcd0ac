// Measures how well logits predict the tokens of a text, and how much the predictions of two models differ:
// the figures of llama-perplexity. In double precision. Thread: any.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Figures of one token of the text. Logarithms are natural.
struct likelihood {
    double nll; // negative log-likelihood; NaN: the logits had a NaN or an infinity
    // The same for the reference; 0 without a reference.
    double reference_nll;
    double kl; // Kullback-Leibler divergence of the prediction from the reference's prediction; at least 0
    bool same_top;
};

// Scores `token` by the logits [n_vocab] before it, and by the reference's logits (NULL: none).
struct likelihood likelihood_of(const float *logits, const float *reference, int32_t n_vocab, int32_t token);

struct likelihood_mean {
    double mean, error; // error: standard error of the mean; 0 for one token
};

struct likelihood_divergence {
    struct likelihood_mean nll;       // figures of the reference
    struct likelihood_mean log_ratio; // log of the ratio of the perplexities
    struct likelihood_mean kl;
    struct likelihood_mean p_difference; // probability of the text's token minus the reference's
    struct likelihood_mean same_top;     // share of tokens with the same most likely token
    double kl_median, kl_99, kl_largest, p_rms;
};

struct likelihood_summary {
    struct likelihood_mean nll;
    struct likelihood_divergence against; // meaningless without a reference
};

// Summarizes n > 0 tokens and sorts them by KL divergence. False: one is NaN.
bool likelihood_summarize(struct likelihood *scored, size_t n, struct likelihood_summary *summary);
