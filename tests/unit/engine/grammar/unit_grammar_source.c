// Grammars as text: what GBNF, Lark, regexes and choices accept, what is refused and by which name, and the
// limits.
#include "tests/support/matched_grammar.h"

#include <malloc.h>

typedef enum status compile_function(struct grammar **, struct text, const struct grammar_limits *,
                                     struct error *);

struct source_case {
    compile_function *compile;
    const char *source;
    const char *matches[6], *others[6]; // NULL ends
};

static const struct source_case cases[] = {
    {grammar_compile_gbnf,
     "root ::= \"a\"{ 2 } \"b\"{ 1 , } \"c\"{ , 2 } \"d\"{ 1 , 2 }",
     {"aabd", "aabbccdd"},
     {"abd", "aaabd", "aad", "aabcccd", "aab", "aabddd"}},
    {grammar_compile_gbnf, "root ::= \"a\"{\t3\t}", {"aaa"}, {"", "aa", "aaaa"}},
    {grammar_compile_gbnf, "root ::= \"a\" | \"b\" \"c\"", {"a", "bc"}, {"", "ac", "b"}},
    {grammar_compile_gbnf,
     "# arithmetic\nroot  ::= (expr \"=\" ws term \"\\n\")+\nexpr  ::= term ([-+*/] term)*\n"
     "term  ::= ident | num | \"(\" ws expr \")\" ws\nident ::= [a-z] [a-z0-9_]* ws\nnum   ::= [0-9]+ ws\nws "
     "   ::= [ \\t\\n]*\n",
     {"a=1\n", "(a+2)*b = 3\n", "x1=2\ny=3\n"},
     {"a=1", "a+=1\n", "(a=1\n"}},
    {grammar_compile_gbnf,
     "root ::= a{2} b{1,} c{,2}\na ::= \"a\"\nb ::= \"b\"\nc ::= \"c\"",
     {"aab", "aabbcc"},
     {"ab", "aa", "aabccc"}},
    {grammar_compile_gbnf, "root ::= list\nlist ::= \"x\" list | \"\"", {"", "x", "xxxx"}, {"y", "xy"}},
    {grammar_compile_gbnf, "root ::= root \"a\" | root root | \"b\"", {"b", "baab", "bb"}, {"a", ""}},
    {grammar_compile_gbnf,
     "root ::= [^\"\\\\\\]] . \"\\x41\\u00e9\\U0001F600\"",
     {"ab"
      "A\xC3\xA9\xF0\x9F\x98\x80"},
     {"]bA\xC3\xA9\xF0\x9F\x98\x80"}},
    {grammar_compile_gbnf, "root ::= [b-\\ud7ff]", {"c", "\xED\x9F\xBF"}, {"-", "a", "\xEE\x80\x80"}},
    {grammar_compile_gbnf, "root ::= (\n  \"a\" |\n  \"b\"\n)?\n  \"c\"\n", {"ac", "c"}, {"ab"}},
    {grammar_compile_lark, "start: \"a\" B* | /c+/ -> c\nB: \"b\"i", {"a", "abBb", "cc"}, {"", "ba", "ac"}},
    {grammar_compile_lark,
     "%import common.SIGNED_NUMBER\n%import common.ESCAPED_STRING -> STRING\n%import common (WS, "
     "DIGIT)\n%ignore WS\n"
     "?start: value\n?value: object | array | STRING | SIGNED_NUMBER -> number\n"
     "     | \"true\" -> true // and so on\n     | \"null\"\n"
     "array : \"[\" [value (\",\" value)*] \"]\"\nobject: \"{\" [pair (\",\" pair)*] \"}\"\npair: STRING "
     "\":\" value\n",
     {"{}", " {\"a\" : [1, -2.5e3,\n null], \"b\\\"\":{} } ", "[true]"},
     {"", "{\"a\"}", "[1,]", "tru e", "\"a"}},
    {grammar_compile_lark,
     "start: \"a\"..\"c\" ~ 2..3 D\nD.2: C~2 | \"x\"\nC: \"0\"..\"9\"",
     {"ab12", "abcx"},
     {"a12", "ab1", "ad12"}},
    {grammar_compile_lark, "start: (\"a\"\n  | \"b\")+\n", {"a", "ba"}, {"", "c"}},
    {grammar_compile_lark,
     "start: (\"(\"\n  | x) [\"[\"\n  \"d\"] \"]\" x\nx: \"b\"",
     {"(]b", "b[d]b"},
     {"(", "b[]b", "[d]b"}},
    {grammar_compile_lark, "start: /[b-\\ud7ff]/", {"c", "\xED\x9F\xBF"}, {"-", "a", "\xEE\x80\x80"}},
    {grammar_compile_lark, "start: \"b\"..\"\\ud7ff\"", {"c", "\xED\x9F\xBF"}, {"-", "a", "\xEE\x80\x80"}},
    {grammar_compile_lark, "%llguidance {}\nstart: /[a-z]+@x/", {"q@x"}, {"@x"}},
    {grammar_compile_lark,
     "start: COMMENT\n%import common.C_COMMENT -> COMMENT",
     {"/**/", "/* a * b / */"},
     {"/* */ */", "/*/"}},
    {grammar_compile_regex, "^(yes|no)\\.$", {"yes.", "no."}, {"yes", "no.\n"}},
    {grammar_compile_regex, "[b-\\ud7ff]", {"c", "\xED\x9F\xBF"}, {"-", "a", "\xEE\x80\x80"}},
};

static void create_grammar(const struct source_case *of, struct grammar **grammar,
                           struct recognizer **recognizer)
{
    struct error error;
    if (of->compile(grammar, text_from_string(of->source), NULL, &error) != STATUS_OK)
        fail_msg("%s: %s", of->source, error.text);
    assert_ok(recognizer_create(recognizer, *grammar, NULL, &error), &error);
}

TEST(sources_match_what_they_say)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct grammar *grammar;
        struct recognizer *recognizer;
        create_grammar(&cases[i], &grammar, &recognizer);
        for (size_t k = 0; k < 6 && cases[i].matches[k]; k++)
            if (!accepts_text(recognizer, cases[i].matches[k]))
                fail_msg("%s should match '%s'", cases[i].source, cases[i].matches[k]);
        for (size_t k = 0; k < 6 && cases[i].others[k]; k++)
            if (accepts_text(recognizer, cases[i].others[k]))
                fail_msg("%s should not match '%s'", cases[i].source, cases[i].others[k]);
        recognizer_destroy(recognizer);
        grammar_destroy(grammar);
    }
}

static void refused_as(compile_function *compile, const char *source, const char *expected)
{
    struct grammar *grammar;
    struct error error = {0};
    assert_int_equal(compile(&grammar, text_from_string(source), NULL, &error), STATUS_REJECT);
    assert_string_equal(error.text, expected);
    assert_null(grammar);
}

TEST(what_is_wrong_is_refused_with_its_line)
{
    refused_as(grammar_compile_gbnf, "a ::= \"a\"", "line 1: no rule is named root");
    refused_as(grammar_compile_gbnf, "root ::= a\n", "line 2: rule a is not defined");
    refused_as(grammar_compile_gbnf, "root ::= \"a\"\nroot ::= \"b\"", "line 2: rule root is defined twice");
    refused_as(grammar_compile_gbnf, "root ::= (\"a\"", "line 1: a group is not closed");
    refused_as(grammar_compile_gbnf, "root ::= \"a\")", "line 1: a group is closed that was not opened");
    refused_as(grammar_compile_gbnf, "root ::= \"a", "line 1: a string is not closed");
    refused_as(grammar_compile_gbnf, "root ::= <think>",
               "line 1: references to tokens (<...>) are not supported");
    refused_as(grammar_compile_gbnf, "root ::= \"a\"{2,1}",
               "line 1: a repetition has its numbers out of order");
    refused_as(grammar_compile_gbnf, "root ::= root \"a\"", "the grammar matches no text");
    refused_as(grammar_compile_lark, "a: \"a\"", "line 1: no rule is named start");
    refused_as(grammar_compile_lark, "start: a", "line 1: a is not defined");
    refused_as(grammar_compile_lark, "start: A\nA: B\nB: A", "line 3: the terminal A is recursive");
    refused_as(grammar_compile_lark, "start: A\nA: start", "line 2: the rule start is used in a terminal");
    refused_as(grammar_compile_lark, "start: x{a}", "line 1: templates (name{...}) are not supported");
    refused_as(grammar_compile_lark, "start: %json {}",
               "line 1: grammars inside a rule (%...) are not supported");
    refused_as(grammar_compile_lark, "%declare A\nstart: A",
               "line 1: the directive %declare is not supported");
    refused_as(grammar_compile_lark, "%import python.NAME", "line 1: only common can be imported from");
    refused_as(grammar_compile_lark, "%import common.NAME", "line 1: common.NAME is not known");
    refused_as(grammar_compile_lark, "start: /a/i", "line 1: the flag i of a regex is not supported");
    refused_as(grammar_compile_lark, "start: \"a\"\n\nstart: /(/", "line 3: start is defined twice");
    refused_as(grammar_compile_lark, "start: \"a\"\n  /(/",
               "line 2: expected a definition (name: ...) or a directive (%...)");
    refused_as(grammar_compile_lark, "start: /(/", "line 1: pattern, byte 1: a group is not closed");
    static const char *const around[] = {"^a", "a$", "a\\b", "\\Aa", "a(?!b)", "(?=ab?)a", "(^)?a"};
    for (size_t i = 0; i < sizeof around / sizeof *around; i++) {
        char grammar[40], message[200];
        snprintf(grammar, sizeof grammar, "start: /%s/ \"b\"", around[i]);
        snprintf(
            message, sizeof message,
            "line 1: pattern, byte %zu: assertions (^, $, \\b, (?=...)) look at the text around a terminal: "
            "they are not supported in grammars",
            strlen(around[i]));
        refused_as(grammar_compile_lark, grammar, message);
    }
    refused_as(grammar_compile_lark, "start: <|end|>", "line 1: special tokens (<...>) are not supported");
    refused_as(grammar_compile_regex, "a(", "pattern, byte 2: a group is not closed");
}

TEST(choices_are_taken_whole)
{
    const struct text choices[] = {TEXT("positive"), TEXT("neg"), TEXT("negative"), TEXT("\xC3\xA9")};
    struct grammar *grammar;
    struct recognizer *recognizer;
    struct error error;
    assert_ok(grammar_compile_choice(&grammar, choices, 4, NULL, &error), &error);
    assert_ok(recognizer_create(&recognizer, grammar, NULL, &error), &error);
    assert_true(accepts_text(recognizer, "neg") && accepts_text(recognizer, "negative") &&
                accepts_text(recognizer, "\xC3\xA9"));
    assert_false(accepts_text(recognizer, "nega") || accepts_text(recognizer, "") ||
                 accepts_text(recognizer, "negpositive"));
    recognizer_destroy(recognizer);
    grammar_destroy(grammar);
    assert_int_equal(grammar_compile_choice(&grammar, choices, 0, NULL, &error), STATUS_REJECT);
    assert_string_equal(error.text, "the grammar matches no text");
    assert_int_equal(grammar_compile_choice(&grammar, &TEXT("\xFF"), 1, NULL, &error), STATUS_REJECT);
    assert_string_equal(error.text, "choice 0: not UTF-8");
}

static enum status compile_repeated(compile_function *compile, const char *before, const char *part, size_t n,
                                    const char *after, struct error *error)
{
    struct buffer source = {0};
    struct grammar *grammar;
    buffer_add_string(&source, before);
    for (size_t i = 0; i < n; i++)
        buffer_add_string(&source, part);
    buffer_add_string(&source, after);
    enum status status = compile(&grammar, (struct text){source.data, source.size}, NULL, error);
    grammar_destroy(grammar);
    buffer_finish(&source);
    return status;
}

TEST(hostile_sources_end_at_a_named_limit)
{
    struct error error;
    assert_int_equal(compile_repeated(grammar_compile_gbnf, "root ::= ", "(", 300, "", &error),
                     STATUS_REJECT);
    assert_string_equal(error.text, "grammar_depth: more than 200");
    assert_int_equal(compile_repeated(grammar_compile_lark, "start: ", "(", 300, "", &error), STATUS_REJECT);
    assert_string_equal(error.text, "grammar_depth: more than 200");
    assert_ok(compile_repeated(grammar_compile_gbnf, "root ::= \"\" ", "| \"word\" ", 20000, "", &error),
              &error);
    assert_int_equal(compile_repeated(grammar_compile_gbnf, "root ::= \"\" ", "| [a-z] root ", 150000, "",
                                      &error),
                     STATUS_REJECT);
    assert_string_equal(error.text, "grammar_source_bytes: more than 1048576");
    assert_ok(compile_repeated(grammar_compile_gbnf, "root ::= \"\" ", "|a a root ", 50000, "\na ::= \"a\"",
                               &error),
              &error);
    assert_int_equal(compile_repeated(grammar_compile_gbnf, "root ::= \"\" ", "|a{2}a{3}", 110000,
                                      "\na ::= \"a\"", &error),
                     STATUS_REJECT);
    assert_string_equal(error.text, "grammar_rules: more than 500000");
    assert_int_equal(compile_repeated(grammar_compile_gbnf, "root ::= ", "(\"ab\"{1,1000})?", 200, "",
                                      &error),
                     STATUS_REJECT);
}

// A text of `n` a's: whether matching it ends at a limit.
static enum status match_repeated(const char *gbnf, enum grammar_limit limit, uint64_t value, size_t n,
                                  struct error *error)
{
    struct grammar_limits limits = grammar_limits_default;
    struct grammar *grammar;
    struct matched_grammar matched;
    enum status status = STATUS_OK;
    limits.values[limit] = value;
    assert_ok(grammar_compile_gbnf(&grammar, text_from_string(gbnf), &limits, error), error);
    matched_open(&matched, grammar, NULL);
    for (size_t i = 0, n_accepted; i < n && status == STATUS_OK; i++)
        status = matcher_accept_bytes(&matched.matcher, TEXT("a"), &n_accepted, error);
    matched_close(&matched);
    return status;
}

TEST(a_state_too_large_ends_its_text_alone)
{
    struct error error;
    const char *ambiguous = "root ::= a | root root\na ::= \"a\"";
    assert_ok(match_repeated(ambiguous, GRAMMAR_LIMIT_STATE_ITEMS, 100, 20, &error), &error);
    assert_int_equal(match_repeated(ambiguous, GRAMMAR_LIMIT_STATE_ITEMS, 100, 200, &error), STATUS_REJECT);
    assert_string_equal(error.text, "grammar_state_items: more than 100");
    const char *counts = "root ::= [a-z]* \"a\" [a-z]{1000}"; // of one set: one term
    assert_ok(match_repeated(counts, GRAMMAR_LIMIT_STATE_TERMS, 100, 200, &error), &error);
    char many_terms[1000] = "root ::= [a-z]* \"a\"";
    for (int i = 0; i < 150; i++)
        strcat(many_terms, " [a-z]");
    assert_ok(match_repeated(many_terms, GRAMMAR_LIMIT_STATE_TERMS, 100, 90, &error), &error);
    assert_int_equal(match_repeated(many_terms, GRAMMAR_LIMIT_STATE_TERMS, 100, 200, &error), STATUS_REJECT);
    assert_string_equal(error.text, "grammar_state_terms: more than 100");
}

TEST(recursion_on_the_right_needs_no_more_for_long_texts)
{
    struct error error;
    assert_int_equal(
        match_repeated("root ::= \"a\" root | \"\"", GRAMMAR_LIMIT_STATE_ITEMS, 20, 5000, &error), STATUS_OK);
    assert_int_equal(
        match_repeated("root ::= root \"a\" | \"\"", GRAMMAR_LIMIT_STATE_ITEMS, 20, 5000, &error), STATUS_OK);
}

static size_t allocated_bytes(void)
{
    struct mallinfo2 information = mallinfo2();
    return information.uordblks + information.hblkhd;
}

// The cache of constraints is bounded by what its grammars say that they hold.
TEST(a_grammar_says_how_much_memory_it_holds)
{
    struct buffer rules = {0}, letters = {0}, classes = {0}, either = {0};
    buffer_add_string(&rules, "root ::= r0");
    buffer_add_string(&letters, "root ::= \"a\"");
    buffer_add_string(&classes, "root ::= [a-z]");
    buffer_add_string(&either, "a*");
    for (int i = 0; i < 400; i++) {
        buffer_add_format(&rules, "\nr%d ::= \"x%d\" r%d r%d | \"y\"", i, i, (i + 7) % 400, i * 3 % 400);
        buffer_add_format(&letters, " \"%d %d\"", i, i * i);
        buffer_add_format(&classes, " [%d%c-z%c]", i % 10, 'a' + i % 20, 'A' + i % 25);
        buffer_add_format(&either, "|%c%d*", 'a' + i % 26, i);
    }
    struct buffer *sources[] = {&rules, &letters, &classes, &either};
    size_t n_measured = 0;
    for (int i = 0; i < 4; i++) {
        struct grammar *grammar;
        struct error error;
        size_t before = allocated_bytes();
        struct text source = {sources[i]->data, sources[i]->size};
        compile_function *compile = i < 3 ? grammar_compile_gbnf : grammar_compile_regex;
        assert_ok(compile(&grammar, source, NULL, &error), &error);
        size_t held = allocated_bytes() - before;
        n_measured += held > 0; // none of a sanitizer's allocator
        if (held > 0)
            assert_in_range(grammar_bytes(grammar), held - held / 20, held + held / 20);
        grammar_destroy(grammar);
        buffer_finish(sources[i]);
    }
    if (n_measured == 0)
        skip();
}
