// The bytes of an input file, which can be read several times from the start. A pipe, FIFO, socket or
// terminal is first copied into an unnamed temporary file in TMPDIR (else /tmp). A file that begins as gzip
// does (RFC 1952) is decompressed while it is read. Thread: main.
#pragma once

#include "schemas/base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gzip_stream;
struct text_stream;

// How the bytes are text.
struct input_text {
    const char
        *encoding; // "utf-8", "utf-16", "cp1252", "latin1"; NULL: UTF-8, or UTF-16 by its byte order mark
    int64_t skip_lines; // lines left out at the beginning
};

struct input_source {
    int fd;
    const char *name;         // for messages
    struct gzip_stream *gzip; // NULL: not compressed
    struct text_stream *text; // NULL: bytes as they are
    int64_t n_lines_skipped;
};

// "-" is standard input. STATUS_REFUSE: the file is absent, a folder, a device without an end, or can't be
// read.
enum status input_source_open(struct input_source *source, const char *path, struct error *error) WARN_UNUSED;
// The same for a file of any format, whose bytes the caller reads from `fd`, by offset. It is not
// decompressed.
enum status input_source_open_bytes(struct input_source *source, const char *path,
                                    struct error *error) WARN_UNUSED;
// From here on the source is text in UTF-8: decoded, without the lines left out, and with LF for CR if the
// lines end in CR alone. STATUS_REFUSE: an unknown encoding, or one that a byte order mark contradicts.
enum status input_source_decode(struct input_source *source, const struct input_text *text,
                                struct error *error) WARN_UNUSED;
// Reads the source to its end, and returns to its beginning. *fits: the encoding that text which is not UTF-8
// probably has; NULL: it is UTF-8.
enum status input_source_guess(struct input_source *source, const char **fits,
                               struct error *error) WARN_UNUSED;
void input_source_close(struct input_source *source);
enum status input_source_rewind(struct input_source *source, struct error *error) WARN_UNUSED;
// Reads the next n_max bytes, fewer at the end. STATUS_REFUSE also if compressed data are damaged or end too
// early.
enum status input_source_read(struct input_source *source, char *bytes, size_t n_max, size_t *n,
                              struct error *error) WARN_UNUSED;
