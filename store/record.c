// The projection: what a commit brought, written after it. Losing a record loses figures, never a job.
#include "schemas/clock.h"
#include "store/fold.h"
#include "store/projection.h"

#include <stdio.h>

static enum status insert_step(struct store *store, const struct step_figures *step, struct error *error)
{
    sqlite3_stmt *insert = database_statement(
        &store->database,
        "INSERT INTO batches (worker, finished_at, size, n_rows, prefill_tokens, decode_tokens, generated, preempted,"
        " waiting, pages_used, prepare_ms, plan_ms, compute_ms, finish_ms)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        error);
    if (!insert)
        return error->status;
    BIND_INTEGERS(insert, 1, store->worker, step->finished_us, step->n_sequences, step->n_rows,
                  step->prefill_tokens, step->decode_tokens, step->n_generated, step->n_preempted,
                  step->n_waiting, step->pages_used);
    const int64_t phases[] = {step->prepare_us, step->plan_us, step->compute_us, step->finish_us};
    for (int i = 0; i < 4; i++)
        sqlite3_bind_double(insert, i + 11, (double)phases[i] / 1000);
    return database_run(&store->database, insert, error);
}

static enum status add_steps(struct store *store, const struct store_record *record, struct error *error)
{
    struct step_figures sum = {0};
    int64_t n_sequences = 0, n_rows = 0, prefill = 0, decode = 0, generated = 0, busy_us = 0;
    enum status status = STATUS_OK;
    for (size_t i = 0; status == STATUS_OK && i < record->n_steps; i++) {
        sum = record->steps[i];
        n_sequences += sum.n_sequences;
        n_rows += sum.n_rows;
        prefill += sum.prefill_tokens;
        decode += sum.decode_tokens;
        generated += sum.n_generated;
        busy_us += sum.prepare_us + sum.plan_us + sum.compute_us + sum.finish_us;
        status = insert_step(store, &sum, error);
    }
    if (status == STATUS_OK)
        status = fold_surplus_steps(store, error);
    sqlite3_stmt *update =
        status == STATUS_OK
            ? database_statement(
                  &store->database,
                  "UPDATE workers SET seen_at = ?, n_steps = n_steps + ?, n_sequence_steps ="
                  " n_sequence_steps + ?, n_rows = n_rows + ?, prefill_tokens = prefill_tokens + ?,"
                  " decode_tokens = decode_tokens + ?, generated_tokens = generated_tokens + ?,"
                  " busy_us = busy_us + ? WHERE id = ?",
                  error)
            : NULL;
    if (!update)
        return error->status;
    BIND_INTEGERS(update, 1, clock_wall_us(), (int64_t)record->n_steps, n_sequences, n_rows, prefill, decode,
                  generated, busy_us, store->worker);
    return database_run(&store->database, update, error);
}

static enum status set_prefixes(struct store *store, const struct prefix_report *report, struct error *error)
{
    sqlite3_stmt *update = database_statement(
        &store->database,
        "UPDATE workers SET prefix_lookups = ?, prefix_hits = ?, prefix_tokens = ?, tokens_saved = ?, evictions = ?,"
        " pages_shared = ?, pages_idle = ? WHERE id = ?",
        error);
    if (!update)
        return error->status;
    BIND_INTEGERS(update, 1, report->n_lookups, report->n_hits, report->tokens_looked_up,
                  report->tokens_saved, report->n_evictions, report->pages_shared, report->pages_idle,
                  store->worker);
    enum status status = database_run(&store->database, update, error);
    for (int32_t i = 0; status == STATUS_OK && i < report->n_entries; i++) {
        const struct prefix_report_entry *entry = &report->entries[i];
        sqlite3_stmt *upsert = database_statement(
            &store->database,
            "INSERT INTO prefixes (worker, hash, n_tokens, n_hits, tokens_saved, text) VALUES (?1, ?2, ?3, ?4, ?5, ?6)"
            " ON CONFLICT (worker, hash) DO UPDATE SET n_hits = ?4, tokens_saved = ?5",
            error);
        if (!upsert)
            return error->status;
        BIND_INTEGERS(upsert, 1, store->worker, (int64_t)entry->hash, entry->n_tokens, entry->n_hits,
                      entry->tokens_saved);
        bind_text(upsert, 6, text_from_string(entry->text));
        status = database_run(&store->database, upsert, error);
    }
    return status;
}

// ---- datasets' names ----

// Two job topics, or a topic and the embedded queue, may hold datasets of one name; the rows of both would
// share their keys. The first in the store has the name, the other is called NAME@TOPIC.
struct dataset_name {
    struct dataset_name *next;
    struct text dataset, topic; // a job's
    struct text name;
};

struct dataset_names {
    struct arena arena;
    struct dataset_name *first;
};

static enum status name_is_free(struct store *store, const struct job *job, bool *is_free,
                                struct error *error)
{
    sqlite3_stmt *select =
        database_statement(&store->database, "SELECT topic IS NOT ? FROM jobs WHERE dataset = ? LIMIT 1",
                           error);
    if (!select)
        return error->status;
    bind_text(select, 1, job->source.topic);
    bind_text(select, 2, job->dataset);
    int code = sqlite3_step(select);
    *is_free = code == SQLITE_DONE || (code == SQLITE_ROW && sqlite3_column_int(select, 0) == 0);
    sqlite3_reset(select);
    return code == SQLITE_ROW || code == SQLITE_DONE
               ? STATUS_OK
               : database_error(&store->database, "looking for a dataset's topic", error);
}

static enum status add_name(struct store *store, struct dataset_names *names, const struct job *job,
                            struct text *name, struct error *error)
{
    bool is_free = false;
    struct text topic = job->source.topic;
    size_t size = job->dataset.size + 1 + topic.size;
    enum status status = name_is_free(store, job, &is_free, error);
    if (status != STATUS_OK)
        return status;
    struct dataset_name *item = arena_allocate(&names->arena, sizeof *item);
    char *other = is_free ? NULL : arena_allocate(&names->arena, size + 1);
    if (!item || (!is_free && !other))
        return error_set(error, STATUS_RETRY, ERROR_OUT_OF_MEMORY, "a dataset's name: out of memory");
    if (other)
        snprintf(other, size + 1, "%.*s@%.*s", (int)job->dataset.size, job->dataset.data, (int)topic.size,
                 topic.data);
    *name = other ? (struct text){other, size} : job->dataset;
    *item = (struct dataset_name){names->first, job->dataset, topic, *name};
    names->first = item;
    return STATUS_OK;
}

static enum status name_dataset(struct store *store, struct dataset_names *names, const struct job *job,
                                struct text *name, struct error *error)
{
    *name = job->dataset;
    if (job->source.topic.size == 0)
        return STATUS_OK;
    for (const struct dataset_name *item = names->first; item; item = item->next)
        if (text_equal(item->dataset, job->dataset) && text_equal(item->topic, job->source.topic)) {
            *name = item->name;
            return STATUS_OK;
        }
    return add_name(store, names, job, name, error);
}

// ---- jobs ----

static enum status add_group(struct store *store, const struct job *const *jobs, size_t n_jobs, int64_t now,
                             struct dataset_names *names, struct dataset_totals *totals, struct error *error)
{
    struct published_job published[PROJECTION_ROWS];
    struct job renamed[PROJECTION_ROWS]; // the rest of such a job is the other's
    enum status status = STATUS_OK;
    for (size_t i = 0; i < n_jobs && status == STATUS_OK; i++) {
        struct text name;
        published[i] = (struct published_job){jobs[i], {0}, now};
        status = name_dataset(store, names, jobs[i], &name, error);
        if (status != STATUS_OK || text_equal(name, jobs[i]->dataset))
            continue;
        renamed[i] = *jobs[i];
        renamed[i].dataset = name;
        published[i].job = &renamed[i];
    }
    if (status == STATUS_OK && n_jobs == PROJECTION_ROWS)
        return projection_add_jobs(store, published, totals, error);
    for (size_t i = 0; i < n_jobs && status == STATUS_OK; i++)
        status = projection_add_job(store, &published[i], totals, error);
    return status;
}

static enum status add_jobs(struct store *store, const struct store_record *record, int64_t now,
                            struct dataset_names *names, struct dataset_totals *totals, struct error *error)
{
    enum status status = STATUS_OK;
    for (size_t i = 0; status == STATUS_OK && i < record->n_jobs; i += PROJECTION_ROWS) {
        size_t n = record->n_jobs - i < PROJECTION_ROWS ? record->n_jobs - i : PROJECTION_ROWS;
        status = add_group(store, record->jobs + i, n, now, names, totals, error);
    }
    return status;
}

enum status store_record(struct store *store, const struct store_record *record, struct error *error)
{
    enum status status = database_begin(&store->database, error);
    if (status != STATUS_OK)
        return status;
    struct dataset_totals totals = {0};
    struct dataset_names names = {0};
    int64_t now = clock_wall_us();
    status = add_jobs(store, record, now, &names, &totals, error);
    if (status == STATUS_OK)
        status = totals_write(store, &totals, error);
    if (status == STATUS_OK)
        status = add_steps(store, record, error);
    if (status == STATUS_OK && record->prefixes)
        status = set_prefixes(store, record->prefixes, error);
    for (size_t i = 0; status == STATUS_OK && i < record->n_partitions; i++)
        status = projection_set_partition(store, &record->partitions[i], now, error);
    totals_finish(&totals);
    arena_finish(&names.arena);
    return database_end(&store->database, status, error);
}
