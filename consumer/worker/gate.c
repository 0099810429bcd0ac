#include "consumer/worker/gate.h"

#include "schemas/base/hash.h"

#include <assert.h>

// ---- limits of datasets ----

static uint64_t hash_dataset(const struct job *job)
{
    return hash_bytes(job->dataset.data, job->dataset.size, 1);
}

static struct gate_dataset *find_dataset(struct gate *gate, uint64_t name)
{
    for (int32_t i = 0; i < gate->n_datasets; i++)
        if (gate->datasets[i].name == name)
            return &gate->datasets[i];
    return NULL;
}

// Counts a job that may pass. False: its dataset is at its limit.
static bool count_in(struct gate *gate, const struct job *job)
{
    if (!gate->limits)
        return true;
    uint64_t name = hash_dataset(job);
    struct gate_dataset *dataset = find_dataset(gate, name);
    int64_t n_max = dataset_share_of(gate->limits, job->dataset).n_in_flight_max;
    if (dataset ? n_max > 0 && dataset->n_jobs >= n_max : gate->n_datasets == GATE_DATASETS_MAX) {
        gate->is_crowded = gate->is_crowded || !dataset;
        return false;
    }
    if (!dataset) {
        dataset = &gate->datasets[gate->n_datasets++];
        *dataset = (struct gate_dataset){.name = name};
    }
    dataset->n_jobs++;
    return true;
}

static void count_out(struct gate *gate, const struct job *job)
{
    struct gate_dataset *dataset = gate->limits ? find_dataset(gate, hash_dataset(job)) : NULL;
    if (dataset && --dataset->n_jobs == 0)
        *dataset = gate->datasets[--gate->n_datasets];
}

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

static void add_counted(struct gate *gate, struct job *job)
{
    struct job_list *list = list_for(gate, job);
    if (list == &gate->alone)
        insert_by_crashes(list, job);
    else
        job_list_append(list, job);
}

// Held jobs are in the order of their urgency, and of equal urgency in order of arrival.
static void hold(struct gate *gate, struct job *job)
{
    struct job_list *held = &gate->held;
    if (!held->last || !job_is_more_urgent(job, held->last)) {
        job_list_append(held, job);
        return;
    }
    struct job **at = &held->first;
    while (!job_is_more_urgent(job, *at))
        at = &(*at)->next;
    job->next = *at;
    *at = job;
    held->n_jobs++;
}

void gate_add(struct gate *gate, struct job *job)
{
    if (count_in(gate, job))
        add_counted(gate, job);
    else
        hold(gate, job);
}

// A job of this dataset has left the engine: lets the first held job of the dataset pass, and if it left room for
// another dataset, the first held job of one that found none.
static void pass_held(struct gate *gate, uint64_t name)
{
    struct job *before = NULL;
    for (struct job **at = &gate->held.first; *at;) {
        struct job *job = *at;
        bool may_pass =
            hash_dataset(job) == name || (gate->is_crowded && gate->n_datasets < GATE_DATASETS_MAX);
        if (!may_pass || !count_in(gate, job)) {
            before = job;
            at = &job->next;
            continue;
        }
        *at = job->next;
        if (gate->held.last == job)
            gate->held.last = before;
        gate->held.n_jobs--;
        job->next = NULL;
        add_counted(gate, job);
        if (!gate->is_crowded)
            return;
    }
    if (gate->n_datasets < GATE_DATASETS_MAX) // each that found no room would have found it now
        gate->is_crowded = false;
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
    count_out(gate, job);
    if (gate->held.n_jobs)
        pass_held(gate, hash_dataset(job));
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
        for (struct job *job; (job = job_list_take(lists[i]));) {
            count_out(gate, job);
            job_list_append(list, job);
        }
    for (struct job *job; (job = job_list_take(&gate->held));)
        job_list_append(list, job);
    gate->is_crowded = false;
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
