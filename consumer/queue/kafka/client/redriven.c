#include "consumer/queue/kafka/client/redriven.h"

#include "schemas/value.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { RANGE_ITEMS = 4 };

// ---- the set ----

// Returns the number of ranges that begin at or before the offset.
static size_t n_up_to(const struct redriven *redriven, int32_t partition, int64_t offset)
{
    size_t low = 0, high = redriven->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct redriven_range *range = &redriven->ranges[middle];
        if (range->partition < partition || (range->partition == partition && range->first <= offset))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

// NULL: no range of the partition begins at or before the offset.
static struct redriven_range *range_before(const struct redriven *redriven, int32_t partition, int64_t offset)
{
    size_t n = n_up_to(redriven, partition, offset);
    struct redriven_range *range = n ? &redriven->ranges[n - 1] : NULL;
    return range && range->partition == partition ? range : NULL;
}

bool redriven_has(const struct redriven *redriven, int32_t partition, int64_t offset)
{
    const struct redriven_range *range = range_before(redriven, partition, offset);
    return range && offset <= range->last;
}

static void remove_at(struct redriven *redriven, size_t index)
{
    memmove(&redriven->ranges[index], &redriven->ranges[index + 1],
            (redriven->n - index - 1) * sizeof *redriven->ranges);
    redriven->n--;
}

static enum status insert_at(struct redriven *redriven, size_t index, const struct redriven_range *range,
                             struct error *error)
{
    if (redriven->n == REDRIVEN_RANGES_MAX)
        return error_set(error, STATUS_REFUSE, ERROR_LIMIT_EXCEEDED,
                         "more than %d ranges of dead letters were redriven, with others between them",
                         REDRIVEN_RANGES_MAX);
    if (redriven->n == redriven->capacity) {
        size_t capacity = redriven->capacity ? 2 * redriven->capacity : 64;
        struct redriven_range *ranges = realloc(redriven->ranges, capacity * sizeof *ranges);
        if (!ranges)
            return error_memory(error, STATUS_REFUSE, "the redriven dead letters");
        redriven->ranges = ranges;
        redriven->capacity = capacity;
    }
    memmove(&redriven->ranges[index + 1], &redriven->ranges[index],
            (redriven->n - index) * sizeof *redriven->ranges);
    redriven->ranges[index] = *range;
    redriven->n++;
    return STATUS_OK;
}

enum status redriven_add(struct redriven *redriven, int32_t partition, int64_t offset, int64_t written_s,
                         struct error *error)
{
    size_t index = n_up_to(redriven, partition, offset);
    struct redriven_range *before = range_before(redriven, partition, offset);
    struct redriven_range *after = index < redriven->n ? &redriven->ranges[index] : NULL;
    bool joins_before = before && before->last + 1 == offset;
    bool joins_after = after && after->partition == partition && after->first == offset + 1;
    if (!joins_before && !joins_after)
        return insert_at(redriven, index, &(struct redriven_range){partition, offset, offset, written_s},
                         error);
    if (!joins_before) {
        after->first = offset;
        return STATUS_OK;
    }
    before->last = joins_after ? after->last : offset;
    before->written_s = joins_after ? after->written_s : written_s;
    if (joins_after)
        remove_at(redriven, index);
    return STATUS_OK;
}

void redriven_drop(struct redriven *redriven, int32_t partition)
{
    size_t n = 0;
    for (size_t i = 0; i < redriven->n; i++) {
        if (redriven->ranges[i].partition != partition)
            redriven->ranges[n++] = redriven->ranges[i];
    }
    redriven->n = n;
}

void redriven_finish(struct redriven *redriven)
{
    free(redriven->ranges);
    *redriven = (struct redriven){0};
}

// ---- its record ----

static void add_key(struct buffer *key, struct text jobs, struct text dead)
{
    buffer_add_string(key, "[\"submit\",");
    json_encode_string(jobs, key);
    buffer_add_string(key, ",");
    json_encode_string(dead, key);
    buffer_add_string(key, ",\"redrive\"]");
}

void redriven_encode(const struct redriven *redriven, struct text jobs, struct text dead, struct buffer *key,
                     struct buffer *value)
{
    add_key(key, jobs, dead);
    buffer_add_string(value, "{\"ranges\":[");
    for (size_t i = 0; i < redriven->n; i++) {
        const struct redriven_range *range = &redriven->ranges[i];
        buffer_add_format(value, "%s[%" PRId32 ",%" PRId64 ",%" PRId64 ",%" PRId64 "]", i ? "," : "",
                          range->partition, range->first, range->last, range->written_s);
    }
    buffer_add_string(value, "]}");
}

bool redriven_is_key(struct text key, struct text jobs, struct text dead)
{
    struct buffer expected = {0};
    add_key(&expected, jobs, dead);
    bool is_key = !expected.failed && text_equal(key, (struct text){expected.data, expected.size});
    buffer_finish(&expected);
    return is_key;
}

static bool read_range(const struct value *value, struct redriven_range *range)
{
    int64_t items[RANGE_ITEMS];
    if (value->kind != VALUE_ARRAY || value->array.n_items != RANGE_ITEMS)
        return false;
    for (size_t i = 0; i < RANGE_ITEMS; i++) {
        const struct value *item = &value->array.items[i];
        if (item->kind != VALUE_INTEGER || item->integer < 0)
            return false;
        items[i] = item->integer;
    }
    *range = (struct redriven_range){(int32_t)items[0], items[1], items[2], items[3]};
    return items[0] <= INT32_MAX && items[1] <= items[2];
}

static bool follows(const struct redriven *redriven, const struct redriven_range *range)
{
    const struct redriven_range *last = redriven->n ? &redriven->ranges[redriven->n - 1] : NULL;
    return !last || last->partition < range->partition ||
           (last->partition == range->partition && last->last < range->first);
}

enum status redriven_decode(struct redriven *redriven, struct text value, struct error *error)
{
    struct arena arena = {0};
    struct value tree;
    redriven->n = 0;
    enum status status = json_decode(value, &arena, &tree, error);
    const struct value *ranges = status == STATUS_OK ? value_get(&tree, "ranges") : NULL;
    bool is_valid = ranges && ranges->kind == VALUE_ARRAY;
    for (size_t i = 0; is_valid && status == STATUS_OK && i < ranges->array.n_items; i++) {
        struct redriven_range range;
        is_valid = read_range(&ranges->array.items[i], &range) && follows(redriven, &range);
        if (is_valid)
            status = insert_at(redriven, redriven->n, &range, error);
    }
    if (status == STATUS_OK && !is_valid)
        status = error_set(error, STATUS_REJECT, ERROR_INVALID_FIELD,
                           "ranges: expected arrays [partition, first, last, written], in order");
    if (status != STATUS_OK)
        redriven->n = 0;
    arena_finish(&arena);
    return status;
}
