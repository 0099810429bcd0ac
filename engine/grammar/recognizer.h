// The parser as an automaton: an Earley parser (J. Earley, 1970) over bytes whose sets are hash-consed, so
// that a set is a state and a step from it is computed once. An item's origin is a set, not a position: all
// that completion asks of it are the items that wait there. Two things keep the sets few: repetitions are
// items with a count that stops at the minimum, and the last symbol of a rule waits for what the whole rule's
// end leads to (J. Leo, 1991), so that recursion on the right and lists come back to the same state. Internal
// to engine/grammar/.
#pragma once

#include "engine/grammar/byte_automaton.h"
#include "engine/grammar/grammar_parts.h"
#include "engine/grammar/string_masks.h"

enum item_kind {
    ITEM_NODE,     // a: symbol of a rule, b: children that are behind it
    ITEM_TAIL,     // a: the symbol awaited, b: the symbol that ends with it
    ITEM_SCAN,     // a: state of the byte automaton, b: the terminal's symbol
    ITEM_END,      // the text may end
    ITEM_COMPLETE, // a: a symbol that ends here; only while a set is built
};

enum {
    ORIGIN_SELF = UINT32_MAX,     // the set that the item is in
    ORIGIN_ROOT = UINT32_MAX - 1, // before the text
    SYMBOL_ROOT = UINT32_MAX,     // the start symbol and nothing behind it
    SET_DEAD = 0,                 // no text begins like this
    SET_UNKNOWN = UINT32_MAX,
    SET_STATE_UNKNOWN = 0,
    SET_STATE_NONE = UINT16_MAX,
};

struct item {
    uint32_t kind, a, b, origin;
};

struct waiter {
    uint32_t symbol;
    struct item item;
};

// Items looked at while a set's steps were computed, by byte; 0 for a step that takes less than
// STEP_WORK_COUNTED.
struct step_work {
    uint32_t items[256];
    uint64_t visit;          // that counted last
    struct byte_set counted; // bytes that this visit has counted
};

// The sets that bytes lead to.
struct set_row {
    uint32_t sets[256];
    struct byte_set starts; // bytes that may lead elsewhere than the byte before them
    struct step_work *work; // NULL: no step from here is counted
};

struct item_set {
    uint32_t hash; // of the items
    uint32_t n_items, n_scans, n_waiters;
    const struct item *items;     // ascending; all that is not predicted
    const struct item *scans;     // of all items
    const struct waiter *waiters; // ascending by symbol
    bool may_end;
    uint16_t
        string_state;    // of string_tokens.states where the text is in such a string alone; see SET_STATE_*
    uint16_t forced;     // what must follow: forced.h; 0: not asked for yet
    uint64_t visit;      // of the last mask that reached it
    uint64_t left;       // the last visit that counted the derivatives of steps from it
    struct set_row *row; // NULL: not asked for yet
    uint32_t *mask;      // NULL: not asked for yet
    uint64_t mask_work;  // of the mask
};

struct set_builder {
    VECTOR(struct item)
    items; // each once, in the order of their discovery; those behind `at` are to be looked at
    size_t at;
    uint32_t *table; // places in items + 1
    size_t table_size;
    VECTOR(struct waiter) waiters;
    VECTOR(struct item) kernel;
};

// Where a walk of the trie is before a byte.
struct walk_level {
    uint32_t set;
    uint32_t string;           // inside a string: a state of the byte automaton
    const struct set_row *row; // of the set; NULL: not asked for yet
};

// One look around a state: a mask, what is forced. Its work, pool->visit.work, is the sum over the distinct
// steps that it takes and the derivatives that these need, known ones too, so that it is a function of grammar
// and text.
struct recognizer_visit {
    uint64_t id;
    uint64_t step_work; // of the step that is computed now
};

// The sets' items and waiters, which are most of a recognizer's memory: in blocks, because moving them took
// milliseconds.
struct set_blocks {
    VECTOR(char *) blocks;
    size_t n_used, n_room; // bytes of the last block
    size_t n_bytes;        // of all sets
};

enum { SET_BLOCK_FIRST = 1 << 10, SET_BLOCK_MAX = 1 << 18 }; // a set with more has a block of its own

struct closing_costs;

// Open addressing over the sets: 1 + id, 0 is free.
struct set_table {
    uint32_t *slots;
    size_t size;
};

// Masks are kept for the sets that were asked for last; the oldest one's memory is the next one's.
enum { MASKS_KEPT = 1024 };

struct kept_masks {
    uint32_t *sets; // MASKS_KEPT of them, as a ring; NULL: no mask yet
    size_t n;       // masks made so far
};

struct recognizer_cache {
    uint64_t generation; // raised when the cache is emptied
    size_t n_bytes;      // of rows, masks
    struct kept_masks masks;
    struct string_masks strings;
};

struct recognizer {
    const struct grammar *grammar;
    const struct grammar_vocabulary *vocabulary;
    struct expressions *pool; // a copy of the grammar's, which grows
    struct byte_automaton bytes;
    BLOCKS(struct item_set) sets; // by id; the first is SET_DEAD
    struct set_blocks blocks;
    struct set_table table;
    struct set_builder builder;
    struct walk_level *walk; // by depth in the trie
    uint32_t start;
    struct recognizer_visit visit;
    struct recognizer_cache cache;
    struct closing_costs *closing; // NULL: nobody asked for it
};

enum {
    RECOGNIZER_BYTES_MAX = 128 << 20, // beyond, it starts over between two calls
    // A step that looks at fewer items is not counted: a mask takes no more steps than the trie has nodes.
    STEP_WORK_COUNTED = 64,
    MASK_WORK_OF_SET = 4,          // of a mask, for each set counted against GRAMMAR_LIMIT_MASK_SETS
    MASK_WORK_COUNTED = 20000,     // a mask that takes less is not counted as work of its answer
    STEP_DERIVATION_LARGE = 20000, // a single step that derives less is not counted
};

// Sets the count of work to zero, before one look from a set. GRAMMAR_LIMIT_FIRST_WORK bounds it where that is the
// start, GRAMMAR_LIMIT_MASK_WORK elsewhere.
void recognizer_begin_visit(struct recognizer *recognizer, uint32_t set);
// Counts the derivatives of the terminals that the set is in, once a visit, before steps from it are taken.
// False: the pool has failed.
bool recognizer_count_derivatives(struct recognizer *recognizer, uint32_t set);
// The same with another count of one terminal's state.
bool recognizer_count_steps(struct recognizer *recognizer, uint32_t set,
                            bool (*count)(struct recognizer *recognizer, uint32_t state));
// The same, of sets that may take much, for a single step.
bool recognizer_count_large(struct recognizer *recognizer, uint32_t set);
// Counts the work of the step that builder_begin began, for steps that are not kept.
void recognizer_count_built(struct recognizer *recognizer);
uint32_t recognizer_counted_step(struct recognizer *recognizer, struct set_row *row, unsigned char byte);
uint32_t recognizer_first_step(struct recognizer *recognizer, uint32_t set, unsigned char byte);
// SET_DEAD also when the pool has failed.
static inline uint32_t recognizer_step(struct recognizer *recognizer, uint32_t set, unsigned char byte)
{
    struct set_row *row = BLOCK_ITEM(&recognizer->sets, set).row;
    uint32_t target = row ? row->sets[byte] : SET_UNKNOWN;
    if (target == SET_UNKNOWN)
        return recognizer_first_step(recognizer, set, byte);
    return row->work ? recognizer_counted_step(recognizer, row, byte) : target;
}
// After a limit of one state or mask, what was built before it is whole: other texts go on with it.
void recognizer_forgive(struct recognizer *recognizer);
// Forgets all sets. STATUS_RETRY: no memory.
enum status recognizer_restart(struct recognizer *recognizer, struct error *error);
// The mask of a set, which is the recognizer's; NULL when the pool has failed.
const uint32_t *recognizer_mask(struct recognizer *recognizer, uint32_t set);
