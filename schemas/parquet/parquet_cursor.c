#include "schemas/parquet/parquet_cursor.h"

static enum status refuse_page(const struct parquet_cursor *cursor, const char *what, struct error *error)
{
    return parquet_pages_refuse(&cursor->pages, cursor->page_offset, what, error);
}

static enum status refuse_memory(const struct parquet_cursor *cursor, struct error *error)
{
    return error_memory(error, STATUS_REFUSE, "%s: column \"%s\": a value", cursor->pages.name,
                        cursor->pages.column);
}

void parquet_cursor_start(struct parquet_cursor *cursor, const struct parquet_chunk *chunk)
{
    cursor->pages.has_repetition = cursor->column->is_list;
    cursor->pages.has_definition = cursor->column->definition_max > 0;
    parquet_pages_start(&cursor->pages, chunk);
    cursor->dictionary.n = 0;
    cursor->n_left = 0;
    cursor->has_entry = false;
    cursor->page_offset = chunk->offset;
}

void parquet_cursor_finish(struct parquet_cursor *cursor)
{
    parquet_pages_finish(&cursor->pages);
    parquet_dictionary_finish(&cursor->dictionary);
    parquet_values_finish(&cursor->values);
    arena_finish(&cursor->items);
}

static unsigned bits_of(uint32_t level_max)
{
    return level_max ? 32 - (unsigned)__builtin_clz(level_max) : 0;
}

static enum status next_page(struct parquet_cursor *cursor, bool *is_end, struct error *error)
{
    struct parquet_page page;
    const char *fault = NULL;
    for (;;) {
        enum status status = parquet_pages_next(&cursor->pages, &page, is_end, error);
        if (status != STATUS_OK || *is_end)
            return status;
        cursor->page_offset = page.offset;
        if (page.is_dictionary) {
            if (!parquet_dictionary_read(&cursor->dictionary, &cursor->column->leaf, &page, &fault))
                return fault ? refuse_page(cursor, fault, error) : refuse_memory(cursor, error);
            continue;
        }
        if (!parquet_values_start(&cursor->values, &cursor->column->leaf, &cursor->dictionary, &page, &fault))
            return fault ? refuse_page(cursor, fault, error) : refuse_memory(cursor, error);
        cursor->repetition = packed_runs_open(page.repetition_levels, 1);
        cursor->definition =
            packed_runs_open(page.definition_levels, bits_of(cursor->column->definition_max));
        cursor->n_left = page.n_values;
        if (cursor->n_left)
            return STATUS_OK;
    }
}

// Reads the levels of the next entry, which may be in another page.
static enum status next_entry(struct parquet_cursor *cursor, uint32_t *repetition, uint32_t *definition,
                              bool *is_end, struct error *error)
{
    *is_end = false;
    *repetition = *definition = 0;
    enum status status = cursor->n_left ? STATUS_OK : next_page(cursor, is_end, error);
    if (status != STATUS_OK || *is_end)
        return status;
    cursor->n_left--;
    if ((cursor->pages.has_repetition && !packed_runs_next(&cursor->repetition, repetition)) ||
        (cursor->pages.has_definition && !packed_runs_next(&cursor->definition, definition)))
        return refuse_page(cursor, "it has fewer levels than values", error);
    if (*repetition > 1 || *definition > cursor->column->definition_max)
        return refuse_page(cursor, "a level is larger than the schema's", error);
    return STATUS_OK;
}

static enum status read_value(struct parquet_cursor *cursor, uint32_t definition,
                              char scratch[PARQUET_TEXT_BYTES], struct value *value, struct error *error)
{
    struct text bytes;
    *value = (struct value){.kind = VALUE_NULL};
    if (definition < cursor->column->definition_max)
        return STATUS_OK;
    if (!parquet_values_next(&cursor->values, &bytes))
        return cursor->values.text.failed
                   ? refuse_memory(cursor, error)
                   : refuse_page(cursor, "its values are damaged, or fewer than it has", error);
    return parquet_value_read(&cursor->column->leaf, bytes, scratch, value)
               ? STATUS_OK
               : refuse_page(cursor, "a decimal has more than 128 bits", error);
}

// ---- lists ----

// Items until the list ends; in `items` all their memory.
struct list_items {
    struct value *items; // [n]
    size_t n, capacity, n_bytes;
};

static enum status add_item(struct parquet_cursor *cursor, struct list_items *list, uint32_t definition,
                            struct error *error)
{
    char scratch[PARQUET_TEXT_BYTES];
    struct value item;
    enum status status = read_value(cursor, definition, scratch, &item, error);
    if (status != STATUS_OK)
        return status;
    list->n_bytes += item.kind == VALUE_STRING || item.kind == VALUE_BYTES ? item.text.size : 0;
    if (list->n == PARQUET_LIST_ITEMS_MAX || list->n_bytes > PARQUET_LIST_BYTES_MAX)
        return refuse_page(cursor, "a list has more than 1048576 items or 16 MiB", error);
    if (list->n == list->capacity) {
        size_t capacity = list->capacity ? 2 * list->capacity : 8;
        struct value *items = arena_allocate_array(&cursor->items, capacity, sizeof *items);
        if (!items)
            return refuse_memory(cursor, error);
        if (list->n)
            memcpy(items, list->items, list->n * sizeof *items);
        list->items = items;
        list->capacity = capacity;
    }
    return value_copy(&item, &cursor->items, &list->items[list->n++]) ? STATUS_OK
                                                                      : refuse_memory(cursor, error);
}

static enum status next_list(struct parquet_cursor *cursor, struct value *value, struct error *error)
{
    struct list_items list = {0};
    uint32_t repetition = 0, definition = cursor->entry_definition, level = cursor->column->list_level;
    bool is_end = false;
    enum status status = STATUS_OK;
    if (!cursor->has_entry)
        status = next_entry(cursor, &repetition, &definition, &is_end, error);
    if (status == STATUS_OK && (is_end || repetition))
        return refuse_page(cursor, "the column has fewer rows than its row group, or begins within a list",
                           error);
    cursor->has_entry = false;
    arena_finish(&cursor->items);
    bool is_null = definition + 1 < level;
    while (status == STATUS_OK && !is_end && !cursor->has_entry) {
        if (definition >= level)
            status = add_item(cursor, &list, definition, error);
        if (status == STATUS_OK)
            status = next_entry(cursor, &repetition, &definition, &is_end, error);
        cursor->has_entry = status == STATUS_OK && !is_end && !repetition;
    }
    cursor->entry_definition = definition;
    *value = (struct value){.kind = is_null ? VALUE_NULL : VALUE_ARRAY};
    if (!is_null) {
        value->array.items = list.items;
        value->array.n_items = list.n;
    }
    return status;
}

enum status parquet_cursor_next(struct parquet_cursor *cursor, struct value *value, struct error *error)
{
    uint32_t repetition, definition;
    bool is_end;
    if (cursor->column->is_list)
        return next_list(cursor, value, error);
    enum status status = next_entry(cursor, &repetition, &definition, &is_end, error);
    if (status == STATUS_OK && is_end)
        return refuse_page(cursor, "the column has fewer rows than its row group", error);
    return status == STATUS_OK ? read_value(cursor, definition, cursor->scratch, value, error) : status;
}

enum status parquet_cursor_end(struct parquet_cursor *cursor, struct error *error)
{
    uint32_t repetition, definition;
    bool is_end = !cursor->has_entry;
    enum status status = is_end ? next_entry(cursor, &repetition, &definition, &is_end, error) : STATUS_OK;
    return status != STATUS_OK || is_end
               ? status
               : refuse_page(cursor, "the column has more rows than its row group", error);
}
