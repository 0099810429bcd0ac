// Draft tokens in a step (batching/speculation.h). The draft rows of a sequence that draws in this step are
// added at the step's end, as a step sequence of their own that uses the same KV pages. A row has an output
// if a token is drawn after it. When the results are taken, an output counts only if the tokens before it are
// the answer's tokens. Rows from the first wrong token on are discarded: later steps compute their positions
// again and overwrite the keys and values. An answer's pages are never shared, so no other sequence reads the
// wrong entries.
//
// No draft tokens: for sequences that only score or have bad_words; on an asynchronous executor, where the
// newest token is unknown when the step is built.
#include "batching/batcher_state.h"
#include "batching/constrained.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { MASK_WORK_DRAFTED = 1 << 20 }; // with this much matcher.work an answer drafts no tokens
enum { PAGES_LEFT = 2 };              // drafts allocate pages only if this many per running sequence are free

// Drafts are added if the estimated tokens a second grow by at least this factor.
static const double WORTH = 1.03;

// Masks of wrong drafts are wasted, so a constraint with expensive masks drafts no tokens.
static bool may_draft(const struct sequence *sequence)
{
    return sequence->prompt->vocabulary.bad_words.n_ids == 0 &&
           sequence->constrained.matcher.work < MASK_WORK_DRAFTED;
}

// How many draft tokens fit: limited by the answer, its pages and the step.
static int32_t room_for(const struct batcher *b, const struct sequence *sequence)
{
    const struct scheduled_step *scheduled = b->pipeline.building;
    const struct batch_limits *limits = &b->config.limits;
    int32_t n = limits->n_drafts_max - scheduled->drafts.n_rows, n_tokens = sequence_n_tokens(sequence) - 1;
    int32_t in_step = limits->n_tokens_max - scheduled->step.n_tokens;
    int32_t in_answer = sequence->prompt->max_tokens - sequence->answer.n_generated - 1;
    int64_t n_pages = sequence->cache.n_pages;
    if (prefix_available(&b->tree) >= PAGES_LEFT * b->n_running)
        n_pages = sequence->cache.pages_capacity;
    int64_t in_pages = n_pages * limits->page_positions - n_tokens;
    int64_t in_limit = (int64_t)b->config.environment.limits.n_positions_max - n_tokens;
    n = n < in_step ? n : in_step;
    n = n < in_answer ? n : in_answer;
    n = n < in_pages ? n : (int32_t)in_pages;
    return n < in_limit ? n : (int32_t)in_limit;
}

// Copies the draft tokens to the end of the answer's tokens, where the samples read their history.
static bool keep_tokens(struct scheduled_step *scheduled, struct sequence *sequence)
{
    const struct sequence_draft *draft = sequence->draft;
    bool has_room = sequence_reserve(sequence, draft->n_rows);
    scheduled->samples[sequence->answer.output].generated = sequence->answer.generated; // it may have moved
    if (!has_room)
        return false;
    for (int32_t i = 0; i < draft->n_rows; i++)
        sequence->answer.generated[draft->n_before + i] = draft->tokens[i].token;
    return true;
}

static void add_rows(struct scheduled_step *scheduled, struct sequence *sequence)
{
    struct step *step = &scheduled->step;
    const struct sequence_draft *draft = sequence->draft;
    int32_t position = (int32_t)sequence->prompt->tokens.n_ids + draft->n_before;
    scheduled->sequences[step->n_sequences++] =
        (struct step_sequence){.first_row = step->n_tokens,
                               .n_tokens = draft->n_rows,
                               .position = position,
                               .adapter_set = sequence->prompt->job->adapter_set,
                               .n_stored = sequence->cache.n_stored,
                               .pages = sequence->cache.pages,
                               .long_context = sequence->prompt->long_context};
    for (int32_t i = 0; i < draft->n_rows; i++) {
        int32_t row = step->n_tokens++;
        scheduled->tokens[row] = draft->tokens[i].token;
        scheduled->positions[row] = position + i;
        if (i + 1 == draft->n_rows || draft->tokens[i + 1].cell >= 0)
            scheduler_add_output(scheduled, sequence, row, draft->n_before + i + 1);
    }
    scheduled->drafts.n_in_step++;
    scheduled->drafts.n_rows += draft->n_rows;
    scheduled->decode_tokens += draft->n_rows;
    sequence->prompt->job->figures.drafted_tokens += draft->n_rows;
}

// ---- which drafts pay ----

// The lowest acceptance chance at which a draft token pays in a step of n_rows rows: the cost of one more row
// divided by the average cost of a row. At 1 or more no draft token pays.
static double least_share(const struct batcher *b, int32_t n_rows)
{
    double least = 1.0, step_us = row_cost_of(&b->cost, n_rows);
    for (int32_t n = 1; n <= b->config.limits.n_drafts_max; n++) {
        double share = (row_cost_of(&b->cost, n_rows + n) / step_us - 1.0) * n_rows / n;
        least = share < least ? share : least;
    }
    return least;
}

static int compare_chances(const void *a, const void *b)
{
    double first = *(const double *)a, second = *(const double *)b;
    return (first < second) - (first > second);
}

// Computes the cutoff: draft tokens with at least this chance are computed, because together they give the
// most tokens per second. Returns more than 1 if none pays.
static double find_cutoff(const struct batcher *b, int32_t n_rows, double *chances, int32_t n)
{
    double useful = n_rows, best = WORTH * useful / row_cost_of(&b->cost, n_rows), cutoff = 2.0;
    qsort(chances, (size_t)n, sizeof *chances, compare_chances);
    for (int32_t i = 0; i < n && i < b->config.limits.n_drafts_max; i++) {
        useful += chances[i];
        double rate = useful / row_cost_of(&b->cost, n_rows + i + 1);
        if (rate > best) {
            best = rate;
            cutoff = chances[i];
        }
    }
    return cutoff;
}

// ---- building the step ----

struct draft_candidates {
    struct sequence *sequences[SPECULATION_SEQUENCES_MAX];
    int32_t n;
    double chances[SPECULATION_SEQUENCES_MAX * DRAFT_TOKENS_MAX]; // chances of all candidates' tokens
    int32_t n_chances;
};

static void propose(struct batcher *b, struct sequence *sequence, double least,
                    struct draft_candidates *candidates)
{
    struct scheduled_step *scheduled = b->pipeline.building;
    int32_t n_max = room_for(b, sequence), n_fixed = b->config.n_drafts_fixed;
    n_max = n_fixed && n_fixed < n_max ? n_fixed : n_max;
    if (n_max <= 0)
        return;
    bool is_any =
        speculation_propose(&b->speculation, sequence, n_max, least, b->config.environment.tokenizer);
    if (sequence->draft)
        scheduled->drafts.sequences[scheduled->drafts.n++] = sequence;
    if (!is_any)
        return;
    candidates->sequences[candidates->n++] = sequence;
    for (int32_t i = 0; i < sequence->draft->n_rows; i++)
        candidates->chances[candidates->n_chances++] = sequence->draft->tokens[i].chance;
}

static void add_draft(struct batcher *b, struct sequence *sequence, double cutoff)
{
    struct scheduled_step *scheduled = b->pipeline.building;
    struct sequence_draft *draft = sequence->draft;
    speculation_trim(draft, cutoff, room_for(b, sequence));
    int64_t n_positions = (int64_t)sequence_n_tokens(sequence) - 1 + draft->n_rows;
    assert(sequence->answer.n_drawn == sequence->answer.n_generated + 1);
    if (draft->n_rows == 0)
        return;
    if (scheduler_grow(b, sequence, n_positions) && keep_tokens(scheduled, sequence))
        add_rows(scheduled, sequence);
    else
        draft->n_rows = 0;
}

void drafts_add(struct batcher *b)
{
    struct scheduled_step *scheduled = b->pipeline.building;
    int32_t n_outputs = scheduled->step.n_outputs, n_rows = scheduled->step.n_tokens;
    scheduled->drafts.first_output = n_outputs;
    if (b->config.limits.n_drafts_max == 0 || b->config.executor.submit || n_outputs == 0)
        return;
    bool is_fixed = b->config.n_drafts_fixed > 0;
    double least = is_fixed ? 0.0 : least_share(b, n_rows);
    if (least * WORTH >= 1.0)
        return;
    struct draft_candidates candidates;
    candidates.n = candidates.n_chances = 0;
    for (int32_t i = 0; i < n_outputs && candidates.n < SPECULATION_SEQUENCES_MAX; i++)
        if (!scheduled->samples[i].scores && may_draft(scheduled->output_sequences[i]))
            propose(b, scheduled->output_sequences[i], least, &candidates);
    double cutoff = is_fixed ? 0.0 : find_cutoff(b, n_rows, candidates.chances, candidates.n_chances);
    for (int32_t i = 0; i < candidates.n; i++)
        add_draft(b, candidates.sequences[i], cutoff);
}

// ---- results ----

bool drafts_count_output(struct batcher *b, const struct scheduled_step *done, int32_t output)
{
    struct sequence *sequence = done->output_sequences[output];
    const struct sequence_draft *draft = sequence->draft;
    int32_t n_generated = done->samples[output].n_generated;
    if (sequence->answer.n_generated != n_generated)
        return false;
    for (int32_t i = draft->n_before; i < n_generated; i++)
        if (sequence->answer.generated[i] != draft->tokens[i - draft->n_before].token)
            return false;
    if (sequence->prompt->rules.constraint &&
        !constrained_confirm_mask(sequence, done->samples[output].allowed, b->masks.own))
        return false;
    sequence->answer.n_drawn++;
    return true;
}

// Counts the positions of accepted tokens as computed, except the last token's: the next step computes it.
static void keep_computed(struct sequence *sequence, int32_t n_accepted)
{
    int32_t n_computed = sequence->cache.n_computed + n_accepted, n_most = sequence_n_tokens(sequence) - 1;
    sequence->cache.n_computed = n_computed < n_most ? n_computed : n_most;
}

static void settle(struct batcher *b, struct scheduled_step *done, struct sequence *sequence)
{
    int32_t n_accepted = speculation_settle(&b->speculation, sequence);
    done->drafts.n_accepted += n_accepted;
    sequence->prompt->job->figures.accepted_tokens += n_accepted;
    keep_computed(sequence, n_accepted);
}

void drafts_settle_sequence(struct batcher *b, struct scheduled_step *done, struct sequence *sequence)
{
    for (int32_t i = 0; i < done->drafts.n; i++)
        if (done->drafts.sequences[i] == sequence) {
            settle(b, done, sequence);
            done->drafts.sequences[i] = NULL;
        }
}

void drafts_settle(struct batcher *b, struct scheduled_step *done)
{
    for (int32_t i = 0; i < done->drafts.n; i++)
        if (done->drafts.sequences[i])
            settle(b, done, done->drafts.sequences[i]);
}
