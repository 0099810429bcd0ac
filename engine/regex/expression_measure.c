// Computes the exact minimum bytes of intersections and complements, for an expression and all its successors
// at once, by a shortest path search backwards from the expressions that match "".
#include "engine/regex/expression_parts.h"

#include <string.h>

enum {
    MEASURED_MAX = 20000,       // expressions that follow the measured one
    MEASURE_WORK_MAX = 6000000, // work of deriving them
    MEASURED_BYTES_MAX = 2048,  // longer texts count as matching nothing
    EDGE_BYTES_MAX = 6,         // bytes of one code point
    NOWHERE = UINT32_MAX,
};

// A derivative step between two found expressions.
struct edge {
    uint32_t from; // index of the source
    uint32_t next; // next edge with the same target; NOWHERE: none
    unsigned n_bytes;
};

struct found_expression {
    uint32_t id;
    uint32_t edges; // the last edge to it; NOWHERE: none
    uint32_t least;
};

// An entry of the list of expressions at one distance. It is outdated if the expression was since reached
// with fewer bytes.
struct reached {
    uint32_t place, next;
};

struct measuring {
    struct expressions *pool;
    enum spelling spelling;
    VECTOR(struct found_expression) found; // in order of discovery
    VECTOR(struct edge) edges;
    VECTOR(uint32_t) places; // for each id its index in `found` + 1; 0: not found
    VECTOR(struct reached) reached;
    uint32_t by_bytes[MEASURED_BYTES_MAX + EDGE_BYTES_MAX + 1]; // heads of the lists in `reached`, by
                                                                // distance
};

// Returns the index of the expression, which is added if it is new. NOWHERE: out of memory.
static uint32_t find_place(struct measuring *measuring, uint32_t id)
{
    if (!VECTOR_RESERVE(&measuring->places, (size_t)id + 1))
        return NOWHERE;
    if (measuring->places.n <= id) {
        memset(measuring->places.items + measuring->places.n, 0,
               (measuring->places.capacity - measuring->places.n) * sizeof(uint32_t));
        measuring->places.n = measuring->places.capacity;
    }
    if (measuring->places.items[id] == 0) {
        if (!VECTOR_ADD(&measuring->found, ((struct found_expression){id, NOWHERE, NOWHERE})))
            return NOWHERE;
        measuring->places.items[id] = (uint32_t)measuring->found.n;
    }
    return measuring->places.items[id] - 1;
}

static bool add_edges(struct measuring *measuring, uint32_t from)
{
    struct expressions *pool = measuring->pool;
    const uint32_t id = measuring->found.items[from].id;
    if (!expressions_add_work(pool, STATE_WORK) || !expression_count_derivative(pool, id))
        return false;
    const struct expression_node node = *expression_node(pool, id);
    for (uint32_t i = 0; i < node.n_derivative; i++) {
        const struct expression_piece *piece = &pool->pieces.items[node.derivative + i];
        const uint32_t last = i + 1 < node.n_derivative ? piece[1].first - 1 : CODE_POINT_MAX;
        if (piece->target == EXPRESSION_NOTHING)
            continue;
        const unsigned n_bytes = spelled_bytes(measuring->spelling, piece->first, last);
        const uint32_t to = find_place(measuring, piece->target);
        if (to == NOWHERE || !VECTOR_ADD(&measuring->edges,
                                         ((struct edge){from, measuring->found.items[to].edges, n_bytes}))) {
            expressions_fail_memory(pool);
            return false;
        }
        measuring->found.items[to].edges = (uint32_t)measuring->edges.n - 1;
    }
    return true;
}

static bool reach(struct measuring *measuring, uint32_t place, uint32_t n_bytes)
{
    if (n_bytes > MEASURED_BYTES_MAX || n_bytes >= measuring->found.items[place].least)
        return true;
    measuring->found.items[place].least = n_bytes;
    if (!VECTOR_ADD(&measuring->reached, ((struct reached){place, measuring->by_bytes[n_bytes]}))) {
        expressions_fail_memory(measuring->pool);
        return false;
    }
    measuring->by_bytes[n_bytes] = (uint32_t)measuring->reached.n - 1;
    return true;
}

// Derives all successors, and marks those whose minimum bytes are known as reached. False: too many, or the
// pool has failed.
static bool find_all(struct measuring *measuring)
{
    struct expressions *pool = measuring->pool;
    const uint64_t work_max = pool->visit.work + MEASURE_WORK_MAX;
    for (uint32_t at = 0; at < measuring->found.n; at++) {
        const struct expression_node *node = expression_node(pool, measuring->found.items[at].id);
        bool is_exact;
        const uint32_t least = expression_least(node, measuring->spelling, &is_exact);
        if (is_exact || node->nullable) {
            if (!reach(measuring, at, least))
                return false;
        }
        if (!is_exact && !add_edges(measuring, at))
            return false;
        if (measuring->found.n > MEASURED_MAX || pool->visit.work > work_max)
            return false;
    }
    return true;
}

// Processes expressions in ascending order of distance; skips outdated entries.
static bool go_back(struct measuring *measuring)
{
    for (uint32_t n_bytes = 0; n_bytes <= MEASURED_BYTES_MAX; n_bytes++) {
        while (measuring->by_bytes[n_bytes] != NOWHERE) {
            const struct reached reached = measuring->reached.items[measuring->by_bytes[n_bytes]];
            measuring->by_bytes[n_bytes] = reached.next;
            const struct found_expression found = measuring->found.items[reached.place];
            if (found.least != n_bytes)
                continue;
            for (uint32_t at = found.edges; at != NOWHERE; at = measuring->edges.items[at].next)
                if (!reach(measuring, measuring->edges.items[at].from,
                           n_bytes + measuring->edges.items[at].n_bytes))
                    return false;
        }
    }
    return true;
}

static void keep_measures(const struct measuring *measuring)
{
    for (size_t i = 0; i < measuring->found.n; i++) {
        const struct found_expression *found = &measuring->found.items[i];
        struct expression_node *node = &measuring->pool->nodes.items[found->id];
        if (!node->is_bound)
            continue;
        node->measured[measuring->spelling] =
            found->least > MEASURED_BYTES_MAX ? UINT16_MAX : (uint16_t)found->least;
        node->is_measured[measuring->spelling] = true;
    }
}

void expression_measure(struct expressions *pool, uint32_t id, enum spelling spelling)
{
    const struct expression_node *node = expression_node(pool, id);
    if (!node->is_bound || node->is_measured[spelling])
        return;
    struct measuring *measuring = calloc(1, sizeof *measuring);
    if (!measuring) {
        expressions_fail_memory(pool);
        return;
    }
    measuring->pool = pool;
    measuring->spelling = spelling;
    memset(measuring->by_bytes, 0xFF, sizeof measuring->by_bytes);
    if (find_place(measuring, id) == NOWHERE)
        expressions_fail_memory(pool);
    else if (find_all(measuring) && go_back(measuring))
        keep_measures(measuring);
    VECTOR_FINISH(&measuring->found);
    VECTOR_FINISH(&measuring->edges);
    VECTOR_FINISH(&measuring->places);
    VECTOR_FINISH(&measuring->reached);
    free(measuring);
}
