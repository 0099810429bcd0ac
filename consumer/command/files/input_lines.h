// Reads the lines of a source and hashes all lines so far: if two files have the same hash after n lines,
// their first n lines are the same. Line feeds are not hashed, so a last line has the same hash with and
// without one. Thread: main.
#pragma once

#include "consumer/command/files/input_source.h"
#include "schemas/job.h"

enum {
    INPUT_BUFFER_BYTES = 1 << 18,
    // bytes kept of a line: enough to detect that it is too large for a job
    INPUT_LINE_BYTES_MAX = JOB_RECORD_BYTES_MAX + 1,
    INPUT_TAIL_BYTES = 4096, // kept from the end of a longer line
};

struct input_lines {
    struct input_source *source;
    char *bytes; // [INPUT_BUFFER_BYTES]: read and not yet returned from `begin` to `end`
    size_t begin, end;
    struct buffer kept;  // a line that spans two reads
    int64_t number;      // of the line returned last, from 1
    uint64_t hash;       // of the lines returned: each line's hash is the next line's seed
    uint64_t line_bytes; // of the line returned last, without its line feed
    struct buffer tail;  // last bytes of a line above INPUT_LINE_BYTES_MAX, after those kept; else empty
    bool has_feed;       // the line returned last ended in a line feed; false: the source ended
    bool has_mark;       // the source begins with a byte order mark; known with the first line
};

// Starts at the beginning of the source, which the caller closes later.
enum status input_lines_open(struct input_lines *lines, struct input_source *source,
                             struct error *error) WARN_UNUSED;
void input_lines_close(struct input_lines *lines);
enum status input_lines_rewind(struct input_lines *lines, struct error *error) WARN_UNUSED;
// Reads the next line, without its line feed and at most its first INPUT_LINE_BYTES_MAX bytes; valid until
// the next call. data NULL: the end.
enum status input_lines_next(struct input_lines *lines, struct text *line, struct error *error) WARN_UNUSED;
// Whether the line contains only spaces, tabs and carriage returns.
bool input_line_is_blank(struct text line);
