// Follows an answer token by token: is it within its thoughts, and how many tokens have they? The text is the one
// that answer_parse() reads, with the same marks at the same places. Immutable format, own state: any thread.
#pragma once

#include "engine/answer/answer_format.h"

enum { THOUGHT_SIZES = 32 }; // at least the bytes of each `end`

enum thought_place {
    THOUGHT_BEFORE,  // only blanks so far, or the beginning of `open`
    THOUGHT_OPEN,    // after `open`
    THOUGHT_CLOSING, // after `end`, the beginning of `close`; further thoughts may follow
    THOUGHT_AFTER,   // the content or a call has begun
};

// Zeroed: the beginning of an answer whose prompt does not open thoughts.
struct thought_scan {
    enum thought_place place;
    int32_t n_tokens; // with text between the marks, of all thoughts
    // bytes of the open thought's last tokens, at most 255, the newest first: they may become part of `end`
    unsigned char sizes[THOUGHT_SIZES];
    struct buffer text; // since the last mark; of a long thought the end. `failed`: no memory
};

// Reads a token: the name of a special token that the format knows, else its bytes.
void thought_scan_token(struct thought_scan *scan, const struct thinking_format *format, struct text token);
// Whether a mark may follow: the thought is open and does not end within a character.
bool thought_scan_may_close(const struct thought_scan *scan);
// How much of the beginning of `closing`, at most size_max bytes, the thought ends with.
size_t thought_scan_written(const struct thought_scan *scan, struct text closing, size_t size_max);
