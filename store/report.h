// The figures of one dataset for `sheaf report`. Each query returns rows of the fields listed at its name.
// Thread: main.
#pragma once

#include "schemas/value.h"
#include "store/store.h"

enum {
    REPORT_BUCKETS = 48, // of the course of time
    REPORT_BARS = 24,    // of a histogram, at most
    REPORT_LABELS = 20,  // different values that a property may have to be a label
    REPORT_EXAMPLES = 3, // of an error
};

enum report_query {
    // one row, none: no such dataset. model, arithmetic, submitted, done, failed, cancelled, prompt tokens,
    // completion tokens, cached tokens, first and last time as text (UTC), seconds from the first job's start
    // to the last one's end, median and 95th percentile of a job's seconds, jobs and rows answered from equal
    // ones, of these jobs prompt and completion tokens, of these rows both
    REPORT_TOTALS,
    // bucket, seconds of a bucket, jobs finished
    REPORT_JOBS_BY_TIME,
    // bucket, seconds of a bucket, tokens computed, mean sequences of a step; of the steps in the dataset's
    // time
    REPORT_STEPS_BY_TIME,
    // bar, number of bars, largest value, jobs
    REPORT_LATENCIES, // us
    REPORT_PROMPT_LENGTHS,
    REPORT_ANSWER_LENGTHS,
    // code, jobs of the code, an example's custom_id, its message; up to REPORT_EXAMPLES rows a code
    REPORT_ERRORS,
    // property, value, rows, rows of the table: of the table that annotate wrote last, else property
    // ("answer": the whole text), value, answers of jobs, null; by property, the most frequent first
    REPORT_LABELS_BY_PROPERTY,
    // gold label, answer, rows
    REPORT_EVALUATION,
    // of running workers: number, host and process, backend, tokens generated, per busy second, mean batch,
    // prompt tokens from the cache in percent; of all datasets
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

// Rows of a label in a column of annotate's table.
struct label_cell {
    struct text property, label;
    int64_t n_rows;
};
// Replaces the dataset's labels and the number of its table's rows.
enum status store_labels_write(struct store *store, struct text dataset, int64_t n_rows,
                               const struct label_cell *cells, size_t n_cells,
                               struct error *error) WARN_UNUSED;
