// One column of gold labels against one column of answers, row by row: how far they agree, and what they say together
// about all rows and groups of rows. Figures are written as text for people (comparison_text.c) and as a list
// (figure_list.h). Thread: main.
#pragma once

#include "consumer/evaluate/evaluation.h"
#include "consumer/evaluate/gold_sample.h"
#include "consumer/evaluate/number_pairs.h"
#include "consumer/evaluate/share_table.h"

enum comparison_kind {
    COMPARED_LABELS, // one label a row
    COMPARED_LISTS,  // a list of labels; their order does not count
    COMPARED_NUMBERS,
};

struct comparison {
    enum comparison_kind kind;
    bool has_numbers; // COMPARED_NUMBERS, or all labels are numbers
    bool
        is_sampled; // the rows are not the whole table (--sample, a stopped run): nothing is estimated for all rows
    bool has_groups;
    struct text gold, answer; // names of the columns
    struct text group,
        reference; // the column of groups; the group that others are compared with, data NULL: the largest
    int64_t n_gold, n_equal; // gold rows; equal answers
    double overlap;          // COMPARED_LISTS: sum of common labels / labels of either
    struct evaluation evaluation;
    bool is_unclassified; // too many different numbers or lists for a matrix
    struct share_table shares;
    struct number_pairs numbers;
    struct gold_sample sample;
};

// A row. Texts of size 0: no gold label, no answer.
struct compared_row {
    struct text gold, answer;
    struct share_labels gold_labels, answer_labels; // COMPARED_LISTS: the members, each once
    double gold_number, answer_number;              // has_numbers; NAN: none
    struct text group;                              // has_groups
};

// Fills in everything but the fields before n_gold.
enum status comparison_open(struct comparison *comparison, struct error *error) WARN_UNUSED;
void comparison_close(struct comparison *comparison);
// Registers a gold label before anything is computed. STATUS_REFUSE, ERROR_LIMIT_EXCEEDED: there are too many.
enum status comparison_expect(struct comparison *comparison, struct text gold,
                              struct error *error) WARN_UNUSED;
// Forgets what was registered and added.
enum status comparison_restart(struct comparison *comparison, struct error *error) WARN_UNUSED;
// STATUS_REFUSE: too many labels or groups.
enum status comparison_add(struct comparison *comparison, const struct compared_row *row,
                           struct error *error) WARN_UNUSED;

// Whether figures of all rows are estimated: some rows have no gold label, or there are groups.
bool comparison_has_estimates(const struct comparison *comparison);
// The group that others are compared with; 0: there is none.
size_t comparison_reference(const struct comparison *comparison);
// Precision, recall and F1 of a label of a list.
struct evaluation_class comparison_of_label(const struct comparison *comparison, size_t label);
// Mean overlap of lists (Jaccard). Wilson's interval with n rows: overlaps vary at most as hits do, so it holds at least.
struct interval comparison_overlap(const struct comparison *comparison);
// Writes the figures as text.
enum status comparison_write(const struct comparison *comparison, struct buffer *out,
                             struct error *error) WARN_UNUSED;
