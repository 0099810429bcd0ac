// Bytes of the shortest text that an expression matches. Exact except for intersections and complements,
// because only a search can tell whether a text matches all parts.
#include "engine/regex/expression_parts.h"

static unsigned utf8_bytes(uint32_t code_point)
{
    return code_point < 0x80 ? 1 : code_point < 0x800 ? 2 : code_point < 0x10000 ? 3 : 4;
}

// True if the range has a code point that JSON can escape in two bytes: \" \\ \b \f \n \r \t.
static bool has_short_escape(uint32_t first, uint32_t last)
{
    static const unsigned char escaped[] = {8, 9, 10, 12, 13, '"', '\\'};
    for (unsigned i = 0; i < sizeof escaped; i++)
        if (first <= escaped[i] && escaped[i] <= last)
            return true;
    return false;
}

static bool has_letter(uint32_t first, uint32_t last)
{
    uint32_t at = first < 0x20 ? 0x20 : first;
    while (at <= last && (at == '"' || at == '\\'))
        at++;
    return at <= last && at < 0x80;
}

unsigned spelled_bytes(enum spelling spelling, uint32_t first, uint32_t last)
{
    if (spelling == SPELLED_AS_UTF8)
        return utf8_bytes(first);
    if (has_letter(first, last))
        return 1;
    if (has_short_escape(first, last))
        return 2;
    return last >= 0x80 ? utf8_bytes(first < 0x80 ? 0x80 : first) : 6; // \u0000
}

static uint16_t sum(uint64_t a, uint64_t b)
{
    return a + b > UINT16_MAX ? UINT16_MAX : (uint16_t)(a + b);
}

static uint16_t least_of_set(const struct expressions *pool, const struct expression_node *node,
                             enum spelling spelling)
{
    unsigned least = UINT16_MAX;
    for (uint32_t i = 0; i < node->b; i++) {
        struct code_range range = pool->ranges.items[node->a + i];
        unsigned n = spelled_bytes(spelling, range.first, range.last);
        least = n < least ? n : least;
    }
    return (uint16_t)least;
}

static uint16_t least_of_many(const struct expressions *pool, const struct expression_node *node,
                              enum spelling spelling)
{
    bool is_either = node->kind == KIND_EITHER;
    uint16_t least = is_either ? UINT16_MAX : 0;
    for (uint32_t i = 0; i < node->b; i++) {
        uint16_t n = expression_node(pool, pool->links.items[node->a + i])->least_bytes[spelling];
        if (is_either ? n < least : n > least)
            least = n;
    }
    return least;
}

static uint16_t least_of(const struct expressions *pool, const struct expression_node *node,
                         enum spelling spelling)
{
    const struct expression_node *a = node->kind >= KIND_CONCAT ? expression_node(pool, node->a) : NULL;
    switch ((enum expression_kind)node->kind) {
    case KIND_NOTHING:
        return UINT16_MAX;
    case KIND_EMPTY:
        return 0;
    case KIND_SET:
        return least_of_set(pool, node, spelling);
    case KIND_CONCAT:
        return sum(a->least_bytes[spelling], expression_node(pool, node->b)->least_bytes[spelling]);
    case KIND_EITHER:
    case KIND_BOTH:
        return least_of_many(pool, node, spelling);
    case KIND_COMPLEMENT:
        return !node->nullable;
    case KIND_REPEAT:
        return sum((uint64_t)a->least_bytes[spelling] * node->b, 0);
    }
    return 0;
}

static bool has_bound(const struct expressions *pool, const struct expression_node *node)
{
    if (node->kind == KIND_BOTH || node->kind == KIND_COMPLEMENT)
        return true;
    if (node->kind == KIND_CONCAT)
        return expression_node(pool, node->a)->is_bound || expression_node(pool, node->b)->is_bound;
    if (node->kind == KIND_REPEAT)
        return expression_node(pool, node->a)->is_bound;
    for (uint32_t i = 0; node->kind == KIND_EITHER && i < node->b; i++)
        if (expression_node(pool, pool->links.items[node->a + i])->is_bound)
            return true;
    return false;
}

void expression_describe_bytes(const struct expressions *pool, struct expression_node *node)
{
    node->is_bound = has_bound(pool, node);
    for (int i = 0; i < SPELLING_COUNT; i++)
        node->least_bytes[i] = least_of(pool, node, (enum spelling)i);
}
