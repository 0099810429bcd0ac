// Decides whether an expression matches anything by a search of its derivatives. Also counts the work of one
// query (visit), which includes these searches.
#include "engine/regex/expression_parts.h"

// ---- work ----

void expressions_begin_visit(struct expressions *pool, uint64_t work)
{
    pool->visit.work = work;
    if (++pool->visit.id != 0)
        return;
    for (size_t i = 0; i < pool->nodes.n; i++)
        for (int stamp = 0; stamp < STAMP_COUNT; stamp++)
            pool->nodes.items[i].work.stamps[stamp] = 0;
    pool->visit.id = 1;
}

struct expressions_visit expressions_begin_apart(struct expressions *pool)
{
    struct expressions_visit outer = pool->visit;
    pool->visit = (struct expressions_visit){++pool->n_apart, STAMP_COUNT, outer.limit, 0};
    return outer;
}

uint64_t expressions_end_apart(struct expressions *pool, struct expressions_visit outer)
{
    uint64_t work = pool->visit.work;
    pool->visit = outer;
    return work;
}

bool expressions_add_work(struct expressions *pool, uint64_t work)
{
    pool->visit.work += work;
    if (pool->visit.work > expressions_work_max(pool))
        expressions_fail(pool, pool->visit.limit);
    return pool->status == STATUS_OK;
}

// True if the visit has not counted this yet; marks it as counted.
static bool is_first(struct expressions *pool, uint32_t id, enum work_stamp kind)
{
    uint32_t *stamp = &pool->nodes.items[id].work.stamps[pool->visit.first_stamp + kind];
    bool is_new = *stamp != pool->visit.id;
    *stamp = pool->visit.id;
    return is_new;
}

// Returns the work of deriving the expression and its parts, except parts already counted in this visit
// (expressions_begin_visit). The recursion is as deep as the derivation.
static uint64_t uncounted_work(struct expressions *pool, uint32_t id)
{
    uint32_t room[2];
    const uint32_t *parts;
    if (!is_first(pool, id, STAMP_VISIT))
        return 0;
    const struct expression_node *node = expression_node(pool, id);
    if (node->work.all < PARTS_WORK_MIN)
        return node->work.all;
    uint64_t work = node->work.own;
    const uint32_t n = expression_derived_parts(pool, node, room, &parts);
    for (uint32_t i = 0; i < n; i++)
        work += uncounted_work(pool, parts[i]);
    return work;
}

// ---- searches ----

enum search_purpose {
    SEARCH_FOR_RESULT,
    SEARCH_FOR_LENGTH, // stops if the search is not short; the work of its derivatives is counted
    SEARCH_FOR_WORK,   // the whole search is counted
};

struct state_search {
    struct expressions *pool;
    enum search_purpose purpose;
    uint64_t n_pieces;        // pieces visited
    VECTOR(uint32_t) found;   // in order of discovery
    VECTOR(uint32_t) parents; // indices in `found`
};

static bool matches_something(const struct expressions *pool, uint32_t id)
{
    const struct expression_node *node = expression_node(pool, id);
    return node->nullable || !node->uncertain;
}

static bool is_over(const struct state_search *search)
{
    return search->pool->status != STATUS_OK ||
           (search->purpose == SEARCH_FOR_LENGTH && search->n_pieces > SEARCH_PIECES_SHORT);
}

static uint64_t work_of_looking(const struct expression_node *node)
{
    return 1 + node->n_derivative / PIECES_LOOKED_AT;
}

// Adds the derivatives of found[first .. stop - 1].
static void expand_search(struct state_search *search, size_t first, size_t stop)
{
    struct expressions *pool = search->pool;
    for (size_t at = first; at < stop && !is_over(search); at++) {
        uint32_t id = search->found.items[at];
        if (!expression_derive(pool, id))
            return;
        struct expression_node node = *expression_node(pool, id);
        search->n_pieces += node.n_derivative;
        if (search->purpose == SEARCH_FOR_WORK)
            expressions_add_work(pool, work_of_looking(&node));
        if (search->purpose != SEARCH_FOR_RESULT || node.work.all > expressions_work_max(pool))
            expressions_add_work(pool, uncounted_work(pool, id));
        for (uint32_t i = 0; i < node.n_derivative; i++) {
            uint32_t target = pool->pieces.items[node.derivative + i].target;
            struct expression_node *next = &pool->nodes.items[target];
            if (target == EXPRESSION_NOTHING || next->in_search)
                continue;
            next->in_search = true;
            if (!VECTOR_ADD(&search->found, target) || !VECTOR_ADD(&search->parents, (uint32_t)at))
                expressions_fail_memory(pool);
        }
        if (search->found.n > pool->limits.values[GRAMMAR_LIMIT_SEARCH])
            expressions_fail(pool, GRAMMAR_LIMIT_SEARCH);
    }
}

// Searches for an expression that matches something. *place becomes its index, at the minimum distance. Also
// returns true if the search stops early. The search proceeds level by level and uses no result of other
// searches. So reaching the limit does not depend on the cache, and a search that succeeds also succeeds from
// each expression on the path.
static bool search_from(struct state_search *search, size_t *place)
{
    for (size_t first = 0; first < search->found.n;) {
        size_t stop = search->found.n;
        for (*place = first; *place < stop; ++*place)
            if (matches_something(search->pool, search->found.items[*place]))
                return true;
        expand_search(search, first, stop);
        if (is_over(search))
            return true;
        first = stop;
    }
    return false;
}

// Caches the result for all expressions that the search decides: all successors of a dead expression are
// dead, and all expressions on the path to a live one are live. Their own searches would not be longer.
static void keep_result(struct state_search *search, bool is_live, size_t place)
{
    struct expression_node *nodes = search->pool->nodes.items;
    const bool is_short = search->n_pieces <= SEARCH_PIECES_SHORT;
    size_t n = is_live ? place : search->found.n - 1;
    for (uint16_t reach = 0;; n = is_live ? search->parents.items[n] : n - 1, reach++) {
        struct expression_node *node = &nodes[search->found.items[n]];
        node->liveness = is_live ? LIVENESS_LIVE : LIVENESS_DEAD;
        if (is_short) {
            node->search = SEARCH_SHORT;
            node->reach = is_live ? reach : REACH_ALL;
        }
        if (n == 0)
            break;
    }
}

// True if the expression, which is not EXPRESSION_NOTHING, matches anything. Caches the result and the length
// of the search.
static bool search_whole(struct expressions *pool, uint32_t a, enum search_purpose purpose)
{
    struct state_search search = {.pool = pool, .purpose = purpose};
    size_t place = 0;
    if (!VECTOR_ADD(&search.found, a) || !VECTOR_ADD(&search.parents, 0))
        expressions_fail_memory(pool);
    pool->nodes.items[a].in_search = true;
    bool is_live = search_from(&search, &place);
    for (size_t i = 0; i < search.found.n; i++)
        pool->nodes.items[search.found.items[i]].in_search = false;
    if (!is_over(&search))
        keep_result(&search, is_live, place);
    if (search.n_pieces > SEARCH_PIECES_SHORT)
        pool->nodes.items[a].search = SEARCH_LONG;
    VECTOR_FINISH(&search.found);
    VECTOR_FINISH(&search.parents);
    return is_live;
}

bool expression_is_empty_language(struct expressions *pool, uint32_t a)
{
    const struct expression_node *node = &pool->nodes.items[a];
    if (a == EXPRESSION_NOTHING || pool->status != STATUS_OK)
        return pool->status == STATUS_OK;
    if (matches_something(pool, a) || node->liveness != LIVENESS_UNKNOWN)
        return node->liveness == LIVENESS_DEAD;
    return !search_whole(pool, a, SEARCH_FOR_RESULT);
}

// True if the successors within `reach` code points are not counted yet; marks them as counted.
static bool is_first_reach(struct expressions *pool, uint32_t id, uint32_t reach)
{
    const bool is_new = is_first(pool, id, STAMP_REACHED);
    if (is_new && expression_count_derivative(pool, id))
        expressions_add_work(pool, work_of_looking(expression_node(pool, id)));
    uint16_t *counted = &pool->nodes.items[id].counted[pool->visit.first_stamp != 0];
    if (!is_new && *counted >= reach)
        return false;
    *counted = (uint16_t)reach;
    return pool->status == STATUS_OK;
}

// Counts the derivatives of a short search from the expression: all within its reach. Such searches overlap.
// So an expression that this visit has counted with at least this reach is skipped: its successors were
// counted too, because a step reduces the distance by at most 1.
static void count_reach(struct expressions *pool, uint32_t id)
{
    VECTOR(uint32_t) found = {0};
    uint32_t left = expression_node(pool, id)->reach;
    if (is_first_reach(pool, id, left) && !VECTOR_ADD(&found, id))
        expressions_fail_memory(pool);
    for (size_t at = 0, stop = found.n; at < found.n && pool->status == STATUS_OK; at++) {
        const struct expression_node node = *expression_node(pool, found.items[at]);
        if (at == stop) {
            stop = found.n;
            left -= left != REACH_ALL;
        }
        const uint32_t next = left - (left != REACH_ALL);
        for (uint32_t i = 0; i < node.n_derivative && next > 0; i++) {
            const uint32_t target = pool->pieces.items[node.derivative + i].target;
            if (target != EXPRESSION_NOTHING && is_first_reach(pool, target, next) &&
                !VECTOR_ADD(&found, target))
                expressions_fail_memory(pool);
        }
    }
    VECTOR_FINISH(&found);
}

// Counts the search that decides whether the expression matches anything, and returns its length. A long
// search is repeated to count it. A search that reaches GRAMMAR_LIMIT_SEARCH counts up to that point; the
// caller that needs its result fails.
static enum search_length count_search(struct expressions *pool, uint32_t id)
{
    if (expression_node(pool, id)->search == SEARCH_UNKNOWN)
        search_whole(pool, id, SEARCH_FOR_LENGTH);
    const enum search_length length = (enum search_length)expression_node(pool, id)->search;
    if (length == SEARCH_SHORT)
        count_reach(pool, id);
    else if (length == SEARCH_LONG && is_first(pool, id, STAMP_SEARCHED))
        search_whole(pool, id, SEARCH_FOR_WORK);
    if (length == SEARCH_LONG && pool->status == STATUS_REJECT && pool->limit == GRAMMAR_LIMIT_SEARCH)
        pool->status = STATUS_OK;
    return length;
}

static void count_searches_ahead(struct expressions *pool, uint32_t id)
{
    const struct expression_node node = *expression_node(pool, id);
    enum search_length longest = SEARCH_NONE;
    if (node.ahead == SEARCH_NONE || !is_first(pool, id, STAMP_FOLLOWED))
        return;
    for (uint32_t i = 0; i < node.n_derivative && pool->status == STATUS_OK; i++) {
        uint32_t target = pool->pieces.items[node.derivative + i].target;
        if (target == EXPRESSION_NOTHING || matches_something(pool, target))
            continue;
        const enum search_length length = count_search(pool, target);
        longest = length > longest ? length : longest;
    }
    if (pool->status == STATUS_OK)
        pool->nodes.items[id].ahead = (uint8_t)longest;
}

bool expression_count_derivative(struct expressions *pool, uint32_t id)
{
    if (!expression_derive(pool, id))
        return false;
    uint64_t work = uncounted_work(pool, id);
    return work == 0 || expressions_add_work(pool, work);
}

bool expression_count(struct expressions *pool, uint32_t id)
{
    if (!expression_count_derivative(pool, id))
        return false;
    count_searches_ahead(pool, id);
    return pool->status == STATUS_OK;
}
