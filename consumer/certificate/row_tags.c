#include "consumer/certificate/row_tags.h"

#include <stdlib.h>
#include <string.h>

enum { CAPACITY_FIRST = 1024 };

void row_tags_finish(struct row_tags *tags)
{
    free(tags->items);
    *tags = (struct row_tags){0};
}

// Joins each two groups.
static void double_groups(struct row_tags *tags)
{
    for (size_t i = 0; i < tags->n / 2; i++)
        tags->items[i] = tags->items[2 * i] ^ tags->items[2 * i + 1];
    tags->n /= 2;
    tags->group_rows *= 2;
}

static bool begin_group(struct row_tags *tags)
{
    if (tags->n == ROW_TAGS_MAX)
        double_groups(tags);
    if (tags->n == tags->capacity) {
        size_t capacity = tags->capacity ? 2 * tags->capacity : CAPACITY_FIRST;
        uint16_t *items = realloc(tags->items, capacity * sizeof *items);
        if (!items)
            return false;
        tags->items = items;
        tags->capacity = capacity;
    }
    tags->items[tags->n++] = 0;
    return true;
}

bool row_tags_add(struct row_tags *tags, const struct sha256 *leaf)
{
    if (!tags->group_rows)
        tags->group_rows = 1;
    if (tags->n_rows % tags->group_rows == 0 && !begin_group(tags))
        return false;
    tags->items[tags->n - 1] ^= (uint16_t)(leaf->bytes[0] << 8 | leaf->bytes[1]);
    tags->n_rows++;
    return true;
}

int64_t row_tags_group(int64_t n_rows)
{
    int64_t group = 1;
    while ((n_rows - 1) / group >= ROW_TAGS_MAX)
        group *= 2;
    return group;
}

size_t row_tags_count(int64_t n_rows)
{
    return n_rows ? (size_t)((n_rows - 1) / row_tags_group(n_rows)) + 1 : 0;
}
