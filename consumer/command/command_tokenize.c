// sheaf tokenize: reads lines {"text": ...} from standard input and writes the token ids of each as an
// array; with --add-special-tokens {"ids": [...], "types": [...]}, also of lines {"text": ..., "pair": ...}.
#include "consumer/command/commands.h"
#include "engine/model/folder/model_folder.h"
#include "engine/tokenizer/tokenizer.h"
#include "schemas/value.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void print_ids(const struct token_array *ids)
{
    putchar('[');
    for (size_t i = 0; i < ids->n_ids; i++)
        printf(i ? ", %d" : "%d", ids->ids[i]);
    putchar(']');
}

// The texts of a line. A second one, "pair", needs TOKENIZER_ADD_SPECIAL.
static enum status read_texts(const struct value *line, unsigned flags, struct tokenizer_input *input,
                              struct error *error)
{
    const struct value *text = value_get(line, "text"), *pair = value_get(line, "pair");
    if (!text || text->kind != VALUE_STRING || (pair && pair->kind != VALUE_STRING))
        return error_set(error, STATUS_REJECT, ERROR_MISSING_FIELD,
                         "expected an object with a string \"text\"%s",
                         pair ? ", and a string \"pair\"" : "");
    if (pair && !(flags & TOKENIZER_ADD_SPECIAL))
        return error_set(error, STATUS_REJECT, ERROR_MISSING_FIELD, "\"pair\" needs --add-special-tokens");
    *input = (struct tokenizer_input){.texts = {text->text, pair ? pair->text : (struct text){0}},
                                      .n_texts = pair ? 2 : 1};
    return STATUS_OK;
}

static enum status tokenize_line(const struct tokenizer *tokenizer, unsigned flags, struct text line,
                                 struct error *error)
{
    struct arena arena = {0};
    struct value value;
    struct tokenizer_input input;
    struct token_array ids = {0}, types = {0};
    enum status status = json_decode(line, &arena, &value, error);
    if (status == STATUS_OK)
        status = read_texts(&value, flags, &input, error);
    if (status == STATUS_OK)
        status = tokenizer_encode_input(tokenizer, &input, flags, &ids, &types, NULL, error);
    if (status == STATUS_OK && flags & TOKENIZER_ADD_SPECIAL) {
        fputs("{\"ids\": ", stdout);
        print_ids(&ids);
        fputs(", \"types\": ", stdout);
        print_ids(&types);
        puts("}");
    } else if (status == STATUS_OK) {
        print_ids(&ids);
        putchar('\n');
    }
    token_array_finish(&ids);
    token_array_finish(&types);
    arena_finish(&arena);
    return status;
}

enum status command_tokenize(const struct settings *settings, struct error *error)
{
    struct gguf *gguf = NULL;
    struct tokenizer *tokenizer = NULL;
    char *line = NULL;
    size_t capacity = 0;
    unsigned flags = (settings->tool.special ? TOKENIZER_PARSE_SPECIAL : 0u) |
                     (settings->tool.add_special ? TOKENIZER_ADD_SPECIAL : 0u);
    enum status status = model_folder_open(&gguf, settings->line.positionals[0], error);
    if (status == STATUS_OK)
        status = tokenizer_open(&tokenizer, gguf, settings->model.pre, error);
    long long number = 0;
    for (ssize_t size; status == STATUS_OK && (size = getline(&line, &capacity, stdin)) >= 0;) {
        struct text text = {line, (size_t)size};
        if (number++ == 0 && size >= 3 && memcmp(line, "\xEF\xBB\xBF", 3) == 0) // a byte order mark
            text = (struct text){line + 3, (size_t)size - 3};
        status = tokenize_line(tokenizer, flags, text, error);
        if (status != STATUS_OK)
            error_prefix(error, "standard input: line %lld", number);
    }
    free(line);
    tokenizer_close(tokenizer);
    gguf_close(gguf);
    return status;
}
