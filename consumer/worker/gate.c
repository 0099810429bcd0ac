#include "consumer/worker/gate.h"

#include <assert.h>

static struct job_list *list_for(struct gate *gate, const struct job *job)
{
    int32_t crashes = job->source.crashes;
    return crashes >= GATE_ALONE_CRASHES ? &gate->alone : crashes > 0 ? &gate->few : &gate->many;
}

// Inserts a job to be computed alone, ordered by crashes: the job with the most is last and delays no other.
static void insert_by_crashes(struct job_list *list, struct job *job)
{
    struct job_list later = {0}, earlier = {0};
    for (struct job *other; (other = job_list_take(list));)
        job_list_append(other->source.crashes > job->source.crashes ? &later : &earlier, other);
    job_list_append(&earlier, job);
    for (struct job *other; (other = job_list_take(&later));)
        job_list_append(&earlier, other);
    *list = earlier;
}

void gate_add(struct gate *gate, struct job *job)
{
    struct job_list *list = list_for(gate, job);
    if (list == &gate->alone)
        insert_by_crashes(list, job);
    else
        job_list_append(list, job);
}

static size_t choose_group(const struct job_list *list, size_t n_max, struct job **group)
{
    size_t n = 0;
    for (struct job *job = list->first; job && n < n_max; job = job->next)
        group[n++] = job;
    return n;
}

size_t gate_next(const struct gate *gate, bool all_committed, struct job **group, size_t n_max,
                 enum suspect_state *how)
{
    *how = SUSPECT_ALONE;
    if (gate->alone_engine)
        return 0;
    if (gate->alone.n_jobs)
        return gate->n_engine == 0 && all_committed ? choose_group(&gate->alone, 1, group) : 0;
    *how = SUSPECT_AMONG_MANY;
    if (gate->many.n_jobs)
        return choose_group(&gate->many, n_max, group);
    *how = SUSPECT_AMONG_FEW;
    // The next group starts when half of the last one has finished: each group costs a commit.
    if (gate->n_few_engine > GATE_FEW / 2)
        return 0;
    size_t room = (size_t)(GATE_FEW - gate->n_few_engine);
    return choose_group(&gate->few, room < n_max ? room : n_max, group);
}

void gate_pass(struct gate *gate, size_t n_jobs, enum suspect_state how, struct job_list *list)
{
    struct job_list *from = how == SUSPECT_ALONE       ? &gate->alone
                            : how == SUSPECT_AMONG_FEW ? &gate->few
                                                       : &gate->many;
    assert(n_jobs <= from->n_jobs);
    gate->n_engine += (int32_t)n_jobs;
    if (how == SUSPECT_AMONG_FEW)
        gate->n_few_engine += (int32_t)n_jobs;
    if (how == SUSPECT_ALONE)
        gate->alone_engine = from->first;
    while (n_jobs-- > 0)
        job_list_append(list, job_list_take(from));
}

void gate_left(struct gate *gate, const struct job *job)
{
    assert(gate->n_engine > 0);
    gate->n_engine--;
    gate->n_few_engine -= job->source.crashes > 0 && job->source.crashes < GATE_ALONE_CRASHES;
}

void gate_remove(struct gate *gate, const struct job *job)
{
    if (gate->alone_engine == job)
        gate->alone_engine = NULL;
}

void gate_empty(struct gate *gate, struct job_list *list)
{
    struct job_list *lists[] = {&gate->many, &gate->few, &gate->alone};
    for (int i = 0; i < 3; i++)
        for (struct job *job; (job = job_list_take(lists[i]));)
            job_list_append(list, job);
}

void gate_release(struct gate *gate, const struct partition_ids *ids, struct job_list *list)
{
    struct job_list waiting = {0};
    gate_empty(gate, &waiting);
    for (struct job *job; (job = job_list_take(&waiting));) {
        if (partition_ids_have(ids, job))
            job_list_append(list, job);
        else
            gate_add(gate, job);
    }
}

void gate_cancel(struct gate *gate, struct text dataset, struct text job_id, int64_t until_s,
                 struct job_list *list)
{
    struct job_list waiting = {0};
    struct error error;
    (void)error_set(&error, STATUS_REJECT, ERROR_CANCELLED, "cancelled on request");
    gate_empty(gate, &waiting);
    for (struct job *job; (job = job_list_take(&waiting));) {
        if (job_is_named(job, dataset, job_id, until_s)) {
            job_fail(job, &error);
            job_list_append(list, job);
        } else {
            gate_add(gate, job);
        }
    }
}
