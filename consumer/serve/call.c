#include "consumer/serve/call.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static const char *type_of(int status)
{
    switch (status) {
    case 401:
        return "authentication_error";
    case 403:
        return "permission_error";
    case 500:
    case 501:
    case 503:
    case 504:
        return "server_error";
    default:
        return "invalid_request_error";
    }
}

static void add_name(struct buffer *out, const char *name)
{
    if (name)
        json_encode_string(text_from_string(name), out);
    else
        buffer_add_string(out, "null");
}

void reply_error(struct reply *reply, int status, const char *code, const char *param, const char *format,
                 ...)
{
    char message[2 * ERROR_TEXT_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    reply->status = status;
    reply->may_retry = status == 503;
    buffer_clear(&reply->body);
    buffer_add_string(&reply->body, "{\"error\":{\"message\":");
    json_encode_string(text_from_string(message), &reply->body);
    buffer_add_format(&reply->body, ",\"type\":\"%s\",\"param\":", type_of(status));
    add_name(&reply->body, param);
    buffer_add_string(&reply->body, ",\"code\":");
    add_name(&reply->body, code);
    buffer_add_string(&reply->body, "}}");
}

void reply_fault(struct reply *reply, const struct error *error)
{
    bool may_pass = error->status == STATUS_RETRY;
    reply_error(reply, may_pass ? 503 : 500, error_code_name(error->code), NULL, "%s", error->text);
}

bool call_read_object(struct call *call, struct arena *arena, struct value *object)
{
    struct error error;
    struct text text = {call->body.data, call->body.size};
    if (call->body.failed) {
        reply_error(&call->reply, 413, "request_too_large", NULL, "The body has more than %d bytes.",
                    CALL_BODY_BYTES_MAX);
        return false;
    }
    if (json_decode_spelled(text, arena, object, &error) != STATUS_OK) {
        reply_error(&call->reply, 400, "invalid_json", NULL, "The body is no JSON object: %s", error.text);
        return false;
    }
    if (object->kind == VALUE_OBJECT)
        return true;
    reply_error(&call->reply, 400, "invalid_json", NULL,
                "The body is no JSON object: expected an object, got %s", value_kind_name(object->kind));
    return false;
}

bool call_read_page(struct call *call, int limit_default, int limit_max, struct served_page *page)
{
    const char *limit = call->query.limit, *order = call->query.order;
    *page = (struct served_page){.after = text_from_string(call->query.after), .limit = limit_default};
    char *end = NULL;
    long n = limit ? strtol(limit, &end, 10) : limit_default;
    if (limit && (end == limit || *end || n < 1 || n > limit_max)) {
        reply_error(&call->reply, 400, "invalid_value", "limit",
                    "limit: expected a number from 1 to %d, got %s", limit_max, limit);
        return false;
    }
    page->limit = (int)n;
    page->is_ascending = order && strcmp(order, "asc") == 0;
    if (!order || page->is_ascending || strcmp(order, "desc") == 0)
        return true;
    reply_error(&call->reply, 400, "invalid_value", "order", "order: expected asc or desc, got %s", order);
    return false;
}

void add_text(struct buffer *out, const char *key, struct text text)
{
    buffer_add_format(out, "\"%s\":", key);
    if (text.size)
        json_encode_string(text, out);
    else
        buffer_add_string(out, "null");
}

void add_seconds(struct buffer *out, const char *key, int64_t at_us)
{
    buffer_add_format(out, ",\"%s\":", key);
    if (at_us)
        buffer_add_integer(out, at_us / 1000000);
    else
        buffer_add_string(out, "null");
}

void list_begin(struct list_writer *list, struct buffer *out)
{
    *list = (struct list_writer){.out = out};
    buffer_add_string(out, "{\"object\":\"list\",\"data\":[");
}

void list_next(struct list_writer *list, struct text id)
{
    snprintf(list->last, sizeof list->last, "%.*s", (int)id.size, id.data);
    if (list->n++)
        buffer_add_byte(list->out, ',');
    else
        memcpy(list->first, list->last, sizeof list->first);
}

void list_end(struct list_writer *list, bool has_more)
{
    buffer_add_string(list->out, "],");
    add_text(list->out, "first_id", text_from_string(list->first));
    buffer_add_byte(list->out, ',');
    add_text(list->out, "last_id", text_from_string(list->last));
    buffer_add_format(list->out, ",\"has_more\":%s}", has_more ? "true" : "false");
}
