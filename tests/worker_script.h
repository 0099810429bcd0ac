// A scripted transport for unit_worker.c, and the setup of a worker between it and a model without
// arithmetic.
#pragma once

#include "consumer/worker.h"
#include "tests/fake_model.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { SCRIPT_JOBS_MAX = 2000, SCRIPT_COMMITS_NOTED = 16 };

// A source of n_jobs prompts; it counts what is delivered, committed, released, and how it was treated.
struct script {
    struct transport base;
    int n_jobs, n_next;           // delivered in order
    int answers[SCRIPT_JOBS_MAX]; // commits of each job
    int released[SCRIPT_JOBS_MAX];
    int n_commits, largest_commit, n_dead_letters, n_cancelled;
    int commit_sizes[SCRIPT_COMMITS_NOTED]; // of the first ones
    int fail_commits;                       // this number of commits return STATUS_RETRY first
    bool lacks_memory;                      // they say that memory ran out
    int commit_jobs_max;                    // so do those of more jobs; 0: none
    int refused, n_refused;                 // and those with job number `refused`, n_refused times
    bool names_refused;                     // it says so of that job,
    int n_named_alone;                      // and was it the only one?
    bool fatal_commit;
    int fail_polls; // this number of polls return STATUS_RETRY first
    bool outside;   // a poll after SIGTERM says that the group has no place for us
    bool all_bad;   // no record is a job: all are finished as they come
    bool paused;
    int n_pauses, n_resumes, most_in_flight, in_flight;
    int cancel_at;           // job index before which its dataset is cancelled; -1: never
    int cancelled_from;      // job index from which jobs were cancelled before delivery; -1: none
    int signal_at;           // job index after which SIGTERM is raised; -1: never
    struct fake_model *held; // until the poll after that: no step begins before the worker has read it
    bool finish_order_differs;
    int crashes[SCRIPT_JOBS_MAX]; // reported with each job
    int fail_starts;              // this number of starts return STATUS_RETRY first
    int n_many, n_few, n_alone;   // jobs started, by kind
    int largest_few;
    bool not_alone; // a job to be computed alone was not
    int last_committed;
    int n_commits_at_refusal;
    int n_failed_commits, n_polls; // polls since the first of them
    int n_polls_at_last_fault;
    bool has_two_partitions; // of alternating jobs
    bool loses;              // partition 1 of two, behind the last job; `held` until the poll after that
    int n_unread;            // calls of confirm_drained that find a part of the queue without a reader
    bool revokes;            // its partitions, once a commit failed
    int n_commits_at_revoke; // during that
    int in_flight_after_revoke;
    int most_before_commit;        // in flight, before the first one
    const struct metrics *metrics; // looked at by each poll while commits fail; NULL: not
    int n_polls_in_trouble;        // of these: it names the fault, and is not ready
};

static enum status script_poll(struct transport *transport, int timeout_ms, int n_max,
                               const struct transport_events *events, struct error *error)
{
    struct script *script = (struct script *)transport;
    (void)timeout_ms;
    if (script->fail_polls > 0) {
        script->fail_polls--;
        return error_set(error, STATUS_RETRY, ERROR_BROKER, "the source is away");
    }
    if (script->held && !script->loses && script->n_next > script->signal_at) {
        fake_model_release(script->held);
        script->held = NULL;
    }
    if (script->loses && script->n_next == script->n_jobs) {
        script->loses = false;
        events->lost(events->context, (const int32_t[]){1, 3}, 2);
    }
    if (script->outside && script->n_next > script->signal_at)
        return error_set(error, STATUS_RESTART, ERROR_BROKER, "no place in the group");
    script->n_polls += script->n_failed_commits > 0;
    if (script->metrics && script->n_failed_commits > 0 && script->fail_commits > 0)
        script->n_polls_in_trouble += strcmp(script->metrics->state.trouble, "the broker is away") == 0 &&
                                      !metrics_is_ready(script->metrics);
    if (script->revokes && script->n_failed_commits > 0) {
        script->revokes = false;
        int n_before = script->n_commits;
        script->fail_commits = 0;
        events->revoke(events->context);
        script->n_commits_at_revoke = script->n_commits - n_before;
        script->in_flight_after_revoke = script->in_flight;
    }
    if (script->paused)
        assert_int_equal(n_max, 0);
    for (; n_max > 0 && script->n_next < script->n_jobs; n_max--) {
        int i = script->n_next++;
        if (i == script->cancel_at)
            events->cancel(events->context, TEXT("default"), (struct text){0}, INT64_MAX);
        char value[128];
        int length =
            i % 50 == 49 || script->all_bad
                ? snprintf(value, sizeof value, "{not json %d", i)
                : snprintf(value, sizeof value,
                           "{\"job_id\":\"job-%d\",\"prompt\":\"shared prompt of all jobs, then %d\","
                           "\"max_tokens\":%d}",
                           i, i, 1 + i % 9);
        struct record record = {
            .topic = TEXT("t"), .offset = i, .value = {value, (size_t)length}, .crashes = script->crashes[i]};
        record.partition = script->has_two_partitions ? i % 2 : 0;
        script->in_flight++;
        if (script->in_flight > script->most_in_flight)
            script->most_in_flight = script->in_flight;
        events->receive(events->context, &record);
        if (i == script->signal_at)
            raise(SIGTERM);
    }
    return STATUS_OK;
}

static void script_pause(struct transport *transport)
{
    struct script *script = (struct script *)transport;
    assert_false(script->paused);
    script->paused = true;
    script->n_pauses++;
}

static void script_resume(struct transport *transport)
{
    struct script *script = (struct script *)transport;
    assert_true(script->paused); // a partition that is not paused must not be resumed
    script->paused = false;
    script->n_resumes++;
}

static enum status script_commit(struct transport *transport, struct job *const *jobs, size_t n_jobs,
                                 bool *committed, struct error *error)
{
    struct script *script = (struct script *)transport;
    if (script->fatal_commit)
        return error_set(error, STATUS_RESTART, ERROR_BROKER, "fenced");
    if (script->fail_commits > 0) {
        script->fail_commits--;
        script->n_failed_commits++;
        script->n_polls_at_last_fault = script->n_polls;
        if (script->lacks_memory)
            return error_set(error, STATUS_RETRY, ERROR_OUT_OF_MEMORY, "writing results: out of memory");
        return error_set(error, STATUS_RETRY, ERROR_BROKER, "the broker is away");
    }
    if (script->commit_jobs_max && (int)n_jobs > script->commit_jobs_max)
        return error_set(error, STATUS_RETRY, ERROR_BROKER, "the broker is slow");
    for (size_t i = 0; i < n_jobs; i++)
        if (script->n_refused > 0 && (int)jobs[i]->source.offset == script->refused) {
            script->n_refused--;
            script->n_commits_at_refusal = script->n_commits;
            if (script->names_refused) {
                jobs[i]->source.refusals++;
                script->n_named_alone += n_jobs == 1;
                return error_set(error, STATUS_RETRY, ERROR_RESULT_REFUSED, "the topic refused a record");
            }
            return error_set(error, STATUS_RETRY, ERROR_BROKER, "the broker does not take it");
        }
    if (script->n_commits < SCRIPT_COMMITS_NOTED)
        script->commit_sizes[script->n_commits] = (int)n_jobs;
    if (script->n_commits++ == 0)
        script->most_before_commit = script->most_in_flight;
    if ((int)n_jobs > script->largest_commit)
        script->largest_commit = (int)n_jobs;
    for (size_t i = 0; i < n_jobs; i++) {
        int offset = (int)jobs[i]->source.offset;
        assert_int_not_equal(jobs[i]->result.status, RESULT_NONE);
        script->finish_order_differs = script->finish_order_differs || offset < script->last_committed;
        script->last_committed = offset;
        script->n_dead_letters += jobs[i]->source.record.size > 0;
        script->n_cancelled += jobs[i]->result.status == RESULT_CANCELLED;
        script->answers[offset]++;
        committed[i] = true;
    }
    script->in_flight -= (int)n_jobs;
    return STATUS_OK;
}

static enum status script_release(struct transport *transport, struct job *const *jobs, size_t n_jobs,
                                  struct error *error)
{
    struct script *script = (struct script *)transport;
    (void)error;
    for (size_t i = 0; i < n_jobs; i++)
        script->released[jobs[i]->source.offset]++;
    script->in_flight -= (int)n_jobs;
    return STATUS_OK;
}

static bool script_is_drained(struct transport *transport)
{
    struct script *script = (struct script *)transport;
    return script->n_next == script->n_jobs;
}

static bool script_confirm_drained(struct transport *transport)
{
    struct script *script = (struct script *)transport;
    if (script->n_unread == 0)
        return true;
    script->n_unread--;
    script->n_jobs++; // it had one
    return false;
}

static size_t script_figures(struct transport *transport, struct partition_figures *figures, size_t n_max)
{
    (void)transport, (void)figures, (void)n_max;
    return 0;
}

static bool script_is_cancelled(struct transport *transport, const struct job *job)
{
    struct script *script = (struct script *)transport;
    return script->cancelled_from >= 0 && job->source.offset >= script->cancelled_from;
}

static int script_fd(struct transport *transport)
{
    (void)transport;
    return -1;
}

// Jobs in flight that are neither answered nor waiting at the gate: all that were started.
static int n_computed(const struct script *script)
{
    int n = script->n_many + script->n_few + script->n_alone;
    for (int i = 0; i < script->n_next; i++)
        n -= i % 50 != 49 && script->crashes[i] < 3 ? script->answers[i] : 0;
    return n;
}

static enum status script_start(struct transport *transport, struct job *const *jobs, size_t n_jobs,
                                enum suspect_state how, struct error *error)
{
    struct script *script = (struct script *)transport;
    if (script->fail_starts > 0) {
        script->fail_starts--;
        return error_set(error, STATUS_RETRY, ERROR_BROKER, "the broker is away");
    }
    for (size_t i = 0; i < n_jobs; i++) {
        int crashes = script->crashes[jobs[i]->source.offset];
        assert_int_equal(how, crashes > 1 ? SUSPECT_ALONE : crashes ? SUSPECT_AMONG_FEW : SUSPECT_AMONG_MANY);
    }
    *(how == SUSPECT_ALONE       ? &script->n_alone
      : how == SUSPECT_AMONG_FEW ? &script->n_few
                                 : &script->n_many) += (int)n_jobs;
    if (how == SUSPECT_AMONG_FEW && (int)n_jobs > script->largest_few)
        script->largest_few = (int)n_jobs;
    if (how == SUSPECT_ALONE && n_computed(script) != 1)
        script->not_alone = true;
    return STATUS_OK;
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
                                                  .start = script_start};

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
        .base.impl = &script_impl, .n_jobs = n_jobs, .cancel_at = -1, .cancelled_from = -1, .signal_at = -1};
    struct batch_limits limits = {.n_sequences_max = 16,
                                  .n_tokens_max = 64,
                                  .n_jobs_max = n_jobs_max,
                                  .n_pages = 200,
                                  .page_positions = 16};
    stage.model = fake_model_create(limits.n_pages, limits.page_positions);
    assert_int_equal(pool_create(&stage.pool, 2, &stage.error), STATUS_OK);
    struct batcher_config config = {
        .engine = fake_model_engine(stage.model),
        .pool = stage.pool,
        .environment.limits = {.n_context = 4096, .n_context_original = 4096, .n_vocab = FAKE_VOCAB},
        .limits = limits};
    assert_int_equal(batcher_create(&stage.batcher, &config, &stage.error), STATUS_OK);
    stage.config = (struct worker_config){.transport = &stage.script->base,
                                          .batcher = stage.batcher,
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

// Every delivered job was answered or released, never both, never twice.
static void check_outcomes(const struct script *script, int *n_answered, int *n_released)
{
    *n_answered = *n_released = 0;
    for (int i = 0; i < script->n_next; i++) {
        assert_int_equal(script->answers[i] + script->released[i], 1);
        *n_answered += script->answers[i];
        *n_released += script->released[i];
    }
    assert_int_equal(script->in_flight, 0);
}
