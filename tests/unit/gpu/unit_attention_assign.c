// Which segments of attention which block of the device computes (gpu/attention_assign.h).
#include "gpu/attention_assign.h"
#include "tests/support/cases.h"
#include "tests/support/random.h"

static int32_t queries = 16; // of a decode block

int32_t attention_small_queries(const struct attention_pages *pages, int32_t n_heads,
                                uint64_t shared_bytes_max)
{
    assert_int_equal(shared_bytes_max, 1000);
    return queries;
}

// Checks that the runs have each segment once; returns the longest one's number of segments.
static int32_t check_runs(const struct attention_sequence *sequences, int32_t n,
                          const struct attention_run *runs, int32_t n_runs)
{
    int32_t longest = 0, at = 0, segment = 0; // the next one
    for (int32_t run = 0; run < n_runs; run++) {
        int32_t in_run = 0;
        struct attention_run end = runs[run + 1];
        while (at < n && (at < end.sequence || (at == end.sequence && segment < end.segment))) {
            int32_t n_segments =
                sequences[at].n_rows
                    ? (sequences[at].position + sequences[at].n_rows - 1) / ATTENTION_SEGMENT + 1
                    : 0;
            in_run += segment < n_segments && segment >= sequences[at].n_shared;
            if (++segment >= n_segments) {
                segment = 0;
                at++;
            }
        }
        longest = in_run > longest ? in_run : longest;
    }
    assert_true(at == n || (at == runs[n_runs].sequence && segment == 0));
    return longest;
}

TEST(runs_are_even_and_cut_only_where_that_helps)
{
    enum { N = 64, RUNS = 33 };
    struct attention_run runs[RUNS + 1];
    struct attention_sequence sequences[N] = {{0}};
    struct attention_assign_rules rules = {32, 8, RUNS, true};
    int32_t n_cut = 0;
    for (int32_t i = 0; i < N; i++)
        sequences[i] = (struct attention_sequence){i, 1, 511, 0, i, 0, 0};
    attention_assign(sequences, N, &rules, runs);
    assert_int_equal(check_runs(sequences, N, runs, RUNS), 4);
    for (int32_t i = 0; i < N; i++)
        assert_int_equal(sequences[i].n_runs, 1);
    // one long sequence: 128 segments, and 126 of the others; 8 a run
    sequences[20].position = 32767;
    attention_assign(sequences, N, &rules, runs);
    assert_true(check_runs(sequences, N, runs, RUNS) <= 9);
    for (int32_t i = 0; i < N; i++)
        n_cut += sequences[i].n_runs > 1;
    assert_true(sequences[20].n_runs >= 16 && n_cut <= RUNS);
    rules.may_cut = false;
    attention_assign(sequences, N, &rules, runs);
    assert_true(check_runs(sequences, N, runs, RUNS) <= 136);
    assert_int_equal(sequences[20].n_runs, 1);
    rules.may_cut = true;
    attention_assign(sequences, 1, &rules, runs); // two segments, two blocks
    assert_int_equal(check_runs(sequences, 1, runs, RUNS), 1);
    assert_int_equal(sequences[0].n_runs, 2);
    uint64_t seed = 9;
    for (int round = 0; round < 300; round++) {
        int32_t n = 1 + (int32_t)(random_bits(&seed) >> 8) % N;
        rules.n_runs = 1 + (int32_t)(random_bits(&seed) >> 8) % RUNS;
        for (int32_t i = 0; i < n; i++) {
            int32_t position = (int32_t)(random_bits(&seed) >> 8) % (i % 7 ? 2000 : 20000);
            sequences[i] =
                (struct attention_sequence){i, i % 5 ? 1 : 0, position, 0, i, i % 3 ? 0 : position / 512, 0};
        }
        rules.may_cut = round % 2;
        attention_assign(sequences, n, &rules, runs);
        check_runs(sequences, n, runs, rules.n_runs);
    }
}

// Two blocks stay on a multiprocessor; a sequence has a tile for each key-value head and 16 queries of it.
TEST(runs_occupy_the_device_once)
{
    struct attention_pages pages = {.n_kv_heads = 8};
    struct attention_device device = {.n_multiprocessors = 132, .shared_bytes_max = 1000};
    static const struct {
        int32_t n_heads, queries, n_runs, n_tiles;
    } rows[] = {{32, 16, 33, 8},   {8, 16, 33, 8},   {128, 16, 33, 8},
                {136, 16, 16, 16}, {136, 32, 33, 8}, {256, 16, 16, 16}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        queries = rows[i].queries;
        assert_int_equal(attention_assign_runs(&pages, rows[i].n_heads, &device), rows[i].n_runs);
        assert_int_equal(attention_assign_arrivals(&pages, rows[i].n_heads, &device, 5), 5 * rows[i].n_tiles);
    }
    queries = 16;
    device.n_multiprocessors = 3; // less than a sequence needs
    assert_int_equal(attention_assign_runs(&pages, 32, &device), 1);
    device.n_multiprocessors = 7;
    assert_int_equal(attention_assign_runs(&pages, 32, &device), 1);
    device.n_multiprocessors = 8;
    assert_int_equal(attention_assign_runs(&pages, 32, &device), 2);
}

// "0 1 1.2 2": where each run begins, with the segment in a sequence that is cut; then how many runs each
// sequence is in.
static void list_runs(const int32_t *lengths, int32_t n, int32_t n_runs, bool may_cut, char *list)
{
    struct attention_sequence sequences[16];
    struct attention_run runs[17];
    struct attention_assign_rules rules = {32, 8, n_runs, may_cut};
    size_t size = 0;
    memset(runs, 0x7f, sizeof runs);
    for (int32_t i = 0; i < n; i++) // 0: without rows
        sequences[i] =
            (struct attention_sequence){.first_row = i, .n_rows = lengths[i] > 0, .position = lengths[i] - 1};
    attention_assign(sequences, n, &rules, runs);
    for (int32_t i = 0; i <= n_runs; i++)
        size += (size_t)snprintf(list + size, 8, runs[i].segment ? "%d.%d " : "%d ", runs[i].sequence,
                                 runs[i].segment);
    size += (size_t)snprintf(list + size, 3, "| ");
    for (int32_t i = 0; i < n; i++)
        size += (size_t)snprintf(list + size, 8, "%d ", sequences[i].n_runs);
    list[size - 1] = '\0';
}

TEST(runs_of_few_sequences)
{
    static const struct {
        int32_t lengths[8], n, n_runs;
        bool may_cut;
        const char *expected;
    } rows[] = {
        {{256, 256, 256, 256}, 4, 4, true, "0 1 2 3 4 | 1 1 1 1"},
        {{256, 256, 256, 256}, 4, 2, true, "0 2 4 | 1 1 1 1"},
        {{256, 256, 256}, 3, 2, true, "0 2 3 | 1 1 1"},
        {{256, 256, 256}, 3, 2, false, "0 2 3 | 1 1 1"},
        {{1, 256, 257, 512}, 4, 4, true, "0 2 2.1 3.1 4 | 1 1 2 2"},
        {{1, 256, 257, 512}, 4, 4, false, "0 2 3 4 4 | 1 1 1 1"},
        {{2560}, 1, 4, true, "0 0.3 0.5 0.8 1 | 4"},
        {{512}, 1, 5, true, "0 0.1 0.1 1 1 1 | 2"},
        {{2560}, 1, 5, true, "0 0.2 0.4 0.6 0.8 1 | 5"},
        {{2560}, 1, 4, false, "0 1 1 1 1 | 1"},
        {{2560, 1, 1, 1}, 4, 3, true, "0 0.4 0.8 4 | 3 1 1 1"},
        {{0, 2560, 0, 256, 0}, 5, 3, true, "1 1.4 1.8 5 | 0 3 0 1 0"},
        {{0, 0}, 2, 3, true, "0 2 2 2 | 0 0"},
        {{700, 700, 700, 700, 700, 700, 700}, 7, 3, true, "0 2.1 4.2 7 | 1 1 2 1 2 1 1"},
        {{700, 700, 700, 700, 700, 700, 700}, 7, 3, false, "0 3 6 7 | 1 1 1 1 1 1 1"},
        {{300, 900, 100, 1200, 50, 640, 480, 2000}, 8, 4, true, "0 3.1 5.1 7.3 8 | 1 1 1 2 1 2 1 2"},
        {{300, 900, 100, 1200, 50, 640, 480, 2000}, 8, 4, false, "0 3 6 7 8 | 1 1 1 1 1 1 1 1"},
        {{1000, 1000, 1000, 1100}, 4, 4, true, "0 1 2 3 4 | 1 1 1 1"},
        {{1000, 1000, 1000, 1132}, 4, 4, true, "0 1 2 3 4 | 1 1 1 1"},
        {{1000, 1000, 1000, 1133}, 4, 4, true, "0 1.1 2.1 3.1 4 | 1 2 2 2"},
        {{1000, 1000, 1000, 1300}, 4, 4, true, "0 1.1 2.1 3.2 4 | 1 2 2 2"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char list[256];
        list_runs(rows[i].lengths, rows[i].n, rows[i].n_runs, rows[i].may_cut, list);
        assert_string_equal(list, rows[i].expected);
    }
}

// What shared tiles compute is no cost of the sequence, and no segment of a run.
TEST(shared_segments_are_left_out)
{
    struct attention_sequence sequences[2] = {{.n_rows = 1, .position = 2559, .n_shared = 8},
                                              {.n_rows = 1, .position = 511}};
    struct attention_run runs[3];
    attention_assign(sequences, 2, &(struct attention_assign_rules){32, 8, 2, true}, runs);
    assert_int_equal(runs[1].sequence, 1); // two segments of each are left
    assert_int_equal(runs[1].segment, 0);
    sequences[0].n_shared = 6;
    attention_assign(sequences, 2, &(struct attention_assign_rules){32, 8, 2, true}, runs);
    assert_int_equal(runs[1].sequence, 0); // the last of four
    assert_int_equal(runs[1].segment, 9);
    assert_int_equal(sequences[0].n_runs, 2);
    assert_int_equal(sequences[1].n_runs, 1);
    sequences[0].n_rows = 5; // 20 queries of a head: not of the decode kernel's
    attention_assign(sequences, 2, &(struct attention_assign_rules){32, 8, 2, true}, runs);
    assert_int_equal(sequences[0].n_runs, 0);
    assert_int_equal(sequences[1].n_runs, 2);
}
