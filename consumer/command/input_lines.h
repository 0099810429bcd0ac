// The lines of a source, with the hash of all lines so far: two files whose first n lines have one hash have
// the same first n lines. The hash is of the lines, not of the bytes: a last line without its line feed has
// the hash of one with it. Thread: main.
#pragma once

#include "consumer/command/input_source.h"
#include "schemas/job.h"

enum {
    INPUT_BUFFER_BYTES = 1 << 18,
    // bytes kept of a line: enough to detect that it is too large for a job
    INPUT_LINE_BYTES_MAX = JOB_RECORD_BYTES_MAX + 1,
    INPUT_TAIL_BYTES = 4096, // kept of the end of a line that is longer
};

struct input_lines {
    struct input_source *source;
    char *bytes; // [INPUT_BUFFER_BYTES]: read and not yet returned from `begin` to `end`
    size_t begin, end;
    struct buffer kept;  // a line that spans two reads
    int64_t number;      // of the line returned last, from 1
    uint64_t hash;       // of the lines returned, each one's the seed of the next one's
    uint64_t line_bytes; // of the line returned last, without its line feed
    struct buffer
        tail;      // of a line above INPUT_LINE_BYTES_MAX: its last bytes, none of which was kept; else empty
    bool has_feed; // the line returned last ends in a line feed: it is not the rest of the source
    bool has_mark; // the source begins with a byte order mark; known with the first line
};

// From the beginning of the source, which stays the caller's.
enum status input_lines_open(struct input_lines *lines, struct input_source *source,
                             struct error *error) WARN_UNUSED;
void input_lines_close(struct input_lines *lines);
enum status input_lines_rewind(struct input_lines *lines, struct error *error) WARN_UNUSED;
// The next line without its line feed, at most INPUT_LINE_BYTES_MAX of it; valid until the next call. data
// NULL: the end.
enum status input_lines_next(struct input_lines *lines, struct text *line, struct error *error) WARN_UNUSED;
// Only spaces, tabs and carriage returns.
bool input_line_is_blank(struct text line);
