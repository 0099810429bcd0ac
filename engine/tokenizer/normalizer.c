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

static bool put_map(struct text text, int options, struct buffer *out)
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

// Characters with decompositions newer than the library's tables (Unicode 12.0; crate
// unicode-normalization-alignments). They are starters, so the text can be cut around them.
static bool is_newer(uint32_t codepoint)
{
    return codepoint == 0x32FF || (codepoint >= 0xA7F2 && codepoint <= 0xA7F4) || codepoint == 0xAB69 ||
           (codepoint >= 0x10781 && codepoint <= 0x107BA) || codepoint == 0x11930 || codepoint == 0x11938 ||
           (codepoint >= 0x1E030 && codepoint <= 0x1E06D) || codepoint == 0x1F16C ||
           (codepoint >= 0x1FBF0 && codepoint <= 0x1FBF9);
}

bool normalizer_put_form(struct text text, int options, struct buffer *out)
{
    size_t from = 0;
    uint32_t codepoint;
    for (size_t at = 0, size; at < text.size; at += size ? size : 1) {
        size =
            (unsigned char)text.data[at] < 0xE3 ? 1 : utf8_decode(text.data + at, text.size - at, &codepoint);
        if (size < 3 || !is_newer(codepoint))
            continue;
        if (at > from && !put_map((struct text){text.data + from, at - from}, options, out))
            return false;
        buffer_add(out, text.data + at, size);
        from = at + size;
    }
    return from == text.size || put_map((struct text){text.data + from, text.size - from}, options, out);
}

// Lower case newer than utf8proc's tables (Unicode 16, 17).
static uint32_t lowercase_of(uint32_t codepoint)
{
    static const struct {
        uint32_t first, last;
        int32_t delta;
    } newer[] = {{0x1C89, 0x1C89, 1},      {0xA7CB, 0xA7CB, 0x264 - 0xA7CB},
                 {0xA7CC, 0xA7CC, 1},      {0xA7CE, 0xA7CE, 1},
                 {0xA7D2, 0xA7D2, 1},      {0xA7D4, 0xA7D4, 1},
                 {0xA7DA, 0xA7DA, 1},      {0xA7DC, 0xA7DC, 0x19B - 0xA7DC},
                 {0x10D50, 0x10D65, 0x20}, {0x16EA0, 0x16EB8, 0x1B}};
    for (size_t i = 0; codepoint >= newer[0].first && i < sizeof newer / sizeof *newer; i++)
        if (codepoint >= newer[i].first && codepoint <= newer[i].last)
            return codepoint + (uint32_t)newer[i].delta;
    return (uint32_t)utf8proc_tolower((utf8proc_int32_t)codepoint);
}

// Simple lower case, plus the one letter whose lower case has two characters (SpecialCasing.txt).
void normalizer_put_lowercase(struct text text, struct buffer *out)
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
            buffer_add(out, lower, utf8_encode(lowercase_of(codepoint), lower));
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

// False: no memory.
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

// False: no memory.
static bool run_step(const struct normalizer_step *step, struct text text, struct buffer *out)
{
    static const int forms[] = {
        [NORMALIZE_NFC] = UTF8PROC_COMPOSE,
        [NORMALIZE_NFD] = UTF8PROC_DECOMPOSE,
        [NORMALIZE_NFKC] = UTF8PROC_COMPOSE | UTF8PROC_COMPAT,
        [NORMALIZE_NFKD] = UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT,
    };
    switch (step->kind) {
    case NORMALIZE_NFC:
    case NORMALIZE_NFD:
    case NORMALIZE_NFKC:
    case NORMALIZE_NFKD:
        return normalizer_put_form(text, forms[step->kind], out);
    case NORMALIZE_LOWERCASE:
        normalizer_put_lowercase(text, out);
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

// Bounds on how much a step shrinks a text. A normal form keeps at least a quarter of the characters, because
// a composed character has at most 4 in its canonical decomposition (UAX #15); lower case keeps all of them.
// A character has 1 to 4 bytes. ASCII keeps its length.
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
