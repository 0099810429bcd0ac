// A model without arithmetic, for tests of everything around the engine: the next token is a hash of all the
// tokens before it, read from the pages through the block table. A wrong table, page or position changes
// every answer. It replaces the tokenizer and the template too: token 1 ends an answer, others spell one
// letter each. Of a chat it renders the first message's text, or refuses it where there is no template.
#pragma once

#include "batching/batcher.h"

struct fake_model;

enum { FAKE_VOCAB = 211, FAKE_EOS = 1 };
enum { FAKE_UNSPELLED = 0x7F }; // a byte for which the tokenizer has no token
enum { FAKE_HELD = '#' };       // a text that begins with it is not tokenized while such are held

void fake_tokenizer_hold(bool is_held);
int fake_tokenizer_n_texts(bool held_ones); // of which tokenizing has begun so far

struct fake_model *fake_model_create(int32_t n_pages, int32_t page_positions);
// From now on it also has recurrent states; one that is another sequence's or another position's ends the test.
void fake_model_keep_states(struct fake_model *model, int32_t n_slots);
void fake_model_destroy(struct fake_model *model);
struct step_executor fake_model_executor(struct fake_model *model);
// Computes ahead, as late as it may: a step that was submitted runs when it is waited for.
struct step_executor fake_model_executor_ahead(struct fake_model *model);
int64_t fake_model_rows(const struct fake_model *model); // computed so far
// of them, with a token that was not known when they were submitted
int64_t fake_model_rows_ahead(const struct fake_model *model);
int64_t fake_model_copies(const struct fake_model *model); // of pages
int64_t fake_model_steps(const struct fake_model *model);
int32_t fake_model_largest_batch(const struct fake_model *model); // sequences in one step
void fake_model_fail_at(struct fake_model *model, int64_t step);  // that step returns STATUS_RESTART
// The same, of the number-th sampling that is submitted apart.
void fake_model_fail_sampling_at(struct fake_model *model, int64_t number);
// Between the two, which one thread calls, no step begins.
void fake_model_hold(struct fake_model *model);
void fake_model_release(struct fake_model *model);
bool fake_model_is_held(struct fake_model *model); // a step has begun otherwise, and waits
// Draws after this token are NaN; no answer holds it, only a prompt may.
enum { FAKE_POISON = 7 };

// The answer the definition gives for a prompt: tokens in `answer`, at most max_tokens; returns how many.
int32_t fake_model_answer(const int32_t *prompt, int32_t n_prompt, uint64_t seed, uint32_t choice,
                          int32_t max_tokens, bool ignore_eos, int32_t *answer);
// The sum of logprobs, by definition, of targets after a prompt.
double fake_model_score(const int32_t *prompt, int32_t n_prompt, const int32_t *targets, int32_t n_targets);
// The text the stand-in tokenizer spells for tokens.
void fake_model_text(const int32_t *tokens, int32_t n, char *text);
