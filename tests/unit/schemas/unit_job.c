// Reading and writing job records: identity, parameters, limits, bytes.
#include "schemas/base/hash.h"
#include "tests/golden/golden.h"
#include "tests/support/cases.h"
#include "tests/support/job_records.h"

TEST(what_is_not_given_has_openais_defaults)
{
    struct job *job = decode_good(PROMPT_JOB(""));
    const struct request *request = &job->request;
    const struct sampling *sampling = &request->sampling;
    assert_true(text_equals_string(job->job_id, "a"));
    assert_true(text_equals_string(job->custom_id, "a"));
    assert_true(text_equals_string(job->dataset, "default"));
    assert_int_equal(job->index, -1);
    assert_int_equal(job->created_s, 0);
    assert_int_equal(request->prompt.kind, PROMPT_TEXT);
    assert_true(text_equals_string(request->prompt.text, "p"));
    assert_int_equal(request->stop.max_tokens, -1);
    assert_int_equal(request->n, 1);
    assert_int_equal(request->stop.n_strings, 0);
    assert_false(request->stop.ignore_eos);
    assert_true(sampling->temperature == 1 && sampling->top_p == 1 && sampling->min_p == 0);
    assert_true(sampling->presence_penalty == 0 && sampling->frequency_penalty == 0);
    assert_true(sampling->repetition_penalty == 1 && sampling->top_k == 0 && !sampling->logprobs);
    assert_int_equal(sampling->n_logit_bias, 0);
    assert_false(sampling->seed_given);
    assert_int_equal(job->result.status, RESULT_NONE);
    assert_int_equal(job->result.n_warnings, 0);
    assert_encodes(job, PROMPT_JOB(""));
    job_destroy(job);
}

TEST(a_null_counts_as_not_given)
{
    assert_recodes(PROMPT_JOB(
                       ",'messages':null,'seed':null,'stop':null,'temperature':null,'n':null,'stream':null,"
                       "'functions':null,'user':null,'logit_bias':null,'dataset':null"),
                   PROMPT_JOB(""));
}

TEST(numbers_may_be_whole_floats_and_floats_whole_numbers)
{
    assert_recodes(
        PROMPT_JOB(",'n':2.0,'max_tokens':1e2,'seed':-3.0,'index':7.0,'temperature':0,'top_k':5.0,"
                   "'best_of':2.0"),
        "{'job_id':'a','index':7,'prompt':'p','max_tokens':100,'n':2,'temperature':0.0,'top_k':5,'seed':-3}");
    assert_recodes("{'job_id':'a','tokens':[1,2.0]}", "{'job_id':'a','tokens':[1,2]}");
}

static const struct {
    const char *field, *text;
} wrong_fields[] = {
    {"'temperature':'hot'", "temperature: expected a number from 0 to 100, got 'hot'"},
    {"'temperature':100.5", "temperature: expected a number from 0 to 100, got 100.5"},
    {"'temperature':-0.5", "temperature: expected a number from 0 to 100, got -0.5"},
    {"'temperature':true", "temperature: expected a number from 0 to 100, got true"},
    {"'top_p':-0.1", "top_p: expected a number from 0 to 1, got -0.1"},
    {"'top_p':1.5", "top_p: expected a number from 0 to 1, got 1.5"},
    {"'min_p':-1", "min_p: expected a number from 0 to 1, got -1"},
    {"'repetition_penalty':0.0", "repetition_penalty: expected a number above 0 and up to 10, got 0.0"},
    {"'presence_penalty':3", "presence_penalty: expected a number from -2 to 2, got 3"},
    {"'frequency_penalty':[1]", "frequency_penalty: expected a number from -2 to 2, got [1]"},
    {"'top_k':-2", "top_k: expected an integer from -1 to 1048576, got -2"},
    {"'n':3,'best_of':2", "best_of: expected at least n, which is 3, got 2"},
    {"'best_of':0", "best_of: expected an integer from 1 to 64, got 0"},
    {"'repeat_penalty':0", "repetition_penalty: expected a number above 0 and up to 10, got 0"},
    {"'repeat_penalty':1.1,'repetition_penalty':1.2",
     "repeat_penalty: given as 1.1 beside repetition_penalty 1.2; one of them is enough"},
    {"'max_new_tokens':5,'max_tokens':6",
     "max_new_tokens: given as 5 beside max_tokens 6; one of them is enough"},
    {"'enable_thinking':false", "enable_thinking: needs messages, but prompt is given"},
    {"'n':0", "n: expected an integer from 1 to 64, got 0"},
    {"'n':1.5", "n: expected an integer from 1 to 64, got 1.5"},
    {"'n':'1'", "n: expected an integer from 1 to 64, got '1'"},
    {"'max_tokens':-1", "max_tokens: expected an integer from 0 to 1048576, got -1"},
    {"'max_completion_tokens':'x'", "max_completion_tokens: expected an integer from 0 to 1048576, got 'x'"},
    {"'max_tokens':3,'max_completion_tokens':4",
     "max_completion_tokens: given as 4 beside max_tokens 3; one of them is enough"},
    {"'seed':9223372036854775808", "seed: expected an integer from -9223372036854775808 to "
                                   "9223372036854775807, got 9223372036854775808"},
    {"'seed':0.5", "seed: expected an integer from -9223372036854775808 to 9223372036854775807, got 0.5"},
    {"'index':-1", "index: expected an integer from 0 to 9223372036854775807, got -1"},
    {"'created':'now'", "created: expected an integer from 0 to 9223372036854775807, got 'now'"},
    {"'min_tokens':-1", "min_tokens: expected an integer from 0 to 1048576, got -1"},
    {"'min_tokens':3,'max_tokens':2", "min_tokens: expected at most max_tokens, which is 2, got 3"},
    {"'stop_token_ids':2", "stop_token_ids: expected a list of token ids, got 2"},
    {"'stop_token_ids':[2,-1]", "stop_token_ids[1]: expected an integer from 0 to 2147483647, got -1"},
    {"'allowed_token_ids':[]", "allowed_token_ids: expected at least one token, got none"},
    {"'allowed_token_ids':['a']", "allowed_token_ids[0]: expected an integer from 0 to 2147483647, got 'a'"},
    {"'include_stop_str_in_output':1", "include_stop_str_in_output: expected true or false, got 1"},
    {"'ignore_eos':1", "ignore_eos: expected true or false, got 1"},
    {"'stop':5", "stop: expected a string or a list of strings, got 5"},
    {"'stop':''", "stop: expected a string that is not empty, got ''"},
    {"'stop':['a','']", "stop[1]: expected a string that is not empty, got ''"},
    {"'stop':[1]", "stop[0]: expected a string that is not empty, got 1"},
    {"'logit_bias':[]", "logit_bias: expected an object of token ids and numbers, got []"},
    {"'logit_bias':{'a':1}", "logit_bias: expected token ids as keys, got 'a'"},
    {"'logit_bias':{'01':1}", "logit_bias: expected token ids as keys, got '01'"},
    {"'logit_bias':{'-1':1}", "logit_bias: expected token ids as keys, got '-1'"},
    {"'logit_bias':{'':1}", "logit_bias: expected token ids as keys, got ''"},
    {"'logit_bias':{'2147483648':1}", "logit_bias: expected token ids as keys, got '2147483648'"},
    {"'logit_bias':{'7':100.5}", "logit_bias['7']: expected a number from -100 to 100, got 100.5"},
    {"'logit_bias':{'7':'1'}", "logit_bias['7']: expected a number from -100 to 100, got '1'"},
    {"'logprobs':'yes'", "logprobs: expected an integer from 0 to 20, got 'yes'"},
    {"'logprobs':2,'top_logprobs':2", "logprobs: expected true or false beside top_logprobs, got 2"},
    {"'top_logprobs':2", "top_logprobs: needs 'logprobs': true"},
    {"'top_logprobs':2,'logprobs':false", "top_logprobs: needs 'logprobs': true"},
    {"'model':5", "model: expected a string, got 5"},
    {"'dataset':''", "dataset: expected a string that is not empty, got ''"},
    {"'dataset':'a\\u0000'", "dataset: expected a string without NUL, got 'a\\u0000'"},
    {"'warnings':'w'", "warnings: expected a list of strings, got 'w'"},
    {"'warnings':[1]", "warnings: expected strings, got 1"},
    {"'tools':[]", "tools: needs messages, but prompt is given"},
    {"'chat_template_kwargs':{}", "chat_template_kwargs: needs messages, but prompt is given"},
    {"'tokens':[]", "tokens: given beside prompt, but one of messages, prompt and tokens is wanted"},
    {"'messages':[{'role':'user','content':'x'}]",
     "prompt: given beside messages, but one of messages, prompt and tokens is wanted"},
};

TEST(fields_of_a_wrong_type_or_range_are_named)
{
    for (size_t i = 0; i < sizeof wrong_fields / sizeof *wrong_fields; i++) {
        char record[256];
        snprintf(record, sizeof record, PROMPT_JOB(",%s"), wrong_fields[i].field);
        assert_refused(record, ERROR_INVALID_FIELD, wrong_fields[i].text);
    }
}

TEST(names_of_other_servers_are_the_same_fields)
{
    assert_recodes(
        PROMPT_JOB(",'max_new_tokens':7,'repeat_penalty':1.25,'num_return_sequences':2,'stop_strings':'x'"),
        PROMPT_JOB(",'max_tokens':7,'n':2,'stop':['x'],'repetition_penalty':1.25"));
    assert_recodes(PROMPT_JOB(",'n_predict':7,'max_tokens':7"), PROMPT_JOB(",'max_tokens':7"));
}

TEST(values_at_the_edge_of_what_servers_take_are_taken)
{
    assert_recodes(PROMPT_JOB(",'top_p':0,'temperature':100,'seed':-1"),
                   PROMPT_JOB(",'temperature':100.0,'top_p':0.0"));
    struct job *random = decode_good(PROMPT_JOB(",'seed':-1")), *none = decode_good(PROMPT_JOB(""));
    assert_true(random->request.sampling.seed == none->request.sampling.seed &&
                !random->request.sampling.seed_given);
    job_destroy(random);
    job_destroy(none);
}

TEST(best_of_generates_more_than_it_returns)
{
    assert_recodes(PROMPT_JOB(",'n':2,'best_of':5"), PROMPT_JOB(",'n':2,'best_of':5"));
    assert_recodes(PROMPT_JOB(",'n':2,'best_of':5,'logprobs':true"),
                   PROMPT_JOB(",'n':2,'best_of':5,'logprobs':true"));
    struct job *job = decode_good("{'prompt':'p','n':2,'best_of':5}"),
               *asked = decode_good("{'prompt':'p','best_of':2,'logprobs':1}");
    assert_int_equal(request_n_sequences(&job->request), 5);
    assert_true(job->request.sampling.logprobs && job->request.hides_logprobs); // they decide which are best
    assert_true(asked->request.sampling.logprobs && !asked->request.hides_logprobs);
    job_destroy(job);
    job_destroy(asked);
}

TEST(parameters_are_read_under_openais_names)
{
    assert_recodes(PROMPT_JOB(",'max_completion_tokens':9,'stop':'END','top_k':-1,'logprobs':3"),
                   PROMPT_JOB(",'max_tokens':9,'top_k':0,'stop':['END'],'logprobs':true,'top_logprobs':3"));
    // A default that is named stays named: the worker's own does not replace it.
    assert_recodes(
        PROMPT_JOB(
            ",'temperature':1,'top_p':1,'top_k':0,'min_p':0,'presence_penalty':0,'frequency_penalty':0,"
            "'repetition_penalty':1"),
        PROMPT_JOB(",'temperature':1.0,'top_p':1.0,'top_k':0,'min_p':0.0,'presence_penalty':0.0,"
                   "'frequency_penalty':0.0,'repetition_penalty':1.0"));
    assert_recodes(PROMPT_JOB(
                       ",'max_tokens':0,'max_completion_tokens':0,'stop':[],'logprobs':0,'logit_bias':{}"),
                   PROMPT_JOB(",'max_tokens':0,'logprobs':true"));
    assert_recodes(PROMPT_JOB(",'temperature':0.7,'logit_bias':{'50256':-100,'0':0.25},'logprobs':false"),
                   PROMPT_JOB(",'temperature':0.7,'logit_bias':{'50256':-100.0,'0':0.25}"));
    // -0 is 0.
    assert_recodes(PROMPT_JOB(",'min_p':-0.0,'presence_penalty':-0.0"),
                   PROMPT_JOB(",'min_p':0.0,'presence_penalty':0.0"));
}

TEST(a_seed_is_any_int64)
{
    assert_recodes(PROMPT_JOB(",'seed':-9223372036854775808"), PROMPT_JOB(",'seed':-9223372036854775808"));
    assert_recodes(PROMPT_JOB(",'seed':0"), PROMPT_JOB(",'seed':0"));
    struct job *later = decode_good("{'prompt':'p'}"),
               *given = decode_good("{'prompt':'p','seed':42,'custom_id':'c'}");
    assert_int_equal(later->job_id.size, 0);
    char id[] = "a";
    assert_true(job_set_id(later, text_from_string(id)) && job_set_id(given, text_from_string(id)));
    id[0] = 'x'; // it was copied
    assert_true(text_equals_string(later->custom_id, "a"));
    assert_int_equal(given->request.sampling.seed, 42);
    assert_true(text_equals_string(given->custom_id, "c") && text_equals_string(given->job_id, "a"));
    job_destroy(later);
    job_destroy(given);
}

static uint64_t seed_of(const char *record)
{
    struct job *job = decode_good(record);
    uint64_t seed = job_default_seed(job);
    job_destroy(job);
    return seed;
}

// Dataset, job id and settings are no part of it; prompt and custom_id, else the index, are.
TEST(a_seed_that_is_not_given_is_of_the_request_alone)
{
    static const char *const same[][2] = {
        {"{'prompt':'p','custom_id':'c','job_id':'a','dataset':'d','index':1}",
         "{'prompt':'p','custom_id':'c','job_id':'b','dataset':'e','index':2}"},
        {"{'prompt':'p','custom_id':'d-1','job_id':'d-1','dataset':'d','index':1}", // as the dataset would name it
         "{'prompt':'p','custom_id':'d-1','job_id':'e-1','dataset':'e','index':1}"},
        {"{'prompt':'p','job_id':'d-7','dataset':'d','index':7}",
         "{'prompt':'p','job_id':'e-7','dataset':'e','index':7}"},
        {"{'prompt':'p','job_id':'d-0','dataset':'d','index':0}", // the first line
         "{'prompt':'p','job_id':'e-0','dataset':'e','index':0}"},
        {"{'messages':[{'role':'user','content':'x'}],'index':7}",
         "{'index':7,'messages':[{'role':'user','content':'x'}],'n':3}"},
        {"{'prompt':[1,2,3],'index':0}", "{'temperature':0.5,'prompt':[1,2,3],'index':0}"}};
    static const char *const others[] = {"{'prompt':'p','index':1}",
                                         "{'prompt':'p','index':2}",
                                         "{'prompt':'q','index':1}",
                                         "{'prompt':'p','index':1,'custom_id':'1'}",
                                         "{'prompt':'p','custom_id':'c'}",
                                         "{'prompt':'p','job_id':'x'}",
                                         "{'prompt':[1,2],'index':1}",
                                         "{'prompt':[1,3],'index':1}",
                                         "{'messages':[{'role':'user','content':'p'}],'index':1}",
                                         "{'messages':[{'role':'user','content':'q'}],'index':1}",
                                         "{'messages':[{'role':'system','content':'p'}],'index':1}"};
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        assert_true(seed_of(same[i][0]) == seed_of(same[i][1]));
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        for (size_t j = 0; j < i; j++)
            assert_true(seed_of(others[i]) != seed_of(others[j]));
}

// As JSON and as msgpack.
TEST(a_seed_is_the_same_in_both_encodings)
{
    struct job *json = decode_good("{'messages':[{'role':'user','content':'x'}],'index':3,"
                                   "'chat_template_kwargs':{'a':0.7,'b':[1,true]}}");
    struct buffer record = {0};
    struct job *msgpack = job_create();
    struct error error;
    assert_true(job_set_id(json, TEXT("j")));
    job_encode(json, ENCODING_MSGPACK, &record);
    assert_ok(job_decode(msgpack, (struct text){record.data, record.size}, ENCODING_MSGPACK, &error), &error);
    assert_true(job_default_seed(msgpack) == job_default_seed(json));
    buffer_finish(&record);
    job_destroy(json);
    job_destroy(msgpack);
}

TEST(the_identity_is_read_even_from_a_bad_record)
{
    struct decoded_job decoded =
        decode("{'temperature':'hot','n':0,'job_id':'a','dataset':5,'index':2,'created':3}");
    assert_int_equal(decoded.status, STATUS_REJECT);
    assert_string_equal(decoded.error.text, "dataset: expected a string, got 5"); // identity first
    assert_true(text_equals_string(decoded.job->job_id, "a") &&
                text_equals_string(decoded.job->custom_id, "a"));
    assert_true(text_equals_string(decoded.job->dataset, "default"));
    assert_int_equal(decoded.job->index, 2);
    assert_int_equal(decoded.job->created_s, 3);
    job_destroy(decoded.job);
}

TEST(a_record_that_is_no_object_is_refused)
{
    assert_refused("[1]", ERROR_INVALID_FIELD, "record: expected an object, got [1]");
    assert_refused("'x'", ERROR_INVALID_FIELD, "record: expected an object, got 'x'");
    struct decoded_job decoded = decode_bytes(TEXT("{\"prompt\":"), ENCODING_JSON);
    assert_int_equal(decoded.status, STATUS_REJECT);
    assert_int_equal(decoded.error.code, ERROR_INVALID_ENCODING);
    job_destroy(decoded.job);
}

TEST(a_deadline_is_in_seconds_and_a_priority_has_both_signs)
{
    struct job *job = decode_good("{'prompt':'p','priority':-100,'deadline':253402300799}");
    assert_int_equal(job->priority, -JOB_PRIORITY_MAX);
    assert_int_equal(job->deadline_s, JOB_DEADLINE_S_MAX);
    job_destroy(job);
    assert_refused("{'prompt':'p','priority':-101}", ERROR_INVALID_FIELD,
                   "priority: expected an integer from -100 to 100, got -101");
    assert_refused("{'prompt':'p','metadata':[1]}", ERROR_INVALID_FIELD,
                   "metadata: expected an object, got [1]");
    assert_refused("{'prompt':'p','deadline':1800000000000}", ERROR_LIMIT_EXCEEDED,
                   "deadline: expected an integer from 0 to 253402300799, got 1800000000000");
    assert_refused("{'prompt':'p','deadline':-1}", ERROR_INVALID_FIELD,
                   "deadline: expected an integer from 0 to 253402300799, got -1");
    assert_refused("{'priority':1,'body':{'prompt':'p'}}", ERROR_INVALID_FIELD,
                   "priority: belongs into 'body'");
}

// Everything a job can say, each away from its default.
static const char full_record[] =
    "{'job_id':'reviews-17','dataset':'reviews','custom_id':'line "
    "17','index':17,'created':1700000000,'model':'annotator',"
    "'messages':[{'role':'system','content':'Label the review.'},{'role':'user','content':'Caf\\u00e9: "
    "\\ud83d\\ude00\\n\\t'}],"
    "'tools':[{'type':'function','function':{'name':'label','parameters':{'type':'object'}}}],"
    "'tool_choice':'required','parallel_tool_calls':false,"
    "'documents':[{'title':'t','text':'d'}],'add_generation_prompt':false,"
    "'chat_template_kwargs':{'enable_thinking':false,'depth':3,'scale':0.1},'max_tokens':64,'n':2,'"
    "temperature':0.7,'top_p':0.95,'top_k':40,"
    "'min_p':0.05,'seed':-42,'stop':['\\n\\n','END'],'stop_token_ids':[9,2],"
    "'include_stop_str_in_output':true,'presence_penalty':0.5,'frequency_"
    "penalty':-0.25,"
    "'repetition_penalty':1.1,'thinking_token_budget':128,'logit_bias':{'50256':-100.0,'7':1.5},'logprobs':true,'top_logprobs':5,"
    "'priority':-7,'deadline':1800000000,'metadata':{'tenant':'a','row':[1,null,{'x':2.5}]},"
    "'warnings':['unknown field \\'color\\' ignored']}";

TEST(the_bytes_of_a_job_do_not_change)
{
    struct job *job = decode_good(full_record);
    struct buffer json = {0}, msgpack = {0};
    job_encode(job, ENCODING_JSON, &json);
    job_encode(job, ENCODING_MSGPACK, &msgpack);
    golden_check("job.json", (struct text){json.data, json.size});
    golden_check("job.msgpack", (struct text){msgpack.data, msgpack.size});
    // Both read back to the job that was written.
    const struct buffer *const records[] = {&json, &msgpack};
    for (int i = 0; i < 2; i++) {
        struct decoded_job decoded = decode_bytes((struct text){records[i]->data, records[i]->size},
                                                  i ? ENCODING_MSGPACK : ENCODING_JSON);
        assert_int_equal(decoded.status, STATUS_OK);
        struct buffer again = {0};
        job_encode(decoded.job, ENCODING_MSGPACK, &again);
        assert_int_equal(again.size, msgpack.size);
        assert_memory_equal(again.data, msgpack.data, msgpack.size);
        buffer_finish(&again);
        job_destroy(decoded.job);
    }
    buffer_finish(&json);
    buffer_finish(&msgpack);
    job_destroy(job);
}

TEST(the_encoding_follows_from_the_content_type_else_the_first_byte)
{
    static const struct {
        const char *type;
        struct text record;
        int expected; // -1: neither
    } cases[] = {
        {"application/json", TEXT("\x80"), ENCODING_JSON},
        {" Application/JSON ; charset=utf-8", TEXT("\x80"), ENCODING_JSON},
        {"application/msgpack", TEXT("{}"), ENCODING_MSGPACK},
        {"application/x-msgpack", TEXT(""), ENCODING_MSGPACK},
        {"application/vnd.msgpack;v=1", TEXT("{}"), ENCODING_MSGPACK},
        {"text/plain", TEXT("{}"), ENCODING_JSON},
        {"", TEXT(" \n{}"), ENCODING_JSON},
        {"", TEXT("\t{}"), ENCODING_JSON},
        {";", TEXT("\r{}"), ENCODING_JSON},
        {"", TEXT("\xEF\xBB\xBF{}"), ENCODING_JSON},
        {"", {"\0\0\0\0\7{}", 7}, ENCODING_JSON}, // a schema's id
        {"", {"\0\0\0\0\7\xEF\xBB\xBF{}", 10}, ENCODING_JSON},
        {"", {"\0\0\0\0\7", 5}, -1},
        {"", {"\0\0\0\0\7x", 6}, -1},
        {"", TEXT("\xEF\xBB\xBF"), -1},
        {"", TEXT("\x80"), ENCODING_MSGPACK},
        {"", TEXT("\x8F"), ENCODING_MSGPACK},
        {"", TEXT("\xDE"), ENCODING_MSGPACK},
        {"", TEXT("\xDF"), ENCODING_MSGPACK},
        {"", TEXT("\x90"), -1},
        {"", TEXT("[1]"), -1},
        {"", TEXT("x"), -1},
        {"", TEXT(""), -1},
        {"application/octet-stream", TEXT(""), -1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        enum encoding encoding;
        bool known = encoding_detect(text_from_string(cases[i].type), cases[i].record, &encoding);
        assert_int_equal(known ? (int)encoding : -1, cases[i].expected);
    }
    enum encoding encoding;
    assert_true(encoding_detect((struct text){0}, TEXT("{}"), &encoding));
}

TEST(framing_and_a_byte_order_mark_before_json_are_passed_over)
{
    static const struct text records[] = {TEXT("\xEF\xBB\xBF{\"job_id\":\"a\",\"prompt\":\"p\"}"),
                                          {"\0\0\0\1\0{\"job_id\":\"a\",\"prompt\":\"p\"}", 32}};
    for (size_t i = 0; i < 2; i++) {
        struct job *job = job_create();
        struct error error;
        assert_ok(job_decode(job, records[i], ENCODING_JSON, &error), &error);
        assert_true(text_equals_string(job->job_id, "a") &&
                    text_equals_string(job->request.prompt.text, "p"));
        job_destroy(job);
    }
}

TEST(a_failed_job_keeps_its_identity_and_warnings_only)
{
    struct job *job = decode_good(PROMPT_JOB(",'x':1"));
    struct error error;
    error_set(&error, STATUS_REJECT, ERROR_CONTEXT_LENGTH, "prompt: 9 tokens");
    job->result = (struct result){.status = RESULT_DONE,
                                  .n_choices = 1,
                                  .completion_tokens = 3,
                                  .warnings = job->result.warnings,
                                  .n_warnings = job->result.n_warnings};
    job_fail(job, &error);
    assert_int_equal(job->result.status, RESULT_FAILED);
    assert_int_equal(job->result.n_choices, 0);
    assert_int_equal(job->result.completion_tokens, 0);
    assert_int_equal(job->result.n_warnings, 1);
    assert_string_equal(job->result.error.text, "prompt: 9 tokens");
    error_set(&error, STATUS_REJECT, ERROR_CANCELLED, "cancelled");
    job_fail(job, &error);
    assert_int_equal(job->result.status, RESULT_CANCELLED);
    job_destroy(job);
    job_destroy(NULL);
}

// Under the address sanitizer nothing is kept, and each job is new.
TEST(a_reserve_keeps_the_memory_of_so_many_jobs_and_gives_the_last_first)
{
    struct job_reserve reserve = {0};
    struct job *jobs[JOB_RESERVE_MAX + 2];
    enum { N = sizeof jobs / sizeof *jobs };
    for (int i = 0; i < N; i++) {
        jobs[i] = job_reserve_take(&reserve);
        assert_non_null(jobs[i]);
    }
    assert_true(job_set_text(jobs[N - 2], &jobs[N - 2]->custom_id, TEXT("kept by nobody")));
    assert_non_null(arena_allocate(&jobs[N - 2]->arena, 100000)); // more than its first memory
    jobs[N - 2]->index = 7;
    for (int i = 0; i < N; i++)
        job_reserve_give(&reserve, jobs[i]);
    job_reserve_give(&reserve, NULL);
    assert_int_equal(reserve.n_jobs, JOB_RESERVE_MAX);
    struct job *job = job_reserve_take(&reserve), *fresh = job_create();
    if (JOB_RESERVE_MAX)
        assert_ptr_equal(job, jobs[JOB_RESERVE_MAX - 1]);
    assert_int_equal(job->index, fresh->index);
    assert_int_equal(job->custom_id.size, 0);
    assert_string_equal(job->dataset.data, "default");
    assert_int_equal(job->arena.total_bytes, fresh->arena.total_bytes);
    const unsigned char *memory = arena_allocate(&job->arena, 3000);
    for (int i = 0; i < 3000; i++)
        assert_int_equal(memory[i], 0);
    job_destroy(fresh);
    job_reserve_give(NULL, job); // as job_destroy
    job_reserve_finish(&reserve);
    job_destroy(job_reserve_take(&reserve));
}

// The fields that say which job it is are read as far as they can be, so that its error result is the job's.
TEST(the_first_bad_field_of_an_identity_is_named_and_the_others_are_read)
{
    static const struct {
        const char *record, *words;
    } cases[] = {
        {"{'prompt':'p','job_id':'j','dataset':7,'custom_id':'c','index':-2,'created':'x'}", "dataset"},
        {"{'created':'x','index':-2,'prompt':'p','job_id':'j','custom_id':'c'}", "index"},
        {"{'prompt':'p','created':'x','job_id':'j','custom_id':'c'}", "created"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct decoded_job decoded = decode("%s", cases[i].record);
        assert_int_equal(decoded.status, STATUS_REJECT);
        if (strncmp(decoded.error.text, cases[i].words, strlen(cases[i].words)) != 0)
            fail_msg("case %zu: %s", i, decoded.error.text);
        assert_true(text_equals_string(decoded.job->job_id, "j"));
        assert_true(text_equals_string(decoded.job->custom_id, "c"));
        job_destroy(decoded.job);
    }
}
