// The tokens of JSON (RFC 8259): the one place that knows how strings, escapes and numbers are spelled. A
// reader keeps a cursor and builds from its tokens what it needs: values (json_read.h), a tree with numbers
// as they are written (engine/json_schema/json_document.h), or the value of one member
// (consumer/command/input_ids.h).
//
// A function that returns false has set `cause`, and `at` is the byte it is about; a caller that has a fault
// of its own sets the cause with json_fail. White space is passed by the caller. Thread: any.
#pragma once

#include "schemas/text.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

struct json_cursor {
    const char *begin, *at, *end;
    char *strings;     // the next string is decoded to here: no string is longer than its text
    const char *cause; // NULL: no fault yet
};

// `strings` has room for as many bytes as the text, and one more.
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

// The next byte; NUL at the end, and where it is NUL.
static inline char json_peek(const struct json_cursor *cursor)
{
    return cursor->at < cursor->end ? *cursor->at : '\0';
}

// False without a cause: another byte is next.
static inline bool json_take_byte(struct json_cursor *cursor, char byte)
{
    if (cursor->at == cursor->end || *cursor->at != byte)
        return false;
    cursor->at++;
    return true;
}

// The string, decoded to `cursor->strings`, which moves behind it.
bool json_take_string(struct json_cursor *cursor, struct text *text);
// The number as it is written. `is_integer`: without a fraction and an exponent.
bool json_take_number(struct json_cursor *cursor, struct text *number, bool *is_integer);
bool json_take_name(struct json_cursor *cursor, const char *name); // true, false, null
// The colon behind a key, and white space before it.
bool json_take_colon(struct json_cursor *cursor);
// A key and its colon, and white space before both.
bool json_take_key(struct json_cursor *cursor, struct text *key);
// The bracket or brace that closes a container, where no comma follows a member.
bool json_take_close(struct json_cursor *cursor, char close);
// Passes over white space and a value. Its strings are checked and dropped; at most `depth_max` containers
// may be open inside one another.
bool json_skip_value(struct json_cursor *cursor, int depth_max);

// Whether one of the eight bytes is a quote, a backslash, below 0x20 or above 0x7F: the usual bit tricks on
// words (H. S. Warren, "Hacker's Delight", 6-1). A byte behind the first one may be a false positive, which
// only costs a test.
static inline bool json_has_special(uint64_t bytes)
{
    const uint64_t ones = 0x0101010101010101u, tops = 0x8080808080808080u;
    uint64_t quote = bytes ^ ones * '"', backslash = bytes ^ ones * '\\';
    uint64_t found = (bytes - ones * 0x20) | (quote - ones) | (backslash - ones) | bytes;
    return found & tops;
}

// Sixteen bytes as signed numbers: those above 0x7F are below 0x20 too.
typedef int8_t json_bytes __attribute__((vector_size(16)));

static inline bool json_any_special(json_bytes bytes)
{
    json_bytes found = (json_bytes)(bytes < 0x20) | (json_bytes)(bytes == '"') | (json_bytes)(bytes == '\\');
    uint64_t halves[2];
    memcpy(halves, &found, sizeof halves);
    return (halves[0] | halves[1]) != 0;
}
