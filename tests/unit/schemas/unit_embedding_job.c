// Embedding jobs: their fields, both encodings of their results, OpenAI's body.
#include "schemas/task.h"
#include "tests/golden/golden.h"
#include "tests/support/job_records.h"
#include "tests/unit/schemas/schema_validator.h"

// decode() also compares both encodings of the record and the job that is written back.
TEST(an_input_is_a_text_token_ids_or_a_list_of_either)
{
    static const struct {
        const char *record;
        int32_t n_inputs, n_tokens; // tokens of the last input; 0: a text
        bool is_list;
    } cases[] = {{"{'input':'a'}", 1, 0, false},
                 {"{'input':''}", 1, 0, false},
                 {"{'input':['a']}", 1, 0, true},
                 {"{'input':['a','','b']}", 3, 0, true},
                 {"{'input':[1,2,3.0]}", 1, 3, false},
                 {"{'input':[[1],[2,3]]}", 2, 2, true},
                 {"{'body':{'input':'a'}}", 1, 0, false},
                 {"{'url':'/v1/embeddings','body':{'input':'a'}}", 1, 0, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct job *job = decode_good(cases[i].record);
        const struct request_embedding *embedding = &job->request.embedding;
        const struct request_input *last = &embedding->inputs[embedding->n_inputs - 1];
        assert_int_equal(job->request.task, TASK_EMBED);
        assert_int_equal(embedding->n_inputs, cases[i].n_inputs);
        assert_int_equal(embedding->is_list, cases[i].is_list);
        assert_int_equal(last->n_tokens, cases[i].n_tokens);
        assert_int_equal(last->text.data != NULL, cases[i].n_tokens == 0);
        job_destroy(job);
    }
}

TEST(a_job_keeps_its_parameters_when_it_is_written_and_read)
{
    static const char record[] =
        "{\"job_id\":\"a\",\"input\":[\"x\",\"\"],\"dimensions\":3,\"encoding_format\":\"base64\","
        "\"input_type\":\"query\",\"truncate_prompt_tokens\":-1,\"truncation_side\":\"left\",\"partial\":true}";
    struct decoded_job decoded = decode_bytes(text_from_string(record), ENCODING_JSON);
    struct buffer out = {0};
    assert_ok(decoded.status, &decoded.error);
    job_encode(decoded.job, ENCODING_JSON, &out);
    assert_string_equal(out.data, record);
    buffer_finish(&out);
    job_destroy(decoded.job);
    struct job *plain =
        decode_good("{'input':'x','encoding_format':'float','truncate_prompt_tokens':7,"
                    "'truncation_side':'right','prompt_name':'n','model':'m','priority':2,'deadline':9}");
    assert_false(plain->request.embedding.is_base64 || plain->request.embedding.truncates_left);
    assert_int_equal(plain->request.embedding.truncate_tokens, 7);
    assert_int_equal(plain->request.embedding.type, INPUT_PLAIN);
    job_destroy(plain);
}

TEST(a_bad_input_is_named_with_its_index)
{
    assert_refused("{'input':7}", ERROR_INVALID_FIELD,
                   "input: expected a string, token ids, or a list of strings or of token ids, got 7");
    assert_refused("{'input':[]}", ERROR_INVALID_FIELD,
                   "input: expected a string, token ids, or a list of strings or of token ids, got []");
    assert_refused("{'input':['a',5]}", ERROR_INVALID_FIELD, "input[1]: expected a string, got 5");
    assert_refused("{'input':[[1],'a']}", ERROR_INVALID_FIELD,
                   "input[1]: expected a list of token ids, got \"a\"");
    assert_refused("{'input':[[1],[]]}", ERROR_EMPTY_PROMPT,
                   "input[1]: expected at least one token id, got an empty list");
    assert_refused("{'input':[[1],[2,-1]]}", ERROR_INVALID_FIELD,
                   "input[1][1]: expected an integer from 0 to 2147483647, got -1");
    assert_refused("{'input':[1,'a']}", ERROR_INVALID_FIELD,
                   "input[1]: expected an integer from 0 to 2147483647, got \"a\"");
}

TEST(a_job_has_at_most_2048_inputs)
{
    for (int n = JOB_INPUTS_MAX; n <= JOB_INPUTS_MAX + 1; n++) {
        struct buffer record = {0};
        for (int i = 0; i < n; i++)
            buffer_add_string(&record, i ? ",\"a\"" : "{\"input\":[\"a\"");
        buffer_add_string(&record, "]}");
        struct decoded_job decoded = decode_bytes((struct text){record.data, record.size}, ENCODING_JSON);
        assert_int_equal(decoded.status, n == JOB_INPUTS_MAX ? STATUS_OK : STATUS_REJECT);
        if (n > JOB_INPUTS_MAX) {
            assert_string_equal(decoded.error.text, "input: expected at most 2048 texts, got 2049");
            assert_int_equal(decoded.error.code, ERROR_LIMIT_EXCEEDED);
        }
        job_destroy(decoded.job);
        buffer_finish(&record);
    }
}

TEST(fields_of_the_other_task_are_refused_by_name)
{
    assert_refused("{'input':'a','temperature':1}", ERROR_INVALID_FIELD,
                   "temperature: given beside input, but it is no field of /v1/embeddings");
    assert_refused("{'input':'a','prompt':'p'}", ERROR_INVALID_FIELD,
                   "prompt: given beside input, but it is no field of /v1/embeddings");
    assert_refused("{'prompt':'p','dimensions':3}", ERROR_INVALID_FIELD,
                   "dimensions: needs input, which is not given: it is a field of /v1/embeddings");
    assert_refused("{'url':'/v1/embeddings','body':{}}", ERROR_MISSING_FIELD,
                   "input: missing; url \"/v1/embeddings\" needs it");
    assert_refused("{'url':'/v1/embeddings','body':{'prompt':'p'}}", ERROR_INVALID_FIELD,
                   "url: \"/v1/embeddings\" needs input, which is not given");
    assert_refused("{'url':'/v1/completions','body':{'input':'p'}}", ERROR_INVALID_FIELD,
                   "url: \"/v1/completions\" needs prompt, which is not given");
    assert_refused("{'input':'a','prompt_name':'q','input_type':'query'}", ERROR_INVALID_FIELD,
                   "prompt_name: given beside input_type; one of them is enough");
    assert_refused("{'input':'a','truncation_side':'left'}", ERROR_INVALID_FIELD,
                   "truncation_side: needs truncate_prompt_tokens");
    assert_refused("{'input':'a','truncate_prompt_tokens':0}", ERROR_INVALID_FIELD,
                   "truncate_prompt_tokens: expected -1, or 1 and more, got 0");
    job_destroy(decode_good("{'input':'a','user':'u','stream':false}"));
}

TEST(a_worker_refuses_jobs_of_another_task_and_says_what_to_start)
{
    static const char *const records[] = {"{'messages':[{'role':'user','content':'x'}]}", "{'prompt':'p'}",
                                          "{'input':'a'}"};
    static const char *const names[] = {"messages: ", "prompt: ", "input: "};
    for (int i = 0; i < 3; i++) {
        struct error error;
        struct job *job = decode_good(records[i]);
        enum task own = i == 2 ? TASK_EMBED : TASK_GENERATE, other = i == 2 ? TASK_GENERATE : TASK_EMBED;
        assert_ok(task_check(own, job, &error), &error);
        assert_int_equal(task_check(other, job, &error), STATUS_REJECT);
        assert_int_equal(error.code, ERROR_UNSUPPORTED_FIELD);
        assert_memory_equal(error.text, names[i], strlen(names[i]));
        assert_non_null(strstr(error.text, task_traits(own)->needs));
        job_destroy(job);
    }
}

TEST(equal_embedding_jobs_have_one_hash_and_others_do_not)
{
    static const char *const records[] = {"{'input':'a'}",
                                          "{'input':'a','priority':3,'job_id':'x'}",
                                          "{'input':'b'}",
                                          "{'input':'a','dimensions':2}",
                                          "{'input':'a','encoding_format':'base64'}",
                                          "{'input':[1]}",
                                          "{'input':'a','partial':true}"};
    enum { N = sizeof records / sizeof *records };
    struct job *jobs[N];
    struct sampling defaults = {0};
    for (int i = 0; i < N; i++) {
        jobs[i] = decode_good(records[i]);
        assert_true(job_hash_request(jobs[i], &defaults, true) && digest_is_set(&jobs[i]->request_hash));
        assert_false(digest_is_set(&jobs[i]->open_hash));
    }
    for (int i = 0; i < N; i++)
        for (int j = 0; j < i; j++)
            assert_int_equal(digest_equal(&jobs[i]->request_hash, &jobs[j]->request_hash), i == 1 && j == 0);
    for (int i = 0; i < N; i++)
        job_destroy(jobs[i]);
}

// ---- results ----

// Two vectors and an input without one.
static struct job *make_done(bool is_base64)
{
    static const float vectors[2][3] = {{1.0f, -0.5f, 0.1f}, {0.0f, 3.5f, -1e-30f}};
    static struct embedding items[3];
    struct job *job = decode_good("{'job_id':'docs-4','dataset':'docs','index':4,'created':1700000000,"
                                  "'input':['x','y','z'],'partial':true}");
    items[0].items = vectors[0];
    items[1].code = ERROR_CONTEXT_LENGTH;
    items[1].message = TEXT("input[1]: the text has 600 tokens");
    items[2].items = vectors[1];
    job->result.status = RESULT_DONE;
    job->result.embeddings = (struct embeddings){items, 3, 3, is_base64};
    job->result.cut_tokens = 9;
    job->result.prompt_tokens = 12;
    job->result.model = TEXT("minilm");
    return job;
}

TEST(a_result_is_the_golden_bytes_and_is_read_back_to_the_last_bit)
{
    for (int base64 = 0; base64 < 2; base64++) {
        struct job *done = make_done(base64);
        for (enum encoding encoding = ENCODING_JSON; encoding <= ENCODING_MSGPACK; encoding++) {
            struct buffer record = {0}, again = {0};
            struct error error;
            struct job *read = job_create();
            result_encode(done, encoding, &record);
            if (encoding == ENCODING_JSON && base64)
                golden_check("result_embeddings.json", (struct text){record.data, record.size});
            assert_ok(result_decode(read, (struct text){record.data, record.size}, encoding, &error), &error);
            assert_int_equal(read->request.task, TASK_EMBED);
            assert_int_equal(read->result.embeddings.is_base64, base64);
            for (int i = 0; i < 3; i += 2)
                assert_memory_equal(read->result.embeddings.items[i].items,
                                    done->result.embeddings.items[i].items, 12);
            result_encode(read, encoding, &again);
            assert_int_equal(record.size, again.size);
            assert_memory_equal(record.data, again.data, record.size);
            buffer_finish(&record);
            buffer_finish(&again);
            job_destroy(read);
        }
        job_destroy(done);
    }
}

TEST(openais_body_has_the_vectors_in_the_format_that_was_asked_for)
{
    static const char *const first[] = {"[1.0,-0.5,0.1]", "\"AACAPwAAAL/NzMw9\""};
    struct arena arena = {0};
    struct buffer schema_file = golden_read("../../schemas/openai.schema.json");
    struct value root, line;
    struct error error;
    assert_ok(json_decode((struct text){schema_file.data, schema_file.size}, &arena, &root, &error), &error);
    for (int base64 = 0; base64 < 2; base64++) {
        struct job *done = make_done(base64);
        struct buffer out = {0};
        char expected[512];
        snprintf(
            expected, sizeof expected,
            "\"body\":{\"object\":\"list\",\"data\":[{\"object\":\"embedding\",\"index\":0,\"embedding\":%s},"
            "{\"object\":\"embedding\",\"index\":1,\"error\":{\"code\":\"context_length_exceeded\","
            "\"message\":\"input[1]: the text has 600 tokens\"}},",
            first[base64]);
        result_encode_openai(done, false, &out);
        if (!strstr(out.data, expected) ||
            !strstr(out.data, "\"usage\":{\"prompt_tokens\":12,\"total_tokens\":12,\"cut_tokens\":9}"))
            fail_msg("%s", out.data);
        assert_ok(json_decode((struct text){out.data, out.size}, &arena, &line, &error), &error);
        const struct schema_validator schema = {&root};
        assert_true(schema_accepts(&schema, &root, &line));
        buffer_finish(&out);
        job_destroy(done);
    }
    buffer_finish(&schema_file);
    arena_finish(&arena);
}

TEST(a_failed_job_names_the_input_as_openais_param)
{
    struct job *job = make_done(false);
    struct error error;
    struct buffer out = {0};
    (void)error_set(&error, STATUS_REJECT, ERROR_CONTEXT_LENGTH, "input[1]: the text has 600 tokens");
    job_fail(job, &error);
    assert_int_equal(job->result.embeddings.n_items, 0);
    result_encode_openai(job, false, &out);
    assert_non_null(strstr(out.data, "\"param\":\"input[1]\",\"code\":\"context_length_exceeded\""));
    buffer_finish(&out);
    job_destroy(job);
}

TEST(vectors_that_could_not_be_read_back_are_too_large)
{
    for (int32_t n_dimensions = 3071; n_dimensions <= 3073; n_dimensions += 2) {
        struct job *job = make_done(false);
        struct error error;
        job->result.embeddings.n_items = JOB_INPUTS_MAX; // only counted
        job->result.embeddings.n_dimensions = n_dimensions;
        enum status status = result_check(job, &error);
        assert_int_equal(status, n_dimensions == 3071 ? STATUS_OK : STATUS_REJECT);
        if (status != STATUS_OK)
            assert_int_equal(error.code, ERROR_RESULT_TOO_LARGE);
        job_destroy(job);
    }
}

TEST(results_with_other_members_are_refused)
{
    static const char start[] =
        "{'job_id':'a','dataset':'d','custom_id':'a','status':'done','object':'embeddings',";
    static const char *const ends[] = {
        "'dimensions':1,'usage':{'prompt_tokens':1}}",
        "'data':5,'dimensions':1,'usage':{'prompt_tokens':1}}",
        "'data':['AACAPw=='],'usage':{'prompt_tokens':1}}",
        "'data':['AACAPw=='],'dimensions':0,'usage':{'prompt_tokens':1}}",
        "'data':['AACAPw=='],'dimensions':2,'usage':{'prompt_tokens':1}}",
        "'data':['A'],'dimensions':1,'usage':{'prompt_tokens':1}}",
        "'data':[5],'dimensions':1,'usage':{'prompt_tokens':1}}",
        "'data':[{'code':'x','message':'m'}],'dimensions':1,'usage':{'prompt_tokens':1}}",
        "'data':['AACAPw=='],'dimensions':1,'usage':{'prompt_tokens':-1}}",
        "'data':['AACAPw=='],'dimensions':1}"};
    for (size_t i = 0; i <= sizeof ends / sizeof *ends; i++) {
        char record[512];
        bool is_good = i == sizeof ends / sizeof *ends;
        snprintf(record, sizeof record, "%s%s", start,
                 is_good ? "'data':['AACAPw=='],'dimensions':1,'usage':{'prompt_tokens':1}}" : ends[i]);
        unquote(record);
        struct job *job = job_create();
        struct error error;
        enum status status = result_decode(job, text_from_string(record), ENCODING_JSON, &error);
        if ((status == STATUS_OK) != is_good)
            fail_msg("%s: %s", record, is_good ? error.text : "taken");
        job_destroy(job);
    }
}
