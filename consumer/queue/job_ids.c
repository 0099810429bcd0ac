#include "consumer/queue/job_ids.h"

#include "schemas/base/hash.h"

static uint64_t hash_name(const struct job *job, uint64_t seed)
{
    uint64_t dataset = hash_bytes(job->dataset.data, job->dataset.size, seed);
    uint64_t name = hash_bytes(job->job_id.data, job->job_id.size, dataset);
    return name ? name : 1;
}

enum id_meeting job_ids_meet(struct job_ids *ids, const struct job *job, const struct record *record,
                             struct known_id *earlier)
{
    if (job->naming == JOB_NAMED_BY_PLACE || job->job_id.size == 0)
        return ID_NEW;
    struct known_id id = {.name = hash_name(job, 0),
                          .check = hash_name(job, 1),
                          .body = hash_bytes(record->value.data, record->value.size, 0),
                          .offset = record->offset,
                          .number = ++ids->n_received,
                          .partition = record->partition};
    struct known_id *set = ids->ids[id.name % JOB_IDS_SETS], *oldest = set;
    for (int i = 0; i < JOB_IDS_WAYS; i++) {
        if (set[i].name == id.name && set[i].check == id.check) {
            *earlier = set[i];
            bool is_itself = set[i].partition == id.partition && set[i].offset == id.offset;
            return is_itself ? ID_NEW : set[i].body == id.body ? ID_SAME_BODY : ID_OTHER_BODY;
        }
        if (set[i].number < oldest->number)
            oldest = &set[i];
    }
    *oldest = id;
    return ID_NEW;
}
