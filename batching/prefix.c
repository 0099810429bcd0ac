#include "batching/prefix.h"

#include "schemas/base/hash.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { SLOTS_FIRST = 1024, SLAB_NODES = 64 };

struct prefix_slab {
    struct prefix_slab *next;
    struct prefix_node nodes[SLAB_NODES];
};

enum status prefix_init(struct prefix_tree *tree, int32_t page_positions, struct page_stack *stack,
                        struct error *error)
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
        *tree->roots[i] = (struct prefix_node){.hash = i, .is_hashed = true};
    tree->cursor = tree->roots[0];
    return STATUS_OK;
}

void prefix_finish(struct prefix_tree *tree)
{
    for (size_t i = 0; tree->slots && i < tree->n_slots; i++)
        if (tree->slots[i].node)
            free(tree->slots[i].node->pages.tokens);
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

static size_t page_bytes(const struct prefix_tree *tree)
{
    return (size_t)tree->page_positions * sizeof(int32_t);
}

static int32_t *page_tokens(const struct prefix_tree *tree, const struct prefix_node *node, int32_t page)
{
    return node->pages.tokens + (size_t)page * (size_t)tree->page_positions;
}

// The node is not initialized. NULL: out of memory.
static struct prefix_node *take_node(struct prefix_tree *tree)
{
    struct prefix_node *node = tree->unused;
    if (node) {
        tree->unused = node->parent;
        return node;
    }
    if (tree->n_unused_in_slab == 0) {
        struct prefix_slab *slab = malloc(sizeof *slab);
        if (!slab)
            return NULL;
        slab->next = tree->slabs;
        tree->slabs = slab;
        tree->n_unused_in_slab = SLAB_NODES;
    }
    return &tree->slabs->nodes[SLAB_NODES - tree->n_unused_in_slab--];
}

static void give_node(struct prefix_tree *tree, struct prefix_node *node)
{
    free(node->pages.tokens);
    node->parent = tree->unused;
    tree->unused = node;
}

// Allocates the node's arrays for n_pages and copies the tokens and the first n_held pages. False: out of
// memory, nothing changed.
static bool set_memory(const struct prefix_tree *tree, struct prefix_node *node, int32_t n_pages,
                       const int32_t *tokens, const int32_t *pages)
{
    size_t bytes = page_bytes(tree) * (size_t)n_pages; // cannot overflow: the tokens are in memory already
    int32_t *memory = malloc(bytes + (size_t)n_pages * sizeof *memory);
    if (!memory)
        return false;
    node->pages.tokens = memcpy(memory, tokens, bytes);
    node->pages.items = memory + bytes / sizeof *memory;
    if (node->pages.n_held)
        memcpy(node->pages.items, pages, (size_t)node->pages.n_held * sizeof *pages);
    node->pages.capacity = n_pages;
    return true;
}

// ---- hash table ----

static size_t next_slot(const struct prefix_tree *tree, size_t slot)
{
    return (slot + 1) & (tree->n_slots - 1);
}

static void put_in_slot(struct prefix_tree *tree, struct prefix_node *node)
{
    size_t i = node->key & (tree->n_slots - 1);
    while (tree->slots[i].node)
        i = next_slot(tree, i);
    tree->slots[i] = (struct prefix_slot){node->key, node};
}

// Keeps the table at most half full. If it cannot grow, it may fill up; false: it is full.
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

static size_t slot_of(const struct prefix_tree *tree, const struct prefix_node *node)
{
    size_t slot = node->key & (tree->n_slots - 1);
    while (tree->slots[slot].node != node)
        slot = next_slot(tree, slot);
    return slot;
}

// Closes the gap by moving later entries of the probe sequence (D. E. Knuth, TAOCP 3, 6.4, algorithm R).
static void empty_slot(struct prefix_tree *tree, const struct prefix_node *node)
{
    size_t mask = tree->n_slots - 1, gap = slot_of(tree, node);
    for (size_t i = next_slot(tree, gap); tree->slots[i].node; i = next_slot(tree, i)) {
        size_t home = tree->slots[i].key & mask;
        if (((i - home) & mask) < ((i - gap) & mask))
            continue; // the gap is before the slot of its key
        tree->slots[gap] = tree->slots[i];
        gap = i;
    }
    tree->slots[gap].node = NULL;
}

// Keys are built from the parent's address. A split keeps the address of the lower part, so its children's
// keys stay valid.
static uint64_t key_of(const struct prefix_tree *tree, const struct prefix_node *parent,
                       const int32_t *tokens)
{
    return hash_bytes(tokens, page_bytes(tree), (uint64_t)(uintptr_t)parent);
}

static struct prefix_node *find_child(const struct prefix_tree *tree, const struct prefix_node *parent,
                                      uint64_t key, const int32_t *tokens)
{
    for (size_t i = key & (tree->n_slots - 1); tree->slots[i].node; i = next_slot(tree, i)) {
        struct prefix_node *node = tree->slots[i].node;
        if (tree->slots[i].key == key && node->parent == parent &&
            memcmp(node->pages.tokens, tokens, page_bytes(tree)) == 0)
            return node;
    }
    return NULL;
}

// ---- runs ----

static struct prefix_node *add_child(struct prefix_tree *tree, struct prefix_node *parent, uint64_t key,
                                     const int32_t *tokens, int32_t n_pages)
{
    struct prefix_node *node = reserve_slot(tree) ? take_node(tree) : NULL;
    if (!node)
        return NULL;
    *node = (struct prefix_node){
        .parent = parent, .key = key, .depth = parent->depth + n_pages, .pages.n = n_pages};
    if (!set_memory(tree, node, n_pages, tokens, NULL)) {
        give_node(tree, node);
        return NULL;
    }
    put_in_slot(tree, node);
    tree->n_nodes++;
    parent->n_children++;
    return node;
}

// Number of leading pages of the node that match the tokens. The first page is known to match.
static int32_t common_pages(const struct prefix_tree *tree, const struct prefix_node *node,
                            const int32_t *tokens, int32_t n_pages)
{
    int32_t most = n_pages < node->pages.n ? n_pages : node->pages.n, n = 1;
    while (n < most && memcmp(page_tokens(tree, node, n), tokens + (size_t)n * (size_t)tree->page_positions,
                              page_bytes(tree)) == 0)
        n++;
    return n;
}

// Puts `node` into the place of `old`, which becomes its child, in the list of offered children.
static void take_offered_place(struct prefix_node *node, struct prefix_node *old)
{
    list_insert(&old->parent->offered, &old->offer_link, &node->offer_link);
    list_remove(&old->parent->offered, &old->offer_link);
    list_append(&node->offered, &old->offer_link);
}

static void link_idle(struct prefix_tree *tree, struct prefix_node *node, struct list_link *previous)
{
    list_insert(&tree->idle[node->n_waiting > 0], previous, &node->idle_link);
    node->idle = true;
}

static void unlink_idle(struct prefix_tree *tree, struct prefix_node *node, bool wanted)
{
    list_remove(&tree->idle[wanted], &node->idle_link);
    node->idle = false;
}

// Initializes `upper` as the first n_pages of the node, with the same counts.
static void set_upper(struct prefix_node *upper, const struct prefix_node *node, int32_t n_pages)
{
    *upper =
        (struct prefix_node){.parent = node->parent,
                             .key = node->key,
                             .depth = node->depth - node->pages.n + n_pages,
                             .pages.n = n_pages,
                             .pages.n_held = node->pages.n_held < n_pages ? node->pages.n_held : n_pages,
                             .pages.n_ready = node->pages.n_ready < n_pages ? node->pages.n_ready : n_pages,
                             .n_children = 1,
                             .n_waiting = node->n_waiting,
                             .n_offered = node->n_offered,
                             .n_users = node->n_users};
    upper->pages.owner = upper->pages.n_ready < upper->pages.n_held ? node->pages.owner : NULL;
}

// Removes the first n_pages from the node, which becomes a child of `upper`.
static void cut_off(struct prefix_tree *tree, struct prefix_node *node, struct prefix_node *upper)
{
    int32_t n_pages = upper->pages.n;
    node->parent = upper;
    node->pages.n -= n_pages;
    node->pages.n_held -= upper->pages.n_held;
    node->pages.n_ready -= upper->pages.n_ready;
    if (node->pages.n_ready == node->pages.n_held)
        node->pages.owner = NULL;
    memmove(node->pages.tokens, page_tokens(tree, node, n_pages), page_bytes(tree) * (size_t)node->pages.n);
    if (node->pages.n_held)
        memmove(node->pages.items, node->pages.items + n_pages,
                (size_t)node->pages.n_held * sizeof *node->pages.items);
    node->key = key_of(tree, upper, node->pages.tokens);
}

// Splits the node after n_pages. The node itself becomes the lower part and keeps its sequences and children.
// Returns the upper part; NULL: out of memory.
static struct prefix_node *cut_node(struct prefix_tree *tree, struct prefix_node *node, int32_t n_pages)
{
    struct prefix_node *upper = reserve_slot(tree) ? take_node(tree) : NULL;
    if (!upper)
        return NULL;
    set_upper(upper, node, n_pages);
    if (!set_memory(tree, upper, n_pages, node->pages.tokens, node->pages.items)) {
        give_node(tree, upper);
        return NULL;
    }
    tree->slots[slot_of(tree, node)].node = upper;
    if (node->n_offered)
        take_offered_place(upper, node);
    if (node->idle) // deep pages first
        link_idle(tree, upper, &node->idle_link);
    cut_off(tree, node, upper);
    if (node->idle && node->pages.n_held == 0)
        unlink_idle(tree, node, node->n_waiting > 0);
    put_in_slot(tree, node);
    tree->n_nodes++;
    return upper;
}

// Removes the pages without a KV page from the node's end.
static void shorten_node(struct prefix_tree *tree, struct prefix_node *node)
{
    int32_t *memory = node->pages.tokens;
    node->depth -= node->pages.n - node->pages.n_held;
    node->pages.n = node->pages.n_held;
    node->is_hashed = false;
    if (node->pages.n <= node->pages.capacity / 4 &&
        set_memory(tree, node, node->pages.n, node->pages.tokens, node->pages.items))
        free(memory);
}

// Frees the node and then its ancestors while they are not needed.
static void drop_unneeded(struct prefix_tree *tree, struct prefix_node *node)
{
    while (node->parent && !node->n_waiting && !node->n_users && !node->n_children) {
        if (node->pages.n_held) {
            if (node->pages.n_held < node->pages.n)
                shorten_node(tree, node);
            return;
        }
        struct prefix_node *parent = node->parent;
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
    unlink_idle(tree, node, wanted);
    tree->figures.n_pages_idle -= node->pages.n_held;
}

static void idle_append(struct prefix_tree *tree, struct prefix_node *node)
{
    link_idle(tree, node, tree->idle[node->n_waiting > 0].last);
    tree->figures.n_pages_idle += node->pages.n_held;
}

// Evicts up to n_pages of the node, deepest first. No node below holds a page: users of a descendant are
// users of this node, and deeper nodes are put into the list first.
static void evict_pages(struct prefix_tree *tree, struct prefix_node *node, int32_t n_pages)
{
    assert(node->pages.n_ready == node->pages.n_held && node->pages.n_held > 0);
    n_pages = n_pages < node->pages.n_held ? n_pages : node->pages.n_held;
    for (int32_t i = 0; i < n_pages; i++)
        page_stack_give(tree->stack, node->pages.items[--node->pages.n_held]);
    node->pages.n_ready = node->pages.n_held;
    tree->figures.n_pages_idle -= n_pages;
    tree->figures.n_evictions += n_pages;
    if (node->pages.n_held == 0)
        unlink_idle(tree, node, node->n_waiting > 0);
    drop_unneeded(tree, node);
}

// Evicts n_pages, or all idle ones if there are fewer.
static void make_room(struct prefix_tree *tree, int32_t n_pages)
{
    while (tree->stack->n_free < n_pages) {
        struct list_link *oldest = tree->idle[0].first ? tree->idle[0].first : tree->idle[1].first;
        struct prefix_node *victim = LIST_ITEM(oldest, struct prefix_node, idle_link);
        if (!victim)
            return;
        evict_pages(tree, victim, n_pages - tree->stack->n_free);
    }
}

int32_t prefix_take_page(struct prefix_tree *tree)
{
    make_room(tree, 1);
    return page_stack_take(tree->stack);
}

int32_t prefix_available(const struct prefix_tree *tree)
{
    return tree->stack->n_free + tree->figures.n_pages_idle;
}

// ---- waiting ----

void prefix_offer(struct prefix_node *node)
{
    for (; node; node = node->parent)
        if (node->n_offered++ == 0 && node->parent)
            list_append(&node->parent->offered, &node->offer_link);
}

void prefix_withdraw(struct prefix_node *node)
{
    for (; node; node = node->parent) {
        assert(node->n_offered > 0);
        if (--node->n_offered == 0 && node->parent)
            list_remove(&node->parent->offered, &node->offer_link);
    }
}

// Moves deep nodes first: a node must precede its parent in the order of eviction.
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

struct prefix_node *prefix_wait(struct prefix_tree *tree, const int32_t *tokens, int32_t n_pages,
                                bool long_context)
{
    struct prefix_node *node = tree->roots[long_context];
    for (int32_t i = 0; i < n_pages; i = node->depth) {
        const int32_t *rest = tokens + (size_t)i * (size_t)tree->page_positions;
        uint64_t key = key_of(tree, node, rest);
        struct prefix_node *child = find_child(tree, node, key, rest);
        int32_t n_common = child ? common_pages(tree, child, rest, n_pages - i) : 0;
        if (!child)
            child = add_child(tree, node, key, rest, n_pages - i);
        else if (n_common < child->pages.n)
            child = cut_node(tree, child, n_common);
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
        if (++node->n_users == 2)
            tree->figures.n_pages_shared += node->pages.n_held;
    }
}

void prefix_unuse(struct prefix_tree *tree, struct prefix_node *node, const void *owner)
{
    struct prefix_node *leaf = node;
    for (; node->parent; node = node->parent) {
        if (node->n_users == 2)
            tree->figures.n_pages_shared -= node->pages.n_held;
        node->n_users--;
        assert(node->n_users >= 0);
        if (node->pages.owner == owner) { // stopped before its pages were computed
            while (node->pages.n_held > node->pages.n_ready)
                page_stack_give(tree->stack, node->pages.items[--node->pages.n_held]);
            node->pages.owner = NULL;
        }
        if (node->n_users == 0 && node->pages.n_held > 0)
            idle_append(tree, node);
    }
    drop_unneeded(tree, leaf);
}

int32_t prefix_ready(const struct prefix_node *node, bool *blocked)
{
    int32_t n_ready = node->depth;
    *blocked = false;
    for (; node->parent; node = node->parent)
        if (node->pages.n_ready < node->pages.n) {
            n_ready = node->depth - node->pages.n + node->pages.n_ready;
            *blocked = node->pages.owner != NULL;
        }
    return n_ready;
}

void prefix_claim(struct prefix_tree *tree, struct prefix_node *node, const void *owner, int32_t *pages)
{
    for (; node->parent; node = node->parent) {
        if (node->pages.n_held < node->pages.n) {
            node->pages.owner = owner;
            make_room(tree, node->pages.n - node->pages.n_held);
        }
        for (; node->pages.n_held < node->pages.n; node->pages.n_held++) {
            node->pages.items[node->pages.n_held] = page_stack_take(tree->stack);
            assert(node->pages.items[node->pages.n_held] >= 0);
        }
        memcpy(pages + node->depth - node->pages.n, node->pages.items, (size_t)node->pages.n * sizeof *pages);
    }
}

void prefix_computed(struct prefix_node *node, const void *owner, int32_t n_pages)
{
    for (; node->parent && node->pages.owner == owner; node = node->parent) {
        int32_t n_own = n_pages - (node->depth - node->pages.n);
        if (n_own >= node->pages.n) {
            n_own = node->pages.n;
            node->pages.owner = NULL;
        }
        if (n_own > node->pages.n_ready)
            node->pages.n_ready = n_own;
    }
}

int32_t prefix_n_idle(const struct prefix_node *node)
{
    int32_t n = 0;
    for (; node->parent; node = node->parent)
        n += node->idle ? node->pages.n_held : 0;
    return n;
}

// ---- figures ----

// When the list is full, the prefix that saved the fewest tokens is replaced; the new one starts at zero.
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

// Hash of the first n_pages of the path: page by page, with the hash of the preceding pages as seed.
static uint64_t hash_of(const struct prefix_tree *tree, struct prefix_node *node, int32_t n_pages,
                        const int32_t *tokens)
{
    while (node->depth > n_pages)
        node = node->parent;
    const struct prefix_node *known = node;
    while (!known->is_hashed)
        known = known->parent;
    uint64_t hash = known->hash;
    for (int32_t i = known->depth; i < n_pages; i++) {
        hash = hash_bytes(tokens + (size_t)i * (size_t)tree->page_positions, page_bytes(tree), hash);
        if (i + 1 == node->depth) {
            node->hash = hash;
            node->is_hashed = true;
        }
    }
    return hash;
}

uint64_t prefix_count(struct prefix_tree *tree, struct prefix_node *node, int32_t n_ready,
                      const int32_t *tokens, int32_t n_tokens)
{
    tree->figures.n_lookups++;
    tree->figures.tokens_looked_up += n_tokens;
    if (n_ready == 0)
        return 0;
    int32_t saved = n_ready * tree->page_positions;
    tree->figures.n_hits++;
    tree->figures.tokens_saved += saved;
    uint64_t hash = hash_of(tree, node, n_ready, tokens);
    struct prefix_top *top = top_entry(tree, hash);
    top->n_hits++;
    top->tokens_saved += saved;
    if (top->n_tokens)
        return hash;
    top->n_tokens = saved;
    top->n_head = saved < (int32_t)(sizeof top->head / sizeof top->head[0]) ? saved : 48;
    memcpy(top->head, tokens, (size_t)top->n_head * sizeof *tokens);
    return hash;
}
