#include "engine/grammar/terminal_ends.h"

#include <assert.h>

enum { NOWHERE = UINT32_MAX, UNKNOWN_COST = UINT32_MAX };

struct terminal_end *terminal_ends_of(struct terminal_ends *ends, struct recognizer *recognizer,
                                      uint32_t state)
{
    while (ends->states.n <= state) {
        if (!BLOCKS_ADD(&ends->states, ((struct terminal_end){.next = BYTE_STATE_UNKNOWN}))) {
            expressions_fail_memory(recognizer->pool);
            return NULL;
        }
    }
    return &BLOCK_ITEM(&ends->states, state);
}

bool terminal_ends_count_step(struct recognizer *recognizer, uint32_t state)
{
    const struct byte_state *of = &BLOCK_ITEM(&recognizer->bytes.states, state);
    bool is_exact;
    if (of->place != PLACE_BETWEEN)
        return true;
    expression_least(expression_node(recognizer->pool, of->expression),
                     terminal_spelling((enum terminal_encoding)of->encoding), &is_exact);
    return is_exact ? expression_count_derivative(recognizer->pool, of->expression)
                    : expression_count(recognizer->pool, of->expression);
}

static bool count_state(struct recognizer *recognizer, uint32_t state, uint64_t work)
{
    return expressions_add_work(recognizer->pool, work) && terminal_ends_count_step(recognizer, state);
}

// ---- the expression knows the distance to its end ----

// Finds the first byte of the shortest rest from the state; the rest has `least` bytes. False: the pool has
// failed.
static bool find_next(struct terminal_ends *ends, struct recognizer *recognizer, uint32_t state,
                      uint32_t least)
{
    uint32_t next = BYTE_STATE_DEAD;
    unsigned byte = 0;
    for (bool is_exact; least > 0; byte++) {
        byte = byte_automaton_next(&recognizer->bytes, state, byte, &next);
        if (next == BYTE_STATE_DEAD || byte_automaton_least(&recognizer->bytes, next, &is_exact) == least - 1)
            break;
    }
    struct terminal_end *end = terminal_ends_of(ends, recognizer, state);
    if (!end || recognizer->pool->status != STATUS_OK)
        return false;
    assert(least == 0 || next != BYTE_STATE_DEAD);
    end->next = next;
    end->least = (uint16_t)least;
    end->byte = (unsigned char)byte;
    return true;
}

// Walks along the shortest bytes that complete the terminal from the state. Adds each state to the visit's
// work unless the visit has it already. False: the pool has failed.
static bool count_way(struct terminal_ends *ends, struct recognizer *recognizer, uint32_t state)
{
    while (state != BYTE_STATE_DEAD) {
        struct terminal_end *end = terminal_ends_of(ends, recognizer, state);
        bool is_exact;
        if (!end)
            return false;
        if (end->visit == recognizer->visit.id)
            return true;
        end->visit = recognizer->visit.id;
        if (!count_state(recognizer, state, 1))
            return false;
        if (end->next == BYTE_STATE_UNKNOWN &&
            !find_next(ends, recognizer, state, byte_automaton_least(&recognizer->bytes, state, &is_exact)))
            return false;
        state = BLOCK_ITEM(&ends->states, state).next;
    }
    return true;
}

static size_t write_way(const struct terminal_ends *ends, uint32_t state,
                        unsigned char bytes[CLOSING_BYTES_MAX])
{
    size_t n = 0;
    for (; BLOCK_ITEM(&ends->states, state).least > 0; state = BLOCK_ITEM(&ends->states, state).next)
        bytes[n++] = BLOCK_ITEM(&ends->states, state).byte;
    return n;
}

// ---- searches ----

// A breadth-first search over bytes in ascending order. Skips states through which no text of at most
// `bytes_max` bytes leads.
struct end_search {
    struct terminal_ends *ends;
    struct recognizer *recognizer;
    uint32_t at; // index of the state being expanded
    uint32_t bytes_max;
    uint32_t bytes_next; // minimum bytes of a text through a skipped state
};

static bool find_state(struct end_search *search, unsigned byte, uint32_t state)
{
    struct terminal_ends *ends = search->ends;
    struct expressions *pool = search->recognizer->pool;
    const bool is_first = search->at == NOWHERE;
    const uint32_t depth = is_first ? 0 : ends->found.items[search->at].depth + 1u;
    while (ends->searches.n <= state) {
        if (!BLOCKS_ADD(&ends->searches, 0)) {
            expressions_fail_memory(pool);
            return false;
        }
    }
    if (BLOCK_ITEM(&ends->searches, state) == ends->n_searches)
        return true;
    bool is_exact;
    uint32_t all = depth + byte_automaton_least(&search->recognizer->bytes, state, &is_exact);
    if (all > search->bytes_max) {
        search->bytes_next = all < search->bytes_next ? all : search->bytes_next;
        return true;
    }
    BLOCK_ITEM(&ends->searches, state) = ends->n_searches;
    if (!VECTOR_ADD(&ends->found,
                    ((struct found_state){state, search->at, (uint16_t)depth, (unsigned char)byte})))
        expressions_fail_memory(pool);
    return pool->status == STATUS_OK;
}

// Returns the index in `found` of the nearest accepting state. NOWHERE: none within `bytes_max`.
static uint32_t search_within(struct end_search *search, uint32_t state)
{
    struct terminal_ends *ends = search->ends;
    struct recognizer *recognizer = search->recognizer;
    search->at = NOWHERE;
    ends->n_searches++;
    ends->found.n = 0;
    find_state(search, 0, state);
    for (uint32_t at = 0; at < ends->found.n && at < CLOSING_STATES_MAX; at++) {
        uint32_t from = ends->found.items[at].state;
        if (byte_automaton_accepts(&recognizer->bytes, from))
            return at;
        search->at = at;
        if (!count_state(recognizer, from, STATE_WORK))
            return NOWHERE;
        uint32_t next;
        for (unsigned byte = 0; (byte = byte_automaton_next(&recognizer->bytes, from, byte, &next)) < 256;
             byte++)
            if (!find_state(search, byte, next))
                return NOWHERE;
        if (recognizer->pool->status != STATUS_OK)
            return NOWHERE;
    }
    return NOWHERE;
}

// Searches with iterative deepening: each search allows twice as many bytes beyond the lower bound as the
// previous one.
static uint32_t search_end(struct end_search *search, uint32_t state)
{
    bool is_exact;
    const uint32_t least = byte_automaton_least(&search->recognizer->bytes, state, &is_exact);
    search->bytes_max = least;
    while (search->bytes_max <= CLOSING_BYTES_MAX) {
        search->bytes_next = UINT32_MAX;
        uint32_t end = search_within(search, state);
        if (end != NOWHERE || search->bytes_next == UINT32_MAX ||
            search->ends->found.n >= CLOSING_STATES_MAX || search->recognizer->pool->status != STATUS_OK)
            return end;
        uint32_t twice = 2 * search->bytes_max - least;
        search->bytes_max = search->bytes_next > twice ? search->bytes_next : twice;
    }
    return NOWHERE;
}

// Writes the shortest rest and returns its size; 0: it is too long.
static size_t write_searched(struct terminal_ends *ends, struct recognizer *recognizer, uint32_t state,
                             unsigned char bytes[CLOSING_BYTES_MAX])
{
    struct end_search search = {.ends = ends, .recognizer = recognizer};
    struct expressions_visit outer = expressions_begin_apart(recognizer->pool);
    uint32_t at = search_end(&search, state);
    uint64_t work = expressions_end_apart(recognizer->pool, outer);
    struct terminal_end *end = terminal_ends_of(ends, recognizer, state);
    if (!end || recognizer->pool->status != STATUS_OK)
        return 0;
    end->search_work = work;
    const size_t n = at == NOWHERE ? 0 : ends->found.items[at].depth;
    for (size_t place = n; place > 0; at = ends->found.items[at].before)
        bytes[--place] = ends->found.items[at].byte;
    return n;
}

// ---- tokens ----

// Returns the size of the longest token that is a prefix of `bytes`; 0: none.
static size_t longest_token(const struct trie *trie, const unsigned char *bytes, size_t n)
{
    size_t longest = 0, depth = 0;
    for (uint32_t at = 0, stop = (uint32_t)trie->n_nodes; at < stop && depth < n;) {
        const struct trie_node *node = &trie->nodes[at];
        if (node->byte != bytes[depth]) {
            at = node->stop;
            continue;
        }
        depth++;
        if (node->token != NO_TOKEN)
            longest = depth;
        stop = node->stop;
        at++;
    }
    return longest;
}

// Counts the states of the shortest rest, or the search for it, once per visit. False: the pool has failed.
static bool count_end(struct terminal_ends *ends, struct recognizer *recognizer, uint32_t state,
                      bool is_exact)
{
    struct terminal_end *end = terminal_ends_of(ends, recognizer, state);
    if (!end)
        return false;
    if (is_exact)
        return count_way(ends, recognizer, state);
    if (end->visit == recognizer->visit.id)
        return true;
    end->visit = recognizer->visit.id;
    return expressions_add_work(recognizer->pool, end->search_work);
}

static bool find_step(struct terminal_ends *ends, struct recognizer *recognizer, uint32_t state)
{
    unsigned char bytes[CLOSING_BYTES_MAX];
    size_t n = 0;
    bool is_exact;
    const uint32_t least = byte_automaton_least(&recognizer->bytes, state, &is_exact);
    if (is_exact && least <= CLOSING_BYTES_MAX) {
        if (!count_way(ends, recognizer, state))
            return false;
        n = write_way(ends, state, bytes);
    } else if (!is_exact) {
        n = write_searched(ends, recognizer, state, bytes);
    }
    const size_t size = n ? longest_token(&recognizer->vocabulary->all, bytes, n) : 0;
    const struct text token = {(const char *)bytes, size};
    const uint32_t step = size ? byte_automaton_walk(&recognizer->bytes, state, token) : BYTE_STATE_DEAD;
    struct terminal_end *end = terminal_ends_of(ends, recognizer, state);
    if (!end || recognizer->pool->status != STATUS_OK)
        return false;
    end->step = step;
    end->has_step = true;
    return true;
}

// Finds the first token from the state and counts the work. False: the pool has failed.
static bool look_at(struct terminal_ends *ends, struct recognizer *recognizer, uint32_t state)
{
    bool is_exact;
    const bool is_far =
        byte_automaton_least(&recognizer->bytes, state, &is_exact) > CLOSING_BYTES_MAX && is_exact;
    const struct terminal_end *end = &BLOCK_ITEM(&ends->states, state);
    return (end->has_step || find_step(ends, recognizer, state)) &&
           (is_far || count_end(ends, recognizer, state, is_exact));
}

// Returns the cost of a state that accepts, is final, or was counted in this visit; else UNKNOWN_COST.
static uint32_t known_cost(struct terminal_ends *ends, struct recognizer *recognizer, uint32_t state)
{
    const struct terminal_end *end = terminal_ends_of(ends, recognizer, state);
    if (!end || byte_automaton_accepts(&recognizer->bytes, state))
        return 0;
    if (end->is_final)
        return end->cost;
    return end->has_cost && end->visit == recognizer->visit.id ? end->cost : UNKNOWN_COST;
}

uint32_t terminal_ends_cost(struct terminal_ends *ends, struct recognizer *recognizer, uint32_t state)
{
    uint32_t cost = CLOSING_NEVER;
    for (ends->path.n = 0; state != BYTE_STATE_DEAD; state = BLOCK_ITEM(&ends->states, state).step) {
        cost = known_cost(ends, recognizer, state);
        if (cost != UNKNOWN_COST)
            break;
        cost = CLOSING_NEVER;
        if (!look_at(ends, recognizer, state))
            return CLOSING_NEVER;
        if (!VECTOR_ADD(&ends->path, state)) {
            expressions_fail_memory(recognizer->pool);
            return CLOSING_NEVER;
        }
    }
    if (recognizer->pool->status != STATUS_OK)
        return CLOSING_NEVER;
    for (size_t i = ends->path.n; i-- > 0;) {
        struct terminal_end *end = &BLOCK_ITEM(&ends->states, ends->path.items[i]);
        cost = cost >= CLOSING_NEVER ? CLOSING_NEVER : cost + 1;
        end->cost = cost;
        end->has_cost = true;
    }
    return cost;
}

void terminal_ends_forget(struct terminal_ends *ends)
{
    BLOCKS_FINISH(&ends->states);
    VECTOR_FINISH(&ends->found);
    BLOCKS_FINISH(&ends->searches);
    VECTOR_FINISH(&ends->path);
}
