// Schemas that are refused, and by which name; limits; schemas that compile.
#include "engine/grammar/json_schema.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static enum status compile(struct text schema, struct schema_refusal *refusal, struct error *error)
{
    struct rules *rules = rules_create(NULL);
    uint32_t start;
    assert_non_null(rules);
    enum status status = json_schema_compile(schema, NULL, rules, &start, refusal, error);
    rules_destroy(rules);
    return status;
}

static void what_is_not_enforced_is_refused_by_keyword_and_pointer(void **state)
{
    static const struct {
        const char *schema, *keyword, *pointer;
    } cases[] = {
        {"{\"uniqueItems\": true}", "uniqueItems", "/uniqueItems"},
        {"{\"properties\": {\"a/b\": {\"format\": \"regex\"}}}", "format", "/properties/a~1b/format"},
        {"{\"pattern\": \"(a)\\\\1\"}", "pattern", "/pattern"},
        {"{\"items\": {\"multipleOf\": 0.123456789}}", "multipleOf", "/items/multipleOf"},
        {"{\"$ref\": \"http://example.com/other.json\"}", "$ref", "/$ref"},
        {"{\"$schema\": \"http://example.com/dialect\"}", "$schema", "/$schema"},
        {"{\"minProperties\": 2}", "minProperties", "/minProperties"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct schema_refusal refusal;
        struct error error = {0};
        enum status status = compile(text_from_string(cases[i].schema), &refusal, &error);
        if (status != STATUS_REJECT || error.code != ERROR_UNSUPPORTED_FIELD)
            fail_msg("%s: %d %s", cases[i].schema, status, error.text);
        assert_string_equal(refusal.keyword, cases[i].keyword);
        assert_string_equal(refusal.pointer, cases[i].pointer);
        assert_non_null(strstr(error.text, cases[i].pointer));
    }
}

static void what_is_no_schema_is_an_error(void **state)
{
    static const char *const schemas[] = {
        "{\"type\": \"strin\"}",
        "{\"type\": 1}",
        "{\"required\": \"a\"}",
        "{\"properties\": []}",
        "{\"minimum\": \"1\"}",
        "{\"minLength\": -1}",
        "{\"anyOf\": []}",
        "{\"anyOf\": {}}",
        "{\"enum\": 1}",
        "{\"$ref\": 1}",
        "{\"items\": 3}",
        "{\"multipleOf\": 0}",
        "[]",
        "{\"$ref\": \"#\"}",
        "{\"allOf\": [{\"$ref\": \"#\"}]}",
        "{\"$defs\": {\"a\": {\"$ref\": \"#/$defs/b\"}, \"b\": {\"$ref\": \"#/$defs/a\"}}, \"$ref\": \"#/$defs/a\"}",
    };
    for (size_t i = 0; i < sizeof schemas / sizeof schemas[0]; i++) {
        struct schema_refusal refusal;
        struct error error = {0};
        enum status status = compile(text_from_string(schemas[i]), &refusal, &error);
        if (status != STATUS_REJECT || error.code != ERROR_INVALID_FIELD)
            fail_msg("%s: %d %s", schemas[i], status, error.text);
    }
}

static void annotations_and_unknown_keywords_are_ignored(void **state)
{
    static const char *const schemas[] = {
        "{\"title\": 1, \"description\": [], \"x-order\": {\"type\": 3}, \"default\": {}, "
        "\"contentEncoding\": \"base64\"}",
        "{\"format\": \"color\"}",
        "{\"$schema\": \"http://json-schema.org/draft-04/schema#\", \"const\": 1, \"if\": 7, "
        "\"exclusiveMinimum\": true}",
        "{\"$schema\": \"http://json-schema.org/draft-07/schema#\", \"$ref\": \"#/definitions/a\", "
        "\"uniqueItems\": true,"
        " \"definitions\": {\"a\": {}}}",
    };
    for (size_t i = 0; i < sizeof schemas / sizeof schemas[0]; i++) {
        struct schema_refusal refusal;
        struct error error = {0};
        enum status status = compile(text_from_string(schemas[i]), &refusal, &error);
        if (status != STATUS_OK)
            fail_msg("%s: %s", schemas[i], error.text);
    }
}

static void a_schema_that_grows_ends_at_a_limit_with_its_name(void **state)
{
    struct buffer schema = {0};
    struct schema_refusal refusal;
    struct error error = {0};
    buffer_add_string(&schema, "{\"allOf\": [");
    for (int i = 0; i < 12; i++) // 2^12 alternatives
        buffer_add_format(&schema, "%s{\"anyOf\": [{\"required\": [\"a%d\"]}, {\"required\": [\"b%d\"]}]}",
                          i ? "," : "", i, i);
    buffer_add_string(&schema, "]}");
    assert_int_equal(compile((struct text){schema.data, schema.size}, &refusal, &error), STATUS_REJECT);
    assert_int_equal(error.code, ERROR_LIMIT_EXCEEDED);
    assert_non_null(strstr(error.text, "schema_alternatives"));
    buffer_clear(&schema);
    while (schema.size <= grammar_limits_default.values[GRAMMAR_LIMIT_SOURCE_BYTES])
        buffer_add_string(&schema, "                                                                ");
    assert_int_equal(compile((struct text){schema.data, schema.size}, &refusal, &error), STATUS_REJECT);
    assert_non_null(strstr(error.text, "grammar_source_bytes"));
    buffer_finish(&schema);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_not_enforced_is_refused_by_keyword_and_pointer),
        cmocka_unit_test(what_is_no_schema_is_an_error),
        cmocka_unit_test(annotations_and_unknown_keywords_are_ignored),
        cmocka_unit_test(a_schema_that_grows_ends_at_a_limit_with_its_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
