#include "engine/tokenizer/normalizer.h"

#include <stdlib.h>
#include <string.h>

#include <utf8proc.h>

static bool is_ascii(struct text text)
{
    for (size_t i = 0; i < text.size; i++)
        if ((unsigned char)text.data[i] >= 0x80)
            return false;
    return true;
}

// Appends the Unicode normal form; ASCII is its own.
static bool put_form(struct text text, int options, struct buffer *out)
{
    utf8proc_uint8_t *mapped = NULL;
    utf8proc_ssize_t size = utf8proc_map((const utf8proc_uint8_t *)text.data, (utf8proc_ssize_t)text.size,
                                         &mapped, (utf8proc_option_t)(options | UTF8PROC_STABLE));
    if (size >= 0)
        buffer_add(out, mapped, (size_t)size);
    else if (size == UTF8PROC_ERROR_INVALIDUTF8)
        buffer_add_text(out, text);
    free(mapped);
    return (size >= 0 || size == UTF8PROC_ERROR_INVALIDUTF8) && !out->failed;
}

// Simple lower case, plus the one letter whose lower case has two characters (SpecialCasing.txt).
static void put_lowercase(struct text text, struct buffer *out)
{
    for (size_t at = 0, size; at < text.size; at += size) {
        uint32_t codepoint;
        char lower[4];
        size = utf8_decode(text.data + at, text.size - at, &codepoint);
        if (size == 0) {
            buffer_add_byte(out, text.data[at]);
            size = 1;
        } else if (codepoint == 0x130) {
            buffer_add_string(out, "i\xCC\x87");
        } else {
            buffer_add(out, lower,
                       utf8_encode((uint32_t)utf8proc_tolower((utf8proc_int32_t)codepoint), lower));
        }
    }
}

static void put_replaced(struct text text, const struct normalizer_step *step, struct buffer *out)
{
    size_t at = 0;
    while (at < text.size) {
        const char *found = memmem(text.data + at, text.size - at, step->from.data, step->from.size);
        size_t end = found ? (size_t)(found - text.data) : text.size;
        buffer_add(out, text.data + at, end - at);
        if (!found)
            return;
        buffer_add_text(out, step->to);
        at = end + step->from.size;
    }
}

bool normalizer_run(const struct normalizer *normalizer, struct text text, struct buffer buffers[2],
                    struct text *normalized)
{
    static const int forms[] = {
        [NORMALIZE_NFC] = UTF8PROC_COMPOSE,
        [NORMALIZE_NFD] = UTF8PROC_DECOMPOSE,
        [NORMALIZE_NFKC] = UTF8PROC_COMPOSE | UTF8PROC_COMPAT,
        [NORMALIZE_NFKD] = UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT,
    };
    int next = 0;
    for (size_t i = 0; i < normalizer->n_steps && text.size; i++) {
        const struct normalizer_step *step = &normalizer->steps[i];
        struct buffer *out = &buffers[next];
        if (step->kind <= NORMALIZE_NFKD && is_ascii(text))
            continue;
        buffer_clear(out);
        if (step->kind <= NORMALIZE_NFKD && !put_form(text, forms[step->kind], out))
            return false;
        if (step->kind == NORMALIZE_LOWERCASE)
            put_lowercase(text, out);
        if (step->kind == NORMALIZE_REPLACE)
            put_replaced(text, step, out);
        if (step->kind == NORMALIZE_PREPEND) {
            buffer_add_text(out, step->to);
            buffer_add_text(out, text);
        }
        if (out->failed)
            return false;
        text = (struct text){out->data, out->size};
        next = !next;
    }
    *normalized = text;
    return true;
}

// Bounds on how much a step shrinks a text. A normal form keeps at least a quarter of the characters, because
// a composed character has at most 4 in its canonical decomposition (UAX #15); lower case keeps all of them.
// A character has 1 to 4 bytes. ASCII keeps its length.
enum { FORM_SHRINKS = 16, LOWERCASE_SHRINKS = 4, SHRINKS_MAX = 1 << 20 };

size_t normalizer_shrinks(const struct normalizer *normalizer, bool is_ascii)
{
    size_t shrinks = 1;
    for (size_t i = 0; i < normalizer->n_steps; i++) {
        const struct normalizer_step *step = &normalizer->steps[i];
        if (step->kind <= NORMALIZE_NFKD && !is_ascii)
            shrinks *= FORM_SHRINKS;
        if (step->kind == NORMALIZE_LOWERCASE && !is_ascii)
            shrinks *= LOWERCASE_SHRINKS;
        if (step->kind == NORMALIZE_REPLACE && (step->to.size == 0 || step->from.size > SHRINKS_MAX))
            return 0;
        if (step->kind == NORMALIZE_REPLACE && step->to.size < step->from.size)
            shrinks *= (step->from.size + step->to.size - 1) / step->to.size;
        if (shrinks > SHRINKS_MAX)
            return 0;
        is_ascii = is_ascii && step->kind != NORMALIZE_REPLACE && step->kind != NORMALIZE_PREPEND;
    }
    return shrinks;
}
