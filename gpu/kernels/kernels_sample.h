// Launches of the sampling kernels. They draw the same tokens and logprobs as engine/sampler.c from the same
// logits, bit for bit. Three calls: logprobs (applies the token mask, then computes logprobs of the logits),
// adjust (bias and penalties), draw.
//
// All pointers are device memory, which kernels read when they run. So a graph uses the settings uploaded
// before each replay.
#pragma once

#include "schemas/job.h"

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    SAMPLE_WANTED = 1,   // not set: padding, for which nothing is read or written
    SAMPLE_ADJUSTS = 2,  // has biases or penalties
    SAMPLE_LOGPROBS = 4, // logprobs requested
    SAMPLE_MASKED = 8,   // has a mask of the allowed tokens
};

struct sample_penalties {
    float presence, frequency, repetition;
};

// A place in the histories, which hold prompt tokens, then generated tokens.
struct sample_history {
    int32_t first_token, n_prompt, n_generated;
};

// Settings of one output, with the indices of its lists.
struct sample_settings {
    uint64_t seed;
    uint32_t index, choice;
    float temperature, top_p, min_p;
    struct sample_penalties penalties;
    int32_t top_k, n_top, flags;
    int32_t first_bias, n_biases;  // in `biases`
    int32_t first_mask;            // in `masks`: (n_vocab + 31) / 32 words
    struct sample_history history; // used with penalties; otherwise zero
};

struct sample_bias {
    int32_t token;
    float bias;
};

struct sample_outcome {
    int32_t token; // -1: the logits held a NaN
    float logprob;
    int32_t n_top;
};

enum { SAMPLE_SLICES = 32 }; // slices per output

struct sample_extreme {
    float largest;
    int32_t first; // lowest token with the largest logit
    int32_t bad;   // a logit is NaN or +infinity: the draw fails
};

// State that one kernel passes to the next.
struct sample_state {
    double log_sum;
    struct sample_extreme slices[SAMPLE_SLICES]; // before biases and penalties are applied
};

struct sample_arguments {
    float *logits; // [n_outputs, stride]; modified by logprobs and adjust
    int64_t stride;
    int32_t n_vocab, n_outputs;
    const struct sample_settings *settings; // [n_outputs]
    const struct sample_bias *biases;
    const int32_t *history;
    const uint32_t *masks;
    // Unmodified logit of each token in the bias list and in the history, or -infinity.
    float *given_biased, *given_history;
    int32_t *counts;                 // [SAMPLE_SLOTS, n_vocab] zeros before and after the launch
    struct sample_state *states;     // [n_outputs]
    struct sample_outcome *outcomes; // [n_outputs]
    struct token_logprob *top;       // [n_outputs, JOB_TOP_LOGPROBS_MAX]
};

enum { SAMPLE_SLOTS = 32 }; // number of outputs that adjust processes at a time

// The first kernel of a step. Replaces pending tokens (gpu/upload.h) by the tokens that the previous step
// drew, in `tokens` [n_rows] and at the ends of the histories of `settings` [n_outputs]. If a draw failed,
// the token is 0.
void launch_resolve(void *stream, int32_t *tokens, int32_t n_rows, const struct sample_settings *settings,
                    int32_t n_outputs, int32_t *history, const struct sample_outcome *outcomes);
void launch_sample_logprobs(void *stream, const struct sample_arguments *arguments);
void launch_sample_adjust(void *stream, const struct sample_arguments *arguments);
void launch_sample_draw(void *stream, const struct sample_arguments *arguments);

#ifdef __cplusplus
}
#endif
