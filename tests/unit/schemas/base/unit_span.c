// Parts of a text (schemas/base/span.h): joined where they meet, cut with the text, found where another part
// touches them.
#include "schemas/base/span.h"
#include "tests/support/cases.h"

// As "1-3 5-9".
static void assert_spans(const struct text_spans *spans, const char *expected)
{
    char got[256] = "";
    size_t size = 0;
    for (size_t i = 0; i < spans->n_items && size < 200; i++)
        size += (size_t)snprintf(got + size, sizeof got - size, i ? " %zu-%zu" : "%zu-%zu",
                                 spans->items[i].start, spans->items[i].end);
    assert_string_equal(got, expected);
    assert_false(spans->failed);
}

TEST(parts_that_meet_are_one_and_empty_ones_none)
{
    struct text_spans spans = {0};
    text_spans_add(&spans, 2, 2);
    assert_spans(&spans, "");
    text_spans_add(&spans, 2, 5);
    text_spans_add(&spans, 5, 7);
    text_spans_add(&spans, 7, 7);
    text_spans_add(&spans, 8, 9);
    text_spans_add(&spans, 9, 10);
    assert_spans(&spans, "2-7 8-10");
    text_spans_finish(&spans);
    assert_spans(&spans, "");
}

TEST(parts_are_kept_in_their_own_memory_however_many)
{
    enum { N = 500, BESIDE = 4096 };
    struct text_spans spans = {0};
    char *beside = NULL, expected[BESIDE];
    memset(expected, 0x5A, sizeof expected);
    for (size_t i = 0; i < N; i++) {
        text_spans_add(&spans, 3 * i, 3 * i + 2);
        if (i == 0) {
            beside = malloc(BESIDE); // likely behind the first ones
            assert_non_null(beside);
            memcpy(beside, expected, BESIDE);
        }
    }
    assert_int_equal(spans.n_items, N);
    assert_memory_equal(beside, expected, BESIDE);
    for (size_t i = 0; i < N; i++)
        assert_true(spans.items[i].start == 3 * i && spans.items[i].end == 3 * i + 2);
    free(beside);
    text_spans_finish(&spans);
}

TEST(a_cut_takes_what_follows_it)
{
    static const char *const expected[] = {"",    "",    "",        "2-3",     "2-4",
                                           "2-5", "2-5", "2-5 6-7", "2-5 6-8", "2-5 6-8"};
    for (size_t size = 0; size < 10; size++) {
        struct text_spans spans = {0};
        text_spans_add(&spans, 2, 5);
        text_spans_add(&spans, 6, 8);
        text_spans_cut(&spans, size);
        assert_spans(&spans, expected[size]);
        text_spans_finish(&spans);
    }
}

// Against a flag for each byte.
TEST(a_part_touches_the_bytes_that_it_shares_with_another)
{
    enum { SIZE = 210, WIDTH = 3, STRIDE = 5 };
    struct text_spans spans = {0};
    bool is_part[SIZE] = {0};
    for (size_t start = 1; start + WIDTH <= SIZE; start += STRIDE) { // more than the array has at first
        text_spans_add(&spans, start, start + WIDTH);
        memset(is_part + start, 1, WIDTH);
    }
    for (size_t start = 0; start <= SIZE; start++)
        for (size_t end = start; end <= SIZE && end < start + 12; end++) {
            bool expected = false;
            for (size_t i = start; i < end; i++)
                expected = expected || is_part[i];
            if (end > start)
                assert_int_equal(text_spans_touch(&spans, start, end), expected);
        }
    text_spans_finish(&spans);
    assert_false(text_spans_touch(&spans, 0, SIZE));
}
