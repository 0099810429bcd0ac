// Which members of an answer a schema names.
#include "consumer/table/schema_columns.h"
#include "schemas/text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

// expected: names separated by '|', then '+' where there may be others, and '!' where the answer may be no
// object.
static void assert_columns(const char *schema, const char *expected)
{
    struct arena arena = {0};
    struct value root;
    struct error error;
    struct schema_columns columns;
    struct buffer found = {0};
    assert_int_equal(json_decode(text_from_string(schema), &arena, &root, &error), STATUS_OK);
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

static void columns_are_the_properties_that_always_apply(void **state)
{
    (void)state;
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

static void what_cannot_be_known_leaves_the_columns_open(void **state)
{
    (void)state;
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

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(columns_are_the_properties_that_always_apply),
                                       cmocka_unit_test(what_cannot_be_known_leaves_the_columns_open)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
