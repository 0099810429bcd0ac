// The prefix tree: a radix tree over the tokens of prompts (vLLM: automatic prefix caching, with hashed blocks;
// SGLang: RadixAttention). A node is a run of tokens without a branch. It is found by the hash of its first
// token under its parent and verified token by token. A new prompt adds one node for its unshared tokens; a
// node is split where a later prompt diverges, at the exact token. Each node counts the waiting sequences below
// it and its users, and knows which of its tokens are computed. Sharing, the order of admission and eviction
// follow from these counts.
//
//   root ── [37 tokens] ─┬─ [20 tokens]     a path covers a prompt's tokens except the last one, which is
//                        └─ [500 tokens]    always computed
//
// A KV page belongs to the node, or the sequence, of its first position on the path. Where a node ends within a
// page, its first successor continues in that page: it is the node's `heir`, a child or the running sequence
// that ends there. Any other successor begins with a copy of the page (copy-on-write):
//
//   pages of 16    | 0..15 | 16..31 | 32..36 of the node, 37..47 of its heir | 48..
//                                   | copy of 32..36, 37..47 of another child | 48..
//
// With recurrent layers a node can also have a snapshot: the slot with the state after its last token. A
// sequence starts from the deepest snapshot on its path (batching/snapshots.h).
//
// Along any path, from the root: ready tokens, then tokens that one sequence is computing, then positions
// without a page. An unused page stays cached until its memory is needed. Eviction order: pages that no
// waiting prompt shares first; among these least recently used first, and deeper pages before their
// ancestors.
// Thread: engine.
#pragma once

#include "batching/lists/list.h"
#include "batching/lists/page_stack.h"
#include "engine/backend.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// A node's tokens and the pages that belong to it.
struct prefix_run {
    int32_t n;        // tokens of this node alone
    int32_t n_ready;  // leading tokens that are computed, or will be by the end of the step being built
    int32_t n_held;   // leading pages that are allocated
    int32_t capacity; // tokens for which `tokens` and `pages` have room
    // Sequence that computes the rest of the run, or the snapshot at its end; NULL: none. It may stay set
    // after the last token was scheduled, if other sequences can start from here only after that step.
    const void *owner;
    int32_t *tokens; // [n]
    int32_t *pages;  // [n_held]
};

// The recurrent state after a node's last token.
struct prefix_snapshot {
    bool held;
    int32_t slot;      // slot number, if held
    int32_t n_readers; // sequences whose next tokens start from the snapshot
    int64_t step;      // last step that reads or writes it: until the next step the slot cannot be reused
    struct list_link link;
};

struct prefix_node {
    struct prefix_node *parent; // NULL: the root
    uint64_t key;               // hash of the node's first token under its parent
    int32_t depth;              // tokens from the root to its end; the root has 0
    struct prefix_run run;
    const void *heir; // child or running sequence that continues in the node's last page; NULL: none
    struct prefix_snapshot snapshot;
    int32_t n_children;
    int32_t n_waiting;  // waiting sequences at or below
    int32_t n_starting; // sequences of n_waiting that have no snapshot below this node
    int32_t n_offered;  // waiting sequences of the level offered to the search (window.h)
    int32_t n_users;    // running sequences at or below
    bool idle;          // in a list of evictable pages
    bool is_hashed;
    uint64_t hash;               // covers the whole pages from the root to its end, if is_hashed
    struct list offered;         // children with n_offered > 0, by their offer_link, oldest first
    struct list_link offer_link; // in the parent's list
    struct list sequences;       // offered, with paths that end here; linked by node_link
    struct list_link idle_link;  // link in a list of nodes with evictable pages, oldest first
};

// One of the shared prefixes that saved the most tokens.
struct prefix_top {
    uint64_t hash;
    int32_t n_tokens;
    int64_t n_hits;
    int64_t tokens_saved;
    int32_t n_head; // number of first tokens, for display
    int32_t head[48];
};

enum { PREFIX_TOP_MAX = 64 };

struct prefix_figures {
    int64_t n_lookups; // sequences admitted
    int64_t n_hits;    // lookups with at least one cached token
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
    struct prefix_node **roots; // [n_roots], see prefix_root
    int32_t n_roots;
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
    struct page_stack *states; // slots of recurrent states; NULL: the model has no recurrent layers
    struct list idle[2];       // 0: no waiting sequence shares the pages; 1: one does
    // nodes with a snapshot, by snapshot.link, least recently used first; 1: waiting sequences start from it
    struct list snapshots[2];
    int64_t step; // number of the step being built
    struct prefix_figures figures;
    struct prefix_top top[PREFIX_TOP_MAX];
    int32_t n_top;
};

// `states` NULL: no recurrent layers.
enum status prefix_init(struct prefix_tree *tree, int32_t page_positions, struct page_stack *stack,
                        struct page_stack *states, struct error *error) WARN_UNUSED;
// Adds the roots of another adapter set. `hash`: hash of the adapters' contents, part of the hashes of its prefixes.
enum status prefix_add_set(struct prefix_tree *tree, uint64_t hash, struct error *error) WARN_UNUSED;
void prefix_finish(struct prefix_tree *tree);

// Root of the prompts with this adapter set and long_context (engine/backend.h). Different roots share no pages.
static inline int32_t prefix_root(int32_t adapter_set, bool long_context)
{
    return 2 * adapter_set + long_context;
}

// Finds or creates the node at the end of a path of n_tokens and increments n_waiting along the path, which
// keeps it from being freed. NULL: out of memory.
struct prefix_node *prefix_wait(struct prefix_tree *tree, const int32_t *tokens, int32_t n_tokens,
                                int32_t root);
// Decrements n_waiting. Call prefix_withdraw first if the sequence was offered.
void prefix_unwait(struct prefix_tree *tree, struct prefix_node *node);
// Adds one waiting sequence of the path to the window's search, or removes it.
void prefix_offer(struct prefix_node *node);
void prefix_withdraw(struct prefix_node *node);
// Increments or decrements n_users along the path of a running sequence.
void prefix_use(struct prefix_tree *tree, struct prefix_node *node);
void prefix_unuse(struct prefix_tree *tree, struct prefix_node *node, const void *owner);

// The cached part of a sequence's prompt.
struct prefix_found {
    int32_t n_stored;   // leading tokens whose keys and values are in pages
    int32_t n_computed; // tokens it need not compute: n_stored; with recurrent layers the snapshot's
    struct prefix_node *snapshot; // node whose snapshot it starts from; NULL: none
    bool blocked;                 // another sequence is computing what it can share
};

// Finds the cached part of a sequence's prompt. The sequence computes all tokens from position `most` on,
// cached or not, because it needs their outputs.
struct prefix_found prefix_find(const struct prefix_tree *tree, struct prefix_node *node, int32_t most);

// The part of a sequence's block table that comes from the prefix tree.
struct prefix_claim {
    int32_t n_path;  // leading entries whose pages belong to the path's nodes
    int32_t n_pages; // entries written: n_path, or one more, a page that belongs to the sequence
    bool has_copy;   // the page copy.to must get the contents of copy.from before the sequence computes
    struct page_copy copy;
};

// Allocates KV pages for the part of the path that has none, to be computed by `owner`, and writes the
// block table to pages[0..n_pages). The pages must be available (prefix_n_held), the path in use and not
// blocked.
struct prefix_claim prefix_claim(struct prefix_tree *tree, struct prefix_node *node, const void *owner,
                                 const struct prefix_found *found, int32_t *pages);
// Marks the path's first n_tokens as ready: they are computed in the step being built or, if `settled`, were
// computed in an earlier step.
void prefix_computed(struct prefix_tree *tree, struct prefix_node *node, const void *owner, int32_t n_tokens,
                     bool settled);
// Number of pages that an admission on this path need not allocate: pages that running sequences use, and
// idle pages.
int32_t prefix_n_held(const struct prefix_tree *tree, const struct prefix_node *node);
int32_t prefix_n_idle(const struct prefix_node *node);
// Counts the admission of a prompt of n_tokens, of which n_cached were found. Returns the hash of the cached
// tokens, or 0 if they fill no page. Such short prefixes are not listed in `top`, because unrelated texts may
// share their first words.
uint64_t prefix_count(struct prefix_tree *tree, struct prefix_node *node, int32_t n_cached,
                      const int32_t *tokens, int32_t n_tokens);

// Allocates a page, evicting an idle one if none is free. -1: every page is in use.
int32_t prefix_take_page(struct prefix_tree *tree);
// Number of free and idle pages.
int32_t prefix_available(const struct prefix_tree *tree);
// Evicts all idle pages.
void prefix_clear(struct prefix_tree *tree);
