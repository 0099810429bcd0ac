// Which members of an answer a schema names.
#include "consumer/annotate/schema_columns.h"
#include "schemas/base/text.h"
#include "tests/support/cases.h"

// expected: names separated by '|', then '+' where there may be others, and '!' where the answer may be no
// object.
static void assert_columns(const char *schema, const char *expected)
{
    struct arena arena = {0};
    struct value root;
    struct error error;
    struct schema_columns columns;
    struct buffer found = {0};
    assert_ok(json_decode(text_from_string(schema), &arena, &root, &error), &error);
    assert_true(schema_columns_find(&root, &arena, &columns));
    for (size_t i = 0; i < columns.n; i++) {
        buffer_add_string(&found, i ? "|" : "");
        buffer_add_text(&found, columns.items[i].name);
    }
    buffer_add_string(&found, columns.is_complete ? "" : "+");
    buffer_add_string(&found, columns.is_object ? "" : "!");
    if (!text_equals_string((struct text){found.data, found.size}, expected))
        fail_msg("%s: expected %s, got %s", schema, expected, found.data ? found.data : "");
    assert_true(!columns.is_silent || columns.is_plain);
    buffer_finish(&found);
    arena_finish(&arena);
}

TEST(columns_are_the_properties_that_always_apply)
{
    assert_columns(
        "{\"type\":\"object\",\"properties\":{\"a\":{},\"b\":true},\"additionalProperties\":false}", "a|b");
    assert_columns("{\"properties\":{\"a\":{}}}", "a+!");
    assert_columns("{\"type\":[\"object\"],\"properties\":{\"a\":{}},\"additionalProperties\":{}}", "a+");
    assert_columns("{\"type\":\"object\",\"properties\":{\"a\":{}},\"unevaluatedProperties\":false,"
                   "\"allOf\":[{\"properties\":{\"b\":{},\"a\":{}}},{\"$ref\":\"#/$defs/c\"}],"
                   "\"$defs\":{\"c\":{\"properties\":{\"c\":{}}}}}",
                   "a|b|c");
    assert_columns("{\"type\":\"object\",\"properties\":{\"a\":{}},\"unevaluatedProperties\":false,"
                   "\"anyOf\":[{\"properties\":{\"b\":{}}}]}",
                   "a+");
    assert_columns("{\"type\":\"object\",\"properties\":{\"a\":{}},\"unevaluatedProperties\":false,"
                   "\"allOf\":[{\"patternProperties\":{\"x\":{}}}]}",
                   "a+");
    assert_columns(
        "{\"properties\":{\"a\":{}},\"additionalProperties\":false,\"patternProperties\":{\"x\":{}}}", "a+!");
    assert_columns("{\"properties\":{\"a\":{}},\"additionalProperties\":false,\"patternProperties\":{}}",
                   "a!");
    assert_columns(
        "{\"$ref\":\"#/$defs/a~1b~0c\",\"$defs\":{\"a/b~c\":{\"type\":\"object\",\"properties\":{\"x\":{}},"
        "\"additionalProperties\":false}}}",
        "x");
    assert_columns("{\"anyOf\":[{\"properties\":{\"a\":{}}}]}", "+!");
    assert_columns("{\"properties\":7,\"allOf\":{},\"required\":\"a\",\"type\":{}}", "+!");
}

TEST(what_cannot_be_known_leaves_the_columns_open)
{
    static const char old[] = "{\"$schema\":\"http://json-schema.org/draft-07/schema#\",%s}";
    struct buffer schema = {0};
    assert_columns(
        "{\"type\":\"object\",\"properties\":{\"a\":{}},\"unevaluatedProperties\":false,\"$ref\":\"other.json\"}",
        "a+");
    assert_columns("{\"$ref\":\"#\"}", "+!");
    assert_columns(
        "{\"allOf\":[{\"$ref\":\"#\"},{\"$ref\":\"#\"},{\"$ref\":\"#\"},{\"$ref\":\"#\"}],\"properties\":{\"a\":{}},"
        "\"unevaluatedProperties\":false}",
        "a+!");
    assert_columns("{\"type\":\"object\",\"properties\":{\"a\":{}},\"unevaluatedProperties\":false,"
                   "\"allOf\":[{\"$id\":\"x\",\"properties\":{\"b\":{}}}]}",
                   "a+");
    assert_columns(
        "{\"type\":\"object\",\"properties\":{\"a\":{}},\"required\":[\"a\",\"b\"],\"unevaluatedProperties\":false}",
        "a+");
    buffer_add_format(&schema, old,
                      "\"$ref\":\"#/definitions/a\",\"properties\":{\"x\":{}},\"additionalProperties\":false,"
                      "\"definitions\":{\"a\":{\"properties\":{\"y\":{}}}}");
    assert_columns(schema.data, "y+!");
    buffer_clear(&schema);
    buffer_add_format(&schema, old,
                      "\"properties\":{\"x\":{}},\"type\":\"object\",\"unevaluatedProperties\":false");
    assert_columns(schema.data, "x+");
    buffer_finish(&schema);
}

TEST(a_schema_that_says_nothing_of_other_members_is_silent)
{
    static const struct {
        const char *beside; // of "properties"
        bool is_silent;
    } cases[] = {{"\"required\":[\"a\"]", true},
                 {"\"allOf\":[{\"properties\":{\"b\":{}},\"required\":[\"a\",\"b\"]}]", true},
                 {"\"required\":[\"b\"]", false},
                 {"\"additionalProperties\":true", false},
                 {"\"patternProperties\":{}", false},
                 {"\"propertyNames\":{}", false},
                 {"\"minProperties\":1", false},
                 {"\"unevaluatedProperties\":true", false},
                 {"\"allOf\":[{\"additionalProperties\":true}]", false},
                 {"\"anyOf\":[{}]", false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct arena arena = {0};
        struct value root;
        struct error error;
        struct schema_columns columns;
        struct buffer schema = {0};
        buffer_add_format(&schema, "{\"properties\":{\"a\":{}},%s}", cases[i].beside);
        assert_ok(json_decode(text_from_string(schema.data), &arena, &root, &error), &error);
        assert_true(schema_columns_find(&root, &arena, &columns));
        if (columns.is_silent != cases[i].is_silent)
            fail_msg("%s: is_silent is %d", schema.data, columns.is_silent);
        buffer_finish(&schema);
        arena_finish(&arena);
    }
}

// The last of `width` schemas of an allOf, `depth` of which are one within another.
static void assert_found_within(int depth, int width, bool is_found)
{
    struct buffer schema = {0};
    for (int i = 0; i < depth; i++)
        buffer_add_string(&schema, "{\"allOf\":[");
    for (int i = 1; i < width; i++)
        buffer_add_string(&schema, "{},");
    buffer_add_string(&schema, "{\"properties\":{\"a\":{}}}");
    for (int i = 0; i < depth; i++)
        buffer_add_string(&schema, "]}");
    buffer_add_byte(&schema, '\0');
    assert_columns(schema.data, is_found ? "a+!" : "+!");
    buffer_finish(&schema);
}

TEST(schemas_are_followed_to_a_limit)
{
    assert_found_within(16, 1, true);
    assert_found_within(17, 1, false);
    assert_found_within(1, 1023, true);
    assert_found_within(1, 1024, false);
}
