// Prompts of jobs: messages, text, token ids; and OpenAI's batch lines, which contain them.
#include "tests/support/cases.h"
#include "tests/support/job_records.h"

TEST(messages_become_the_templates_variables)
{
    struct job *job =
        decode_good("{'job_id':'a','messages':[{'role':'system','content':'s'},{'role':'user','content':[{"
                    "'type':'text','text':'one'},{'type':'text','text':'two'}],'name':'n'}],'tools':[{'type':"
                    "'function','function':{'name':'f'}}],'documents':[{'title':'t'}],"
                    "'chat_template_kwargs':{'enable_thinking':false}}");
    struct buffer out = {0};
    json_encode(&job->request.prompt.variables, &out);
    char expected[] =
        "{'messages':[{'role':'system','content':'s'},{'role':'user','content':'one\\ntwo','name':'n'}],"
        "'tools':[{'type':'function','function':{'name':'f'}}],'documents':[{'title':'t'}],"
        "'add_generation_prompt':true,'enable_thinking':false}";
    unquote(expected);
    assert_string_equal(out.data, expected);
    assert_int_equal(job->request.prompt.kind, PROMPT_MESSAGES);
    assert_int_equal(job->request.prompt.messages.array.n_items, 2);
    assert_encodes(
        job, "{'job_id':'a','messages':[{'role':'system','content':'s'},{'role':'user','content':'one\\ntwo',"
             "'name':'n'}],'tools':[{'type':'function','function':{'name':'f'}}],'documents':[{'title':'t'}],"
             "'chat_template_kwargs':{'enable_thinking':false}}");
    job_destroy(job);
    buffer_finish(&out);
}

TEST(tool_choice_decides_whether_the_template_sees_tools)
{
    const char *const format = "{'job_id':'a','messages':[{'role':'user','content':''}],"
                               "'tools':[{'type':'function','function':{'name':'f'}}],'tool_choice':%s}";
    static const struct {
        const char *choice;
        bool seen;
        enum tool_choice kind;
    } cases[] = {{"'none'", false, TOOLS_NONE},
                 {"'auto'", true, TOOLS_AUTO},
                 {"null", true, TOOLS_AUTO},
                 {"'required'", true, TOOLS_REQUIRED},
                 {"{'type':'function','function':{'name':'f'}}", true, TOOLS_NAMED}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct decoded_job decoded = decode(format, cases[i].choice);
        assert_int_equal(decoded.status, STATUS_OK);
        const struct value *tools = value_get(&decoded.job->request.prompt.variables, "tools");
        assert_int_equal(tools->kind, cases[i].seen ? VALUE_ARRAY : VALUE_NULL);
        assert_int_equal(decoded.job->request.tools.choice, cases[i].kind);
        job_destroy(decoded.job);
    }
}

#define TOOLS(rest)    "{'messages':[{'role':'user','content':''}]," rest "}"
#define FUNCTION(rest) "{'type':'function','function':{" rest "}}"

TEST(tools_that_can_not_be_called_are_refused_by_name)
{
    static const struct {
        const char *job, *text;
        enum error_code code;
    } cases[] = {
        {TOOLS("'tool_choice':'required'"), "tool_choice: needs tools, but none are given",
         ERROR_INVALID_FIELD},
        {TOOLS("'tools':[],'tool_choice':'auto'"), "tool_choice: needs tools, but none are given",
         ERROR_INVALID_FIELD},
        {TOOLS("'tools':[" FUNCTION("'name':'f'") "],'tool_choice':'any'"),
         "tool_choice: expected 'none', 'auto', 'required' or a named function, got 'any'",
         ERROR_INVALID_FIELD},
        {TOOLS("'tools':[" FUNCTION("'name':'f'") "],'tool_choice':" FUNCTION("'name':'g'")),
         "tool_choice.function.name: expected a function of tools, got 'g'", ERROR_INVALID_FIELD},
        {TOOLS("'tools':[" FUNCTION("'name':'f'") "],'tool_choice':{'type':'allowed_tools'}"),
         "tool_choice.type: only 'function' is supported", ERROR_UNSUPPORTED_FIELD},
        {TOOLS("'tools':[{'type':'web_search'}]"),
         "tools[0].type: only 'function' is supported, got 'web_search'", ERROR_UNSUPPORTED_FIELD},
        {TOOLS("'tools':[{'type':'function'}]"),
         "tools[0].function: expected an object with a name, got null", ERROR_INVALID_FIELD},
        {TOOLS("'tools':[" FUNCTION("'name':'a b'") "]"),
         "tools[0].function.name: expected 1 to 128 letters, digits and characters of '_-./:', got 'a b'",
         ERROR_INVALID_FIELD},
        {TOOLS("'tools':[" FUNCTION("'name':'f'") "," FUNCTION("'name':'g'") "," FUNCTION("'name':'f'") "]"),
         "tools: two functions have the name 'f'", ERROR_INVALID_FIELD},
        {TOOLS("'tools':[" FUNCTION("'name':'f','parameters':{'type':'string'}") "]"),
         "tools[0].function.parameters.type: expected 'object', got 'string'", ERROR_INVALID_FIELD},
        {TOOLS("'tools':[" FUNCTION("'name':'f'") "],'parallel_tool_calls':1"),
         "parallel_tool_calls: expected true or false, got 1", ERROR_INVALID_FIELD},
        {TOOLS("'tools':[" FUNCTION("'name':'f'") "],'min_tokens':1"), "min_tokens: impossible beside tools",
         ERROR_INVALID_FIELD},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_refused(cases[i].job, cases[i].code, cases[i].text);
}

TEST(the_choice_of_tools_is_kept)
{
    static const char *const jobs[] = {
        "{'job_id':'a','messages':[{'role':'user','content':''}],'tools':[" FUNCTION("'name':'f'") "]}",
        "{'job_id':'a','messages':[{'role':'user','content':''}],'tools':[" FUNCTION(
            "'name':'f'") "],'tool_choice':'required','parallel_tool_calls':false}",
        "{'job_id':'a','messages':[{'role':'user','content':''}],'tools':[" FUNCTION(
            "'name':'f','parameters':{'type':'object'}") "],'tool_choice':" FUNCTION("'name':'f'") "}"};
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++)
        assert_recodes(jobs[i], jobs[i]);
}

TEST(the_generation_prompt_can_be_left_out)
{
    assert_recodes(CHAT_JOB(",'add_generation_prompt':false"), CHAT_JOB(",'add_generation_prompt':false"));
    assert_recodes(CHAT_JOB(",'continue_final_message':true"),
                   CHAT_JOB(",'add_generation_prompt':false,'continue_final_message':true"));
    assert_recodes(CHAT_JOB(",'add_generation_prompt':true"), CHAT_JOB(""));
}

TEST(a_message_that_calls_tools_needs_no_content)
{
    const char *const record =
        "{'job_id':'a','messages':[{'role':'user','content':'x'},{'role':'assistant','content':null,"
        "'tool_calls':[{'id':'c','function':{'name':'f','arguments':{}}}]},{'role':'assistant','tool_calls':"
        "[{'id':'d','type':'function','function':{'name':'f','arguments':{'x':1}}}]}]}";
    // A null is left out, as transformers leaves it out.
    assert_recodes(record, "{'job_id':'a','messages':[{'role':'user','content':'x'},{'role':'assistant',"
                           "'tool_calls':[{'id':'c','function':{'name':'f','arguments':{}}}]},{'role':"
                           "'assistant','tool_calls':[{'id':'d','type':'function','function':{'name':'f',"
                           "'arguments':{'x':1}}}]}]}");
}

TEST(an_assistant_without_content_said_an_empty_text)
{
    assert_recodes(
        "{'job_id':'a','messages':[{'role':'assistant','content':null},{'role':'assistant'},{'role':"
        "'assistant','content':null,'tool_calls':[]},{'role':'user','content':''}]}",
        "{'job_id':'a','messages':[{'role':'assistant','content':''},{'role':'assistant','content':"
        "''},{'role':'assistant','content':''},{'role':'user','content':''}]}");
}

TEST(a_message_of_another_role_has_to_have_content)
{
#define ONE(members) "{'job_id':'a','messages':[{'role':'assistant','content':'x'},{" members "}]}"
#define EXPECTED     "messages[1].content: expected a string or a list of text parts, got null"
    static const char *const roles[] = {"user", "system", "developer", "tool", "human"};
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++) {
        char record[200];
        snprintf(record, sizeof record, ONE("'role':'%s'"), roles[i]);
        assert_refused(record, ERROR_INVALID_FIELD, EXPECTED);
    }
    assert_refused(ONE("'role':'user','content':null"), ERROR_INVALID_FIELD, EXPECTED);
    assert_refused(ONE("'role':'user','contents':'y'"), ERROR_INVALID_FIELD,
                   EXPECTED "; unknown field 'contents'");
    assert_refused(ONE("'role':'user','text':'y'"), ERROR_INVALID_FIELD, EXPECTED "; unknown field 'text'");
}

TEST(members_that_are_not_built_are_refused_by_name)
{
    assert_refused(ONE("'role':'assistant','content':'y','function_call':{'name':'f'}"),
                   ERROR_UNSUPPORTED_FIELD,
                   "messages[1].function_call: not supported; calls belong in tool_calls");
    assert_refused(ONE("'role':'assistant','content':'y','audio':{'id':'f'}"), ERROR_UNSUPPORTED_FIELD,
                   "messages[1].audio: not supported");
    assert_recodes(ONE("'role':'assistant','content':'y','function_call':null,'audio':null,'refusal':null"),
                   ONE("'role':'assistant','content':'y'"));
}

TEST(thoughts_have_two_names)
{
    const char *const both = ONE("'role':'assistant','content':'y','reasoning':'t','reasoning_content':'t'");
    assert_recodes(ONE("'role':'assistant','content':'y','reasoning':'t'"), both);
    assert_recodes(ONE("'role':'assistant','content':'y','reasoning_content':'t'"),
                   ONE("'role':'assistant','content':'y','reasoning_content':'t','reasoning':'t'"));
    assert_recodes(both, both);
    assert_refused(ONE("'role':'assistant','content':'y','reasoning':'t','reasoning_content':'u'"),
                   ERROR_INVALID_FIELD,
                   "messages[1].reasoning: given beside another reasoning_content; one of them is enough");
}

TEST(enable_thinking_is_a_variable_of_the_template)
{
    assert_recodes(CHAT_JOB(",'enable_thinking':false"),
                   CHAT_JOB(",'chat_template_kwargs':{'enable_thinking':false}"));
    assert_recodes(CHAT_JOB(",'enable_thinking':true,'chat_template_kwargs':{'enable_thinking':true,'a':1}"),
                   CHAT_JOB(",'chat_template_kwargs':{'enable_thinking':true,'a':1}"));
    assert_refused(
        CHAT_JOB(",'enable_thinking':true,'chat_template_kwargs':{'enable_thinking':false}"),
        ERROR_INVALID_FIELD,
        "enable_thinking: given as true beside another value in chat_template_kwargs; one of them is enough");
}

// As in vLLM, reasoning_effort also switches a template's thinking, unless enable_thinking does.
TEST(reasoning_effort_is_a_variable_of_the_template)
{
    assert_recodes(CHAT_JOB(",'reasoning_effort':'low'"),
                   CHAT_JOB(",'chat_template_kwargs':{'reasoning_effort':'low','enable_thinking':true}"));
    assert_recodes(CHAT_JOB(",'reasoning_effort':'none'"),
                   CHAT_JOB(",'chat_template_kwargs':{'reasoning_effort':'none','enable_thinking':false}"));
    assert_recodes(CHAT_JOB(",'enable_thinking':false,'reasoning_effort':'max'"),
                   CHAT_JOB(",'chat_template_kwargs':{'enable_thinking':false,'reasoning_effort':'max'}"));
    assert_recodes(CHAT_JOB(",'reasoning_effort':'high','chat_template_kwargs':{'reasoning_effort':'high',"
                            "'enable_thinking':false}"),
                   CHAT_JOB(",'chat_template_kwargs':{'reasoning_effort':'high','enable_thinking':false}"));
    assert_recodes(CHAT_JOB(",'chat_template_kwargs':{'reasoning_effort':'own'}"),
                   CHAT_JOB(",'chat_template_kwargs':{'reasoning_effort':'own'}"));
    assert_refused(CHAT_JOB(",'reasoning_effort':'much'"), ERROR_INVALID_FIELD,
                   "reasoning_effort: expected none, minimal, low, medium, high, xhigh or max, got 'much'");
    assert_refused(CHAT_JOB(",'reasoning_effort':2"), ERROR_INVALID_FIELD,
                   "reasoning_effort: expected none, minimal, low, medium, high, xhigh or max, got 2");
    assert_refused(CHAT_JOB(",'reasoning_effort':'low','chat_template_kwargs':{'reasoning_effort':'high'}"),
                   ERROR_INVALID_FIELD,
                   "reasoning_effort: given as low beside another value in chat_template_kwargs; one of them "
                   "is enough");
    assert_refused("{'prompt':'x','reasoning_effort':'low'}", ERROR_INVALID_FIELD,
                   "reasoning_effort: needs messages, but prompt is given");
}

// transformers passes both always, as None.
TEST(tools_and_documents_that_are_absent_are_none)
{
    struct job *job = decode_good(CHAT_JOB(""));
    assert_int_equal(value_get(&job->request.prompt.variables, "tools")->kind, VALUE_NULL);
    assert_int_equal(value_get(&job->request.prompt.variables, "documents")->kind, VALUE_NULL);
    assert_encodes(job, CHAT_JOB(""));
    job_destroy(job);
}

#define CALL(arguments)                                                                                      \
    "{'job_id':'a','messages':[{'role':'assistant','tool_calls':[{'function':{'name':'f'" arguments "}}]}]}"

TEST(arguments_of_tool_calls_become_objects)
{
    static const char *const cases[][2] = {
        {CALL(",'arguments':'{\\'city\\':\\'Paris\\',\\'n\\':[1,2.5]}'"),
         CALL(",'arguments':{'city':'Paris','n':[1,2.5]}")},
        {CALL(",'arguments':{'x':null}"), CALL(",'arguments':{'x':null}")},
        {CALL(",'arguments':'{}'"), CALL(",'arguments':{}")},
        {CALL(",'arguments':''"), CALL(",'arguments':{}")},
        {CALL(",'arguments':null"), CALL(",'arguments':{}")},
        {CALL(""), CALL(",'arguments':{}")},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_recodes(cases[i][0], cases[i][1]);
    // Only an assistant has calls; an empty list equals no calls.
    assert_recodes("{'job_id':'a','messages':[{'role':'user','content':'','tool_calls':[7]}]}",
                   "{'job_id':'a','messages':[{'role':'user','content':'','tool_calls':[7]}]}");
    assert_recodes("{'job_id':'a','messages':[{'role':'assistant','content':'','tool_calls':[]}]}",
                   "{'job_id':'a','messages':[{'role':'assistant','content':''}]}");
}

TEST(arguments_that_are_no_json_object_are_an_empty_one_with_a_warning)
{
    static const char *const cases[][2] = {
        {"'{\\'city\\''", "got \"{\\\"city\\\"\""},
        {"'[1]'", "got \"[1]\""},
        {"'42'", "got \"42\""},
        {"[1]", "got [1]"},
        {"7", "got 7"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char record[256], expected[256];
        snprintf(record, sizeof record, CALL(",'arguments':%s"), cases[i][0]);
        struct decoded_job decoded = decode("%s", record);
        assert_int_equal(decoded.status, STATUS_OK);
        assert_int_equal(decoded.job->result.n_warnings, 1);
        snprintf(
            expected, sizeof expected,
            "messages[0].tool_calls[0].function.arguments: expected a JSON object, %s; the template sees {}",
            cases[i][1]);
        struct text warning = decoded.job->result.warnings[0];
        if (!text_equals_string(warning, expected))
            fail_msg("%.*s\nexpected %s", (int)warning.size, warning.data, expected);
        job_destroy(decoded.job);
    }
}

TEST(tool_calls_of_another_shape_are_refused)
{
    assert_refused("{'messages':[{'role':'assistant','tool_calls':['x']}]}", ERROR_INVALID_FIELD,
                   "messages[0].tool_calls[0]: expected an object with a function, got 'x'");
    assert_refused(
        "{'messages':[{'role':'assistant','tool_calls':[{'id':'c'}]}]}", ERROR_INVALID_FIELD,
        "messages[0].tool_calls[0].function: expected an object with name and arguments, got null");
    assert_refused("{'messages':[{'role':'assistant','tool_calls':[{'type':'custom','function':{}}]}]}",
                   ERROR_INVALID_FIELD, "messages[0].tool_calls[0].type: expected 'function', got 'custom'");
    // Templates would take the members of an object for calls.
    assert_refused("{'messages':[{'role':'assistant','tool_calls':{'function':{'name':'f'}}}]}",
                   ERROR_INVALID_FIELD,
                   "messages[0].tool_calls: expected a list of calls, got {'function':{'name':'f'}}");
    assert_refused("{'messages':[{'role':'assistant','tool_calls':[{'function':{'arguments':'{}'}}]}]}",
                   ERROR_INVALID_FIELD,
                   "messages[0].tool_calls[0].function.name: expected the name of a function, got null");
    assert_refused("{'messages':[{'role':'assistant','tool_calls':[{'function':{'name':3}}]}]}",
                   ERROR_INVALID_FIELD,
                   "messages[0].tool_calls[0].function.name: expected the name of a function, got 3");
}

// A record bounds its values, and so do the texts inside it.
TEST(arguments_of_all_calls_have_as_many_values_as_a_record)
{
    for (int extra = 0; extra < 2; extra++) {
        // {"a":[0,...]} has 3 values beside the items; twice half the limit.
        size_t n_items = VALUE_COUNT_MAX / 2 - 3;
        struct buffer record = {0};
        buffer_add_string(&record, "{\"messages\":[{\"role\":\"assistant\",\"tool_calls\":[");
        for (int call = 0; call < 2; call++) {
            buffer_add_string(&record, call ? "," : "");
            buffer_add_string(&record, "{\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"a\\\":[");
            for (size_t i = 0; i < n_items + (size_t)(call ? extra : 0); i++)
                buffer_add_string(&record, i ? ",0" : "0");
            buffer_add_string(&record, "]}\"}}");
        }
        buffer_add_string(&record, "]}]}");
        struct decoded_job decoded = decode_bytes((struct text){record.data, record.size}, ENCODING_JSON);
        assert_int_equal(decoded.status, extra ? STATUS_REJECT : STATUS_OK);
        if (extra) {
            assert_int_equal(decoded.error.code, ERROR_LIMIT_EXCEEDED);
            assert_string_equal(decoded.error.text,
                                "messages[0].tool_calls[1].function.arguments: the arguments of all "
                                "calls have more than 1048576 values");
        }
        job_destroy(decoded.job);
        buffer_finish(&record);
    }
}

TEST(bad_messages_are_named_by_their_place)
{
    static const struct {
        const char *messages, *text;
    } cases[] = {
        {"'x'", "messages: expected a list of messages, got 'x'"},
        {"[]", "messages: expected a list of messages, got []"},
        {"['x']", "messages[0]: expected an object with role and content, got 'x'"},
        {"[{'content':'x'}]", "messages[0].role: expected a role such as 'user', got null"},
        {"[{'role':5,'content':'x'}]", "messages[0].role: expected a role such as 'user', got 5"},
        {"[{'role':'','content':'x'}]", "messages[0].role: expected a role such as 'user', got ''"},
        {"[{'role':'a','content':'x'},{'role':'user','content':7}]",
         "messages[1].content: expected a string or a list of text parts, got 7"},
        {"[{'role':'a','content':[]}]",
         "messages[0].content: expected a string or a list of text parts, got []"},
        {"[{'role':'a','content':['x']}]", "messages[0].content[0]: expected a part with a type, got 'x'"},
        {"[{'role':'a','content':[{'type':'text'}]}]",
         "messages[0].content[0]: expected a part with a string as text, got {'type':'text'}"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char record[256];
        snprintf(record, sizeof record, "{'messages':%s}", cases[i].messages);
        assert_refused(record, ERROR_INVALID_FIELD, cases[i].text);
    }
    assert_refused("{'messages':[{'role':'u','content':[{'type':'text','text':'x'},{'type':'image_url','"
                   "image_url':{}}]}]}",
                   ERROR_UNSUPPORTED_FIELD,
                   "messages[0].content[1].type: only 'text' and 'refusal' are supported, got 'image_url'");
    assert_refused("{'job_id':'a'}", ERROR_MISSING_FIELD,
                   "messages: missing; one of messages, prompt and tokens is wanted");
    assert_refused("{'messages':[{'role':'u','content':'x'}],'logprobs':3}", ERROR_INVALID_FIELD,
                   "logprobs: expected true or false, got 3");
    assert_refused("{'messages':[{'role':'u','content':'x'}],'tools':{}}", ERROR_INVALID_FIELD,
                   "tools: expected a list of objects, got {}");
    assert_refused("{'messages':[{'role':'u','content':'x'}],'documents':['d']}", ERROR_INVALID_FIELD,
                   "documents[0]: expected an object, got 'd'");
    assert_refused("{'messages':[{'role':'u','content':'x'}],'add_generation_prompt':true,"
                   "'continue_final_message':true}",
                   ERROR_INVALID_FIELD, "continue_final_message: impossible beside add_generation_prompt");
    assert_refused("{'messages':[{'role':'u','content':' \\n'}],'continue_final_message':true}",
                   ERROR_INVALID_FIELD, "continue_final_message: the last message has no text to continue");
    assert_refused("{'messages':[{'role':'u','content':'x'}],'echo':true}", ERROR_INVALID_FIELD,
                   "echo: needs prompt or tokens, but messages is given");
    assert_refused("{'prompt':'x','continue_final_message':true}", ERROR_INVALID_FIELD,
                   "continue_final_message: needs messages, but prompt is given");
    assert_refused("{'messages':[{'role':'u','content':'x'}],'add_generation_prompt':'no'}",
                   ERROR_INVALID_FIELD, "add_generation_prompt: expected true or false, got 'no'");
    assert_refused("{'messages':[{'role':'u','content':'x'}],'chat_template_kwargs':{'messages':1}}",
                   ERROR_INVALID_FIELD,
                   "chat_template_kwargs.messages: belongs beside chat_template_kwargs, not inside");
}

TEST(a_refusal_is_a_part_of_text)
{
    assert_recodes("{'job_id':'a','messages':[{'role':'assistant','content':[{'type':'text','text':'x'},"
                   "{'type':'refusal','refusal':'no'}]}]}",
                   "{'job_id':'a','messages':[{'role':'assistant','content':'x\\nno'}]}");
    assert_refused("{'messages':[{'role':'assistant','content':[{'type':'refusal','text':'no'}]}]}",
                   ERROR_INVALID_FIELD,
                   "messages[0].content[0]: expected a part with a string as text, got "
                   "{'type':'refusal','text':'no'}");
}

TEST(members_of_a_part_that_are_not_read_become_warnings)
{
    struct job *job =
        decode_good("{'messages':[{'role':'u','content':[{'type':'text','text':'x','refusal':null,"
                    "'cache_control':{}}]}]}");
    assert_int_equal(job->result.n_warnings, 1);
    assert_true(text_equals_string(job->result.warnings[0],
                                   "unknown field \"messages[0].content[0].cache_control\" ignored"));
    job_destroy(job);
}

TEST(bytes_are_refused_wherever_text_belongs)
{
    static const struct text records[] = {
        TEXT("\x81\xA6prompt\xC4\x01x"),
        TEXT("\x82\xA6job_id\xC4\x01x\xA6prompt\xA1x"),
        TEXT("\x81\xA8messages\x91\x82\xA4role\xA4user\xA7"
             "content\xC4\x01x"),
        TEXT("\x81\xA8messages\x91\x83\xA4role\xA4user\xA7"
             "content\xA1x\xA1y\x91\xC4\x01x"),
        TEXT("\x82\xA8messages\x91\x82\xA4role\xA4user\xA7"
             "content\xA1x\xA5tools\x91\x81\xA1x\xC4\x01x"),
        TEXT("\x82\xA8messages\x91\x82\xA4role\xA4user\xA7"
             "content\xA1x\xB4"
             "chat_template_kwargs\x81\xA1x\xC4\x01x"),
        TEXT("\x82\xA6prompt\xA1x\xA4stop\xC4\x01x"),
    };
    for (size_t i = 0; i < sizeof records / sizeof *records; i++) {
        struct decoded_job decoded = decode_bytes(records[i], ENCODING_MSGPACK);
        assert_int_equal(decoded.status, STATUS_REJECT);
        assert_int_equal(decoded.error.code, ERROR_INVALID_FIELD);
        assert_non_null(strstr(decoded.error.text, "bytes"));
        job_destroy(decoded.job);
    }
}

TEST(prompts_are_text_or_token_ids)
{
    assert_recodes("{'job_id':'a','prompt':[3,0,2147483647]}", "{'job_id':'a','tokens':[3,0,2147483647]}");
    assert_recodes("{'job_id':'a','tokens':[3]}", "{'job_id':'a','tokens':[3]}");
    assert_recodes("{'job_id':'a','prompt':[]}", "{'job_id':'a','tokens':[]}");
    assert_recodes("{'job_id':'a','prompt':'a\\u0000b'}", "{'job_id':'a','prompt':'a\\u0000b'}");
    assert_refused("{'prompt':5}", ERROR_INVALID_FIELD,
                   "prompt: expected a string or a list of token ids, got 5");
    assert_refused("{'prompt':[1,-2]}", ERROR_INVALID_FIELD,
                   "prompt[1]: expected an integer from 0 to 2147483647, got -2");
    assert_refused("{'tokens':[2147483648]}", ERROR_INVALID_FIELD,
                   "tokens[0]: expected an integer from 0 to 2147483647, got 2147483648");
    assert_refused("{'tokens':'3'}", ERROR_INVALID_FIELD, "tokens: expected a list of token ids, got '3'");
    assert_refused("{'tokens':['3']}", ERROR_INVALID_FIELD,
                   "tokens[0]: expected an integer from 0 to 2147483647, got '3'");
}

TEST(an_openai_batch_line_is_a_job)
{
    assert_recodes("{'custom_id':'c-1','method':'POST','url':'/v1/chat/"
                   "completions','body':{'model':'m','messages':[{'role':"
                   "'user','content':'x'}],'max_tokens':5,'x':1}}",
                   "{'custom_id':'c-1','model':'m','messages':[{'role':'user','content':'x'}],'max_tokens':5,"
                   "'warnings':['unknown field \\'x\\' ignored']}");
    assert_recodes("{'custom_id':'c-1','url':'/v1/"
                   "completions','body':{'prompt':'x','job_id':'inner'},'job_id':'j','dataset':"
                   "'d','index':4,'extra':1}",
                   "{'job_id':'j','dataset':'d','custom_id':'c-1','index':4,'prompt':'x','max_tokens':16,"
                   "'warnings':['unknown field \\'extra\\' ignored','unknown field \\'job_id\\' ignored']}");
    assert_recodes("{'job_id':'j','body':{'tokens':[1]}}", "{'job_id':'j','tokens':[1]}");
    assert_recodes("{'job_id':'j','method':'POST','url':'/v1/completions','tokens':[1]}",
                   "{'job_id':'j','tokens':[1]}"); // as a line without a body
}

TEST(bad_batch_lines_are_refused_with_their_identity)
{
    static const struct {
        const char *rest;
        enum error_code code;
        const char *text;
    } cases[] = {
        {"'body':null", ERROR_INVALID_FIELD, "body: expected an object, got null"},
        {"'body':'x'", ERROR_INVALID_FIELD, "body: expected an object, got 'x'"},
        {"'method':'GET','body':{'prompt':'p'}", ERROR_INVALID_FIELD, "method: expected 'POST', got 'GET'"},
        {"'url':'/v1/responses','body':{'prompt':'p'}", ERROR_UNSUPPORTED_FIELD,
         "url: only /v1/chat/completions, /v1/completions, /v1/embeddings, /v1/classify, /v1/rerank and /v1/score are supported, got '/v1/responses'"},
        {"'url':'/v1/completions','body':{'prompt':'p','messages':[{'role':'user','content':'x'}]}",
         ERROR_INVALID_FIELD, "messages: given beside prompt, but url '/v1/completions' takes no messages"},
        {"'url':'/v1/completions','method':'POST'", ERROR_MISSING_FIELD,
         "body: missing; an OpenAI batch line has its request there"},
        {"'url':'/v1/chat/completions','body':{'prompt':'p'}", ERROR_INVALID_FIELD,
         "url: '/v1/chat/completions' needs messages, which is not given"},
        {"'url':'/v1/completions','body':{'messages':[{'role':'u','content':'x'}]}", ERROR_INVALID_FIELD,
         "url: '/v1/completions' needs prompt, which is not given"},
        {"'url':'/v1/chat/completions','body':{}", ERROR_MISSING_FIELD,
         "messages: missing; url '/v1/chat/completions' needs it"},
        {"'url':'/v1/completions','body':{}", ERROR_MISSING_FIELD,
         "prompt: missing; url '/v1/completions' needs it"},
        {"'temperature':1,'body':{'prompt':'p'}", ERROR_INVALID_FIELD, "temperature: belongs into 'body'"},
        {"'body':{'prompt':'p','n':0}", ERROR_INVALID_FIELD, "n: expected an integer from 1 to 64, got 0"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char record[256];
        snprintf(record, sizeof record, "{%s,'custom_id':'c','dataset':'d','index':3}", cases[i].rest);
        assert_refused(record, cases[i].code, cases[i].text);
        struct decoded_job decoded = decode("%s", record);
        assert_true(text_equals_string(decoded.job->custom_id, "c") &&
                    text_equals_string(decoded.job->dataset, "d"));
        assert_int_equal(decoded.job->index, 3);
        job_destroy(decoded.job);
    }
}

TEST(completions_lines_without_max_tokens_have_sixteen)
{
    static const struct {
        const char *line;
        int32_t max_tokens;
    } cases[] = {
        {"{'job_id':'a','url':'/v1/completions','body':{'prompt':'p'}}", JOB_COMPLETION_TOKENS_DEFAULT},
        {"{'job_id':'a','url':'/v1/completions','body':{'prompt':'p','max_tokens':99}}", 99},
        {"{'job_id':'a','url':'/v1/completions','body':{'prompt':'p','max_tokens':0}}", 0},
        {"{'job_id':'a','body':{'prompt':'p'}}", -1},
        {PROMPT_JOB(""), -1},
        {"{'job_id':'a','url':'/v1/chat/completions','body':{'messages':[{'role':'user','content':'p'}]}}",
         -1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct job *job = decode_good(cases[i].line);
        assert_int_equal(job->request.stop.max_tokens, cases[i].max_tokens);
        job_destroy(job);
    }
    // On every queue alike: a record that was written again names both.
    assert_refused("{'job_id':'a','url':'/v1/completions','body':{'prompt':'p','min_tokens':17}}",
                   ERROR_INVALID_FIELD, "min_tokens: expected at most max_tokens, which is 16, got 17");
}
