#include "engine/answer/answer_parse.h"

#include "engine/answer/call_values.h"
#include "engine/grammar/rules.h"
#include "schemas/base/hash.h"
#include "schemas/json_answer.h"

#include <stdio.h>
#include <string.h>

static bool is_blank(char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

static struct text trim_blanks(struct text text)
{
    while (text.size && is_blank(text.data[text.size - 1]))
        text.size--;
    while (text.size && is_blank(*text.data)) {
        text.data++;
        text.size--;
    }
    return text;
}

static struct text rest_from(struct text text, size_t at)
{
    return (struct text){text.data + at, text.size - at};
}

static const char *find_string(struct text text, const char *string)
{
    return text.size ? memmem(text.data, text.size, string, strlen(string)) : NULL;
}

// ---- special tokens ----

// Spells out the special tokens of the format and drops the others.
static void spell_text(const struct answer_format *format, bool has_calls, struct text raw,
                       struct buffer *out)
{
    for (size_t at = 0; at < raw.size;) {
        const char *quote = memchr(raw.data + at, SPECIAL_QUOTE, raw.size - at);
        size_t end = quote ? (size_t)(quote - raw.data) : raw.size;
        buffer_add(out, raw.data + at, end - at);
        at = end + 1;
        if (!quote)
            return;
        const char *after = memchr(raw.data + at, SPECIAL_QUOTE, raw.size - at);
        struct text name = {raw.data + at, (after ? (size_t)(after - raw.data) : raw.size) - at};
        if (answer_format_knows(format, has_calls, name))
            buffer_add_text(out, name);
        at += name.size + 1;
    }
}

// ---- calls ----

struct call_reader {
    const struct tool_format *format;
    const struct tools *tools;
    struct arena *arena;
    struct text text;
    size_t at;
};

static void skip_blanks(struct call_reader *reader)
{
    while (reader->at < reader->text.size && is_blank(reader->text.data[reader->at]))
        reader->at++;
}

static size_t field_size(struct text text, char field)
{
    size_t n = 0;
    if (field == *TOOL_NUMBER)
        while (n < text.size && text.data[n] >= '0' && text.data[n] <= '9')
            n++;
    else
        n = text.size < 9 ? text.size : 9;
    return n;
}

// Skips a string of the format; the amount of white space may differ. False: the text differs, and nothing is
// skipped.
static bool take_string(struct call_reader *reader, const char *string)
{
    size_t start = reader->at;
    for (; string && *string; string++) {
        if (is_blank(*string)) {
            skip_blanks(reader);
            continue;
        }
        if (*string == *TOOL_NUMBER || *string == *TOOL_NINE) {
            reader->at += field_size(rest_from(reader->text, reader->at), *string);
            continue;
        }
        if (strchr("{}[]<\",:", *string))
            skip_blanks(reader);
        if (reader->at == reader->text.size || reader->text.data[reader->at] != *string) {
            reader->at = start;
            return false;
        }
        reader->at++;
    }
    return true;
}

// Reads the longest function name at the current position.
static bool take_name(struct call_reader *reader, struct text *name)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:";
    const struct tools *tools = reader->tools;
    size_t start = reader->at, longest = 0;
    struct text rest = rest_from(reader->text, start);
    for (int32_t i = 0; i < tools->n_functions; i++) {
        struct text candidate = tools->functions[i].name;
        bool begins = rest.size >= candidate.size && memcmp(rest.data, candidate.data, candidate.size) == 0;
        bool is_word =
            begins && (rest.size == candidate.size || !rest.data[candidate.size] ||
                       !strchr(letters, rest.data[candidate.size]) || rest.data[candidate.size] == ':');
        if (is_word && candidate.size > longest)
            longest = candidate.size;
    }
    *name = (struct text){rest.data, longest};
    reader->at += longest;
    return longest > 0;
}

static const struct value *parameters_of(const struct tools *tools, struct text name)
{
    for (int32_t i = 0; i < tools->n_functions; i++)
        if (text_equal(tools->functions[i].name, name))
            return &tools->functions[i].parameters;
    return NULL;
}

static bool take_json(struct call_reader *reader, struct buffer *arguments)
{
    skip_blanks(reader);
    struct text rest = rest_from(reader->text, reader->at);
    size_t size = json_extent(rest, reader->arena);
    buffer_add(arguments, rest.data, size);
    reader->at += size;
    return size > 0;
}

static void put_value(struct call_reader *reader, const struct value *schema, struct text text,
                      struct buffer *arguments)
{
    struct value value;
    struct error ignored;
    bool is_bare = schema && call_value_is_bare(schema);
    struct text trimmed = trim_blanks(text);
    if (!is_bare && json_decode_answer(trimmed, reader->arena, &value, &ignored) == STATUS_OK)
        buffer_add_text(arguments, trimmed);
    else
        json_encode_string(text, arguments);
}

// Returns the string without blanks at its ends, and counts the blanks.
static struct text core_of(const char *string, size_t *n_before, size_t *n_after)
{
    struct text whole = text_from_string(string), core = trim_blanks(whole);
    *n_before = core.size ? (size_t)(core.data - whole.data) : 0;
    *n_after = whole.size - *n_before - core.size;
    return core;
}

// Reads a value up to its closing string, without the line feed that the format adds on each side.
static bool take_tagged_value(struct call_reader *reader, const char *key_close, struct text *value)
{
    size_t before, after, ignored;
    struct text close = core_of(reader->format->tags.value_close, &before, &ignored);
    (void)core_of(key_close, &ignored, &after);
    struct text rest = rest_from(reader->text, reader->at);
    const char *end = rest.size ? memmem(rest.data, rest.size, close.data, close.size) : NULL;
    if (!end)
        return false;
    *value = (struct text){rest.data, (size_t)(end - rest.data)};
    reader->at += value->size + close.size;
    if (after && value->size && *value->data == '\n')
        *value = rest_from(*value, 1);
    if (before && value->size && value->data[value->size - 1] == '\n')
        value->size--;
    return true;
}

// Reads a key and its closing string. The format has one closing string for string values, and may have
// another for other values.
static bool take_key(struct call_reader *reader, struct text *key, const char **key_close)
{
    const char *const closes[] = {reader->format->tags.key_close, reader->format->tags.key_close_json};
    struct text rest = rest_from(reader->text, reader->at);
    const char *nearest = NULL;
    for (int i = 0; i < 2 && closes[i]; i++) {
        size_t ignored;
        struct text core = core_of(closes[i], &ignored, &ignored);
        const char *found = rest.size ? memmem(rest.data, rest.size, core.data, core.size) : NULL;
        if (!found || (nearest && found >= nearest))
            continue;
        nearest = found;
        *key = (struct text){rest.data, (size_t)(found - rest.data)};
        *key_close = closes[i];
    }
    size_t ignored;
    if (!nearest)
        return false;
    reader->at += key->size + core_of(*key_close, &ignored, &ignored).size;
    return true;
}

static bool take_tags(struct call_reader *reader, const struct value *parameters, struct buffer *arguments)
{
    bool is_first = true;
    buffer_add_byte(arguments, '{');
    for (; skip_blanks(reader), take_string(reader, reader->format->tags.key_open); is_first = false) {
        struct text key, value;
        const char *key_close;
        if (!take_key(reader, &key, &key_close) || !take_tagged_value(reader, key_close, &value))
            return false;
        key = trim_blanks(key);
        buffer_add_string(arguments, is_first ? "" : ", ");
        json_encode_string(key, arguments);
        buffer_add_string(arguments, ": ");
        put_value(reader, call_parameter(parameters, key), value, arguments);
    }
    buffer_add_byte(arguments, '}');
    return true;
}

// Reads KEY=VALUE as in Python, or KEY:VALUE with marked strings.
static bool take_python(struct call_reader *reader, struct buffer *arguments)
{
    bool is_first = true, is_marked = reader->format->arguments == ARGUMENTS_MARKED;
    const char *close = is_marked ? "}" : ")", *mark = is_marked ? reader->format->tags.value_close : NULL;
    char equals = is_marked ? ':' : '=';
    buffer_add_byte(arguments, '{');
    for (;; is_first = false) {
        size_t start, size;
        skip_blanks(reader);
        if (is_first ? take_string(reader, close) : !take_string(reader, ","))
            break;
        skip_blanks(reader);
        for (start = reader->at; reader->at < reader->text.size && reader->text.data[reader->at] != equals;)
            reader->at++;
        struct text key = trim_blanks((struct text){reader->text.data + start, reader->at - start});
        if (reader->at == reader->text.size)
            return false;
        buffer_add_string(arguments, is_first ? "" : ", ");
        json_encode_string(key, arguments);
        buffer_add_string(arguments, ": ");
        if (!python_to_json(rest_from(reader->text, ++reader->at), mark, &size, arguments))
            return false;
        reader->at += size;
    }
    reader->at -= is_first; // the parenthesis or brace belongs to the format's `close`
    buffer_add_byte(arguments, '}');
    return true;
}

static bool take_arguments(struct call_reader *reader, struct text name, struct tool_call *call)
{
    struct buffer arguments = {0};
    struct value value;
    struct error ignored;
    bool whole = false;
    switch (reader->format->arguments) {
    case ARGUMENTS_JSON:
        whole = take_json(reader, &arguments);
        break;
    case ARGUMENTS_TAGS:
        whole = take_tags(reader, parameters_of(reader->tools, name), &arguments);
        break;
    case ARGUMENTS_PYTHON:
    case ARGUMENTS_MARKED:
        whole = take_python(reader, &arguments);
        break;
    }
    whole = whole && !arguments.failed;
    whole = whole && json_decode_answer((struct text){arguments.data, arguments.size}, reader->arena, &value,
                                        &ignored) == STATUS_OK;
    char *copy = whole && value.kind == VALUE_OBJECT
                     ? arena_copy(reader->arena, arguments.data, arguments.size)
                     : NULL;
    *call = (struct tool_call){.name = name, .arguments = {copy, arguments.size}};
    buffer_finish(&arguments);
    return copy != NULL;
}

static bool take_call(struct call_reader *reader, struct tool_call *call)
{
    const struct tool_format *format = reader->format;
    struct text name;
    return take_string(reader, format->open) && take_name(reader, &name) &&
           take_string(reader, format->middle) && take_arguments(reader, name, call) &&
           take_string(reader, format->close);
}

static bool is_at_end(struct call_reader *reader)
{
    size_t start = reader->at;
    bool ends = take_string(reader, reader->format->end);
    skip_blanks(reader);
    if (ends && reader->at == reader->text.size)
        return true;
    reader->at = start;
    return false;
}

// Reads all calls up to the end of the text. False: a call is incomplete or text follows.
static bool take_calls(struct call_reader *reader, struct answer_parts *parts)
{
    if (!take_string(reader, reader->format->begin))
        return false;
    do {
        if (parts->n_calls == JOB_TOOL_CALLS_MAX || !take_call(reader, &parts->calls[parts->n_calls++]))
            return false;
    } while (!is_at_end(reader) && take_string(reader, reader->format->between));
    return is_at_end(reader) || reader->at == reader->text.size;
}

static enum status parse_calls(const struct answer_format *format, const struct tools *tools,
                               struct arena *arena, struct answer_parts *parts, struct error *error)
{
    const char *trigger = format->tools->trigger;
    const char *start = trigger ? find_string(parts->content, trigger) : parts->content.data;
    size_t n_before = start ? (size_t)(start - parts->content.data) : parts->content.size;
    struct call_reader reader = {format->tools, tools, arena, rest_from(parts->content, n_before), 0};
    if (reader.text.size == 0)
        return STATUS_OK;
    parts->calls = arena_allocate_array(arena, JOB_TOOL_CALLS_MAX, sizeof *parts->calls);
    if (!parts->calls)
        return error_memory(error, STATUS_RETRY, "an answer's calls");
    if (take_calls(&reader, parts))
        parts->content.size = n_before;
    else
        parts->n_calls = 0;
    return STATUS_OK;
}

// ---- thoughts ----

static bool skip_string(struct text *text, const char *string)
{
    struct text trimmed = trim_blanks(*text);
    size_t size = string ? strlen(string) : 0;
    if (size == 0 || trimmed.size < size || memcmp(trimmed.data, string, size) != 0)
        return false;
    *text = rest_from(*text, (size_t)(trimmed.data - text->data) + size);
    return true;
}

// Returns the thought without the sentence that ended it at its budget.
static struct text without_farewell(const struct thinking_format *thinking, struct text thought)
{
    struct text farewell = trim_blanks(text_from_string(thinking->farewell ? thinking->farewell : ""));
    struct text trimmed = trim_blanks(thought);
    if (!farewell.size || trimmed.size < farewell.size ||
        memcmp(trimmed.data + trimmed.size - farewell.size, farewell.data, farewell.size) != 0)
        return thought;
    return (struct text){thought.data, (size_t)(trimmed.data - thought.data) + trimmed.size - farewell.size};
}

// Moves the thoughts from the beginning of the content to `reasoning`. Several thoughts may follow one
// another.
static bool split_thoughts(const struct thinking_format *thinking, bool is_open, struct answer_parts *parts,
                           struct arena *arena)
{
    struct text content = parts->content;
    struct buffer thoughts = {0};
    bool has_any = false, failed = false;
    while (is_open || skip_string(&content, thinking->open)) {
        const char *end = find_string(content, thinking->end);
        struct text whole = {content.data, end ? (size_t)(end - content.data) : content.size};
        struct text thought = without_farewell(thinking, whole);
        size_t start = (size_t)(thought.data - parts->content.data);
        text_spans_add(&parts->thoughts, start, start + thought.size);
        content = rest_from(content, whole.size);
        if (!skip_string(&content, thinking->close))
            (void)skip_string(&content, thinking->end);
        thought = trim_blanks(thought);
        buffer_add_string(&thoughts, thoughts.size && thought.size ? "\n" : "");
        buffer_add_text(&thoughts, thought);
        is_open = false;
        has_any = true;
    }
    (void)skip_string(&content, thinking->answer_open);
    const char *close = thinking->answer_close ? find_string(content, thinking->answer_close) : NULL;
    if (close)
        content.size = (size_t)(close - content.data);
    while (has_any && content.size && (*content.data == '\n' || *content.data == '\r'))
        content = rest_from(content, 1);
    parts->content = content;
    if (thoughts.size) {
        parts->reasoning = (struct text){arena_copy(arena, thoughts.data, thoughts.size), thoughts.size};
        failed = !parts->reasoning.data;
    }
    failed |= thoughts.failed || parts->thoughts.failed;
    buffer_finish(&thoughts);
    return !failed;
}

// Converts positions in the output of spell_text() to positions in `raw`.
static void place_in_raw(const struct answer_format *format, bool has_calls, struct text raw,
                         struct text_spans *spans)
{
    size_t at = 0, spelled = 0; // positions up to which bytes were converted, in `raw` and in the output
    for (size_t i = 0; i < 2 * spans->n_items; i++) {
        size_t *place = i % 2 ? &spans->items[i / 2].end : &spans->items[i / 2].start;
        const char *quote;
        while ((quote = memchr(raw.data + at, SPECIAL_QUOTE, raw.size - at)) &&
               spelled + (size_t)(quote - raw.data) - at < *place) {
            size_t name_at = (size_t)(quote - raw.data) + 1;
            const char *after = memchr(raw.data + name_at, SPECIAL_QUOTE, raw.size - name_at);
            struct text name = {raw.data + name_at,
                                (after ? (size_t)(after - raw.data) : raw.size) - name_at};
            spelled += name_at - 1 - at + (answer_format_knows(format, has_calls, name) ? name.size : 0);
            at = name_at + name.size + (after != NULL);
        }
        *place = at + (*place - spelled);
    }
}

enum status answer_parse(const struct answer_format *format, const struct tools *tools,
                         enum thinking_state thinking, struct text raw, struct arena *arena,
                         struct answer_parts *parts, struct error *error)
{
    struct buffer spelled = {0};
    bool has_calls = format->tools && tools->choice != TOOLS_NONE;
    *parts = (struct answer_parts){0};
    spell_text(format, has_calls, raw, &spelled);
    char *copy = spelled.failed ? NULL : arena_copy(arena, spelled.data, spelled.size);
    parts->content = (struct text){copy, spelled.size};
    buffer_finish(&spelled);
    if (!copy ||
        (format->thinking && !split_thoughts(format->thinking, thinking == THINKING_OPEN, parts, arena)))
        return error_memory(error, STATUS_RETRY, "an answer's parts");
    place_in_raw(format, has_calls, raw, &parts->thoughts);
    if (!has_calls)
        return STATUS_OK;
    enum status status = parse_calls(format, tools, arena, parts, error);
    if (parts->n_calls)
        parts->content = trim_blanks(parts->content);
    return status;
}

bool answer_call_id(const struct tool_format *format, uint64_t seed, int32_t position, struct tool_call *call,
                    struct arena *arena)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    struct buffer id = {0};
    uint64_t hash = hash_bytes(&position, sizeof position, seed);
    if (format->ids == TOOL_IDS_NUMBERED) {
        buffer_add_string(&id, "functions.");
        buffer_add_text(&id, call->name);
        buffer_add_format(&id, ":%d", position);
    } else if (format->ids == TOOL_IDS_MISTRAL) {
        for (int i = 0; i < 9; i++, hash /= sizeof letters - 1)
            buffer_add_byte(&id, letters[hash % (sizeof letters - 1)]);
    } else {
        uint64_t more = hash_bytes(&position, sizeof position, hash);
        buffer_add_format(&id, "call_%016llx%08llx", (unsigned long long)hash,
                          (unsigned long long)(more & 0xFFFFFFFF));
    }
    char *copy = id.failed ? NULL : arena_copy(arena, id.data, id.size);
    call->id = (struct text){copy, id.size};
    buffer_finish(&id);
    return copy != NULL;
}
