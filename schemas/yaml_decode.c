#include "schemas/yaml_decode.h"

#include <stdlib.h>
#include <string.h>
#include <yaml.h>

struct reading {
    yaml_parser_t parser;
    struct arena *arena;
    struct error *error;
    size_t n_values;
};

// Items of a list, or keys and values of an object in turn, while their number is not known.
struct items {
    struct value *items; // [n]
    size_t n, capacity;
};

static enum status read_value(struct reading *reading, const yaml_event_t *event, int depth,
                              struct value *value);

static enum status refuse(struct reading *reading, const yaml_event_t *event, const char *what)
{
    return error_set(reading->error, STATUS_REJECT, ERROR_INVALID_ENCODING, "line %zu: %s",
                     event->start_mark.line + 1, what);
}

static enum status refuse_memory(struct reading *reading)
{
    return error_memory(reading->error, STATUS_RETRY, "reading YAML");
}

static enum status next_event(struct reading *reading, yaml_event_t *event)
{
    const yaml_parser_t *parser = &reading->parser;
    if (yaml_parser_parse(&reading->parser, event))
        return STATUS_OK;
    if (parser->error == YAML_MEMORY_ERROR)
        return refuse_memory(reading);
    size_t line = parser->error == YAML_READER_ERROR ? parser->mark.line + 1 : parser->problem_mark.line + 1;
    return error_set(reading->error, STATUS_REJECT, ERROR_INVALID_ENCODING, "line %zu: %s", line,
                     parser->problem ? parser->problem : "expected YAML");
}

// ---- scalars ----

static bool is_one_of(struct text text, const char *const *words)
{
    for (; *words; words++)
        if (text_equals_string(text, *words))
            return true;
    return false;
}

static size_t skip_digits(struct text text, size_t at)
{
    while (at < text.size && text.data[at] >= '0' && text.data[at] <= '9')
        at++;
    return at;
}

// A number of the core schema: [-+]? digits, with a fraction and an exponent; 0o17, 0x1F, .inf, .nan.
static bool is_number(struct text text)
{
    static const char *const others[] = {".inf",  ".Inf",  ".INF", "+.inf", "+.Inf", "+.INF", "-.inf",
                                         "-.Inf", "-.INF", ".nan", ".NaN",  ".NAN",  NULL};
    if (is_one_of(text, others))
        return true;
    if (text.size > 2 && text.data[0] == '0' && (text.data[1] == 'o' || text.data[1] == 'x')) {
        const char *digits = text.data[1] == 'o' ? "01234567" : "0123456789abcdefABCDEF";
        size_t at = 2;
        while (at < text.size && text.data[at] && strchr(digits, text.data[at]))
            at++;
        return at == text.size;
    }
    size_t begin = text.size && (text.data[0] == '-' || text.data[0] == '+');
    size_t at = skip_digits(text, begin), n_digits = at - begin;
    if (at < text.size && text.data[at] == '.') {
        size_t end = skip_digits(text, at + 1);
        n_digits += end - at - 1;
        at = end;
    }
    if (n_digits && at < text.size && (text.data[at] == 'e' || text.data[at] == 'E')) {
        at += at + 1 < text.size && (text.data[at + 1] == '-' || text.data[at + 1] == '+');
        size_t end = skip_digits(text, at + 1);
        return end > at + 1 && end == text.size;
    }
    return n_digits && at == text.size;
}

static enum status read_plain(struct reading *reading, const yaml_event_t *event, struct text text,
                              struct value *value)
{
    static const char *const nulls[] = {"", "~", "null", "Null", "NULL", NULL},
                             *const trues[] = {"true", "True", "TRUE", NULL},
                             *const falses[] = {"false", "False", "FALSE", NULL};
    struct error fault;
    if (is_one_of(text, nulls))
        *value = (struct value){.kind = VALUE_NULL};
    else if (is_one_of(text, trues) || is_one_of(text, falses))
        *value = value_bool(is_one_of(text, trues));
    else if (is_number(text) && json_decode(text, reading->arena, value, &fault) != STATUS_OK)
        return fault.status == STATUS_RETRY
                   ? refuse_memory(reading)
                   : refuse(reading, event, "a number that JSON does not have: quote it, if it is a text");
    else if (!is_number(text))
        *value = value_string(text);
    return STATUS_OK;
}

static enum status read_scalar(struct reading *reading, const yaml_event_t *event, struct value *value)
{
    size_t size = event->data.scalar.length;
    const char *tag = (const char *)event->data.scalar.tag;
    const char *copy = arena_copy(reading->arena, (const char *)event->data.scalar.value, size);
    if (!copy)
        return refuse_memory(reading);
    struct text text = {copy, size};
    if (!utf8_valid(copy, size))
        return refuse(reading, event, "text that is not UTF-8");
    if (tag && strcmp(tag, YAML_STR_TAG) != 0)
        return refuse(reading, event, "a tag: only !!str is read");
    if (!tag && event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE)
        return read_plain(reading, event, text, value);
    *value = value_string(text);
    return STATUS_OK;
}

// ---- lists and objects ----

static enum status add_item(struct reading *reading, struct items *items, const struct value *item)
{
    if (items->n == items->capacity) {
        size_t capacity = items->capacity ? 2 * items->capacity : 16;
        struct value *grown = realloc(items->items, capacity * sizeof *grown);
        if (!grown)
            return refuse_memory(reading);
        items->items = grown;
        items->capacity = capacity;
    }
    items->items[items->n++] = *item;
    return STATUS_OK;
}

// Reads values until the event of the kind `end`.
static enum status read_items(struct reading *reading, yaml_event_type_t end, int depth, struct items *items)
{
    for (;;) {
        yaml_event_t event;
        struct value item;
        enum status status = next_event(reading, &event);
        if (status != STATUS_OK)
            return status;
        bool is_end = event.type == end;
        bool is_key = end == YAML_MAPPING_END_EVENT && items->n % 2 == 0;
        if (!is_end && is_key && event.type != YAML_SCALAR_EVENT)
            status = refuse(reading, &event, "a key: expected a text");
        if (!is_end && status == STATUS_OK)
            status = read_value(reading, &event, depth, &item);
        if (!is_end && status == STATUS_OK && is_key && item.kind != VALUE_STRING)
            status = refuse(reading, &event, "a key: expected a text; quote it");
        else if (!is_end && status == STATUS_OK && is_key && memchr(item.text.data, 0, item.text.size))
            status = refuse(reading, &event, "a key with a NUL");
        yaml_event_delete(&event);
        if (is_end || status != STATUS_OK)
            return status;
        status = add_item(reading, items, &item);
        if (status != STATUS_OK)
            return status;
    }
}

static enum status read_list(struct reading *reading, int depth, struct value *list)
{
    struct items items = {0};
    enum status status = read_items(reading, YAML_SEQUENCE_END_EVENT, depth, &items);
    if (status == STATUS_OK && !value_array_create(reading->arena, items.n, list))
        status = refuse_memory(reading);
    for (size_t i = 0; status == STATUS_OK && i < items.n; i++)
        list->array.items[i] = items.items[i];
    free(items.items);
    return status;
}

static enum status read_object(struct reading *reading, const yaml_event_t *event, int depth,
                               struct value *object)
{
    struct items items = {0};
    const struct text *duplicate = NULL;
    enum status status = read_items(reading, YAML_MAPPING_END_EVENT, depth, &items);
    if (status == STATUS_OK && !value_object_create(reading->arena, items.n / 2, object))
        status = refuse_memory(reading);
    for (size_t i = 0; status == STATUS_OK && i < items.n / 2; i++)
        object->object.members[i] = (struct value_member){items.items[2 * i].text, items.items[2 * i + 1]};
    object->object.n_members = status == STATUS_OK ? items.n / 2 : 0;
    free(items.items);
    if (status == STATUS_OK && !value_find_duplicate(object, &duplicate))
        return refuse_memory(reading);
    if (!duplicate)
        return status;
    return error_set(reading->error, STATUS_REJECT, ERROR_INVALID_ENCODING,
                     "line %zu: key \"%.*s\" occurs twice", event->start_mark.line + 1, (int)duplicate->size,
                     duplicate->data);
}

static enum status read_value(struct reading *reading, const yaml_event_t *event, int depth,
                              struct value *value)
{
    bool is_deep = depth >= VALUE_DEPTH_MAX && event->type != YAML_SCALAR_EVENT;
    if (is_deep || ++reading->n_values > VALUE_COUNT_MAX)
        return error_set(reading->error, STATUS_REJECT, ERROR_LIMIT_EXCEEDED,
                         "line %zu: more than %d values, or nested deeper than %d",
                         event->start_mark.line + 1, VALUE_COUNT_MAX, VALUE_DEPTH_MAX);
    switch (event->type) {
    case YAML_SCALAR_EVENT:
        return read_scalar(reading, event, value);
    case YAML_SEQUENCE_START_EVENT:
        return event->data.sequence_start.tag ? refuse(reading, event, "a tag of a list is not read")
                                              : read_list(reading, depth + 1, value);
    case YAML_MAPPING_START_EVENT:
        return event->data.mapping_start.tag ? refuse(reading, event, "a tag of an object is not read")
                                             : read_object(reading, event, depth + 1, value);
    case YAML_ALIAS_EVENT:
        return refuse(reading, event, "an alias is not read: write the value out");
    default:
        return refuse(reading, event, "expected a value");
    }
}

// The stream's start, a document, the stream's end.
static enum status read_document(struct reading *reading, struct value *value)
{
    bool is_read = false;
    *value = (struct value){.kind = VALUE_NULL};
    for (;;) {
        yaml_event_t event;
        enum status status = next_event(reading, &event);
        if (status != STATUS_OK)
            return status;
        bool is_end = event.type == YAML_STREAM_END_EVENT;
        bool is_mark = event.type == YAML_STREAM_START_EVENT || event.type == YAML_DOCUMENT_START_EVENT ||
                       event.type == YAML_DOCUMENT_END_EVENT;
        if (!is_end && !is_mark && is_read)
            status = refuse(reading, &event, "a second document");
        else if (!is_end && !is_mark)
            status = read_value(reading, &event, 0, value);
        is_read |= !is_mark;
        yaml_event_delete(&event);
        if (is_end || status != STATUS_OK)
            return status;
    }
}

enum status yaml_decode(struct text input, struct arena *arena, struct value *value, struct error *error)
{
    struct reading reading = {.arena = arena, .error = error};
    if (input.size > VALUE_INPUT_BYTES_MAX)
        return error_set(error, STATUS_REJECT, ERROR_LIMIT_EXCEEDED, "more than %d bytes",
                         VALUE_INPUT_BYTES_MAX);
    if (!yaml_parser_initialize(&reading.parser))
        return refuse_memory(&reading);
    yaml_parser_set_encoding(&reading.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&reading.parser, (const unsigned char *)(input.data ? input.data : ""),
                                 input.size);
    enum status status = read_document(&reading, value);
    yaml_parser_delete(&reading.parser);
    return status;
}
