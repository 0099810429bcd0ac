// Follows an answer token by token: tells whether it is within its thoughts, and counts their tokens. It
// reads the same text as answer_parse() and finds the same marks at the same places. The format is immutable
// and each scan has its own state: any thread.
#pragma once

#include "engine/answer/answer_format.h"

enum { THOUGHT_SIZES = 32 }; // at least the number of bytes of any `end`

enum thought_place {
    THOUGHT_BEFORE,  // only blanks so far, or the beginning of `open`
    THOUGHT_OPEN,    // after `open`
    THOUGHT_CLOSING, // after `end`, the beginning of `close`; further thoughts may follow
    THOUGHT_AFTER,   // the content or a call has begun
};

// A zeroed struct is the beginning of an answer whose prompt does not open thoughts.
struct thought_scan {
    enum thought_place place;
    int32_t n_tokens; // tokens with text between the marks, over all thoughts
    // Sizes in bytes (at most 255) of the open thought's last tokens, newest first. These tokens may become
    // part of `end`.
    unsigned char sizes[THOUGHT_SIZES];
    struct buffer text; // text since the last mark; only the end of a long thought. `failed`: out of memory
};

// Reads a token: the name of a special token that the format knows, or the token's bytes.
void thought_scan_token(struct thought_scan *scan, const struct thinking_format *format, struct text token);
// True if a mark may follow: the thought is open and does not end within a character.
bool thought_scan_may_close(const struct thought_scan *scan);
// Returns the number of bytes, at most size_max, at the beginning of `closing` with which the thought already
// ends.
size_t thought_scan_written(const struct thought_scan *scan, struct text closing, size_t size_max);
