// Scores tokens that are given: the logprob of each, by the model's own distribution, without a constraint or
// any setting of sampling.
//
// A branch is a sequence that scores one of the job's choices behind the prompt. It shares the prompt's pages
// with the job's answers and computes the rest: the prompt's last tokens, and all tokens of the choice but
// the last. They are tokens of ordinary steps, so the logprobs do not depend on the batch.
//
// A target is drawn like any token, at temperature 0 with a bias that no logit reaches, so that each backend
// returns its logprob with the bits of engine/sampler.c; the bias is added after the logprobs.
//
// The prompt's own tokens are scored by the first answer's sequence, from its first token on: it computes
// tokens again whose keys and values are cached, to the same bytes. With max_tokens 0 it does nothing else.
//
// The tokens of a choice are the canonical ones of its text alone: the tokenizer's, without special tokens
// and without the blank that some vocabularies put before a first word. The prompt's tokens are not changed
// by what follows them.
// Thread: engine; scoring_prepare runs on the pool.
#pragma once

#include "batching/sequence.h"

// Sequences that score choices.
static inline int32_t request_n_branches(const struct request *request)
{
    return request->scores.wanted ? request->constraint.n_choices : 0;
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

// After the prompt is tokenized: sets the targets of its sequences. Sets prompt->error on failure.
enum status scoring_prepare(struct prompt *prompt, const struct prompt_environment *environment) WARN_UNUSED;
// Positions of the longest sequence that scores; 0: none does.
int64_t scoring_positions(const struct prompt *prompt);
// The sample of the sequence's next target; `scoring` is its memory.
struct sample_request scoring_request(const struct sequence *sequence, struct scoring *scoring);
// Takes the logprob of the next target. Sets finish_reason with the last one of a sequence that only scores.
void sequence_score(struct sequence *sequence, const struct sample_result *drawn,
                    const struct tokenizer *tokenizer);
// Writes the scores into the job's result, except those of an echo. False: out of memory.
bool scoring_finish(struct prompt *prompt) WARN_UNUSED;
