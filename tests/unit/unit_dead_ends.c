// Dead ends inside strings: by the letters on the way, and which tokens may lead there, against each token's
// text taken letter by letter (engine/grammar/dead_ends.h).
#include "engine/grammar/dead_ends.h"
#include "engine/grammar/grammar_parts.h"
#include "engine/grammar/string_letters.h"
#include "engine/grammar/string_tokens.h"
#include "tests/matched_grammar.h"

static const char alphabet[] = "abcdefghijklmnopqrstuvwxyz0";

enum {
    N_LETTERS = sizeof alphabet - 1,
    N_TOKENS = N_LETTERS + N_LETTERS * N_LETTERS,
    N_WORDS = (N_TOKENS + 31) / 32
};

static char bytes[N_TOKENS][2];
static struct text tokens[N_TOKENS];
static struct grammar_vocabulary *vocabulary;

// All texts of one letter and of two.
static int start(void **state)
{
    struct error error;
    for (int i = 0; i < N_TOKENS; i++) {
        int pair = i - N_LETTERS;
        bytes[i][0] = alphabet[pair < 0 ? i : pair / N_LETTERS];
        bytes[i][1] = alphabet[pair < 0 ? 0 : pair % N_LETTERS];
        tokens[i] = (struct text){bytes[i], pair < 0 ? 1 : 2};
    }
    return grammar_vocabulary_create(&vocabulary, tokens, N_TOKENS, NULL, 0, &error) == STATUS_OK ? 0 : -1;
}

static int finish(void **state)
{
    grammar_vocabulary_destroy(vocabulary);
    return 0;
}

// Behind any letters but 'n', 'n' and '0' are a dead end, and behind "n", '0' is.
TEST(dead_ends_are_known_by_the_letters_on_the_way)
{
    static const struct {
        char letters[4];
        bool anywhere, behind_n;
    } cases[] = {{"", true, true},   {"a/", true, true},    {"n", true, true},
                 {"0", true, false}, {"n0a", false, false}, {"\\", false, false}};
    struct expressions *pool = expressions_create(NULL);
    struct dead_ends ends = {0};
    uint32_t expression = parse_pattern(pool, "([^n]|n+[^n0])*n*");
    dead_ends_find(&ends, pool, expression, vocabulary->strings);
    assert_true(ends.known);
    uint32_t place = dead_ends_place(&ends, expression_step(pool, expression, 'a')),
             behind_n = dead_ends_place(&ends, expression_step(pool, expression, 'n'));
    assert_int_equal(dead_ends_place(&ends, EXPRESSION_ANY), DEAD_ENDS_NONE);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct letter_set letters = {0};
        for (const char *letter = cases[i].letters; *letter; letter++)
            letters.words[letter_of((unsigned char)*letter) / 64] |= UINT64_C(1) << *letter % 64;
        assert_int_equal(dead_ends_avoided(&ends, place, &letters), cases[i].anywhere);
        assert_int_equal(dead_ends_avoided(&ends, behind_n, &letters), cases[i].behind_n);
    }
    dead_ends_finish(&ends);
    expressions_destroy(pool);
}

static bool ends_dead(struct expressions *pool, uint32_t expression, struct text text)
{
    for (size_t i = 0; i < text.size && expression != EXPRESSION_NOTHING; i++)
        expression = expression_step(pool, expression, (unsigned char)text.data[i]);
    return expression == EXPRESSION_NOTHING;
}

TEST(tokens_that_lead_to_a_dead_end_are_doubtful_and_few_others)
{
    static const char *const patterns[] = {"([^n]|n+[^n0])*n*", "([^nx]|[nx]+[^nx0])*[nx]*",
                                           "([^n]|n[^0x])*n?", "([^nq]|n[^0]|q[^x])*[nq]?"};
    static const char *const before[] = {"", "a", "n", "x", "an", "nb"};
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        struct expressions *pool = expressions_create(NULL);
        struct dead_ends ends = {0};
        uint32_t expression = parse_pattern(pool, patterns[i]), room[N_WORDS], bits[N_WORDS];
        int n_dead = 0, n_clear = 0;
        dead_ends_find(&ends, pool, expression, vocabulary->strings);
        assert_true(ends.known);
        for (size_t j = 0; j < sizeof before / sizeof *before; j++) {
            uint32_t reached = expression;
            for (const char *letter = before[j]; *letter; letter++)
                reached = expression_step(pool, reached, (unsigned char)*letter);
            uint32_t place = dead_ends_place(&ends, reached);
            if (!dead_ends_tokens(&ends, place, vocabulary->strings, N_WORDS, room, bits))
                continue;
            for (int token = 0; token < N_TOKENS; token++) {
                bool is_doubtful = bits[token / 32] >> token % 32 & 1;
                bool is_dead = ends_dead(pool, reached, tokens[token]);
                assert_true(is_doubtful || !is_dead);
                n_dead += is_dead;
                n_clear += !is_doubtful;
            }
        }
        assert_true(n_dead > 0 && n_clear > N_TOKENS / 2);
        dead_ends_finish(&ends);
        expressions_destroy(pool);
    }
}

GROUP_FIXTURE(start, finish);
