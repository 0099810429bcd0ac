// How many more characters end the texts of an expression (engine/grammar/string_lengths.h), by hand for
// expressions whose lengths are plain to see.
#include "engine/grammar/string_lengths.h"
#include "tests/support/matched_grammar.h"

static struct expressions *open_pool(void)
{
    struct expressions *pool = expressions_create(NULL);
    assert_non_null(pool);
    expressions_begin_visit(pool, 0);
    return pool;
}

TEST(lengths_are_those_of_the_nearest_and_the_farthest_end)
{
    static const struct {
        const char *pattern;
        bool extends;
        uint32_t to_end_first, to_end;
    } cases[] = {
        {"", false, 0, 0},          {"a*", true, 0, 0},        {"a{3,5}", false, 3, 3},
        {"a{2}.*", true, 2, 2},     {"(ab)*", false, 0, 1},   // no odd number of characters
        {"(abc|b)*", true, 0, 2},                             // behind "a" two, and any number of "b"
        {"(abc|bb)*", false, 0, 2}, {"ab|acde", false, 2, 2}, // behind "ac" two more, too
        {"a(bcdef)?", false, 1, 4}, {"[^x]{4}y*", true, 4, 4}, {"(a|bb)*", true, 0, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct expressions *pool = open_pool();
        struct length_search search = {0};
        const struct string_lengths *lengths =
            string_lengths_find(&search, pool, parse_pattern(pool, cases[i].pattern));
        assert_non_null(lengths);
        if (!lengths->known || !lengths->exact || lengths->n_letters != UINT32_MAX ||
            lengths->extends != cases[i].extends || lengths->to_end_first != cases[i].to_end_first ||
            lengths->to_end != cases[i].to_end)
            fail_msg("%s:%s%s%s %u %u", cases[i].pattern, lengths->known ? " known" : "",
                     lengths->exact ? " exact" : "", lengths->extends ? " extends" : "",
                     lengths->to_end_first, lengths->to_end);
        length_search_finish(&search);
        expressions_destroy(pool);
    }
}

// All texts of 16 characters are looked at, and what follows them by one more.
TEST(ends_that_are_far_are_not_known)
{
    static const struct {
        const char *pattern;
        bool known, exact;
        uint32_t to_end_first;
    } cases[] = {{"a{15}", true, true, 15},
                 {"a{16}", true, true, 16},
                 {"a{17}", true, false, 17},
                 {"a{18}", false, false, EXPRESSION_UNBOUNDED},
                 {"a{100}", false, false, EXPRESSION_UNBOUNDED}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct expressions *pool = open_pool();
        struct length_search search = {0};
        const struct string_lengths *lengths =
            string_lengths_find(&search, pool, parse_pattern(pool, cases[i].pattern));
        assert_non_null(lengths);
        assert_int_equal(lengths->known, cases[i].known);
        assert_int_equal(lengths->exact, cases[i].exact);
        assert_int_equal(lengths->to_end_first, cases[i].to_end_first);
        assert_int_equal(lengths->n_letters, cases[i].exact ? UINT32_MAX : 16);
        assert_int_equal(expressions_status(pool, NULL), STATUS_OK); // no failure of the pool
        length_search_finish(&search);
        expressions_destroy(pool);
    }
}

TEST(a_search_is_made_once_and_its_work_counted_once_a_visit)
{
    struct expressions *pool = open_pool();
    struct length_search search = {.visit = 1};
    uint32_t expression = parse_pattern(pool, "a{3,5}");
    const struct string_lengths *lengths = string_lengths_find(&search, pool, expression);
    assert_non_null(lengths);
    uint64_t work = lengths->work, n_searches = search.search;
    assert_true(work > 0);
    assert_int_equal(lengths->expression, expression);
    assert_int_equal(pool->visit.work, work);
    assert_ptr_equal(string_lengths_find(&search, pool, expression), lengths);
    assert_int_equal(pool->visit.work, work);
    search.visit = 2;
    assert_ptr_equal(string_lengths_find(&search, pool, expression), lengths);
    assert_int_equal(pool->visit.work, 2 * work);
    assert_int_equal(search.search, n_searches);
    length_search_finish(&search);
    assert_null(search.kept);
    expressions_destroy(pool);
}

// An entry is replaced by one of the same number modulo STRING_LENGTHS_KEPT, which has nothing of it.
TEST(a_later_search_has_nothing_of_an_earlier_one)
{
    struct expressions *pool = open_pool();
    struct length_search search = {.visit = 1};
    uint32_t later = parse_pattern(pool, "a{0,2}"), far = parse_pattern(pool, "a{9}"),
             earlier = EXPRESSION_NOTHING;
    assert_int_equal(string_lengths_find(&search, pool, far)->to_end, 9);
    char pattern[] = "ccccccccaa";
    for (int i = 0; i < 1 << 10 && earlier % STRING_LENGTHS_KEPT != later % STRING_LENGTHS_KEPT; i++) {
        for (int bit = 0; bit < 10; bit++)
            pattern[bit] = (char)('c' + (i >> bit & 1));
        earlier = parse_pattern(pool, pattern);
    }
    assert_int_equal(earlier % STRING_LENGTHS_KEPT, later % STRING_LENGTHS_KEPT);
    assert_int_equal(string_lengths_find(&search, pool, earlier)->to_end, 10);
    const struct string_lengths *lengths = string_lengths_find(&search, pool, later);
    assert_non_null(lengths);
    assert_true(lengths->known && lengths->exact && !lengths->extends);
    assert_int_equal(lengths->to_end_first, 0);
    assert_int_equal(lengths->to_end, 0);
    assert_int_equal(string_lengths_find(&search, pool, earlier)->to_end, 10);
    length_search_finish(&search);
    expressions_destroy(pool);
}
