#include "engine/tokenizer/normalizer.h"

#include "engine/tokenizer/unicode_form.h"

#include <stdlib.h>
#include <string.h>

static bool is_ascii(struct text text)
{
    for (size_t i = 0; i < text.size; i++)
        if ((unsigned char)text.data[i] >= 0x80)
            return false;
    return true;
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

// False: out of memory.
static bool put_matches(struct text text, const struct normalizer_step *step, struct buffer *out)
{
    size_t at = 0, start, end;
    while (at < text.size) {
        if (!split_pattern_find(step->pattern, text, at, &start, &end))
            return false;
        buffer_add(out, text.data + at, start - at);
        if (start < text.size)
            buffer_add_text(out, step->to);
        at = end;
        if (start == end && at < text.size) { // an empty match
            uint32_t codepoint;
            size_t size = utf8_decode(text.data + at, text.size - at, &codepoint);
            buffer_add(out, text.data + at, size ? size : 1);
            at += size ? size : 1;
        }
    }
    return true;
}

static bool is_space(uint32_t codepoint)
{
    return codepoint_is_space(codepoint) && !(codepoint >= 0x1C && codepoint < 0x20);
}

static struct text strip(struct text text, unsigned sides)
{
    uint32_t codepoint;
    while (sides & STRIP_LEFT && text.size) {
        size_t size = utf8_decode(text.data, text.size, &codepoint);
        if (size == 0 || !is_space(codepoint))
            break;
        text = (struct text){text.data + size, text.size - size};
    }
    while (sides & STRIP_RIGHT && text.size) {
        size_t start = text.size - 1;
        while (start > 0 && text.size - start < 4 && ((unsigned char)text.data[start] & 0xC0) == 0x80)
            start--;
        if (utf8_decode(text.data + start, text.size - start, &codepoint) != text.size - start ||
            !is_space(codepoint))
            break;
        text.size = start;
    }
    return text;
}

static enum unicode_form form_of(enum normalizer_kind kind)
{
    return kind == NORMALIZE_NFC    ? FORM_NFC
           : kind == NORMALIZE_NFD  ? FORM_NFD
           : kind == NORMALIZE_NFKC ? FORM_NFKC
                                    : FORM_NFKD;
}

// False: out of memory.
static bool run_step(const struct normalizer_step *step, struct text text, struct buffer *out)
{
    switch (step->kind) {
    case NORMALIZE_NFC:
    case NORMALIZE_NFD:
    case NORMALIZE_NFKC:
    case NORMALIZE_NFKD:
        return unicode_put_form(text, form_of(step->kind), out);
    case NORMALIZE_LOWERCASE:
        unicode_put_lowercase(text, out);
        break;
    case NORMALIZE_REPLACE:
        put_replaced(text, step, out);
        break;
    case NORMALIZE_REPLACE_PATTERN:
        return put_matches(text, step, out);
    case NORMALIZE_PREPEND:
        buffer_add_text(out, step->to);
        buffer_add_text(out, text);
        break;
    case NORMALIZE_BERT:
        bert_normalize(text, step->options, out);
        break;
    case NORMALIZE_STRIP_ACCENTS:
        bert_strip_accents(text, out);
        break;
    case NORMALIZE_STRIP:
        buffer_add_text(out, strip(text, step->options));
        break;
    case NORMALIZE_NMT:
        bert_normalize_nmt(text, out);
        break;
    case NORMALIZE_PRECOMPILED:
        charsmap_normalize(&step->charsmap, text, out);
        break;
    case NORMALIZE_SENTENCEPIECE:
        charsmap_normalize_sentence(&step->charsmap, &step->sentencepiece, step->kept, text, out);
        break;
    }
    return true;
}

bool normalizer_run(const struct normalizer *normalizer, struct text text, struct buffer buffers[2],
                    struct text *normalized)
{
    int next = 0;
    for (size_t i = 0; i < normalizer->n_steps && text.size; i++) {
        const struct normalizer_step *step = &normalizer->steps[i];
        struct buffer *out = &buffers[next];
        if (step->kind <= NORMALIZE_NFKD && is_ascii(text))
            continue;
        buffer_clear(out);
        if (!run_step(step, text, out) || out->failed)
            return false;
        text = (struct text){out->data, out->size};
        next = !next;
    }
    *normalized = text;
    return true;
}

void normalizer_finish(struct normalizer *normalizer)
{
    for (size_t i = 0; i < normalizer->n_steps; i++) {
        split_pattern_close(normalizer->steps[i].pattern);
        if (normalizer->steps[i].kept)
            special_finish(normalizer->steps[i].kept);
        free(normalizer->steps[i].kept);
    }
    *normalizer = (struct normalizer){0};
}

// Bounds on how much a step can shrink a text. A normal form keeps at least a quarter of the characters,
// because the canonical decomposition of a character has at most 4 characters (UAX #15). Lower case keeps all
// of them. A character has 1 to 4 bytes. ASCII keeps its length.
enum { FORM_SHRINKS = 16, LOWERCASE_SHRINKS = 4, SHRINKS_MAX = 1 << 20 };

size_t normalizer_shrinks(const struct normalizer *normalizer, bool is_ascii)
{
    size_t shrinks = 1;
    for (size_t i = 0; i < normalizer->n_steps; i++) {
        const struct normalizer_step *step = &normalizer->steps[i];
        if (step->kind == NORMALIZE_REPLACE_PATTERN || step->kind > NORMALIZE_PREPEND)
            return 0;
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
