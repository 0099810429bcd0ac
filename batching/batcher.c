#include "batching/arrivals.h"
#include "batching/bad_words.h"
#include "batching/batcher_state.h"
#include "batching/constrained.h"
#include "batching/property_scores.h"
#include "batching/thinking.h"
#include "schemas/base/clock.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

// ---- create, destroy ----

static bool allocate_steps(struct batcher *b)
{
    size_t rows = (size_t)b->config.limits.n_tokens_max, sequences = (size_t)b->config.limits.n_sequences_max;
    size_t outputs = (size_t)n_outputs_max(&b->config.limits);
    b->jobs.preparing = calloc((size_t)b->config.limits.n_jobs_max, sizeof(struct prompt *));
    b->running = calloc(2 * sequences, sizeof(struct sequence *));
    b->pipeline.results = calloc(outputs, sizeof *b->pipeline.results);
    bool complete = b->jobs.preparing && b->running && b->pipeline.results;
    for (int i = 0; i < 2; i++) {
        struct scheduled_step *scheduled = &b->pipeline.slots[i];
        scheduled->tokens = calloc(rows, sizeof *scheduled->tokens);
        scheduled->positions = calloc(rows, sizeof *scheduled->positions);
        scheduled->output_rows = calloc(outputs, sizeof *scheduled->output_rows);
        scheduled->sequences = calloc(outputs, sizeof *scheduled->sequences);
        scheduled->copies = calloc(sequences + 1, sizeof *scheduled->copies);
        scheduled->output_sequences = calloc(outputs, sizeof(struct sequence *));
        scheduled->samples = calloc(outputs, sizeof *scheduled->samples);
        scheduled->scorings = calloc(outputs, sizeof *scheduled->scorings);
        scheduled->drafts.sequences = calloc(outputs, sizeof(struct sequence *));
        complete = complete && scheduled->tokens && scheduled->positions && scheduled->output_rows &&
                   scheduled->sequences && scheduled->copies && scheduled->output_sequences &&
                   scheduled->samples && scheduled->scorings && scheduled->drafts.sequences;
    }
    return complete;
}

static void free_steps(struct batcher *b)
{
    free(b->jobs.preparing);
    free(b->running);
    free(b->pipeline.results);
    for (int i = 0; i < 2; i++) {
        struct scheduled_step *scheduled = &b->pipeline.slots[i];
        free(scheduled->tokens);
        free(scheduled->positions);
        free(scheduled->output_rows);
        free(scheduled->sequences);
        free(scheduled->copies);
        free(scheduled->output_sequences);
        free(scheduled->samples);
        free(scheduled->scorings);
        free(scheduled->drafts.sequences);
        free(scheduled->masks);
    }
}

enum status batcher_create(struct batcher **batcher, const struct batcher_config *config, struct error *error)
{
    const struct batch_limits *limits = &config->limits;
    assert(limits->n_sequences_max > 0 && limits->n_tokens_max >= limits->n_sequences_max);
    assert(limits->n_jobs_max > 0 && limits->n_pages > 0 && limits->page_positions > 0);
    assert(limits->n_state_slots == 0 || limits->n_drafts_max == 0);
    struct batcher *b = calloc(1, sizeof *b);
    if (!b)
        return error_memory(error, STATUS_REFUSE, "batcher");
    b->config = *config;
    if (!b->config.wall_clock_us)
        b->config.wall_clock_us = clock_wall_us;
    int64_t n_positions = (int64_t)limits->n_pages * limits->page_positions;
    b->config.environment.limits.n_positions_max = n_positions > INT32_MAX ? INT32_MAX : (int32_t)n_positions;
    b->config.environment.limits.page_positions = limits->page_positions;
    enum status status = STATUS_OK;
    b->pipeline.building = &b->pipeline.slots[0];
    if (!allocate_steps(b))
        status = error_set(error, STATUS_REFUSE, ERROR_OUT_OF_MEMORY,
                           "batcher: no memory for steps of %d rows and %d sequences", limits->n_tokens_max,
                           limits->n_sequences_max);
    if (status == STATUS_OK)
        status = page_stack_init(&b->pages, limits->n_pages, error);
    if (status == STATUS_OK && limits->n_state_slots)
        status = page_stack_init(&b->slots, limits->n_state_slots, error);
    if (status == STATUS_OK)
        status = prefix_init(&b->tree, limits->page_positions, &b->pages,
                             limits->n_state_slots ? &b->slots : NULL, error);
    for (int32_t i = 0; status == STATUS_OK && i < config->adapters.n; i++)
        status = prefix_add_set(&b->tree, config->adapters.hashes[i], error);
    if (status == STATUS_OK)
        status = prompt_mask_sampled(&b->masks.sampled, config->environment.tokenizer,
                                     config->environment.limits.n_vocab, error);
    if (status != STATUS_OK) {
        batcher_destroy(b);
        return status;
    }
    b->config.environment.sampled = b->masks.sampled;
    b->window.tree = &b->tree;
    b->window.turns.shares = b->config.shares;
    b->constraints.tokenizer = b->config.environment.tokenizer;
    b->constraints.n_vocab = b->config.environment.limits.n_vocab;
    b->constraints.compile = config->compile;
    *batcher = b;
    return STATUS_OK;
}

void batcher_destroy(struct batcher *b)
{
    if (!b)
        return;
    assert(b->jobs.n == 0);
    prepare_thread_destroy(b->jobs.thread);
    window_finish(&b->window);
    if (b->tree.roots)
        prefix_finish(&b->tree);
    page_stack_finish(&b->pages);
    page_stack_finish(&b->slots);
    constraint_cache_finish(&b->constraints);
    speculation_finish(&b->speculation);
    free(b->masks.tasks);
    free(b->masks.own);
    free(b->masks.sampled);
    free_steps(b);
    free(b);
}

// ---- jobs in and out ----

bool batcher_is_full(const struct batcher *b)
{
    return b->jobs.n >= b->config.limits.n_jobs_max;
}

bool batcher_is_empty(const struct batcher *b)
{
    return b->jobs.n == 0;
}

void batcher_take(struct batcher *b, struct job *job)
{
    assert(!batcher_is_full(b));
    b->jobs.n++;
    b->has_streams |= job->stream != 0;
    job_list_append(&b->jobs.arrived, job);
}

static void hand_back(struct batcher *b, struct prompt *prompt, struct job_list *list)
{
    struct job *job = prompt->job;
    struct compiled_constraint *constraint = prompt->rules.constraint;
    list_remove(&b->jobs.prompts, &prompt->link);
    for (int32_t i = 0; i < prompt->sequences.n; i++)
        speculation_release(&b->speculation, &prompt->sequences.items[i]);
    prompt_destroy(prompt);
    constraint_cache_release(&b->constraints, constraint);
    b->jobs.n--;
    job_list_append(list, job);
}

// A prompt that failed because of a host fault is not finished: it is released with the unfinished ones.
static bool is_host_fault(struct batcher *b, const struct prompt *prompt)
{
    if (prompt->error.status == STATUS_OK || prompt->error.status == STATUS_REJECT)
        return false;
    if (b->faults.host.status == STATUS_OK) {
        b->faults.host = prompt->error;
        b->faults.host.status = STATUS_RESTART;
    }
    return true;
}

static void finish_prompt(struct batcher *b, struct prompt *prompt, struct job_list *finished)
{
    if (is_host_fault(b, prompt))
        return;
    struct job_figures *figures = &prompt->job->figures;
    int64_t now_us = clock_us();
    if (prompt->times.admitted_us) {
        int64_t first_us = prompt->times.first_token_us ? prompt->times.first_token_us : now_us;
        figures->queued_us = prompt->times.admitted_us - prompt->times.taken_us;
        figures->prefill_us = first_us - prompt->times.admitted_us;
        figures->decode_us = now_us - first_us;
    } else {
        figures->queued_us = now_us - prompt->times.taken_us;
    }
    figures->forced_tokens = 0;
    for (int32_t i = 0; i < prompt->sequences.n; i++)
        figures->forced_tokens += prompt->sequences.items[i].answer.n_forced;
    prompt_finish_job(prompt, b->config.environment.tokenizer);
    if (is_host_fault(b, prompt))
        return;
    struct error error;
    if (result_check(prompt->job, &error) != STATUS_OK)
        job_fail(prompt->job, &error);
    hand_back(b, prompt, finished);
}

// ---- constraints ----

// Memory that only batches with constrained sequences need.
static bool allocate_masks(struct batcher *b)
{
    size_t n = (size_t)n_outputs_max(&b->config.limits);
    size_t mask_bytes = (size_t)token_mask_words(b->config.environment.limits.n_vocab) * sizeof(uint32_t);
    for (int i = 0; i < 2; i++)
        if (!b->pipeline.slots[i].masks)
            b->pipeline.slots[i].masks = calloc(n, mask_bytes);
    if (!b->masks.tasks)
        b->masks.tasks = calloc(n, sizeof *b->masks.tasks);
    if (!b->masks.own)
        b->masks.own = calloc(1, mask_bytes);
    return b->pipeline.slots[0].masks && b->pipeline.slots[1].masks && b->masks.tasks && b->masks.own;
}

// Sets the constraint of a prepared prompt. Out of memory is a host fault.
static void find_constraint(struct batcher *b, struct prompt *prompt)
{
    struct answer_rules rules;
    struct error error;
    if (prompt->error.status != STATUS_OK)
        return;
    bool has_rules = prompt_answer_rules(prompt, &rules);
    bool needs_masks = has_rules || prompt->job->request.vocabulary.n_bad_words > 0;
    if ((needs_masks && !allocate_masks(b)) ||
        (has_rules &&
         constraint_cache_find(&b->constraints, &rules, &prompt->rules.constraint, &error) != STATUS_OK))
        (void)error_memory(&prompt->error, STATUS_RESTART, "a constraint");
}

static void fill_masks_of(void *context)
{
    const struct mask_task *task = context;
    const struct scheduled_step *scheduled = task->scheduled;
    for (int32_t i = 0; i < scheduled->step.n_outputs; i++) {
        struct sequence *sequence = scheduled->output_sequences[i];
        if (!sequence || scheduled->samples[i].scores ||
            sequence->prompt->rules.constraint != task->constraint)
            continue;
        uint32_t *mask = scheduled->masks + (size_t)i * (size_t)sequence->prompt->vocabulary.n_mask_words;
        if (i < scheduled->drafts.first_output)
            constrained_fill_mask(sequence, mask);
        else
            constrained_fill_draft_mask(sequence, scheduled->samples[i].n_generated, mask);
    }
}

static void forbid_bad_words(struct scheduled_step *scheduled)
{
    for (int32_t i = 0; i < scheduled->step.n_outputs; i++) {
        struct sequence *sequence = scheduled->output_sequences[i];
        const struct sample_request *sample = &scheduled->samples[i];
        if (!sequence || sequence->prompt->vocabulary.bad_words.n_ids == 0 || sample->scores)
            continue;
        uint32_t *mask = scheduled->masks + (size_t)i * (size_t)sequence->prompt->vocabulary.n_mask_words;
        bad_words_fill_mask(sequence, sequence_allowed(sequence, (int32_t)sample->index), mask);
    }
}

// The masks are complete when this returns.
static void finish_masks(struct batcher *b, struct scheduled_step *scheduled)
{
    while (b->masks.n_started > 0)
        pool_wait(b->config.pool, &b->masks.tasks[--b->masks.n_started].task);
    forbid_bad_words(scheduled);
}

// Called by the executor before it samples. Returns when the masks are complete.
static void await_masks(void *context)
{
    struct batcher *b = context;
    if (!b->pipeline.building->step.await_masks)
        return;
    finish_masks(b, b->pipeline.building);
    b->pipeline.building->step.await_masks = NULL;
}

// Starts to fill the masks: one task per constraint.
static void start_masks(struct batcher *b, struct scheduled_step *scheduled)
{
    b->masks.n_started = 0;
    for (int32_t i = 0; i < scheduled->step.n_outputs; i++) {
        const struct sequence *sequence = scheduled->output_sequences[i];
        const struct compiled_constraint *constraint = sequence ? sequence->prompt->rules.constraint : NULL;
        bool is_new = constraint != NULL && !scheduled->samples[i].scores;
        for (int32_t j = 0; j < b->masks.n_started && is_new; j++)
            is_new = b->masks.tasks[j].constraint != constraint;
        if (is_new)
            b->masks.tasks[b->masks.n_started++] =
                (struct mask_task){.scheduled = scheduled, .constraint = constraint};
    }
    for (int32_t i = 0; i < b->masks.n_started; i++) {
        b->masks.tasks[i].task = (struct pool_task){.run = fill_masks_of, .context = &b->masks.tasks[i]};
        pool_start(b->config.pool, &b->masks.tasks[i].task);
    }
}

// Starts to fill the masks of the next step; the executor waits for them before it samples. An asynchronous
// executor submits the sampling apart instead, because the masks depend on the previous step's tokens.
static void prepare_masks(struct batcher *b)
{
    struct scheduled_step *scheduled = b->pipeline.building;
    scheduled->step.samples_apart = scheduled->n_masked > 0 && b->config.executor.submit;
    if (scheduled->step.samples_apart)
        return;
    start_masks(b, scheduled);
    scheduled->step.await_masks = await_masks;
    scheduled->step.masks_context = b;
}

// ---- new jobs ----

static void note_deadline(struct batcher *b, const struct job *job)
{
    if (job->deadline_s && (!b->next_deadline_s || job->deadline_s < b->next_deadline_s))
        b->next_deadline_s = job->deadline_s;
}

// Adds the prompt's sequences to the window. False: out of memory, none was added.
static bool add_to_window(struct batcher *b, struct prompt *prompt)
{
    for (int32_t i = 0; i < prompt->sequences.n; i++) {
        if (prompt->sequences.items[i].answer.finish_reason != FINISH_NONE ||
            window_add(&b->window, &prompt->sequences.items[i]))
            continue;
        while (--i >= 0)
            if (prompt->sequences.items[i].answer.finish_reason == FINISH_NONE)
                window_remove(&b->window, &prompt->sequences.items[i]);
        return false;
    }
    return true;
}

// Sets the sequence's state before its first step. Scores the targets first; a sequence without targets
// starts to draw. A thought without a budget is closed in both, and may end the answer with that.
static void start_sequence(struct batcher *b, struct sequence *sequence)
{
    struct sequence_targets *scoring = &sequence->scoring;
    bool draws = !scoring->only_scores && sequence->prompt->max_tokens > 0;
    sequence->answer.finish_reason = scoring->n_targets == 0 && !draws ? FINISH_LENGTH : FINISH_NONE;
    thinking_start(sequence);
    bool may_force = scoring->n_targets ? thinking_is_spent(sequence) : constrained_may_force(sequence);
    if (draws && may_force)
        constrained_force(sequence, b->config.environment.tokenizer);
    b->n_forced += sequence->answer.n_forced;
    enum finish_reason reason = sequence->answer.finish_reason;
    if (scoring->n_targets && (reason == FINISH_STOP || reason == FINISH_LENGTH)) {
        scoring->only_scores = true;
        scoring->ended = reason;
        sequence->answer.finish_reason = FINISH_NONE;
    }
}

// Adds the prompt's sequences to the window. Finishes the prompt at once if it failed or has nothing to
// compute.
static void enter_window(struct batcher *b, struct prompt *prompt, struct job_list *finished)
{
    prompt->sequences.n_unfinished = 0;
    prompt->sequences.first = NULL;
    for (int32_t i = 0; i < prompt->sequences.n && prompt->error.status == STATUS_OK; i++) {
        const struct sequence *sequence = &prompt->sequences.items[i];
        start_sequence(b, &prompt->sequences.items[i]);
        if (sequence->answer.finish_reason == FINISH_NONE && prompt->sequences.n_unfinished++ == 0)
            prompt->sequences.first = sequence;
    }
    if (prompt->sequences.n_unfinished == 0 || prompt->error.status != STATUS_OK)
        finish_prompt(b, prompt, finished);
    else if (!add_to_window(b, prompt))
        faults_note_memory(&b->faults, "prefix tree");
}

static void check_constraint(struct batcher *b, struct prompt *prompt, struct job_list *finished)
{
    prompt_check_constraint(prompt, &b->config.environment.limits);
    enter_window(b, prompt, finished);
}

// Takes a prepared prompt: the prompt waits for its constraint to compile, or enters the window.
static void enter_prepared(struct batcher *b, struct prompt *prompt, struct job_list *finished)
{
    note_deadline(b, prompt->job);
    find_constraint(b, prompt);
    prompt->rules.is_compiling = prompt->error.status == STATUS_OK && prompt->rules.constraint &&
                                 prompt->rules.constraint->state != CONSTRAINT_COMPILED;
    if (!prompt->rules.is_compiling)
        check_constraint(b, prompt, finished);
}

enum { IDLE_WAIT_MS = 20 }; // poll interval for orders while there is no step to compute

static int idle_wait_ms(const struct batcher *b, const struct job_list *finished)
{
    bool is_idle =
        b->n_running == 0 && b->window.n_waiting == 0 && !b->pipeline.under_way && !finished->first;
    return is_idle ? IDLE_WAIT_MS : 0;
}

static void prepare_arrived(struct batcher *b, struct job_list *finished)
{
    int32_t n = arrivals_prepare(b);
    for (int32_t i = 0; i < n; i++)
        enter_prepared(b, b->jobs.preparing[i], finished);
    struct prompt *prompt = arrivals_take_long(b, idle_wait_ms(b, finished));
    if (prompt)
        enter_prepared(b, prompt, finished);
}

// Moves prompts whose constraints are compiled into the window.
static void collect_constraints(struct batcher *b, struct job_list *finished)
{
    int32_t n_compiled;
    struct error error;
    if (constraint_cache_collect(&b->constraints, idle_wait_ms(b, finished), &n_compiled, &error) !=
        STATUS_OK)
        faults_note_memory(&b->faults, "compiling a constraint");
    if (n_compiled == 0)
        return;
    LIST_EACH (struct prompt, prompt, &b->jobs.prompts, link) {
        if (prompt->rules.is_compiling && prompt->rules.constraint->state == CONSTRAINT_COMPILED) {
            prompt->rules.is_compiling = false;
            check_constraint(b, prompt, finished);
        }
    }
}

// ---- after the step ----

static void stop_prompt(struct batcher *b, struct prompt *prompt)
{
    for (int32_t i = 0; i < prompt->sequences.n; i++)
        scheduler_remove(b, &prompt->sequences.items[i]);
}

// Adds the branches of a schema's values to the window once the answer has ended. False: there are none.
static bool score_properties(struct batcher *b, struct prompt *prompt)
{
    if (!property_scores_begin(prompt, &b->config.environment))
        return false;
    for (int32_t i = request_n_sequences(&prompt->job->request); i < prompt->sequences.n; i++) {
        if (prompt->sequences.items[i].scoring.n_targets == 0)
            continue;
        start_sequence(b, &prompt->sequences.items[i]);
        prompt->sequences.n_unfinished++;
    }
    if (!add_to_window(b, prompt))
        faults_note_memory(&b->faults, "prefix tree");
    return true;
}

static void finish_sequence(struct batcher *b, struct sequence *sequence, struct job_list *finished)
{
    struct prompt *prompt = sequence->prompt;
    bool failed = sequence->answer.finish_reason == FINISH_ERROR;
    if (!failed && !sequence->scoring.only_scores) {
        double n = sequence->answer.n_generated;
        b->answer_tokens = b->answer_tokens > 0 ? b->answer_tokens + (n - b->answer_tokens) * 0.05 : n + 1;
    }
    if (!failed && !sequence->scoring.only_scores && b->config.limits.n_drafts_max > 0)
        speculation_add_answer(&b->speculation, sequence);
    scheduler_remove(b, sequence);
    if (failed)
        stop_prompt(b, prompt); // the job has failed, so its other choices are not returned either
    if (failed || (--prompt->sequences.n_unfinished == 0 && !score_properties(b, prompt)))
        finish_prompt(b, prompt, finished);
}

static void take_results(struct batcher *b, struct scheduled_step *done, struct job_list *finished,
                         struct step_figures *figures)
{
    for (int32_t i = 0; i < done->step.n_outputs; i++) {
        struct sequence *sequence = done->output_sequences[i];
        if (!sequence || (i >= done->drafts.first_output && !drafts_count_output(b, done, i)))
            continue;
        if (done->samples[i].scores) {
            sequence_score(sequence, &b->pipeline.results[i], b->config.environment.tokenizer);
        } else {
            int32_t n_forced = sequence->answer.n_forced;
            figures->n_generated++;
            if (!sequence->prompt->times.first_token_us)
                sequence->prompt->times.first_token_us = clock_us();
            constrained_accept(sequence, &b->pipeline.results[i], b->config.environment.tokenizer);
            b->n_forced += sequence->answer.n_forced - n_forced;
            if (sequence->answer.n_forced > n_forced && b->pipeline.under_way)
                scheduler_drop_outputs(b->pipeline.under_way, sequence); // forced tokens replace its draw
        }
        if (sequence->answer.finish_reason != FINISH_NONE) {
            drafts_settle_sequence(b, done, sequence);
            finish_sequence(b, sequence, finished);
        }
    }
    drafts_settle(b, done);
    figures->n_drafted = done->drafts.n_rows;
    figures->n_accepted = done->drafts.n_accepted;
    figures->n_forced = b->n_forced;
    figures->n_generated += b->n_forced;
    b->n_forced = 0;
}

// Finishes prompts that failed outside a step: cancelled, past their deadline, or too long for the KV pages.
static void finish_failed(struct batcher *b, struct job_list *finished)
{
    if (!b->faults.any_prompt)
        return;
    b->faults.any_prompt = false;
    LIST_EACH (struct prompt, prompt, &b->jobs.prompts, link) {
        if (prompt->error.status != STATUS_OK) {
            stop_prompt(b, prompt);
            finish_prompt(b, prompt, finished);
        }
    }
}

static void cancel_arrival(struct job *job, struct text dataset, struct text job_id, int64_t until_s)
{
    if (job_is_named(job, dataset, job_id, until_s))
        (void)job_cancel(&job->result.error);
}

void batcher_cancel(struct batcher *b, struct text dataset, struct text job_id, int64_t until_s)
{
    LIST_EACH (struct prompt, prompt, &b->jobs.prompts, link) {
        if (!job_is_named(prompt->job, dataset, job_id, until_s))
            continue;
        if (prompt->error.status == STATUS_OK)
            (void)job_cancel(&prompt->error);
        b->faults.any_prompt = true;
    }
    for (struct job *job = b->jobs.arrived.first; job; job = job->next)
        cancel_arrival(job, dataset, job_id, until_s);
    if (b->jobs.long_one)
        cancel_arrival(b->jobs.long_one->job, dataset, job_id, until_s);
}

// Finishes jobs that were cancelled or passed their deadline before they were prepared.
static void finish_dead_arrivals(struct batcher *b, int64_t now_s, struct job_list *finished)
{
    struct job_list kept = {0};
    for (struct job *job; (job = job_list_take(&b->jobs.arrived));) {
        bool is_cancelled = job->result.error.code == ERROR_CANCELLED;
        if (!is_cancelled && !(job->deadline_s && now_s >= job->deadline_s)) {
            job_list_append(&kept, job);
            continue;
        }
        struct error error = job->result.error;
        if (!is_cancelled)
            (void)job_miss_deadline(job, &error);
        job_fail(job, &error);
        b->jobs.n--;
        job_list_append(finished, job);
    }
    b->jobs.arrived = kept;
}

// Fails prompts past their deadline. Walks the list only when next_deadline has passed.
static void expire_prompts(struct batcher *b, int64_t now_s)
{
    if (!b->next_deadline_s || now_s < b->next_deadline_s)
        return;
    b->next_deadline_s = 0;
    LIST_EACH (struct prompt, prompt, &b->jobs.prompts, link) {
        const struct job *job = prompt->job;
        if (!job->deadline_s || now_s < job->deadline_s) {
            note_deadline(b, job);
        } else if (prompt->error.status == STATUS_OK) {
            (void)job_miss_deadline(job, &prompt->error);
            b->faults.any_prompt = true;
        }
    }
}

// Computes the scheduled step. An asynchronous executor submits it and collects the previous step. *done: the
// step that has results, or NULL.
static enum status compute_step(struct batcher *b, struct scheduled_step **done, struct error *error)
{
    const struct step_executor *executor = &b->config.executor;
    struct scheduled_step *next = b->pipeline.building->step.n_tokens > 0 ? b->pipeline.building : NULL,
                          *before = b->pipeline.under_way;
    *done = executor->submit ? before : next;
    enum status status = STATUS_OK;
    if (next && executor->submit) {
        status = executor->submit(executor->context, &next->step, error);
        await_masks(b); // an executor that failed may have skipped it
        b->pipeline.building = &b->pipeline.slots[next == &b->pipeline.slots[0]];
    } else if (next) {
        status = executor->step(executor->context, &next->step, b->pipeline.results, error);
        await_masks(b);
    }
    b->pipeline.under_way = executor->submit ? next : NULL;
    if (status == STATUS_OK && before)
        status = executor->collect(executor->context, &before->step, b->pipeline.results, error);
    if (status != STATUS_OK)
        b->pipeline.under_way = NULL;
    return status;
}

// Submits the sampling of the submitted step: its masks depend on the tokens collected after its submission.
static enum status submit_sampling(struct batcher *b, struct error *error)
{
    struct scheduled_step *submitted = b->pipeline.under_way;
    if (!submitted || !submitted->step.samples_apart)
        return STATUS_OK;
    start_masks(b, submitted);
    finish_masks(b, submitted);
    enum status status =
        b->config.executor.submit_sampling(b->config.executor.context, &submitted->step, error);
    if (status != STATUS_OK)
        b->pipeline.under_way = NULL;
    return status;
}

static enum status end_round(struct batcher *b, struct step_figures *figures, struct error *error)
{
    int64_t start_us = clock_us();
    enum status status = submit_sampling(b, error);
    figures->compute_us += clock_us() - start_us;
    if (status != STATUS_OK)
        return status;
    if (b->faults.host.status != STATUS_OK)
        *error = b->faults.host;
    return b->faults.host.status;
}

enum status batcher_round(struct batcher *b, struct job_list *finished, struct step_figures *figures,
                          struct error *error)
{
    int64_t start_us = clock_us();
    int64_t now_s = b->config.wall_clock_us() / 1000000;
    finish_dead_arrivals(b, now_s, finished);
    prepare_arrived(b, finished);
    collect_constraints(b, finished);
    expire_prompts(b, now_s);
    finish_failed(b, finished);
    int64_t prepared_us = clock_us();
    scheduler_build_step(b);
    drafts_add(b);
    prepare_masks(b);
    int64_t planned_us = clock_us();
    *figures =
        (struct step_figures){.prepare_us = prepared_us - start_us, .plan_us = planned_us - prepared_us};
    struct scheduled_step *done;
    enum status status = compute_step(b, &done, error);
    if (status != STATUS_OK)
        return status;
    if (!done) {
        finish_failed(b, finished); // the only sequence exceeded the KV pages
        return end_round(b, figures, error);
    }
    int64_t computed_us = clock_us();
    take_results(b, done, finished, figures);
    figures->n_sequences = done->step.n_sequences - done->drafts.n_in_step;
    figures->n_tokens = done->step.n_tokens;
    figures->prefill_tokens = done->prefill_tokens;
    figures->decode_tokens = done->decode_tokens;
    figures->n_preempted = done->n_preempted;
    figures->n_waiting = b->window.n_waiting;
    figures->pages_total = b->pages.n_pages;
    figures->pages_used = b->pages.n_pages - prefix_available(&b->tree);
    figures->compute_us = computed_us - planned_us;
    if (done->prefill_tokens == 0)
        row_cost_note(&b->cost, done->step.n_tokens, (double)figures->compute_us);
    figures->finish_us = clock_us() - computed_us;
    figures->finished_us = b->config.wall_clock_us();
    return end_round(b, figures, error);
}

void batcher_take_findings(struct batcher *b, struct step_findings *findings)
{
    if (b->config.executor.take_findings)
        b->config.executor.take_findings(b->config.executor.context, findings);
}

static void release_prompt(struct batcher *b, struct prompt *prompt, struct job_list *released)
{
    stop_prompt(b, prompt);
    prompt->job->result.prompt_tokens = 0;
    prompt->job->figures = (struct job_figures){.attempts = prompt->job->figures.attempts};
    hand_back(b, prompt, released);
}

void batcher_release(struct batcher *b, bool running_too, struct job_list *released)
{
    (void)arrivals_take_long(b, -1);
    for (struct job *job; (job = job_list_take(&b->jobs.arrived));) {
        b->jobs.n--;
        job_list_append(released, job);
    }
    LIST_EACH (struct prompt, prompt, &b->jobs.prompts, link) {
        if (running_too || !prompt->times.admitted_us)
            release_prompt(b, prompt, released);
    }
}

void batcher_release_partitions(struct batcher *b, const struct partition_ids *ids, struct job_list *released)
{
    struct job_list kept = {0};
    for (struct job *job; (job = job_list_take(&b->jobs.arrived));) {
        bool is_theirs = partition_ids_have(ids, job);
        b->jobs.n -= is_theirs;
        job_list_append(is_theirs ? released : &kept, job);
    }
    b->jobs.arrived = kept;
    LIST_EACH (struct prompt, prompt, &b->jobs.prompts, link) {
        if (!prompt->times.admitted_us && partition_ids_have(ids, prompt->job))
            release_prompt(b, prompt, released);
    }
}
