// The file of --questions: a list, in YAML or JSON, of questions about each row of a table.
//
//   - name: tone                     before the names of the answer's columns
//     prompt: Which tone?            a template; it follows the row's prompt after an empty line
//     choice: [warm, cold]           one of choice, schema, regex and grammar, or none: a free text
//     max_tokens: 8                  other members are parameters of the question's requests in OpenAI's names
//
// They override the parameters of all rows. Thread: main.
#pragma once

#include "consumer/options/choice_list.h"
#include "schemas/value.h"

enum {
    QUESTIONS_MAX = 100,
    QUESTION_FILE_BYTES_MAX = 1 << 20,
};

struct question {
    struct text name, prompt;
    const char *source;         // the file and the name, for errors
    struct choice_list choices; // n 0: none
    const struct value *schema; // NULL: none
    struct value parameters;    // object; with structured_outputs for regex and grammar
};

struct question_list {
    struct question *items; // [n], n at least 1
    size_t n;
    struct arena arena;
};

// A file whose name ends in .json is JSON, any other YAML. STATUS_REFUSE: it can't be read; it is not a list of
// questions; a name is missing or occurs twice; a question has two constraints.
enum status question_list_read(struct question_list *list, const char *path, struct error *error) WARN_UNUSED;
// The same of a list that is decoded, which is copied. `source` names it in errors.
enum status question_list_copy(struct question_list *list, const char *source, const struct value *questions,
                               struct error *error) WARN_UNUSED;
// Only decodes the file, into the arena.
enum status question_list_read_value(const char *path, struct arena *arena, struct value *questions,
                                     struct error *error) WARN_UNUSED;
void question_list_finish(struct question_list *list);
