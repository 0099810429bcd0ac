#include "batching/arrivals.h"

#include "schemas/base/clock.h"

#include <assert.h>

static void prepare_one(void *context, int index, int thread)
{
    struct batcher *b = context;
    (void)thread;
    if (prompt_prepare(b->jobs.preparing[index], &b->config.environment) != STATUS_OK)
        assert(b->jobs.preparing[index]->error.status != STATUS_OK);
}

// Returns NULL when memory runs out; b->faults has the error.
static struct prompt *create_prompt(struct batcher *b, struct job *job)
{
    struct prompt *prompt = prompt_create(job);
    if (prompt)
        prompt->times.taken_us = clock_us();
    else
        faults_note_memory(&b->faults, "preparing a job");
    return prompt;
}

// Returns false when memory runs out; b->faults has the error.
static bool start_long(struct batcher *b, struct job *job)
{
    struct error error;
    if (!b->jobs.thread &&
        prepare_thread_create(&b->jobs.thread, &b->config.environment, &error) != STATUS_OK) {
        faults_note_memory(&b->faults, "a thread for long jobs");
        return false;
    }
    b->jobs.long_one = create_prompt(b, job);
    if (b->jobs.long_one)
        prepare_thread_start(b->jobs.thread, b->jobs.long_one);
    return b->jobs.long_one != NULL;
}

struct prompt *arrivals_take_long(struct batcher *b, int wait_ms)
{
    struct prompt *prompt = b->jobs.long_one ? prepare_thread_take(b->jobs.thread, wait_ms) : NULL;
    if (!prompt)
        return NULL;
    b->jobs.long_one = NULL;
    list_append(&b->jobs.prompts, &prompt->link);
    if (prompt->job->result.error.code == ERROR_CANCELLED) // while the thread prepared it
        prompt->error = prompt->job->result.error;
    return prompt;
}

int32_t arrivals_prepare(struct batcher *b)
{
    int64_t room = (int64_t)ARRIVALS_BYTES_MAX * pool_n_threads(b->config.pool);
    int32_t n = 0;
    struct job_list kept = {0};
    for (struct job *job; (job = job_list_take(&b->jobs.arrived));) {
        int64_t n_bytes = (int64_t)job->source.bytes.record;
        bool is_long = n_bytes > ARRIVALS_BYTES_MAX, is_taken = false;
        if (b->faults.host.status == STATUS_OK && is_long && !b->jobs.long_one)
            is_taken = start_long(b, job);
        if (b->faults.host.status == STATUS_OK && !is_long && n_bytes <= room)
            is_taken = (b->jobs.preparing[n] = create_prompt(b, job)) != NULL;
        if (!is_taken)
            job_list_append(&kept, job);
        if (is_long)
            continue;
        room = is_taken ? room - n_bytes : -1; // a short job must not overtake another one that stays
        n += is_taken;
    }
    b->jobs.arrived = kept;
    for (int32_t i = 0; i < n; i++)
        list_append(&b->jobs.prompts, &b->jobs.preparing[i]->link);
    pool_run(b->config.pool, n, prepare_one, b);
    return n;
}
