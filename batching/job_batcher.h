// The interface that the engine thread calls: it takes jobs, computes them in rounds and returns them. batcher.h generates text,
// embedding_batcher.h computes vectors; each has the contract of the functions here.
// Thread: engine.
#pragma once

#include "batching/lists/job_list.h"
#include "engine/session.h"
#include "schemas/figures.h"

// Ids of partitions that jobs were read from, ascending.
struct partition_ids {
    int32_t *items; // [n_items]
    size_t n_items;
};
bool partition_ids_have(const struct partition_ids *ids, const struct job *job);

// The error of a job that was cancelled, or whose deadline has passed. Returns STATUS_REJECT.
enum status job_miss_deadline(const struct job *job, struct error *error);
enum status job_cancel(struct error *error);

// Texts of answers that are being computed: what is new since the last report.
struct answer_piece {
    uint64_t stream;   // of the job
    uint32_t choice;   // of the answer, from 0
    bool is_reasoning; // of the thoughts' text, else of the content's
    size_t offset;     // of the piece in the answer's text; a job that starts again starts at 0
    size_t begin, n;   // of its bytes in `bytes`
};
struct answer_pieces {
    struct answer_piece *items; // [n]
    size_t n, capacity;
    struct buffer bytes;
};
void answer_pieces_finish(struct answer_pieces *pieces);
void answer_pieces_destroy(struct answer_pieces *pieces);

struct job_batcher;

struct job_batcher_impl {
    // Takes ownership of the job. The batcher must hold fewer than its n_jobs_max.
    void (*take)(struct job_batcher *batcher, struct job *job);
    bool (*is_empty)(const struct job_batcher *batcher);
    // Cancels the unfinished jobs for which job_is_named() is true; they finish in the next round.
    void (*cancel)(struct job_batcher *batcher, struct text dataset, struct text job_id, int64_t until_s);
    // One round. Finished jobs, including failed and cancelled ones, are appended to `finished` and belong to
    // the caller. `figures` describes the step that ended; n_tokens is 0 if none did. An error is a fault of
    // the engine or the host (STATUS_RESTART; ERROR_OUT_OF_MEMORY), never of a job: `finished` is valid, the
    // other jobs must be released.
    enum status (*round)(struct job_batcher *batcher, struct job_list *finished, struct step_figures *figures,
                         struct error *error);
    void (*take_findings)(struct job_batcher *batcher, struct step_findings *findings); // NULL: none
    // Returns unfinished jobs as they were received, without results: the waiting jobs, or with `running_too`
    // all jobs.
    void (*release)(struct job_batcher *batcher, bool running_too, struct job_list *released);
    // The same for the waiting jobs of some partitions.
    void (*release_partitions)(struct job_batcher *batcher, const struct partition_ids *ids,
                               struct job_list *released);
    void (*report_prefixes)(const struct job_batcher *batcher, struct prefix_report *report); // NULL: none
    // The pieces of the jobs with a `stream` since the last call; NULL: none, or out of memory: then they are
    // part of the next report. May be NULL.
    struct answer_pieces *(*take_pieces)(struct job_batcher *batcher);
};

struct job_batcher {
    const struct job_batcher_impl *impl;
};
