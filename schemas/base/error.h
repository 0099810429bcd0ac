// An error: a status for the worker, and a code and a text for people. The status decides what the worker
// does next. The text says what, which, expected, got. The lowest layer that knows fills the caller's struct
// error; only consumer/ logs it. Faults of the program itself are asserts, never errors.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define WARN_UNUSED __attribute__((warn_unused_result))
#define PRINTF_LIKE(format_index, first_argument)                                                            \
    __attribute__((format(printf, format_index, first_argument)))

// The worker's next action.
enum status {
    STATUS_OK = 0,
    STATUS_RETRY,   // temporarily unavailable; the same call may succeed later
    STATUS_REJECT,  // this job (or record, line) is at fault; others are not affected
    STATUS_REFUSE,  // the configuration is at fault: do not start
    STATUS_RESTART, // the process cannot continue (fenced, device lost); a new one can
};

// Error codes, as in results, dead letters and the store. Names: error_code_name().
enum error_code {
    ERROR_NONE = 0,
    ERROR_INVALID_ENCODING,  // not JSON, not msgpack, bad UTF-8
    ERROR_INVALID_FIELD,     // a known field with a wrong type or value
    ERROR_MISSING_FIELD,     // a required field is absent
    ERROR_UNSUPPORTED_FIELD, // a known field this version does not implement
    ERROR_LIMIT_EXCEEDED,    // larger, deeper or more than a named limit
    ERROR_EMPTY_PROMPT,      // no token to start from
    ERROR_CONTEXT_LENGTH,    // prompt and max_tokens do not fit the context
    ERROR_TOKEN_RANGE,       // a token id outside the vocabulary
    ERROR_TEMPLATE,          // the chat template refused or failed
    ERROR_LOGITS_NAN,        // the model's logits contain a NaN
    ERROR_RESULT_TOO_LARGE,  // the result does not fit the output topic
    ERROR_RESULT_REFUSED,    // the broker refused the result's record repeatedly
    ERROR_CANCELLED,         // the job was cancelled
    ERROR_CRASHED,           // too many crashes while the job was running
    ERROR_DEADLINE,          // the job's deadline passed before it was finished
    ERROR_MODEL_FILE,        // an unusable model file
    ERROR_UNKNOWN_TYPE,      // unknown tensor type, family or pre-tokenizer
    ERROR_OUT_OF_MEMORY,     // host or device memory; for a job: it exceeds the KV pages
    ERROR_STORE,             // SQLite
    ERROR_BROKER,            // Kafka
    ERROR_DEVICE,            // CUDA
    ERROR_FILE,              // reading or writing a file
    ERROR_USAGE,             // the command line
    ERROR_JOBS_FAILED,       // the command did its work, but some jobs failed
    ERROR_CODE_COUNT,
};

#define ERROR_TEXT_BYTES 1024

struct error {
    enum status status;
    enum error_code code;
    char text[ERROR_TEXT_BYTES]; // one line, UTF-8, truncated at a character
};

// Fills `error` and returns `status`, so that `return error_set(...)` is the whole error path.
enum status error_set(struct error *error, enum status status, enum error_code code, const char *format, ...)
    PRINTF_LIKE(4, 5);

// The same for memory that cannot be allocated; the text is "FORMAT: out of memory".
enum status error_memory(struct error *error, enum status status, const char *format, ...) PRINTF_LIKE(3, 4);

// Prepends "context: " to the text, for a caller that knows the file or job. Returns the status.
enum status error_prefix(struct error *error, const char *format, ...) PRINTF_LIKE(2, 3);

// True if the model is at fault, so that every job fails with this code.
bool error_is_of_model(enum error_code code);

// True if a job that failed with this code may succeed when the same command computes it again. Other codes
// are faults of the request, or of the request with this model, or passed deadlines.
bool error_may_pass(enum error_code code);

// Returns "context_length_exceeded" and so on. The names are stable: they are part of the wire format.
const char *error_code_name(enum error_code code);
// Returns ERROR_NONE if no code has that name.
enum error_code error_code_from_name(const char *name);
