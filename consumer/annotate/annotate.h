// sheaf annotate, in three parts: each row becomes a job (annotate_submit.c), the worker computes the jobs
// (consumer/worker/service.h), and a second pass over the table joins the answers to the rows (annotate_collect.c).
// A job's id is the hash of its record, and the record contains everything that the answer depends on. So
// rows with equal records share one job, and a row that an earlier run answered is not computed again: in the
// sample, or before the table grew. Thread: main.
#pragma once

#include "consumer/command/files/output_file.h"
#include "consumer/observe/log.h"
#include "consumer/options/options.h"
#include "consumer/annotate/answer_columns.h"
#include "consumer/annotate/label_counts.h"
#include "consumer/evaluate/comparison.h"
#include "consumer/evaluate/gold_file.h"
#include "consumer/evaluate/label_list.h"
#include "schemas/base/occurrences.h"
#include "consumer/annotate/row_map.h"
#include "consumer/annotate/row_order.h"
#include "consumer/annotate/row_prompt.h"
#include "consumer/annotate/row_scores.h"
#include "consumer/annotate/table_writer.h"
#include "consumer/worker/worker.h"
#include "store/hashed_jobs.h"

enum {
    ANNOTATE_GROUP_JOBS = 32768,     // jobs per transaction: each transaction rewrites the index pages of ids
    ANNOTATE_GROUP_BYTES = 16 << 20, // bytes of records per transaction
    ANNOTATE_ANSWERS_AT_ONCE = 10000, // rows read in one transaction
    ANNOTATE_FAULTS_SHOWN = 10,
};

// Counts of the requests of a whole table (annotate_count.c).
struct request_count {
    struct occurrences draws;    // requests without seed: the number of earlier equal ones gives the seed
    struct occurrences requests; // rows per distinct request, keyed by the hash of request and seed
    struct occurrences missing;  // jobs without a result, keyed by the same hash
    int64_t n_different, n_missing;
};

// The requests and answers of one row.
struct annotate_row {
    struct buffer *records; // [n_questions]: rendered
    int64_t *seeds;         // [n_questions]
    struct job **votes;     // [n_jobs]: of question 0, then of question 1, ...
    int64_t *ids;           // [n_jobs]
    size_t n_jobs;          // n_questions * n_votes
};

// A column of gold labels of --evaluate, and the column of answers that is compared with it.
struct annotate_gold {
    struct comparison comparison;
    size_t column;                   // of the input; columns->n: all gold labels are in --gold
    const struct row_answer *answer; // that is compared
    size_t label_column;             // of this answer
    struct text name;
    bool is_first_property;     // chosen by default: the option named none of several
    int64_t n_none, n_refused;  // rows without a gold label; of these, null where no answer can be null
    int64_t n_no_number;        // gold labels that are no numbers, where answers are
    struct label_list lists[2]; // COMPARED_LISTS, of the row: gold, answer
    struct buffer texts[4];     // of the row
    struct compared_row row;    // the last that was compared
};

// All columns of gold labels. A fault stops the evaluation; the table is still written.
struct annotate_evaluation {
    struct annotate_gold *golds; // [n]
    size_t n;
    bool has_begun;          // answers are compared; before, gold labels are only registered
    struct gold_file *files; // [n_files] of --gold
    size_t n_files;
    size_t group_column;              // --by
    struct buffer group;              // the row's
    struct table_writer *differences; // NULL: none are written
    struct table_columns difference_columns;
    int64_t n_differences;
    struct text
        more_figures;   // further rows of the file of --statistics, in its format; borrowed, empty: none
    enum status status; // not OK: `fault` says why
    struct error fault;
};

// The rows of --sample, as ascending row numbers.
struct annotate_sample {
    int64_t *rows; // [settings->annotate.estimate.n_rows]; NULL: all rows
    int64_t n;
};

// Counters of one pass over the rows.
struct annotate_rows {
    int64_t n, n_bad;
    int64_t n_added;     // jobs new to the store
    uint64_t hash;       // of all rows
    int64_t n_empty;     // with an empty cell in a column that the prompt names
    size_t empty_column; // that column in the first of these rows
};

// The models of --cascade, of which one answered each row (consumer/cascade/cascade.h).
struct annotate_models {
    struct text small, large;   // their names in the column; small.size 0: no column
    const struct job_set *jobs; // of the large model
};

struct annotate {
    const struct settings *settings;
    struct text dataset;
    struct table_source source;
    char **outputs; // [n_outputs] paths: -o, or with --split one for each file of the table
    size_t n_outputs;
    char *store_path, *temporary_folder; // of a store between two streams; NULL: the store stays
    struct store *store;
    struct table_reader *reader;
    struct row_scores scores;       // --rerank, --classify
    struct question_list questions; // of --questions; n 0: without it
    size_t n_questions;             // 1 without --questions
    struct row_prompt *prompts;     // [n_questions]; prompts[0].read has the columns that any of them reads
    struct row_answer *answers;     // [n_questions]
    struct answer_columns columns;  // of all answers
    struct annotate_row row;
    // [row.n_jobs] jobs of each row that was submitted; 0: the row was left out; below 0, with --cascade: the row
    // of this job stays without a label
    struct row_map map;
    struct job_set jobs;       // of all rows
    struct output_file errors; // bad rows; file NULL: no --errors
    int32_t n_votes;
    struct annotate_evaluation evaluation;
    // another column that is read, beside columns of prompts and of --evaluate; NULL: none
    const size_t *also_read;
    struct annotate_models models;
    struct annotate_sample chosen;
    struct request_count count; // for --sample, counted before it is computed
    struct annotate_rows rows;
    struct text_cut *cut;     // --truncate-prompt; NULL: none
    bool is_partial;          // rows without an answer are written too
    int64_t n_open;           // of these, jobs
    struct log_counts counts; // of the worker that computed requests
    bool knows_thoughts;      // their lengths were seen, or a budget limits them
    // Defaults of sampling that the worker applies in this process; NULL: the model's own
    const struct sampling_options *worker_defaults;
};

// Checks that the answers' constraint compiles and that the model has a chat template; keeps neither
// (annotate_constraint.c).
enum status annotate_check_constraint(const struct annotate *annotate, struct error *error) WARN_UNUSED;

// Reads the options of scores, and the labels from the model, over Kafka from --choice if there is no model
// (annotate_scores.c). STATUS_REFUSE: the options contradict each other, or the model has no such head.
enum status annotate_open_scores(struct row_scores *scores, const struct settings *settings,
                                 struct error *error) WARN_UNUSED;

// Checks that the options of prompts and answers go together. STATUS_REFUSE, ERROR_USAGE.
enum status annotate_check_questions(const struct settings *settings, struct error *error) WARN_UNUSED;
// Opens the prompts of all questions, over the columns of a table (annotate_questions.c). Questions that
// annotate->questions has already are not read from the file. STATUS_REFUSE: as of row_prompt_open.
enum status annotate_open_prompts(struct annotate *annotate, const struct table_columns *columns,
                                  struct error *error) WARN_UNUSED;
// Opens the columns of their answers, which are added to `columns`. STATUS_REFUSE: two columns of one name.
enum status annotate_open_answers(struct annotate *annotate, const struct table_columns *columns,
                                  struct error *error) WARN_UNUSED;
void annotate_close_questions(struct annotate *annotate);

// Chooses the columns that are read: columns of prompts and of --evaluate, and all that can be read if the
// output or --errors has their values. STATUS_REFUSE: table_reader_choose.
enum status annotate_choose_columns(struct annotate *annotate, struct error *error) WARN_UNUSED;

// A pass over the table (annotate_rows.c).

// Returns to the first row; resets the counts and the hash of rows.
enum status annotate_rewind(struct annotate *annotate, struct error *error) WARN_UNUSED;
// Reads the next row and skips bad ones; row->fields is NULL at the end. `report`: bad rows are logged and
// written to --errors. STATUS_REFUSE: a bad row, without --skip-bad-rows.
enum status annotate_next_row(struct annotate *annotate, bool report, struct table_row *row,
                              struct error *error) WARN_UNUSED;
// Handles a bad row, whose fault is in *error. STATUS_OK: skip the row.
enum status annotate_reject(struct annotate *annotate, bool report, const struct table_row *row,
                            struct error *error) WARN_UNUSED;
// Gives the complete --errors file its name and records it as an output of the dataset.
enum status annotate_complete_errors(struct annotate *annotate, struct error *error) WARN_UNUSED;
// Always STATUS_REFUSE: this pass over the table found other rows than the previous one.
enum status annotate_refuse_change(const struct annotate *annotate, struct error *error);
// Whether the row is in the sample. Without --sample every row is.
bool annotate_is_chosen(const struct annotate *annotate, int64_t number);
// Renders the row's records into annotate->row.records, without their seeds and closing braces. *is_left_out:
// the row is skipped, because a cell is empty (--skip-empty) or because it can't be rendered (--skip-bad-rows).
// STATUS_REFUSE: it can't be rendered, without --skip-bad-rows. `report`: as for annotate_next_row.
enum status annotate_render(struct annotate *annotate, bool report, struct table_row *row, bool *is_left_out,
                            struct error *error) WARN_UNUSED;
// Chooses the seed of the first vote on a question about the row; each further vote's seed is one higher. A
// given seed is used for every row. Otherwise the seed is a hash of the request and of the number of equal
// requests of this question before it, counted in `draws`. With --same-draws this number is always 0, so equal
// rows get equal answers.
enum status annotate_choose_seed(struct annotate *annotate, size_t question, struct occurrences *draws,
                                 int64_t *seed, struct error *error) WARN_UNUSED;
// Ends the record of vote number `vote`, from 0, on a question: adds its seed and the closing brace.
void annotate_end_record(const struct annotate *annotate, size_t question, int64_t seed, int32_t vote,
                         struct buffer *record);

// Reads the table and queues the requests that have no answer yet. STATUS_REFUSE: a bad row, without
// --skip-bad-rows.
enum status annotate_submit(struct annotate *annotate, struct error *error) WARN_UNUSED;
// --reorder: adds the row to `order`, with a cell for each column that prompts read.
enum status annotate_add_to_order(const struct annotate *annotate, const struct table_row *row,
                                  struct row_order *order, struct error *error) WARN_UNUSED;
// Plans the order of all rows. If a template reads `row` as a whole, the order of its fields is planned too,
// and this call reads the table for it. Otherwise all rows must have been added.
enum status annotate_plan_order(struct annotate *annotate, struct row_order *order,
                                struct error *error) WARN_UNUSED;

// The jobs that a worker in this process computes.
struct annotate_work {
    const struct settings *settings; // with the model
    struct text dataset;
    const struct job_set *jobs;    // that are counted; refill adds its jobs
    bool (*refill)(void *context); // as worker_config.refill; NULL: the jobs are the rows of the table
    void *context;
};

// Computes queued jobs in this process (annotate_work.c). STATUS_RETRY: stopped by a signal.
enum status annotate_compute(struct annotate *annotate, const struct annotate_work *work,
                             struct error *error) WARN_UNUSED;

// With --brokers: submits the queued jobs to the jobs topic and reads their results from the results topic
// until every job has one (annotate_topics.c). STATUS_RETRY: stopped by a signal.
enum status annotate_over_topics(struct annotate *annotate, struct error *error) WARN_UNUSED;

// The same for the jobs of the table.
enum status annotate_work(struct annotate *annotate, struct error *error) WARN_UNUSED;

// Warns of the lengths of thoughts, once, if n_least answers are known (annotate_thoughts.c).
void annotate_warn_of_thoughts(struct annotate *annotate, int32_t n_least);
// The same of a run's first answers. Fits progress_line.watch, with a struct annotate as its context.
void annotate_watch_thoughts(void *context, const struct worker_progress *progress);

// Finds the paths of the outputs; with --split creates their folder (annotate_outputs.c). STATUS_REFUSE: two
// outputs would have one path.
enum status annotate_find_outputs(struct annotate *annotate, struct error *error) WARN_UNUSED;
// STATUS_REFUSE: an output exists, and the dataset did not write it or it was changed since.
enum status annotate_check_own(const struct annotate *annotate, struct error *error) WARN_UNUSED;
// Describes the output with number `part`. n_rows_before: rows of the table before that part's first row.
struct table_target annotate_target(const struct annotate *annotate, size_t part, int64_t n_rows_before);
enum table_format annotate_output_format(const struct annotate *annotate);

// Checks, before anything is computed, that the output can be written and that its format allows these
// columns.
enum status annotate_check_output(const struct annotate *annotate, struct error *error) WARN_UNUSED;
// Writes all rows with their answers. STATUS_RETRY: some rows have no answer yet, and is_partial is not set. STATUS_REJECT,
// ERROR_JOBS_FAILED: the table is written, but some rows failed.
enum status annotate_collect(struct annotate *annotate, struct error *error) WARN_UNUSED;
// Reads and decodes the results of the map's next row into annotate->row.votes, and takes the row's answers
// from them: annotate->columns. *is_left_out: the row has no job. STATUS_RETRY: a result is missing.
enum status annotate_take_answers(struct annotate *annotate, struct buffer *record, bool *is_left_out,
                                  struct error *error) WARN_UNUSED;
// Reads and decodes the result of one job. STATUS_RETRY: it has none.
enum status annotate_read_vote(struct annotate *annotate, int64_t id, struct buffer *record,
                               struct job **vote, struct error *error) WARN_UNUSED;
// Called after annotate_take_answers returned STATUS_OK, when the answers are used.
void annotate_destroy_votes(struct annotate *annotate);
// Finds the columns that --evaluate compares: GOLD, or GOLD=PROPERTY if a schema has several properties; reads --gold.
enum status annotate_open_evaluation(struct annotate *annotate, struct error *error) WARN_UNUSED;
void annotate_close_evaluation(struct annotate *annotate);
// Marks the columns of the input that the evaluation reads: [columns.n].
void annotate_mark_evaluated(const struct annotate *annotate, bool *is_read);
// Registers the row's gold labels and group, before anything is computed. STATUS_REFUSE: the table has more distinct
// gold labels than an evaluation has classes, or more groups than SHARE_GROUPS_MAX.
enum status annotate_expect_gold(struct annotate *annotate, const struct table_row *row,
                                 struct error *error) WARN_UNUSED;
// Compares the row's answers with its gold labels; does nothing without --evaluate. A fault of the evaluation stops it,
// not the table, and is kept in annotate->evaluation.
void annotate_evaluate(struct annotate *annotate, const struct table_row *row);
// The last row's answer and gold label differ.
bool annotate_gold_differs(const struct annotate_gold *gold);

// The results (annotate_statistics.c).

// Writes which columns were compared, and the figures or why there are none.
enum status annotate_write_evaluation(const struct annotate *annotate, struct buffer *out,
                                      struct error *error) WARN_UNUSED;
// Stores the confusion matrix of the first column for `sheaf report`. An evaluation that stopped stores an empty one.
enum status annotate_store_evaluation(const struct annotate *annotate, struct error *error) WARN_UNUSED;
// Prints and stores the evaluation, and writes the file of --statistics.
enum status annotate_complete_evaluation(struct annotate *annotate, struct error *error) WARN_UNUSED;

// --differences (annotate_differences.c).

// Checks, before anything is computed, that the files of --differences and --statistics may be written.
enum status annotate_check_differences(struct annotate *annotate, struct error *error) WARN_UNUSED;
// Writes a line for each gold label of the row that its answer is not.
enum status annotate_write_differences(struct annotate *annotate, const struct table_row *row,
                                       struct error *error) WARN_UNUSED;
// Opens the file of --differences, if it is wanted and not open.
enum status annotate_open_differences(struct annotate *annotate, struct error *error) WARN_UNUSED;
enum status annotate_complete_differences(struct annotate *annotate, struct error *error) WARN_UNUSED;
// Prints text for people to standard output, or to standard error if the table goes to standard output.
enum status annotate_print(const struct annotate *annotate, const struct buffer *text,
                           struct error *error) WARN_UNUSED;

// Prints the sample's rows with their answers, and an estimate of tokens, price and time for all rows
// (annotate_sample.c).
enum status annotate_report_sample(struct annotate *annotate, struct error *error) WARN_UNUSED;
// Prints the number of tokens of all prompts, and of the distinct ones. Needs no store.
enum status annotate_estimate(struct annotate *annotate, struct error *error) WARN_UNUSED;
// Counts the rendered request of a question, and ends its record. *n_before: earlier rows with an equal request.
enum status annotate_count_request(struct annotate *annotate, size_t question, struct request_count *count,
                                   uint64_t *n_before, struct error *error) WARN_UNUSED;
// Computes the hash of the rendered row's requests and seeds, by which rows are counted for --sample.
enum status annotate_hash_row(struct annotate *annotate, struct occurrences *draws, uint64_t *hash,
                              struct error *error) WARN_UNUSED;
void request_count_finish(struct request_count *count);
// Counts the table's requests and draws the rows of --sample: one at random from each of N equal parts of the
// table.
enum status annotate_choose_sample(struct annotate *annotate, struct error *error) WARN_UNUSED;
