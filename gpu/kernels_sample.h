// Launches of the sampling kernels: engine/sampler.c's draw on the device, the same token and logprobs from the same
// logits bit for bit. Three in a row: logprobs (of the logits as given), adjust (bias and penalties), draw.
//
// All memory is the device's. Launches enqueue into `stream`; what a launch reads is fixed when it runs, not when it is
// enqueued, so a captured one draws by the settings of each replay.
#pragma once

#include "schemas/job.h"

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    SAMPLE_WANTED = 1,   // else the output is padding: nothing is read or written
    SAMPLE_ADJUSTS = 2,  // has biases or penalties
    SAMPLE_LOGPROBS = 4, // has logprobs
};

// One output's settings and where its lists stand.
struct sample_settings {
    uint64_t seed;
    uint32_t index, choice;
    float temperature, top_p, min_p;
    float presence_penalty, frequency_penalty, repetition_penalty;
    int32_t top_k, n_top, flags;
    int32_t first_bias, n_biases;               // in `biases`
    int32_t first_token, n_prompt, n_generated; // in `history`: the prompt's, then the generated; 0 without penalties
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

// Between the kernels.
struct sample_state {
    double log_sum;
    float largest; // NaN: nothing can be drawn
};

struct sample_arguments {
    float *logits; // [n_outputs, stride]; adjust changes them
    int64_t stride;
    int32_t n_vocab, n_outputs;
    const struct sample_settings *settings; // [n_outputs]
    const struct sample_bias *biases;
    const int32_t *history;
    float *given_biased, *given_history; // of each bias and token in the lists: its logit as given, or -infinity
    int32_t *counts;                     // [SAMPLE_SLOTS, n_vocab], zero before and after
    struct sample_state *states;         // [n_outputs]
    struct sample_outcome *outcomes;     // [n_outputs]
    struct token_logprob *top;           // [n_outputs, JOB_TOP_LOGPROBS_MAX]
};

enum { SAMPLE_SLOTS = 32 }; // outputs that are penalised at once

// Before everything else of a step: tokens that were not known when it was prepared (gpu/upload.h) become what the step before
// drew, or 0 for a NaN. `tokens` [n_rows] and the ends of the histories that `settings` [n_outputs] name, NULL: none.
void launch_resolve(void *stream, int32_t *tokens, int32_t n_rows, const struct sample_settings *settings, int32_t n_outputs,
                    int32_t *history, const struct sample_outcome *outcomes);
void launch_sample_logprobs(void *stream, const struct sample_arguments *arguments);
void launch_sample_adjust(void *stream, const struct sample_arguments *arguments);
void launch_sample_draw(void *stream, const struct sample_arguments *arguments);

#ifdef __cplusplus
}
#endif
