// JSON (RFC 8259) as a tree that keeps what schemas need and values (schemas/value.h) do not: numbers as they
// are written, so that bounds are exact, and the way from each node to the root, for JSON pointers. Nodes
// belong to the caller's arena and are not changed once read. Strings are decoded. Both trees are built from
// the tokens of schemas/json_token.h.
#pragma once

#include "engine/regex/grammar_limits.h"
#include "schemas/arena.h"

#include <stdbool.h>

enum json_kind { JSON_NULL, JSON_FALSE, JSON_TRUE, JSON_NUMBER, JSON_STRING, JSON_ARRAY, JSON_OBJECT };

struct json_node {
    enum json_kind kind;
    uint32_t id;      // in the order of reading, from 0
    struct text key;  // of a member of an object
    struct text text; // a number as written, a string decoded
    const struct json_node *parent, *first, *next;
    uint32_t n_children;
    uint32_t index; // among its parent's children
};

struct json_document {
    const struct json_node *root;
    uint32_t n_nodes;
};

// Bytes and depth are limited by `limits`. Errors are STATUS_REJECT and name the byte and the cause: bad
// UTF-8, lone surrogates, anything behind the value. Of a key that occurs twice (RFC 8259, section 4) the last
// member remains, in the place of the first, as Python's and JavaScript's readers have it.
enum status json_document_read(struct text input, const struct grammar_limits *limits, struct arena *arena,
                               struct json_document *document, struct error *error) WARN_UNUSED;

// The member with that key, or NULL when there is none or `object` is not an object.
const struct json_node *json_member(const struct json_node *object, struct text key);
const struct json_node *json_member_named(const struct json_node *object, const char *key);
const struct json_node *json_item(const struct json_node *array, size_t index);

// The JSON pointer (RFC 6901) of a node; "" is the root.
void json_pointer_write(const struct json_node *node, struct buffer *out);

// A decimal number: sign, digits without zeros at either end, and the power of ten of the last digit; zero
// has no digits.
struct decimal {
    bool negative;
    struct text digits;
    int64_t exponent;
};

enum { DECIMAL_DIGITS_MAX = 400, DECIMAL_EXPONENT_MAX = 400 };

// Reads a number's text. False beyond DECIMAL_DIGITS_MAX digits, or an exponent beyond DECIMAL_EXPONENT_MAX
// on either side.
bool decimal_read(struct text number, struct arena *arena, struct decimal *decimal);
int decimal_compare(struct decimal a, struct decimal b); // -1, 0, 1
bool decimal_is_integer(struct decimal decimal);
// The value of an integer from 0 to UINT32_MAX - 1, for lengths and counts; false for others.
bool decimal_to_count(struct decimal decimal, uint32_t *count);

// Whether two nodes are equal as JSON Schema has it: numbers by value, objects without order.
bool json_equal(const struct json_node *a, const struct json_node *b, struct arena *arena);
