#include "store/report.h"

#include "store/database.h"
#include "store/workers.h"

#define TEXT_OF(number) #number
#define NUMBER(name)    TEXT_OF(name)
#define BUCKETS         48
#define BARS            24
#define LABELS          20
#define EXAMPLES        3
_Static_assert(BUCKETS == REPORT_BUCKETS && BARS == REPORT_BARS && LABELS == REPORT_LABELS &&
                   EXAMPLES == REPORT_EXAMPLES,
               "in SQL as in report.h");

enum { FIELDS_MAX = 20 };

// The time that a job spent in the worker, in us.
#define JOB_US "coalesce(queued_us, 0) + coalesce(prefill_us, 0) + coalesce(decode_us, 0)"

// Round bucket widths: 1, 2 and 5 times powers of 10. From 10 s on: parts and multiples of minutes, hours and
// days.
#define POWERS                                                                                               \
    "WITH RECURSIVE power(p) AS (VALUES (1) UNION ALL SELECT p * 10 FROM power WHERE p < 1000000000000000)," \
    " decimal(w) AS (SELECT p * column1 FROM power, (VALUES (1), (2), (5))),"
#define TIMES                                                                                                \
    " time(w) AS (SELECT w FROM decimal WHERE w < 10000000"                                                  \
    " UNION ALL SELECT column1 * 1000000 FROM (VALUES (10), (15), (30), (60), (120), (300), (600), (900),"   \
    "  (1800), (3600), (7200), (18000), (36000))"                                                            \
    " UNION ALL SELECT w * 86400000000 FROM decimal WHERE w < 100000),"

// The time of the dataset from `a` to `b`, divided into `n` buckets of `w` us. `n` is at most REPORT_BUCKETS.
#define SPAN                                                                                                 \
    POWERS TIMES " span AS (SELECT min(finished_at_us - (" JOB_US                                            \
                 ")) AS a, max(finished_at_us) AS b FROM jobs"                                               \
                 " WHERE dataset = ?1 AND finished_at_us IS NOT NULL),"                                      \
                 " bucket AS (SELECT a, b, w, (b - a) / w + 1 AS n FROM span,"                               \
                 "  (SELECT min(w) AS w FROM time, span WHERE w * " NUMBER(BUCKETS) " > b - a)) "

#define BARS_TEXT NUMBER(BARS)
#define HISTOGRAM(x)                                                                                         \
    POWERS " v AS (SELECT " x " AS x FROM jobs WHERE dataset = ?1 AND status = 'done'),"                     \
           " m AS (SELECT max(x) AS top FROM v),"                                                            \
           " bar AS (SELECT top, min(w) AS w FROM decimal, m WHERE w * " BARS_TEXT " > top)"                 \
           " SELECT x / w, top / w + 1, w, count(*) FROM v, bar WHERE x IS NOT NULL GROUP BY 1 ORDER BY 1"

// A percentile of the times of done jobs, in seconds. `share` is 0..1.
#define PERCENTILE(share)                                                                                    \
    "(SELECT (" JOB_US ") / 1e6 FROM jobs WHERE dataset = ?1 AND status = 'done' ORDER BY 1 LIMIT 1 OFFSET"  \
    " (SELECT CAST((count(*) - 1) * " share                                                                  \
    " AS INTEGER) FROM jobs WHERE dataset = ?1 AND status = 'done'))"

static const char *const queries[REPORT_QUERY_COUNT] = {
    [REPORT_TOTALS] =
        "SELECT model, arithmetic, n_submitted, n_done, n_failed, n_cancelled, prompt_tokens,"
        " completion_tokens, cached_tokens,"
        " strftime('%Y-%m-%d %H:%M:%S', first_finished_at_us / 1000000, 'unixepoch'),"
        " strftime('%Y-%m-%d %H:%M:%S', last_finished_at_us / 1000000, 'unixepoch'),"
        " (SELECT (max(finished_at_us) - min(finished_at_us - (" JOB_US "))) / 1e6 FROM jobs"
        "  WHERE dataset = ?1 AND finished_at_us IS NOT NULL"
        "  AND status <> 'cancelled'), " PERCENTILE("0.5") ", " PERCENTILE(
            "0.95") ", n_duplicates + n_duplicate_rows, duplicate_prompt_tokens, duplicate_completion_tokens,"
                    " duplicate_row_tokens, (SELECT jobs_per_second FROM progress WHERE dataset = ?1)"
                    " FROM datasets WHERE dataset = ?1",
    [REPORT_JOBS_BY_TIME] = SPAN "SELECT (finished_at_us - a) / w, n, w / 1e6, count(*) FROM jobs, bucket"
                                 " WHERE dataset = ?1 AND finished_at_us IS NOT NULL GROUP BY 1 ORDER BY 1",
    [REPORT_STEPS_BY_TIME] = SPAN
    "SELECT (s.finished_at_us - a) / w, n, w / 1e6, sum(s.prefill_tokens + s.generated), avg(s.n_sequences)"
    " FROM steps s JOIN workers ON workers.id = s.worker, bucket WHERE s.finished_at_us BETWEEN a AND b"
    " AND coalesce(nullif(workers.dataset, ''), ?1) = ?1 GROUP BY 1 ORDER BY 1",
    [REPORT_LATENCIES] = HISTOGRAM(JOB_US),
    [REPORT_PROMPT_LENGTHS] = HISTOGRAM("prompt_tokens"),
    [REPORT_ANSWER_LENGTHS] = HISTOGRAM("completion_tokens"),
    [REPORT_ERRORS] =
        "SELECT f.error_code, f.jobs, coalesce(e.name, f.example), coalesce(e.error, f.message)"
        " FROM failures f LEFT JOIN (SELECT error_code, error, iif((SELECT is_table FROM datasets"
        "   WHERE dataset = ?1), coalesce('row ' || job_index, custom_id), custom_id) AS name,"
        "  row_number() OVER (PARTITION BY error_code ORDER BY id) AS place FROM jobs"
        "  WHERE dataset = ?1 AND error_code IS NOT NULL) e"
        " ON e.error_code = f.error_code AND e.place <= " NUMBER(
            EXAMPLES) " WHERE f.dataset = ?1 ORDER BY f.jobs DESC, f.error_code, e.place",
    [REPORT_LABELS_BY_PROPERTY] =
        "WITH given AS (SELECT iif(json_valid(answer) AND substr(ltrim(answer), 1, 1) = '{', answer,"
        "  json_object('answer', trim(answer))) AS object FROM answers WHERE dataset = ?1 AND status = 'done'"
        "  AND (SELECT n_table_rows FROM datasets WHERE dataset = ?1) IS NULL),"
        " counted AS (SELECT key, iif(type IN ('true', 'false', 'null'), type, CAST(value AS TEXT)) AS label,"
        "  count(*) AS n"
        "  FROM given, json_each(object) WHERE type NOT IN ('array', 'object') GROUP BY 1, 2)"
        " SELECT key, label, n, NULL FROM (SELECT *, count(*) OVER (PARTITION BY key) AS n_labels,"
        "  max(n) OVER (PARTITION BY key) AS most FROM counted) WHERE n_labels <= " NUMBER(
            LABELS) " AND most > 1"
                    " UNION ALL SELECT property, label, n, n_table_rows FROM table_labels"
                    "  JOIN datasets USING (dataset) WHERE dataset = ?1"
                    " ORDER BY 1, 3 DESC, 2",
    [REPORT_WORKERS] =
        "SELECT id, host || ' ' || pid, backend, generated_tokens, generated_tokens * 1e6 / max(busy_us, 1),"
        " 1.0 * n_sequence_steps / max(n_steps, 1), 100.0 * tokens_saved / max(prefix_tokens, 1) FROM workers"
        " WHERE stopped_at_us IS NULL AND ?1 IS NULL ORDER BY seen_at_us DESC LIMIT 32",
    [REPORT_EVALUATION] = "SELECT gold, answer, n FROM evaluations WHERE dataset = ?1 ORDER BY gold, answer",
};

static struct value field_of(sqlite3_stmt *select, int column)
{
    switch (sqlite3_column_type(select, column)) {
    case SQLITE_INTEGER:
        return value_integer(sqlite3_column_int64(select, column));
    case SQLITE_FLOAT:
        return value_float(sqlite3_column_double(select, column));
    case SQLITE_NULL:
        return (struct value){.kind = VALUE_NULL};
    default:
        return value_string(column_text(select, column));
    }
}

enum status store_report(struct store *store, enum report_query query, struct text dataset,
                         void (*receive)(void *context, const struct value *fields), void *context,
                         struct error *error)
{
    sqlite3_stmt *select = database_statement(&store->database, queries[query], error);
    if (!select)
        return error->status;
    bind_text(select, 1, dataset);
    enum status status = STATUS_OK;
    int code = SQLITE_DONE;
    while (status == STATUS_OK && (code = sqlite3_step(select)) == SQLITE_ROW) {
        bool passed = true;
        if (query == REPORT_WORKERS)
            status = worker_is_alive(store, sqlite3_column_int64(select, 0), &passed, error);
        struct value fields[FIELDS_MAX];
        for (int i = 0; i < sqlite3_column_count(select) && i < FIELDS_MAX; i++)
            fields[i] = field_of(select, i);
        if (passed)
            receive(context, fields);
    }
    sqlite3_reset(select);
    return status != STATUS_OK || code == SQLITE_DONE
               ? status
               : database_error(&store->database, "reading the report's figures", error);
}

static enum status write_cells(struct store *store, struct text dataset, const struct evaluation_cell *cells,
                               size_t n_cells, struct error *error)
{
    sqlite3_stmt *delete =
        database_statement(&store->database, "DELETE FROM evaluations WHERE dataset = ?", error);
    if (!delete)
        return error->status;
    bind_text(delete, 1, dataset);
    enum status status = database_run(&store->database, delete, error);
    for (size_t i = 0; i < n_cells && status == STATUS_OK; i++) {
        sqlite3_stmt *insert =
            database_statement(&store->database, "INSERT INTO evaluations VALUES (?, ?, ?, ?)", error);
        if (!insert)
            return error->status;
        bind_text(insert, 1, dataset);
        bind_text(insert, 2, cells[i].gold);
        bind_text(insert, 3, cells[i].answer);
        bind_integer(insert, 4, cells[i].n_rows);
        status = database_run(&store->database, insert, error);
    }
    return status;
}

enum status store_evaluation_write(struct store *store, struct text dataset,
                                   const struct evaluation_cell *cells, size_t n_cells, struct error *error)
{
    enum status status = database_begin(&store->database, error);
    if (status != STATUS_OK)
        return status;
    status = write_cells(store, dataset, cells, n_cells, error);
    return database_end(&store->database, status, error);
}

static enum status write_labels(struct store *store, struct text dataset, int64_t n_rows,
                                const struct label_cell *cells, size_t n_cells, struct error *error)
{
    sqlite3_stmt *update =
        database_statement(&store->database, "UPDATE datasets SET n_table_rows = ? WHERE dataset = ?", error);
    if (!update)
        return error->status;
    bind_integer(update, 1, n_rows);
    bind_text(update, 2, dataset);
    enum status status = database_run(&store->database, update, error);
    sqlite3_stmt *delete =
        status == STATUS_OK
            ? database_statement(&store->database, "DELETE FROM table_labels WHERE dataset = ?", error)
            : NULL;
    if (!delete)
        return error->status;
    bind_text(delete, 1, dataset);
    status = database_run(&store->database, delete, error);
    for (size_t i = 0; i < n_cells && status == STATUS_OK; i++) {
        sqlite3_stmt *insert =
            database_statement(&store->database, "INSERT INTO table_labels VALUES (?, ?, ?, ?)", error);
        if (!insert)
            return error->status;
        bind_text(insert, 1, dataset);
        bind_text(insert, 2, cells[i].property);
        bind_text(insert, 3, cells[i].label);
        bind_integer(insert, 4, cells[i].n_rows);
        status = database_run(&store->database, insert, error);
    }
    return status;
}

enum status store_labels_write(struct store *store, struct text dataset, int64_t n_rows,
                               const struct label_cell *cells, size_t n_cells, struct error *error)
{
    enum status status = database_begin(&store->database, error);
    if (status != STATUS_OK)
        return status;
    status = write_labels(store, dataset, n_rows, cells, n_cells, error);
    return database_end(&store->database, status, error);
}
