#include "schemas/base/nearest.h"
#include "schemas/decoding.h"

#include <assert.h>

int decoding_find(const struct decoding *decoding, struct text name)
{
    for (size_t i = 0; i < decoding->n_fields; i++)
        if (text_equal(decoding->fields[i].name, name))
            return (int)i;
    return -1;
}

void decoding_give(struct decoding *decoding, int row, struct value *value)
{
    assert(row >= 0 && (size_t)row < decoding->n_fields);
    decoding->values[row] = value;
    decoding->given[row / 64] |= UINT64_C(1) << row % 64;
}

int decoding_next(const struct decoding *decoding, int row)
{
    for (row++; row < REQUEST_FIELDS_MAX; row = (row / 64 + 1) * 64) {
        uint64_t above = decoding->given[row / 64] >> row % 64;
        if (above)
            return row + __builtin_ctzll(above);
    }
    return -1;
}

struct value *decoding_given(const struct decoding *decoding, const char *name)
{
    struct text wanted = text_from_string(name);
    for (int row = -1; (row = decoding_next(decoding, row)) >= 0;)
        if (text_equal(decoding->fields[row].name, wanted))
            return decoding->values[row];
    return NULL;
}

enum status decoding_expected(struct decoding *decoding, const char *name, const char *expected,
                              const struct value *got)
{
    char description[VALUE_DESCRIPTION_BYTES];
    value_describe(got, description);
    return error_set(decoding->error, STATUS_REJECT, ERROR_INVALID_FIELD, "%s: expected %s, got %s", name,
                     expected, description);
}

enum status decoding_out_of_memory(struct decoding *decoding)
{
    return error_set(decoding->error, STATUS_RETRY, ERROR_OUT_OF_MEMORY, "job: no memory to decode it");
}

static bool is_among(struct text name, const struct text *names, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (text_equal(name, names[i]))
            return true;
    return false;
}

enum status decoding_warn_of_unknown(struct decoding *decoding, const char *path, const struct value *object,
                                     const struct text *names, size_t n_names)
{
    for (size_t i = 0; i < object->object.n_members; i++) {
        struct text key = object->object.members[i].key;
        if (is_among(key, names, n_names))
            continue;
        struct text nearest = nearest_name(key, names, n_names);
        if (!job_warn(decoding->job, "unknown field \"%s.%.*s\" ignored%s%.*s", path,
                      (int)(key.size < 128 ? key.size : 128), key.data,
                      nearest.data ? "; the nearest is " : "", (int)nearest.size, nearest.data))
            return decoding_out_of_memory(decoding);
    }
    return STATUS_OK;
}

enum status decoding_integer(struct decoding *decoding, const char *name, const struct value *value,
                             int64_t minimum, int64_t maximum, bool limit, int64_t *out)
{
    if (value_whole_number(value, out) && *out >= minimum && *out <= maximum)
        return STATUS_OK;
    char description[VALUE_DESCRIPTION_BYTES];
    value_describe(value, description);
    bool beyond = limit && value_whole_number(value, out) && *out > maximum;
    return error_set(decoding->error, STATUS_REJECT, beyond ? ERROR_LIMIT_EXCEEDED : ERROR_INVALID_FIELD,
                     "%s: expected an integer from %lld to %lld, got %s", name, (long long)minimum,
                     (long long)maximum, description);
}
