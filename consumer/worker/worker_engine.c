// The worker's side of the engine thread: sends orders, and jobs that pass the gate; receives rounds.
#include "consumer/worker/worker_state.h"

#include "schemas/base/clock.h"

void worker_append_list(struct job_list *to, struct job_list *from)
{
    for (struct job *job; (job = job_list_take(from));)
        job_list_append(to, job);
}

void worker_add_finished(struct worker *worker, struct job_list *list)
{
    if (worker->jobs.finished.n_jobs == 0)
        worker->commits.finished_since_ms = clock_ms();
    for (struct job *job = worker->config->spans ? list->first : NULL; job; job = job->next)
        job->source.finished_us = clock_wall_us();
    trial_add(&worker->trial, list, &worker->jobs.finished, clock_ms());
}

void worker_answer_followers(struct worker *worker, struct job_list *list)
{
    struct job_list answered = {0}, compute = {0};
    for (const struct job *job = list->first; job; job = job->next)
        duplicates_answer(&worker->duplicates, job, &answered, &compute);
    worker_append_list(list, &answered);
    for (struct job *job; (job = job_list_take(&compute));)
        gate_add(&worker->gate, job);
}

void worker_send_order(struct worker *worker, struct order *order)
{
    // The engine thread handles orders between steps; if its queue of 256 is full, blocking is correct.
    if (!order || !queue_push(engine_thread_inbox(worker->engine.thread), order)) {
        worker->out_of_memory = worker->out_of_memory || !order;
        order_destroy(order);
    }
}

// Passes one group through the gate after its start is durable. *any: a group was waiting.
static enum status let_through(struct worker *worker, bool *any, struct error *error)
{
    struct transport *transport = worker->config->transport;
    enum suspect_state how;
    size_t n = gate_next(&worker->gate, worker->jobs.finished.n_jobs == 0, worker->commits.group,
                         (size_t)worker->config->n_jobs_max, &how);
    *any = n > 0;
    if (n == 0)
        return STATUS_OK;
    enum status status = transport->impl->start
                             ? transport->impl->start(transport, worker->commits.group, n, how, error)
                             : STATUS_OK;
    if (status != STATUS_OK)
        return status;
    struct order *order = order_create(ORDER_JOBS);
    if (!order)
        return error_memory(error, STATUS_RESTART, "handing jobs over");
    gate_pass(&worker->gate, n, how, &order->jobs);
    if (queue_push(engine_thread_inbox(worker->engine.thread), order))
        return STATUS_OK;
    for (struct job *job; (job = job_list_take(&order->jobs));) { // the engine has ended
        gate_left(&worker->gate, job);
        job_list_append(&worker->jobs.released, job);
    }
    order_destroy(order);
    return STATUS_OK;
}

enum status worker_hand_over(struct worker *worker, struct error *error)
{
    enum status status = STATUS_OK;
    if (worker->stop.mode >= LEAVING || worker->engine.ended)
        gate_empty(&worker->gate, &worker->jobs.released);
    for (bool any = true; any && status == STATUS_OK;)
        status = let_through(worker, &any, error);
    return status;
}

void worker_take_rounds(struct worker *worker)
{
    struct queue *outbox = engine_thread_outbox(worker->engine.thread);
    for (struct round *round; (round = queue_try_pop(outbox)); round_destroy(round)) {
        worker_figures_take(worker, round);
        if (round->pieces && worker->config->answers.take)
            worker->config->answers.take(worker->config->answers.context, round->pieces);
        for (const struct job *job = round->finished.first; job; job = job->next)
            gate_left(&worker->gate, job);
        for (const struct job *job = round->released.first; job; job = job->next)
            gate_left(&worker->gate, job);
        worker_answer_followers(worker, &round->finished);
        worker_add_finished(worker, &round->finished);
        worker_append_list(&worker->jobs.released, &round->released);
        if (round->error.status != STATUS_OK)
            worker->engine.error = round->error;
    }
    worker->engine.ended = queue_is_finished(outbox);
}
