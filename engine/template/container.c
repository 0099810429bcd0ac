#include "engine/template/container.h"
#include "engine/template/rendering.h"

#include <string.h>

enum {
    CAPACITY_FIRST = 8,
    ENTRIES_MAX = 1 << 24, // more never fit in TEMPLATE_MEMORY_BYTES_MAX
};

void list_add(struct rendering *rendering, struct list_builder *builder, const struct object *item)
{
    if (builder->n_items == builder->capacity) {
        builder->capacity = builder->capacity ? builder->capacity * 2 : CAPACITY_FIRST;
        struct object *items = rendering_allocate_array(rendering, builder->capacity, sizeof *items);
        if (builder->n_items)
            memcpy(items, builder->items, builder->n_items * sizeof *items);
        builder->items = items;
    }
    builder->items[builder->n_items++] = *item;
    rendering_spend(rendering, 1);
}

struct object list_finish(struct rendering *rendering, struct list_builder *builder)
{
    return list_wrap(rendering, builder->items, builder->n_items, OBJECT_LIST);
}

struct object list_wrap(struct rendering *rendering, const struct object *items, size_t n_items,
                        enum object_kind kind)
{
    struct object_sequence *sequence = rendering_allocate(rendering, sizeof *sequence);
    *sequence = (struct object_sequence){n_items, items};
    return (struct object){.kind = (uint8_t)kind, .sequence = sequence};
}

struct object list_allocate(struct rendering *rendering, size_t n_items, enum object_kind kind,
                            struct object **items)
{
    size_t bytes;
    if (__builtin_mul_overflow(n_items, sizeof **items, &bytes) ||
        __builtin_add_overflow(bytes, sizeof(struct object_sequence), &bytes))
        bytes = SIZE_MAX;
    struct object_sequence *sequence = rendering_allocate(rendering, bytes);
    *items = (struct object *)(sequence + 1);
    *sequence = (struct object_sequence){n_items, *items};
    return (struct object){.kind = (uint8_t)kind, .sequence = sequence};
}

struct dict *dict_create(struct rendering *rendering, size_t capacity)
{
    if (capacity > ENTRIES_MAX)
        rendering_fail_limit(rendering, "a dict of more than %d entries", ENTRIES_MAX);
    struct dict *dict = rendering_allocate(rendering, sizeof *dict + capacity * sizeof *dict->entries);
    dict->entries = (struct dict_entry *)(dict + 1);
    dict->capacity = (uint32_t)capacity;
    return dict;
}

struct object dict_object(struct dict *dict)
{
    return (struct object){.kind = OBJECT_DICT, .dict = dict};
}

static void check_key(struct rendering *rendering, const struct object *key)
{
    if (key->kind == OBJECT_LIST || key->kind == OBJECT_DICT || key->kind == OBJECT_VIEW)
        rendering_fail(rendering, "unhashable type: '%s'", object_type_name(key));
    for (size_t i = 0; key->kind == OBJECT_TUPLE && i < key->sequence->n_items; i++) {
        rendering_enter(rendering);
        check_key(rendering, &key->sequence->items[i]);
        rendering_leave(rendering);
    }
    if (key->kind > OBJECT_STRING && key->kind != OBJECT_TUPLE)
        rendering_fail(rendering, "a key of type '%s' is not supported", object_type_name(key));
}

// A linear scan: dicts in templates are small.
static struct dict_entry *find_entry(struct rendering *rendering, struct dict *dict, const struct object *key)
{
    check_key(rendering, key);
    rendering_spend(rendering, dict->n_entries / 8);
    for (uint32_t i = 0; i < dict->n_entries; i++) {
        struct dict_entry *candidate = &dict->entries[i];
        bool are_texts = key->kind == OBJECT_STRING && candidate->key.kind == OBJECT_STRING;
        if (are_texts ? text_equal(key->text, candidate->key.text)
                      : object_equal(rendering, key, &candidate->key))
            return candidate;
    }
    return NULL;
}

void dict_set(struct rendering *rendering, struct dict *dict, const struct object *key,
              const struct object *value)
{
    rendering_spend(rendering, 1);
    struct dict_entry *entry = find_entry(rendering, dict, key);
    if (entry) {
        entry->value = *value;
        return;
    }
    if (dict->n_entries == dict->capacity) {
        struct dict *larger =
            dict_create(rendering, dict->capacity ? (size_t)dict->capacity * 2 : CAPACITY_FIRST);
        if (dict->n_entries)
            memcpy(larger->entries, dict->entries, dict->n_entries * sizeof *larger->entries);
        larger->n_entries = dict->n_entries;
        *dict = *larger;
    }
    dict->entries[dict->n_entries++] = (struct dict_entry){*key, *value};
}

void dict_set_text(struct rendering *rendering, struct dict *dict, struct text key,
                   const struct object *value)
{
    struct object string = object_string(key);
    dict_set(rendering, dict, &string, value);
}

const struct object *dict_find(struct rendering *rendering, struct dict *dict, const struct object *key)
{
    struct dict_entry *entry = find_entry(rendering, dict, key);
    return entry ? &entry->value : NULL;
}

const struct object *dict_find_text(struct rendering *rendering, struct dict *dict, struct text key)
{
    struct object string = object_string(key);
    return dict_find(rendering, dict, &string);
}

struct object dict_view_item(struct rendering *rendering, const struct dict *dict, enum view_kind view,
                             size_t index)
{
    const struct dict_entry *entry = &dict->entries[index];
    if (view != VIEW_ITEMS)
        return view == VIEW_KEYS ? entry->key : entry->value;
    struct object *items, pair = list_allocate(rendering, 2, OBJECT_TUPLE, &items);
    items[0] = entry->key;
    items[1] = entry->value;
    return pair;
}
