// Ending a worker: by signals, when it is idle, or after an error.
#include "consumer/worker/worker_state.h"

#include "consumer/observe/log.h"
#include "consumer/worker/stop.h"
#include "schemas/base/clock.h"

#include <poll.h>
#include <signal.h>
#include <string.h>

enum { IDLE_STEP_MS_MAX = 5 * WORKER_BEAT_MS };

// SIGHUP reopens the log file. Without a log file, on a terminal, it means that the terminal was closed.
void worker_stop_on_signals(struct worker *worker)
{
    for (int signal; (signal = stop_fd_read(worker->config->stop.fd)) != 0;) {
        if (signal == SIGHUP && log_has_file())
            log_reopen();
        if (signal == SIGHUP && (log_has_file() || !worker->config->stop.on_terminal))
            continue;
        bool second = worker->stop.mode >= LEAVING;
        log_write(LOG_INFO, second ? "stopping now: running jobs are released"
                                   : "stopping: waiting jobs are released, running ones are finished");
        worker->stop.mode = second ? ABORTING : LEAVING;
        if (!second) // all later time limits count from the first signal
            worker->stop.leaving_since_ms = clock_ms();
        turn_watch_stopping(&worker->watch);
        worker_send_order(worker, order_create(second ? ORDER_ABORT : ORDER_LEAVE));
    }
    int grace_ms = worker->config->transport->impl->grace_ms;
    if (grace_ms == 0)
        grace_ms = WORKER_GRACE_MS;
    if (worker->stop.mode == LEAVING && clock_ms() - worker->stop.leaving_since_ms > grace_ms) {
        log_write(LOG_INFO, "running jobs take longer than %d s: they are released", grace_ms / 1000);
        worker->stop.mode = ABORTING;
        worker_send_order(worker, order_create(ORDER_ABORT));
    }
}

void worker_stop_when_idle(struct worker *worker)
{
    const struct worker_config *config = worker->config;
    if (worker->stop.mode != RUNNING || config->limits.idle_s < 0)
        return;
    int64_t now_ms = clock_ms();
    int64_t step_ms = now_ms - worker->stop.idle_seen_ms;
    bool was_idle = worker->stop.idle_seen_ms > 0;
    if (worker->jobs.n_in_flight || !config->transport->impl->is_drained(config->transport)) {
        worker->stop.idle_ms = worker->stop.idle_seen_ms = 0;
        return;
    }
    // A longer step means that the process was stopped or waited for a processor, and did not poll.
    if (was_idle)
        worker->stop.idle_ms += step_ms < IDLE_STEP_MS_MAX ? step_ms : IDLE_STEP_MS_MAX;
    worker->stop.idle_seen_ms = now_ms;
    if (worker->stop.idle_ms < (int64_t)config->limits.idle_s * 1000)
        return;
    const struct transport_impl *impl = config->transport->impl;
    if (impl->confirm_drained && !impl->confirm_drained(config->transport)) {
        worker->stop.idle_ms = 0;
        worker->stop.idle_seen_ms = clock_ms();
        return;
    }
    if (config->refill.run && config->refill.run(config->refill.context)) {
        worker->stop.idle_ms = worker->stop.idle_seen_ms = 0;
        return;
    }
    worker->stop.mode = DRAINING;
    queue_close(engine_thread_inbox(worker->engine.thread));
}

// Makes the worker report itself as unhealthy and not ready, with the reason. Logged before anything is
// closed, which may take long or hang.
void worker_stop_failed(struct worker *worker, const struct error *error)
{
    log_write(LOG_WARNING, "closing: %s", error->text);
    struct metrics *metrics = worker->config->metrics;
    memcpy(metrics->state.trouble, error->text, sizeof metrics->state.trouble);
    metrics->state.is_running = false;
    metrics->state.has_failed = true;
    worker->figures.published_ms = 0;
    worker_figures_publish(worker);
}

int worker_stop_closing_ms(const struct worker *worker)
{
    if (worker->stop.mode < LEAVING)
        return 0;
    int64_t left_ms = worker->stop.leaving_since_ms + WORKER_STOP_MS - clock_ms();
    return left_ms > WORKER_CLOSE_MS_MIN ? (int)left_ms : WORKER_CLOSE_MS_MIN;
}

// After a fatal error: stops the engine and releases the jobs that can be released.
void worker_stop_engine(struct worker *worker)
{
    struct error error;
    if (!worker->engine.ended)
        worker_send_order(worker, worker->stop.abort);
    else
        order_destroy(worker->stop.abort);
    worker->stop.abort = NULL;
    while (!worker->engine.ended) {
        struct pollfd fd = {queue_fd(engine_thread_outbox(worker->engine.thread)), POLLIN, 0};
        poll(&fd, 1, WORKER_BEAT_MS);
        worker_take_rounds(worker);
        worker_figures_publish(worker); // stay unhealthy until the end
    }
    gate_empty(&worker->gate, &worker->jobs.released);
    worker_append_list(&worker->jobs.released, &worker->jobs.finished);
    worker_append_list(&worker->jobs.released, &worker->trial.held);
    if (worker_release_jobs(worker, &error) != STATUS_OK)
        for (struct job *job; (job = job_list_take(&worker->jobs.released));)
            job_reserve_give(&worker->jobs.reserve, job);
}
