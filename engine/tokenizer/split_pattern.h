// Splits text into the matches of a regular expression and the text between them. PCRE2 syntax, UTF-8 and
// Unicode properties; \s is White_Space and \p{Han} a Script, as in Oniguruma and Rust. Immutable after open:
// any thread may use one.
#pragma once

#include "schemas/base/text.h"

#include <stdbool.h>
#include <stddef.h>

struct split_pattern;

enum { PATTERN_BYTES_MAX = 16384 };

// STATUS_REFUSE with PCRE2's message and the position if the expression is invalid.
enum status split_pattern_open(struct split_pattern **pattern, struct text expression,
                               struct error *error) WARN_UNUSED;
void split_pattern_close(struct split_pattern *pattern);

// Finds the first match in text[at..], which may be empty: its start and end. Without a match both are the
// text's size. Invalid UTF-8 matches nothing. No limit of PCRE2 ends a search early, so the time depends on
// the backtracking of the expression. False: out of memory.
bool split_pattern_find(const struct split_pattern *pattern, struct text text, size_t at, size_t *start,
                        size_t *end) WARN_UNUSED;
