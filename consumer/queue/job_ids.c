#include "consumer/queue/job_ids.h"

#include "schemas/base/hash.h"

static uint64_t hash_name(const struct job *job)
{
    uint64_t dataset = hash_bytes(job->dataset.data, job->dataset.size, 0);
    uint64_t name = hash_bytes(job->job_id.data, job->job_id.size, dataset);
    return name ? name : 1;
}

bool job_ids_meet(struct job_ids *ids, const struct job *job, const struct record *record,
                  struct known_id *earlier)
{
    if (job->naming == JOB_NAMED_BY_PLACE || job->job_id.size == 0)
        return false;
    struct known_id id = {.name = hash_name(job),
                          .body = hash_bytes(record->value.data, record->value.size, 0),
                          .offset = record->offset,
                          .number = ++ids->n_received,
                          .partition = record->partition};
    struct known_id *set = ids->ids[id.name % JOB_IDS_SETS], *oldest = set;
    for (int i = 0; i < JOB_IDS_WAYS; i++) {
        if (set[i].name == id.name) {
            *earlier = set[i];
            return set[i].body != id.body;
        }
        if (set[i].number < oldest->number)
            oldest = &set[i];
    }
    *oldest = id;
    return false;
}
