#include "consumer/evaluate/evaluation.h"

#include <math.h>
#include <stdio.h>
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
    memset(evaluation->counts, 0, // pages of other rows were never touched
           evaluation->n_classes * EVALUATION_CLASSES_MAX * sizeof *evaluation->counts);
    evaluation->n_classes = 0;
    evaluation->n_rows = 0;
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

static struct interval defined_or_zero(struct interval interval)
{
    return isnan(interval.value) ? (struct interval){0, NAN, NAN} : interval;
}

struct evaluation_class evaluation_of_class(const struct evaluation *evaluation, size_t class)
{
    struct evaluation_class figures = {.n_right = *count_of(evaluation, class, class)};
    for (size_t i = 0; i < evaluation->n_classes; i++) {
        figures.n_gold += *count_of(evaluation, class, i);
        figures.n_answers += *count_of(evaluation, i, class);
    }
    double right = (double)figures.n_right, gold = (double)figures.n_gold,
           answers = (double)figures.n_answers;
    figures.precision = defined_or_zero(interval_of_hits(right, answers));
    figures.recall = defined_or_zero(interval_of_hits(right, gold));
    figures.f1 = defined_or_zero(interval_of_f1(right, gold + answers - 2 * right));
    return figures;
}

static int64_t count_right(const struct evaluation *evaluation)
{
    int64_t n_right = 0;
    for (size_t i = 0; i < evaluation->n_classes; i++)
        n_right += *count_of(evaluation, i, i);
    return n_right;
}

struct interval evaluation_accuracy(const struct evaluation *evaluation)
{
    return interval_of_hits((double)count_right(evaluation), (double)evaluation->n_rows);
}

// ---- kappa ----

enum { ASSUMED_ROWS = 2, MACRO_F1_ROWS = 10 };

// Shares of the rows, with `added` rows spread evenly over the cells.
struct agreement {
    double n, each;                     // rows, added ones included; added to each cell
    double observed;                    // share of equal labels
    double by_chance;                   // the same of independent labels
    const double *of_gold, *of_answers; // [n_classes] shares of each label
};

static double share_of_cell(const struct evaluation *evaluation, const struct agreement *agreement,
                            size_t gold, size_t answer)
{
    return ((double)*count_of(evaluation, gold, answer) + agreement->each) / agreement->n;
}

// margins: [2 * n_classes], filled here; they must live as long as the result.
static struct agreement agree(const struct evaluation *evaluation, double added, double *margins)
{
    size_t n = evaluation->n_classes;
    double *of_gold = margins, *of_answers = margins + n;
    struct agreement agreement = {.n = (double)evaluation->n_rows + added,
                                  .each = added / ((double)n * (double)n),
                                  .of_gold = of_gold,
                                  .of_answers = of_answers};
    memset(margins, 0, 2 * n * sizeof *margins);
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++) {
            double share = share_of_cell(evaluation, &agreement, i, j);
            of_gold[i] += share;
            of_answers[j] += share;
            agreement.observed += i == j ? share : 0;
        }
    for (size_t i = 0; i < n; i++)
        agreement.by_chance += of_gold[i] * of_answers[i];
    return agreement;
}

static double kappa_of(const struct agreement *agreement)
{
    return (agreement->observed - agreement->by_chance) / (1 - agreement->by_chance);
}

// Fleiss, Cohen, Everitt (1969), equation 13.
static double kappa_variance(const struct evaluation *evaluation, const struct agreement *agreement)
{
    double free = 1 - agreement->by_chance, wrong = 1 - agreement->observed, sum = 0;
    double last = agreement->observed * agreement->by_chance - 2 * agreement->by_chance + agreement->observed;
    for (size_t i = 0; i < evaluation->n_classes; i++)
        for (size_t j = 0; j < evaluation->n_classes; j++) {
            double part = wrong * (agreement->of_answers[i] + agreement->of_gold[j]);
            if (i == j)
                part = free - wrong * (agreement->of_gold[i] + agreement->of_answers[i]);
            sum += share_of_cell(evaluation, agreement, i, j) * part * part;
        }
    return fmax(sum - last * last, 0) / (pow(free, 4) * agreement->n);
}

struct interval evaluation_kappa(const struct evaluation *evaluation)
{
    double margins[2 * EVALUATION_CLASSES_MAX];
    if (!evaluation->n_rows)
        return interval_undefined();
    struct agreement agreement = agree(evaluation, 0, margins);
    if (agreement.by_chance >= 1)
        return interval_undefined();
    struct interval kappa = {.value = kappa_of(&agreement)};
    agreement = agree(evaluation, ASSUMED_ROWS, margins);
    double centre = kappa_of(&agreement);
    double half = INTERVAL_QUANTILE * sqrt(kappa_variance(evaluation, &agreement));
    kappa.low = fmax(fmin(centre - half, kappa.value), -1);
    kappa.high = fmin(fmax(centre + half, kappa.value), 1);
    return kappa;
}

// ---- the mean of F1 ----

static double share_of_right(const struct evaluation *evaluation, const struct agreement *agreement,
                             size_t class)
{
    return share_of_cell(evaluation, agreement, class, class);
}

// F1 of a class is 2 right / sum, with the sum of its shares of gold labels and of answers.
static double class_sum(const struct agreement *agreement, size_t class)
{
    return agreement->of_gold[class] + agreement->of_answers[class];
}

static double mean_f1(const struct evaluation *evaluation, const struct agreement *agreement)
{
    double sum = 0;
    size_t n = 0;
    for (size_t i = 0; i < evaluation->n_classes; i++) {
        if (!evaluation->classes[i].size || class_sum(agreement, i) <= 0)
            continue;
        sum += 2 * share_of_right(evaluation, agreement, i) / class_sum(agreement, i);
        n++;
    }
    return n ? sum / (double)n : NAN;
}

// The derivatives of the mean by the share of a cell: part[gold] + part[answer], and on the diagonal right[class] more.
static double mean_f1_variance(const struct evaluation *evaluation, const struct agreement *agreement)
{
    double part[EVALUATION_CLASSES_MAX] = {0}, right[EVALUATION_CLASSES_MAX] = {0}, n = 0, mean = 0,
           squares = 0;
    for (size_t i = 0; i < evaluation->n_classes; i++)
        n += evaluation->classes[i].size > 0;
    for (size_t i = 0; i < evaluation->n_classes; i++) {
        double sum = class_sum(agreement, i);
        if (!evaluation->classes[i].size)
            continue;
        right[i] = 2 / sum / n;
        part[i] = -2 * share_of_right(evaluation, agreement, i) / (sum * sum) / n;
    }
    for (size_t i = 0; i < evaluation->n_classes; i++)
        for (size_t j = 0; j < evaluation->n_classes; j++) {
            double share = share_of_cell(evaluation, agreement, i, j);
            double derivative = part[i] + part[j] + (i == j ? right[i] : 0);
            mean += share * derivative;
            squares += share * derivative * derivative;
        }
    return fmax(squares - mean * mean, 0) / agreement->n;
}

struct interval evaluation_macro_f1(const struct evaluation *evaluation)
{
    double margins[2 * EVALUATION_CLASSES_MAX];
    if (!evaluation->n_rows)
        return interval_undefined();
    struct agreement agreement = agree(evaluation, 0, margins);
    struct interval mean = {mean_f1(evaluation, &agreement), NAN, NAN};
    if (evaluation->n_classes < 2 || evaluation->n_rows < MACRO_F1_ROWS * (int64_t)evaluation->n_classes)
        return mean;
    agreement = agree(evaluation, ASSUMED_ROWS, margins);
    double centre = mean_f1(evaluation, &agreement);
    double half = INTERVAL_QUANTILE * sqrt(mean_f1_variance(evaluation, &agreement));
    mean.low = fmax(fmin(centre - half, mean.value), 0);
    mean.high = fmin(fmax(centre + half, mean.value), 1);
    return mean;
}

struct text evaluation_class_name(const struct evaluation *evaluation, size_t class)
{
    struct text name = evaluation->classes[class];
    return name.size ? name : TEXT(EVALUATION_NO_ANSWER);
}

// ---- as text ----

enum {
    NAME_WIDTH = EVALUATION_NAME_WIDTH,
    CELL_WIDTH = sizeof EVALUATION_NO_ANSWER - 1,
    MATRIX_CLASSES_MAX = 12,
    CHARACTER_BYTES = 4
};

// is_right: blanks come first.
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

void evaluation_add_name(struct buffer *out, struct text name, size_t width)
{
    add_name(out, name, width, false);
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

static void write_figure(struct buffer *out, const char *name, struct interval figure)
{
    buffer_add_format(out, "%s: ", name);
    evaluation_add_interval(out, figure);
    buffer_add_byte(out, '\n');
}

void evaluation_add_interval(struct buffer *out, struct interval figure)
{
    if (isnan(figure.value))
        buffer_add_string(out, EVALUATION_UNDEFINED);
    else
        buffer_add_format(out, "%.4f", figure.value);
    if (interval_is_known(figure))
        buffer_add_format(out, " (95 %% interval %.4f to %.4f)", figure.low, figure.high);
}

static void write_classes(const struct evaluation *evaluation, struct buffer *out)
{
    buffer_add_format(out, "\n%-*s %10s %10s %10s %10s %10s\n", NAME_WIDTH, "class", "precision", "recall",
                      "F1", "gold", "answers");
    for (size_t i = 0; i < evaluation->n_classes; i++) {
        struct evaluation_class figures = evaluation_of_class(evaluation, i);
        evaluation_add_name(out, evaluation_class_name(evaluation, i), NAME_WIDTH);
        buffer_add_format(out, " %10.4f %10.4f %10.4f %10lld %10lld\n", figures.precision.value,
                          figures.recall.value, figures.f1.value, (long long)figures.n_gold,
                          (long long)figures.n_answers);
    }
}

void evaluation_add_range(struct buffer *out, struct interval figure)
{
    char text[32] = "";
    if (interval_is_known(figure))
        snprintf(text, sizeof text, "%.4f-%.4f", figure.low, figure.high);
    buffer_add_format(out, " %15s", text);
}

static void write_ranges(const struct evaluation *evaluation, struct buffer *out)
{
    buffer_add_format(out, "\n%-*s %15s %15s %15s\n", NAME_WIDTH, "95 % intervals", "precision", "recall",
                      "F1");
    for (size_t i = 0; i < evaluation->n_classes; i++) {
        struct evaluation_class figures = evaluation_of_class(evaluation, i);
        evaluation_add_name(out, evaluation_class_name(evaluation, i), NAME_WIDTH);
        evaluation_add_range(out, figures.precision);
        evaluation_add_range(out, figures.recall);
        evaluation_add_range(out, figures.f1);
        buffer_add_byte(out, '\n');
    }
}

void evaluation_write(const struct evaluation *evaluation, struct buffer *out)
{
    buffer_add_format(out, "rows with a gold label: %lld\n", (long long)evaluation->n_rows);
    write_figure(out, "accuracy", evaluation_accuracy(evaluation));
    write_figure(out, "Cohen's kappa", evaluation_kappa(evaluation));
    write_figure(out, "macro F1", evaluation_macro_f1(evaluation));
    if (!evaluation->n_rows)
        return;
    write_classes(evaluation, out);
    write_ranges(evaluation, out);
    if (evaluation->n_classes <= MATRIX_CLASSES_MAX)
        write_matrix(evaluation, out);
}
