// How a family of models writes the parts of an answer: what it thinks, which functions it calls, and the
// content. The formats are a table with a row for each; which one a model was trained on follows from the
// text of its chat template. Immutable: any thread.
//
// An answer is
//   [thinking.open  thoughts  thinking.close]...  [answer_open] content [answer_close]  [calls]
// and calls are
//   begin  open NAME middle ARGUMENTS close  [between  open NAME middle ARGUMENTS close]...  end
// Arguments are JSON, or "key_open KEY key_close VALUE value_close" for each, or as in Python KEY=VALUE.
#pragma once

#include "schemas/text.h"

enum tool_arguments {
    ARGUMENTS_JSON,   // {"a": 1, "b": "x"}
    ARGUMENTS_TAGS,   // each between tags; texts are not quoted
    ARGUMENTS_PYTHON, // a=1, b="x", with None, True and False
};

enum tool_ids {
    TOOL_IDS_CALL,     // "call_" and 24 hexadecimal digits
    TOOL_IDS_MISTRAL,  // nine letters and digits, which Mistral's templates ask for
    TOOL_IDS_NUMBERED, // Kimi's: "functions.NAME:0"
};

enum { ANSWER_MARKS_MAX = 3, ANSWER_TOKENS_MAX = 6 };

// In the strings of a format TOOL_NUMBER is a decimal number and TOOL_NINE nine letters and digits.
#define TOOL_NUMBER "\x01"
#define TOOL_NINE   "\x02"

// A row of the table in answer_format.c: flat.
struct tool_format {
    const char *name;
    const char *marks[ANSWER_MARKS_MAX];   // the template has all of them
    const char *tokens[ANSWER_TOKENS_MAX]; // parts of the strings below that are special tokens where the
                                           // vocabulary has them
    const char *trigger;                   // text that only a call has; NULL: a call is the whole answer
    const char *begin, *open, *middle, *close, *between, *end; // NULL: nothing
    enum tool_arguments arguments;
    struct {
        const char *key_open, *key_close, *value_close;
        const char *key_close_json; // before values that are no texts; NULL: key_close
    } tags;                         // ARGUMENTS_TAGS
    enum tool_ids ids;
    bool has_one; // an answer ends with its first call
};

struct thinking_format {
    const char *name;
    const char *marks[ANSWER_MARKS_MAX];
    const char *tokens[ANSWER_TOKENS_MAX];
    const char *open, *close;
    const char *end;                        // the first text of `close`, which thoughts do not have
    const char *answer_open, *answer_close; // NULL: nothing
};

struct answer_format {
    const struct tool_format *tools;        // NULL: the template takes none
    const struct thinking_format *thinking; // NULL: the model does not think
};

void answer_format_detect(struct answer_format *format, struct text template_source);
// By its name, for --tool-format; NULL: there is none.
const struct tool_format *tool_format_find(const char *name);
void tool_format_list(struct buffer *out); // the names, separated by ", "

enum thinking_state {
    THINKING_POSSIBLE, // the model may think first
    THINKING_OPEN,     // the prompt ends where thoughts begin
    THINKING_CLOSED,   // the prompt ends behind thoughts, empty ones where thinking is turned off
};
enum thinking_state thinking_state_of(const struct answer_format *format, struct text prompt);
