// Builds vocabularies for tests and opens them as tokenizers, through a GGUF file.
#pragma once

#include "engine/tokenizer/byte_alphabet.h"
#include "engine/tokenizer/tokenizer.h"
#include "tests/support/gguf_writer.h"

enum test_token_type { TYPE_NORMAL = 1, TYPE_UNKNOWN, TYPE_CONTROL, TYPE_USER, TYPE_UNUSED, TYPE_BYTE };

// Encoded pieces of the file, put together by vocabulary_file_open.
struct vocabulary_file {
    struct buffer tokens, types, scores, merges;
    struct buffer keys; // further keys, already encoded
    size_t n_tokens, n_merges, n_keys;
};

static inline int32_t add_token(struct vocabulary_file *file, const char *text, float score, uint32_t type)
{
    put_string(&file->tokens, text_from_string(text));
    put_integer(&file->types, type, 4);
    put_float(&file->scores, score);
    return (int32_t)file->n_tokens++;
}

static inline void add_merge(struct vocabulary_file *file, const char *text)
{
    put_string(&file->merges, text_from_string(text));
    file->n_merges++;
}

static inline void add_key_u32(struct vocabulary_file *file, const char *key, uint32_t value)
{
    put_key_u32(&file->keys, key, value);
    file->n_keys++;
}

static inline void add_key_bool(struct vocabulary_file *file, const char *key, bool value)
{
    put_key_bool(&file->keys, key, value);
    file->n_keys++;
}

static inline void add_key_string(struct vocabulary_file *file, const char *key, const char *value)
{
    put_key_string(&file->keys, key, value);
    file->n_keys++;
}

// "<0x00>" to "<0xFF>".
static inline void add_byte_tokens(struct vocabulary_file *file)
{
    for (unsigned byte = 0; byte < 256; byte++) {
        char text[8];
        snprintf(text, sizeof text, "<0x%02X>", byte);
        add_token(file, text, 0, TYPE_BYTE);
    }
}

// <unk> <s> </s> and 256 byte tokens, as SentencePiece vocabularies start.
static inline void add_spm_start(struct vocabulary_file *file)
{
    add_token(file, "<unk>", 0, TYPE_UNKNOWN);
    add_token(file, "<s>", 0, TYPE_CONTROL);
    add_token(file, "</s>", 0, TYPE_CONTROL);
    add_byte_tokens(file);
}

// The 256 letters of the byte alphabet, byte 0 first.
static inline void add_byte_alphabet(struct vocabulary_file *file)
{
    for (unsigned byte = 0; byte < 256; byte++) {
        char text[5] = {0};
        utf8_encode(byte_alphabet_character((unsigned char)byte), text);
        add_token(file, text, 0, TYPE_NORMAL);
    }
}

// Opens the vocabulary as tokenizer model `model` and gives its buffers back. NULL: refused.
static inline struct tokenizer *vocabulary_file_open(struct vocabulary_file *file, const char *model,
                                                     const char *pre, struct error *error)
{
    struct buffer out = {0};
    char directory[64], path[128];
    put_header(&out, 3, 0, 5 + file->n_keys);
    put_key_string(&out, "tokenizer.ggml.model", model);
    put_key_array(&out, "tokenizer.ggml.tokens", GGUF_STRING, file->n_tokens);
    buffer_add(&out, file->tokens.data, file->tokens.size);
    put_key_array(&out, "tokenizer.ggml.token_type", GGUF_I32, file->n_tokens);
    buffer_add(&out, file->types.data, file->types.size);
    put_key_array(&out, "tokenizer.ggml.scores", GGUF_F32, file->n_tokens);
    buffer_add(&out, file->scores.data, file->scores.size);
    put_key_array(&out, "tokenizer.ggml.merges", GGUF_STRING, file->n_merges);
    buffer_add(&out, file->merges.data, file->merges.size);
    buffer_add(&out, file->keys.data, file->keys.size);
    make_directory(directory);
    snprintf(path, sizeof path, "%s/vocabulary.gguf", directory);
    write_file(path, out.data, out.size);
    struct gguf *gguf;
    struct tokenizer *tokenizer = NULL;
    if (gguf_open(&gguf, path, error) == STATUS_OK) {
        enum status status = tokenizer_open(&tokenizer, gguf, pre, error);
        if ((status == STATUS_OK) != (tokenizer != NULL))
            abort();
        gguf_close(gguf);
    }
    remove_directory(directory);
    buffer_finish(&out);
    buffer_finish(&file->tokens);
    buffer_finish(&file->types);
    buffer_finish(&file->scores);
    buffer_finish(&file->merges);
    buffer_finish(&file->keys);
    *file = (struct vocabulary_file){0};
    return tokenizer;
}
