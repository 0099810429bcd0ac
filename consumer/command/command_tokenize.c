// sheaf tokenize: reads lines {"text": ...} from standard input and writes the token ids of each as an array.
#include "consumer/command/commands.h"
#include "engine/model/model_folder.h"
#include "engine/tokenizer/tokenizer.h"
#include "schemas/value.h"

#include <stdio.h>
#include <stdlib.h>

static enum status tokenize_line(const struct tokenizer *tokenizer, unsigned flags, struct text line,
                                 struct error *error)
{
    struct arena arena = {0};
    struct value value;
    struct token_array ids = {0};
    enum status status = json_decode(line, &arena, &value, error);
    const struct value *text = status == STATUS_OK ? value_get(&value, "text") : NULL;
    if (status == STATUS_OK && (!text || text->kind != VALUE_STRING))
        status =
            error_set(error, STATUS_REJECT, ERROR_MISSING_FIELD, "expected an object with a string \"text\"");
    if (status == STATUS_OK)
        status = tokenizer_encode(tokenizer, text->text, flags, &ids, error);
    if (status == STATUS_OK) {
        putchar('[');
        for (size_t i = 0; i < ids.n_ids; i++)
            printf(i ? ", %d" : "%d", ids.ids[i]);
        puts("]");
    }
    token_array_finish(&ids);
    arena_finish(&arena);
    return status;
}

enum status command_tokenize(const struct settings *settings, struct error *error)
{
    struct gguf *gguf = NULL;
    struct tokenizer *tokenizer = NULL;
    char *line = NULL;
    size_t capacity = 0;
    unsigned flags = settings->tool.special ? TOKENIZER_PARSE_SPECIAL : 0;
    enum status status = model_folder_open(&gguf, settings->positionals[0], error);
    if (status == STATUS_OK)
        status = tokenizer_open(&tokenizer, gguf, settings->model.pre, error);
    long long number = 0;
    for (ssize_t size; status == STATUS_OK && (size = getline(&line, &capacity, stdin)) >= 0;) {
        number++;
        status = tokenize_line(tokenizer, flags, (struct text){line, (size_t)size}, error);
        if (status != STATUS_OK)
            error_prefix(error, "standard input: line %lld", number);
    }
    free(line);
    tokenizer_close(tokenizer);
    gguf_close(gguf);
    return status;
}
