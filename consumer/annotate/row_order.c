#include "consumer/annotate/row_order.h"

#include <stdlib.h>
#include <string.h>

// Rows of a node that share one value of a column.
struct order_group {
    uint32_t first, n; // of the column's rows in `sorted`
    uint16_t column;
    double score;
};

struct order_column {
    uint16_t number;
    bool is_distinct; // no two rows of the node share a value
};

struct order_node {
    uint32_t *rows;               // [n]
    struct order_column *columns; // [n_columns] not yet placed
    size_t n, n_columns, n_placed;
};

// Working memory of a node while its groups are chosen.
struct order_choice {
    uint32_t *sorted;           // [n_columns][n]: rows by value
    uint64_t *keys;             // [2][n]
    struct order_group *groups; // [n_groups] heap, the highest score first
    size_t n_groups, capacity;
    uint32_t *chosen; // [n]: rows group by group
    size_t n_chosen;
    size_t *ends; // [n_ends] of the groups in `chosen`
    uint16_t *of; // [n_ends] their columns
    size_t n_ends;
};

struct ordering {
    struct row_order *order;
    bool *is_taken; // [n_rows]: the row is in a group of the current node
    bool failed;    // out of memory
};

static const struct row_cell *cell_at(const struct row_order *order, uint32_t row, size_t column)
{
    return &order->cells[row * order->n_columns + column];
}

enum status row_order_add(struct row_order *order, struct row_cell **cells, struct error *error)
{
    size_t n = order->n_columns;
    *cells = NULL;
    if ((order->n_rows + 1) * n > ROW_ORDER_CELLS_MAX)
        return error_set(error, STATUS_REFUSE, ERROR_LIMIT_EXCEEDED,
                         "--reorder: the table has more than %d fields that prompts read",
                         ROW_ORDER_CELLS_MAX);
    if (n == 0) { // prompts that read no column: nothing to order by
        order->n_rows++;
        return STATUS_OK;
    }
    if (order->n_rows == order->capacity) {
        size_t capacity = order->capacity ? 2 * order->capacity : 1024;
        struct row_cell *grown = realloc(order->cells, capacity * n * sizeof *grown);
        if (!grown)
            return error_memory(error, STATUS_REFUSE, "--reorder");
        order->cells = grown;
        order->capacity = capacity;
    }
    *cells = order->cells + order->n_rows++ * n;
    return STATUS_OK;
}

void row_order_finish(struct row_order *order)
{
    free(order->cells);
    free(order->rows);
    free(order->fields);
    *order = (struct row_order){0};
}

// ---- fields in the template's order ----

static int compare_rows(const void *a, const void *b, void *context)
{
    const struct row_order *order = context;
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    for (size_t i = 0; i < order->n_columns; i++) {
        uint32_t p = cell_at(order, x, i)->hash, q = cell_at(order, y, i)->hash;
        if (p != q)
            return p < q ? -1 : 1;
    }
    return x < y ? -1 : x > y;
}

// ---- the heap of groups ----

static void sift_down(struct order_choice *choice, size_t i)
{
    struct order_group group = choice->groups[i];
    for (size_t child; (child = 2 * i + 1) < choice->n_groups; i = child) {
        if (child + 1 < choice->n_groups && choice->groups[child + 1].score > choice->groups[child].score)
            child++;
        if (choice->groups[child].score <= group.score)
            break;
        choice->groups[i] = choice->groups[child];
    }
    choice->groups[i] = group;
}

static bool add_group(struct order_choice *choice, const struct order_group *group)
{
    if (choice->n_groups == choice->capacity) {
        size_t capacity = choice->capacity ? 2 * choice->capacity : 64;
        struct order_group *grown = realloc(choice->groups, capacity * sizeof *grown);
        if (!grown)
            return false;
        choice->groups = grown;
        choice->capacity = capacity;
    }
    choice->groups[choice->n_groups++] = *group;
    return true;
}

static double score_of(const struct row_cell *value, size_t n_rows)
{
    return (double)value->length * (double)value->length * (double)(n_rows - 1);
}

// ---- a node ----

// Sorts rows by value. A key is hash << 32 | row, so rows of equal value stay in the table's order.

static int compare_keys(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

// One pass of a radix sort, by the byte at `shift`; keys with the same byte stay in order.
static void distribute_keys(const uint64_t *from, uint64_t *to, size_t n, int shift)
{
    size_t ends[257] = {0};
    for (size_t i = 0; i < n; i++)
        ends[(from[i] >> shift & 0xFF) + 1]++;
    for (int i = 1; i < 256; i++)
        ends[i] += ends[i - 1];
    for (size_t i = 0; i < n; i++)
        to[ends[from[i] >> shift & 0xFF]++] = from[i];
}

enum { DISTRIBUTED_MIN = 512 }; // keys; fewer are sorted by comparison

// The rows ascend already, so the radix sort passes over the four bytes of the hash only.
static void sort_keys(uint64_t *keys, uint64_t *other, size_t n)
{
    if (n < DISTRIBUTED_MIN) {
        qsort(keys, n, sizeof *keys, compare_keys);
        return;
    }
    for (int shift = 32; shift < 64; shift += 16) {
        distribute_keys(keys, other, n, shift);
        distribute_keys(other, keys, n, shift + 8);
    }
}

static void sort_by_value(const struct row_order *order, const struct order_node *node, size_t column,
                          struct order_choice *choice, uint32_t *sorted)
{
    for (size_t i = 0; i < node->n; i++)
        choice->keys[i] = (uint64_t)cell_at(order, node->rows[i], column)->hash << 32 | node->rows[i];
    sort_keys(choice->keys, choice->keys + node->n, node->n);
    for (size_t i = 0; i < node->n; i++)
        sorted[i] = (uint32_t)choice->keys[i];
}

static void place_rows(struct ordering *ordering, const uint32_t *rows, size_t n, size_t at, uint16_t column)
{
    for (size_t i = 0; i < n; i++)
        ordering->order->fields[rows[i] * ordering->order->n_columns + at] = column;
}

static bool is_constant(const struct row_order *order, const struct order_node *node, uint16_t column)
{
    uint32_t hash = cell_at(order, node->rows[0], column)->hash;
    for (size_t i = 1; i < node->n; i++)
        if (cell_at(order, node->rows[i], column)->hash != hash)
            return false;
    return true;
}

static void place_constants(struct ordering *ordering, struct order_node *node)
{
    size_t n_left = 0;
    for (size_t i = 0; i < node->n_columns; i++) {
        struct order_column column = node->columns[i];
        if (!column.is_distinct && is_constant(ordering->order, node, column.number))
            place_rows(ordering, node->rows, node->n, node->n_placed++, column.number);
        else
            node->columns[n_left++] = column;
    }
    node->n_columns = n_left;
}

// Adds a group for each value of the column that two or more rows share. sorted: [n]
static bool find_groups_of(const struct ordering *ordering, const struct order_node *node,
                           struct order_column *column, struct order_choice *choice, uint32_t *sorted)
{
    size_t n_before = choice->n_groups;
    sort_by_value(ordering->order, node, column->number, choice, sorted);
    for (size_t start = 0, end; start < node->n; start = end) {
        uint64_t hash = choice->keys[start] >> 32;
        for (end = start + 1; end < node->n && choice->keys[end] >> 32 == hash;)
            end++;
        if (end == start + 1)
            continue;
        const struct row_cell *value = cell_at(ordering->order, sorted[start], column->number);
        struct order_group group = {.first = (uint32_t)(sorted - choice->sorted + (ptrdiff_t)start),
                                    .n = (uint32_t)(end - start),
                                    .column = column->number,
                                    .score = score_of(value, end - start)};
        if (!add_group(choice, &group))
            return false;
    }
    column->is_distinct = choice->n_groups == n_before; // and it stays so in each part of the node
    return true;
}

static bool find_groups(const struct ordering *ordering, const struct order_node *node,
                        struct order_choice *choice)
{
    for (size_t i = 0; i < node->n_columns; i++)
        if (!node->columns[i].is_distinct &&
            !find_groups_of(ordering, node, &node->columns[i], choice, choice->sorted + i * node->n))
            return false;
    for (size_t i = choice->n_groups / 2; i-- > 0;)
        sift_down(choice, i);
    return true;
}

static size_t count_free(const struct ordering *ordering, const struct order_choice *choice,
                         const struct order_group *group)
{
    size_t n = 0;
    for (uint32_t i = 0; i < group->n; i++)
        n += !ordering->is_taken[choice->sorted[group->first + i]];
    return n;
}

static void take_group(struct ordering *ordering, struct order_choice *choice,
                       const struct order_group *group)
{
    for (uint32_t i = 0; i < group->n; i++) {
        uint32_t row = choice->sorted[group->first + i];
        if (!ordering->is_taken[row])
            choice->chosen[choice->n_chosen++] = row;
        ordering->is_taken[row] = true;
    }
    choice->of[choice->n_ends] = group->column;
    choice->ends[choice->n_ends++] = choice->n_chosen;
}

// Scores only fall, as other groups take rows. So the first group of the heap is the best if its score,
// computed again, has not changed.
static void choose_groups(struct ordering *ordering, const struct order_node *node,
                          struct order_choice *choice)
{
    while (choice->n_groups && choice->n_chosen < node->n) {
        struct order_group *first = &choice->groups[0];
        size_t n = count_free(ordering, choice, first);
        double score =
            n > 1 ? score_of(cell_at(ordering->order, choice->sorted[first->first], first->column), n) : -1;
        if (n > 1 && score >= first->score) {
            take_group(ordering, choice, first);
            score = -1;
        }
        if (score < 0)
            *first = choice->groups[--choice->n_groups];
        else
            first->score = score;
        if (choice->n_groups)
            sift_down(choice, 0);
    }
}

// Rows that are in no group come last, in the table's order.
static void arrange_rows(struct ordering *ordering, struct order_node *node, struct order_choice *choice)
{
    for (size_t i = 0; i < node->n; i++)
        if (!ordering->is_taken[node->rows[i]])
            choice->chosen[choice->n_chosen++] = node->rows[i];
    memcpy(node->rows, choice->chosen, node->n * sizeof *node->rows);
    for (size_t i = 0; i < node->n; i++)
        ordering->is_taken[node->rows[i]] = false;
}

// Puts the node's rows in the order of its groups.
static bool split_node(struct ordering *ordering, struct order_node *node, struct order_choice *choice)
{
    choice->sorted = malloc(node->n * node->n_columns * sizeof *choice->sorted);
    choice->keys = malloc(2 * node->n * sizeof *choice->keys);
    choice->chosen = malloc(node->n * sizeof *choice->chosen);
    choice->ends = malloc(node->n * sizeof *choice->ends);
    choice->of = malloc(node->n * sizeof *choice->of);
    bool fits = choice->sorted && choice->keys && choice->chosen && choice->ends && choice->of &&
                find_groups(ordering, node, choice);
    if (fits) {
        choose_groups(ordering, node, choice);
        arrange_rows(ordering, node, choice);
    }
    free(choice->sorted);
    free(choice->keys);
    free(choice->groups);
    free(choice->chosen);
    return fits;
}

static void plan_node(struct ordering *ordering, struct order_node *node);

static void plan_group(struct ordering *ordering, const struct order_node *node, size_t start, size_t end,
                       uint16_t column)
{
    struct order_column *columns = malloc(node->n_columns * sizeof *columns);
    struct order_node group = {
        .rows = node->rows + start, .columns = columns, .n = end - start, .n_placed = node->n_placed + 1};
    ordering->failed |= !columns;
    for (size_t i = 0; columns && i < node->n_columns; i++)
        if (node->columns[i].number != column)
            columns[group.n_columns++] = node->columns[i];
    if (columns) {
        place_rows(ordering, group.rows, group.n, node->n_placed, column);
        plan_node(ordering, &group);
    }
    free(columns);
}

static void plan_node(struct ordering *ordering, struct order_node *node)
{
    struct order_choice choice = {0};
    if (node->n > 1)
        place_constants(ordering, node);
    if (node->n > 1 && node->n_columns)
        ordering->failed |= !split_node(ordering, node, &choice);
    size_t start = 0;
    for (size_t i = 0; i < choice.n_ends && !ordering->failed; start = choice.ends[i++])
        plan_group(ordering, node, start, choice.ends[i], choice.of[i]);
    for (size_t i = 0; i < node->n_columns; i++)
        place_rows(ordering, node->rows + start, node->n - start, node->n_placed + i,
                   node->columns[i].number);
    free(choice.ends);
    free(choice.of);
}

static bool plan_fields(struct row_order *order)
{
    struct ordering ordering = {.order = order, .is_taken = calloc(order->n_rows, sizeof *ordering.is_taken)};
    struct order_node root = {.rows = order->rows,
                              .columns = malloc(order->n_columns * sizeof *root.columns),
                              .n = order->n_rows,
                              .n_columns = order->n_columns};
    ordering.failed = !ordering.is_taken || !root.columns;
    for (size_t i = 0; root.columns && i < order->n_columns; i++)
        root.columns[i] = (struct order_column){.number = (uint16_t)i};
    if (!ordering.failed)
        plan_node(&ordering, &root);
    free(ordering.is_taken);
    free(root.columns);
    return !ordering.failed;
}

enum status row_order_plan(struct row_order *order, bool are_fields_free, struct error *error)
{
    size_t n = order->n_rows;
    order->rows = malloc((n ? n : 1) * sizeof *order->rows);
    if (!order->rows)
        return error_memory(error, STATUS_REFUSE, "--reorder");
    for (size_t i = 0; i < n; i++)
        order->rows[i] = (uint32_t)i;
    if (!n || !order->n_columns)
        return STATUS_OK;
    if (!are_fields_free) {
        qsort_r(order->rows, n, sizeof *order->rows, compare_rows, order);
        return STATUS_OK;
    }
    order->fields = malloc(n * order->n_columns * sizeof *order->fields);
    return order->fields && plan_fields(order) ? STATUS_OK : error_memory(error, STATUS_REFUSE, "--reorder");
}
