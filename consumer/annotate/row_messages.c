#include "consumer/annotate/row_messages.h"

#include "schemas/value.h"

#include <ctype.h>
#include <string.h>

struct messages {
    struct buffer *record;
    struct buffer line;
    bool in_string;  // at the end of `line`; a line feed in a string is invalid JSON
    bool is_escaped; // a backslash of the template at the end of `line` escapes the next byte
    size_t n;
    struct error *error;
};

static bool is_blank(struct text line)
{
    for (size_t i = 0; i < line.size; i++)
        if (line.data[i] != ' ' && line.data[i] != '\t' && line.data[i] != '\r')
            return false;
    return true;
}

// Jinja removes the line feed after a block's end, so a message and {% endif %} on its line run into the next message.
static enum status refuse_line(struct messages *messages, const struct error *fault)
{
    bool is_joined = strstr(fault->text, "something after the value") != NULL;
    return error_set(
        messages->error, STATUS_REJECT, ERROR_TEMPLATE, "message %zu is no JSON: %s%s", messages->n + 1,
        fault->text,
        is_joined ? " (a message a line: tags such as {% if %} and {% endif %} need lines of their own)"
                  : "");
}

static enum status end_line(struct messages *messages)
{
    struct text line = {messages->line.data, messages->line.size};
    if (messages->line.failed)
        return error_memory(messages->error, STATUS_REFUSE, "prompts");
    if (is_blank(line)) {
        buffer_clear(&messages->line);
        return STATUS_OK;
    }
    struct arena arena = {0};
    struct value message;
    struct error fault;
    enum status status = json_decode(line, &arena, &message, &fault);
    if (status == STATUS_OK && message.kind != VALUE_OBJECT) {
        arena_finish(&arena);
        return error_set(messages->error, STATUS_REJECT, ERROR_TEMPLATE,
                         "message %zu: expected an object with role and content, a line each, got %s",
                         messages->n + 1, value_kind_name(message.kind));
    }
    if (status == STATUS_OK && messages->n++)
        buffer_add_byte(messages->record, ',');
    if (status == STATUS_OK)
        json_encode(&message, messages->record);
    arena_finish(&arena);
    buffer_clear(&messages->line);
    if (status == STATUS_RETRY) // not the row's fault
        return error_memory(messages->error, STATUS_REFUSE, "prompts");
    return status == STATUS_OK ? STATUS_OK : refuse_line(messages, &fault);
}

// Adds text of the template. It is scanned for quotes and backslashes only, because text of the table must be
// escaped when it is inserted, before its line is complete. end_line then reads the line as JSON.
static enum status add_own(struct messages *messages, struct text text)
{
    enum status status = STATUS_OK;
    for (size_t i = 0; status == STATUS_OK && i < text.size; i++) {
        char c = text.data[i];
        if (c == '\n') {
            status = end_line(messages);
            continue;
        }
        buffer_add_byte(&messages->line, c);
        if (messages->is_escaped)
            messages->is_escaped = false;
        else if (c == '"')
            messages->in_string = !messages->in_string;
        else
            messages->is_escaped = messages->in_string && c == '\\';
    }
    return status;
}

// Whether the text can only be part of a number, a literal or blanks, which need no quotes.
static bool is_bare(struct text text)
{
    for (size_t i = 0; i < text.size; i++)
        if (!isalnum((unsigned char)text.data[i]) && !memchr("+-. ", text.data[i], 4))
            return false;
    return true;
}

static enum status add_content(struct messages *messages, struct text text)
{
    if (messages->is_escaped || (!messages->in_string && !is_bare(text)))
        return error_set(
            messages->error, STATUS_REJECT, ERROR_TEMPLATE,
            "message %zu: text of the table stands %s; {{ column | tojson }} writes a whole string",
            messages->n + 1, messages->is_escaped ? "behind a backslash" : "outside a JSON string");
    if (!messages->in_string) {
        buffer_add_text(&messages->line, text);
        return STATUS_OK;
    }
    struct buffer string = {0};
    json_encode_string(text, &string);
    if (string.failed)
        messages->line.failed = true;
    else
        buffer_add(&messages->line, string.data + 1, string.size - 2); // without its quotes
    buffer_finish(&string);
    return STATUS_OK;
}

enum status row_messages_add(struct text rendered, const struct text_spans *content, struct buffer *record,
                             struct error *error)
{
    struct messages messages = {.record = record, .error = error};
    enum status status = STATUS_OK;
    size_t at = 0;
    for (size_t i = 0; status == STATUS_OK && i < content->n_items; i++) {
        const struct text_span *span = &content->items[i];
        status = add_own(&messages, (struct text){rendered.data + at, span->start - at});
        if (status == STATUS_OK)
            status =
                add_content(&messages, (struct text){rendered.data + span->start, span->end - span->start});
        at = span->end;
    }
    if (status == STATUS_OK)
        status = add_own(&messages, (struct text){rendered.data + at, rendered.size - at});
    if (status == STATUS_OK)
        status = end_line(&messages);
    if (status == STATUS_OK && !messages.n)
        status = error_set(error, STATUS_REJECT, ERROR_TEMPLATE, "no message was rendered");
    buffer_finish(&messages.line);
    return status;
}
