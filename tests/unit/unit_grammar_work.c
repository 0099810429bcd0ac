// The work of masks: bounded for one mask and for one answer, the same whatever a recognizer has built.
#include "engine/grammar/grammar.h"
#include "engine/grammar/recognizer.h"
#include "tests/random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

// Ambiguous: a text of n letters has about n * n items in its last state.
static const char ambiguous[] = "root ::= s*\ns ::= (\"a\" | \"b\" | [a-c] | [b-z]+ | [a-z]+)* t | t s\n"
                                "t ::= [a-z]* [a-z]* [a-z]*";

enum { N_LETTERS = 26, N_TOKENS = N_LETTERS * (N_LETTERS + 1), TEXT_BYTES = 64 };

struct grammar_bench {
    struct grammar *grammar;
    struct grammar_vocabulary *vocabulary;
    struct recognizer *recognizer;
};

// Tokens are all words of one letter and of two.
static void bench_init(struct grammar_bench *bench, const char *gbnf, const struct grammar_limits *limits)
{
    static char words[N_TOKENS][2];
    struct text tokens[N_TOKENS];
    struct error error;
    for (int i = 0; i < N_TOKENS; i++) {
        words[i][0] = (char)('a' + i % N_LETTERS);
        words[i][1] = (char)('a' + i / N_LETTERS - 1);
        tokens[i] = (struct text){words[i], i < N_LETTERS ? 1 : 2};
    }
    assert_int_equal(grammar_vocabulary_create(&bench->vocabulary, tokens, N_TOKENS, NULL, 0, &error),
                     STATUS_OK);
    assert_int_equal(grammar_compile_gbnf(&bench->grammar, text_from_string(gbnf), limits, &error),
                     STATUS_OK);
    assert_int_equal(recognizer_create(&bench->recognizer, bench->grammar, bench->vocabulary, &error),
                     STATUS_OK);
}

static void bench_finish(struct grammar_bench *bench)
{
    recognizer_destroy(bench->recognizer);
    grammar_destroy(bench->grammar);
    grammar_vocabulary_destroy(bench->vocabulary);
}

// Where an answer ended, and why.
struct end {
    size_t n_bytes;
    struct error error;
};

// Takes the text letter by letter, with a mask before each. `forgets`: the recognizer starts over before
// every other.
static struct end match_text(struct grammar_bench *bench, const char *text, bool forgets)
{
    uint32_t mask[(N_TOKENS + 31) / 32];
    struct matcher matcher;
    struct end end = {0};
    enum status status = matcher_init(&matcher, bench->recognizer, &end.error);
    for (; status == STATUS_OK && text[end.n_bytes]; end.n_bytes++) {
        size_t n_accepted = 0;
        uint16_t letter = (uint16_t)(text[end.n_bytes] - 'a');
        if (forgets && end.n_bytes % 2)
            assert_int_equal(recognizer_restart(bench->recognizer, &end.error), STATUS_OK);
        status = matcher_mask(&matcher, mask, &end.error);
        if (status != STATUS_OK)
            break;
        assert_true(mask[letter / 32] >> letter % 32 & 1);
        assert_int_equal(matcher_accept_bytes(&matcher, (struct text){text + end.n_bytes, 1}, &n_accepted,
                                              &end.error),
                         STATUS_OK);
        assert_int_equal(n_accepted, 1);
    }
    matcher_finish(&matcher);
    return end;
}

static void spell(char *text, uint64_t seed)
{
    for (size_t i = 0; i < TEXT_BYTES; i++)
        text[i] = (char)('a' + random_below(&seed, N_LETTERS));
    text[TEXT_BYTES] = '\0';
}

// The same end alone, behind other texts, and where all is forgotten before each mask. Returns where it is.
static size_t end_everywhere(const struct grammar_limits *limits, const char *expected)
{
    size_t n_bytes = 0;
    for (unsigned seed = 1; seed <= 3; seed++) {
        char text[TEXT_BYTES + 1], other[TEXT_BYTES + 1];
        struct grammar_bench alone, shared;
        bench_init(&alone, ambiguous, limits);
        bench_init(&shared, ambiguous, limits);
        spell(text, seed);
        struct end end = match_text(&alone, text, false);
        assert_int_equal(end.error.status, STATUS_REJECT);
        assert_string_equal(end.error.text, expected);
        for (unsigned i = 10; i < 13; i++) {
            spell(other, seed + i);
            memcpy(other, text, end.n_bytes / 2);
            match_text(&shared, other, false);
        }
        for (int forgets = 0; forgets < 2; forgets++) {
            struct end again = match_text(&shared, text, forgets);
            assert_int_equal(again.n_bytes, end.n_bytes);
            assert_string_equal(again.error.text, end.error.text);
        }
        bench_finish(&alone);
        bench_finish(&shared);
        n_bytes = end.n_bytes;
    }
    return n_bytes;
}

// Twice the limit ends at a longer text.
static void assert_work_ends_at(enum grammar_limit limit, uint64_t n, const char *name)
{
    struct grammar_limits limits = grammar_limits_default;
    size_t n_bytes[2];
    for (int i = 0; i < 2; i++) {
        char error[80];
        limits.values[limit] = n << i;
        snprintf(error, sizeof error, "%s: more than %llu", name, (unsigned long long)n << i);
        n_bytes[i] = end_everywhere(&limits, error);
    }
    assert_true(n_bytes[0] > 0);
    assert_true(n_bytes[0] < n_bytes[1]);
}

static void a_mask_ends_at_its_work_whatever_was_built_before(void **state)
{
    assert_work_ends_at(GRAMMAR_LIMIT_MASK_WORK, 10000, "grammar_mask_work");
}

static void an_answer_ends_at_its_work_whatever_was_built_before(void **state)
{
    assert_work_ends_at(GRAMMAR_LIMIT_ANSWER_WORK, 300000, "grammar_answer_work");
}

// One state's mask takes 20,000 items or more here, and the text is in two such states again and again.
static void a_state_that_comes_again_is_counted_once(void **state)
{
    enum { N_OPTIONAL = 100 };
    struct grammar_limits limits = grammar_limits_default;
    struct grammar_bench bench;
    char gbnf[64 + 2 * N_OPTIONAL] = "root ::= (";
    for (int i = 0; i < N_OPTIONAL; i++)
        strcat(gbnf, "e ");
    strcat(gbnf, "\"z\")*\ne ::= [a-y]?");
    limits.values[GRAMMAR_LIMIT_ANSWER_WORK] = 200000;
    bench_init(&bench, gbnf, &limits);
    for (int forgets = 0; forgets < 2; forgets++)
        assert_int_equal(match_text(&bench, "zzzzzzzz", forgets).error.status, STATUS_OK);
    bench_finish(&bench);
    limits.values[GRAMMAR_LIMIT_ANSWER_WORK] = 150000;
    bench_init(&bench, gbnf, &limits);
    assert_string_equal(match_text(&bench, "zzzzzzzz", false).error.text,
                        "grammar_answer_work: more than 150000");
    bench_finish(&bench);
}

// The limit ends one text: for others the recognizer keeps what it has built.
static void a_text_that_ends_at_its_work_costs_others_nothing(void **state)
{
    struct grammar_limits limits = grammar_limits_default;
    char text[TEXT_BYTES + 1];
    struct grammar_bench bench;
    limits.values[GRAMMAR_LIMIT_MASK_WORK] = 10000;
    bench_init(&bench, ambiguous, &limits);
    spell(text, 5);
    uint64_t generation = bench.recognizer->cache.generation;
    size_t n_bytes = match_text(&bench, text, false).n_bytes;
    text[n_bytes - 1] = '\0';
    assert_int_equal(match_text(&bench, text, false).error.status, STATUS_OK);
    assert_int_equal(bench.recognizer->cache.generation, generation);
    bench_finish(&bench);
}

// The memory of the mask behind 15 letters is then the last one's, which has fewer tokens.
static void a_mask_that_is_kept_no_longer_is_made_again(void **state)
{
    enum { N_WORDS = (N_TOKENS + 31) / 32, N_BEFORE = 15, N_MASKS = MASKS_KEPT + N_BEFORE + 1 };
    static uint32_t masks[2][N_MASKS][N_WORDS];
    char gbnf[40];
    struct grammar_bench bench;
    struct error error;
    snprintf(gbnf, sizeof gbnf, "root ::= [a-z]{%d}", N_MASKS);
    bench_init(&bench, gbnf, NULL);
    for (int again = 0; again < 2; again++) {
        struct matcher matcher;
        bool accepted;
        assert_int_equal(matcher_init(&matcher, bench.recognizer, &error), STATUS_OK);
        for (int i = 0; i < N_MASKS; i++) {
            assert_int_equal(matcher_mask(&matcher, masks[again][i], &error), STATUS_OK);
            assert_int_equal(matcher_accept_token(&matcher, 0, &accepted, &error), STATUS_OK);
        }
        matcher_finish(&matcher);
    }
    assert_memory_equal(masks[0], masks[1], sizeof masks[0]);
    assert_memory_not_equal(masks[0][N_BEFORE], masks[0][N_MASKS - 1], sizeof masks[0][0]);
    bench_finish(&bench);
}

// One of the strings, with one of the ends behind it, whichever of them.
static uint32_t string_and_end(struct rules *rules, const uint32_t *strings, int n)
{
    enum { N_ENDS = 50 };
    uint32_t choices[(N_LETTERS + 1) * N_ENDS];
    for (int i = 0; i < n * N_ENDS; i++) {
        char end = (char)('A' + i % N_ENDS);
        uint32_t parts[] = {rules_terminal(rules, strings[i / N_ENDS], TERMINAL_JSON_STRING),
                            rules_literal(rules, (struct text){&end, 1})};
        choices[i] = rules_sequence(rules, parts, 2);
    }
    return rules_choice(rules, choices, (size_t)n * N_ENDS);
}

// Names of which each letter begins one, and any other string: inside, the parser's state depends on the
// names, and a mask takes none of the states behind its tokens.
static void a_mask_inside_several_strings_builds_no_states(void **state)
{
    struct rules *rules = rules_create(NULL);
    struct expressions *pool = rules_expressions(rules);
    uint32_t strings[N_LETTERS + 1], mask[(N_TOKENS + 31) / 32];
    struct grammar_bench bench;
    struct matcher matcher;
    struct error error;
    size_t n_accepted;
    for (int i = 0; i < N_LETTERS; i++) {
        char name[] = {(char)('a' + i), (char)('a' + i), (char)('a' + i)};
        strings[i] = expression_literal(pool, (struct text){name, 3});
    }
    strings[N_LETTERS] = expression_complement(pool, expression_either_many(pool, strings, N_LETTERS));
    bench_init(&bench, ambiguous, NULL);
    recognizer_destroy(bench.recognizer);
    grammar_destroy(bench.grammar);
    uint32_t start = string_and_end(rules, strings, N_LETTERS + 1);
    assert_int_equal(grammar_create(&bench.grammar, rules, start, &error), STATUS_OK);
    assert_int_equal(recognizer_create(&bench.recognizer, bench.grammar, bench.vocabulary, &error),
                     STATUS_OK);
    assert_int_equal(matcher_init(&matcher, bench.recognizer, &error), STATUS_OK);
    assert_int_equal(matcher_accept_bytes(&matcher, TEXT("\""), &n_accepted, &error), STATUS_OK);
    size_t n_states = bench.recognizer->sets.n;
    assert_int_equal(matcher_mask(&matcher, mask, &error), STATUS_OK);
    assert_int_equal(bench.recognizer->sets.n, n_states);
    for (int i = 0; i < N_TOKENS; i++)
        assert_true(mask[i / 32] >> i % 32 & 1);
    matcher_finish(&matcher);
    bench_finish(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_mask_ends_at_its_work_whatever_was_built_before),
        cmocka_unit_test(an_answer_ends_at_its_work_whatever_was_built_before),
        cmocka_unit_test(a_state_that_comes_again_is_counted_once),
        cmocka_unit_test(a_text_that_ends_at_its_work_costs_others_nothing),
        cmocka_unit_test(a_mask_inside_several_strings_builds_no_states),
        cmocka_unit_test(a_mask_that_is_kept_no_longer_is_made_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
