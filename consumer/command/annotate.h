// sheaf annotate in three parts: rows become jobs (annotate_submit.c), the worker answers them (service.h),
// and answers are joined to the rows in a second pass over the table (annotate_collect.c). A job's id is the
// hash of its record, which says all that the answer depends on: so equal rows are one job, and a row that
// was answered before, in the sample or before the table grew, is not computed again. Thread: main.
#pragma once

#include "consumer/command/output_file.h"
#include "consumer/options.h"
#include "consumer/table/evaluation.h"
#include "consumer/table/label_counts.h"
#include "schemas/occurrences.h"
#include "consumer/table/row_answer.h"
#include "consumer/table/row_map.h"
#include "consumer/table/row_order.h"
#include "consumer/table/row_prompt.h"
#include "consumer/table/table_reader.h"
#include "store/hashed_jobs.h"

enum {
    ANNOTATE_GROUP_JOBS = 32768, // queued in one transaction: each writes the pages of the index of ids again
    ANNOTATE_GROUP_BYTES = 16 << 20,  // or when their records have this many
    ANNOTATE_ANSWERS_AT_ONCE = 10000, // rows read in one transaction
    ANNOTATE_FAULTS_SHOWN = 10,
};

// Requests of a whole table (annotate_count.c).
struct request_count {
    struct occurrences draws;    // of each request without its seed, from which the seed follows
    struct occurrences requests; // rows of each different one, by the hash of request and seed
    struct occurrences missing;  // jobs of these that have no result
    int64_t n_different, n_missing;
};

// The gold labels of --evaluate.
struct annotate_gold {
    struct evaluation evaluation;
    size_t column; // of the input
    struct text name;
    bool is_first_property; // that is compared, of several
    bool has_begun;         // not only expected
    enum status status;     // else the evaluation has ended, by `fault`: the table is written all the same
    struct error fault;
    int64_t n_none, n_refused; // rows without a gold label; of these, with a null that no answer can be
};

// Numbers of the rows chosen, ascending.
struct annotate_sample {
    int64_t *rows; // [settings->annotate.estimate.n_rows]; NULL: all rows
    int64_t n;
};

// Counted in a pass over the rows.
struct annotate_rows {
    int64_t n, n_bad;
    int64_t n_added;     // jobs new to the store
    uint64_t hash;       // of all rows
    int64_t n_empty;     // with an empty cell that the prompt names
    size_t empty_column; // of the first of them
};

struct annotate {
    const struct settings *settings;
    struct text dataset;
    struct table_source source;
    char *store_path;
    struct store *store;
    struct table_reader *reader;
    struct row_prompt prompt;
    struct row_answer answer;
    struct row_map map;        // jobs of each row that was submitted; 0: the row was left out
    struct job_set jobs;       // of all rows
    struct output_file errors; // bad rows; file NULL: nowhere
    int32_t n_votes;
    struct annotate_gold gold;
    struct annotate_sample chosen;
    struct request_count count; // of --sample, before it is answered
    struct annotate_rows rows;
};

// Compiles the answers' constraint and looks for the chat template, for the errors alone
// (annotate_constraint.c).
enum status annotate_check_constraint(const struct annotate *annotate, struct error *error) WARN_UNUSED;

// A pass over the table (annotate_rows.c).

// To the first row, with counts and hash from nothing.
enum status annotate_rewind(struct annotate *annotate, struct error *error) WARN_UNUSED;
// Reads the next row, skipping bad ones; row->fields NULL: the end. `report`: bad rows are logged and written
// to --errors.
enum status annotate_next_row(struct annotate *annotate, bool report, struct table_row *row,
                              struct error *error) WARN_UNUSED;
// Handles a row that cannot be used. STATUS_OK: skip it.
enum status annotate_reject(struct annotate *annotate, bool report, const struct table_row *row,
                            struct error *error) WARN_UNUSED;
// Gives --errors its name, and notes it as the dataset's.
enum status annotate_complete_errors(struct annotate *annotate, struct error *error) WARN_UNUSED;
// STATUS_REFUSE: a pass over the table found other rows than the one before.
enum status annotate_refuse_change(const struct annotate *annotate, struct error *error);
// Is the row in the sample? Without a sample all are.
bool annotate_is_chosen(const struct annotate *annotate, int64_t number);
// The row's record in `record`, but for its seed and its end. *is_left_out: it can't be rendered and is
// skipped, else that is STATUS_REFUSE. `report`: as annotate_next_row.
enum status annotate_render(struct annotate *annotate, bool report, struct table_row *row,
                            struct buffer *record, bool *is_left_out, struct error *error) WARN_UNUSED;
// The seed of a row's first answer; that of each further one is the next number. Without one that was given,
// it is a hash of the request, and of the number of equal requests before it (`draws`) where equal rows draw
// for themselves.
enum status annotate_choose_seed(struct annotate *annotate, struct occurrences *draws,
                                 const struct buffer *record, int64_t *seed, struct error *error) WARN_UNUSED;
// Ends the record of a row's vote.
void annotate_end_record(const struct annotate *annotate, int64_t seed, int32_t vote, struct buffer *record);

// Reads the table and queues what has no answer yet. STATUS_REFUSE: a bad row, without --skip-bad-rows.
enum status annotate_submit(struct annotate *annotate, struct error *error) WARN_UNUSED;
// --reorder: the row's fields that prompts read.
enum status annotate_add_to_order(const struct annotate *annotate, const struct table_row *row,
                                  struct row_order *order, struct error *error) WARN_UNUSED;
// Plans the order of all rows: where the template lists fields, of the table, which is read for it, and of
// their fields; else of those that were added.
enum status annotate_plan_order(struct annotate *annotate, struct row_order *order,
                                struct error *error) WARN_UNUSED;

// With --brokers: submits the queued jobs to the jobs topic and takes their results from the results topic,
// until each has one (annotate_topics.c). STATUS_RETRY: stopped by a signal.
enum status annotate_over_topics(struct annotate *annotate, struct error *error) WARN_UNUSED;

// Can the output be written, and would it take these columns? Before anything is computed.
enum status annotate_check_output(const struct annotate *annotate, struct error *error) WARN_UNUSED;
// Writes all rows with their answers. STATUS_RETRY: some have none yet. STATUS_REJECT, ERROR_JOBS_FAILED: all
// is written, some failed.
enum status annotate_collect(struct annotate *annotate, struct error *error) WARN_UNUSED;
// The decoded results of the next row of the map: votes[annotate->n_votes], the caller's to destroy.
// *is_left_out: the row has no job. STATUS_RETRY: a result is missing.
enum status annotate_read_votes(struct annotate *annotate, struct buffer *record, struct job **votes,
                                bool *is_left_out, struct error *error) WARN_UNUSED;
void annotate_destroy_votes(struct annotate *annotate, struct job **votes);
// Finds the columns that --evaluate compares: GOLD, or GOLD=PROPERTY where a schema has several.
enum status annotate_open_evaluation(struct annotate *annotate, struct error *error) WARN_UNUSED;
// Before anything is computed. STATUS_REFUSE: with the row's there are more gold labels than an evaluation
// has classes.
enum status annotate_expect_gold(struct annotate *annotate, const struct table_row *row,
                                 struct error *error) WARN_UNUSED;
// The row's label among the gold ones; without --evaluate nothing. A fault ends the evaluation, not the
// table: annotate->gold.status.
void annotate_evaluate(struct annotate *annotate, const struct table_row *row);
// Which columns were compared, and the evaluation's tables; or that there is none.
void annotate_write_evaluation(const struct annotate *annotate, struct buffer *out);
// The confusion matrix is kept for `sheaf report`; of an evaluation that ended none.
enum status annotate_store_evaluation(const struct annotate *annotate, struct error *error) WARN_UNUSED;
// Text for people: on standard output, unless that is the table.
enum status annotate_print(const struct annotate *annotate, const struct buffer *text,
                           struct error *error) WARN_UNUSED;

// Prints the sample's rows with their answers, and what all rows will take (annotate_sample.c).
enum status annotate_report_sample(struct annotate *annotate, struct error *error) WARN_UNUSED;
// Prints the number of tokens of all prompts, and of different ones. No store is needed.
enum status annotate_estimate(struct annotate *annotate, struct error *error) WARN_UNUSED;
// Counts the row's request; *n_before: equal ones of rows before. `record`: as annotate_render leaves it,
// ended by this. `looks_for_results`: a new request's jobs without a result are counted too.
enum status annotate_count_request(struct annotate *annotate, struct request_count *count,
                                   struct buffer *record, bool looks_for_results, uint64_t *n_before,
                                   struct error *error) WARN_UNUSED;
// The hash of request and seed, by which annotate_count_request counts.
enum status annotate_hash_request(struct annotate *annotate, struct occurrences *draws,
                                  const struct buffer *record, int64_t *seed, uint64_t *hash,
                                  struct error *error) WARN_UNUSED;
void request_count_finish(struct request_count *count);
// Counts the table's requests, and draws the rows of --sample: one at random from each of N equal parts of
// the table.
enum status annotate_choose_sample(struct annotate *annotate, struct error *error) WARN_UNUSED;
