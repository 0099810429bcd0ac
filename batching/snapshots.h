// Snapshots of recurrent states in the prefix tree (vLLM: Mamba states of prefix caching). A prefill chunk ends
// where a snapshot is wanted, and writes the state there to a slot that no later step overwrites; sequences that
// diverge from there on start by reading it. The slots are shared with the running sequences, which come first:
// a slot that a sequence needs is taken from a snapshot, from the least recently used one from which no waiting
// sequence starts, else from the one whose loss costs the fewest tokens. A snapshot is given up with the page of its node's
// last token.
// Thread: engine.
#pragma once

#include "batching/prefix.h"

// True if a slot is free or a snapshot's can be taken.
bool snapshot_slot_left(const struct prefix_tree *tree);
// Slot for a sequence that starts from `node`'s snapshot; NULL: from its first token. snapshot_slot_left() is
// true. The sequence becomes a reader of the snapshot, unless the slot is the snapshot's own, which ends it.
int32_t snapshot_take_slot_for(struct prefix_tree *tree, struct prefix_node *node);

// The first node on the path to `leaf` that ends in (after, upto] and should get a snapshot: waiting sequences
// diverge there, or several prompts did. NULL: none.
struct prefix_node *snapshot_place(const struct prefix_tree *tree, struct prefix_node *leaf, int32_t after,
                                   int32_t upto);
// Gives the node a snapshot, which the step being built writes, with one reader: the sequence that computes it.
// False: no slot is left.
bool snapshot_make(struct prefix_tree *tree, struct prefix_node *node);
// Ends a reader, which has read the snapshot in the step being built or will not read it.
void snapshot_release(struct prefix_tree *tree, struct prefix_node *node);
// Frees the slot of the node's snapshot, if it has one.
void snapshot_drop(struct prefix_tree *tree, struct prefix_node *node);
// Adds to n_starting of the node, and above, up to the first snapshot.
void snapshot_count_start(struct prefix_tree *tree, struct prefix_node *node, int32_t change);
