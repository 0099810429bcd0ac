#include "batching/embedding/embedding_batcher.h"

#include "batching/lists/list.h"
#include "batching/lists/turns.h"
#include "schemas/base/clock.h"
#include "schemas/task.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    // Texts tokenized together, per thread: few, since all of them come before a job that arrives later. A step
    // waits at most for this many bytes, or for one text that is longer.
    TOKENIZED_TEXTS = 4,
    TOKENIZED_BYTES_MAX = 256 << 10,
    BYTES_PER_TOKEN = 4, // of a text whose tokens are not known yet
};

// The waiting jobs of one dataset and urgency.
struct embedding_level {
    struct turn_level turn; // first: turns_level_of() creates it
    struct list jobs;       // with inputs left, by their link; not empty
};

// A job in the batcher.
struct embedding_job {
    struct list_link all_link;
    struct list_link link;         // in the level's jobs while the job has inputs left, else in `computing`
    struct embedding_level *level; // NULL: no inputs left
    struct job *job;
    struct input_plan plan;
    struct embedding *rows;   // [n_inputs] of the job's result, once the first input is tokenized
    int32_t next;             // the input whose turn is next
    int32_t n_wanted;         // inputs that are computed: all, or those before the first bad one
    int32_t n_ready;          // inputs that are tokenized and not computed yet
    struct error input_error; // of the first bad input; unset: none
    struct error fault;       // of the job as a whole: it ends at once
    int64_t taken_us, started_us;
};

// An input that is tokenized.
struct ready_input {
    struct embedding_job *of;
    int32_t index;
    int64_t n_charged; // tokens that its dataset's turn was charged before they were known
    struct input_tokens tokens;
    struct error error;
};

struct embedding_batcher {
    struct job_batcher base; // first: the functions of the table cast
    struct embedding_batcher_config config;
    struct job_list arrived;
    struct list jobs;   // all but the arrived ones, by arrival
    struct turns turns; // of struct embedding_level
    struct list computing;
    int32_t n_jobs;
    bool any_fault;            // a job has a fault
    int64_t next_deadline_s;   // 0: none
    struct ready_input *ready; // [n_ready_max], in the order of their turns
    int32_t n_ready, n_ready_max;
    size_t n_ready_tokens;
    struct ready_input *group;    // [n_texts_max] of the step
    struct embedding_text *texts; // [n_texts_max]
    float *vectors;               // [n_texts_max, width]
    int32_t width;                // input_task_width
    struct error host;            // a fault of the host; unset: none
};

// ---- create, destroy ----

static const struct job_batcher_impl *own_impl(void);

enum status embedding_batcher_create(struct embedding_batcher **batcher,
                                     const struct embedding_batcher_config *config, struct error *error)
{
    assert(config->n_jobs_max > 0 && config->n_tokens_max > 0 && config->n_texts_max > 0);
    struct embedding_batcher *b = calloc(1, sizeof *b);
    if (b) {
        size_t n_texts = (size_t)config->n_texts_max;
        b->base.impl = own_impl();
        b->config = *config;
        if (!b->config.wall_clock_us)
            b->config.wall_clock_us = clock_wall_us;
        b->turns.shares = config->shares;
        b->n_ready_max = 2 * config->n_texts_max;
        b->ready = calloc(2 * n_texts, sizeof *b->ready);
        b->group = calloc(n_texts, sizeof *b->group);
        b->texts = calloc(n_texts, sizeof *b->texts);
        b->width = input_task_width(config->task);
        b->vectors = calloc(n_texts * (size_t)b->width, sizeof *b->vectors);
    }
    if (!b || !b->ready || !b->group || !b->texts || !b->vectors) {
        embedding_batcher_destroy(b);
        return error_memory(error, STATUS_REFUSE, "embedding batcher");
    }
    *batcher = b;
    return STATUS_OK;
}

void embedding_batcher_destroy(struct embedding_batcher *b)
{
    if (!b)
        return;
    assert(b->n_jobs == 0 && b->n_ready == 0);
    turns_finish(&b->turns);
    free(b->ready);
    free(b->group);
    free(b->texts);
    free(b->vectors);
    free(b);
}

struct job_batcher *embedding_batcher_base(struct embedding_batcher *b)
{
    return &b->base;
}

static void note_memory(struct embedding_batcher *b)
{
    if (b->host.status == STATUS_OK)
        (void)error_memory(&b->host, STATUS_RESTART, "embedding jobs");
}

// ---- the order of jobs ----

static bool is_waiting(const struct embedding_job *entry)
{
    return entry->next < entry->n_wanted;
}

// Ends the wait of a job that has no inputs left, or that leaves.
static void leave_level(struct embedding_batcher *b, struct embedding_job *entry)
{
    struct embedding_level *level = entry->level;
    list_remove(&level->jobs, &entry->link);
    entry->level = NULL;
    if (!level->jobs.first)
        turns_drop(&b->turns, &level->turn);
}

static void end_wait(struct embedding_batcher *b, struct embedding_job *entry)
{
    leave_level(b, entry);
    list_append(&b->computing, &entry->link);
}

// ---- jobs in and out ----

static void take(struct job_batcher *base, struct job *job)
{
    struct embedding_batcher *b = (struct embedding_batcher *)base;
    assert(b->n_jobs < b->config.n_jobs_max && job->request.task != TASK_GENERATE);
    b->n_jobs++;
    job_list_append(&b->arrived, job);
}

static bool is_empty(const struct job_batcher *base)
{
    return ((const struct embedding_batcher *)base)->n_jobs == 0;
}

// Reserves the memory of the job's vectors. False: out of memory.
static bool allocate_vectors(struct embedding_job *entry)
{
    struct job *job = entry->job;
    size_t n_inputs = (size_t)job->request.embedding.n_inputs,
           n_dimensions = (size_t)entry->plan.n_dimensions;
    entry->rows = arena_allocate_array(&job->arena, n_inputs, sizeof *entry->rows);
    float *vectors = arena_allocate_array(&job->arena, n_inputs * n_dimensions, sizeof *vectors);
    if (!entry->rows || !vectors)
        return false;
    for (size_t i = 0; i < n_inputs; i++)
        entry->rows[i].items = vectors + i * n_dimensions;
    return true;
}

static void admit_job(struct embedding_batcher *b, struct embedding_job *entry, struct embedding_level *level,
                      struct job *job)
{
    const struct request_embedding *request = &job->request.embedding;
    *entry = (struct embedding_job){.job = job,
                                    .level = level,
                                    .plan.cut = {request->truncate_tokens, request->truncates_left},
                                    .n_wanted = request->n_inputs,
                                    .taken_us = clock_us()};
    if (job->result.error.code == ERROR_CANCELLED) // before it was admitted
        entry->fault = job->result.error;
    else if (b->config.task->impl->plan(b->config.task, job, &entry->plan, &entry->fault) != STATUS_OK)
        assert(entry->fault.status == STATUS_REJECT);
    b->any_fault = b->any_fault || entry->fault.status != STATUS_OK;
    if (job->deadline_s && (!b->next_deadline_s || job->deadline_s < b->next_deadline_s))
        b->next_deadline_s = job->deadline_s;
    list_append(&b->jobs, &entry->all_link);
    list_append(&level->jobs, &entry->link);
    if (entry->n_wanted == 0)
        end_wait(b, entry);
}

static void admit_jobs(struct embedding_batcher *b)
{
    while (b->arrived.first && b->host.status == STATUS_OK) {
        struct embedding_job *entry = malloc(sizeof *entry);
        struct turn_level *level =
            entry ? turns_level_of(&b->turns, b->arrived.first, sizeof(struct embedding_level)) : NULL;
        if (level) {
            admit_job(b, entry, (struct embedding_level *)level, job_list_take(&b->arrived));
            continue;
        }
        free(entry);
        note_memory(b);
    }
}

static void free_tokens(struct ready_input *input)
{
    token_array_finish(&input->tokens.ids);
    token_array_finish(&input->tokens.types);
}

static void drop_ready(struct embedding_batcher *b, const struct embedding_job *entry)
{
    int32_t n_kept = 0;
    for (int32_t i = 0; i < b->n_ready; i++) {
        if (b->ready[i].of != entry) {
            b->ready[n_kept++] = b->ready[i];
            continue;
        }
        b->n_ready_tokens -= b->ready[i].tokens.ids.n_ids;
        free_tokens(&b->ready[i]);
    }
    b->n_ready = n_kept;
}

static struct job *remove_job(struct embedding_batcher *b, struct embedding_job *entry)
{
    struct job *job = entry->job;
    if (entry->n_ready)
        drop_ready(b, entry);
    if (entry->level)
        leave_level(b, entry);
    else
        list_remove(&b->computing, &entry->link);
    list_remove(&b->jobs, &entry->all_link);
    free(entry);
    b->n_jobs--;
    return job;
}

static void finish_job(struct embedding_batcher *b, struct embedding_job *entry, struct job_list *finished)
{
    struct error error = entry->fault.status == STATUS_OK ? entry->input_error : entry->fault;
    int64_t now_us = clock_us(), started_us = entry->started_us ? entry->started_us : now_us;
    entry->job->figures.queued_us = started_us - entry->taken_us;
    entry->job->figures.prefill_us = now_us - started_us;
    if (error.status == STATUS_OK &&
        !b->config.task->impl->finish(b->config.task, entry->job, &entry->plan, entry->rows)) {
        note_memory(b);
        return;
    }
    struct job *job = remove_job(b, entry);
    if (error.status == STATUS_OK && result_check(job, &error) == STATUS_OK)
        job->result.status = RESULT_DONE;
    else
        job_fail(job, &error);
    job_list_append(finished, job);
}

static void finish_faulty(struct embedding_batcher *b, struct job_list *finished)
{
    if (!b->any_fault)
        return;
    b->any_fault = false;
    LIST_EACH (struct embedding_job, entry, &b->jobs, all_link) {
        if (entry->fault.status != STATUS_OK)
            finish_job(b, entry, finished);
    }
}

static void finish_computed(struct embedding_batcher *b, struct job_list *finished)
{
    LIST_EACH (struct embedding_job, entry, &b->computing, link) {
        if (entry->n_ready == 0)
            finish_job(b, entry, finished);
    }
}

static void cancel(struct job_batcher *base, struct text dataset, struct text job_id, int64_t until_s)
{
    struct embedding_batcher *b = (struct embedding_batcher *)base;
    LIST_EACH (struct embedding_job, entry, &b->jobs, all_link) {
        if (!job_is_named(entry->job, dataset, job_id, until_s) || entry->fault.status != STATUS_OK)
            continue;
        (void)job_cancel(&entry->fault);
        b->any_fault = true;
    }
    for (struct job *job = b->arrived.first; job; job = job->next)
        if (job_is_named(job, dataset, job_id, until_s))
            (void)job_cancel(&job->result.error);
}

// Fails jobs past their deadline. Walks the lists only when the next deadline has passed.
static void expire_jobs(struct embedding_batcher *b)
{
    int64_t now_s = b->config.wall_clock_us() / 1000000;
    if (!b->next_deadline_s || now_s < b->next_deadline_s)
        return;
    b->next_deadline_s = 0;
    LIST_EACH (struct embedding_job, entry, &b->jobs, all_link) {
        int64_t deadline_s = entry->job->deadline_s;
        if (!deadline_s)
            continue;
        if (now_s >= deadline_s && entry->fault.status == STATUS_OK) {
            (void)job_miss_deadline(entry->job, &entry->fault);
            b->any_fault = true;
        } else if (!b->next_deadline_s || deadline_s < b->next_deadline_s) {
            b->next_deadline_s = deadline_s;
        }
    }
}

static void release_job(struct embedding_batcher *b, struct embedding_job *entry, struct job_list *released)
{
    struct job *job = remove_job(b, entry);
    job->result.prompt_tokens = job->result.cut_tokens = 0;
    job->figures = (struct job_figures){.attempts = job->figures.attempts};
    job_list_append(released, job);
}

static void release(struct job_batcher *base, bool running_too, struct job_list *released)
{
    struct embedding_batcher *b = (struct embedding_batcher *)base;
    for (struct job *job; (job = job_list_take(&b->arrived)); b->n_jobs--)
        job_list_append(released, job);
    LIST_EACH (struct embedding_job, entry, &b->jobs, all_link) {
        if (running_too || !entry->started_us)
            release_job(b, entry, released);
    }
}

static void release_partitions(struct job_batcher *base, const struct partition_ids *ids,
                               struct job_list *released)
{
    struct embedding_batcher *b = (struct embedding_batcher *)base;
    struct job_list kept = {0};
    for (struct job *job; (job = job_list_take(&b->arrived));) {
        bool is_theirs = partition_ids_have(ids, job);
        b->n_jobs -= is_theirs;
        job_list_append(is_theirs ? released : &kept, job);
    }
    b->arrived = kept;
    LIST_EACH (struct embedding_job, entry, &b->jobs, all_link) {
        if (entry->level && !entry->started_us && partition_ids_have(ids, entry->job))
            release_job(b, entry, released);
    }
}

// ---- inputs ----

// The input has no vector.
static void fail_input(struct embedding_batcher *b, const struct ready_input *input)
{
    struct embedding_job *entry = input->of;
    struct job *job = entry->job;
    struct error error = input->error;
    if (error.status != STATUS_REJECT) {
        note_memory(b);
        return;
    }
    if (job->request.embedding.is_list)
        (void)error_prefix(&error, "%s[%d]", job_input_name(job), input->index);
    else
        (void)error_prefix(&error, "%s", job_input_name(job));
    if (!job->request.embedding.is_partial) {
        if (input->index >= entry->n_wanted)
            return;
        entry->n_wanted = input->index;
        entry->input_error = error;
        if (entry->level)
            end_wait(b, entry);
        return;
    }
    struct embedding *item = &entry->rows[input->index];
    item->items = NULL;
    item->code = error.code;
    if (!job_set_text(job, &item->message, text_from_string(error.text)))
        note_memory(b);
}

static void tokenize_one(void *context, int index, int thread)
{
    struct embedding_batcher *b = context;
    struct ready_input *input = &b->ready[b->n_ready + index];
    const struct embedding_job *entry = input->of;
    (void)thread;
    enum status status = b->config.task->impl->encode(b->config.task, entry->job, &entry->plan, input->index,
                                                      &input->tokens, &input->error);
    assert(status == input->error.status);
}

// Takes the next input of the job whose turn it is: datasets take turns by tokens, the jobs of a dataset an input
// each. Returns the bytes of its text.
static size_t pick_input(struct embedding_batcher *b, struct ready_input *input)
{
    struct embedding_level *level = (struct embedding_level *)b->turns.levels[0];
    struct embedding_job *entry = LIST_ITEM(level->jobs.first, struct embedding_job, link);
    const struct request_input *given = &entry->job->request.embedding.inputs[entry->next];
    int64_t n_tokens = given->text.data ? (int64_t)given->text.size / BYTES_PER_TOKEN + 1 : given->n_tokens;
    *input = (struct ready_input){.of = entry, .index = entry->next, .n_charged = n_tokens};
    if (!entry->started_us) {
        entry->started_us = clock_us();
        if (!allocate_vectors(entry))
            note_memory(b);
    }
    entry->next++;
    entry->n_ready++;
    list_remove(&level->jobs, &entry->link);
    list_append(&level->jobs, &entry->link);
    turns_admit(&b->turns, &level->turn, n_tokens,
                is_waiting(entry) || level->jobs.first != level->jobs.last);
    if (!is_waiting(entry))
        end_wait(b, entry);
    return given->text.data ? given->text.size : (size_t)given->n_tokens * sizeof *given->tokens;
}

// Tokenizes inputs until two steps are ready.
static void refill_ready(struct embedding_batcher *b)
{
    size_t n_wanted = 2 * (size_t)b->config.n_tokens_max;
    int n_most = TOKENIZED_TEXTS * pool_n_threads(b->config.pool);
    while (b->turns.n_levels && b->n_ready < b->n_ready_max && b->n_ready_tokens < n_wanted &&
           b->host.status == STATUS_OK) {
        int n_picked = 0;
        for (size_t n_bytes = 0; b->turns.n_levels && b->n_ready + n_picked < b->n_ready_max &&
                                 n_picked < n_most && n_bytes < TOKENIZED_BYTES_MAX;)
            n_bytes += pick_input(b, &b->ready[b->n_ready + n_picked++]);
        if (b->host.status == STATUS_OK)
            pool_run(b->config.pool, n_picked, tokenize_one, b);
        int32_t first = b->n_ready;
        for (int i = 0; i < n_picked; i++) {
            struct ready_input *input = &b->ready[first + i];
            if (input->error.status == STATUS_OK) {
                b->n_ready_tokens += input->tokens.ids.n_ids;
                turns_charge(&b->turns, input->of->job, (int64_t)input->tokens.ids.n_ids - input->n_charged);
                b->ready[b->n_ready++] = *input;
                continue;
            }
            input->of->n_ready--;
            free_tokens(input);
            fail_input(b, input);
        }
    }
}

// ---- the step ----

// Moves ready inputs to the group: the first one, and those after it that fit into the step beside it.
static int32_t choose_group(struct embedding_batcher *b, int32_t *n_tokens)
{
    int32_t n = 0, n_kept = 0;
    size_t n_ids = 0;
    for (int32_t i = 0; i < b->n_ready; i++) {
        const struct ready_input *input = &b->ready[i];
        const struct token_array *ids = &input->tokens.ids, *types = &input->tokens.types;
        bool fits =
            n == 0 || (n < b->config.n_texts_max && n_ids + ids->n_ids <= (size_t)b->config.n_tokens_max);
        if (!fits) {
            b->ready[n_kept++] = *input;
            continue;
        }
        b->texts[n] = (struct embedding_text){ids->ids, (int32_t)ids->n_ids, types->n_ids ? types->ids : NULL,
                                              input->of->plan.n_dimensions};
        n_ids += ids->n_ids;
        b->group[n++] = *input;
    }
    b->n_ready = n_kept;
    b->n_ready_tokens -= n_ids;
    *n_tokens = (int32_t)n_ids;
    return n;
}

static bool is_finite(const float *vector, int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        if (!isfinite(vector[i]))
            return false;
    return true;
}

static void take_vector(struct embedding_batcher *b, struct ready_input *input, const float *vector)
{
    struct embedding_job *entry = input->of;
    struct job *job = entry->job;
    if (!is_finite(vector, entry->plan.n_dimensions)) {
        (void)error_set(&input->error, STATUS_REJECT, ERROR_LOGITS_NAN,
                        "the model's hidden state has a NaN or an infinity");
        fail_input(b, input);
        return;
    }
    float *items = (float *)entry->rows[input->index].items;
    memcpy(items, vector, (size_t)entry->plan.n_dimensions * sizeof *items);
    job->result.prompt_tokens += (int32_t)input->tokens.ids.n_ids;
    job->result.cut_tokens += (int32_t)input->tokens.n_cut;
}

static enum status compute_step(struct embedding_batcher *b, struct step_figures *figures,
                                struct error *error)
{
    int32_t n_tokens = 0, n_texts = choose_group(b, &n_tokens);
    if (n_texts == 0)
        return STATUS_OK;
    int64_t start_us = clock_us();
    enum status status = b->config.task->impl->compute(b->config.task, b->texts, n_texts, b->vectors, error);
    int64_t computed_us = clock_us();
    for (int32_t i = 0; i < n_texts; i++) {
        b->group[i].of->n_ready--;
        if (status == STATUS_OK)
            take_vector(b, &b->group[i], b->vectors + (ptrdiff_t)i * b->width);
        free_tokens(&b->group[i]);
    }
    figures->n_sequences = n_texts;
    figures->n_tokens = figures->prefill_tokens = n_tokens;
    figures->compute_us = computed_us - start_us;
    figures->finish_us = clock_us() - computed_us;
    figures->finished_us = b->config.wall_clock_us();
    return status;
}

static int32_t count_waiting(const struct embedding_batcher *b)
{
    int64_t n = b->n_ready;
    for (const struct list_link *link = b->jobs.first; link; link = link->next) {
        const struct embedding_job *entry =
            LIST_ITEM((struct list_link *)link, struct embedding_job, all_link);
        n += entry->n_wanted > entry->next ? entry->n_wanted - entry->next : 0;
    }
    return n < INT32_MAX ? (int32_t)n : INT32_MAX;
}

static enum status compute_round(struct job_batcher *base, struct job_list *finished,
                                 struct step_figures *figures, struct error *error)
{
    struct embedding_batcher *b = (struct embedding_batcher *)base;
    int64_t start_us = clock_us();
    admit_jobs(b);
    expire_jobs(b);
    finish_faulty(b, finished);
    refill_ready(b);
    *figures = (struct step_figures){.prepare_us = clock_us() - start_us, .n_waiting = count_waiting(b)};
    enum status status = b->host.status == STATUS_OK ? compute_step(b, figures, error) : b->host.status;
    if (b->host.status != STATUS_OK) {
        *error = b->host;
        return b->host.status;
    }
    if (status == STATUS_OK)
        finish_computed(b, finished);
    return status;
}

static const struct job_batcher_impl *own_impl(void)
{
    static const struct job_batcher_impl impl = {.take = take,
                                                 .is_empty = is_empty,
                                                 .cancel = cancel,
                                                 .round = compute_round,
                                                 .release = release,
                                                 .release_partitions = release_partitions};
    return &impl;
}
