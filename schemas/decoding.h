// State of decoding a job record: the values of its fields, and the errors common to all decoders of fields.
// Internal to schemas/.
#pragma once

#include "schemas/task.h"

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
    FIELD_ONLY,      // known, but only the value `only` is supported (null if `only` is NULL)
    FIELD_NO_EFFECT, // does not change the answer; ignored with a warning
    FIELD_ALIAS,     // another server's name for the field `only`
};

struct decoding;

struct field {
    struct text name;
    enum field_kind kind;
    bool identity;      // identifies the job; in an OpenAI batch line it may be given beside "body"
    bool limit;         // `maximum` is a named limit: exceeding it is ERROR_LIMIT_EXCEEDED
    bool above_minimum; // `minimum` itself is out of range
    size_t offset;      // offset in struct job
    int64_t minimum;
    int64_t maximum;
    int64_t fallback; // the default; the field is written only if different, or if `given` is marked
    unsigned tasks;   // bits 1 << enum task of the tasks that have the field; 0: TASK_GENERATE alone
    unsigned given;   // enum sampling_parameter: marked in the job's sampling when the record names it
    const char *only; // FIELD_ONLY: JSON text; FIELD_ALIAS: the other field's name
    enum status (*decode)(struct decoding *decoding, struct value *value);
    // Leaves `value` null if nothing is to be written. Returns false if memory ran out.
    bool (*encode)(const struct job *job, struct arena *arena, struct value *value);
};

enum { REQUEST_FIELDS_MAX = 192 };

// State of one call of job_decode.
struct decoding {
    struct job *job;
    struct error *error;
    const struct field *fields; // request_fields
    size_t n_fields;
    struct value *values[REQUEST_FIELDS_MAX]; // given values by row of the table; NULL: missing, or null
    uint64_t given[REQUEST_FIELDS_MAX / 64];  // bitmap: bit i is set if row i has a value; most are not
    size_t n_arguments;                       // values parsed from the arguments of tool_calls so far
    int32_t max_tokens_default;               // for a record without max_tokens; 0: no limit
    enum path path;                           // of the line's url; PATH_NONE: none
    bool is_line;                             // has members of an OpenAI batch line, but no body
};

// Returns the field's row in the table; -1 if the name is unknown.
int decoding_find(const struct decoding *decoding, struct text name);
// Sets the value of the row's field.
void decoding_give(struct decoding *decoding, int row, struct value *value);
// Returns the next row above `row` that has a value; -1 if none is left. Begin with -1.
int decoding_next(const struct decoding *decoding, int row);
// Returns the value given for the field, or NULL.
struct value *decoding_given(const struct decoding *decoding, const char *name);

// Errors of decoders. `name` is the path of the field.
enum status decoding_expected(struct decoding *decoding, const char *name, const char *expected,
                              const struct value *got);
enum status decoding_out_of_memory(struct decoding *decoding);
// Reads an integer, written as such or as a float without fraction, and checks its range. struct field
// explains `limit`.
enum status decoding_integer(struct decoding *decoding, const char *name, const struct value *value,
                             int64_t minimum, int64_t maximum, bool limit, int64_t *out) WARN_UNUSED;
// Adds a warning for each member of the object whose name is not listed. `path` is the path of the object.
// STATUS_RETRY: out of memory.
enum status decoding_warn_of_unknown(struct decoding *decoding, const char *path, const struct value *object,
                                     const struct text *names, size_t n_names) WARN_UNUSED;
