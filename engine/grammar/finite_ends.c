// Computes minimum token counts of terminals that match few texts. Visits the states depth first, and
// computes the count of each from its successors, over all tokens of the vocabulary.
#include "engine/grammar/terminal_ends.h"

enum {
    FINITE_STATES_MAX = 4000,
    FINITE_WORK_MAX = 100000,  // work on one terminal
    FINITE_WORK_ALL = 3000000, // work in the visit; above it no further terminal is enumerated
    NODES_LOOKED_AT = 8,       // nodes of the trie visited in the time of one step
};

// A state on the path, and the next byte to follow from it.
struct open_state {
    uint32_t state;
    unsigned byte;
};

struct enumeration {
    struct terminal_ends *ends;
    struct recognizer *recognizer;
    VECTOR(struct open_state) way; // the path
    VECTOR(uint32_t) states;       // in postorder
    uint32_t *levels;              // [depth_max + 2] states, indexed by depth in the trie
    uint64_t work_max;
};

static bool open_state(struct enumeration *enumeration, uint32_t state)
{
    struct recognizer *recognizer = enumeration->recognizer;
    struct terminal_end *end = terminal_ends_of(enumeration->ends, recognizer, state);
    if (!end || !expressions_add_work(recognizer->pool, STATE_WORK) ||
        !terminal_ends_count_step(recognizer, state))
        return false;
    if (!VECTOR_ADD(&enumeration->way, ((struct open_state){state, 0}))) {
        expressions_fail_memory(recognizer->pool);
        return false;
    }
    terminal_ends_of(enumeration->ends, recognizer, state)->is_open = true;
    return enumeration->way.n + enumeration->states.n <= FINITE_STATES_MAX &&
           recognizer->pool->visit.work <= enumeration->work_max;
}

// Returns the minimum number of tokens from a state whose successors' costs are known.
static uint32_t fewest_tokens(struct enumeration *enumeration, uint32_t start)
{
    struct recognizer *recognizer = enumeration->recognizer;
    const struct trie *trie = &recognizer->vocabulary->all;
    uint32_t fewest = CLOSING_NEVER, *levels = enumeration->levels;
    uint64_t n_nodes = 0;
    if (byte_automaton_accepts(&recognizer->bytes, start))
        return 0;
    levels[0] = start;
    for (uint32_t at = 0; at < trie->n_nodes; n_nodes++) {
        const struct trie_node *node = &trie->nodes[at];
        const uint32_t state = byte_automaton_step(&recognizer->bytes, levels[node->depth], node->byte);
        at = state == BYTE_STATE_DEAD ? node->stop : at + 1;
        levels[node->depth + 1] = state;
        if (state == BYTE_STATE_DEAD || node->token == NO_TOKEN)
            continue;
        const struct terminal_end *end = terminal_ends_of(enumeration->ends, recognizer, state);
        if (end && end->cost + 1 < fewest)
            fewest = end->cost + 1;
    }
    expressions_add_work(recognizer->pool, n_nodes / NODES_LOOKED_AT);
    return fewest;
}

// Computes the cost of a state when all its successors are done.
static bool close_state(struct enumeration *enumeration, uint32_t state)
{
    const uint32_t fewest = fewest_tokens(enumeration, state);
    struct terminal_end *end = terminal_ends_of(enumeration->ends, enumeration->recognizer, state);
    if (!end || enumeration->recognizer->pool->status != STATUS_OK)
        return false;
    end->cost = fewest;
    end->is_final = true;
    enumeration->way.n--;
    if (VECTOR_ADD(&enumeration->states, state))
        return true;
    end->is_final = false;
    expressions_fail_memory(enumeration->recognizer->pool);
    return false;
}

// Enumerates the states from `start`. False: they are too many or form a cycle, or the pool has failed.
static bool enumerate(struct enumeration *enumeration, uint32_t start)
{
    bool is_finite = open_state(enumeration, start);
    while (is_finite && enumeration->way.n) {
        struct open_state *at = &enumeration->way.items[enumeration->way.n - 1];
        uint32_t next;
        at->byte = 1 + byte_automaton_next(&enumeration->recognizer->bytes, at->state, at->byte, &next);
        if (next == BYTE_STATE_DEAD) {
            is_finite = close_state(enumeration, at->state);
            continue;
        }
        const struct terminal_end *end = terminal_ends_of(enumeration->ends, enumeration->recognizer, next);
        if (!end || (end->is_open && !end->is_final))
            is_finite = false;
        else if (!end->is_final)
            is_finite = open_state(enumeration, next);
    }
    return is_finite && enumeration->recognizer->pool->status == STATUS_OK;
}

// Discards the results of a terminal that was not enumerated completely. Otherwise costs would depend on
// which terminals were computed before.
static void forget(struct enumeration *enumeration, bool is_finite)
{
    for (size_t i = 0; i < enumeration->way.n; i++)
        BLOCK_ITEM(&enumeration->ends->states, enumeration->way.items[i].state).is_open = false;
    for (size_t i = 0; i < enumeration->states.n; i++) {
        struct terminal_end *end = &BLOCK_ITEM(&enumeration->ends->states, enumeration->states.items[i]);
        end->is_open = false;
        end->is_final = is_finite;
    }
}

bool terminal_ends_enumerate(struct terminal_ends *ends, struct recognizer *recognizer, uint32_t start)
{
    const uint64_t depth = recognizer->vocabulary->depth_max;
    struct enumeration enumeration = {.ends = ends,
                                      .recognizer = recognizer,
                                      .levels = malloc((depth + 2) * sizeof *enumeration.levels),
                                      .work_max = recognizer->pool->visit.work + FINITE_WORK_MAX};
    const struct terminal_end *known = terminal_ends_of(ends, recognizer, start);
    bool is_finite = known && known->is_final;
    if (!enumeration.levels)
        expressions_fail_memory(recognizer->pool);
    else if (!is_finite && recognizer->pool->visit.work < FINITE_WORK_ALL) {
        is_finite = enumerate(&enumeration, start);
        forget(&enumeration, is_finite);
    }
    VECTOR_FINISH(&enumeration.way);
    VECTOR_FINISH(&enumeration.states);
    free(enumeration.levels);
    return is_finite;
}
