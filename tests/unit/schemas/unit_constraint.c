// The fields that ask for structured output: one constraint under the field names of several servers.
#include "tests/support/cases.h"
#include "tests/support/job_records.h"

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
    {"'choice_logprobs':true", "choice_logprobs: needs structured_outputs.choice"},
    {"'choice_logprobs':true,'guided_choice':['1','2','1']",
     "choice_logprobs: the choice \"1\" occurs twice"},
    {"'choice_logprobs':true,'guided_regex':'a'", "choice_logprobs: needs structured_outputs.choice"},
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
