#include "consumer/command/files/text_rows.h"

#include "schemas/base/digest.h"

#include <stdlib.h>
#include <string.h>

struct text_row {
    uint64_t digest[2];
    int64_t row; // from 1; 0: a free slot
};

enum { SLOTS_FIRST = 1024 };

static struct text_row *find_slot(const struct text_rows *rows, const uint64_t digest[2])
{
    size_t at = (size_t)digest[0] & (rows->n_slots - 1);
    while (rows->slots[at].row && memcmp(rows->slots[at].digest, digest, sizeof rows->slots[at].digest) != 0)
        at = (at + 1) & (rows->n_slots - 1);
    return &rows->slots[at];
}

static bool grow(struct text_rows *rows)
{
    struct text_rows larger = {.n_slots = rows->n_slots ? 2 * rows->n_slots : SLOTS_FIRST, .n = rows->n};
    larger.slots = calloc(larger.n_slots, sizeof *larger.slots);
    if (!larger.slots)
        return false;
    for (size_t i = 0; i < rows->n_slots; i++)
        if (rows->slots[i].row)
            *find_slot(&larger, rows->slots[i].digest) = rows->slots[i];
    free(rows->slots);
    *rows = larger;
    return true;
}

bool text_rows_add(struct text_rows *rows, struct text text, int64_t row, int64_t *first)
{
    struct digest whole = digest_of(text.data, text.size);
    uint64_t digest[2];
    memcpy(digest, whole.bytes, sizeof digest);
    if (4 * (rows->n + 1) > 3 * rows->n_slots && !grow(rows))
        return false;
    struct text_row *slot = find_slot(rows, digest);
    *first = slot->row - 1;
    if (slot->row)
        return true;
    memcpy(slot->digest, digest, sizeof digest);
    slot->row = row + 1;
    rows->n++;
    return true;
}

void text_rows_finish(struct text_rows *rows)
{
    free(rows->slots);
    *rows = (struct text_rows){0};
}
