// Every single allocation of schemas/parquet fails, alone and with all after it: the result is an error.
#include "schemas/parquet/parquet_codec.h"
#include "schemas/parquet/parquet_output.h"
#include "tests/support/cases.h"
#include "tests/support/failing_memory.h"
#include "tests/unit/schemas/parquet/made_parquet.h"

#include <unistd.h>

static const struct made_column lists = {.physical = PHYSICAL_BYTE_ARRAY, .converted = 1, .is_list = true};

static enum status read_all(int fd, struct error *error)
{
    struct parquet_file *file = NULL;
    struct value *fields = NULL;
    enum status status = parquet_file_open(&file, &(struct parquet_input){fd, "made"}, 1, error);
    while (status == STATUS_OK && (status = parquet_file_next(file, &fields, error)) == STATUS_OK && fields)
        ;
    parquet_file_close(file);
    return status;
}

static enum status write_all(int fd, FILE *file, struct error *error)
{
    static const struct parquet_new_column columns[] = {{TEXT("text"), WRITTEN_TEXT},
                                                        {TEXT("flag"), WRITTEN_BOOLEAN}};
    const struct value values[] = {value_string(TEXT("bad \xff")), value_bool(true)};
    const struct parquet_target target = {.file = file,
                                          .name = "out",
                                          .inputs = &(struct parquet_input){fd, "made"},
                                          .n_inputs = 1,
                                          .columns = columns,
                                          .n_columns = 2};
    struct parquet_output *output = NULL;
    enum status status = parquet_output_open(&output, &target, error);
    if (status == STATUS_OK)
        status = parquet_output_add(output, values, error);
    if (status == STATUS_OK)
        status = parquet_output_complete(output, error);
    parquet_output_close(output);
    return status;
}

static void fail_each(int fd, FILE *file)
{
    long n_failures = 0;
    for (int alone = 0; alone < 2; alone++) {
        enum status status = STATUS_REFUSE;
        failing_memory.fails_alone = alone;
        for (long n = 0; status != STATUS_OK; n++) {
            struct error error = {0};
            failing_memory_after(n);
            status = file ? write_all(fd, file, &error) : read_all(fd, &error);
            failing_memory.n_left = -1;
            if ((status != STATUS_OK) != failing_memory.has_failed)
                fail_msg("allocation %ld: status %d", n, (int)status);
            if (status != STATUS_OK && error.code != ERROR_OUT_OF_MEMORY)
                fail_msg("allocation %ld: \"%s\"", n, error.text);
            n_failures += status != STATUS_OK;
            assert_true(n < 10000);
        }
    }
    assert_true(n_failures > 10);
}

TEST(a_file_is_read_and_written_whole_or_not_at_all)
{
    struct made_file made;
    FILE *file = fopen("/dev/null", "w");
    made_begin(&made, CODEC_NONE);
    made_add(&made, &(struct made_page){.type = 2, .n_values = 1, .values = TEXT("\x01\x00\x00\x00x")});
    made_add(&made, &(struct made_page){.n_values = 2,
                                        .repetition = TEXT("\x03\x02"),
                                        .definition = TEXT("\x04\x03"),
                                        .encoding = 7,
                                        .values = TEXT("\x08\x01\x02\x00\x00\x00\x08\x01\x02\x02\x00\x00"
                                                       "ab")});
    made_end(&made, &lists, 1);
    int fd = made_descriptor((struct text){made.bytes.data, made.bytes.size});
    fail_each(fd, NULL);
    fail_each(fd, file);
    close(fd);
    fclose(file);
    buffer_finish(&made.bytes);
}
