// Text and buffers, UTF-8, base64, arenas, errors, hashes.
#include "schemas/base/arena.h"
#include "schemas/base/base64.h"
#include "schemas/base/error.h"
#include "schemas/base/hash.h"
#include "schemas/base/nearest.h"
#include "schemas/base/text.h"
#include "tests/support/cases.h"

#include <stdalign.h>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

TEST(texts_compare_by_their_bytes)
{
    assert_true(text_equal(TEXT("a\0b"), TEXT("a\0b")));
    assert_false(text_equal(TEXT("a\0b"), TEXT("a\0c")));
    assert_false(text_equal(TEXT("a"), TEXT("ab")));
    assert_true(text_equal((struct text){0}, TEXT("")));
    assert_true(text_equals_string(TEXT("abc"), "abc"));
    assert_true(text_equals_string((struct text){0}, NULL));
    assert_int_equal(text_from_string("abc").size, 3);
    assert_int_equal(text_from_string(NULL).size, 0);
}

TEST(a_buffer_grows_and_always_ends_in_nul)
{
    struct buffer buffer = {0};
    for (int i = 0; i < 1000; i++) {
        buffer_add_byte(&buffer, 'x');
        assert_int_equal(strlen(buffer.data), (size_t)i + 1);
    }
    buffer_clear(&buffer);
    assert_true(buffer.size == 0 && buffer.data[0] == '\0');
    buffer_add_string(&buffer, "a");
    buffer_add_text(&buffer, TEXT("b\0c"));
    buffer_add_format(&buffer, "%d%s", 7, "d");
    buffer_add(&buffer, NULL, 0);
    assert_int_equal(buffer.size, 6);
    assert_memory_equal(buffer.data, "ab\0c7d", 7);
    buffer_finish(&buffer);
    assert_null(buffer.data);
    buffer_finish(&buffer);
}

TEST(integers_are_written_in_decimal)
{
    const int64_t integers[] = {0, 7, -7, 10, 1000000, INT64_MAX, INT64_MIN};
    const char *const texts[] = {
        "0", "7", "-7", "10", "1000000", "9223372036854775807", "-9223372036854775808"};
    struct buffer all = {0};
    for (size_t i = 0; i < sizeof integers / sizeof *integers; i++) {
        char out[INTEGER_TEXT_BYTES];
        struct text text = text_from_integer(integers[i], out);
        assert_true(text_equals_string(text, texts[i]));
        buffer_clear(&all);
        buffer_add_integer(&all, integers[i]);
        assert_string_equal(all.data, texts[i]);
    }
    buffer_finish(&all);
}

TEST(a_buffer_takes_its_limit_and_nothing_beyond)
{
    struct buffer buffer = {.size_max = 10};
    buffer_add_string(&buffer, "0123456789");
    assert_false(buffer.failed);
    buffer_add_byte(&buffer, 'x');
    assert_true(buffer.failed);
    assert_string_equal(buffer.data, "0123456789");
    buffer_clear(&buffer);
    buffer_add_format(&buffer, "%011d", 1);
    assert_true(buffer.failed && buffer.size == 0);
    buffer_add_byte(&buffer, 'x'); // failed stays
    assert_int_equal(buffer.size, 0);
    buffer_finish(&buffer);
    buffer_add(&buffer, "x", 1);
    assert_false(buffer_reserve(&buffer, SIZE_MAX));
    assert_true(buffer.failed && buffer.size == 1);
    buffer_finish(&buffer);
}

TEST(utf8_is_decoded_and_encoded_at_every_boundary)
{
    static const struct {
        uint32_t codepoint;
        const char *bytes;
    } cases[] = {{0x01, "\x01"},
                 {0x7F, "\x7F"},
                 {0x80, "\xC2\x80"},
                 {0x7FF, "\xDF\xBF"},
                 {0x800, "\xE0\xA0\x80"},
                 {0xD7FF, "\xED\x9F\xBF"},
                 {0xE000, "\xEE\x80\x80"},
                 {0xFFFF, "\xEF\xBF\xBF"},
                 {0x10000, "\xF0\x90\x80\x80"},
                 {0x10FFFF, "\xF4\x8F\xBF\xBF"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t size = strlen(cases[i].bytes);
        uint32_t codepoint = 0;
        char encoded[4];
        assert_int_equal(utf8_decode(cases[i].bytes, size, &codepoint), size);
        assert_int_equal(codepoint, cases[i].codepoint);
        assert_int_equal(utf8_encode(codepoint, encoded), size);
        assert_memory_equal(encoded, cases[i].bytes, size);
        assert_true(utf8_valid(cases[i].bytes, size));
        for (size_t cut = 0; cut < size; cut++) {
            assert_int_equal(utf8_decode(cases[i].bytes, cut, &codepoint), 0);
            assert_int_equal(utf8_valid(cases[i].bytes, cut), cut == 0);
            assert_int_equal(utf8_complete_prefix(cases[i].bytes, cut),
                             0); // all of it may still become whole
        }
        assert_int_equal(utf8_complete_prefix(cases[i].bytes, size), size);
    }
}

TEST(what_utf8_forbids_is_refused)
{
    static const char *const cases[] = {
        "\x80",         "\xBF",         "\xC0\x80",         "\xC1\xBF",         "\xE0\x9F\xBF",
        "\xED\xA0\x80", "\xED\xBF\xBF", "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80",
        "\xFF",         "\xC2x",        "\xE1\x80x",        "\xF1\x80\x80x"};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint32_t codepoint;
        assert_int_equal(utf8_decode(cases[i], strlen(cases[i]), &codepoint), 0);
        assert_false(utf8_valid(cases[i], strlen(cases[i])));
        // It can't become valid: shown rather than awaited.
        assert_int_equal(utf8_complete_prefix(cases[i], strlen(cases[i])), strlen(cases[i]));
    }
    assert_int_equal(utf8_complete_prefix("ab\xE2\x82", 4), 2);
    assert_int_equal(utf8_complete_prefix("ab\xE2\x82\xAC\xF0\x9F", 7), 5);
    assert_int_equal(utf8_complete_prefix("\x80\x80\x80\x80", 4), 4);
}

TEST(texts_are_made_one_printable_line)
{
    static const struct {
        const char *given, *expected;
    } cases[] = {
        {"a\nb\tc\x7F", "a b c "},
        {"a\xFF\xC3\xA9", "a?\xC3\xA9"},
        {"cut \xE2\x82", "cut "},
        {"", ""},
        {"\033]0;x\a", " ]0;x "},
        {"a\xC2\x9B"
         "31mb\xC2\xA0",
         "a 31mb\xC2\xA0"}, // CSI of one character
        {"\xE2\x80\xAE"
         "a\xE2\x81\xA6"
         "b\xE2\x80\xA8",
         " a b "}, // U+202E, U+2066, U+2028
        {"\xD8\x9C"
         "a\xD8\x9B\xD8\x9D",
         " a\xD8\x9B\xD8\x9D"}, // U+061C and its neighbors
        {"\xE2\x80\x8D\xE2\x80\xAF\xE2\x81\xA5", "\xE2\x80\x8D\xE2\x80\xAF\xE2\x81\xA5"}, // their neighbors
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char line[32];
        strcpy(line, cases[i].given);
        utf8_make_printable(line);
        assert_string_equal(line, cases[i].expected);
        struct buffer out = {0};
        buffer_add_string(&out, "|");
        buffer_add_printable(&out, text_from_string(cases[i].given), 0);
        buffer_add_string(&out, "|");
        buffer_add_printable(&out, TEXT("\033\xE4\xBD\xA0"), 5); // two columns wide
        buffer_add_printable(&out, (struct text){0}, 2);
        assert_memory_equal(out.data + 1, cases[i].expected, strlen(cases[i].expected));
        assert_string_equal(out.data + 1 + strlen(cases[i].expected), "| \xE4\xBD\xA0    ");
        buffer_finish(&out);
    }
}

// RFC 4648, section 10.
TEST(base64_is_the_rfcs)
{
    static const struct {
        const char *bytes, *text;
    } cases[] = {{"", ""},
                 {"f", "Zg=="},
                 {"fo", "Zm8="},
                 {"foo", "Zm9v"},
                 {"foob", "Zm9vYg=="},
                 {"fooba", "Zm9vYmE="},
                 {"foobar", "Zm9vYmFy"},
                 {"\xFF\xFE\xFD", "//79"},
                 {"\xFB\xEF\xBE", "++++"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct buffer text = {0}, bytes = {0};
        base64_encode(text_from_string(cases[i].bytes), &text);
        assert_true(text_equals_string((struct text){text.data, text.size}, cases[i].text));
        assert_true(base64_decode((struct text){text.data, text.size}, &bytes));
        assert_true(text_equals_string((struct text){bytes.data, bytes.size}, cases[i].bytes));
        buffer_finish(&text);
        buffer_finish(&bytes);
    }
}

TEST(what_is_not_base64_is_refused)
{
    static const char *const cases[] = {"Z",        "Zg",     "Zg=",  "Zh==", "Zm9=", "Z===", "====",
                                        "Zg==Zg==", "Zm9v\n", "Zm9-", "Z=9v", "=m9v", "Zm 9"};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct buffer bytes = {0};
        buffer_add_string(&bytes, "kept");
        assert_false(base64_decode(text_from_string(cases[i]), &bytes));
        assert_int_equal(bytes.size, 4);
        assert_false(bytes.failed);
        buffer_finish(&bytes);
    }
    struct buffer small = {.size_max = 2};
    assert_false(base64_decode(TEXT("Zm9v"), &small));
    assert_true(small.failed);
    buffer_finish(&small);
}

TEST(an_arena_gives_zeroed_aligned_memory)
{
    struct arena arena = {0};
    for (size_t size = 0; size < 5000; size += 37) {
        unsigned char *memory = arena_allocate(&arena, size);
        assert_non_null(memory);
        assert_int_equal((uintptr_t)memory % 16, 0);
        for (size_t i = 0; i < size; i++)
            assert_int_equal(memory[i], 0);
        memset(memory, 0xAA, size);
    }
    char *copy = arena_copy(&arena, "a\0b", 3);
    assert_memory_equal(copy, "a\0b", 4);
    assert_string_equal(arena_copy(&arena, NULL, 0), "");
    assert_true(arena.total_bytes >= arena.used_bytes);
    arena_finish(&arena);
    assert_null(arena.chunks);
    assert_int_equal(arena.total_bytes, 0);
    arena_finish(&arena);
}

TEST(an_arena_within_the_callers_memory_uses_it_first_and_leaves_it_alone)
{
    struct arena arena;
    alignas(16) unsigned char memory[256];
    for (size_t size = 0; size <= sizeof memory; size += 16) {
        memset(memory, 0xAA, sizeof memory);
        arena_init_within(&arena, memory, size);
        for (int i = 0; i < 20; i++) {
            unsigned char *taken = arena_allocate(&arena, 24);
            assert_non_null(taken);
            for (int j = 0; j < 24; j++)
                assert_int_equal(taken[j], 0);
            memset(taken, 0xBB, 24);
            bool is_within = taken >= memory && taken < memory + sizeof memory;
            assert_true(!is_within || taken + 24 <= memory + size);
            if (i == 0)
                assert_int_equal(is_within, size >= 64); // what an arena writes of its own, and 32
        }
        assert_int_equal(size < sizeof memory ? memory[sizeof memory - 1] : 0xAA, 0xAA);
        arena_finish(&arena);
        assert_null(arena.chunks);
    }
}

TEST(an_arena_holds_what_is_larger_than_its_chunks)
{
    struct arena arena = {0};
    char *small = arena_allocate(&arena, 10), *large = arena_allocate(&arena, 5 << 20),
         *next = arena_allocate(&arena, 10);
    assert_true(small && large && next);
    memset(large, 1, 5 << 20);
    assert_int_equal(small[0] + next[0], 0);
    arena_finish(&arena);
}

TEST(an_arena_s_reserve_holds_what_was_reserved)
{
    static const size_t sizes[] = {0, 1000, (2 << 20) - 100, 2 << 20, 5 << 20};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct arena arena = {0};
        assert_non_null(arena_allocate(&arena, 10));
        assert_true(arena_reserve(&arena, sizes[i]));
        size_t total_bytes = arena.total_bytes;
        unsigned char *first = NULL, *last = NULL;
        for (size_t taken = 0; taken + 1000 <= sizes[i]; taken += 1000) {
            last = arena_allocate(&arena, 900); // and its gap
            first = first ? first : last;
            assert_int_equal(last[0] | last[899], 0);
            memset(last, 1, 900);
        }
        assert_true(arena_reserve(&arena, 0));
        assert_int_equal(arena.total_bytes, total_bytes);
        assert_true(!last || (size_t)(last - first) < sizes[i]);
        arena_finish(&arena);
    }
    struct arena arena = {0};
    assert_false(arena_reserve(&arena, SIZE_MAX));
    assert_false(arena_reserve(&arena, SIZE_MAX / 2));
    assert_null(arena.chunks);
}

// Found by the address sanitizer alone.
TEST(what_an_arena_did_not_give_is_nobodys)
{
    struct arena arena = {0};
    alignas(16) unsigned char memory[256];
#ifdef __SANITIZE_ADDRESS__
    for (size_t size = 1; size <= 64; size++) {
        unsigned char *taken = arena_allocate(&arena, size), *next = arena_allocate(&arena, 1);
        assert_true(next > taken + size);
        assert_null(__asan_region_is_poisoned(taken, size));
        assert_ptr_equal(__asan_region_is_poisoned(taken, size + 1), taken + size);
        assert_true(__asan_address_is_poisoned(next + 1));
    }
    arena_finish(&arena);
    arena_init_within(&arena, memory, sizeof memory);
    assert_true(__asan_address_is_poisoned(memory + sizeof memory - 1));
#endif
    arena_finish(&arena);
    memset(memory, 0, sizeof memory); // the caller's again
}

TEST(sizes_that_overflow_get_no_memory)
{
    struct arena arena = {0};
    assert_null(arena_allocate(&arena, SIZE_MAX));
    assert_null(arena_allocate(&arena, SIZE_MAX - 16));
    assert_null(arena_allocate_array(&arena, SIZE_MAX / 2, 3));
    assert_null(arena_allocate_array(&arena, 2, SIZE_MAX));
    assert_null(arena_copy(&arena, "", SIZE_MAX));
    assert_non_null(arena_allocate_array(&arena, 0, SIZE_MAX));
    arena_finish(&arena);
}

TEST(an_error_is_one_line_of_utf8)
{
    struct error error;
    assert_int_equal(error_set(&error, STATUS_REJECT, ERROR_FILE, "%s: line\n%d", "a\xFF", 3), STATUS_REJECT);
    assert_string_equal(error.text, "a?: line 3");
    assert_int_equal(error.code, ERROR_FILE);
    char euros[3 * 400 + 1] = "";
    for (int i = 0; i < 400; i++)
        strcat(euros, "\xE2\x82\xAC");
    for (int lead = 0; lead < 3; lead++) {
        error_set(&error, STATUS_RETRY, ERROR_STORE, "%.*s%s", lead, "xx", euros);
        assert_true(utf8_valid(error.text, strlen(error.text)));
        assert_in_range(strlen(error.text), ERROR_TEXT_BYTES - 3, ERROR_TEXT_BYTES - 1);
    }
}

TEST(a_context_stands_before_an_errors_text)
{
    struct error error;
    error_set(&error, STATUS_REFUSE, ERROR_MODEL_FILE, "no magic");
    assert_int_equal(error_prefix(&error, "%s", "model.gguf"), STATUS_REFUSE);
    assert_string_equal(error.text, "model.gguf: no magic");
    assert_int_equal(error.code, ERROR_MODEL_FILE);
    char long_name[2 * ERROR_TEXT_BYTES];
    memset(long_name, 'x', sizeof long_name - 1);
    long_name[sizeof long_name - 1] = '\0';
    error_prefix(&error, "%s", long_name);
    assert_int_equal(strlen(error.text), ERROR_TEXT_BYTES - 1);
    error_set(&error, STATUS_REFUSE, ERROR_MODEL_FILE, "%s", long_name);
    error_prefix(&error, "a\xC3\xA9");
    assert_int_equal(strncmp(error.text, "a\xC3\xA9: xxx", 8), 0);
    assert_int_equal(strlen(error.text), ERROR_TEXT_BYTES - 1);
    error_set(&error, STATUS_REFUSE, ERROR_MODEL_FILE, "no magic");
    error_prefix(&error, "model %ls", (const wchar_t[]){0x110000, 0}); // no character: printf fails
    assert_string_equal(error.text, ": no magic");
}

TEST(every_error_code_has_a_name_of_its_own)
{
    for (int code = 1; code < ERROR_CODE_COUNT; code++) {
        assert_non_null(error_code_name((enum error_code)code));
        assert_int_equal(error_code_from_name(error_code_name((enum error_code)code)), code);
    }
    assert_int_equal(error_code_from_name("no such code"), ERROR_NONE);
}

// Seeds of jobs and stored prefix hashes depend on these values: XXH3 with seed 0 and others, as xxhsum -H3
// gives them.
TEST(hashes_are_the_same_on_every_machine)
{
    assert_true(hash_bytes("", 0, 0) == 0x2D06800538D394C2u);
    assert_true(hash_bytes("abc", 3, 0) == 0x78AF5F94892F3950u);
    assert_true(hash_bytes("abc", 3, 1) != hash_bytes("abc", 3, 0));
    enum { N = 1 << 20 };
    uint8_t *long_one = malloc(N);
    assert_non_null(long_one);
    for (uint64_t i = 0; i < N; i++)
        long_one[i] = (uint8_t)(i * i >> 3);
    assert_true(hash_bytes(long_one, N, 7) == 0x20CD2CC6EA0AA6A9u);
    assert_true(hash_bytes(long_one, N - 1, 0) == 0x481DAB76F02B072Au);
    free(long_one);
}

TEST(columns_are_those_of_a_terminal)
{
    // a, e with an acute accent apart, a joiner, CJK, half-width katakana, an emoji, a byte that is no UTF-8
    static const char text[] = "ae\xCC\x81\xE2\x80\x8D\xE4\xB8\xAD\xEF\xBD\xB1\xF0\x9F\x98\x80\xFF";
    static const size_t ends[] = {0, 1, 7, 7, 10, 13, 13, 17, 18}; // of the prefix by columns
    assert_int_equal(utf8_columns(text, sizeof text - 1), 8);
    for (size_t n = 0; n < sizeof ends / sizeof *ends; n++)
        assert_int_equal(utf8_columns_prefix(text, sizeof text - 1, n, 100), ends[n]);
    assert_int_equal(utf8_columns_prefix(text, sizeof text - 1, 100, 9), 7); // no part of a character
    assert_int_equal(utf8_columns_prefix(text, sizeof text - 1, 100, 10), 10);
    static const uint32_t edges[][2] = {{0x2FF, 1},   {0x300, 0},   {0x36F, 0},   {0x370, 1},   {0x200A, 1},
                                        {0x200B, 0},  {0x200D, 0},  {0x200E, 1},  {0x10FF, 1},  {0x1100, 2},
                                        {0x115F, 2},  {0x1160, 1},  {0xD7A3, 2},  {0x1F64F, 2}, {0x1F650, 1},
                                        {0x1FFFF, 1}, {0x20000, 2}, {0x3FFFD, 2}, {0x3FFFE, 1}};
    for (size_t i = 0; i < sizeof edges / sizeof *edges; i++) {
        char out[4];
        assert_int_equal(utf8_columns(out, utf8_encode(edges[i][0], out)), edges[i][1]);
    }
}

TEST(the_nearest_name_differs_in_at_most_half_of_its_bytes)
{
    static const struct text names[] = {TEXT("title"), TEXT("text"), TEXT("n")};
    assert_true(text_equal(nearest_name(TEXT("titel"), names, 3), names[0]));
    assert_true(text_equal(nearest_name(TEXT("txt"), names, 3), names[1]));
    assert_true(text_equal(nearest_name(TEXT("txet"), names, 3), names[1]));
    const struct text shortened[] = {TEXT("max-rows"), TEXT("max-tokens")};
    assert_true(text_equal(nearest_name(TEXT("max-tok"), shortened, 2), shortened[1]));
    assert_true(text_equal(nearest_name(TEXT("max-tok"), shortened + 1, 1), shortened[1]));
    assert_null(nearest_name(TEXT("ma"), shortened, 2).data);
    assert_null(nearest_name(TEXT("other"), names, 3).data);
    assert_null(nearest_name(TEXT(""), names, 3).data);
    char most[65];
    memset(most, 't', sizeof most);
    const struct text known = {most, 63};
    assert_true(text_equal(nearest_name((struct text){most, 64}, &known, 1), known));
    assert_null(nearest_name((struct text){most, 65}, &known, 1).data);
    const struct text longer = {most, 65};
    assert_null(nearest_name((struct text){most, 64}, &longer, 1).data);
}
