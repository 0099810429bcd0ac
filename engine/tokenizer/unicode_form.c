#include "engine/tokenizer/unicode_form.h"

#include <stdlib.h>

#include <utf8proc.h>

_Static_assert((int)CATEGORY_CN == UTF8PROC_CATEGORY_CN && (int)CATEGORY_CO == UTF8PROC_CATEGORY_CO,
               "categories are numbered as in utf8proc");

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

bool unicode_put_form(struct text text, enum unicode_form form, struct buffer *out)
{
    static const int all_options[] = {[FORM_NFC] = UTF8PROC_COMPOSE,
                                      [FORM_NFD] = UTF8PROC_DECOMPOSE,
                                      [FORM_NFKC] = UTF8PROC_COMPOSE | UTF8PROC_COMPAT,
                                      [FORM_NFKD] = UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT};
    int options = all_options[form];
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
void unicode_put_lowercase(struct text text, struct buffer *out)
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

enum unicode_category unicode_category_of(uint32_t codepoint)
{
    return (enum unicode_category)utf8proc_category((utf8proc_int32_t)codepoint);
}

bool unicode_cluster_ends(uint32_t before, uint32_t after, int32_t *state)
{
    return utf8proc_grapheme_break_stateful((utf8proc_int32_t)before, (utf8proc_int32_t)after, state);
}
