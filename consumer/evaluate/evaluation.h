// Compares answers with gold labels: a confusion matrix, and the figures that follow from it. Rows whose gold
// label is empty are left out. A missing answer is a class of its own with an empty text, which no gold label
// has. Intervals are 95 % intervals for rows like the ones with gold labels, whose number has no limit: they do not
// shrink if all rows of a table have gold labels. Thread: main.
#pragma once

#include "consumer/evaluate/interval.h"
#include "schemas/base/arena.h"
#include "schemas/base/text.h"

enum { EVALUATION_CLASSES_MAX = 512 };

struct evaluation {
    struct text *classes; // [n_classes], in the order of their first row
    size_t n_classes;
    int64_t *counts; // [EVALUATION_CLASSES_MAX][EVALUATION_CLASSES_MAX]: gold, answer
    int64_t n_rows;
    struct arena arena;
};

enum status evaluation_open(struct evaluation *evaluation, struct error *error) WARN_UNUSED;
void evaluation_close(struct evaluation *evaluation);
// Registers the gold label of a row whose answer is not known yet. STATUS_REFUSE: as for evaluation_add.
enum status evaluation_expect(struct evaluation *evaluation, struct text gold,
                              struct error *error) WARN_UNUSED;
// Forgets all rows and classes.
void evaluation_restart(struct evaluation *evaluation);
// STATUS_REFUSE: more than EVALUATION_CLASSES_MAX classes.
enum status evaluation_add(struct evaluation *evaluation, struct text gold, struct text answer,
                           struct error *error) WARN_UNUSED;

// The class as it is printed: its text, or EVALUATION_NO_ANSWER.
struct text evaluation_class_name(const struct evaluation *evaluation, size_t class);
#define EVALUATION_NO_ANSWER "(no answer)"
#define EVALUATION_UNDEFINED "undefined"
// Wilson's interval. Undefined: no row has a gold label.
struct interval evaluation_accuracy(const struct evaluation *evaluation);
// Cohen, "A coefficient of agreement for nominal scales" (1960). Undefined: no row has a gold label, or all gold
// labels and answers are the same. The interval is of the delta method (Fleiss, Cohen, Everitt, "Large sample standard
// errors of kappa and weighted kappa", 1969), for a matrix with two further rows spread evenly over its cells: without
// them it has no width where all rows agree.
struct interval evaluation_kappa(const struct evaluation *evaluation);
// The mean of F1 over the labels of gold or answers, without the class of missing answers. Undefined: no row has a gold
// label. The interval is of the delta method (Takahashi et al., "Confidence interval for micro-averaged F1 and
// macro-averaged F1 scores", Applied Intelligence 52, 2022), with two rows added as for kappa; with
// one class or less than ten rows a class it would hold too rarely, and there is none.
struct interval evaluation_macro_f1(const struct evaluation *evaluation);
struct evaluation_class {
    int64_t n_gold, n_answers, n_right;
    struct interval precision, recall,
        f1; // Wilson's (F1: interval_of_f1); 0 without interval where undefined
};
struct evaluation_class evaluation_of_class(const struct evaluation *evaluation, size_t class);
// Writes all figures as text.
void evaluation_write(const struct evaluation *evaluation, struct buffer *out);
// Adds "0.7000 (95 % interval 0.5625 to 0.8090)".
void evaluation_add_interval(struct buffer *out, struct interval figure);
enum { EVALUATION_NAME_WIDTH = 16 };
// Adds the name in `width` columns of a terminal, at most EVALUATION_NAME_WIDTH, truncated or padded with blanks.
void evaluation_add_name(struct buffer *out, struct text name, size_t width);
// Adds a blank and the interval in 15 columns: "0.5625-0.8090".
void evaluation_add_range(struct buffer *out, struct interval figure);
