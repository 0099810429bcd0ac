#include "engine/answer/call_values.h"

#include "schemas/json_token.h"

#include <string.h>

static bool are_strings(const struct value *values)
{
    for (size_t i = 0; i < values->array.n_items; i++)
        if (values->array.items[i].kind != VALUE_STRING)
            return false;
    return values->array.n_items > 0;
}

bool call_value_is_bare(const struct value *schema)
{
    const struct value *type = value_get(schema, "type"), *words = value_get(schema, "enum"),
                       *only = value_get(schema, "const");
    if (type)
        return type->kind == VALUE_STRING && text_equals_string(type->text, "string");
    return (words && words->kind == VALUE_ARRAY && are_strings(words)) ||
           (only && only->kind == VALUE_STRING);
}

const struct value *call_parameter(const struct value *parameters, struct text key)
{
    const struct value *properties = value_get(parameters, "properties");
    for (size_t i = 0; properties && properties->kind == VALUE_OBJECT && i < properties->object.n_members;
         i++)
        if (text_equal(properties->object.members[i].key, key))
            return &properties->object.members[i].value;
    return NULL;
}

// ---- JSON ----

size_t json_extent(struct text text, struct arena *arena)
{
    char *strings = arena_allocate(arena, text.size + 1);
    struct json_cursor cursor = json_cursor(text, strings);
    return strings && json_skip_value(&cursor, VALUE_DEPTH_MAX) ? json_offset(&cursor) : 0;
}

// ---- Python ----

struct python {
    struct text text;
    size_t at;
    unsigned depth;
    struct buffer *json;
    const char *mark; // NULL: none
};

enum { PYTHON_DEPTH_MAX = VALUE_DEPTH_MAX };

static bool ends_word(char c)
{
    return strchr(",:]}[{\"' \n\r\t()<;", c) != NULL;
}

static bool read_literal(struct python *python);

static char next_byte(struct python *python)
{
    while (python->at < python->text.size && strchr(" \n\r\t", python->text.data[python->at]))
        python->at++;
    return python->at < python->text.size ? python->text.data[python->at] : '\0';
}

static bool read_hex(struct python *python, unsigned n_digits, uint32_t *code_point)
{
    *code_point = 0;
    for (unsigned i = 0; i < n_digits; i++, python->at++) {
        static const char digits[] = "0123456789abcdef";
        char c = python->at < python->text.size ? python->text.data[python->at] : '\0';
        const char *digit = c ? strchr(digits, c >= 'A' && c <= 'F' ? c + 32 : c) : NULL;
        if (!digit)
            return false;
        *code_point = *code_point << 4 | (uint32_t)(digit - digits);
    }
    return true;
}

// Reads a code point: one escape, or two that form a surrogate pair.
static bool read_code_point(struct python *python, char letter, uint32_t *code_point)
{
    if (!read_hex(python, letter == 'x' ? 2 : letter == 'u' ? 4 : 8, code_point))
        return false;
    if (*code_point < 0xD800 || *code_point > 0xDBFF)
        return *code_point <= 0x10FFFF && (*code_point < 0xD800 || *code_point > 0xDFFF);
    uint32_t low;
    bool is_pair =
        python->text.size - python->at >= 6 && memcmp(python->text.data + python->at, "\\u", 2) == 0;
    if (!is_pair)
        return false;
    python->at += 2;
    if (!read_hex(python, 4, &low) || low < 0xDC00 || low > 0xDFFF)
        return false;
    *code_point = 0x10000 + ((*code_point - 0xD800) << 10) + (low - 0xDC00);
    return true;
}

static bool read_escape(struct python *python, struct buffer *out)
{
    static const char letters[] = "\\'\"/abfnrtv0", values[] = "\\'\"/\a\b\f\n\r\t\v";
    char letter = python->at < python->text.size ? python->text.data[python->at++] : '\0', utf8[4];
    uint32_t code_point;
    if (letter == 'x' || letter == 'u' || letter == 'U') {
        if (!read_code_point(python, letter, &code_point))
            return false;
        buffer_add(out, utf8, utf8_encode(code_point, utf8));
        return true;
    }
    const char *found = letter ? strchr(letters, letter) : NULL;
    if (!found)
        buffer_add_byte(out, '\\'); // as in Python, the backslash stays
    buffer_add_byte(out, found ? values[found - letters] : letter);
    return letter != '\0';
}

static bool read_string(struct python *python)
{
    struct buffer text = {0};
    char quote = python->text.data[python->at++];
    bool whole = true, closed = false;
    while (whole && !closed && python->at < python->text.size) {
        char c = python->text.data[python->at++];
        closed = c == quote;
        if (c == '\\')
            whole = read_escape(python, &text);
        else if (!closed)
            buffer_add_byte(&text, c);
    }
    json_encode_string((struct text){text.data, text.size}, python->json);
    python->json->failed |= text.failed;
    buffer_finish(&text);
    return whole && closed;
}

static bool is_at_mark(const struct python *python)
{
    size_t size = python->mark ? strlen(python->mark) : 0;
    return size && python->text.size - python->at >= size &&
           memcmp(python->text.data + python->at, python->mark, size) == 0;
}

static bool read_marked(struct python *python)
{
    size_t size = strlen(python->mark), start = python->at += size;
    while (python->at < python->text.size && !is_at_mark(python))
        python->at++;
    json_encode_string((struct text){python->text.data + start, python->at - start}, python->json);
    bool closed = python->at < python->text.size;
    python->at += closed ? size : 0;
    return closed;
}

static bool read_key(struct python *python)
{
    char c = next_byte(python);
    size_t start = python->at;
    if (is_at_mark(python))
        return read_marked(python);
    if (c == '"' || c == '\'')
        return read_string(python);
    while (python->at < python->text.size && !strchr(":{}[],", python->text.data[python->at]))
        python->at++;
    json_encode_string((struct text){python->text.data + start, python->at - start}, python->json);
    return python->mark && python->at > start;
}

static bool read_word(struct python *python)
{
    static const char *const words[][2] = {{"None", "null"}, {"True", "true"}, {"False", "false"}};
    size_t start = python->at;
    while (python->at < python->text.size && !ends_word(python->text.data[python->at]))
        python->at++;
    struct text word = {python->text.data + start, python->at - start};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (text_equals_string(word, words[i][0]) || text_equals_string(word, words[i][1])) {
            buffer_add_string(python->json, words[i][1]);
            return true;
        }
    if (word.size == 0 || !strchr("-0123456789", *word.data))
        return false;
    buffer_add_text(python->json, word); // a number, validated when the caller decodes the arguments
    return true;
}

// Reads the items of a list, or the members of a dict whose keys are strings.
static bool read_items(struct python *python, char close)
{
    bool is_first = true;
    python->at++;
    for (char c; (c = next_byte(python)) != close; is_first = false) {
        if (!is_first && c != ',')
            return false;
        python->at += !is_first;
        if (!is_first && next_byte(python) == close)
            break;
        buffer_add_string(python->json, is_first ? "" : ", ");
        if (close == '}' && (!read_key(python) || next_byte(python) != ':'))
            return false;
        python->at += close == '}';
        buffer_add_string(python->json, close == '}' ? ": " : "");
        if (!read_literal(python))
            return false;
    }
    python->at++;
    return true;
}

static bool read_literal(struct python *python)
{
    char c = next_byte(python), close = c == '[' ? ']' : '}';
    if (is_at_mark(python))
        return read_marked(python);
    if (c == '"' || c == '\'')
        return read_string(python);
    if (c != '[' && c != '{')
        return read_word(python);
    if (python->depth == PYTHON_DEPTH_MAX)
        return false;
    python->depth++;
    buffer_add_byte(python->json, c);
    bool whole = read_items(python, close);
    buffer_add_byte(python->json, close);
    python->depth--;
    return whole;
}

bool python_to_json(struct text text, const char *mark, size_t *size, struct buffer *json)
{
    struct python python = {.text = text, .json = json, .mark = mark};
    bool whole = read_literal(&python);
    *size = python.at;
    return whole;
}
