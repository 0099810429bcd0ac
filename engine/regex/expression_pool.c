#include "engine/regex/expression_parts.h"
#include "schemas/base/hash.h"

#include <assert.h>
#include <string.h>

uint32_t expressions_fail(struct expressions *pool, enum grammar_limit limit)
{
    if (pool->status == STATUS_OK) {
        pool->status = STATUS_REJECT;
        pool->limit = limit;
    }
    return EXPRESSION_NOTHING;
}

uint32_t expressions_fail_memory(struct expressions *pool)
{
    if (pool->status == STATUS_OK)
        pool->status = STATUS_RETRY;
    return EXPRESSION_NOTHING;
}

enum status expressions_status(const struct expressions *pool, struct error *error)
{
    if (pool->status == STATUS_REJECT && error)
        return grammar_limit_reached(&pool->limits, pool->limit, error);
    if (pool->status == STATUS_RETRY && error)
        return error_memory(error, STATUS_RETRY, "a grammar's expressions");
    return pool->status;
}

static size_t payload_bytes(enum expression_kind kind)
{
    return kind == KIND_SET ? sizeof(struct code_range) : sizeof(uint32_t);
}

static bool has_payload(enum expression_kind kind)
{
    return kind == KIND_SET || kind == KIND_EITHER || kind == KIND_BOTH;
}

static const void *payload_of(const struct expressions *pool, const struct expression_node *node)
{
    return node->kind == KIND_SET ? (const void *)(pool->ranges.items + node->a)
                                  : pool->links.items + node->a;
}

static uint64_t hash_node(enum expression_kind kind, uint32_t a, uint32_t b, uint32_t c, const void *payload,
                          size_t n)
{
    if (has_payload(kind))
        return hash_bytes(payload, n * payload_bytes(kind), kind);
    const uint32_t words[] = {a, b, c};
    return hash_bytes(words, sizeof words, kind);
}

static bool node_equals(const struct expressions *pool, uint32_t id, enum expression_kind kind, uint32_t a,
                        uint32_t b, uint32_t c, const void *payload, size_t n)
{
    const struct expression_node *node = expression_node(pool, id);
    if (node->kind != kind)
        return false;
    if (has_payload(kind))
        return node->b == n && memcmp(payload_of(pool, node), payload, n * payload_bytes(kind)) == 0;
    return node->a == a && node->b == b && node->c == c;
}

static uint32_t add_saturated(uint64_t a, uint64_t b)
{
    return a + b > UINT32_MAX ? UINT32_MAX : (uint32_t)(a + b);
}

static uint32_t positions_repeated(const struct expression_node *of, uint32_t min, uint32_t max)
{
    uint64_t times = max == EXPRESSION_UNBOUNDED ? (min ? min : 1) : max;
    if (of->kind == KIND_SET)
        times = 1 + times / 1000;
    uint64_t positions;
    if (__builtin_mul_overflow(times, of->positions, &positions) || positions > UINT32_MAX)
        return UINT32_MAX;
    return (uint32_t)positions;
}

static void describe_many(const struct expressions *pool, struct expression_node *node)
{
    bool is_either = node->kind == KIND_EITHER;
    node->nullable = !is_either;
    node->uncertain = true;
    for (uint32_t i = 0; i < node->b; i++) {
        const struct expression_node *child = expression_node(pool, pool->links.items[node->a + i]);
        node->nullable = is_either ? node->nullable || child->nullable : node->nullable && child->nullable;
        if (is_either) // one term that matches something is enough
            node->uncertain = node->uncertain && child->uncertain;
        node->positions = add_saturated(node->positions, child->positions);
        if (child->depth >= node->depth)
            node->depth = child->depth + EXPRESSION_DEPTH_STEP;
    }
}

// Computes the node's properties from its children.
static void describe_node(const struct expressions *pool, struct expression_node *node)
{
    const struct expression_node *a = node->kind >= KIND_CONCAT ? expression_node(pool, node->a) : NULL;
    switch ((enum expression_kind)node->kind) {
    case KIND_NOTHING:
        break;
    case KIND_EMPTY:
        node->nullable = true;
        break;
    case KIND_SET:
        node->positions = 1;
        break;
    case KIND_CONCAT: {
        const struct expression_node *b = expression_node(pool, node->b);
        node->nullable = a->nullable && b->nullable;
        node->uncertain = a->uncertain || b->uncertain;
        node->positions = add_saturated(a->positions, b->positions);
        node->is_repetition = a->kind == KIND_REPEAT;
        node->depth = (a->nullable && b->depth > a->depth ? b->depth : a->depth) + EXPRESSION_DEPTH_STEP;
        break;
    }
    case KIND_EITHER:
    case KIND_BOTH:
        describe_many(pool, node);
        break;
    case KIND_COMPLEMENT:
        node->nullable = !a->nullable;
        node->uncertain = true;
        node->positions = a->positions;
        node->depth = a->depth + EXPRESSION_DEPTH_STEP;
        break;
    case KIND_REPEAT:
        node->nullable = node->b == 0;
        node->is_repetition = true;
        node->uncertain = a->uncertain;
        node->positions = positions_repeated(a, node->b, node->c);
        node->depth = a->depth + EXPRESSION_DEPTH_STEP;
        break;
    }
}

static bool copy_payload(struct expressions *pool, struct expression_node *node, const void *payload,
                         size_t n)
{
    if (node->kind == KIND_SET) {
        if (!VECTOR_RESERVE(&pool->ranges, pool->ranges.n + n))
            return false;
        node->a = (uint32_t)pool->ranges.n;
        memcpy(pool->ranges.items + pool->ranges.n, payload, n * sizeof(struct code_range));
        pool->ranges.n += n;
    } else {
        if (!VECTOR_RESERVE(&pool->links, pool->links.n + n))
            return false;
        node->a = (uint32_t)pool->links.n;
        memcpy(pool->links.items + pool->links.n, payload, n * sizeof(uint32_t));
        pool->links.n += n;
    }
    node->b = (uint32_t)n;
    return true;
}

static uint32_t add_node(struct expressions *pool, struct expression_node node, const void *payload, size_t n)
{
    // A node may have many ranges or links, so these count too.
    uint64_t limit = pool->limits.values[GRAMMAR_LIMIT_NODES];
    if (pool->nodes.n >= limit || pool->ranges.n + pool->links.n + n > 8 * limit)
        return expressions_fail(pool, GRAMMAR_LIMIT_NODES);
    if (has_payload(node.kind) && !copy_payload(pool, &node, payload, n))
        return expressions_fail_memory(pool);
    describe_node(pool, &node);
    expression_describe_bytes(pool, &node);
    if (node.depth > pool->limits.values[GRAMMAR_LIMIT_DEPTH])
        return expressions_fail(pool, GRAMMAR_LIMIT_DEPTH);
    if (!VECTOR_ADD(&pool->nodes, node))
        return expressions_fail_memory(pool);
    return (uint32_t)pool->nodes.n - 1;
}

uint32_t expression_intern(struct expressions *pool, enum expression_kind kind, uint32_t a, uint32_t b,
                           uint32_t c, const void *payload, size_t n)
{
    if (pool->status != STATUS_OK)
        return EXPRESSION_NOTHING;
    if (!hash_index_reserve(&pool->index))
        return expressions_fail_memory(pool);
    const uint64_t hash = hash_node(kind, a, b, c, payload, n);
    struct hash_slot *slot = hash_index_slot(&pool->index, hash);
    for (; slot->number; slot = hash_index_next(&pool->index, slot, hash))
        if (node_equals(pool, slot->number, kind, a, b, c, payload, n))
            return slot->number;
    struct expression_node node = {
        .kind = (uint8_t)kind, .a = a, .b = b, .c = c, .derivative = NO_DERIVATIVE};
    uint32_t id = add_node(pool, node, payload, n);
    if (id != EXPRESSION_NOTHING)
        hash_index_fill(&pool->index, slot, hash, id);
    return id;
}

struct expressions *expressions_create(const struct grammar_limits *limits)
{
    struct expressions *pool = calloc(1, sizeof *pool);
    if (!pool)
        return NULL;
    pool->limits = limits ? *limits : grammar_limits_default;
    pool->visit.limit = GRAMMAR_LIMIT_FIRST_WORK;
    struct expression_node nothing = {.kind = KIND_NOTHING, .derivative = NO_DERIVATIVE};
    expression_describe_bytes(pool, &nothing);
    const struct code_range any = {0, CODE_POINT_MAX};
    bool whole = VECTOR_ADD(&pool->nodes, nothing) &&
                 expression_intern(pool, KIND_EMPTY, 0, 0, 0, NULL, 0) == EXPRESSION_EMPTY &&
                 expression_intern(pool, KIND_SET, 0, 0, 0, &any, 1) == EXPRESSION_ANY &&
                 expression_intern(pool, KIND_REPEAT, EXPRESSION_ANY, 0, EXPRESSION_UNBOUNDED, NULL, 0) ==
                     EXPRESSION_ALL;
    if (!whole) {
        expressions_destroy(pool);
        return NULL;
    }
    return pool;
}

static bool copy_items(void **items, size_t *capacity, size_t n, size_t item_bytes)
{
    const void *from = *items;
    *items = NULL;
    *capacity = 0;
    if (n == 0)
        return true;
    if (!vector_reserve(items, capacity, n, item_bytes))
        return false;
    memcpy(*items, from, n * item_bytes);
    return true;
}

#define COPY(vector)                                                                                         \
    copy_items((void **)&(vector)->items, &(vector)->capacity, (vector)->n, sizeof *(vector)->items)

struct expressions *expressions_copy(const struct expressions *from)
{
    struct expressions *pool = malloc(sizeof *pool);
    if (!pool)
        return NULL;
    *pool = *from;
    size_t n_slots = 0;
    bool whole = COPY(&pool->nodes);
    whole &= COPY(&pool->ranges);
    whole &= COPY(&pool->links);
    whole &= COPY(&pool->pieces);
    whole &=
        copy_items((void **)&pool->index.slots, &n_slots, from->index.n_slots, sizeof *pool->index.slots);
    if (!whole) {
        expressions_destroy(pool);
        return NULL;
    }
    return pool;
}

void expressions_destroy(struct expressions *pool)
{
    if (!pool)
        return;
    VECTOR_FINISH(&pool->nodes);
    VECTOR_FINISH(&pool->ranges);
    VECTOR_FINISH(&pool->links);
    VECTOR_FINISH(&pool->pieces);
    hash_index_finish(&pool->index);
    free(pool);
}
