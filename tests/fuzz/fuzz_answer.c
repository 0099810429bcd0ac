// The text of an answer in each format of calls: the first byte chooses the format and where the prompt ends,
// the rest is what the model wrote. Whatever is read as a call is one of the functions with an object.
#include "engine/answer/answer_parse.h"
#include "schemas/json_answer.h"
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

static const char *const formats[] = {
    "harmony",     "kimi-k2", "deepseek-dsml", "deepseek-v3", "deepseek-v3.1",   "mistral-v11", "mistral",
    "glm-4.5",     "glm-4.7", "seed-oss",      "qwen3-coder", "hermes",          "command-r7b", "command-r",
    "functionary", "apertus", "lfm2",          "functools",   "llama3-pythonic", "llama3-json", "json"};

enum { N_FORMATS = sizeof formats / sizeof *formats };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char parameters[] =
        "{\"properties\":{\"a\":{\"type\":\"string\"},\"b\":{\"type\":\"integer\"}}}";
    struct arena arena = {0};
    struct error error;
    struct tool_function functions[2] = {{.name = TEXT("f")}, {.name = TEXT("f-g")}};
    struct tools tools = {.choice = TOOLS_AUTO, .functions = functions, .n_functions = 2};
    struct answer_format format;
    struct answer_parts parts;
    if (size == 0)
        return 0;
    if (json_decode(text_from_string(parameters), &arena, &functions[0].parameters, &error) != STATUS_OK)
        abort();
    answer_format_detect(&format,
                         data[0] & 64 ? TEXT("<think></think>") : TEXT("<|channel|>analysis<|message|>"));
    format.tools = tool_format_find(formats[data[0] % 64 % N_FORMATS]);
    enum thinking_state thinking = data[0] & 128 ? THINKING_OPEN : THINKING_POSSIBLE;
    struct text raw = {(const char *)data + 1, size - 1};
    if (answer_parse(&format, &tools, thinking, raw, &arena, &parts, &error) != STATUS_OK)
        abort();
    for (int32_t i = 0; i < parts.n_calls; i++) {
        struct value arguments;
        bool is_known =
            text_equals_string(parts.calls[i].name, "f") || text_equals_string(parts.calls[i].name, "f-g");
        if (!is_known ||
            json_decode_answer(parts.calls[i].arguments, &arena, &arguments, &error) != STATUS_OK ||
            arguments.kind != VALUE_OBJECT || !answer_call_id(format.tools, 1, i, &parts.calls[i], &arena))
            abort();
    }
    text_spans_finish(&parts.thoughts);
    arena_finish(&arena);
    return 0;
}
