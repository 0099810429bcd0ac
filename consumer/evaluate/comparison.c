#include "consumer/evaluate/comparison.h"

#include <math.h>

enum status comparison_open(struct comparison *comparison, struct error *error)
{
    enum status status = evaluation_open(&comparison->evaluation, error);
    return status == STATUS_OK ? share_table_open(&comparison->shares, error) : status;
}

void comparison_close(struct comparison *comparison)
{
    evaluation_close(&comparison->evaluation);
    share_table_close(&comparison->shares);
    number_pairs_close(&comparison->numbers);
    gold_sample_close(&comparison->sample);
}

// Numbers and lists may have more values than a matrix has classes; labels may not.
static enum status drop_classes(struct comparison *comparison, enum status status, const struct error *error)
{
    bool is_full = status != STATUS_OK && error->code == ERROR_LIMIT_EXCEEDED;
    if (!is_full || comparison->kind == COMPARED_LABELS)
        return status;
    comparison->is_unclassified = true;
    evaluation_restart(&comparison->evaluation);
    return STATUS_OK;
}

enum status comparison_expect(struct comparison *comparison, struct text gold, struct error *error)
{
    if (comparison->is_unclassified)
        return STATUS_OK;
    return drop_classes(comparison, evaluation_expect(&comparison->evaluation, gold, error), error);
}

enum status comparison_restart(struct comparison *comparison, struct error *error)
{
    evaluation_restart(&comparison->evaluation);
    share_table_close(&comparison->shares);
    number_pairs_close(&comparison->numbers);
    gold_sample_close(&comparison->sample);
    comparison->numbers = (struct number_pairs){.n = 0};
    comparison->n_gold = comparison->n_equal = 0;
    comparison->overlap = 0;
    comparison->is_unclassified = false;
    return share_table_open(&comparison->shares, error);
}

static bool has_label(struct share_labels labels, struct text label)
{
    for (size_t i = 0; i < labels.n; i++)
        if (text_equal(labels.items[i], label))
            return true;
    return false;
}

static double overlap_of(struct share_labels a, struct share_labels b)
{
    size_t n_common = 0;
    for (size_t i = 0; i < a.n; i++)
        n_common += has_label(b, a.items[i]);
    size_t n_either = a.n + b.n - n_common;
    return n_either ? (double)n_common / (double)n_either : 1;
}

static enum status count_agreement(struct comparison *comparison, const struct compared_row *row,
                                   struct error *error)
{
    if (!row->gold.size)
        return STATUS_OK;
    comparison->n_gold++;
    comparison->n_equal += text_equal(row->gold, row->answer);
    if (row->answer.size && comparison->kind == COMPARED_LISTS)
        comparison->overlap += overlap_of(row->gold_labels, row->answer_labels);
    if (comparison->is_unclassified)
        return STATUS_OK;
    return drop_classes(comparison, evaluation_add(&comparison->evaluation, row->gold, row->answer, error),
                        error);
}

enum status comparison_add(struct comparison *comparison, const struct compared_row *row, struct error *error)
{
    size_t group = 0;
    struct share_labels answers = {&row->answer, row->answer.size > 0}, gold = {&row->gold, 1};
    enum status status = count_agreement(comparison, row, error);
    if (status == STATUS_OK)
        status = gold_sample_add(&comparison->sample, row->gold.size > 0, error);
    if (status == STATUS_OK && comparison->has_groups)
        status = share_table_group(&comparison->shares, row->group, &group, error);
    if (comparison->kind == COMPARED_LISTS) {
        answers = row->answer_labels;
        gold = row->gold_labels;
    }
    if (status == STATUS_OK && comparison->kind != COMPARED_NUMBERS)
        status = share_table_add(&comparison->shares, group, answers, row->gold.size ? &gold : NULL, error);
    if (status == STATUS_OK && comparison->has_numbers)
        status = number_pairs_add(&comparison->numbers, group, row->gold_number, row->answer_number, error);
    if (comparison->has_numbers && row->gold.size && isnan(row->gold_number))
        number_pairs_add_other(&comparison->numbers, group);
    return status;
}

bool comparison_has_estimates(const struct comparison *comparison)
{
    bool has_rest = (int64_t)comparison->sample.n < comparison->sample.n_rows;
    return comparison->sample.n > 0 && !comparison->is_sampled && (has_rest || comparison->has_groups);
}

static int64_t rows_of(const struct comparison *comparison, size_t group)
{
    return comparison->kind == COMPARED_NUMBERS ? comparison->numbers.groups[group].n_rows
                                                : comparison->shares.groups[group].n_rows;
}

size_t comparison_reference(const struct comparison *comparison)
{
    size_t largest = 0;
    for (size_t i = 1; i < comparison->shares.n_groups; i++) {
        if (comparison->reference.data &&
            text_equal(comparison->shares.groups[i].name, comparison->reference))
            return i;
        if (!largest || rows_of(comparison, i) > rows_of(comparison, largest))
            largest = i;
    }
    return largest;
}

struct evaluation_class comparison_of_label(const struct comparison *comparison, size_t label)
{
    const struct share_cell *cell = &comparison->shares.groups[0].cells[label];
    double right = (double)cell->n_right, gold = (double)cell->n_gold, answers = (double)cell->n_gold_answers;
    return (struct evaluation_class){.n_gold = cell->n_gold,
                                     .n_answers = cell->n_gold_answers,
                                     .n_right = cell->n_right,
                                     .precision = interval_of_hits(right, answers),
                                     .recall = interval_of_hits(right, gold),
                                     .f1 = interval_of_f1(right, gold + answers - 2 * right)};
}

struct interval comparison_overlap(const struct comparison *comparison)
{
    return interval_of_hits(comparison->overlap, (double)comparison->n_gold);
}
