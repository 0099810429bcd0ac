// Draws one token from logits, by one job's settings. A pure function: the random number is a counter-based one
// (Philox 4x32-10, Salmon et al., SC 2011) keyed by the job's seed and choice, with the token's index as the counter.
//
// Order: logit bias, repetition, presence and frequency penalties; temperature 0 takes the largest (ties: the lowest id);
// else temperature, top-k, top-p, min-p, one draw in order of probability then id.
#pragma once

#include "engine/backend.h"

// Room for one sampler; one a thread.
struct sampler;

enum status sampler_create(struct sampler **sampler, int32_t n_vocab, struct error *error) WARN_UNUSED;
void sampler_destroy(struct sampler *sampler);

// `logits` [n_vocab] are changed. A NaN among them (as the model gave them) makes token -1; so does no finite one.
void sampler_draw(struct sampler *sampler, float *logits, const struct sample_request *request,
                  struct sample_result *result);
