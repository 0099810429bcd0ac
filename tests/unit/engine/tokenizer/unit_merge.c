// Merging on random vocabularies against the definition carried out naively: look at all pairs, merge the
// best, again.
#include "engine/tokenizer/merge.h"
#include "engine/tokenizer/token_map.h"
#include "engine/tokenizer/tokenizer.h"
#include "tests/support/cases.h"
#include "tests/support/random.h"
#include "tests/support/vocabulary_file.h"

#include <math.h>
#include <time.h>

#define BLANK "\xE2\x96\x81"

static struct tokenizer *open_or_fail(struct vocabulary_file *file, const char *model, const char *pre)
{
    struct error error;
    struct tokenizer *tokenizer = vocabulary_file_open(file, model, pre, &error);
    if (!tokenizer)
        fail_msg("refused: %s", error.text);
    return tokenizer;
}

enum { NAIVE_SYMBOLS_MAX = 700, NAIVE_TOKENS_MAX = 64, NAIVE_TEXT_MAX = 24 };

struct naive {
    char texts[NAIVE_TOKENS_MAX][NAIVE_TEXT_MAX];
    float scores[NAIVE_TOKENS_MAX];
    size_t n_tokens;
    char merges[NAIVE_TOKENS_MAX][2 * NAIVE_TEXT_MAX]; // "left right"
    size_t n_merges;
};

static uint64_t random_state;

static int naive_find(const struct naive *naive, const char *text)
{
    for (size_t i = 0; i < naive->n_tokens; i++)
        if (!strcmp(naive->texts[i], text))
            return (int)i;
    return -1;
}

// How good it is to merge the two: larger is better; -INFINITY: they don't merge.
static double naive_value(const struct naive *naive, const char *left, const char *right)
{
    char joined[4 * NAIVE_TEXT_MAX];
    snprintf(joined, sizeof joined, naive->n_merges ? "%s %s" : "%s%s", left, right);
    for (size_t i = 0; i < naive->n_merges; i++)
        if (!strcmp(naive->merges[i], joined))
            return -(double)i;
    int id = naive->n_merges ? -1 : naive_find(naive, joined);
    return id < 0 ? -INFINITY : (double)naive->scores[id];
}

// Merges `symbols` (texts) until nothing merges; returns how many are left.
static size_t naive_merge(const struct naive *naive, char (*symbols)[NAIVE_TEXT_MAX], size_t n_symbols)
{
    for (;;) {
        double best = -INFINITY;
        size_t at = 0;
        for (size_t i = 0; i + 1 < n_symbols; i++) {
            double value = naive_value(naive, symbols[i], symbols[i + 1]);
            if (value > best) {
                best = value;
                at = i;
            }
        }
        if (best == -INFINITY)
            return n_symbols;
        memcpy(symbols[at] + strlen(symbols[at]), symbols[at + 1], strlen(symbols[at + 1]) + 1);
        memmove(symbols + at + 1, symbols + at + 2, (n_symbols - at - 2) * sizeof *symbols);
        n_symbols--;
    }
}

static void compare_with_naive(const struct naive *naive, const struct tokenizer *tokenizer, const char *text,
                               char (*symbols)[NAIVE_TEXT_MAX], size_t n_symbols)
{
    struct token_array ids = {0};
    struct error error;
    assert_ok(tokenizer_encode(tokenizer, text_from_string(text), 0, &ids, &error), &error);
    n_symbols = naive_merge(naive, symbols, n_symbols);
    bool same = ids.n_ids == n_symbols;
    for (size_t i = 0; same && i < n_symbols; i++)
        same = text_equals_string(tokenizer_token_text(tokenizer, ids.ids[i]), symbols[i]);
    if (!same)
        fail_msg("\"%s\": %zu tokens, naive merging gives %zu", text, ids.n_ids, n_symbols);
    token_array_finish(&ids);
}

// Splits a text of one- and three-byte characters.
static size_t naive_symbols(const char *text, char (*symbols)[NAIVE_TEXT_MAX])
{
    size_t n_symbols = 0;
    for (; *text; n_symbols++) {
        size_t size = (unsigned char)*text == 0xE2 ? 3 : 1;
        memcpy(symbols[n_symbols], text, size);
        symbols[n_symbols][size] = '\0';
        text += size;
    }
    return n_symbols;
}

TEST(spm_merges_as_naive_merging_does)
{
    static char symbols[NAIVE_SYMBOLS_MAX][NAIVE_TEXT_MAX];
    static const char *const letters[] = {"a", "b", "c", BLANK};
    random_state = random_seed(3);
    for (int vocabulary = 0; vocabulary < 150; vocabulary++) {
        struct naive naive = {0};
        struct vocabulary_file file = {0};
        add_spm_start(&file);
        add_key_bool(&file, "tokenizer.ggml.add_space_prefix", false);
        while (naive.n_tokens < 4 + random_below(&random_state, 40)) {
            char text[NAIVE_TEXT_MAX] = {0};
            if (naive.n_tokens < 4)
                strcpy(text, letters[naive.n_tokens]);
            for (unsigned n = naive.n_tokens < 4 ? 0 : 2 + random_below(&random_state, 4); n > 0; n--)
                strcat(text, letters[random_below(&random_state, vocabulary % 3 ? 4 : 3)]);
            if (naive_find(&naive, text) >= 0)
                continue;
            naive.scores[naive.n_tokens] = -(float)random_below(&random_state, 8);
            add_token(&file, text, naive.scores[naive.n_tokens], TYPE_NORMAL);
            strcpy(naive.texts[naive.n_tokens++], text);
        }
        struct tokenizer *tokenizer = open_or_fail(&file, "llama", NULL);
        for (int round = 0; round < 40; round++) {
            char escaped[3 * 200 + 1] = {0}, text[201] = {0};
            for (unsigned n = 1 + random_below(&random_state, round % 8 ? 30 : 200); n > 0; n--) {
                unsigned letter = random_below(&random_state, 4);
                strcat(escaped, letters[letter]);
                strcat(text, letter == 3 ? " " : letters[letter]);
            }
            compare_with_naive(&naive, tokenizer, text, symbols, naive_symbols(escaped, symbols));
        }
        tokenizer_close(tokenizer);
    }
}

TEST(bpe_merges_as_naive_merging_does)
{
    static char symbols[NAIVE_SYMBOLS_MAX][NAIVE_TEXT_MAX];
    random_state = random_seed(4);
    for (int vocabulary = 0; vocabulary < 150; vocabulary++) {
        struct naive naive = {0};
        struct vocabulary_file file = {0};
        add_byte_alphabet(&file);
        for (; naive.n_tokens < 3; naive.n_tokens++)
            naive.texts[naive.n_tokens][0] = (char)('a' + naive.n_tokens);
        while (naive.n_merges < 1 + random_below(&random_state, 40)) {
            const char *left = naive.texts[random_below(&random_state, (unsigned)naive.n_tokens)];
            const char *right = naive.texts[random_below(&random_state, (unsigned)naive.n_tokens)];
            char joined[2 * NAIVE_TEXT_MAX];
            snprintf(joined, sizeof joined, "%s%s", left, right);
            if (strlen(joined) >= 8)
                continue;
            char merge[2 * NAIVE_TEXT_MAX];
            snprintf(merge, sizeof merge, "%.8s %.8s", left, right);
            strcpy(naive.merges[naive.n_merges], merge);
            add_merge(&file, naive.merges[naive.n_merges++]);
            if (naive_find(&naive, joined) >= 0)
                continue;
            add_token(&file, joined, 0, TYPE_NORMAL);
            strcpy(naive.texts[naive.n_tokens++], joined);
        }
        struct tokenizer *tokenizer = open_or_fail(&file, "gpt2", "gpt-2");
        for (int round = 0; round < 40; round++) {
            char text[201] = {0};
            for (unsigned n = 1 + random_below(&random_state, round % 8 ? 60 : 200), i = 0; i < n; i++)
                text[i] = (char)('a' + random_below(&random_state, 3));
            compare_with_naive(&naive, tokenizer, text, symbols, naive_symbols(text, symbols));
        }
        tokenizer_close(tokenizer);
    }
}

TEST(a_megabyte_of_one_letter_takes_no_quadratic_time)
{
    for (int model = 0; model < 2; model++) {
        struct vocabulary_file file = {0};
        if (model)
            add_spm_start(&file);
        else
            add_byte_alphabet(&file);
        char text[65] = {0};
        for (size_t size = 1; size <= 64; size *= 2) {
            char merge[130];
            memset(text, 'a', size);
            if (model || size > 1)
                add_token(&file, text, -(float)size, TYPE_NORMAL);
            snprintf(merge, sizeof merge, "%s %s", text, text);
            if (size < 64)
                add_merge(&file, merge);
        }
        struct tokenizer *tokenizer = open_or_fail(&file, model ? "llama" : "gpt2", "gpt-2");
        struct buffer letters = {0};
        struct token_array ids = {0};
        struct error error;
        while (letters.size < 1 << 20)
            buffer_add_byte(&letters, 'a');
        clock_t start = clock();
        struct text all = {letters.data, letters.size};
        assert_ok(tokenizer_encode(tokenizer, all, 0, &ids, &error), &error);
        double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
        assert_true(ids.n_ids < (1 << 14) + 8);
        if (seconds > 20) // it takes 0.1 s; merging by search takes hours
            fail_msg("%.1f s", seconds);
        token_array_finish(&ids);
        buffer_finish(&letters);
        tokenizer_close(tokenizer);
    }
}

// Tables that were given room keep it, and find what those that grew by themselves find.
TEST(tables_with_room_are_those_that_grew)
{
    enum { N = 3000, LETTERS = 4 };
    static char names[N][LETTERS];
    static struct text texts[N];
    struct merge_table grown = {0}, roomy = {0};
    struct token_map grown_map = {0}, roomy_map = {0};
    assert_true(merge_table_reserve(&roomy, N) && token_map_reserve(&roomy_map, N));
    size_t mask = roomy.mask, map_mask = roomy_map.mask;
    for (int32_t i = 0; i < N; i++) {
        for (int j = 0, rest = i % 2000; j < LETTERS; j++, rest /= 26) // the last thousand repeat others
            names[i][j] = (char)('a' + rest % 26);
        texts[i] = (struct text){names[i], LETTERS};
        assert_true(merge_table_add(&grown, i % 40, i / 40, (uint32_t)i, i));
        assert_true(merge_table_add(&roomy, i % 40, i / 40, (uint32_t)i, i));
        assert_true(token_map_add(&grown_map, texts, i) && token_map_add(&roomy_map, texts, i));
        assert_true(merge_table_reserve(&roomy, 1) && token_map_reserve(&roomy_map, 1)); // never less
    }
    assert_true(roomy.mask == mask && roomy_map.mask == map_mask);
    assert_true(grown.mask == mask && grown.n_rules == N && roomy.n_rules == N);
    assert_true(grown_map.n_ids == 2000 && roomy_map.n_ids == 2000);
    struct merge_scratch scratch = {0};
    for (int32_t i = 0; i < N; i++) {
        int32_t of_grown[] = {i % 40, i / 40}, of_roomy[] = {i % 40, i / 40};
        assert_int_equal(merge_symbols(&grown, &scratch, of_grown, 2), 1);
        assert_int_equal(merge_symbols(&roomy, &scratch, of_roomy, 2), 1);
        assert_true(of_grown[0] == i && of_roomy[0] == i);
        assert_int_equal(token_map_find(&grown_map, texts, texts[i]), i % 2000);
        assert_int_equal(token_map_find(&roomy_map, texts, texts[i]), i % 2000);
    }
    merge_scratch_finish(&scratch);
    merge_table_finish(&grown);
    merge_table_finish(&roomy);
    token_map_finish(&grown_map);
    token_map_finish(&roomy_map);
}
