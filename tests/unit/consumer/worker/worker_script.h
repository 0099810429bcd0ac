// A scripted transport for unit_worker.c, and the setup of a worker between it and a model without
// arithmetic.
#pragma once

#include "consumer/worker/worker.h"
#include "schemas/base/clock.h"
#include "tests/support/cases.h"
#include "tests/support/fake_model.h"

#include <signal.h>

enum { SCRIPT_JOBS_MAX = 2000, SCRIPT_COMMITS_NOTED = 16 };

// A source of prompts; it counts what is delivered, committed, released, and how it was treated.
struct script {
    struct transport base;
    int released[SCRIPT_JOBS_MAX];
    int quarantined[SCRIPT_JOBS_MAX], n_quarantined;
    struct {
        int n_jobs, n_next;           // delivered in order
        int crashes[SCRIPT_JOBS_MAX]; // reported with each job
        bool is_all_bad;              // no record is a job: all are finished as they come
        bool has_two_partitions;      // of alternating jobs
        int record_bytes;             // of each job, filled up with blanks; 0: few
        int n_unread; // calls of confirm_drained that find a part of the queue without a reader
    } queue;
    struct {
        bool is_paused;
        int n_pauses, n_resumes;
        int n, most; // jobs delivered, neither committed nor released
    } flow;
    struct {
        int n_to_fail;                 // this number of polls return STATUS_RETRY first
        bool find_no_place;            // a poll after SIGTERM says that the group has no place for us
        int n, n_at_last_fault;        // since the first failed commit
        const struct metrics *metrics; // looked at by each poll while commits fail; NULL: not
        int n_in_trouble;              // of these: it names the fault, and is not ready
    } polls;
    struct {
        int at;   // job index before which its dataset is cancelled; -1: never
        int from; // job index from which jobs were cancelled before delivery; -1: none
    } cancelled;
    struct {
        int at;                   // job index after which SIGTERM is raised; -1: never
        struct fake_model *model; // held until the poll after that: no step before the worker read it
    } signal;
    struct {
        bool loses;              // partition 1 of two, at the last job; signal.model: until the next poll
        bool revokes;            // its partitions, once a commit failed
        int n_commits_at_revoke; // during that
        int in_flight_after_revoke;
    } group;
    struct {
        int n_to_fail;              // this number of starts return STATUS_RETRY first
        int n_many, n_few, n_alone; // jobs started, by kind
        int largest_few;
        bool was_not_alone; // a job to be computed alone was not
    } starts;
    struct {
        int n_to_fail;    // this number of commits return STATUS_RETRY first
        bool lack_memory; // they say that memory ran out
        int jobs_max;     // so do those of more jobs; 0: none
        bool are_fatal;
        int n, n_failed, largest;
        int of_job[SCRIPT_JOBS_MAX];
        int sizes[SCRIPT_COMMITS_NOTED]; // of the first ones
        int most_before;                 // jobs in flight, before the first one
        int n_dead_letters, n_cancelled;
        int last; // offset committed
        bool order_differs;
    } commits;
    struct {
        int job, n;        // commits with this job return STATUS_RETRY, n times
        bool names_job;    // it says so of that job,
        int n_named_alone; // and was it the only one?
        int n_commits;     // by then
        // commits of several jobs are refused until *n_published is that, or for 20 s; NULL: not
        const int *n_published;
        int n_awaited;
        int64_t began_ms;
    } refusal;
};

static enum status script_poll(struct transport *transport, int timeout_ms, int n_max,
                               const struct transport_events *events, struct error *error)
{
    struct script *script = (struct script *)transport;
    if (script->polls.n_to_fail > 0) {
        script->polls.n_to_fail--;
        return error_set(error, STATUS_RETRY, ERROR_BROKER, "the source is away");
    }
    if (script->signal.model && !script->group.loses && script->queue.n_next > script->signal.at) {
        fake_model_release(script->signal.model);
        script->signal.model = NULL;
    }
    if (script->group.loses && script->queue.n_next == script->queue.n_jobs) {
        script->group.loses = false;
        events->lost(events->context, (const int32_t[]){1, 3}, 2);
    }
    if (script->polls.find_no_place && script->queue.n_next > script->signal.at)
        return error_set(error, STATUS_RESTART, ERROR_BROKER, "no place in the group");
    script->polls.n += script->commits.n_failed > 0;
    if (script->polls.metrics && script->commits.n_failed > 0 && script->commits.n_to_fail > 0)
        script->polls.n_in_trouble +=
            strcmp(script->polls.metrics->state.trouble, "the broker is away") == 0 &&
            !metrics_is_ready(script->polls.metrics);
    if (script->group.revokes && script->commits.n_failed > 0) {
        script->group.revokes = false;
        int n_before = script->commits.n;
        script->commits.n_to_fail = 0;
        events->revoke(events->context);
        script->group.n_commits_at_revoke = script->commits.n - n_before;
        script->group.in_flight_after_revoke = script->flow.n;
    }
    if (script->flow.is_paused)
        assert_int_equal(n_max, 0);
    int64_t n_bytes = 0;
    for (; n_max > 0 && script->queue.n_next < script->queue.n_jobs && n_bytes < events->bytes_max; n_max--) {
        int i = script->queue.n_next++;
        if (i == script->cancelled.at)
            events->cancel(events->context, TEXT("default"), (struct text){0}, INT64_MAX);
        static char value[100000];
        int length =
            i % 50 == 49 || script->queue.is_all_bad
                ? snprintf(value, sizeof value, "{not json %d", i)
                : snprintf(value, sizeof value,
                           "{\"job_id\":\"job-%d\",\"prompt\":\"shared prompt of all jobs, then %d\","
                           "\"max_tokens\":%d}",
                           i, i, 1 + i % 9);
        for (; length < script->queue.record_bytes && length < (int)sizeof value; length++)
            value[length] = ' ';
        n_bytes += length;
        struct record record = {.topic = TEXT("t"),
                                .offset = i,
                                .value = {value, (size_t)length},
                                .crashes = script->queue.crashes[i]};
        record.partition = script->queue.has_two_partitions ? i % 2 : 0;
        script->flow.n++;
        if (script->flow.n > script->flow.most)
            script->flow.most = script->flow.n;
        events->receive(events->context, &record);
        if (i == script->signal.at)
            raise(SIGTERM);
    }
    return STATUS_OK;
}

static void script_pause(struct transport *transport)
{
    struct script *script = (struct script *)transport;
    assert_false(script->flow.is_paused);
    script->flow.is_paused = true;
    script->flow.n_pauses++;
}

static void script_resume(struct transport *transport)
{
    struct script *script = (struct script *)transport;
    assert_true(script->flow.is_paused); // a partition that is not paused must not be resumed
    script->flow.is_paused = false;
    script->flow.n_resumes++;
}

static enum status script_commit(struct transport *transport, struct job *const *jobs, size_t n_jobs,
                                 bool *committed, struct error *error)
{
    struct script *script = (struct script *)transport;
    if (script->commits.are_fatal)
        return error_set(error, STATUS_RESTART, ERROR_BROKER, "fenced");
    if (script->commits.n_to_fail > 0) {
        script->commits.n_to_fail--;
        script->commits.n_failed++;
        script->polls.n_at_last_fault = script->polls.n;
        if (script->commits.lack_memory)
            return error_set(error, STATUS_RETRY, ERROR_OUT_OF_MEMORY, "writing results: out of memory");
        return error_set(error, STATUS_RETRY, ERROR_BROKER, "the broker is away");
    }
    if (script->commits.jobs_max && (int)n_jobs > script->commits.jobs_max)
        return error_set(error, STATUS_RETRY, ERROR_BROKER, "the broker is slow");
    if (script->refusal.n_published && n_jobs > 1 &&
        *script->refusal.n_published < script->refusal.n_awaited) {
        if (!script->refusal.began_ms)
            script->refusal.began_ms = clock_ms();
        if (clock_ms() - script->refusal.began_ms < 20000)
            return error_set(error, STATUS_RETRY, ERROR_RESULT_REFUSED, "the topic refused a batch");
    }
    for (size_t i = 0; i < n_jobs; i++)
        if (script->refusal.n > 0 && (int)jobs[i]->source.offset == script->refusal.job) {
            script->refusal.n--;
            script->refusal.n_commits = script->commits.n;
            if (script->refusal.names_job) {
                jobs[i]->source.refusals++;
                script->refusal.n_named_alone += n_jobs == 1;
                return error_set(error, STATUS_RETRY, ERROR_RESULT_REFUSED, "the topic refused a record");
            }
            return error_set(error, STATUS_RETRY, ERROR_BROKER, "the broker does not take it");
        }
    if (script->commits.n < SCRIPT_COMMITS_NOTED)
        script->commits.sizes[script->commits.n] = (int)n_jobs;
    if (script->commits.n++ == 0)
        script->commits.most_before = script->flow.most;
    if ((int)n_jobs > script->commits.largest)
        script->commits.largest = (int)n_jobs;
    for (size_t i = 0; i < n_jobs; i++) {
        int offset = (int)jobs[i]->source.offset;
        assert_int_not_equal(jobs[i]->result.status, RESULT_NONE);
        script->commits.order_differs = script->commits.order_differs || offset < script->commits.last;
        script->commits.last = offset;
        script->commits.n_dead_letters += jobs[i]->source.record.size > 0;
        script->commits.n_cancelled += jobs[i]->result.status == RESULT_CANCELLED;
        script->commits.of_job[offset]++;
        committed[i] = true;
    }
    script->flow.n -= (int)n_jobs;
    return STATUS_OK;
}

static enum status script_release(struct transport *transport, struct job *const *jobs, size_t n_jobs,
                                  struct error *error)
{
    struct script *script = (struct script *)transport;
    for (size_t i = 0; i < n_jobs; i++)
        script->released[jobs[i]->source.offset]++;
    script->flow.n -= (int)n_jobs;
    return STATUS_OK;
}

static bool script_is_drained(struct transport *transport)
{
    struct script *script = (struct script *)transport;
    return script->queue.n_next == script->queue.n_jobs;
}

static bool script_confirm_drained(struct transport *transport)
{
    struct script *script = (struct script *)transport;
    if (script->queue.n_unread == 0)
        return true;
    script->queue.n_unread--;
    script->queue.n_jobs++; // it had one
    return false;
}

static size_t script_figures(struct transport *transport, struct partition_figures *figures, size_t n_max)
{
    return 0;
}

static bool script_is_cancelled(struct transport *transport, const struct job *job)
{
    struct script *script = (struct script *)transport;
    return script->cancelled.from >= 0 && job->source.offset >= script->cancelled.from;
}

static int script_fd(struct transport *transport)
{
    return -1;
}

// Jobs in flight that are neither answered nor waiting at the gate: all that were started.
static int n_computed(const struct script *script)
{
    int n = script->starts.n_many + script->starts.n_few + script->starts.n_alone;
    for (int i = 0; i < script->queue.n_next; i++)
        n -= i % 50 != 49 && script->queue.crashes[i] < 3 ? script->commits.of_job[i] : 0;
    return n;
}

static enum status script_start(struct transport *transport, struct job *const *jobs, size_t n_jobs,
                                enum suspect_state how, struct error *error)
{
    struct script *script = (struct script *)transport;
    if (script->starts.n_to_fail > 0) {
        script->starts.n_to_fail--;
        return error_set(error, STATUS_RETRY, ERROR_BROKER, "the broker is away");
    }
    for (size_t i = 0; i < n_jobs; i++) {
        int crashes = script->queue.crashes[jobs[i]->source.offset];
        assert_int_equal(how, crashes > 1 ? SUSPECT_ALONE : crashes ? SUSPECT_AMONG_FEW : SUSPECT_AMONG_MANY);
    }
    *(how == SUSPECT_ALONE       ? &script->starts.n_alone
      : how == SUSPECT_AMONG_FEW ? &script->starts.n_few
                                 : &script->starts.n_many) += (int)n_jobs;
    if (how == SUSPECT_AMONG_FEW && (int)n_jobs > script->starts.largest_few)
        script->starts.largest_few = (int)n_jobs;
    if (how == SUSPECT_ALONE && n_computed(script) != 1)
        script->starts.was_not_alone = true;
    return STATUS_OK;
}

static void script_quarantine(struct transport *transport, int32_t partition, int64_t offset)
{
    struct script *script = (struct script *)transport;
    assert_int_equal(partition, script->queue.has_two_partitions ? offset % 2 : 0);
    script->quarantined[offset]++;
    script->n_quarantined++;
    script->flow.n--;
}

static const struct transport_impl script_impl = {.name = "script",
                                                  .poll = script_poll,
                                                  .pause = script_pause,
                                                  .resume = script_resume,
                                                  .commit = script_commit,
                                                  .release = script_release,
                                                  .is_drained = script_is_drained,
                                                  .confirm_drained = script_confirm_drained,
                                                  .figures = script_figures,
                                                  .fd = script_fd,
                                                  .is_cancelled = script_is_cancelled,
                                                  .start = script_start,
                                                  .quarantine = script_quarantine};

struct stage {
    struct script *script;
    struct fake_model *model;
    struct pool *pool;
    struct batcher *batcher;
    struct worker_config config;
    struct worker_progress progress;
    struct error error;
};

static struct stage stage_open(int n_jobs, int n_jobs_max)
{
    struct stage stage = {.script = calloc(1, sizeof *stage.script)};
    *stage.script = (struct script){
        .base.impl = &script_impl, .queue.n_jobs = n_jobs, .cancelled = {-1, -1}, .signal.at = -1};
    struct batch_limits limits = {.n_sequences_max = 16,
                                  .n_tokens_max = 64,
                                  .n_jobs_max = n_jobs_max,
                                  .n_pages = 200,
                                  .page_positions = 16};
    stage.model = fake_model_create(limits.n_pages, limits.page_positions);
    assert_int_equal(pool_create(&stage.pool, 2, &stage.error), STATUS_OK);
    struct batcher_config config = {
        .executor = fake_model_executor(stage.model),
        .pool = stage.pool,
        .environment.limits = {.n_context = 4096, .n_context_original = 4096, .n_vocab = FAKE_VOCAB},
        .limits = limits};
    assert_int_equal(batcher_create(&stage.batcher, &config, &stage.error), STATUS_OK);
    stage.config = (struct worker_config){.transport = &stage.script->base,
                                          .batcher = batcher_base(stage.batcher),
                                          .n_jobs_max = n_jobs_max,
                                          .names = {TEXT("fake"), TEXT("sheaf=1 model=fake")},
                                          .limits.idle_s = 0,
                                          .stop.fd = -1,
                                          .metrics = calloc(1, sizeof(struct metrics))};
    return stage;
}

static enum status stage_run(struct stage *stage)
{
    return worker_run(&stage->config, &stage->progress, &stage->error);
}

static void stage_close(struct stage *stage)
{
    batcher_destroy(stage->batcher);
    pool_destroy(stage->pool);
    fake_model_destroy(stage->model);
    free(stage->config.metrics);
    free(stage->script);
}

// Every delivered job was answered, released or left in quarantine, and once.
static void check_outcomes(const struct script *script, int *n_answered, int *n_released)
{
    *n_answered = *n_released = 0;
    for (int i = 0; i < script->queue.n_next; i++) {
        assert_int_equal(script->commits.of_job[i] + script->released[i] + script->quarantined[i], 1);
        *n_answered += script->commits.of_job[i];
        *n_released += script->released[i];
    }
    assert_int_equal(script->flow.n, 0);
}

// Ends a stage where this number of jobs was answered, and all others that were delivered were released.
static inline void stage_end(struct stage *stage, int n_answered)
{
    int answered, released;
    check_outcomes(stage->script, &answered, &released);
    assert_int_equal(answered, n_answered);
    stage_close(stage);
}
