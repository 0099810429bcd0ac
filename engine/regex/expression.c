#include "engine/regex/expression_parts.h"

#include <assert.h>
#include <string.h>

enum { SURROGATE_FIRST = 0xD800, SURROGATE_LAST = 0xDFFF };

static int compare_ranges(const void *a, const void *b)
{
    const struct code_range *x = a, *y = b;
    return (x->first > y->first) - (x->first < y->first);
}

// Sorts, joins and trims the ranges in place. Returns how many are left. A set contains the surrogates if and
// only if it contains U+D7FF. No text has surrogates, so a set that spans them is one range.
static size_t normalize_ranges(struct code_range *ranges, size_t n)
{
    qsort(ranges, n, sizeof *ranges, compare_ranges);
    size_t n_out = 0;
    for (size_t i = 0; i < n; i++) {
        struct code_range range = ranges[i];
        if (range.last > CODE_POINT_MAX)
            range.last = CODE_POINT_MAX;
        if (range.first >= SURROGATE_FIRST && range.first <= SURROGATE_LAST)
            range.first = SURROGATE_LAST + 1;
        if (range.last >= SURROGATE_FIRST - 1 && range.last <= SURROGATE_LAST)
            range.last = range.first < SURROGATE_FIRST ? SURROGATE_LAST : SURROGATE_FIRST - 1;
        if (range.first > range.last)
            continue;
        if (n_out && range.first <= ranges[n_out - 1].last + 1) {
            if (range.last > ranges[n_out - 1].last)
                ranges[n_out - 1].last = range.last;
        } else {
            ranges[n_out++] = range;
        }
    }
    return n_out;
}

uint32_t expression_set(struct expressions *pool, const struct code_range *ranges, size_t n_ranges)
{
    if (n_ranges == 0)
        return EXPRESSION_NOTHING;
    struct code_range few[32], *own = n_ranges <= 32 ? few : malloc(n_ranges * sizeof *own);
    if (!own)
        return expressions_fail_memory(pool);
    memcpy(own, ranges, n_ranges * sizeof *own);
    size_t n = normalize_ranges(own, n_ranges);
    uint32_t id = n ? expression_intern(pool, KIND_SET, 0, 0, 0, own, n) : EXPRESSION_NOTHING;
    if (own != few)
        free(own);
    return id;
}

uint32_t expression_set_complement(struct expressions *pool, uint32_t set)
{
    if (set == EXPRESSION_NOTHING)
        return pool->status == STATUS_OK ? EXPRESSION_ANY : EXPRESSION_NOTHING;
    const struct expression_node *node = expression_node(pool, set);
    assert(node->kind == KIND_SET);
    size_t n = 0;
    struct code_range *gaps = malloc((node->b + 1) * sizeof *gaps);
    if (!gaps)
        return expressions_fail_memory(pool);
    uint32_t next = 0;
    for (uint32_t i = 0; i < node->b; i++) {
        struct code_range range = pool->ranges.items[node->a + i];
        if (range.first > next)
            gaps[n++] = (struct code_range){next, range.first - 1};
        next = range.last + 1;
    }
    if (next <= CODE_POINT_MAX)
        gaps[n++] = (struct code_range){next, CODE_POINT_MAX};
    uint32_t id = expression_set(pool, gaps, n);
    free(gaps);
    return id;
}

bool expression_code_point(const struct expressions *pool, uint32_t set, uint32_t *code_point)
{
    const struct expression_node *node = expression_node(pool, set);
    if (node->kind != KIND_SET || node->b != 1)
        return false;
    struct code_range range = pool->ranges.items[node->a];
    *code_point = range.first;
    return range.first == range.last || (range.first == SURROGATE_FIRST - 1 && range.last == SURROGATE_LAST);
}

uint32_t expression_literal(struct expressions *pool, struct text utf8)
{
    if (!utf8_valid(utf8.data, utf8.size))
        return EXPRESSION_NOTHING;
    uint32_t id = EXPRESSION_EMPTY;
    for (size_t end = utf8.size; end > 0;) {
        size_t start = end - 1;
        while (start > 0 && ((unsigned char)utf8.data[start] & 0xC0) == 0x80)
            start--;
        uint32_t code_point = 0;
        utf8_decode(utf8.data + start, end - start, &code_point);
        id = expression_concat(pool, expression_set(pool, &(struct code_range){code_point, code_point}, 1),
                               id);
        end = start;
    }
    return pool->status == STATUS_OK ? id : EXPRESSION_NOTHING;
}

static uint32_t concat_one(struct expressions *pool, uint32_t a, uint32_t b)
{
    pool->steps++;
    if (a == EXPRESSION_NOTHING || b == EXPRESSION_NOTHING)
        return EXPRESSION_NOTHING;
    if (a == EXPRESSION_EMPTY)
        return b;
    if (b == EXPRESSION_EMPTY)
        return a;
    const struct expression_node *first = expression_node(pool, a), *rest = expression_node(pool, b);
    bool is_star = first->kind == KIND_REPEAT && first->b == 0 && first->c == EXPRESSION_UNBOUNDED;
    if (is_star && (a == b || (rest->kind == KIND_CONCAT && rest->a == a)))
        return b; // x*x* is x*
    return expression_intern(pool, KIND_CONCAT, a, b, 0, NULL, 0);
}

uint32_t expression_concat(struct expressions *pool, uint32_t a, uint32_t b)
{
    if (expression_node(pool, a)->kind != KIND_CONCAT || b == EXPRESSION_EMPTY || b == EXPRESSION_NOTHING)
        return concat_one(pool, a, b);
    VECTOR(uint32_t) spine = {0}; // a's parts, to keep the result right-associative
    bool whole = true;
    for (; whole && expression_node(pool, a)->kind == KIND_CONCAT; a = expression_node(pool, a)->b)
        whole = VECTOR_ADD(&spine, expression_node(pool, a)->a);
    if (whole)
        b = concat_one(pool, a, b);
    while (whole && spine.n)
        b = concat_one(pool, spine.items[--spine.n], b);
    VECTOR_FINISH(&spine);
    return whole ? b : expressions_fail_memory(pool);
}

uint32_t expression_concat_many(struct expressions *pool, const uint32_t *parts, size_t n_parts)
{
    uint32_t id = EXPRESSION_EMPTY;
    while (n_parts)
        id = expression_concat(pool, parts[--n_parts], id);
    return pool->status == STATUS_OK ? id : EXPRESSION_NOTHING;
}

static int compare_ids(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

// Shell sort for short lists, which are the most frequent.
enum { SORTED_IN_PLACE_MAX = 256 };
static const size_t gaps[] = {132, 57, 23, 10, 4, 1};

static void sort_ids(uint32_t *ids, size_t n)
{
    if (n > SORTED_IN_PLACE_MAX) {
        qsort(ids, n, sizeof *ids, compare_ids);
        return;
    }
    for (size_t k = 0; k < sizeof gaps / sizeof *gaps; k++)
        for (size_t i = gaps[k]; i < n; i++) {
            uint32_t id = ids[i];
            size_t at = i;
            for (; at >= gaps[k] && ids[at - gaps[k]] > id; at -= gaps[k])
                ids[at] = ids[at - gaps[k]];
            ids[at] = id;
        }
}

struct id_list {
    uint32_t *items;
    size_t n, capacity;
};

// Replaces nested nodes of the same kind by their parts, sorts, and removes duplicates. False: out of memory,
// or the pool has failed because the parts exceed the visit's work limit.
static bool flatten_parts(struct expressions *pool, enum expression_kind kind, const uint32_t *parts,
                          size_t n_parts, struct id_list *list)
{
    for (size_t i = 0; i < n_parts; i++) {
        const struct expression_node *node = expression_node(pool, parts[i]);
        bool nested = node->kind == kind;
        const uint32_t *from = nested ? pool->links.items + node->a : &parts[i];
        size_t n = nested ? node->b : 1;
        if (list->n + n > expressions_work_max(pool)) {
            expressions_fail(pool, pool->visit.limit);
            return false;
        }
        if (!VECTOR_RESERVE(list, list->n + n))
            return false;
        memcpy(list->items + list->n, from, n * sizeof *from);
        list->n += n;
    }
    pool->steps += 1 + list->n * (64 - (size_t)__builtin_clzll(list->n | 8)) / 4; // steps of sorting
    sort_ids(list->items, list->n);
    size_t n = 0;
    for (size_t i = 0; i < list->n; i++)
        if (n == 0 || list->items[n - 1] != list->items[i])
            list->items[n++] = list->items[i];
    list->n = n;
    return true;
}

// Removes the sets from the list and returns their union. The list has at least one set.
static uint32_t take_sets(struct expressions *pool, struct id_list *list)
{
    VECTOR(struct code_range) ranges = {0};
    size_t n = 0;
    bool whole = true;
    for (size_t i = 0; i < list->n; i++) {
        const struct expression_node *node = expression_node(pool, list->items[i]);
        if (node->kind != KIND_SET) {
            list->items[n++] = list->items[i];
            continue;
        }
        pool->steps += node->b;
        whole = whole && VECTOR_RESERVE(&ranges, ranges.n + node->b);
        if (whole)
            memcpy(ranges.items + ranges.n, pool->ranges.items + node->a, node->b * sizeof *ranges.items);
        ranges.n += whole ? node->b : 0;
    }
    list->n = n;
    uint32_t set = expression_set(pool, ranges.items, ranges.n);
    VECTOR_FINISH(&ranges);
    return whole ? set : expressions_fail_memory(pool);
}

static bool insert_id(struct id_list *list, uint32_t id)
{
    if (!VECTOR_RESERVE(list, list->n + 1))
        return false;
    size_t at = list->n++;
    for (; at > 0 && list->items[at - 1] > id; at--)
        list->items[at] = list->items[at - 1];
    list->items[at] = id;
    return true;
}

static bool list_has(const struct id_list *list, uint32_t id)
{
    return bsearch(&id, list->items, list->n, sizeof id, compare_ids);
}

// True if terms of the list match everything that `id` matches, decided by ids only.
static bool list_covers(const struct expressions *pool, const struct id_list *list, uint32_t id)
{
    const struct expression_node *node = expression_node(pool, id);
    if (node->kind != KIND_EITHER)
        return list_has(list, id);
    for (uint32_t i = 0; i < node->b; i++)
        if (!list_has(list, pool->links.items[node->a + i]))
            return false;
    return true;
}

// Counts of the terms of each kind.
struct term_counts {
    size_t n_sets, n_complements, n_repetitions;
    bool has_all, is_nullable; // is_nullable: a term other than "" is nullable
};

static struct term_counts count_terms(const struct expressions *pool, const struct id_list *list)
{
    struct term_counts counts = {0};
    for (size_t i = 0; i < list->n; i++) {
        const struct expression_node *node = expression_node(pool, list->items[i]);
        counts.n_sets += node->kind == KIND_SET;
        counts.n_complements += node->kind == KIND_COMPLEMENT;
        counts.n_repetitions += node->is_repetition;
        counts.has_all |= list->items[i] == EXPRESSION_ALL;
        counts.is_nullable |= node->nullable && list->items[i] != EXPRESSION_EMPTY;
    }
    return counts;
}

// True if a term and its complement are in the list. If there are more than COMPLEMENTS_MAX complements,
// complements of alternatives are skipped. Testing only some of them would make the result depend on the
// order of ids.
static bool is_everything(const struct expressions *pool, const struct id_list *list,
                          const struct term_counts *counts)
{
    enum { COMPLEMENTS_MAX = 16 };
    for (size_t i = 0; i < list->n && counts->n_complements && !counts->has_all; i++) {
        const struct expression_node *node = expression_node(pool, list->items[i]);
        if (node->kind != KIND_COMPLEMENT)
            continue;
        bool is_looked_at =
            counts->n_complements <= COMPLEMENTS_MAX || expression_node(pool, node->a)->kind != KIND_EITHER;
        if (is_looked_at && list_covers(pool, list, node->a))
            return true;
    }
    return counts->has_all;
}

// A term that begins with a repetition: of{min,max}rest.
struct repetition {
    uint32_t of, rest, min, max;
};

static bool read_repetition(const struct expressions *pool, uint32_t id, struct repetition *repetition)
{
    const struct expression_node *node = expression_node(pool, id);
    uint32_t rest = node->kind == KIND_CONCAT ? node->b : EXPRESSION_EMPTY;
    if (!node->is_repetition)
        return false;
    if (node->kind == KIND_CONCAT)
        node = expression_node(pool, node->a);
    *repetition = (struct repetition){node->a, rest, node->b, node->c};
    return true;
}

static int compare_repetitions(const void *a, const void *b)
{
    const struct repetition *x = a, *y = b;
    if (x->of != y->of || x->rest != y->rest)
        return x->of != y->of ? (x->of > y->of) - (x->of < y->of) : (x->rest > y->rest) - (x->rest < y->rest);
    return (x->min > y->min) - (x->min < y->min);
}

static void sort_repetitions(struct repetition *repetitions, size_t n)
{
    if (n > SORTED_IN_PLACE_MAX) {
        qsort(repetitions, n, sizeof *repetitions, compare_repetitions);
        return;
    }
    for (size_t k = 0; k < sizeof gaps / sizeof *gaps; k++)
        for (size_t i = gaps[k]; i < n; i++) {
            struct repetition one = repetitions[i];
            size_t at = i;
            for (; at >= gaps[k] && compare_repetitions(&repetitions[at - gaps[k]], &one) > 0; at -= gaps[k])
                repetitions[at] = repetitions[at - gaps[k]];
            repetitions[at] = one;
        }
}

// Sorts the repetitions. Joins repetitions that differ only in their counts, if the counts leave no gap.
// Returns how many are left.
static size_t join_counts(struct repetition *repetitions, size_t n)
{
    sort_repetitions(repetitions, n);
    size_t n_out = 0;
    for (size_t i = 0; i < n; i++) {
        struct repetition *last = n_out ? &repetitions[n_out - 1] : NULL, one = repetitions[i];
        bool joins = last && last->of == one.of && last->rest == one.rest &&
                     (last->max == EXPRESSION_UNBOUNDED || one.min <= last->max + 1);
        if (joins && one.max > last->max)
            last->max = one.max;
        if (!joins)
            repetitions[n_out++] = one;
    }
    return n_out;
}

// Joins repetitions of one expression before the same rest, which are frequent if several counts are
// possible. False: nothing to join.
static bool join_repetitions(struct expressions *pool, struct id_list *list, size_t n_repetitions)
{
    struct repetition one, *repetitions;
    size_t n = 0;
    if (n_repetitions < 2)
        return false;
    repetitions = malloc(n_repetitions * sizeof *repetitions);
    if (!repetitions) {
        expressions_fail_memory(pool);
        return false;
    }
    n_repetitions = 0;
    for (size_t i = 0; i < list->n; i++)
        if (read_repetition(pool, list->items[i], &one))
            repetitions[n_repetitions++] = one;
    size_t n_joined = join_counts(repetitions, n_repetitions);
    for (size_t i = 0; n_joined < n_repetitions && i < list->n; i++)
        if (!read_repetition(pool, list->items[i], &one))
            list->items[n++] = list->items[i];
    for (size_t i = 0; n_joined < n_repetitions && i < n_joined; i++) {
        one = repetitions[i];
        list->items[n++] =
            expression_concat(pool, expression_repeat(pool, one.of, one.min, one.max), one.rest);
    }
    free(repetitions);
    list->n = n_joined < n_repetitions ? n : list->n;
    return n_joined < n_repetitions;
}

static uint32_t either_of(struct expressions *pool, struct id_list *list)
{
    const struct term_counts counts = count_terms(pool, list);
    if (is_everything(pool, list, &counts))
        return EXPRESSION_ALL;
    if (join_repetitions(pool, list, counts.n_repetitions))
        return expression_either_many(pool, list->items, list->n);
    size_t n_before = list->n && list->items[0] == EXPRESSION_NOTHING; // ids are in ascending order
    if (counts.is_nullable && n_before < list->n && list->items[n_before] == EXPRESSION_EMPTY)
        n_before++;
    list->n -= n_before;
    if (n_before && list->n)
        memmove(list->items, list->items + n_before, list->n * sizeof *list->items);
    if (counts.n_sets > 1) {
        uint32_t set = take_sets(pool, list);
        if (!insert_id(list, set))
            return expressions_fail_memory(pool);
    }
    if (list->n < 2)
        return list->n ? list->items[0] : EXPRESSION_NOTHING;
    if (list->n > pool->limits.values[GRAMMAR_LIMIT_STATE_TERMS])
        return expressions_fail(pool, GRAMMAR_LIMIT_STATE_TERMS);
    return expression_intern(pool, KIND_EITHER, 0, 0, 0, list->items, list->n);
}

uint32_t expression_either_many(struct expressions *pool, const uint32_t *parts, size_t n_parts)
{
    if (pool->status != STATUS_OK)
        return EXPRESSION_NOTHING;
    struct id_list list = {0};
    bool whole = flatten_parts(pool, KIND_EITHER, parts, n_parts, &list);
    uint32_t id = whole ? either_of(pool, &list) : expressions_fail_memory(pool);
    VECTOR_FINISH(&list);
    return id;
}

uint32_t expression_either(struct expressions *pool, uint32_t a, uint32_t b)
{
    if (a == b || b == EXPRESSION_NOTHING)
        return pool->status == STATUS_OK ? a : EXPRESSION_NOTHING;
    if (a == EXPRESSION_NOTHING)
        return b;
    return expression_either_many(pool, (uint32_t[]){a, b}, 2);
}

static bool is_repeated_set(const struct expressions *pool, uint32_t id)
{
    const struct expression_node *node = expression_node(pool, id);
    return node->kind == KIND_REPEAT && expression_node(pool, node->a)->kind == KIND_SET;
}

// Intersects repetitions of sets, such as lengths and character classes, into one repetition. False: fewer
// than two.
static bool join_repeated_sets(struct expressions *pool, struct id_list *list)
{
    struct expression_node joined = {.a = EXPRESSION_ANY, .b = 0, .c = EXPRESSION_UNBOUNDED};
    size_t n = 0, n_repeated = 0;
    for (size_t i = 0; i < list->n; i++)
        n_repeated += is_repeated_set(pool, list->items[i]);
    if (n_repeated < 2)
        return false;
    for (size_t i = 0; i < list->n; i++) {
        const struct expression_node node = *expression_node(pool, list->items[i]);
        if (!is_repeated_set(pool, list->items[i])) {
            list->items[n++] = list->items[i];
            continue;
        }
        joined.a = expression_both(pool, joined.a, node.a);
        joined.b = node.b > joined.b ? node.b : joined.b;
        joined.c = node.c < joined.c ? node.c : joined.c;
    }
    list->n = n;
    list->items[list->n++] = expression_repeat(pool, joined.a, joined.b, joined.c);
    return true;
}

// Counts the steps of intersecting the sets, no matter what they have in common.
static uint64_t count_ranges(const struct expressions *pool, const struct id_list *list)
{
    uint64_t n = 0;
    for (size_t i = 0; i < list->n; i++) {
        const struct expression_node *node = expression_node(pool, list->items[i]);
        if (is_repeated_set(pool, list->items[i]))
            node = expression_node(pool, node->a);
        n += node->kind == KIND_SET ? 1 + (uint64_t)node->b : 0;
    }
    return n;
}

static uint32_t both_of(struct expressions *pool, struct id_list *list)
{
    const uint64_t n_steps = pool->steps + count_ranges(pool, list);
    const bool is_joined = join_repeated_sets(pool, list);
    pool->steps = n_steps;
    if (is_joined)
        return expression_both_many(pool, list->items, list->n);
    bool nullable = true, has_empty = false;
    size_t n = 0;
    uint32_t set = EXPRESSION_ANY;
    bool has_set = false;
    for (size_t i = 0; i < list->n; i++) {
        uint32_t id = list->items[i];
        if (id == EXPRESSION_NOTHING)
            return EXPRESSION_NOTHING;
        nullable &= expression_node(pool, id)->nullable;
        has_empty |= id == EXPRESSION_EMPTY;
        if (expression_node(pool, id)->kind == KIND_SET) { // intersection of the sets, by de Morgan
            set =
                expression_set_complement(pool, expression_either(pool, expression_set_complement(pool, set),
                                                                  expression_set_complement(pool, id)));
            has_set = true;
        } else if (id != EXPRESSION_ALL) {
            list->items[n++] = id;
        }
    }
    list->n = n;
    pool->steps = n_steps;
    if (has_empty)
        return nullable ? EXPRESSION_EMPTY : EXPRESSION_NOTHING;
    if (has_set && set == EXPRESSION_NOTHING)
        return EXPRESSION_NOTHING;
    if (has_set && !insert_id(list, set))
        return expressions_fail_memory(pool);
    if (list->n < 2)
        return list->n ? list->items[0] : EXPRESSION_ALL;
    if (list->n > pool->limits.values[GRAMMAR_LIMIT_STATE_TERMS])
        return expressions_fail(pool, GRAMMAR_LIMIT_STATE_TERMS);
    return expression_intern(pool, KIND_BOTH, 0, 0, 0, list->items, list->n);
}

uint32_t expression_both_many(struct expressions *pool, const uint32_t *parts, size_t n_parts)
{
    if (pool->status != STATUS_OK)
        return EXPRESSION_NOTHING;
    struct id_list list = {0};
    bool whole = flatten_parts(pool, KIND_BOTH, parts, n_parts, &list);
    uint32_t id = whole ? both_of(pool, &list) : expressions_fail_memory(pool);
    VECTOR_FINISH(&list);
    return pool->status == STATUS_OK ? id : EXPRESSION_NOTHING;
}

uint32_t expression_both(struct expressions *pool, uint32_t a, uint32_t b)
{
    return expression_both_many(pool, (uint32_t[]){a, b}, 2);
}

uint32_t expression_complement(struct expressions *pool, uint32_t a)
{
    pool->steps++;
    if (pool->status != STATUS_OK)
        return EXPRESSION_NOTHING;
    if (a == EXPRESSION_NOTHING)
        return EXPRESSION_ALL;
    if (a == EXPRESSION_ALL)
        return EXPRESSION_NOTHING;
    const struct expression_node *node = expression_node(pool, a);
    return node->kind == KIND_COMPLEMENT ? node->a
                                         : expression_intern(pool, KIND_COMPLEMENT, a, 0, 0, NULL, 0);
}

uint32_t expression_repeat(struct expressions *pool, uint32_t a, uint32_t min, uint32_t max)
{
    pool->steps++;
    if (pool->status != STATUS_OK || min > max)
        return EXPRESSION_NOTHING;
    if (max == 0 || a == EXPRESSION_EMPTY || a == EXPRESSION_NOTHING)
        return min == 0 || a == EXPRESSION_EMPTY ? EXPRESSION_EMPTY : EXPRESSION_NOTHING;
    const struct expression_node *node = expression_node(pool, a);
    if (max == 1)
        return min ? a : expression_either(pool, EXPRESSION_EMPTY, a);
    if (node->nullable)
        min = 0;
    if (min == 0 && node->kind == KIND_REPEAT && node->b <= 1 && node->c == EXPRESSION_UNBOUNDED)
        return expression_repeat(pool, node->a, 0, EXPRESSION_UNBOUNDED); // (x*){0,n} and (x+){0,n} are x*
    if (node->kind == KIND_EITHER &&
        pool->links.items[node->a] == EXPRESSION_EMPTY) { // "" adds nothing to a repetition
        uint32_t n_rest = node->b - 1, *rest = malloc(n_rest * sizeof *rest);
        if (!rest)
            return expressions_fail_memory(pool);
        memcpy(rest, pool->links.items + node->a + 1, n_rest * sizeof *rest);
        a = expression_either_many(pool, rest, n_rest);
        free(rest);
        return expression_repeat(pool, a, 0, max);
    }
    return expression_intern(pool, KIND_REPEAT, a, min, max, NULL, 0);
}

uint64_t expression_positions(const struct expressions *pool, uint32_t a)
{
    return expression_node(pool, a)->positions;
}

bool expression_is_nullable(const struct expressions *pool, uint32_t a)
{
    return expression_node(pool, a)->nullable;
}

uint32_t expression_without(struct expressions *pool, struct text utf8)
{
    uint32_t after = expression_concat(pool, expression_literal(pool, utf8), EXPRESSION_ALL);
    return expression_complement(pool, expression_concat(pool, EXPRESSION_ALL, after));
}
