// Builds the tree from the tokens of schemas/json_token.h. A function that returns false has set the cursor's
// cause or filled the error.
#include "engine/json_schema/json_document.h"

#include "schemas/json_token.h"

#include <stdlib.h>
#include <string.h>

struct document_reader {
    struct json_cursor cursor;
    const struct grammar_limits *limits;
    struct arena *arena;
    uint32_t n_nodes;
    uint32_t depth;
    struct error *error;
};

static bool enter_value(struct document_reader *reader)
{
    if (++reader->depth <= reader->limits->values[GRAMMAR_LIMIT_DEPTH])
        return true;
    grammar_limit_reached(reader->limits, GRAMMAR_LIMIT_DEPTH, reader->error);
    return false;
}

static bool read_value(struct document_reader *reader, struct json_node *node);

static struct json_node *append_node(struct document_reader *reader, struct json_node *parent,
                                     struct json_node *last)
{
    struct json_node *child = arena_allocate(reader->arena, sizeof *child);
    if (!child) {
        error_memory(reader->error, STATUS_RETRY, "a JSON document");
        return NULL;
    }
    child->parent = parent;
    child->index = parent->n_children++;
    child->id = reader->n_nodes++;
    if (last)
        last->next = child;
    else
        parent->first = child;
    return child;
}

static int compare_members(const void *left, const void *right)
{
    const struct json_node *a = *(struct json_node *const *)left, *b = *(struct json_node *const *)right;
    if (a->key.size != b->key.size)
        return a->key.size < b->key.size ? -1 : 1;
    int order = a->key.size ? memcmp(a->key.data, b->key.data, a->key.size) : 0;
    return order ? order : (a->index > b->index) - (a->index < b->index);
}

static void link_members(struct json_node *object, struct json_node *const *members, uint32_t n)
{
    const struct json_node **link = &object->first;
    object->n_children = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (!members[i])
            continue;
        members[i]->index = object->n_children++;
        *link = members[i];
        link = &members[i]->next;
    }
    *link = NULL;
}

// Keeps the last member of each key, in the position of the first. `members`: the object's members by index,
// with room for n more.
static void merge_members(struct json_node *object, struct json_node **members, uint32_t n)
{
    struct json_node **sorted = members + n;
    bool is_merged = false;
    memcpy(sorted, members, n * sizeof *members);
    qsort(sorted, n, sizeof *sorted, compare_members);
    for (uint32_t first = 0, stop = 0; first < n; first = stop) {
        const uint32_t place = sorted[first]->index;
        while (stop < n && text_equal(sorted[stop]->key, sorted[first]->key))
            members[sorted[stop++]->index] = NULL;
        members[place] = sorted[stop - 1];
        is_merged |= stop > first + 1;
    }
    if (is_merged)
        link_members(object, members, n);
}

static bool merge_equal_keys(struct document_reader *reader, struct json_node *object)
{
    const uint32_t n = object->n_children;
    struct json_node **members = n > 1 ? malloc(2 * (size_t)n * sizeof(struct json_node *)) : NULL;
    if (n < 2)
        return true;
    if (!members) {
        error_memory(reader->error, STATUS_RETRY, "a JSON document");
        return false;
    }
    uint32_t i = 0;
    for (const struct json_node *child = object->first; child; child = child->next)
        members[i++] = (struct json_node *)child;
    merge_members(object, members, n);
    free(members);
    return true;
}

static bool read_children(struct document_reader *reader, struct json_node *node, char close)
{
    struct json_cursor *cursor = &reader->cursor;
    struct json_node *child = NULL;
    cursor->at++;
    json_skip_space(cursor);
    if (json_take_byte(cursor, close))
        return true;
    do {
        child = append_node(reader, node, child);
        if (!child || (node->kind == JSON_OBJECT && !json_take_key(cursor, &child->key)) ||
            !read_value(reader, child))
            return false;
        json_skip_space(cursor);
    } while (json_take_byte(cursor, ','));
    return json_take_close(cursor, close) && (node->kind != JSON_OBJECT || merge_equal_keys(reader, node));
}

static bool read_name(struct document_reader *reader, const char *name, enum json_kind kind,
                      struct json_node *node)
{
    node->kind = kind;
    return json_take_name(&reader->cursor, name);
}

static bool read_value(struct document_reader *reader, struct json_node *node)
{
    bool is_read, is_integer;
    if (!enter_value(reader))
        return false;
    json_skip_space(&reader->cursor);
    switch (json_peek(&reader->cursor)) {
    case '{':
        node->kind = JSON_OBJECT;
        is_read = read_children(reader, node, '}');
        break;
    case '[':
        node->kind = JSON_ARRAY;
        is_read = read_children(reader, node, ']');
        break;
    case '"':
        node->kind = JSON_STRING;
        is_read = json_take_string(&reader->cursor, &node->text);
        break;
    case 'n':
        is_read = read_name(reader, "null", JSON_NULL, node);
        break;
    case 't':
        is_read = read_name(reader, "true", JSON_TRUE, node);
        break;
    case 'f':
        is_read = read_name(reader, "false", JSON_FALSE, node);
        break;
    default:
        node->kind = JSON_NUMBER;
        is_read = json_take_number(&reader->cursor, &node->text, &is_integer);
    }
    reader->depth--;
    return is_read;
}

enum status json_document_read(struct text input, const struct grammar_limits *limits, struct arena *arena,
                               struct json_document *document, struct error *error)
{
    if (input.size > limits->values[GRAMMAR_LIMIT_SOURCE_BYTES])
        return grammar_limit_reached(limits, GRAMMAR_LIMIT_SOURCE_BYTES, error);
    struct json_node *root = arena_allocate(arena, sizeof *root);
    char *strings = arena_allocate(arena, input.size + 1);
    if (!root || !strings)
        return error_memory(error, STATUS_RETRY, "a JSON document");
    struct document_reader reader = {.cursor = json_cursor(input, strings),
                                     .limits = limits,
                                     .arena = arena,
                                     .n_nodes = 1,
                                     .error = error};
    struct json_cursor *cursor = &reader.cursor;
    bool is_read = read_value(&reader, root);
    if (is_read)
        json_skip_space(cursor);
    if (is_read && cursor->at < cursor->end)
        is_read = json_fail(cursor, "something after the value");
    if (cursor->cause)
        return error_set(error, STATUS_REJECT, ERROR_INVALID_ENCODING, "byte %zu: %s", json_offset(cursor),
                         cursor->cause);
    if (!is_read)
        return error->status;
    *document = (struct json_document){root, reader.n_nodes};
    return STATUS_OK;
}

const struct json_node *json_member(const struct json_node *object, struct text key)
{
    if (!object || object->kind != JSON_OBJECT)
        return NULL;
    const struct json_node *child = object->first;
    while (child && !text_equal(child->key, key))
        child = child->next;
    return child;
}

const struct json_node *json_member_named(const struct json_node *object, const char *key)
{
    return json_member(object, text_from_string(key));
}

const struct json_node *json_item(const struct json_node *array, size_t index)
{
    const struct json_node *child = array && array->kind == JSON_ARRAY ? array->first : NULL;
    while (child && index--)
        child = child->next;
    return child;
}

void json_pointer_write(const struct json_node *node, struct buffer *out)
{
    if (!node || !node->parent)
        return;
    json_pointer_write(node->parent, out);
    buffer_add_byte(out, '/');
    if (node->parent->kind == JSON_ARRAY) {
        buffer_add_integer(out, node->index);
        return;
    }
    for (size_t i = 0; i < node->key.size; i++) {
        if (node->key.data[i] == '~' || node->key.data[i] == '/')
            buffer_add_string(out, node->key.data[i] == '~' ? "~0" : "~1");
        else
            buffer_add_byte(out, node->key.data[i]);
    }
}
