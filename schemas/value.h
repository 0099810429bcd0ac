// A value tree, decoded from JSON or msgpack, for the job codec and the chat-template interpreter. All memory
// is in an arena. Values are immutable once built and may be read by several threads.
#pragma once

#include "schemas/base/arena.h"
#include "schemas/base/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum value_kind {
    VALUE_NULL,
    VALUE_BOOL,
    VALUE_INTEGER,
    VALUE_FLOAT,  // finite if a decoder made it
    VALUE_STRING, // UTF-8, checked by the decoders
    VALUE_BYTES,  // msgpack bin; JSON has none
    VALUE_ARRAY,
    VALUE_OBJECT, // keys in the order of the input, unique
};

struct value_member;

struct value {
    enum value_kind kind;
    bool single;  // VALUE_FLOAT: from a float32, so written with its fewest digits ("0.7")
    bool spelled; // VALUE_FLOAT: from json_decode_spelled, so written as `digits`
    union {
        bool boolean;
        int64_t integer;
        struct {
            double number;
            const char *digits; // the JSON text if `number` may differ from it, else NULL
        };
        struct text text; // VALUE_STRING, VALUE_BYTES
        struct {
            struct value *items;
            size_t n_items;
        } array;
        struct {
            struct value_member *members;
            size_t n_members;
        } object;
    };
};

struct value_member {
    struct text key;
    struct value value;
};

// Limits of both decoders. Reaching one is ERROR_LIMIT_EXCEEDED.
enum {
    VALUE_DEPTH_MAX = 64,             // nested arrays and objects
    VALUE_COUNT_MAX = 1 << 20,        // values of one record, keys included
    VALUE_INPUT_BYTES_MAX = 64 << 20, // one encoded record
};

// Returns the member with that key. NULL: none, or `object` is not an object.
const struct value *value_get(const struct value *object, const char *key);
// Resolves a reference within the document, as a schema's `$ref`: "#", or a JSON pointer such as "#/$defs/mood", with ~0 and
// ~1 in names (RFC 6901, section 6). NULL: no such value, or another form of reference.
const struct value *value_at_pointer(const struct value *root, struct text pointer);
const char *value_kind_name(enum value_kind kind); // "null", "boolean", "integer", ...
// Writes a short description of the value for an error's text: "hot", 3.5, null, "an array of 3". It has at
// most VALUE_DESCRIPTION_BYTES, including the NUL.
enum { VALUE_DESCRIPTION_BYTES = 64 };
void value_describe(const struct value *value, char out[VALUE_DESCRIPTION_BYTES]);

// True if kinds, contents and order of members are equal. Floats of either width compare as numbers, or by
// digits if both have digits.
bool value_equal(const struct value *a, const struct value *b);
// Equal values have equal hashes, even if one comes from JSON and the other from msgpack.
uint64_t value_hash(const struct value *value, uint64_t seed);
// Copies the value, with all its memory in the arena. False: out of memory.
bool value_copy(const struct value *value, struct arena *arena, struct value *copy) WARN_UNUSED;
// True if the value contains VALUE_BYTES, which JSON does not have.
bool value_has_bytes(const struct value *value);
// Finds a duplicate key; NULL: none. False: out of memory. Used by the decoders.
bool value_find_duplicate(const struct value *object, const struct text **duplicate) WARN_UNUSED;

// JSON (RFC 8259). Duplicate keys, bad UTF-8, NUL in a key, numbers beyond a double and anything after the
// value are errors (STATUS_REJECT). Integers outside int64, and numbers that are no doubles (more than 15
// digits, or below the smallest), become VALUE_FLOAT with their digits. json_read.c and json_write.c.
enum status json_decode(struct text input, struct arena *arena, struct value *value,
                        struct error *error) WARN_UNUSED;
// Like json_decode, but keeps the digits of all numbers except integers within int64, so that they are
// encoded as they were spelled.
enum status json_decode_spelled(struct text input, struct arena *arena, struct value *value,
                                struct error *error) WARN_UNUSED;
// Like json_decode_spelled, for a file that belongs to a model. A vocabulary of 2^18 tokens and its merges
// are about 2^21 values.
enum { VALUE_DOCUMENT_COUNT_MAX = 1 << 22 };
enum status json_decode_document(struct text input, struct arena *arena, struct value *value,
                                 struct error *error) WARN_UNUSED;
// Writes compact JSON. Keys stay in order. UTF-8 is kept, except U+0085, U+2028 and U+2029, at which some
// readers end a line. A float is written with its `digits` if set, else with the fewest digits that read back
// as the same number. Bytes are written as base64 text.
void json_encode(const struct value *value, struct buffer *out);
void json_encode_string(struct text text, struct buffer *out); // with quotes; bad UTF-8 becomes U+FFFD
void json_encode_number(double number, struct buffer *out);    // NaN and infinities: null

// msgpack (github.com/msgpack/msgpack, spec.md), with the same rules as JSON. Map keys must be strings. NaN,
// infinities and extension types are refused, except extension type 1: the JSON text of a number that
// msgpack's own types can't hold. Writes the shortest forms. msgpack.c.
enum status msgpack_decode(struct text input, struct arena *arena, struct value *value,
                           struct error *error) WARN_UNUSED;
void msgpack_encode(const struct value *value, struct buffer *out);

// Builders, for callers of the encoders. They return NULL or false if memory runs out.
struct value value_string(struct text text);
struct value value_integer(int64_t integer);
struct value value_float(double number);
struct value value_single(float number);
struct value value_bool(bool boolean);
// Reads an integer, or a float without fraction (3.0 is 3) that fits in int64. False: the value is neither.
bool value_whole_number(const struct value *value, int64_t *integer) WARN_UNUSED;
// True if the value is an integer beyond int64. Then only its digits are exact.
bool value_is_long_integer(const struct value *value);
bool value_array_create(struct arena *arena, size_t n_items, struct value *array);
// Creates an object with room for at most n_members_max members; value_put appends them.
bool value_object_create(struct arena *arena, size_t n_members_max, struct value *object);
void value_put(struct value *object, const char *key, struct value member);
