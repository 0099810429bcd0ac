#include "engine/grammar/closing_costs.h"
#include "engine/grammar/item_sets.h"
#include "engine/grammar/terminal_ends.h"
#include "schemas/base/hash.h"

#include <string.h>

enum { UNKNOWN = UINT32_MAX };

// The end of a symbol that began in a set. `cost` is the number of tokens from there to the end of the text.
struct end_node {
    uint32_t symbol, origin, cost;
};

// The closing cost of a set, as far as it was computed.
struct set_cost {
    uint64_t visit; // the last visit that counted its cost
    uint64_t work;  // work of computing the costs after all allowed tokens
    uint32_t cost;
    uint32_t worst; // highest cost after an allowed token; UNKNOWN: not computed yet
    bool is_known;  // `cost` is computed
};

struct closing_costs {
    uint32_t *symbols; // [rules' nodes] cost of each symbol; NULL: not computed yet
    bool is_measured;  // the minimum bytes of the recognizer's terminals are computed
    struct terminal_ends terminals;
    BLOCKS(struct set_cost) sets; // indexed by set
    VECTOR(struct end_node) ends;
    struct hash_index index; // finds `ends`; holds index + 1
    uint32_t *levels;        // [depth_max + 2] sets, indexed by depth in the trie
};

static uint32_t cost_sum(uint32_t a, uint32_t b)
{
    return a >= CLOSING_NEVER || b >= CLOSING_NEVER || a + b >= CLOSING_NEVER ? CLOSING_NEVER : a + b;
}

static uint32_t cost_product(uint32_t a, uint32_t n)
{
    uint64_t all = (uint64_t)a * n;
    return all >= CLOSING_NEVER ? CLOSING_NEVER : (uint32_t)all;
}

// ---- symbols ----

static uint32_t terminal_cost(struct recognizer *recognizer, const struct rule_node *node)
{
    uint32_t state = node->productive
                         ? byte_automaton_start(&recognizer->bytes, node->expression, node->encoding)
                         : BYTE_STATE_DEAD;
    return state == BYTE_STATE_DEAD ? CLOSING_NEVER
                                    : terminal_ends_cost(&recognizer->closing->terminals, recognizer, state);
}

static uint32_t derived_cost(const struct rules *rules, const struct rule_node *node, const uint32_t *costs)
{
    const uint32_t *children = node->n_children ? rules->children.items + node->first_child : NULL;
    uint32_t cost = node->kind == RULE_CHOICE ? CLOSING_NEVER : 0;
    for (uint32_t i = 0; i < node->n_children && node->kind != RULE_REPEAT; i++)
        cost = node->kind == RULE_SEQUENCE ? cost_sum(cost, costs[children[i]])
               : costs[children[i]] < cost ? costs[children[i]]
                                           : cost;
    return node->kind == RULE_REPEAT && node->min ? cost_product(costs[children[0]], node->min) : cost;
}

static void measure_terminal(struct recognizer *recognizer, const struct rule_node *node)
{
    const enum terminal_encoding encoding = (enum terminal_encoding)node->encoding;
    uint32_t start = byte_automaton_start(&recognizer->bytes, node->expression, encoding);
    if (start != BYTE_STATE_DEAD &&
        !terminal_ends_enumerate(&recognizer->closing->terminals, recognizer, start))
        expression_measure(recognizer->pool, node->expression, terminal_spelling(encoding));
}

// Computes the shortest ends of all terminals in one visit.
static bool measure_terminals(struct recognizer *recognizer)
{
    const struct rules *rules = recognizer->grammar->rules;
    recognizer_begin_visit(recognizer, recognizer->start);
    for (size_t i = 0; i < rules->nodes.n && recognizer->pool->status == STATUS_OK; i++) {
        const struct rule_node *node = &rules->nodes.items[i];
        if (node->kind == RULE_TERMINAL && node->productive)
            measure_terminal(recognizer, node);
    }
    return recognizer->closing->is_measured = recognizer->pool->status == STATUS_OK;
}

// Computes the least fixed point of the symbols' costs. Definitions precede or follow their uses, so passes
// alternate their direction.
static bool find_symbol_costs(struct recognizer *recognizer)
{
    struct closing_costs *closing = recognizer->closing;
    const struct rules *rules = recognizer->grammar->rules;
    size_t n = rules->nodes.n;
    closing->symbols = malloc((n + 1) * sizeof *closing->symbols);
    if (!closing->symbols) {
        expressions_fail_memory(recognizer->pool);
        return false;
    }
    recognizer_begin_visit(recognizer, recognizer->start);
    for (size_t i = 0; i < n && recognizer->pool->status == STATUS_OK; i++)
        closing->symbols[i] = rules->nodes.items[i].kind == RULE_TERMINAL
                                  ? terminal_cost(recognizer, &rules->nodes.items[i])
                                  : CLOSING_NEVER;
    bool has_changed = recognizer->pool->status == STATUS_OK;
    for (bool is_forward = true; has_changed; is_forward = !is_forward) {
        has_changed = false;
        for (size_t i = 0; i < n; i++) {
            size_t id = is_forward ? i : n - 1 - i;
            const struct rule_node *node = &rules->nodes.items[id];
            uint32_t cost =
                node->kind == RULE_TERMINAL ? CLOSING_NEVER : derived_cost(rules, node, closing->symbols);
            has_changed |= cost < closing->symbols[id];
            if (cost < closing->symbols[id])
                closing->symbols[id] = cost;
        }
    }
    if (recognizer->pool->status == STATUS_OK)
        return true;
    free(closing->symbols);
    closing->symbols = NULL;
    return false;
}

// ---- sets ----

// Returns the index of the node, which is added if it is new. UNKNOWN: out of memory.
static uint32_t find_end(struct recognizer *recognizer, uint32_t symbol, uint32_t origin)
{
    struct closing_costs *closing = recognizer->closing;
    struct end_node node = {symbol, origin, symbol == SYMBOL_ROOT ? 0 : CLOSING_NEVER};
    if (!hash_index_reserve(&closing->index)) {
        expressions_fail_memory(recognizer->pool);
        return UNKNOWN;
    }
    const uint64_t hash = hash_bytes(&node, 2 * sizeof(uint32_t), 0);
    struct hash_slot *slot = hash_index_slot(&closing->index, hash);
    for (; slot->number; slot = hash_index_next(&closing->index, slot, hash)) {
        const struct end_node *known = &closing->ends.items[slot->number - 1];
        if (known->symbol == symbol && known->origin == origin)
            return slot->number - 1;
    }
    if (!VECTOR_ADD(&closing->ends, node)) {
        expressions_fail_memory(recognizer->pool);
        return UNKNOWN;
    }
    hash_index_fill(&closing->index, slot, hash, (uint32_t)closing->ends.n);
    return (uint32_t)closing->ends.n - 1;
}

// Returns the cost of the rest of the item's symbol, after the child for which the item waits.
static uint32_t rest_cost(const struct recognizer *recognizer, const struct item *item)
{
    const struct rules *rules = recognizer->grammar->rules;
    const uint32_t *costs = recognizer->closing->symbols;
    if (item->kind == ITEM_TAIL)
        return 0;
    const struct rule_node *node = &rules->nodes.items[item->a];
    const uint32_t *children = rules->children.items + node->first_child;
    uint32_t cost = 0;
    for (uint32_t i = item->b + 1; i < node->n_children && node->kind == RULE_SEQUENCE; i++)
        cost = cost_sum(cost, costs[children[i]]);
    if (node->kind == RULE_REPEAT && node->min > item->b + 1)
        cost = cost_product(costs[children[0]], node->min - item->b - 1);
    return cost;
}

// Returns the cost of the node: the minimum over the items that wait for its symbol. Adds the nodes that
// follow.
static uint32_t end_cost(struct recognizer *recognizer, struct end_node node)
{
    size_t n;
    uint32_t cost = node.cost;
    const struct waiter *waiters = recognizer_waiters(recognizer, node.origin, node.symbol, &n);
    for (size_t i = 0; i < n; i++) {
        const struct item *item = &waiters[i].item;
        uint32_t origin = item->origin == ORIGIN_SELF ? node.origin : item->origin;
        uint32_t next = find_end(recognizer, item->kind == ITEM_TAIL ? item->b : item->a, origin);
        if (next == UNKNOWN)
            return cost;
        uint32_t all = cost_sum(rest_cost(recognizer, item), recognizer->closing->ends.items[next].cost);
        cost = all < cost ? all : cost;
    }
    return cost;
}

// Computes the costs of the nodes from `first` on. The nodes may form cycles, so passes repeat until nothing
// changes.
static void find_end_costs(struct recognizer *recognizer, size_t first)
{
    struct closing_costs *closing = recognizer->closing;
    bool has_changed = true;
    while (has_changed && recognizer->pool->status == STATUS_OK) {
        size_t n = closing->ends.n;
        has_changed = false;
        for (size_t i = closing->ends.n; i-- > first;) {
            uint32_t cost = end_cost(recognizer, closing->ends.items[i]);
            has_changed |= cost < closing->ends.items[i].cost;
            closing->ends.items[i].cost = cost;
        }
        has_changed |= closing->ends.n > n;
    }
}

static uint32_t find_set_cost(struct recognizer *recognizer, uint32_t id)
{
    struct closing_costs *closing = recognizer->closing;
    const struct item_set set = BLOCK_ITEM(&recognizer->sets, id);
    uint32_t cost = set.may_end ? 0 : CLOSING_NEVER;
    for (uint32_t i = 0; i < set.n_scans && cost > 0; i++) {
        const struct item scan = set.scans[i];
        size_t n_known = closing->ends.n;
        uint32_t end = find_end(recognizer, scan.b, scan.origin == ORIGIN_SELF ? id : scan.origin);
        find_end_costs(recognizer, n_known);
        if (recognizer->pool->status != STATUS_OK)
            return CLOSING_NEVER;
        uint32_t all = cost_sum(terminal_ends_cost(&closing->terminals, recognizer, scan.a),
                                closing->ends.items[end].cost);
        cost = all < cost ? all : cost;
    }
    return cost;
}

static bool prepare_costs(struct recognizer *recognizer)
{
    if (!recognizer->closing) {
        recognizer->closing = calloc(1, sizeof *recognizer->closing);
        if (recognizer->closing)
            recognizer->closing->levels =
                malloc((recognizer->vocabulary->depth_max + 2) * sizeof *recognizer->closing->levels);
        if (!recognizer->closing || !recognizer->closing->levels) {
            expressions_fail_memory(recognizer->pool);
            return false;
        }
    }
    return (recognizer->closing->is_measured || measure_terminals(recognizer)) &&
           (recognizer->closing->symbols || find_symbol_costs(recognizer));
}

static struct set_cost *cost_of(struct recognizer *recognizer, uint32_t set)
{
    struct closing_costs *closing = recognizer->closing;
    while (closing->sets.n < recognizer->sets.n) {
        if (!BLOCKS_ADD(&closing->sets, ((struct set_cost){.worst = UNKNOWN}))) {
            expressions_fail_memory(recognizer->pool);
            return NULL;
        }
    }
    return &BLOCK_ITEM(&closing->sets, set);
}

// Returns the closing cost of the set. Counts the work, cached or not, once per visit.
static uint32_t count_set(struct recognizer *recognizer, uint32_t set)
{
    struct set_cost *known = cost_of(recognizer, set);
    if (!known)
        return CLOSING_NEVER;
    if (known->is_known && known->visit == recognizer->visit.id)
        return known->cost;
    uint32_t cost = find_set_cost(recognizer, set);
    if (recognizer->pool->status != STATUS_OK)
        return CLOSING_NEVER;
    *known = (struct set_cost){recognizer->visit.id, known->work, cost, known->worst, true};
    return cost;
}

uint32_t closing_costs_of(struct recognizer *recognizer, uint32_t set)
{
    if (!prepare_costs(recognizer))
        return CLOSING_NEVER;
    recognizer_begin_visit(recognizer, set);
    return count_set(recognizer, set);
}

// ---- tokens ----

static void forbid_token(const struct grammar_vocabulary *vocabulary, uint32_t token, uint32_t *bits)
{
    for (; token != NO_TOKEN; token = vocabulary->next_same[token])
        bits[token / 32] &= ~(1u << token % 32);
}

// Clears allowed tokens after which the cost would exceed `cost_max`. Returns the highest cost after an
// allowed token.
static uint32_t walk_tokens(struct recognizer *recognizer, uint32_t set, uint32_t cost_max, uint32_t *bits)
{
    const struct trie *trie = &recognizer->vocabulary->all;
    uint32_t *levels = recognizer->closing->levels, worst = 0;
    levels[0] = set;
    recognizer_begin_visit(recognizer, set);
    for (uint32_t at = 0; at < trie->n_nodes && recognizer->pool->status == STATUS_OK;) {
        const struct trie_node *node = &trie->nodes[at];
        uint32_t target = SET_DEAD;
        if (recognizer_count_steps(recognizer, levels[node->depth], terminal_ends_count_step))
            target = recognizer_step(recognizer, levels[node->depth], node->byte);
        if (target == SET_DEAD) {
            at = node->stop;
            continue;
        }
        levels[node->depth + 1] = target;
        if (node->token != NO_TOKEN) {
            uint32_t cost = count_set(recognizer, target);
            worst = cost > worst ? cost : worst;
            if (cost > cost_max)
                forbid_token(recognizer->vocabulary, node->token, bits);
        }
        at++;
    }
    return worst;
}

uint64_t closing_costs_filter(struct recognizer *recognizer, uint32_t set, uint32_t n_left, uint32_t *bits)
{
    const struct grammar_vocabulary *vocabulary = recognizer->vocabulary;
    const uint32_t cost_max = n_left ? n_left - 1 : 0;
    struct set_cost *known;
    if (!prepare_costs(recognizer) || !(known = cost_of(recognizer, set)))
        return 0;
    if (known->worst <= cost_max) // UNKNOWN is the largest value
        return known->work;
    const uint32_t worst = walk_tokens(recognizer, set, cost_max, bits);
    if (recognizer->pool->status != STATUS_OK)
        return 0;
    known = &BLOCK_ITEM(&recognizer->closing->sets, set);
    known->worst = worst;
    known->work = recognizer->pool->visit.work;
    for (size_t i = 0; i < vocabulary->n_ends && BLOCK_ITEM(&recognizer->sets, set).may_end; i++)
        bits[vocabulary->ends[i] / 32] |= 1u << vocabulary->ends[i] % 32;
    return known->work;
}

void closing_costs_forget(struct closing_costs *closing)
{
    if (!closing)
        return;
    closing->is_measured = false;
    terminal_ends_forget(&closing->terminals);
    BLOCKS_FINISH(&closing->sets);
    VECTOR_FINISH(&closing->ends);
    hash_index_finish(&closing->index);
}

void closing_costs_destroy(struct closing_costs *closing)
{
    if (!closing)
        return;
    closing_costs_forget(closing);
    free(closing->symbols);
    free(closing->levels);
    free(closing);
}
