// Formats of calls and thoughts: which one a template has, what is read from an answer, and that the grammar
// of an answer accepts what the parser reads.
#include "engine/answer/answer_grammar.h"
#include "engine/answer/answer_parse.h"
#include "engine/answer/answer_settled.h"
#include "schemas/request.h"
#include "tests/support/matched_grammar.h"

static const char request_text[] =
    "{\"job_id\":\"j\",\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"tools\":["
    "{\"type\":\"function\",\"function\":{\"name\":\"get_weather\",\"parameters\":{\"type\":\"object\","
    "\"properties\":{\"city\":{\"type\":\"string\"},\"days\":{\"type\":\"integer\"},"
    "\"exact\":{\"type\":\"boolean\"}},\"required\":[\"city\"],\"additionalProperties\":false}}},"
    "{\"type\":\"function\",\"function\":{\"name\":\"get\"}}]%s}";

static struct job *make_job(const char *more)
{
    char record[2048];
    struct error error;
    struct job *job = job_create();
    snprintf(record, sizeof record, request_text, more);
    assert_ok(job_decode(job, text_from_string(record), ENCODING_JSON, &error), &error);
    return job;
}

static struct answer_format format_of(const char *tools, const char *thinking_template)
{
    struct answer_format format, thinking;
    answer_format_detect(&format, TEXT(""));
    answer_format_detect(&thinking, text_from_string(thinking_template));
    format.tools = tool_format_find(tools);
    format.thinking = thinking.thinking;
    assert_non_null(format.tools);
    return format;
}

static struct answer_parts parse(const struct answer_format *format, struct job *job,
                                 enum thinking_state thinking, const char *raw)
{
    struct answer_parts parts;
    struct error error;
    assert_ok(answer_parse(format, &job->request.tools, thinking, text_from_string(raw), &job->arena, &parts,
                           &error),
              &error);
    text_spans_finish(&parts.thoughts);
    return parts;
}

static bool no_specials(const void *context, struct text name)
{
    return false;
}

// Whether the whole text is an answer of the grammar. `forced`: the bytes that begin every answer, or NULL.
static bool is_answer(const struct answer_format *format, struct job *job, enum thinking_state thinking,
                      const char *text, struct error *error)
{
    struct answer_task task = {
        .format = format, .thinking = thinking, .tools = &job->request.tools, .is_special = no_specials};
    struct rules *rules = rules_create(NULL);
    struct matched_grammar matched;
    uint32_t start;
    int32_t function;
    if (answer_grammar_build(&task, rules, &start, &function, error) != STATUS_OK) {
        rules_destroy(rules);
        return false;
    }
    matched_open_rules(&matched, rules, start, NULL);
    bool is_accepted = accepts_text(matched.recognizer, text);
    matched_close(&matched);
    return is_accepted;
}

// Of each beginning of an answer, what is settled is a beginning of the parts of the whole answer.
TEST(settled_parts_of_an_unfinished_answer_are_beginnings_of_the_answers_parts)
{
    static const char *const templates[] = {"<|channel|>analysis<|message|>",
                                            "<|START_THINKING|><|START_RESPONSE|>",
                                            "<seed:think>",
                                            "[THINK][/THINK]",
                                            "<|channel>thought'\\n<channel|>'",
                                            "Here are my reasoning steps:[BEGIN FINAL RESPONSE]",
                                            "<think></think>"};
    static const char farewell[] =
        "\n<seed:cot_budget_reflect>I have exhausted my token budget, and now I will start "
        "answering the question.</seed:cot_budget_reflect>\n";
    struct job *job = make_job(",\"tool_choice\":\"none\"");
    size_t n_settled = 0;
    for (size_t i = 0; i < sizeof templates / sizeof *templates; i++) {
        struct answer_format format;
        answer_format_detect(&format, text_from_string(templates[i]));
        const struct thinking_format *thinking = format.thinking;
        assert_non_null(thinking);
        for (int kind = 0; kind < 24; kind++) {
            bool is_open = kind & 1;
            struct buffer raw = {0};
            buffer_add_string(&raw, is_open ? "" : kind & 4 ? " \n" : "");
            buffer_add_string(&raw, is_open || kind / 8 == 1 ? "" : thinking->open);
            buffer_add_string(&raw, " one\n <thou \n");
            if (kind & 2)
                buffer_add_string(&raw, kind & 4 ? farewell : "two ");
            buffer_add_string(&raw, kind / 8 == 1 && !is_open ? "" : thinking->close);
            if (kind & 4 && kind / 8 != 1)
                buffer_add_format(&raw, "\n%s three %s", thinking->open, thinking->end);
            if (thinking->answer_open)
                buffer_add_string(&raw, thinking->answer_open);
            buffer_add_string(&raw, "\n\n the <b>answer[/x \n");
            if (thinking->answer_close && kind & 2)
                buffer_add_format(&raw, "%s more", thinking->answer_close);
            struct answer_parts parts =
                parse(&format, job, is_open ? THINKING_OPEN : THINKING_POSSIBLE, raw.data);
            struct settled_answer settled = {0};
            for (size_t n = 0; n <= raw.size; n++) {
                buffer_clear(&settled.reasoning);
                answer_settle(thinking, is_open, (struct text){raw.data, n}, &settled);
                if (settled.reasoning.size > parts.reasoning.size ||
                    settled.content.size > parts.content.size ||
                    (settled.reasoning.size &&
                     memcmp(settled.reasoning.data, parts.reasoning.data, settled.reasoning.size) != 0) ||
                    (settled.content.size &&
                     memcmp(settled.content.data, parts.content.data, settled.content.size) != 0))
                    fail_msg("%s: %.*s|%s: settled %.*s|%.*s", thinking->name, (int)n, raw.data, raw.data + n,
                             (int)settled.reasoning.size, settled.reasoning.data, (int)settled.content.size,
                             settled.content.data);
            }
            assert_int_equal(settled.content.size, parts.content.size);
            assert_int_equal(settled.reasoning.size, parts.reasoning.size);
            n_settled += settled.reasoning.size > 0;
            buffer_finish(&settled.reasoning);
            buffer_finish(&raw);
        }
    }
    assert_true(n_settled > 100);
    job_destroy(job);
}

#define WEATHER "{\"city\": \"Paris\", \"days\": 3}"

// Two calls as the format writes them, or one.
static const struct {
    const char *format, *text;
    int n_calls;
} answers[] = {
    {"hermes",
     "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": " WEATHER "}\n</tool_call>\n"
     "<tool_call>\n{\"name\": \"get\", \"arguments\": {}}\n</tool_call>",
     2},
    {"llama3-json",
     "{\"name\": \"get_weather\", \"parameters\": " WEATHER "}; {\"name\": \"get\", \"parameters\": {}}", 2},
    {"json",
     "{\"name\": \"get_weather\", \"arguments\": " WEATHER "}\n{\"name\": \"get\", \"arguments\": {}}", 2},
    {"llama3-pythonic", "[get_weather(city=\"Paris\", days=3), get()]", 2},
    {"lfm2", "<|tool_call_start|>[get_weather(city=\"Paris\", days=3), get()]<|tool_call_end|>", 2},
    {"mistral",
     "[TOOL_CALLS][{\"name\": \"get_weather\", \"arguments\": " WEATHER
     "}, {\"name\": \"get\", \"arguments\": {}}]",
     2},
    {"mistral-v11",
     "[TOOL_CALLS]get_weather[CALL_ID]a1B2c3D4e[ARGS]" WEATHER "[TOOL_CALLS]get[CALL_ID]123456789[ARGS]{}",
     2},
    {"mistral-v13", "[TOOL_CALLS]get_weather[ARGS]" WEATHER "[TOOL_CALLS]get[ARGS]{}", 2},
    {"deepseek-v3",
     "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n```json\n" WEATHER
     "\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>get\n```json\n{}\n```<｜tool▁call▁end｜>"
     "<｜tool▁calls▁end｜>",
     2},
    {"deepseek-v3.1",
     "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>" WEATHER
     "<｜tool▁call▁end｜><｜tool▁call▁begin｜>get<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
     2},
    {"deepseek-dsml",
     "<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"get_weather\">\n<｜DSML｜parameter name=\"city\" "
     "string=\"true\">Paris</｜DSML｜parameter>\n<｜DSML｜parameter name=\"days\" "
     "string=\"false\">3</｜DSML｜parameter>\n</｜DSML｜invoke>\n<｜DSML｜invoke "
     "name=\"get\">\n</｜DSML｜invoke>\n</｜DSML｜function_calls>",
     2},
    {"glm-4.5",
     "<tool_call>get_weather\n<arg_key>city</arg_key>\n"
     "<arg_value>Paris</arg_value>\n<arg_key>days</arg_key>\n"
     "<arg_value>3</arg_value>\n</tool_call>\n<tool_call>get\n</tool_call>",
     2},
    {"glm-4.7",
     "<tool_call>get_weather<arg_key>city</arg_key><arg_value>Paris</arg_value><arg_key>days</arg_key>"
     "<arg_value>3</arg_value></tool_call><tool_call>get</tool_call>",
     2},
    {"qwen3-coder",
     "<tool_call>\n<function=get_weather>\n<parameter=city>\n"
     "Paris\n</parameter>\n<parameter=days>\n3\n</parameter>\n"
     "</function>\n</tool_call>\n<tool_call>\n<function=get>\n</function>\n</tool_call>",
     2},
    {"seed-oss",
     "<seed:tool_call>\n<function=get_weather>\n<parameter=city>Paris</parameter>\n"
     "<parameter=days>3</parameter>\n"
     "</function>\n</seed:tool_call>\n<seed:tool_call>\n<function=get>\n</function>\n</seed:tool_call>",
     2},
    {"harmony", "<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>" WEATHER, 1},
    {"kimi-k2",
     "<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0"
     "<|tool_call_argument_begin|>" WEATHER
     "<|tool_call_end|><|tool_call_begin|>functions.get:1<|tool_call_argument_begin|>{}<|tool_call_end|>"
     "<|tool_calls_section_end|>",
     2},
    {"granite",
     "<|tool_call|>[{\"name\": \"get_weather\", \"arguments\": " WEATHER
     "}, {\"name\": \"get\", \"arguments\": {}}]",
     2},
    {"command-r7b",
     "<|START_ACTION|>[\n"
     "    {\"tool_call_id\": \"0\", \"tool_name\": \"get_weather\", \"parameters\": " WEATHER
     "},\n    {\"tool_call_id\": \"1\", \"tool_name\": \"get\", \"parameters\": {}}\n]<|END_ACTION|>",
     2},
    {"command-r",
     "Action:\n```json\n[\n    {\n        \"tool_name\": \"get_weather\",\n        \"parameters\": " WEATHER
     "\n    },\n    {\n        \"tool_name\": \"get\",\n        \"parameters\": {}\n    }\n]\n```",
     2},
    {"functools",
     "functools[{\"name\": \"get_weather\", \"arguments\": " WEATHER
     "}, {\"name\": \"get\", \"arguments\": {}}]",
     2},
    {"phi-4-mini",
     "functools[{\"name\": \"get_weather\", \"arguments\": " WEATHER
     "}, {\"name\": \"get\", \"arguments\": {}}]",
     2},
    {"apriel",
     "<tool_calls>[{\"name\": \"get_weather\", \"arguments\": " WEATHER
     "}, {\"name\": \"get\", \"arguments\": {}}]</tool_calls>",
     2},
    {"apertus", "<|tools_prefix|>[{\"get_weather\": " WEATHER "}, {\"get\": {}}]<|tools_suffix|>", 2},
    {"gemma-4",
     "<|tool_call>call:get_weather{city:<|\"|>Paris<|\"|>,days:3}<tool_call|>"
     "<|tool_call>call:get{}<tool_call|>",
     2},
    {"functionary", "<function=get_weather>" WEATHER "</function><function=get>{}</function>", 2},
};

enum { N_ANSWERS = sizeof answers / sizeof *answers };

static void assert_calls(const char *name, const struct answer_parts *parts, int n_calls)
{
    if (parts->n_calls != n_calls)
        fail_msg("%s: %d calls, content '%.*s'", name, parts->n_calls, (int)parts->content.size,
                 parts->content.data);
    assert_true(text_equals_string(parts->calls[0].name, "get_weather"));
    if (!text_equals_string(parts->calls[0].arguments, WEATHER))
        fail_msg("%s: %.*s", name, (int)parts->calls[0].arguments.size, parts->calls[0].arguments.data);
    if (n_calls == 1)
        return;
    assert_true(text_equals_string(parts->calls[1].name, "get"));
    assert_true(text_equals_string(parts->calls[1].arguments, "{}"));
}

TEST(calls_of_every_format_are_read_and_accepted)
{
    for (int i = 0; i < N_ANSWERS; i++) {
        struct job *job = make_job(",\"tool_choice\":\"required\"");
        struct answer_format format = format_of(answers[i].format, "");
        struct answer_parts parts = parse(&format, job, THINKING_POSSIBLE, answers[i].text);
        struct error error;
        assert_calls(answers[i].format, &parts, answers[i].n_calls);
        assert_int_equal(parts.content.size, 0);
        if (!is_answer(&format, job, THINKING_POSSIBLE, answers[i].text, &error))
            fail_msg("%s: not accepted", answers[i].format);
        assert_false(is_answer(&format, job, THINKING_POSSIBLE, "no call", &error));
        job_destroy(job);
    }
}

// The names of the table, so that a new format gets its case.
TEST(every_format_has_an_answer_here)
{
    struct buffer names = {0}, expected = {0};
    int n_names = 1, n_found = 0;
    tool_format_list(&names);
    for (size_t i = 0; i < names.size; i++)
        n_names += names.data[i] == ',';
    for (int i = 0; i < N_ANSWERS; i++)
        n_found += tool_format_find(answers[i].format) != NULL;
    assert_int_equal(n_found, n_names);
    assert_null(tool_format_find("none"));
    buffer_finish(&names);
    buffer_finish(&expected);
}

TEST(in_auto_mode_text_stays_free_until_a_call_begins)
{
    for (int i = 0; i < N_ANSWERS; i++) {
        struct job *job = make_job("");
        struct answer_format format = format_of(answers[i].format, "");
        struct answer_parts parts = parse(&format, job, THINKING_POSSIBLE, "It rains, {\"a\": [1]}.");
        struct error error;
        assert_int_equal(parts.n_calls, 0);
        assert_true(text_equals_string(parts.content, "It rains, {\"a\": [1]}."));
        assert_true(is_answer(&format, job, THINKING_POSSIBLE, "It rains, {\"a\": [1]}.", &error));
        assert_true(is_answer(&format, job, THINKING_POSSIBLE, answers[i].text, &error));
        char cut[1024];
        snprintf(cut, sizeof cut, "%s", answers[i].text);
        *strstr(cut, "Paris") = '\0';
        // a call that ends in its middle is content, and no answer that may end
        parts = parse(&format, job, THINKING_POSSIBLE, cut);
        assert_int_equal(parts.n_calls, 0);
        assert_true(text_equals_string(parts.content, cut));
        if (is_answer(&format, job, THINKING_POSSIBLE, cut, &error) && !format.tools->has_one)
            fail_msg("%s: %s may end", answers[i].format, cut);
        job_destroy(job);
    }
}

TEST(calls_may_follow_content)
{
    struct job *job = make_job("");
    struct answer_format format = format_of("hermes", "");
    static const char text[] = "I look.\n<tool_call>\n{\"name\": \"get\", \"arguments\": {}}\n</tool_call>";
    struct answer_parts parts = parse(&format, job, THINKING_POSSIBLE, text);
    struct error error;
    assert_int_equal(parts.n_calls, 1);
    assert_true(text_equals_string(parts.content, "I look."));
    assert_true(is_answer(&format, job, THINKING_POSSIBLE, text, &error));
    job_destroy(job);
}

TEST(marked_strings_hold_any_text_and_values_may_be_nested)
{
    struct job *job = make_job("");
    struct answer_format format = format_of("gemma-4", "");
    static const char text[] =
        "<|tool_call>call:get_weather{city:<|\"|>a\"b{,}\n<|\"|>,tags:[<|\"|>x<|\"|>, {deep:"
        "<|\"|>y<|\"|>,\"q\":true}],days:null,none:{}}<tool_call|>";
    struct answer_parts parts = parse(&format, job, THINKING_POSSIBLE, text);
    assert_int_equal(parts.n_calls, 1);
    assert_true(
        text_equals_string(parts.calls[0].arguments,
                           "{\"city\": \"a\\\"b{,}\\n\", \"tags\": [\"x\", {\"deep\": \"y\", \"q\": true}], "
                           "\"days\": null, \"none\": {}}"));
    static const char *const broken[] = {"<|tool_call>call:get{a:<|\"|>x}<tool_call|>", // no mark after x
                                         "<|tool_call>call:get{a:x}<tool_call|>",
                                         "<|tool_call>call:get{a:{:1}}<tool_call|>",
                                         "<|tool_call>call:get{a}<tool_call|>"};
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++)
        assert_int_equal(parse(&format, job, THINKING_POSSIBLE, broken[i]).n_calls, 0);
    job_destroy(job);
}

TEST(malformed_calls_are_content)
{
    static const char *const texts[] = {
        "<tool_call>",
        "<tool_call>\n{}\n</tool_call>",
        "<tool_call>\n{\"name\": \"other\", \"arguments\": {}}\n</tool_call>",
        "<tool_call>\n{\"name\": \"get\", \"arguments\": 5}\n</tool_call>",
        "<tool_call>\n{\"name\": \"get\", \"arguments\": {\"a\": }}\n</tool_call>",
        "<tool_call>\n{\"name\": \"get\", \"arguments\": {}}\n</tool_call> and more",
        "<tool_call>\n{\"name\": \"get\", \"arguments\": {}}"};
    struct job *job = make_job("");
    struct answer_format format = format_of("hermes", "");
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct answer_parts parts = parse(&format, job, THINKING_POSSIBLE, texts[i]);
        struct error error;
        if (parts.n_calls || !text_equals_string(parts.content, texts[i]))
            fail_msg("%s: %d calls", texts[i], parts.n_calls);
        assert_false(is_answer(&format, job, THINKING_POSSIBLE, texts[i], &error));
    }
    job_destroy(job);
}

// As a schema with additionalProperties allows; its text is the model's, whose readers take the last.
TEST(a_key_that_occurs_twice_leaves_a_call_one)
{
    static const char arguments[] = "{\"a\": 1, \"a\": {\"b\": 2, \"b\": 3}}";
    struct job *job = make_job("");
    struct answer_format format = format_of("hermes", "");
    struct buffer text = {0};
    buffer_add_format(&text, "<tool_call>\n{\"name\": \"get\", \"arguments\": %s}\n</tool_call>", arguments);
    struct answer_parts parts = parse(&format, job, THINKING_POSSIBLE, text.data);
    assert_int_equal(parts.n_calls, 1);
    assert_true(text_equals_string(parts.calls[0].arguments, arguments));
    buffer_finish(&text);
    job_destroy(job);
}

TEST(named_and_single_calls_are_the_ones_asked_for)
{
    struct job *named = make_job(",\"tool_choice\":{\"type\":\"function\",\"function\":{\"name\":\"get\"}}"),
               *single = make_job(",\"tool_choice\":\"required\",\"parallel_tool_calls\":false");
    static const char get[] = "{\"name\": \"get\", \"arguments\": {}}",
                      weather[] = "{\"name\": \"get_weather\", \"arguments\": {\"city\": \"x\"}}",
                      two[] =
                          "{\"name\": \"get\", \"arguments\": {}}\n{\"name\": \"get\", \"arguments\": {}}";
    struct answer_format format = format_of("json", "");
    struct error error;
    assert_true(is_answer(&format, named, THINKING_POSSIBLE, get, &error));
    assert_false(is_answer(&format, named, THINKING_POSSIBLE, two, &error));
    assert_false(is_answer(&format, named, THINKING_POSSIBLE, weather, &error));
    assert_true(is_answer(&format, single, THINKING_POSSIBLE, weather, &error));
    assert_false(is_answer(&format, single, THINKING_POSSIBLE, two, &error));
    job_destroy(named);
    job_destroy(single);
}

TEST(arguments_are_those_of_the_schema)
{
    static const struct {
        const char *format, *text;
    } wrong[] = {
        {"json", "{\"name\": \"get_weather\", \"arguments\": {}}"},
        {"json", "{\"name\": \"get_weather\", \"arguments\": {\"city\": 5}}"},
        {"json", "{\"name\": \"get_weather\", \"arguments\": {\"city\": \"x\", \"more\": 1}}"},
        {"json", "{\"name\": \"get\", \"arguments\": {\"a\": 1}}"},
        {"llama3-pythonic", "[get_weather(days=3)]"},
        {"llama3-pythonic", "[get_weather(city=\"x\", exact=true)]"},
        {"glm-4.7", "<tool_call>get_weather<arg_key>days</arg_key><arg_value>3</arg_value></tool_call>"},
        {"glm-4.7",
         "<tool_call>get_weather<arg_key>city</arg_key><arg_value>x</arg_value><arg_key>days</arg_key>"
         "<arg_value>x</arg_value></tool_call>"}};
    struct job *job = make_job(",\"tool_choice\":\"required\"");
    struct error error;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct answer_format format = format_of(wrong[i].format, "");
        if (is_answer(&format, job, THINKING_POSSIBLE, wrong[i].text, &error))
            fail_msg("%s", wrong[i].text);
    }
    struct answer_format python = format_of("llama3-pythonic", "");
    assert_true(is_answer(&python, job, THINKING_POSSIBLE, "[get_weather(city=\"x\", exact=True)]", &error));
    struct answer_parts parts =
        parse(&python, job, THINKING_POSSIBLE,
              "[get_weather(city='a\\'\"\\u00e9\\n', days=[1, {'b': None}], exact=True)]");
    assert_int_equal(parts.n_calls, 1);
    assert_true(text_equals_string(
        parts.calls[0].arguments,
        "{\"city\": \"a'\\\"\xC3\xA9\\n\", \"days\": [1, {\"b\": null}], \"exact\": true}"));
    job_destroy(job);
}

// Tags hold texts as they are; what looks like a number is a text where the schema says so.
TEST(values_between_tags_have_the_schemas_type)
{
    struct job *job = make_job("");
    struct answer_format format = format_of("qwen3-coder", "");
    struct answer_parts parts = parse(
        &format, job, THINKING_POSSIBLE,
        "<tool_call>\n<function=get_weather>\n<parameter=city>\n 12\n\n</parameter>\n<parameter=days>\n12\n"
        "</parameter>\n</function>\n</tool_call>");
    assert_int_equal(parts.n_calls, 1);
    assert_true(text_equals_string(parts.calls[0].arguments, "{\"city\": \" 12\\n\", \"days\": 12}"));
    job_destroy(job);
}

TEST(thoughts_are_split_off)
{
    static const struct {
        const char *template;
        enum thinking_state thinking;
        const char *raw, *reasoning, *content;
    } cases[] = {
        {"<think></think>", THINKING_POSSIBLE, "<think>\nhm\n</think>\n\nyes", "hm", "yes"},
        {"<think></think>", THINKING_POSSIBLE, "yes", NULL, "yes"},
        {"<think></think>", THINKING_POSSIBLE, "\n\nyes", NULL,
         "\n\nyes"}, // blank lines stay but behind thoughts
        {"<think></think>", THINKING_POSSIBLE, "<think>\n\n</think>\n\nyes", NULL, "yes"},
        {"<think></think>", THINKING_OPEN, "hm\n</think>\n\nyes", "hm", "yes"},
        {"<think></think>", THINKING_OPEN, "hm and", "hm and", ""},
        {"<think></think>", THINKING_CLOSED, "a <think> b", NULL, "a <think> b"},
        {"<think></think>", THINKING_POSSIBLE, "\xFF<think>\xFFhm\xFF</think>\xFFyes\xFF<|pad|>\xFF", "hm",
         "yes"},
        {"[THINK][/THINK]", THINKING_POSSIBLE, "[THINK]hm[/THINK]yes", "hm", "yes"},
        {"<seed:think>", THINKING_POSSIBLE, "<seed:think>hm</seed:think>yes", "hm", "yes"},
        {"<|START_THINKING|><|START_RESPONSE|>", THINKING_POSSIBLE,
         "<|START_THINKING|>hm<|END_THINKING|><|START_RESPONSE|>yes<|END_RESPONSE|>", "hm", "yes"},
        {"<|channel|>analysis<|message|>", THINKING_POSSIBLE,
         "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>yes", "hm",
         "yes"},
        {"plain", THINKING_POSSIBLE, "<think>hm</think>yes", NULL, "<think>hm</think>yes"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct job *job = make_job(",\"tool_choice\":\"none\"");
        struct answer_format format;
        answer_format_detect(&format, text_from_string(cases[i].template));
        struct answer_parts parts = parse(&format, job, cases[i].thinking, cases[i].raw);
        if (!text_equals_string(parts.content, cases[i].content) ||
            !text_equals_string(parts.reasoning, cases[i].reasoning) ||
            (parts.reasoning.data != NULL) != (cases[i].reasoning != NULL))
            fail_msg("%s: '%.*s' '%.*s'", cases[i].raw, (int)parts.reasoning.size,
                     parts.reasoning.data ? parts.reasoning.data : "", (int)parts.content.size,
                     parts.content.data);
        job_destroy(job);
    }
}

// The sanitizers report a null pointer for memmem.
TEST(a_model_without_a_template_has_no_format)
{
    struct answer_format format;
    answer_format_detect(&format, (struct text){0});
    assert_null(format.tools);
    assert_null(format.thinking);
}

TEST(a_constraint_holds_after_the_thoughts)
{
    struct job *job = make_job(",\"tool_choice\":\"required\"");
    struct answer_format format = format_of("json", "<think></think>");
    static const char get[] = "{\"name\": \"get\", \"arguments\": {}}",
                      thought[] = "<think>what {}?</think>\n\n{\"name\": \"get\", \"arguments\": {}}",
                      open[] = "what?</think>\n\n{\"name\": \"get\", \"arguments\": {}}";
    struct error error;
    assert_true(is_answer(&format, job, THINKING_POSSIBLE, get, &error));
    assert_true(is_answer(&format, job, THINKING_POSSIBLE, thought, &error));
    assert_false(is_answer(&format, job, THINKING_POSSIBLE, "<think>what?</think>\n\nno", &error));
    assert_true(is_answer(&format, job, THINKING_OPEN, open, &error));
    assert_false(is_answer(&format, job, THINKING_OPEN, get, &error));
    assert_true(is_answer(&format, job, THINKING_CLOSED, get, &error));
    assert_false(is_answer(&format, job, THINKING_CLOSED, thought, &error));
    assert_int_equal(thinking_state_of(&format, TEXT("x<think>\n")), THINKING_OPEN);
    assert_int_equal(thinking_state_of(&format, TEXT("x<think>\n\n</think>\n\n")), THINKING_CLOSED);
    assert_int_equal(thinking_state_of(&format, TEXT("x")), THINKING_POSSIBLE);
    job_destroy(job);
}

TEST(a_schema_that_is_not_enforced_names_its_function)
{
    static const char job_text[] =
        "{\"job_id\":\"j\",\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"tools\":["
        "{\"type\":\"function\",\"function\":{\"name\":\"a\"}},"
        "{\"type\":\"function\",\"function\":{\"name\":\"b\",\"parameters\":%s}}]}";
    static const struct {
        const char *format, *parameters, *text;
    } cases[] = {{"json", "{\"properties\":{\"x\":{\"pattern\":\"(a)\\\\1\"}}}", "pattern at /properties/x"},
                 {"glm-4.7", "{\"properties\":{},\"minProperties\":1,\"required\":[],\"zzz\":\"tail\"}",
                  "minProperties at /minProperties: not"},
                 {"llama3-pythonic", "{\"properties\":{\"k=v\":{}}}", "parameter \"k=v\": its name can't be"},
                 {"llama3-pythonic", "{\"properties\":{\")\":{}}}", "parameter \")\": its name can't be"},
                 {"glm-4.5", "{\"properties\":{\"a</arg_key>\":{}}}", "its name can't be written"},
                 {"qwen3-coder", "{\"properties\":{\"a>b\":{}}}", "parameter \"a>b\": its name can't be"},
                 {"seed-oss", "{\"properties\":{\" a\":{}}}", "parameter \" a\": its name can't be"},
                 {"deepseek-dsml", "{\"properties\":{\"\":{}}}", "parameter \"\": its name can't be"},
                 {"glm-4.5", "{\"properties\":{\"a\":{}},\"required\":[\"b\"]}",
                  "parameter \"b\": required, but none of the properties"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char record[1024];
        struct error error;
        struct job *job = job_create();
        struct answer_format format = format_of(cases[i].format, "");
        struct rules *rules = rules_create(NULL);
        uint32_t start;
        int32_t function;
        snprintf(record, sizeof record, job_text, cases[i].parameters);
        assert_ok(job_decode(job, text_from_string(record), ENCODING_JSON, &error), &error);
        struct answer_task task = {.format = &format, .tools = &job->request.tools};
        assert_int_equal(answer_grammar_build(&task, rules, &start, &function, &error), STATUS_REJECT);
        assert_int_equal(function, 1);
        if (!strstr(error.text, cases[i].text))
            fail_msg("%s", error.text);
        rules_destroy(rules);
        job_destroy(job);
    }
}

TEST(ids_are_functions_of_the_request_and_the_position)
{
    struct job *job = make_job("");
    struct tool_call call = {.name = TEXT("get")}, again = call, next = call;
    assert_true(answer_call_id(tool_format_find("hermes"), 7, 0, &call, &job->arena));
    assert_true(answer_call_id(tool_format_find("hermes"), 7, 0, &again, &job->arena));
    assert_true(answer_call_id(tool_format_find("hermes"), 7, 1, &next, &job->arena));
    assert_true(text_equal(call.id, again.id));
    assert_false(text_equal(call.id, next.id));
    assert_int_equal(call.id.size, 5 + 24);
    assert_true(answer_call_id(tool_format_find("mistral"), 7, 0, &call, &job->arena));
    assert_int_equal(call.id.size, 9);
    assert_true(answer_call_id(tool_format_find("kimi-k2"), 7, 2, &call, &job->arena));
    assert_true(text_equals_string(call.id, "functions.get:2"));
    job_destroy(job);
}

// ---- the templates of real models, where they are ----

static const struct {
    const char *file, *tools, *thinking;
} templates[] = {
    {"Qwen-Qwen2.5-7B-Instruct", "hermes", "none"},
    {"Qwen-Qwen3-0.6B", "hermes", "think"},
    {"Qwen-QwQ-32B", "hermes", "think"},
    {"Qwen3-Coder", "qwen3-coder", "none"},
    {"Qwen3.5-4B", "qwen3-coder", "think"},
    {"NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", "qwen3-coder", "think"},
    {"NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use", "hermes", "none"},
    {"NousResearch-Hermes-3-Llama-3.1-8B-tool_use", "hermes", "none"},
    {"meta-llama-Llama-3.1-8B-Instruct", "llama3-json", "none"},
    {"meta-llama-Llama-3.2-3B-Instruct", "llama3-json", "none"},
    {"meta-llama-Llama-3.3-70B-Instruct", "llama3-json", "none"},
    {"mistralai-Mistral-Nemo-Instruct-2407", "mistral", "none"},
    {"Mistral-Small-3.2-24B-Instruct-2506", "mistral-v11", "none"},
    {"unsloth-mistral-Devstral-Small-2507", "mistral-v13", "none"},
    {"mistralai-Ministral-3-14B-Reasoning-2512", "mistral-v13", "mistral"},
    {"deepseek-ai-DeepSeek-R1-Distill-Llama-8B", "deepseek-v3", "think"},
    {"deepseek-ai-DeepSeek-R1-Distill-Qwen-32B", "deepseek-v3", "think"},
    {"deepseek-ai-DeepSeek-V3.1", "deepseek-v3.1", "think"},
    {"deepseek-ai-DeepSeek-V3.2", "deepseek-dsml", "think"},
    {"GLM-4.6", "glm-4.5", "think"},
    {"GLM-4.7-Flash", "glm-4.7", "think"},
    {"GLM-5.2", "glm-4.7", "think"},
    {"openai-gpt-oss-120b", "harmony", "harmony"},
    {"ibm-granite-granite-3.3-2B-Instruct", "granite", "think"},
    {"CohereForAI-c4ai-command-r7b-12-2024-tool_use", "command-r7b", "command-r7b"},
    {"CohereForAI-c4ai-command-r-plus-tool_use", "command-r", "none"},
    {"Kimi-K2-Instruct", "kimi-k2", "none"},
    {"Kimi-K2-Thinking", "kimi-k2", "think"},
    {"ByteDance-Seed-OSS", "seed-oss", "seed"},
    {"fireworks-ai-llama-3-firefunction-v2", "functools", "none"},
    {"Apertus-8B-Instruct", "apertus", "none"},
    {"LFM2-8B-A1B", "lfm2", "none"},
    {"unsloth-Apriel-1.5", "apriel", "none"},
    {"meetkai-functionary-medium-v3.1", "functionary", "none"},
    {"google-gemma-2-2b-it", "none", "none"},
    {"google-gemma-4-31B-it", "gemma-4", "gemma-4"},
    {"google-gemma-4-31B-it-interleaved", "gemma-4", "gemma-4"},
    {"microsoft-Phi-3.5-mini-instruct", "none", "none"},
    {"llama-cpp-rwkv-world", "none", "think"},
};

TEST(the_format_follows_from_the_template)
{
    const char *shared = getenv("SHEAF_SHARED");
    int n_wrong = 0;
    for (size_t i = 0; i < sizeof templates / sizeof *templates; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/templates/%s.jinja", shared ? shared : SOURCE_ROOT "/../shared",
                 templates[i].file);
        FILE *file = fopen(path, "rb");
        if (!file) {
            print_message("%s: not there\n", path);
            skip();
        }
        struct buffer text = {0};
        char block[4096];
        for (size_t n; (n = fread(block, 1, sizeof block, file)) > 0;)
            buffer_add(&text, block, n);
        fclose(file);
        struct answer_format format;
        answer_format_detect(&format, (struct text){text.data, text.size});
        const char *tools = format.tools ? format.tools->name : "none",
                   *thinking = format.thinking ? format.thinking->name : "none";
        if (strcmp(tools, templates[i].tools) != 0 || strcmp(thinking, templates[i].thinking) != 0) {
            print_message("%s: tools %s, thinking %s\n", templates[i].file, tools, thinking);
            n_wrong++;
        }
        buffer_finish(&text);
    }
    assert_int_equal(n_wrong, 0);
}

enum { N_PARAMETERS = 400, N_DEFINITIONS = 3000 };

// Parameters that all refer to one of many definitions.
static struct job *make_large_job(struct buffer *record)
{
    struct error error;
    struct job *job = job_create();
    buffer_add_string(
        record, "{\"job_id\":\"j\",\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"tools\":[{"
                "\"type\":\"function\",\"function\":{\"name\":\"get\",\"parameters\":{\"type\":\"object\","
                "\"required\":[\"p7\"],\"properties\":{");
    for (int i = 0; i < N_PARAMETERS; i++)
        buffer_add_format(record, "%s\"p%d\":{\"$ref\":\"#/$defs/d0\"}", i ? "," : "", i);
    buffer_add_string(record, "},\"$defs\":{");
    for (int i = 0; i < N_DEFINITIONS; i++)
        buffer_add_format(
            record,
            "%s\"d%d\":{\"type\":\"object\",\"properties\":{\"next\":{\"$ref\":\"#/$defs/d%d\"},"
            "\"value\":{\"type\":\"integer\",\"minimum\":%d}},\"additionalProperties\":false}",
            i ? "," : "", i, (i + 1) % N_DEFINITIONS, i);
    buffer_add_string(record, "}}}}],\"tool_choice\":\"required\"}");
    if (job_decode(job, (struct text){record->data, record->size}, ENCODING_JSON, &error) != STATUS_OK)
        fail_msg("%s", error.text);
    return job;
}

// Definitions that are compiled again for each parameter reach the limit of symbols.
TEST(definitions_are_compiled_once_for_all_parameters)
{
    static const char *const names[] = {"qwen3-coder", "llama3-pythonic"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct buffer record = {0};
        struct job *job = make_large_job(&record);
        struct answer_format format = format_of(names[i], "");
        struct answer_task task = {.format = &format,
                                   .tools = &job->request.tools,
                                   .is_special = no_specials};
        struct rules *rules = rules_create(NULL);
        struct error error = {0};
        uint32_t start;
        int32_t function;
        if (answer_grammar_build(&task, rules, &start, &function, &error) != STATUS_OK)
            fail_msg("%s: %s", names[i], error.text);
        rules_destroy(rules);
        job_destroy(job);
        buffer_finish(&record);
    }
}

static enum status build_described(int n_functions, size_t n_bytes, int32_t *function, struct error *error)
{
    struct buffer record = {0};
    buffer_add_string(&record,
                      "{\"job_id\":\"j\",\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"tools\":[");
    for (int i = 0; i < n_functions; i++) {
        buffer_add_format(
            &record,
            "%s{\"type\":\"function\",\"function\":{\"name\":\"f%d\",\"parameters\":{\"description\":\"",
            i ? "," : "", i);
        for (size_t n = 0; n < n_bytes; n++)
            buffer_add_byte(&record, 'x');
        buffer_add_string(&record, "\"}}}");
    }
    buffer_add_string(&record, "],\"tool_choice\":\"required\"}");
    struct job *job = job_create();
    assert_ok(job_decode(job, (struct text){record.data, record.size}, ENCODING_JSON, error), error);
    struct answer_format format = format_of("hermes", "");
    struct answer_task task = {.format = &format, .tools = &job->request.tools, .is_special = no_specials};
    struct rules *rules = rules_create(NULL);
    uint32_t start;
    enum status status = answer_grammar_build(&task, rules, &start, function, error);
    rules_destroy(rules);
    job_destroy(job);
    buffer_finish(&record);
    return status;
}

TEST(the_bytes_of_all_functions_are_limited)
{
    struct error error = {0};
    int32_t function;
    assert_ok(build_described(4, 1000000, &function, &error), &error);
    assert_int_equal(build_described(5, 1000000, &function, &error), STATUS_REJECT);
    assert_int_equal(function, 4);
    assert_int_equal(error.code, ERROR_LIMIT_EXCEEDED);
    assert_string_equal(error.text, "answer_schema_bytes: more than 4194304, with the functions before");
    assert_int_equal(build_described(1, 1100000, &function, &error), STATUS_REJECT); // of one function
    assert_int_equal(function, 0);
}
