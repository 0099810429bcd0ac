#include "consumer/worker/worker_state.h"

#include "batching/scoring.h"
#include "consumer/observe/log.h"
#include "schemas/base/clock.h"
#include "schemas/result_size.h"
#include "schemas/task.h"

#include <assert.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

enum { TURN_MS = 1 };

// ---- retriable errors ----

// Logs a retriable error once, and again if its text changes or after WORKER_WARN_AGAIN_MS, so that no wait
// is silent. With --quiet only long waits are logged.
static void warn_once(struct worker *worker, const struct error *error, const char *then)
{
    if (!worker->warning.text[0]) {
        worker->warning.since_ms = clock_ms();
        worker->warning.was_shown = log_shows(LOG_WARNING);
    }
    if (!worker->warning.was_shown && clock_ms() - worker->warning.since_ms >= WORKER_QUIET_WAIT_MS) {
        log_write(LOG_ERROR, "%s; %s", error->text, then);
        worker->warning.was_shown = true;
    }
    if (strcmp(worker->warning.text, error->text) != 0 ||
        clock_ms() - worker->warning.at_ms >= WORKER_WARN_AGAIN_MS) {
        log_write(LOG_WARNING, "%s; %s", error->text, then);
        worker->warning.at_ms = clock_ms();
    }
    memcpy(worker->warning.text, error->text, sizeof worker->warning.text);
}

// Exponential backoff. If memory remains exhausted, the worker ends and frees it for others.
static enum status back_off(struct worker *worker, struct retry *retry, struct error *error)
{
    retry->n_without_memory = error->code == ERROR_OUT_OF_MEMORY ? retry->n_without_memory + 1 : 0;
    if (retry->n_without_memory >= WORKER_MEMORY_TRIES)
        return error->status = STATUS_RESTART;
    warn_once(worker, error, "trying again");
    memcpy(worker->config->metrics->state.trouble, error->text,
           sizeof worker->config->metrics->state.trouble);
    int64_t most = retry == &worker->polls.retry ? WORKER_POLL_RETRY_MS_MAX : WORKER_RETRY_MS_MAX;
    retry->delay_ms = retry->delay_ms ? retry->delay_ms * 2 : 50;
    if (retry->delay_ms > most)
        retry->delay_ms = most;
    retry->at_ms = clock_ms() + retry->delay_ms;
    return STATUS_OK;
}

// Clears a retry, and the warning unless another retry is pending or the transport delivers nothing.
static void end_retry(struct worker *worker, struct retry *retry)
{
    *retry = (struct retry){0};
    const char *waiting = worker->config->metrics->state.waiting;
    if (worker->polls.retry.delay_ms || (worker->commits.retry.delay_ms && worker->jobs.finished.n_jobs) ||
        worker->figures.retry.delay_ms || (waiting && *waiting))
        return;
    if (worker->warning.text[0])
        log_write(LOG_INFO, "working again");
    worker->warning.text[0] = worker->config->metrics->state.trouble[0] = '\0';
}

// ---- intake ----

// Whether the job was being computed when too many workers crashed.
static bool has_crashed_too_often(const struct worker *worker, const struct job *job)
{
    int32_t limit = worker->config->limits.crashes;
    return limit > 0 && job->source.crashes >= limit && job->result.status == RESULT_NONE;
}

// False: out of memory.
static bool fail_crashed_job(struct job *job, const struct record *record)
{
    struct error error;
    (void)error_set(&error, STATUS_REJECT, ERROR_CRASHED, "%d workers died while they computed this job",
                    record->crashes);
    job->figures.attempts = record->crashes;
    job_fail(job, &error);
    return job_set_text(job, &job->source.record, record->value);
}

static void cancel_if_asked(struct transport *transport, struct job *job)
{
    if (job->result.status != RESULT_NONE || !transport->impl->is_cancelled ||
        !transport->impl->is_cancelled(transport, job))
        return;
    struct error error;
    (void)error_set(&error, STATUS_REJECT, ERROR_CANCELLED, "cancelled on request");
    job_fail(job, &error);
}

// Also if the answer is known already: whether it is depends on the store.
static void fail_if_late(struct job *job)
{
    struct error error;
    if (job->result.status != RESULT_NONE || !job->deadline_s || clock_wall_us() / 1000000 < job->deadline_s)
        return;
    (void)error_set(&error, STATUS_REJECT, ERROR_DEADLINE, "deadline %lld passed before the job was finished",
                    (long long)job->deadline_s);
    job_fail(job, &error);
}

// Jobs that failed because of the model are held: none is published before an answer shows that the model
// works.
static enum status release_trial(struct worker *worker, struct error *error)
{
    if (worker->jobs.finished.n_jobs == 0)
        worker->commits.finished_since_ms = clock_ms();
    trial_release(&worker->trial, worker->gate.n_engine == 0, &worker->jobs.finished, clock_ms());
    return trial_check(&worker->trial, error);
}

// Quarantines a record that is no job if too many of its producer's records are none. Returns whether it did.
static bool is_quarantined(struct worker *worker, const struct record *record, const struct job *job)
{
    const struct worker_config *config = worker->config;
    char report[ERROR_TEXT_BYTES];
    // a job that crashed workers is a dead letter, too, but a valid record
    bool is_dead = job->source.record.data != NULL && job->result.error.code != ERROR_CRASHED;
    if (!worker->records.shares || record->unreadable.size || // its producer is unknown
        !dead_share_exceeds(worker->records.shares, record, is_dead, config->limits.dead_percent, report))
        return false;
    if (report[0])
        log_write(LOG_WARNING, "%s", report);
    config->transport->impl->quarantine(config->transport, record->partition, record->offset);
    return true;
}

// Fails a job of inputs whose result the queue cannot take, before it is computed.
static void fail_if_too_large(const struct worker *worker, struct job *job)
{
    struct transport *transport = worker->config->transport;
    if (job->result.status != RESULT_NONE || !transport->impl->result_bytes_max)
        return;
    int32_t width = worker->config->inputs.n_dimensions;
    uint64_t most = transport->impl->result_bytes_max(transport), bytes = result_bytes(job, width);
    struct error error;
    if (bytes < most)
        return;
    (void)error_set(&error, STATUS_REJECT, ERROR_RESULT_TOO_LARGE,
                    "%s: the %s of %d texts have %llu bytes in the result, the topic of results takes %llu a "
                    "record (max.message.bytes): give each job %llu texts at most",
                    job_input_name(job), job->request.task == TASK_EMBED ? "vectors" : "scores",
                    job->request.embedding.n_inputs, (unsigned long long)bytes, (unsigned long long)most,
                    (unsigned long long)result_inputs_max(job, width, most));
    job_fail(job, &error);
}

static enum duplicate take_duplicate(struct worker *worker, struct job *job)
{
    if (worker->config->duplicates.is_off)
        return DUPLICATE_NONE;
    if (!job_hash_request(job, &worker->config->duplicates.defaults, worker->config->duplicates.time_is_read))
        worker->out_of_memory = true;
    return duplicates_take(&worker->duplicates, job, worker_find_store(worker));
}

int64_t worker_job_bytes(const struct job *job, int64_t input_bytes)
{
    size_t n_tokens = job->source.bytes.record < JOB_TOKENS_MAX ? job->source.bytes.record : JOB_TOKENS_MAX;
    int32_t n_sequences = request_n_sequences(&job->request) + request_n_branches(&job->request);
    // an array of tokens grows by doubling
    return (int64_t)(sizeof *job + job->arena.total_bytes + 2 * n_tokens * sizeof(int32_t) +
                     (size_t)n_sequences * sizeof(struct sequence)) +
           job->request.embedding.n_inputs * input_bytes;
}

static void receive_record(void *context, const struct record *record)
{
    struct worker *worker = context;
    struct job *job = intake_job(record, &worker->config->names, &worker->jobs.reserve);
    if (!job || (has_crashed_too_often(worker, job) && !fail_crashed_job(job, record))) {
        job_reserve_give(&worker->jobs.reserve, job);
        worker->out_of_memory = true;
        return;
    }
    if (is_quarantined(worker, record, job)) {
        job_reserve_give(&worker->jobs.reserve, job);
        return;
    }
    repeated_jobs_take(worker, record, job);
    job->source.bytes.charged = (size_t)worker_job_bytes(job, worker->config->inputs.input_bytes);
    worker->jobs.n_in_flight++;
    worker->jobs.n_bytes += (int64_t)job->source.bytes.charged;
    worker->stop.idle_ms = worker->stop.idle_seen_ms = 0;
    job->source.received_s = metrics_second();
    metrics_received(worker->config->metrics, job);
    worker->records.n_suspects += job->source.crashes > 0;
    cancel_if_asked(worker->config->transport, job);
    fail_if_late(job);
    fail_if_too_large(worker, job);
    enum duplicate duplicate = DUPLICATE_NONE;
    if (job->result.status == RESULT_NONE)
        duplicate = take_duplicate(worker, job);
    struct job_list one = {0};
    if (duplicate == DUPLICATE_FOLLOWS)
        return;
    if (job->result.status == RESULT_NONE && worker->config->answers.begin)
        job->stream = worker->config->answers.begin(worker->config->answers.context, job);
    job_list_append(&one, job);
    if (job->result.status == RESULT_NONE)
        gate_add(&worker->gate, job_list_take(&one));
    else
        worker_add_finished(worker, &one);
}

// Reports reduced batches and their end.
static void log_suspects(struct worker *worker)
{
    if (worker->records.n_suspects > 0 && !worker->records.suspects_reported)
        log_write(LOG_INFO,
                  "%d job%s may have been running when a worker died or stalled (more"
                  " may be found): until they are answered at most %d of them are"
                  " computed at a time, and each alone that was there at two such ends",
                  worker->records.n_suspects, worker->records.n_suspects == 1 ? "" : "s", GATE_FEW);
    if (worker->records.n_suspects == 0 && worker->records.suspects_reported)
        log_write(LOG_INFO,
                  "the jobs that may have been running when a worker died are answered: full batches again");
    worker->records.suspects_reported = worker->records.n_suspects > 0;
}

static void cancel_jobs(void *context, struct text dataset, struct text job_id, int64_t until_s)
{
    struct worker *worker = context;
    struct job_list cancelled = {0};
    gate_cancel(&worker->gate, dataset, job_id, until_s, &cancelled);
    duplicates_cancel(&worker->duplicates, dataset, job_id, until_s, &cancelled);
    worker_answer_followers(worker, &cancelled);
    worker_add_finished(worker, &cancelled);
    worker_send_order(worker, order_cancel_create(dataset, job_id, until_s));
}

static void set_paused(struct worker *worker, bool paused)
{
    if (paused == worker->polls.paused)
        return;
    worker->polls.paused = paused;
    const struct transport_impl *impl = worker->config->transport->impl;
    (paused ? impl->pause : impl->resume)(worker->config->transport);
}

// Partitions are being revoked: commits their finished jobs, or the next owner would compute them again.
static void revoke_partitions(void *context)
{
    struct worker *worker = context;
    struct error error = {.text = "there was no more time"};
    worker_take_rounds(worker);
    enum status status = STATUS_OK;
    for (int64_t until_ms = clock_ms() + WORKER_REVOKE_MS;
         worker->jobs.finished.n_jobs && status == STATUS_OK && clock_ms() < until_ms;) {
        status = worker_commit(worker, &error);
        if (worker->commits.is_isolating)
            status = STATUS_OK;
    }
    if (worker->jobs.finished.n_jobs)
        log_write(LOG_DEBUG, "%s; %zu finished jobs stay uncommitted while partitions go", error.text,
                  worker->jobs.finished.n_jobs);
}

// Partitions were assigned to another worker. Their running jobs continue, and are published if the
// partitions return.
static void lose_partitions(void *context, const int32_t *partitions, size_t n_partitions)
{
    struct worker *worker = context;
    const struct partition_ids ids = {(int32_t *)partitions, n_partitions};
    gate_release(&worker->gate, &ids, &worker->jobs.released);
    worker_send_order(worker, order_release_create(partitions, n_partitions));
}

// Pauses the transport while the worker has no room.
static enum status receive_records(struct worker *worker, struct error *error)
{
    struct transport *transport = worker->config->transport;
    int32_t n_held = (int32_t)worker->gate.held.n_jobs; // they wait for their dataset, not for the engine
    int32_t n_in_flight = worker->jobs.n_in_flight - (int32_t)worker->trial.held.n_jobs - n_held;
    int32_t room = worker->ahead.limit - (n_in_flight - worker->duplicates.n_followers);
    if (room > worker->config->n_jobs_max - n_in_flight) // followers fill memory, but no batch
        room = worker->config->n_jobs_max - n_in_flight;
    if (room > WORKER_HELD_JOBS_MAX - n_held)
        room = WORKER_HELD_JOBS_MAX - n_held;
    int64_t bytes_max =
        worker->config->limits.job_bytes_max ? worker->config->limits.job_bytes_max : WORKER_JOB_BYTES_MAX;
    int64_t room_bytes = bytes_max - worker->jobs.n_bytes;
    bool stopping = worker->stop.mode != RUNNING || worker->engine.ended;
    // Resume with some room, so that a full window does not toggle with each job.
    if (room <= 0 || room_bytes <= 0 || stopping)
        set_paused(worker, true);
    else if ((room >= worker->ahead.limit / 8 && room_bytes >= bytes_max / 8) ||
             worker->jobs.n_in_flight == 0)
        set_paused(worker, false);
    struct transport_events events = {worker,          receive_record,
                                      cancel_jobs,     revoke_partitions,
                                      lose_partitions, 1 + room_bytes / WORKER_RECORD_MEMORY};
    enum status status = transport->impl->poll(transport, 0, worker->polls.paused ? 0 : room, &events, error);
    log_suspects(worker);
    return status;
}

static enum status receive_and_hand_over(struct worker *worker, struct error *error)
{
    enum status status = receive_records(worker, error);
    if (status == STATUS_OK)
        status = worker_hand_over(worker, error);
    if (status == STATUS_OK && worker->out_of_memory)
        status = error_memory(error, STATUS_RESTART, "taking jobs");
    return status;
}

// ---- the loop ----

static void wait_for_news(struct worker *worker)
{
    int64_t timeout_ms = WORKER_BEAT_MS;
    if (worker->jobs.finished.n_jobs) {
        int64_t due_ms = worker->commits.finished_since_ms + worker->commits.linger_ms - clock_ms();
        if (worker->commits.retry.at_ms > clock_ms())
            due_ms = worker->commits.retry.at_ms - clock_ms();
        int64_t advised_ms = worker_commit_not_before_ms(worker) - clock_ms();
        if (advised_ms > due_ms)
            due_ms = advised_ms;
        timeout_ms = due_ms < 0 ? 0 : due_ms < timeout_ms ? due_ms : timeout_ms;
    }
    // The descriptor of a paused transport may remain readable: then only the timeout wakes the loop.
    int transport_fd =
        worker->polls.paused ? -1 : worker->config->transport->impl->fd(worker->config->transport);
    struct pollfd fds[] = {{worker->engine.ended ? -1 : queue_fd(engine_thread_outbox(worker->engine.thread)),
                            POLLIN, 0},
                           {transport_fd, POLLIN, 0},
                           {worker->config->stop.fd, POLLIN, 0},
                           {worker->config->exporter.publish ? worker->config->exporter.fd : -1, POLLIN, 0}};
    // Ignores rounds for TURN_MS, so that several steps shorter than a millisecond are handled in one turn.
    if (poll(fds + 1, 3, timeout_ms < TURN_MS ? (int)timeout_ms : TURN_MS) == 0)
        poll(fds, 4, (int)timeout_ms);
    if (fds[3].revents)
        worker->figures.published_ms = 0;
}

// One turn. Retriable errors (STATUS_RETRY) are retried here, others end the loop.
static enum status run_turn(struct worker *worker, struct error *error)
{
    turn_watch_turn(&worker->watch);
    worker_stop_on_signals(worker);
    worker_take_rounds(worker);
    struct job_list late = {0};
    duplicates_expire(&worker->duplicates, clock_wall_us() / 1000000, &late);
    worker_add_finished(worker, &late);
    struct retry *retry = &worker->polls.retry;
    enum status status = release_trial(worker, error);
    turn_watch_at(&worker->watch, "the transport to deliver jobs");
    if (status == STATUS_OK && clock_ms() >= retry->at_ms) {
        status = receive_and_hand_over(worker, error);
        if (worker->config->transport->impl->waiting)
            worker->config->metrics->state.waiting =
                worker->config->transport->impl->waiting(worker->config->transport);
        if (status == STATUS_OK)
            end_retry(worker, retry);
    }
    worker_commit_give_up(worker);
    if (status == STATUS_OK && worker_commit_is_due(worker)) {
        retry = &worker->commits.retry;
        status = worker_commit(worker, error);
        if (status == STATUS_OK)
            end_retry(worker, retry);
        if (status == STATUS_RETRY && worker->commits.is_isolating) {
            warn_once(worker, error, "isolating the record");
            worker->polls.has_room_again = true;
            status = STATUS_OK; // finish this turn: isolation may take many turns
        }
    }
    turn_watch_at(&worker->watch, "the transport to release jobs");
    // after an error of the engine the worker keeps its jobs until it ends
    bool may_release =
        worker->stop.mode != RUNNING || (!worker->engine.ended && worker->engine.error.status == STATUS_OK);
    if (status == STATUS_OK && worker->jobs.released.n_jobs && may_release)
        status = worker_release_jobs(worker, error);
    if (status == STATUS_RETRY) {
        status = back_off(worker, retry, error);
        worker_figures_publish(worker); // a loop whose turns fail must not look as if it hung
        return status;
    }
    turn_watch_at(&worker->watch, "the store");
    struct error projection;
    if (status == STATUS_OK && worker->figures.n_steps &&
        clock_ms() - worker->figures.recorded_ms > WORKER_RECORD_INTERVAL_MS &&
        clock_ms() >= worker->figures.retry.at_ms &&
        worker_figures_record(worker, NULL, 0, &projection) != STATUS_OK)
        (void)back_off(worker, &worker->figures.retry, &projection); // only figures: not fatal
    worker_figures_compact(worker);
    worker_figures_publish(worker);
    worker_stop_when_idle(worker);
    worker_figures_show(worker, false);
    return status;
}

static bool is_done(const struct worker *worker)
{
    return worker->engine.ended && worker->jobs.finished.n_jobs == 0 &&
           (worker->jobs.released.n_jobs == 0 || worker->stop.mode == RUNNING);
}

// A store or broker that remains unavailable must not delay the stop. If the engine's last step ends later
// than the limit, its jobs still get one turn, and the stop waits as long as commits succeed.
static bool is_out_of_time(const struct worker *worker)
{
    return worker->stop.mode >= LEAVING && worker->engine.ended && !is_done(worker) &&
           (worker->commits.retry.delay_ms || worker->polls.retry.delay_ms) &&
           clock_ms() - worker->stop.leaving_since_ms > 3 * WORKER_GRACE_MS;
}

static enum status leave_unfinished(const struct worker *worker, struct error *error)
{
    size_t n_finished = worker->jobs.finished.n_jobs;
    return error_set(error, STATUS_RESTART, ERROR_STORE,
                     "leaving with %zu %s jobs that could not be %s (%s); they will run again",
                     n_finished ? n_finished : worker->jobs.released.n_jobs,
                     n_finished ? "finished" : "released", n_finished ? "committed" : "given back",
                     worker->warning.text);
}

static enum status run_loop(struct worker *worker, struct error *error)
{
    while (!is_done(worker)) {
        enum status status = run_turn(worker, error);
        if (status != STATUS_OK)
            return status;
        if (!is_done(worker) && !worker->polls.has_room_again)
            wait_for_news(worker);
        worker->polls.has_room_again = false;
        if (is_out_of_time(worker))
            return leave_unfinished(worker, error);
    }
    if (worker->engine.error.status != STATUS_OK) {
        *error = worker->engine.error;
        return error->status;
    }
    struct error projection;
    if (worker_figures_record(worker, NULL, 0, &projection) != STATUS_OK)
        log_write(LOG_WARNING, "%s; the last figures are lost", projection.text);
    return STATUS_OK;
}

enum status worker_run(const struct worker_config *config, struct worker_progress *progress,
                       struct error *error)
{
    struct worker worker = {.config = config, .figures = {.totals = progress, .recorded_ms = clock_ms()}};
    worker.commits.jobs_max = worker_commit_jobs_max(&worker);
    worker.commits.linger_ms = WORKER_COMMIT_LINGER_MS;
    worker.trial.limit = config->limits.model_failures;
    worker.gate.limits = config->limits.datasets;
    ahead_init(&worker.ahead, config->n_batch, config->n_jobs_max);
    *progress = (struct worker_progress){0};
    worker.commits.group = calloc((size_t)config->n_jobs_max, sizeof(struct job *));
    worker.commits.is_published = calloc((size_t)config->n_jobs_max, sizeof *worker.commits.is_published);
    worker.figures.steps = calloc(WORKER_STEPS_KEPT_MAX, sizeof *worker.figures.steps);
    worker.stop.abort = order_create(ORDER_ABORT);
    bool judges_shares = config->limits.dead_percent > 0 && config->transport->impl->quarantine;
    worker.records.shares = judges_shares ? calloc(1, sizeof *worker.records.shares) : NULL;
    bool compares_ids = config->records.jobs_need_recording;
    worker.records.ids = compares_ids ? calloc(1, sizeof *worker.records.ids) : NULL;
    bool has_duplicates = duplicates_init(&worker.duplicates, &config->duplicates.limits, config->n_jobs_max);
    enum status status = STATUS_OK;
    if (!worker.commits.group || !worker.commits.is_published || !worker.figures.steps ||
        !worker.stop.abort || !has_duplicates || (judges_shares && !worker.records.shares) ||
        (compares_ids && !worker.records.ids))
        status = error_memory(error, STATUS_REFUSE, "worker");
    if (status == STATUS_OK)
        status = engine_thread_start(&worker.engine.thread, config->batcher, error);
    if (status == STATUS_OK) {
        if (config->closing)
            turn_watch_start(&worker.watch);
        status = run_loop(&worker, error);
        turn_watch_stop(&worker.watch);
        progress->was_stopped = worker.stop.mode >= LEAVING;
        if (status != STATUS_OK)
            worker_stop_failed(&worker, error);
        if (config->closing && !config->closing->limit_ms)
            config->closing->limit_ms = worker_stop_closing_ms(&worker);
        if (config->closing)
            closing_begin(config->closing, "the engine's step",
                          closing_reason(status, error, progress->was_stopped));
        worker_stop_engine(&worker);
        worker_figures_show(&worker, true);
    }
    engine_thread_join(worker.engine.thread);
    assert(worker.jobs.n_in_flight > 0 || worker.jobs.n_bytes == 0);
    duplicates_finish(&worker.duplicates);
    job_reserve_finish(&worker.jobs.reserve);
    order_destroy(worker.stop.abort);
    free(worker.records.shares);
    free(worker.records.ids);
    free(worker.commits.group);
    free(worker.commits.is_published);
    free(worker.figures.steps);
    return status;
}
