// Characters as the tokenizers library classes them for BERT, and the steps made of them. Categories are
// utf8proc's (Unicode 15); the library has tables of Unicode 8 for marks, punctuation and format characters, of
// Unicode 9 for combining marks (crates unicode_categories, unicode-normalization-alignments).
#include "engine/tokenizer/normalizer.h"

#include "engine/tokenizer/unicode_form.h"

struct character_range {
    uint32_t first, last;
};

// clang-format off
// Where the marks (Mn), punctuation and format characters are newer than Unicode 8, or were of another category.
static const struct character_range since_unicode_8[] = {
    {0x61D, 0x61D}, {0x7FD, 0x7FD}, {0x890, 0x8E2}, {0x9FD, 0x9FE}, {0xA76, 0xA76}, {0xAFA, 0xAFF},
    {0xB55, 0xB55}, {0xC04, 0xC3C}, {0xC77, 0xC77}, {0xC84, 0xC84}, {0xD00, 0xD00}, {0xD3B, 0xD3C},
    {0xD81, 0xD81}, {0xEBA, 0xEBA}, {0xECE, 0xECE}, {0x180F, 0x1886}, {0x1ABF, 0x1ACE}, {0x1B7D, 0x1B7E},
    {0x1DF6, 0x1DFB}, {0x2E43, 0x2E5D}, {0xA82C, 0xA82C}, {0xA8C5, 0xA8C5}, {0xA8FF, 0xA8FF}, {0xA9BD, 0xA9BD},
    {0x10D24, 0x10F89}, {0x11070, 0x11074}, {0x110C2, 0x110CD}, {0x111C9, 0x111C9}, {0x111CF, 0x111CF},
    {0x1123E, 0x11241}, {0x1133B, 0x1133B}, {0x11438, 0x1145E}, {0x11660, 0x1166C}, {0x116B9, 0x116B9},
    {0x1182F, 0x11FFF}, {0x12FF1, 0x13455}, {0x16E97, 0x16F4F}, {0x16FE2, 0x16FE4}, {0x1CF00, 0x1CF46},
    {0x1E000, 0x1E4EF}, {0x1E944, 0x1E95F},
};

// Where the marks (M) are newer than Unicode 9.
static const struct character_range since_unicode_9[] = {
    {0x7FD, 0x7FD}, {0x898, 0x8D3}, {0x9FE, 0x9FE}, {0xAFA, 0xAFF}, {0xB55, 0xB55}, {0xC04, 0xC3C},
    {0xCF3, 0xD00}, {0xD3B, 0xD3C}, {0xD81, 0xD81}, {0xEBA, 0xEBA}, {0xECE, 0xECE}, {0x1715, 0x1715},
    {0x180F, 0x180F}, {0x1ABF, 0x1ACE}, {0x1CF7, 0x1CF7}, {0x1DF6, 0x1DFA}, {0xA82C, 0xA82C}, {0xA8FF, 0xA8FF},
    {0x10D24, 0x10F85}, {0x11070, 0x11074}, {0x110C2, 0x110C2}, {0x11145, 0x11146}, {0x111C9, 0x111C9},
    {0x111CE, 0x111CF}, {0x11241, 0x11241}, {0x1133B, 0x1133B}, {0x1145E, 0x1145E}, {0x1182C, 0x11A99},
    {0x11D31, 0x13455}, {0x16F4F, 0x16F4F}, {0x16F7F, 0x16F87}, {0x16FE4, 0x16FF1}, {0x1CF00, 0x1CF46},
    {0x1E08F, 0x1E4EF},
};
// clang-format on

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static bool is_in(const struct character_range *ranges, size_t n_ranges, uint32_t codepoint)
{
    size_t low = 0, high = n_ranges;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (ranges[middle].last < codepoint)
            low = middle + 1;
        else
            high = middle;
    }
    return low < n_ranges && ranges[low].first <= codepoint;
}

static bool is_newer(uint32_t codepoint)
{
    return is_in(since_unicode_8, COUNT(since_unicode_8), codepoint);
}

bool bert_is_punctuation(uint32_t codepoint)
{
    if (codepoint < 0x80)
        return codepoint > ' ' && codepoint < 0x7F && !(codepoint >= '0' && codepoint <= '9') &&
               !((codepoint | 0x20) >= 'a' && (codepoint | 0x20) <= 'z');
    enum unicode_category category = unicode_category_of(codepoint);
    if (category >= CATEGORY_PC && category <= CATEGORY_PO)
        return !is_newer(codepoint);
    return codepoint == 0x166D || codepoint == 0x111C9;
}

// Alphabetic, marks, decimal numbers, connectors and joiners (UTS #18, annex C).
bool bert_is_of_word(uint32_t codepoint)
{
    enum unicode_category category = unicode_category_of(codepoint);
    if (category >= CATEGORY_LU && category <= CATEGORY_NL)
        return true;
    bool is_alphabetic_symbol =
        (codepoint >= 0x24B6 && codepoint <= 0x24E9) || (codepoint >= 0x1F130 && codepoint <= 0x1F149) ||
        (codepoint >= 0x1F150 && codepoint <= 0x1F169) || (codepoint >= 0x1F170 && codepoint <= 0x1F189);
    return category == CATEGORY_PC || codepoint == 0x200C || codepoint == 0x200D || is_alphabetic_symbol;
}

// --- BertNormalizer ---

static bool is_dropped(uint32_t codepoint)
{
    if (codepoint == '\t' || codepoint == '\n' || codepoint == '\r')
        return false;
    switch (unicode_category_of(codepoint)) {
    case CATEGORY_CC:
    case CATEGORY_CO:
        return true;
    case CATEGORY_CF:
        return !is_newer(codepoint);
    default:
        return codepoint == 0xFFFD;
    }
}

static bool is_blank(uint32_t codepoint)
{
    enum unicode_category category = unicode_category_of(codepoint);
    return codepoint == '\t' || codepoint == '\n' || codepoint == '\r' ||
           (category >= CATEGORY_ZS && category <= CATEGORY_ZP);
}

static bool is_chinese(uint32_t codepoint)
{
    static const struct character_range blocks[] = {
        {0x3400, 0x4DBF},   {0x4E00, 0x9FFF},   {0xF900, 0xFAFF},   {0x20000, 0x2A6DF},
        {0x2A700, 0x2B73F}, {0x2B740, 0x2B81F}, {0x2B920, 0x2CEAF}, {0x2F800, 0x2FA1F},
    };
    return codepoint >= 0x3400 && is_in(blocks, COUNT(blocks), codepoint);
}

static void add_cleaned(uint32_t codepoint, struct text bytes, unsigned options, struct buffer *out)
{
    if (options & BERT_CLEAN && is_dropped(codepoint))
        return;
    if (options & BERT_CLEAN && is_blank(codepoint))
        bytes = TEXT(" ");
    bool is_apart = options & BERT_CHINESE && is_chinese(codepoint);
    if (is_apart)
        buffer_add_byte(out, ' ');
    buffer_add_text(out, bytes);
    if (is_apart)
        buffer_add_byte(out, ' ');
}

// Fills in the replacement of each ASCII character; 0: the character is dropped.
static void fill_ascii(unsigned options, char ascii[128])
{
    for (unsigned i = 0; i < 128; i++) {
        bool cleans = options & BERT_CLEAN;
        ascii[i] = (char)(cleans && is_dropped(i) ? 0 : cleans && is_blank(i) ? ' ' : i);
        if (options & BERT_LOWERCASE && i >= 'A' && i <= 'Z')
            ascii[i] = (char)(i | 0x20);
    }
}

// Appends ASCII up to the first other byte from `at` on, which it returns. The table says 0 for NUL also where it
// is kept.
static size_t add_ascii(struct text text, size_t at, const char ascii[128], bool keeps_nul,
                        struct buffer *out)
{
    size_t end = at;
    while (end < text.size && (unsigned char)text.data[end] < 0x80)
        end++;
    if (!buffer_reserve(out, end - at))
        return end;
    for (; at < end; at++) {
        char byte = ascii[(unsigned char)text.data[at]];
        out->data[out->size] = byte;
        out->size += byte || keeps_nul;
    }
    return end;
}

static void clean(struct text text, unsigned options, struct buffer *out)
{
    char ascii[128];
    fill_ascii(options, ascii);
    for (size_t at = 0, size; at < text.size; at += size) {
        uint32_t codepoint;
        size_t end = add_ascii(text, at, ascii, !(options & BERT_CLEAN), out);
        size = end - at;
        if (size)
            continue;
        size = utf8_decode(text.data + at, text.size - at, &codepoint);
        if (size)
            add_cleaned(codepoint, (struct text){text.data + at, size}, options, out);
        else
            buffer_add_byte(out, text.data[at + size++]);
    }
}

static bool is_accent(uint32_t codepoint)
{
    return codepoint == 0x1734 || (unicode_category_of(codepoint) == CATEGORY_MN && !is_newer(codepoint));
}

static void add_without(struct text text, bool (*is_dropped_one)(uint32_t), struct buffer *out)
{
    for (size_t at = 0, size; at < text.size; at += size) {
        uint32_t codepoint;
        size = utf8_decode(text.data + at, text.size - at, &codepoint);
        if (size == 0 || !is_dropped_one(codepoint))
            buffer_add(out, text.data + at, size ? size : 1);
        size = size ? size : 1;
    }
}

// Decomposes a run without ASCII. Marks are reordered among themselves only, so the run can be decomposed
// alone.
static void add_other(struct text run, unsigned options, struct buffer scratch[2], struct buffer *out)
{
    if (options & BERT_ACCENTS) {
        buffer_clear(&scratch[0]);
        buffer_clear(&scratch[1]);
        out->failed |= !unicode_put_form(run, FORM_NFD, &scratch[0]);
        add_without((struct text){scratch[0].data, scratch[0].size}, is_accent, &scratch[1]);
        run = (struct text){scratch[1].data, scratch[1].size};
    }
    if (options & BERT_LOWERCASE)
        unicode_put_lowercase(run, out);
    else
        buffer_add_text(out, run);
}

static void fold(struct text text, unsigned options, struct buffer *out)
{
    struct buffer scratch[2] = {0};
    char ascii[128];
    fill_ascii(options & BERT_LOWERCASE, ascii);
    for (size_t at = 0; at < text.size;) {
        size_t end = at = add_ascii(text, at, ascii, true, out);
        while (end < text.size && (unsigned char)text.data[end] >= 0x80)
            end++;
        if (end > at)
            add_other((struct text){text.data + at, end - at}, options, scratch, out);
        at = end;
    }
    out->failed |= scratch[0].failed || scratch[1].failed;
    buffer_finish(&scratch[0]);
    buffer_finish(&scratch[1]);
}

static bool is_all_ascii(struct text text)
{
    unsigned char all = 0;
    for (size_t i = 0; i < text.size; i++)
        all |= (unsigned char)text.data[i];
    return all < 0x80;
}

void bert_normalize(struct text text, unsigned options, struct buffer *out)
{
    struct buffer cleaned = {0};
    if (is_all_ascii(text)) { // nothing to decompose
        clean(text, options, out);
        return;
    }
    if (options & (BERT_CLEAN | BERT_CHINESE)) {
        clean(text, options & ~(unsigned)BERT_LOWERCASE, &cleaned);
        text = (struct text){cleaned.data, cleaned.size};
    }
    if (options & (BERT_ACCENTS | BERT_LOWERCASE))
        fold(text, options, out);
    else
        buffer_add_text(out, text);
    out->failed |= cleaned.failed;
    buffer_finish(&cleaned);
}

// --- StripAccents, Nmt ---

static bool is_combining(uint32_t codepoint)
{
    enum unicode_category category = unicode_category_of(codepoint);
    bool is_mark = category >= CATEGORY_MN && category <= CATEGORY_ME;
    return (is_mark && !is_in(since_unicode_9, COUNT(since_unicode_9), codepoint)) || codepoint == 0x1CF2 ||
           codepoint == 0x1CF3;
}

void bert_strip_accents(struct text text, struct buffer *out)
{
    add_without(text, is_combining, out);
}

static uint32_t nmt_of(uint32_t codepoint) // 0xFFFFFFFF: dropped
{
    bool is_control = (codepoint >= 1 && codepoint <= 8) || codepoint == 0xB ||
                      (codepoint >= 0xE && codepoint <= 0x1F) || codepoint == 0x7F || codepoint == 0x8F ||
                      codepoint == 0x9F;
    bool is_space = codepoint == 9 || codepoint == 0xA || codepoint == 0xC || codepoint == 0xD ||
                    codepoint == 0x1680 || (codepoint >= 0x200B && codepoint <= 0x200F) ||
                    codepoint == 0x2028 || codepoint == 0x2029 || codepoint == 0x2581 ||
                    codepoint == 0xFEFF || codepoint == 0xFFFD;
    return is_control ? UINT32_MAX : is_space ? ' ' : codepoint;
}

void bert_normalize_nmt(struct text text, struct buffer *out)
{
    for (size_t at = 0, size; at < text.size; at += size) {
        uint32_t codepoint;
        size = utf8_decode(text.data + at, text.size - at, &codepoint);
        uint32_t mapped = size ? nmt_of(codepoint) : 0;
        if (size && mapped == ' ')
            buffer_add_byte(out, ' ');
        else if (mapped != UINT32_MAX)
            buffer_add(out, text.data + at, size ? size : 1);
        size = size ? size : 1;
    }
}
