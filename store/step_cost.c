#include "store/step_cost.h"

#include "store/database.h"

#include <math.h>

// Fits a line by least squares from sums over steps; x is tokens, y is milliseconds.
static void fit_line(struct step_cost *cost, double x, double y, double xx, double xy)
{
    double n = (double)cost->n_steps, spread = n * xx - x * x;
    cost->token_ms = spread > 0 ? (n * xy - x * y) / spread : 0;
    cost->base_ms = (y - cost->token_ms * x) / n;
    if (cost->token_ms < 0) {
        cost->token_ms = 0;
        cost->base_ms = y / n;
    } else if (cost->base_ms < 0) {
        cost->base_ms = 0;
        cost->token_ms = xy / xx; // xx > 0, because base_ms is negative only if the steps differ in x
    }
}

static void fit_cost(struct step_cost *cost, double x, double y, double xx, double xy, double yy)
{
    fit_line(cost, x, y, xx, xy);
    double n = (double)cost->n_steps, base = cost->base_ms, token = cost->token_ms;
    double squares =
        yy + n * base * base + token * token * xx - 2 * base * y - 2 * token * xy + 2 * base * token * x;
    cost->noise_ms = n > 2 && squares > 0 ? sqrt(squares / (n - 2)) : 0;
}

// Selects the newest worker with steps, and earlier workers with the same host, backend, model, dataset and
// batch.
#define ALIKE                                                                                                \
    "(SELECT w.id FROM workers w JOIN workers newest ON newest.id = (SELECT max(worker) FROM steps)"         \
    " WHERE w.host = newest.host AND w.backend = newest.backend AND w.model = newest.model"                  \
    " AND w.dataset IS newest.dataset AND w.n_sequences_max = newest.n_sequences_max"                        \
    " AND w.n_tokens_max = newest.n_tokens_max)"

enum status store_step_cost(struct store *store, struct step_cost *cost, struct error *error)
{
    sqlite3_stmt *select = database_statement(
        &store->database,
        "SELECT count(*), total(s.prefill_tokens), total(s.generated),"
        " max(workers.n_sequences_max), max(workers.n_tokens_max), total(x),"
        " total(y), total(x * x), total(x * y), total(y * y), total(s.n_sequences),"
        " (SELECT count(*) FROM jobs WHERE worker IN " ALIKE " AND finished_at_us IS NOT NULL),"
        // Steps at their token limit were full of prompts. Other steps, while sequences waited, had no room
        // for more. At first, however, few sequences compute a prefix for which all others wait. So steps
        // count once the batch or the pages are half used; if they never were, only if such steps are a
        // quarter of all.
        " coalesce(CASE WHEN max(first) IS NOT NULL OR 4 * count(*) FILTER (WHERE s.waiting > 0 AND"
        " x < workers.n_tokens_max) > count(*) THEN avg(s.n_sequences) FILTER (WHERE s.waiting > 0 AND"
        " x < workers.n_tokens_max AND s.id >= coalesce(first, 0)) END, max(workers.n_sequences_max))"
        " FROM (SELECT t.id, worker, n_sequences, waiting, t.prefill_tokens, generated, CAST(t.n_tokens AS REAL) AS x,"
        " prepare_ms + plan_ms + compute_ms + finish_ms AS y,"
        " min(t.id) FILTER (WHERE 2 * n_sequences > n_sequences_max OR 2 * pages_used > n_pages) OVER () AS first"
        " FROM steps t JOIN workers w ON w.id = t.worker WHERE worker IN " ALIKE ") s"
        " JOIN workers ON workers.id = s.worker",
        error);
    if (!select)
        return error->status;
    int code = sqlite3_step(select);
    *cost = (struct step_cost){0};
    if (code == SQLITE_ROW && sqlite3_column_int64(select, 0)) {
        *cost = (struct step_cost){.n_steps = sqlite3_column_int64(select, 0),
                                   .prefill_tokens = sqlite3_column_int64(select, 1),
                                   .generated_tokens = sqlite3_column_int64(select, 2),
                                   .n_tokens = sqlite3_column_int64(select, 5),
                                   .n_sequence_steps = sqlite3_column_int64(select, 10),
                                   .n_jobs = sqlite3_column_int64(select, 11),
                                   .n_sequences_full = sqlite3_column_double(select, 12),
                                   .n_sequences_max = sqlite3_column_int(select, 3),
                                   .n_tokens_max = sqlite3_column_int(select, 4)};
        fit_cost(cost, sqlite3_column_double(select, 5), sqlite3_column_double(select, 6),
                 sqlite3_column_double(select, 7), sqlite3_column_double(select, 8),
                 sqlite3_column_double(select, 9));
    }
    sqlite3_reset(select);
    return code == SQLITE_ROW ? STATUS_OK : database_error(&store->database, "reading steps", error);
}
