// Writes the figures of a commit, after the commit. A lost record loses figures, never a job.
#include "schemas/base/clock.h"
#include "store/compact.h"
#include "store/dataset_name.h"
#include "store/equal_requests.h"
#include "store/projection.h"
#include "store/workers.h"

static enum status insert_step(struct store *store, const struct step_figures *step, struct error *error)
{
    sqlite3_stmt *insert = database_statement(
        &store->database,
        "INSERT INTO steps (worker, finished_at_us, n_sequences, n_tokens, prefill_tokens, decode_tokens,"
        " generated, preempted, waiting, pages_used, forced, drafted, accepted, prepare_ms, plan_ms,"
        " compute_ms, finish_ms) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        error);
    if (!insert)
        return error->status;
    BIND_INTEGERS(insert, 1, store->worker, step->finished_us, step->n_sequences, step->n_tokens,
                  step->prefill_tokens, step->decode_tokens, step->n_generated, step->n_preempted,
                  step->n_waiting, step->pages_used, step->n_forced, step->n_drafted, step->n_accepted);
    const int64_t phases[] = {step->prepare_us, step->plan_us, step->compute_us, step->finish_us};
    for (int i = 0; i < 4; i++)
        sqlite3_bind_double(insert, i + 14, (double)phases[i] / 1000);
    return database_run(&store->database, insert, error);
}

static enum status add_steps(struct store *store, const struct store_record *record, struct error *error)
{
    struct step_figures sum = {0};
    int64_t n_sequences = 0, n_tokens = 0, prefill = 0, decode = 0, generated = 0, forced = 0, busy_us = 0;
    int64_t drafted = 0, accepted = 0;
    enum status status = STATUS_OK;
    for (size_t i = 0; status == STATUS_OK && i < record->n_steps; i++) {
        sum = record->steps[i];
        n_sequences += sum.n_sequences;
        n_tokens += sum.n_tokens;
        prefill += sum.prefill_tokens;
        decode += sum.decode_tokens;
        generated += sum.n_generated;
        forced += sum.n_forced;
        drafted += sum.n_drafted;
        accepted += sum.n_accepted;
        busy_us += sum.prepare_us + sum.plan_us + sum.compute_us + sum.finish_us;
        status = insert_step(store, &sum, error);
    }
    if (status == STATUS_OK)
        status = compact_surplus_steps(store, error);
    sqlite3_stmt *update =
        status == STATUS_OK
            ? database_statement(
                  &store->database,
                  "UPDATE workers SET seen_at_us = ?, n_steps = n_steps + ?, n_sequence_steps ="
                  " n_sequence_steps + ?, n_tokens = n_tokens + ?, prefill_tokens = prefill_tokens + ?,"
                  " decode_tokens = decode_tokens + ?, generated_tokens = generated_tokens + ?,"
                  " forced_tokens = forced_tokens + ?, drafted_tokens = drafted_tokens + ?,"
                  " accepted_tokens = accepted_tokens + ?, busy_us = busy_us + ? WHERE id = ?",
                  error)
            : NULL;
    if (!update)
        return error->status;
    BIND_INTEGERS(update, 1, clock_wall_us(), (int64_t)record->n_steps, n_sequences, n_tokens, prefill,
                  decode, generated, forced, drafted, accepted, busy_us, store->worker);
    return database_run(&store->database, update, error);
}

static enum status set_prefixes(struct store *store, const struct prefix_report *report, struct error *error)
{
    sqlite3_stmt *update = database_statement(
        &store->database,
        "UPDATE workers SET prefix_lookups = ?, prefix_hits = ?, prefix_tokens = ?, tokens_saved = ?,"
        " evictions = ?, pages_shared = ?, pages_idle = ? WHERE id = ?",
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
            "INSERT INTO prefixes (worker, hash, n_tokens, n_hits, tokens_saved, text) VALUES (?1, ?2, ?3,"
            " ?4, ?5, ?6) ON CONFLICT (worker, hash) DO UPDATE SET n_hits = ?4, tokens_saved = ?5",
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

// ---- jobs ----

static enum status add_group(struct store *store, const struct job *const *jobs, size_t n_jobs,
                             int64_t now_us, struct dataset_names *names, struct dataset_totals *totals,
                             struct error *error)
{
    struct published_job published[PROJECTION_ROWS];
    struct job renamed[PROJECTION_ROWS]; // copies with another dataset; the rest is shared
    enum status status = STATUS_OK;
    for (size_t i = 0; i < n_jobs && status == STATUS_OK; i++) {
        struct text name;
        published[i] = (struct published_job){jobs[i], {0}, now_us};
        status = dataset_name_of(store, names, jobs[i]->dataset, jobs[i]->source.topic, &name, error);
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

static enum status add_jobs(struct store *store, const struct store_record *record, int64_t now_us,
                            struct dataset_names *names, struct dataset_totals *totals, struct error *error)
{
    enum status status = STATUS_OK;
    for (size_t i = 0; status == STATUS_OK && i < record->n_jobs; i += PROJECTION_ROWS) {
        size_t n = record->n_jobs - i < PROJECTION_ROWS ? record->n_jobs - i : PROJECTION_ROWS;
        status = add_group(store, record->jobs + i, n, now_us, names, totals, error);
    }
    for (size_t i = 0; status == STATUS_OK && record->results && i < record->n_jobs; i++)
        if (record->results[i].size)
            status = keep_result(store, names, record->jobs[i], record->results[i], error);
    return status;
}

enum status store_record(struct store *store, const struct store_record *record, struct error *error)
{
    enum status status = database_begin(&store->database, error);
    if (status != STATUS_OK)
        return status;
    struct dataset_totals totals = {0};
    struct dataset_names names = {0};
    int64_t now_us = clock_wall_us();
    status = add_jobs(store, record, now_us, &names, &totals, error);
    if (status == STATUS_OK)
        status = totals_write(store, &totals, error);
    if (status == STATUS_OK)
        status = add_steps(store, record, error);
    if (status == STATUS_OK && record->prefixes)
        status = set_prefixes(store, record->prefixes, error);
    for (size_t i = 0; status == STATUS_OK && i < record->n_partitions; i++)
        status = projection_set_partition(store, &record->partitions[i], now_us, error);
    if (status == STATUS_OK && store->worker)
        status = workers_release_partitions(store, store->worker, now_us, error);
    totals_finish(&totals);
    dataset_names_finish(&names);
    return database_end(&store->database, status, error);
}
