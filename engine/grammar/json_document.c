#include "engine/grammar/json_document.h"

#include <string.h>

struct document_reader {
    const char *start, *at, *end;
    const struct grammar_limits *limits;
    struct arena *arena;
    uint32_t n_nodes;
    uint32_t depth;
    struct error *error;
};

static enum status fail_document(struct document_reader *reader, const char *what)
{
    return error_set(reader->error, STATUS_REJECT, ERROR_INVALID_ENCODING, "byte %zu: %s",
                     (size_t)(reader->at - reader->start), what);
}

static enum status no_memory(struct document_reader *reader)
{
    return error_set(reader->error, STATUS_RETRY, ERROR_OUT_OF_MEMORY, "no memory for a JSON document");
}

static void skip_space(struct document_reader *reader)
{
    while (reader->at < reader->end && strchr(" \t\r\n", *reader->at) && *reader->at)
        reader->at++;
}

static bool take_byte(struct document_reader *reader, char wanted)
{
    if (reader->at == reader->end || *reader->at != wanted)
        return false;
    reader->at++;
    return true;
}

static bool read_hex4(const char *at, const char *end, uint32_t *value)
{
    *value = 0;
    if (end - at < 4)
        return false;
    for (int i = 0; i < 4; i++) {
        const char *digits = "0123456789abcdef0123456789ABCDEF";
        const char *found = at[i] ? strchr(digits, at[i]) : NULL;
        if (!found)
            return false;
        *value = *value << 4 | ((uint32_t)(found - digits) & 15);
    }
    return true;
}

// The escape behind "\u": one code unit or a pair of surrogates. 0 bytes written is a fault.
static size_t read_unicode(struct document_reader *reader, char *out)
{
    uint32_t high = 0, low = 0;
    if (!read_hex4(reader->at, reader->end, &high))
        return 0;
    reader->at += 4;
    if (high < 0xD800 || high > 0xDFFF)
        return utf8_encode(high, out);
    if (high > 0xDBFF || reader->end - reader->at < 6 || reader->at[0] != '\\' || reader->at[1] != 'u' ||
        !read_hex4(reader->at + 2, reader->end, &low) || low < 0xDC00 || low > 0xDFFF)
        return 0;
    reader->at += 6;
    return utf8_encode(0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00), out);
}

static size_t read_escape(struct document_reader *reader, char *out)
{
    static const char letters[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
    if (reader->at == reader->end)
        return 0;
    char letter = *reader->at++;
    if (letter == 'u')
        return read_unicode(reader, out);
    const char *found = letter ? strchr(letters, letter) : NULL;
    if (!found)
        return 0;
    *out = meanings[found - letters];
    return 1;
}

// Behind the opening quote. A decoded string is never longer than its text.
static enum status read_string(struct document_reader *reader, struct text *text)
{
    const char *close = reader->at;
    while (close < reader->end && *close != '"')
        close += *close == '\\' && reader->end - close > 1 ? 2 : 1;
    if (close >= reader->end)
        return fail_document(reader, "a string without an end");
    char *out = arena_allocate(reader->arena, (size_t)(close - reader->at) + 1);
    if (!out)
        return no_memory(reader);
    *text = (struct text){out, 0};
    while (reader->at < close) {
        size_t n;
        uint32_t code_point;
        if (*reader->at == '\\') {
            reader->at++;
            n = read_escape(reader, out);
        } else {
            n = (unsigned char)*reader->at < 0x20
                    ? 0
                    : utf8_decode(reader->at, (size_t)(close - reader->at), &code_point);
            memcpy(out, reader->at, n);
            reader->at += n;
        }
        if (n == 0)
            return fail_document(reader, "a string with a bad escape, control character or encoding");
        out += n;
        text->size += n;
    }
    reader->at++;
    return STATUS_OK;
}

static size_t skip_digits(struct document_reader *reader)
{
    const char *from = reader->at;
    while (reader->at < reader->end && *reader->at >= '0' && *reader->at <= '9')
        reader->at++;
    return (size_t)(reader->at - from);
}

static enum status read_number(struct document_reader *reader, struct text *text)
{
    const char *from = reader->at;
    take_byte(reader, '-');
    bool good = take_byte(reader, '0') || skip_digits(reader) > 0;
    if (good && take_byte(reader, '.'))
        good = skip_digits(reader) > 0;
    if (good && (take_byte(reader, 'e') || take_byte(reader, 'E'))) {
        if (!take_byte(reader, '+'))
            take_byte(reader, '-');
        good = skip_digits(reader) > 0;
    }
    *text = (struct text){from, (size_t)(reader->at - from)};
    return good ? STATUS_OK : fail_document(reader, "expected a value");
}

static enum status read_value(struct document_reader *reader, struct json_node *node);

static struct json_node *append_node(struct document_reader *reader, struct json_node *parent,
                                     struct json_node *last)
{
    struct json_node *child = arena_allocate(reader->arena, sizeof *child);
    if (!child)
        return NULL;
    child->parent = parent;
    child->index = parent->n_children++;
    child->id = reader->n_nodes++;
    if (last)
        last->next = child;
    else
        parent->first = child;
    return child;
}

static enum status read_key(struct document_reader *reader, struct json_node *child)
{
    skip_space(reader);
    if (!take_byte(reader, '"'))
        return fail_document(reader, "expected a key");
    enum status status = read_string(reader, &child->key);
    if (status != STATUS_OK)
        return status;
    skip_space(reader);
    if (!take_byte(reader, ':'))
        return fail_document(reader, "expected a colon");
    return STATUS_OK;
}

static enum status read_children(struct document_reader *reader, struct json_node *node, char close)
{
    struct json_node *last = NULL;
    skip_space(reader);
    if (take_byte(reader, close))
        return STATUS_OK;
    for (;;) {
        struct json_node *child = append_node(reader, node, last);
        if (!child)
            return no_memory(reader);
        last = child;
        enum status status = node->kind == JSON_OBJECT ? read_key(reader, child) : STATUS_OK;
        if (status == STATUS_OK)
            status = read_value(reader, child);
        if (status != STATUS_OK)
            return status;
        skip_space(reader);
        if (take_byte(reader, close))
            return STATUS_OK;
        if (!take_byte(reader, ','))
            return fail_document(reader, "expected a comma or an end");
    }
}

static bool take_word(struct document_reader *reader, const char *word)
{
    size_t size = strlen(word);
    if ((size_t)(reader->end - reader->at) < size || memcmp(reader->at, word, size) != 0)
        return false;
    reader->at += size;
    return true;
}

static enum status read_value(struct document_reader *reader, struct json_node *node)
{
    skip_space(reader);
    enum status status = STATUS_OK;
    if (++reader->depth > reader->limits->values[GRAMMAR_LIMIT_DEPTH])
        return grammar_limit_reached(reader->limits, GRAMMAR_LIMIT_DEPTH, reader->error);
    if (take_byte(reader, '{')) {
        node->kind = JSON_OBJECT;
        status = read_children(reader, node, '}');
    } else if (take_byte(reader, '[')) {
        node->kind = JSON_ARRAY;
        status = read_children(reader, node, ']');
    } else if (take_byte(reader, '"')) {
        node->kind = JSON_STRING;
        status = read_string(reader, &node->text);
    } else if (take_word(reader, "null")) {
        node->kind = JSON_NULL;
    } else if (take_word(reader, "true")) {
        node->kind = JSON_TRUE;
    } else if (take_word(reader, "false")) {
        node->kind = JSON_FALSE;
    } else {
        node->kind = JSON_NUMBER;
        status = read_number(reader, &node->text);
    }
    reader->depth--;
    return status;
}

enum status json_document_read(struct text input, const struct grammar_limits *limits, struct arena *arena,
                               struct json_document *document, struct error *error)
{
    if (input.size > limits->values[GRAMMAR_LIMIT_SOURCE_BYTES])
        return grammar_limit_reached(limits, GRAMMAR_LIMIT_SOURCE_BYTES, error);
    struct document_reader reader = {input.data, input.data, input.data + input.size, limits, arena, 1,
                                     0,          error};
    struct json_node *root = arena_allocate(arena, sizeof *root);
    if (!root)
        return no_memory(&reader);
    enum status status = read_value(&reader, root);
    if (status != STATUS_OK)
        return status;
    skip_space(&reader);
    if (reader.at < reader.end)
        return fail_document(&reader, "something behind the value");
    *document = (struct json_document){root, reader.n_nodes};
    return STATUS_OK;
}

const struct json_node *json_member(const struct json_node *object, struct text key)
{
    if (!object || object->kind != JSON_OBJECT)
        return NULL;
    const struct json_node *found = NULL; // of equal keys the last counts, as most readers have it
    for (const struct json_node *child = object->first; child; child = child->next)
        if (text_equal(child->key, key))
            found = child;
    return found;
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
