// The report of shared prefixes (batching/prefix_report.c): which, in which order, and how much of their
// text.
#include "batching/batcher_state.h"
#include "tests/support/cases.h"

enum { TWO_BYTES = 500, FOUR_BYTES, HALF, NOTHING };

// In place of the tokenizer: tokens below 500 are one letter each.
void tokenizer_decode(const struct tokenizer *tokenizer, int32_t id, bool special, struct buffer *out)
{
    static const char *const texts[] = {"\xC3\xA9", "\xF0\x9F\x98\x80", "\xF0\x9F", ""};
    if (id >= TWO_BYTES)
        buffer_add_string(out, texts[id - TWO_BYTES]);
    else
        buffer_add_byte(out, (char)('a' + id % 26));
}

static struct batcher *batcher_with(int32_t n_top)
{
    struct batcher *batcher = calloc(1, sizeof *batcher);
    assert_non_null(batcher);
    batcher->tree.n_top = n_top;
    return batcher;
}

TEST(the_prefixes_that_saved_the_most_come_first_and_no_more_than_fit)
{
    struct prefix_report report;
    for (int32_t n = PREFIX_REPORT_MAX - 1; n <= PREFIX_TOP_MAX; n++) {
        struct batcher *batcher = batcher_with(n);
        for (int32_t i = 0; i < n; i++) // in no order: 7 and 65 have no common divisor
            batcher->tree.top[i] = (struct prefix_top){.hash = (uint64_t)i + 1000,
                                                       .n_tokens = i + 1,
                                                       .n_hits = i + 2,
                                                       .tokens_saved = ((int64_t)i * 7 % 65 + 1) << 33};
        batcher->tree.figures = (struct prefix_figures){.n_lookups = 1,
                                                        .n_hits = 2,
                                                        .tokens_looked_up = 3,
                                                        .tokens_saved = 4,
                                                        .n_evictions = 5,
                                                        .n_pages_shared = 6,
                                                        .n_pages_idle = 7};
        batcher_report_prefixes(batcher, &report);
        assert_int_equal(report.n_entries, n < PREFIX_REPORT_MAX ? n : PREFIX_REPORT_MAX);
        int32_t n_better[PREFIX_TOP_MAX] = {0}; // of those in the tree than each entry
        for (int32_t e = 0; e < report.n_entries; e++) {
            const struct prefix_report_entry *entry = &report.entries[e];
            for (int32_t i = 0; i < n; i++)
                n_better[e] += batcher->tree.top[i].tokens_saved > entry->tokens_saved;
            assert_int_equal(n_better[e], e);
            assert_int_equal(entry->hash, entry->n_tokens + 999);
            assert_int_equal(entry->n_hits, entry->n_tokens + 1);
        }
        assert_true(report.n_lookups == 1 && report.n_hits == 2 && report.tokens_looked_up == 3 &&
                    report.tokens_saved == 4);
        assert_true(report.n_evictions == 5 && report.pages_shared == 6 && report.pages_idle == 7);
        free(batcher);
    }
}

static void assert_text(const int32_t *tokens, int32_t n, const char *expected)
{
    struct batcher *batcher = batcher_with(1);
    struct prefix_report report;
    memcpy(batcher->tree.top[0].head, tokens, (size_t)n * sizeof *tokens);
    batcher->tree.top[0].n_head = n;
    batcher_report_prefixes(batcher, &report);
    assert_string_equal(report.entries[0].text, expected);
    free(batcher);
}

TEST(the_text_is_whole_characters_up_to_the_first_broken_one)
{
    assert_text((int32_t[]){0}, 0, "");
    assert_text((int32_t[]){NOTHING}, 1, "");
    assert_text((int32_t[]){0, 1, NOTHING, TWO_BYTES, FOUR_BYTES, 2}, 6,
                "ab\xC3\xA9\xF0\x9F\x98\x80"
                "c");
    assert_text((int32_t[]){0, HALF, 1}, 3, "a");
    assert_text((int32_t[]){0, HALF}, 2, "a"); // a token that the next one would have completed
    // 48 tokens of at most 4 bytes fit whole.
    int32_t tokens[48];
    char expected[PREFIX_TEXT_BYTES] = "";
    for (int i = 0; i < 48; i++) {
        tokens[i] = FOUR_BYTES;
        strcat(expected, "\xF0\x9F\x98\x80");
    }
    assert_text(tokens, 48, expected);
}
