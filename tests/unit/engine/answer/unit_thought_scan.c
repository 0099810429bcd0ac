// Thoughts while an answer is written: where they begin and end and how many tokens they have, as answer_parse()
// finds them in the whole text; and how each family's template closes them.
#include "engine/answer/answer_parse.h"
#include "engine/answer/thought_scan.h"
#include "engine/template/template.h"
#include "schemas/value.h"
#include "tests/support/cases.h"
#include "tests/support/random.h"
#include "tests/support/shared_data.h"

static struct thought_scan scan_tokens(const struct thinking_format *format, bool is_open,
                                       const char *const *tokens)
{
    struct thought_scan scan = {.place = is_open ? THOUGHT_OPEN : THOUGHT_BEFORE};
    for (; *tokens; tokens++)
        thought_scan_token(&scan, format, text_from_string(*tokens));
    return scan;
}

TEST(tokens_of_thoughts_are_counted_without_the_marks)
{
    static const struct {
        const char *template;
        bool is_open;
        const char *tokens[12];
        enum thought_place place;
        int32_t n_tokens;
        bool may_close;
    } cases[] = {
        {"<think></think>", false, {"<think>", "a", " b"}, THOUGHT_OPEN, 2, true},
        {"<think></think>", false, {"\n\n", "<think>"}, THOUGHT_OPEN, 0, true},
        {"<think></think>", false, {"a", "<think>"}, THOUGHT_AFTER, 0, false},
        {"<think></think>", false, {"<", "think"}, THOUGHT_BEFORE, 0, false},
        {"<think></think>", false, {"<", "thi", "s"}, THOUGHT_AFTER, 0, false},
        {"<think></think>", false, {"<", "think", ">a"}, THOUGHT_OPEN, 1, true},
        {"<think></think>", true, {"a", "</", "think"}, THOUGHT_OPEN, 3, true}, // may be no mark
        {"<think></think>", true, {"a", "</", "think", ">"}, THOUGHT_BEFORE, 1, false},
        {"<think></think>", true, {"a</", "think", ">", "b"}, THOUGHT_AFTER, 1, false},
        {"<think></think>", true, {"a", "</", "think", " so", "</", "x"}, THOUGHT_OPEN, 6, true},
        {"<think></think>", true, {"a", "</think>\n\n", "<think>", "b", "c"}, THOUGHT_OPEN, 3, true},
        {"<think></think>", true, {"\xE2\x82"}, THOUGHT_OPEN, 1, false},
        {"<think></think>", true, {"\xE2\x82", "\xAC"}, THOUGHT_OPEN, 2, true},
        {"<|channel|>analysis<|message|>",
         false,
         {"<|channel|>", "analysis", "<|message|>", "a", "<|end|>", "<|start|>", "assistant", "<|channel|>",
          "analysis", "<|message|>", "b"},
         THOUGHT_OPEN,
         2,
         true},
        {"<|channel|>analysis<|message|>",
         false,
         {"<|channel|>", "analysis", "<|message|>", "a", "<|end|>", "<|start|>"},
         THOUGHT_CLOSING,
         1,
         false},
        {"<|channel|>analysis<|message|>",
         false,
         {"<|channel|>", "final", "<|message|>", "a"},
         THOUGHT_AFTER,
         0,
         false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct answer_format format;
        answer_format_detect(&format, text_from_string(cases[i].template));
        struct thought_scan scan = scan_tokens(format.thinking, cases[i].is_open, cases[i].tokens);
        if (scan.place != cases[i].place || scan.n_tokens != cases[i].n_tokens ||
            thought_scan_may_close(&scan) != cases[i].may_close)
            fail_msg("case %zu: place %d, %d tokens, may close: %d", i, scan.place, scan.n_tokens,
                     thought_scan_may_close(&scan));
        buffer_finish(&scan.text);
    }
}

TEST(what_a_thought_has_written_of_its_closing_is_found)
{
    static const struct {
        const char *thought;
        size_t size_max, n;
    } cases[] = {{"a", 9, 0},        {"a\n", 9, 1},  {"a\n</thi", 9, 6},
                 {"a\n</thi", 1, 0}, {"\n\n", 9, 1}, {"", 9, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct thought_scan scan = {.place = THOUGHT_OPEN};
        buffer_add_string(&scan.text, cases[i].thought);
        assert_int_equal(thought_scan_written(&scan, TEXT("\n</think>\n\n"), cases[i].size_max), cases[i].n);
        buffer_finish(&scan.text);
    }
}

// Tokens that touch the spans of answer_parse().
static int32_t count_parsed(const struct answer_format *format, struct text text, bool is_open,
                            const size_t *ends, size_t n_ends)
{
    struct job *job = job_create();
    struct answer_parts parts;
    struct error error;
    int32_t n = 0;
    assert_ok(answer_parse(format, &job->request.tools, is_open ? THINKING_OPEN : THINKING_POSSIBLE, text,
                           &job->arena, &parts, &error),
              &error);
    for (size_t i = 0; i < n_ends; i++)
        n += text_spans_touch(&parts.thoughts, i ? ends[i - 1] : 0, ends[i]);
    text_spans_finish(&parts.thoughts);
    job_destroy(job);
    return n;
}

TEST(answers_cut_into_any_tokens_have_the_thoughts_that_are_parsed)
{
    static const char *const templates[] = {"<think></think>", "[THINK][/THINK]",
                                            "<|channel|>analysis<|message|>",
                                            "<|START_THINKING|><|START_TEXT|>",
                                            "<|channel>thought'<channel|>'"};
    uint64_t random = random_seed(71);
    for (int round = 0; round < 20000; round++) {
        struct answer_format format;
        answer_format_detect(&format, text_from_string(templates[round % 5]));
        const struct thinking_format *thinking = format.thinking;
        const char *const pieces[] = {
            thinking->open, thinking->close, thinking->end, "a", "\n", "<", "bc", "</"};
        bool is_open = random_below(&random, 2);
        struct thought_scan scan = {.place = is_open ? THOUGHT_OPEN : THOUGHT_BEFORE};
        struct buffer text = {0};
        size_t ends[200], n_ends = 0, at = 0;
        for (uint32_t i = 0, n = random_below(&random, 8); i < n; i++)
            buffer_add_string(&text, pieces[random_below(&random, 8)]);
        for (size_t n; at < text.size; at += n, ends[n_ends++] = at) {
            n = 1 + random_below(&random, 9);
            n = n < text.size - at ? n : text.size - at;
            thought_scan_token(&scan, thinking, (struct text){text.data + at, n});
        }
        // a mark that is begun at the end may become one: the scan waits, the parser sees text
        int32_t n_parsed = count_parsed(&format, (struct text){text.data, text.size}, is_open, ends, n_ends);
        if (scan.n_tokens != n_parsed)
            fail_msg("round %d, open %d: \"%.*s\": %d tokens, parsed %d", round, is_open, (int)text.size,
                     text.data, scan.n_tokens, n_parsed);
        buffer_finish(&scan.text);
        buffer_finish(&text);
    }
}

TEST(a_long_thought_keeps_its_end_only)
{
    struct answer_format format;
    answer_format_detect(&format, TEXT("<think></think>"));
    struct thought_scan scan = {.place = THOUGHT_OPEN};
    for (int i = 0; i < 100000; i++)
        thought_scan_token(&scan, format.thinking, TEXT("word "));
    assert_true(scan.text.size < 10000);
    assert_int_equal(scan.n_tokens, 100000);
    for (const char *c = "</think>"; *c; c++)
        thought_scan_token(&scan, format.thinking, (struct text){c, 1});
    assert_int_equal(scan.place, THOUGHT_BEFORE);
    assert_int_equal(scan.n_tokens, 100000);
    buffer_finish(&scan.text);
}

TEST(a_template_s_line_feeds_around_the_mark_are_those_of_the_closing_text)
{
    static const char *const cases[][2] = {
        {"{{ '<think>\\n' + t + '\\n</think>\\n\\n' + c }}", "\n</think>\n\n"},
        {"{{ '<think>' ~ '\\n' ~ t ~ '\\n' ~ '</think>' ~ '\\n\\n' }}", "\n</think>\n\n"},
        {"{{ '<think>\\n' + t + '\\n</think>\\n' + c }}", "\n</think>\n"},
        {"{{ c.split('</think>')[-1] }}<think>", "</think>"},
        {"{{ c.split('</think>')[-1] + '<think>\\n' }}", "\n</think>\n\n"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct answer_format format;
        answer_format_detect(&format, text_from_string(cases[i][0]));
        assert_non_null(format.thinking);
        assert_string_equal(format.thinking->closing, cases[i][1]);
    }
}

// ---- the templates of real models, where they are ----

// The text of a shared template; empty: it is not there.
static struct buffer read_template(const char *name)
{
    char path[4096], relative[512], block[4096];
    struct buffer source = {0};
    snprintf(relative, sizeof relative, "templates/%s.jinja", name);
    if (!shared_path(path, sizeof path, relative)) {
        print_message("%s: not there\n", path);
        return source;
    }
    FILE *file = fopen(path, "rb");
    for (size_t n; (n = fread(block, 1, sizeof block, file)) > 0;)
        buffer_add(&source, block, n);
    fclose(file);
    return source;
}

// All that have thoughts. is_rendered: the template renders an assistant's thoughts, in one of `turns`.
static const struct {
    const char *file, *thinking, *closing;
    bool is_rendered;
} families[] = {
    {"Apriel-1.6-15b-Thinker-fixed", "apriel", "\n[BEGIN FINAL RESPONSE]\n", true},
    {"Bielik-11B-v3.0-Instruct", "think", "\n</think>\n", true},
    {"ByteDance-Seed-OSS", "seed", "</seed:think>\n", true},
    {"Cohere2MoE", "command-a", "<|END_THINKING|>", true},
    {"CohereForAI-c4ai-command-r7b-12-2024-tool_use", "command-r7b", "<|END_THINKING|>", true},
    {"GLM-4.6", "think", "</think>\n", true},
    {"GLM-4.7-Flash", "think", "</think>", true},
    {"GLM-5.2", "think", "</think>", true},
    {"HuggingFaceTB-SmolLM3-3B", "think", "\n</think>\n", false},
    {"Kimi-K2-Thinking", "think", "</think>", true},
    {"LFM2.5-Instruct", "think", "</think>", false},
    {"MiroThinker", "think", "\n</think>\n\n", false},
    {"NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", "think", "\n</think>\n", true},
    {"Qwen-QwQ-32B", "think", "\n</think>\n\n", false},
    {"Qwen-Qwen3-0.6B", "think", "\n</think>\n\n", true},
    {"Qwen3.5-4B", "think", "\n</think>\n\n", true},
    {"Reka-Edge", "think", "\n</think>\n\n", true},
    {"StepFun3.5-Flash", "think", "\n</think>\n", true},
    {"deepseek-ai-DeepSeek-R1-Distill-Llama-8B", "think", "\n</think>\n\n", false},
    {"deepseek-ai-DeepSeek-R1-Distill-Qwen-32B", "think", "\n</think>\n\n", false},
    {"deepseek-ai-DeepSeek-V3.1", "think", "</think>", false},
    {"deepseek-ai-DeepSeek-V3.2", "think", "</think>", true},
    {"deepseek-ai-DeepSeek-V4", "think", "</think>", true},
    {"google-gemma-4-31B-it", "gemma-4", "\n<channel|>", true},
    {"google-gemma-4-31B-it-interleaved", "gemma-4", "<channel|>", true},
    {"ibm-granite-granite-3.3-2B-Instruct", "think", "</think>", false},
    {"llama-cpp-deepseek-r1", "think", "\n</think>\n\n", false},
    {"llama-cpp-rwkv-world", "think", "\n</think>\n\n", false},
    {"mistralai-Ministral-3-14B-Reasoning-2512", "mistral", "[/THINK]", true},
    {"openai-gpt-oss-120b", "harmony", "<|end|><|start|>assistant", true},
    {"stepfun-ai-Step-3.5-Flash", "think", "\n</think>\n", true},
};

#define THOUGHTS                                                                                             \
    "\"reasoning_content\":\"RRR\",\"reasoning\":\"RRR\",\"thinking\":\"RRR\",\"tool_plan\":\"RRR\""
#define CALLS                                                                                                \
    ",\"tool_calls\":[{\"id\":\"c12345678\",\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":{}}}]"
#define TURN(members)                                                                                        \
    "{\"enable_thinking\":true,\"thinking\":true,\"reasoning\":true,\"add_generation_prompt\":false,"        \
    "\"tools\":[],\"documents\":null,\"messages\":[{\"role\":\"user\",\"content\":\"Q\"},"                   \
    "{\"role\":\"assistant\",\"content\":\"A\"},{\"role\":\"user\",\"content\":\"Q\"},"                      \
    "{\"role\":\"assistant\"," members "}]}"

// Assistants' turns with thoughts; `content`: they are followed by content at once.
static const struct {
    const char *variables;
    bool has_content;
} turns[] = {
    {TURN("\"content\":\"CCC\"," THOUGHTS), true},
    {TURN("\"content\":\"\"" CALLS "," THOUGHTS), false},
    {TURN("\"content\":[{\"type\":\"thinking\",\"thinking\":\"RRR\"},{\"type\":\"text\",\"text\":\"CCC\"}]"),
     true}};

// Whether the template renders the turn with thoughts in their format; then what follows the thought must be the
// family's closing text.
static bool check_turn(const struct template *template, const struct thinking_format *format, size_t turn,
                       const char *file)
{
    const struct template_environment environment = {.bos_token = TEXT("<bos>"),
                                                     .eos_token = TEXT("<eos>"),
                                                     .now_s = 1};
    struct arena arena = {0};
    struct value variables;
    struct buffer rendered = {0}, expected = {0};
    struct error error;
    assert_ok(json_decode(text_from_string(turns[turn].variables), &arena, &variables, &error), &error);
    bool is_rendered = template_render(template, &variables, &environment, &rendered, &error) == STATUS_OK;
    buffer_add_byte(&rendered, '\0');
    const char *found = is_rendered ? strstr(rendered.data, "RRR") : NULL;
    const char *end = found ? strstr(found, format->end) : NULL;
    if ((is_rendered = end && end - found < 6)) {
        buffer_add_string(&expected, format->closing);
        if (turns[turn].has_content) {
            buffer_add_string(&expected, format->answer_open ? format->answer_open : "");
            buffer_add_string(&expected, "CCC");
        }
        if (strncmp(found + 3, expected.data, expected.size) != 0)
            fail_msg("%s, turn %zu: expected \"%s\" after the thought, got \"%.60s\"", file, turn,
                     expected.data, found + 3);
    }
    buffer_finish(&expected);
    buffer_finish(&rendered);
    arena_finish(&arena);
    return is_rendered;
}

TEST(each_family_closes_thoughts_as_its_template_renders_them)
{
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        struct buffer source = read_template(families[i].file);
        if (!source.size)
            skip();
        struct answer_format format;
        struct template *template;
        struct error error;
        answer_format_detect(&format, (struct text){source.data, source.size});
        assert_non_null(format.thinking);
        assert_string_equal(format.thinking->name, families[i].thinking);
        assert_string_equal(format.thinking->closing, families[i].closing);
        bool is_rendered = false;
        // MiroThinker's template is none of Jinja's
        if (template_parse(&template, (struct text){source.data, source.size}, &error) == STATUS_OK) {
            for (size_t turn = 0; turn < sizeof turns / sizeof *turns; turn++)
                is_rendered |= check_turn(template, format.thinking, turn, families[i].file);
            template_destroy(template);
        }
        if (is_rendered != families[i].is_rendered)
            fail_msg("%s: is rendered: %d", families[i].file, is_rendered);
        buffer_finish(&source);
    }
}

// Templates missing in the table above have no thoughts. In Apertus's format calls are within them, Apriel 1.5 has no mark
// where they begin.
TEST(the_other_templates_have_no_thoughts)
{
    static const char *const others[] = {"Apertus-8B-Instruct",
                                         "CohereForAI-c4ai-command-r-plus-tool_use",
                                         "GigaChat3-10B-A1.8B",
                                         "GigaChat3.1-10B-A1.8B",
                                         "Kimi-K2-Instruct",
                                         "LFM2-8B-A1B",
                                         "MiMo-VL",
                                         "Mistral-Small-3.2-24B-Instruct-2506",
                                         "NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use",
                                         "NousResearch-Hermes-3-Llama-3.1-8B-tool_use",
                                         "Qwen-Qwen2.5-7B-Instruct",
                                         "Qwen3-Coder",
                                         "fireworks-ai-llama-3-firefunction-v2",
                                         "google-gemma-2-2b-it",
                                         "meetkai-functionary-medium-v3.1",
                                         "meetkai-functionary-medium-v3.2",
                                         "meta-llama-Llama-3.1-8B-Instruct",
                                         "meta-llama-Llama-3.2-3B-Instruct",
                                         "meta-llama-Llama-3.3-70B-Instruct",
                                         "microsoft-Phi-3.5-mini-instruct",
                                         "mistralai-Mistral-Nemo-Instruct-2407",
                                         "moonshotai-Kimi-K2",
                                         "unsloth-Apriel-1.5",
                                         "unsloth-mistral-Devstral-Small-2507"};
    assert_int_equal(sizeof others / sizeof *others + sizeof families / sizeof *families, 55);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        struct buffer source = read_template(others[i]);
        if (!source.size)
            skip();
        struct answer_format format;
        answer_format_detect(&format, (struct text){source.data, source.size});
        if (format.thinking)
            fail_msg("%s: %s", others[i], format.thinking->name);
        buffer_finish(&source);
    }
}
