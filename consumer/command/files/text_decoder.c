#include "consumer/command/files/text_decoder.h"

#include <assert.h>
#include <strings.h>

// windows-1252 from 0x80 to 0x9F (encoding.spec.whatwg.org, index-windows-1252). Elsewhere it is Latin-1.
static const uint16_t cp1252[32] = {
    0x20AC, 0x0081, 0x201A, 0x0192, 0x201E, 0x2026, 0x2020, 0x2021, 0x02C6, 0x2030, 0x0160,
    0x2039, 0x0152, 0x008D, 0x017D, 0x008F, 0x0090, 0x2018, 0x2019, 0x201C, 0x201D, 0x2022,
    0x2013, 0x2014, 0x02DC, 0x2122, 0x0161, 0x203A, 0x0153, 0x009D, 0x017E, 0x0178,
};

bool text_encoding_parse(const char *name, enum text_encoding *encoding)
{
    static const struct {
        const char *name;
        enum text_encoding encoding;
    } names[] = {{"utf-8", TEXT_UTF8},     {"utf8", TEXT_UTF8},           {"utf-16", TEXT_UTF16},
                 {"utf16", TEXT_UTF16},    {"utf-16le", TEXT_UTF16},      {"utf-16be", TEXT_UTF16_BIG},
                 {"cp1252", TEXT_CP1252},  {"windows-1252", TEXT_CP1252}, {"latin1", TEXT_LATIN1},
                 {"latin-1", TEXT_LATIN1}, {"iso-8859-1", TEXT_LATIN1}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcasecmp(names[i].name, name) == 0) {
            *encoding = names[i].encoding;
            return true;
        }
    return false;
}

void text_decoder_rewind(struct text_decoder *decoder)
{
    decoder->n_left = decoder->n_lines_skipped;
    decoder->after_return = false;
    decoder->n_kept = 0;
    decoder->offset = 0;
}

// Writes one character, or a byte of one in UTF-8.
static void put(struct text_decoder *decoder, const char *bytes, size_t n, struct buffer *out)
{
    bool is_feed = *bytes == '\n', is_return = *bytes == '\r' && decoder->ends_at_returns;
    if (is_feed && decoder->after_return) { // CR LF was written as LF
        decoder->after_return = false;
        return;
    }
    decoder->after_return = is_return;
    if (decoder->n_left > 0)
        decoder->n_left -= is_feed || is_return;
    else if (is_return)
        buffer_add_byte(out, '\n');
    else
        buffer_add(out, bytes, n);
}

static void put_codepoint(struct text_decoder *decoder, uint32_t codepoint, struct buffer *out)
{
    char bytes[4];
    size_t n = utf8_encode(codepoint, bytes);
    put(decoder, bytes, n, out);
}

static void add_single_bytes(struct text_decoder *decoder, struct text bytes, struct buffer *out)
{
    for (size_t i = 0; i < bytes.size; i++) {
        unsigned char byte = (unsigned char)bytes.data[i];
        bool is_mapped = decoder->encoding == TEXT_CP1252 && byte >= 0x80 && byte <= 0x9F;
        put_codepoint(decoder, is_mapped ? cp1252[byte - 0x80] : byte, out);
    }
}

static uint32_t unit_at(const struct text_decoder *decoder, const unsigned char *bytes)
{
    bool is_big = decoder->encoding == TEXT_UTF16_BIG;
    return (uint32_t)bytes[is_big ? 0 : 1] << 8 | bytes[is_big ? 1 : 0];
}

static enum status refuse_bytes(const struct text_decoder *decoder, const char *what, struct error *error)
{
    return error_set(error, STATUS_REFUSE, ERROR_FILE, "byte %llu: expected UTF-16, got %s",
                     (unsigned long long)(decoder->offset - decoder->n_kept), what);
}

static enum status add_utf16(struct text_decoder *decoder, struct text bytes, struct buffer *out,
                             struct error *error)
{
    for (size_t i = 0; i < bytes.size; i++) {
        decoder->kept[decoder->n_kept++] = (unsigned char)bytes.data[i];
        decoder->offset++;
        if (decoder->n_kept % 2)
            continue;
        uint32_t first = unit_at(decoder, decoder->kept);
        bool is_high = first >= 0xD800 && first < 0xDC00;
        if (is_high && decoder->n_kept == 2)
            continue;
        uint32_t second = is_high ? unit_at(decoder, decoder->kept + 2) : 0;
        if ((is_high && (second < 0xDC00 || second > 0xDFFF)) || (first >= 0xDC00 && first <= 0xDFFF))
            return refuse_bytes(decoder, "half of a surrogate pair", error);
        decoder->n_kept = 0;
        put_codepoint(decoder, is_high ? 0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00) : first, out);
    }
    return STATUS_OK;
}

static void add_utf8(struct text_decoder *decoder, struct text bytes, struct buffer *out)
{
    size_t i = 0;
    while (i < bytes.size && (decoder->n_left > 0 || decoder->ends_at_returns))
        put(decoder, bytes.data + i++, 1, out);
    buffer_add(out, bytes.data + i, bytes.size - i);
}

enum status text_decoder_add(struct text_decoder *decoder, struct text bytes, struct buffer *out,
                             struct error *error)
{
    if (decoder->encoding == TEXT_UTF16 || decoder->encoding == TEXT_UTF16_BIG)
        return add_utf16(decoder, bytes, out, error);
    if (decoder->encoding == TEXT_UTF8)
        add_utf8(decoder, bytes, out);
    else
        add_single_bytes(decoder, bytes, out);
    return STATUS_OK;
}

enum status text_decoder_end(const struct text_decoder *decoder, struct error *error)
{
    return decoder->n_kept ? refuse_bytes(decoder, "the end of the file within a character", error)
                           : STATUS_OK;
}

// ---- a guess ----

struct text_guess text_guess_begin(void)
{
    return (struct text_guess){.is_utf8 = true, .is_defined = true};
}

static void check_utf8(struct text_guess *guess, struct text bytes)
{
    while (guess->n_kept && bytes.size && guess->is_utf8) {
        assert(guess->n_kept < sizeof guess->kept);
        guess->kept[guess->n_kept++] = (unsigned char)*bytes.data;
        bytes = (struct text){bytes.data + 1, bytes.size - 1};
        uint32_t codepoint;
        if (utf8_decode((const char *)guess->kept, guess->n_kept, &codepoint))
            guess->n_kept = 0;
        else
            guess->is_utf8 = utf8_complete_prefix((const char *)guess->kept, guess->n_kept) == 0;
    }
    size_t whole = utf8_complete_prefix(bytes.data, bytes.size);
    guess->is_utf8 = guess->is_utf8 && utf8_valid(bytes.data, whole);
    if (!guess->n_kept && guess->is_utf8) {
        guess->n_kept = bytes.size - whole;
        memcpy(guess->kept, bytes.data + whole, guess->n_kept);
    }
}

void text_guess_add(struct text_guess *guess, struct text bytes)
{
    if (guess->is_utf8 && bytes.size)
        check_utf8(guess, bytes);
    for (size_t i = 0; i < bytes.size; i++, guess->n++) {
        unsigned char byte = (unsigned char)bytes.data[i];
        if (byte == 0)
            *(guess->n % 2 ? &guess->n_odd_nuls : &guess->n_even_nuls) += 1;
        if (byte < 0x80 || byte > 0x9F)
            continue;
        guess->has_control = true;
        guess->is_defined = guess->is_defined && (cp1252[byte - 0x80] > 0x9F);
    }
}

const char *text_guess_name(const struct text_guess *guess)
{
    // text in UTF-16 has a zero in most of its pairs, always on the same side
    uint64_t most = guess->n_odd_nuls > guess->n_even_nuls ? guess->n_odd_nuls : guess->n_even_nuls;
    uint64_t least = guess->n_odd_nuls + guess->n_even_nuls - most;
    if (most > guess->n / 8 && least * 8 < most)
        return guess->n_odd_nuls > guess->n_even_nuls ? "utf-16" : "utf-16be";
    if (guess->is_utf8 && !guess->n_kept)
        return NULL;
    return guess->is_defined ? "cp1252" : "latin1";
}
