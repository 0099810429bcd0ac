// How a family of models writes the parts of an answer: reasoning, tool calls, and content. The formats are
// rows of a table; the text of the chat template tells which one a model was trained on. Immutable: any
// thread.
//
//   answer      [thinking.open  thoughts  thinking.close]...  [answer_open] content [answer_close]  [calls]
//   calls       begin  call  [between  call]...  end
//   call        open NAME middle ARGUMENTS close
//   ARGUMENTS   JSON; or "key_open KEY key_close VALUE value_close" for each; or KEY=VALUE, ... as in Python;
//               or KEY:VALUE,... with a mark on both sides of a string
//
// Example, a call in the format hermes, whose begin and end are empty; \n is a line feed:
//
//   <tool_call>\n{"name": "   get_time   ", "arguments":    {"zone": "UTC"}   }\n</tool_call>
//   open                      NAME       middle             ARGUMENTS         close
#pragma once

#include "schemas/base/text.h"

enum tool_arguments {
    ARGUMENTS_JSON,   // {"a": 1, "b": "x"}
    ARGUMENTS_TAGS,   // each between tags; strings are not quoted
    ARGUMENTS_PYTHON, // a=1, b="x", with None, True and False
    // Gemma 4's form: a:1,b:<|"|>x<|"|>, with the mark tags.value_close on both sides of a string. A
    // constraint writes strings within lists and objects as JSON.
    ARGUMENTS_MARKED,
};

enum tool_ids {
    TOOL_IDS_CALL,     // "call_" and 24 hexadecimal digits
    TOOL_IDS_MISTRAL,  // nine letters and digits, as Mistral's templates require
    TOOL_IDS_NUMBERED, // Kimi's: "functions.NAME:0"
};

enum { ANSWER_MARKS_MAX = 3, ANSWER_TOKENS_MAX = 6 };

// Placeholders in the strings of a format: for a decimal number, and for nine letters and digits.
#define TOOL_NUMBER "\x01"
#define TOOL_NINE   "\x02"

// A row of the table in answer_format.c.
struct tool_format {
    const char *name;
    const char *marks[ANSWER_MARKS_MAX]; // the format is chosen if a template contains all of them
    // Parts of the strings below that are written as special tokens if the vocabulary has them.
    const char *tokens[ANSWER_TOKENS_MAX];
    // Text that occurs only in calls. NULL: a call is the whole answer.
    const char *trigger;
    const char *begin, *open, *middle, *close, *between, *end; // NULL: empty
    enum tool_arguments arguments;
    struct {
        const char *key_open, *key_close, *value_close;
        const char *key_close_json; // before values that are not strings; NULL: key_close
    } tags;                         // for ARGUMENTS_TAGS
    enum tool_ids ids;
    bool has_one; // an answer ends after its first call
};

struct thinking_format {
    const char *name;
    const char *marks[ANSWER_MARKS_MAX];
    const char *tokens[ANSWER_TOKENS_MAX];
    const char *open, *close;
    const char *end; // the beginning of `close`; does not occur in thoughts
    // The text that closes a thought at its budget, as the family writes it. First a sentence (NULL: none)
    // that is not part of the thought, then `close` with the blanks that the template writes around it.
    const char *farewell, *closing;
    const char *answer_open, *answer_close; // NULL: empty
};

struct answer_format {
    const struct tool_format *tools;        // NULL: the template has no tools
    const struct thinking_format *thinking; // NULL: the model does not think
};

void answer_format_detect(struct answer_format *format, struct text template_source);
// True if the special token belongs to the format. has_calls includes the tokens of its calls.
bool answer_format_knows(const struct answer_format *format, bool has_calls, struct text name);
// Finds a format by the name given to --tool-format; NULL: none.
const struct tool_format *tool_format_find(const char *name);
void tool_format_list(struct buffer *out); // the names, separated by ", "

enum thinking_state {
    THINKING_POSSIBLE, // the model may think first
    THINKING_OPEN,     // the prompt ends with the opening of thoughts
    THINKING_CLOSED,   // the prompt ends after thoughts, which are empty if thinking is disabled
};
enum thinking_state thinking_state_of(const struct answer_format *format, struct text prompt);
