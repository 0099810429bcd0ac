// YAML as value trees: the core schema, and what is refused with its line.
#include "schemas/yaml_decode.h"
#include "tests/support/cases.h"

static void assert_yaml(const char *input, const char *expected)
{
    struct arena arena = {0};
    struct value value;
    struct error error;
    struct buffer json = {0};
    assert_ok(yaml_decode(text_from_string(input), &arena, &value, &error), &error);
    json_encode(&value, &json);
    buffer_add_byte(&json, '\0');
    assert_string_equal(json.data, expected);
    buffer_finish(&json);
    arena_finish(&arena);
}

static void assert_refused_text(struct text input, const char *expected)
{
    struct arena arena = {0};
    struct value value;
    struct error error;
    assert_int_equal(yaml_decode(input, &arena, &value, &error), STATUS_REJECT);
    if (!strstr(error.text, expected))
        fail_msg("expected \"%s\", got \"%s\"", expected, error.text);
    arena_finish(&arena);
}

static void assert_refused(const char *input, const char *expected)
{
    assert_refused_text(text_from_string(input), expected);
}

TEST(lists_and_objects_keep_their_order)
{
    assert_yaml("- name: tone\n  choice: [warm, cold]\n  deep: {b: [], a: {}}\n- x\n",
                "[{\"name\":\"tone\",\"choice\":[\"warm\",\"cold\"],\"deep\":{\"b\":[],\"a\":{}}},\"x\"]");
    assert_yaml("{\"a\": [1, 2.50, \"\\u00e9\\/\"], \"b\": null}",
                "{\"a\":[1,2.5,\"\xC3\xA9/\"],\"b\":null}");
}

TEST(plain_scalars_follow_the_core_schema)
{
    assert_yaml("[~, null, Null, NULL, '']", "[null,null,null,null,\"\"]");
    assert_yaml("[true, True, TRUE, false, False, FALSE]", "[true,true,true,false,false,false]");
    assert_yaml(
        "[yes, no, on, off, y, n, nULL, tRUE, 2024-02-29, 1:30, 1_000, 0b1, -, e5, 1e, .]",
        "[\"yes\",\"no\",\"on\",\"off\",\"y\",\"n\",\"nULL\",\"tRUE\",\"2024-02-29\",\"1:30\",\"1_000\",\"0b1\","
        "\"-\",\"e5\",\"1e\",\".\"]");
    assert_yaml("[0, -7, 1.5, 1e3, 12345678901234567890]", "[0,-7,1.5,1000.0,12345678901234567890]");
    assert_yaml("['1', \"true\", !!str 1, !!str null]", "[\"1\",\"true\",\"1\",\"null\"]");
}

TEST(block_scalars_keep_their_lines)
{
    assert_yaml("a: |\n  one\n   two\nb: >-\n  one\n  two\n", "{\"a\":\"one\\n two\\n\",\"b\":\"one two\"}");
}

TEST(an_empty_document_is_null)
{
    assert_yaml("", "null");
    assert_yaml("# nothing\n", "null");
    assert_yaml("---\n...\n", "null");
}

TEST(a_number_that_json_spells_otherwise_is_refused)
{
    static const char *const numbers[] = {"+1",   "007",   "0x1F", "0o17", ".5",   "5.",
                                          ".inf", "-.INF", ".nan", "+1.5", "1e999"};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        char input[32];
        snprintf(input, sizeof input, "- a\n- %s\n", numbers[i]);
        assert_refused(input, "line 2: a number that JSON does not have: quote it, if it is a text");
    }
}

TEST(faults_are_refused_with_their_line)
{
    assert_refused("a: b\nc: [\n", "line 3: ");
    assert_refused("a: 1\nb: 2\na: 3\n", "line 1: key \"a\" occurs twice");
    assert_refused("- &x a\n- *x\n", "line 2: an alias");
    assert_refused("- a\n- !!int '7'\n", "line 2: a tag");
    assert_refused("!!set {a: b}", "line 1: a tag of an object");
    assert_refused("!!seq [a]", "line 1: a tag of a list");
    assert_refused("1: a", "line 1: a key: expected a text; quote it");
    assert_refused("\"a\\0\": b", "line 1: a key with a NUL");
    assert_refused("? [a]\n: b", "line 1: a key: expected a text");
    assert_refused("--- a\n--- b\n", "line 2: a second document");
    assert_refused("\t- a", "line 1: ");
    assert_refused_text(TEXT("- a\n- \xFF\n"), "line ");
}

TEST(nesting_has_a_limit)
{
    char input[2 * VALUE_DEPTH_MAX + 8];
    for (int extra = 0; extra <= 1; extra++) {
        int depth = VALUE_DEPTH_MAX + extra;
        memset(input, '[', (size_t)depth);
        memset(input + depth, ']', (size_t)depth);
        struct text text = {input, 2 * (size_t)depth};
        struct arena arena = {0};
        struct value value;
        struct error error;
        enum status status = yaml_decode(text, &arena, &value, &error);
        assert_int_equal(status, extra ? STATUS_REJECT : STATUS_OK);
        if (extra)
            assert_int_equal(error.code, ERROR_LIMIT_EXCEEDED);
        arena_finish(&arena);
    }
}
