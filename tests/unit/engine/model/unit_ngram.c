#include "engine/model/ngram.h"
#include "tests/support/cases.h"

// Numbers of modeling_qwen4_exp.py, transformers 5.24, for the settings of configuration_qwen4_exp.py.
static const struct ngram_shape usual = {
    .size = 3, .n_heads_each = 8, .n_taps = 4, .end = 7, .seed = 1234, .n_rows_least = 20000000};

TEST(multipliers_and_primes_are_the_authors)
{
    static const int64_t first[] = {23703573157769, 20109073645365, 8052911324071},
                         third[] = {35243655749357, 23198521423797, 25737225394503};
    struct ngram *ngram = calloc(1, sizeof *ngram);
    ngram_init(ngram, &usual, 248320, 0);
    for (int i = 0; i < 3; i++)
        assert_int_equal(ngram->multipliers[i], first[i]);
    assert_int_equal(ngram->n_heads, 16);
    assert_int_equal(ngram->n_rows[0], 20000003);
    assert_int_equal(ngram->n_rows[1], 20000023);
    assert_int_equal(ngram->n_rows[15], 20000171);
    assert_int_equal(ngram->first[1], 20000003);
    ngram_init(ngram, &usual, 248320, 1);
    assert_int_equal(ngram->n_rows[0], 20000213);
    assert_int_equal(ngram->n_rows[15], 20000429);
    assert_int_equal(ngram->first[0], 0);
    ngram_init(ngram, &usual, 248320, 2);
    for (int i = 0; i < 3; i++)
        assert_int_equal(ngram->multipliers[i], third[i]);
    free(ngram);
}

TEST(rows_depend_on_no_token_at_or_before_the_last_end)
{
    struct ngram *ngram = calloc(1, sizeof *ngram);
    int64_t rows[16], other[16];
    ngram_init(ngram, &usual, 320, 0);
    ngram_rows(ngram, (int32_t[]){5, 7, 9}, rows);
    ngram_rows(ngram, (int32_t[]){5, 7, 11}, other);
    for (int head = 0; head < 16; head++) {
        assert_int_equal(rows[head], other[head]);
        assert_true(rows[head] >= ngram->first[head] &&
                    rows[head] < ngram->first[head] + ngram->n_rows[head]);
    }
    ngram_rows(ngram, (int32_t[]){5, 8, 9}, rows);
    ngram_rows(ngram, (int32_t[]){5, 8, 11}, other);
    for (int head = 0; head < 16; head++) // heads of two tokens, then heads of three
        assert_int_equal(rows[head] == other[head], head < 8);
    int64_t mixed =
        7 * ngram->multipliers[0] ^ 7 * ngram->multipliers[1]; // an end itself is of the text before
    ngram_rows(ngram, (int32_t[]){7, 7, 7}, rows);
    assert_int_equal(rows[0], mixed % ngram->n_rows[0]);
    free(ngram);
}
