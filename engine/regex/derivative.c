// Derivatives of expressions, stored as sorted pieces over the code points: D(ab) = D(a)b + [a matches ""]
// D(b), and so on for the other operators, piece by piece.
#include "engine/regex/expression_parts.h"

#include <assert.h>
#include <string.h>

struct piece_list {
    struct expression_piece *items;
    size_t n, capacity;
};

// True if the derivation exceeds the visit's work limit; the pool then fails. When a cached derivation is
// counted, it fails in the same way.
static bool is_too_long(struct expressions *pool)
{
    if (pool->steps - pool->steps_before <= expressions_work_max(pool))
        return false;
    expressions_fail(pool, pool->visit.limit);
    return true;
}

static bool add_piece(struct expressions *pool, struct piece_list *list, uint32_t first, uint32_t target)
{
    pool->steps++;
    if (pool->status != STATUS_OK || is_too_long(pool))
        return false;
    if (list->n && list->items[list->n - 1].target == target)
        return true;
    if (list->n && list->items[list->n - 1].first == first)
        list->n--; // the previous piece is empty
    if (VECTOR_ADD(list, ((struct expression_piece){first, target})))
        return true;
    expressions_fail_memory(pool);
    return false;
}

static bool keep_pieces(struct expressions *pool, uint32_t id, const struct piece_list *list)
{
    pool->work += list->n;
    if (pool->work > pool->limits.values[GRAMMAR_LIMIT_WORK])
        expressions_fail(pool, GRAMMAR_LIMIT_WORK);
    else if (!VECTOR_RESERVE(&pool->pieces, pool->pieces.n + list->n))
        expressions_fail_memory(pool);
    if (pool->status != STATUS_OK)
        return false;
    struct expression_node *node = &pool->nodes.items[id];
    node->derivative = (uint32_t)pool->pieces.n;
    node->n_derivative = (uint32_t)list->n;
    memcpy(pool->pieces.items + pool->pieces.n, list->items, list->n * sizeof *list->items);
    pool->pieces.n += list->n;
    return true;
}

static void derive_set(struct expressions *pool, const struct expression_node *node, struct piece_list *list)
{
    uint32_t next = 0;
    for (uint32_t i = 0; i < node->b; i++) {
        struct code_range range = pool->ranges.items[node->a + i];
        if (range.first > next || i == 0)
            add_piece(pool, list, next, EXPRESSION_NOTHING);
        add_piece(pool, list, range.first, EXPRESSION_EMPTY);
        next = range.last + 1;
    }
    if (next <= CODE_POINT_MAX)
        add_piece(pool, list, next, EXPRESSION_NOTHING);
}

// Position within the pieces of a child of EITHER or BOTH, during the sweep over the code points.
struct cursor {
    const struct expression_piece *next, *end;
};

// A cursor that has pieces left, and the code point at which its next piece begins.
struct heap_entry {
    uint32_t first, cursor;
};

struct sweep {
    struct cursor *cursors;
    struct heap_entry *heap; // ordered by `first`
    size_t n_heap;
    uint32_t *active; // current targets that are not EXPRESSION_NOTHING
    size_t n_cursors;
    size_t *places; // for each cursor its index in `active`; SIZE_MAX: none
    size_t *owners; // for each index in `active` its cursor
    size_t n_active;
};

// Replaces the first entry of the heap.
static void sift_down(struct sweep *sweep, struct heap_entry entry)
{
    struct heap_entry *heap = sweep->heap;
    size_t at = 0;
    for (size_t child = 1; child < sweep->n_heap; child = 2 * at + 1) {
        if (child + 1 < sweep->n_heap && heap[child + 1].first < heap[child].first)
            child++;
        if (heap[child].first >= entry.first)
            break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = entry;
}

static void set_target(struct sweep *sweep, size_t cursor, uint32_t target)
{
    size_t place = sweep->places[cursor];
    if (place == SIZE_MAX && target != EXPRESSION_NOTHING) {
        place = sweep->places[cursor] = sweep->n_active++;
        sweep->owners[place] = cursor;
    }
    if (place == SIZE_MAX)
        return;
    sweep->active[place] = target;
    if (target == EXPRESSION_NOTHING) {
        size_t last = --sweep->n_active;
        sweep->active[place] = sweep->active[last];
        sweep->owners[place] = sweep->owners[last];
        sweep->places[sweep->owners[place]] = place;
        sweep->places[cursor] = SIZE_MAX;
    }
}

// Finds the lowest code point at which a next piece begins, advances the cursors that begin there, and
// returns the code point.
static uint32_t sweep_advance(struct sweep *sweep)
{
    uint32_t first = sweep->heap[0].first;
    while (sweep->n_heap && sweep->heap[0].first == first) {
        struct heap_entry entry = sweep->heap[0];
        struct cursor *cursor = &sweep->cursors[entry.cursor];
        set_target(sweep, entry.cursor, cursor->next->target);
        if (++cursor->next == cursor->end)
            entry = sweep->heap[--sweep->n_heap];
        else
            entry.first = cursor->next->first;
        if (sweep->n_heap)
            sift_down(sweep, entry);
    }
    return first;
}

static void sweep_children(struct expressions *pool, enum expression_kind kind, struct sweep *sweep,
                           struct piece_list *list)
{
    while (sweep->n_heap && pool->status == STATUS_OK) {
        uint32_t first = sweep_advance(sweep), target;
        pool->work += 1 + sweep->n_active;
        if (kind == KIND_EITHER)
            target = expression_either_many(pool, sweep->active, sweep->n_active);
        else if (sweep->n_active < sweep->n_cursors)
            target = EXPRESSION_NOTHING;
        else
            target = expression_both_many(pool, sweep->active, sweep->n_active);
        add_piece(pool, list, first, target);
    }
}

static void derive_many(struct expressions *pool, const struct expression_node *node, struct piece_list *list)
{
    size_t n = node->b;
    struct sweep sweep = {.n_cursors = n, .n_heap = n};
    size_t cursor_bytes = n * sizeof *sweep.cursors, index_bytes = n * sizeof(size_t);
    char *memory = malloc(cursor_bytes + n * sizeof *sweep.heap + 2 * index_bytes + n * sizeof *sweep.active);
    if (!memory) {
        expressions_fail_memory(pool);
        return;
    }
    sweep.cursors = (void *)memory;
    sweep.heap = (void *)(memory + cursor_bytes);
    sweep.places = (void *)(sweep.heap + n);
    sweep.owners = sweep.places + n;
    sweep.active = (void *)(sweep.owners + n);
    for (size_t i = 0; i < n; i++) { // all begin at 0, so any order is a heap
        const struct expression_node *child = expression_node(pool, pool->links.items[node->a + i]);
        const struct expression_piece *pieces = pool->pieces.items + child->derivative;
        sweep.cursors[i] = (struct cursor){pieces, pieces + child->n_derivative};
        sweep.heap[i] = (struct heap_entry){0, (uint32_t)i};
        sweep.places[i] = SIZE_MAX;
    }
    sweep_children(pool, node->kind, &sweep, list);
    free(memory);
}

static void derive_concat(struct expressions *pool, const struct expression_node *node,
                          struct piece_list *list)
{
    struct expression_node a = *expression_node(pool, node->a), b = *expression_node(pool, node->b);
    const struct expression_piece *left = pool->pieces.items + a.derivative,
                                  *left_end = left + a.n_derivative;
    if (!a.nullable) {
        for (; left < left_end; left++)
            add_piece(pool, list, left->first, expression_concat(pool, left->target, node->b));
        return;
    }
    const struct expression_piece *right = pool->pieces.items + b.derivative,
                                  *right_end = right + b.n_derivative;
    for (uint32_t first = 0; left < left_end && pool->status == STATUS_OK;) {
        add_piece(pool, list, first,
                  expression_either(pool, expression_concat(pool, left->target, node->b), right->target));
        uint32_t left_next = left + 1 < left_end ? left[1].first : CODE_POINT_MAX + 1;
        uint32_t right_next = right + 1 < right_end ? right[1].first : CODE_POINT_MAX + 1;
        first = left_next < right_next ? left_next : right_next;
        if (first > CODE_POINT_MAX)
            break;
        left += left_next == first;
        right += right_next == first;
    }
}

static void derive_node(struct expressions *pool, const struct expression_node *node, struct piece_list *list)
{
    switch ((enum expression_kind)node->kind) {
    case KIND_NOTHING:
    case KIND_EMPTY:
        add_piece(pool, list, 0, EXPRESSION_NOTHING);
        break;
    case KIND_SET:
        derive_set(pool, node, list);
        break;
    case KIND_CONCAT:
        derive_concat(pool, node, list);
        break;
    case KIND_EITHER:
    case KIND_BOTH:
        derive_many(pool, node, list);
        break;
    case KIND_COMPLEMENT:
    case KIND_REPEAT: {
        const struct expression_node a = *expression_node(pool, node->a);
        uint32_t max = node->c == EXPRESSION_UNBOUNDED ? node->c : node->c - 1;
        uint32_t rest =
            node->kind == KIND_REPEAT ? expression_repeat(pool, node->a, node->b ? node->b - 1 : 0, max) : 0;
        for (uint32_t i = 0; i < a.n_derivative; i++) {
            struct expression_piece piece = pool->pieces.items[a.derivative + i];
            add_piece(pool, list, piece.first,
                      node->kind == KIND_REPEAT ? expression_concat(pool, piece.target, rest)
                                                : expression_complement(pool, piece.target));
        }
        break;
    }
    }
}

static uint32_t add_saturated(uint32_t a, uint64_t b)
{
    return b > UINT32_MAX - a ? UINT32_MAX : a + (uint32_t)b;
}

uint32_t expression_derived_parts(const struct expressions *pool, const struct expression_node *node,
                                  uint32_t own[2], const uint32_t **parts)
{
    *parts = own;
    own[0] = node->a;
    own[1] = node->b;
    switch ((enum expression_kind)node->kind) {
    case KIND_NOTHING:
    case KIND_EMPTY:
    case KIND_SET:
        return 0;
    case KIND_CONCAT:
        return expression_node(pool, node->a)->nullable ? 2 : 1;
    case KIND_EITHER:
    case KIND_BOTH:
        *parts = pool->links.items + node->a;
        return node->b;
    case KIND_COMPLEMENT:
    case KIND_REPEAT:
        return 1;
    }
    return 0;
}

static void describe_work(struct expressions *pool, uint32_t id, uint64_t own)
{
    uint32_t room[2];
    const uint32_t *parts;
    struct expression_node *node = &pool->nodes.items[id];
    const uint32_t n = expression_derived_parts(pool, node, room, &parts);
    node->work.own = node->work.all = add_saturated(0, own);
    for (uint32_t i = 0; i < n; i++)
        node->work.all = add_saturated(node->work.all, expression_node(pool, parts[i])->work.all);
}

static bool derive_parts(struct expressions *pool, const struct expression_node *node)
{
    uint32_t room[2];
    const uint32_t *parts;
    const uint32_t n = expression_derived_parts(pool, node, room, &parts);
    for (uint32_t i = 0; i < n;
         i++, expression_derived_parts(pool, node, room, &parts)) // `parts` is invalid after a derivation
        if (!expression_derive(pool, parts[i]))
            return false;
    return true;
}

// Derives `id`. The recursion depth is expression_node.depth, which GRAMMAR_LIMIT_DEPTH limits.
bool expression_derive(struct expressions *pool, uint32_t id)
{
    struct expression_node node = *expression_node(pool, id); // a copy: the array of nodes may move
    if (pool->status != STATUS_OK)
        return false;
    if (node.derivative != NO_DERIVATIVE)
        return true;
    if (pool->deriving++ == 0)
        pool->steps_before = pool->steps;
    struct piece_list list = {0};
    bool whole = derive_parts(pool, &node);
    const uint64_t steps = pool->steps;
    if (whole)
        derive_node(pool, &node, &list);
    whole = pool->status == STATUS_OK && keep_pieces(pool, id, &list);
    if (whole)
        describe_work(pool, id, pool->steps - steps);
    VECTOR_FINISH(&list);
    pool->deriving--;
    return whole;
}

static uint32_t n_terms(const struct expression_node *node)
{
    return node->kind == KIND_EITHER || node->kind == KIND_BOTH ? node->b : 1;
}

uint64_t expression_derived_work(const struct expressions *pool, uint32_t id)
{
    const struct expression_node *node = expression_node(pool, id);
    uint64_t terms = 1;
    for (uint32_t i = 0; n_terms(node) > 1 && i < node->b; i++)
        terms += n_terms(expression_node(pool, pool->links.items[node->a + i]));
    return terms * node->n_derivative;
}

// Finds the last piece that begins at or before the code point.
static const struct expression_piece *find_piece(const struct expressions *pool, uint32_t id,
                                                 uint32_t code_point)
{
    const struct expression_node *node = expression_node(pool, id);
    const struct expression_piece *pieces = pool->pieces.items + node->derivative;
    size_t low = 0, high = node->n_derivative;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (pieces[middle].first <= code_point)
            low = middle;
        else
            high = middle;
    }
    return pieces + low;
}

uint32_t expression_step(struct expressions *pool, uint32_t id, uint32_t code_point)
{
    return expression_derive(pool, id) ? find_piece(pool, id, code_point)->target : EXPRESSION_NOTHING;
}

void expression_piece_range(const struct expressions *pool, uint32_t id, uint32_t code_point, uint32_t *first,
                            uint32_t *last)
{
    const struct expression_node *node = expression_node(pool, id);
    const struct expression_piece *piece = find_piece(pool, id, code_point);
    bool is_last = piece + 1 == pool->pieces.items + node->derivative + node->n_derivative;
    *first = piece->first;
    *last = is_last ? CODE_POINT_MAX : piece[1].first - 1;
}

bool expression_step_range(struct expressions *pool, uint32_t id, uint32_t first, uint32_t last,
                           uint32_t *target)
{
    *target = EXPRESSION_NOTHING;
    if (!expression_derive(pool, id))
        return true;
    const struct expression_node *node = expression_node(pool, id);
    const struct expression_piece *piece = find_piece(pool, id, first);
    const struct expression_piece *end = pool->pieces.items + node->derivative + node->n_derivative;
    *target = piece->target;
    return piece + 1 == end || piece[1].first > last;
}

bool expression_matches(struct expressions *pool, uint32_t a, struct text utf8)
{
    for (size_t at = 0; at < utf8.size && a != EXPRESSION_NOTHING;) {
        uint32_t code_point;
        size_t size = utf8_decode(utf8.data + at, utf8.size - at, &code_point);
        if (size == 0)
            return false;
        a = expression_step(pool, a, code_point);
        at += size;
    }
    return pool->status == STATUS_OK && expression_node(pool, a)->nullable;
}
