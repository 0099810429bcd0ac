// Value trees in msgpack.
#include "schemas/json_read.h"
#include "tests/support/cases.h"
#include "tests/support/random.h"
#include "tests/unit/schemas/library_json.h"
#include "tests/unit/schemas/value_texts.h"

#include <float.h>
#include <math.h>

TEST(bad_utf8_is_refused_in_both_encodings)
{
    const char *const cases[] = {"\xFF", "\xC0\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xE2\x82", "\x80"};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char json[32], msgpack[32];
        int size = snprintf(json, sizeof json, "{\"a\":\"%s\"}", cases[i]);
        assert_fault(from_json_bytes((struct text){json, (size_t)size}), ERROR_INVALID_ENCODING,
                     "not valid JSON");
        size = snprintf(msgpack, sizeof msgpack, "%c%s", (int)(0xA0 + strlen(cases[i])), cases[i]);
        assert_fault(from_msgpack((struct text){msgpack, (size_t)size}), ERROR_INVALID_ENCODING, "not UTF-8");
    }
}

TEST(a_key_given_twice_is_refused_in_both_encodings)
{
    assert_fault(from_json("{\"a\":1,\"b\":2,\"a\":3}"), ERROR_INVALID_ENCODING, "duplicate");
    assert_fault(from_json("[{\"\\u0061\":1,\"a\":3}]"), ERROR_INVALID_ENCODING, "duplicate");
    assert_fault(from_msgpack(TEXT("\x91\x83\xA1"
                                   "a\x01\xA1"
                                   "b\x02\xA1"
                                   "a\x03")),
                 ERROR_INVALID_ENCODING, "duplicate key \"a\"");
    // Past the size where pairs are compared one by one.
    for (int n_keys = 20; n_keys <= 300; n_keys += 40) {
        struct buffer out = {0};
        buffer_add(&out, (char[]){(char)0xDE, (char)((n_keys + 1) >> 8), (char)(n_keys + 1)}, 3);
        for (int i = 0; i <= n_keys; i++)
            buffer_add_format(&out, "%ckey%03d%c", 0xA6, i == n_keys ? n_keys / 2 : i, 0x01);
        assert_fault(from_msgpack((struct text){out.data, out.size}), ERROR_INVALID_ENCODING,
                     "duplicate key");
        out.data[out.size - 2] = 'x';
        struct decoded_value decoded = from_msgpack((struct text){out.data, out.size});
        assert_int_equal(decoded.status, STATUS_OK);
        arena_finish(&decoded.arena);
        buffer_finish(&out);
    }
}

TEST(msgpack_reads_every_form_of_a_value)
{
    const struct {
        struct text bytes;
        const char *json;
    } cases[] = {
        {TEXT("\xC0"), "null"},
        {TEXT("\x93\xC2\xC3\x7F"), "[false,true,127]"},
        {TEXT("\x94\xCC\xFF\xCD\xFF\xFF\xCE\xFF\xFF\xFF\xFF\xE0"), "[255,65535,4294967295,-32]"},
        {TEXT("\xCF\x7F\xFF\xFF\xFF\xFF\xFF\xFF\xFF"), "9223372036854775807"},
        {TEXT("\xCF\x80\x00\x00\x00\x00\x00\x00\x00"), "9223372036854775808"},
        {TEXT("\x93\xD0\x80\xD1\x80\x00\xD2\x80\x00\x00\x00"), "[-128,-32768,-2147483648]"},
        {TEXT("\xD3\x80\x00\x00\x00\x00\x00\x00\x00"), "-9223372036854775808"},
        {TEXT("\xCA\x3F\x33\x33\x33"), "0.7"},
        {TEXT("\xCB\x3F\xE6\x66\x66\x66\x66\x66\x66"), "0.7"},
        {TEXT("\x95\xA0\xA1x\xD9\x01x\xDA\x00\x01x\xDB\x00\x00\x00\x01x"), "[\"\",\"x\",\"x\",\"x\",\"x\"]"},
        {TEXT("\x94\xC4\x00\xC4\x01\x01\xC5\x00\x02\x01\x02\xC6\x00\x00\x00\x03\xFF\xFF\xFE"),
         "[\"\",\"AQ==\",\"AQI=\",\"///+\"]"},
        {TEXT("\xDC\x00\x01\xDD\x00\x00\x00\x01\xDE\x00\x01\xA1x\xDF\x00\x00\x00\x01\xA0\x80"),
         "[[{\"x\":{\"\":{}}}]]"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct text input = exact_copy(cases[i].bytes.data, cases[i].bytes.size);
        struct decoded_value decoded = from_msgpack(input);
        if (decoded.status != STATUS_OK)
            fail_msg("%s: %s", cases[i].json, decoded.error.text);
        struct buffer out = {0};
        json_encode(&decoded.value, &out);
        assert_string_equal(out.data, cases[i].json);
        buffer_finish(&out);
        arena_finish(&decoded.arena);
        // Every shorter input ends early.
        for (size_t size = 0; size < input.size; size++) {
            struct text cut = exact_copy(input.data, size);
            decoded = from_msgpack(cut);
            assert_int_equal(decoded.status, STATUS_REJECT);
            arena_finish(&decoded.arena);
            free((void *)cut.data);
        }
        free((void *)input.data);
    }
}

TEST(numbers_of_any_length_keep_their_digits)
{
    static const char text[] =
        "[123456789012345678901234567890,-9223372036854775809,18446744073709551615,0.1000000000000000055,1e-400]";
    struct decoded_value json = from_json(text);
    struct buffer msgpack = {0}, again = {0};
    assert_int_equal(json.status, STATUS_OK);
    msgpack_encode(&json.value, &msgpack);
    struct decoded_value decoded = from_msgpack((struct text){msgpack.data, msgpack.size});
    assert_int_equal(decoded.status, STATUS_OK);
    assert_true(value_equal(&decoded.value, &json.value));
    json_encode(&decoded.value, &again);
    assert_string_equal(again.data, text);
    arena_finish(&json.arena);
    arena_finish(&decoded.arena);
    buffer_finish(&msgpack);
    buffer_finish(&again);
}

TEST(what_is_not_msgpack_is_refused)
{
    const struct {
        struct text bytes;
        const char *part;
    } cases[] = {
        {TEXT(""), "ends early"},
        {TEXT("\xC1"), "unknown type byte"},
        {TEXT("\x01\x02"), "1 bytes after"},
        {TEXT("\x81\x01\x02"), "not a string"},
        {TEXT("\x81\xC4\x01x\x02"), "not a string"},
        {TEXT("\x81\x90\x02"), "not a string"},
        {TEXT("\xC7\x01\x05x"), "extension"},
        {TEXT("\xC7\x00\x05"), "extension"},
        {TEXT("\xD4\x05x"), "only type 1"},
        {TEXT("\xD4\x05\x37"), "only type 1"}, // a number's text
        {TEXT("\xC7\x00\x01"), "not the text of a JSON number"},
        {TEXT("\xD4\x01x"), "not the text of a JSON number"},
        {TEXT("\xD5\x01[]"), "not the text of a JSON number"},
        {TEXT("\xD6\xFF\x00\x00\x00\x00"), "extension"}, // a timestamp
        {TEXT("\xC9\xFF\xFF\xFF\xFF\x05"), "not valid msgpack"},
        {TEXT("\xCA\x7F\xC0\x00\x00"), "not finite"},
        {TEXT("\xCB\xFF\xF0\x00\x00\x00\x00\x00\x00"), "not finite"},
        {TEXT("\xDB\xFF\xFF\xFF\xFFx"), "ends early"},
        {TEXT("\xDD\xFF\xFF\xFF\xFF\x01"), "more items than the record holds"},
        {TEXT("\xDF\xFF\xFF\xFF\xFF\xA0"), "more items than the record holds"},
        {TEXT("\x92\xDC\x00\x05\x01\x01"), "more items than the record holds"},
        {TEXT("\x91\x84\xA0\x01"), "more items than the record holds"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct text input = exact_copy(cases[i].bytes.data, cases[i].bytes.size);
        assert_fault(from_msgpack(input), ERROR_INVALID_ENCODING, cases[i].part);
        free((void *)input.data);
    }
}

// Containers that each declare as much as the whole input: the sum counts, not each one.
TEST(memory_stays_in_proportion_to_the_input)
{
    struct buffer bomb = {0};
    for (int i = 0; i < 60; i++)
        buffer_add(&bomb, "\xDD\x00\x04\x00\x00", 5);
    while (bomb.size < 1 << 18)
        buffer_add_byte(&bomb, 1);
    struct decoded_value decoded = from_msgpack((struct text){bomb.data, bomb.size});
    assert_true(decoded.arena.total_bytes < 40 * bomb.size);
    assert_fault(decoded, ERROR_INVALID_ENCODING, "more items than the record holds");
    buffer_finish(&bomb);
}

TEST(msgpack_is_written_in_the_shortest_forms)
{
    const struct {
        struct text bytes;
        const char *json;
    } cases[] = {
        {TEXT("\xC0"), "null"},
        {TEXT("\x92\xC2\xC3"), "[false,true]"},
        {TEXT("\x96\x7F\xCC\x80\xCC\xFF\xCD\x01\x00\xCD\xFF\xFF\xCE\x00\x01\x00\x00"),
         "[127,128,255,256,65535,65536]"},
        {TEXT("\x92\xCE\xFF\xFF\xFF\xFF\xCF\x00\x00\x00\x01\x00\x00\x00\x00"), "[4294967295,4294967296]"},
        {TEXT("\x92\xCF\x7F\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xCF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF"),
         "[9223372036854775807,18446744073709551615]"},
        {TEXT("\x95\xFF\xE0\xD0\xDF\xD0\x80\xD1\xFF\x7F"), "[-1,-32,-33,-128,-129]"},
        {TEXT("\x92\xD2\xFF\xFF\x7F\xFF\xD3\xFF\xFF\xFF\xFF\x7F\xFF\xFF\xFF"), "[-32769,-2147483649]"},
        {TEXT("\x82\xA1"
              "a\xA0\xA1"
              "b\xCB\x3F\xE0\x00\x00\x00\x00\x00\x00"),
         "{\"a\":\"\",\"b\":0.5}"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct decoded_value decoded = from_json(cases[i].json);
        struct buffer out = {0};
        msgpack_encode(&decoded.value, &out);
        assert_int_equal(out.size, cases[i].bytes.size);
        assert_memory_equal(out.data, cases[i].bytes.data, out.size);
        buffer_finish(&out);
        arena_finish(&decoded.arena);
    }
    struct buffer out = {0};
    struct value single = value_single(0.5f);
    msgpack_encode(&single, &out);
    assert_memory_equal(out.data, "\xCA\x3F\x00\x00\x00", out.size);
    buffer_finish(&out);
}

TEST(lengths_change_their_form_at_the_right_size)
{
    const struct {
        size_t size;
        size_t head;
    } cases[] = {{31, 1}, {32, 2}, {255, 2}, {256, 3}, {65535, 3}, {65536, 5}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *data = calloc(1, cases[i].size);
        assert_non_null(data);
        struct value value = value_string((struct text){data, cases[i].size});
        struct buffer out = {0};
        msgpack_encode(&value, &out);
        assert_int_equal(out.size, cases[i].head + cases[i].size);
        struct decoded_value decoded = from_msgpack((struct text){out.data, out.size});
        assert_true(decoded.status == STATUS_OK && value_equal(&decoded.value, &value));
        arena_finish(&decoded.arena);
        buffer_finish(&out);
        free(data);
    }
}

TEST(strings_that_are_not_utf8_are_written_with_replacement_characters)
{
    struct buffer out = {0};
    json_encode_string(TEXT("a\xFF\xC3\xA9\xC3"), &out);
    assert_string_equal(out.data, "\"a\xEF\xBF\xBD\xC3\xA9\xEF\xBF\xBD\"");
    buffer_finish(&out);
}
