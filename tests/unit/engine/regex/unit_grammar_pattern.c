// Patterns: what they match, what is refused and by which name, and the limits.
#include "engine/regex/expression.h"
#include "tests/support/cases.h"

struct pattern_case {
    enum pattern_dialect dialect;
    const char *pattern;
    const char *matches[6], *others[6]; // NULL ends
};

static const struct pattern_case cases[] = {
    {PATTERN_SEARCH, "b+", {"b", "abba", "xb\n"}, {"", "a"}},
    {PATTERN_SEARCH, "^a", {"a", "ab"}, {"", "ba"}},
    {PATTERN_SEARCH, "a$", {"a", "ba"}, {"", "ab", "a\n"}},
    {PATTERN_SEARCH, "^$", {""}, {"a", "\n"}},
    {PATTERN_SEARCH, "^a|b$", {"ax", "xb", "a"}, {"xa", "bx", ""}},
    {PATTERN_SEARCH, "(^|-)x", {"x", "a-x", "xa"}, {"ax", "-"}},
    {PATTERN_SEARCH, "x(-|$)", {"x", "x-a", "ax"}, {"xa"}},
    {PATTERN_SEARCH, "a^b", {NULL}, {"ab", "a", "b", ""}},
    {PATTERN_SEARCH, "a*^b", {"b", "ba"}, {"ab", "a", ""}},
    {PATTERN_SEARCH, "^(?!ab)", {"", "a", "ba"}, {"ab", "abc"}},
    {PATTERN_SEARCH, "^(?=.*\\d)(?=.*[a-z]).{3,5}$", {"a1b", "11a1"}, {"a1", "111", "abc", "a1b2c3"}},
    {PATTERN_SEARCH, "^(?!.*--)[a-z-]+$", {"a-b", "-"}, {"a--b", "--", ""}},
    {PATTERN_SEARCH, "a(?!b)", {"a", "aba", "ac"}, {"ab", "b"}},
    {PATTERN_SEARCH, "\\bcat\\b", {"cat", "a cat.", "cat-x"}, {"cats", "concat", "_cat"}},
    {PATTERN_SEARCH, "^\\w+\\b-\\B-", {"ab--"}, {"ab-c", "--"}},
    {PATTERN_SEARCH, "^[\\w.-]+$", {"a.b-c_1"}, {"a b", "\xC3\xA9"}},
    {PATTERN_SEARCH, "^[^\\d\\s]$", {"a", "\xC3\xA9"}, {"1", " ", "\xC2\xA0"}},
    {PATTERN_SEARCH, "^.$", {"a", "\xF0\x9F\x98\x80"}, {"\n", "\r", "\xE2\x80\xA8", "ab"}},
    {PATTERN_SEARCH, "^\\u00e9\\u{1F600}\\ud83d\\ude00\\x41\\cA\\0$", {NULL}, {"\xC3\xA9"}},
    {PATTERN_SEARCH,
     "^\\u00e9\\u{1F600}\\ud83d\\ude00\\x41\\cA$",
     {"\xC3\xA9\xF0\x9F\x98\x80\xF0\x9F\x98\x80"
      "A\x01"},
     {""}},
    {PATTERN_SEARCH, "^[a\\-z]{2}$", {"a-", "zz"}, {"b-", "a"}},
    {PATTERN_SEARCH, "^[b-\\ud7ff]$", {"b", "c", "\xED\x9F\xBF"}, {"-", "a", "\xEE\x80\x80"}},
    {PATTERN_SEARCH, "^[b-\xED\x9F\xBF]$", {"b", "c", "\xED\x9F\xBF"}, {"-", "a", "\xEE\x80\x80"}},
    {PATTERN_SEARCH, "^[\\u{d7ff}-\\ue000]$", {"\xED\x9F\xBF", "\xEE\x80\x80"}, {"-", "\xEE\x80\x81"}},
    {PATTERN_SEARCH, "^[\\ud7ff-\\ud7ff]$", {"\xED\x9F\xBF"}, {"-", "\xED\x9F\xBE", "\xEE\x80\x80"}},
    {PATTERN_SEARCH, "^[^\\0-\\ud7ff]$", {"\xEE\x80\x80"}, {"-", "a", "\xED\x9F\xBF"}},
    {PATTERN_SEARCH, "^[^\\ue000-\\u{10ffff}]$", {"\xED\x9F\xBF", "-"}, {"\xEE\x80\x80"}},
    {PATTERN_SEARCH, "^[^\\ud7ff]$", {"\xED\x9F\xBE", "\xEE\x80\x80"}, {"\xED\x9F\xBF"}},
    {PATTERN_SEARCH, "^[\\ud7ff-]$", {"\xED\x9F\xBF", "-"}, {"\xEE\x80\x80"}},
    {PATTERN_SEARCH, "^[]a$", {NULL}, {"a", "]", ""}}, // [] is the empty class
    {PATTERN_SEARCH, "^[^]$", {"a", "\n"}, {"", "ab"}},
    {PATTERN_SEARCH, "^a{2}$", {"aa"}, {"a", "aaa"}},
    {PATTERN_SEARCH, "^(a|bc){1,2}?$", {"a", "bca"}, {"", "aaa"}},
    {PATTERN_SEARCH, "^(?:(?:^|,)a){2}$", {"a,a", ",a,a"}, {"aa", "a"}},
    {PATTERN_SEARCH, "", {"", "a"}, {NULL}},
    {PATTERN_WHOLE, "b+", {"b", "bb"}, {"", "abba"}},
    {PATTERN_WHOLE, "[b-\\U0000d7ff]", {"c", "\xED\x9F\xBF"}, {"-", "\xEE\x80\x80"}},
    {PATTERN_WHOLE, "^b|c$", {"b", "c"}, {"bc", ""}},
    {PATTERN_WHOLE, "(?<year>\\d{4})-(?P<m>\\d\\d)", {"2024-01"}, {"2024-1", "x2024-01"}},
    {PATTERN_WHOLE, "(?<AZaz_$09\xC3\xA9>b)", {"b"}, {"a", ""}},
    {PATTERN_WHOLE, "a\\/b\\.c\\_d", {"a/b.c_d"}, {"a/bxc_d"}},
};

TEST(patterns_match_what_they_say)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct expressions *pool = expressions_create(NULL);
        struct error error;
        uint32_t id;
        if (expression_parse(pool, text_from_string(cases[i].pattern), cases[i].dialect, &id, &error) !=
            STATUS_OK)
            fail_msg("%s: %s", cases[i].pattern, error.text);
        for (size_t k = 0; k < 6 && cases[i].matches[k]; k++)
            if (!expression_matches(pool, id, text_from_string(cases[i].matches[k])))
                fail_msg("%s should match '%s'", cases[i].pattern, cases[i].matches[k]);
        for (size_t k = 0; k < 6 && cases[i].others[k]; k++)
            if (expression_matches(pool, id, text_from_string(cases[i].others[k])))
                fail_msg("%s should not match '%s'", cases[i].pattern, cases[i].others[k]);
        assert_int_equal(expressions_status(pool, NULL), STATUS_OK);
        expressions_destroy(pool);
    }
}

static void refused_as(const char *pattern, const char *expected)
{
    struct expressions *pool = expressions_create(NULL);
    struct error error = {0};
    uint32_t id;
    assert_int_equal(expression_parse(pool, text_from_string(pattern), PATTERN_SEARCH, &id, &error),
                     STATUS_REJECT);
    assert_string_equal(error.text, expected);
    assert_int_equal(id, EXPRESSION_NOTHING);
    expressions_destroy(pool);
}

TEST(what_is_not_regular_or_wrong_is_refused_by_name)
{
    refused_as("(a)\\1", "pattern, byte 4: backreferences (\\1) are not regular");
    refused_as("(?<=a)b", "pattern, byte 1: look-behind assertions are not supported");
    refused_as("\\p{L}", "pattern, byte 1: Unicode property classes (\\p) are not supported");
    refused_as("(?i)a", "pattern, byte 1: groups that begin with (?i are not supported");
    refused_as("(?i", "pattern, byte 1: groups that begin with (?i are not supported");
    refused_as("(?i\x7F", "pattern, byte 1: groups that begin with (?i are not supported");
    refused_as("(?~", "pattern, byte 1: groups that begin with (?~ are not supported");
    refused_as("(?", "pattern, byte 1: groups that begin with (?  are not supported");
    refused_as("(? a", "pattern, byte 1: groups that begin with (?  are not supported");
    refused_as("(?\x7F", "pattern, byte 1: groups that begin with (?  are not supported");
    refused_as("(?\xC3\xA4", "pattern, byte 1: groups that begin with (?  are not supported");
    refused_as("(?<!a)b", "pattern, byte 1: look-behind assertions are not supported");
    refused_as("(?<>a)", "pattern, byte 3: a group's name is not closed");
    refused_as("(?<a", "pattern, byte 3: a group's name is not closed");
    refused_as("(?P<a", "pattern, byte 4: a group's name is not closed");
    refused_as("(?<a->b)", "pattern, byte 3: a group's name has a character that names don't have");
    refused_as("(?<[>b)", "pattern, byte 3: a group's name has a character that names don't have");
    refused_as("(?<`>b)", "pattern, byte 3: a group's name has a character that names don't have");
    refused_as("(?<{>b)", "pattern, byte 3: a group's name has a character that names don't have");
    refused_as("(?</>b)", "pattern, byte 3: a group's name has a character that names don't have");
    refused_as("(?<:>b)", "pattern, byte 3: a group's name has a character that names don't have");
    refused_as("((?!a).)*", "pattern, byte 9: assertions inside an unbounded repetition are not supported");
    refused_as("(a", "pattern, byte 2: a group is not closed");
    refused_as("a)", "pattern, byte 1: a group is closed that was not opened");
    refused_as("[a", "pattern, byte 2: a class is not closed");
    refused_as("a**", "pattern, byte 2: nothing to repeat");
    refused_as("a{2,1}", "pattern, byte 6: {2,1} has its numbers out of order");
    refused_as("[z-a]", "pattern, byte 4: range out of order in a class");
    refused_as("[\\ud7ff-a]", "pattern, byte 9: range out of order in a class");
    refused_as("[\\ue000-\\ud7ff]", "pattern, byte 14: range out of order in a class");
    refused_as("[a-\\ud800]", "pattern, byte 9: a lone surrogate (\\ud800) is no character");
    refused_as("\\", "pattern, byte 1: ends in a backslash");
    refused_as("\\ud800", "pattern, byte 6: a lone surrogate (\\ud800) is no character");
    refused_as("\\q", "pattern, byte 1: unknown escape \\q");
    refused_as("\xFF", "pattern, byte 0: not UTF-8");
}

static enum status parse_repeated(const char *opening, const char *middle, const char *closing, size_t n,
                                  struct error *error)
{
    struct buffer pattern = {0};
    for (size_t i = 0; i < n; i++)
        buffer_add_string(&pattern, opening);
    buffer_add_string(&pattern, middle);
    for (size_t i = 0; i < n; i++)
        buffer_add_string(&pattern, closing);
    struct expressions *pool = expressions_create(NULL);
    uint32_t id;
    enum status status =
        expression_parse(pool, (struct text){pattern.data, pattern.size}, PATTERN_SEARCH, &id, error);
    expressions_destroy(pool);
    buffer_finish(&pattern);
    return status;
}

TEST(hostile_patterns_end_at_a_named_limit)
{
    struct error error;
    assert_ok(parse_repeated("(", "a", "){1,20}", 3, &error), &error);
    assert_int_equal(parse_repeated("(", "a", "){1,1000}", 3, &error), STATUS_REJECT);
    assert_string_equal(error.text, "grammar_positions: more than 1000000");
    assert_ok(parse_repeated("(", "ab", ")", 100, &error), &error);
    assert_int_equal(parse_repeated("(", "ab", ")", 1000, &error), STATUS_REJECT);
    assert_string_equal(error.text, "grammar_depth: more than 200");
    assert_ok(parse_repeated("a?", "", "", 90, &error), &error);
    assert_int_equal(parse_repeated("a?", "", "", 1000, &error), STATUS_REJECT);
    assert_string_equal(error.text, "grammar_depth: more than 200");
    assert_ok(parse_repeated("x", "", "", 1000, &error), &error);
    assert_int_equal(parse_repeated("0123456789", "", "", 1 << 20, &error), STATUS_REJECT);
    assert_string_equal(error.text, "grammar_source_bytes: more than 1048576");
    assert_int_equal(parse_repeated("(?:(?!a)", "b", "){0,9}", 30, &error), STATUS_REJECT);
    assert_string_equal(error.text, "grammar_work: more than 5000000");
}
