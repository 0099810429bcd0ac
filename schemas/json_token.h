// The tokens of JSON (RFC 8259): the only code that knows how strings, escapes and numbers are spelled. A
// reader keeps a cursor and builds what it needs from the tokens: values (json_read.h), a tree with numbers
// as written (engine/json_schema/json_document.h), or the value of one member (consumer/command/files/input_ids.h).
//
// A function that returns false has set `cause`; `at` is the byte at fault. Callers report their own faults
// with json_fail, and skip white space. Thread: any.
#pragma once

#include "schemas/base/text.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

struct json_cursor {
    const char *begin, *at, *end;
    char *strings;     // where the next string is decoded; decoding never makes a string longer
    const char *cause; // NULL: no fault yet
};

// Begins at the text's start. `strings` has room for text.size + 1 bytes.
static inline struct json_cursor json_cursor(struct text text, char *strings)
{
    return (struct json_cursor){text.data, text.data, text.data + text.size, strings, NULL};
}

static inline size_t json_offset(const struct json_cursor *cursor)
{
    return (size_t)(cursor->at - cursor->begin);
}

static inline bool json_fail(struct json_cursor *cursor, const char *cause)
{
    cursor->cause = cause;
    return false;
}

static inline void json_skip_space(struct json_cursor *cursor)
{
    while (cursor->at < cursor->end &&
           (*cursor->at == ' ' || *cursor->at == '\n' || *cursor->at == '\r' || *cursor->at == '\t'))
        cursor->at++;
}

// Returns the next byte. NUL: the text ends, or the byte is NUL.
static inline char json_peek(const struct json_cursor *cursor)
{
    return cursor->at < cursor->end ? *cursor->at : '\0';
}

// Takes the byte if it is next. False, without a cause: another byte is next.
static inline bool json_take_byte(struct json_cursor *cursor, char byte)
{
    if (cursor->at == cursor->end || *cursor->at != byte)
        return false;
    cursor->at++;
    return true;
}

// Takes a string and decodes it to `cursor->strings`, which then points after it.
bool json_take_string(struct json_cursor *cursor, struct text *text);
// Takes a number as written. `is_integer` becomes true if it has no fraction and no exponent.
bool json_take_number(struct json_cursor *cursor, struct text *number, bool *is_integer);
bool json_take_name(struct json_cursor *cursor, const char *name); // true, false, null
// Takes the colon after a key, and the white space before it.
bool json_take_colon(struct json_cursor *cursor);
// Takes a key and its colon, and the white space before each.
bool json_take_key(struct json_cursor *cursor, struct text *key);
// Takes the bracket or brace that closes a container, if no comma follows a member.
bool json_take_close(struct json_cursor *cursor, char close);
// Skips white space and a value. Strings in it are checked and dropped. At most `depth_max` containers may be
// nested.
bool json_skip_value(struct json_cursor *cursor, int depth_max);

// True if one of the eight bytes is a quote, a backslash, below 0x20 or above 0x7F. Uses the usual bit tricks
// on words (H. S. Warren, "Hacker's Delight", 6-1). A byte after the first one may be a false positive, which
// only costs a test.
static inline bool json_has_special(uint64_t bytes)
{
    const uint64_t ones = 0x0101010101010101u, tops = 0x8080808080808080u;
    uint64_t quote = bytes ^ ones * '"', backslash = bytes ^ ones * '\\';
    uint64_t found = (bytes - ones * 0x20) | (quote - ones) | (backslash - ones) | bytes;
    return found & tops;
}

// Sixteen bytes as signed numbers. Bytes above 0x7F are negative, so one test for values below 0x20 finds
// them too.
typedef int8_t json_bytes __attribute__((vector_size(16)));

static inline bool json_any_special(json_bytes bytes)
{
    json_bytes found = (json_bytes)(bytes < 0x20) | (json_bytes)(bytes == '"') | (json_bytes)(bytes == '\\');
    uint64_t halves[2];
    memcpy(halves, &found, sizeof halves);
    return (halves[0] | halves[1]) != 0;
}
