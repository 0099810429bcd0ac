// Compares answers with gold labels: a confusion matrix, and the figures that follow from it. Rows whose gold
// label is empty are left out. A missing answer is a class of its own with an empty text, which no gold label
// has. Thread: main.
#pragma once

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
// NAN: no row has a gold label.
double evaluation_accuracy(const struct evaluation *evaluation);
// Cohen, "A coefficient of agreement for nominal scales" (1960); NAN: no row has a gold label, or all gold
// labels and answers are the same.
double evaluation_kappa(const struct evaluation *evaluation);
struct evaluation_class {
    int64_t n_gold, n_answers, n_right;
    double precision, recall, f1; // 0 where undefined
};
struct evaluation_class evaluation_of_class(const struct evaluation *evaluation, size_t class);
// Writes all figures as text.
void evaluation_write(const struct evaluation *evaluation, struct buffer *out);
