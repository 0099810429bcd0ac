// Speculative decoding without a draft model. Draft tokens are proposed from
//   - the tokens that followed an earlier occurrence of the sequence's last tokens: in its own prompt and
//     answer (prompt lookup), or in finished answers of the dataset (suffix decoding);
//   - the first token of bytes that a constraint forces, if other tokens may spell them too.
//
// Draft tokens are rows of an ordinary step, with outputs. A draft token is accepted if the output before it
// draws the same token. A draw is a function of request, position and logits, and rows are batch-invariant,
// so the answer has the same bytes as without speculation: speculation only decides how many rows are wasted.
//
// The acceptance rate of proposed tokens is counted by source: which text, the length of the match, its
// votes. Each sequence has a factor relative to these rates. Tokens that were proposed but not computed are
// counted too, so that a sequence which begins to quote is noticed.
// Thread: engine.
#pragma once

#include "batching/sequence.h"
#include "batching/suffix_index.h"

#include <stdlib.h>

enum {
    DRAFT_TOKENS_MAX = 32,          // draft tokens of one sequence in one step
    SPECULATION_SEQUENCES_MAX = 32, // sequences that draft in one step; in larger batches no draft pays
};

enum {
    SPECULATION_SOURCES = 2,
    SPECULATION_LENGTHS = 7, // ranges of match lengths; the first: resumed matches
    SPECULATION_VOTES = 3,
    SPECULATION_CELL_FORCED =
        SPECULATION_SOURCES * SPECULATION_LENGTHS * SPECULATION_VOTES, // the last source: forced bytes
    SPECULATION_CELLS,
};

struct draft_token {
    int32_t token;
    int32_t cell;   // index into speculation.counts; -1: forced after the previous token by a constraint
    double chance;  // chance that this token and all earlier ones are accepted
    int source;     // the text it was found in
    uint32_t place; // its place in that text
};

// A sequence's draft.
struct sequence_draft {
    struct suffix_index own; // indexes prompt and answer
    int32_t n_indexed;       // tokens in `own`
    // The first n_rows are rows of the step; they follow the answer's n_before tokens. One more token may be
    // proposed.
    struct draft_token tokens[DRAFT_TOKENS_MAX + 1];
    int32_t n_proposed, n_rows, n_before;
    double n_misses, n_expected; // misses: observed; expected from the counts; both decay
    // After a rejected token the match may resume at the next place of its text, as happens in an edited copy
    // of a text.
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

// Decaying counts of proposed tokens.
struct draft_counts {
    double n, n_hits; // n_hits: accepted ones
};

// A zeroed struct is valid.
struct speculation {
    struct suffix_index answers; // finished answers, each preceded by SUFFIX_BREAK
    bool has_failed;             // out of memory for `answers`
    int32_t n_drafts;            // number of sequences with a draft
    struct draft_counts counts[SPECULATION_CELLS];
};

void speculation_finish(struct speculation *speculation);
// Upper bound in bytes of the memory of n_sequences that run with n_positions each.
uint64_t speculation_bytes(int32_t n_sequences, int64_t n_positions);
// Frees the sequence's draft.
void speculation_release(struct speculation *speculation, struct sequence *sequence);

// Proposes at most n_max tokens that follow the known tokens and the token that the step draws. n_rows counts
// the tokens with a chance above `least` after which another token is drawn. False: no token is worth a row.
bool speculation_propose(struct speculation *speculation, struct sequence *sequence, int32_t n_max,
                         double least, const struct tokenizer *tokenizer);
// Reduces n_rows to tokens with a chance of at least `least`, and to n_max.
void speculation_trim(struct sequence_draft *draft, double least, int32_t n_max);
// Called after the step: counts which proposed tokens the answer has, and discards the draft. Returns how
// many of n_rows were accepted.
int32_t speculation_settle(struct speculation *speculation, struct sequence *sequence);
// Indexes a finished answer, so that its tokens may be proposed to other sequences.
void speculation_add_answer(struct speculation *speculation, const struct sequence *sequence);
