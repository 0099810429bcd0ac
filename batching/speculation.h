// Speculative decoding without a draft model. Draft tokens are what followed the last tokens of a sequence
// before: in its own prompt and answer (prompt lookup), or in finished answers of the dataset (suffix
// decoding); or the first token of bytes that a constraint forces, where another one may spell them. They are
// rows of an ordinary step, with outputs; a draft token is accepted if it is the token
// that the output before it draws. Since a draw is a function of request, position and logits, and rows are
// batch-invariant, the answer has the bytes that it has without. What is kept here decides only which rows are
// computed in vain.
//
// How often a proposed token is the one drawn is counted by where it was found: in which text, behind how long
// a match, with how many votes; and for each sequence in relation to that. Tokens that were proposed and not
// computed are counted too, so that a sequence which begins to quote is noticed.
// Thread: engine.
#pragma once

#include "batching/sequence.h"
#include "batching/suffix_index.h"

#include <stdlib.h>

enum {
    DRAFT_TOKENS_MAX = 32,          // of one sequence in a step
    SPECULATION_SEQUENCES_MAX = 32, // that draft at a time: in larger batches no draft pays
};

enum {
    SPECULATION_SOURCES = 2,
    SPECULATION_LENGTHS = 7, // the first: behind a token that the text has not in its place
    SPECULATION_VOTES = 3,
    SPECULATION_CELL_FORCED =
        SPECULATION_SOURCES * SPECULATION_LENGTHS * SPECULATION_VOTES, // of forced bytes
    SPECULATION_CELLS,
};

struct draft_token {
    int32_t token;
    int32_t cell;   // of speculation.counts; -1: a constraint forces it behind the one before
    double chance;  // that it and all before it are accepted
    int source;     // its text
    uint32_t place; // in it
};

// A sequence's draft.
struct sequence_draft {
    struct suffix_index own; // of prompt and answer
    int32_t n_indexed;       // tokens of these
    // The first n_rows are tokens of the step, behind the answer's n_before; then one more may be proposed.
    struct draft_token tokens[DRAFT_TOKENS_MAX + 1];
    int32_t n_proposed, n_rows, n_before;
    double n_misses, n_expected; // of proposed tokens: not drawn; as chances had it; older ones count less
    // Where a text goes on behind a token that differed from the answer's last one: an edited text does.
    bool may_resume;
    int resume_source;
    uint32_t resume_place;
};

static inline void sequence_draft_destroy(struct sequence_draft *draft)
{
    if (draft)
        suffix_index_finish(&draft->own);
    free(draft);
}

// Of proposed tokens, older ones counting less.
struct draft_counts {
    double n, n_hits; // n_hits: drawn
};

// Zeroed is valid.
struct speculation {
    struct suffix_index answers; // finished ones, each behind SUFFIX_BREAK
    bool has_failed;             // no memory for `answers`
    int32_t n_drafts;            // of sequences
    struct draft_counts counts[SPECULATION_CELLS];
};

void speculation_finish(struct speculation *speculation);
// Bytes that it takes at most, where n_sequences run with n_positions each.
uint64_t speculation_bytes(int32_t n_sequences, int64_t n_positions);
// Frees the sequence's draft.
void speculation_release(struct speculation *speculation, struct sequence *sequence);

// Proposes at most n_max tokens behind the sequence's known ones and the one that the step draws. n_rows counts those whose
// chance is above `least` and behind which another one is drawn. False: none is worth a row.
bool speculation_propose(struct speculation *speculation, struct sequence *sequence, int32_t n_max,
                         double least, const struct tokenizer *tokenizer);
// Limits n_rows to tokens of at least that chance, and to n_max.
void speculation_trim(struct sequence_draft *draft, double least, int32_t n_max);
// After the step: counts which of the proposed tokens the answer has. Returns how many of n_rows it has,
// and forgets the draft.
int32_t speculation_settle(struct speculation *speculation, struct sequence *sequence);
// The answer may be proposed to others from now on.
void speculation_add_answer(struct speculation *speculation, const struct sequence *sequence);
