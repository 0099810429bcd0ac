// The dialects of patterns: a regex is Python's re.fullmatch with flag re.ASCII, a schema's `pattern` is
// ECMA-262's with flag u. Each row has the verdicts in both, or the refusal. A verdict is CPython 3.11's and
// node 20's where these compile the pattern (but for \B in an empty text, which is Python 3.14's); where they
// refuse it, it is the only meaning that others give it.
#include "engine/regex/expression.h"
#include "tests/support/cases.h"

struct dialect_case {
    const char *pattern, *texts[8]; // NULL ends
    // A digit a text, 1 where it matches; else the refusal's text. `search` is NULL where both have the same.
    const char *whole, *search;
};

#define CLOSES_NO_CLASS "a ] that closes no class: a ] is no character of a class unless it is written \\]"
#define OPENS_A_CLASS   "a [ in a class is a character to Python and a class to Rust: write \\["
#define MAY_BE_AN_OPERATOR                                                                                   \
    " in a class is two characters to Python and may be an operator to Rust: escape them"

static const struct dialect_case cases[] = {
    {"[^]]", {"a", "]", "^]", "a]"}, "1000", CLOSES_NO_CLASS},
    {"\\[[^]]*\\]", {"[a]", "[]", "[]]", "[a]]"}, "1100", CLOSES_NO_CLASS},
    {"[]a]", {"]", "a", "a]", "[]a]"}, "1100", CLOSES_NO_CLASS},
    {"[^]", {"a", "\n", "^", ""}, "a class is not closed", "1110"},
    {"[]", {"", "[]"}, "a class is not closed", "00"},
    {"[]]", {"]", "[]]"}, "10", CLOSES_NO_CLASS},
    {"[^]^]", {"]", "^", "a"}, "001", CLOSES_NO_CLASS},
    {"\\d{,2}", {"", "1", "12", "123", "1{,2}"}, "11100", "a repetition without a minimum: write {0,n}"},
    {"a{,}", {"", "aaa", "a{,}"}, "110", "a repetition without a minimum: write {0,n}"},
    {"a{}", {"a", "a{}"}, "01"},
    {"a{x}", {"a{x}"}, "1"},
    {"{a}", {"{a}"}, "1"},
    {"a{1", {"a{1", "a"}, "10"},
    {"a}", {"a}"}, "1"},
    {"a]", {"a]"}, "1"},
    {"a{1, 2}", {"a", "aa", "a{1, 2}"}, "001"},
    {"{2}", {"{2}"}, "nothing to repeat"},
    {"{,2}", {"{,2}", ""}, "nothing to repeat"},
    {"a{2}{3}", {"aaaaaa"}, "nothing to repeat"},
    {"a{-1}", {"a{-1}"}, "1"},
    {"a{02}", {"aa"}, "1"},
    {"a\\Z", {"a", "a\n", "ab", "aZ"}, "1000", "unknown escape \\Z"},
    {"\\Aa\\z", {"a", "a\n", "ba", "Aaz"}, "1000", "unknown escape \\A"},
    {"a\\Z\\n", {"a\n"}, "0", "unknown escape \\Z"},
    {"(?=a\\Z)a", {"a"}, "1", "unknown escape \\Z"},
    {"a$\\s*", {"a", "a\n", "a\n\n", "a "}, "1100", "1000"},
    {"(a$|b)\\n?", {"a", "a\n", "b\n"}, "111", "101"},
    {"(?=a$)a\\n?", {"a", "a\n"}, "11", "10"},
    {"$", {"", "\n"}, "10", "11"},
    {"a^b", {"ab", "a\nb"}, "00"},
    {"\\s*^a", {"a", "\na"}, "10"},
    {"^*", {""}, "nothing to repeat"},
    {"$+", {""}, "nothing to repeat"},
    {"\\b?a", {"a"}, "nothing to repeat"},
    {"(^)?a", {"a"}, "1"},
    {"a*+", {"a"}, "possessive repetitions are not supported"},
    {"a++", {"a"}, "possessive repetitions are not supported"},
    {"a?+", {"a"}, "possessive repetitions are not supported"},
    {"a{1,2}+", {"a"}, "possessive repetitions are not supported"},
    {"(?>a|ab)c", {"ac", "abc"}, "groups that begin with (?> are not supported"},
    {"a*?", {"", "aa"}, "11"},
    {"a??", {"", "a"}, "11"},
    {"a**", {"a"}, "nothing to repeat"},
    {"a*??", {"a"}, "nothing to repeat"},
    {"(?i)a", {"A"}, "groups that begin with (?i are not supported"},
    {"(?i:a)", {"A"}, "groups that begin with (?i are not supported"},
    {"(?s).", {"\n"}, "groups that begin with (?s are not supported"},
    {"(?x) a", {"a"}, "groups that begin with (?x are not supported"},
    {"(?-i:a)", {"a"}, "groups that begin with (?- are not supported"},
    {"(?#c)a", {"a"}, "groups that begin with (?# are not supported"},
    {"(?m)^a$", {"a"}, "groups that begin with (?m are not supported"},
    {"(?P<n>a)", {"a"}, "1"},
    {"(?<n>a)", {"a"}, "1"},
    {"(?<1>a)", {"a"}, "1"},
    {"(?P<a-b>a)", {"a"}, "a group's name has a character that names don't have"},
    {"(?P<n>a)(?P=n)", {"aa"}, "groups that begin with (?P are not supported"},
    {"(?<n>a)\\k<n>", {"aa"}, "backreferences (\\k) are not regular"},
    {"(a)\\1", {"aa"}, "backreferences (\\1) are not regular"},
    {"(a)?(?(1)b|c)", {"ab", "c"}, "groups that begin with (?( are not supported"},
    {"(?<=a)b", {"b"}, "look-behind assertions are not supported"},
    {"a(?<!b)", {"a"}, "look-behind assertions are not supported"},
    {"\\p{L}", {"a"}, "Unicode property classes (\\p) are not supported"},
    {"\\pL", {"a"}, "Unicode property classes (\\p) are not supported"},
    {"\\P{L}", {"1"}, "Unicode property classes (\\P) are not supported"},
    {"\\u{41}", {"A"}, "1"},
    {"\\u{1F600}", {"\xF0\x9F\x98\x80"}, "1"},
    {"\\u0041", {"A"}, "1"},
    {"\\U0001F600", {"\xF0\x9F\x98\x80"}, "1", "unknown escape \\U"},
    {"\\U00110000", {"a"}, "\\U needs the eight hexadecimal digits of a character", "unknown escape \\U"},
    {"\\ud83d\\ude00", {"\xF0\x9F\x98\x80"}, "a lone surrogate (\\ud83d) is no character", "1"},
    {"\\ud83d", {"\xF0\x9F\x98\x80"}, "a lone surrogate (\\ud83d) is no character"},
    {"[\\ud83d\\ude00]", {"\xF0\x9F\x98\x80"}, "a lone surrogate (\\ud83d) is no character", "1"},
    {"\\x41", {"A"}, "1"},
    {"\\x{41}", {"A"}, "\\x needs two hexadecimal digits"},
    {"\\x4", {"\x04"}, "\\x needs two hexadecimal digits"},
    {"\\N{BULLET}", {"\xE2\x80\xA2"}, "unknown escape \\N"},
    {"\\101", {"A"}, "backreferences (\\1) are not regular"},
    {"[\\1]", {"\x01"}, "octal escapes (\\1) are not supported"},
    {"[\\101]", {"A"}, "octal escapes (\\1) are not supported"},
    {"[a&&b]", {"a", "&", "b"}, "&&" MAY_BE_AN_OPERATOR, "111"},
    {"[a--b]", {"a", "-"}, "--" MAY_BE_AN_OPERATOR, "range out of order in a class"},
    {"[--a]", {"-", "0", "a"}, "--" MAY_BE_AN_OPERATOR, "111"},
    {"[+--]", {"+", ",", "-"}, "--" MAY_BE_AN_OPERATOR, "111"},
    {"[a~~b]", {"a", "~"}, "~~" MAY_BE_AN_OPERATOR, "11"},
    {"[a||b]", {"a", "|"}, "||" MAY_BE_AN_OPERATOR, "11"},
    {"[&-]", {"&", "-"}, "11"},
    {"[a&b-]", {"a", "&", "-"}, "111"},
    {"[a\\-\\-b]", {"-", "a"}, "11"},
    {"[!--a]", {"!", "-"}, "--" MAY_BE_AN_OPERATOR, "11"},
    {"[[:alpha:]]", {"a", ":", "a]"}, OPENS_A_CLASS, CLOSES_NO_CLASS},
    {"[[a]b]", {"a", "b", "[", "ab]"}, OPENS_A_CLASS, CLOSES_NO_CLASS},
    {"[^[]", {"a", "["}, OPENS_A_CLASS, "10"},
    {"[[]", {"["}, OPENS_A_CLASS, "1"},
    {"[a-[]", {"a"}, OPENS_A_CLASS, "range out of order in a class"},
    {"[Z-[]", {"[", "Z"}, OPENS_A_CLASS, "11"},
    {"[\\[\\]]", {"[", "]"}, "11"},
    {"[\\w-.]", {"a", "-", "."}, "111"},
    {"[a-\\d]", {"a", "-", "1"}, "111"},
    {"[z-a]", {"a"}, "range out of order in a class"},
    {"[a-b-c]", {"a", "b", "c", "-"}, "1111"},
    {"[a-]", {"a", "-"}, "11"},
    {"[-a]", {"a", "-"}, "11"},
    {"[^-a]", {"b", "-"}, "10"},
    {"[a^]", {"^"}, "1"},
    {"\\w", {"a", "_", "\xC3\xA9", "\xD9\xA1"}, "1100"},
    {"\\W", {"a", "\xC3\xA9", "\xD9\xA1"}, "011"},
    {"\\d", {"1", "\xD9\xA1"}, "10"},
    {"\\D", {"1", "\xD9\xA1"}, "01"},
    {"\\s",
     {" ", "\x0B", "\x1C", "\xC2\x85", "\xC2\xA0", "\xEF\xBB\xBF", "\xE2\x80\xA8"},
     "1100000",
     "1100111"},
    {"\\S", {"\xC2\xA0", " ", "a"}, "101", "001"},
    {"[\\w\\s]", {"\xC2\xA0", "a", " "}, "011", "111"},
    {"\\ba\\b",
     {"a", "\xC3\xA9"
           "a"},
     "10",
     "11"},
    {"\xC3\xA9\\b.",
     {"\xC3\xA9"
      "a",
      "\xC3\xA9\xC3\xA9"},
     "10"},
    {"\xC3\xA9\\B.",
     {"\xC3\xA9"
      "a",
      "\xC3\xA9\xC3\xA9"},
     "01"},
    {"a\\b{start}", {"a", "a{start}"}, "braces after \\b are not supported"},
    {"[\\b]", {"\x08"}, "1"},
    {"\\<a\\>", {"a", "<a>"}, "\\< is a character to Python and a word's boundary to Rust: write <", "01"},
    {"[\\<]", {"<"}, "1"},
    {".", {"a", "\n", "\x0D", "\xE2\x80\xA8", "\xC2\x85"}, "10111", "10001"},
    {"\\a", {"\x07"}, "1", "unknown escape \\a"},
    {"\\e", {"\x1B"}, "unknown escape \\e"},
    {"\\cA", {"\x01"}, "1"},
    {"\\v", {"\x0B"}, "1"},
    {"\\h", {" "}, "unknown escape \\h"},
    {"\\R", {"\n"}, "unknown escape \\R"},
    {"\\Qa\\E", {"a"}, "unknown escape \\Q"},
    {"\\_\\-\\ \\#\\\"\\'\\@", {"_- #\"'@"}, "1"},
    {"\\/", {"/"}, "1"},
    {"\\\xC3\xA9", {"\xC3\xA9"}, "1"},
    {"a|", {"a", ""}, "11"},
    {"()", {""}, "1"},
    {"(|a)b", {"b", "ab"}, "11"},
    {"a{0}", {"", "a"}, "10", "11"},
    {"a{2,1}", {"aa"}, "{2,1} has its numbers out of order"},
    {"\\01", {"a"}, "octal escapes (\\0) are not supported"},
    {"\\012", {"a"}, "octal escapes (\\0) are not supported"},
    {"[\\012]", {"a"}, "octal escapes (\\0) are not supported"},
    {"\\B", {"a"}, "0"},
};

static void check_case(const struct dialect_case *one, enum pattern_dialect dialect, const char *expected)
{
    struct expressions *pool = expressions_create(NULL);
    struct error error = {0};
    uint32_t id;
    char verdicts[9] = {0};
    const char *found = verdicts;
    if (expression_parse(pool, text_from_string(one->pattern), dialect, &id, &error) == STATUS_OK)
        for (size_t i = 0; i < 8 && one->texts[i]; i++)
            verdicts[i] = expression_matches(pool, id, text_from_string(one->texts[i])) ? '1' : '0';
    else
        found = strchr(error.text, ':') + 2;
    if (strcmp(found, expected) != 0)
        fail_msg("%s, %s: %s, expected %s", one->pattern, dialect == PATTERN_WHOLE ? "regex" : "pattern",
                 found, expected);
    expressions_destroy(pool);
}

TEST(a_regex_is_as_python_has_it_or_refused)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_case(&cases[i], PATTERN_WHOLE, cases[i].whole);
}

TEST(a_schemas_pattern_is_as_ecma_262_has_it_or_refused)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_case(&cases[i], PATTERN_SEARCH, cases[i].search ? cases[i].search : cases[i].whole);
}
