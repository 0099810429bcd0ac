// The prefix tree: one node a page of prompt tokens, found by a hash of the tokens so far and verified token by
// token. It knows which prompts wait below a node, which running sequences use it, and whether its page is
// computed, and so decides what is shared, what runs next and what is evicted.
//
//   root ── [16 tokens] ── [16 tokens] ─┬─ [16 tokens]      a prompt's path ends at its last whole page that is
//            ready          ready       └─ [16 tokens]      not its last token's: one token is always its own
//
// States along any path, from the root: ready nodes, then nodes one sequence is computing, then nodes without a page.
// A page nobody uses stays until its memory is needed: first those no waiting prompt wants, oldest first and deep
// ones before their parents.
// Thread: engine.
#pragma once

#include "batching/page_stack.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct prefix_node {
    struct prefix_node *parent;          // NULL: the root
    uint64_t hash;                       // of all tokens from the root on
    int32_t depth;                       // pages from the root: 0 is the root
    int32_t n_children;
    int32_t n_waiting;                   // waiting sequences at or below
    int32_t n_offered;                   // of them those that the walk may choose: of the most urgent level (window.h)
    int32_t n_users;                     // running sequences whose path passes
    int32_t page;                        // -1: none
    bool ready;                          // the page is computed, or will be by the end of the step being built
    bool idle;                           // in a list of evictable pages
    const void *owner;                   // sequence computing the page, until it is ready
    struct prefix_node *offer_previous, *offer_next; // among the parent's children with n_offered > 0, oldest first
    struct prefix_node *offer_first, *offer_last;    // own such children
    void *sequences_first, *sequences_last;          // offered sequences that end here: the window's list
    struct prefix_node *idle_previous, *idle_next;   // evictable pages, oldest first
    int32_t tokens[];                    // [page_positions]
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

// Of the hash table: a look compares hashes here, and goes to a node in memory only when it is the one.
struct prefix_slot {
    uint64_t hash;
    struct prefix_node *node; // NULL: free
};

struct prefix_slab;

struct prefix_tree {
    struct prefix_node *roots[2]; // 1: prompts with long_context (engine/backend.h), which share nothing with the others
    struct prefix_node *cursor; // where the last admitted prompt ended, or an ancestor: the window goes on from here
    struct prefix_slot *slots; // [n_slots], each node in the first free place from its hash on
    size_t n_slots; // power of two
    size_t n_nodes;
    // Nodes come from slabs and go back to a list, the last one first: a path's nodes stay neighbours in memory.
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
// Counts an admission that found n_ready pages of its n_tokens prompt.
void prefix_count(struct prefix_tree *tree, const struct prefix_node *node, int32_t n_ready, const int32_t *tokens,
                  int32_t n_tokens);

// A page, evicting an idle one when none is free. -1: every page is in use.
int32_t prefix_take_page(struct prefix_tree *tree);
// Free pages and those that eviction would free.
int32_t prefix_available(const struct prefix_tree *tree);
