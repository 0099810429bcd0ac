#include "batching/job_batcher.h"

#include <stdlib.h>

bool partition_ids_have(const struct partition_ids *ids, const struct job *job)
{
    size_t low = 0, high = ids->n_items;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (ids->items[middle] < job->source.partition)
            low = middle + 1;
        else
            high = middle;
    }
    return low < ids->n_items && ids->items[low] == job->source.partition;
}

enum status job_miss_deadline(const struct job *job, struct error *error)
{
    return error_set(error, STATUS_REJECT, ERROR_DEADLINE, "deadline %lld passed before the job was finished",
                     (long long)job->deadline_s);
}

enum status job_cancel(struct error *error)
{
    return error_set(error, STATUS_REJECT, ERROR_CANCELLED, "cancelled on request");
}

void answer_pieces_finish(struct answer_pieces *pieces)
{
    buffer_finish(&pieces->bytes);
    free(pieces->items);
}

void answer_pieces_destroy(struct answer_pieces *pieces)
{
    if (!pieces)
        return;
    answer_pieces_finish(pieces);
    free(pieces);
}
