// Draws one token from logits, by one job's settings. A pure function: the random number generator is
// counter-based (engine/philox.h), keyed by the job's seed, with the token's index and the choice as the
// counter. exp and log are our own (schemas/base/elementary.h), so that every machine draws the same token
// from the same logits.
//
// Order: logits of tokens that are not allowed become -infinity; logit bias, repetition, presence and
// frequency penalties; temperature 0 takes the largest logit (ties: the lowest id); otherwise temperature,
// top-k, top-p, min-p, then one draw in order of probability, then id. Logprobs are computed from the
// unmodified logits of the allowed tokens, before all other steps.
#pragma once

#include "engine/backend.h"

// Scratch memory, one per thread.
struct sampler;

enum status sampler_create(struct sampler **sampler, int32_t n_vocab, struct error *error) WARN_UNUSED;
void sampler_destroy(struct sampler *sampler);

// Draws a token and changes `logits` [n_vocab]. The token is -1 if an allowed token's unmodified logit is NaN
// or positive infinity, or if no allowed logit is finite. Token ids in the request must be in range
// (asserted), its settings within the limits of schemas/job.h.
void sampler_draw(struct sampler *sampler, float *logits, const struct sample_request *request,
                  struct sample_result *result);
