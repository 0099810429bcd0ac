// The scheduler: selects the tokens of the next step. Tokens of running sequences come first (one token each
// while decoding, a chunk while prefilling), then waiting sequences are admitted while slots, the token
// budget and KV pages last.
#include "batching/batcher_state.h"
#include "batching/snapshots.h"
#include "schemas/base/clock.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

// Expected answer length until the first answers have finished, and its lower bound.
enum { EXPECTED_TOKENS_FIRST = 128, EXPECTED_TOKENS_LEAST = 16 };

static void leave_pages(struct batcher *b, struct sequence *sequence)
{
    for (int32_t i = sequence->cache.n_path; i < sequence->cache.n_pages; i++)
        page_stack_give(&b->pages, sequence->cache.pages[i]);
    if (sequence->cache.snapshot)
        snapshot_release(&b->tree, sequence->cache.snapshot);
    sequence->cache.snapshot = NULL;
    prefix_unuse(&b->tree, sequence->node, sequence);
    if (b->config.limits.n_state_slots)
        page_stack_give(&b->slots, sequence->cache.state);
    sequence->cache.n_pages = 0;
    sequence->cache.n_computed = sequence->cache.n_stored = 0;
    sequence->node = NULL;
    sequence->running = false;
}

static void remove_running(struct batcher *b, struct sequence *sequence)
{
    int32_t i = 0;
    while (b->running[i] != sequence)
        i++;
    memmove(&b->running[i], &b->running[i + 1], (size_t)(b->n_running - i - 1) * sizeof *b->running);
    b->n_running--;
    leave_pages(b, sequence);
}

void scheduler_drop_outputs(struct scheduled_step *scheduled, const struct sequence *sequence)
{
    for (int32_t j = 0; j < scheduled->step.n_outputs; j++) {
        if (scheduled->output_sequences[j] != sequence)
            continue;
        scheduled->output_sequences[j] = NULL;
        scheduled->samples[j].allowed = NULL; // the mask may belong to the prompt
    }
}

static void drop_drafts(struct scheduled_step *scheduled, const struct sequence *sequence)
{
    for (int32_t j = 0; j < scheduled->drafts.n; j++)
        if (scheduled->drafts.sequences[j] == sequence)
            scheduled->drafts.sequences[j] = NULL;
}

// Tokens computed for the sequence alone.
static int64_t tokens_computed(const struct sequence *sequence)
{
    return (int64_t)sequence->prompt->tokens.n_ids - sequence->cache.n_shared + sequence->answer.n_generated;
}

void scheduler_remove(struct batcher *b, struct sequence *sequence)
{
    for (int i = 0; i < 2; i++) {
        scheduler_drop_outputs(&b->pipeline.slots[i], sequence);
        drop_drafts(&b->pipeline.slots[i], sequence);
    }
    if (sequence->running) {
        window_settle(&b->window, sequence, tokens_computed(sequence));
        remove_running(b, sequence);
    } else if (sequence->node) {
        window_remove(&b->window, sequence);
    }
    sequence->node = NULL;
}

// Expected number of tokens still to be generated.
static int32_t expected_tokens(const struct batcher *b, const struct sequence *sequence)
{
    int32_t left =
        sequence->scoring.only_scores ? 0 : sequence->prompt->max_tokens - sequence->answer.n_generated;
    double mean = b->answer_tokens > 0 ? b->answer_tokens * 1.25 : EXPECTED_TOKENS_FIRST;
    double expected = mean - sequence->answer.n_generated;
    if (expected < EXPECTED_TOKENS_LEAST)
        expected = EXPECTED_TOKENS_LEAST;
    return expected < left ? (int32_t)expected : left;
}

static int32_t pages_for(const struct batcher *b, int64_t n_positions)
{
    int32_t size = b->config.limits.page_positions;
    return (int32_t)((n_positions + size - 1) / size);
}

// Pages that the running sequences are expected to allocate until they finish.
static int64_t reserved_pages(const struct batcher *b)
{
    int64_t sum = 0;
    for (int32_t i = 0; i < b->n_running; i++) {
        const struct sequence *s = b->running[i];
        int64_t extra =
            pages_for(b, (int64_t)sequence_n_tokens(s) + expected_tokens(b, s)) - s->cache.n_pages;
        sum += extra > 0 ? extra : 0;
    }
    return sum;
}

// Available pages that admitting the sequence uses: new ones, and idle cached ones that can no longer be
// evicted.
static int64_t admission_cost(const struct batcher *b, const struct sequence *sequence, int64_t n_positions)
{
    return (int64_t)pages_for(b, n_positions) - prefix_n_held(&b->tree, sequence->node) +
           prefix_n_idle(sequence->node);
}

static bool reserve_table(struct batcher *b, struct sequence *sequence, int32_t n_pages)
{
    if (n_pages <= sequence->cache.pages_capacity)
        return true;
    int32_t most = pages_for(b, (int64_t)sequence->prompt->tokens.n_ids + sequence->prompt->max_tokens);
    int32_t capacity = n_pages * 2 < most ? n_pages * 2 : most > n_pages ? most : n_pages;
    int32_t *pages = realloc(sequence->cache.pages, (size_t)capacity * sizeof *pages);
    if (!pages) {
        faults_note_memory(&b->faults, "the block table");
        return false;
    }
    sequence->cache.pages = pages;
    sequence->cache.pages_capacity = capacity;
    return true;
}

// The first row whose output is still needed.
static int32_t first_output_row(const struct sequence *sequence)
{
    return sequence->scoring.n_submitted < sequence->scoring.n_targets
               ? sequence->scoring.first_target + sequence->scoring.n_submitted
               : sequence_n_tokens(sequence) - 1;
}

static void claim_path(struct batcher *b, struct sequence *sequence, const struct prefix_found *found)
{
    struct step *step = &b->pipeline.building->step;
    struct prefix_claim claim =
        prefix_claim(&b->tree, sequence->node, sequence, found, sequence->cache.pages);
    sequence->cache.n_path = claim.n_path;
    sequence->cache.n_pages = claim.n_pages;
    if (claim.has_copy)
        b->pipeline.building->copies[step->n_copies++] = claim.copy;
    sequence->cache.computes_path = true;
}

static void admit_sequence(struct batcher *b, struct sequence *sequence, const struct prefix_found *found)
{
    struct prompt *prompt = sequence->prompt;
    if (b->tree.states) { // schedule_waiting has checked that a slot is left
        sequence->cache.state = snapshot_take_slot_for(&b->tree, found->snapshot);
        sequence->cache.snapshot = found->snapshot && found->snapshot->snapshot.held ? found->snapshot : NULL;
    }
    prefix_use(&b->tree, sequence->node);
    struct prefix_node *node = sequence->node;
    window_admit(&b->window, sequence,
                 (int64_t)sequence_n_tokens(sequence) - found->n_computed + expected_tokens(b, sequence));
    sequence->node = node; // still valid: prefix_use holds it
    claim_path(b, sequence, found);
    prompt->job->figures.prefix_hash =
        prefix_count(&b->tree, node, found->n_computed, prompt->tokens.ids, (int32_t)prompt->tokens.n_ids);
    sequence->cache.n_stored = found->n_stored;
    sequence->cache.n_computed = found->n_computed;
    // All sequences of a job have the same prompt. The tokens that the first one finds cached were computed
    // for other jobs; the other sequences find the tokens of the first one. So only the first one's tokens
    // count as cached.
    sequence->cache.n_shared = sequence == prompt->sequences.first ? sequence->cache.n_computed : 0;
    sequence->running = true;
    sequence->admission = b->n_admissions++;
    prompt->job->figures.cached_tokens += sequence->cache.n_shared;
    if (!prompt->times.admitted_us)
        prompt->times.admitted_us = clock_us();
    b->running[b->n_running++] = sequence;
}

// ---- preemption ----

static void preempt_sequence(struct batcher *b, struct sequence *sequence)
{
    b->pipeline.building->n_preempted++;
    sequence->prompt->job->figures.cached_tokens -= sequence->cache.n_shared;
    sequence->cache.n_shared = 0;
    remove_running(b, sequence);
    if (!window_add_preempted(&b->window, sequence))
        faults_note_memory(&b->faults, "putting a job back to wait for pages");
}

// Fails a sequence that exceeds all KV pages. Its answer is not truncated, because a worker with more memory
// could complete it.
static void refuse_length(struct batcher *b, struct sequence *sequence, int64_t n_positions)
{
    if (sequence->prompt->error.status == STATUS_OK)
        (void)prompt_refuse_length(sequence->prompt, &b->config.environment.limits, n_positions);
    b->faults.any_prompt = true;
    scheduler_remove(b, sequence);
}

// Takes pages for n_positions, for which the block table has room. While no page is free, preempts the
// youngest of the sequences that have no tokens in this step yet (running[first_idle..]). False: the sequence
// itself must be preempted.
static bool take_pages(struct batcher *b, struct sequence *sequence, int64_t n_positions, int32_t first_idle)
{
    int32_t wanted = pages_for(b, n_positions);
    assert(wanted <= sequence->cache.pages_capacity);
    while (sequence->cache.n_pages < wanted) {
        int32_t page = prefix_take_page(&b->tree);
        if (page < 0) {
            if (b->n_running <= first_idle)
                return false;
            preempt_sequence(b, b->running[b->n_running - 1]);
            continue;
        }
        sequence->cache.pages[sequence->cache.n_pages++] = page;
    }
    return true;
}

// take_pages, after making room in the block table for the step's draft tokens too: the table must not move
// once the step points to it.
static bool grow_pages(struct batcher *b, struct sequence *sequence, int64_t n_positions, int32_t first_idle)
{
    return reserve_table(b, sequence, pages_for(b, n_positions + b->config.limits.n_drafts_max)) &&
           take_pages(b, sequence, n_positions, first_idle);
}

bool scheduler_grow(struct batcher *b, struct sequence *sequence, int64_t n_positions)
{
    return take_pages(b, sequence, n_positions, b->n_running);
}

// ---- building the step ----

static int32_t take_output(struct scheduled_step *scheduled, struct sequence *sequence, int32_t row)
{
    int32_t output = scheduled->step.n_outputs++;
    scheduled->output_rows[output] = row;
    scheduled->output_sequences[output] = sequence;
    return output;
}

// Adds the outputs of the targets that the n rows from n_computed on score; these rows begin at the step's
// row first_row.
static void add_targets(struct scheduled_step *scheduled, struct sequence *sequence, int32_t first_row,
                        int32_t n)
{
    while (sequence->scoring.n_submitted < sequence->scoring.n_targets) {
        int32_t row =
            sequence->scoring.first_target + sequence->scoring.n_submitted - sequence->cache.n_computed;
        if (row >= n)
            return;
        int32_t output = take_output(scheduled, sequence, first_row + row);
        scheduled->samples[output] = scoring_request(sequence, &scheduled->scorings[output]);
        sequence->scoring.n_submitted++;
    }
}

int32_t scheduler_add_output(struct scheduled_step *scheduled, struct sequence *sequence, int32_t row,
                             int32_t index)
{
    const struct prompt *prompt = sequence->prompt;
    int32_t output = take_output(scheduled, sequence, row);
    bool is_masked = prompt->rules.constraint || prompt->vocabulary.bad_words.n_ids > 0;
    scheduled->n_masked += is_masked;
    scheduled->samples[output] = (struct sample_request){
        .sampling = &prompt->job->request.sampling,
        .choice = sequence->choice,
        .index = (uint32_t)index,
        .prompt = prompt->tokens.ids,
        .n_prompt = (int32_t)prompt->tokens.n_ids,
        .generated = sequence->answer.generated,
        .n_generated = index,
        .allowed = is_masked ? scheduled->masks + (size_t)output * (size_t)prompt->vocabulary.n_mask_words
                             : sequence_allowed(sequence, index),
        .n_allowed_words = prompt->vocabulary.n_mask_words,
    };
    return output;
}

static void add_output(struct scheduled_step *scheduled, struct sequence *sequence)
{
    bool is_pending = sequence->answer.n_drawn > sequence->answer.n_generated;
    int32_t output =
        scheduler_add_output(scheduled, sequence, scheduled->step.n_tokens - 1, sequence->answer.n_drawn);
    scheduled->samples[output].pending = is_pending ? 1 + sequence->answer.output : 0;
    scheduled->samples[output].n_generated = sequence->answer.n_generated;
    sequence->answer.n_drawn++;
    sequence->answer.output = output;
}

// Sets the slots of recurrent states for the sequence's next n tokens. Returns the number of tokens to add:
// n, or fewer if a snapshot is needed after an earlier token, which the step then writes.
static int32_t choose_states(struct batcher *b, struct sequence *sequence, int32_t n,
                             struct step_sequence *chunk)
{
    struct prefix_node *from = sequence->cache.snapshot;
    chunk->state_in = from ? from->snapshot.slot : sequence->cache.state;
    chunk->state_out = sequence->cache.state;
    int32_t n_computed = sequence->cache.n_computed;
    struct prefix_node *place = sequence->cache.computes_path
                                    ? snapshot_place(&b->tree, sequence->node, n_computed, n_computed + n)
                                    : NULL;
    place = place && snapshot_make(&b->tree, place) ? place : NULL;
    if (from)
        snapshot_release(&b->tree, from);
    sequence->cache.snapshot = place;
    if (!place)
        return n;
    chunk->state_out = place->snapshot.slot;
    return place->depth - n_computed;
}

// Adds up to n_tokens_max of the sequence's next tokens: one decode token or a prefill chunk. The block table
// must cover them.
static void add_tokens(struct batcher *b, struct sequence *sequence, int32_t n_tokens_max)
{
    struct scheduled_step *scheduled = b->pipeline.building;
    struct step *step = &scheduled->step;
    int32_t n_tokens = sequence_n_tokens(sequence);
    int32_t n = n_tokens - sequence->cache.n_computed;
    n = n < n_tokens_max ? n : n_tokens_max;
    int32_t n_prompt = (int32_t)sequence->prompt->tokens.n_ids;
    struct step_sequence *chunk = &scheduled->sequences[step->n_sequences++];
    *chunk = (struct step_sequence){.first_row = step->n_tokens,
                                    .position = sequence->cache.n_computed,
                                    .adapter_set = sequence->prompt->job->adapter_set,
                                    .n_stored = sequence->cache.n_stored,
                                    .pages = sequence->cache.pages,
                                    .long_context = sequence->prompt->long_context};
    n = chunk->n_tokens = choose_states(b, sequence, n, chunk);
    int32_t n_prefill = n_prompt - sequence->cache.n_computed;
    n_prefill = n_prefill < 0 ? 0 : n_prefill < n ? n_prefill : n;
    int32_t *tokens = scheduled->tokens + step->n_tokens, *positions = scheduled->positions + step->n_tokens;
    if (n_prefill)
        memcpy(tokens, sequence->prompt->tokens.ids + sequence->cache.n_computed,
               (size_t)n_prefill * sizeof *tokens);
    for (int32_t i = n_prefill; i < n; i++)
        tokens[i] = sequence_token(sequence, sequence->cache.n_computed + i);
    for (int32_t i = 0; i < n; i++)
        positions[i] = sequence->cache.n_computed + i;
    add_targets(scheduled, sequence, step->n_tokens, n);
    step->n_tokens += n;
    scheduled->prefill_tokens += n_prefill;
    scheduled->decode_tokens += n - n_prefill;
    sequence->cache.n_computed += n;
    // Later sequences of this step may already share the pages that this sequence fills: in each layer, all
    // keys and values are stored before any token attends.
    if (sequence->cache.computes_path)
        prefix_computed(&b->tree, sequence->node, sequence, sequence->cache.n_computed, false);
    if (sequence->cache.n_computed == n_tokens && !sequence->scoring.only_scores)
        add_output(scheduled, sequence);
}

static bool step_has_room(const struct batcher *b)
{
    const struct step *step = &b->pipeline.building->step;
    return step->n_tokens < b->config.limits.n_tokens_max &&
           step->n_sequences < b->config.limits.n_sequences_max &&
           step->n_outputs < b->config.limits.n_sequences_max;
}

// Limits n, the sequence's next tokens, to what the step's free outputs allow, minus `owed` outputs for later
// sequences; at least one. Rows before the first target have no output.
static int32_t limit_to_outputs(const struct batcher *b, const struct sequence *sequence, int32_t n,
                                int32_t owed)
{
    int32_t outputs = b->config.limits.n_sequences_max - b->pipeline.building->step.n_outputs - owed;
    if (sequence->scoring.n_submitted == sequence->scoring.n_targets)
        return n;
    int32_t most = first_output_row(sequence) - sequence->cache.n_computed + (outputs > 1 ? outputs : 1);
    return n < most ? n : most;
}

// Tokens of the running sequences, oldest first.
static void schedule_running(struct batcher *b)
{
    for (int32_t i = 0; i < b->n_running && step_has_room(b); i++) {
        struct sequence *sequence = b->running[i];
        bool is_pending = sequence->answer.n_drawn > sequence->answer.n_generated;
        if (sequence_ends(sequence))
            continue;
        int32_t room = b->config.limits.n_tokens_max - b->pipeline.building->step.n_tokens;
        // One token is reserved for each sequence after this one, so that a prefill chunk does not stall
        // decoding.
        int32_t owed = b->n_running - i - 1;
        int32_t left = sequence_n_tokens(sequence) - sequence->cache.n_computed;
        int32_t n = left <= 1 ? left : (room - owed > 1 ? room - owed : 1);
        n = limit_to_outputs(b, sequence, n < left ? n : left, owed);
        int64_t n_positions = (int64_t)sequence->cache.n_computed + n;
        bool fits = n_positions <= b->config.environment.limits.n_positions_max;
        if (!fits && is_pending)
            continue; // the pending token may end the answer
        if (!fits || !grow_pages(b, sequence, n_positions, i + 1)) {
            fits ? preempt_sequence(b, sequence) : refuse_length(b, sequence, n_positions);
            i--;
            continue;
        }
        add_tokens(b, sequence, n);
    }
}

// Counts the running sequences that only wait for their last token: they need no slot.
static int32_t count_ending(const struct batcher *b)
{
    int32_t n = 0;
    for (int32_t i = 0; i < b->n_running; i++)
        n += sequence_ends(b->running[i]);
    return n;
}

// A path that continues within a page needs a copy of the page, which uses memory beside the original. If
// only one sequence is left, it may need all pages; then it gives up sharing.
static void clear_for_the_only_one(struct batcher *b, const struct sequence *sequence)
{
    const struct prompt *prompt = sequence->prompt;
    int64_t most = (int64_t)prompt->tokens.n_ids + prompt->max_tokens, n_tokens = sequence_n_tokens(sequence);
    most = most > n_tokens ? most : n_tokens;
    if (most > b->config.environment.limits.n_positions_max)
        most = b->config.environment.limits.n_positions_max;
    if (b->n_running == 0 && admission_cost(b, sequence, most) > prefix_available(&b->tree))
        prefix_clear(&b->tree);
}

static void schedule_waiting(struct batcher *b)
{
    int32_t n_ending = count_ending(b);
    while (step_has_room(b) && b->n_running - n_ending < b->config.limits.n_sequences_max) {
        if (b->tree.states && !snapshot_slot_left(&b->tree))
            return;
        struct sequence *sequence = window_next(&b->window);
        if (!sequence)
            return;
        clear_for_the_only_one(b, sequence);
        // Rows that score or draw are computed, to the same bytes, even if their keys and values are cached.
        struct prefix_found found = prefix_find(&b->tree, sequence->node, first_output_row(sequence));
        int64_t available = prefix_available(&b->tree), n_tokens = sequence_n_tokens(sequence);
        // The sequence was preempted because it needed more than all pages.
        if (n_tokens > b->config.environment.limits.n_positions_max) {
            refuse_length(b, sequence, n_tokens);
            continue;
        }
        int64_t expected = admission_cost(b, sequence, n_tokens + expected_tokens(b, sequence));
        if (expected > available - reserved_pages(b) && b->n_running)
            return;
        if (admission_cost(b, sequence, n_tokens) > available ||
            !reserve_table(b, sequence, pages_for(b, n_tokens)))
            return;
        admit_sequence(b, sequence, &found);
        int32_t room = b->config.limits.n_tokens_max - b->pipeline.building->step.n_tokens;
        int32_t left = sequence_n_tokens(sequence) - sequence->cache.n_computed;
        int32_t n = limit_to_outputs(b, sequence, left < room ? left : room, 0);
        if (!grow_pages(b, sequence, (int64_t)sequence->cache.n_computed + n, b->n_running)) {
            preempt_sequence(b, sequence);
            return;
        }
        add_tokens(b, sequence, n);
    }
}

// Marks tokens of the previous step as ready, so that this step may copy its pages and read its snapshots.
static void settle_paths(struct batcher *b)
{
    for (int32_t i = 0; i < b->n_running; i++) {
        struct sequence *sequence = b->running[i];
        if (!sequence->cache.computes_path)
            continue;
        prefix_computed(&b->tree, sequence->node, sequence, sequence->cache.n_computed, true);
        sequence->cache.computes_path = sequence->cache.n_computed < sequence->node->depth;
    }
}

void scheduler_build_step(struct batcher *b)
{
    struct scheduled_step *scheduled = b->pipeline.building;
    b->tree.step++;
    scheduled->step = (struct step){.tokens = scheduled->tokens,
                                    .copies = scheduled->copies,
                                    .positions = scheduled->positions,
                                    .sequences = scheduled->sequences,
                                    .output_rows = scheduled->output_rows,
                                    .samples = scheduled->samples};
    scheduled->n_masked = 0;
    scheduled->prefill_tokens = scheduled->decode_tokens = scheduled->n_preempted = 0;
    scheduled->drafts = (struct step_drafts){.sequences = scheduled->drafts.sequences};
    settle_paths(b);
    schedule_running(b);
    schedule_waiting(b);
}
