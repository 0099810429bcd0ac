// The figures of one dataset for `sheaf report`. The comment of each query lists the fields of its rows.
// Thread: main.
#pragma once

#include "schemas/value.h"
#include "store/store.h"

enum {
    REPORT_BUCKETS = 48, // maximum number of intervals of time
    REPORT_BARS = 24,    // maximum number of bars in a histogram
    REPORT_LABELS = 20,  // a property with more different values is not a label
    REPORT_EXAMPLES = 3, // per error code
};

enum report_query {
    // One row, or no row if the dataset does not exist. Fields:
    //   model, arithmetic
    //   submitted, done, failed, cancelled (jobs); prompt, completion, cached tokens
    //   first and last time a job finished, as text (UTC)
    //   seconds from the first job's start to the last job's end; median and 95th percentile of a job's time
    //   duplicates: jobs and table rows answered from equal ones; prompt tokens of these jobs; their
    //     completion tokens; all tokens of these rows
    //   jobs per second
    REPORT_TOTALS,
    // bucket, number of buckets, seconds per bucket, jobs finished
    REPORT_JOBS_BY_TIME,
    // steps between the dataset's first start and last end: bucket, number of buckets, seconds per bucket,
    // tokens computed, mean sequences per step
    REPORT_STEPS_BY_TIME,
    // bar, number of bars, width of a bar, jobs
    REPORT_LATENCIES, // us
    REPORT_PROMPT_LENGTHS,
    REPORT_ANSWER_LENGTHS,
    // up to REPORT_EXAMPLES rows per code: code, jobs with the code, an example's custom_id, its message
    REPORT_ERRORS,
    // By property, the most frequent value first. With a table written by annotate: property, value, rows
    // with the value, rows of the table. Otherwise: property ("answer" is the whole text), value, answers
    // with the value, null.
    REPORT_LABELS_BY_PROPERTY,
    // gold label, answer, rows
    REPORT_EVALUATION,
    // Running workers of all datasets: id, host and process, backend, tokens generated, tokens per busy
    // second, mean batch, percentage of prompt tokens from the cache.
    REPORT_WORKERS,
    REPORT_QUERY_COUNT
};

// Calls `receive` for each row.
enum status store_report(struct store *store, enum report_query query, struct text dataset,
                         void (*receive)(void *context, const struct value *fields), void *context,
                         struct error *error) WARN_UNUSED;

// A cell of a confusion matrix.
struct evaluation_cell {
    struct text gold, answer;
    int64_t n_rows;
};
// Replaces the dataset's evaluation.
enum status store_evaluation_write(struct store *store, struct text dataset,
                                   const struct evaluation_cell *cells, size_t n_cells,
                                   struct error *error) WARN_UNUSED;

// Number of rows that have a label in a column of annotate's table.
struct label_cell {
    struct text property, label;
    int64_t n_rows;
};
// Replaces the dataset's labels, and the number of rows of its table.
enum status store_labels_write(struct store *store, struct text dataset, int64_t n_rows,
                               const struct label_cell *cells, size_t n_cells,
                               struct error *error) WARN_UNUSED;
