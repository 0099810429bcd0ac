// Values from the bytes of either encoding, and their faults, for tests.
#pragma once

#include "schemas/json_read.h"
#include "tests/support/cases.h"
#include "tests/support/random.h"
#include "tests/unit/schemas/library_json.h"

#include <float.h>

struct decoded_value {
    struct arena arena;
    struct value value;
    struct error error;
    enum status status;
};

static inline struct decoded_value from_json_bytes(struct text input)
{
    struct decoded_value out = {.value.kind = VALUE_BOOL}; // a failure leaves null
    out.status = json_decode(input, &out.arena, &out.value, &out.error);
    return out;
}

static inline struct decoded_value from_json(const char *json)
{
    return from_json_bytes(text_from_string(json));
}

static inline struct decoded_value from_msgpack(struct text input)
{
    struct decoded_value out = {.value.kind = VALUE_BOOL}; // a failure leaves null
    out.status = msgpack_decode(input, &out.arena, &out.value, &out.error);
    return out;
}

// Input in memory of exactly its size, so that the address sanitizer sees a read past the end.
static inline struct text exact_copy(const void *data, size_t size)
{
    char *copy = malloc(size ? size : 1);
    assert_non_null(copy);
    memcpy(copy, data, size);
    return (struct text){copy, size};
}

static inline void assert_fault(struct decoded_value decoded, enum error_code code, const char *part)
{
    assert_int_equal(decoded.status, STATUS_REJECT);
    assert_string_equal(error_code_name(decoded.error.code), error_code_name(code));
    if (!strstr(decoded.error.text, part))
        fail_msg("\"%s\" does not hold \"%s\"", decoded.error.text, part);
    assert_true(utf8_valid(decoded.error.text, strlen(decoded.error.text)));
    assert_int_equal(decoded.value.kind, VALUE_NULL);
    arena_finish(&decoded.arena);
}
