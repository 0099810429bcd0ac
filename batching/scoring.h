// Scores given tokens: the logprob of each one in the model's own distribution, without constraints or
// sampling settings.
//
// A branch is a sequence that scores one of the job's choices after the prompt. It shares the prompt's pages
// with the job's answers and computes the rest: the prompt's last tokens, and all tokens of the choice but
// the last. They are tokens of ordinary steps, so the logprobs do not depend on the batch.
//
// A target is drawn like any token, at temperature 0 with a bias that no logit reaches, so that each backend
// returns its logprob with the bits of engine/sampler.c; the bias is added after the logprobs.
//
// The first answer's sequence scores the prompt's own tokens, from the first one on. It recomputes tokens
// whose keys and values are cached, to the same bytes. With max_tokens 0 it does nothing else.
//
// The branches of a schema's values follow their answer (property_scores.h).
//
// A choice is tokenized alone: without special tokens, and without the blank that some vocabularies put
// before a first word. The prompt's tokens do not depend on the choice.
// Thread: engine; scoring_prepare runs on the pool.
#pragma once

#include "batching/sequence.h"

// Sequences that score choices.
static inline int32_t request_n_branches(const struct request *request)
{
    return !request->scores.wanted        ? 0
           : request->scores.n_values > 0 ? request->scores.n_values
                                          : request->constraint.n_choices;
}

// The request asks for the logprobs of the prompt's tokens, alone or as part of an echo.
static inline bool request_scores_prompt(const struct request *request)
{
    bool is_echoed = request->echo && request->sampling.logprobs && !request->hides_logprobs;
    return request->prompt_logprobs >= 0 || is_echoed;
}

// Settings of one target's output.
struct scoring {
    struct sampling sampling;
    struct logit_bias bias;
};

// Called after the prompt is tokenized: sets the targets of its sequences. Sets prompt->error on failure.
enum status scoring_prepare(struct prompt *prompt, const struct prompt_environment *environment) WARN_UNUSED;
// Positions of the longest sequence that scores; 0: none does.
int64_t scoring_positions(const struct prompt *prompt);
// The sample request of the sequence's next target; `scoring` holds its settings.
struct sample_request scoring_request(const struct sequence *sequence, struct scoring *scoring);
// Stores the logprob of the next target. Sets finish_reason after the last target if the sequence only
// scores.
void sequence_score(struct sequence *sequence, const struct sample_result *drawn,
                    const struct tokenizer *tokenizer);
// Writes the scores into the job's result, except the logprobs of an echo. False: out of memory.
bool scoring_finish(struct prompt *prompt) WARN_UNUSED;
