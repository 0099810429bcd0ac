// A tag of each row: the first 16 bits of its leaf, by which a changed row is found. Only the root proves the rows. A
// table of more than ROW_TAGS_MAX rows has a tag for each group of 2, 4, 8, ... rows: the exclusive or of theirs.
#pragma once

#include "consumer/certificate/merkle.h"
#include "schemas/base/error.h"

enum { ROW_TAGS_MAX = 1 << 20, ROW_TAG_HEX = 4 };

// A zeroed struct is empty.
struct row_tags {
    uint16_t *items; // [n]
    size_t n, capacity;
    int64_t group_rows; // 0: no row yet
    int64_t n_rows;
};

void row_tags_finish(struct row_tags *tags);
// False: out of memory.
bool row_tags_add(struct row_tags *tags, const struct sha256 *leaf) WARN_UNUSED;
// The rows of a group, for a table of n_rows.
int64_t row_tags_group(int64_t n_rows);
// The number of groups.
size_t row_tags_count(int64_t n_rows);
