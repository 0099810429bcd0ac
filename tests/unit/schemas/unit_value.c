// Value trees, their JSON and their msgpack.
#include "schemas/json_answer.h"
#include "schemas/json_read.h"
#include "schemas/json_token.h"
#include "tests/support/cases.h"
#include "tests/support/random.h"
#include "tests/unit/schemas/library_json.h"
#include "tests/unit/schemas/value_texts.h"

#include <float.h>
#include <math.h>

static void assert_json(const char *input, const char *expected)
{
    struct decoded_value decoded = from_json(input);
    if (decoded.status != STATUS_OK)
        fail_msg("%s: %s", input, decoded.error.text);
    struct buffer out = {0};
    json_encode(&decoded.value, &out);
    assert_string_equal(out.data, expected);
    buffer_finish(&out);
    arena_finish(&decoded.arena);
}

TEST(json_is_read_and_written_compactly_in_the_same_order)
{
    assert_json(" { \"b\" : [ 1 , -2.5, true , false , null ] , \"a\" : { } , \"\" : [ ] } ",
                "{\"b\":[1,-2.5,true,false,null],\"a\":{},\"\":[]}");
    assert_json("\"text\"", "\"text\"");
    assert_json("0", "0");
    assert_json("null", "null");
}

TEST(json_strings_keep_every_character)
{
    assert_json("\"\\u0041\\n\\t\\\"\\\\\\/\\b\\f\\r\\u0001\\u001f\"",
                "\"A\\n\\t\\\"\\\\/\\b\\f\\r\\u0001\\u001f\"");
    assert_json("\"\\ud83d\\ude00 \xC3\xA9 \\u00e9\"", "\"\xF0\x9F\x98\x80 \xC3\xA9 \xC3\xA9\"");
    assert_json("\"a\\u0000b\"", "\"a\\u0000b\"");
    assert_json("\"\x7F\"", "\"\x7F\"");
}

// Strings are looked at sixteen and eight bytes at a time, and by the writer at the last ones in words that overlap.
TEST(a_byte_to_escape_is_found_at_each_place_of_a_string)
{
    static const struct {
        char byte;
        const char *escaped, *read; // as written, as read again
    } cases[] = {{'"', "\\\"", "\""},
                 {'\\', "\\\\", "\\"},
                 {'\x1F', "\\u001f", "\x1F"},
                 {'\n', "\\n", "\n"},
                 {'\xFF', "\xEF\xBF\xBD", "\xEF\xBF\xBD"},
                 {'\x7F', "\x7F", "\x7F"},
                 {'\x20', " ", " "}};
    enum { SIZE_MAX_TESTED = 52 };
    char as[SIZE_MAX_TESTED + 1] = {0};
    memset(as, 'a', SIZE_MAX_TESTED);
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        for (int size = 1; size <= SIZE_MAX_TESTED; size++) {
            for (int place = 0; place < size; place++) {
                char text[64], expected[96], read[96];
                memset(text, 'a', sizeof text); // behind the string too
                text[place] = cases[c].byte;
                snprintf(expected, sizeof expected, "\"%.*s%s%.*s\"", place, as, cases[c].escaped,
                         size - place - 1, as);
                snprintf(read, sizeof read, "%.*s%s%.*s", place, as, cases[c].read, size - place - 1, as);
                struct buffer out = {0};
                json_encode_string((struct text){text, (size_t)size}, &out);
                assert_string_equal(out.data, expected);
                char strings[96];
                struct text decoded;
                struct json_cursor cursor = json_cursor((struct text){out.data, out.size}, strings);
                assert_true(json_take_string(&cursor, &decoded) && cursor.at == cursor.end);
                assert_int_equal(decoded.size, strlen(read));
                assert_memory_equal(decoded.data, read, decoded.size);
                buffer_finish(&out);
            }
        }
    }
}

TEST(json_numbers_keep_their_kind_and_value)
{
    assert_json("[9223372036854775807,-9223372036854775808]", "[9223372036854775807,-9223372036854775808]");
    assert_json("[1.0,-0.0,1e2,1e300,0.1]", "[1.0,-0.0,100.0,1e+300,0.1]");
    // Numbers that are neither an int64 nor a double keep their digits, in every place a number can stand.
    assert_json("[5e-324,1e-999,0e-999,0.30000000000000004]", "[5e-324,1e-999,0.0,0.30000000000000004]");
    assert_json("9223372036854775808", "9223372036854775808");
    assert_json("[18446744073709551615,18446744073709551616]", "[18446744073709551615,18446744073709551616]");
    assert_json("[-9223372036854775809,1]", "[-9223372036854775809,1]");
    assert_json("{\"a\":123456789012345678901234567890,\"b\":\"123456789012345678901234567890\"}",
                "{\"a\":123456789012345678901234567890,\"b\":\"123456789012345678901234567890\"}");
    assert_fault(from_json("1e999"), ERROR_INVALID_ENCODING, "overflow");
}

TEST(spelled_numbers_are_written_as_they_were_read)
{
    static const char text[] =
        "[2.50,-0,1E5,0.1000000000000000055511151231257827,18446744073709551615,7,[-0.0,1e-400]]";
    struct arena arena = {0}, other = {0};
    struct value value, copy;
    struct error error;
    struct buffer out = {0};
    assert_ok(json_decode_spelled(text_from_string(text), &arena, &value, &error), &error);
    assert_true(value_copy(&value, &other, &copy));
    arena_finish(&arena); // the copy has digits of its own
    json_encode(&copy, &out);
    assert_string_equal(out.data, text);
    const struct value *items = copy.array.items;
    assert_true(items[0].number == 2.5 && items[2].number == 1e5 && items[5].integer == 7);
    assert_true(value_is_long_integer(&items[4]));
    for (int i = 0; i < 4; i++)
        assert_false(value_is_long_integer(&items[i]));
    struct value a, b;
    assert_ok(json_decode(TEXT("18446744073709551615"), &other, &a, &error), &error);
    assert_ok(json_decode(TEXT("18446744073709551614"), &other, &b, &error), &error);
    assert_true(a.number == b.number && !value_equal(&a, &b) && value_equal(&a, &items[4]));
    buffer_clear(&out);
    msgpack_encode(&b, &out);
    assert_int_equal(out.size, 9); // a uint64
    assert_ok(msgpack_decode((struct text){out.data, out.size}, &other, &a, &error), &error);
    assert_true(value_equal(&a, &b));
    buffer_finish(&out);
    arena_finish(&other);
}

TEST(of_members_with_one_key_an_answer_has_the_last)
{
    static const struct {
        const char *text, *read;
    } cases[] = {{"{\"a\":1,\"b\":2}", "{\"a\":1,\"b\":2}"},
                 {"{\"a\":1,\"b\":2.50,\"a\":3,\"c\":4,\"a\":5}", "{\"a\":5,\"b\":2.50,\"c\":4}"},
                 {"{\"a\":1,\"\\u0061\":{\"x\":1,\"x\":[]}}", "{\"a\":{\"x\":[]}}"},
                 {"{\"\":1,\"\\u0000\":2,\"\\u0000\":3}", "{\"\":1,\"\\u0000\":3}"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct arena arena = {0};
        struct value value;
        struct error error;
        struct buffer out = {0};
        assert_ok(json_decode_answer(text_from_string(cases[i].text), &arena, &value, &error), &error);
        json_encode(&value, &out);
        assert_string_equal(out.data, cases[i].read);
        buffer_finish(&out);
        arena_finish(&arena);
    }
}

TEST(of_many_equal_keys_an_answer_has_the_last)
{
    struct arena arena = {0};
    struct buffer text = {0};
    struct value value;
    struct error error;
    for (int i = 0; i < 3000; i++)
        buffer_add_format(&text, "%c\"k%d\":%d", i ? ',' : '{', i * 7 % 1000, i);
    buffer_add_byte(&text, '}');
    assert_ok(json_decode_answer((struct text){text.data, text.size}, &arena, &value, &error), &error);
    assert_int_equal(value.object.n_members, 1000);
    for (int i = 0; i < 1000; i++) {
        char key[16];
        snprintf(key, sizeof key, "k%d", i * 7 % 1000);
        assert_true(text_equals_string(value.object.members[i].key, key));
        assert_int_equal(value.object.members[i].value.integer, 2000 + i);
    }
    assert_int_equal(json_decode_answer(TEXT("{\"a\":1,\"a\":"), &arena, &value, &error), STATUS_REJECT);
    buffer_finish(&text);
    arena_finish(&arena);
}

// The shortest digits that read back to the same double, or to the same float32.
TEST(numbers_are_written_with_the_fewest_digits)
{
    const struct {
        struct value value;
        const char *text;
    } cases[] = {{value_float(0.7), "0.7"},
                 {value_float(1.0 / 3), "0.3333333333333333"},
                 {value_float(123456789.5), "123456789.5"},
                 {value_float(1e15), "1e+15"},
                 {value_float(999999), "999999.0"},
                 {value_float(-1e6), "-1000000.0"},
                 {value_float(DBL_MAX), "1.7976931348623157e+308"},
                 {value_float(NAN), "null"},
                 {value_float(-INFINITY), "null"},
                 {value_single(0.7f), "0.7"},
                 {value_single(0.1f), "0.1"},
                 {value_single(-1.2345678f), "-1.2345678"},
                 {value_single(16777216.0f), "16777216.0"},
                 {value_single(FLT_MAX), "3.4028235e+38"},
                 {value_single(FLT_MIN), "1.1754944e-38"},
                 {value_single(2.0f), "2.0"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct buffer out = {0};
        json_encode(&cases[i].value, &out);
        assert_string_equal(out.data, cases[i].text);
        buffer_finish(&out);
    }
}

TEST(every_float_reads_back_as_itself)
{
    uint64_t random_state = random_seed(1);
    for (int i = 0; i < 20000; i++) {
        uint64_t random = (uint64_t)random_bits(&random_state) << 32 | random_bits(&random_state);
        double number;
        float single;
        uint32_t low = (uint32_t)random;
        memcpy(&number, &random, sizeof number);
        memcpy(&single, &low, sizeof single);
        if (!isfinite(number) || !isfinite(single))
            continue;
        struct value pair[2] = {value_float(number), value_single(single)};
        struct value array = {.kind = VALUE_ARRAY, .array = {pair, 2}};
        struct buffer json = {0}, msgpack = {0};
        json_encode(&array, &json);
        msgpack_encode(&array, &msgpack);
        struct decoded_value a = from_json(json.data),
                             b = from_msgpack((struct text){msgpack.data, msgpack.size});
        assert_int_equal(a.status, STATUS_OK);
        assert_int_equal(b.status, STATUS_OK);
        assert_true(value_equal(&a.value, &array) && value_equal(&b.value, &array));
        arena_finish(&a.arena);
        arena_finish(&b.arena);
        buffer_finish(&json);
        buffer_finish(&msgpack);
    }
}

// ---- the two readers of JSON ----

enum { READER_VALUES_MAX = 64, READER_ROUNDS = 60000 };

// Our reader keeps digits of doubles that the library rounds.
static void drop_fractions_digits(struct value *value)
{
    if (value->kind == VALUE_FLOAT && !value_is_long_integer(value))
        value->digits = NULL;
    for (size_t i = 0; value->kind == VALUE_ARRAY && i < value->array.n_items; i++)
        drop_fractions_digits(&value->array.items[i]);
    for (size_t i = 0; value->kind == VALUE_OBJECT && i < value->object.n_members; i++)
        drop_fractions_digits(&value->object.members[i].value);
}

static bool same_values(const struct value *a, const struct value *b)
{
    // value_equal takes 1 for 1 whatever the sign of zero; text does not.
    struct buffer left = {0}, right = {0};
    json_encode(a, &left);
    json_encode(b, &right);
    bool same = value_equal(a, b) && left.size == right.size && memcmp(left.data, right.data, left.size) == 0;
    buffer_finish(&left);
    buffer_finish(&right);
    return same;
}

// The library reads all that our reader reads, as the same value, but for long integers; what it leaves is a
// fault, or beyond a limit, or has a NUL behind a number, which the library skips.
static void compare_readers(struct text input, size_t *n_read)
{
    struct arena arena = {0};
    struct value read = {.kind = VALUE_NULL}, expected = {.kind = VALUE_NULL};
    struct error error = {0};
    char *strings = arena_allocate(&arena, input.size + 1);
    bool done = json_read(input, READER_VALUES_MAX, JSON_STRICT, &arena, strings, &read, &error) == STATUS_OK;
    bool by_library = library_json_read(input, &arena, &expected);
    drop_fractions_digits(&read);
    size_t n_digits = 0, n_digits_most = 0;
    for (size_t i = 0; i < input.size; i++) {
        n_digits = input.data[i] >= '0' && input.data[i] <= '9' ? n_digits + 1 : 0;
        n_digits_most = n_digits > n_digits_most ? n_digits : n_digits_most;
    }
    if (done && (by_library ? !same_values(&read, &expected) : n_digits_most < 19))
        fail_msg("read otherwise than by the library: %.*s", (int)input.size, input.data);
    bool may_be_refused =
        (input.size && memchr(input.data, 0, input.size)) || error.code == ERROR_LIMIT_EXCEEDED;
    if (!done && by_library && !may_be_refused)
        fail_msg("%s: %.*s", error.text, (int)input.size, input.data);
    *n_read += done;
    arena_finish(&arena);
}

TEST(both_readers_of_json_read_the_same)
{
    static const char *const texts[] = {
        "{\"custom_id\": \"job 1\", \"prompt\":\"a longer text, of more than eight bytes\\nand "
        "\\\"quotes\\\" \u00fc\u20ac\", \"n\": 1}",
        "[0, -0, 1, -1, 0.5, -0.0, 1e3, 1E-3, 123456789012345678, "
        "9223372036854775807, 9223372036854775808, 1e309, 1e-400]",
        " { \"a\" : [ true , false , null , { } , [ ] ] , \"b\" : { \"a\" : \"\" } }\r\n\t",
        "\"\\u0041\\u00e9\\u20ac\\ud83d\\ude00\\u0000\\/\\b\\f\\n\\r\\t\\\\\"",
        "[\"\\ud83d\", \"\\ude00\", \"\\ud83dx\", \"\xF0\x9F\x98\x80\", \"\xED\xA0\x80\", \"\x7F\"]",
        "{\"a\":1,\"b\":2,\"a\":3}",
        "{\"k\\u0000\":1}",
        "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[["
        "1]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]",
        "[1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7,8,9,1,2,3,4,"
        "5,6,7,8,9,1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7,8,9]",
        "01",
        "1.",
        ".5",
        "+1",
        "-",
        "1e",
        "tru",
        "nulll",
        "{",
        "}",
        "[1,]",
        "{,}",
        "{\"a\"}",
        "\"\x01\"",
        "",
        " ",
        "\"",
    };
    static const char bytes[] = "{}[],:\"\\ \t\n0123456789.-+eEtfnu\0ab\xC3\xA9\xFF\x1F";
    uint64_t random_state = random_seed(0x5EED);
    size_t n_read = 0;
    for (int round = 0; round < READER_ROUNDS; round++) {
        const char *text = texts[(size_t)round % (sizeof texts / sizeof *texts)];
        struct text input = exact_copy(text, strlen(text));
        // First unchanged, then with up to three bytes changed, and cut off now and then.
        for (int change = 0; input.size && change < round % 4 && round >= 100; change++) {
            size_t at = random_below(&random_state, (uint32_t)input.size);
            ((char *)input.data)[at] = bytes[random_below(&random_state, sizeof bytes - 1)];
        }
        if (round % 16 == 15 && input.size)
            input.size = random_below(&random_state, (uint32_t)input.size);
        compare_readers(input, &n_read);
        free((char *)input.data);
    }
    assert_in_range(n_read, READER_ROUNDS / 20, READER_ROUNDS - 1);
}

TEST(a_nul_byte_is_kept_in_strings_and_refused_in_keys)
{
    struct decoded_value decoded = from_json("[\"a\\u0000b\"]");
    assert_int_equal(decoded.status, STATUS_OK);
    assert_int_equal(decoded.value.array.items[0].text.size, 3);
    arena_finish(&decoded.arena);
    decoded = from_msgpack(TEXT("\xA3"
                                "a\0b"));
    assert_int_equal(decoded.status, STATUS_OK);
    assert_memory_equal(decoded.value.text.data, "a\0b", 3);
    arena_finish(&decoded.arena);
    assert_fault(from_json("{\"a\\u0000b\":1}"), ERROR_INVALID_ENCODING, "not valid JSON");
    assert_fault(from_msgpack(TEXT("\x81\xA3"
                                   "a\0b\x01")),
                 ERROR_INVALID_ENCODING, "NUL");
}

TEST(nesting_is_read_to_the_limit_and_refused_beyond_it)
{
    for (int depth = VALUE_DEPTH_MAX; depth <= VALUE_DEPTH_MAX + 1; depth++) {
        char json[2 * VALUE_DEPTH_MAX + 2], msgpack[VALUE_DEPTH_MAX + 1];
        memset(json, '[', (size_t)depth);
        memset(json + depth, ']', (size_t)depth);
        memset(msgpack, '\x91', (size_t)depth);
        msgpack[depth - 1] = '\x90';
        struct decoded_value a = from_json_bytes((struct text){json, 2 * (size_t)depth});
        struct decoded_value b = from_msgpack((struct text){msgpack, (size_t)depth});
        if (depth == VALUE_DEPTH_MAX) {
            assert_int_equal(a.status, STATUS_OK);
            assert_int_equal(b.status, STATUS_OK);
            assert_true(value_equal(&a.value, &b.value));
            arena_finish(&a.arena);
            arena_finish(&b.arena);
        } else {
            assert_fault(a, ERROR_LIMIT_EXCEEDED, "64 levels");
            assert_fault(b, ERROR_LIMIT_EXCEEDED, "64 levels");
        }
    }
    // A long run of brackets is refused before any of it is built.
    struct buffer bomb = {0};
    for (int i = 0; i < 1 << 20; i++)
        buffer_add_byte(&bomb, '[');
    assert_fault(from_json_bytes((struct text){bomb.data, bomb.size}), ERROR_LIMIT_EXCEEDED, "64 levels");
    memset(bomb.data, '\x91', bomb.size);
    assert_fault(from_msgpack((struct text){bomb.data, bomb.size}), ERROR_LIMIT_EXCEEDED, "64 levels");
    buffer_finish(&bomb);
}

TEST(values_are_counted_to_the_limit_and_refused_beyond_it)
{
    for (uint32_t n_items = VALUE_COUNT_MAX - 1; n_items <= VALUE_COUNT_MAX;
         n_items++) { // and the array itself
        struct buffer json = {0}, msgpack = {0};
        buffer_add_byte(&json, '[');
        buffer_add(&msgpack,
                   (char[]){(char)0xDD, (char)(n_items >> 24), (char)(n_items >> 16), (char)(n_items >> 8),
                            (char)n_items},
                   5);
        for (uint32_t i = 0; i < n_items; i++) {
            buffer_add_string(&json, i ? ",1" : "1");
            buffer_add_byte(&msgpack, 1);
        }
        buffer_add_byte(&json, ']');
        struct decoded_value a = from_json_bytes((struct text){json.data, json.size});
        struct decoded_value b = from_msgpack((struct text){msgpack.data, msgpack.size});
        if (n_items < VALUE_COUNT_MAX) {
            assert_int_equal(a.status, STATUS_OK);
            assert_int_equal(b.status, STATUS_OK);
            assert_true(a.arena.total_bytes + b.arena.total_bytes < 2 * 32 * (size_t)VALUE_COUNT_MAX);
            assert_true(value_equal(&a.value, &b.value));
            arena_finish(&a.arena);
            arena_finish(&b.arena);
        } else {
            assert_fault(a, ERROR_LIMIT_EXCEEDED, "1048576 values");
            assert_fault(b, ERROR_LIMIT_EXCEEDED, "1048576 values");
        }
        buffer_finish(&json);
        buffer_finish(&msgpack);
    }
}

TEST(keys_count_as_values)
{
    struct buffer json = {0}, msgpack = {0};
    uint32_t n_members = VALUE_COUNT_MAX / 2; // with the object itself: one too many
    buffer_add_byte(&json, '{');
    buffer_add(&msgpack,
               (char[]){(char)0xDF, 0, (char)(n_members >> 16), (char)(n_members >> 8), (char)n_members}, 5);
    for (uint32_t i = 0; i < n_members; i++) {
        buffer_add_format(&json, "%s\"%06x\":1", i ? "," : "", i);
        buffer_add_format(&msgpack, "\xA6%06x%c", i, 1);
    }
    buffer_add_byte(&json, '}');
    assert_fault(from_json_bytes((struct text){json.data, json.size}), ERROR_LIMIT_EXCEEDED,
                 "1048576 values");
    assert_fault(from_msgpack((struct text){msgpack.data, msgpack.size}), ERROR_LIMIT_EXCEEDED,
                 "1048576 values");
    buffer_finish(&json);
    buffer_finish(&msgpack);
}

TEST(a_record_beyond_the_size_limit_is_refused_unread)
{
    struct text huge = {"", (size_t)VALUE_INPUT_BYTES_MAX + 1};
    assert_fault(from_json_bytes(huge), ERROR_LIMIT_EXCEEDED, "67108865 bytes");
    assert_fault(from_msgpack(huge), ERROR_LIMIT_EXCEEDED, "67108865 bytes");
    char *blanks = malloc(VALUE_INPUT_BYTES_MAX);
    assert_non_null(blanks);
    memset(blanks, ' ', VALUE_INPUT_BYTES_MAX);
    blanks[VALUE_INPUT_BYTES_MAX - 1] = '1';
    struct decoded_value decoded = from_json_bytes((struct text){blanks, VALUE_INPUT_BYTES_MAX});
    assert_int_equal(decoded.status, STATUS_OK);
    arena_finish(&decoded.arena);
    memcpy(blanks, "\xDB\x03\xFF\xFF\xFB", 5); // a string that fills the rest
    decoded = from_msgpack((struct text){blanks, VALUE_INPUT_BYTES_MAX});
    assert_int_equal(decoded.status, STATUS_OK);
    arena_finish(&decoded.arena);
    free(blanks);
}

TEST(a_full_buffer_is_reported_once_at_the_end)
{
    struct decoded_value decoded = from_json("[\"0123456789\",\"0123456789\"]");
    struct buffer out = {.size_max = 20};
    json_encode(&decoded.value, &out);
    assert_true(out.failed && out.size <= 20);
    buffer_clear(&out);
    msgpack_encode(&decoded.value, &out);
    assert_true(out.failed && out.size <= 20);
    buffer_finish(&out);
    arena_finish(&decoded.arena);
}

TEST(values_are_built_found_and_compared)
{
    struct arena arena = {0};
    struct value object, items;
    assert_true(value_object_create(&arena, 3, &object));
    assert_true(value_array_create(&arena, 2, &items));
    items.array.items[0] = value_bool(true);
    items.array.items[1] = value_integer(-7);
    value_put(&object, "items", items);
    value_put(&object, "name", value_string(TEXT("n")));
    assert_int_equal(value_get(&object, "items")->array.items[1].integer, -7);
    assert_true(text_equals_string(value_get(&object, "name")->text, "n"));
    assert_null(value_get(&object, "nam"));
    assert_null(value_get(&items, "name"));
    struct decoded_value same = from_json("{\"items\":[true,-7],\"name\":\"n\"}"),
                         other = from_json("{\"name\":\"n\",\"items\":[true,-7]}");
    assert_true(value_equal(&object, &same.value));
    assert_false(value_equal(&object, &other.value));
    assert_false(value_has_bytes(&object));
    struct value copied;
    assert_true(value_copy(&object, &arena, &copied) && value_equal(&object, &copied));
    items.array.items[0] = (struct value){.kind = VALUE_BYTES};
    assert_true(value_has_bytes(&object));
    arena_finish(&arena);
    arena_finish(&same.arena);
    arena_finish(&other.arena);
}

TEST(what_is_no_json_is_refused_with_its_byte_and_cause)
{
    static const struct {
        const char *json, *cause;
    } cases[] = {{"\"\\u0041", "byte 7: the string does not end"},
                 {"\"\\u004", "byte 3: \\u without four hexadecimal digits"},
                 {"\"\\u00g1\"", "byte 6: \\u without four hexadecimal digits"},
                 {"\"\\uD83D\\uDE00", "byte 13: the string does not end"},
                 {"\"\\uD83Dx\"", "byte 7: the first half of a surrogate pair without the second"},
                 {"\"\\uD83D\\u0041\"", "the first half of a surrogate pair without the second"},
                 {"\"\\uDE00\"", "byte 7: the second half of a surrogate pair without the first"},
                 {"\"\\uDFFF\"", "the second half of a surrogate pair without the first"},
                 {"\"a", "byte 2: the string does not end"},
                 {"\"\\x\"", "byte 3: no such escape"},
                 {"\"\\", "byte 2: the string does not end"},
                 {"\"\x1F\"", "byte 1: a control character in a string"},
                 {"[1,", "byte 3: expected a value, got the end"},
                 {"[1 2]", "byte 3: expected ',' or ']'"},
                 {"{\"a\" 1}", "byte 5: expected ':'"},
                 {"{\"a\":}", "byte 5: expected a value"},
                 {"{\"a\":1,}", "byte 7: expected a string"},
                 {"{\"a\":1 \"b\"}", "byte 7: expected ',' or '}'"},
                 {"tru", "byte 0: expected a value"},
                 {"-", "byte 1: expected a digit"},
                 {"01", "byte 2: a number with a leading zero"},
                 {"1.", "byte 2: expected a digit"},
                 {"1e+", "byte 3: expected a digit"},
                 {"1e999", "overflow"},
                 {"", "byte 0: expected a value, got the end"},
                 {"  ", "byte 2: expected a value, got the end"},
                 {"}", "byte 0: expected a value"},
                 {"{", "byte 1: expected a string"},
                 {"[1,]", "byte 3: expected a value"},
                 {"{a:1}", "byte 1: expected a string"},
                 {"[1] 2", "byte 4: something after the value"},
                 {"+1", "byte 0: expected a value"},
                 {".5", "byte 0: expected a value"},
                 {"'a'", "byte 0: expected a value"},
                 {"NaN", "byte 0: expected a value"},
                 {"Infinity", "byte 0: expected a value"},
                 {"//", "byte 0: expected a value"},
                 {"[123456789012345678901234567890", "not valid JSON"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct text input = exact_copy(cases[i].json, strlen(cases[i].json));
        struct decoded_value decoded = from_json_bytes(input);
        assert_non_null(strstr(decoded.error.text, "not valid JSON"));
        assert_fault(decoded, ERROR_INVALID_ENCODING, cases[i].cause);
        free((char *)input.data);
    }
}

TEST(a_copy_outlives_what_it_was_copied_from)
{
    static const char json[] =
        "{\"items\":[\"a\",[],{\"inner\":[\"b\",{\"deepest\":\"c\"}]},{}],\"name\":\"n\"}";
    struct text source = exact_copy(json, sizeof json - 1);
    struct decoded_value original = from_json_bytes(source);
    assert_int_equal(original.status, STATUS_OK);
    struct arena arena = {0};
    struct value copied;
    assert_true(value_copy(&original.value, &arena, &copied));
    struct value *member = &original.value.object.members[0].value.array.items[2].object.members[0].value;
    *member = value_bool(false);
    original.value.object.members[1].key = TEXT("other");
    memset((char *)source.data, 'x', source.size);
    struct decoded_value expected = from_json(json);
    assert_true(value_equal(&copied, &expected.value));
    arena_finish(&original.arena);
    free((char *)source.data);
    assert_true(value_equal(&copied, &expected.value)); // the address sanitizer looks on
    arena_finish(&expected.arena);
    arena_finish(&arena);
}

TEST(values_are_described_in_a_few_words)
{
    static const struct {
        const char *json, *description;
    } cases[] = {
        {"null", "null"},
        {"-1.5", "-1.5"},
        {"\"a\\nb\"", "\"a\\nb\""},
        {"[1,[],{}]", "[1,[],{}]"},
        {"\"0123456789012345678901234567890123456789012345678901234567890\"",
         "\"0123456789012345678901234567890123456789012345678901234567890\""},
        {"\"01234567890123456789012345678901234567890123456789012345678901\"",
         "\"01234567890123456789012345678901234567890123456789012345678..."},
        {"\"0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456"
         "789\"",
         "\"01234567890123456789012345678901234567890123456789012345678..."},
        {"\"012345678901234567890123456789012345678901234567890123456\u20ac\u20ac\u20ac\u20ac\u20ac\"",
         "\"012345678901234567890123456789012345678901234567890123456..."},
        {"[\"0123456789012345678901234567890123456789012345678901234567890\",2,3]", "an array of 3"},
        {"{\"0123456789012345678901234567890123456789012345678901234567890\":1}", "an object of 1 members"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char description[VALUE_DESCRIPTION_BYTES];
        struct decoded_value decoded = from_json(cases[i].json);
        assert_int_equal(decoded.status, STATUS_OK);
        value_describe(&decoded.value, description);
        assert_string_equal(description, cases[i].description);
        arena_finish(&decoded.arena);
    }
    char description[VALUE_DESCRIPTION_BYTES];
    struct value bytes = {.kind = VALUE_BYTES, .text = {"abc", 3}};
    value_describe(&bytes, description);
    assert_string_equal(description, "3 bytes");
}

TEST(kinds_have_names)
{
    static const char *const names[] = {"null",   "boolean", "integer", "float",
                                        "string", "bytes",   "array",   "object"};
    for (int kind = VALUE_NULL; kind <= VALUE_OBJECT; kind++)
        assert_string_equal(value_kind_name((enum value_kind)kind), names[kind]);
}
