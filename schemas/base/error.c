#include "schemas/base/error.h"

#include "schemas/base/text.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char *const names[ERROR_CODE_COUNT] = {
    [ERROR_NONE] = "none",
    [ERROR_INVALID_ENCODING] = "invalid_encoding",
    [ERROR_INVALID_FIELD] = "invalid_field",
    [ERROR_MISSING_FIELD] = "missing_field",
    [ERROR_UNSUPPORTED_FIELD] = "unsupported_field",
    [ERROR_LIMIT_EXCEEDED] = "limit_exceeded",
    [ERROR_EMPTY_PROMPT] = "empty_prompt",
    [ERROR_CONTEXT_LENGTH] = "context_length_exceeded",
    [ERROR_TOKEN_RANGE] = "token_out_of_range",
    [ERROR_TEMPLATE] = "template_failed",
    [ERROR_LOGITS_NAN] = "logits_nan",
    [ERROR_RESULT_TOO_LARGE] = "result_too_large",
    [ERROR_RESULT_REFUSED] = "result_refused",
    [ERROR_CANCELLED] = "cancelled",
    [ERROR_CRASHED] = "crashed",
    [ERROR_DEADLINE] = "deadline_exceeded",
    [ERROR_MODEL_FILE] = "model_file",
    [ERROR_UNKNOWN_TYPE] = "unknown_type",
    [ERROR_OUT_OF_MEMORY] = "out_of_memory",
    [ERROR_STORE] = "store",
    [ERROR_BROKER] = "broker",
    [ERROR_DEVICE] = "device",
    [ERROR_FILE] = "file",
    [ERROR_USAGE] = "usage",
    [ERROR_JOBS_FAILED] = "jobs_failed",
};

enum status error_set(struct error *error, enum status status, enum error_code code, const char *format, ...)
{
    assert(status != STATUS_OK && code > ERROR_NONE && code < ERROR_CODE_COUNT);
    error->status = status;
    error->code = code;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error->text, sizeof error->text, format, arguments);
    va_end(arguments);
    utf8_make_printable(error->text);
    return status;
}

enum status error_memory(struct error *error, enum status status, const char *format, ...)
{
    char what[ERROR_TEXT_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof(what), format, arguments);
    va_end(arguments);
    return error_set(error, status, ERROR_OUT_OF_MEMORY, "%s: out of memory", what);
}

enum status error_prefix(struct error *error, const char *format, ...)
{
    char rest[ERROR_TEXT_BYTES];
    memcpy(rest, error->text, sizeof rest);
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(error->text, sizeof error->text, format, arguments);
    va_end(arguments);
    size_t used = length < 0 ? 0 : strlen(error->text);
    struct text parts[] = {TEXT(": "), text_from_string(rest)};
    for (size_t i = 0; i < 2; i++) {
        size_t space = sizeof error->text - 1 - used;
        size_t size = parts[i].size < space ? parts[i].size : space;
        memcpy(error->text + used, parts[i].data, size);
        used += size;
    }
    error->text[used] = '\0';
    utf8_make_printable(error->text);
    return error->status;
}

bool error_is_of_model(enum error_code code)
{
    return code == ERROR_LOGITS_NAN;
}

bool error_may_pass(enum error_code code)
{
    switch (code) {
    case ERROR_LOGITS_NAN: // caused by the device, or by a model that may since have been repaired
    case ERROR_CRASHED:
    case ERROR_RESULT_REFUSED:
    case ERROR_OUT_OF_MEMORY: // the number of KV pages depends on the free memory
    case ERROR_STORE:
    case ERROR_BROKER:
    case ERROR_DEVICE:
    case ERROR_FILE:
        return true;
    default:
        return false;
    }
}

const char *error_code_name(enum error_code code)
{
    assert(code >= ERROR_NONE && code < ERROR_CODE_COUNT);
    return names[code];
}

enum error_code error_code_from_name(const char *name)
{
    for (int code = 1; code < ERROR_CODE_COUNT; code++)
        if (strcmp(names[code], name) == 0)
            return (enum error_code)code;
    return ERROR_NONE;
}
