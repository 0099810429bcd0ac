// A file of measured tiles (--tiles FILE): a worker that starts again measures only what is absent from it.
//
//   sheaf tiles 1
//   device NVIDIA H200, compute capability 9.0, 132 multiprocessors, driver for CUDA 13.0
//   q4_k 4096 x 28672 gated, up to 64 rows: 256x64, 25.9 us
//   q4_k 14336 x 4096 plain, up to 64 rows: 64x64 divided, 13.1 us
//
// A line after the first two is a struct tile_choice: type, inputs x outputs, epilogue, step of rows, tile, time of a launch.
// It holds for matrices of these sizes in any model.
//
// Thread: engine.
#pragma once

#include "gpu/tile_choice.h"
#include "schemas/base/text.h"

enum { TILE_FILE_VERSION = 1 };
enum { TILE_FILE_BYTES_MAX = 1 << 20, TILE_FILE_DEVICE_BYTES = 192 };

enum tile_file_state {
    TILE_FILE_ABSENT,
    TILE_FILE_READ,
    TILE_FILE_OTHER_VERSION, // choices are not used
    TILE_FILE_OTHER_DEVICE,  // choices are not used
};

const char *tile_name(enum wgmma_tile tile); // "256x64": outputs x rows
// Appends the line of a choice, without the newline.
void tile_choice_print(struct buffer *out, const struct tile_choice *choice);
// The text of the device's line.
void tile_file_device(char text[TILE_FILE_DEVICE_BYTES], const struct device_facts *facts);
// Adds the file's choices. Errors, STATUS_REFUSE: it cannot be read; it is no file of tiles; a line is malformed (the text has
// its number).
enum status tile_file_read(struct tile_choices *choices, const char *path, const struct device_facts *facts,
                           enum tile_file_state *state, struct error *error) WARN_UNUSED;
// Writes all choices to a temporary file beside it (PATH.XXXXXX) and renames it, so that the file is complete at any time,
// even if several workers write it. The last worker's choices remain.
enum status tile_file_write(const struct tile_choices *choices, const char *path,
                            const struct device_facts *facts, struct error *error) WARN_UNUSED;
