// Safe letters of strings, against every text of a few of them (engine/grammar/safe_letters.h).
#include "engine/grammar/safe_letters.h"
#include "engine/grammar/grammar_parts.h"
#include "engine/grammar/string_tokens.h"
#include "tests/matched_grammar.h"

static const char alphabet[] = "abcdnx0 ";

enum {
    N_LETTERS = sizeof alphabet - 1,
    N_TOKENS = N_LETTERS + N_LETTERS * N_LETTERS,
    N_WORDS = (N_TOKENS + 31) / 32,
    TEXT_LETTERS = 5,
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

static struct letter_summary summary_of(char letter, uint32_t n_letters)
{
    struct letter_summary summary = {.n_letters = n_letters};
    unsigned at = letter_of((unsigned char)letter);
    summary.letters.words[at / 64] = UINT64_C(1) << at % 64;
    return summary;
}

static bool is_live(struct expressions *pool, uint32_t expression)
{
    return expression != EXPRESSION_NOTHING && !expression_is_empty_language(pool, expression);
}

// Every text of n safe letters goes on from the expression, whose place is known.
static void check_texts(struct expressions *pool, const struct safe_letters *safe, uint32_t expression,
                        uint32_t n, uint32_t *n_texts)
{
    uint32_t place = safe_letters_place(safe, expression);
    assert_true(is_live(pool, expression));
    ++*n_texts;
    if (n == 0)
        return;
    assert_int_not_equal(place, SAFE_LETTERS_NONE);
    for (const char *letter = alphabet; *letter; letter++) {
        struct letter_summary summary = summary_of(*letter, n);
        if (safe_letters_have(safe, place, &summary))
            check_texts(pool, safe, expression_step(pool, expression, (unsigned char)*letter), n - 1,
                        n_texts);
    }
}

TEST(whatever_safe_letters_follow_the_string_can_go_on)
{
    static const struct {
        const char *pattern;
        uint32_t n_safe; // of the alphabet
    } cases[] = {{"[a-d0]*", 5},          {"([^n]|n[0x])*n?", 7},
                 {"[a-z]+( [a-z]+)*", 6}, {"([a-d]{1,3}0?)*[x ]?", 4},
                 {"(x[0-9]|[^x])*", 7},   {"[^ ]{30}", 7},
                 {"([a-d]*0[a-d]*)?", 4}, {"(.*n.{3}x|.*x.{3}n)+", 7}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct expressions *pool = expressions_create(NULL);
        struct safe_letters safe = {0};
        uint32_t expression = parse_pattern(pool, cases[i].pattern), n_texts = 0, n_safe = 0;
        safe_letters_find(&safe, pool, expression, vocabulary->strings);
        assert_int_equal(safe.known, cases[i].n_safe > 0);
        for (const char *letter = alphabet; *letter && safe.known; letter++) {
            struct letter_summary summary = summary_of(*letter, TEXT_LETTERS);
            n_safe += safe_letters_have(&safe, 0, &summary);
        }
        assert_int_equal(n_safe, cases[i].n_safe);
        if (safe.known)
            check_texts(pool, &safe, expression, TEXT_LETTERS, &n_texts);
        assert_true(n_texts > cases[i].n_safe);
        safe_letters_finish(&safe);
        expressions_destroy(pool);
    }
}

// As many letters are looked at as 20: from a state behind 5 of them, 15.
TEST(letters_are_safe_as_far_as_they_are_looked_at)
{
    struct expressions *pool = expressions_create(NULL);
    struct safe_letters safe = {0};
    uint32_t expression = parse_pattern(pool, "[a-z]{30}");
    safe_letters_find(&safe, pool, expression, vocabulary->strings);
    assert_true(safe.known && !safe.closed);
    for (uint32_t before = 0; before <= 20; before += 5) {
        struct letter_summary all = summary_of('a', 20 - before), more = summary_of('a', 21 - before);
        uint32_t place = safe_letters_place(&safe, expression);
        assert_true(safe_letters_have(&safe, place, &all));
        assert_false(safe_letters_have(&safe, place, &more));
        for (int i = 0; i < 5; i++)
            expression = expression_step(pool, expression, 'a');
    }
    assert_int_equal(safe_letters_place(&safe, expression), SAFE_LETTERS_NONE);
    safe_letters_find(&safe, pool, parse_pattern(pool, "[a-z]{10}"), vocabulary->strings);
    assert_false(safe.known); // whichever they are, an eleventh is one too many
    safe_letters_finish(&safe);
    expressions_destroy(pool);
}

TEST(tokens_without_other_letters_are_not_doubtful_and_stay_inside)
{
    struct expressions *pool = expressions_create(NULL);
    struct safe_letters safe = {0};
    uint32_t expression = parse_pattern(pool, "([^n]|n[0x])*n?"), bits[N_WORDS], n_dead = 0;
    safe_letters_find(&safe, pool, expression, vocabulary->strings);
    assert_true(safe.known);
    assert_false(safe_letters_tokens(&safe, vocabulary->strings, N_WORDS, N_LETTERS, bits));
    assert_true(safe_letters_tokens(&safe, vocabulary->strings, N_WORDS, N_TOKENS / 2, bits));
    for (int i = 0; i < N_TOKENS; i++) {
        uint32_t reached = expression;
        bool has_n = false;
        for (size_t at = 0; at < tokens[i].size; at++) {
            reached = expression_step(pool, reached, (unsigned char)tokens[i].data[at]);
            has_n |= tokens[i].data[at] == 'n';
        }
        n_dead += !is_live(pool, reached);
        assert_int_equal(bits[i / 32] >> i % 32 & 1, has_n);
        assert_true(has_n || is_live(pool, reached));
    }
    assert_true(n_dead > 0);
    safe_letters_finish(&safe);
    expressions_destroy(pool);
}

GROUP_FIXTURE(start, finish);
