// sheaf annotate --cascade SMALL,LARGE: the small model labels all rows with the probabilities of the choices, and the
// large one those rows where keeping the small model's label would break the guarantee.
//
//   annotate_submit, annotate_work      the small model's label of each row (dataset NAME)
//   cascade_run                         its rows (cascade_rows.c), then the large model (dataset NAME-large), loaded once:
//     a threshold of the probability    by rows that are drawn for the large model (threshold_search.h),
//                                       or by rows with a gold label (gold_threshold.h)
//     the other rows                    to the large model, or without one they stay open
//     annotate->map                     the job that labels each row
//   annotate_collect, cascade_report
//
// The draws follow from the seed, and the choices from the answers, which the store keeps: a run that was killed makes
// the same draws again and finds their answers. Thread: main.
#pragma once

#include "consumer/annotate/annotate.h"
#include "consumer/cascade/gold_threshold.h"
#include "consumer/cascade/threshold_search.h"

enum { CASCADE_OPEN = -1 }; // struct cascade_row.large of a row that stays without a label

enum cascade_phase {
    CASCADE_DRAWING, // rows that were drawn, or have a gold label, are asked for
    CASCADE_REST,    // all other rows that the large model labels are asked for
    CASCADE_DONE,
};

enum { LABEL_NONE = -1, LABEL_OTHER = -2 }; // no label; a gold label that is no choice

struct cascade_row {
    int64_t small, large; // jobs; small 0: the row was left out; large 0: not asked
    float score;          // probability of the small model's label; NAN: it has none
    int16_t label, gold;  // numbers of choices, or as above
};

struct cascade {
    // of the options (cascade_options.c)
    struct arena arena; // of the names
    double target, confidence;
    struct settings small_settings, large_settings; // with their models
    const char *small_name, *large_name; // as the output and the messages name them; NULL: no large model
    const char *gold_name;               // --gold-column; NULL: without it
    size_t gold_column;                  // its place
    // of the run
    struct annotate *annotate;
    struct cascade_row *rows; // [n], in the table's order
    int32_t n;
    int32_t n_rows, n_gold; // that were not left out; that have a gold label
    struct score_ranking ranking;
    struct threshold_search search;
    struct gold_threshold gold;
    int32_t n_kept; // rows of the ranking whose small label may be kept
    enum cascade_phase phase;
    const int32_t *drawn; // [n_drawn] ranks that threshold_search_next passed and that are not answered yet
    int32_t n_drawn;
    char large_dataset[JOB_DATASET_BYTES_MAX + 1];
    struct job_set large_jobs;
    struct error fault; // while the worker runs; status STATUS_OK: none
    struct buffer record, figures;
};

// Checks the options; does nothing without --cascade. STATUS_REFUSE: an option is missing, or does not fit.
enum status cascade_open(struct cascade *cascade, const struct settings *settings,
                         struct error *error) WARN_UNUSED;
void cascade_close(struct cascade *cascade);
static inline bool cascade_is_asked(const struct cascade *cascade)
{
    return cascade->small_name != NULL;
}
// Checks the large model's header and template, and finds the column of --gold-column. Called when the prompt, the answers and
// the table of `annotate` are open, which must live as long.
enum status cascade_check(struct cascade *cascade, struct annotate *annotate,
                          struct error *error) WARN_UNUSED;
// Chooses each row's model after the small one has labelled all rows, and computes the large model's labels.
// STATUS_RETRY: stopped by a signal. STATUS_REJECT: the guarantee can't be given.
enum status cascade_run(struct cascade *cascade, struct error *error) WARN_UNUSED;
// Makes the cascade's rows of the file of --statistics, which `annotate` writes.
enum status cascade_add_figures(struct cascade *cascade, struct error *error) WARN_UNUSED;
// Prints which model labelled how many rows, and what is guaranteed (cascade_report.c).
enum status cascade_report(const struct cascade *cascade, struct error *error) WARN_UNUSED;

// Reads the small model's labels, and the gold ones, into cascade->rows (cascade_rows.c).
enum status cascade_read_rows(struct cascade *cascade, struct error *error) WARN_UNUSED;
// The number of the choice that the decoded result is; LABEL_NONE: the result is no choice. *score: its probability, or NAN.
enum status cascade_label(struct cascade *cascade, struct job *job, int16_t *label, float *score,
                          struct error *error) WARN_UNUSED;
// Writes the job that labels each row to annotate->map. Equal rows have equal labels: a row whose request the large
// model has answered for another row gets that answer.
enum status cascade_map_rows(struct cascade *cascade, struct error *error) WARN_UNUSED;

// Queues the requests of the first n rows of `rows` for the large model (cascade_large.c).
enum status cascade_ask(struct cascade *cascade, const int32_t *rows, int32_t n,
                        struct error *error) WARN_UNUSED;
// Computes the rows that the large model is asked for. `refill` adds further rows (worker_config.refill).
enum status cascade_work(struct cascade *cascade, bool (*refill)(void *context),
                         struct error *error) WARN_UNUSED;
// The large model's label of a row that it was asked for and has answered.
enum status cascade_large_label(struct cascade *cascade, int32_t row, int16_t *label,
                                struct error *error) WARN_UNUSED;
