// The bytes of an input file, which can be read several times from the start. A pipe, FIFO, socket or
// terminal is first copied into an unnamed temporary file in TMPDIR (else /tmp). A file that begins as gzip
// does (RFC 1952) is decompressed while it is read. Thread: main.
#pragma once

#include "schemas/base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gzip_stream;

struct input_source {
    int fd;
    const char *name;         // for messages
    struct gzip_stream *gzip; // NULL: not compressed
};

// "-" is standard input. STATUS_REFUSE: the file is absent, a folder, a device without an end, or can't be
// read.
enum status input_source_open(struct input_source *source, const char *path, struct error *error) WARN_UNUSED;
// The same for a file of any format, whose bytes the caller reads from `fd`, by offset. It is not
// decompressed.
enum status input_source_open_bytes(struct input_source *source, const char *path,
                                    struct error *error) WARN_UNUSED;
void input_source_close(struct input_source *source);
enum status input_source_rewind(struct input_source *source, struct error *error) WARN_UNUSED;
// Reads the next n_max bytes, fewer at the end. STATUS_REFUSE also if compressed data are damaged or end too
// early.
enum status input_source_read(struct input_source *source, char *bytes, size_t n_max, size_t *n,
                              struct error *error) WARN_UNUSED;
