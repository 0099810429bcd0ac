// Parquet files made by hand: every encoding, compression and kind of page, lists, and what is refused.
#include "schemas/parquet/parquet_codec.h"
#include "schemas/parquet/parquet_cursor.h"
#include "schemas/parquet/parquet_pages.h"
#include "schemas/parquet/thrift.h"
#include "tests/support/cases.h"
#include "tests/unit/schemas/parquet/made_parquet.h"

#include <unistd.h>

static const struct made_column text_column = {.physical = PHYSICAL_BYTE_ARRAY,
                                               .converted = 1,
                                               .is_required = true},
                                optional_text = {.physical = PHYSICAL_BYTE_ARRAY, .converted = 1},
                                int32_column = {.physical = PHYSICAL_INT32, .is_required = true},
                                int64_column = {.physical = PHYSICAL_INT64, .is_required = true},
                                double_column = {.physical = PHYSICAL_DOUBLE, .is_required = true},
                                boolean_column = {.physical = PHYSICAL_BOOLEAN, .is_required = true},
                                text_list = {.physical = PHYSICAL_BYTE_ARRAY,
                                             .converted = 1,
                                             .is_list = true};

// "one", "", "three" in PLAIN
#define THREE TEXT("\x03\x00\x00\x00one\x00\x00\x00\x00\x05\x00\x00\x00three")

static void check_file(struct made_file *file, const char *expected)
{
    struct buffer text = {0};
    made_read((struct text){file->bytes.data, file->bytes.size}, &text);
    assert_string_equal(text.data, expected);
    buffer_finish(&text);
    buffer_finish(&file->bytes);
}

static void check_page(const struct made_column *column, const struct made_page *page, int n_rows,
                       const char *expected)
{
    struct made_file file;
    made_one(&file, column, page, n_rows);
    check_file(&file, expected);
}

// The reader refuses the first page, and the text names file, column and offset.
static void check_refused(const struct made_column *column, const struct made_page *page, int n_rows,
                          const char *what)
{
    struct made_file file;
    struct buffer text = {0}, expected = {0};
    made_one(&file, column, page, n_rows);
    made_read((struct text){file.bytes.data, file.bytes.size}, &text);
    buffer_add_format(&expected, "! made: column \"a\": page at byte 4: %s", what);
    assert_non_null(strstr(text.data, expected.data));
    buffer_finish(&text);
    buffer_finish(&expected);
    buffer_finish(&file.bytes);
}

// ---- encodings ----

TEST(texts_in_plain_in_both_versions_of_pages)
{
    check_page(&text_column, &(struct made_page){.n_values = 3, .values = THREE}, 3, "one\n\nthree\n");
    check_page(&text_column, &(struct made_page){.type = 3, .n_values = 3, .values = THREE}, 3,
               "one\n\nthree\n");
}

TEST(nulls_are_where_the_levels_say)
{
    const struct made_page page = {.n_values = 5,
                                   .definition = TEXT("\x02\x01\x04\x00\x04\x01"),
                                   .values = THREE};
    struct made_page second = page;
    second.type = 3;
    check_page(&optional_text, &page, 5, "one\n~\n~\n\nthree\n");
    check_page(&optional_text, &second, 5, "one\n~\n~\n\nthree\n");
}

TEST(numbers_and_booleans_in_plain)
{
    check_page(&int32_column,
               &(struct made_page){.n_values = 2, .values = TEXT("\x01\x00\x00\x00\xff\xff\xff\xff")}, 2,
               "1\n-1\n");
    check_page(&double_column,
               &(struct made_page){.n_values = 1, .values = TEXT("\x00\x00\x00\x00\x00\x00\xf8\x3f")}, 1,
               "1.5\n");
    check_page(&boolean_column, &(struct made_page){.n_values = 9, .values = TEXT("\x05\x01")}, 9,
               "true\nfalse\ntrue\nfalse\nfalse\nfalse\nfalse\nfalse\ntrue\n");
}

TEST(booleans_in_runs)
{
    const struct made_page page = {.n_values = 4,
                                   .encoding = 3,
                                   .values = TEXT("\x04\x00\x00\x00\x06\x01\x02\x00")};
    check_page(&boolean_column, &page, 4, "true\ntrue\ntrue\nfalse\n");
}

TEST(indices_of_a_dictionary_of_both_names)
{
    for (int encoding = 2; encoding <= 8; encoding += 6) {
        struct made_file file;
        made_begin(&file, CODEC_NONE);
        made_add(&file, &(struct made_page){
                            .type = 2, .n_values = 3, .encoding = encoding == 2 ? 2 : 0, .values = THREE});
        made_add(&file, &(struct made_page){
                            .n_values = 4, .encoding = encoding, .values = TEXT("\x02\x04\x02\x03\x04\x00")});
        made_add(&file, &(struct made_page){.n_values = 1,
                                            .values = TEXT("\x01\x00\x00\x00x")}); // falls back to PLAIN
        made_end(&file, &text_column, 5);
        check_file(&file, "three\nthree\none\n\nx\n");
    }
}

TEST(a_dictionary_of_one_value_has_indices_of_no_bits)
{
    struct made_file file;
    made_begin(&file, CODEC_NONE);
    made_add(&file, &(struct made_page){.type = 2, .n_values = 1, .values = TEXT("\x01\x00\x00\x00x")});
    made_add(&file, &(struct made_page){.n_values = 2, .encoding = 8, .values = TEXT("\x00\x04")});
    made_end(&file, &text_column, 2);
    check_file(&file, "x\nx\n");
}

TEST(numbers_as_differences)
{
    const struct made_page page = {.n_values = 5, .encoding = 5, .values = TEXT("\x08\x01\x05\x02\x02\x00")};
    check_page(&int32_column, &page, 5, "1\n2\n3\n4\n5\n");
    check_page(&int64_column, &page, 5, "1\n2\n3\n4\n5\n");
}

TEST(texts_with_their_lengths_before_them)
{
    // lengths 5, 5, 6, 6: least difference 0, differences 0, 1, 0
    const struct made_page page = {.n_values = 4,
                                   .encoding = 6,
                                   .values = TEXT("\x08\x01\x04\x0a\x00\x01\x02HelloWorldFoobarABCDEF")};
    check_page(&text_column, &page, 4, "Hello\nWorld\nFoobar\nABCDEF\n");
}

TEST(texts_with_common_beginnings)
{
    // axis, axle, babble, babyhood: common 0, 2, 0, 3 and the lengths of the rests 4, 2, 6, 5
    const struct made_page page = {
        .n_values = 4,
        .encoding = 7,
        .values = TEXT("\x08\x01\x04\x00\x03\x03\x44\x01\x00" // differences 2, -2, 3: 4, 0, 5 after the least
                       "\x08\x01\x04\x08\x03\x03\x70\x00\x00" // differences -2, 4, -1: 0, 6, 1
                       "axislebabbleyhood")};
    check_page(&text_column, &page, 4, "axis\naxle\nbabble\nbabyhood\n");
}

TEST(numbers_as_streams_of_their_bytes)
{
    const struct made_page page = {.n_values = 3,
                                   .encoding = 9,
                                   .values = TEXT("\x01\x02\x03\x10\x20\x30\x00\x00\x00\x00\x00\x00")};
    check_page(&int32_column, &page, 3, "4097\n8194\n12291\n");
    const struct made_column fixed = {.physical = PHYSICAL_FIXED, .type_length = 2, .is_required = true};
    check_page(&fixed, &(struct made_page){.n_values = 2, .encoding = 9, .values = TEXT("\x01\x02\x10\x20")},
               2, "0110\n0220\n");
}

// ---- compressions ----

TEST(pages_of_every_compression)
{
    static const struct {
        int codec;
        struct text bytes;
    } packed[] = {
        {CODEC_SNAPPY,
         TEXT(
             "\x2a\x1c\x0f\x00\x00\x00\x6f\x6e\x65\x20\x1d\x04\x0c\x00\x00\x00\x00\x01\x17\x38\x74\x77\x6f\x20\x74\x77"
             "\x6f\x20\x74\x77\x6f\x20\x74\x77\x6f")},
        {CODEC_GZIP,
         TEXT(
             "\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03\xe3\x67\x60\x60\xc8\xcf\x4b\x55\x40\xc2\x40\x11\x06\x7e\x20\x2e"
             "\x29\xcf\x57\x40\xc2\x00\x06\x58\x60\xbc\x2a\x00\x00\x00")},
        // two members
        {CODEC_GZIP,
         TEXT(
             "\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03\xe3\x67\x60\x60\xc8\xcf\x4b\x55\x40\xc2\x0c\x00\x39\x5f\xcb\x4f"
             "\x14\x00\x00\x00\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03\x63\x60\x60\xe0\x67\x60\x60\x28\x29\xcf\x57\x40"
             "\xc2\x00\xd3\x13\x9f\xa2\x16\x00\x00\x00")},
        // zlib's format
        {CODEC_GZIP,
         TEXT(
             "\x78\x9c\xe3\x67\x60\x60\xc8\xcf\x4b\x55\x40\xc2\x40\x11\x06\x7e\x20\x2e\x29\xcf\x57\x40\xc2\x00\xd9\xd1"
             "\x0b\x4f")},
        {CODEC_BROTLI,
         TEXT(
             "\x1b\x29\x00\x00\x04\x51\xb9\x82\x0d\x74\x00\x36\x79\xf2\x06\x42\x90\x44\xc0\xd1\xc8\x53\xad\x1e\xcc\x1c"
             "\x22\x98\x7e\xbf\x0a")},
        {CODEC_ZSTD,
         TEXT(
             "\x28\xb5\x2f\xfd\x20\x2a\xe5\x00\x00\xa0\x0f\x00\x00\x00\x6f\x6e\x65\x20\x00\x00\x00\x00\x0f\x00\x00\x00"
             "\x74\x77\x6f\x20\x02\x00\xc0\xa4\x0d\xc7\x05")},
        {CODEC_LZ4,
         TEXT(
             "\x87\x0f\x00\x00\x00\x6f\x6e\x65\x20\x04\x00\x40\x00\x00\x00\x00\x17\x00\xf0\x00\x74\x77\x6f\x20\x74\x77"
             "\x6f\x20\x74\x77\x6f\x20\x74\x77\x6f")},
        // a block without a frame, then one in Hadoop's
        {CODEC_LZ4_HADOOP,
         TEXT(
             "\x87\x0f\x00\x00\x00\x6f\x6e\x65\x20\x04\x00\x40\x00\x00\x00\x00\x17\x00\xf0\x00\x74\x77\x6f\x20\x74"
             "\x77\x6f\x20\x74\x77\x6f\x20\x74\x77\x6f")},
        {CODEC_LZ4_HADOOP,
         TEXT(
             "\x00\x00\x00\x2a\x00\x00\x00\x23\x87\x0f\x00\x00\x00\x6f\x6e\x65\x20\x04\x00\x40\x00\x00\x00\x00\x17"
             "\x00\xf0\x00\x74\x77\x6f\x20\x74\x77\x6f\x20\x74\x77\x6f\x20\x74\x77\x6f")}};
    static const struct text plain =
        TEXT("\x0f\x00\x00\x00one one one one\x00\x00\x00\x00\x0f\x00\x00\x00two two two two");
    for (size_t i = 0; i < sizeof packed / sizeof *packed; i++)
        for (int cut = 0; cut <= 1; cut++) {
            struct made_file file;
            struct text bytes = packed[i].bytes;
            bytes.size -= (size_t)cut;
            made_begin(&file, packed[i].codec);
            made_add(&file, &(struct made_page){.n_values = 3, .values = plain, .compressed = bytes});
            made_end(&file, &text_column, 3);
            if (!cut) {
                check_file(&file, "one one one one\n\ntwo two two two\n");
                continue;
            }
            struct buffer text = {0};
            made_read((struct text){file.bytes.data, file.bytes.size}, &text);
            assert_non_null(strstr(text.data, "page at byte 4: it cannot be decompressed ("));
            assert_non_null(strstr(text.data, parquet_codec_name(packed[i].codec)));
            buffer_finish(&text);
            buffer_finish(&file.bytes);
        }
}

TEST(a_compression_that_is_not_read_is_named)
{
    for (int codec = CODEC_LZO; codec <= CODEC_COUNT; codec += CODEC_COUNT - CODEC_LZO) {
        struct made_file file;
        made_begin(&file, codec);
        made_add(&file, &(struct made_page){.n_values = 3, .values = THREE});
        made_end(&file, &text_column, 3);
        check_file(&file,
                   codec == CODEC_LZO
                       ? "! made: column \"a\": page at byte 4: the compression LZO (3) is not read"
                       : "! made: column \"a\": page at byte 4: the compression number (8) is not read");
    }
}

TEST(levels_of_version_2_are_stored_before_the_compressed_values)
{
    struct made_file file;
    struct buffer packed = {0}, stored = {0};
    const struct text levels = TEXT("\x02\x01\x02\x00\x04\x01");
    parquet_codec_shrink_snappy(THREE, &packed);
    buffer_add_text(&stored, levels);
    buffer_add(&stored, packed.data, packed.size);
    made_begin(&file, CODEC_SNAPPY);
    made_add(&file, &(struct made_page){.type = 3,
                                        .n_values = 4,
                                        .definition = levels,
                                        .values = THREE,
                                        .compressed = {stored.data, stored.size}});
    made_add(&file,
             &(struct made_page){
                 .type = 3, .n_values = 4, .definition = levels, .values = THREE, .is_uncompressed = true});
    made_end(&file, &optional_text, 8);
    check_file(&file, "one\n~\n\nthree\none\n~\n\nthree\n");
    buffer_finish(&packed);
    buffer_finish(&stored);
}

// ---- lists ----

TEST(lists_nulls_empty_lists_and_null_items_are_told_apart)
{
    // [one, NULL], NULL, [], ["", three]: levels 3 2 0 1 3 3, repetitions 0 1 0 0 0 1
    const struct made_page page = {.n_values = 6,
                                   .repetition = TEXT("\x03\x22"),
                                   .definition = TEXT("\x05\x4b\x0f\x00\x00"),
                                   .values = THREE};
    struct made_page second = page;
    second.type = 3;
    check_page(&text_list, &page, 4, "[one, NULL]\n~\n[]\n['', three]\n");
    check_page(&text_list, &second, 4, "[one, NULL]\n~\n[]\n['', three]\n");
}

TEST(a_list_continues_in_the_next_page)
{
    struct made_file file;
    made_begin(&file, CODEC_NONE);
    made_add(&file, &(struct made_page){.n_values = 2,
                                        .repetition = TEXT("\x03\x02"),
                                        .definition = TEXT("\x04\x03"),
                                        .values = THREE});
    made_add(&file, &(struct made_page){.n_values = 2,
                                        .repetition = TEXT("\x03\x01"),
                                        .definition = TEXT("\x04\x03"),
                                        .values = THREE});
    made_end(&file, &text_list, 2);
    check_file(&file, "[one, '', one]\n['']\n");
}

TEST(a_list_that_begins_within_a_list_is_damaged)
{
    check_refused(&text_list,
                  &(struct made_page){.n_values = 1,
                                      .repetition = TEXT("\x02\x01"),
                                      .definition = TEXT("\x02\x03"),
                                      .values = THREE},
                  1, "the column has fewer rows than its row group, or begins within a list");
}

TEST(a_list_has_a_limit_of_items)
{
    for (int more = 0; more <= 1; more++) { // 2^20 items, from a run of one index
        struct made_file file;
        struct buffer text = {0}, repetition = {0}, definition = {0}, indices = {0};
        uint64_t n = PARQUET_LIST_ITEMS_MAX + (uint64_t)more;
        thrift_add_varint(&repetition, 1 << 1);
        buffer_add_byte(&repetition, 0);
        thrift_add_varint(&repetition, (n - 1) << 1);
        buffer_add_byte(&repetition, 1);
        thrift_add_varint(&definition, n << 1);
        buffer_add_byte(&definition, 3);
        buffer_add_byte(&indices, 0);
        thrift_add_varint(&indices, n << 1);
        made_begin(&file, CODEC_NONE);
        made_add(&file, &(struct made_page){.type = 2, .n_values = 1, .values = TEXT("\x01\x00\x00\x00x")});
        made_add(&file, &(struct made_page){.n_values = (int)n,
                                            .encoding = 8,
                                            .repetition = {repetition.data, repetition.size},
                                            .definition = {definition.data, definition.size},
                                            .values = {indices.data, indices.size}});
        made_end(&file, &text_list, 1);
        made_read((struct text){file.bytes.data, file.bytes.size}, &text);
        assert_int_equal(strstr(text.data, "a list has more than 1048576 items or 16 MiB") != NULL, more);
        assert_int_equal(text.data[0] == '[', !more);
        buffer_finish(&text);
        buffer_finish(&repetition);
        buffer_finish(&definition);
        buffer_finish(&indices);
        buffer_finish(&file.bytes);
    }
}

// ---- types ----

TEST(types_that_are_not_read_are_named_and_others_beside_them_are_read)
{
    const struct made_column interval = {.physical = PHYSICAL_FIXED, .type_length = 12, .converted = 22},
                             wide = {.physical = PHYSICAL_FIXED,
                                     .type_length = 20,
                                     .converted = 6,
                                     .precision = 45},
                             long_decimal = {.physical = PHYSICAL_BYTE_ARRAY,
                                             .converted = 6,
                                             .precision = 39},
                             later = {.physical = PHYSICAL_BYTE_ARRAY, .logical = 17};
    const struct made_page page = {.n_values = 1, .definition = TEXT("\x02\x00")};
    check_page(&interval, &page, 1, "?an interval\n");
    check_page(&wide, &page, 1, "?a decimal of more than 38 digits\n");
    check_page(&long_decimal, &page, 1, "?a decimal of more than 38 digits\n");
    check_page(&later, &page, 1, "?a logical type of a later version\n");
}

TEST(a_column_that_is_not_read_is_refused_when_it_is_chosen)
{
    const struct made_column interval = {.physical = PHYSICAL_FIXED, .type_length = 12, .converted = 22};
    struct made_file made;
    struct parquet_file *file;
    struct error error;
    made_one(&made, &interval, &(struct made_page){.n_values = 1, .definition = TEXT("\x02\x00")}, 1);
    int fd = made_descriptor((struct text){made.bytes.data, made.bytes.size});
    assert_ok(parquet_file_open(&file, &(struct parquet_input){fd, "t.parquet"}, 1, &error), &error);
    assert_int_equal(parquet_file_choose(file, &(bool){true}, &error), STATUS_REFUSE);
    assert_string_equal(error.text,
                        "t.parquet: column \"a\" is an interval, which is not read: leave it out of the "
                        "prompt and of --evaluate");
    assert_ok(parquet_file_choose(file, &(bool){false}, &error), &error);
    parquet_file_close(file);
    close(fd);
    buffer_finish(&made.bytes);
}

TEST(pages_of_a_column_that_is_not_chosen_are_not_decoded)
{
    struct made_file made;
    struct parquet_file *file;
    struct error error;
    struct value *fields;
    made_one(&made, &text_column, &(struct made_page){.n_values = 3, .values = THREE, .has_bad_crc = true},
             3);
    int fd = made_descriptor((struct text){made.bytes.data, made.bytes.size});
    assert_ok(parquet_file_open(&file, &(struct parquet_input){fd, "t.parquet"}, 1, &error), &error);
    assert_int_equal(parquet_file_check(file, &error), STATUS_REFUSE);
    assert_string_equal(error.text,
                        "t.parquet: column \"a\": page at byte 4: its checksum is another: it is damaged");
    assert_ok(parquet_file_choose(file, &(bool){false}, &error), &error);
    assert_ok(parquet_file_check(file, &error), &error);
    for (int i = 0; i < 3; i++) {
        assert_ok(parquet_file_next(file, &fields, &error), &error);
        assert_int_equal(fields[0].kind, VALUE_NULL);
    }
    assert_ok(parquet_file_next(file, &fields, &error), &error);
    assert_null(fields);
    parquet_file_close(file);
    close(fd);
    buffer_finish(&made.bytes);
}

TEST(a_file_is_read_again_from_its_first_row)
{
    struct made_file made;
    struct parquet_file *file;
    struct error error;
    struct value *fields;
    made_one(&made, &text_column, &(struct made_page){.n_values = 3, .values = THREE, .has_crc = true}, 3);
    int fd = made_descriptor((struct text){made.bytes.data, made.bytes.size});
    assert_ok(parquet_file_open(&file, &(struct parquet_input){fd, "t.parquet"}, 1, &error), &error);
    for (int pass = 0; pass < 3; pass++) {
        for (int i = 0; i <= pass; i++)
            assert_ok(parquet_file_next(file, &fields, &error), &error);
        parquet_file_rewind(file);
        assert_ok(parquet_file_next(file, &fields, &error), &error);
        assert_true(text_equals_string(fields[0].text, "one"));
        parquet_file_rewind(file);
    }
    parquet_file_close(file);
    close(fd);
    buffer_finish(&made.bytes);
}

// ---- what is damaged ----

TEST(damaged_pages_are_refused_with_their_offset)
{
    const struct text levels = TEXT("\x06\x01");
    const char *values = "its values are damaged, or fewer than it has";
    check_refused(&text_column, &(struct made_page){.n_values = 4, .values = THREE}, 4, values);
    check_refused(&text_column, &(struct made_page){.n_values = 1, .values = TEXT("\x03\x00\x00\x00on")}, 1,
                  values);
    check_refused(&text_column, &(struct made_page){.n_values = 1, .values = TEXT("\xff\xff\xff\xffon")}, 1,
                  values);
    check_refused(&int32_column, &(struct made_page){.n_values = 1, .values = TEXT("123")}, 1, values);
    check_refused(&boolean_column, &(struct made_page){.n_values = 9, .values = TEXT("1")}, 9, values);
    check_refused(&text_column,
                  &(struct made_page){.n_values = 1, .encoding = 8, .values = TEXT("\x01\x02\x00")}, 1,
                  values); // no dictionary
    check_refused(&text_column,
                  &(struct made_page){.n_values = 1, .encoding = 8, .values = TEXT("\x21\x02\x00")}, 1,
                  "its indices have more than 32 bits");
    check_refused(&int32_column,
                  &(struct made_page){.n_values = 1, .encoding = 6, .values = TEXT("\x08\x01\x00\x00")}, 1,
                  "its encoding is unknown, or not one of its type");
    check_refused(&int32_column, &(struct made_page){.n_values = 1, .encoding = 10, .values = TEXT("1234")},
                  1, "its encoding is unknown, or not one of its type");
    check_refused(&int32_column, &(struct made_page){.n_values = 1, .encoding = 5, .values = TEXT("\x08")}, 1,
                  "its packed numbers are damaged");
    check_refused(&int32_column, &(struct made_page){.n_values = 1, .encoding = 9, .values = TEXT("12345")},
                  1, "its byte streams have another length than its values");
    check_refused(&text_column,
                  &(struct made_page){.n_values = 1, .encoding = 6, .values = TEXT("\x08\x01\x01\x01")}, 1,
                  values); // a negative length
    check_refused(
        &text_column,
        &(struct made_page){.n_values = 1, .encoding = 7, .values = TEXT("\x08\x01\x01\x02\x08\x01\x01\x00")},
        1,
        values); // shares a prefix with a previous value that does not exist
    check_refused(&optional_text, &(struct made_page){.n_values = 4, .definition = levels, .values = THREE},
                  4, "it has fewer levels than values");
    check_refused(&optional_text, &(struct made_page){.n_values = 1, .values = TEXT("\x09\x00\x00\x00")}, 1,
                  "its levels are longer than the page");
    check_refused(
        &text_list,
        &(struct made_page){.n_values = 1, .repetition = TEXT("\x02\x00"), .definition = TEXT("\x02\x04")}, 1,
        "a level is larger than the schema's");
}

TEST(a_column_with_fewer_or_more_rows_than_its_row_group_is_damaged)
{
    check_refused(&text_column, &(struct made_page){.n_values = 3, .values = THREE}, 4,
                  "the column has fewer rows than its row group");
    check_refused(&text_column, &(struct made_page){.n_values = 3, .values = THREE}, 2,
                  "the column has more rows than its row group");
    check_refused(&text_list,
                  &(struct made_page){.n_values = 2,
                                      .repetition = TEXT("\x04\x00"),
                                      .definition = TEXT("\x04\x03"),
                                      .values = THREE},
                  1, "the column has more rows than its row group");
}

TEST(a_page_has_at_most_1_gib)
{
    for (int more = 0; more <= 1; more++) {
        struct made_page page = {.n_values = 3, .values = THREE, .plain_size = PARQUET_PAGE_BYTES_MAX + more};
        if (more) // of a page that is not compressed nothing else reads the size
            check_refused(&text_column, &page, 3, "it has more than 1 GiB, or a negative size");
        else
            check_page(&text_column, &page, 3, "one\n\nthree\n");
        page.plain_size = -1;
        check_refused(&text_column, &page, 3, "it has more than 1 GiB, or a negative size");
    }
}

TEST(each_row_group_has_as_many_rows_as_its_columns)
{
    for (int n_rows = 2; n_rows <= 3; n_rows++) {
        struct made_file file;
        made_begin(&file, CODEC_NONE);
        made_add(&file, &(struct made_page){.n_values = 3, .values = THREE});
        file.n_groups = 2;
        made_end(&file, &text_column, n_rows);
        check_file(&file, n_rows == 3
                              ? "one\n\nthree\none\n\nthree\n"
                              : "one\n\n! made: column \"a\": page at byte 4: the column has more rows than "
                                "its row group");
    }
}

TEST(a_chunk_ends_at_the_footer_or_before)
{
    for (int excess = 0; excess <= 1; excess++) {
        struct made_file file;
        made_begin(&file, CODEC_NONE);
        made_add(&file, &(struct made_page){.n_values = 3, .values = THREE});
        file.excess = excess;
        made_end(&file, &text_column, 3);
        check_file(&file, excess ? "! made: cannot be read: row group 1: a column chunk lies outside the file"
                                 : "one\n\nthree\n");
    }
}

TEST(a_second_page_is_named_by_its_own_offset)
{
    struct made_file file;
    struct buffer text = {0}, expected = {0};
    made_begin(&file, CODEC_NONE);
    made_add(&file, &(struct made_page){.n_values = 3, .values = THREE, .has_crc = true});
    made_add(&file, &(struct made_page){.n_values = 3, .values = THREE, .has_bad_crc = true});
    made_end(&file, &text_column, 6);
    made_read((struct text){file.bytes.data, file.bytes.size}, &text);
    buffer_add_format(&expected,
                      "one\n\nthree\n! made: column \"a\": page at byte %lld: its checksum is another",
                      (long long)file.page_offsets[1]);
    assert_non_null(strstr(text.data, expected.data));
    buffer_finish(&text);
    buffer_finish(&expected);
    buffer_finish(&file.bytes);
}

// ---- what is no file ----

TEST(a_file_cut_or_changed_anywhere_is_read_or_refused)
{
    struct made_file file;
    struct buffer text = {0}, changed = {0};
    made_begin(&file, CODEC_NONE);
    made_add(&file, &(struct made_page){.type = 2, .n_values = 3, .values = THREE});
    made_add(&file, &(struct made_page){.n_values = 4,
                                        .encoding = 8,
                                        .definition = TEXT("\x08\x01"),
                                        .values = TEXT("\x02\x04\x02\x03\x04\x00")});
    made_end(&file, &optional_text, 4);
    for (size_t size = 0; size < file.bytes.size; size++) {
        made_read((struct text){file.bytes.data, size}, &text);
        assert_non_null(strstr(text.data, "! made: "));
    }
    for (size_t i = 0; i < file.bytes.size; i++)
        for (int bit = 0; bit < 8; bit++) {
            buffer_clear(&changed);
            buffer_add(&changed, file.bytes.data, file.bytes.size);
            changed.data[i] = (char)(changed.data[i] ^ 1 << bit);
            if (i < file.bytes.size - 8 || bit > 5) // else it may be a file of very many rows
                made_read((struct text){changed.data, changed.size}, &text);
        }
    buffer_finish(&text);
    buffer_finish(&changed);
    buffer_finish(&file.bytes);
}

static void check_bytes(struct text bytes, const char *expected)
{
    struct buffer text = {0};
    made_read(bytes, &text);
    assert_string_equal(text.data, expected);
    buffer_finish(&text);
}

TEST(another_file_is_refused_by_what_it_lacks)
{
    check_bytes(TEXT(""), "! made: a damaged Parquet file: it is too short");
    check_bytes(TEXT("PAR1PAR1"), "! made: a damaged Parquet file: its footer is larger than the file");
    check_bytes(TEXT("a,b,c,d,e,f\n1,2,3"),
                "! made: expected a Parquet file, which ends in PAR1: it is another file, or not whole");
    check_bytes(TEXT("PAR1....\x04\x00\x00\x00PARE"),
                "! made: is encrypted: sheaf reads no encrypted Parquet");
    check_bytes(TEXT("PAR1\xff\x00\x00\x00PAR1"),
                "! made: a damaged Parquet file: its footer is larger than the file");
    check_bytes(TEXT("PAR1\x16\x01\x00\x03\x00\x00\x00PAR1"), "! made: its schema is damaged: it is empty");
}
