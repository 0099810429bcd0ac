// The batcher of batcher.h as the engine thread runs it.
#include "batching/batcher_state.h"

#include <stdlib.h>

static void take(struct job_batcher *base, struct job *job)
{
    batcher_take((struct batcher *)base, job);
}

static bool is_empty(const struct job_batcher *base)
{
    return batcher_is_empty((const struct batcher *)base);
}

static void cancel(struct job_batcher *base, struct text dataset, struct text job_id, int64_t until_s)
{
    batcher_cancel((struct batcher *)base, dataset, job_id, until_s);
}

static enum status compute_round(struct job_batcher *base, struct job_list *finished,
                                 struct step_figures *figures, struct error *error)
{
    return batcher_round((struct batcher *)base, finished, figures, error);
}

static void take_findings(struct job_batcher *base, struct step_findings *findings)
{
    batcher_take_findings((struct batcher *)base, findings);
}

static void release(struct job_batcher *base, bool running_too, struct job_list *released)
{
    batcher_release((struct batcher *)base, running_too, released);
}

static void release_partitions(struct job_batcher *base, const struct partition_ids *ids,
                               struct job_list *released)
{
    batcher_release_partitions((struct batcher *)base, ids, released);
}

static void report_prefixes(const struct job_batcher *base, struct prefix_report *report)
{
    batcher_report_prefixes((const struct batcher *)base, report);
}

// Other answers are ranked or extended when they are complete.
static bool is_streamed(const struct sequence *sequence)
{
    const struct request *request = &sequence->prompt->job->request;
    return sequence->prompt->job->stream && !sequence->scoring.only_scores && !request->echo &&
           !request->best_of && !request->sampling.logprobs;
}

// Adds what the text has beyond *n_reported bytes. False: out of memory, and the pieces are as before.
static bool add_piece(struct answer_pieces *pieces, const struct sequence *sequence, struct text text,
                      size_t *n_reported, bool is_reasoning)
{
    if (text.size <= *n_reported)
        return true;
    if (pieces->n == pieces->capacity) {
        size_t capacity = pieces->capacity ? 2 * pieces->capacity : 16;
        struct answer_piece *items = realloc(pieces->items, capacity * sizeof *items);
        if (!items)
            return false;
        pieces->items = items;
        pieces->capacity = capacity;
    }
    const struct answer_piece piece = {.stream = sequence->prompt->job->stream,
                                       .choice = sequence->choice,
                                       .is_reasoning = is_reasoning,
                                       .offset = *n_reported,
                                       .begin = pieces->bytes.size,
                                       .n = text.size - *n_reported};
    buffer_add(&pieces->bytes, text.data + *n_reported, piece.n);
    if (pieces->bytes.failed)
        return false;
    pieces->items[pieces->n++] = piece;
    *n_reported = text.size;
    return true;
}

static struct answer_pieces *take_pieces(struct job_batcher *base)
{
    struct batcher *b = (struct batcher *)base;
    struct answer_pieces pieces = {0}, *taken = NULL;
    bool has_memory = true;
    for (int32_t i = 0; b->has_streams && has_memory && i < b->n_running; i++) {
        struct sequence *sequence = b->running[i];
        struct text reasoning, content;
        if (!is_streamed(sequence))
            continue;
        sequence_settle(sequence, b->config.environment.tokenizer, &reasoning, &content);
        has_memory = add_piece(&pieces, sequence, reasoning, &sequence->report.n_reasoning, true) &&
                     add_piece(&pieces, sequence, content, &sequence->report.n_content, false);
    }
    if (pieces.n && (taken = malloc(sizeof *taken)))
        *taken = pieces;
    else
        answer_pieces_finish(&pieces);
    return taken;
}

struct job_batcher *batcher_base(struct batcher *batcher)
{
    static const struct job_batcher_impl impl = {
        take,    is_empty,           cancel,          compute_round, take_findings,
        release, release_partitions, report_prefixes, take_pieces};
    batcher->base.impl = &impl;
    return &batcher->base;
}
