// The fields that ask for structured output: one constraint under the field names of several servers.
#include "tests/support/cases.h"
#include "tests/support/job_records.h"

#define NEEDS_CHOICE                                                                                         \
    "choice_logprobs: needs structured_outputs.choice, or a schema with properties that are enums or booleans"

static const struct {
    const char *field, *text;
} senseless[] = {
    {"'response_format':'json'", "response_format: expected an object, got 'json'"},
    {"'response_format':{}",
     "response_format.type: expected \"text\", \"json_object\" or \"json_schema\", got null"},
    {"'response_format':{'type':'xml'}",
     "response_format.type: expected \"text\", \"json_object\" or \"json_schema\", got 'xml'"},
    {"'response_format':{'type':'json_schema'}",
     "response_format.json_schema.schema: expected a JSON Schema, got null"},
    {"'response_format':{'type':'json_schema','json_schema':{'name':'a','schema':3}}",
     "response_format.json_schema.schema: expected a JSON Schema, got 3"},
    {"'response_format':{'type':'json_schema','json_schema':{'name':'a','schema':'true'}}",
     "response_format.json_schema.schema: expected a JSON Schema, got 'true'"},
    {"'response_format':{'type':'json_object','schema':3}",
     "response_format.schema: expected a JSON Schema, got 3"},
    {"'response_format':{'type':'json_object','schema':'{}'}",
     "response_format.schema: expected a JSON Schema, got '{}'"},
    {"'guided_regex':'a','response_format':{'type':'json_object','schema':{}}",
     "guided_regex: given beside response_format.schema; one constraint is possible"},
    {"'structured_outputs':[]", "structured_outputs: expected an object, got []"},
    {"'structured_outputs':{'choice':[]}",
     "structured_outputs.choice: expected a list of strings that is not empty, got []"},
    {"'structured_outputs':{'choice':['a',2]}",
     "structured_outputs.choice: expected strings that are not empty, got 2"},
    {"'structured_outputs':{'regex':''}",
     "structured_outputs.regex: expected a string that is not empty, got ''"},
    {"'guided_regex':'a','guided_choice':['b']",
     "guided_choice: given beside guided_regex; one constraint is possible"},
    {"'structured_outputs':{'regex':'a','json':{}}",
     "structured_outputs.json: given beside structured_outputs.regex; one constraint is possible"},
    {"'guided_regex':'a','response_format':{'type':'json_object'}",
     "guided_regex: given beside response_format; one constraint is possible"},
    {"'guided_regex':'a','min_tokens':1", "min_tokens: impossible beside guided_regex"},
    {"'grammar':'root ::= x','ignore_eos':true", "ignore_eos: impossible beside grammar"},
    {"'json_spacing':'wide','guided_json':{}",
     "json_spacing: expected \"compact\", \"spaced\" or a number of blanks, got 'wide'"},
    {"'json_spacing':0,'guided_json':{}", "json_spacing: expected an integer from 1 to 8, got 0"},
    {"'json_spacing':'spaced','guided_regex':'a'",
     "json_spacing: needs a JSON Schema or a response_format of JSON"},
    {"'close_at_max_tokens':true", "close_at_max_tokens: needs a constraint or tools"},
    {"'json_any_order':true", "json_any_order: needs a JSON Schema or a response_format of JSON"},
    {"'guided_whitespace_pattern':' ?','guided_choice':['a']",
     "whitespace_pattern: needs a JSON Schema or a response_format of JSON"},
    {"'guided_whitespace_pattern':' ?','guided_json':{},'json_spacing':2",
     "json_spacing: impossible beside whitespace_pattern"},
    {"'choice_logprobs':true", NEEDS_CHOICE},
    {"'choice_logprobs':true,'guided_choice':['1','2','1']",
     "choice_logprobs: the choice \"1\" occurs twice"},
    {"'choice_logprobs':true,'guided_regex':'a'", NEEDS_CHOICE},
    {"'choice_logprobs':true,'guided_json':{'properties':{'a':{'type':'string'},'b':{'enum':[[1],2]},'c':{'const':1}}}",
     NEEDS_CHOICE},
    {"'choice_logprobs':true,'guided_json':'{'", "guided_json: not valid JSON: byte 1: expected a string"},
    {"'choice_logprobs':true,'guided_json':{'properties':{'a':{'type':'boolean'}}},'n':2",
     "choice_logprobs: with a schema impossible beside n"},
    {"'choice_logprobs':true,'guided_json':{'properties':{'a':{'type':'boolean'}}},'choice_logprobs_decide':true",
     "choice_logprobs: with a schema impossible beside choice_logprobs_decide"},
    {"'choice_logprobs_include_end':true,'guided_choice':['a']",
     "choice_logprobs_include_end: needs \"choice_logprobs\": true"},
    {"'choice_logprobs_decide':true,'guided_choice':['a']",
     "choice_logprobs_decide: needs \"choice_logprobs\": true"},
    {"'choice_logprobs_decide':true,'choice_logprobs':true,'guided_choice':['a'],'n':2",
     "choice_logprobs_decide: impossible beside n"},
    {"'choice_logprobs_decide':true,'choice_logprobs':true,'guided_choice':['a'],'echo':true",
     "choice_logprobs_decide: impossible beside echo"},
    {"'choice_logprobs_decide':true,'choice_logprobs':true,'guided_choice':['a'],"
     "'close_at_max_tokens':true",
     "choice_logprobs_decide: impossible beside close_at_max_tokens"},
    {"'bad_words':['x'],'guided_choice':['a']", "bad_words: impossible beside guided_choice"},
    {"'bad_words':'x'", "bad_words: expected a list of strings, got 'x'"},
    {"'bad_words':['x','\\n']", "bad_words[1]: expected a string that is not blank, got '\\n'"},
    {"'bad_words':['x',3]", "bad_words[1]: expected a string that is not empty, got 3"},
    {"'json_schema':{},'allowed_token_ids':[1]", "allowed_token_ids: impossible beside json_schema"},
};

TEST(constraints_without_sense_are_named)
{
    for (size_t i = 0; i < sizeof senseless / sizeof *senseless; i++) {
        char record[256];
        snprintf(record, sizeof record, PROMPT_JOB(",%s"), senseless[i].field);
        assert_refused(record, ERROR_INVALID_FIELD, senseless[i].text);
    }
}

static void expect_scored(const char *schema, const char *expected)
{
    struct arena arena = {0};
    struct value value;
    struct error error;
    struct request_scores scores = {0};
    struct buffer found = {0};
    assert_ok(json_decode(text_from_string(schema), &arena, &value, &error), &error);
    assert_ok(scored_values_find(&value, &arena, &scores, &error), &error);
    for (int32_t i = 0; i < scores.n_values; i++) {
        buffer_add_text(&found, scores.values[i].choice);
        buffer_add_string(&found, " ");
    }
    buffer_add(&found, "", 1);
    assert_string_equal(found.data, expected);
    buffer_finish(&found);
    arena_finish(&arena);
}

TEST(scored_values_are_those_of_properties_that_list_all_of_theirs)
{
    expect_scored("{\"properties\":{\"a\":{\"enum\":[\"x\",1,null,\"x\"]},\"b\":{\"type\":\"boolean\"}}}",
                  "{\"a\":\"x\"} {\"a\":1} {\"a\":null} {\"b\":true} {\"b\":false} ");
    expect_scored(
        "{\"properties\":{\"a\":{\"$ref\":\"#/$defs/t\"},\"b\":{\"anyOf\":[{\"$ref\":\"#/$defs/t\"},{\"type\":\"null\"}]}},"
        "\"$defs\":{\"t\":{\"enum\":[\"u\",\"v\"]}}}",
        "{\"a\":\"u\"} {\"a\":\"v\"} {\"b\":\"u\"} {\"b\":\"v\"} {\"b\":null} ");
    expect_scored(
        "{\"properties\":{\"a\":{\"type\":[\"boolean\",\"null\"]},\"b\":{\"oneOf\":[{\"const\":1},{\"const\":2}]}}}",
        "{\"a\":true} {\"a\":false} {\"a\":null} {\"b\":1} {\"b\":2} ");
    expect_scored(
        "{\"properties\":{\"a\":{\"anyOf\":[{\"enum\":[1,2]},{\"type\":\"string\"}]},\"b\":{\"const\":1},"
        "\"c\":{\"enum\":[[1],2]},\"d\":true,\"e\":{\"$ref\":\"#/properties/e\"},\"f\":{\"$ref\":\"other\"}}}",
        ""); // other values, one value, lists, any value, itself, elsewhere
    expect_scored("{\"enum\":[1,2]}", "");
    expect_scored("true", "");
    // values that another keyword leaves out
    expect_scored(
        "{\"properties\":{\"a\":{\"enum\":[\"x\",\"y\"],\"const\":\"x\"},\"b\":{\"type\":\"boolean\",\"not\":{\"const\":true}},"
        "\"c\":{\"enum\":[1,\"z\"],\"type\":\"integer\"},\"d\":{\"enum\":[\"xx\",\"y\"],\"maxLength\":1},"
        "\"e\":{\"anyOf\":[{\"enum\":[1,2]}],\"enum\":[1]},\"f\":{\"$ref\":\"#/$defs/t\",\"enum\":[1]}},"
        "\"$defs\":{\"t\":{\"enum\":[1,2]}}}",
        "");
    expect_scored(
        "{\"properties\":{\"a\":{\"enum\":[1,\"z\",2.5,null],\"type\":[\"number\",\"string\",\"null\"],\"title\":\"T\"}}}",
        "{\"a\":1} {\"a\":\"z\"} {\"a\":2.5} {\"a\":null} ");
}

TEST(more_scored_values_than_the_limit_are_refused)
{
    for (int n = SCORED_VALUES_MAX; n <= SCORED_VALUES_MAX + 1; n++) {
        struct arena arena = {0};
        struct value value;
        struct error error;
        struct request_scores scores = {0};
        struct buffer schema = {0};
        buffer_add_string(&schema, "{\"properties\":{\"a\":{\"enum\":[");
        for (int i = 0; i < n; i++)
            buffer_add_format(&schema, "%s%d", i ? "," : "", i);
        buffer_add_string(&schema, "]}}}");
        assert_ok(json_decode((struct text){schema.data, schema.size}, &arena, &value, &error), &error);
        enum status status = scored_values_find(&value, &arena, &scores, &error);
        assert_int_equal(status, n > SCORED_VALUES_MAX ? STATUS_REJECT : STATUS_OK);
        if (n > SCORED_VALUES_MAX)
            assert_int_equal(error.code, ERROR_LIMIT_EXCEEDED);
        else
            assert_int_equal(scores.n_values, n);
        buffer_finish(&schema);
        arena_finish(&arena);
    }
}

TEST(constraints_of_all_servers_are_one)
{
    static const char *const cases[][2] = {
        {"'response_format':{'type':'text'}", ""},
        {"'response_format':{'type':'json_object'}", ",'structured_outputs':{'json_object':true}"},
        {"'response_format':{'type':'json_schema','json_schema':{'name':'n','strict':false,"
         "'schema':{'type':'integer','b':0.1}}}",
         ",'structured_outputs':{'json':'{\\'type\\':\\'integer\\',\\'b\\':0.1}'}"},
        {"'response_format':{'type':'json_object','schema':{'const':{}}}",
         ",'structured_outputs':{'json':'{\\'const\\':{}}'}"},
        {"'response_format':{'type':'json_object','schema':null}",
         ",'structured_outputs':{'json_object':true}"},
        {"'response_format':{'type':'json_schema','schema':null,'json_schema':{'schema':true}}",
         ",'structured_outputs':{'json':'true'}"},
        {"'json_schema':true", ",'structured_outputs':{'json':'true'}"},
        {"'guided_json':{}", ",'structured_outputs':{'json':'{}'}"},
        {"'guided_json':'{}'", ",'structured_outputs':{'json':'{}'}"},
        {"'guided_regex':'a+'", ",'structured_outputs':{'regex':'a+'}"},
        {"'guided_choice':['a','b c']", ",'structured_outputs':{'choice':['a','b c']}"},
        {"'guided_choice':['a'],'choice_logprobs':true,'choice_logprobs_include_end':true",
         ",'structured_outputs':{'choice':['a']},'choice_logprobs':true,'choice_logprobs_include_end':true"},
        {"'guided_json':{},'json_spacing':'spaced','json_any_order':true",
         ",'structured_outputs':{'json':'{}'},'json_spacing':'spaced','json_any_order':true"},
        {"'guided_json':{},'json_spacing':'compact'", ",'structured_outputs':{'json':'{}'}"},
        {"'response_format':{'type':'json_object'},'json_spacing':4",
         ",'structured_outputs':{'json_object':true},'json_spacing':4"},
        {"'guided_json':{},'guided_whitespace_pattern':'[ ]?'",
         ",'structured_outputs':{'json':'{}','whitespace_pattern':'[ ]?'}"},
        {"'guided_regex':'a+','close_at_max_tokens':true",
         ",'structured_outputs':{'regex':'a+'},'close_at_max_tokens':true"},
        {"'guided_grammar':'start: x'", ",'structured_outputs':{'grammar':'start: x'}"},
        {"'grammar':'root ::= x'", ",'structured_outputs':{'grammar':'root ::= x'}"},
        {"'structured_outputs':{'json':null,'regex':'a'}", ",'structured_outputs':{'regex':'a'}"},
        {"'structured_outputs':{'json_object':false}", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char record[512], expected[512];
        snprintf(record, sizeof record, PROMPT_JOB(",%s"), cases[i][0]);
        snprintf(expected, sizeof expected, "{'job_id':'a','prompt':'p'%s}", cases[i][1]);
        assert_recodes(record, expected);
        assert_recodes(expected, expected);
    }
}

TEST(members_of_a_format_that_are_ignored_become_warnings)
{
    static const struct {
        const char *format, *constraint, *warnings;
    } cases[] = {
        {"{'type':'json_object','shema':{}}", ",'structured_outputs':{'json_object':true}",
         "'unknown field \\'response_format.shema\\' ignored; the nearest is schema'"},
        {"{'type':'json_object','strict':null}", ",'structured_outputs':{'json_object':true}",
         "'unknown field \\'response_format.strict\\' ignored'"},
        {"{'type':'json_object','json_schema':{'schema':{}}}", ",'structured_outputs':{'json_object':true}",
         "'field \\'response_format.json_schema\\' has no effect'"},
        {"{'type':'text','schema':3,'json_schema':null}", "",
         "'field \\'response_format.schema\\' has no effect'"},
        {"{'schema':{},'json_schema':{'schema':true,'name':'n','strict':true,'description':'d','strit':1},"
         "'type':'json_schema'}",
         ",'structured_outputs':{'json':'true'}",
         "'unknown field \\'response_format.json_schema.strit\\' ignored; the nearest is strict',"
         "'field \\'response_format.schema\\' has no effect'"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char record[512], expected[512];
        snprintf(record, sizeof record, PROMPT_JOB(",'response_format':%s"), cases[i].format);
        snprintf(expected, sizeof expected, "{'job_id':'a','prompt':'p'%s,'warnings':[%s]}",
                 cases[i].constraint, cases[i].warnings);
        assert_recodes(record, expected);
    }
}

TEST(a_constraint_is_counted_under_the_name_of_its_kind)
{
    static const char *const cases[][2] = {
        {"'max_tokens':1", NULL},
        {"'guided_regex':'a'", "regex"},
        {"'guided_choice':['a']", "choice"},
        {"'guided_json':{}", "json"},
        {"'response_format':{'type':'json_object'}", "json_object"},
        {"'grammar':'root ::= x'", "grammar"},
        {"'tools':[{'type':'function','function':{'name':'f'}}]", "tools"},
        {"'tools':[{'type':'function','function':{'name':'f'}}],'tool_choice':'none'", NULL}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char record[256];
        snprintf(record, sizeof record, CHAT_JOB(",%s"), cases[i][0]);
        struct job *job = decode_good(record);
        const char *name = job_constraint_name(job);
        if (cases[i][1]) {
            assert_non_null(name);
            assert_string_equal(name, cases[i][1]);
            assert_ptr_equal(constraint_name_find(text_from_string(cases[i][1])), name);
        } else {
            assert_null(name);
        }
        job_destroy(job);
    }
    assert_null(constraint_name_find(TEXT("xml")));
}
