// Any bytes as a table of a text format: what is read is the same each time, and what is written of it is
// read back byte for byte. The first byte chooses the format.
#include "consumer/table/table_reader.h"
#include "consumer/annotate/table_writer.h"
#include "schemas/base/hash.h"
#include "tests/fuzz/fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

// Of all fields but one.
static uint64_t hash_row(const struct table_row *row, size_t n, size_t without, uint64_t hash)
{
    for (size_t i = 0; i < n; i++)
        hash = i == without ? hash : value_hash(&row->fields[i], hash);
    return hash;
}

struct found {
    int64_t n_rows, n_bad;
    uint64_t hash; // of the whole rows' fields
};

// Reads all rows, and writes them where a writer is given.
static struct found read_rows(struct table_reader *reader, struct table_writer *writer)
{
    struct found found = {0};
    struct table_row row = {0};
    struct error error;
    size_t n = table_reader_columns(reader)->n;
    struct value added = value_string(TEXT("x\t\"y\n"));
    for (enum status status = STATUS_OK; status != STATUS_REFUSE;) {
        status = table_reader_next(reader, &row, &error);
        if (status == STATUS_OK && !row.fields)
            return found;
        fuzz_check(status == STATUS_OK || status == STATUS_REJECT);
        if (status == STATUS_REJECT) {
            fuzz_check(row.line > 0 || row.number == 0);
            found.n_bad++;
            continue;
        }
        fuzz_check(row.number == ++found.n_rows && row.line > 0);
        found.hash = hash_row(&row, n, n, found.hash);
        fuzz_check(!writer || table_writer_add(writer, &row, &added, NULL, &error) == STATUS_OK);
    }
    return found;
}

// Of the written table: its columns are the input's and one more, which is the last one, or in JSON lines
// precedes members that the first line lacks.
static void read_back(const struct table_source *source, struct text added, size_t n,
                      const struct found *expected)
{
    struct table_reader *reader = NULL;
    struct table_row row = {0};
    struct error error;
    uint64_t hash = 0;
    int64_t n_rows = 0;
    fuzz_check(table_reader_open(&reader, source, &error) == STATUS_OK);
    fuzz_check(table_reader_columns(reader)->n == n + 1);
    size_t without = source->no_header && source->format != TABLE_JSONL
                         ? n
                         : table_columns_find(table_reader_columns(reader), added);
    while (table_reader_next(reader, &row, &error) == STATUS_OK && row.fields) {
        hash = hash_row(&row, n + 1, without, hash);
        n_rows++;
    }
    fuzz_check(!row.fields && n_rows == expected->n_rows && hash == expected->hash);
    table_reader_close(reader);
}

static void write_and_read_back(struct table_reader *reader, struct table_source *source, const char *out,
                                int out_fd)
{
    struct text name = TEXT("\x01 added");
    const struct table_columns *input = table_reader_columns(reader), added = {&name, 1};
    struct table_target target = {.path = out,
                                  .format = source->format,
                                  .delimiter = source->delimiter,
                                  .style = table_reader_style(reader),
                                  .no_header = source->no_header,
                                  .no_quotes = source->no_quotes,
                                  .is_verbatim = true,
                                  .header = table_reader_header(reader),
                                  .input = input,
                                  .added = &added};
    struct table_writer *writer = NULL;
    struct error error;
    if (table_columns_find(input, name) < input->n)
        return;
    fuzz_check(table_reader_rewind(reader, &error) == STATUS_OK);
    fuzz_check(table_writer_open(&writer, &target, &error) == STATUS_OK);
    struct found found = read_rows(reader, writer);
    fuzz_check(table_writer_complete(writer, &error) == STATUS_OK);
    table_writer_close(writer);
    source->path = out;
    fuzz_check(lseek(out_fd, 0, SEEK_SET) == 0);
    if (found.n_rows) // without a row some formats have no columns
        read_back(source, name, input->n, &found);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[64], out[64];
    struct table_reader *reader = NULL;
    struct error error;
    int choice = size ? data[0] : 0;
    int fd = memfd_create("table", MFD_CLOEXEC), out_fd = memfd_create("out", MFD_CLOEXEC);
    fuzz_check(fd >= 0 && out_fd >= 0);
    fuzz_check(!size || write(fd, data + 1, size - 1) == (ssize_t)(size - 1));
    fuzz_check(lseek(fd, 0, SEEK_SET) == 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    snprintf(out, sizeof out, "/proc/self/fd/%d", out_fd);
    struct table_source source = {.path = path,
                                  .format = choice & 1   ? TABLE_TSV
                                            : choice & 2 ? TABLE_JSONL
                                                         : TABLE_CSV,
                                  .delimiter = choice & 1    ? '\t'
                                               : choice & 16 ? ';'
                                                             : ',',
                                  .no_header = choice & 4,
                                  .no_quotes = (choice & 9) == 9};
    if (table_reader_open(&reader, &source, &error) == STATUS_OK) {
        struct found first = read_rows(reader, NULL);
        fuzz_check(table_reader_rewind(reader, &error) == STATUS_OK);
        struct found second = read_rows(reader, NULL);
        fuzz_check(first.n_rows == second.n_rows && first.n_bad == second.n_bad && first.hash == second.hash);
        write_and_read_back(reader, &source, out, out_fd);
        table_reader_close(reader);
    } else {
        fuzz_check(error.status == STATUS_REFUSE);
    }
    close(fd);
    close(out_fd);
    return 0;
}
