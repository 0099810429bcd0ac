// Lists, tuples and dicts while they are being built, and lookups in dicts. Memory: the rendering's arena.
#pragma once

#include "engine/template/object.h"

// A list or tuple under construction. A zeroed struct is empty.
struct list_builder {
    struct object *items;
    size_t n_items, capacity;
};

void list_add(struct rendering *rendering, struct list_builder *builder, const struct object *item);
// Moves the items into a list; the builder must not be used afterwards.
struct object list_finish(struct rendering *rendering, struct list_builder *builder);
// Returns a list or tuple over existing items, which must outlive it.
struct object list_wrap(struct rendering *rendering, const struct object *items, size_t n_items,
                        enum object_kind kind);
// Allocates room for n_items; the caller fills it through *items.
struct object list_allocate(struct rendering *rendering, size_t n_items, enum object_kind kind,
                            struct object **items);

struct dict *dict_create(struct rendering *rendering, size_t capacity);
struct object dict_object(struct dict *dict);
// Inserts, or replaces the value of an equal key. Fails for an unhashable key.
void dict_set(struct rendering *rendering, struct dict *dict, const struct object *key,
              const struct object *value);
void dict_set_text(struct rendering *rendering, struct dict *dict, struct text key,
                   const struct object *value);
// Finds a key. NULL: absent. Fails for an unhashable key.
const struct object *dict_find(struct rendering *rendering, struct dict *dict, const struct object *key);
const struct object *dict_find_text(struct rendering *rendering, struct dict *dict, struct text key);
// Returns entry `index` as an item of keys(), values() or items().
struct object dict_view_item(struct rendering *rendering, const struct dict *dict, enum view_kind view,
                             size_t index);
