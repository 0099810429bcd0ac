// The custom_ids of an input's lines: found also in lines that are no JSON, and unique within the input.
// Thread: main.
#pragma once

#include "consumer/command/input_lines.h"

enum {
    // hashes in memory at a time: 64 MiB. An input of more lines is read once per share of the hashes
    INPUT_IDS_MAX = 4 << 20,
};

// The custom_id of a line, else a job_id before it; in the arena or within the line. In a line that is not a
// JSON object, the first text that looks like the member custom_id is used. False: none, or none that is a
// valid id.
bool input_ids_find(struct text line, struct arena *arena, struct text *id);

// The custom_id of a line of which only the beginning was kept (input_lines.h), by its last bytes: a member of
// the outermost object behind the one that made the line too long. False: none there.
bool input_ids_find_behind(struct text tail, struct arena *arena, struct text *id);

// Refuses an input in which two lines have one id; a line without one has DATASET-LINE. Reads `lines` from
// the beginning, several times where it must, and leaves their position anywhere. n_max and n_bits are
// INPUT_IDS_MAX and 64 but in tests: hashes of fewer bits collide.
struct input_ids_limits {
    size_t n_max;
    int n_bits;
};
enum status input_ids_check(struct input_lines *lines, struct text dataset,
                            const struct input_ids_limits *limits, struct error *error) WARN_UNUSED;
