// Values as texts: what DuckDB's CSV has of them.
#include "schemas/parquet/parquet_text.h"
#include "tests/support/cases.h"

#include <math.h>

static void check(const struct parquet_leaf *leaf, struct text bytes, const char *expected)
{
    char scratch[PARQUET_TEXT_BYTES];
    struct value value;
    struct buffer text = {0};
    assert_true(parquet_value_read(leaf, bytes, scratch, &value));
    if (value.kind == VALUE_STRING)
        buffer_add_text(&text, value.text);
    else
        json_encode(&value, &text);
    assert_string_equal(text.data, expected);
    buffer_finish(&text);
}

static void check_double(double number, const char *expected)
{
    const struct parquet_leaf leaf = {.physical = PHYSICAL_DOUBLE, .meaning = MEANING_FLOAT, .width = 8};
    check(&leaf, (struct text){(const char *)&number, sizeof number}, expected);
}

static void check_single(float number, const char *expected)
{
    const struct parquet_leaf leaf = {.physical = PHYSICAL_FLOAT, .meaning = MEANING_FLOAT, .width = 4};
    check(&leaf, (struct text){(const char *)&number, sizeof number}, expected);
}

TEST(doubles_have_the_fewest_digits_that_read_back)
{
    check_double(0.1, "0.1");
    check_double(0.0, "0.0");
    check_double(-0.0, "-0.0");
    check_double(1.0, "1.0");
    check_double(-3.5, "-3.5");
    check_double(123456789.125, "123456789.125");
    check_double(0.0001, "0.0001");
    check_double(1e-5, "1e-05");
    check_double(1e15, "1000000000000000.0");
    check_double(9999999999999998.0, "9999999999999998.0");
    check_double(1e16, "1e+16");
    check_double(1.2345678901234568e17, "1.2345678901234568e+17");
    check_double(1.5e300, "1.5e+300");
    check_double(5e-324, "5e-324");
    check_double(2.2250738585072014e-308, "2.2250738585072014e-308");
    check_double(0.1 + 0.2, "0.30000000000000004");
    check_double((double)INFINITY, "inf");
    check_double(-(double)INFINITY, "-inf");
    check_double((double)NAN, "nan");
    check_double(-(double)NAN, "-nan");
}

TEST(floats_of_32_and_16_bits_have_the_digits_of_their_type)
{
    check_single(0.1F, "0.1");
    check_single(16777216.0F, "16777216.0");
    check_single(1e10F, "10000000000.0");
    check_single(12345679.0F, "12345679.0");
    check_single(1.234e-5F, "1.234e-05");
    check_single(3.4e38F, "3.4e+38");
    check_single(1e-45F, "1e-45");
    const struct parquet_leaf half = {.physical = PHYSICAL_FIXED, .meaning = MEANING_FLOAT, .width = 2};
    check(&half, TEXT("\x00\x3c"), "1.0");
    check(&half, TEXT("\x66\x2e"), "0.099975586");
    check(&half, TEXT("\x01\x80"), "-5.9604645e-08");
    check(&half, TEXT("\xff\x7b"), "65504.0");
    check(&half, TEXT("\x00\xfc"), "-inf");
    check(&half, TEXT("\x00\x7e"), "nan");
}

TEST(integers_of_all_sizes)
{
    struct parquet_leaf leaf = {.physical = PHYSICAL_INT32, .meaning = MEANING_INTEGER, .width = 4};
    check(&leaf, TEXT("\x00\x00\x00\x80"), "-2147483648");
    leaf.meaning = MEANING_UNSIGNED;
    check(&leaf, TEXT("\xff\xff\xff\xff"), "4294967295");
    leaf = (struct parquet_leaf){.physical = PHYSICAL_INT64, .meaning = MEANING_INTEGER, .width = 8};
    check(&leaf, TEXT("\x00\x00\x00\x00\x00\x00\x00\x80"), "-9223372036854775808");
    leaf.meaning = MEANING_UNSIGNED;
    check(&leaf, TEXT("\xff\xff\xff\xff\xff\xff\xff\x7f"), "9223372036854775807");
    check(&leaf, TEXT("\xff\xff\xff\xff\xff\xff\xff\xff"), "18446744073709551615"); // beyond int64
    leaf = (struct parquet_leaf){.physical = PHYSICAL_BOOLEAN, .meaning = MEANING_BOOLEAN, .width = 1};
    check(&leaf, TEXT("\x01"), "true");
    check(&leaf, TEXT("\x00"), "false");
}

TEST(decimals_have_all_digits_of_their_scale)
{
    struct parquet_leaf leaf = {
        .physical = PHYSICAL_INT32, .meaning = MEANING_DECIMAL, .width = 4, .scale = 2};
    check(&leaf, TEXT("\x00\x00\x00\x00"), "0.00");
    check(&leaf, TEXT("\x96\x00\x00\x00"), "1.50");
    check(&leaf, TEXT("\xff\xff\xff\xff"), "-0.01");
    leaf = (struct parquet_leaf){.physical = PHYSICAL_FIXED, .meaning = MEANING_DECIMAL, .width = 3};
    check(&leaf, TEXT("\xff\xff\x00"), "-256");
    leaf = (struct parquet_leaf){.physical = PHYSICAL_BYTE_ARRAY, .meaning = MEANING_DECIMAL, .scale = 38};
    check(&leaf, TEXT("\x4b\x3b\x4c\xa8\x5a\x86\xc4\x7a\x09\x8a\x22\x3f\xff\xff\xff\xff"),
          "0.99999999999999999999999999999999999999");
    check(&leaf, TEXT("\x80\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"),
          "-1.70141183460469231731687303715884105728");
    leaf.scale = 0;
    check(&leaf, TEXT(""), "0");
    check(&leaf, TEXT("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"), "-1");
}

TEST(a_decimal_of_more_than_128_bits_is_refused)
{
    const struct parquet_leaf leaf = {.physical = PHYSICAL_BYTE_ARRAY, .meaning = MEANING_DECIMAL};
    char scratch[PARQUET_TEXT_BYTES];
    struct value value;
    assert_false(parquet_value_read(
        &leaf, TEXT("\x01\x80\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"), scratch,
        &value));
    assert_false(parquet_value_read(
        &leaf, TEXT("\x00\x80\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"), scratch,
        &value));
}

static void check_64(enum parquet_meaning meaning, int digits, bool is_utc, int64_t number,
                     const char *expected)
{
    const struct parquet_leaf leaf = {.physical = PHYSICAL_INT64,
                                      .meaning = meaning,
                                      .width = 8,
                                      .fraction_digits = digits,
                                      .is_utc = is_utc};
    check(&leaf, (struct text){(const char *)&number, sizeof number}, expected);
}

TEST(dates_and_times_are_in_iso_8601)
{
    static const struct {
        int32_t days;
        const char *date;
    } dates[] = {{0, "1970-01-01"},
                 {-1, "1969-12-31"},
                 {11016, "2000-02-29"},
                 {19782, "2024-02-29"},
                 {-719162, "0001-01-01"},
                 {-719163, "0001-12-31 (BC)"},
                 {-735160, "0044-03-15 (BC)"},
                 {2932897, "10000-01-01"}};
    const struct parquet_leaf date = {.physical = PHYSICAL_INT32, .meaning = MEANING_DATE, .width = 4};
    for (size_t i = 0; i < sizeof dates / sizeof *dates; i++)
        check(&date, (struct text){(const char *)&dates[i].days, 4}, dates[i].date);
    check_64(MEANING_TIMESTAMP, 3, false, 1500, "1970-01-01 00:00:01.5");
    check_64(MEANING_TIMESTAMP, 6, false, -1, "1969-12-31 23:59:59.999999");
    check_64(MEANING_TIMESTAMP, 6, true, 1577934245120000, "2020-01-02 03:04:05.12+00");
    check_64(MEANING_TIMESTAMP, 9, false, 1577934245123456700, "2020-01-02 03:04:05.1234567");
    check_64(MEANING_TIMESTAMP, 3, false, -63517824000000, "0044-03-15 (BC) 00:00:00");
    check_64(MEANING_TIMESTAMP, 3, true, INT64_MIN, "292275056-05-16 (BC) 16:47:04.192+00");
    check_64(MEANING_TIME, 6, false, 3723500000, "01:02:03.5");
    check_64(MEANING_TIMESTAMP, 6, false, INT64_MIN, "290309-12-21 (BC) 19:59:05.224192");
    check_64(MEANING_TIMESTAMP, 9, false, INT64_MIN, "1677-09-21 00:12:43.145224192");
    check_64(MEANING_TIMESTAMP, 9, false, INT64_MAX, "2262-04-11 23:47:16.854775807");
    check_64(MEANING_TIME, 9, true, 86399999999999, "23:59:59.999999999+00");
}

TEST(timestamps_of_96_bits_are_rounded_to_microseconds)
{
    const struct parquet_leaf leaf = {.physical = PHYSICAL_INT96,
                                      .meaning = MEANING_TIMESTAMP_96,
                                      .width = 12};
    check(&leaf, TEXT("\x00\x00\x00\x00\x00\x00\x00\x00\x8c\x3d\x25\x00"), "1970-01-01 00:00:00");
    check(&leaf, TEXT("\xff\xc9\x9a\x3b\x00\x00\x00\x00\x8c\x3d\x25\x00"), "1970-01-01 00:00:00.999999");
    check(&leaf, TEXT("\xff\xff\xff\xff\xff\xff\xff\xff\x8c\x3d\x25\x00"), "1969-12-31 23:59:59.999999");
}

TEST(a_uuid_has_its_dashes)
{
    const struct parquet_leaf leaf = {.physical = PHYSICAL_FIXED, .meaning = MEANING_UUID, .width = 16};
    check(&leaf, TEXT("\x12\x3e\x45\x67\xe8\x9b\x12\xd3\xa4\x56\x42\x66\x14\x17\x40\x00"),
          "123e4567-e89b-12d3-a456-426614174000");
}

TEST(items_of_lists_are_quoted_where_they_would_be_read_otherwise)
{
    static const struct {
        const char *item, *text;
    } items[] = {{"a", "a"},           {"b c", "b c"},           {"x,y", "'x,y'"},     {"", "''"},
                 {"NULL", "'NULL'"},   {"null", "'null'"},       {" a", "' a'"},       {"a\n", "'a\n'"},
                 {"a\nb", "a\nb"},     {"q'r", "'q\\'r'"},       {"a\\b", "'a\\\\b'"}, {"[z]", "'[z]'"},
                 {"\"q\"", "'\"q\"'"}, {"{a}", "'{a}'"},         {"a:b", "'a:b'"},     {"a=b", "'a=b'"},
                 {"(p)", "'(p)'"},     {"\xc3\xa4", "\xc3\xa4"}, {"a;b", "a;b"},       {"NULLS", "NULLS"}};
    for (size_t i = 0; i < sizeof items / sizeof *items; i++) {
        struct value list = {.kind = VALUE_ARRAY}, pair[2] = {{.kind = VALUE_NULL}};
        struct buffer text = {0}, expected = {0};
        pair[1] = value_string(text_from_string(items[i].item));
        list.array.items = pair;
        list.array.n_items = 2;
        parquet_list_text(&list, &text);
        buffer_add_format(&expected, "[NULL, %s]", items[i].text);
        assert_string_equal(text.data, expected.data);
        buffer_finish(&text);
        buffer_finish(&expected);
    }
}
