#include "engine/template/container.h"
#include "engine/template/rendering.h"

#include <string.h>

enum {
    CAPACITY_FIRST = 8,
    ENTRIES_MAX = 1 << 24, // more never fit TEMPLATE_MEMORY_BYTES_MAX
};

bool list_add(struct rendering *rendering, struct list_builder *builder, const struct object *item)
{
    if (builder->n_items == builder->capacity) {
        size_t capacity = builder->capacity ? builder->capacity * 2 : CAPACITY_FIRST;
        struct object *items = rendering_allocate_array(rendering, capacity, sizeof *items);
        if (!items)
            return false;
        if (builder->n_items)
            memcpy(items, builder->items, builder->n_items * sizeof *items);
        builder->items = items;
        builder->capacity = capacity;
    }
    builder->items[builder->n_items++] = *item;
    return rendering_spend(rendering, 1);
}

bool list_finish(struct rendering *rendering, struct list_builder *builder, enum object_kind kind,
                 struct object *object)
{
    return list_wrap(rendering, builder->items, builder->n_items, kind, object);
}

bool list_wrap(struct rendering *rendering, const struct object *items, size_t n_items, enum object_kind kind,
               struct object *object)
{
    struct sequence *sequence = rendering_allocate(rendering, sizeof *sequence);
    if (!sequence)
        return false;
    *sequence = (struct sequence){n_items, items};
    *object = (struct object){.kind = (uint8_t)kind, .sequence = sequence};
    return true;
}

bool list_allocate(struct rendering *rendering, size_t n_items, enum object_kind kind, struct object **items,
                   struct object *object)
{
    size_t bytes;
    if (__builtin_mul_overflow(n_items, sizeof **items, &bytes) ||
        __builtin_add_overflow(bytes, sizeof(struct sequence), &bytes))
        bytes = SIZE_MAX;
    struct sequence *sequence = rendering_allocate(rendering, bytes);
    if (!sequence)
        return false;
    *items = (struct object *)(sequence + 1);
    *sequence = (struct sequence){n_items, *items};
    *object = (struct object){.kind = (uint8_t)kind, .sequence = sequence};
    return true;
}

bool tuple_pair(struct rendering *rendering, const struct object *first, const struct object *second,
                struct object *object)
{
    struct object *items;
    struct object a = *first, b = *second; // `object` may be one of them
    if (!list_allocate(rendering, 2, OBJECT_TUPLE, &items, object))
        return false;
    items[0] = a;
    items[1] = b;
    return true;
}

struct dict *dict_create(struct rendering *rendering, size_t capacity)
{
    if (capacity > ENTRIES_MAX) {
        rendering_set_limit_error(rendering, "a dict of more than %d entries", ENTRIES_MAX);
        return NULL;
    }
    size_t bytes = sizeof(struct dict) + capacity * sizeof(struct dict_entry);
    struct dict *dict = rendering_allocate(rendering, bytes);
    if (dict) {
        dict->entries = (struct dict_entry *)(dict + 1);
        dict->capacity = (uint32_t)capacity;
    }
    return dict;
}

struct object dict_object(struct dict *dict)
{
    return (struct object){.kind = OBJECT_DICT, .dict = dict};
}

static bool check_key(struct rendering *rendering, const struct object *key)
{
    if (key->kind <= OBJECT_STRING)
        return true;
    if (key->kind == OBJECT_LIST || key->kind == OBJECT_DICT || key->kind == OBJECT_VIEW)
        return rendering_fail(rendering, "unhashable type: '%s'", object_type_name(key));
    return rendering_fail(rendering, "a key of type '%s' is not supported", object_type_name(key));
}

// Dicts of templates are small: entries are compared one by one. *entry stays NULL when there is none.
static bool find_entry(struct rendering *rendering, struct dict *dict, const struct object *key,
                       struct dict_entry **entry)
{
    *entry = NULL;
    if (!check_key(rendering, key) || !rendering_spend(rendering, dict->n_entries / 8))
        return false;
    for (uint32_t i = 0; i < dict->n_entries && !*entry; i++) {
        struct dict_entry *candidate = &dict->entries[i];
        bool equal;
        if (key->kind == OBJECT_STRING && candidate->key.kind == OBJECT_STRING)
            equal = text_equal(key->text, candidate->key.text);
        else if (!object_equal(rendering, key, &candidate->key, &equal))
            return false;
        if (equal)
            *entry = candidate;
    }
    return true;
}

static bool grow(struct rendering *rendering, struct dict *dict)
{
    size_t capacity = dict->capacity ? (size_t)dict->capacity * 2 : CAPACITY_FIRST;
    if (capacity > ENTRIES_MAX)
        return rendering_fail_limit(rendering, "a dict of more than %d entries", ENTRIES_MAX);
    struct dict_entry *entries = rendering_allocate_array(rendering, capacity, sizeof *entries);
    if (!entries)
        return false;
    if (dict->n_entries)
        memcpy(entries, dict->entries, dict->n_entries * sizeof *entries);
    dict->entries = entries;
    dict->capacity = (uint32_t)capacity;
    return true;
}

bool dict_set(struct rendering *rendering, struct dict *dict, const struct object *key,
              const struct object *value)
{
    struct dict_entry *entry;
    if (!rendering_spend(rendering, 1) || !find_entry(rendering, dict, key, &entry))
        return false;
    if (entry) {
        entry->value = *value;
        return true;
    }
    if (dict->n_entries == dict->capacity && !grow(rendering, dict))
        return false;
    dict->entries[dict->n_entries] = (struct dict_entry){*key, *value};
    dict->n_entries++;
    return true;
}

bool dict_set_text(struct rendering *rendering, struct dict *dict, struct text key,
                   const struct object *value)
{
    struct object string = object_string(key);
    return dict_set(rendering, dict, &string, value);
}

bool dict_find(struct rendering *rendering, struct dict *dict, const struct object *key,
               const struct object **value)
{
    struct dict_entry *entry;
    if (!find_entry(rendering, dict, key, &entry))
        return false;
    *value = entry ? &entry->value : NULL;
    return true;
}

bool dict_find_text(struct rendering *rendering, struct dict *dict, struct text key,
                    const struct object **value)
{
    struct object string = object_string(key);
    return dict_find(rendering, dict, &string, value);
}

bool dict_view_item(struct rendering *rendering, const struct dict *dict, enum view_kind view, size_t index,
                    struct object *item)
{
    const struct dict_entry *entry = &dict->entries[index];
    if (view == VIEW_ITEMS)
        return tuple_pair(rendering, &entry->key, &entry->value, item);
    *item = view == VIEW_KEYS ? entry->key : entry->value;
    return true;
}
