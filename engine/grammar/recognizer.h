// The parser as an automaton: an Earley parser (J. Earley, 1970) over bytes. Item sets are hash-consed, so a
// set is a state, and its step by a byte is computed once. Internal to engine/grammar/.
//
// Example: S = "(" S ")" | "x". A dot marks the position in a rule, (n) its origin: the set in which the rule
// began.
//
//   set   text   items               waits for S     steps
//     1          S starts the text   the text        (  -> 2   x -> 3
//     2   (      "(" . S ")"  (1)    that item       (  -> 4   x -> 5
//     3   x      the text may end
//     4   ((     "(" . S ")"  (2)    that item       (  -> 6   x -> 7
//     5   (x     "(" S . ")"  (1)                    )  -> 3
//
// When S ends, each item that waits for S in the set where S began advances. Origins are sets, not text
// positions: completion needs only the waiters of a set. Two measures keep the number of sets small: a
// repetition counts only up to its minimum, and the last symbol of a rule waits directly for what the end of
// the rule leads to (J. Leo, 1991). So right recursion and lists return to the same set.
#pragma once

#include "engine/grammar/byte_automaton.h"
#include "engine/grammar/grammar_parts.h"
#include "engine/grammar/string_masks.h"

enum item_kind {
    ITEM_NODE,     // a: symbol of a rule; b: number of children passed, or repetitions counted
    ITEM_TAIL,     // a: the symbol awaited, last of its rule; b: the symbol that ends with it
    ITEM_SCAN,     // a: state of the byte automaton; b: the terminal's symbol
    ITEM_END,      // the text may end
    ITEM_COMPLETE, // a: a symbol that ends here; exists only while a set is built
};

enum {
    ORIGIN_SELF = UINT32_MAX,     // the set that contains the item
    ORIGIN_ROOT = UINT32_MAX - 1, // before the text
    SYMBOL_ROOT = UINT32_MAX,     // the start symbol is complete
    SET_DEAD = 0,                 // no text has this prefix
    SET_UNKNOWN = UINT32_MAX,
    SET_STATE_UNKNOWN = 0,
    SET_STATE_NONE = UINT16_MAX,
};

struct item {
    uint32_t kind, a, b, origin;
};

// An item that waits, in a set, for the end of `symbol`.
struct waiter {
    uint32_t symbol;
    struct item item;
};

// For each byte the number of items processed while the step was computed; 0 if below STEP_WORK_COUNTED.
struct step_work {
    uint32_t items[256];
    uint64_t visit;          // the last visit that counted these steps
    struct byte_set counted; // bytes counted in that visit
};

// The cached steps of a set.
struct set_row {
    uint32_t sets[256];     // indexed by byte; SET_UNKNOWN: not computed yet
    struct byte_set starts; // bytes that may lead to another set than the preceding byte value
    struct step_work *work; // NULL: no step of this set is large enough to count
};

struct item_set {
    uint32_t n_items, n_scans, n_waiters;
    const struct item *items;     // kernel items (not predicted), in ascending order
    const struct item *scans;     // all ITEM_SCAN items, also predicted ones
    const struct waiter *waiters; // in ascending order of symbol
    bool may_end;
    // Index into string_tokens.states if the set is inside such a string and in nothing else; or a SET_STATE_
    // value.
    uint16_t string_state;
    uint16_t forced;     // enum forced; FORCED_UNKNOWN: not computed yet
    uint64_t visit;      // the last mask that reached the set
    uint64_t left;       // the last visit that counted the derivatives of its steps
    struct set_row *row; // NULL: not computed yet
    uint32_t *mask;      // NULL: not computed yet, or dropped
    uint64_t mask_work;  // work of computing the mask
};

struct set_builder {
    VECTOR(struct item) items; // unique, in order of discovery
    size_t at;                 // next item to complete
    uint32_t *table;           // hash table: index into `items` + 1; 0 is a free slot
    size_t table_size;
    VECTOR(struct waiter) waiters;
    VECTOR(struct item) kernel; // items of the finished set that are not predicted
};

// State of a walk over the vocabulary's trie at one depth.
struct walk_level {
    uint32_t set;
    uint32_t string;           // inside a string: state of the byte automaton
    const struct set_row *row; // row of the set; NULL: not computed yet
};

// A visit is one query of an item set: its token mask, its forced byte, or its closing cost. The work of a
// visit, pool->visit.work, is a sum over the distinct steps and the derivatives that they need. Cached steps
// count too, so the work depends only on the grammar and the text.
struct recognizer_visit {
    uint64_t id;
    uint64_t step_work; // work of the step being computed
};

// Memory for the items and waiters of sets, most of a recognizer's memory. Blocks never move: reallocation
// took milliseconds.
struct set_blocks {
    VECTOR(char *) blocks;
    size_t n_used, n_room; // used and total bytes of the last block
    size_t n_bytes;        // bytes of all blocks
};

enum { SET_BLOCK_FIRST = 1 << 10, SET_BLOCK_MAX = 1 << 18 }; // sizes in bytes; a larger set has its own block

struct closing_costs;

// A ring of the sets whose masks were computed most recently. A new mask reuses the memory of the oldest one.
enum { MASKS_KEPT = 1024 };

struct kept_masks {
    uint32_t *sets; // [MASKS_KEPT]; NULL: no mask computed yet
    size_t n;       // masks computed so far
};

struct recognizer_cache {
    uint64_t generation; // increased when the cache is emptied
    size_t n_bytes;      // bytes of rows and masks
    struct kept_masks masks;
    struct string_masks strings;
};

struct recognizer {
    const struct grammar *grammar;
    const struct grammar_vocabulary *vocabulary;
    struct expressions *pool; // a copy of the grammar's pool, because it grows
    struct byte_automaton bytes;
    BLOCKS(struct item_set) sets; // indexed by id; the first is SET_DEAD
    struct set_blocks blocks;
    struct hash_index index; // finds sets; SET_DEAD is never searched
    struct set_builder builder;
    struct walk_level *walk; // indexed by depth in the trie
    uint32_t start;
    struct recognizer_visit visit;
    struct recognizer_cache cache;
    struct closing_costs *closing; // NULL: no closing cost requested yet
};

enum {
    RECOGNIZER_BYTES_MAX = 128 << 20, // above this the recognizer restarts before the next call
    // Steps that process fewer items are not counted: the number of nodes of the trie limits them.
    STEP_WORK_COUNTED = 64,
    MASK_WORK_OF_SET = 4,          // added to a mask's work for each counted set
    MASK_WORK_COUNTED = 20000,     // a mask with less work does not count against its answer
    STEP_DERIVATION_LARGE = 20000, // a single step that derives less is not counted
};

// Begins a visit with zero work. Its limit is GRAMMAR_LIMIT_FIRST_WORK if `set` is the start, else
// GRAMMAR_LIMIT_MASK_WORK.
void recognizer_begin_visit(struct recognizer *recognizer, uint32_t set);
// Counts the derivatives of the set's terminals, once per visit. Call it before the first step from the set.
// False: the pool has failed.
bool recognizer_count_derivatives(struct recognizer *recognizer, uint32_t set);
// The same, but calls `count` with the byte automaton state of each terminal.
bool recognizer_count_steps(struct recognizer *recognizer, uint32_t set,
                            bool (*count)(struct recognizer *recognizer, uint32_t state));
// The same for a single step: counts a derivative only if it is large, not computed yet, or followed by
// searches.
bool recognizer_count_large(struct recognizer *recognizer, uint32_t set);
// Counts the work since builder_begin(), for a set that was not built by recognizer_step().
void recognizer_count_built(struct recognizer *recognizer);
// Returns the set after the byte, from a row that counts work. SET_DEAD: no text continues so, or the work
// limit was reached.
uint32_t recognizer_counted_step(struct recognizer *recognizer, struct set_row *row, unsigned char byte);
// Computes the step if necessary. SET_DEAD: no text continues so, or the pool has failed.
uint32_t recognizer_first_step(struct recognizer *recognizer, uint32_t set, unsigned char byte);
// Returns the set after the byte. SET_DEAD: no text continues so, or the pool has failed.
static inline uint32_t recognizer_step(struct recognizer *recognizer, uint32_t set, unsigned char byte)
{
    struct set_row *row = BLOCK_ITEM(&recognizer->sets, set).row;
    uint32_t target = row ? row->sets[byte] : SET_UNKNOWN;
    if (target == SET_UNKNOWN)
        return recognizer_first_step(recognizer, set, byte);
    return row->work ? recognizer_counted_step(recognizer, row, byte) : target;
}
// Clears the error if it is a limit of one state or mask. Sets built before it stay valid for other texts.
void recognizer_forgive(struct recognizer *recognizer);
// Drops all sets and creates the start set. STATUS_RETRY: out of memory.
enum status recognizer_restart(struct recognizer *recognizer, struct error *error);
// Returns the mask of a set, owned by the recognizer. NULL: the pool has failed.
const uint32_t *recognizer_mask(struct recognizer *recognizer, uint32_t set);
