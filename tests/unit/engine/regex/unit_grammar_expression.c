// Expressions: their algebra, and derivatives against a matcher that tries everything.
#include "engine/regex/expression.h"
#include "engine/grammar/rules_parts.h"
#include "tests/support/cases.h"
#include "tests/support/random.h"

static uint32_t set_of(struct expressions *pool, uint32_t first, uint32_t last)
{
    return expression_set(pool, &(struct code_range){first, last}, 1);
}

TEST(equal_expressions_have_one_id)
{
    struct expressions *pool = expressions_create(NULL);
    uint32_t a = expression_literal(pool, TEXT("a")), b = expression_literal(pool, TEXT("b"));
    uint32_t ab = expression_literal(pool, TEXT("ab"));
    assert_int_equal(expression_concat(pool, a, b), ab);
    assert_int_equal(expression_either(pool, a, b), set_of(pool, 'a', 'b'));
    assert_int_equal(expression_either(pool, ab, a), expression_either(pool, a, ab));
    assert_int_equal(expression_concat(pool, expression_concat(pool, a, b), a),
                     expression_concat(pool, a, expression_concat(pool, b, a)));
    assert_int_equal(expression_complement(pool, expression_complement(pool, ab)), ab);
    assert_int_equal(expression_either(pool, ab, expression_complement(pool, ab)), EXPRESSION_ALL);
    uint32_t either = expression_either(pool, ab, expression_literal(pool, TEXT("ba")));
    assert_int_equal(expression_either(pool, expression_complement(pool, either), either), EXPRESSION_ALL);
    assert_int_not_equal(expression_either(pool, expression_complement(pool, either), ab), EXPRESSION_ALL);
    uint32_t few = expression_repeat(pool, ab, 2, 5), more = expression_repeat(pool, ab, 6, 9);
    assert_int_equal(expression_either(pool, expression_concat(pool, few, b),
                                       expression_concat(pool, more, b)),
                     expression_concat(pool, expression_repeat(pool, ab, 2, 9), b));
    assert_int_equal(expression_either(pool, few, expression_repeat(pool, ab, 3, EXPRESSION_UNBOUNDED)),
                     expression_repeat(pool, ab, 2, EXPRESSION_UNBOUNDED));
    uint32_t most = expression_repeat(pool, ab, 7, 9); // a gap
    assert_int_not_equal(expression_either(pool, few, most), expression_repeat(pool, ab, 2, 9));
    assert_int_equal(expression_either(pool, expression_either(pool, few, most),
                                       expression_repeat(pool, ab, 6, 6)),
                     expression_repeat(pool, ab, 2, 9));
    assert_int_equal(expression_both(pool, a, b), EXPRESSION_NOTHING);
    assert_int_equal(expression_both(pool, set_of(pool, 'a', 'm'), set_of(pool, 'k', 'z')),
                     set_of(pool, 'k', 'm'));
    assert_int_equal(expression_repeat(pool, EXPRESSION_ANY, 0, EXPRESSION_UNBOUNDED), EXPRESSION_ALL);
    uint32_t letters = set_of(pool, 'a', 'm'), any_two = expression_repeat(pool, EXPRESSION_ANY, 2, 9);
    assert_int_equal(expression_both(pool, expression_repeat(pool, letters, 0, 7), any_two),
                     expression_repeat(pool, letters, 2, 7));
    assert_int_equal(expression_both(pool, expression_repeat(pool, a, 0, 7),
                                     expression_repeat(pool, b, 0, 9)),
                     EXPRESSION_EMPTY);
    assert_int_equal(expression_both(pool, expression_repeat(pool, letters, 3, 4),
                                     expression_repeat(pool, a, 5, 6)),
                     EXPRESSION_NOTHING);
    assert_int_equal(set_of(pool, 0, CODE_POINT_MAX), EXPRESSION_ANY);
    assert_int_equal(expression_set_complement(pool, EXPRESSION_ANY), EXPRESSION_NOTHING);
    assert_int_equal(set_of(pool, 0xD800, 0xDFFF), EXPRESSION_NOTHING);
    expressions_destroy(pool);
}

TEST(a_set_of_one_code_point_has_it)
{
    struct expressions *pool = expressions_create(NULL);
    static const uint32_t alone[] = {0, 'a', 0xD7FE, 0xD7FF, 0xE000, CODE_POINT_MAX};
    uint32_t code_point;
    for (size_t i = 0; i < sizeof alone / sizeof *alone; i++) {
        assert_true(expression_code_point(pool, set_of(pool, alone[i], alone[i]), &code_point));
        assert_int_equal(code_point, alone[i]);
    }
    assert_true(expression_code_point(pool, set_of(pool, 0xD7FF, 0xDABC), &code_point));
    assert_int_equal(code_point, 0xD7FF);
    assert_true(expression_code_point(pool, set_of(pool, 0xDABC, 0xE000), &code_point));
    assert_int_equal(code_point, 0xE000);
    assert_false(expression_code_point(pool, set_of(pool, 'a', 'b'), &code_point));
    assert_false(expression_code_point(pool, set_of(pool, 0xD7FE, 0xD7FF), &code_point));
    assert_false(expression_code_point(pool, set_of(pool, 0xD7FF, 0xE000), &code_point));
    assert_false(expression_code_point(pool, set_of(pool, 0xDC00, 0xE001), &code_point));
    const struct code_range two[] = {{'a', 'a'}, {'c', 'c'}};
    assert_false(expression_code_point(pool, expression_set(pool, two, 2), &code_point));
    assert_false(expression_code_point(pool, EXPRESSION_NOTHING, &code_point));
    assert_false(expression_code_point(pool, EXPRESSION_EMPTY, &code_point));
    assert_false(expression_code_point(pool, EXPRESSION_ANY, &code_point));
    assert_false(expression_code_point(pool, expression_literal(pool, TEXT("ab")), &code_point));
    expressions_destroy(pool);
}

enum { PARTS = 9, TEXT_MAX = 5 };

// A random expression over the alphabet {a, b, é}, with its language up to TEXT_MAX code points found by
// enumeration: bit i of language[] is the i-th text in the order of length, then of letters.
enum { N_TEXTS = 1 + 3 + 9 + 27 + 81 + 243 };

struct expression_sample {
    uint32_t id;
    bool language[N_TEXTS];
};

static int text_length(int index, int *letters)
{
    int length = 0, count = 1;
    while (index >= count) {
        index -= count;
        count *= 3;
        length++;
    }
    for (int i = length; i > 0; i--, index /= 3)
        letters[i - 1] = index % 3;
    return length;
}

static int text_index(const int *letters, int length)
{
    int first = 0, within = 0, count = 1;
    for (int i = 0; i < length; i++, count *= 3) {
        first += count;
        within = within * 3 + letters[i];
    }
    return first + within;
}

static uint64_t random_state;

static void concat_languages(const struct expression_sample *a, const struct expression_sample *b, bool *out)
{
    bool result[N_TEXTS] = {0};
    for (int text = 0; text < N_TEXTS; text++) {
        int letters[TEXT_MAX], length = text_length(text, letters);
        for (int cut = 0; cut <= length; cut++)
            result[text] |=
                a->language[text_index(letters, cut)] && b->language[text_index(letters + cut, length - cut)];
    }
    memcpy(out, result, sizeof result);
}

static struct expression_sample repeat_sample(struct expressions *pool, const struct expression_sample *a,
                                              unsigned min, unsigned max)
{
    struct expression_sample power = {.language = {true}}, out = {0};
    for (unsigned n = 0; n <= (max == EXPRESSION_UNBOUNDED ? min + TEXT_MAX : max); n++) {
        for (int i = 0; i < N_TEXTS && n >= min; i++)
            out.language[i] |= power.language[i];
        concat_languages(&power, a, power.language);
    }
    out.id = expression_repeat(pool, a->id, min, max);
    return out;
}

static struct expression_sample random_letter(struct expressions *pool)
{
    static const char *const letters[] = {"a", "b", "\xC3\xA9", ""};
    unsigned which = random_below(&random_state, 4);
    struct expression_sample sample = {.id = expression_literal(pool, text_from_string(letters[which]))};
    sample.language[which == 3 ? 0 : 1 + which] = true;
    return sample;
}

static struct expression_sample combine(struct expressions *pool, const struct expression_sample *a,
                                        const struct expression_sample *b)
{
    struct expression_sample out = {0};
    unsigned min = random_below(&random_state, 3);
    switch (random_below(&random_state, 6)) {
    case 0:
        out.id = expression_concat(pool, a->id, b->id);
        concat_languages(a, b, out.language);
        return out;
    case 1:
        out.id = expression_either(pool, a->id, b->id);
        for (int i = 0; i < N_TEXTS; i++)
            out.language[i] = a->language[i] || b->language[i];
        return out;
    case 2:
        out.id = expression_both(pool, a->id, b->id);
        for (int i = 0; i < N_TEXTS; i++)
            out.language[i] = a->language[i] && b->language[i];
        return out;
    case 3:
        out.id = expression_complement(pool, a->id);
        for (int i = 0; i < N_TEXTS; i++)
            out.language[i] = !a->language[i];
        return out;
    case 4:
        return repeat_sample(pool, a, min, min + random_below(&random_state, 3));
    default:
        return repeat_sample(pool, a, min, EXPRESSION_UNBOUNDED);
    }
}

TEST(derivatives_match_what_enumeration_finds)
{
    for (unsigned seed = 0; seed < 300; seed++) {
        random_state = seed;
        struct expressions *pool = expressions_create(NULL);
        struct expression_sample parts[PARTS];
        for (int i = 0; i < PARTS; i++)
            parts[i] = i < 4 ? random_letter(pool)
                             : combine(pool, &parts[random_below(&random_state, i)],
                                       &parts[random_below(&random_state, i)]);
        const struct expression_sample *sample = &parts[PARTS - 1];
        bool any = false;
        for (int text = 0; text < N_TEXTS; text++) {
            static const char *const letters[] = {"a", "b", "\xC3\xA9"};
            char spelled[2 * TEXT_MAX + 1] = "";
            int indices[TEXT_MAX], length = text_length(text, indices);
            for (int i = 0; i < length; i++)
                strcat(spelled, letters[indices[i]]);
            if (expression_matches(pool, sample->id, text_from_string(spelled)) != sample->language[text])
                fail_msg("seed %u, text %s", seed, spelled);
            any |= sample->language[text];
        }
        if (any)
            assert_false(expression_is_empty_language(pool, sample->id));
        assert_int_equal(expressions_status(pool, NULL), STATUS_OK);
        expressions_destroy(pool);
    }
}

TEST(what_matches_nothing_is_found)
{
    struct expressions *pool = expressions_create(NULL);
    uint32_t a = expression_literal(pool, TEXT("a"));
    uint32_t two = expression_repeat(pool, a, 2, 2),
             odd = expression_concat(pool, a, expression_repeat(pool, two, 0, EXPRESSION_UNBOUNDED));
    uint32_t even = expression_repeat(pool, two, 0, EXPRESSION_UNBOUNDED);
    assert_true(expression_is_empty_language(pool, expression_both(pool, odd, even)));
    assert_true(expression_is_empty_language(pool, EXPRESSION_NOTHING));
    assert_false(expression_is_empty_language(pool, odd));
    assert_false(
        expression_is_empty_language(pool, expression_both(pool, odd, expression_complement(pool, a))));
    assert_int_equal(expressions_status(pool, NULL), STATUS_OK);
    expressions_destroy(pool);
}

static enum status search_through(uint64_t limit, bool knows_the_rest)
{
    struct grammar_limits limits = grammar_limits_default;
    limits.values[GRAMMAR_LIMIT_SEARCH] = limit;
    struct expressions *pool = expressions_create(&limits);
    uint32_t a = expression_literal(pool, TEXT("a")), long_text = expression_repeat(pool, a, 50, 60);
    uint32_t both =
        expression_both(pool, expression_complement(pool, expression_literal(pool, TEXT("b"))), long_text);
    uint32_t from[51] = {both};
    for (int i = 1; i <= 50; i++)
        from[i] = expression_both(pool, EXPRESSION_ALL,
                                  expression_repeat(pool, a, 50 - (uint32_t)i, 60 - (uint32_t)i));
    for (int i = 50; i > 0 && knows_the_rest; i--)
        assert_false(expression_is_empty_language(pool, from[i]));
    assert_false(expression_is_empty_language(pool, both));
    enum status status = expressions_status(pool, NULL);
    expressions_destroy(pool);
    return status;
}

TEST(a_search_ends_at_its_limit_whatever_is_known)
{
    for (int known = 0; known < 2; known++) {
        assert_int_equal(search_through(10000, known), STATUS_OK);
        assert_int_equal(search_through(1, known), STATUS_REJECT);
    }
}

// n letters that are not n + 1: a state for each letter.
static enum status search_states(const struct grammar_limits *limits, uint32_t n)
{
    struct expressions *pool = expressions_create(limits);
    uint32_t a = expression_literal(pool, TEXT("a"));
    uint32_t longer = expression_complement(pool, expression_repeat(pool, a, n + 1, n + 1));
    assert_false(
        expression_is_empty_language(pool, expression_both(pool, longer, expression_repeat(pool, a, n, n))));
    enum status status = expressions_status(pool, NULL);
    expressions_destroy(pool);
    return status;
}

TEST(a_search_may_look_at_20000_states_by_default)
{
    struct grammar_limits limits = grammar_limits_default;
    limits.values[GRAMMAR_LIMIT_SEARCH] = 100;
    uint32_t most = 1;
    while (most < 200 && search_states(&limits, most + 1) == STATUS_OK)
        most++;
    assert_in_range(most, 95, 105);
    uint32_t by_default = most + 20000 - 100;
    assert_int_equal(search_states(&grammar_limits_default, by_default), STATUS_OK);
    assert_int_equal(search_states(&grammar_limits_default, by_default + 1), STATUS_REJECT);
}

// Whether a sequence of n symbols and its terminal stay within this number of nodes and children.
static enum status add_sequence(uint64_t limit, size_t n, size_t *n_added)
{
    struct grammar_limits limits = grammar_limits_default;
    limits.values[GRAMMAR_LIMIT_RULES] = limit;
    struct rules *rules = rules_create(&limits);
    uint32_t symbols[16], terminal = rules_literal(rules, TEXT("a"));
    for (size_t i = 0; i < n; i++)
        symbols[i] = terminal;
    rules_sequence(rules, symbols, n);
    *n_added = rules->nodes.n + rules->children.n;
    struct error error;
    enum status status = rules_status(rules, &error);
    if (status != STATUS_OK)
        assert_memory_equal(error.text, "grammar_rules: ", 15);
    rules_destroy(rules);
    return status;
}

TEST(symbols_and_their_parts_are_counted_together_up_to_the_limit)
{
    for (size_t n = 2; n <= 16; n++) {
        size_t n_added, n_again;
        assert_int_equal(add_sequence(1000, n, &n_added), STATUS_OK);
        assert_int_equal(add_sequence(n_added, n, &n_again), STATUS_OK);
        assert_int_equal(n_again, n_added);
        assert_int_equal(add_sequence(n_added - 1, n, &n_again), STATUS_REJECT);
    }
}

TEST(one_of_many_texts_matches_each_alone)
{
    struct expressions *pool = expressions_create(NULL);
    struct text texts[] = {TEXT("tops"),
                           TEXT("top"),
                           TEXT("taps"),
                           TEXT("tap"),
                           TEXT(""),
                           TEXT("top"),
                           TEXT("\xC3\xA9t\xC3\xA9"),
                           TEXT("\xC3\xA8t\xC3\xA9")};
    size_t n = sizeof texts / sizeof texts[0];
    uint32_t id = expression_texts(pool, texts, n);
    for (size_t i = 0; i < n; i++)
        assert_true(expression_matches(pool, id, texts[i]));
    static const char *const others[] = {"t", "to", "topss", "s", "\xC3\xA9t", "tip"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        assert_false(expression_matches(pool, id, text_from_string(others[i])));
    assert_int_equal(expression_texts(pool, texts, 0), EXPRESSION_NOTHING);
    expressions_destroy(pool);
}

// A letter is a position; the limit of a grammar's size counts them.
TEST(positions_are_those_of_all_parts)
{
    struct expressions *pool = expressions_create(NULL);
    uint32_t ab = expression_literal(pool, TEXT("ab")), xyz = expression_literal(pool, TEXT("xyz"));
    assert_int_equal(expression_positions(pool, EXPRESSION_EMPTY), 0);
    assert_int_equal(expression_positions(pool, set_of(pool, 'a', 'z')), 1);
    assert_int_equal(expression_positions(pool, ab), 2);
    assert_int_equal(expression_positions(pool, expression_concat(pool, ab, xyz)), 5);
    assert_int_equal(expression_positions(pool, expression_either(pool, ab, xyz)), 5);
    uint32_t many[] = {expression_concat(pool, expression_complement(pool, ab), xyz),
                       expression_concat(pool, expression_complement(pool, xyz), ab)};
    assert_int_equal(expression_positions(pool, many[0]), 5);
    assert_int_equal(expression_positions(pool, expression_both(pool, many[0], many[1])), 10);
    assert_int_equal(expression_positions(pool, expression_complement(pool, xyz)), 3);
    assert_int_equal(expression_positions(pool, expression_repeat(pool, xyz, 2, 7)), 21);
    assert_int_equal(expression_positions(pool, expression_repeat(pool, xyz, 2, EXPRESSION_UNBOUNDED)), 6);
    assert_int_equal(expression_positions(pool, expression_repeat(pool, xyz, 0, EXPRESSION_UNBOUNDED)), 3);
    uint32_t large = expression_repeat(pool, xyz, 0, UINT32_MAX / 3);
    assert_true(expression_positions(pool, large) == UINT32_MAX);
    assert_true(expression_positions(pool, expression_concat(pool, large, ab)) == UINT32_MAX);
    assert_true(expression_positions(pool, expression_repeat(pool, large, 0, 2)) == UINT32_MAX);
    expressions_destroy(pool);
}

TEST(a_pool_at_its_limit_says_which)
{
    for (int over = 0; over < 2; over++) {
        struct grammar_limits limits = grammar_limits_default;
        limits.values[GRAMMAR_LIMIT_NODES] =
            4 + 6; // of the pool itself, and three letters with what follows them
        struct expressions *pool = expressions_create(&limits);
        expression_literal(pool, over ? TEXT("abcd") : TEXT("abc"));
        struct error error;
        enum status status = expressions_status(pool, &error);
        assert_int_equal(status, over ? STATUS_REJECT : STATUS_OK);
        if (over)
            assert_string_equal(error.text, "grammar_nodes: more than 10");
        expressions_destroy(pool);
    }
}
