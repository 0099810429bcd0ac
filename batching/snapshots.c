#include "batching/snapshots.h"

#include <assert.h>

static struct prefix_node *node_of(struct list_link *link)
{
    return LIST_ITEM(link, struct prefix_node, snapshot.link);
}

static struct list *list_of(struct prefix_tree *tree, const struct prefix_node *node)
{
    return &tree->snapshots[node->n_starting > 0];
}

static bool is_evictable(const struct prefix_tree *tree, const struct prefix_node *node)
{
    return node->snapshot.n_readers == 0 && node->snapshot.step != tree->step;
}

// Tokens that must be recomputed if the node's snapshot is lost: the distance to the next snapshot above it.
static int32_t value_of(const struct prefix_node *node)
{
    const struct prefix_node *above = node->parent;
    while (above->parent && !above->snapshot.held)
        above = above->parent;
    return node->depth - above->depth;
}

// Chooses the snapshot to evict: the least recently used one from which no waiting sequence starts, else the
// one with the lowest value, if that is below `value`. NULL: none. Snapshots that the step being built uses
// can be evicted only for the next step. With can_wait, NULL is returned rather than a snapshot of higher
// value.
static struct prefix_node *find_victim(const struct prefix_tree *tree, int32_t value, bool can_wait)
{
    struct prefix_node *victim = NULL;
    for (struct list_link *link = tree->snapshots[0].first; link; link = link->next)
        if (is_evictable(tree, node_of(link)))
            return node_of(link);
    if (can_wait && tree->snapshots[0].first)
        return NULL;
    for (struct list_link *link = tree->snapshots[1].first; link; link = link->next) {
        int32_t least = can_wait || is_evictable(tree, node_of(link)) ? value_of(node_of(link)) : value;
        if (least < value) {
            victim = node_of(link);
            value = least;
        }
    }
    return victim && is_evictable(tree, victim) ? victim : NULL;
}

static int32_t take_slot(struct prefix_tree *tree, struct prefix_node *victim)
{
    if (tree->states->n_free == 0 && victim)
        snapshot_drop(tree, victim);
    return page_stack_take(tree->states);
}

void snapshot_drop(struct prefix_tree *tree, struct prefix_node *node)
{
    if (!node->snapshot.held)
        return;
    assert(node->snapshot.n_readers == 0);
    list_remove(list_of(tree, node), &node->snapshot.link);
    page_stack_give(tree->states, node->snapshot.slot);
    node->snapshot = (struct prefix_snapshot){0};
    snapshot_count_start(tree, node->parent, node->n_starting);
}

void snapshot_count_start(struct prefix_tree *tree, struct prefix_node *node, int32_t change)
{
    for (; node && !node->snapshot.held; node = node->parent)
        node->n_starting += change;
    if (!node)
        return;
    list_remove(list_of(tree, node), &node->snapshot.link);
    node->n_starting += change;
    list_append(list_of(tree, node), &node->snapshot.link);
}

// Makes the snapshots of the path the most recently used ones; among them the deepest is evicted first.
static void touch_path(struct prefix_tree *tree, struct prefix_node *node)
{
    for (; node; node = node->parent)
        if (node->snapshot.held) {
            list_remove(list_of(tree, node), &node->snapshot.link);
            list_append(list_of(tree, node), &node->snapshot.link);
        }
}

bool snapshot_slot_left(const struct prefix_tree *tree)
{
    return tree->states->n_free || find_victim(tree, INT32_MAX, true);
}

int32_t snapshot_take_slot_for(struct prefix_tree *tree, struct prefix_node *node)
{
    int32_t slot = take_slot(tree, find_victim(tree, INT32_MAX, true));
    assert(slot >= 0);
    if (node && node->snapshot.held) {
        node->snapshot.n_readers++;
        touch_path(tree, node);
    }
    return slot;
}

struct prefix_node *snapshot_place(const struct prefix_tree *tree, struct prefix_node *leaf, int32_t after,
                                   int32_t upto)
{
    struct prefix_node *place = NULL;
    int32_t n_waiting_below = 0, n_branches = 1; // counts only the children that are not on the path
    for (struct prefix_node *node = leaf; tree->states && node->depth > after; node = node->parent) {
        bool diverges = node->n_waiting > n_waiting_below || node->n_children >= n_branches;
        if (node->depth <= upto && diverges && !node->snapshot.held)
            place = node;
        n_waiting_below = node->n_waiting;
        n_branches = 2;
    }
    return place;
}

bool snapshot_make(struct prefix_tree *tree, struct prefix_node *node)
{
    int32_t slot = take_slot(tree, find_victim(tree, node->n_waiting ? value_of(node) : 0, false));
    if (slot < 0)
        return false;
    snapshot_count_start(tree, node->parent, -node->n_starting);
    node->snapshot = (struct prefix_snapshot){.held = true, .slot = slot, .n_readers = 1, .step = tree->step};
    list_append(list_of(tree, node), &node->snapshot.link);
    touch_path(tree, node);
    return true;
}

void snapshot_release(struct prefix_tree *tree, struct prefix_node *node)
{
    assert(node->snapshot.held && node->snapshot.n_readers > 0);
    node->snapshot.n_readers--;
    node->snapshot.step = tree->step;
}
