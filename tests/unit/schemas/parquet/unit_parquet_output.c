// New columns, alone and after the columns of an input, read again.
#include "schemas/parquet/parquet_codec.h"
#include "schemas/parquet/parquet_output.h"
#include "tests/support/cases.h"
#include "tests/unit/schemas/parquet/made_parquet.h"

#include <unistd.h>

static const struct parquet_new_column columns[] = {{TEXT("text"), WRITTEN_TEXT},
                                                    {TEXT("integer"), WRITTEN_INTEGER},
                                                    {TEXT("number"), WRITTEN_NUMBER},
                                                    {TEXT("flag"), WRITTEN_BOOLEAN}};

enum { COLUMNS = sizeof columns / sizeof *columns };

struct written {
    char *bytes;
    size_t size;
    FILE *file;
    struct parquet_output *output;
};

static void begin(struct written *written, int input_fd)
{
    struct error error;
    *written = (struct written){0};
    written->file = open_memstream(&written->bytes, &written->size);
    const struct parquet_target target = {.file = written->file,
                                          .name = "out.parquet",
                                          .inputs = &(struct parquet_input){input_fd, "in.parquet"},
                                          .n_inputs = input_fd >= 0,
                                          .columns = columns,
                                          .n_columns = COLUMNS,
                                          .created_by = "test"};
    assert_ok(parquet_output_open(&written->output, &target, &error), &error);
}

static void end(struct written *written, struct buffer *text)
{
    struct error error;
    assert_ok(parquet_output_complete(written->output, &error), &error);
    parquet_output_close(written->output);
    fclose(written->file);
    made_read((struct text){written->bytes, written->size}, text);
}

static void add(struct written *written, struct value text, struct value integer, struct value number,
                struct value flag)
{
    const struct value values[COLUMNS] = {text, integer, number, flag};
    struct error error;
    assert_ok(parquet_output_add(written->output, values, &error), &error);
}

TEST(values_of_every_type_and_nulls_come_back)
{
    const struct value null = {.kind = VALUE_NULL};
    struct value list = {.kind = VALUE_ARRAY}, items[] = {value_integer(1), value_string(TEXT("a"))};
    struct written written;
    struct buffer text = {0};
    list.array.items = items;
    list.array.n_items = 2;
    begin(&written, -1);
    add(&written, value_string(TEXT("a\"b")), value_integer(INT64_MIN), value_float(0.1), value_bool(true));
    add(&written, null, null, null, null);
    add(&written, value_string(TEXT("")), value_float(3), value_integer(2), value_bool(false));
    add(&written, list, null, value_float(-1e300), null);
    add(&written, value_string(TEXT("bad \xff end")), value_integer(7), null, value_bool(true));
    add(&written, (struct value){.kind = VALUE_BYTES, .text = TEXT("\x01\x02\x03")}, null, null, null);
    add(&written, value_float(1.5), null, null, null);
    end(&written, &text);
    assert_string_equal(text.data, "a\"b|-9223372036854775808|0.1|true\n"
                                   "~|~|~|~\n"
                                   "|3|2.0|false\n"
                                   "[1,\"a\"]|~|-1e+300|~\n"
                                   "bad \xef\xbf\xbd end|7|~|true\n"
                                   "AQID|~|~|~\n"
                                   "1.5|~|~|~\n");
    buffer_finish(&text);
    free(written.bytes);
}

TEST(a_value_that_its_type_cannot_hold_is_null_and_counted)
{
    const struct value null = {.kind = VALUE_NULL};
    struct written written;
    struct buffer text = {0};
    begin(&written, -1);
    add(&written, null, value_float(1e30), value_string(TEXT("x")), value_integer(1));
    add(&written, null, value_float(0.5), null, null);
    assert_int_equal(parquet_output_n_unfit(written.output), 4);
    end(&written, &text);
    assert_string_equal(text.data, "~|~|~|~\n~|~|~|~\n");
    buffer_finish(&text);
    free(written.bytes);
}

TEST(a_table_without_rows_has_its_columns)
{
    struct written written;
    struct buffer text = {0};
    begin(&written, -1);
    end(&written, &text);
    assert_string_equal(text.data, "");
    buffer_finish(&text);
    free(written.bytes);
}

// A text of many pages.
TEST(pages_and_row_groups_end_where_they_are_full)
{
    enum { ROWS = 400, BYTES = 1 << 19 }; // 200 MiB: two row groups
    struct written written;
    struct error error;
    struct parquet_file *file;
    struct value *fields;
    char *long_text = malloc(BYTES);
    begin(&written, -1);
    for (int i = 0; i < ROWS; i++) {
        memset(long_text, 'a' + i % 26, BYTES);
        add(&written, value_string((struct text){long_text, BYTES}), value_integer(i), value_float(i),
            value_bool(i & 1));
    }
    assert_ok(parquet_output_complete(written.output, &error), &error);
    parquet_output_close(written.output);
    fclose(written.file);
    int fd = made_descriptor((struct text){written.bytes, written.size});
    struct parquet_footer footer;
    assert_ok(parquet_footer_read(&footer, fd, "out", &error), &error);
    assert_int_equal(footer.n_groups, 2);
    parquet_footer_finish(&footer);
    assert_ok(parquet_file_open(&file, &(struct parquet_input){fd, "out"}, 1, &error), &error);
    for (int i = 0; i < ROWS; i++) {
        assert_ok(parquet_file_next(file, &fields, &error), &error);
        memset(long_text, 'a' + i % 26, BYTES);
        assert_true(text_equal(fields[0].text, (struct text){long_text, BYTES}));
        assert_int_equal(fields[1].integer, i);
        assert_int_equal(fields[3].boolean, i & 1);
    }
    parquet_file_close(file);
    close(fd);
    free(long_text);
    free(written.bytes);
}

// ---- after an input ----

static const struct made_column input_column = {.physical = PHYSICAL_BYTE_ARRAY, .converted = 1};

static void make_input(struct made_file *file)
{
    made_begin(file, CODEC_NONE);
    made_add(file, &(struct made_page){
                       .type = 2, .n_values = 2, .values = TEXT("\x01\x00\x00\x00x\x01\x00\x00\x00y")});
    made_add(file, &(struct made_page){.n_values = 3,
                                       .encoding = 8,
                                       .definition = TEXT("\x06\x01"),
                                       .values = TEXT("\x01\x03\x05")});
    made_end(file, &input_column, 3);
}

TEST(columns_of_the_input_are_copied_byte_for_byte)
{
    const struct value null = {.kind = VALUE_NULL};
    struct made_file input;
    struct written written;
    struct buffer text = {0};
    struct error error;
    make_input(&input);
    int fd = made_descriptor((struct text){input.bytes.data, input.bytes.size});
    begin(&written, fd);
    close(fd); // the output has its own
    add(&written, value_string(TEXT("first")), value_integer(1), null, value_bool(true));
    assert_ok(parquet_output_skip(written.output, 1, &error), &error);
    add(&written, value_string(TEXT("third")), null, value_float(3), null);
    end(&written, &text);
    assert_string_equal(text.data, "y|first|1|~|true\nx|~|~|~|~\ny|third|~|3.0|~\n");
    size_t n_chunk = (size_t)(input.page_offsets[1] - 4);
    assert_memory_equal(written.bytes, input.bytes.data, 4 + n_chunk);
    buffer_finish(&text);
    buffer_finish(&input.bytes);
    free(written.bytes);
}

TEST(offsets_of_later_row_groups_move)
{
    const struct value null = {.kind = VALUE_NULL};
    struct made_file input;
    struct written written;
    struct buffer text = {0};
    made_begin(&input, CODEC_NONE);
    made_add(&input, &(struct made_page){.type = 2, .n_values = 1, .values = TEXT("\x01\x00\x00\x00x")});
    made_add(&input,
             &(struct made_page){
                 .n_values = 1, .encoding = 8, .definition = TEXT("\x02\x01"), .values = TEXT("\x00\x02")});
    input.n_groups = 3;
    made_end(&input, &input_column, 1);
    int fd = made_descriptor((struct text){input.bytes.data, input.bytes.size});
    begin(&written, fd);
    close(fd);
    for (int i = 0; i < 3; i++)
        add(&written, null, value_integer(i), null, null);
    end(&written, &text);
    assert_string_equal(text.data, "x|~|0|~|~\nx|~|1|~|~\nx|~|2|~|~\n");
    struct parquet_footer footer;
    struct parquet_chunk chunks[COLUMNS + 1];
    struct error error;
    int64_t end = 4;
    fd = made_descriptor((struct text){written.bytes, written.size});
    assert_ok(parquet_footer_read(&footer, fd, "out", &error), &error);
    for (size_t i = 0; i < 3; i++) {
        assert_ok(parquet_footer_chunks(&footer, "out", i, chunks, &error), &error);
        for (int j = 0; j <= COLUMNS; j++) { // one after another
            assert_int_equal(chunks[j].offset, end);
            end += chunks[j].size;
        }
    }
    parquet_footer_finish(&footer);
    close(fd);
    buffer_finish(&text);
    buffer_finish(&input.bytes);
    free(written.bytes);
}

TEST(several_inputs_become_one_file)
{
    struct made_file made[2];
    struct parquet_input inputs[2];
    struct parquet_output *output;
    struct parquet_file *file;
    struct error error;
    struct buffer text = {0};
    char *bytes = NULL;
    size_t size = 0;
    FILE *stream = open_memstream(&bytes, &size);
    for (int i = 0; i < 2; i++) {
        make_input(&made[i]);
        inputs[i] =
            (struct parquet_input){made_descriptor((struct text){made[i].bytes.data, made[i].bytes.size}),
                                   i ? "second" : "first"};
    }
    const struct parquet_target target = {.file = stream,
                                          .name = "out",
                                          .inputs = inputs,
                                          .n_inputs = 2,
                                          .columns = columns,
                                          .n_columns = COLUMNS};
    assert_ok(parquet_output_open(&output, &target, &error), &error);
    assert_ok(parquet_output_skip(output, 4, &error), &error);
    const struct value values[COLUMNS] = {value_string(TEXT("fifth"))};
    assert_ok(parquet_output_add(output, values, &error), &error);
    assert_ok(parquet_output_complete(output, &error), &error);
    parquet_output_close(output);
    fclose(stream);
    made_read((struct text){bytes, size}, &text);
    assert_string_equal(text.data, "y|~|~|~|~\nx|~|~|~|~\ny|~|~|~|~\ny|~|~|~|~\nx|fifth|~|~|~\ny|~|~|~|~\n");
    // the same rows from both inputs
    struct value *fields;
    assert_ok(parquet_file_open(&file, inputs, 2, &error), &error);
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < 6; i++) {
            assert_ok(parquet_file_next(file, &fields, &error), &error);
            assert_true(text_equals_string(fields[0].text, i % 3 == 1 ? "x" : "y"));
        }
        assert_ok(parquet_file_next(file, &fields, &error), &error);
        assert_null(fields);
        parquet_file_rewind(file);
    }
    parquet_file_close(file);
    for (int i = 0; i < 2; i++) {
        close(inputs[i].fd);
        buffer_finish(&made[i].bytes);
    }
    buffer_finish(&text);
    free(bytes);
}

TEST(inputs_of_other_columns_are_refused)
{
    const struct made_column other = {.physical = PHYSICAL_BYTE_ARRAY, .name = "b", .converted = 1};
    struct made_file made[2];
    struct parquet_file *file;
    struct error error;
    make_input(&made[0]);
    made_one(&made[1], &other, &(struct made_page){.n_values = 1, .definition = TEXT("\x02\x00")}, 1);
    const struct parquet_input inputs[] = {
        {made_descriptor((struct text){made[0].bytes.data, made[0].bytes.size}), "first"},
        {made_descriptor((struct text){made[1].bytes.data, made[1].bytes.size}), "second"}};
    assert_int_equal(parquet_file_open(&file, inputs, 2, &error), STATUS_REFUSE);
    assert_string_equal(error.text, "second: its columns or their types are not the columns of first: "
                                    "column 1 is \"b\" instead of \"a\"");
    for (int i = 0; i < 2; i++) {
        close(inputs[i].fd);
        buffer_finish(&made[i].bytes);
    }
}

TEST(rows_that_were_not_added_are_null)
{
    struct made_file input;
    struct written written;
    struct buffer text = {0};
    make_input(&input);
    int fd = made_descriptor((struct text){input.bytes.data, input.bytes.size});
    begin(&written, fd);
    close(fd);
    end(&written, &text);
    assert_string_equal(text.data, "y|~|~|~|~\nx|~|~|~|~\ny|~|~|~|~\n");
    buffer_finish(&text);
    buffer_finish(&input.bytes);
    free(written.bytes);
}

TEST(a_row_more_than_the_input_has_is_refused)
{
    const struct value values[COLUMNS] = {{.kind = VALUE_NULL}};
    struct made_file input;
    struct written written;
    struct error error;
    make_input(&input);
    int fd = made_descriptor((struct text){input.bytes.data, input.bytes.size});
    begin(&written, fd);
    close(fd);
    assert_ok(parquet_output_skip(written.output, 3, &error), &error);
    assert_int_equal(parquet_output_add(written.output, values, &error), STATUS_REFUSE);
    assert_string_equal(error.text, "out.parquet: in.parquet has fewer rows than were read: it changed");
    parquet_output_close(written.output);
    fclose(written.file);
    buffer_finish(&input.bytes);
    free(written.bytes);
}

TEST(a_full_disk_is_an_error)
{
    struct error error;
    struct parquet_output *output;
    FILE *full = fopen("/dev/full", "w");
    setvbuf(full, NULL, _IONBF, 0);
    const struct parquet_target target = {
        .file = full, .name = "full", .columns = columns, .n_columns = COLUMNS};
    assert_int_equal(parquet_output_open(&output, &target, &error), STATUS_REFUSE);
    assert_string_equal(error.text, "full: writing: No space left on device");
    fclose(full);
}
