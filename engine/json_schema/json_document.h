// JSON (RFC 8259) as a tree that has what schemas need and struct value (schemas/value.h) lacks: numbers as
// written, so that bounds are exact, and the parent of each node, for JSON pointers. Nodes are in the
// caller's arena and are immutable after reading. Strings are decoded. Both trees are built from the tokens
// of schemas/json_token.h.
#pragma once

#include "engine/regex/grammar_limits.h"
#include "schemas/base/arena.h"

#include <stdbool.h>

enum json_kind { JSON_NULL, JSON_FALSE, JSON_TRUE, JSON_NUMBER, JSON_STRING, JSON_ARRAY, JSON_OBJECT };

struct json_node {
    enum json_kind kind;
    uint32_t id;      // in the order of reading, from 0
    struct text key;  // the key, if it is a member of an object
    struct text text; // number as written, or decoded string
    const struct json_node *parent, *first, *next;
    uint32_t n_children;
    uint32_t index; // among its parent's children
};

struct json_document {
    const struct json_node *root;
    uint32_t n_nodes;
};

// Reads a document. `limits` bounds bytes and depth. STATUS_REJECT names the byte and the cause: invalid
// UTF-8, a lone surrogate, bytes after the value and so on. If a key occurs twice (RFC 8259, section 4), the
// last member is kept in the position of the first, as Python and JavaScript do.
enum status json_document_read(struct text input, const struct grammar_limits *limits, struct arena *arena,
                               struct json_document *document, struct error *error) WARN_UNUSED;

// Returns the member with this key. NULL: none, or `object` is not an object.
const struct json_node *json_member(const struct json_node *object, struct text key);
const struct json_node *json_member_named(const struct json_node *object, const char *key);
const struct json_node *json_item(const struct json_node *array, size_t index);

// Writes the JSON pointer (RFC 6901) of a node; "" is the root.
void json_pointer_write(const struct json_node *node, struct buffer *out);

// A decimal number: its sign, its digits without leading and trailing zeros, and the power of ten of the last
// digit. Zero has no digits.
struct decimal {
    bool negative;
    struct text digits;
    int64_t exponent;
};

enum { DECIMAL_DIGITS_MAX = 400, DECIMAL_EXPONENT_MAX = 400 };

// Parses a JSON number. False: it has more than DECIMAL_DIGITS_MAX digits or an exponent outside
// +-DECIMAL_EXPONENT_MAX, or memory ran out.
bool decimal_read(struct text number, struct arena *arena, struct decimal *decimal);
int decimal_compare(struct decimal a, struct decimal b); // -1, 0, 1
bool decimal_is_integer(struct decimal decimal);
// Reads an integer from 0 to UINT32_MAX - 1, as used for lengths and counts. False: it is another number.
bool decimal_to_count(struct decimal decimal, uint32_t *count);

// Compares as JSON Schema defines equality: numbers by value, objects without order.
bool json_equal(const struct json_node *a, const struct json_node *b, struct arena *arena);
