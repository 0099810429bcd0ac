#include "consumer/annotate/evaluation.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int64_t *count_of(const struct evaluation *evaluation, size_t gold, size_t answer)
{
    return &evaluation->counts[gold * EVALUATION_CLASSES_MAX + answer];
}

enum status evaluation_open(struct evaluation *evaluation, struct error *error)
{
    *evaluation = (struct evaluation){0};
    evaluation->classes = calloc(EVALUATION_CLASSES_MAX, sizeof *evaluation->classes);
    evaluation->counts =
        calloc((size_t)EVALUATION_CLASSES_MAX * EVALUATION_CLASSES_MAX, sizeof *evaluation->counts);
    if (evaluation->classes && evaluation->counts)
        return STATUS_OK;
    evaluation_close(evaluation);
    return error_memory(error, STATUS_REFUSE, "the evaluation");
}

void evaluation_close(struct evaluation *evaluation)
{
    free(evaluation->classes);
    free(evaluation->counts);
    arena_finish(&evaluation->arena);
    *evaluation = (struct evaluation){0};
}

static enum status find_class(struct evaluation *evaluation, struct text name, size_t *class,
                              struct error *error)
{
    for (*class = 0; *class < evaluation->n_classes; ++*class)
        if (text_equal(evaluation->classes[*class], name))
            return STATUS_OK;
    if (evaluation->n_classes == EVALUATION_CLASSES_MAX)
        return error_set(
            error, STATUS_REFUSE, ERROR_LIMIT_EXCEEDED,
            "--evaluate: more than %d different labels, gold ones and answers together: are these "
            "columns of labels?",
            EVALUATION_CLASSES_MAX);
    char *copy = arena_copy(&evaluation->arena, name.data, name.size);
    if (!copy)
        return error_memory(error, STATUS_REFUSE, "the evaluation");
    evaluation->classes[evaluation->n_classes++] = (struct text){copy, name.size};
    return STATUS_OK;
}

enum status evaluation_expect(struct evaluation *evaluation, struct text gold, struct error *error)
{
    size_t class;
    return gold.size ? find_class(evaluation, gold, &class, error) : STATUS_OK;
}

void evaluation_restart(struct evaluation *evaluation)
{
    evaluation->n_classes = 0;
    evaluation->n_rows = 0;
    memset(evaluation->counts, 0,
           (size_t)EVALUATION_CLASSES_MAX * EVALUATION_CLASSES_MAX * sizeof *evaluation->counts);
    arena_finish(&evaluation->arena);
}

enum status evaluation_add(struct evaluation *evaluation, struct text gold, struct text answer,
                           struct error *error)
{
    size_t row, column;
    if (!gold.size)
        return STATUS_OK;
    enum status status = find_class(evaluation, gold, &row, error);
    if (status == STATUS_OK)
        status = find_class(evaluation, answer, &column, error);
    if (status != STATUS_OK)
        return status;
    ++*count_of(evaluation, row, column);
    evaluation->n_rows++;
    return STATUS_OK;
}

struct evaluation_class evaluation_of_class(const struct evaluation *evaluation, size_t class)
{
    struct evaluation_class figures = {.n_right = *count_of(evaluation, class, class)};
    for (size_t i = 0; i < evaluation->n_classes; i++) {
        figures.n_gold += *count_of(evaluation, class, i);
        figures.n_answers += *count_of(evaluation, i, class);
    }
    double right = (double)figures.n_right;
    if (figures.n_answers)
        figures.precision = right / (double)figures.n_answers;
    if (figures.n_gold)
        figures.recall = right / (double)figures.n_gold;
    if (figures.n_gold + figures.n_answers)
        figures.f1 = 2 * right / (double)(figures.n_gold + figures.n_answers);
    return figures;
}

double evaluation_accuracy(const struct evaluation *evaluation)
{
    int64_t n_right = 0;
    for (size_t i = 0; i < evaluation->n_classes; i++)
        n_right += *count_of(evaluation, i, i);
    return evaluation->n_rows ? (double)n_right / (double)evaluation->n_rows : NAN;
}

double evaluation_kappa(const struct evaluation *evaluation)
{
    double n = (double)evaluation->n_rows, by_chance = 0;
    if (!evaluation->n_rows)
        return NAN;
    for (size_t i = 0; i < evaluation->n_classes; i++) {
        struct evaluation_class figures = evaluation_of_class(evaluation, i);
        by_chance += (double)figures.n_gold / n * ((double)figures.n_answers / n);
    }
    return by_chance < 1 ? (evaluation_accuracy(evaluation) - by_chance) / (1 - by_chance) : NAN;
}

struct text evaluation_class_name(const struct evaluation *evaluation, size_t class)
{
    struct text name = evaluation->classes[class];
    return name.size ? name : TEXT(EVALUATION_NO_ANSWER);
}

// ---- as text ----

enum {
    NAME_WIDTH = 16,
    CELL_WIDTH = sizeof EVALUATION_NO_ANSWER - 1,
    MATRIX_CLASSES_MAX = 12,
    CHARACTER_BYTES = 4
};

// Adds the name in `width` columns of a terminal, truncated or padded with blanks.
static void add_name(struct buffer *out, struct text name, size_t width, bool is_right)
{
    char text[NAME_WIDTH * CHARACTER_BYTES + 1];
    size_t size = utf8_columns_prefix(name.data, name.size, width, sizeof text - 1);
    memcpy(text, name.data, size);
    text[size] = '\0';
    utf8_make_printable(text);
    int blanks = (int)(width - utf8_columns(text, strlen(text)));
    buffer_add_format(out, "%*s%s%*s", is_right ? blanks : 0, "", text, is_right ? 0 : blanks, "");
}

static void write_matrix(const struct evaluation *evaluation, struct buffer *out)
{
    buffer_add_string(out, "\nconfusion matrix: gold labels in rows, answers in columns\n");
    buffer_add_format(out, "%-*s", NAME_WIDTH, "");
    for (size_t i = 0; i < evaluation->n_classes; i++) {
        buffer_add_byte(out, ' ');
        add_name(out, evaluation_class_name(evaluation, i), CELL_WIDTH, true);
    }
    buffer_add_byte(out, '\n');
    for (size_t i = 0; i < evaluation->n_classes; i++) {
        add_name(out, evaluation_class_name(evaluation, i), NAME_WIDTH, false);
        for (size_t j = 0; j < evaluation->n_classes; j++)
            buffer_add_format(out, " %*lld", CELL_WIDTH, (long long)*count_of(evaluation, i, j));
        buffer_add_byte(out, '\n');
    }
}

static void write_figure(struct buffer *out, const char *name, double figure)
{
    if (isnan(figure))
        buffer_add_format(out, "%s: " EVALUATION_UNDEFINED "\n", name);
    else
        buffer_add_format(out, "%s: %.4f\n", name, figure);
}

void evaluation_write(const struct evaluation *evaluation, struct buffer *out)
{
    buffer_add_format(out, "rows with a gold label: %lld\n", (long long)evaluation->n_rows);
    write_figure(out, "accuracy", evaluation_accuracy(evaluation));
    write_figure(out, "Cohen's kappa", evaluation_kappa(evaluation));
    if (!evaluation->n_rows)
        return;
    buffer_add_byte(out, '\n');
    buffer_add_format(out, "%-*s %10s %10s %10s %10s %10s\n", NAME_WIDTH, "class", "precision", "recall",
                      "F1", "gold", "answers");
    for (size_t i = 0; i < evaluation->n_classes; i++) {
        struct evaluation_class figures = evaluation_of_class(evaluation, i);
        add_name(out, evaluation_class_name(evaluation, i), NAME_WIDTH, false);
        buffer_add_format(out, " %10.4f %10.4f %10.4f %10lld %10lld\n", figures.precision, figures.recall,
                          figures.f1, (long long)figures.n_gold, (long long)figures.n_answers);
    }
    if (evaluation->n_classes <= MATRIX_CLASSES_MAX)
        write_matrix(evaluation, out);
}
