// Sampling defaults of jobs: options, the model's keys, OpenAI's defaults.
#include "consumer/observe/log.h"
#include "consumer/worker/sampling_defaults.h"
#include "engine/file/gguf_made.h"
#include "tests/support/cases.h"

#include <unistd.h>

static struct gguf *make_model(const char *const (*keys)[2])
{
    struct gguf_writer writer = {0};
    struct gguf *gguf;
    struct error error;
    gguf_writer_text(&writer, "general.architecture", TEXT("llama"));
    for (; keys && (*keys)[0]; keys++)
        gguf_writer_f32(&writer, (*keys)[0], strtof((*keys)[1], NULL));
    if (gguf_create(&gguf, "made", &writer, NULL, 0, (struct gguf_source){0}, &error) != STATUS_OK)
        fail_msg("%s", error.text);
    gguf_writer_finish(&writer);
    return gguf;
}

static enum status read_defaults(const char *const (*keys)[2], const struct sampling_options *options,
                                 struct sampling_defaults *defaults, struct error *error)
{
    struct gguf *gguf = make_model(keys);
    enum status status = sampling_defaults_read(defaults, gguf, options, error);
    gguf_close(gguf);
    return status;
}

static void assert_names(const char *const (*keys)[2], const struct sampling_options *options,
                         const char *expected)
{
    struct sampling_defaults defaults;
    struct error error;
    assert_ok(read_defaults(keys, options, &defaults, &error), &error);
    assert_string_equal(defaults.names, expected);
}

static const char *const qwen[][2] = {{"general.sampling.temp", "0.6"},
                                      {"general.sampling.top_k", "20"},
                                      {"general.sampling.top_p", "0.95"},
                                      {"general.sampling.min_p", "0"},
                                      {"general.sampling.penalty_repeat", "1.05"},
                                      {"general.sampling.max_new_tokens", "2048"},
                                      {NULL, NULL}};

TEST(options_come_before_the_model_and_the_model_before_nothing)
{
    assert_names(NULL, &(struct settings){0}.sampling, "");
    assert_names(qwen, &(struct settings){0}.sampling,
                 " temperature=0.6 top-p=0.95 top-k=20 min-p=0 repetition-penalty=1.05 max-tokens=2048");
    assert_names(qwen, &(struct settings){.sampling.defaults = "none"}.sampling, "");
    assert_names(qwen,
                 &(struct settings){
                     .sampling.defaults = "none", .sampling.top_k = "7", .sampling.max_tokens_default = 9}
                      .sampling,
                 " top-k=7 max-tokens=9");
    assert_names(
        NULL,
        &(struct settings){.sampling = {.thinking_token_budget = "512", .reasoning_effort = "low"}}.sampling,
        " thinking-token-budget=512 reasoning-effort=low");
    assert_names(qwen,
                 &(struct settings){
                     .sampling = {.temperature = "0", .presence_penalty = "1.5", .frequency_penalty = "-2"},
                     .sampling.max_tokens_default = 9}
                      .sampling,
                 " temperature=0 top-p=0.95 top-k=20 min-p=0 presence-penalty=1.5 frequency-penalty=-2 "
                 "repetition-penalty=1.05 max-tokens=9");
}

TEST(numbers_out_of_range_are_refused_with_their_name)
{
    static const char *const cold[][2] = {{"general.sampling.temp", "-1"}, {NULL, NULL}};
    struct sampling_defaults defaults;
    struct error error;
    assert_int_equal(read_defaults(cold, &(struct settings){0}.sampling, &defaults, &error), STATUS_REFUSE);
    assert_non_null(strstr(
        error.text, "the model's general.sampling.temp (--sampling-defaults none ignores it): temperature: "
                    "expected a number from 0"));
    static const struct {
        struct settings settings;
        const char *text;
    } cases[] = {
        {{.sampling.top_p = "2"}, "--top-p: top_p: expected a number"},
        {{.sampling.top_k = "1.5"}, "--top-k: top_k: expected an integer"},
        {{.sampling.thinking_token_budget = "-1"},
         "--thinking-token-budget: thinking_token_budget: expected an integer from 0"},
        {{.sampling.reasoning_effort = "much"}, "--reasoning-effort: expected none, minimal"},
        {{.sampling.temperature = "warm"}, "--temperature: expected a number, got \"warm\""},
        {{.sampling.temperature = "nan"}, "--temperature: expected a number, got \"nan\""},
        {{.sampling.temperature = ""}, "--temperature: expected a number, got \"\""},
        {{.sampling.defaults = "mine"}, "--sampling-defaults: expected model or none, got \"mine\""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(read_defaults(NULL, &cases[i].settings.sampling, &defaults, &error), STATUS_REFUSE);
        assert_int_equal(error.code, ERROR_USAGE);
        if (!strstr(error.text, cases[i].text))
            fail_msg("expected \"%s\" in: %s", cases[i].text, error.text);
    }
}

TEST(a_job_takes_only_the_defaults_of_what_it_does_not_name)
{
    struct sampling_defaults defaults;
    struct error error;
    assert_ok(read_defaults(qwen, &(struct settings){0}.sampling, &defaults, &error), &error);
    struct job *job = job_create();
    assert_ok(job_decode(job, TEXT("{\"job_id\":\"a\",\"prompt\":\"p\",\"temperature\":1,\"min_p\":0.5}"),
                         ENCODING_JSON, &error),
              &error);
    // Through the queue and back: what was named at its default stays named.
    struct buffer record = {0};
    job_encode(job, ENCODING_MSGPACK, &record);
    job_destroy(job);
    job = job_create();
    assert_ok(job_decode(job, (struct text){record.data, record.size}, ENCODING_MSGPACK, &error), &error);
    struct sampling *sampling = &job->request.sampling;
    for (int time = 0; time < 2; time++) { // the second changes nothing
        sampling_complete(sampling, &defaults.sampling);
        assert_true(sampling->temperature == 1.0f && sampling->min_p == 0.5f);
        assert_true(sampling->top_p == 0.95f && sampling->top_k == 20 &&
                    sampling->repetition_penalty == 1.05f);
        assert_true(sampling->presence_penalty == 0.0f && sampling->frequency_penalty == 0.0f);
    }
    buffer_finish(&record);
    job_destroy(job);
}

// The warnings at start, as a log file has them: the keys they name, in order.
static void assert_warnings(const char *const (*keys)[2], char *defaults, const char *expected)
{
    char path[] = "/tmp/sheaf-log-XXXXXX", line[256], names[512] = "";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    struct sampling_defaults ignored;
    struct error error;
    assert_ok(log_configure(&(struct log_settings){.level = LOG_WARNING, .path = path}, &error), &error);
    assert_ok(read_defaults(keys, &(struct settings){.sampling.defaults = defaults}.sampling, &ignored,
                            &error),
              &error);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file)) {
        char key[64], number[16];
        const char *named = strstr(line, "the model's general.sampling.");
        assert_non_null(named);
        assert_int_equal(sscanf(named,
                                "the model's general.sampling.%63s is %15[^:]: not supported, and ignored",
                                key, number),
                         2);
        size_t size = strlen(names);
        snprintf(names + size, sizeof names - size, " %s=%s", key, number);
    }
    fclose(file);
    remove(path);
    assert_string_equal(names, expected);
}

TEST(settings_of_the_model_that_are_not_built_are_named_where_they_change_an_answer)
{
    static const char *const effective[][2] = {{"general.sampling.mirostat", "2"},
                                               {"general.sampling.xtc_probability", "0.25"},
                                               {"general.sampling.xtc_threshold", "0.5"},
                                               {"general.sampling.penalty_last_n", "64"},
                                               {NULL, NULL}};
    static const char *const one[][2] = {{"general.sampling.xtc_probability", "1"}, {NULL, NULL}};
    static const char *const none[][2] = {{"general.sampling.penalty_last_n", "0"}, {NULL, NULL}};
    static const char *const idle[][2] = {{"general.sampling.mirostat", "0"},
                                          {"general.sampling.xtc_probability", "0"},
                                          {"general.sampling.xtc_threshold", "0.1"},
                                          {"general.sampling.penalty_last_n", "-1"},
                                          {NULL, NULL}};
    static const char *const high[][2] = {{"general.sampling.xtc_probability", "0.5"},
                                          {"general.sampling.xtc_threshold", "0.75"},
                                          {NULL, NULL}};
    assert_warnings(effective, "model",
                    " mirostat=2 xtc_probability=0.25 xtc_threshold=0.5 penalty_last_n=64");
    assert_warnings(one, "model", " xtc_probability=1");
    assert_warnings(none, "model", " penalty_last_n=0");
    assert_warnings(idle, "model", "");
    assert_warnings(high, "model", "");
    assert_warnings(effective, "none", "");
}
