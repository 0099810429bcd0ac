#include "engine/grammar/item_sets.h"
#include "schemas/base/hash.h"

#include <string.h>

enum { TABLE_SIZE_FIRST = 64, CHAIN_MAX = 100 };

static const struct rule_node *node_of(const struct recognizer *recognizer, uint32_t symbol)
{
    return &recognizer->grammar->rules->nodes.items[symbol];
}

static uint32_t child_of(const struct recognizer *recognizer, const struct rule_node *node, uint32_t index)
{
    return recognizer->grammar->rules->children.items[node->first_child + index];
}

static uint64_t hash_item(const struct item *item)
{
    return ((uint64_t)item->a * 0x9E3779B97F4A7C15u ^ (uint64_t)item->b * 0xC2B2AE3D27D4EB4Fu ^
            ((uint64_t)item->origin << 3 | item->kind) * 0x165667B19E3779F9u) >>
           20;
}

static bool item_equal(const struct item *a, const struct item *b)
{
    return a->kind == b->kind && a->a == b->a && a->b == b->b && a->origin == b->origin;
}

static bool grow_builder_table(struct set_builder *builder)
{
    size_t size = builder->table_size ? builder->table_size * 2 : TABLE_SIZE_FIRST;
    uint32_t *table = calloc(size, sizeof *table);
    if (!table)
        return false;
    for (size_t i = 0; i < builder->items.n; i++) {
        uint64_t at = hash_item(&builder->items.items[i]);
        while (table[at & (size - 1)])
            at++;
        table[at & (size - 1)] = (uint32_t)i + 1;
    }
    free(builder->table);
    builder->table = table;
    builder->table_size = size;
    return true;
}

// Appends the item unless the builder has it.
static void push_item(struct recognizer *recognizer, struct item item)
{
    struct set_builder *builder = &recognizer->builder;
    const uint64_t *limits = recognizer->pool->limits.values;
    const uint64_t step_work = ++recognizer->visit.step_work;
    if (builder->items.n >= limits[GRAMMAR_LIMIT_STATE_ITEMS])
        expressions_fail(recognizer->pool, GRAMMAR_LIMIT_STATE_ITEMS);
    else if (step_work >= STEP_WORK_COUNTED &&
             recognizer->pool->visit.work + step_work > expressions_work_max(recognizer->pool))
        expressions_fail(recognizer->pool, recognizer->pool->visit.limit);
    else if (builder->items.n * 2 >= builder->table_size && !grow_builder_table(builder))
        expressions_fail_memory(recognizer->pool);
    if (recognizer->pool->status != STATUS_OK)
        return;
    uint64_t at = hash_item(&item);
    size_t mask = builder->table_size - 1;
    for (; builder->table[at & mask]; at++)
        if (item_equal(&builder->items.items[builder->table[at & mask] - 1], &item))
            return;
    if (!VECTOR_ADD(&builder->items, item)) {
        expressions_fail_memory(recognizer->pool);
        return;
    }
    builder->table[at & mask] = (uint32_t)builder->items.n;
}

// Finds, by binary search, the set's first waiter for `symbol` or a higher symbol. *stop becomes the end of
// the set's waiters.
static const struct waiter *first_waiter(const struct recognizer *recognizer, uint32_t set, uint32_t symbol,
                                         const struct waiter **stop)
{
    const struct item_set *origin = &BLOCK_ITEM(&recognizer->sets, set);
    const struct waiter *waiters = origin->waiters;
    size_t low = 0, high = origin->n_waiters;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (waiters[middle].symbol < symbol)
            low = middle + 1;
        else
            high = middle;
    }
    *stop = waiters + origin->n_waiters;
    return waiters + low;
}

const struct waiter *recognizer_waiters(const struct recognizer *recognizer, uint32_t set, uint32_t symbol,
                                        size_t *n)
{
    *n = 0;
    if (set == ORIGIN_ROOT)
        return NULL;
    const struct waiter *stop, *first = first_waiter(recognizer, set, symbol, &stop);
    while (first + *n < stop && first[*n].symbol == symbol)
        ++*n;
    return first;
}

// Returns the set's waiter for `symbol` if it has exactly one, else NULL.
static const struct waiter *only_waiter(const struct recognizer *recognizer, uint32_t set, uint32_t symbol)
{
    const struct waiter *stop, *first;
    if (set == ORIGIN_ROOT)
        return NULL;
    first = first_waiter(recognizer, set, symbol, &stop);
    bool is_only =
        first < stop && first->symbol == symbol && (first + 1 == stop || first[1].symbol != symbol);
    return is_only ? first : NULL;
}

// True if the end of the symbol for which the item waits is also the end of the item's own symbol, *symbol,
// and of nothing else. This is Leo's condition for right recursion.
static bool ends_with_it(const struct recognizer *recognizer, const struct item *item, uint32_t *symbol)
{
    *symbol = item->kind == ITEM_TAIL ? item->b : item->a;
    if (item->kind == ITEM_TAIL)
        return true;
    const struct rule_node *node = node_of(recognizer, item->a);
    return node->kind == RULE_CHOICE || (node->kind == RULE_SEQUENCE && item->b + 1 == node->n_children) ||
           (node->kind == RULE_REPEAT && item->b + 1 == node->max);
}

// While the end of *symbol, begun in *origin, only ends one other symbol, continues with that symbol (Leo).
static void follow_chain(struct recognizer *recognizer, uint32_t *symbol, uint32_t *origin)
{
    for (int i = 0; i < CHAIN_MAX; i++, recognizer->visit.step_work++) {
        uint32_t next;
        const struct waiter *waiter = only_waiter(recognizer, *origin, *symbol);
        if (!waiter || !ends_with_it(recognizer, &waiter->item, &next))
            return;
        *symbol = next;
        *origin = waiter->item.origin == ORIGIN_SELF ? *origin : waiter->item.origin;
    }
}

static void complete_symbol(struct recognizer *recognizer, uint32_t symbol, uint32_t origin)
{
    if (origin == ORIGIN_SELF)
        return; // "": items that wait for a nullable symbol have advanced past it already
    follow_chain(recognizer, &symbol, &origin);
    push_item(recognizer, symbol == SYMBOL_ROOT ? (struct item){ITEM_END, 0, 0, ORIGIN_ROOT}
                                                : (struct item){ITEM_COMPLETE, symbol, 0, origin});
}

static void add_tail(struct recognizer *recognizer, uint32_t awaited, uint32_t symbol, uint32_t origin)
{
    follow_chain(recognizer, &symbol, &origin);
    push_item(recognizer, (struct item){ITEM_TAIL, awaited, symbol, origin});
    if (node_of(recognizer, awaited)->nullable)
        complete_symbol(recognizer, symbol, origin);
}

static void add_sequence(struct recognizer *recognizer, uint32_t symbol, uint32_t stop, uint32_t origin)
{
    const struct rule_node *node = node_of(recognizer, symbol);
    for (; stop < node->n_children; stop++) {
        uint32_t child = child_of(recognizer, node, stop);
        if (stop + 1 == node->n_children && origin != ORIGIN_SELF) {
            add_tail(recognizer, child, symbol, origin);
            return;
        }
        push_item(recognizer, (struct item){ITEM_NODE, symbol, stop, origin});
        if (!node_of(recognizer, child)->nullable)
            return;
    }
    complete_symbol(recognizer, symbol, origin);
}

static void add_repeat(struct recognizer *recognizer, uint32_t symbol, uint32_t count, uint32_t origin)
{
    const struct rule_node *node = node_of(recognizer, symbol);
    if (count >= node->min)
        complete_symbol(recognizer, symbol, origin);
    if (node->max == EXPRESSION_UNBOUNDED && count > node->min)
        count = node->min;
    if (count + 1 == node->max && origin != ORIGIN_SELF)
        add_tail(recognizer, child_of(recognizer, node, 0), symbol, origin);
    else if (count < node->max)
        push_item(recognizer, (struct item){ITEM_NODE, symbol, count, origin});
}

// Advances an item past the symbol for which it waited and which began in the set `begun`.
static void advance_item(struct recognizer *recognizer, struct item item, uint32_t begun)
{
    uint32_t origin = item.origin == ORIGIN_SELF ? begun : item.origin;
    if (item.kind == ITEM_TAIL) {
        complete_symbol(recognizer, item.b, origin);
        return;
    }
    switch ((enum rule_kind)node_of(recognizer, item.a)->kind) {
    case RULE_CHOICE:
        complete_symbol(recognizer, item.a, origin);
        break;
    case RULE_SEQUENCE:
        add_sequence(recognizer, item.a, item.b + 1, origin);
        break;
    case RULE_REPEAT:
        add_repeat(recognizer, item.a, item.b + 1, origin);
        break;
    case RULE_TERMINAL:
        break;
    }
}

static void run_completions(struct recognizer *recognizer)
{
    struct set_builder *builder = &recognizer->builder;
    for (; builder->at < builder->items.n && recognizer->pool->status == STATUS_OK; builder->at++) {
        struct item item = builder->items.items[builder->at];
        if (item.kind != ITEM_COMPLETE)
            continue;
        size_t n;
        const struct waiter *waiters = recognizer_waiters(recognizer, item.origin, item.a, &n);
        for (size_t i = 0; i < n; i++)
            advance_item(recognizer, waiters[i].item, item.origin);
    }
}

// After a small set, clears only the used slots, because the table may have grown for a large set.
static void clear_table(struct set_builder *builder)
{
    size_t mask = builder->table_size - 1;
    if (builder->items.n > builder->table_size / 16) {
        memset(builder->table, 0, builder->table_size * sizeof *builder->table);
        return;
    }
    for (size_t i = 0; i < builder->items.n; i++) {
        uint64_t at = hash_item(&builder->items.items[i]);
        while (builder->table[at & mask] != i + 1)
            at++;
        builder->table[at & mask] = 0;
    }
}

void builder_begin(struct recognizer *recognizer)
{
    struct set_builder *builder = &recognizer->builder;
    clear_table(builder);
    builder->items.n = builder->waiters.n = builder->kernel.n = builder->at = 0;
    recognizer->visit.step_work = 0;
}

void builder_add(struct recognizer *recognizer, struct item item)
{
    if (item.kind == ITEM_TAIL)
        add_tail(recognizer, item.a, item.b, item.origin);
    else
        push_item(recognizer, item);
    run_completions(recognizer);
}

void builder_scan(struct recognizer *recognizer, uint32_t byte_state, uint32_t terminal, uint32_t origin)
{
    if (!byte_automaton_ends(&recognizer->bytes, byte_state))
        push_item(recognizer, (struct item){ITEM_SCAN, byte_state, terminal, origin});
    if (byte_automaton_accepts(&recognizer->bytes, byte_state))
        complete_symbol(recognizer, terminal, origin);
    run_completions(recognizer);
}

static void await_symbol(struct recognizer *recognizer, struct item item, uint32_t symbol)
{
    if (!VECTOR_ADD(&recognizer->builder.waiters, ((struct waiter){symbol, item})))
        expressions_fail_memory(recognizer->pool);
    const struct rule_node *node = node_of(recognizer, symbol);
    switch ((enum rule_kind)node->kind) {
    case RULE_CHOICE:
        push_item(recognizer, (struct item){ITEM_NODE, symbol, 0, ORIGIN_SELF});
        break;
    case RULE_SEQUENCE:
        add_sequence(recognizer, symbol, 0, ORIGIN_SELF);
        break;
    case RULE_REPEAT:
        add_repeat(recognizer, symbol, 0, ORIGIN_SELF);
        break;
    case RULE_TERMINAL: {
        uint32_t state = byte_automaton_start(&recognizer->bytes, node->expression, node->encoding);
        if (state != BYTE_STATE_DEAD && !byte_automaton_ends(&recognizer->bytes, state))
            push_item(recognizer, (struct item){ITEM_SCAN, state, symbol, ORIGIN_SELF});
        break;
    }
    }
}

// Adds for every item its waiters, and predicts the symbols that the item expects. Predicted items are
// appended and visited too.
static void predict_items(struct recognizer *recognizer)
{
    struct set_builder *builder = &recognizer->builder;
    for (size_t i = 0; i < builder->items.n && recognizer->pool->status == STATUS_OK; i++) {
        struct item item = builder->items.items[i];
        if (item.kind == ITEM_TAIL)
            await_symbol(recognizer, item, item.a);
        if (item.kind != ITEM_NODE)
            continue;
        const struct rule_node *node = node_of(recognizer, item.a);
        uint32_t first = node->kind == RULE_SEQUENCE ? item.b : 0;
        uint32_t stop = node->kind == RULE_CHOICE ? node->n_children : first + 1;
        for (; first < stop; first++)
            await_symbol(recognizer, item, child_of(recognizer, node, first));
    }
}

static int compare_items(const void *a, const void *b)
{
    const uint32_t *x = a, *y = b;
    for (int i = 0; i < 4; i++)
        if (x[i] != y[i])
            return x[i] < y[i] ? -1 : 1;
    return 0;
}

static int compare_waiters(const void *a, const void *b)
{
    const uint32_t *x = a, *y = b;
    for (int i = 0; i < 5; i++)
        if (x[i] != y[i])
            return x[i] < y[i] ? -1 : 1;
    return 0;
}

static uint32_t hash_kernel(const struct item *items, size_t n)
{
    return (uint32_t)hash_bytes(items, n * sizeof *items, 0);
}

// Allocates memory for the items or waiters of one set; both consist of 4-byte words. NULL: out of memory.
static void *take_room(struct set_blocks *blocks, size_t n_bytes)
{
    if (n_bytes > blocks->n_room - blocks->n_used) {
        size_t room = blocks->n_bytes < SET_BLOCK_FIRST ? SET_BLOCK_FIRST
                      : blocks->n_bytes < SET_BLOCK_MAX ? blocks->n_bytes
                                                        : SET_BLOCK_MAX;
        room = room < n_bytes ? n_bytes : room;
        char *block = malloc(room);
        if (!block || !VECTOR_ADD(&blocks->blocks, block)) {
            free(block);
            return NULL;
        }
        blocks->n_used = 0;
        blocks->n_room = room;
    }
    void *taken = blocks->blocks.items[blocks->blocks.n - 1] + blocks->n_used;
    blocks->n_used += n_bytes;
    blocks->n_bytes += n_bytes;
    return taken;
}

static bool keep_waiters(struct recognizer *recognizer, struct item_set *set)
{
    struct set_builder *builder = &recognizer->builder;
    const size_t n_bytes = builder->waiters.n * sizeof *builder->waiters.items;
    set->n_waiters = (uint32_t)builder->waiters.n;
    if (!builder->waiters.n)
        return true;
    struct waiter *waiters = take_room(&recognizer->blocks, n_bytes);
    if (!waiters)
        return false;
    qsort(builder->waiters.items, builder->waiters.n, sizeof *builder->waiters.items, compare_waiters);
    memcpy(waiters, builder->waiters.items, n_bytes);
    set->waiters = waiters;
    return true;
}

static bool keep_items(struct recognizer *recognizer, struct item_set *set)
{
    struct set_builder *builder = &recognizer->builder;
    size_t n_scans = 0;
    for (size_t i = 0; i < builder->items.n; i++)
        n_scans += builder->items.items[i].kind == ITEM_SCAN;
    struct item *items = take_room(&recognizer->blocks, (builder->kernel.n + n_scans) * sizeof *items);
    if (!items || !keep_waiters(recognizer, set))
        return false;
    memcpy(items, builder->kernel.items, builder->kernel.n * sizeof *items);
    set->items = items;
    set->n_items = (uint32_t)builder->kernel.n;
    struct item *scans = items + set->n_items;
    for (size_t i = 0; i < builder->items.n; i++)
        if (builder->items.items[i].kind == ITEM_SCAN)
            scans[set->n_scans++] = builder->items.items[i];
    set->scans = scans;
    return true;
}

static uint32_t add_set(struct recognizer *recognizer, uint32_t hash, struct hash_slot *slot)
{
    struct item_set set = {0};
    struct set_builder *builder = &recognizer->builder;
    predict_items(recognizer);
    if (recognizer->pool->status != STATUS_OK)
        return SET_DEAD;
    for (size_t i = 0; i < builder->kernel.n; i++)
        set.may_end |= builder->kernel.items[i].kind == ITEM_END;
    if (!keep_items(recognizer, &set) || !BLOCKS_ADD(&recognizer->sets, set)) {
        expressions_fail_memory(recognizer->pool);
        return SET_DEAD;
    }
    hash_index_fill(&recognizer->index, slot, hash, (uint32_t)recognizer->sets.n - 1);
    return slot->number;
}

uint32_t builder_finish(struct recognizer *recognizer)
{
    struct set_builder *builder = &recognizer->builder;
    for (size_t i = 0; i < builder->items.n && recognizer->pool->status == STATUS_OK; i++)
        if (builder->items.items[i].kind != ITEM_COMPLETE &&
            !VECTOR_ADD(&builder->kernel, builder->items.items[i]))
            expressions_fail_memory(recognizer->pool);
    if (!hash_index_reserve(&recognizer->index))
        expressions_fail_memory(recognizer->pool);
    if (recognizer->pool->status != STATUS_OK || builder->kernel.n == 0)
        return SET_DEAD;
    qsort(builder->kernel.items, builder->kernel.n, sizeof *builder->kernel.items, compare_items);
    const uint32_t hash = hash_kernel(builder->kernel.items, builder->kernel.n);
    struct hash_slot *slot = hash_index_slot(&recognizer->index, hash);
    for (; slot->number; slot = hash_index_next(&recognizer->index, slot, hash)) {
        const struct item_set *set = &BLOCK_ITEM(&recognizer->sets, slot->number);
        if (set->n_items == builder->kernel.n &&
            memcmp(set->items, builder->kernel.items, builder->kernel.n * sizeof *builder->kernel.items) == 0)
            return slot->number;
    }
    return add_set(recognizer, hash, slot);
}

void builder_free(struct set_builder *builder)
{
    VECTOR_FINISH(&builder->items);
    VECTOR_FINISH(&builder->waiters);
    VECTOR_FINISH(&builder->kernel);
    free(builder->table);
    builder->table = NULL;
    builder->table_size = 0;
}
