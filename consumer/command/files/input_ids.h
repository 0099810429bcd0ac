// Finds the custom_ids of an input's lines, also in lines that are not JSON, and checks that they are unique
// within the input. Thread: main.
#pragma once

#include "consumer/command/files/input_lines.h"

enum {
    // hashes in memory at a time: 64 MiB. An input with more lines is read once for each part of the hashes
    INPUT_IDS_MAX = 4 << 20,
};

// Finds the custom_id of a line, else its job_id; *id points into the arena or the line. In a line that is
// not a JSON object, the first text that looks like a member custom_id is used. False: no id, or no valid
// one.
bool input_ids_find(struct text line, struct arena *arena, struct text *id);

// Finds the custom_id of a truncated line (input_lines.h) in its last bytes, as a member of the outermost
// object after the member that made the line too long. False: there is none.
bool input_ids_find_after(struct text tail, struct arena *arena, struct text *id);

// Refuses an input in which two lines have the same id; a line without an id gets DATASET-LINE. Reads `lines`
// from the beginning, several times if needed, and leaves them at any position. n_max and n_bits are
// INPUT_IDS_MAX and 64, except in tests: hashes of fewer bits collide.
struct input_ids_limits {
    size_t n_max;
    int n_bits;
};
enum status input_ids_check(struct input_lines *lines, struct text dataset,
                            const struct input_ids_limits *limits, struct error *error) WARN_UNUSED;
