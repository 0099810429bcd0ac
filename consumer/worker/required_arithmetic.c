#include "consumer/worker/required_arithmetic.h"

#include "schemas/base/text.h"

#include <string.h>

// Returns the next part and advances `at` past it; size 0: no part is left.
static struct text next_part(const char **at)
{
    *at += strspn(*at, " ");
    struct text part = {*at, strcspn(*at, " ")};
    *at += part.size;
    return part;
}

static size_t name_size(struct text part)
{
    const char *equals = memchr(part.data, '=', part.size);
    return equals ? (size_t)(equals - part.data) : part.size;
}

enum status required_arithmetic_validate(const char *required, struct error *error)
{
    const char *at = required;
    int n_parts = 0;
    for (struct text part; (part = next_part(&at)).size; n_parts++) {
        size_t size = name_size(part);
        if (size == 0 || size + 1 >= part.size)
            return error_set(
                error, STATUS_REFUSE, ERROR_USAGE,
                "--require-arithmetic: expected NAME=VALUE parts of a system_fingerprint, got %.*s",
                (int)part.size, part.data);
    }
    if (n_parts == 0)
        return error_set(error, STATUS_REFUSE, ERROR_USAGE, "--require-arithmetic names no part");
    return STATUS_OK;
}

// The part of `name` with the same name as `part`; size 0: none.
static struct text find_part(const char *name, struct text part)
{
    size_t size = name_size(part);
    struct text found;
    while ((found = next_part(&name)).size)
        if (name_size(found) == size && memcmp(found.data, part.data, size) == 0)
            break;
    return found;
}

static void add_difference(struct buffer *out, struct text wanted, struct text own)
{
    buffer_add_format(out, "%s%.*s, this worker has %.*s", out->size ? "; " : "", (int)wanted.size,
                      wanted.data, own.size ? (int)own.size : 4, own.size ? own.data : "none");
}

enum status required_arithmetic_check(const char *required, const char *name, struct error *error)
{
    struct buffer differences = {0};
    const char *at = required;
    for (struct text part; (part = next_part(&at)).size;) {
        struct text own = find_part(name, part);
        if (!text_equal(part, own))
            add_difference(&differences, part, own);
    }
    at = name;
    bool whole = strncmp(required + strspn(required, " "), "sheaf=", 6) == 0;
    for (struct text part; whole && (part = next_part(&at)).size;)
        if (find_part(required, part).size == 0)
            buffer_add_format(&differences, "%sno %.*s, this worker has %.*s", differences.size ? "; " : "",
                              (int)name_size(part), part.data, (int)part.size, part.data);
    buffer_add_byte(&differences, '\0');
    enum status status = STATUS_OK;
    if (differences.failed)
        status = error_memory(error, STATUS_REFUSE, "comparing arithmetics");
    else if (differences.size > 1)
        status =
            error_set(error, STATUS_REFUSE, ERROR_USAGE, "--require-arithmetic wants %s", differences.data);
    buffer_finish(&differences);
    return status;
}
