// Lists, tuples and dicts while they are being built, and lookups in dicts. Memory: the rendering's arena.
// Functions that return bool fail only with the rendering's error set.
#pragma once

#include "engine/template/object.h"

// A list or tuple that grows. A zeroed struct is empty.
struct list_builder {
    struct object *items;
    size_t n_items, capacity;
};

bool list_add(struct rendering *rendering, struct list_builder *builder, const struct object *item);
// The items move into the object; the builder is not to be used again.
bool list_finish(struct rendering *rendering, struct list_builder *builder, enum object_kind kind,
                 struct object *object);
// A list or tuple over items that live long enough.
bool list_wrap(struct rendering *rendering, const struct object *items, size_t n_items, enum object_kind kind,
               struct object *object);
// Room for n_items, to be filled by the caller through *items.
bool list_allocate(struct rendering *rendering, size_t n_items, enum object_kind kind, struct object **items,
                   struct object *object);
bool tuple_pair(struct rendering *rendering, const struct object *first, const struct object *second,
                struct object *object);

struct dict *dict_create(struct rendering *rendering, size_t capacity); // NULL: failed
struct object dict_object(struct dict *dict);
// Inserts, or replaces the value of an equal key. Fails for an unhashable key.
bool dict_set(struct rendering *rendering, struct dict *dict, const struct object *key,
              const struct object *value);
bool dict_set_text(struct rendering *rendering, struct dict *dict, struct text key,
                   const struct object *value);
// *value is NULL when there is none. Fails for an unhashable key.
bool dict_find(struct rendering *rendering, struct dict *dict, const struct object *key,
               const struct object **value);
bool dict_find_text(struct rendering *rendering, struct dict *dict, struct text key,
                    const struct object **value);
// Entry `index` as a view of that kind shows it.
bool dict_view_item(struct rendering *rendering, const struct dict *dict, enum view_kind view, size_t index,
                    struct object *item);
