#include "batching/prefix.h"

#include "batching/snapshots.h"
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
                        struct page_stack *states, struct error *error)
{
    *tree = (struct prefix_tree){
        .page_positions = page_positions, .stack = stack, .states = states, .n_slots = SLOTS_FIRST};
    tree->slots = calloc(tree->n_slots, sizeof *tree->slots);
    enum status status =
        tree->slots ? prefix_add_set(tree, 0, error) : error_memory(error, STATUS_REFUSE, "prefix tree");
    if (status == STATUS_OK)
        tree->cursor = tree->roots[0];
    else
        prefix_finish(tree);
    return status;
}

enum status prefix_add_set(struct prefix_tree *tree, uint64_t hash, struct error *error)
{
    struct prefix_node **roots =
        realloc(tree->roots, ((size_t)tree->n_roots + 2) * sizeof(struct prefix_node *));
    if (!roots)
        return error_memory(error, STATUS_REFUSE, "prefix tree");
    tree->roots = roots;
    for (uint64_t i = 0; i < 2; i++) {
        struct prefix_node *root = calloc(1, sizeof *root);
        if (!root)
            return error_memory(error, STATUS_REFUSE, "prefix tree");
        *root = (struct prefix_node){.hash = hash + i, .is_hashed = true};
        tree->roots[tree->n_roots++] = root;
    }
    return STATUS_OK;
}

void prefix_finish(struct prefix_tree *tree)
{
    for (size_t i = 0; tree->slots && i < tree->n_slots; i++)
        if (tree->slots[i].node)
            free(tree->slots[i].node->run.tokens);
    for (struct prefix_slab *slab = tree->slabs; slab;) {
        struct prefix_slab *next = slab->next;
        free(slab);
        slab = next;
    }
    free(tree->slots);
    for (int32_t i = 0; i < tree->n_roots; i++)
        free(tree->roots[i]);
    free(tree->roots);
    *tree = (struct prefix_tree){0};
}

// ---- positions and pages ----

static int32_t pages_of(const struct prefix_tree *tree, int32_t n_positions)
{
    return (n_positions + tree->page_positions - 1) / tree->page_positions;
}

static int32_t start_of(const struct prefix_node *node)
{
    return node->depth - node->run.n;
}

// True if the node's first positions are in its parent's last page, or would be if the node got pages now.
static bool borrows_page(const struct prefix_tree *tree, const struct prefix_node *node)
{
    const void *heir = node->parent ? node->parent->heir : NULL;
    return start_of(node) % tree->page_positions != 0 && (heir == node || (!heir && node->run.n_held == 0));
}

// Index of the node's first page in the block table.
static int32_t first_page(const struct prefix_tree *tree, const struct prefix_node *node)
{
    return start_of(node) / tree->page_positions + borrows_page(tree, node);
}

// Number of pages of the whole run. 0: the run ends within the parent's last page.
static int32_t count_pages(const struct prefix_tree *tree, const struct prefix_node *node)
{
    return pages_of(tree, node->depth) - first_page(tree, node);
}

// Page of the node's last token.
static int32_t last_page(const struct prefix_tree *tree, const struct prefix_node *node)
{
    int32_t n;
    while ((n = count_pages(tree, node)) == 0)
        node = node->parent;
    assert(node->run.n_held == n);
    return node->run.pages[n - 1];
}

// ---- nodes' memory ----

static size_t tokens_bytes(int32_t n_tokens)
{
    return (size_t)n_tokens * sizeof(int32_t);
}

// Returns a node that the caller must initialize. NULL: out of memory.
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
    free(node->run.tokens);
    node->parent = tree->unused;
    tree->unused = node;
}

// Allocates the node's arrays for n_tokens and copies these tokens and the n_held pages. False: out of memory,
// nothing changed.
static bool set_memory(const struct prefix_tree *tree, struct prefix_node *node, int32_t n_tokens,
                       const int32_t *tokens, const int32_t *pages)
{
    // cannot overflow: the tokens are in memory already
    size_t n_pages = (size_t)(n_tokens / tree->page_positions) + 2;
    int32_t *memory = malloc(tokens_bytes(n_tokens) + n_pages * sizeof *memory);
    if (!memory)
        return false;
    node->run.tokens = memcpy(memory, tokens, tokens_bytes(n_tokens));
    node->run.pages = memory + n_tokens;
    if (node->run.n_held)
        memcpy(node->run.pages, pages, tokens_bytes(node->run.n_held));
    node->run.capacity = n_tokens;
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

// Keeps the hash table at most half full. If the table cannot grow, it may fill up. Returns false when it is
// full.
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
static uint64_t key_of(const struct prefix_node *parent, int32_t token)
{
    return hash_bytes(&token, sizeof token, (uint64_t)(uintptr_t)parent);
}

static struct prefix_node *find_child(const struct prefix_tree *tree, const struct prefix_node *parent,
                                      uint64_t key, int32_t token)
{
    for (size_t i = key & (tree->n_slots - 1); tree->slots[i].node; i = next_slot(tree, i)) {
        struct prefix_node *node = tree->slots[i].node;
        if (tree->slots[i].key == key && node->parent == parent && node->run.tokens[0] == token)
            return node;
    }
    return NULL;
}

// ---- runs ----

static struct prefix_node *add_child(struct prefix_tree *tree, struct prefix_node *parent, uint64_t key,
                                     const int32_t *tokens, int32_t n_tokens)
{
    struct prefix_node *node = reserve_slot(tree) ? take_node(tree) : NULL;
    if (!node)
        return NULL;
    *node = (struct prefix_node){
        .parent = parent, .key = key, .depth = parent->depth + n_tokens, .run.n = n_tokens};
    if (!set_memory(tree, node, n_tokens, tokens, NULL)) {
        give_node(tree, node);
        return NULL;
    }
    put_in_slot(tree, node);
    tree->n_nodes++;
    parent->n_children++;
    return node;
}

// Number of the node's leading tokens that match. The caller has checked the first one.
static int32_t common_tokens(const struct prefix_node *node, const int32_t *tokens, int32_t n_tokens)
{
    int32_t most = n_tokens < node->run.n ? n_tokens : node->run.n, n = 1;
    while (n < most && node->run.tokens[n] == tokens[n])
        n++;
    return n;
}

// Replaces `old` by `node` in the list of offered children; `old` becomes a child of `node`.
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

static int32_t smaller_of(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

// Initializes `upper` as the first n_tokens of the node, with the same counts.
static void set_upper(const struct prefix_tree *tree, struct prefix_node *upper,
                      const struct prefix_node *node, int32_t n_tokens)
{
    int32_t depth = start_of(node) + n_tokens, n_pages = pages_of(tree, depth) - first_page(tree, node);
    *upper = (struct prefix_node){.parent = node->parent,
                                  .key = node->key,
                                  .depth = depth,
                                  .run.n = n_tokens,
                                  .run.n_held = smaller_of(node->run.n_held, n_pages),
                                  .run.n_ready = smaller_of(node->run.n_ready, n_tokens),
                                  .run.owner = node->run.owner,
                                  .n_children = 1,
                                  .n_waiting = node->n_waiting,
                                  .n_starting = node->snapshot.held ? 0 : node->n_starting,
                                  .n_offered = node->n_offered,
                                  .n_users = node->n_users};
}

// Removes the first tokens from the node and makes it a child of `upper`. If the cut is within a page and the
// node has positions in that page, the node becomes the heir of `upper`.
static void cut_off(struct prefix_tree *tree, struct prefix_node *node, struct prefix_node *upper)
{
    if (node->parent->heir == node)
        node->parent->heir = upper;
    node->parent = upper;
    node->run.n -= upper->run.n;
    node->run.n_held -= upper->run.n_held;
    node->run.n_ready -= upper->run.n_ready;
    if (upper->depth % tree->page_positions && (node->run.n_held || node->run.n_ready || node->run.owner))
        upper->heir = node;
    memmove(node->run.tokens, node->run.tokens + upper->run.n, tokens_bytes(node->run.n));
    if (node->run.n_held)
        memmove(node->run.pages, node->run.pages + upper->run.n_held, tokens_bytes(node->run.n_held));
    node->key = key_of(upper, node->run.tokens[0]);
}

// Splits the node after n_tokens. The node itself becomes the lower part and keeps its sequences, children and
// snapshot. Returns the upper part; NULL: out of memory.
static struct prefix_node *cut_node(struct prefix_tree *tree, struct prefix_node *node, int32_t n_tokens)
{
    struct prefix_node *upper = reserve_slot(tree) ? take_node(tree) : NULL;
    if (!upper)
        return NULL;
    set_upper(tree, upper, node, n_tokens);
    if (!set_memory(tree, upper, n_tokens, node->run.tokens, node->run.pages)) {
        give_node(tree, upper);
        return NULL;
    }
    tree->slots[slot_of(tree, node)].node = upper;
    if (node->n_offered)
        take_offered_place(upper, node);
    if (node->idle && upper->run.n_held) // deep pages first
        link_idle(tree, upper, &node->idle_link);
    cut_off(tree, node, upper);
    if (node->idle && node->run.n_held == 0)
        unlink_idle(tree, node, node->n_waiting > 0);
    put_in_slot(tree, node);
    tree->n_nodes++;
    return upper;
}

// Removes the tokens that are not computed from the node's end.
static void shorten_node(struct prefix_tree *tree, struct prefix_node *node)
{
    int32_t *memory = node->run.tokens;
    assert(!node->heir && !node->snapshot.held);
    node->depth -= node->run.n - node->run.n_ready;
    node->run.n = node->run.n_ready;
    node->is_hashed = false;
    if (node->run.n <= node->run.capacity / 4 &&
        set_memory(tree, node, node->run.n, node->run.tokens, node->run.pages))
        free(memory);
}

// Frees the node and then its ancestors while they are not needed.
static void drop_unneeded(struct prefix_tree *tree, struct prefix_node *node)
{
    while (node->parent && !node->n_waiting && !node->n_users && !node->n_children) {
        if (node->run.n_ready) {
            if (node->run.n_ready < node->run.n)
                shorten_node(tree, node);
            return;
        }
        struct prefix_node *parent = node->parent;
        if (parent->heir == node)
            parent->heir = NULL;
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
    tree->figures.n_pages_idle -= node->run.n_held;
}

static void idle_append(struct prefix_tree *tree, struct prefix_node *node)
{
    link_idle(tree, node, tree->idle[node->n_waiting > 0].last);
    tree->figures.n_pages_idle += node->run.n_held;
}

// Marks the nodes that continue in the node's last page as not ready. Returns the last of these nodes, or the
// node itself if there is none.
static struct prefix_node *disinherit(struct prefix_tree *tree, struct prefix_node *node)
{
    while (node->heir) {
        struct prefix_node *heir = (struct prefix_node *)node->heir; // not a sequence: the node has no users
        assert(heir->run.n_held == 0 && heir->n_users == 0);
        node->heir = NULL;
        heir->run.n_ready = 0;
        snapshot_drop(tree, heir);
        node = heir;
    }
    return node;
}

// Evicts up to n_pages of the node, deepest first. No node below holds a page: users of a descendant are
// users of this node, and deeper nodes are put into the list first.
static void evict_pages(struct prefix_tree *tree, struct prefix_node *node, int32_t n_pages)
{
    int32_t first = first_page(tree, node);
    n_pages = smaller_of(n_pages, node->run.n_held);
    assert(n_pages > 0 && !node->run.owner);
    struct prefix_node *last = disinherit(tree, node);
    snapshot_drop(tree, node);
    for (int32_t i = 0; i < n_pages; i++)
        page_stack_give(tree->stack, node->run.pages[--node->run.n_held]);
    int32_t n_ready = (first + node->run.n_held) * tree->page_positions - start_of(node);
    node->run.n_ready = n_ready < 0 ? 0 : smaller_of(n_ready, node->run.n_ready);
    tree->figures.n_pages_idle -= n_pages;
    tree->figures.n_evictions += n_pages;
    if (node->run.n_held == 0)
        unlink_idle(tree, node, node->n_waiting > 0);
    drop_unneeded(tree, last);
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

void prefix_clear(struct prefix_tree *tree)
{
    make_room(tree, tree->stack->n_pages);
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

// Adds the change to n_waiting of the node and its ancestors. In the order of eviction a node precedes its
// parent, so deep nodes move between the lists first, and the ancestors of a node that is now shared follow
// it.
static void change_waiting(struct prefix_tree *tree, struct prefix_node *node, int change)
{
    for (bool moves = false; node; node = node->parent) {
        bool was_wanted = node->n_waiting > 0, was_idle = node->idle;
        moves = was_wanted != (node->n_waiting + change > 0) || (moves && change > 0);
        if (was_idle && moves)
            idle_remove(tree, node, was_wanted);
        node->n_waiting += change;
        assert(node->n_waiting >= 0);
        if (was_idle && moves)
            idle_append(tree, node);
    }
}

struct prefix_node *prefix_wait(struct prefix_tree *tree, const int32_t *tokens, int32_t n_tokens,
                                int32_t root)
{
    struct prefix_node *node = tree->roots[root];
    for (int32_t i = 0; i < n_tokens; i = node->depth) {
        uint64_t key = key_of(node, tokens[i]);
        struct prefix_node *child = find_child(tree, node, key, tokens[i]);
        int32_t n_common = child ? common_tokens(child, tokens + i, n_tokens - i) : 0;
        if (!child)
            child = add_child(tree, node, key, tokens + i, n_tokens - i);
        else if (n_common < child->run.n)
            child = cut_node(tree, child, n_common);
        if (!child) {
            drop_unneeded(tree, node);
            return NULL;
        }
        node = child;
    }
    change_waiting(tree, node, 1);
    snapshot_count_start(tree, node, 1);
    return node;
}

void prefix_unwait(struct prefix_tree *tree, struct prefix_node *node)
{
    change_waiting(tree, node, -1);
    snapshot_count_start(tree, node, -1);
    drop_unneeded(tree, node);
}

// ---- use ----

void prefix_use(struct prefix_tree *tree, struct prefix_node *node)
{
    for (; node->parent; node = node->parent) {
        if (node->idle)
            idle_remove(tree, node, node->n_waiting > 0);
        if (++node->n_users == 2)
            tree->figures.n_pages_shared += node->run.n_held;
    }
}

// Called when the owner stops before it has computed the node: frees the pages that have no computed token.
static void abandon_node(struct prefix_tree *tree, struct prefix_node *node)
{
    int32_t n_kept = pages_of(tree, start_of(node) + node->run.n_ready) - first_page(tree, node);
    n_kept = node->run.n_ready ? n_kept : 0;
    while (node->run.n_held > n_kept)
        page_stack_give(tree->stack, node->run.pages[--node->run.n_held]);
    node->run.owner = NULL;
    if (node->run.n_ready == 0 && node->parent->heir == node)
        node->parent->heir = NULL;
}

void prefix_unuse(struct prefix_tree *tree, struct prefix_node *node, const void *owner)
{
    struct prefix_node *leaf = node;
    if (leaf->heir == owner)
        leaf->heir = NULL;
    for (; node->parent; node = node->parent) {
        if (node->n_users == 2)
            tree->figures.n_pages_shared -= node->run.n_held;
        node->n_users--;
        assert(node->n_users >= 0);
        if (node->run.owner == owner)
            abandon_node(tree, node);
        if (node->n_users == 0 && node->run.n_held > 0)
            idle_append(tree, node);
    }
    drop_unneeded(tree, leaf);
}

struct prefix_found prefix_find(const struct prefix_tree *tree, struct prefix_node *node, int32_t most)
{
    struct prefix_found found = {.n_stored = node->depth};
    for (; node->parent; node = node->parent) {
        if (node->run.n_ready < node->run.n)
            found.n_stored = start_of(node) + node->run.n_ready;
        if (node->snapshot.held && !found.snapshot && node->depth <= most) // then all above it is ready
            found.snapshot = node;
        found.blocked = found.blocked || node->run.owner;
    }
    found.n_computed = smaller_of(found.n_stored, most);
    if (tree->states)
        found.n_computed = found.snapshot ? found.snapshot->depth : 0;
    return found;
}

// Allocates pages for the node's whole run. Returns true if its first page must be a copy of its parent's
// last page.
static bool take_pages(struct prefix_tree *tree, struct prefix_node *node)
{
    bool copies = false;
    if (start_of(node) % tree->page_positions && node->run.n_ready == 0) {
        copies = node->parent->heir && node->parent->heir != node;
        if (!copies)
            node->parent->heir = node;
    }
    int32_t n_pages = count_pages(tree, node);
    make_room(tree, n_pages - node->run.n_held);
    for (; node->run.n_held < n_pages; node->run.n_held++) {
        node->run.pages[node->run.n_held] = page_stack_take(tree->stack);
        assert(node->run.pages[node->run.n_held] >= 0);
    }
    return copies;
}

// Writes the pages of the path to the block table's entries before `end`; the page of a deeper node replaces an
// ancestor's page.
static void write_table(const struct prefix_tree *tree, const struct prefix_node *node, int32_t end,
                        int32_t *pages)
{
    for (; node->parent; node = node->parent) {
        int32_t first = first_page(tree, node);
        if (first < end)
            memcpy(pages + first, node->run.pages, tokens_bytes(end - first));
        end = smaller_of(end, first);
    }
}

struct prefix_claim prefix_claim(struct prefix_tree *tree, struct prefix_node *leaf, const void *owner,
                                 const struct prefix_found *found, int32_t *pages)
{
    bool within = leaf->depth % tree->page_positions != 0, copies = within && leaf->heir;
    struct prefix_claim claim = {.n_path = pages_of(tree, leaf->depth) - copies, .has_copy = copies};
    claim.n_pages = claim.n_path + copies;
    if (within && !copies)
        leaf->heir = owner;
    const struct prefix_node *copied = copies ? leaf : NULL; // node whose last page must be copied
    for (struct prefix_node *node = leaf; node->parent; node = node->parent) {
        bool is_ready = node->run.n_ready == node->run.n;
        if (!is_ready && take_pages(tree, node)) {
            assert(!claim.has_copy);
            claim.has_copy = true;
            claim.copy.to = node->run.pages[0];
            copied = node->parent;
        }
        if (!is_ready || (tree->states && node->depth > found->n_computed && !node->snapshot.held))
            node->run.owner = owner;
    }
    write_table(tree, leaf, claim.n_path, pages);
    if (copies) {
        claim.copy.to = pages[claim.n_path] = prefix_take_page(tree);
        assert(claim.copy.to >= 0);
    }
    if (claim.has_copy)
        claim.copy.from = last_page(tree, copied);
    return claim;
}

// Moves a computed node to the front of the offered children: the sequences that share it run next, so its
// pages and snapshots are soon free.
static void offer_first(struct prefix_node *node)
{
    if (node->n_offered == 0)
        return;
    list_remove(&node->parent->offered, &node->offer_link);
    list_insert(&node->parent->offered, NULL, &node->offer_link);
}

void prefix_computed(struct prefix_tree *tree, struct prefix_node *node, const void *owner, int32_t n_tokens,
                     bool settled)
{
    for (bool first = false; node->parent; node = node->parent) {
        if (node->run.owner == owner) {
            int32_t n_own = smaller_of(n_tokens - start_of(node), node->run.n);
            if (n_own > node->run.n_ready)
                node->run.n_ready = n_own;
            // Another sequence can read a page in the step that fills it. A copy or a snapshot can be read
            // only in the next step.
            bool waits = tree->states || node->depth % tree->page_positions;
            if (n_own == node->run.n && (settled || !waits)) {
                node->run.owner = NULL;
                first = true;
            }
        }
        if (first)
            offer_first(node);
    }
}

int32_t prefix_n_held(const struct prefix_tree *tree, const struct prefix_node *node)
{
    bool copies = node->depth % tree->page_positions && node->heir;
    int32_t n = 0, end = pages_of(tree, node->depth) - copies;
    for (; node->parent; node = node->parent) {
        int32_t first = first_page(tree, node), n_held = smaller_of(node->run.n_held, end - first);
        n += n_held > 0 ? n_held : 0;
        end = smaller_of(end, first);
    }
    return n;
}

int32_t prefix_n_idle(const struct prefix_node *node)
{
    int32_t n = 0;
    for (; node->parent; node = node->parent)
        n += node->idle ? node->run.n_held : 0;
    return n;
}
