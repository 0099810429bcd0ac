// The prefix tree: a node is a run of pages of prompt tokens that no prompt leaves or ends within, found by a hash of its first
// page in the node above and verified token by token. A new prompt is one node for all that it shares with nobody; a node is
// cut in two where a later prompt parts from it. The tree knows which prompts wait at or below a node, which running sequences
// use it and which of its pages are computed, and so decides what is shared, what runs next and what is evicted.
//
//   root ── [5 pages] ─┬─ [2 pages]      a prompt's path ends at its last whole page that is not its last token's:
//                      └─ [30 pages]     one token is always its own
//
// States along any path, from the root: ready pages, then pages one sequence is computing, then none held.
// A page nobody uses stays until its memory is needed: first those no waiting prompt wants, oldest first and deep
// ones before those above.
// Thread: engine.
#pragma once

#include "batching/page_stack.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct prefix_node {
    struct prefix_node *parent;          // NULL: the root
    uint64_t key;                        // of its first page under its parent
    int32_t depth;                       // pages from the root to its end: 0 is the root
    int32_t n_pages;                     // its own
    int32_t n_held;                      // of them, the first, that have a page of the cache
    int32_t n_ready;                     // and of those whose page is computed, or will be by the end of the step being built
    int32_t n_children;
    int32_t n_waiting;                   // waiting sequences at or below
    int32_t n_offered;                   // of them those that the walk may choose: of the most urgent level (window.h)
    int32_t n_users;                     // running sequences whose path passes
    int32_t capacity;                    // pages that `tokens` and `pages` have room for
    bool idle;                           // in a list of evictable pages
    bool is_hashed;
    const void *owner;                   // sequence computing the held pages that are not ready; NULL: there are none
    uint64_t hash;                       // of all tokens from the root to its end, once asked for
    struct prefix_node *offer_previous, *offer_next; // among the parent's children with n_offered > 0, oldest first
    struct prefix_node *offer_first, *offer_last;    // own such children
    void *sequences_first, *sequences_last;          // offered sequences that end here: the window's list
    struct prefix_node *idle_previous, *idle_next;   // nodes with evictable pages, oldest first
    int32_t *tokens;                     // [n_pages * page_positions]
    int32_t *pages;                      // [n_held]
};

// One of the most profitable shared prefixes.
struct prefix_top {
    uint64_t hash;
    int32_t n_tokens;
    int64_t n_hits;
    int64_t tokens_saved;
    int32_t n_head;      // tokens kept for showing
    int32_t head[48];
};

enum { PREFIX_TOP_MAX = 64 };

struct prefix_figures {
    int64_t n_lookups;     // sequences admitted
    int64_t n_hits;        // of them with at least one shared page
    int64_t tokens_looked_up, tokens_saved;
    int64_t n_evictions;
    int32_t n_pages_shared; // held by two and more running sequences, now
    int32_t n_pages_idle;   // computed and used by nobody, now
};

struct idle_list {
    struct prefix_node *first, *last;
};

// Of the hash table: a look compares keys here, and goes to a node in memory only when it is the one.
struct prefix_slot {
    uint64_t key;
    struct prefix_node *node; // NULL: free
};

struct prefix_slab;

struct prefix_tree {
    struct prefix_node *roots[2]; // 1: prompts with long_context (engine/backend.h), which share nothing with the others
    struct prefix_node *cursor; // where the last admitted prompt ended, or an ancestor: the window goes on from here
    struct prefix_slot *slots; // [n_slots], each node in the first free place from its key on
    size_t n_slots; // power of two
    size_t n_nodes;
    // Nodes come from slabs and go back to a list, the last one first.
    struct prefix_slab *slabs;
    struct prefix_node *unused; // linked by `parent`
    size_t n_unused_in_slab;    // of the newest, never used yet
    int32_t page_positions;
    struct page_stack *stack;
    struct idle_list idle[2]; // 0: nobody waits for it; 1: somebody does
    struct prefix_figures figures;
    struct prefix_top top[PREFIX_TOP_MAX];
    int32_t n_top;
};

enum status prefix_init(struct prefix_tree *tree, int32_t page_positions, struct page_stack *stack, struct error *error)
    WARN_UNUSED;
void prefix_finish(struct prefix_tree *tree);

// The node at the end of a path of n_pages whole pages, made where absent, and counted as waited for (so that it stays):
// the caller holds one wait. NULL: out of memory.
struct prefix_node *prefix_wait(struct prefix_tree *tree, const int32_t *tokens, int32_t n_pages, bool long_context);
// The wait must not be offered any more.
void prefix_unwait(struct prefix_tree *tree, struct prefix_node *node);
// One wait of the path is offered to the walk, or not any more.
void prefix_offer(struct prefix_node *node);
void prefix_withdraw(struct prefix_node *node);
// A running sequence takes or leaves the whole path.
void prefix_use(struct prefix_tree *tree, struct prefix_node *node);
void prefix_unuse(struct prefix_tree *tree, struct prefix_node *node, const void *owner);

// How many leading pages of the path are ready. *blocked: another sequence is computing the next one.
int32_t prefix_ready(const struct prefix_node *node, bool *blocked);
// Takes a page for each of the path that has none, for `owner` to compute, and writes all of them to pages[node->depth].
// They must be available, and the path in use.
void prefix_claim(struct prefix_tree *tree, struct prefix_node *node, const void *owner, int32_t *pages);
// The owner computed the first n_pages of the path.
void prefix_computed(struct prefix_node *node, const void *owner, int32_t n_pages);
// Idle pages of the path.
int32_t prefix_n_idle(const struct prefix_node *node);
// Counts an admission that found n_ready pages of its n_tokens prompt. Returns the hash of those pages' tokens; 0: none.
uint64_t prefix_count(struct prefix_tree *tree, struct prefix_node *node, int32_t n_ready, const int32_t *tokens,
                      int32_t n_tokens);

// A page, evicting an idle one when none is free. -1: every page is in use.
int32_t prefix_take_page(struct prefix_tree *tree);
// Free pages and those that eviction would free.
int32_t prefix_available(const struct prefix_tree *tree);
