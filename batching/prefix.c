#include "batching/prefix.h"

#include "schemas/hash.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { BUCKETS_FIRST = 1024 };

enum status prefix_init(struct prefix_tree *tree, int32_t page_positions, struct page_stack *stack, struct error *error)
{
    *tree = (struct prefix_tree){.page_positions = page_positions, .stack = stack, .n_buckets = BUCKETS_FIRST};
    tree->buckets = calloc(tree->n_buckets, sizeof(struct prefix_node *));
    for (int i = 0; i < 2; i++)
        tree->roots[i] = calloc(1, sizeof *tree->roots[i]);
    if (!tree->roots[0] || !tree->roots[1] || !tree->buckets) {
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
    for (size_t i = 0; tree->buckets && i < tree->n_buckets; i++)
        for (struct prefix_node *node = tree->buckets[i]; node;) {
            struct prefix_node *next = node->bucket_next;
            free(node);
            node = next;
        }
    free(tree->buckets);
    free(tree->roots[0]);
    free(tree->roots[1]);
    *tree = (struct prefix_tree){0};
}

// ---- hash table ----

static void grow_buckets(struct prefix_tree *tree)
{
    size_t n = tree->n_buckets * 2;
    struct prefix_node **buckets = calloc(n, sizeof(struct prefix_node *));
    if (!buckets)
        return; // longer chains, the same answers
    for (size_t i = 0; i < tree->n_buckets; i++)
        for (struct prefix_node *node = tree->buckets[i]; node;) {
            struct prefix_node *next = node->bucket_next;
            node->bucket_next = buckets[node->hash & (n - 1)];
            buckets[node->hash & (n - 1)] = node;
            node = next;
        }
    free(tree->buckets);
    tree->buckets = buckets;
    tree->n_buckets = n;
}

static struct prefix_node *find_child(const struct prefix_tree *tree, const struct prefix_node *parent, uint64_t hash,
                                      const int32_t *tokens)
{
    size_t bytes = (size_t)tree->page_positions * sizeof *tokens;
    for (struct prefix_node *node = tree->buckets[hash & (tree->n_buckets - 1)]; node; node = node->bucket_next)
        if (node->hash == hash && node->parent == parent && memcmp(node->tokens, tokens, bytes) == 0)
            return node;
    return NULL;
}

static struct prefix_node *add_child(struct prefix_tree *tree, struct prefix_node *parent, uint64_t hash,
                                     const int32_t *tokens)
{
    size_t bytes = (size_t)tree->page_positions * sizeof *tokens;
    struct prefix_node *node = calloc(1, sizeof *node + bytes);
    if (!node)
        return NULL;
    if (tree->n_nodes >= tree->n_buckets)
        grow_buckets(tree);
    memcpy(node->tokens, tokens, bytes);
    node->parent = parent;
    node->hash = hash;
    node->depth = parent->depth + 1;
    node->page = -1;
    node->bucket_next = tree->buckets[hash & (tree->n_buckets - 1)];
    tree->buckets[hash & (tree->n_buckets - 1)] = node;
    tree->n_nodes++;
    parent->n_children++;
    return node;
}

// Frees the node, then its ancestors, as far as nothing needs them.
static void drop_unneeded(struct prefix_tree *tree, struct prefix_node *node)
{
    while (node->parent && !node->n_waiting && !node->n_users && !node->n_children && node->page < 0) {
        struct prefix_node **link = &tree->buckets[node->hash & (tree->n_buckets - 1)];
        while (*link != node)
            link = &(*link)->bucket_next;
        *link = node->bucket_next;
        struct prefix_node *parent = node->parent;
        if (tree->cursor == node)
            tree->cursor = parent;
        parent->n_children--;
        tree->n_nodes--;
        free(node);
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

int32_t prefix_take_page(struct prefix_tree *tree)
{
    if (!tree->stack->n_free) {
        struct prefix_node *victim = tree->idle[0].first ? tree->idle[0].first : tree->idle[1].first;
        if (!victim)
            return -1;
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

struct prefix_node *prefix_wait(struct prefix_tree *tree, const int32_t *tokens, int32_t n_pages, bool long_context)
{
    struct prefix_node *node = tree->roots[long_context];
    size_t bytes = (size_t)tree->page_positions * sizeof *tokens;
    for (int32_t i = 0; i < n_pages; i++) {
        const int32_t *page_tokens = tokens + (size_t)i * (size_t)tree->page_positions;
        uint64_t hash = hash_bytes(page_tokens, bytes, node->hash);
        struct prefix_node *child = find_child(tree, node, hash, page_tokens);
        if (!child)
            child = add_child(tree, node, hash, page_tokens);
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
