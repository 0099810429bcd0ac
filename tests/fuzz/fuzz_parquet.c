// Any bytes as a Parquet file: two readings give the same rows, and a copy with a new column has them too.
#include "schemas/parquet/parquet_file.h"
#include "schemas/parquet/parquet_output.h"
#include "tests/fuzz/fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { ROWS_MAX = 2000, COPY_BYTES_MAX = 1 << 22 }; // a few bytes may be very many equal rows

struct rows_found {
    int64_t n_rows;
    uint64_t hash; // of the first n_columns fields
    bool has_ended, has_failed;
};

static struct rows_found read_rows(struct parquet_file *file, size_t n_columns)
{
    struct rows_found found = {0};
    struct value *fields;
    struct error error;
    parquet_file_rewind(file);
    while (found.n_rows < ROWS_MAX) {
        found.has_failed = parquet_file_next(file, &fields, &error) != STATUS_OK;
        fuzz_check(!found.has_failed || error.status == STATUS_REFUSE);
        found.has_ended = !found.has_failed && !fields;
        if (found.has_failed || found.has_ended)
            break;
        for (size_t i = 0; i < n_columns; i++)
            found.hash = value_hash(&fields[i], found.hash);
        found.n_rows++;
    }
    return found;
}

static bool same(const struct rows_found *a, const struct rows_found *b)
{
    return a->n_rows == b->n_rows && a->hash == b->hash && a->has_ended == b->has_ended &&
           a->has_failed == b->has_failed;
}

// The copy's first columns are the file's.
static void read_copy(const char *bytes, size_t size, size_t n_columns, const struct rows_found *expected)
{
    struct parquet_file *copy;
    struct error error;
    int fd = memfd_create("copy", MFD_CLOEXEC);
    fuzz_check(fd >= 0 && write(fd, bytes, size) == (ssize_t)size);
    fuzz_check(parquet_file_open(&copy, &(struct parquet_input){fd, "copy"}, 1, &error) == STATUS_OK);
    fuzz_check(parquet_file_schema(copy)->n_columns == n_columns + 1);
    struct rows_found found = read_rows(copy, n_columns);
    fuzz_check(same(&found, expected));
    parquet_file_close(copy);
    close(fd);
}

static void copy_file(int fd, size_t n_columns, const struct rows_found *expected)
{
    const struct parquet_new_column column = {TEXT("added"), WRITTEN_TEXT};
    const struct value value = value_string(TEXT("x"));
    struct parquet_output *output;
    struct error error;
    char *bytes = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&bytes, &size);
    const struct parquet_target target = {.file = file,
                                          .name = "copy",
                                          .inputs = &(struct parquet_input){fd, "file"},
                                          .n_inputs = 1,
                                          .columns = &column,
                                          .n_columns = 1};
    fuzz_check(parquet_output_open(&output, &target, &error) == STATUS_OK);
    for (int64_t i = 0; i < expected->n_rows; i++)
        fuzz_check(parquet_output_add(output, &value, &error) == STATUS_OK);
    bool is_complete = parquet_output_complete(output, &error) == STATUS_OK;
    fuzz_check(is_complete || error.status == STATUS_REFUSE);
    parquet_output_close(output);
    fclose(file);
    if (is_complete)
        read_copy(bytes, size, n_columns, expected);
    free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct parquet_file *file;
    struct error error;
    int fd = memfd_create("file", MFD_CLOEXEC);
    fuzz_check(fd >= 0);
    fuzz_check(!size || write(fd, data, size) == (ssize_t)size);
    const struct parquet_input input = {fd, "file"};
    if (parquet_file_open(&file, &input, 1, &error) == STATUS_OK) {
        const struct parquet_schema *schema = parquet_file_schema(file);
        struct rows_found first = read_rows(file, schema->n_columns),
                          second = read_rows(file, schema->n_columns);
        fuzz_check(same(&first, &second));
        if (first.has_ended && schema->n_leaves * size < COPY_BYTES_MAX)
            copy_file(fd, schema->n_columns, &first);
        parquet_file_close(file);
    } else {
        fuzz_check(error.status == STATUS_REFUSE);
    }
    close(fd);
    return 0;
}
