// Texts that the grammars of schemas accept and refuse; the official test suite, where it is there.
#include "consumer/command/grammar_text.h"
#include "tests/support/matched_grammar.h"
#include "tests/support/shared_data.h"

#include <dirent.h>

struct text_case {
    const char *schema;
    const char *accepted[6], *refused[6]; // NULL ends
};

static const struct text_case cases[] = {
    {"true", {"1e5", "\"\\u00e9\"", "{}", "{\"a\":[null,-0.5]}"}, {"{ }", "[1, 2]", "01", "nul"}},
    // The last of equal keys counts, at the position of the first.
    {"{\"type\": \"string\", \"type\": \"integer\"}", {"1"}, {"\"a\"", "1.5"}},
    {"{\"properties\": {\"a\": {\"const\": 1}, \"b\": {\"const\": 2}, \"a\": {\"const\": 3}}, "
     "\"additionalProperties\": false, \"required\": [\"b\", \"a\"]}",
     {"{\"a\":3,\"b\":2}"},
     {"{\"a\":1,\"b\":2}", "{\"b\":2,\"a\":3}", "{\"a\":1,\"b\":2,\"a\":3}"}},
    {"{\"enum\": [{\"x\": 1, \"y\": 0, \"x\": 2}, {}]}",
     {"{\"x\":2,\"y\":0}", "{}"},
     {"{\"x\":1,\"y\":0,\"x\":2}", "{\"x\":1,\"y\":0}"}},
    {"{\"const\": 1}", {"1"}, {"2", "1.01", "\"1\"", "1.0", "1e0"}},
    {"{\"enum\": [\"a\", null, {\"b\": [1]}]}",
     {"\"a\"", "\"\\u0061\"", "null", "{\"b\":[1]}"},
     {"\"b\"", "{}", "{\"b\":[1,1]}"}},
    {"{\"properties\": {\"ab\": {\"const\": [\"v/\"]}}, \"required\": [\"ab\"], \"additionalProperties\": false}",
     {"{\"ab\":[\"v/\"]}", "{\"\\u0061b\":[\"\\u0076\\/\"]}"},
     {"{\"\\u0062b\":[\"v/\"]}", "{\"ab\":[\"\\u0077/\"]}"}},
    {"{\"type\": \"integer\", \"minimum\": -2, \"exclusiveMaximum\": 10}",
     {"-2", "0", "9"},
     {"-3", "10", "1.5", "-2.5", "9.0", "-0"}},
    // A spelling that rounds to a value of the set as a double is not in the set's negation.
    {"{\"not\": {\"type\": \"integer\"}}",
     {"1.5", "-123456789012.345", "1.5e-9", "\"x\""},
     {"8258888781363338529.1881", "0.9999999999999999999999", "1.00000000000000000001e0", "1.0"}},
    {"{\"type\": \"number\", \"not\": {\"const\": 1}}",
     {"2", "1.5", "9223372036854775806", "1.00000000000001"},
     {"1", "1.0000000000000000000001", "0.9999999999999999999999"}},
    {"{\"type\": \"number\", \"not\": {\"maximum\": 1}}",
     {"2", "1.00000000000001"},
     {"1", "1.0000000000000000000001"}},
    {"{\"type\": \"number\", \"not\": {\"multipleOf\": 2}}", {"3", "2.5"}, {"4", "2.0000000000000000000001"}},
    {"{\"not\": {\"const\": {\"a\": 1}}}",
     {"{}", "{\"a\":2}", "{\"a\":1,\"b\":1}", "{\"b\":1}", "[{\"a\":1}]", "1"},
     {"{\"a\":1}"}},
    {"{\"not\": {\"const\": [1, {}]}}", {"[]", "[1]", "[1,[]]", "[2,{}]", "[1,{},1]", "{}"}, {"[1,{}]"}},
    {"{\"type\": \"string\", \"minLength\": 2, \"pattern\": \"^a\"}",
     {"\"ab\"", "\"a\\n\""},
     {"\"a\"", "\"ba\"", "ab"}},
    {"{\"not\": {\"type\": \"string\", \"format\": \"color\"}}", {"1", "null"}, {"\"a\"", "\"\""}},
    {"{\"format\": \"date\"}", {"\"2024-02-29\"", "1"}, {"\"2023-02-29\"", "\"2023-13-01\"", "\"x\""}},
    {"{\"properties\": {\"a\": {\"type\": \"null\"}, \"b\": {\"type\": \"boolean\"}}, \"required\": [\"b\"]}",
     {"{\"a\":null,\"b\":true}", "{\"b\":true}", "{\"b\":true,\"c\":1}", "3"},
     {"{\"b\":true,\"a\":null}", "{}", "{\"a\":null}", "{\"b\":1}"}},
    {"{\"type\": \"object\", \"required\": [\"x\", \"y\"], \"additionalProperties\": {\"type\": "
     "\"integer\"}}",
     {"{\"x\":1,\"y\":2}", "{\"y\":2,\"z\":0,\"x\":1}"},
     {"{\"x\":1}", "{\"x\":1,\"y\":null}"}},
    {"{\"patternProperties\": {\"^n\": {\"type\": \"integer\"}}, \"additionalProperties\": false, "
     "\"maxProperties\": 2}",
     {"{}", "{\"n1\":1,\"n2\":2}", "[1]"},
     {"{\"n1\":null}", "{\"m\":1}", "{\"n1\":1,\"n2\":2,\"n3\":3}"}},
    {"{\"allOf\": [{\"properties\": {\"a\": {\"minimum\": 1}}}, {\"properties\": {\"b\": {\"minimum\": "
     "1}}}], \"required\": [\"a\", \"b\"]}",
     {"{\"a\":1,\"b\":1}", "{\"b\":1,\"a\":1}"},
     {"{\"a\":0,\"b\":1}", "{\"b\":0,\"a\":1}", "{\"a\":1}"}},
    {"{\"oneOf\": [{\"minimum\": 2}, {\"type\": \"integer\"}]}", {"1", "2.5", "-7"}, {"2", "1.5", "3"}},
    {"{\"not\": {\"required\": [\"a\"], \"properties\": {\"a\": {\"const\": 1}}}}",
     {"{}", "{\"a\":2}"},
     {"{\"a\":1}", "1"}},
    {"{\"if\": {\"properties\": {\"t\": {\"const\": 1}}, \"required\": [\"t\"]}, \"then\": {\"required\": "
     "[\"u\"]}, \"else\": {\"required\": [\"v\"]}, \"type\": \"object\"}",
     {"{\"t\":1,\"u\":0}", "{\"t\":2,\"v\":0}", "{\"v\":0}"},
     {"{\"t\":1,\"v\":0}", "{\"u\":0}", "{\"t\":1}"}},
    {"{\"dependentRequired\": {\"a\": [\"b\"]}}",
     {"{}", "{\"b\":1}", "{\"a\":1,\"b\":1}", "2"},
     {"{\"a\":1}"}},
    {"{\"type\": \"array\", \"prefixItems\": [{\"type\": \"null\"}], \"items\": {\"type\": \"boolean\"}, "
     "\"maxItems\": 3}",
     {"[]", "[null]", "[null,true,false]"},
     {"[true]", "[null,null]", "[null,true,true,true]"}},
    {"{\"type\": \"array\", \"items\": {\"type\": \"integer\"}, \"contains\": {\"minimum\": 5}, "
     "\"maxContains\": 2}",
     {"[5]", "[1,7,2]", "[9,9,1]"},
     {"[]", "[1,2]", "[5,6,7]"}},
    {"{\"items\": {\"enum\": [1, \"a\", null]}, \"uniqueItems\": true}",
     {"[]", "[1,\"a\"]", "[null,1,\"a\"]"},
     {"[1,1.0]", "[\"a\",1,\"a\"]"}},
    {"{\"items\": {\"type\": [\"integer\", \"null\"], \"minimum\": -1, \"exclusiveMaximum\": 3}, "
     "\"uniqueItems\": true}",
     {"[]", "[2,null,-1]", "[0,1,2,-1,null]"},
     {"[1,1]", "[null,2,null]", "[3]", "[-2]", "[0.5]", "[1,2,0,1]"}},
    {"{\"$defs\": {\"even\": {\"type\": \"integer\", \"minimum\": 1990, \"maximum\": 2000, \"multipleOf\": "
     "2}}, \"uniqueItems\": true, \"minItems\": 2, \"items\": {\"allOf\": [{\"$ref\": \"#/$defs/even\"}]}}",
     {"[1990,2000]", "[1992,1990,1998,2000,1996,1994]"},
     {"[1990]", "[1990,1990]", "[1991,1992]", "[2002,1990]", "[1990,1992,1990]"}},
    {"{\"items\": {\"type\": \"integer\", \"minimum\": 0, \"maximum\": 30}, "
     "\"uniqueItems\": true, \"maxItems\": 2}",
     {"[]", "[30]", "[0,29]"},
     {"[1,2,3]", "[7,7]", "[31]"}},
    // References to identifiers: absolute, by the base's scheme, authority or folder, of another scheme
    {"{\"$id\": \"http://h/d/s\", \"$defs\": {\"n\": {\"$id\": \"n\", \"type\": "
     "\"null\"}, \"b\": {\"$id\": \"urn:b\","
     " \"type\": \"boolean\"}}, \"anyOf\": [{\"$ref\": \"http://h/d/n\"}, {\"$ref\": \"urn:b\"}]}",
     {"null", "true"},
     {"1", "[]"}},
    {"{\"$id\": \"http://h/d/s\", \"$defs\": {\"n\": {\"$id\": \"n\", \"type\": \"null\"}}, \"type\": "
     "\"array\", \"prefixItems\": [{\"$ref\": \"//h/d/n\"}, {\"$ref\": \"/d/n\"}, {\"$ref\": \"n\"}, "
     "{\"$ref\": \"./../d/n\"}], \"minItems\": 4, \"items\": false}",
     {"[null,null,null,null]"},
     {"[null]", "[1,null,null,null]"}},
    {"{\"$defs\": {\"n\": {\"type\": [\"array\", \"null\"], \"items\": {\"$ref\": \"#/$defs/n\"}}}, "
     "\"$ref\": \"#/$defs/n\"}",
     {"null", "[[],[null,[[]]]]"},
     {"[1]", "[[]"}},
    {"{\"$schema\": \"http://json-schema.org/draft-04/schema#\", \"type\": \"integer\", \"minimum\": 3, "
     "\"exclusiveMinimum\": true}",
     {"4"},
     {"3", "4.0", "4e0"}},
    {"{\"properties\": {\"a\": {}}, \"anyOf\": [{\"properties\": {\"b\": "
     "{\"const\": 1}}, \"required\": [\"b\"]}, "
     "{\"properties\": {\"c\": {}}}], \"unevaluatedProperties\": false}",
     {"{}", "{\"a\":0,\"b\":1,\"c\":2}", "{\"a\":0,\"c\":2}", "7"},
     {"{\"b\":2}", "{\"d\":1}", "{\"a\":0,\"b\":1,\"d\":2}"}},
    {"{\"if\": {\"required\": [\"k\"]}, \"then\": {\"properties\": {\"k\": {}, "
     "\"t\": {}}}, \"else\": {\"properties\": {\"e\": {}}}, \"unevaluatedProperties\": {\"type\": \"null\"}}",
     {"{\"k\":1,\"t\":2}", "{\"e\":1}", "{\"e\":1,\"x\":null}", "{\"k\":1,\"e\":null}"},
     {"{\"t\":2}", "{\"k\":1,\"e\":1}"}},
    {"{\"$schema\": \"https://json-schema.org/draft/2019-09/schema\", "
     "\"items\": [{}], \"contains\": {\"const\": 2}, \"unevaluatedItems\": {\"type\": \"string\"}}",
     {"[2]", "[2,\"a\"]"},
     {"[1,2]", "[2,null]"}},
    {"{\"prefixItems\": [{}], \"contains\": {\"const\": 2}, \"unevaluatedItems\": {\"type\": \"string\"}}",
     {"[2]", "[1,2,\"a\"]"},
     {"[1]", "[1,2,3]"}},
    {"{\"$ref\": \"#/$defs/list\", \"$defs\": {\"n\": {\"$dynamicAnchor\": "
     "\"item\", \"type\": \"null\"}, \"list\": {\"items\": {\"$dynamicRef\": \"#item\"}}}}",
     {"[null]"},
     {"[1]"}},
    {"{\"not\": {\"properties\": {\"a\": {}}, \"unevaluatedProperties\": false}}",
     {"{\"b\":1}", "{\"a\":1,\"b\":1}"},
     {"{}", "{\"a\":1}", "1"}},
    {"{\"type\": \"integer\", \"maximum\": 200000}",
     {"100000", "1", "-9223372036854775807"},
     {"1000000", "1.5", "1e5", "1.0", "-9223372036854775808", "-2e+30"}},
    // Numbers of no type are decimals that a double holds; named numbers are as long as they are named
    {"{\"type\": \"number\"}",
     {"1.0", "-0.50", "1.5e-307", "1e5"},
     {"1e308", "12e5", "12345678901234567890", "01"}},
    {"{\"type\": [\"integer\", \"null\"]}", {"null", "9223372036854775807"}, {"9223372036854775808", "1.0"}},
    {"{\"anyOf\": [{\"type\": \"integer\"}, {\"type\": \"string\"}]}", {"7", "\"\""}, {"7.0", "7e0"}},
    {"{\"type\": \"integer\", \"minimum\": 9223372036854775808}",
     {"9223372036854775808", "99999999999999999999"},
     {"9223372036854775807", "999999999999999999999"}},
    {"{\"enum\": [1.50, 1e20, 2.0]}",
     {"1.5", "2", "100000000000000000000"},
     {"1.50", "2.0", "1e20", "15e-1"}},
    {"{\"type\": \"integer\", \"minimum\": -9223372036854775808, \"maximum\": 9223372036854775807}",
     {"-9223372036854775808", "-9223372036854775807", "9223372036854775807", "0"},
     {"-9223372036854775809", "9223372036854775808"}},
    {"{\"type\": \"integer\", \"minimum\": -9223372036854775808}",
     {"-9223372036854775808", "9223372036854775807"},
     {"-9223372036854775809", "9223372036854775808"}},
    {"{\"type\": \"integer\", \"maximum\": 18446744073709551615}",
     {"18446744073709551615", "9223372036854775808", "-9223372036854775807"},
     {"18446744073709551616", "-9223372036854775808"}},
    {"{\"exclusiveMaximum\": 18446744073709551616, \"type\": \"number\"}",
     {"18446744073709551615", "18446744073709551615.5"},
     {"18446744073709551616"}},
    {"{\"type\": \"integer\", \"maximum\": 1e300}", {"9223372036854775807"}, {"9223372036854775808"}},
    {"{\"multipleOf\": 0.01, \"minimum\": 0}", {"0", "12.50", "0.07"}, {"0.001", "1.005"}},
    // A declared name never occurs again as a free key, however it is spelled
    {"{\"type\": \"object\", \"properties\": {\"a\": {}}, \"required\": [\"r\"], "
     "\"patternProperties\": {\"^[ar]\": {}}}",
     {"{\"a\":1,\"r\":2}", "{\"b\":1,\"r\":1,\"ab\":1,\"ab\":2}"},
     {"{\"a\":1,\"r\":2,\"a\":3}", "{\"a\":1,\"r\":2,\"r\":3}", "{\"r\":1,\"\\u0061\":2,\"a\":3}",
      "{\"a\":1,\"r\":1,\"\\u0061\":2}"}},
    {"{\"multipleOf\": 0.04}", {"0.2", "0.20", "0.24", "1"}, {"0.22", "0.1", "0.5"}},
    {"{\"multipleOf\": 5}", {"0", "-15", "20"}, {"20.0", "7", "2e1"}},
    {"{\"not\": {\"additionalProperties\": false, \"properties\": {\"a\": {}}}, \"type\": \"object\"}",
     {"{\"b\":1}", "{\"a\":1,\"b\":1}"},
     {"{}", "{\"a\":1}"}},
};

TEST(texts_are_accepted_where_their_values_are)
{
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct matched_grammar matched;
        struct error error = {0};
        if (matched_open_schema(&matched, text_from_string(cases[i].schema), NULL, &error) != STATUS_OK)
            fail_msg("%s: %s", cases[i].schema, error.text);
        for (size_t j = 0; j < 6 && cases[i].accepted[j]; j++)
            if (!accepts_text(matched.recognizer, cases[i].accepted[j]))
                fail_msg("%s refuses %s", cases[i].schema, cases[i].accepted[j]);
        for (size_t j = 0; j < 6 && cases[i].refused[j]; j++)
            if (accepts_text(matched.recognizer, cases[i].refused[j]))
                fail_msg("%s accepts %s", cases[i].schema, cases[i].refused[j]);
        matched_close(&matched);
    }
}

TEST(instances_have_the_numbers_that_are_generated)
{
    static const char *const numbers[][3] = {
        // as written, for draft 4
        {"1e5", "100000", "100000.0"},
        {"-1.5E+3", "-1500", "-1500.0"},
        {"12.50e-1", "1.25", "1.25"},
        {"1e-3", "0.001", "0.001"},
        {"0e7", "0", "0.0"},
        {"-0", "0", "0"},
        {"1e4000", "1e4000", "1e4000"},
        {"1e99999999", "1e99999999", "1e99999999"},
        {"7", "7", "7"},
        {"-0.50", "-0.5", "-0.5"},
        {"10e0", "10", "10.0"},
        {"1e19", "1e19", "1e19"},
        {"12345678901234567890", "12345678901234567890", "12345678901234567890"},
        {"120.0", "120", "120.0"},
        {"1.25e-30", "1.25e-30", "1.25e-30"},
        {"0.00012345678901234567", "0.00012345678901234567", "0.00012345678901234567"},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        for (size_t j = GRAMMAR_TEXT_NUMBERS_AS_WRITTEN; j <= GRAMMAR_TEXT_NUMBERS_DRAFT_4; j++) {
            struct buffer out = {0};
            struct json_node node = {.kind = JSON_NUMBER, .text = text_from_string(numbers[i][0])};
            struct grammar_text_style style = {.numbers = (enum grammar_text_numbers)j};
            grammar_text_write(&node, style, &out);
            assert_int_equal(out.size, strlen(numbers[i][j]));
            assert_memory_equal(out.data, numbers[i][j], out.size);
            buffer_finish(&out);
        }
}

TEST(white_space_is_what_the_options_say)
{
    static const struct {
        const char *schema, *texts[3];
    } values[] = {{"{\"type\": \"object\"}",
                   {"{\"a\":[1,{}]}", "{\"a\": [1, {}]}", "{\n  \"a\": [\n    1,\n    {}\n  ]\n}"}},
                  {"{\"type\": \"array\", \"contains\": {\"const\": 1}}",
                   {"[1,{\"a\":2}]", "[1, {\"a\": 2}]", "[\n  1,\n  {\n    \"a\": 2\n  }\n]"}},
                  {"{\"type\": \"array\", \"items\": {\"type\": \"array\"}, \"uniqueItems\": false}",
                   {"[[],[2]]", "[[], [2]]", "[\n  [],\n  [\n    2\n  ]\n]"}}};
    static const struct json_schema_options options[] = {{.spacing = JSON_SPACING_COMPACT},
                                                         {.spacing = JSON_SPACING_SPACED},
                                                         {.spacing = JSON_SPACING_INDENTED, .indent = 2}};
    for (size_t n = 0; n < 9; n++) {
        size_t i = n % 3;
        struct matched_grammar matched;
        struct error error = {0};
        struct text schema = text_from_string(values[n / 3].schema);
        assert_ok(matched_open_schema(&matched, schema, &options[i], &error), &error);
        for (size_t j = 0; j < 3; j++)
            assert_int_equal(accepts_text(matched.recognizer, values[n / 3].texts[j]), i == j);
        matched_close(&matched);
    }
}

TEST(keys_come_in_any_order_on_request)
{
    struct json_schema_options options = {.any_order = true};
    struct matched_grammar matched;
    struct error error = {0};
    struct text schema = TEXT("{\"properties\": {\"a\": {}, \"b\": {}, \"c\": {}}, \"required\": [\"a\"], "
                              "\"additionalProperties\": false}");
    assert_ok(matched_open_schema(&matched, schema, &options, &error), &error);
    assert_true(accepts_text(matched.recognizer, "{\"c\":1,\"a\":2,\"b\":3}"));
    assert_true(accepts_text(matched.recognizer, "{\"b\":1,\"a\":2}"));
    assert_false(accepts_text(matched.recognizer, "{\"c\":1,\"b\":2}"));
    assert_false(accepts_text(matched.recognizer, "{\"a\":1,\"a\":2}"));
    matched_close(&matched);
}

// `a` is an array of objects by its name, and by the pattern of its name; the pattern's schema was read
// before, for `e`. With more names than may be mixed.
TEST(names_are_in_the_order_in_which_schemas_apply)
{
    struct buffer schema = {0};
    buffer_add_string(&schema, "{\"properties\": {\"e\": {\"type\": \"array\"}, \"a\": {\"type\": "
                               "\"array\", \"items\": {\"properties\": {");
    for (int i = 0; i < 12; i++)
        buffer_add_format(&schema, "%s\"a%d\": true", i ? ", " : "", i);
    buffer_add_string(&schema, "}}}}, \"patternProperties\": {\"^[ae]$\": {\"items\": {\"properties\": {");
    for (int i = 0; i < 12; i++)
        buffer_add_format(&schema, "%s\"p%d\": true", i ? ", " : "", i);
    buffer_add_string(&schema, "}}}}}");
    struct matched_grammar matched;
    struct error error;
    if (matched_open_schema(&matched, (struct text){schema.data, schema.size}, NULL, &error) != STATUS_OK)
        fail_msg("%s", error.text);
    assert_true(accepts_text(matched.recognizer,
                             "{\"e\":[{\"p0\":1}],\"a\":[{\"a0\":1,\"a11\":1,\"p0\":1,\"p11\":1}]}"));
    assert_false(accepts_text(matched.recognizer, "{\"e\":[{\"p0\":1}],\"a\":[{\"p0\":1,\"a0\":1}]}"));
    matched_close(&matched);
    buffer_finish(&schema);
}

static bool accepts_instance(const char *schema, const char *instance)
{
    struct matched_grammar matched;
    struct error error;
    if (matched_open_schema(&matched, text_from_string(schema), NULL, &error) != STATUS_OK)
        fail_msg("%s: %s", schema, error.text);
    bool accepted = accepts_text(matched.recognizer, instance);
    matched_close(&matched);
    return accepted;
}

// Their values and that they are allowed at all are the reference's matter.
TEST(names_beside_a_reference_have_their_place_where_it_stands_alone)
{
    const char *open = "{\"$schema\": \"http://json-schema.org/draft-07/schema#\", \"$ref\": "
                       "\"#/definitions/d\", \"properties\": {\"z\": {\"type\": \"null\"}, \"b\": false}, "
                       "\"definitions\": {\"d\": {\"properties\": {\"b\": {\"type\": \"integer\"}}}}}";
    assert_true(accepts_instance(open, "{\"z\":1,\"b\":2}"));
    assert_true(accepts_instance(open, "{\"b\":2,\"other\":3}"));
    assert_false(accepts_instance(open, "{\"other\":3,\"z\":1}"));
    assert_false(accepts_instance(open, "{\"z\":1,\"b\":null}"));
    const char *closed = "{\"$schema\": \"http://json-schema.org/draft-07/schema#\", \"$ref\": "
                         "\"#/definitions/d\", \"properties\": {\"z\": true}, \"definitions\": {\"d\": "
                         "{\"additionalProperties\": false, \"properties\": {\"b\": {}}}}}";
    assert_true(accepts_instance(closed, "{\"b\":2}"));
    assert_false(accepts_instance(closed, "{\"z\":1,\"b\":2}"));
    const char *malformed = "{\"$schema\": \"http://json-schema.org/draft-07/schema#\", \"$ref\": "
                            "\"#/definitions/d\", \"properties\": [1], \"definitions\": {\"d\": {}}}";
    assert_true(accepts_instance(malformed, "{\"z\":1}"));
}

TEST(instances_of_draft_4_may_have_fractions_of_zeros)
{
    static const char *const keywords[] = {"\"multipleOf\": 1", "\"enum\": [10]"};
    for (int i = 0; i < 4; i++) {
        struct json_schema_options options = {.has_zero_fractions = i % 2};
        struct matched_grammar matched;
        struct error error = {0};
        char schema[128];
        snprintf(schema, sizeof schema, "{\"$schema\": \"http://json-schema.org/draft-04/schema#\", %s}",
                 keywords[i / 2]);
        assert_ok(matched_open_schema(&matched, text_from_string(schema), &options, &error), &error);
        assert_true(accepts_text(matched.recognizer, "10"));
        assert_int_equal(accepts_text(matched.recognizer, "10.0"), i % 2);
        matched_close(&matched);
    }
}

TEST(a_schema_without_values_is_an_error)
{
    static const char *const schemas[] = {
        "false", "{\"not\": {}}", "{\"minimum\": 2, \"maximum\": 1, \"type\": \"number\"}",
        "{\"type\": \"object\", \"required\": [\"a\"], \"properties\": {\"a\": false}}",
        "{\"type\": \"array\", \"items\": {\"$ref\": \"#\"}, \"minItems\": 1}"};
    for (size_t i = 0; i < sizeof schemas / sizeof schemas[0]; i++) {
        struct matched_grammar matched;
        struct error error = {0};
        assert_int_equal(matched_open_schema(&matched, text_from_string(schemas[i]), NULL, &error),
                         STATUS_REJECT);
        assert_true(error.text[0] != 0);
        matched_close(&matched);
    }
}

struct figures {
    size_t n_right, n_refused;
};

static void judge_group(const struct json_node *group, const char *uri, struct figures *figures)
{
    const struct json_schema_options options = {.has_zero_fractions = true};
    struct grammar_text_style style = {.numbers = strstr(uri, "draft-04") ? GRAMMAR_TEXT_NUMBERS_DRAFT_4
                                                                          : GRAMMAR_TEXT_NUMBERS_GENERATED};
    const struct json_node *given = json_member_named(group, "schema"),
                           *tests = json_member_named(group, "tests");
    struct buffer schema = {0};
    struct matched_grammar matched;
    struct error error = {0};
    grammar_text_write(given, (struct grammar_text_style){0}, &schema);
    struct text text = {schema.data, schema.size};
    struct buffer dated = {0};
    if (given->kind == JSON_OBJECT && !json_member_named(given, "$schema")) {
        buffer_add_format(&dated, "{\"$schema\":\"%s\"%s", uri, given->n_children ? "," : "");
        buffer_add(&dated, schema.data + 1, schema.size - 1);
        text = (struct text){dated.data, dated.size};
    }
    enum status status = matched_open_schema(&matched, text, &options, &error);
    for (const struct json_node *test = tests->first; test; test = test->next) {
        struct buffer instance = {0};
        bool valid = json_member_named(test, "valid")->kind == JSON_TRUE;
        grammar_text_write(json_member_named(test, "data"), style, &instance);
        figures->n_refused += status != STATUS_OK;
        figures->n_right += status == STATUS_OK;
        if (status == STATUS_OK &&
            accepts_bytes(matched.recognizer, (struct text){instance.data, instance.size}, NULL) != valid)
            fail_msg("%.*s: %.*s is judged wrongly", (int)text.size, text.data, (int)instance.size,
                     instance.data);
        buffer_finish(&instance);
    }
    matched_close(&matched);
    buffer_finish(&schema);
    buffer_finish(&dated);
}

static void judge_file(const char *path, const char *uri, struct figures *figures)
{
    static char bytes[1 << 20];
    struct arena arena = {0};
    struct json_document document;
    struct error error = {0};
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    size_t size = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    if (json_document_read((struct text){bytes, size}, &grammar_limits_default, &arena, &document, &error) !=
        STATUS_OK)
        fail_msg("%s: %s", path, error.text);
    for (const struct json_node *group = document.root->first; group; group = group->next)
        judge_group(group, uri, figures);
    arena_finish(&arena);
}

TEST(the_official_suite_is_judged_right_or_refused)
{
    static const char *const drafts[][2] = {{"draft4", "http://json-schema.org/draft-04/schema#"},
                                            {"draft6", "http://json-schema.org/draft-06/schema#"},
                                            {"draft7", "http://json-schema.org/draft-07/schema#"},
                                            {"draft2019-09", "https://json-schema.org/draft/2019-09/schema"}};
    for (size_t i = 0; i < 4; i++) {
        char folder[512], path[1024];
        struct figures figures = {0};
        bool found = shared_path(folder, sizeof folder, "structured/json-schema-test-suite/tests");
        snprintf(path, sizeof path, "%s/%s", folder, drafts[i][0]);
        DIR *entries = found ? opendir(path) : NULL;
        if (!entries) {
            print_message("skipped: there is no %s\n", path);
            skip();
        }
        for (struct dirent *entry; (entry = readdir(entries));) {
            size_t length = strlen(entry->d_name);
            if (length < 5 || strcmp(entry->d_name + length - 5, ".json") != 0)
                continue;
            snprintf(path, sizeof path, "%s/%s/%s", folder, drafts[i][0], entry->d_name);
            judge_file(path, drafts[i][1], &figures);
        }
        closedir(entries);
        print_message("%s: %zu right, %zu refused\n", drafts[i][0], figures.n_right, figures.n_refused);
        assert_true(figures.n_right > 4 * figures.n_refused);
    }
}
