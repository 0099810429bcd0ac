// Text in other encodings, read in pieces of any size.
#include "consumer/command/files/text_decoder.h"
#include "tests/support/cases.h"

static struct buffer out;
static struct error error;

static enum status decode(struct text_decoder *decoder, struct text bytes, size_t n_at_once)
{
    enum status status = STATUS_OK;
    buffer_clear(&out);
    buffer_add_string(&out, "");
    text_decoder_rewind(decoder);
    for (size_t i = 0; i < bytes.size && status == STATUS_OK; i += n_at_once) {
        size_t n = bytes.size - i < n_at_once ? bytes.size - i : n_at_once;
        status = text_decoder_add(decoder, (struct text){bytes.data + i, n}, &out, &error);
    }
    return status == STATUS_OK ? text_decoder_end(decoder, &error) : status;
}

static void assert_decoded(struct text_decoder decoder, struct text bytes, const char *expected)
{
    for (size_t n = 1; n <= bytes.size; n++)
        for (int round = 0; round < 2; round++) {
            assert_ok(decode(&decoder, bytes, n), &error);
            assert_int_equal(out.size, strlen(expected));
            assert_memory_equal(out.data ? out.data : "", expected, out.size);
        }
}

TEST(each_byte_of_windows_and_latin_1_is_a_character)
{
    for (int byte = 1; byte < 256; byte++) {
        char bytes[] = {(char)byte}, expected[8] = "";
        struct text text = {bytes, 1};
        (void)utf8_encode((uint32_t)byte, expected);
        assert_decoded((struct text_decoder){.encoding = TEXT_LATIN1}, text, expected);
        if (byte < 0x80 || byte > 0x9F)
            assert_decoded((struct text_decoder){.encoding = TEXT_CP1252}, text, expected);
    }
    assert_decoded((struct text_decoder){.encoding = TEXT_CP1252}, TEXT("\x80 \x93\xE9\x94 \x9F \x81"),
                   "\xE2\x82\xAC \xE2\x80\x9C\xC3\xA9\xE2\x80\x9D \xC5\xB8 \xC2\x81");
}

TEST(utf_16_has_both_orders_and_surrogate_pairs)
{
    static const char little[] = "\xFF\xFE"
                                 "a\0"
                                 "\xAC\x20"
                                 "\x3D\xD8\x00\xDE";
    static const char big[] = "\xFE\xFF"
                              "\0a"
                              "\x20\xAC"
                              "\xD8\x3D\xDE\x00";
    static const char expected[] = "\xEF\xBB\xBF"
                                   "a"
                                   "\xE2\x82\xAC"
                                   "\xF0\x9F\x98\x80";
    assert_decoded((struct text_decoder){.encoding = TEXT_UTF16}, (struct text){little, sizeof little - 1},
                   expected);
    assert_decoded((struct text_decoder){.encoding = TEXT_UTF16_BIG}, (struct text){big, sizeof big - 1},
                   expected);
}

TEST(bytes_that_are_no_utf_16_are_refused_with_their_offset)
{
    static const struct {
        const char *bytes;
        size_t n;
        const char *words;
    } bad[] = {{"a\0"
                "\x00\xDC",
                4, "byte 2: expected UTF-16, got half of a surrogate pair"},
               {"a\0"
                "\x00\xD8"
                "b\0",
                6, "byte 2: expected UTF-16, got half of a surrogate pair"},
               {"a\0b", 3, "byte 2: expected UTF-16, got the end of the file within a character"},
               {"\x00\xD8", 2, "byte 0: expected UTF-16, got the end of the file within a character"}};
    struct text_decoder decoder = {.encoding = TEXT_UTF16};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        for (size_t n = 1; n <= bad[i].n; n++) {
            assert_int_equal(decode(&decoder, (struct text){bad[i].bytes, bad[i].n}, n), STATUS_REFUSE);
            assert_string_equal(error.text, bad[i].words);
        }
}

TEST(lines_at_the_beginning_are_left_out)
{
    assert_decoded((struct text_decoder){.n_lines_skipped = 2},
                   TEXT("\xEF\xBB\xBF"
                        "a\r\n\nb\nc"),
                   "b\nc");
    assert_decoded((struct text_decoder){.n_lines_skipped = 3}, TEXT("a\nb\nc"), "");
    assert_decoded((struct text_decoder){.n_lines_skipped = 1, .encoding = TEXT_CP1252}, TEXT("\xE9\n\xE9"),
                   "\xC3\xA9");
}

TEST(a_cr_alone_becomes_a_line_feed_and_cr_lf_stays_one_end)
{
    struct text_decoder decoder = {.ends_at_returns = true};
    assert_decoded(decoder, TEXT("a\rb\r\rc\r\nd\r"), "a\nb\n\nc\nd\n");
    assert_decoded((struct text_decoder){0}, TEXT("a\rb\r\n"), "a\rb\r\n");
    decoder.n_lines_skipped = 1;
    assert_decoded(decoder, TEXT("a\rb\r"), "b\n");
}

static const char *guess(struct text bytes, size_t n_at_once)
{
    struct text_guess guess = text_guess_begin();
    for (size_t i = 0; i < bytes.size; i += n_at_once)
        text_guess_add(&guess, (struct text){bytes.data + i,
                                             bytes.size - i < n_at_once ? bytes.size - i : n_at_once});
    return text_guess_name(&guess);
}

TEST(the_encoding_that_fits_is_named)
{
    static const struct {
        struct text bytes;
        const char *name;
    } cases[] = {{TEXT("plain"), NULL},
                 {TEXT("\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80"), NULL},
                 {TEXT("\xC3"), "cp1252"},
                 {TEXT("caf\xE9"), "cp1252"},
                 {TEXT("\x93"
                       "caf\xE9\x94"),
                  "cp1252"},
                 {TEXT("caf\xE9 \x81"), "latin1"},
                 {TEXT("\xE2\x82"
                       "a"),
                  "cp1252"},
                 {TEXT("a\0b\0c\0"), "utf-16"},
                 {TEXT("\0a\0b\0c"), "utf-16be"},
                 {TEXT(""), NULL}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (size_t n = 1; n <= cases[i].bytes.size + 1; n++) {
            const char *name = guess(cases[i].bytes, n);
            assert_string_equal(name ? name : "none", cases[i].name ? cases[i].name : "none");
        }
}

TEST(names_of_encodings)
{
    enum text_encoding encoding;
    assert_true(text_encoding_parse("Windows-1252", &encoding));
    assert_int_equal(encoding, TEXT_CP1252);
    assert_true(text_encoding_parse("latin1", &encoding));
    assert_int_equal(encoding, TEXT_LATIN1);
    assert_false(text_encoding_parse("", &encoding));
    assert_false(text_encoding_parse("utf-7", &encoding));
}

static int finish(void **state)
{
    buffer_finish(&out);
    return 0;
}

GROUP_FIXTURE(NULL, finish);
