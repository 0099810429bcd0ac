#include "consumer/worker/text_cut.h"

#include "consumer/worker/runtime.h"
#include "engine/tokenizer/tokenizer.h"

#include <stdlib.h>
#include <string.h>

struct text_cut {
    struct runtime runtime;
    size_t n_tokens_max;
    bool is_left;
    int64_t n;
};

enum status text_cut_open(struct text_cut **cut, const struct settings *settings, int64_t n_tokens_max,
                          const char *side, struct error *error)
{
    bool is_left = side && strcmp(side, "left") == 0;
    if (side && !is_left && strcmp(side, "right") != 0)
        return error_set(error, STATUS_REFUSE, ERROR_USAGE, "--truncate: expected left or right, got \"%s\"",
                         side);
    struct text_cut *opened = calloc(1, sizeof *opened);
    if (!opened)
        return error_memory(error, STATUS_REFUSE, "--truncate-prompt");
    opened->n_tokens_max = (size_t)n_tokens_max;
    opened->is_left = is_left;
    enum status status = runtime_open_model(&opened->runtime, settings, settings->model.path, error);
    if (status == STATUS_OK)
        *cut = opened;
    else
        text_cut_close(opened);
    return status;
}

void text_cut_close(struct text_cut *cut)
{
    if (!cut)
        return;
    runtime_close(&cut->runtime);
    free(cut);
}

int64_t text_cut_take_count(struct text_cut *cut)
{
    int64_t n = cut->n;
    cut->n = 0;
    return n;
}

// Bytes of the tokens from `begin` to `end`. A tokenizer that normalizes gives other bytes than the text has.
static size_t bytes_of(const struct text_cut *cut, const struct token_array *ids, size_t begin, size_t end)
{
    struct buffer bytes = {0};
    for (size_t i = begin; i < end; i++)
        tokenizer_decode(cut->runtime.tokenizer, ids->ids[i], false, &bytes);
    size_t size = bytes.size;
    buffer_finish(&bytes);
    return size;
}

// Keeps `size` bytes of the text, whole characters.
static struct text keep(const struct text_cut *cut, struct text text, size_t size)
{
    if (!cut->is_left)
        return (struct text){text.data, utf8_complete_prefix(text.data, size)};
    size_t begin = text.size - size;
    while (begin < text.size && ((unsigned char)text.data[begin] & 0xC0) == 0x80)
        begin++;
    return (struct text){text.data + begin, text.size - begin};
}

// The shorter text may have other tokens at its end, so it is counted again.
enum status text_cut_apply(struct text_cut *cut, struct buffer *text, struct error *error)
{
    struct token_array ids = {0};
    struct text rest = {text->data, text->size};
    enum status status = STATUS_OK;
    while (status == STATUS_OK && rest.size) {
        ids.n_ids = 0;
        status = tokenizer_encode(cut->runtime.tokenizer, rest, 0, &ids, error);
        if (status != STATUS_OK || ids.n_ids <= cut->n_tokens_max)
            break;
        size_t n_lost = ids.n_ids - cut->n_tokens_max;
        size_t size =
            bytes_of(cut, &ids, cut->is_left ? n_lost : 0, cut->is_left ? ids.n_ids : cut->n_tokens_max);
        if (size >= rest.size)
            size = rest.size * cut->n_tokens_max / ids.n_ids;
        rest = keep(cut, rest, size);
    }
    token_array_finish(&ids);
    if (status != STATUS_OK || rest.size == text->size)
        return status;
    memmove(text->data, rest.data, rest.size);
    text->size = rest.size;
    cut->n++;
    return STATUS_OK;
}
