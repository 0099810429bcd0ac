// Parsers and writers of `sheaf serve`: input files of batches, results, tokens.
#include "consumer/serve/answer_body.h"
#include "consumer/serve/answer_events.h"
#include "consumer/serve/answer_merge.h"
#include "consumer/serve/batch_check.h"
#include "consumer/serve/serve_token.h"
#include "schemas/job.h"
#include "tests/support/cases.h"

#include <unistd.h>

static char path[64];
static struct error error;

static int make_path(void **state)
{
    snprintf(path, sizeof path, "/tmp/sheaf-serve-%d", (int)getpid());
    return 0;
}

static int remove_path(void **state)
{
    unlink(path);
    return 0;
}

TEST_FIXTURE(make_path, remove_path);

static void write_file(const char *content)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(content, file);
    fclose(file);
}

// ---- input files ----

#define LINE(id, rest) "{\"custom_id\":" id "," rest "}\n"
#define GOOD           "\"method\":\"POST\",\"url\":\"/v1/completions\",\"body\":{}"

static const struct batch_check *check(const char *content)
{
    static struct batch_check check;
    write_file(content);
    assert_ok(batch_check(&check, path, "/v1/completions", &error), &error);
    return &check;
}

TEST(each_line_of_an_input_file_is_a_request_with_a_name_of_its_own)
{
    static const struct {
        const char *content, *code;
        int64_t line;
    } faulty[] = {
        {LINE("\"a\"", GOOD) "\n" LINE("\"a\"", GOOD), "duplicate_custom_id", 3},
        {LINE("7", GOOD), "invalid_custom_id", 1},
        {LINE("\"\"", GOOD), "invalid_custom_id", 1},
        {"{" GOOD "}", "missing_required_parameter", 1},
        {LINE("\"a\"", "\"url\":\"/v1/completions\",\"body\":{}"), "missing_required_parameter", 1},
        {LINE("\"a\"", "\"method\":\"PUT\",\"url\":\"/v1/completions\",\"body\":{}"), "invalid_method", 1},
        {LINE("\"a\"", "\"method\":\"POST\",\"body\":{}"), "missing_required_parameter", 1},
        {LINE("\"a\"", "\"method\":\"POST\",\"url\":\"/v1/chat/completions\",\"body\":{}"), "mismatched_url",
         1},
        {LINE("\"a\"", "\"method\":\"POST\",\"url\":\"/v1/completions\""), "missing_required_parameter", 1},
        {LINE("\"a\"", "\"method\":\"POST\",\"url\":\"/v1/completions\",\"body\":\"{}\""), "invalid_type", 1},
        {LINE("\"a\"", GOOD) "{", "invalid_json_line", 2},
        {"[]", "invalid_json_line", 1},
        {"\n\n", "empty_file", 0},
        {"", "empty_file", 0},
    };
    assert_int_equal(check(LINE("\"a\"", GOOD) " \n" LINE("\"b\"", GOOD))->n_requests, 2);
    assert_int_equal(check(LINE("\"a\"", GOOD))->n_faults, 0);
    for (size_t i = 0; i < sizeof faulty / sizeof faulty[0]; i++) {
        const struct batch_check *found = check(faulty[i].content);
        assert_int_equal(found->n_faults, 1);
        assert_string_equal(found->faults[0].code, faulty[i].code);
        assert_int_equal(found->faults[0].line, faulty[i].line);
    }
}

TEST(the_first_faults_are_kept_and_all_counted)
{
    char content[4 * BATCH_FAULTS_MAX + 1] = "";
    for (int i = 0; i < 2 * BATCH_FAULTS_MAX; i++)
        strcat(content, "x\n");
    const struct batch_check *found = check(content);
    assert_int_equal(found->n_faults, 2 * BATCH_FAULTS_MAX);
    for (int i = 0; i < BATCH_FAULTS_MAX; i++)
        assert_int_equal(found->faults[i].line, i + 1);
}

TEST(a_missing_input_file_is_an_error)
{
    struct batch_check missing;
    unlink(path);
    assert_int_equal(batch_check(&missing, path, "/v1/completions", &error), STATUS_REFUSE);
}

// ---- answers ----

static const char first_record[] =
    "{\"job_id\":\"id-0\",\"dataset\":\"d\",\"custom_id\":\"id-0\",\"status\":\"done\",\"object\":\"text_completion\","
    "\"model\":\"m\",\"created\":5,\"choices\":[{\"text\":\"one\",\"finish_reason\":\"stop\",\"completion_tokens\":1},"
    "{\"text\":\"two\",\"finish_reason\":\"length\",\"completion_tokens\":2}],\"usage\":{\"prompt_tokens\":2,\"completion_tokens\":3}}";
static const char second_record[] =
    "{\"job_id\":\"id-1\",\"dataset\":\"d\",\"custom_id\":\"id-1\",\"status\":\"done\",\"object\":\"text_completion\","
    "\"model\":\"m\",\"created\":5,\"choices\":[{\"text\":\"three\",\"finish_reason\":\"stop\",\"completion_tokens\":1}],"
    "\"usage\":{\"prompt_tokens\":4,\"completion_tokens\":1}}";
static const char failed_record[] =
    "{\"job_id\":\"id-1\",\"dataset\":\"d\",\"custom_id\":\"id-1\",\"status\":\"failed\",\"object\":\"text_completion\",\"model\":\"m\",\"created\":5,"
    "\"error\":{\"code\":\"invalid_field\",\"message\":\"n: expected a number\"}}";
static const char cancelled_record[] =
    "{\"job_id\":\"id-1\",\"dataset\":\"d\",\"custom_id\":\"id-1\",\"status\":\"cancelled\",\"object\":\"text_completion\",\"model\":\"m\",\"created\":5,"
    "\"error\":{\"code\":\"cancelled\",\"message\":\"it was cancelled\"}}";

// The body of these results; the caller frees it.
static struct buffer merge(int expected, const char *first, const char *second)
{
    struct answer_merge merge = {0};
    struct buffer body = {0};
    int status = 0;
    assert_true(answer_merge_add(&merge, text_from_string(first)));
    assert_true(!second || answer_merge_add(&merge, text_from_string(second)));
    assert_true(answer_merge_write(&merge, &body, &status));
    assert_int_equal(status, expected);
    answer_merge_finish(&merge);
    return body;
}

TEST(several_results_are_one_body_and_one_error_is_the_error_of_all)
{
    struct buffer body = merge(200, first_record, second_record);
    assert_non_null(strstr(
        body.data, "{\"id\":\"cmpl-id\",\"object\":\"text_completion\",\"created\":5,\"model\":\"m\""));
    assert_non_null(strstr(body.data, "{\"index\":0,\"text\":\"one\""));
    assert_non_null(strstr(body.data, "{\"index\":2,\"text\":\"three\""));
    assert_non_null(
        strstr(body.data, "\"usage\":{\"prompt_tokens\":6,\"completion_tokens\":4,\"total_tokens\":10"));
    buffer_finish(&body);
    body = merge(400, first_record, failed_record);
    assert_int_equal(strncmp(body.data, "{\"error\":{\"message\":\"n: expected a number\"", 40), 0);
    buffer_finish(&body);
    body = merge(503, cancelled_record, NULL);
    assert_non_null(strstr(body.data, "\"code\":\"cancelled\""));
    buffer_finish(&body);
    struct answer_merge none = {0};
    int status;
    assert_false(answer_merge_write(&none, &body, &status));
    assert_true(answer_merge_add(&none, TEXT("{")));
    assert_false(answer_merge_write(&none, &body, &status));
    answer_merge_finish(&none);
}

TEST(a_stream_has_each_choice_and_usage_only_if_it_is_wanted)
{
    struct buffer body = merge(200, first_record, NULL), events = {0};
    struct text text = {body.data, body.size};
    struct answer_events with = {.include_usage = true}, without = {0}, none = {0};
    assert_true(answer_events_end(&with, text, &events));
    assert_non_null(strstr(
        events.data, "\"text\":\"one\",\"logprobs\":null,\"finish_reason\":\"stop\"}],\"usage\":null}\n\n"));
    assert_non_null(strstr(events.data, "\"choices\":[],\"usage\":{\"prompt_tokens\":2"));
    assert_string_equal(events.data + events.size - 14, "data: [DONE]\n\n");
    buffer_clear(&events);
    assert_true(answer_events_end(&without, text, &events));
    assert_null(strstr(events.data, "usage"));
    assert_false(answer_events_end(&none, TEXT("{"), &events));
    answer_events_finish(&with);
    answer_events_finish(&without);
    buffer_finish(&events);
    buffer_finish(&body);
}

#define BODY(content)                                                                                        \
    "{\"id\":\"i\",\"created\":5,\"model\":\"m\",\"choices\":[{\"index\":0,\"message\":"                     \
    "{\"role\":\"assistant\",\"content\":" content "},\"logprobs\":null,\"finish_reason\":\"stop\"}]}"

TEST(a_stream_that_has_begun_ends_with_the_rest_of_its_text)
{
    static const struct {
        const char *body, *rest; // NULL: the body's text is not what was sent
    } cases[] = {{BODY("\"a\\\"b\\ufffdc d\""), "\"content\":\"c d\""},
                 {BODY("\"a\\\"b\\ufffd\""), ""},
                 {BODY("\"a\\\"b\""), NULL},
                 {BODY("\"x\\\"b\\ufffdc d\""), NULL},
                 {BODY("null"), NULL}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct answer_events events = {.is_chat = true};
        struct buffer out = {0};
        buffer_add_string(&events.name, "\"id\":\"i\"");
        answer_events_add(&events, 0, false, TEXT("a\"b"), &out);
        answer_events_add(&events, 0, false, TEXT("\xE2\x82"), &out); // not UTF-8: one U+FFFD
        assert_non_null(strstr(out.data, "\"delta\":{\"role\":\"assistant\""));
        assert_non_null(strstr(out.data, "\"delta\":{\"content\":\"a\\\"b\"}"));
        buffer_clear(&out);
        assert_int_equal(answer_events_end(&events, text_from_string(cases[i].body), &out),
                         cases[i].rest != NULL);
        assert_null(strstr(out.data, "role"));
        if (cases[i].rest) {
            assert_non_null(strstr(out.data, cases[i].rest));
            assert_int_equal(strstr(out.data, "\"content\"") != NULL, *cases[i].rest != 0);
            assert_non_null(strstr(out.data, "\"delta\":{},\"logprobs\":null,\"finish_reason\":\"stop\""));
        }
        buffer_finish(&out);
        answer_events_finish(&events);
    }
}

// ---- tokens ----

TEST(each_token_is_an_owner)
{
    struct serve_tokens tokens = {0};
    char first[SERVE_OWNER_BYTES], second[SERVE_OWNER_BYTES], owner[SERVE_OWNER_BYTES];
    assert_true(serve_tokens_match(&tokens, "Bearer anything", owner));
    assert_string_equal(owner, "");
    write_file("# the first\nfirst-token-of-a-client\r\n\n  second-token-of-a-client\n");
    assert_ok(serve_tokens_read(&tokens, path, &error), &error);
    assert_int_equal(tokens.n, 2);
    assert_true(serve_tokens_match(&tokens, "Bearer first-token-of-a-client", first));
    assert_true(serve_tokens_match(&tokens, "bearer  second-token-of-a-client", second));
    assert_string_not_equal(first, second);
    assert_false(serve_tokens_match(&tokens, "Bearer third-token-of-a-clients", owner));
    assert_false(serve_tokens_match(&tokens, NULL, owner));
    serve_tokens_finish(&tokens);
    static const char *const bad[] = {"", "# none\n", "short\n", "with a blank within it\n"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        write_file(bad[i]);
        assert_int_equal(serve_tokens_read(&tokens, path, &error), STATUS_REFUSE);
        assert_int_equal(error.code, ERROR_USAGE);
    }
}
