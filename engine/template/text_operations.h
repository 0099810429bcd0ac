// Text functions shared by string methods and filters. Results share memory with their input where possible.
#pragma once

#include "engine/template/object.h"

// Counts the work of searching for `part` from the end, or of stripping its characters, which depends on its
// length.
void text_spend_search(struct rendering *rendering, struct text text, struct text part);

enum text_case {
    CASE_UPPER,
    CASE_LOWER,
    CASE_CAPITAL,
    CASE_TITLE,       // the method title
    CASE_TITLE_WORDS, // the filter title
    CASE_SWAP,
    CASE_FOLD
};

struct object text_change_case(struct rendering *rendering, struct text text, enum text_case to);
// Strips the characters of `chars` (data NULL: whitespace) from either end.
struct text text_strip(struct text text, struct text chars, bool left, bool right);
// count < 0: all.
struct object text_replace(struct rendering *rendering, struct text text, struct text from, struct text to,
                           int64_t count);
// Byte offset of the first (or last) `part`, or SIZE_MAX.
size_t text_find(struct text text, struct text part, bool last);
// The lines, as str.splitlines; with_ends: with their line breaks.
struct object text_split_lines(struct rendering *rendering, struct text text, bool with_ends);
// Takes every step-th character from `first` to before `last`; step is not 0. slice.indices computes such
// bounds.
struct object text_pick(struct rendering *rendering, struct text text, int64_t first, int64_t last,
                        int64_t step);
// As str.split and str.rsplit; separator data NULL: runs of whitespace.
struct object text_split(struct rendering *rendering, struct text text, struct text separator,
                         int64_t max_splits, bool from_right);
