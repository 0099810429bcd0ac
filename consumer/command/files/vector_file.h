// The float32 vectors of a table while sheaf embed computes them: an array in NumPy's format, of which row i is
// the vector of the table's row i; a row without a vector is NaN. It is an output_part: an interrupted process
// leaves it, and the same command resumes at its end.
//
//   header, 128 bytes (numpy.lib.format, version 1.0)   "\x93NUMPY" 1 0, length, {'descr': '<f4', ...}
//   row 0: n_dimensions float32
//   row 1: ...
//
// Thread: main.
#pragma once

#include "consumer/command/files/output_part.h"
#include "schemas/base/text.h"

enum { NPY_HEADER_BYTES = 128 };

// Writes NumPy's header of n_rows rows of n_items. `descr`: the dtype.
void npy_header(char header[NPY_HEADER_BYTES], const char *descr, int64_t n_rows, size_t n_items);

struct vector_file {
    struct output_part part;
    int32_t n_dimensions;
    int64_t n_rows;
};

// `path`: of the complete array, never a stream. Errors: of output_part_open.
enum status vector_file_open(struct vector_file *file, const char *path, struct error *error) WARN_UNUSED;
// Resumes: file->part.state has the rows of an earlier process. Errors: of output_part_take_up.
enum status vector_file_take_up(struct vector_file *file, const char *made_by, int32_t n_dimensions,
                                struct error *error) WARN_UNUSED;
// Removes the rows of an earlier process.
enum status vector_file_restart(struct vector_file *file, struct error *error) WARN_UNUSED;
// Appends rows and makes them durable; state->n_lines is the number of rows after them.
enum status vector_file_add(struct vector_file *file, const float *vectors, int64_t n,
                            const struct output_part_state *state, struct error *error) WARN_UNUSED;
// Reads a row that was added.
enum status vector_file_read(const struct vector_file *file, int64_t row, float *vector,
                             struct error *error) WARN_UNUSED;
// Gives the array its number of rows and its name.
enum status vector_file_complete(struct vector_file *file, struct error *error) WARN_UNUSED;
// Removes what was computed.
enum status vector_file_discard(struct vector_file *file, struct error *error) WARN_UNUSED;
// Without one of the two before, the part is kept.
void vector_file_close(struct vector_file *file);
