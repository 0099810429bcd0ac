#include "engine/answer/answer_format.h"

#include <string.h>

// The format is the first row whose marks all occur in the template. Sources: the templates themselves, and
// publications of the models' authors.
static const struct tool_format tool_formats[] = {
    {.name = "harmony", // gpt-oss; <|call|> ends the answer
     .marks = {"<|channel|>", "commentary", "functions."},
     .tokens = {"<|channel|>", "<|constrain|>", "<|message|>"},
     .open = "<|channel|>commentary to=functions.",
     .middle = " <|constrain|>json<|message|>",
     .has_one = true},
    {.name = "kimi-k2",
     .marks = {"<|tool_call_argument_begin|>"},
     .tokens = {"<|tool_calls_section_begin|>", "<|tool_call_begin|>", "<|tool_call_argument_begin|>",
                "<|tool_call_end|>", "<|tool_calls_section_end|>"},
     .trigger = "<|tool_calls_section_begin|>",
     .begin = "<|tool_calls_section_begin|>",
     .open = "<|tool_call_begin|>functions.",
     .middle = ":" TOOL_NUMBER "<|tool_call_argument_begin|>",
     .close = "<|tool_call_end|>",
     .end = "<|tool_calls_section_end|>",
     .ids = TOOL_IDS_NUMBERED},
    {.name = "deepseek-dsml", // V3.2 and later
     .marks = {"｜DSML｜", "invoke"},
     .tokens = {"｜DSML｜"},
     .trigger = "<｜DSML｜function_calls>",
     .begin = "<｜DSML｜function_calls>\n",
     .open = "<｜DSML｜invoke name=\"",
     .middle = "\">\n",
     .close = "</｜DSML｜invoke>\n",
     .end = "</｜DSML｜function_calls>",
     .arguments = ARGUMENTS_TAGS,
     .tags.key_open = "<｜DSML｜parameter name=\"",
     .tags.key_close = "\" string=\"true\">",
     .tags.key_close_json = "\" string=\"false\">",
     .tags.value_close = "</｜DSML｜parameter>\n"},
    {.name = "deepseek-v3", // V3, R1 and the models distilled from it
     .marks = {"<｜tool▁calls▁begin｜>", "<｜tool▁sep｜>", "```json"},
     .tokens = {"<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "<｜tool▁call▁end｜>",
                "<｜tool▁calls▁end｜>"},
     .trigger = "<｜tool▁calls▁begin｜>",
     .begin = "<｜tool▁calls▁begin｜>",
     .open = "<｜tool▁call▁begin｜>function<｜tool▁sep｜>",
     .middle = "\n```json\n",
     .close = "\n```<｜tool▁call▁end｜>",
     .between = "\n",
     .end = "<｜tool▁calls▁end｜>"},
    {.name = "deepseek-v3.1",
     .marks = {"<｜tool▁calls▁begin｜>", "<｜tool▁sep｜>"},
     .tokens = {"<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "<｜tool▁call▁end｜>",
                "<｜tool▁calls▁end｜>"},
     .trigger = "<｜tool▁calls▁begin｜>",
     .begin = "<｜tool▁calls▁begin｜>",
     .open = "<｜tool▁call▁begin｜>",
     .middle = "<｜tool▁sep｜>",
     .close = "<｜tool▁call▁end｜>",
     .end = "<｜tool▁calls▁end｜>"},
    {.name = "mistral-v11",
     .marks = {"[TOOL_CALLS]", "[CALL_ID]", "[ARGS]"},
     .tokens = {"[TOOL_CALLS]", "[CALL_ID]", "[ARGS]"},
     .trigger = "[TOOL_CALLS]",
     .open = "[TOOL_CALLS]",
     .middle = "[CALL_ID]" TOOL_NINE "[ARGS]",
     .ids = TOOL_IDS_MISTRAL},
    {.name = "mistral-v13",
     .marks = {"[TOOL_CALLS]", "[ARGS]"},
     .tokens = {"[TOOL_CALLS]", "[ARGS]"},
     .trigger = "[TOOL_CALLS]",
     .open = "[TOOL_CALLS]",
     .middle = "[ARGS]",
     .ids = TOOL_IDS_MISTRAL},
    {.name = "mistral", // up to v7
     .marks = {"[TOOL_CALLS]"},
     .tokens = {"[TOOL_CALLS]"},
     .trigger = "[TOOL_CALLS]",
     .begin = "[TOOL_CALLS][",
     .open = "{\"name\": \"",
     .middle = "\", \"arguments\": ",
     .close = "}",
     .between = ", ",
     .end = "]",
     .ids = TOOL_IDS_MISTRAL},
    {.name = "glm-4.5", // up to 4.6
     .marks = {"<tool_call>", "{arg-key-1}</arg_key>\n<arg_value>"},
     .tokens = {"<tool_call>", "</tool_call>", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"},
     .trigger = "<tool_call>",
     .open = "<tool_call>",
     .middle = "\n",
     .close = "</tool_call>",
     .between = "\n",
     .arguments = ARGUMENTS_TAGS,
     .tags.key_open = "<arg_key>",
     .tags.key_close = "</arg_key>\n<arg_value>",
     .tags.value_close = "</arg_value>\n"},
    {.name = "glm-4.7",
     .marks = {"<tool_call>", "<arg_key>"},
     .tokens = {"<tool_call>", "</tool_call>", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"},
     .trigger = "<tool_call>",
     .open = "<tool_call>",
     .close = "</tool_call>",
     .arguments = ARGUMENTS_TAGS,
     .tags.key_open = "<arg_key>",
     .tags.key_close = "</arg_key><arg_value>",
     .tags.value_close = "</arg_value>"},
    {.name = "seed-oss",
     .marks = {"<seed:tool_call>", "<function="},
     .tokens = {"<seed:tool_call>", "</seed:tool_call>"},
     .trigger = "<seed:tool_call>",
     .open = "<seed:tool_call>\n<function=",
     .middle = ">\n",
     .close = "</function>\n</seed:tool_call>",
     .between = "\n",
     .arguments = ARGUMENTS_TAGS,
     .tags.key_open = "<parameter=",
     .tags.key_close = ">",
     .tags.value_close = "</parameter>\n"},
    {.name = "qwen3-coder", // also Qwen 3.5, Nemotron 3 and Step 3.5
     .marks = {"<tool_call>", "<function=", "<parameter="},
     .tokens = {"<tool_call>", "</tool_call>"},
     .trigger = "<tool_call>",
     .open = "<tool_call>\n<function=",
     .middle = ">\n",
     .close = "</function>\n</tool_call>",
     .between = "\n",
     .arguments = ARGUMENTS_TAGS,
     .tags.key_open = "<parameter=",
     .tags.key_close = ">\n",
     .tags.value_close = "\n</parameter>\n"},
    {.name = "apriel",
     .marks = {"<tool_calls>["},
     .tokens = {"<tool_calls>", "</tool_calls>"},
     .trigger = "<tool_calls>",
     .begin = "<tool_calls>[",
     .open = "{\"name\": \"",
     .middle = "\", \"arguments\": ",
     .close = "}",
     .between = ", ",
     .end = "]</tool_calls>"},
    {.name = "hermes", // Qwen 2.5 and 3, Hermes 2 and 3, QwQ
     .marks = {"<tool_call>"},
     .tokens = {"<tool_call>", "</tool_call>"},
     .trigger = "<tool_call>",
     .open = "<tool_call>\n{\"name\": \"",
     .middle = "\", \"arguments\": ",
     .close = "}\n</tool_call>",
     .between = "\n"},
    {.name = "granite",
     .marks = {"<|tool_call|>"},
     .tokens = {"<|tool_call|>"},
     .trigger = "<|tool_call|>",
     .begin = "<|tool_call|>[",
     .open = "{\"name\": \"",
     .middle = "\", \"arguments\": ",
     .close = "}",
     .between = ", ",
     .end = "]"},
    {.name = "command-r7b",
     .marks = {"<|START_ACTION|>"},
     .tokens = {"<|START_ACTION|>", "<|END_ACTION|>"},
     .trigger = "<|START_ACTION|>",
     .begin = "<|START_ACTION|>[\n",
     .open = "    {\"tool_call_id\": \"" TOOL_NUMBER "\", \"tool_name\": \"",
     .middle = "\", \"parameters\": ",
     .close = "}",
     .between = ",\n",
     .end = "\n]<|END_ACTION|>"},
    {.name = "command-r",
     .marks = {"Action:", "\"tool_name\"", "```json"},
     .trigger = "Action:\n```json",
     .begin = "Action:\n```json\n[\n",
     .open = "    {\n        \"tool_name\": \"",
     .middle = "\",\n        \"parameters\": ",
     .close = "\n    }",
     .between = ",\n",
     .end = "\n]\n```"},
    {.name = "functools", // Phi 4 mini, FireFunction 2
     .marks = {"functools"},
     .trigger = "functools[",
     .begin = "functools[",
     .open = "{\"name\": \"",
     .middle = "\", \"arguments\": ",
     .close = "}",
     .between = ", ",
     .end = "]"},
    {.name = "phi-4-mini",
     .marks = {"<|tool|>", "<|/tool|>"},
     .trigger = "functools[",
     .begin = "functools[",
     .open = "{\"name\": \"",
     .middle = "\", \"arguments\": ",
     .close = "}",
     .between = ", ",
     .end = "]"},
    {.name = "apertus",
     .marks = {"<|tools_prefix|>"},
     .tokens = {"<|tools_prefix|>", "<|tools_suffix|>"},
     .trigger = "<|tools_prefix|>",
     .begin = "<|tools_prefix|>[",
     .open = "{\"",
     .middle = "\": ",
     .close = "}",
     .between = ", ",
     .end = "]<|tools_suffix|>"},
    {.name = "lfm2",
     .marks = {"<|tool_list_start|>"},
     .tokens = {"<|tool_call_start|>", "<|tool_call_end|>"},
     .trigger = "<|tool_call_start|>",
     .begin = "<|tool_call_start|>[",
     .middle = "(",
     .close = ")",
     .between = ", ",
     .end = "]<|tool_call_end|>",
     .arguments = ARGUMENTS_PYTHON},
    {.name = "gemma-4",
     .marks = {"<|tool_call>call:", "<|\"|>"},
     .tokens = {"<|tool_call>", "<tool_call|>", "<|\"|>"},
     .trigger = "<|tool_call>",
     .open = "<|tool_call>call:",
     .middle = "{",
     .close = "}<tool_call|>",
     .arguments = ARGUMENTS_MARKED,
     .tags.value_close = "<|\"|>"},
    {.name = "functionary", // v3.1
     .marks = {"<function=", "</function>"},
     .trigger = "<function=",
     .open = "<function=",
     .middle = ">",
     .close = "</function>"},
    {.name = "llama3-pythonic",
     .marks = {"func_name1(params_name1"},
     .begin = "[",
     .middle = "(",
     .close = ")",
     .between = ", ",
     .end = "]",
     .arguments = ARGUMENTS_PYTHON},
    {.name = "llama3-json",
     .marks = {"{\"name\": function name, \"parameters\":"},
     .open = "{\"name\": \"",
     .middle = "\", \"parameters\": ",
     .close = "}",
     .between = "; "},
    {.name = "json", // any other template that takes tools
     .marks = {"tools"},
     .open = "{\"name\": \"",
     .middle = "\", \"arguments\": ",
     .close = "}",
     .between = "\n"},
};

// Rows of <think> differ in the text that their templates write at the end of a thought. If a template
// renders no thoughts, the row has the text of the model's own answers: line feeds if the template opens
// thoughts with a line feed.
#define THINK(text, ...)                                                                                     \
    {                                                                                                        \
        .name = "think", .marks = {__VA_ARGS__}, .tokens = {"<think>", "</think>"}, .open = "<think>",       \
        .close = "</think>", .end = "</think>", .closing = text                                              \
    }

static const struct thinking_format thinking_formats[] = {
    {.name = "harmony",
     .marks = {"<|channel|>", "analysis", "<|message|>"},
     .tokens = {"<|channel|>", "<|message|>", "<|end|>", "<|start|>"},
     .open = "<|channel|>analysis<|message|>",
     .close = "<|end|><|start|>assistant",
     .end = "<|end|>",
     .closing = "<|end|><|start|>assistant",
     .answer_open = "<|channel|>final<|message|>"},
    {.name = "command-r7b",
     .marks = {"<|START_THINKING|>", "<|START_RESPONSE|>"},
     .tokens = {"<|START_THINKING|>", "<|END_THINKING|>", "<|START_RESPONSE|>", "<|END_RESPONSE|>"},
     .open = "<|START_THINKING|>",
     .close = "<|END_THINKING|>",
     .end = "<|END_THINKING|>",
     .closing = "<|END_THINKING|>",
     .answer_open = "<|START_RESPONSE|>",
     .answer_close = "<|END_RESPONSE|>"},
    {.name = "command-a", // Cohere's later models
     .marks = {"<|START_THINKING|>", "<|START_TEXT|>"},
     .tokens = {"<|START_THINKING|>", "<|END_THINKING|>", "<|START_TEXT|>", "<|END_TEXT|>"},
     .open = "<|START_THINKING|>",
     .close = "<|END_THINKING|>",
     .end = "<|END_THINKING|>",
     .closing = "<|END_THINKING|>",
     .answer_open = "<|START_TEXT|>",
     .answer_close = "<|END_TEXT|>"},
    {.name = "seed", // the sentence is in the model card of Seed-OSS
     .marks = {"<seed:think>"},
     .tokens = {"<seed:think>", "</seed:think>", "<seed:cot_budget_reflect>", "</seed:cot_budget_reflect>"},
     .open = "<seed:think>",
     .close = "</seed:think>",
     .end = "</seed:think>",
     .farewell =
         "\n<seed:cot_budget_reflect>I have exhausted my token budget, and now I will start answering "
         "the question.</seed:cot_budget_reflect>\n",
     .closing = "</seed:think>\n"},
    {.name = "mistral",
     .marks = {"[THINK]", "[/THINK]"},
     .tokens = {"[THINK]", "[/THINK]"},
     .open = "[THINK]",
     .close = "[/THINK]",
     .end = "[/THINK]",
     .closing = "[/THINK]"},
    {.name = "gemma-4",
     .marks = {"<|channel>thought", "'\\n<channel|>'"},
     .tokens = {"<|channel>", "<channel|>"},
     .open = "<|channel>thought",
     .close = "<channel|>",
     .end = "<channel|>",
     .closing = "\n<channel|>"},
    {.name = "gemma-4", // interleaved thoughts
     .marks = {"<|channel>thought", "'<channel|>'"},
     .tokens = {"<|channel>", "<channel|>"},
     .open = "<|channel>thought",
     .close = "<channel|>",
     .end = "<channel|>",
     .closing = "<channel|>"},
    {.name = "apriel",
     .marks = {"Here are my reasoning steps:", "[BEGIN FINAL RESPONSE]"},
     .tokens = {"[BEGIN FINAL RESPONSE]", "[END FINAL RESPONSE]"},
     .open = "Here are my reasoning steps:",
     .close = "[BEGIN FINAL RESPONSE]",
     .end = "[BEGIN FINAL RESPONSE]",
     .closing = "\n[BEGIN FINAL RESPONSE]\n",
     .answer_close = "[END FINAL RESPONSE]"},
    THINK("\n</think>\n\n", "\\n</think>\\n\\n"),      // Qwen3 and later, MiroThinker, Reka
    THINK("\n</think>\n\n", "'</think>' ~ '\\n\\n'"),  // MiniMax M2
    THINK("\n</think>\n", "\\n</think>\\n"),           // Nemotron 3, Step 3.5, SmolLM3, Bielik
    THINK("\n</think>\n\n", "</think>", "<think>\\n"), // DeepSeek R1, QwQ
    THINK("</think>\n", "</think>", "{arg-key-1}</arg_key>\n<arg_value>"), // GLM 4.5 and 4.6
    THINK("</think>", "</think>"), // DeepSeek V3.1 and later, Kimi K2, GLM 4.7 and later
};

static bool has_marks(struct text source, const char *const marks[ANSWER_MARKS_MAX])
{
    for (int i = 0; i < ANSWER_MARKS_MAX && marks[i]; i++)
        if (!source.size || !memmem(source.data, source.size, marks[i], strlen(marks[i])))
            return false;
    return true;
}

void answer_format_detect(struct answer_format *format, struct text source)
{
    *format = (struct answer_format){0};
    for (size_t i = 0; i < sizeof tool_formats / sizeof *tool_formats && !format->tools; i++)
        if (has_marks(source, tool_formats[i].marks))
            format->tools = &tool_formats[i];
    for (size_t i = 0; i < sizeof thinking_formats / sizeof *thinking_formats && !format->thinking; i++)
        if (has_marks(source, thinking_formats[i].marks))
            format->thinking = &thinking_formats[i];
}

static bool is_token(const char *const tokens[ANSWER_TOKENS_MAX], struct text name)
{
    for (int i = 0; i < ANSWER_TOKENS_MAX && tokens[i]; i++)
        if (text_equals_string(name, tokens[i]))
            return true;
    return false;
}

bool answer_format_knows(const struct answer_format *format, bool has_calls, struct text name)
{
    return (has_calls && is_token(format->tools->tokens, name)) ||
           (format->thinking && is_token(format->thinking->tokens, name));
}

const struct tool_format *tool_format_find(const char *name)
{
    for (size_t i = 0; i < sizeof tool_formats / sizeof *tool_formats; i++)
        if (strcmp(tool_formats[i].name, name) == 0)
            return &tool_formats[i];
    return NULL;
}

void tool_format_list(struct buffer *out)
{
    for (size_t i = 0; i < sizeof tool_formats / sizeof *tool_formats; i++) {
        buffer_add_string(out, i ? ", " : "");
        buffer_add_string(out, tool_formats[i].name);
    }
}

static bool ends_with(struct text text, const char *end)
{
    size_t size = strlen(end);
    return text.size >= size && memcmp(text.data + text.size - size, end, size) == 0;
}

enum thinking_state thinking_state_of(const struct answer_format *format, struct text prompt)
{
    while (prompt.size && strchr(" \n\r\t", prompt.data[prompt.size - 1]))
        prompt.size--;
    if (format->thinking && ends_with(prompt, format->thinking->open))
        return THINKING_OPEN;
    return format->thinking && ends_with(prompt, format->thinking->end) ? THINKING_CLOSED : THINKING_POSSIBLE;
}
