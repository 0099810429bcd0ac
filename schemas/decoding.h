// State of decoding a job record: the values of its fields, and the errors common to all decoders of fields.
// Internal to schemas/.
#pragma once

#include "schemas/job.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum field_kind {
    FIELD_TEXT,      // struct text of minimum..maximum bytes, without NUL
    FIELD_INTEGER32, // int32_t
    FIELD_INTEGER64, // int64_t
    FIELD_NUMBER,    // float
    FIELD_BOOL,
    FIELD_OTHER,     // has its own functions
    FIELD_ONLY,      // known, but only one value is supported: `only`, or null if NULL
    FIELD_NO_EFFECT, // does not change the answer: ignored with a warning
    FIELD_ALIAS,     // another server's name for the field `only`
};

struct decoding;

struct field {
    struct text name;
    enum field_kind kind;
    bool identity;      // identifies the job: given beside "body" in an OpenAI batch line
    bool limit;         // `maximum` is a named limit: exceeding it is ERROR_LIMIT_EXCEEDED
    bool above_minimum; // `minimum` itself is out of range
    size_t offset;      // in struct job
    int64_t minimum;
    int64_t maximum;
    int64_t fallback; // the default; the field is written only if different, or if `given` is marked
    unsigned tasks;   // bits 1 << enum task of the tasks that have the field; 0: TASK_GENERATE alone
    unsigned given;   // enum sampling_parameter: marked in the job's sampling when the record names it
    const char *only; // FIELD_ONLY: JSON text; FIELD_ALIAS: the other field's name
    enum status (*decode)(struct decoding *decoding, struct value *value);
    // Leaves `value` null if there is nothing to write. False when memory ran out.
    bool (*encode)(const struct job *job, struct arena *arena, struct value *value);
};

enum { REQUEST_FIELDS_MAX = 192 };

// State of one job_decode.
struct decoding {
    struct job *job;
    struct error *error;
    const struct field *fields; // request_fields
    size_t n_fields;
    struct value *values[REQUEST_FIELDS_MAX]; // given values, by row of the table; NULL: missing, or null
    uint64_t given[REQUEST_FIELDS_MAX / 64];  // bitmap: row i has a value; records have few of the fields
    size_t n_arguments;                       // values parsed from the arguments of tool_calls so far
    int32_t max_tokens_default;               // for a record without max_tokens; 0: no limit
    bool is_line;                             // has members of an OpenAI batch line, but no body
};

// The field's row in the table; -1: unknown name.
int decoding_find(const struct decoding *decoding, struct text name);
// Sets the value of the row's field.
void decoding_give(struct decoding *decoding, int row, struct value *value);
// The next row above `row` that has a value; -1: none. Begin with -1.
int decoding_next(const struct decoding *decoding, int row);
// The value given for the field, or NULL.
struct value *decoding_given(const struct decoding *decoding, const char *name);

// Errors. `name` is the field's path.
enum status decoding_expected(struct decoding *decoding, const char *name, const char *expected,
                              const struct value *got);
enum status decoding_out_of_memory(struct decoding *decoding);
// Reads an integer, given as such or as a float without fraction, and checks its range. `limit`: see struct
// field.
enum status decoding_integer(struct decoding *decoding, const char *name, const struct value *value,
                             int64_t minimum, int64_t maximum, bool limit, int64_t *out) WARN_UNUSED;
// Warns of the object's members that have none of the names. `path`: path of the object. STATUS_RETRY: out of
// memory.
enum status decoding_warn_of_unknown(struct decoding *decoding, const char *path, const struct value *object,
                                     const struct text *names, size_t n_names) WARN_UNUSED;
