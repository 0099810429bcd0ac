#include "consumer/command/files/text_rows.h"

#include "schemas/base/digest.h"

#include <stdlib.h>
#include <string.h>

struct text_row {
    uint64_t digest[2];
    int64_t row;
};

enum { CAPACITY_FIRST = 1024 };

static bool reserve(struct text_rows *rows)
{
    if (rows->n == UINT32_MAX)
        return false;
    if (rows->n == rows->capacity) {
        size_t capacity = rows->capacity ? 2 * rows->capacity : CAPACITY_FIRST;
        struct text_row *items = realloc(rows->items, capacity * sizeof *items);
        if (!items)
            return false;
        rows->items = items;
        rows->capacity = capacity;
    }
    return hash_index_reserve(&rows->index);
}

bool text_rows_add(struct text_rows *rows, struct text text, int64_t row, int64_t *first)
{
    struct digest whole = digest_of(text.data, text.size);
    struct text_row added = {.row = row};
    memcpy(added.digest, whole.bytes, sizeof added.digest);
    if (!reserve(rows))
        return false;
    uint64_t hash = added.digest[0];
    struct hash_slot *slot = hash_index_slot(&rows->index, hash);
    for (; slot->number; slot = hash_index_next(&rows->index, slot, hash)) {
        const struct text_row *item = &rows->items[slot->number - 1];
        *first = item->row;
        if (memcmp(item->digest, added.digest, sizeof added.digest) == 0)
            return true;
    }
    *first = -1;
    rows->items[rows->n++] = added;
    hash_index_fill(&rows->index, slot, hash, (uint32_t)rows->n);
    return true;
}

void text_rows_finish(struct text_rows *rows)
{
    hash_index_finish(&rows->index);
    free(rows->items);
    *rows = (struct text_rows){0};
}
