// The work of masks: bounded for one mask and for one answer, the same whatever a recognizer has built.
#include "engine/grammar/closing_costs.h"
#include "engine/grammar/recognizer.h"
#include "tests/support/matched_grammar.h"
#include "tests/support/random.h"

// Ambiguous: a text of n letters has about n * n items in its last state.
static const char ambiguous[] = "root ::= s*\ns ::= (\"a\" | \"b\" | [a-c] | [b-z]+ | [a-z]+)* t | t s\n"
                                "t ::= [a-z]* [a-z]* [a-z]*";

enum { N_LETTERS = 26, N_TOKENS = N_LETTERS * (N_LETTERS + 1), TEXT_BYTES = 64 };

// Many states after few letters, each with many terms.
static const char counted[] = "([a-z]*[a-g][a-z]{30}|[a-z]*[e-m][a-z]{29}a[a-z]*|[a-z]*[k-z][a-z]{28})*";

struct grammar_bench {
    bool closes; // also computes the distance to the end after all tokens
    struct grammar *grammar;
    struct grammar_vocabulary *vocabulary;
    struct recognizer *recognizer;
};

struct grammar_text {
    enum status (*compile)(struct grammar **grammar, struct text text, const struct grammar_limits *limits,
                           struct error *error);
    const char *text;
    bool closes;
};

// Texts of all patterns, which are a line each.
static enum status compile_patterns(struct grammar **grammar, struct text text,
                                    const struct grammar_limits *limits, struct error *error)
{
    struct rules *rules = rules_create(limits);
    struct expressions *pool = rules_expressions(rules);
    uint32_t all = EXPRESSION_ALL, one;
    while (text.size) {
        const char *end = memchr(text.data, '\n', text.size);
        size_t size = end ? (size_t)(end - text.data) : text.size;
        assert_ok(expression_parse(pool, (struct text){text.data, size}, PATTERN_WHOLE, &one, error), error);
        all = expression_both(pool, all, one);
        size += end != NULL;
        text = (struct text){text.data + size, text.size - size};
    }
    return grammar_create(grammar, rules, rules_terminal(rules, all, TERMINAL_TEXT), error);
}

// Tokens are all words of one letter and of two.
static void bench_init_with(struct grammar_bench *bench, struct grammar_text source,
                            const struct grammar_limits *limits)
{
    static char words[N_TOKENS][2];
    struct text tokens[N_TOKENS];
    struct error error;
    for (int i = 0; i < N_TOKENS; i++) {
        words[i][0] = (char)('a' + i % N_LETTERS);
        words[i][1] = (char)('a' + i / N_LETTERS - 1);
        tokens[i] = (struct text){words[i], i < N_LETTERS ? 1 : 2};
    }
    bench->closes = source.closes;
    assert_ok(grammar_vocabulary_create(&bench->vocabulary, tokens, N_TOKENS, NULL, 0, &error), &error);
    assert_int_equal(source.compile(&bench->grammar, text_from_string(source.text), limits, &error),
                     STATUS_OK);
    assert_ok(recognizer_create(&bench->recognizer, bench->grammar, bench->vocabulary, &error), &error);
}

static void bench_init(struct grammar_bench *bench, const char *gbnf, const struct grammar_limits *limits)
{
    bench_init_with(bench, (struct grammar_text){grammar_compile_gbnf, gbnf, false}, limits);
}

static void bench_finish(struct grammar_bench *bench)
{
    recognizer_destroy(bench->recognizer);
    grammar_destroy(bench->grammar);
    grammar_vocabulary_destroy(bench->vocabulary);
}

// To find out whether a state of these patterns matches anything, a search looks at a few hundred other states. Most
// states need a search of their own.
static const char searched[] =
    "[a-z]*b[a-z]*\n([a-z]*e([a-z]{2}|[a-z]{3}){27}a[a-z]*|[a-z]{0,9}[a-y]([a-z]|[a-z]{2}){10}|"
    "[a-z]{0,9}a[a-z]{29})*[a-z]*z";

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
        status = bench->closes ? matcher_mask_within(&matcher, UINT32_MAX, mask, &end.error)
                               : matcher_mask(&matcher, mask, &end.error);
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
static size_t end_everywhere(struct grammar_text source, const struct grammar_limits *limits,
                             const char *expected)
{
    size_t n_bytes = 0;
    for (unsigned seed = 1; seed <= 3; seed++) {
        char text[TEXT_BYTES + 1], other[TEXT_BYTES + 1];
        struct grammar_bench alone, shared;
        bench_init_with(&alone, source, limits);
        bench_init_with(&shared, source, limits);
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

// The larger limit ends at a longer text.
static void assert_work_ends_at(struct grammar_text source, enum grammar_limit limit,
                                const uint64_t values[2], const char *name)
{
    struct grammar_limits limits = grammar_limits_default;
    size_t n_bytes[2];
    for (int i = 0; i < 2; i++) {
        char error[80];
        limits.values[limit] = values[i];
        snprintf(error, sizeof error, "%s: more than %llu", name, (unsigned long long)values[i]);
        n_bytes[i] = end_everywhere(source, &limits, error);
    }
    assert_true(n_bytes[0] > 0);
    assert_true(n_bytes[0] < n_bytes[1]);
}

TEST(a_mask_ends_at_its_work_whatever_was_built_before)
{
    assert_work_ends_at((struct grammar_text){grammar_compile_gbnf, ambiguous, false},
                        GRAMMAR_LIMIT_MASK_WORK, (const uint64_t[]){10000, 20000}, "grammar_mask_work");
}

TEST(a_mask_of_many_derivatives_ends_at_its_work)
{
    assert_work_ends_at((struct grammar_text){grammar_compile_regex, counted, false}, GRAMMAR_LIMIT_MASK_WORK,
                        (const uint64_t[]){5000, 10000}, "grammar_mask_work");
}

// Deciding whether a state of such an intersection matches anything visits many other states.
TEST(a_mask_of_long_searches_ends_at_its_work)
{
    assert_work_ends_at((struct grammar_text){compile_patterns, "[a-z]*a[a-z]{8}\n([a-z]{7})*", false},
                        GRAMMAR_LIMIT_MASK_WORK, (const uint64_t[]){30000, 60000}, "grammar_mask_work");
}

TEST(a_mask_of_many_short_searches_ends_at_its_work)
{
    const struct grammar_text source = {compile_patterns, searched, false};
    assert_work_ends_at(source, GRAMMAR_LIMIT_MASK_WORK, (const uint64_t[]){32000, 64000},
                        "grammar_mask_work");
    // A search that was made before and is not counted shows where the limit lies between the two counts.
    for (uint64_t limit = 5000; limit < 60000; limit += limit / 6) {
        struct grammar_limits limits = grammar_limits_default;
        char expected[80];
        limits.values[GRAMMAR_LIMIT_MASK_WORK] = limit;
        snprintf(expected, sizeof expected, "grammar_mask_work: more than %llu", (unsigned long long)limit);
        end_everywhere(source, &limits, expected);
    }
}

TEST(an_answer_ends_at_its_work_whatever_was_built_before)
{
    assert_work_ends_at((struct grammar_text){grammar_compile_gbnf, ambiguous, false},
                        GRAMMAR_LIMIT_ANSWER_WORK, (const uint64_t[]){200000, 300000}, "grammar_answer_work");
}

// Each letter leads to many states that are far from the end.
static const char far[] = "([a-z]*[a-g][a-z]{30}|[a-z]*[e-m][a-z]{29}a[a-z]*|[a-z]*[k-z][a-z]{28})*zzzz";

TEST(a_scan_after_all_tokens_ends_at_its_work)
{
    assert_work_ends_at((struct grammar_text){grammar_compile_regex, far, true}, GRAMMAR_LIMIT_MASK_WORK,
                        (const uint64_t[]){120000, 250000}, "grammar_mask_work");
}

// Each letter ends the text, so the steps alone are work. A mask may take shortcuts that a look does not.
TEST(a_scan_after_tokens_that_end_the_text_is_work)
{
    uint32_t mask[(N_TOKENS + 31) / 32];
    struct grammar_bench bench;
    struct matcher matcher;
    struct error error;
    bench_init_with(&bench, (struct grammar_text){grammar_compile_regex, "[a-z]*", true}, NULL);
    assert_ok(matcher_init(&matcher, bench.recognizer, &error), &error);
    assert_ok(matcher_mask(&matcher, mask, &error), &error);
    assert_true(closing_costs_filter(bench.recognizer, matcher.state, 1, mask) >= 100); // of one state
    matcher_finish(&matcher);
    bench_finish(&bench);
}

TEST(scans_after_all_tokens_are_work_of_the_answer)
{
    assert_work_ends_at((struct grammar_text){grammar_compile_regex, far, true}, GRAMMAR_LIMIT_ANSWER_WORK,
                        (const uint64_t[]){300000, 1000000}, "grammar_answer_work");
}

// One state's mask takes 20,000 items or more here, and the text is in two such states again and again.
TEST(a_state_that_comes_again_is_counted_once)
{
    enum { N_OPTIONAL = 200 };
    struct grammar_limits limits = grammar_limits_default;
    struct grammar_bench bench;
    char gbnf[64 + 2 * N_OPTIONAL] = "root ::= \"z\" (";
    for (int i = 0; i < N_OPTIONAL; i++)
        strcat(gbnf, "e ");
    strcat(gbnf, "\"z\")*\ne ::= [a-y]?");
    limits.values[GRAMMAR_LIMIT_ANSWER_WORK] = 200000;
    bench_init(&bench, gbnf, &limits);
    for (int forgets = 0; forgets < 2; forgets++)
        assert_int_equal(match_text(&bench, "zzzzzzzz", forgets).error.status, STATUS_OK);
    bench_finish(&bench);
    limits.values[GRAMMAR_LIMIT_ANSWER_WORK] = 60000;
    bench_init(&bench, gbnf, &limits);
    assert_string_equal(match_text(&bench, "zzzzzzzz", false).error.text,
                        "grammar_answer_work: more than 60000");
    bench_finish(&bench);
}

// The limit ends one text: for others the recognizer keeps what it has built.
TEST(a_text_that_ends_at_its_work_costs_others_nothing)
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

// So that the cache is emptied when it is full.
TEST(rows_of_steps_are_counted_as_memory)
{
    struct grammar_bench bench;
    bench_init(&bench, ambiguous, NULL);
    struct recognizer *recognizer = bench.recognizer;
    uint32_t at = recognizer->start;
    for (int i = 1; i <= 3; i++) {
        uint64_t before = recognizer->cache.n_bytes;
        recognizer_begin_visit(recognizer, SET_UNKNOWN);
        uint32_t next = recognizer_step(recognizer, at, 'a');
        assert_int_not_equal(next, SET_DEAD);
        assert_true(recognizer->cache.n_bytes >= before + sizeof(struct set_row));
        assert_int_equal(recognizer_step(recognizer, at, 'a'), next);
        assert_true(recognizer->cache.n_bytes < before + 2 * sizeof(struct set_row)); // once
        at = next;
    }
    bench_finish(&bench);
}

static enum status first_mask(struct grammar_bench *bench, struct error *error)
{
    struct matcher matcher;
    enum status status = matcher_init(&matcher, bench->recognizer, error);
    if (status == STATUS_OK)
        status = matcher_prepare_mask(&matcher, error);
    matcher_finish(&matcher);
    return status;
}

// The least limit that the first mask keeps, and one less.
TEST(the_first_mask_has_a_limit_of_its_own)
{
    struct grammar_limits limits = grammar_limits_default;
    struct grammar_bench bench;
    struct error error;
    char expected[80];
    uint64_t low = 1, high = 1 << 20;
    limits.values[GRAMMAR_LIMIT_MASK_WORK] = 1;
    while (low < high) {
        limits.values[GRAMMAR_LIMIT_FIRST_WORK] = low + (high - low) / 2;
        bench_init_with(&bench, (struct grammar_text){grammar_compile_regex, counted, false}, &limits);
        if (first_mask(&bench, &error) == STATUS_OK)
            high = limits.values[GRAMMAR_LIMIT_FIRST_WORK];
        else
            low = limits.values[GRAMMAR_LIMIT_FIRST_WORK] + 1;
        bench_finish(&bench);
    }
    assert_true(low > 1000 && low < 1 << 20);
    for (int is_enough = 0; is_enough < 2; is_enough++) {
        limits.values[GRAMMAR_LIMIT_FIRST_WORK] = low - 1 + (uint64_t)is_enough;
        bench_init_with(&bench, (struct grammar_text){grammar_compile_regex, counted, false}, &limits);
        snprintf(expected, sizeof expected, "grammar_first_work: more than %llu",
                 (unsigned long long)low - 1);
        for (int again = 0; again < 3; again++) { // nothing is subtracted for structures that existed before
            assert_int_equal(first_mask(&bench, &error), is_enough ? STATUS_OK : STATUS_REJECT);
            if (!is_enough)
                assert_string_equal(error.text, expected);
        }
        bench_finish(&bench);
    }
}

// The steps computed for the mask, or for the distance after its tokens, until the limit.
static uint64_t count_steps(struct grammar_text source, uint64_t limit)
{
    struct grammar_limits limits = grammar_limits_default;
    uint32_t mask[(N_TOKENS + 31) / 32], n_left;
    char text[TEXT_BYTES + 1];
    struct grammar_bench bench;
    struct matcher matcher;
    struct error error;
    size_t n_accepted;
    limits.values[GRAMMAR_LIMIT_MASK_WORK] = limit;
    bench_init_with(&bench, source, &limits);
    spell(text, 5);
    const size_t n_bytes = match_text(&bench, text, false).n_bytes;
    assert_in_range(n_bytes, 1, TEXT_BYTES - 1);
    assert_ok(recognizer_restart(bench.recognizer, &error), &error);
    assert_ok(matcher_init(&matcher, bench.recognizer, &error), &error);
    if (source.closes) // which finds the ends of all terminals
        assert_ok(matcher_tokens_to_end(&matcher, &n_left, &error), &error);
    assert_ok(matcher_accept_bytes(&matcher, (struct text){text, n_bytes}, &n_accepted, &error), &error);
    const uint64_t before = bench.recognizer->pool->steps;
    assert_int_equal(source.closes ? matcher_mask_within(&matcher, UINT32_MAX, mask, &error)
                                   : matcher_prepare_mask(&matcher, &error),
                     STATUS_REJECT);
    const uint64_t n_steps = bench.recognizer->pool->steps - before;
    matcher_finish(&matcher);
    bench_finish(&bench);
    return n_steps;
}

// After one letter, each of the first letters leads to a state that needs its own long search.
static const char fanned[] =
    "[a-z](a[a-z]([a-z]{7})*|b[a-z]{2}([a-z]{11})*|c[a-z]{3}([a-z]{13})*|d[a-z]{4}([a-z]{17})*|"
    "e[a-z]{5}([a-z]{19})*|f[a-z]{6}([a-z]{23})*|g[a-z]{7}([a-z]{29})*|h[a-z]{8}([a-z]{31})*|"
    "i[a-z]{9}([a-z]{37})*|[j-z][a-z]*)\n[a-z]{2}[a-z]*a[a-z]{5}";

// They are proportional to the limit, whatever the regex.
TEST(a_mask_that_ends_at_its_limit_has_computed_little_more)
{
    static const struct grammar_text texts[] = {
        {grammar_compile_regex, counted, false},
        {compile_patterns, searched, false},
        {grammar_compile_regex, far, true},
        {compile_patterns, fanned, false},
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        for (uint64_t limit = 4000; limit <= 32000; limit *= 2) {
            const uint64_t n_steps = count_steps(texts[i], limit);
            if (n_steps == 0 || n_steps >= 2 * limit)
                fail_msg("%s: %llu steps, %llu are counted", texts[i].text, (unsigned long long)n_steps,
                         (unsigned long long)limit);
        }
}

// The mask after 15 letters then has the memory of the last mask, which has fewer tokens.
TEST(a_mask_that_is_kept_no_longer_is_made_again)
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
        assert_ok(matcher_init(&matcher, bench.recognizer, &error), &error);
        for (int i = 0; i < N_MASKS; i++) {
            assert_ok(matcher_mask(&matcher, masks[again][i], &error), &error);
            assert_ok(matcher_accept_token(&matcher, 0, &accepted, &error), &error);
        }
        matcher_finish(&matcher);
    }
    assert_memory_equal(masks[0], masks[1], sizeof masks[0]);
    assert_memory_not_equal(masks[0][N_BEFORE], masks[0][N_MASKS - 1], sizeof masks[0][0]);
    bench_finish(&bench);
}

// Any of the strings, followed by any of the ends.
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

static void bench_init_rules(struct grammar_bench *bench, struct rules *rules, uint32_t start)
{
    struct error error;
    bench_init(bench, ambiguous, NULL);
    recognizer_destroy(bench->recognizer);
    grammar_destroy(bench->grammar);
    assert_ok(grammar_create(&bench->grammar, rules, start, &error), &error);
    assert_ok(recognizer_create(&bench->recognizer, bench->grammar, bench->vocabulary, &error), &error);
}

// Names of which each letter begins one.
static void make_names(struct expressions *pool, uint32_t names[N_LETTERS])
{
    for (int i = 0; i < N_LETTERS; i++) {
        char name[] = {(char)('a' + i), (char)('a' + i), (char)('a' + i)};
        names[i] = expression_literal(pool, (struct text){name, 3});
    }
}

// A matcher after the quote that begins a string.
static void begin_string(const struct grammar_bench *bench, struct matcher *matcher)
{
    struct error error;
    size_t n_accepted;
    assert_ok(matcher_init(matcher, bench->recognizer, &error), &error);
    assert_ok(matcher_accept_bytes(matcher, TEXT("\""), &n_accepted, &error), &error);
}

// Such names, and any other string: inside, the parser's state depends on the
// names, and a mask takes none of the states behind its tokens.
TEST(a_mask_inside_several_strings_builds_no_states)
{
    struct rules *rules = rules_create(NULL);
    struct expressions *pool = rules_expressions(rules);
    uint32_t strings[N_LETTERS + 1], mask[(N_TOKENS + 31) / 32];
    struct grammar_bench bench;
    struct matcher matcher;
    struct error error;
    make_names(pool, strings);
    strings[N_LETTERS] = expression_complement(pool, expression_either_many(pool, strings, N_LETTERS));
    bench_init_rules(&bench, rules, string_and_end(rules, strings, N_LETTERS + 1));
    begin_string(&bench, &matcher);
    size_t n_states = bench.recognizer->sets.n;
    assert_ok(matcher_mask(&matcher, mask, &error), &error);
    assert_int_equal(bench.recognizer->sets.n, n_states);
    for (int i = 0; i < N_TOKENS; i++)
        assert_true(mask[i / 32] >> i % 32 & 1);
    matcher_finish(&matcher);
    bench_finish(&bench);
}

// The union of the strings has a term for each, the parser's states have one string each.
TEST(a_mask_inside_strings_whose_union_reaches_a_limit_is_made_of_each)
{
    struct grammar_limits limits = grammar_limits_default;
    limits.values[GRAMMAR_LIMIT_STATE_TERMS] = N_LETTERS - 1;
    struct rules *rules = rules_create(&limits);
    uint32_t strings[N_LETTERS], mask[(N_TOKENS + 31) / 32];
    struct grammar_bench bench;
    struct matcher matcher;
    struct error error;
    make_names(rules_expressions(rules), strings);
    bench_init_rules(&bench, rules, string_and_end(rules, strings, N_LETTERS));
    begin_string(&bench, &matcher);
    assert_ok(matcher_mask(&matcher, mask, &error), &error);
    for (int i = 0; i < N_TOKENS; i++) {
        bool begins_name = i < N_LETTERS || i % N_LETTERS == i / N_LETTERS - 1;
        assert_int_equal(mask[i / 32] >> i % 32 & 1, begins_name);
    }
    matcher_finish(&matcher);
    bench_finish(&bench);
}

// Behind each of the first letters the string may end, and all letters lead alike to a state that needs a long search.
// So many other characters lead to states of their own that no letters are known to be safe.
static uint32_t make_alike_letters(struct expressions *pool)
{
    static const int periods[] = {7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67};
    enum { N_PERIODS = sizeof periods / sizeof *periods, N_OTHERS = 300 };
    uint32_t parts[N_PERIODS + N_OTHERS], lengths;
    for (int i = 0; i < N_PERIODS; i++) {
        char pattern[64];
        snprintf(pattern, sizeof pattern, "%c([a-z]{%d}([a-z]{%d})*)?", 'a' + i, i + 1, periods[i]);
        parts[i] = parse_pattern(pool, pattern);
    }
    for (int i = 0; i < N_OTHERS; i++) { // two ideographs each
        const char bytes[] = {(char)0xE4, (char)(0xB8 + i / 64), (char)(0x80 + i % 64),
                              (char)0xE5, (char)(0x80 + i / 64), (char)(0x80 + i % 64)};
        parts[N_PERIODS + i] = expression_literal(pool, (struct text){bytes, sizeof bytes});
    }
    lengths = parse_pattern(pool, "[a-z]([a-z]{5})*|[^a-z]*");
    return expression_both(pool, expression_either_many(pool, parts, N_PERIODS + N_OTHERS), lengths);
}

TEST(letters_that_are_taken_at_once_are_work)
{
    struct grammar_limits limits = grammar_limits_default;
    limits.values[GRAMMAR_LIMIT_MASK_WORK] = 40000;
    struct rules *rules = rules_create(&limits);
    uint32_t string = make_alike_letters(rules_expressions(rules)), mask[(N_TOKENS + 31) / 32];
    struct grammar_bench bench;
    struct matcher matcher;
    struct error error;
    bench_init_rules(&bench, rules, rules_terminal(rules, string, TERMINAL_JSON_STRING));
    begin_string(&bench, &matcher);
    assert_int_equal(matcher_mask(&matcher, mask, &error), STATUS_REJECT);
    assert_string_equal(error.text, "grammar_mask_work: more than 40000");
    matcher_finish(&matcher);
    bench_finish(&bench);
}

// Each alternative is the whole grammar in brackets of its own, or a letter: items of one state would be as
// many as alternatives.
TEST(alternatives_of_one_structure_are_one)
{
    enum { ALTERNATIVES = 100, ITEMS_MAX = 30 };
    struct grammar_limits limits = grammar_limits_default;
    char source[ALTERNATIVES * 64] = "root ::= a | r0";
    size_t n = strlen(source);
    for (int i = 1; i < ALTERNATIVES; i++)
        n += (size_t)snprintf(source + n, sizeof source - n, " | r%d", i);
    for (int i = 0; i < ALTERNATIVES; i++)
        n += (size_t)snprintf(source + n, sizeof source - n, "\nr%d ::= \"x\" root s%d\ns%d ::= \"y\"", i, i,
                              i);
    snprintf(source + n, sizeof source - n, "\na ::= \"a\"");
    limits.values[GRAMMAR_LIMIT_STATE_ITEMS] = ITEMS_MAX;
    struct grammar_bench bench;
    bench_init(&bench, source, &limits);
    static const char *const texts[] = {"a", "xay", "xxayy", "xxay", "y", "xa"};
    static const bool may_end[] = {true, true, true, false, false, false};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct matcher matcher;
        struct error error;
        size_t n_accepted;
        bool ends = false;
        assert_ok(matcher_init(&matcher, bench.recognizer, &error), &error);
        assert_ok(matcher_accept_bytes(&matcher, text_from_string(texts[i]), &n_accepted, &error), &error);
        assert_int_equal(n_accepted, strcmp(texts[i], "y") ? strlen(texts[i]) : 0);
        assert_ok(matcher_may_end(&matcher, &ends, &error), &error);
        assert_int_equal(ends, may_end[i]);
        matcher_finish(&matcher);
    }
    bench_finish(&bench);
}
