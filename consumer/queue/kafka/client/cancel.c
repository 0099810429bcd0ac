#include "consumer/queue/kafka/client/cancel.h"

#include "consumer/queue/kafka/client/marker.h"
#include "schemas/base/hash.h"
#include "schemas/job.h"
#include "schemas/value.h"

#include <inttypes.h>
#include <stdlib.h>

// ---- records ----

void cancel_encode(const struct cancel *cancel, struct buffer *key, struct buffer *value)
{
    buffer_add_string(key, "[\"cancel\",");
    json_encode_string(cancel->dataset, key);
    buffer_add_string(value, "{\"dataset\":");
    json_encode_string(cancel->dataset, value);
    if (cancel->job_id.size > 0) {
        buffer_add_string(key, ",");
        json_encode_string(cancel->job_id, key);
        buffer_add_string(value, ",\"job_id\":");
        json_encode_string(cancel->job_id, value);
    }
    buffer_add_string(key, "]");
    buffer_add_format(value, ",\"at\":%" PRId64, cancel->at_s);
    if (cancel->n_ends > 0) {
        buffer_add_string(value, ",\"jobs\":");
        json_encode_string(cancel->jobs, value);
        for (int32_t i = 0; i < cancel->n_ends; i++)
            buffer_add_format(value, "%s%" PRId64, i == 0 ? ",\"ends\":[" : ",", cancel->ends[i]);
        buffer_add_string(value, "]");
    }
    buffer_add_string(value, "}");
}

static enum status read_name(const struct value *value, const char *name, size_t size_max, struct text *text,
                             struct error *error)
{
    *text = (struct text){0};
    if (!value || value->kind == VALUE_NULL)
        return STATUS_OK;
    if (value->kind != VALUE_STRING || value->text.size > size_max)
        return error_set(error, STATUS_REJECT, ERROR_INVALID_FIELD,
                         "%s: expected a string of at most %zu bytes", name, size_max);
    *text = value->text;
    return STATUS_OK;
}

static enum status read_names(const struct value *dataset, const struct value *job_id, struct cancel *cancel,
                              struct error *error)
{
    enum status status = read_name(dataset, "dataset", JOB_DATASET_BYTES_MAX, &cancel->dataset, error);
    if (status == STATUS_OK)
        status = read_name(job_id, "job_id", JOB_ID_BYTES_MAX, &cancel->job_id, error);
    if (status == STATUS_OK && cancel->dataset.size == 0)
        status = error_set(error, STATUS_REJECT, ERROR_MISSING_FIELD, "dataset is missing");
    return status;
}

// ["cancel", DATASET] or ["cancel", DATASET, JOB_ID]
static enum status decode_key(const struct value *key, struct cancel *cancel, struct error *error)
{
    if (key->kind != VALUE_ARRAY || key->array.n_items < 2 || key->array.n_items > 3 ||
        key->array.items[0].kind != VALUE_STRING || !text_equals_string(key->array.items[0].text, "cancel"))
        return error_set(error, STATUS_REJECT, ERROR_INVALID_FIELD,
                         "the key is not [\"cancel\", DATASET, JOB_ID]");
    cancel->at_s = CANCEL_NEVER;
    return read_names(&key->array.items[1], key->array.n_items == 3 ? &key->array.items[2] : NULL, cancel,
                      error);
}

static enum status read_ends(const struct value *value, struct arena *arena, struct cancel *cancel,
                             struct error *error)
{
    const struct value *ends = value_get(value, "ends");
    enum status status =
        read_name(value_get(value, "jobs"), "jobs", MARKER_TOPIC_BYTES_MAX, &cancel->jobs, error);
    if (status != STATUS_OK || !ends)
        return status;
    if (ends->kind != VALUE_ARRAY || ends->array.n_items > CANCEL_ENDS_MAX)
        return error_set(error, STATUS_REJECT, ERROR_INVALID_FIELD, "ends: expected an array of at most %d",
                         CANCEL_ENDS_MAX);
    cancel->ends = arena_allocate(arena, ((size_t)ends->array.n_items + 1) * sizeof *cancel->ends);
    if (!cancel->ends)
        return error_memory(error, STATUS_RESTART, "remembering a cancellation");
    for (size_t i = 0; i < (size_t)ends->array.n_items; i++) {
        const struct value *end = &ends->array.items[i];
        if (end->kind != VALUE_INTEGER || end->integer < 0)
            return error_set(error, STATUS_REJECT, ERROR_INVALID_FIELD, "ends: expected offsets");
        cancel->ends[cancel->n_ends++] = end->integer;
    }
    return STATUS_OK;
}

static enum status decode_value(const struct value *value, struct arena *arena, struct cancel *cancel,
                                struct error *error)
{
    if (value->kind != VALUE_OBJECT)
        return error_set(error, STATUS_REJECT, ERROR_INVALID_FIELD, "expected an object");
    const struct value *at = value_get(value, "at");
    if (!at || at->kind != VALUE_INTEGER)
        return error_set(error, STATUS_REJECT, ERROR_MISSING_FIELD, "expected the integer \"at\"");
    cancel->at_s = at->integer;
    enum status status = read_names(value_get(value, "dataset"), value_get(value, "job_id"), cancel, error);
    return status == STATUS_OK ? read_ends(value, arena, cancel, error) : status;
}

enum status cancel_decode(struct text key, struct text value, struct arena *arena, struct cancel *cancel,
                          struct error *error)
{
    *cancel = (struct cancel){0};
    struct text text = value.size > 0 ? value : key;
    if (text.size > CANCEL_BYTES_MAX)
        return error_set(error, STATUS_REJECT, ERROR_LIMIT_EXCEEDED, "%zu bytes, at most %d are accepted",
                         text.size, CANCEL_BYTES_MAX);
    struct value tree;
    enum status status = json_decode(text, arena, &tree, error);
    if (status != STATUS_OK)
        return status;
    return value.size > 0 ? decode_value(&tree, arena, cancel, error) : decode_key(&tree, cancel, error);
}

// ---- the set ----

static size_t hash_name(struct text dataset, struct text job_id)
{
    uint64_t seed = hash_bytes(dataset.data, dataset.size, 0);
    return (size_t)hash_bytes(job_id.data, job_id.size, seed);
}

// The item of that name, or the free slot for it.
static struct cancel_item *find_slot(const struct cancel_set *set, struct text dataset, struct text job_id)
{
    size_t at = hash_name(dataset, job_id) & (set->capacity - 1);
    while (set->items[at].dataset.data &&
           !(text_equal(set->items[at].dataset, dataset) && text_equal(set->items[at].job_id, job_id)))
        at = (at + 1) & (set->capacity - 1);
    return &set->items[at];
}

static bool grow_set(struct cancel_set *set)
{
    struct cancel_set larger = {.capacity = set->capacity ? set->capacity * 2 : 64, .n_items = set->n_items};
    larger.items = calloc(larger.capacity, sizeof *larger.items);
    if (!larger.items)
        return false;
    for (size_t i = 0; i < set->capacity; i++) {
        if (set->items[i].dataset.data)
            *find_slot(&larger, set->items[i].dataset, set->items[i].job_id) = set->items[i];
    }
    free(set->items);
    set->items = larger.items;
    set->capacity = larger.capacity;
    return true;
}

static enum status add_item(struct cancel_set *set, struct cancel_item *item, struct text dataset,
                            struct text job_id, struct error *error)
{
    char *dataset_copy = arena_copy(&set->arena, dataset.data, dataset.size);
    char *job_copy = arena_copy(&set->arena, job_id.data, job_id.size);
    if (!dataset_copy || !job_copy)
        return error_memory(error, STATUS_RESTART, "remembering a cancellation");
    *item = (struct cancel_item){.dataset = {dataset_copy, dataset.size},
                                 .job_id = {job_copy, job_id.size},
                                 .at_s = CANCEL_NEVER,
                                 .submitted_s = CANCEL_NEVER};
    set->n_items++;
    return STATUS_OK;
}

// Cancellations and submissions have a limit each: submissions take no room from cancellations.
static bool has_room(const struct cancel_set *set, bool is_cancel)
{
    return is_cancel ? set->n_cancelled < CANCEL_SET_MAX
                     : set->n_items - set->n_withdrawn - set->n_cancelled < (size_t)CANCEL_SET_MAX;
}

static bool is_withdrawn(const struct cancel_item *item)
{
    return item->dataset.data && !item->is_cancelled && item->submitted_s == CANCEL_NEVER;
}

// Counts an item again that was changed. `was`: is_withdrawn() before.
static void count_withdrawn(struct cancel_set *set, const struct cancel_item *item, bool was)
{
    set->n_withdrawn += (size_t)(is_withdrawn(item) && !was);
    set->n_withdrawn -= (size_t)(!is_withdrawn(item) && was);
}

static enum status keep_ends(struct cancel_set *set, struct cancel_item *item, const struct cancel *cancel,
                             struct error *error)
{
    if (cancel->n_ends > item->n_ends_max) {
        item->n_ends = item->n_ends_max = 0;
        item->ends = arena_allocate(&set->arena, (size_t)cancel->n_ends * sizeof *item->ends);
        if (!item->ends)
            return error_memory(error, STATUS_RESTART, "remembering a cancellation");
        item->n_ends_max = cancel->n_ends;
    }
    item->n_ends = cancel->n_ends;
    for (int32_t i = 0; i < cancel->n_ends; i++)
        item->ends[i] = cancel->ends[i];
    return STATUS_OK;
}

static bool copy_item(struct cancel_set *set, const struct cancel_item *item)
{
    struct error error;
    if (2 * (set->n_items + 1) > set->capacity && !grow_set(set))
        return false;
    struct cancel_item *copy = find_slot(set, item->dataset, item->job_id);
    const struct cancel ends = {.ends = item->ends, .n_ends = item->n_ends};
    if (add_item(set, copy, item->dataset, item->job_id, &error) != STATUS_OK ||
        keep_ends(set, copy, &ends, &error) != STATUS_OK)
        return false;
    copy->at_s = item->at_s;
    copy->submitted_s = item->submitted_s;
    copy->is_cancelled = item->is_cancelled;
    set->n_cancelled += copy->is_cancelled;
    return true;
}

// Frees the memory of withdrawn items. Without memory for it they stay.
static void drop_withdrawn(struct cancel_set *set)
{
    struct cancel_set kept = {0};
    if (set->n_withdrawn < CANCEL_WITHDRAWN_MAX || 2 * set->n_withdrawn < set->n_items)
        return;
    for (size_t i = 0; i < set->capacity; i++) {
        const struct cancel_item *item = &set->items[i];
        if (item->dataset.data && !is_withdrawn(item) && !copy_item(&kept, item)) {
            cancel_set_finish(&kept);
            return;
        }
    }
    cancel_set_finish(set);
    *set = kept;
}

static void withdraw_item(struct cancel_set *set, struct cancel_item *item)
{
    bool was = is_withdrawn(item);
    item->at_s = CANCEL_NEVER;
    set->n_cancelled -= item->is_cancelled;
    item->is_cancelled = false;
    count_withdrawn(set, item, was);
    drop_withdrawn(set);
}

enum status cancel_set_put(struct cancel_set *set, const struct cancel *cancel, struct error *error)
{
    if (2 * (set->n_items + 1) > set->capacity && !grow_set(set))
        return error_memory(error, STATUS_RESTART, "remembering a cancellation");
    struct cancel_item *item = find_slot(set, cancel->dataset, cancel->job_id);
    if (cancel->at_s == CANCEL_NEVER) {
        if (item->dataset.data)
            withdraw_item(set, item);
        return STATUS_OK;
    }
    if (!item->is_cancelled && !has_room(set, true) && cancel->job_id.size)
        return STATUS_OK; // the job is computed for nothing
    if (!item->is_cancelled && !has_room(set, true))
        return error_set(error, STATUS_REFUSE, ERROR_LIMIT_EXCEEDED,
                         "the control topic holds more than %d cancellations; delete old ones",
                         CANCEL_SET_MAX);
    bool is_new = !item->dataset.data;
    enum status status = is_new ? add_item(set, item, cancel->dataset, cancel->job_id, error) : STATUS_OK;
    if (status != STATUS_OK)
        return status;
    bool was = !is_new && is_withdrawn(item);
    set->n_cancelled += !item->is_cancelled;
    item->is_cancelled = true;
    item->at_s = cancel->at_s;
    count_withdrawn(set, item, was);
    return keep_ends(set, item, cancel, error);
}

enum status cancel_set_put_submission(struct cancel_set *set, struct text dataset, int64_t created_s,
                                      struct error *error)
{
    if (2 * (set->n_items + 1) > set->capacity && !grow_set(set))
        return error_memory(error, STATUS_RESTART, "remembering a cancellation");
    struct cancel_item *item = find_slot(set, dataset, (struct text){0});
    if (!item->dataset.data && (created_s == CANCEL_NEVER || !has_room(set, false)))
        return STATUS_OK;
    bool is_new = !item->dataset.data;
    enum status status = is_new ? add_item(set, item, dataset, (struct text){0}, error) : STATUS_OK;
    if (status != STATUS_OK)
        return status;
    bool was = !is_new && is_withdrawn(item);
    item->submitted_s = created_s;
    count_withdrawn(set, item, was);
    return STATUS_OK;
}

static int64_t until_of(const struct cancel_item *item, int64_t submitted_s)
{
    if (!item->dataset.data || item->at_s == CANCEL_NEVER)
        return CANCEL_NEVER;
    return item->at_s < submitted_s ? submitted_s : item->at_s;
}

int64_t cancel_set_until(const struct cancel_set *set, struct text dataset, struct text job_id)
{
    if (set->n_items == 0)
        return CANCEL_NEVER;
    const struct cancel_item *whole = find_slot(set, dataset, (struct text){0});
    int64_t submitted_s = whole->dataset.data ? whole->submitted_s : CANCEL_NEVER;
    return until_of(job_id.size ? find_slot(set, dataset, job_id) : whole, submitted_s);
}

bool cancel_set_has(const struct cancel_set *set, struct text dataset, struct text job_id,
                    int64_t submitted_s)
{
    int64_t whole_s = cancel_set_until(set, dataset, (struct text){0});
    int64_t one_s = cancel_set_until(set, dataset, job_id);
    return (whole_s != CANCEL_NEVER && submitted_s <= whole_s) ||
           (one_s != CANCEL_NEVER && submitted_s <= one_s);
}

static bool is_below_ends(const struct cancel_item *item, int64_t submitted_s, int32_t partition,
                          int64_t offset)
{
    return item->dataset.data && item->at_s != CANCEL_NEVER && partition >= 0 && partition < item->n_ends &&
           offset < item->ends[partition] &&
           (item->at_s > INT64_MAX - CANCEL_SKEW_S || submitted_s <= item->at_s + CANCEL_SKEW_S);
}

bool cancel_set_has_record(const struct cancel_set *set, struct text dataset, struct text job_id,
                           int64_t submitted_s, int32_t partition, int64_t offset)
{
    return set->n_items > 0 &&
           (cancel_set_has(set, dataset, job_id, submitted_s) ||
            is_below_ends(find_slot(set, dataset, (struct text){0}), submitted_s, partition, offset) ||
            is_below_ends(find_slot(set, dataset, job_id), submitted_s, partition, offset));
}

void cancel_set_finish(struct cancel_set *set)
{
    free(set->items);
    arena_finish(&set->arena);
    *set = (struct cancel_set){0};
}
