// How well logits predict the tokens of a text, and how far two models' predictions are apart: the figures of
// llama-perplexity. In double precision. Thread: any.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// One token of the text. Natural logarithms.
struct likelihood {
    double nll; // negative log-likelihood; NaN: the logits had a NaN or an infinity
    // The reference's; 0 without one.
    double reference_nll;
    double kl; // Kullback-Leibler divergence of the prediction from the reference's, not below 0
    bool same_top;
};

// The logits [n_vocab] before `token`, and the reference's (NULL: none).
struct likelihood likelihood_of(const float *logits, const float *reference, int32_t n_vocab, int32_t token);

struct likelihood_mean {
    double mean, error; // standard error of the mean; 0 for one token
};

struct likelihood_divergence {
    struct likelihood_mean nll;       // the reference's
    struct likelihood_mean log_ratio; // of the perplexities
    struct likelihood_mean kl;
    struct likelihood_mean p_difference; // probability of the text's token, less the reference's
    struct likelihood_mean same_top;     // share of tokens with the same most likely token
    double kl_median, kl_99, kl_largest, p_rms;
};

struct likelihood_summary {
    struct likelihood_mean nll;
    struct likelihood_divergence against; // meaningless without a reference
};

// Summarizes n > 0 tokens and sorts them by KL divergence. False: one is NaN.
bool likelihood_summarize(struct likelihood *scored, size_t n, struct likelihood_summary *summary);
