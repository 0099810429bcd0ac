// The n-gram index: what followed the last tokens before is found, in memory that does not grow.
#include "batching/suffix_index.h"
#include "tests/support/cases.h"
#include "tests/support/random.h"

static struct suffix_index index_of(const int32_t *tokens, int32_t n, uint32_t capacity)
{
    struct suffix_index index;
    assert_true(suffix_index_init(&index, capacity));
    for (int32_t i = 0; i < n; i++)
        suffix_index_append(&index, 0, tokens[i]);
    return index;
}

static struct suffix_match find(const struct suffix_index *index, const int32_t *tail, int32_t n)
{
    return suffix_index_find(index, 0, tail, n);
}

TEST(the_tokens_after_the_longest_match_are_found)
{
    static const int32_t text[] = {5, 6, 7, 8, 20, 9, 7, 8, 30, 1, 2, 3, 4, 7, 8, 40, 6};
    struct suffix_index index = index_of(text, 17, 32);
    struct suffix_match match = find(&index, (int32_t[]){5, 6, 7, 8}, 4);
    assert_int_equal(match.length, 4);
    assert_int_equal(suffix_index_token(&index, match.place), 20);
    assert_int_equal(suffix_index_token(&index, match.place + 1), 9);
    match = find(&index, (int32_t[]){11, 2, 3, 4, 7, 8}, 6);
    assert_int_equal(match.length, 5);
    assert_int_equal(suffix_index_token(&index, match.place), 40);
    assert_int_equal(find(&index, (int32_t[]){50}, 1).length, 0);
    assert_int_equal(find(&index, NULL, 0).length, 0);
    suffix_index_finish(&index);
}

TEST(the_end_of_the_text_is_followed_by_nothing)
{
    static const int32_t text[] = {5, 6, 7};
    struct suffix_index index = index_of(text, 3, 16);
    assert_int_equal(find(&index, (int32_t[]){7}, 1).length, 0);
    assert_int_equal(suffix_index_token(&index, 3), SUFFIX_BREAK);
    suffix_index_finish(&index);
}

// Of three occurrences two are followed by 9: one other does not replace it, two do.
TEST(the_continuation_of_most_occurrences_is_found)
{
    static const int32_t text[] = {5, 9, 5, 9, 5, 8, 5};
    struct suffix_index index = index_of(text, 7, 64);
    assert_int_equal(suffix_index_token(&index, find(&index, (int32_t[]){5}, 1).place), 9);
    for (int i = 0; i < 2; i++) {
        suffix_index_append(&index, 0, 8);
        suffix_index_append(&index, 0, 5);
    }
    assert_int_equal(suffix_index_token(&index, find(&index, (int32_t[]){5}, 1).place), 8);
    suffix_index_finish(&index);
}

TEST(texts_are_apart_and_begin_at_a_break)
{
    static const int32_t text[] = {SUFFIX_BREAK, 5, 6, SUFFIX_BREAK, 5, 7, SUFFIX_BREAK};
    struct suffix_index index = index_of(text, 7, 16);
    struct suffix_match match = find(&index, (int32_t[]){3, SUFFIX_BREAK}, 2);
    assert_int_equal(match.length, 1);
    assert_int_equal(suffix_index_token(&index, match.place), 5);
    match = find(&index, (int32_t[]){3, SUFFIX_BREAK, 5}, 3);
    assert_int_equal(match.length, 2);
    assert_int_equal(suffix_index_token(&index, match.place), 7);
    assert_int_equal(find(&index, (int32_t[]){6}, 1).length, 0);
    assert_int_equal(suffix_index_find(&index, 1, (int32_t[]){SUFFIX_BREAK}, 1).length, 0);
    suffix_index_finish(&index);
}

TEST(old_tokens_are_gone_when_the_ring_is_full)
{
    uint64_t random = 7;
    struct suffix_index index;
    assert_true(suffix_index_init(&index, 100));
    assert_int_equal(index.capacity, 128);
    index.n = index.first = UINT32_MAX - 1000; // places wrap around
    int32_t text[4000];
    for (int32_t i = 0; i < 4000; i++) {
        text[i] = (int32_t)random_below(&random, 6);
        suffix_index_append(&index, 3, text[i]);
        struct suffix_match match = suffix_index_find(&index, 3, text, i + 1);
        assert_true(match.length <= SUFFIX_LENGTH_MAX);
        uint32_t back = index.n - match.place; // to the match's end
        assert_true(match.length == 0 || (back >= 1 && back + (uint32_t)match.length <= 128));
        for (int32_t k = 0; k < match.length; k++)
            assert_int_equal(text[i - k], text[i - k - (int32_t)back]);
    }
    assert_int_equal(suffix_index_token(&index, index.n - 129), SUFFIX_BREAK);
    assert_int_equal(suffix_index_token(&index, index.n - 128), text[4000 - 128]);
    suffix_index_finish(&index);
}

TEST(an_empty_index_takes_nothing_and_finds_nothing)
{
    struct suffix_index index = {0};
    suffix_index_append(&index, 0, 5);
    assert_int_equal(find(&index, (int32_t[]){5}, 1).length, 0);
    assert_int_equal(suffix_index_token(&index, 0), SUFFIX_BREAK);
    suffix_index_finish(&index);
}
