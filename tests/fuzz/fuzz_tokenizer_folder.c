// Any bytes as the files of a folder's tokenizer: after an S tokenizer.model, after a V vocab.json and, after
// a NUL, merges.txt; else tekken.json. An accepted one must encode any text to ids of its vocabulary.
#include "engine/file/gguf.h"
#include "engine/file/gguf_made.h"
#include "engine/model/folder/folder_parts.h"
#include "engine/tokenizer/tokenizer.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/gguf_writer.h"

#include <stdlib.h>
#include <string.h>

static void encode_text(const struct tokenizer *tokenizer, struct text text)
{
    struct token_array ids = {0};
    struct buffer decoded = {0};
    struct error error;
    fuzz_check(tokenizer_encode(tokenizer, text, TOKENIZER_ADD_SPECIAL | TOKENIZER_PARSE_SPECIAL, &ids,
                                &error) == STATUS_OK);
    for (size_t i = 0; i < ids.n_ids; i++) {
        fuzz_check(ids.ids[i] >= 0 && ids.ids[i] < tokenizer_n_tokens(tokenizer));
        tokenizer_decode(tokenizer, ids.ids[i], true, &decoded);
    }
    fuzz_check(tokenizer_least_tokens(tokenizer, text) <= (int64_t)ids.n_ids);
    buffer_finish(&decoded);
    token_array_finish(&ids);
}

static void put_file(const char *directory, const char *name, struct text content)
{
    char path[160];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    write_file(path, content.data, content.size);
}

static void put_files(const char *directory, char kind, struct text content)
{
    const char *nul = content.size ? memchr(content.data, 0, content.size) : NULL;
    size_t size = nul ? (size_t)(nul - content.data) : content.size;
    put_file(directory, "config.json", TEXT("{\"model_type\":\"qwen2\",\"eos_token_id\":[0,7]}"));
    if (kind == 'V') {
        put_file(directory, "vocab.json", (struct text){content.data, size});
        size += nul != NULL;
        put_file(directory, "merges.txt", (struct text){content.data + size, content.size - size});
    } else
        put_file(directory, kind == 'S' ? "tokenizer.model" : "tekken.json", content);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const texts[] = {"", "ab  a<s>[T] 11\n", "\xFF\xE2\x96\x81 \xE4\xB8\xAD\x65\xCC\x81",
                                        "AAAAAAAAA"};
    char directory[64];
    struct arena arena = {0};
    struct gguf_writer keys = {0};
    struct gguf *gguf = NULL;
    struct tokenizer *tokenizer = NULL;
    struct value config = {.kind = VALUE_NULL};
    struct error error = {0};
    if (size == 0)
        return 0;
    make_directory(directory);
    put_files(directory, (char)data[0], (struct text){(const char *)data + 1, size - 1});
    struct folder_files files = {directory, &arena, NULL};
    bool found;
    enum status status = folder_read_json(&files, "config.json", &config, &found, &error);
    if (status == STATUS_OK)
        status = folder_add_tokenizer(&files, &config, &keys, &error);
    if (status == STATUS_OK)
        status = gguf_create(&gguf, directory, &keys, NULL, 0, (struct gguf_source){0}, &error);
    if (status == STATUS_OK)
        status = tokenizer_open(&tokenizer, gguf, NULL, &error);
    fuzz_check(status == STATUS_OK || (status == STATUS_REFUSE && error.text[0]));
    for (size_t i = 0; tokenizer && i < sizeof texts / sizeof *texts; i++)
        encode_text(tokenizer, text_from_string(texts[i]));
    tokenizer_close(tokenizer);
    gguf_close(gguf);
    gguf_writer_finish(&keys);
    arena_finish(&arena);
    remove_directory(directory);
    return 0;
}
