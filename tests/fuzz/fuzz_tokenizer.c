// First byte below 64: the rest is a text for one of the tokenizers made here, and must decode to itself.
// Else: the rest is a GGUF file, opened as a vocabulary; whatever it says, texts must be encoded to its
// tokens.
#include "engine/tokenizer/split_stage.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/vocabulary_file.h"

#include <sys/mman.h>

enum { TOKENIZERS_MAX = 63 };

static struct tokenizer *open_or_abort(struct vocabulary_file *file, const char *model, const char *pre)
{
    struct error error;
    struct tokenizer *tokenizer = vocabulary_file_open(file, model, pre, &error);
    if (!tokenizer) {
        fprintf(stderr, "%s\n", error.text);
        abort();
    }
    return tokenizer;
}

static void add_words(struct vocabulary_file *file, const char *blank)
{
    static const char *const words[] = {"aa", "aaaa", "th", "the", "in", "er", "\n\n", "11"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        add_token(file, words[i], -(float)i, TYPE_NORMAL);
    char text[16];
    snprintf(text, sizeof text, "%st", blank);
    add_token(file, text, -3, TYPE_NORMAL);
    snprintf(text, sizeof text, "%s%s", blank, blank);
    add_token(file, text, -2, TYPE_NORMAL);
    add_token(file, "<|im_end|>", 0, TYPE_CONTROL);
    add_token(file, "<tag>", 0, TYPE_USER);
}

static struct tokenizer *make_bpe(const char *pre)
{
    static const char *const merges[] = {"a a",  "aa aa",      "t h",
                                         "th e", "i n",        "e r",
                                         "1 1",  "\xC4\xA0 t", "\xC4\xA0 \xC4\xA0"};
    struct vocabulary_file file = {0};
    add_byte_alphabet(&file);
    add_words(&file, "\xC4\xA0");
    for (size_t i = 0; i < sizeof merges / sizeof *merges; i++)
        add_merge(&file, merges[i]);
    return open_or_abort(&file, "gpt2", pre);
}

static struct tokenizer *make_spm(void)
{
    struct vocabulary_file file = {0};
    add_spm_start(&file);
    add_words(&file, "\xE2\x96\x81");
    add_token(&file, "\xE2\x96\x81", -9, TYPE_NORMAL);
    return open_or_abort(&file, "llama", NULL);
}

// One for each pre-tokenizer and a SentencePiece one, made once.
static const struct tokenizer *tokenizer_number(size_t number)
{
    static struct tokenizer *tokenizers[TOKENIZERS_MAX];
    static size_t n_tokenizers;
    if (n_tokenizers == 0) {
        tokenizers[n_tokenizers++] = make_spm();
        for (const struct splitter_definition *definition = splitter_definitions;
             definition->traits.name && n_tokenizers < TOKENIZERS_MAX; definition++)
            tokenizers[n_tokenizers++] = make_bpe(definition->traits.name);
    }
    return tokenizers[number % n_tokenizers];
}

static void encode_and_decode(const struct tokenizer *tokenizer, struct text text, unsigned flags,
                              struct buffer *decoded)
{
    struct token_array ids = {0};
    struct error error;
    if (tokenizer_encode(tokenizer, text, flags, &ids, &error) != STATUS_OK)
        abort();
    for (size_t i = 0; i < ids.n_ids; i++) {
        if (ids.ids[i] < 0 || ids.ids[i] >= tokenizer_n_tokens(tokenizer))
            abort();
        tokenizer_decode(tokenizer, ids.ids[i], true, decoded);
    }
    token_array_finish(&ids);
}

// In a SentencePiece text U+2581 and the blank are the same, and one precedes the text and after special
// tokens.
static void drop_blanks(struct buffer *buffer)
{
    size_t size = 0;
    for (size_t at = 0; at < buffer->size; at++) {
        if (buffer->size - at >= 3 && !memcmp(buffer->data + at, "\xE2\x96\x81", 3))
            at += 2;
        else if (buffer->data[at] != ' ')
            buffer->data[size++] = buffer->data[at];
    }
    buffer->size = size;
}

static void encode_text(const struct tokenizer *tokenizer, struct text text, unsigned flags)
{
    struct buffer decoded = {0}, expected = {0};
    buffer_add_text(&expected, text);
    encode_and_decode(tokenizer, text, flags, &decoded);
    if (tokenizer_strips_first_space(tokenizer)) {
        drop_blanks(&decoded);
        drop_blanks(&expected);
    }
    if (decoded.size != expected.size || (decoded.size && memcmp(decoded.data, expected.data, decoded.size)))
        abort();
    buffer_finish(&decoded);
    buffer_finish(&expected);
}

static void open_vocabulary(struct text bytes)
{
    static const char *const texts[] = {"", "the  tag<tag> 12\n", "\xFF\xE2\x96\x81 \xE4\xB8\xAD",
                                        "aaaaaaaaaaaaaaaaa"};
    int file = memfd_create("fuzz", 0);
    if (file < 0 || write(file, bytes.data, bytes.size) != (ssize_t)bytes.size)
        abort();
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    struct gguf *gguf;
    struct tokenizer *tokenizer = NULL;
    struct error error;
    if (gguf_open(&gguf, path, &error) == STATUS_OK) {
        if (tokenizer_open(&tokenizer, gguf, NULL, &error) != STATUS_OK && error.text[0] == '\0')
            abort();
        gguf_close(gguf);
    }
    close(file);
    for (size_t i = 0; tokenizer && i < sizeof texts / sizeof *texts; i++) {
        struct buffer decoded = {0};
        encode_and_decode(tokenizer, text_from_string(texts[i]),
                          TOKENIZER_ADD_SPECIAL | TOKENIZER_PARSE_SPECIAL, &decoded);
        buffer_finish(&decoded);
    }
    tokenizer_close(tokenizer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    struct text rest = {(const char *)data + 1, size - 1};
    if (data[0] >= 64) {
        open_vocabulary(rest);
    } else {
        encode_text(tokenizer_number(data[0]), rest, 0);
        encode_text(tokenizer_number(data[0]), rest, TOKENIZER_PARSE_SPECIAL);
    }
    return 0;
}
