// Shares of labels in all rows of a table, and in groups of its rows, from the answers to all rows and the gold labels
// of some: prediction-powered inference (Angelopoulos et al., "Prediction-powered inference", Science 382, 2023, and
// "PPI++", arXiv 2311.01453). The intervals hold however often the answers are wrong; better answers make them shorter.
//
// Assumption: the rows with gold labels are a simple random sample of the table. The population is the table, so the
// gold labels of all rows leave nothing to estimate.
//
// For one label, "the answer has it" and "the gold label is it" are 0 or 1. Then the estimate of PPI++ with the best
// weight of the answers is the post-stratified one (Särndal, Swensson, Wretman, "Model Assisted Survey Sampling", 7.6):
//
//   share = W1 p1 + W0 p0
//
//   W1, W0    shares of the rows whose answer has the label, and has not: known from all rows
//   p1, p0    of these rows, the share whose gold label it is: estimated from the gold rows among them
//
// p1 and p0 have Wilson's interval with the correction for a finite population; MOVER combines them (interval.h). If no
// gold row is in a part, its interval is 0 to 1 and the answers are believed. Labels are estimated one by one, so their
// shares may not add up to exactly 1. Rows without an answer have no label.
//
// Thread: main.
#pragma once

#include "consumer/evaluate/interval.h"
#include "schemas/base/arena.h"
#include "schemas/base/error.h"
#include "schemas/base/text.h"

enum { SHARE_LABELS_MAX = 512, SHARE_GROUPS_MAX = 100 };

// Rows of a group, by label.
struct share_cell {
    int64_t n_answers;      // whose answer has it
    int64_t n_gold;         // whose gold label it is
    int64_t n_gold_answers; // with a gold label, whose answer has it
    int64_t n_right;        // both
};

struct share_group {
    struct text name;
    int64_t n_rows, n_gold;   // all rows; rows with gold labels
    struct share_cell *cells; // [SHARE_LABELS_MAX]
};

struct share_table {
    struct text *labels; // [n_labels], in the order of their first row
    size_t n_labels;
    struct share_group *groups; // [n_groups]; the first is the whole table, without a name
    size_t n_groups;
    bool is_dropped; // more labels than SHARE_LABELS_MAX: nothing is estimated
    struct arena arena;
};

enum status share_table_open(struct share_table *table, struct error *error) WARN_UNUSED;
void share_table_close(struct share_table *table);
// Finds or adds a group. STATUS_REFUSE: more than SHARE_GROUPS_MAX groups.
enum status share_table_group(struct share_table *table, struct text name, size_t *group,
                              struct error *error) WARN_UNUSED;
// The group's name as it is printed: of rows with an empty cell "(empty)", of the whole table an empty text.
struct text share_group_name(const struct share_table *table, size_t group);
struct share_labels {
    const struct text *items; // [n], each once
    size_t n;
};
// Adds a row to the whole table, and to `group` if it is not 0. gold NULL: the row has no gold labels.
enum status share_table_add(struct share_table *table, size_t group, struct share_labels answers,
                            const struct share_labels *gold, struct error *error) WARN_UNUSED;

// The share of a label in all rows of a group. No rows, or no gold rows: undefined.
struct interval share_of_rows(const struct share_table *table, size_t group, size_t label);
// The same from the gold rows alone, to compare.
struct interval share_of_gold(const struct share_table *table, size_t group, size_t label);
// The share that the answers alone claim. NAN: the group has no rows.
double share_of_answers(const struct share_table *table, size_t group, size_t label);
