#include "consumer/evaluate/label_list.h"

#include <stdlib.h>
#include <string.h>

void label_list_finish(struct label_list *list)
{
    arena_finish(&list->arena);
    *list = (struct label_list){.n = 0};
}

static int compare_texts(const void *a, const void *b)
{
    const struct text *x = a, *y = b;
    size_t size = x->size < y->size ? x->size : y->size;
    int order = size ? memcmp(x->data, y->data, size) : 0;
    return order ? order : (x->size > y->size) - (x->size < y->size);
}

// items: [n] in the list's arena; they become list->labels.
static bool take_items(struct label_list *list, struct text *items, size_t n)
{
    struct buffer json = {0};
    if (n)
        qsort(items, n, sizeof *items, compare_texts);
    buffer_add_byte(&json, '[');
    for (size_t i = 0; i < n; i++) {
        if (list->n && text_equal(items[list->n - 1], items[i]))
            continue;
        buffer_add_string(&json, list->n ? "," : "");
        json_encode_string(items[i], &json);
        items[list->n++] = items[i];
    }
    buffer_add_byte(&json, ']');
    list->labels = items;
    list->whole =
        (struct text){json.failed ? NULL : arena_copy(&list->arena, json.data, json.size), json.size};
    buffer_finish(&json);
    return list->whole.data != NULL;
}

// The text of an item: a string unchanged, any other value as JSON. False: out of memory.
static bool copy_item(struct label_list *list, const struct value *value, struct text *item)
{
    struct buffer json = {0};
    if (value->kind != VALUE_STRING)
        json_encode(value, &json);
    struct text text = value->kind == VALUE_STRING ? value->text : (struct text){json.data, json.size};
    *item = (struct text){json.failed ? NULL : arena_copy(&list->arena, text.data, text.size), text.size};
    buffer_finish(&json);
    return item->data != NULL;
}

bool label_list_read(struct label_list *list, const struct value *value)
{
    label_list_finish(list);
    if (!value || value->kind != VALUE_ARRAY)
        return true;
    size_t n = value->array.n_items;
    struct text *items = arena_allocate_array(&list->arena, n ? n : 1, sizeof *items);
    for (size_t i = 0; items && i < n; i++)
        if (!copy_item(list, &value->array.items[i], &items[i]))
            return false;
    return items && take_items(list, items, n);
}

// ---- gold cells ----

static struct text trim(struct text text)
{
    while (text.size && memchr(" \t\r\n", text.data[0], 4))
        text = (struct text){text.data + 1, text.size - 1};
    while (text.size && memchr(" \t\r\n", text.data[text.size - 1], 4))
        text.size--;
    return text;
}

// Returns the label that ends before the next separator, and moves *rest after the separator. A label in single quotes may
// contain separators.
static struct text next_label(struct text *rest, char separator)
{
    struct text start = trim(*rest);
    size_t size = 0;
    bool is_quoted = start.size > 1 && start.data[0] == '\'';
    const char *quote = is_quoted ? memchr(start.data + 1, '\'', start.size - 1) : NULL;
    while (size < start.size && (start.data[size] != separator || (quote && start.data + size < quote)))
        size++;
    struct text label = trim((struct text){start.data, size});
    *rest = (struct text){start.data + size + (size < start.size), start.size - size - (size < start.size)};
    bool is_whole = quote && label.size > 1 && quote == label.data + label.size - 1;
    return is_whole ? (struct text){label.data + 1, label.size - 2} : label;
}

static bool split_cell(struct label_list *list, struct text cell, char separator)
{
    size_t n = 0, n_max = 1;
    for (size_t i = 0; i < cell.size; i++)
        n_max += cell.data[i] == separator;
    struct text *items = arena_allocate_array(&list->arena, n_max, sizeof *items);
    while (items && cell.size && n < n_max) {
        struct text label = next_label(&cell, separator);
        char *copy = arena_copy(&list->arena, label.data, label.size);
        if (!copy)
            return false;
        items[n] = (struct text){copy, label.size};
        n += label.size > 0;
    }
    return items && take_items(list, items, n);
}

bool label_list_read_text(struct label_list *list, struct text cell)
{
    struct arena arena = {0};
    struct value value;
    struct error ignored;
    label_list_finish(list);
    cell = trim(cell);
    if (!cell.size)
        return true;
    bool is_bracketed = cell.data[0] == '[' && cell.data[cell.size - 1] == ']';
    if (is_bracketed && json_decode(cell, &arena, &value, &ignored) == STATUS_OK) {
        bool is_read = label_list_read(list, &value);
        arena_finish(&arena);
        return is_read;
    }
    arena_finish(&arena);
    if (is_bracketed)
        return split_cell(list, (struct text){cell.data + 1, cell.size - 2}, ',');
    char separator = memchr(cell.data, ';', cell.size) ? ';' : memchr(cell.data, '|', cell.size) ? '|' : ',';
    return split_cell(list, cell, separator);
}
