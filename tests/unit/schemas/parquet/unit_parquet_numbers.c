// The small formats within Parquet: Thrift's compact protocol, hybrid runs, packed differences.
#include "schemas/parquet/delta.h"
#include "schemas/parquet/packed_runs.h"
#include "schemas/parquet/thrift.h"
#include "tests/support/cases.h"
#include "tests/support/random.h"

TEST(integers_of_thrift_are_read_as_they_were_written)
{
    static const int64_t integers[] = {0,   1,         -1,        63,        -64,      64,
                                       300, INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN};
    struct buffer bytes = {0};
    struct thrift_writer writer = {&bytes, 0};
    for (size_t i = 0; i < sizeof integers / sizeof *integers; i++)
        thrift_write_integer(&writer, (int16_t)(20 * i + 1), THRIFT_I64, integers[i]);
    thrift_write_stop(&writer);
    struct thrift_reader reader = thrift_read_text((struct text){bytes.data, bytes.size});
    struct thrift_field field = {0};
    size_t n = 0;
    for (; thrift_next_field(&reader, &field); n++) {
        assert_int_equal(field.id, 20 * n + 1);
        assert_true(thrift_read_integer(&reader) == integers[n]);
    }
    assert_int_equal(n, sizeof integers / sizeof *integers);
    assert_false(reader.failed);
    assert_true(reader.at == reader.end);
    buffer_finish(&bytes);
}

// A struct of all types: {1: true, 2: i8, 3: double, 4: "ab", 5: [1, 2], 6: {7: []}, 8: map, 9: uuid, 10:
// [true]}.
static const char all_types[] = "\x11\x13\x05\x17"
                                "12345678"
                                "\x18\x02"
                                "ab"
                                "\x19\x25\x02\x04\x1c\x79\x05\x00\x2b\x01\x58\x02\x01x\x1d"
                                "1234567890123456"
                                "\x19\x12\x01\x00";

TEST(values_of_every_type_are_skipped)
{
    struct text bytes = {all_types, sizeof all_types - 1};
    struct thrift_reader reader = thrift_read_text(bytes);
    struct text skipped = thrift_skip(&reader, THRIFT_STRUCT);
    assert_false(reader.failed);
    assert_int_equal(skipped.size, bytes.size);
    for (size_t size = 0; size < bytes.size; size++) { // cut anywhere
        reader = thrift_read_text((struct text){bytes.data, size});
        (void)thrift_skip(&reader, THRIFT_STRUCT);
        assert_true(reader.failed);
    }
}

TEST(structs_nested_too_deep_are_refused)
{
    for (int depth = THRIFT_DEPTH_MAX - 1; depth <= THRIFT_DEPTH_MAX + 1; depth++) {
        struct buffer bytes = {0};
        for (int i = 0; i < depth; i++)
            buffer_add_byte(&bytes, 0x1c);
        for (int i = 0; i <= depth; i++)
            buffer_add_byte(&bytes, 0);
        struct thrift_reader reader = thrift_read_text((struct text){bytes.data, bytes.size});
        (void)thrift_skip(&reader, THRIFT_STRUCT);
        assert_int_equal(reader.failed, depth > THRIFT_DEPTH_MAX);
        buffer_finish(&bytes);
    }
}

TEST(a_list_has_at_most_as_many_elements_as_bytes)
{
    enum thrift_type element;
    struct thrift_reader reader = thrift_read_text(TEXT("\xf8\xff\xff\x7f"));
    assert_int_equal(thrift_read_list(&reader, &element), 0);
    assert_true(reader.failed);
}

// ---- runs ----

TEST(the_example_of_packed_bits_in_the_specification)
{
    struct packed_runs runs = packed_runs_open(TEXT("\x03\x88\xc6\xfa"), 3);
    uint32_t value;
    for (uint32_t i = 0; i < 8; i++) {
        assert_true(packed_runs_next(&runs, &value));
        assert_int_equal(value, i);
    }
    assert_false(packed_runs_next(&runs, &value));
}

// Packs n values, a multiple of 8, bit by bit.
static void pack(struct buffer *out, const uint64_t *values, size_t n, unsigned width)
{
    size_t start = out->size;
    for (size_t i = 0; i < (n * width + 7) / 8; i++)
        buffer_add_byte(out, 0);
    for (size_t i = 0; i < n * width; i++)
        out->data[start + i / 8] |= (char)((values[i / width] >> i % width & 1) << i % 8);
}

static uint64_t draw(uint64_t *state)
{
    uint64_t high = random_bits(state);
    return high << 32 | random_bits(state);
}

TEST(runs_and_packed_values_of_every_width_alternate)
{
    for (unsigned width = 0; width <= 32; width++) {
        uint64_t random = width + 1;
        struct buffer bytes = {0};
        uint64_t expected[400], mask = (UINT64_C(1) << width) - 1;
        size_t n = 0;
        for (int part = 0; part < 10; part++) {
            if (part & 1) {
                for (int i = 0; i < 24; i++)
                    expected[n + (size_t)i] = draw(&random) & mask;
                thrift_add_varint(&bytes, 3 << 1 | 1);
                pack(&bytes, expected + n, 24, width);
                n += 24;
            } else {
                uint64_t value = draw(&random) & mask;
                thrift_add_varint(&bytes, 13 << 1);
                for (unsigned i = 0; i < (width + 7) / 8; i++)
                    buffer_add_byte(&bytes, (char)(value >> 8 * i));
                for (int i = 0; i < 13; i++)
                    expected[n++] = value;
            }
        }
        struct packed_runs runs = packed_runs_open((struct text){bytes.data, bytes.size}, width);
        uint32_t value;
        for (size_t i = 0; i < n; i++) {
            assert_true(packed_runs_next(&runs, &value));
            assert_true(value == expected[i]);
        }
        assert_false(packed_runs_next(&runs, &value));
        buffer_finish(&bytes);
    }
}

TEST(runs_that_end_too_early_or_are_empty_are_damaged)
{
    static const struct text damaged[] = {{"", 0}, {"\x04", 1}, {"\x00\x01", 2}, {"\x80", 1}, {"\x03", 1}};
    for (size_t i = 0; i < sizeof damaged / sizeof *damaged; i++) {
        struct packed_runs runs = packed_runs_open(damaged[i], 1);
        uint32_t value;
        assert_false(packed_runs_next(&runs, &value));
    }
}

// ---- differences ----

static void check_delta(struct text bytes, const int64_t *expected, size_t n)
{
    struct delta delta;
    const char *end;
    int64_t value;
    assert_true(delta_open(&delta, bytes));
    assert_true(delta_find_end(&delta, &end));
    assert_true(end == bytes.data + bytes.size);
    for (size_t i = 0; i < n; i++) {
        assert_true(delta_next(&delta, &value));
        assert_true(value == expected[i]);
    }
    assert_false(delta_next(&delta, &value));
}

TEST(the_examples_of_differences_in_the_specification)
{
    static const int64_t first[] = {1, 2, 3, 4, 5}, second[] = {7, 5, 3, 1, 2, 3, 4, 5}, one[] = {-3};
    check_delta(TEXT("\x08\x01\x05\x02\x02\x00"), first, 5);
    check_delta(TEXT("\x08\x01\x08\x0e\x03\x02\xc0\x3f"), second,
                8); // 0, 0, 0, 3, 3, 3, 3 from the lowest bit
    check_delta(TEXT("\x80\x01\x04\x01\x05"), one, 1);
    check_delta(TEXT("\x80\x01\x04\x00\x00"), NULL, 0);
}

// Blocks of 128 in 4 miniblocks; the last miniblocks without values have no bytes.
static void write_delta(struct buffer *out, const int64_t *values, size_t n)
{
    thrift_add_varint(out, 128);
    thrift_add_varint(out, 4);
    thrift_add_varint(out, n);
    thrift_add_integer(out, n ? values[0] : 0);
    for (size_t start = 1; start < n; start += 128) {
        uint64_t deltas[128] = {0}, least = UINT64_MAX;
        size_t n_block = n - start < 128 ? n - start : 128;
        for (size_t i = 0; i < n_block; i++) {
            deltas[i] = (uint64_t)values[start + i] - (uint64_t)values[start + i - 1];
            least = i == 0 || (int64_t)deltas[i] < (int64_t)least ? deltas[i] : least;
        }
        thrift_add_integer(out, (int64_t)least);
        unsigned widths[4] = {0, 0, 0, 200}; // arbitrary where no value is
        for (size_t i = 0; i < n_block; i++) {
            deltas[i] -= least;
            unsigned bits = deltas[i] ? 64 - (unsigned)__builtin_clzll(deltas[i]) : 0;
            if (i % 32 == 0)
                widths[i / 32] = 0;
            widths[i / 32] = bits > widths[i / 32] ? bits : widths[i / 32];
        }
        for (int i = 0; i < 4; i++)
            buffer_add_byte(out, (char)widths[i]);
        for (size_t i = 0; i < n_block; i += 32) {
            for (size_t j = n_block; j < 128; j++)
                deltas[j] = 0;
            pack(out, deltas + i, 32, widths[i / 32]);
        }
    }
}

TEST(differences_of_every_width_are_summed_also_where_sums_wrap)
{
    for (unsigned width = 0; width <= 64; width++)
        for (size_t n = 0; n <= 300; n += n < 34 ? 1 : 53) {
            uint64_t random = width * 1000 + n + 1;
            struct buffer bytes = {0};
            int64_t values[300];
            uint64_t mask = width == 64 ? UINT64_MAX : (UINT64_C(1) << width) - 1;
            for (size_t i = 0; i < n; i++)
                values[i] = (int64_t)(draw(&random) & mask);
            write_delta(&bytes, values, n);
            check_delta((struct text){bytes.data, bytes.size}, values, n);
            buffer_finish(&bytes);
        }
}

TEST(damaged_differences_are_refused)
{
    static const struct text headers[] = {
        {"", 0},                     // nothing
        {"\x80\x01\x00\x05\x02", 5}, // no miniblock
        {"\x00\x04\x05\x02", 4},     // an empty block
        {"\x80\x01\x03\x05\x02", 5}, // miniblocks of unequal sizes
        {"\x04\x01\x05\x02", 4},     // miniblocks that do not end at a byte
    };
    struct delta delta;
    int64_t value;
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++)
        assert_false(delta_open(&delta, headers[i]));
    char wide[6 + 65] = "\x08\x01\x05\x02\x02\x41"; // 65 bits
    assert_true(delta_open(&delta, (struct text){wide, sizeof wide}));
    assert_true(delta_next(&delta, &value));
    assert_false(delta_next(&delta, &value));
    wide[5] = 64;
    assert_true(delta_open(&delta, (struct text){wide, sizeof wide}));
    assert_true(delta_next(&delta, &value));
    assert_true(delta_next(&delta, &value));
    assert_true(delta_open(&delta, TEXT("\x08\x01\x05\x02\x02\x08"
                                        "1234567"))); // 8 values of 8 bits in 7 bytes
    assert_true(delta_next(&delta, &value));
    assert_false(delta_next(&delta, &value));
}
