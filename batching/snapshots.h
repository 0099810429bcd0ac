// Snapshots of recurrent states in the prefix tree (vLLM: Mamba states in the prefix cache). Where a snapshot
// is needed, a prefill chunk ends and writes the state to a slot that no later step overwrites. Sequences
// that diverge after this point start by reading the slot.
//
// Running sequences and snapshots share the slots, and running sequences come first. If a sequence needs a
// slot and none is free, a snapshot is evicted: the least recently used one from which no waiting sequence
// starts, else the one whose loss costs the fewest tokens. A snapshot is also freed with the page of its
// node's last token.
// Thread: engine.
#pragma once

#include "batching/prefix.h"

// True if a slot is free or can be taken from a snapshot.
bool snapshot_slot_left(const struct prefix_tree *tree);
// Returns a slot for a sequence that starts from `node`'s snapshot, or with NULL from its first token. Call
// it only if snapshot_slot_left() is true. The sequence becomes a reader of the snapshot. If no other slot is
// left, it gets the snapshot's own slot and the snapshot ends.
int32_t snapshot_take_slot_for(struct prefix_tree *tree, struct prefix_node *node);

// The first node on the path to `leaf` that ends in (after, upto] and should get a snapshot: waiting sequences
// diverge there, or several prompts did. NULL: none.
struct prefix_node *snapshot_place(const struct prefix_tree *tree, struct prefix_node *leaf, int32_t after,
                                   int32_t upto);
// Allocates a snapshot for the node. The step being built writes it; the sequence that computes it is its
// only reader at first. False: no slot is left.
bool snapshot_make(struct prefix_tree *tree, struct prefix_node *node);
// Removes a reader, which has read the snapshot in the step being built or will not read it.
void snapshot_release(struct prefix_tree *tree, struct prefix_node *node);
// Frees the slot of the node's snapshot, if it has one.
void snapshot_drop(struct prefix_tree *tree, struct prefix_node *node);
// Adds `change` to n_starting of the node and of its ancestors, up to the first one with a snapshot.
void snapshot_count_start(struct prefix_tree *tree, struct prefix_node *node, int32_t change);
