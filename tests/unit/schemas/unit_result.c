// Results: their two encodings, and OpenAI's batch output.
#include "tests/golden/golden.h"
#include "tests/support/cases.h"
#include "tests/support/job_records.h"

#include <math.h>

// A job that is done: two choices, the first with logprobs. Its strings are constants.
static struct job *make_done(void)
{
    static struct token_logprob tops[3] = {{5, -0.25f}, {9, -1.5f}, {7, -INFINITY}};
    static struct text top_bytes[3] = {{"{", 1}, {"\xE2\x82", 2}, {"\xE2\x82", 2}};
    static struct logprob_entry entries[3];
    static struct choice choices[2];
    struct job *job =
        decode_good("{'job_id':'reviews-17','dataset':'reviews','custom_id':'line 17','index':17,"
                    "'created':1700000000,'messages':[{'role':'user','content':'x'}],'color':1}");
    entries[0] = (struct logprob_entry){{5, -0.25f}, tops, 3, {"{", 1}, top_bytes, 0};
    entries[1] = (struct logprob_entry){{9, -0.7f}, NULL, 0, {"\xE2\x82", 2}, NULL, 1};
    entries[2] = (struct logprob_entry){{8, 0.0f}, NULL, 0, {"", 0}, NULL, 2};
    choices[0] = (struct choice){TEXT("{\"a\": \"\xC3\xA9\"}"), FINISH_STOP, 3, entries};
    choices[1] = (struct choice){TEXT("cut"), FINISH_LENGTH, 64, NULL};
    job->result.status = RESULT_DONE;
    job->result.choices = choices;
    job->result.n_choices = 2;
    job->result.prompt_tokens = 12;
    job->result.completion_tokens = 67;
    job->result.model = TEXT("annotator-q8");
    job->result.system_fingerprint = TEXT("sheaf=1 model=9f86d081884c7d65 backend=cpu kv-type=f16");
    return job;
}

// A job that is done, with the scores of its prompt and its choices.
static struct job *make_scored(void)
{
    static struct choice_logprob scores[3] = {{TEXT("yes"), -0.125, 0.75f},
                                              {TEXT("n\"o"), -2.5, 0.25f},
                                              {TEXT("\xC3\xA9"), -INFINITY, 0.0f}};
    static struct token_logprob tops[2] = {{4, -0.5f}, {9, -0.75f}};
    static struct text top_bytes[2] = {{"a", 1}, {"b", 1}};
    static struct logprob_entry prompt[3];
    prompt[0] = (struct logprob_entry){{3, NAN}, NULL, 0, {"<s>", 3}, NULL, 0};
    prompt[1] = (struct logprob_entry){{9, -0.75f}, tops, 2, {"b", 1}, top_bytes, 0};
    prompt[2] = (struct logprob_entry){{7, -4.0f}, tops, 2, {"\xC3", 1}, top_bytes, 0};
    struct job *job = make_done();
    job->result.prompt_logprobs = prompt;
    job->result.n_prompt_logprobs = 3;
    job->result.choice_logprobs = scores;
    job->result.n_choice_logprobs = 3;
    return job;
}

static struct job *make_failed(enum error_code code, const char *text)
{
    struct job *job = decode_good("{'job_id':'j','prompt':'x','model':'asked for'}");
    struct error error;
    error_set(&error, STATUS_REJECT, code, "%s", text);
    job_fail(job, &error);
    return job;
}

static struct buffer encode_result(const struct job *job, enum encoding encoding)
{
    struct buffer out = {0};
    result_encode(job, encoding, &out);
    assert_false(out.failed);
    return out;
}

// The fields read from a result's record in this encoding.
static struct job *read_back(const struct job *job, enum encoding encoding)
{
    struct buffer record = encode_result(job, encoding);
    struct job *read = job_create();
    struct error error;
    assert_ok(result_decode(read, (struct text){record.data, record.size}, encoding, &error), &error);
    buffer_finish(&record);
    return read;
}

static void check_golden_result(const struct job *job, enum encoding encoding, const char *name)
{
    struct buffer out = encode_result(job, encoding);
    golden_check(name, (struct text){out.data, out.size});
    buffer_finish(&out);
}

static void assert_result_reads_back(const struct job *job)
{
    struct buffer expected = encode_result(job, ENCODING_MSGPACK);
    for (int i = 0; i < 2; i++) {
        enum encoding encoding = i ? ENCODING_MSGPACK : ENCODING_JSON;
        struct job *read = read_back(job, encoding);
        struct buffer again = encode_result(read, ENCODING_MSGPACK);
        assert_int_equal(again.size, expected.size);
        assert_memory_equal(again.data, expected.data, expected.size);
        assert_int_equal(read->result.status, job->result.status);
        buffer_finish(&again);
        job_destroy(read);
    }
    buffer_finish(&expected);
}

// One of three tokens with logprobs is the prompt's.
static void echo_first_token(struct choice *choice)
{
    choice->n_echoed = 1;
    choice->n_tokens = 2;
    choice->logprobs[0].chosen.logprob = NAN;
}

TEST(the_bytes_of_a_result_do_not_change)
{
    struct job *done = make_scored(), *failed = make_failed(ERROR_CONTEXT_LENGTH, "prompt: 9 tokens\nof 8"),
               *crashed = make_failed(ERROR_CRASHED, "5 workers died"),
               *cancelled = make_failed(ERROR_CANCELLED, "cancelled");
    static struct tool_call call = {TEXT("call_1"), TEXT("f"), TEXT("{\"a\": 1}")};
    static struct value_member tenant = {.key = TEXT("tenant"),
                                         .value = {.kind = VALUE_STRING, .text = TEXT("a")}};
    done->metadata = failed->metadata = (struct value){.kind = VALUE_OBJECT, .object = {&tenant, 1}};
    done->result.choices[0].reasoning = TEXT("hm");
    done->result.reasoning_tokens = 1;
    done->result.choices[0].tool_calls = &call;
    done->result.choices[0].n_tool_calls = 1;
    check_golden_result(done, ENCODING_JSON, "result.json");
    check_golden_result(done, ENCODING_MSGPACK, "result.msgpack");
    check_golden_result(failed, ENCODING_JSON, "result_failed.json");
    done->result.reports_cached_tokens = true;
    done->figures.cached_tokens = 8;
    struct buffer chat = {0};
    result_encode_openai(done, true, &chat);
    done->request.prompt.kind = PROMPT_TEXT;
    echo_first_token(&done->result.choices[0]);
    assert_result_reads_back(done);
    check_golden_result(done, ENCODING_JSON, "result_completion.json");
    struct buffer out = {0};
    buffer_add(&out, chat.data, chat.size);
    buffer_finish(&chat);
    buffer_add_byte(&out, '\n');
    result_encode_openai(done, false, &out);
    buffer_add_byte(&out, '\n');
    result_encode_openai(failed, true, &out);
    buffer_add_byte(&out, '\n');
    result_encode_openai(crashed, true, &out);
    buffer_add_byte(&out, '\n');
    result_encode_openai(cancelled, false, &out);
    buffer_add_byte(&out, '\n');
    golden_check("openai.jsonl", (struct text){out.data, out.size});
    buffer_finish(&out);
    job_destroy(done);
    job_destroy(failed);
    job_destroy(crashed);
    job_destroy(cancelled);
}

TEST(results_read_back_as_they_were_written)
{
    struct job *done = make_done(), *failed = make_failed(ERROR_TEMPLATE, "line 3"),
               *cancelled = make_failed(ERROR_CANCELLED, "cancelled"), *empty = make_done();
    empty->result.n_choices = 0;
    assert_result_reads_back(done);
    assert_result_reads_back(failed);
    assert_result_reads_back(cancelled);
    assert_result_reads_back(empty);
    assert_int_equal(cancelled->result.status, RESULT_CANCELLED);
    job_destroy(done);
    job_destroy(failed);
    job_destroy(cancelled);
    job_destroy(empty);
}

TEST(scores_of_choices_follow_the_choices)
{
    static const char expected[] =
        "\"choice_logprobs\":[{\"choice\":\"yes\",\"logprob\":-0.125,\"probability\":0.75},"
        "{\"choice\":\"n\\\"o\",\"logprob\":-2.5,\"probability\":0.25},"
        "{\"choice\":\"\xC3\xA9\",\"logprob\":-9999.0,\"probability\":0.0}],\"usage\":";
    struct job *job = make_scored();
    assert_result_reads_back(job);
    struct buffer record = encode_result(job, ENCODING_JSON), line = {0};
    result_encode_openai(job, true, &line);
    assert_non_null(memmem(record.data, record.size, expected, strlen(expected)));
    assert_non_null(memmem(line.data, line.size, expected, strlen(expected)));
    buffer_finish(&record);
    buffer_finish(&line);
    job_destroy(job);
}

TEST(a_result_names_its_error_and_what_was_asked)
{
    struct job *failed = make_failed(ERROR_CONTEXT_LENGTH, "prompt: too long"),
               *read = read_back(failed, ENCODING_JSON);
    assert_int_equal(read->result.error.code, ERROR_CONTEXT_LENGTH);
    assert_string_equal(read->result.error.text, "prompt: too long");
    assert_int_equal(read->request.prompt.kind, PROMPT_TEXT);
    assert_true(text_equals_string(read->result.model, "asked for")); // the worker has given no name
    job_destroy(read);
    struct job *done = make_done();
    read = read_back(done, ENCODING_MSGPACK);
    assert_int_equal(read->request.prompt.kind, PROMPT_MESSAGES);
    assert_int_equal(read->index, 17);
    assert_int_equal(read->result.n_warnings, 1);
    assert_true(read->result.choices[0].logprobs[0].top[2].logprob == -9999); // minus infinity
    job_destroy(read);
    job_destroy(done);
    job_destroy(failed);
}

// Members of an OpenAI line by path, e.g. "response.body.choices.0.message.content".
static const struct value *look_up(const struct value *value, const char *path)
{
    char step[64];
    while (*path && value) {
        size_t size = strcspn(path, ".");
        snprintf(step, sizeof step, "%.*s", (int)size, path);
        size_t index = (size_t)atoi(step);
        if (value->kind == VALUE_ARRAY)
            value = index < value->array.n_items ? &value->array.items[index] : NULL;
        else
            value = value_get(value, step);
        path += size + (path[size] == '.');
    }
    return value;
}

static void assert_at(const struct value *root, const char *path, const char *json)
{
    const struct value *value = look_up(root, path);
    if (!value)
        fail_msg("%s: missing", path);
    struct buffer out = {0};
    json_encode(value, &out);
    if (strcmp(out.data, json) != 0)
        fail_msg("%s: got %s, expected %s", path, out.data, json);
    buffer_finish(&out);
}

static struct value openai(const struct job *job, bool chat, struct arena *arena)
{
    struct buffer out = {0};
    struct value root;
    struct error error;
    result_encode_openai(job, chat, &out);
    assert_null(strchr(out.data, '\n'));
    if (json_decode((struct text){out.data, out.size}, arena, &root, &error) != STATUS_OK)
        fail_msg("%s: %s", out.data, error.text);
    buffer_finish(&out);
    return root;
}

TEST(a_chat_is_written_as_openai_writes_it)
{
    struct job *job = make_done();
    struct arena arena = {0};
    struct value root = openai(job, true, &arena);
    assert_at(&root, "id", "\"batch_req_reviews-17\"");
    assert_at(&root, "custom_id", "\"line 17\"");
    assert_at(&root, "error", "null");
    assert_at(&root, "response.status_code", "200");
    assert_at(&root, "response.request_id", "\"reviews-17\"");
    assert_at(&root, "response.body.id", "\"chatcmpl-reviews-17\"");
    assert_at(&root, "response.body.object", "\"chat.completion\"");
    assert_at(&root, "response.body.created", "1700000000");
    assert_at(&root, "response.body.model", "\"annotator-q8\"");
    assert_at(&root, "response.body.choices.0.index", "0");
    assert_at(&root, "response.body.choices.0.message",
              "{\"role\":\"assistant\",\"content\":\"{\\\"a\\\": \\\"\xC3\xA9\\\"}\",\"refusal\":null}");
    assert_at(&root, "response.body.choices.0.logprobs.refusal", "null");
    assert_at(&root, "response.body.choices.0.finish_reason", "\"stop\"");
    assert_at(&root, "response.body.choices.0.logprobs.content.1",
              "{\"token\":\"\xEF\xBF\xBD\",\"logprob\":-0.7,\"bytes\":[226,130],\"top_logprobs\":[]}");
    assert_at(&root, "response.body.choices.0.logprobs.content.0.top_logprobs.0",
              "{\"token\":\"{\",\"logprob\":-0.25,\"bytes\":[123]}");
    assert_at(&root, "response.body.choices.1.index", "1");
    assert_at(&root, "response.body.choices.1.logprobs", "null");
    assert_at(&root, "response.body.choices.1.finish_reason", "\"length\"");
    assert_at(&root, "response.body.usage",
              "{\"prompt_tokens\":12,\"completion_tokens\":67,\"total_tokens\":79,"
              "\"completion_tokens_details\":{\"reasoning_tokens\":0}}");
    assert_at(&root, "response.body.warnings", "[\"unknown field \\\"color\\\" ignored\"]");
    arena_finish(&arena);
    job_destroy(job);
}

TEST(calls_and_thoughts_are_written_as_openai_writes_them)
{
    static struct tool_call calls[] = {{TEXT("call_1"), TEXT("f"), TEXT("{\"a\": 1}")},
                                       {TEXT("call_2"), TEXT("g"), TEXT("{}")}};
    struct job *job = make_done();
    struct arena arena = {0};
    job->result.choices[0].text = TEXT("");
    job->result.choices[0].tool_calls = calls;
    job->result.choices[0].n_tool_calls = 2;
    job->result.choices[0].finish_reason = FINISH_TOOL_CALLS;
    job->result.choices[1].reasoning = TEXT("hm");
    struct value root = openai(job, true, &arena);
    assert_at(&root, "response.body.choices.0.message",
              "{\"role\":\"assistant\",\"content\":null,\"refusal\":null,\"tool_calls\":["
              "{\"id\":\"call_1\",\"type\":\"function\",\"function\":{\"name\":\"f\","
              "\"arguments\":\"{\\\"a\\\": 1}\"}},{\"id\":\"call_2\",\"type\":\"function\","
              "\"function\":{\"name\":\"g\",\"arguments\":\"{}\"}}]}");
    assert_at(&root, "response.body.choices.0.finish_reason", "\"tool_calls\"");
    assert_at(&root, "response.body.choices.1.message",
              "{\"role\":\"assistant\",\"content\":\"cut\",\"refusal\":null,\"reasoning_content\":\"hm\","
              "\"reasoning\":\"hm\"}");
    struct job *read = read_back(job, ENCODING_MSGPACK);
    struct value again = openai(read, true, &arena);
    assert_true(value_equal(value_get(value_get(&again, "response"), "body"),
                            value_get(value_get(&root, "response"), "body")));
    arena_finish(&arena);
    job_destroy(read);
    job_destroy(job);
}

TEST(a_plain_completion_is_written_as_openai_writes_it)
{
    struct job *job = make_done();
    struct arena arena = {0};
    struct value root = openai(job, false, &arena);
    assert_at(&root, "response.body.id", "\"cmpl-reviews-17\"");
    assert_at(&root, "response.body.object", "\"text_completion\"");
    assert_at(&root, "response.body.choices.1",
              "{\"index\":1,\"text\":\"cut\",\"logprobs\":null,\"finish_reason\":\"length\"}");
    assert_at(&root, "response.body.choices.0.logprobs.tokens", "[\"{\",\"bytes:\\\\xe2\\\\x82\",\"\"]");
    assert_at(&root, "response.body.choices.0.logprobs.token_logprobs", "[-0.25,-0.7,0.0]");
    // Two tokens of the same bytes: one key. The drawn token is there also where it is none of the likeliest.
    assert_at(&root, "response.body.choices.0.logprobs.top_logprobs",
              "[{\"{\":-0.25,\"bytes:\\\\xe2\\\\x82\":-1.5},{\"bytes:\\\\xe2\\\\x82\":-0.7},{\"\":0.0}]");
    assert_at(&root, "response.body.choices.0.logprobs.text_offset", "[0,1,2]");
    job->result.reports_cached_tokens = true;
    job->figures.cached_tokens = 8;
    root = openai(job, false, &arena);
    assert_at(&root, "response.body.usage.prompt_tokens_details", "{\"cached_tokens\":8}");
    arena_finish(&arena);
    job_destroy(job);
}

// In the body if there is one, else in the line.
TEST(warnings_are_where_a_client_reads_them)
{
    struct job *jobs[] = {make_done(), make_failed(ERROR_CONTEXT_LENGTH, "prompt: too long"),
                          make_failed(ERROR_CRASHED, "5 workers died"),
                          make_failed(ERROR_CANCELLED, "cancelled")};
    static const char *const paths[] = {"response.body.warnings", "response.body.warnings",
                                        "response.body.warnings", "warnings"};
    for (int i = 0; i < 4; i++) {
        struct arena arena = {0};
        jobs[i]->result.n_warnings = 0;
        assert_true(job_warn(jobs[i], "first") && job_warn(jobs[i], "second"));
        for (int chat = 0; chat < 2; chat++) {
            struct value root = openai(jobs[i], chat, &arena);
            assert_at(&root, paths[i], "[\"first\",\"second\"]");
            assert_true((value_get(&root, "warnings") != NULL) == (i == 3));
        }
        arena_finish(&arena);
        job_destroy(jobs[i]);
    }
}

TEST(the_tokens_of_thoughts_are_counted_beside_the_others)
{
    struct job *job = make_done();
    struct arena arena = {0};
    job->result.reasoning_tokens = 41;
    struct job *read = read_back(job, ENCODING_MSGPACK);
    struct value root = openai(read, true, &arena);
    assert_at(&root, "response.body.usage.completion_tokens_details", "{\"reasoning_tokens\":41}");
    arena_finish(&arena);
    job_destroy(read);
    job_destroy(job);
}

// Python's str.splitlines ends lines at them.
TEST(no_character_of_an_answer_ends_its_line)
{
    struct job *job = make_done();
    struct buffer out = {0};
    job->result.choices[0].text = TEXT("a\xE2\x80\xA8"
                                       "b\xE2\x80\xA9"
                                       "c\xC2\x85"
                                       "d\xE2\x80\xA7\xC2\x84\v\f");
    result_encode_openai(job, true, &out);
    assert_non_null(strstr(out.data, "\"a\\u2028b\\u2029c\\u0085d\xE2\x80\xA7\xC2\x84\\u000b\\f\""));
    buffer_finish(&out);
    job_destroy(job);
}

TEST(tokens_that_make_no_key_are_written_as_bytes)
{
    static struct token_logprob tops[4];
    static struct text top_bytes[4] = {{"\0", 1}, {"bytes:\\x00", 10}, {"bytes:", 6}, {"a\"", 2}};
    static struct logprob_entry entry = {
        .top = tops, .n_top = 4, .top_bytes = top_bytes, .chosen_bytes = {"\0", 1}};
    struct job *job = make_done();
    struct arena arena = {0};
    job->result.choices[0].logprobs = &entry;
    job->result.choices[0].n_tokens = 1;
    struct value root = openai(job, false, &arena);
    assert_at(&root, "response.body.choices.0.logprobs.tokens", "[\"bytes:\\\\x00\"]");
    assert_at(&root, "response.body.choices.0.logprobs.top_logprobs",
              "[{\"bytes:\\\\x00\":0.0,\"bytes:"
              "\\\\x62\\\\x79\\\\x74\\\\x65\\\\x73\\\\x3a\\\\x5c\\\\x78\\\\x30\\\\x30\":0.0,"
              "\"bytes:\\\\x62\\\\x79\\\\x74\\\\x65\\\\x73\\\\x3a\":0.0,\"a\\\"\":0.0}]");
    arena_finish(&arena);
    job_destroy(job);
}

TEST(a_failed_job_is_written_as_openai_writes_it)
{
    static const struct {
        enum error_code code;
        const char *line;
    } cases[] = {
        {ERROR_TOKEN_RANGE,
         "{\"id\":\"batch_req_j\",\"custom_id\":\"j\",\"response\":{\"status_code\":400,\"request_id\":\"j\","
         "\"body\":{\"error\":{\"message\":\"tokens[2]: \\\"99\\\"\",\"type\":\"invalid_request_error\","
         "\"param\":\"tokens[2]\",\"code\":\"token_out_of_range\"}}},\"error\":null}"},
        {ERROR_LOGITS_NAN,
         "{\"id\":\"batch_req_j\",\"custom_id\":\"j\",\"response\":{\"status_code\":500,\"request_id\":\"j\","
         "\"body\":{\"error\":{\"message\":\"tokens[2]: \\\"99\\\"\",\"type\":\"server_error\","
         "\"param\":null,\"code\":\"logits_nan\"}}},\"error\":null}"},
        {ERROR_CANCELLED, "{\"id\":\"batch_req_j\",\"custom_id\":\"j\",\"response\":null,\"error\":{\"code\":"
                          "\"cancelled\",\"message\":\"tokens[2]: \\\"99\\\"\"}}"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct job *job = make_failed(cases[i].code, "tokens[2]: \"99\"");
        struct arena arena = {0};
        struct value root = openai(job, true, &arena);
        assert_at(&root, "", cases[i].line);
        arena_finish(&arena);
        job_destroy(job);
    }
}

TEST(a_refused_field_is_the_error_s_param)
{
    static const struct {
        enum error_code code;
        const char *text;
        bool chat;
        const char *param;
    } cases[] = {{ERROR_INVALID_FIELD, "temperature: expected a number from 0 to 100, got -3", true,
                  "\"temperature\""},
                 {ERROR_INVALID_FIELD, "messages[3].content[0].text: expected a string, got 7", true,
                  "\"messages[3].content[0].text\""},
                 {ERROR_UNSUPPORTED_FIELD, "max_new_tokens: not supported, got 1", false,
                  "\"max_new_tokens\""},
                 {ERROR_INVALID_FIELD, "logit_bias[\"7\"]: expected a number from -100 to 100, got 'x'", true,
                  "\"logit_bias[\\\"7\\\"]\""},
                 {ERROR_UNSUPPORTED_FIELD, "url: only /v1/chat/completions and", true, "\"url\""},
                 {ERROR_INVALID_FIELD, "method: expected \"POST\", got 7", true, "\"method\""},
                 {ERROR_INVALID_FIELD, "body: expected an object, got null", true, "\"body\""},
                 {ERROR_CONTEXT_LENGTH, "the model's context holds 256 tokens", true, "\"messages\""},
                 {ERROR_CONTEXT_LENGTH, "the model's context holds 256 tokens", false, "\"prompt\""},
                 {ERROR_INVALID_ENCODING, "not valid JSON: column 4", false, "null"},
                 {ERROR_INVALID_FIELD, "nobody: knows it", false, "null"},
                 {ERROR_INVALID_FIELD, "temperature", false, "null"},
                 {ERROR_LOGITS_NAN, "prompt: 3", false, "null"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct job *job = make_failed(cases[i].code, cases[i].text);
        struct arena arena = {0};
        struct value root = openai(job, cases[i].chat, &arena);
        assert_at(&root, "response.body.error.param", cases[i].param);
        arena_finish(&arena);
        job_destroy(job);
    }
}

TEST(logprobs_of_no_tokens_are_empty_lists)
{
    static struct logprob_entry none;
    struct job *job = make_done();
    struct arena arena = {0};
    job->result.choices[0].logprobs = &none;
    job->result.choices[0].n_tokens = 0;
    struct value chat = openai(job, true, &arena), plain = openai(job, false, &arena);
    assert_at(&chat, "response.body.choices.0.logprobs", "{\"content\":[],\"refusal\":null}");
    assert_at(&plain, "response.body.choices.0.logprobs",
              "{\"tokens\":[],\"token_logprobs\":[],\"top_logprobs\":[],\"text_offset\":[]}");
    assert_result_reads_back(job);
    arena_finish(&arena);
    job_destroy(job);
}

TEST(a_result_says_nothing_of_how_it_came_to_be)
{
    struct job *job = make_done();
    struct buffer before = encode_result(job, ENCODING_MSGPACK);
    job->figures = (struct job_figures){.cached_tokens = 5,
                                        .queued_us = 6,
                                        .prefill_us = 7,
                                        .decode_us = 8,
                                        .attempts = 9,
                                        .prefix_hash = 10};
    job->source.offset = 11;
    job->source.topic = TEXT("t");
    struct buffer after = encode_result(job, ENCODING_MSGPACK);
    assert_int_equal(before.size, after.size);
    assert_memory_equal(before.data, after.data, after.size);
    buffer_finish(&before);
    buffer_finish(&after);
    job_destroy(job);
}

// A record of another producer names no time: its own is the job's.
TEST(created_is_the_record_s_time_where_the_job_has_none)
{
    struct job *job = make_done();
    job->created_s = 0;
    job->source.written_s = 1700000001;
    struct job *read = read_back(job, ENCODING_MSGPACK);
    assert_int_equal(read->created_s, 1700000001);
    job_destroy(read);
    job_destroy(job);
}

TEST(values_of_many_choices_count_too)
{
    struct job *job = make_done();
    job->result.choices = arena_allocate_array(&job->arena, JOB_N_MAX, sizeof *job->result.choices);
    assert_non_null(job->result.choices);
    job->result.n_choices = JOB_N_MAX;
    bool accepted = false, refused = false;
    for (int32_t around = 0; around <= 1280; around += 160) { // values that are not of the logprobs
        int32_t n_tokens = (VALUE_COUNT_MAX - around) / 4;
        struct logprob_entry *entries = calloc((size_t)n_tokens, sizeof *entries);
        assert_non_null(entries);
        for (int i = 0; i < JOB_N_MAX; i++)
            job->result.choices[i] = (struct choice){.text = TEXT("t"), .finish_reason = FINISH_STOP};
        job->result.choices[0] = (struct choice){TEXT("t"), FINISH_STOP, n_tokens, entries};
        struct error error;
        struct buffer out = {0};
        struct job *read = job_create();
        result_encode(job, ENCODING_MSGPACK, &out);
        bool is_good = result_check(job, &error) == STATUS_OK;
        enum status decoded =
            result_decode(read, (struct text){out.data, out.size}, ENCODING_MSGPACK, &error);
        assert_true(!is_good || decoded == STATUS_OK);
        accepted = accepted || is_good;
        refused = refused || decoded != STATUS_OK;
        job_destroy(read);
        buffer_finish(&out);
        free(entries);
    }
    assert_true(accepted && refused);
    job_destroy(job);
}

TEST(more_logprobs_than_can_be_read_back_are_reported)
{
    struct job *job = make_done();
    struct error error;
    assert_ok(result_check(job, &error), &error);
    // 4 values a token; about a hundred values stand around them.
    for (int32_t n_tokens = (VALUE_COUNT_MAX - 128) / 4; n_tokens <= VALUE_COUNT_MAX / 4; n_tokens += 32) {
        struct logprob_entry *entries = calloc((size_t)n_tokens, sizeof *entries);
        assert_non_null(entries);
        job->result.choices[0].logprobs = entries;
        job->result.choices[0].n_tokens = n_tokens;
        struct buffer out = {0};
        result_encode(job, ENCODING_MSGPACK, &out);
        struct job *read = job_create();
        struct error read_error;
        enum status checked = result_check(job, &error);
        enum status decoded =
            result_decode(read, (struct text){out.data, out.size}, ENCODING_MSGPACK, &read_error);
        assert_true(checked != STATUS_OK || decoded == STATUS_OK);
        if (n_tokens == VALUE_COUNT_MAX / 4) {
            assert_int_equal(checked, STATUS_REJECT);
            assert_int_equal(error.code, ERROR_RESULT_TOO_LARGE);
            assert_int_equal(decoded, STATUS_REJECT);
        } else if (n_tokens == (VALUE_COUNT_MAX - 128) / 4) {
            assert_int_equal(checked, STATUS_OK);
        }
        job_destroy(read);
        buffer_finish(&out);
        free(entries);
    }
    job_destroy(job);
}

#define OF(object, more) "{'job_id':'j','dataset':'d','custom_id':'c','object':'" object "'" more "}"
#define COMPLETION(more) OF("text_completion", more)
#define FAILED(error)    COMPLETION(",'status':'failed','error':{" error "}")
#define DONE(more)       COMPLETION(",'status':'done'" more)
#define SIXTY_FOUR       "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

TEST(bad_results_are_refused)
{
    static const struct {
        const char *record, *text;
    } cases[] = {
        {"[]", "result: record: expected an object, got []"},
        {"{}", "result: job_id: expected a string, got null"},
        {OF("o", ",'status':'done'"),
         "result: object: expected chat.completion, text_completion, embeddings, classifications, rerank or scores, got 'o'"},
        {COMPLETION(",'index':-1"), "result: index: expected a whole number, got -1"},
        {COMPLETION(",'status':'well'"), "result: status: expected done, failed or cancelled, got 'well'"},
        {DONE(""), "result: choices: expected a list of choices, got null"},
        {COMPLETION(",'status':'failed'"), "result: error: expected an object, got null"},
        {FAILED("'code':'x','message':'m'"), "result: error.code: expected a known code, got 'x'"},
        {FAILED("'message':'m'"), "result: code: expected a string, got null"},
        {FAILED("'code':'logits_nan'"), "result: message: expected a string, got null"},
        {FAILED("'code':'" SIXTY_FOUR "','message':'m'"),
         "result: error.code: expected a known code, got "
         "'0123456789abcdef0123456789abcdef0123456789abcdef0123456789a..."},
        {FAILED("'code':'" SIXTY_FOUR "x','message':'m'"), "result: code: expected at most 64 bytes, got 65"},
        {DONE(",'choices':[],'usage':{}"), "result: prompt_tokens: expected a whole number, got null"},
        {DONE(",'choices':[{'text':'t','finish_reason':'tired'}],"
              "'usage':{'prompt_tokens':1,'completion_tokens':1}"),
         "result: finish_reason: expected stop, length, tool_calls, cancelled or error, got 'tired'"},
        {DONE(",'choices':[{'text':'t','finish_reason':'stop','completion_tokens':2147483647,"
              "'echoed_tokens':1}],'usage':{'prompt_tokens':1,'completion_tokens':1}"),
         "result: echoed_tokens: expected a number of tokens, got 1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char record[512], text[256];
        snprintf(record, sizeof record, "%s", cases[i].record);
        snprintf(text, sizeof text, "%s", cases[i].text);
        unquote(record);
        unquote(text);
        struct job *job = job_create();
        struct error error;
        assert_int_equal(result_decode(job, text_from_string(record), ENCODING_JSON, &error), STATUS_REJECT);
        assert_string_equal(error.text, text);
        job_destroy(job);
    }
}

// One choice of n tokens with these logprobs and what follows them.
static enum status decode_choice(struct job *job, int n_tokens, const char *logprobs, struct error *error)
{
    char record[512];
    snprintf(record, sizeof record,
             DONE(",'choices':[{'text':'t','finish_reason':'stop','completion_tokens':%d,'logprobs':%s}],"
                  "'usage':{'prompt_tokens':1,'completion_tokens':%d}"),
             n_tokens, logprobs, n_tokens);
    unquote(record);
    return result_decode(job, text_from_string(record), ENCODING_JSON, error);
}

static enum status decode_logprobs(struct job *job, const char *logprobs, struct error *error)
{
    return decode_choice(job, 1, logprobs, error);
}

TEST(a_logprob_may_be_a_whole_number_or_null)
{
    struct job *job = job_create();
    struct error error;
    assert_ok(decode_logprobs(job, "[[1,-2,'YQ==',3,null,'YQ==',4,-0.5,'']]", &error), &error);
    const struct logprob_entry *entry = job->result.choices[0].logprobs;
    assert_true(entry->chosen.logprob == -2.0f);
    assert_int_equal(entry->n_top, 2);
    assert_true(isnan(entry->top[0].logprob));
    assert_true(entry->top[1].logprob == -0.5f);
    job_destroy(job);
}

TEST(bad_logprobs_are_refused)
{
    static const char *const cases[] = {"[[]]",
                                        "[[1,-0.5]]",
                                        "[[1,-0.5,'YQ==',2]]",
                                        "[[-1,-0.5,'YQ==']]",
                                        "[[1,true,'YQ==']]",
                                        "[[1,-0.5,'!']]",
                                        "[[1,-0.5,5]]",
                                        "[]",
                                        "[5]",
                                        "{}",
                                        "[[1,-0.5,''],[1,-0.5,'']]"};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct job *job = job_create();
        struct error error;
        assert_int_equal(decode_logprobs(job, cases[i], &error), STATUS_REJECT);
        assert_non_null(strstr(error.text, "logprobs"));
        job_destroy(job);
    }
}

static enum status decode_offsets(struct job *job, const char *offsets, struct error *error)
{
    char logprobs[128];
    snprintf(logprobs, sizeof logprobs, "[[1,-0.5,''],[2,-0.5,'YQ==']],'text_offset':%s", offsets);
    return decode_choice(job, 2, logprobs, error);
}

TEST(offsets_are_read_for_each_token_and_bad_ones_refused)
{
    static const char *const bad[] = {"[-1,0]", "[0,-1]",  "['0',0]",        "[0,1.5]",
                                      "[0]",    "[0,0,0]", "[2147483648,0]", "{}"};
    struct error error;
    struct job *job = job_create();
    assert_ok(decode_offsets(job, "[2147483647,0]", &error), &error);
    assert_int_equal(job->result.choices[0].logprobs[0].text_offset, INT32_MAX);
    assert_int_equal(job->result.choices[0].logprobs[1].text_offset, 0);
    job_destroy(job);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        job = job_create();
        assert_int_equal(decode_offsets(job, bad[i], &error), STATUS_REJECT);
        assert_non_null(strstr(error.text, "text_offset"));
        job_destroy(job);
    }
}

TEST(members_of_a_result_that_are_not_known_are_skipped)
{
    char record[] =
        "{'job_id':'j','later':{'x':[1]},'dataset':'d','custom_id':'c','object':'text_completion','status':"
        "'done','choices':[],'usage':{'prompt_tokens':1,'completion_tokens':0,'total_tokens':1,'cached':0}}";
    unquote(record);
    struct job *job = job_create();
    struct error error;
    assert_ok(result_decode(job, text_from_string(record), ENCODING_JSON, &error), &error);
    assert_int_equal(job->result.n_warnings, 0);
    job_destroy(job);
}

TEST(reasons_and_statuses_have_names)
{
    assert_string_equal(finish_reason_name(FINISH_STOP), "stop");
    assert_string_equal(finish_reason_name(FINISH_LENGTH), "length");
    assert_string_equal(finish_reason_name(FINISH_TOOL_CALLS), "tool_calls");
    assert_string_equal(finish_reason_name(FINISH_CANCELLED), "cancelled");
    assert_string_equal(finish_reason_name(FINISH_ERROR), "error");
    assert_string_equal(result_status_name(RESULT_DONE), "done");
    assert_string_equal(result_status_name(RESULT_FAILED), "failed");
    assert_string_equal(result_status_name(RESULT_CANCELLED), "cancelled");
}
