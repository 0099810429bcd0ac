// Which segments of attention are computed for several sequences at once, found from block tables.
#include "gpu/shared_prefix.h"
#include "tests/support/cases.h"
#include "tests/support/failing_memory.h"
#include "tests/support/random.h"

enum {
    PAGE_POSITIONS = 64,
    SEGMENT_PAGES = ATTENTION_SEGMENT / PAGE_POSITIONS,
    PAGES_EACH = 64,
    SEQUENCES_MAX = 600
};

// Llama-3-8B's heads: 16 sequences fill a tile.
static const struct shared_rules llama = {.page_positions = PAGE_POSITIONS,
                                          .n_heads = 32,
                                          .n_kv_heads = 8,
                                          .tile_queries = 64,
                                          .small_queries = 16,
                                          .n_segments_most = 100};

struct world {
    struct step_sequence sequences[SEQUENCES_MAX];
    int32_t pages[SEQUENCES_MAX][PAGES_EACH], next_page;
    struct step step;
    struct shared_prefix shared;
};

static int open_world(void **state)
{
    struct world *world = calloc(1, sizeof *world);
    struct error error;
    *state = world;
    return shared_prefix_init(&world->shared, SEQUENCES_MAX, 8 * SEQUENCES_MAX, &error) == STATUS_OK ? 0 : -1;
}

static int close_world(void **state)
{
    struct world *world = *state;
    shared_prefix_finish(&world->shared);
    free(world);
    return 0;
}

// Another sequence of n_rows rows from `position` on, with `n_common` segments of sequence `parent`
// (negative: none).
static void add_sequence(struct world *world, int32_t position, int32_t n_rows, int32_t parent,
                         int32_t n_common)
{
    int32_t index = world->step.n_sequences++;
    for (int32_t i = 0; i < PAGES_EACH; i++)
        world->pages[index][i] = parent >= 0 && i < n_common * SEGMENT_PAGES
                                     ? world->pages[parent][i]
                                     : (world->next_page++ * 7919) % 100003;
    world->sequences[index] = (struct step_sequence){.first_row = world->step.n_tokens,
                                                     .n_tokens = n_rows,
                                                     .position = position,
                                                     .pages = world->pages[index]};
    world->step.n_tokens += n_rows;
    world->step.sequences = world->sequences;
}

static void clear(struct world *world)
{
    world->step.n_sequences = world->step.n_tokens = world->next_page = 0;
}

// Every query of a sequence's shared segments is in just one tile, which has its row and its pages.
static void check_tiles(struct world *world, const struct shared_rules *rules)
{
    struct shared_prefix *shared = &world->shared;
    int32_t group = rules->n_heads / rules->n_kv_heads;
    int64_t n_queries = 0;
    for (int32_t i = 0; i < shared->n_tiles; i++) {
        const struct attention_shared_tile *tile = &shared->tiles[i];
        assert_in_range(tile->n_queries, 1, rules->tile_queries);
        n_queries += tile->n_queries;
        for (int32_t query = tile->first_query; query < tile->first_query + tile->n_queries; query++) {
            int32_t part = tile->first_member + query / group, row = shared->members[part], index = 0;
            while (world->sequences[index].first_row + world->sequences[index].n_tokens <= row)
                index++;
            assert_int_equal(part, shared->first_parts[index] + row - world->sequences[index].first_row);
            assert_true(tile->segment < shared->n_shared[index]);
            assert_true(world->sequences[index].position >= (tile->segment + 1) * ATTENTION_SEGMENT);
            assert_true(world->sequences[index].position >= tile->position_least);
            assert_memory_equal(world->pages[index], world->pages[tile->first_page],
                                (size_t)(tile->segment + 1) * SEGMENT_PAGES * sizeof(int32_t));
        }
    }
    for (int32_t i = 0; i < world->step.n_sequences; i++)
        n_queries -= (int64_t)shared->n_shared[i] * world->sequences[i].n_tokens * group;
    assert_int_equal(n_queries, 0);
}

static void find_shared(struct world *world, const struct shared_rules *rules)
{
    shared_prefix_find(&world->shared, &world->step, rules);
    check_tiles(world, rules);
}

TEST(two_hundred_and_fifty_six_sequences_read_512_positions_16_times)
{
    struct world *world = *state;
    clear(world);
    for (int s = 0; s < 256; s++)
        add_sequence(world, 1023, 1, s ? 0 : -1, 2);
    find_shared(world, &llama);
    // Of each of two segments: 1,024 queries are 16 tiles, and 256 tiles would be needed by each for itself.
    assert_int_equal(world->shared.n_tiles, 2 * 16);
    assert_int_equal(world->shared.n_reads_saved, 2 * (256 - 16));
    assert_int_equal(world->shared.n_segments, 2);
}

TEST(prefixes_branch)
{
    struct world *world = *state;
    clear(world);
    // 0..9 have four segments in common, 10..19 three others after the first, the rest the first
    for (int s = 0; s < 40; s++)
        add_sequence(world, 1030 + s, 1,
                     s == 0    ? -1
                     : s < 10  ? 0
                     : s <= 10 ? 0
                     : s < 20  ? 10
                               : 0,
                     s < 10    ? 4
                     : s == 10 ? 1
                     : s < 20  ? 4
                               : 1);
    find_shared(world, &llama);
    for (int s = 0; s < 40; s++)
        assert_int_equal(world->shared.n_shared[s], s < 20 ? 4 : 1);
    assert_int_equal(world->shared.n_tiles, 3 + 3 * 2);
}

// Sequences of three lengths in any order: those that read further share on, whichever are between them.
TEST(sequences_that_end_within_a_prefix_part_no_others)
{
    struct world *world = *state;
    uint64_t random = random_seed(20261123);
    for (int round = 0; round < 20; round++) {
        clear(world);
        int32_t n_whole[60], n_longer[3] = {0};
        for (int s = 0; s < 60; s++) {
            n_whole[s] = 1 + (int32_t)random_below(&random, 3);
            for (int i = 0; i < n_whole[s]; i++)
                n_longer[i]++;
            add_sequence(world, n_whole[s] * ATTENTION_SEGMENT + 40, 1, s ? 0 : -1, 3);
        }
        find_shared(world, &llama);
        int32_t n_tiles = 0;
        for (int i = 0; i < 3; i++)
            n_tiles += (n_longer[i] + 15) / 16;
        for (int s = 0; s < 60; s++)
            assert_int_equal(world->shared.n_shared[s], n_whole[s]);
        assert_int_equal(world->shared.n_tiles, n_tiles);
    }
}

TEST(few_sequences_short_prefixes_and_prompts_share_nothing)
{
    struct world *world = *state;
    clear(world);
    for (int s = 0; s < SHARED_SEQUENCES_LEAST - 1; s++)
        add_sequence(world, 600, 1, s ? 0 : -1, 2);
    find_shared(world, &llama);
    assert_int_equal(world->shared.n_tiles, 0);
    add_sequence(world, 511, 1, 0, 2); // its row is among the second segment's positions
    find_shared(world, &llama);
    assert_int_equal(world->shared.n_tiles, 1);
    assert_int_equal(world->shared.n_shared[0], 1);
    clear(world);
    for (int s = 0; s < 8; s++)
        add_sequence(world, 255, 1, s ? 0 : -1, 1);
    find_shared(world, &llama);
    assert_int_equal(world->shared.n_tiles, 0);
    clear(world);
    for (int s = 0; s < 8; s++)
        add_sequence(world, 300, s < 3 ? 4 : 5, s ? 0 : -1,
                     1); // four rows are a strip of queries, five go the way of prompts
    find_shared(world, &llama);
    assert_int_equal(world->shared.n_tiles, 0);
    add_sequence(world, 300, 4, 0, 1);
    find_shared(world, &llama);
    assert_int_equal(world->shared.n_tiles, 1);
    assert_int_equal(world->shared.n_part_rows, 4 * 4);
}

// 128 heads of one key-value head fill tiles by themselves.
TEST(who_fills_tiles_alone_shares_nothing)
{
    struct world *world = *state;
    struct shared_rules latent = llama;
    latent.n_heads = 128;
    latent.n_kv_heads = 1;
    latent.tile_queries = latent.small_queries = 32;
    clear(world);
    for (int s = 0; s < 64; s++)
        add_sequence(world, 1000, 1, s ? 0 : -1, 3);
    find_shared(world, &latent);
    assert_int_equal(world->shared.n_tiles, 0);
    assert_int_equal(world->shared.n_part_rows, 64);
}

TEST(scratch_and_tiles_bound_what_is_shared)
{
    struct world *world = *state;
    struct shared_rules rules = llama;
    clear(world);
    for (int s = 0; s < 20; s++)
        add_sequence(world, 4000, 1, s ? 0 : -1, 15);
    rules.n_segments_most = 3;
    find_shared(world, &rules);
    assert_int_equal(world->shared.n_segments, 3);
    rules.n_segments_most = 0;
    find_shared(world, &rules);
    assert_int_equal(world->shared.n_tiles, 0);
    // 600 sequences in tiles of two rows: 300 a segment, and the 14th does not fit.
    clear(world);
    for (int s = 0; s < 600; s++)
        add_sequence(world, 4000, 1, s ? 0 : -1, 15);
    rules = llama;
    rules.tile_queries = 8;
    rules.small_queries = 4;
    find_shared(world, &rules);
    assert_int_equal(world->shared.n_segments, SHARED_TILES_MAX / 300);
    assert_int_equal(world->shared.n_tiles, SHARED_TILES_MAX / 300 * 300);
}

// shared_prefix_init allocates five times.
TEST(each_allocation_that_fails_is_an_error)
{
    for (int n_good = 0; n_good <= 5; n_good++) {
        struct shared_prefix shared;
        struct error error;
        failing_memory.fails_alone = true;
        failing_memory_after(n_good);
        enum status status = shared_prefix_init(&shared, SEQUENCES_MAX, SEQUENCES_MAX, &error);
        failing_memory_after(-1);
        assert_int_equal(status, n_good < 5 ? STATUS_REFUSE : STATUS_OK);
        if (status != STATUS_OK)
            assert_int_equal(error.code, ERROR_OUT_OF_MEMORY);
        shared_prefix_finish(&shared);
    }
}

GROUP_FIXTURE(open_world, close_world);
