#include "consumer/evaluate/share_table.h"

#include <math.h>
#include <stdlib.h>

static enum status refuse_memory(struct error *error)
{
    return error_memory(error, STATUS_REFUSE, "the shares of labels");
}

static enum status add_group(struct share_table *table, struct text name, struct error *error)
{
    struct share_group *group = &table->groups[table->n_groups];
    *group = (struct share_group){.cells = calloc(SHARE_LABELS_MAX, sizeof *group->cells)};
    group->name.data = group->cells ? arena_copy(&table->arena, name.data, name.size) : NULL;
    group->name.size = name.size;
    table->n_groups += group->cells != NULL;
    return group->name.data ? STATUS_OK : refuse_memory(error);
}

enum status share_table_open(struct share_table *table, struct error *error)
{
    *table = (struct share_table){.n_labels = 0};
    table->labels = calloc(SHARE_LABELS_MAX, sizeof *table->labels);
    table->groups = calloc(SHARE_GROUPS_MAX + 1, sizeof *table->groups);
    if (!table->labels || !table->groups)
        return refuse_memory(error);
    return add_group(table, TEXT(""), error);
}

void share_table_close(struct share_table *table)
{
    for (size_t i = 0; i < table->n_groups; i++)
        free(table->groups[i].cells);
    free(table->groups);
    free(table->labels);
    arena_finish(&table->arena);
    *table = (struct share_table){.n_labels = 0};
}

enum status share_table_group(struct share_table *table, struct text name, size_t *group, struct error *error)
{
    for (*group = 1; *group < table->n_groups; ++*group)
        if (text_equal(table->groups[*group].name, name))
            return STATUS_OK;
    if (table->n_groups == SHARE_GROUPS_MAX + 1)
        return error_set(error, STATUS_REFUSE, ERROR_LIMIT_EXCEEDED,
                         "--by: the column has more than %d different values: is it a column of groups?",
                         SHARE_GROUPS_MAX);
    return add_group(table, name, error);
}

struct text share_group_name(const struct share_table *table, size_t group)
{
    struct text name = table->groups[group].name;
    return group && !name.size ? TEXT("(empty)") : name;
}

// *label SHARE_LABELS_MAX: there are too many.
static enum status find_label(struct share_table *table, struct text name, size_t *label, struct error *error)
{
    for (*label = 0; *label < table->n_labels; ++*label)
        if (text_equal(table->labels[*label], name))
            return STATUS_OK;
    if (table->n_labels == SHARE_LABELS_MAX) {
        table->is_dropped = true;
        return STATUS_OK;
    }
    char *copy = arena_copy(&table->arena, name.data, name.size);
    if (!copy)
        return refuse_memory(error);
    table->labels[table->n_labels++] = (struct text){copy, name.size};
    return STATUS_OK;
}

static bool has_label(struct share_labels labels, struct text label)
{
    for (size_t i = 0; i < labels.n; i++)
        if (text_equal(labels.items[i], label))
            return true;
    return false;
}

// Counts the labels of a row in a group, which may be the whole table.
static enum status count_labels(struct share_table *table, size_t group, struct share_labels answers,
                                const struct share_labels *gold, struct error *error)
{
    struct share_cell *cells = table->groups[group].cells;
    size_t label;
    enum status status = STATUS_OK;
    for (size_t i = 0; i < answers.n && status == STATUS_OK && !table->is_dropped; i++) {
        status = find_label(table, answers.items[i], &label, error);
        if (status != STATUS_OK || table->is_dropped)
            return status;
        cells[label].n_answers++;
        cells[label].n_gold_answers += gold != NULL;
        cells[label].n_right += gold && has_label(*gold, answers.items[i]);
    }
    for (size_t i = 0; gold && i < gold->n && status == STATUS_OK && !table->is_dropped; i++) {
        status = find_label(table, gold->items[i], &label, error);
        if (status == STATUS_OK && !table->is_dropped)
            cells[label].n_gold++;
    }
    return status;
}

enum status share_table_add(struct share_table *table, size_t group, struct share_labels answers,
                            const struct share_labels *gold, struct error *error)
{
    const size_t groups[] = {0, group};
    enum status status = STATUS_OK;
    for (size_t i = 0; i < (group ? 2u : 1u) && status == STATUS_OK; i++) {
        table->groups[groups[i]].n_rows++;
        table->groups[groups[i]].n_gold += gold != NULL;
        status = count_labels(table, groups[i], answers, gold, error);
    }
    return status;
}

// ---- estimates ----

// A part of the rows: those whose answer has the label, or those whose answer has not.
struct stratum {
    double n_rows, n_gold, n_hits; // n_hits: gold rows whose gold label it is
    double believed;               // the share of hits if there are no gold rows
};

static struct interval share_of_stratum(const struct stratum *stratum)
{
    return stratum->n_gold > 0 ? interval_of_sample(stratum->n_hits, stratum->n_gold, stratum->n_rows)
                               : (struct interval){stratum->believed, 0, 1};
}

struct interval share_of_rows(const struct share_table *table, size_t group, size_t label)
{
    const struct share_group *rows = &table->groups[group];
    const struct share_cell *cell = &rows->cells[label];
    double n_rows = (double)rows->n_rows, n_gold = (double)rows->n_gold, n_hits = (double)cell->n_gold;
    double low = 0, high = 0;
    struct interval share = {0, 0, 0};
    if (!rows->n_rows || !rows->n_gold)
        return interval_undefined();
    const struct stratum strata[] = {{(double)cell->n_answers, (double)cell->n_gold_answers,
                                      (double)cell->n_right, 1},
                                     {n_rows - (double)cell->n_answers, n_gold - (double)cell->n_gold_answers,
                                      n_hits - (double)cell->n_right, 0}};
    for (int i = 0; i < 2; i++) {
        if (strata[i].n_rows <= 0)
            continue;
        double weight = strata[i].n_rows / n_rows;
        struct interval part = share_of_stratum(&strata[i]);
        share.value += weight * part.value;
        low = hypot(low, weight * (part.value - part.low));
        high = hypot(high, weight * (part.high - part.value));
    }
    // the gold rows themselves are certain
    share.low = fmin(fmax(share.value - low, n_hits / n_rows), share.value);
    share.high = fmax(fmin(share.value + high, 1 - (n_gold - n_hits) / n_rows), share.value);
    return share;
}

struct interval share_of_gold(const struct share_table *table, size_t group, size_t label)
{
    const struct share_group *rows = &table->groups[group];
    return interval_of_sample((double)rows->cells[label].n_gold, (double)rows->n_gold, (double)rows->n_rows);
}

double share_of_answers(const struct share_table *table, size_t group, size_t label)
{
    const struct share_group *rows = &table->groups[group];
    return rows->n_rows ? (double)rows->cells[label].n_answers / (double)rows->n_rows : NAN;
}
