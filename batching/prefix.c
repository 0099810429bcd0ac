#include "batching/prefix.h"

#include "schemas/hash.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { SLOTS_FIRST = 1024, SLAB_NODES = 256, NODE_ALIGNMENT = 64 /* a cache line */, AHEAD = 32 };

struct prefix_slab {
    struct prefix_slab *next;
    _Alignas(NODE_ALIGNMENT) unsigned char bytes[];
};

enum status prefix_init(struct prefix_tree *tree, int32_t page_positions, struct page_stack *stack, struct error *error)
{
    *tree = (struct prefix_tree){.page_positions = page_positions, .stack = stack, .n_slots = SLOTS_FIRST};
    tree->slots = calloc(tree->n_slots, sizeof *tree->slots);
    for (int i = 0; i < 2; i++)
        tree->roots[i] = calloc(1, sizeof *tree->roots[i]);
    if (!tree->roots[0] || !tree->roots[1] || !tree->slots) {
        prefix_finish(tree);
        return error_set(error, STATUS_REFUSE, ERROR_OUT_OF_MEMORY, "prefix tree: out of memory");
    }
    for (uint64_t i = 0; i < 2; i++)
        *tree->roots[i] = (struct prefix_node){.hash = i, .page = -1, .ready = true};
    tree->cursor = tree->roots[0];
    return STATUS_OK;
}

void prefix_finish(struct prefix_tree *tree)
{
    for (struct prefix_slab *slab = tree->slabs; slab;) {
        struct prefix_slab *next = slab->next;
        free(slab);
        slab = next;
    }
    free(tree->slots);
    free(tree->roots[0]);
    free(tree->roots[1]);
    *tree = (struct prefix_tree){0};
}

// ---- nodes' memory ----

static size_t token_bytes(const struct prefix_tree *tree)
{
    return (size_t)tree->page_positions * sizeof(int32_t);
}

static size_t node_stride(const struct prefix_tree *tree)
{
    return (sizeof(struct prefix_node) + token_bytes(tree) + NODE_ALIGNMENT - 1) / NODE_ALIGNMENT * NODE_ALIGNMENT;
}

// Its contents are not set. NULL: out of memory.
static struct prefix_node *take_node(struct prefix_tree *tree)
{
    struct prefix_node *node = tree->unused;
    if (node) {
        // Those that follow mostly stand behind it: 4 nodes on, in time to be written.
        for (size_t at = 0; at < node_stride(tree); at += NODE_ALIGNMENT)
            __builtin_prefetch((const void *)((uintptr_t)node + 4 * node_stride(tree) + at), 1);
        tree->unused = node->parent;
        return node;
    }
    if (tree->n_unused_in_slab == 0) {
        struct prefix_slab *slab = aligned_alloc(NODE_ALIGNMENT, sizeof *slab + SLAB_NODES * node_stride(tree));
        if (!slab)
            return NULL;
        slab->next = tree->slabs;
        tree->slabs = slab;
        tree->n_unused_in_slab = SLAB_NODES;
    }
    size_t index = SLAB_NODES - tree->n_unused_in_slab--;
    return (struct prefix_node *)(void *)(tree->slabs->bytes + index * node_stride(tree));
}

static void give_node(struct prefix_tree *tree, struct prefix_node *node)
{
    node->parent = tree->unused;
    tree->unused = node;
}

// ---- hash table ----

static size_t next_slot(const struct prefix_tree *tree, size_t slot)
{
    return (slot + 1) & (tree->n_slots - 1);
}

static void put_in_slot(struct prefix_tree *tree, struct prefix_node *node)
{
    size_t i = node->hash & (tree->n_slots - 1);
    while (tree->slots[i].node)
        i = next_slot(tree, i);
    tree->slots[i] = (struct prefix_slot){node->hash, node};
}

// Keeps at least half of the table free. Without memory it gets fuller, with the same answers; false: it is full.
static bool reserve_slot(struct prefix_tree *tree)
{
    if (tree->n_nodes < tree->n_slots / 2)
        return true;
    struct prefix_slot *old = tree->slots, *slots = calloc(tree->n_slots * 2, sizeof *slots);
    if (!slots)
        return tree->n_nodes + 1 < tree->n_slots;
    size_t n_old = tree->n_slots;
    tree->slots = slots;
    tree->n_slots *= 2;
    for (size_t i = 0; i < n_old; i++)
        if (old[i].node)
            put_in_slot(tree, old[i].node);
    free(old);
    return true;
}

// Those that stand behind it because its place was taken move up (D. E. Knuth, TAOCP 3, 6.4, algorithm R).
static void empty_slot(struct prefix_tree *tree, const struct prefix_node *node)
{
    size_t mask = tree->n_slots - 1, gap = node->hash & mask;
    while (tree->slots[gap].node != node)
        gap = next_slot(tree, gap);
    for (size_t i = next_slot(tree, gap); tree->slots[i].node; i = next_slot(tree, i)) {
        size_t home = tree->slots[i].hash & mask;
        if (((i - home) & mask) < ((i - gap) & mask))
            continue; // the gap is before its home
        tree->slots[gap] = tree->slots[i];
        gap = i;
    }
    tree->slots[gap].node = NULL;
}

static struct prefix_node *find_child(const struct prefix_tree *tree, const struct prefix_node *parent, uint64_t hash,
                                      const int32_t *tokens)
{
    for (size_t i = hash & (tree->n_slots - 1); tree->slots[i].node; i = next_slot(tree, i)) {
        struct prefix_node *node = tree->slots[i].node;
        if (tree->slots[i].hash == hash && node->parent == parent && memcmp(node->tokens, tokens, token_bytes(tree)) == 0)
            return node;
    }
    return NULL;
}

static struct prefix_node *add_child(struct prefix_tree *tree, struct prefix_node *parent, uint64_t hash,
                                     const int32_t *tokens)
{
    struct prefix_node *node = reserve_slot(tree) ? take_node(tree) : NULL;
    if (!node)
        return NULL;
    *node = (struct prefix_node){.parent = parent, .hash = hash, .depth = parent->depth + 1, .page = -1};
    memcpy(node->tokens, tokens, token_bytes(tree));
    put_in_slot(tree, node);
    tree->n_nodes++;
    parent->n_children++;
    return node;
}

// Frees the node, then its ancestors, as far as nothing needs them.
static void drop_unneeded(struct prefix_tree *tree, struct prefix_node *node)
{
    while (node->parent && !node->n_waiting && !node->n_users && !node->n_children && node->page < 0) {
        struct prefix_node *parent = node->parent;
        __builtin_prefetch(&tree->slots[parent->hash & (tree->n_slots - 1)]);
        empty_slot(tree, node);
        if (tree->cursor == node)
            tree->cursor = parent;
        parent->n_children--;
        tree->n_nodes--;
        give_node(tree, node);
        node = parent;
    }
}

// ---- idle pages ----

static void idle_remove(struct prefix_tree *tree, struct prefix_node *node, bool wanted)
{
    struct idle_list *list = &tree->idle[wanted];
    if (node->idle_previous)
        node->idle_previous->idle_next = node->idle_next;
    else
        list->first = node->idle_next;
    if (node->idle_next)
        node->idle_next->idle_previous = node->idle_previous;
    else
        list->last = node->idle_previous;
    node->idle_previous = node->idle_next = NULL;
    node->idle = false;
    tree->figures.n_pages_idle--;
}

static void idle_append(struct prefix_tree *tree, struct prefix_node *node)
{
    struct idle_list *list = &tree->idle[node->n_waiting > 0];
    node->idle_previous = list->last;
    if (list->last)
        list->last->idle_next = node;
    else
        list->first = node;
    list->last = node;
    node->idle = true;
    tree->figures.n_pages_idle++;
}

static void evict(struct prefix_tree *tree, struct prefix_node *node)
{
    idle_remove(tree, node, node->n_waiting > 0);
    page_stack_give(tree->stack, node->page);
    node->page = -1;
    node->ready = false;
    tree->figures.n_evictions++;
    drop_unneeded(tree, node);
}

// Who needs one page mostly needs many: the node after next comes from memory meanwhile, and the next one's slot.
static void look_ahead(const struct prefix_tree *tree, const struct prefix_node *victim)
{
    const struct prefix_node *next = victim->idle_next;
    if (!next)
        return;
    __builtin_prefetch(&tree->slots[next->hash & (tree->n_slots - 1)], 1);
    __builtin_prefetch(next->idle_next, 1);
    __builtin_prefetch((const void *)((uintptr_t)next->idle_next + NODE_ALIGNMENT), 1);
}

int32_t prefix_take_page(struct prefix_tree *tree)
{
    if (!tree->stack->n_free) {
        struct prefix_node *victim = tree->idle[0].first ? tree->idle[0].first : tree->idle[1].first;
        if (!victim)
            return -1;
        look_ahead(tree, victim);
        evict(tree, victim);
    }
    return page_stack_take(tree->stack);
}

int32_t prefix_available(const struct prefix_tree *tree)
{
    return tree->stack->n_free + tree->figures.n_pages_idle;
}

// ---- waiting ----

static void offer_link(struct prefix_node *node)
{
    struct prefix_node *parent = node->parent;
    node->offer_previous = parent->offer_last;
    if (parent->offer_last)
        parent->offer_last->offer_next = node;
    else
        parent->offer_first = node;
    parent->offer_last = node;
}

static void offer_unlink(struct prefix_node *node)
{
    struct prefix_node *parent = node->parent;
    if (node->offer_previous)
        node->offer_previous->offer_next = node->offer_next;
    else
        parent->offer_first = node->offer_next;
    if (node->offer_next)
        node->offer_next->offer_previous = node->offer_previous;
    else
        parent->offer_last = node->offer_previous;
    node->offer_previous = node->offer_next = NULL;
}

void prefix_offer(struct prefix_node *node)
{
    for (; node; node = node->parent)
        if (node->n_offered++ == 0 && node->parent)
            offer_link(node);
}

void prefix_withdraw(struct prefix_node *node)
{
    for (; node; node = node->parent) {
        assert(node->n_offered > 0);
        if (--node->n_offered == 0 && node->parent)
            offer_unlink(node);
    }
}

// Deep nodes are moved first: a page must come before its parent's in the order of eviction.
static void change_waiting(struct prefix_tree *tree, struct prefix_node *node, int change)
{
    for (; node; node = node->parent) {
        bool before = node->n_waiting > 0;
        bool was_idle = node->idle;
        bool after = node->n_waiting + change > 0;
        if (was_idle && before != after)
            idle_remove(tree, node, before);
        node->n_waiting += change;
        assert(node->n_waiting >= 0);
        if (was_idle && before != after)
            idle_append(tree, node);
    }
}

// The hashes of up to AHEAD pages, whose slots are on their way from memory when they are looked at.
static int32_t hash_ahead(const struct prefix_tree *tree, uint64_t hash, const int32_t *tokens, int32_t n_pages,
                          uint64_t hashes[AHEAD])
{
    int32_t n = n_pages < AHEAD ? n_pages : AHEAD;
    for (int32_t i = 0; i < n; i++) {
        hashes[i] = hash = hash_bytes(tokens + (size_t)i * (size_t)tree->page_positions, token_bytes(tree), hash);
        __builtin_prefetch(&tree->slots[hash & (tree->n_slots - 1)]);
    }
    return n;
}

struct prefix_node *prefix_wait(struct prefix_tree *tree, const int32_t *tokens, int32_t n_pages, bool long_context)
{
    struct prefix_node *node = tree->roots[long_context];
    uint64_t hashes[AHEAD];
    bool is_new = false; // then nothing is below it either
    for (int32_t i = 0, n_hashed = 0, n_before = 0; i < n_pages; i++) {
        const int32_t *page_tokens = tokens + (size_t)i * (size_t)tree->page_positions;
        if (i == n_hashed) {
            n_before = n_hashed;
            n_hashed += hash_ahead(tree, node->hash, page_tokens, n_pages - i, hashes);
        }
        uint64_t hash = hashes[i - n_before];
        struct prefix_node *child = is_new ? NULL : find_child(tree, node, hash, page_tokens);
        if (!child) {
            is_new = true;
            child = add_child(tree, node, hash, page_tokens);
        }
        if (!child) {
            drop_unneeded(tree, node);
            return NULL;
        }
        node = child;
    }
    change_waiting(tree, node, 1);
    return node;
}

void prefix_unwait(struct prefix_tree *tree, struct prefix_node *node)
{
    change_waiting(tree, node, -1);
    drop_unneeded(tree, node);
}

// ---- use ----

void prefix_use(struct prefix_tree *tree, struct prefix_node *node)
{
    for (; node->parent; node = node->parent) {
        if (node->idle)
            idle_remove(tree, node, node->n_waiting > 0);
        if (++node->n_users == 2 && node->page >= 0)
            tree->figures.n_pages_shared++;
    }
}

void prefix_unuse(struct prefix_tree *tree, struct prefix_node *node, const void *owner)
{
    struct prefix_node *leaf = node;
    for (; node->parent; node = node->parent) {
        if (node->page >= 0 && node->n_users == 2)
            tree->figures.n_pages_shared--;
        node->n_users--;
        assert(node->n_users >= 0);
        if (node->owner == owner && !node->ready && node->page >= 0) {
            page_stack_give(tree->stack, node->page); // left before it was computed
            node->page = -1;
        }
        if (node->owner == owner)
            node->owner = NULL;
        if (node->n_users == 0 && node->page >= 0)
            idle_append(tree, node);
    }
    drop_unneeded(tree, leaf);
}

int32_t prefix_ready(const struct prefix_node *node, bool *blocked)
{
    int32_t n_ready = node->depth;
    *blocked = false;
    for (; node->parent; node = node->parent)
        if (!node->ready) {
            n_ready = node->depth - 1;
            *blocked = node->owner != NULL;
        }
    return n_ready;
}

// ---- figures ----

// When the list is full the least profitable prefix makes room for a new one, which starts from nothing.
static struct prefix_top *top_entry(struct prefix_tree *tree, uint64_t hash)
{
    struct prefix_top *least = &tree->top[0];
    for (int32_t i = 0; i < tree->n_top; i++) {
        if (tree->top[i].hash == hash)
            return &tree->top[i];
        if (tree->top[i].tokens_saved < least->tokens_saved)
            least = &tree->top[i];
    }
    if (tree->n_top < PREFIX_TOP_MAX)
        least = &tree->top[tree->n_top++];
    *least = (struct prefix_top){.hash = hash};
    return least;
}

void prefix_count(struct prefix_tree *tree, const struct prefix_node *node, int32_t n_ready, const int32_t *tokens,
                  int32_t n_tokens)
{
    tree->figures.n_lookups++;
    tree->figures.tokens_looked_up += n_tokens;
    if (n_ready == 0)
        return;
    while (node->depth > n_ready)
        node = node->parent;
    int32_t saved = n_ready * tree->page_positions;
    tree->figures.n_hits++;
    tree->figures.tokens_saved += saved;
    struct prefix_top *top = top_entry(tree, node->hash);
    top->n_hits++;
    top->tokens_saved += saved;
    if (top->n_tokens)
        return;
    top->n_tokens = saved;
    top->n_head = saved < (int32_t)(sizeof top->head / sizeof top->head[0]) ? saved : 48;
    memcpy(top->head, tokens, (size_t)top->n_head * sizeof *tokens);
}
