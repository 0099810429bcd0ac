#include "consumer/worker.h"

#include "consumer/ahead.h"
#include "consumer/check_log.h"
#include "consumer/fault.h"
#include "consumer/gate.h"
#include "consumer/http.h"
#include "consumer/log.h"
#include "consumer/stop.h"
#include "consumer/trial.h"
#include "schemas/clock.h"

#include <assert.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { STEPS_KEPT_MAX = 8192, PARTITIONS_MAX = 256, BEAT_MS = 100, TURN_MS = 1, RECORD_INTERVAL_MS = 250, PROGRESS_INTERVAL_MS = 200,
       FOLD_INTERVAL_MS = 10000 };

// When to try again what failed for a while.
struct retry {
    int64_t at_ms, delay_ms;
    int n_without_memory; // in a row
};

struct worker {
    const struct worker_config *config;
    struct engine_thread *engine;
    struct worker_progress *totals;
    struct gate gate;          // before the engine
    struct ahead ahead;
    struct trial trial;
    struct job_list finished;  // waiting for the commit
    struct job_list released;  // given back by the engine
    struct job_reserve reserve;
    struct job **group;        // [n_jobs_max] the commit's
    size_t commit_max;         // jobs of the next commit: fewer after each that failed, more after each that did not
    bool *committed;
    int32_t n_in_flight;       // with the engine, finished or released, not yet settled
    struct step_figures *steps; // [STEPS_KEPT_MAX] not yet recorded
    size_t n_steps;
    struct prefix_report prefixes;
    bool has_prefixes, paused, engine_ended, out_of_memory;
    int32_t n_suspects;  // of them jobs that may have killed a worker
    bool told_suspects;
    bool is_isolating;   // the last commit's broker refused some of many records: the next one finds which
    bool has_room_again; // jobs were settled in this turn: look for new ones before sleeping
    enum { RUNNING, DRAINING, LEAVING, ABORTING } mode;
    int64_t fold_at_ms, served_ms;
    int32_t n_recent, n_recent_dead; // records, and those that are dead letters
    int64_t n_dead_published;
    int64_t finished_since_ms, recorded_ms, progress_ms, idle_since_ms, leaving_since_ms;
    // Apart: a commit or a store that has to wait must not keep the group waiting.
    struct retry polling, committing, recording;
    int64_t warned_ms;
    char last_warning[ERROR_TEXT_BYTES];
    struct error engine_error;
    struct order *abort; // made at start: the engine can be stopped also when memory has run out
};

// ---- faults that pass ----

// Once as long as the text stays the same, and again after WORKER_WARN_AGAIN_MS: nothing waits in silence.
static void warn_once(struct worker *worker, const struct error *error, const char *then)
{
    if (strcmp(worker->last_warning, error->text) != 0 || clock_ms() - worker->warned_ms >= WORKER_WARN_AGAIN_MS) {
        log_write(LOG_WARNING, "%s; %s", error->text, then);
        worker->warned_ms = clock_ms();
    }
    memcpy(worker->last_warning, error->text, sizeof worker->last_warning);
}

// Waits longer each time. Memory that does not come back is the host's fault: the worker ends, another may have it.
static enum status back_off(struct worker *worker, struct retry *retry, struct error *error)
{
    retry->n_without_memory = error->code == ERROR_OUT_OF_MEMORY ? retry->n_without_memory + 1 : 0;
    if (retry->n_without_memory >= WORKER_MEMORY_TRIES)
        return error->status = STATUS_RESTART;
    warn_once(worker, error, "trying again");
    memcpy(worker->config->metrics->trouble, error->text, sizeof worker->config->metrics->trouble);
    int64_t most = retry == &worker->polling ? WORKER_POLL_RETRY_MS_MAX : WORKER_RETRY_MS_MAX;
    retry->delay_ms = retry->delay_ms ? retry->delay_ms * 2 : 50;
    if (retry->delay_ms > most)
        retry->delay_ms = most;
    retry->at_ms = clock_ms() + retry->delay_ms;
    return STATUS_OK;
}

// When nothing else failed and has to be tried again.
static void recovered(struct worker *worker, struct retry *retry)
{
    *retry = (struct retry){0};
    if (worker->polling.delay_ms || (worker->committing.delay_ms && worker->finished.n_jobs) || worker->recording.delay_ms)
        return;
    if (worker->last_warning[0])
        log_write(LOG_INFO, "working again");
    worker->last_warning[0] = worker->config->metrics->trouble[0] = '\0';
}

// ---- records in ----

// A job that was computed each time when workers died is not computed again.
static bool reject_record(const struct worker *worker, struct job *job, const struct record *record)
{
    int32_t limit = worker->config->crash_limit;
    if (limit == 0 || record->crashes < limit || job->result.status != RESULT_NONE)
        return true;
    struct error error;
    (void)error_set(&error, STATUS_REJECT, ERROR_CRASHED, "%d workers died while they computed this job", record->crashes);
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

static void add_finished(struct worker *worker, struct job_list *list)
{
    if (worker->finished.n_jobs == 0)
        worker->finished_since_ms = clock_ms();
    trial_add(&worker->trial, list, &worker->finished, clock_ms());
}

// Jobs that failed for the model's reasons may be held back: none is published before the model is known to work.
static enum status check_model(struct worker *worker, struct error *error)
{
    if (worker->finished.n_jobs == 0)
        worker->finished_since_ms = clock_ms();
    trial_let_go(&worker->trial, worker->gate.n_engine == 0, &worker->finished, clock_ms());
    return trial_check(&worker->trial, error);
}

static void count_record(struct worker *worker, const struct job *job)
{
    if (worker->n_recent == WORKER_SHARE_SPAN) {
        worker->n_recent /= 2;
        worker->n_recent_dead /= 2;
    }
    worker->n_recent++;
    worker->n_recent_dead += job->source.record.data != NULL;
}

static void receive(void *context, const struct record *record)
{
    struct worker *worker = context;
    struct job *job = intake_job(record, &worker->config->names, &worker->reserve);
    if (!job || !reject_record(worker, job, record)) {
        job_reserve_give(&worker->reserve, job);
        worker->out_of_memory = true;
        return;
    }
    worker->n_in_flight++;
    worker->idle_since_ms = 0;
    job->source.received_s = metrics_second();
    metrics_received(worker->config->metrics, job);
    count_record(worker, job);
    worker->n_suspects += job->source.crashes > 0;
    cancel_if_asked(worker->config->transport, job);
    struct job_list one = {0};
    job_list_append(&one, job);
    if (job->result.status == RESULT_NONE)
        gate_add(&worker->gate, job_list_take(&one));
    else
        add_finished(worker, &one);
}

// A topic of something else is not drained into the dead letters.
static enum status check_share(const struct worker *worker, struct error *error)
{
    int32_t most = worker->config->dead_share_max;
    if (most == 0 || worker->n_recent < WORKER_SHARE_LEAST ||
        (int64_t)worker->n_recent_dead * 100 <= (int64_t)worker->n_recent * most)
        return STATUS_OK;
    return error_set(error, STATUS_REFUSE, ERROR_LIMIT_EXCEEDED,
                     "%d of the last %d records are no jobs, more than %d %%: is this the right topic? %lld were published as dead "
                     "letters before that showed; --dead-share 100 would answer them all so",
                     worker->n_recent_dead, worker->n_recent, most, (long long)worker->n_dead_published);
}

// Reports reduced batches and their end.
static void tell_of_suspects(struct worker *worker)
{
    if (worker->n_suspects > 0 && !worker->told_suspects)
        log_write(LOG_INFO, "%d jobs, of which more may follow, may have been running when a worker died (killed or crashed):"
                            " until they are answered at most %d of them are computed at a time, after two deaths one",
                  worker->n_suspects, GATE_FEW);
    if (worker->n_suspects == 0 && worker->told_suspects)
        log_write(LOG_INFO, "the jobs that may have been running when a worker died are answered: full batches again");
    worker->told_suspects = worker->n_suspects > 0;
}

static void send_order(struct worker *worker, struct order *order)
{
    // The engine thread takes orders between steps; when 256 are waiting it is busy, and waiting for it is right.
    if (!order || !queue_push(engine_thread_inbox(worker->engine), order)) {
        worker->out_of_memory = worker->out_of_memory || !order;
        order_destroy(order);
    }
}

static void cancel(void *context, struct text dataset, struct text job_id, int64_t until)
{
    struct worker *worker = context;
    struct job_list cancelled = {0};
    gate_cancel(&worker->gate, dataset, job_id, until, &cancelled);
    add_finished(worker, &cancelled);
    send_order(worker, order_cancel_create(dataset, job_id, until));
}

// Lets one group through the gate, once its start is durable. *any: there was one.
static enum status let_through(struct worker *worker, bool *any, struct error *error)
{
    struct transport *transport = worker->config->transport;
    enum start how;
    size_t n = gate_next(&worker->gate, worker->finished.n_jobs == 0, worker->group, (size_t)worker->config->n_jobs_max, &how);
    *any = n > 0;
    if (n == 0)
        return STATUS_OK;
    enum status status =
        transport->impl->start ? transport->impl->start(transport, worker->group, n, how, error) : STATUS_OK;
    if (status != STATUS_OK)
        return status;
    struct order *order = order_create(ORDER_JOBS);
    if (!order)
        return error_set(error, STATUS_RESTART, ERROR_OUT_OF_MEMORY, "handing jobs over: out of memory");
    gate_pass(&worker->gate, n, how, &order->jobs);
    if (queue_push(engine_thread_inbox(worker->engine), order))
        return STATUS_OK;
    for (struct job *job; (job = job_list_take(&order->jobs));) { // the engine has ended
        gate_left(&worker->gate, job);
        job_list_append(&worker->released, job);
    }
    order_destroy(order);
    return STATUS_OK;
}

static enum status hand_over(struct worker *worker, struct error *error)
{
    enum status status = STATUS_OK;
    if (worker->mode >= LEAVING || worker->engine_ended)
        gate_empty(&worker->gate, &worker->released);
    for (bool any = true; any && status == STATUS_OK;)
        status = let_through(worker, &any, error);
    return status;
}

static void set_paused(struct worker *worker, bool paused)
{
    if (paused == worker->paused)
        return;
    worker->paused = paused;
    const struct transport_impl *impl = worker->config->transport->impl;
    (paused ? impl->pause : impl->resume)(worker->config->transport);
}

// ---- rounds out ----

static void append_list(struct job_list *to, struct job_list *from)
{
    for (struct job *job; (job = job_list_take(from));)
        job_list_append(to, job);
}

static void take_figures(struct worker *worker, const struct round *round)
{
    if (round->prefixes) {
        worker->config->metrics->prefixes = worker->prefixes = *round->prefixes;
        worker->has_prefixes = true;
    }
    check_log(&round->findings.check);
    trace_write(worker->config->trace, &round->findings.trace);
    if (round->figures.n_rows == 0)
        return;
    metrics_step(worker->config->metrics, &round->figures);
    worker->totals->generated_tokens += round->figures.n_generated;
    worker->totals->prefill_tokens += round->figures.prefill_tokens;
    // A store that is away for long costs the oldest figures, never a job.
    if (worker->n_steps == STEPS_KEPT_MAX)
        memmove(worker->steps, worker->steps + 1, --worker->n_steps * sizeof *worker->steps);
    worker->steps[worker->n_steps++] = round->figures;
}

static void take_rounds(struct worker *worker)
{
    struct queue *outbox = engine_thread_outbox(worker->engine);
    for (struct round *round; (round = queue_try_pop(outbox)); round_destroy(round)) {
        take_figures(worker, round);
        for (const struct job *job = round->finished.first; job; job = job->next)
            gate_left(&worker->gate, job);
        for (const struct job *job = round->released.first; job; job = job->next)
            gate_left(&worker->gate, job);
        add_finished(worker, &round->finished);
        append_list(&worker->released, &round->released);
        if (round->error.status != STATUS_OK)
            worker->engine_error = round->error;
    }
    worker->engine_ended = queue_is_finished(outbox);
}

// ---- commit and record ----

static struct store *find_store(const struct worker *worker)
{
    const struct worker_config *config = worker->config;
    return config->find_store ? config->find_store(config->store_context) : config->store;
}

static enum status record(struct worker *worker, struct job *const *jobs, size_t n_jobs, struct error *error)
{
    const struct worker_config *config = worker->config;
    struct store *store = find_store(worker);
    if (!store)
        return STATUS_OK;
    struct partition_figures figures[PARTITIONS_MAX];
    struct partition_row rows[PARTITIONS_MAX];
    size_t n = config->transport->impl->figures(config->transport, figures, PARTITIONS_MAX);
    n = n < PARTITIONS_MAX ? n : PARTITIONS_MAX;
    for (size_t i = 0; i < n; i++)
        rows[i] = (struct partition_row){figures[i].topic,         figures[i].partition, figures[i].position,
                                         figures[i].committed,     figures[i].end,       figures[i].n_in_flight,
                                         figures[i].n_map_covered, .deleted = figures[i].n_deleted};
    struct store_record news = {.jobs = (const struct job *const *)jobs,
                                .n_jobs = config->jobs_need_recording ? n_jobs : 0,
                                .steps = worker->steps,
                                .n_steps = worker->n_steps,
                                .prefixes = worker->has_prefixes ? &worker->prefixes : NULL,
                                .partitions = rows,
                                .n_partitions = n};
    worker->recorded_ms = clock_ms();
    enum status status = store_record(store, &news, error);
    // While another process holds the store the group is served: one wait, then short ones until the store is free again.
    if (config->jobs_need_recording)
        store_set_patience(store, status == STATUS_OK ? STORE_TURN_MS : STORE_TURN_MS / 10);
    if (status == STATUS_OK) {
        worker->n_steps = 0;
        worker->has_prefixes = false;
        worker->recording = (struct retry){0};
    }
    return status;
}

// A slice at a time: a worker that finds much that is old goes on with its jobs between.
static void fold_old_rows(struct worker *worker)
{
    const struct worker_config *config = worker->config;
    if (config->retain_s == 0 || clock_ms() < worker->fold_at_ms)
        return;
    struct store *store = find_store(worker);
    if (!store)
        return;
    bool more = false;
    struct error error;
    if (store_fold(store, clock_wall_us() - (int64_t)config->retain_s * 1000000, &more, &error) != STATUS_OK)
        log_write(LOG_DEBUG, "%s; old rows stay for now", error.text);
    worker->fold_at_ms = clock_ms() + (more ? RECORD_INTERVAL_MS : FOLD_INTERVAL_MS);
}

// A group that exceeds its time is retried in halves. A job that failed by itself waits behind the others.
static void commit_less(struct worker *worker, size_t n)
{
    worker->commit_max = n > 1 ? n / 2 : 1;
    if (n == 1)
        job_list_append(&worker->finished, job_list_take(&worker->finished));
}

// Jobs whose results were refused wait behind the others.
static void put_refused_last(struct worker *worker)
{
    struct job_list refused = {0}, others = {0};
    for (struct job *job; (job = job_list_take(&worker->finished));)
        job_list_append(job->source.refusals > 0 ? &refused : &others, job);
    append_list(&others, &refused);
    worker->finished = others;
}

static bool is_refusal(enum status status, const struct error *error)
{
    return status == STATUS_RETRY && error->code == ERROR_RESULT_REFUSED;
}

// The next commit's: the first that are finished, and a job whose result was refused by itself.
static size_t choose_group(struct worker *worker)
{
    size_t n = 0;
    for (struct job *job = worker->finished.first; job && n < worker->commit_max; job = job->next) {
        if (n > 0 && job->source.refusals > 0)
            break;
        worker->group[n++] = job;
        if (job->source.refusals > 0)
            break;
    }
    return n;
}

static size_t most_at_once(const struct worker *worker)
{
    int32_t n = worker->config->n_jobs_max;
    return n < WORKER_COMMIT_JOBS ? (size_t)n : WORKER_COMMIT_JOBS;
}

static void commit_more(struct worker *worker)
{
    size_t most = most_at_once(worker);
    worker->commit_max = worker->commit_max < most / 2 ? worker->commit_max * 2 : most;
}

// Publishes what is finished. The jobs stay in `finished` until the commit stands.
static enum status commit(struct worker *worker, struct error *error)
{
    const struct worker_config *config = worker->config;
    size_t n = choose_group(worker);
    memset(worker->committed, 0, n * sizeof *worker->committed);
    if (config->check_model && config->check_model(config->check_model_context, error) != STATUS_OK)
        return error->status;
    int64_t began_us = clock_us();
    enum status status =
        config->transport->impl->commit(config->transport, worker->group, n, worker->committed, error);
    if (is_refusal(status, error))
        put_refused_last(worker);
    else if (status == STATUS_RETRY)
        commit_less(worker, n);
    worker->is_isolating = is_refusal(status, error) && n > 1;
    if (status != STATUS_OK)
        return status;
    commit_more(worker);
    metrics_commit(config->metrics, clock_us() - began_us);
    size_t n_committed = 0;
    for (size_t i = 0; i < n; i++) {
        struct job *job = job_list_take(&worker->finished);
        assert(job == worker->group[i]);
        gate_remove(&worker->gate, job);
        worker->n_suspects -= job->source.crashes > 0;
        metrics_job_left(config->metrics, job, worker->committed[i]);
        worker->n_dead_published += worker->committed[i] && job->source.record.data;
        worker->totals->n_done += worker->committed[i] && job->result.status == RESULT_DONE;
        worker->totals->n_failed += worker->committed[i] && job->result.status != RESULT_DONE;
        worker->totals->n_cancelled += worker->committed[i] && job->result.status == RESULT_CANCELLED;
        if (worker->committed[i])
            worker->group[n_committed++] = job;
        else
            job_reserve_give(&worker->reserve, job);
        worker->n_in_flight--;
    }
    ahead_committed(&worker->ahead, (int64_t)n, clock_ms());
    worker->has_room_again = true;
    worker->finished_since_ms = clock_ms();
    fault_point(FAULT_PUBLISHED);
    struct error projection;
    if (record(worker, worker->group, n_committed, &projection) != STATUS_OK)
        log_write(LOG_WARNING, "%s; the results are committed, their figures are not", projection.text);
    for (size_t i = 0; i < n_committed; i++)
        job_reserve_give(&worker->reserve, worker->group[i]);
    return STATUS_OK;
}

static bool commit_is_due(const struct worker *worker)
{
    size_t n = worker->finished.n_jobs;
    if (n == 0 || clock_ms() < worker->committing.at_ms)
        return false;
    // The other half keeps the engine busy meanwhile.
    size_t half = (size_t)worker->ahead.limit / 2;
    return n >= WORKER_COMMIT_JOBS || n >= half || worker->engine_ended || (size_t)worker->n_in_flight == n ||
           (worker->gate.n_engine == 0 && worker->gate.alone.n_jobs) || worker->gate.alone_engine ||
           clock_ms() - worker->finished_since_ms >= WORKER_COMMIT_LINGER_MS;
}

static enum status give_back(struct worker *worker, struct error *error)
{
    const struct transport_impl *impl = worker->config->transport->impl;
    while (worker->released.n_jobs) {
        size_t n = 0;
        for (struct job *job = worker->released.first; job && n < (size_t)worker->config->n_jobs_max; job = job->next)
            worker->group[n++] = job;
        enum status status = impl->release(worker->config->transport, worker->group, n, error);
        if (status != STATUS_OK)
            return status;
        for (size_t i = 0; i < n; i++) {
            struct job *job = job_list_take(&worker->released);
            worker->n_suspects -= job->source.crashes > 0;
            metrics_job_left(worker->config->metrics, job, false);
            job_reserve_give(&worker->reserve, job);
        }
        worker->n_in_flight -= (int32_t)n;
    }
    return STATUS_OK;
}

// Partitions go away: what is finished goes with them, or their next owner would compute it again.
static void let_go(void *context)
{
    struct worker *worker = context;
    struct error error = {.text = "there was no more time"};
    take_rounds(worker);
    enum status status = STATUS_OK;
    for (int64_t until = clock_ms() + WORKER_REVOKE_MS; worker->finished.n_jobs && status == STATUS_OK && clock_ms() < until;) {
        status = commit(worker, &error);
        if (worker->is_isolating)
            status = STATUS_OK;
    }
    if (worker->finished.n_jobs)
        log_write(LOG_DEBUG, "%s; %zu finished jobs stay uncommitted while partitions go", error.text,
                  worker->finished.n_jobs);
}

static enum status take_records(struct worker *worker, struct error *error)
{
    struct transport *transport = worker->config->transport;
    int32_t room = worker->ahead.limit - (worker->n_in_flight - (int32_t)worker->trial.held.n_jobs);
    bool stopping = worker->mode != RUNNING || worker->engine_ended;
    // Resume with some room, so that a full window does not toggle with each job.
    if (room <= 0 || stopping)
        set_paused(worker, true);
    else if (room >= worker->ahead.limit / 8 || worker->n_in_flight == 0)
        set_paused(worker, false);
    struct transport_events events = {worker, receive, cancel, let_go};
    enum status status = transport->impl->poll(transport, 0, worker->paused ? 0 : room, &events, error);
    tell_of_suspects(worker);
    if (status == STATUS_OK)
        status = check_share(worker, error);
    if (status == STATUS_OK)
        status = hand_over(worker, error);
    if (status == STATUS_OK && worker->out_of_memory)
        status = error_set(error, STATUS_RESTART, ERROR_OUT_OF_MEMORY, "taking jobs: out of memory");
    return status;
}

// ---- the loop ----

static void wait_for_news(struct worker *worker)
{
    int64_t timeout = BEAT_MS;
    if (worker->finished.n_jobs) {
        int64_t due = worker->finished_since_ms + WORKER_COMMIT_LINGER_MS - clock_ms();
        if (worker->committing.at_ms > clock_ms())
            due = worker->committing.at_ms - clock_ms();
        timeout = due < 0 ? 0 : due < timeout ? due : timeout;
    }
    // A paused transport may have news that it is not asked for: only time wakes us then.
    int transport_fd = worker->paused ? -1 : worker->config->transport->impl->fd(worker->config->transport);
    struct pollfd fds[] = {{worker->engine_ended ? -1 : queue_fd(engine_thread_outbox(worker->engine)), POLLIN, 0},
                           {transport_fd, POLLIN, 0},
                           {worker->config->stop_fd, POLLIN, 0},
                           {worker->config->http ? http_fd(worker->config->http) : -1, POLLIN, 0}};
    // Steps that are shorter than a millisecond are taken together: a turn costs more than such a step.
    if (poll(fds + 1, 3, timeout < TURN_MS ? (int)timeout : TURN_MS) == 0)
        poll(fds, 4, (int)timeout);
    if (fds[3].revents)
        worker->served_ms = 0;
}

// When something came, and now and then, for connections that are silent too long.
static void serve(struct worker *worker)
{
    if (!worker->config->http || clock_ms() - worker->served_ms < BEAT_MS)
        return;
    http_serve(worker->config->http);
    worker->served_ms = clock_ms();
}

// SIGHUP is for the log's file; on a terminal without one it says that the terminal went away.
static void read_signals(struct worker *worker)
{
    for (int signal; (signal = stop_fd_read(worker->config->stop_fd)) != 0;) {
        if (signal == SIGHUP && log_has_file())
            log_reopen();
        if (signal == SIGHUP && (log_has_file() || !worker->config->on_terminal))
            continue;
        bool second = worker->mode >= LEAVING;
        log_write(LOG_INFO, second ? "stopping now: running jobs are given back"
                                   : "stopping: waiting jobs are given back, running ones are finished");
        worker->mode = second ? ABORTING : LEAVING;
        worker->leaving_since_ms = clock_ms();
        send_order(worker, order_create(second ? ORDER_ABORT : ORDER_LEAVE));
    }
    if (worker->mode == LEAVING && clock_ms() - worker->leaving_since_ms > WORKER_GRACE_MS) {
        log_write(LOG_INFO, "running jobs take longer than %d s: they are given back", WORKER_GRACE_MS / 1000);
        worker->mode = ABORTING;
        send_order(worker, order_create(ORDER_ABORT));
    }
}

static void leave_when_idle(struct worker *worker)
{
    const struct worker_config *config = worker->config;
    if (worker->mode != RUNNING || config->exit_when_idle_s < 0)
        return;
    if (worker->n_in_flight || !config->transport->impl->is_drained(config->transport)) {
        worker->idle_since_ms = 0;
        return;
    }
    if (!worker->idle_since_ms)
        worker->idle_since_ms = clock_ms();
    if (clock_ms() - worker->idle_since_ms < (int64_t)config->exit_when_idle_s * 1000)
        return;
    worker->mode = DRAINING;
    queue_close(engine_thread_inbox(worker->engine));
}

static void show_progress(struct worker *worker, bool last)
{
    worker->totals->n_in_flight = worker->n_in_flight;
    if (!worker->config->progress || (!last && clock_ms() - worker->progress_ms < PROGRESS_INTERVAL_MS))
        return;
    worker->progress_ms = clock_ms();
    worker->config->progress(worker->config->progress_context, worker->totals);
}

// One turn; what passes (STATUS_RETRY) is waited for here, the rest ends the loop.
static enum status turn(struct worker *worker, struct error *error)
{
    read_signals(worker);
    take_rounds(worker);
    struct retry *retry = &worker->polling;
    enum status status = check_model(worker, error);
    if (status == STATUS_OK && clock_ms() >= retry->at_ms) {
        status = take_records(worker, error);
        if (worker->config->transport->impl->waiting)
            worker->config->metrics->waiting = worker->config->transport->impl->waiting(worker->config->transport);
        if (status == STATUS_OK)
            recovered(worker, retry);
    }
    if (status == STATUS_OK && commit_is_due(worker)) {
        retry = &worker->committing;
        status = commit(worker, error);
        if (status == STATUS_OK)
            recovered(worker, retry);
        if (status == STATUS_RETRY && worker->is_isolating) {
            warn_once(worker, error, "isolating the record");
            worker->has_room_again = true;
            return STATUS_OK;
        }
    }
    if (status == STATUS_OK && worker->released.n_jobs && worker->mode != RUNNING)
        status = give_back(worker, error);
    if (status == STATUS_RETRY)
        return back_off(worker, retry, error);
    struct error projection;
    if (status == STATUS_OK && worker->n_steps && clock_ms() - worker->recorded_ms > RECORD_INTERVAL_MS &&
        clock_ms() >= worker->recording.at_ms && record(worker, NULL, 0, &projection) != STATUS_OK)
        (void)back_off(worker, &worker->recording, &projection); // figures: no reason to end
    fold_old_rows(worker);
    serve(worker);
    leave_when_idle(worker);
    show_progress(worker, false);
    return status;
}

static bool is_done(const struct worker *worker)
{
    return worker->engine_ended && worker->finished.n_jobs == 0 &&
           (worker->released.n_jobs == 0 || worker->mode == RUNNING);
}

static enum status loop(struct worker *worker, struct error *error)
{
    while (!is_done(worker)) {
        enum status status = turn(worker, error);
        if (status != STATUS_OK)
            return status;
        if (!is_done(worker) && !worker->has_room_again)
            wait_for_news(worker);
        worker->has_room_again = false;
        // A store or broker that stays away must not keep a worker that was told to go.
        if (worker->mode >= LEAVING && worker->engine_ended &&
            clock_ms() - worker->leaving_since_ms > 3 * WORKER_GRACE_MS)
            return error_set(error, STATUS_RESTART, ERROR_STORE,
                             "leaving with %zu finished jobs that could not be committed (%s); they will run again",
                             worker->finished.n_jobs, worker->last_warning);
    }
    if (worker->engine_error.status != STATUS_OK) {
        *error = worker->engine_error;
        return error->status;
    }
    struct error projection;
    if (record(worker, NULL, 0, &projection) != STATUS_OK)
        log_write(LOG_WARNING, "%s; the last figures are lost", projection.text);
    return STATUS_OK;
}

// From now on the worker is neither healthy nor ready, and says why. It is logged before anything is closed, which may take
// long or hang.
static void fail(struct worker *worker, const struct error *error)
{
    log_write(LOG_WARNING, "closing: %s", error->text);
    struct metrics *metrics = worker->config->metrics;
    memcpy(metrics->trouble, error->text, sizeof metrics->trouble);
    metrics->running = false;
    metrics->failed = true;
}

// After a fatal error: stop the engine, give back what can be given back.
static void abandon(struct worker *worker)
{
    struct error error;
    if (!worker->engine_ended)
        send_order(worker, worker->abort);
    else
        order_destroy(worker->abort);
    worker->abort = NULL;
    while (!worker->engine_ended) {
        struct pollfd fd = {queue_fd(engine_thread_outbox(worker->engine)), POLLIN, 0};
        poll(&fd, 1, BEAT_MS);
        take_rounds(worker);
        serve(worker); // its health is bad, which may be what somebody waits for
    }
    gate_empty(&worker->gate, &worker->released);
    append_list(&worker->released, &worker->finished);
    append_list(&worker->released, &worker->trial.held);
    if (give_back(worker, &error) != STATUS_OK)
        for (struct job *job; (job = job_list_take(&worker->released));)
            job_reserve_give(&worker->reserve, job);
}

enum status worker_run(const struct worker_config *config, struct worker_progress *progress, struct error *error)
{
    struct worker worker = {.config = config, .totals = progress, .recorded_ms = clock_ms()};
    worker.commit_max = most_at_once(&worker);
    worker.trial.limit = config->model_failures_max;
    ahead_init(&worker.ahead, config->n_batch, config->n_jobs_max);
    *progress = (struct worker_progress){0};
    worker.group = calloc((size_t)config->n_jobs_max, sizeof(struct job *));
    worker.committed = calloc((size_t)config->n_jobs_max, sizeof *worker.committed);
    worker.steps = calloc(STEPS_KEPT_MAX, sizeof *worker.steps);
    worker.abort = order_create(ORDER_ABORT);
    enum status status = STATUS_OK;
    if (!worker.group || !worker.committed || !worker.steps || !worker.abort)
        status = error_set(error, STATUS_REFUSE, ERROR_OUT_OF_MEMORY, "worker: out of memory");
    if (status == STATUS_OK)
        status = engine_thread_start(&worker.engine, config->batcher, error);
    if (status == STATUS_OK) {
        status = loop(&worker, error);
        progress->was_stopped = worker.mode >= LEAVING;
        if (status != STATUS_OK)
            fail(&worker, error);
        if (config->closing)
            closing_begin(config->closing, "the engine's step", status == STATUS_OK ? "the work is done" : error->text);
        abandon(&worker);
        show_progress(&worker, true);
    }
    engine_thread_join(worker.engine);
    job_reserve_finish(&worker.reserve);
    order_destroy(worker.abort);
    free(worker.group);
    free(worker.committed);
    free(worker.steps);
    return status;
}
