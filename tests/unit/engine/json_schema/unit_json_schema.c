// Schemas that are refused, and by which name; limits; schemas that compile.
#include "engine/json_schema/json_schema.h"
#include "tests/support/cases.h"

static struct grammar_limits limits;

static enum status compile(struct text schema, struct schema_refusal *refusal, struct error *error)
{
    struct rules *rules = rules_create(&limits);
    uint32_t start;
    assert_non_null(rules);
    enum status status = json_schema_compile(schema, NULL, rules, &start, refusal, error);
    rules_destroy(rules);
    return status;
}

TEST(what_is_not_enforced_is_refused_by_keyword_and_pointer)
{
    static const struct {
        const char *schema, *keyword, *pointer;
    } cases[] = {
        {"{\"uniqueItems\": true}", "uniqueItems", "/uniqueItems"},
        // as many values as states can't keep apart, no bound above, none below, halves between
        {"{\"uniqueItems\": true, \"items\": {\"type\": \"integer\", \"minimum\": 1, \"maximum\": 12}}",
         "uniqueItems", "/uniqueItems"},
        {"{\"uniqueItems\": true, \"maxItems\": 2, \"items\": {\"type\": "
         "\"integer\", \"minimum\": 0, \"maximum\": 32}}",
         "uniqueItems", "/uniqueItems"},
        {"{\"uniqueItems\": true, \"maxItems\": 2, \"items\": {\"type\": \"integer\", \"minimum\": 0}}",
         "uniqueItems", "/uniqueItems"},
        {"{\"uniqueItems\": true, \"maxItems\": 2, \"items\": {\"type\": \"integer\", \"maximum\": 3}}",
         "uniqueItems", "/uniqueItems"},
        {"{\"uniqueItems\": true, \"items\": {\"type\": \"number\", \"minimum\": 0, \"maximum\": 3}}",
         "uniqueItems", "/uniqueItems"},
        {"{\"properties\": {\"a/b\": {\"format\": \"regex\"}}}", "format", "/properties/a~1b/format"},
        {"{\"pattern\": \"(a)\\\\1\"}", "pattern", "/pattern"},
        {"{\"items\": {\"multipleOf\": 0.123456789}}", "multipleOf", "/items/multipleOf"},
        {"{\"$ref\": \"http://example.com/other.json\"}", "$ref", "/$ref"},
        {"{\"$schema\": \"http://example.com/dialect\"}", "$schema", "/$schema"},
        {"{\"$dynamicRef\": \"#a\", \"$dynamicAnchor\": \"a\", \"$defs\": "
         "{\"b\": {\"$id\": \"b\", \"$dynamicAnchor\": \"a\"}}}",
         "$dynamicRef", "/$dynamicRef"},
        {"{\"minProperties\": 2}", "minProperties", "/minProperties"},
        // {"a": 1, "a": 2}: the first member is what the negation asks for, and the last is what counts.
        {"{\"not\": {\"additionalProperties\": {\"type\": \"integer\"}}}", "additionalProperties",
         "/not/additionalProperties"},
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

TEST(what_is_no_schema_is_an_error)
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
        ("{\"$defs\": {\"a\": {\"$ref\": \"#/$defs/b\"}, \"b\": {\"$ref\": \"#/$defs/a\"}},"
         " \"$ref\": \"#/$defs/a\"}"),
    };
    for (size_t i = 0; i < sizeof schemas / sizeof schemas[0]; i++) {
        struct schema_refusal refusal;
        struct error error = {0};
        enum status status = compile(text_from_string(schemas[i]), &refusal, &error);
        if (status != STATUS_REJECT || error.code != ERROR_INVALID_FIELD)
            fail_msg("%s: %d %s", schemas[i], status, error.text);
    }
}

#define DRAFT_2019_09 "\"$schema\":\"https://json-schema.org/draft/2019-09/schema\","

TEST(what_is_wrong_is_named_with_its_keyword_and_pointer)
{
    static const struct {
        const char *schema, *error;
    } cases[] = {
        {"{\"anyOf\":[{\"type\":\"null\"},{\"allOf\":[{\"$ref\":\"#\"}]}]}",
         "schema: $ref at /anyOf/1/allOf/0/$ref: expected a schema that does not lead to itself, got \"#\""},
        {"{\"$defs\":{\"l\":{\"allOf\":[{\"$ref\":\"#/$defs/l\"}]}},\"anyOf\":[{\"type\":\"null\"},"
         "{\"$ref\":\"#/$defs/l\"}]}",
         "schema: $ref at /$defs/l/allOf/0/$ref: expected a schema that does not lead to itself, got "
         "\"#/$defs/l\""},
        {"{\"not\":{\"anyOf\":[{\"type\":\"null\"},{\"not\":{\"$ref\":\"#\"}}]}}",
         "schema: $ref at /not/anyOf/1/not/$ref: expected a schema that does not lead to itself, got \"#\""},
        {"{\"$ref\":\"#/$defs/p/allOf/0\",\"$defs\":{\"p\":{\"allOf\":[{\"$ref\":\"#/$defs/p\"}]}}}",
         "schema: $ref at /$defs/p/allOf/0/$ref: expected a schema that does not lead to itself, got "
         "\"#/$defs/p\""},
        {"{\"if\":{\"$ref\":\"#\"},\"then\":{\"type\":\"null\"}}",
         "schema: $ref at /if/$ref: expected a schema that does not lead to itself, got \"#\""},
        {"{\"$dynamicAnchor\":\"x\",\"anyOf\":[{\"type\":\"null\"},{\"$dynamicRef\":\"#x\"}]}",
         "schema: $dynamicRef at /anyOf/1/$dynamicRef: expected a schema that does not lead to itself, got "
         "\"#x\""},
        {"{" DRAFT_2019_09 "\"anyOf\":[{\"type\":\"null\"},{\"$recursiveRef\":\"#\"}]}",
         "schema: $recursiveRef at /anyOf/1/$recursiveRef: expected a schema that does not lead to itself, got "
         "\"#\""},
        {"{\"$ref\":\"#/$defs/nope\"}",
         "schema: $ref at /$ref: leads to no schema of this document, got \"#/$defs/nope\""},
        {"{\"items\":{\"$dynamicRef\":\"#a\\nb\"}}",
         "schema: $dynamicRef at /items/$dynamicRef: leads to no schema of this document, got \"#a\\nb\""},
        {"{\"anyOf\":[3]}", "schema: anyOf at /anyOf/0: expected a schema, got 3"},
        {"{\"type\":[\"null\",3]}",
         "schema: type at /type: expected null, boolean, integer, number, string, array or object, or a list of "
         "them, got an array of 2"},
        {"{\"properties\":{\"\":3}}", "schema: properties at /properties/: expected a schema, got 3"},
        {"[]", "schema: expected a schema, got an array of 0"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct schema_refusal refusal;
        struct error error = {0};
        assert_int_equal(compile(text_from_string(cases[i].schema), &refusal, &error), STATUS_REJECT);
        assert_string_equal(error.text, cases[i].error);
    }
}

TEST(a_schema_that_is_no_json_is_refused_with_its_byte_and_cause)
{
    static const struct {
        const char *schema, *cause;
    } cases[] = {
        {"{\"type\": \"string}", "schema: byte 17: the string does not end"},
        {"{\"a\": \"\\ud83d\"}", "schema: byte 13: the first half of a surrogate pair without the second"},
        {"{\"a\" 1}", "schema: byte 5: expected ':'"},
        {"{\"a\": [1 2]}", "schema: byte 9: expected ',' or ']'"},
        {"{1: 2}", "schema: byte 1: expected a string"},
        {"{\"minimum\": 01}", "schema: byte 14: a number with a leading zero"},
        {"{\"minimum\": nul}", "schema: byte 12: expected a value"},
        {"{} {}", "schema: byte 3: something after the value"},
        {"", "schema: byte 0: expected a value, got the end"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct schema_refusal refusal;
        struct error error = {0};
        enum status status = compile(text_from_string(cases[i].schema), &refusal, &error);
        if (status != STATUS_REJECT || strcmp(error.text, cases[i].cause) != 0)
            fail_msg("%s: %d %s", cases[i].schema, status, error.text);
    }
}

TEST(annotations_and_unknown_keywords_are_ignored)
{
    static const char *const schemas[] = {
        "{\"title\": 1, \"description\": [], \"x-order\": {\"type\": 3}, \"default\": {}, "
        "\"contentEncoding\": \"base64\"}",
        "{\"format\": \"color\"}",
        "{\"$schema\": \"http://json-schema.org/draft-04/schema#\", \"const\": 1, \"if\": 7, "
        "\"exclusiveMinimum\": true}",
        "{\"$schema\": \"http://json-schema.org/draft-07/schema#\", \"$ref\": \"#/definitions/a\", "
        "\"uniqueItems\": true, \"definitions\": {\"a\": {}}}",
    };
    for (size_t i = 0; i < sizeof schemas / sizeof schemas[0]; i++) {
        struct schema_refusal refusal;
        struct error error = {0};
        enum status status = compile(text_from_string(schemas[i]), &refusal, &error);
        if (status != STATUS_OK)
            fail_msg("%s: %s", schemas[i], error.text);
    }
}

// The opening, n times the part, with the part's number for @ and the next one for ^, and the closing.
struct growing_schema {
    const char *opening, *part, *closing;
    int n_accepted, n_refused;
    const char *limit;
};

static void add_numbered(struct buffer *out, const char *text, int number)
{
    for (; *text; text++)
        if (*text == '@' || *text == '^')
            buffer_add_integer(out, number + (*text == '^'));
        else
            buffer_add_byte(out, *text);
}

static enum status compile_grown(const struct growing_schema *growing, int n, struct error *error)
{
    struct buffer schema = {0};
    struct schema_refusal refusal;
    buffer_add_string(&schema, growing->opening);
    for (int i = 0; i < n; i++) {
        buffer_add_string(&schema, i ? "," : "");
        add_numbered(&schema, growing->part, i);
    }
    add_numbered(&schema, growing->closing, n);
    enum status status = compile((struct text){schema.data, schema.size}, &refusal, error);
    buffer_finish(&schema);
    return status;
}

TEST(a_schema_that_grows_ends_at_a_limit_with_its_name)
{
    static const struct growing_schema schemas[] = {
        {"{\"allOf\": [",
         "{\"anyOf\": [{\"required\": [\"a@\"]}, {\"required\": [\"b@\"]}, {\"required\": [\"c@\"]}]}", "]}",
         3, 9, "schema_alternatives: more than 4096"},
        {"{\"$defs\": {\"0\": {}, ", "\"^\": {\"allOf\": [{\"$ref\": \"#/$defs/@\"}]}",
         "}, \"$ref\": \"#/$defs/@\"}", 40, 400, "schema_depth: more than 300"},
        {"{\"unevaluatedProperties\": false, \"anyOf\": [", "{\"properties\": {\"a@\": {}}}", "]}", 5, 8,
         "more than 64 combinations"},
        {"{\"oneOf\": [", "{\"properties\": {\"a@\": {\"minLength\": 3}}}", "]}", 3, 200,
         "schema_work: more than 2000000"},
        {"{\"allOf\": [", "{\"contains\": {\"const\": \"@\"}, \"maxContains\": 40}", "]}", 2, 3,
         "schema_states: more than 20000"},
        {"{\"enum\": [", "\"a value of which there are many: @\"", "]}", 10000, 40000,
         "grammar_source_bytes"},
    };
    for (size_t i = 0; i < sizeof schemas / sizeof schemas[0]; i++) {
        struct error error = {0};
        if (compile_grown(&schemas[i], schemas[i].n_accepted, &error) != STATUS_OK)
            fail_msg("%s: %s", schemas[i].part, error.text);
        if (compile_grown(&schemas[i], schemas[i].n_refused, &error) != STATUS_REJECT ||
            !strstr(error.text, schemas[i].limit))
            fail_msg("%s: %s", schemas[i].part, error.text);
    }
}

TEST(items_that_are_counted_take_states_up_to_a_limit)
{
    static const struct {
        int min_items, min_contains, n_contains;
        bool fits;
    } cases[] = {
        {199, 99, 1, true}, {200, 99, 1, false}, {199, 100, 1, false}, {2, 1, 3, true}, {2, 1, 4, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct buffer schema = {0};
        struct schema_refusal refusal;
        struct error error = {0};
        buffer_add_format(&schema,
                          "{\"type\":\"array\",\"minItems\":%d,\"items\":{\"enum\":[1,2,3,4]},\"allOf\":[",
                          cases[i].min_items);
        for (int j = 0; j < cases[i].n_contains; j++)
            buffer_add_format(&schema, "%s{\"contains\":{\"const\":%d},\"minContains\":%d}", j ? "," : "",
                              j + 1, cases[i].min_contains);
        buffer_add_string(&schema, "]}");
        enum status status = compile((struct text){schema.data, schema.size}, &refusal, &error);
        if (status != (cases[i].fits ? STATUS_OK : STATUS_REJECT))
            fail_msg("case %zu: %s", i, error.text);
        if (!cases[i].fits)
            assert_non_null(strstr(error.text, "schema_states"));
        buffer_finish(&schema);
    }
}

// The least limit in KiB of a schema's memory with which it compiles.
static uint64_t needed_kib(const struct growing_schema *growing, int n)
{
    uint64_t refused = 0, accepted = 64 << 10;
    struct error error;
    while (refused + 1 < accepted) {
        uint64_t middle = (refused + accepted) / 2;
        limits.values[GRAMMAR_LIMIT_SCHEMA_BYTES] = middle << 10;
        bool is_enough = compile_grown(growing, n, &error) == STATUS_OK;
        *(is_enough ? &accepted : &refused) = middle;
        if (!is_enough && !strstr(error.text, "grammar_schema_bytes: more than "))
            fail_msg("%s", error.text);
    }
    limits = grammar_limits_default;
    assert_ok(compile_grown(growing, n, &error), &error);
    return accepted;
}

TEST(alternatives_take_memory_in_proportion)
{
    static const struct growing_schema schemas[] = {
        {.opening = "{\"enum\": [", .part = "{\"k@\": @}", .closing = "]}"},
        {.opening = "{\"enum\": [", .part = "[@]", .closing = "]}"},
        {.opening = "{\"not\": {\"const\": {", .part = "\"k@\": @", .closing = "}}}"},
    };
    for (size_t i = 0; i < sizeof schemas / sizeof schemas[0]; i++) {
        uint64_t few = needed_kib(&schemas[i], 300), many = needed_kib(&schemas[i], 1200);
        print_message("%s: %d KiB for 300, %d KiB for 1200\n", schemas[i].part, (int)few, (int)many);
        assert_true(many < 6 * few);
    }
}

int main(void)
{
    limits = grammar_limits_default;
    return cases_run();
}
