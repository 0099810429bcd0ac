// Which sequences of a step compute which segments of attention together on the CPU, found from block tables
// (engine/cpu/attention_parts.h).
#include "engine/cpu/attention_parts.h"
#include "tests/support/cases.h"
#include "tests/support/failing_memory.h"

enum {
    PAGE_POSITIONS = 64,
    SEGMENT_PAGES = ATTENTION_SEGMENT / PAGE_POSITIONS,
    PAGES_EACH = 32,
    SEQUENCES_MAX = 16
};

struct shared_step {
    struct step_sequence sequences[SEQUENCES_MAX];
    int32_t pages[SEQUENCES_MAX][PAGES_EACH], n, n_rows, next_page;
    struct sharing sharing;
};

static int open_world(void **state)
{
    struct shared_step *test = calloc(1, sizeof *test);
    struct error error;
    *state = test;
    return test && sharing_reserve(&test->sharing, 64, &error) == STATUS_OK ? 0 : -1;
}

static int close_world(void **state)
{
    struct shared_step *test = *state;
    sharing_finish(&test->sharing);
    free(test);
    return 0;
}

// Another sequence of n_rows rows from `position` on, whose first n_pages pages are sequence `parent`'s.
static void add(struct shared_step *test, int32_t position, int32_t n_rows, int32_t parent, int32_t n_pages)
{
    int32_t index = test->n++;
    for (int32_t i = 0; i < PAGES_EACH; i++)
        test->pages[index][i] = i < n_pages ? test->pages[parent][i] : test->next_page++;
    test->sequences[index] = (struct step_sequence){
        .first_row = test->n_rows, .n_tokens = n_rows, .position = position, .pages = test->pages[index]};
    test->n_rows += n_rows;
}

// `groups`: each sequence's group or -1; `segments`: each group's.
static void find(struct shared_step *test, const int32_t *groups, const int32_t *segments, int32_t n_groups)
{
    struct sharing *sharing = &test->sharing;
    sharing_find(sharing, (struct attention_sequences){test->sequences, test->n}, PAGE_POSITIONS);
    int32_t n_rows = 0;
    assert_int_equal(sharing->n_groups, n_groups);
    for (int32_t g = 0; g < n_groups; g++) {
        const struct span *span = &sharing->groups[g];
        assert_true(span->is_group);
        assert_int_equal(span->segment_begin, 0);
        assert_int_equal(span->segment_end, segments[g]);
        assert_int_equal(span->position, segments[g] * ATTENTION_SEGMENT);
        assert_int_equal(span->first_state, n_rows);
        int32_t n = 0; // rows of the group, in the order of its sequences
        for (int32_t i = 0; i < test->n; i++) {
            const struct step_sequence *sequence = &test->sequences[i];
            if (groups[i] != g)
                continue;
            assert_memory_equal(span->pages, sequence->pages,
                                (size_t)segments[g] * SEGMENT_PAGES * sizeof *span->pages);
            assert_int_equal(sharing->first_state[i], n_rows + n);
            for (int32_t r = 0; r < sequence->n_tokens; r++)
                assert_int_equal(span->rows[n++], sequence->first_row + r);
        }
        assert_int_equal(span->n_rows, n);
        n_rows += n;
    }
    assert_int_equal(sharing->n_rows, n_rows);
    for (int32_t i = 0; i < test->n; i++)
        assert_int_equal(sharing->group_of[i], groups[i]);
}

TEST(a_sequence_alone_shares_nothing)
{
    struct shared_step *test = *state;
    find(test, NULL, NULL, 0);
    add(test, 1000, 3, 0, 0);
    find(test, (int32_t[]){-1}, NULL, 0);
    add(test, 1000, 3, 0, 0);
    find(test, (int32_t[]){-1, -1}, NULL, 0);
}

// All rows of both see a shared segment completely.
TEST(segments_are_shared_that_lie_before_the_rows_of_both)
{
    struct shared_step *test = *state;
    for (int32_t first = 0; first < 2; first++)
        for (int32_t position = 254; position <= 3 * ATTENTION_SEGMENT + 1; position++) {
            test->n = test->n_rows = 0;
            add(test, first ? position : 1100, 2, 0, 0);
            add(test, first ? 1100 : position, 1, 0, PAGES_EACH);
            int32_t n = position / ATTENTION_SEGMENT, none[] = {-1, -1}, both[] = {0, 0};
            find(test, n ? both : none, &n, n > 0);
        }
}

TEST(segments_are_shared_whole)
{
    struct shared_step *test = *state;
    for (int32_t n_pages = 0; n_pages <= 4 * SEGMENT_PAGES; n_pages++) {
        test->n = test->n_rows = 0;
        add(test, 1500, 1, 0, 0);
        add(test, 1500, 1, 0, n_pages);
        int32_t n = n_pages / SEGMENT_PAGES, none[] = {-1, -1}, both[] = {0, 0};
        find(test, n ? both : none, &n, n > 0);
    }
}

TEST(pages_after_the_first_other_one_do_not_count)
{
    struct shared_step *test = *state;
    add(test, 1500, 1, 0, 0);
    add(test, 1500, 1, 0, PAGES_EACH);
    test->pages[1][2 * SEGMENT_PAGES - 1] = 12345; // the last of the second segment
    find(test, (int32_t[]){0, 0}, (int32_t[]){1}, 1);
    test->pages[1][2 * SEGMENT_PAGES - 1] = test->pages[0][2 * SEGMENT_PAGES - 1];
    test->pages[1][2 * SEGMENT_PAGES] = 12345; // the first of the third
    find(test, (int32_t[]){0, 0}, (int32_t[]){2}, 1);
}

TEST(groups_are_numbered_by_their_first_sequence)
{
    struct shared_step *test = *state;
    add(test, 1100, 1, 0, 0);
    add(test, 1100, 2, 0, 0);
    add(test, 100, 1, 0, 4); // too short
    add(test, 1100, 3, 1, 2 * SEGMENT_PAGES);
    add(test, 1100, 1, 0, 0); // alone
    add(test, 1100, 1, 0, 3 * SEGMENT_PAGES);
    add(test, 1100, 2, 1, 2 * SEGMENT_PAGES);
    find(test, (int32_t[]){0, 1, -1, 1, -1, 0, 1}, (int32_t[]){3, 2}, 2);
}

// A sequence joins where the group's rows times segments do not become fewer.
TEST(a_group_takes_in_what_costs_it_nothing)
{
    struct shared_step *test = *state;
    add(test, 1100, 1, 0, 0);
    add(test, 1100, 1, 0, 3 * SEGMENT_PAGES);
    add(test, 1100, 1, 0, 2 * SEGMENT_PAGES); // 3 * 2 as 2 * 3
    find(test, (int32_t[]){0, 0, 0}, (int32_t[]){2}, 1);
    add(test, 1100, 1, 0, 1 * SEGMENT_PAGES); // 4 * 1 < 3 * 2
    find(test, (int32_t[]){0, 0, 0, -1}, (int32_t[]){2}, 1);
    add(test, 1100, 1, 3,
        4 * SEGMENT_PAGES); // with the one that was left, which shares 4 with it and 1 with the group
    find(test, (int32_t[]){0, 0, 0, 1, 1}, (int32_t[]){2, 4}, 2);
    add(test, 1100, 1, 0, 4 * SEGMENT_PAGES); // more than the group's
    find(test, (int32_t[]){0, 0, 0, 1, 1, 0}, (int32_t[]){2, 4}, 2);
}

TEST(of_two_candidates_the_one_that_shares_more_is_joined_of_equal_ones_the_first)
{
    struct shared_step *test = *state;
    add(test, 1100, 1, 0, 0);
    add(test, 1100, 1, 0, 4 * SEGMENT_PAGES);
    add(test, 1100, 1, 0, 1 * SEGMENT_PAGES); // 3 * 1 < 2 * 4
    add(test, 1100, 1, 2, 3 * SEGMENT_PAGES);
    find(test, (int32_t[]){0, 0, 1, 1}, (int32_t[]){4, 3}, 2);
    test->n = test->n_rows = 0;
    add(test, 1100, 1, 0, 0);
    add(test, 300, 1, 0, 0);
    test->pages[1][0] = test->pages[0][0]; // not a segment: candidates of their own
    add(test, 1100, 1, 0, 1 * SEGMENT_PAGES);
    find(test, (int32_t[]){0, -1, 0}, (int32_t[]){1}, 1);
}

TEST(memory_is_as_much_as_was_asked_for_once)
{
    struct shared_step *test = *state;
    struct error error;
    struct span *groups = test->sharing.groups;
    assert_ok(sharing_reserve(&test->sharing, 64, &error), &error);
    assert_ptr_equal(test->sharing.groups, groups);
    assert_ok(sharing_reserve(&test->sharing, 1000, &error), &error);
    assert_int_equal(test->sharing.n_max, 1000);
    sharing_finish(&test->sharing);
    assert_int_equal(test->sharing.n_max, 0);
    assert_null(test->sharing.groups);
    assert_ok(sharing_reserve(&test->sharing, 16, &error), &error);
}

TEST(a_failed_allocation_leaves_nothing)
{
    struct error error;
    enum { N_ALLOCATIONS = 5 };
    failing_memory.fails_alone = true;
    for (int n_good = 0; n_good <= N_ALLOCATIONS; n_good++) {
        struct sharing sharing = {0};
        failing_memory_after(n_good);
        enum status status = sharing_reserve(&sharing, 16, &error);
        failing_memory_after(-1);
        assert_int_equal(status, n_good < N_ALLOCATIONS ? STATUS_REFUSE : STATUS_OK);
        if (status != STATUS_OK) {
            assert_int_equal(error.code, ERROR_OUT_OF_MEMORY);
            assert_int_equal(sharing.n_max, 0);
            assert_null(sharing.groups);
        }
        sharing_finish(&sharing);
    }
}

TEST_FIXTURE(open_world, close_world);
