// The prefix tree: a radix tree over the KV pages of prompts (vLLM: automatic prefix caching; SGLang:
// RadixAttention). A node is a run of pages without a branch. It is found by the hash of its first page under
// its parent and verified token by token. A new prompt adds one node for its unshared pages; a node is split
// where a later prompt diverges. Each node counts the waiting sequences below it and its users, and knows
// which of its pages are computed. Sharing, the order of admission and eviction follow from these counts.
//
//   root ── [5 pages] ─┬─ [2 pages]      a path covers a prompt's full pages, except the page of its last
//                      └─ [30 pages]     token: that token is always computed
//
// Along any path, from the root: ready pages, then pages that one sequence is computing, then positions
// without a page. An unused page stays cached until its memory is needed. Eviction order: pages that no
// waiting prompt shares first; among these least recently used first, and deeper pages before their
// ancestors.
// Thread: engine.
#pragma once

#include "batching/list.h"
#include "batching/page_stack.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// A node's pages and their tokens.
struct prefix_pages {
    int32_t n;      // of this node alone
    int32_t n_held; // leading pages that have a KV page
    // leading pages that are computed, or will be by the end of the step being built
    int32_t n_ready;
    int32_t capacity;  // pages for which `tokens` and `items` have room
    const void *owner; // sequence that computes pages n_ready..n_held; NULL: there are none
    int32_t *tokens;   // [n * page_positions]
    int32_t *items;    // [n_held]
};

struct prefix_node {
    struct prefix_node *parent; // NULL: the root
    uint64_t key;               // of its first page under its parent
    int32_t depth;              // pages from the root to its end; the root has 0
    struct prefix_pages pages;
    int32_t n_children;
    int32_t n_waiting; // waiting sequences at or below
    int32_t n_offered; // waiting sequences of the level offered to the search (window.h)
    int32_t n_users;   // running sequences at or below
    bool idle;         // in a list of evictable pages
    bool is_hashed;
    uint64_t hash;               // of all tokens from the root to its end, if is_hashed
    struct list offered;         // children with n_offered > 0, by their offer_link, oldest first
    struct list_link offer_link; // in the parent's list
    struct list sequences;       // offered ones that end here, by their node_link: the window's list
    struct list_link idle_link;  // of nodes with evictable pages, oldest first
};

// One of the shared prefixes that saved the most tokens.
struct prefix_top {
    uint64_t hash;
    int32_t n_tokens;
    int64_t n_hits;
    int64_t tokens_saved;
    int32_t n_head; // first tokens, for display
    int32_t head[48];
};

enum { PREFIX_TOP_MAX = 64 };

struct prefix_figures {
    int64_t n_lookups; // sequences admitted
    int64_t n_hits;    // lookups with at least one shared page
    int64_t tokens_looked_up, tokens_saved;
    int64_t n_evictions;
    int32_t n_pages_shared; // used by two or more running sequences now
    int32_t n_pages_idle;   // cached and not used now
};

// Slot of the hash table. The key is stored here so that a lookup reads a node only when its key matches.
struct prefix_slot {
    uint64_t key;
    struct prefix_node *node; // NULL: free
};

struct prefix_slab;

struct prefix_tree {
    // 1: prompts with long_context (engine/backend.h), which share nothing with the others
    struct prefix_node *roots[2];
    // end of the last admitted prompt's path, or an ancestor: the window's search starts here
    struct prefix_node *cursor;
    struct prefix_slot *slots; // [n_slots], open addressing with linear probing
    size_t n_slots;            // power of two
    size_t n_nodes;
    // Nodes are allocated in slabs; free nodes are a stack.
    struct prefix_slab *slabs;
    struct prefix_node *unused; // linked by `parent`
    size_t n_unused_in_slab;    // nodes of the newest slab that were never used
    int32_t page_positions;
    struct page_stack *stack;
    struct list idle[2]; // 0: no waiting sequence shares the pages; 1: one does
    struct prefix_figures figures;
    struct prefix_top top[PREFIX_TOP_MAX];
    int32_t n_top;
};

enum status prefix_init(struct prefix_tree *tree, int32_t page_positions, struct page_stack *stack,
                        struct error *error) WARN_UNUSED;
void prefix_finish(struct prefix_tree *tree);

// Finds or creates the node at the end of a path of n_pages full pages and increments n_waiting along the
// path, which keeps it from being freed. NULL: out of memory.
struct prefix_node *prefix_wait(struct prefix_tree *tree, const int32_t *tokens, int32_t n_pages,
                                bool long_context);
// Decrements n_waiting. Call prefix_withdraw first if the sequence was offered.
void prefix_unwait(struct prefix_tree *tree, struct prefix_node *node);
// Adds one waiting sequence of the path to the window's search, or removes it.
void prefix_offer(struct prefix_node *node);
void prefix_withdraw(struct prefix_node *node);
// Increments or decrements n_users along the path of a running sequence.
void prefix_use(struct prefix_tree *tree, struct prefix_node *node);
void prefix_unuse(struct prefix_tree *tree, struct prefix_node *node, const void *owner);

// Number of leading pages of the path that are ready. *blocked: another sequence is computing the next one.
int32_t prefix_ready(const struct prefix_node *node, bool *blocked);
// Allocates KV pages for the part of the path that has none, to be computed by `owner`, and writes the path's
// block table to pages[0..node->depth). The pages must be available and the path in use.
void prefix_claim(struct prefix_tree *tree, struct prefix_node *node, const void *owner, int32_t *pages);
// Marks the first n_pages of the path as ready.
void prefix_computed(struct prefix_node *node, const void *owner, int32_t n_pages);
// Number of idle pages of the path.
int32_t prefix_n_idle(const struct prefix_node *node);
// Counts an admission of a prompt of n_tokens that found n_ready pages cached. Returns the hash of the tokens
// in these pages; 0: none.
uint64_t prefix_count(struct prefix_tree *tree, struct prefix_node *node, int32_t n_ready,
                      const int32_t *tokens, int32_t n_tokens);

// Allocates a page, evicting an idle one if none is free. -1: every page is in use.
int32_t prefix_take_page(struct prefix_tree *tree);
// Number of free and idle pages.
int32_t prefix_available(const struct prefix_tree *tree);
