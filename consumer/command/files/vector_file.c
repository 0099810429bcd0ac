#include "consumer/command/files/vector_file.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

void npy_header(char header[NPY_HEADER_BYTES], const char *descr, int64_t n_rows, size_t n_items)
{
    enum { START = 10 };
    unsigned length = NPY_HEADER_BYTES - START;
    memset(header, ' ', NPY_HEADER_BYTES);
    memcpy(header, "\x93NUMPY\x01\x00", 8);
    header[8] = (char)(length & 0xFF);
    header[9] = (char)(length >> 8);
    int n = snprintf(header + START, length,
                     "{'descr': '%s', 'fortran_order': False, 'shape': (%" PRId64 ", %zu), }", descr, n_rows,
                     n_items);
    assert(n > 0 && (unsigned)n < length);
    header[START + n] = ' ';
    header[NPY_HEADER_BYTES - 1] = '\n';
}

static size_t row_bytes(const struct vector_file *file)
{
    return (size_t)file->n_dimensions * sizeof(float);
}

static enum status fail_writing(const struct vector_file *file, struct error *error)
{
    return error_set(error, STATUS_REFUSE, ERROR_FILE, "%s: writing: %s", file->part.file.temporary,
                     strerror(errno));
}

static bool write_header(struct vector_file *file)
{
    char header[NPY_HEADER_BYTES];
    npy_header(header, "<f4", file->n_rows, (size_t)file->n_dimensions);
    return fseeko(file->part.file.file, 0, SEEK_SET) == 0 &&
           fwrite(header, 1, sizeof header, file->part.file.file) == sizeof header;
}

enum status vector_file_open(struct vector_file *file, const char *path, struct error *error)
{
    *file = (struct vector_file){0};
    return output_part_open(&file->part, path, error);
}

enum status vector_file_take_up(struct vector_file *file, const char *made_by, int32_t n_dimensions,
                                struct error *error)
{
    file->n_dimensions = n_dimensions;
    enum status status = output_part_take_up(&file->part, made_by, error);
    if (status != STATUS_OK)
        return status;
    const struct output_part_state *state = &file->part.state;
    file->n_rows = state->n_lines;
    if (state->n_bytes &&
        (uint64_t)state->n_bytes != NPY_HEADER_BYTES + (uint64_t)state->n_lines * row_bytes(file))
        return error_set(error, STATUS_REFUSE, ERROR_FILE,
                         "%s: expected %" PRId64 " rows of %zu bytes, got %" PRId64 " bytes: remove it",
                         file->part.file.temporary, state->n_lines, row_bytes(file), state->n_bytes);
    if (state->n_bytes == 0 && !write_header(file))
        return fail_writing(file, error);
    return STATUS_OK;
}

enum status vector_file_restart(struct vector_file *file, struct error *error)
{
    file->n_rows = 0;
    file->part.state = (struct output_part_state){0};
    if (ftruncate(fileno(file->part.file.file), 0) != 0 || !write_header(file))
        return fail_writing(file, error);
    return STATUS_OK;
}

enum status vector_file_add(struct vector_file *file, const float *vectors, int64_t n,
                            const struct output_part_state *state, struct error *error)
{
    size_t n_bytes = (size_t)n * row_bytes(file);
    if (fwrite(vectors, 1, n_bytes, file->part.file.file) != n_bytes)
        return fail_writing(file, error);
    file->n_rows += n;
    assert(state->n_lines == file->n_rows);
    return output_part_keep(&file->part, state, error);
}

enum status vector_file_read(const struct vector_file *file, int64_t row, float *vector, struct error *error)
{
    size_t n_bytes = row_bytes(file), n_done = 0;
    off_t at = NPY_HEADER_BYTES + (off_t)row * (off_t)n_bytes;
    assert(row >= 0 && row < file->n_rows);
    while (n_done < n_bytes) {
        ssize_t n = pread(fileno(file->part.file.file), (char *)vector + n_done, n_bytes - n_done,
                          at + (off_t)n_done);
        if (n <= 0)
            return error_set(error, STATUS_REFUSE, ERROR_FILE, "%s: reading row %" PRId64 ": %s",
                             file->part.file.temporary, row,
                             n < 0 ? strerror(errno) : "it ends before the row");
        n_done += (size_t)n;
    }
    return STATUS_OK;
}

enum status vector_file_complete(struct vector_file *file, struct error *error)
{
    return write_header(file) ? output_part_complete(&file->part, error) : fail_writing(file, error);
}

enum status vector_file_discard(struct vector_file *file, struct error *error)
{
    if (ftruncate(fileno(file->part.file.file), 0) == 0)
        return STATUS_OK; // an empty part is removed when it is closed
    return error_set(error, STATUS_REFUSE, ERROR_FILE, "%s: %s", file->part.file.temporary, strerror(errno));
}

void vector_file_close(struct vector_file *file)
{
    output_part_close(&file->part);
}
