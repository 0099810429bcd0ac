// Which step is captured as a graph, which replays one, and which graph is given up (gpu/graphs.h).
#include "gpu/graphs.h"
#include "tests/support/cases.h"

// Graphs are numbers here; device.c is not linked.
static int64_t destroyed[2 * GRAPHS_MAX];
static int n_destroyed, n_phases_finished;

void device_graph_destroy(struct device *device, struct device_graph *graph)
{
    if (graph)
        destroyed[n_destroyed++] = (int64_t)(intptr_t)graph;
}

void phases_finish(struct phases *phases, struct device *device)
{
    n_phases_finished += phases->n;
}

static struct device_graph *graph_numbered(int64_t number)
{
    return (struct device_graph *)(intptr_t)number;
}

static int start(void **state)
{
    *state = calloc(1, sizeof(struct graphs));
    n_destroyed = n_phases_finished = 0;
    return *state ? 0 : -1;
}

static int finish(void **state)
{
    free(*state);
    return 0;
}

TEST(counts_of_rows_are_padded_by_less_than_a_quarter_beyond_eight)
{
    static const int32_t rows[][2] = {{1, 1},   {2, 2},      {3, 4},      {4, 4},   {5, 8},   {8, 8},
                                      {9, 10},  {10, 10},    {15, 16},    {16, 16}, {17, 20}, {20, 20},
                                      {21, 24}, {32, 32},    {33, 40},    {64, 64}, {65, 80}, {80, 80},
                                      {81, 96}, {897, 1024}, {1024, 1024}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_int_equal(graph_rows(rows[i][0]), rows[i][1]);
    for (int32_t n = 9; n <= GRAPH_ROWS_MAX; n++) {
        assert_in_range(graph_rows(n), n, n + n / 4);
        assert_int_equal(graph_rows(graph_rows(n)), graph_rows(n));
    }
}

TEST(positions_and_shared_tiles_are_padded_to_powers)
{
    static const int32_t positions[][2] = {{0, 256},
                                           {1, 256},
                                           {256, 256},
                                           {257, 512},
                                           {512, 512},
                                           {513, 1024},
                                           {(1 << 30) - 1, 1 << 30},
                                           {1 << 30, 1 << 30},
                                           {INT32_MAX, 1 << 30}};
    for (size_t i = 0; i < sizeof positions / sizeof *positions; i++)
        assert_int_equal(graph_positions(positions[i][0]), positions[i][1]);
    static const int32_t tiles[][2] = {{0, 0},
                                       {1, 8},
                                       {8, 8},
                                       {9, 32},
                                       {32, 32},
                                       {33, 128},
                                       {128, 128},
                                       {129, 512},
                                       {1 << 29, 1 << 29},
                                       {INT32_MAX, 1 << 29}};
    for (size_t i = 0; i < sizeof tiles / sizeof *tiles; i++)
        assert_int_equal(graph_shared_tiles(tiles[i][0]), tiles[i][1]);
}

static struct graph_kind of_rows(int32_t n_rows)
{
    return (struct graph_kind){GRAPH_WHOLE, n_rows, 256, 0, 0};
}

static struct graph_entry *choose(struct graphs *graphs, struct graph_kind kind, enum step_way expected)
{
    enum step_way way;
    struct graph_entry *entry = graphs_choose(graphs, NULL, &kind, &way);
    assert_int_equal(way, expected);
    assert_memory_equal(&entry->kind, &kind, sizeof kind);
    return entry;
}

TEST(a_kind_runs_eagerly_then_is_captured_then_replayed)
{
    struct graphs *graphs = *state;
    const struct graph_kind kinds[] = {{GRAPH_WHOLE, 8, 256, 0, 0},    {GRAPH_FORWARD, 8, 256, 0, 0},
                                       {GRAPH_SAMPLING, 8, 256, 0, 0}, {GRAPH_WHOLE, 4, 256, 0, 0},
                                       {GRAPH_WHOLE, 8, 512, 0, 0},    {GRAPH_WHOLE, 8, 256, 8, 0},
                                       {GRAPH_WHOLE, 8, 256, 0, 1}};
    enum { N = sizeof kinds / sizeof *kinds };
    struct graph_entry *entries[N];
    for (int i = 0; i < N; i++) // each differs in its part or one count
        entries[i] = choose(graphs, kinds[i], STEP_EAGER);
    assert_int_equal(graphs->n_entries, N);
    for (int i = 0; i < N; i++) {
        assert_ptr_equal(choose(graphs, kinds[i], STEP_CAPTURES), entries[i]);
        entries[i]->graph = graph_numbered(i + 1);
        entries[i]->phases.n = 3;
    }
    for (int i = 0; i < N; i++)
        assert_ptr_equal(choose(graphs, kinds[i], STEP_REPLAYS), entries[i]);
    assert_int_equal(graphs->n_uses, 3 * N);
    graphs_clear(graphs, NULL);
    assert_int_equal(graphs->n_entries, 0);
    assert_int_equal(n_destroyed, N);
    assert_int_equal(n_phases_finished, 3 * N);
    for (int i = 0; i < N; i++)
        assert_int_equal(destroyed[i], i + 1);
    choose(graphs, kinds[0], STEP_EAGER);
}

TEST(a_kind_without_a_graph_stays_eager)
{
    struct graphs *graphs = *state;
    const struct graph_kind kind = of_rows(8);
    choose(graphs, kind, STEP_EAGER)->refused = true;
    for (int i = 0; i < 3; i++)
        choose(graphs, kind, STEP_EAGER);
}

// Kinds 1, 2, ... of which each was used once, in this order; those of [first, end) have graphs.
static void fill(struct graphs *graphs, int first, int end)
{
    for (int i = 1; i <= GRAPHS_MAX; i++) {
        struct graph_entry *entry = choose(graphs, of_rows(i), STEP_EAGER);
        entry->graph = i >= first && i < end ? graph_numbered(i) : NULL;
    }
    assert_int_equal(graphs->n_entries, GRAPHS_MAX);
}

TEST(the_kind_unused_for_longest_is_given_up)
{
    struct graphs *graphs = *state;
    fill(graphs, 1, GRAPHS_MAX + 1);
    choose(graphs, of_rows(1), STEP_REPLAYS); // now 2 is the oldest
    choose(graphs, of_rows(1000), STEP_EAGER);
    assert_int_equal(n_destroyed, 1);
    assert_int_equal(destroyed[0], 2);
    assert_int_equal(graphs->n_evicted, 1);
    choose(graphs, of_rows(1000), STEP_CAPTURES);
    choose(graphs, of_rows(1), STEP_REPLAYS);
    choose(graphs, of_rows(2), STEP_EAGER)->graph = graph_numbered(2); // 1000 has none, but is new
    assert_int_equal(n_destroyed, 2);
    assert_int_equal(destroyed[1], 3);
    assert_int_equal(graphs->n_evicted, 2);
    assert_int_equal(graphs->n_entries, GRAPHS_MAX);
}

TEST(as_many_graphs_as_there_is_room_for_are_cleared)
{
    struct graphs *graphs = *state;
    fill(graphs, 1, GRAPHS_MAX + 1);
    graphs_clear(graphs, NULL);
    assert_int_equal(n_destroyed, GRAPHS_MAX);
    assert_int_equal(graphs->n_entries, 0);
    assert_int_equal(graphs->n_uses, GRAPHS_MAX); // goes on
}

TEST(a_kind_without_a_graph_is_given_up_before_those_with_one)
{
    struct graphs *graphs = *state;
    fill(graphs, 1, GRAPHS_MAX - 10); // those without are the newest
    for (int i = 0; i < 8; i++) {
        choose(graphs, of_rows(1000 + i), STEP_EAGER)->graph = graph_numbered(1000 + i);
        assert_int_equal(n_destroyed, 0);
        assert_int_equal(graphs->n_evicted, 0);
    }
    for (int i = GRAPHS_MAX - 10; i < GRAPHS_MAX - 2; i++) // these went, the oldest first
        for (int j = 0; j < GRAPHS_MAX; j++)
            assert_int_not_equal(graphs->entries[j].kind.n_rows, i);
}

// Two steps may be under way, the one that computes and the one behind it, each in two parts.
TEST(entries_of_the_last_two_steps_stay)
{
    struct graphs *graphs = *state;
    fill(graphs, 1, GRAPHS_MAX - 3); // the last four alone have no graph
    choose(graphs, of_rows(1000), STEP_EAGER)->graph = graph_numbered(1000);
    assert_int_equal(n_destroyed, 1);
    assert_int_equal(destroyed[0], 1);
    choose(graphs, of_rows(1001), STEP_EAGER)->graph = graph_numbered(1001);
    assert_int_equal(n_destroyed, 1); // the first of the four was free to go by then
    assert_int_equal(graphs->entries[GRAPHS_MAX - 4].kind.n_rows, 1001);
    assert_int_equal(graphs->entries[GRAPHS_MAX - 3].kind.n_rows, GRAPHS_MAX - 2);
}

TEST_FIXTURE(start, finish);
