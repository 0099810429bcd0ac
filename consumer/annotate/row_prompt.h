// Renders a table's row to the record of its job, from templates over the row's columns and the parameters of
// all rows. A record contains everything that its answer depends on: it is greedy or has a seed, so equal
// records have equal answers. Thread: main.
#pragma once

#include "consumer/annotate/field_text.h"
#include "consumer/annotate/question_list.h"
#include "consumer/annotate/row_scores.h"
#include "consumer/table/table.h"
#include "consumer/annotate/enum_choices.h"
#include "consumer/options/choice_list.h"
#include "engine/template/template.h"

enum { PROMPT_FILE_BYTES_MAX = 1 << 20, ROW_PROMPT_PARAMETERS_MAX = 10 };

struct row_prompt_options {
    const char *prompt;                    // template, or its file (row_prompt_is_text)
    const char *system;                    // template file; NULL: none
    const char *messages;                  // instead of these: template file of JSON lines, one message each
    const char *parameters;                // file with an object of OpenAI's parameters; NULL: none
    const char *schema;                    // file with a JSON Schema; NULL: none
    char *const *choices;                  // as choice_list.h; NULL: none
    const struct question *question;       // of --questions, borrowed: follows the prompt; NULL: none
    struct row_prompt_parameter {          // of all rows, from options, which override the file
        const char *name, *option, *value; // value NULL: not given
        bool is_text;                      // else a number
    } given[ROW_PROMPT_PARAMETERS_MAX];
    bool needs_seeds; // several votes per row
    bool needs_utf8;  // in all columns: the output can't carry other bytes
    bool has_objects; // fields may be JSON objects and lists; else texts, numbers and NULL
    bool has_lists;   // fields may be booleans and lists, which templates read as texts: true, [a, b]
    bool has_seed;
    int64_t seed;
    bool scores_choices; // asks for choice_logprobs
    const struct row_scores
        *scores; // must outlive the prompt; NULL, or task TASK_GENERATE: the rows are chats
};

// Columns that the templates read.
struct row_columns {
    bool *is_used;       // [columns->n]: the prompt contains the text of the column
    uint8_t *uses;       // [columns->n] what the templates read it for: of enum field_use
    uint16_t *mentioned; // [n_mentioned] columns that templates name, in their order
    size_t n_mentioned;
    bool all;              // a template reads `row` as a whole
    const uint16_t *order; // [columns->n] order of `row`'s members in the next prompt; NULL: the table's
};

// Adds the columns that another prompt over the same table reads.
void row_columns_add(struct row_columns *columns, const struct row_columns *others, size_t n_columns);

struct row_seed {
    bool is_added; // records get a seed: `value`, or one of their own
    bool is_given; // by an option or a parameter
    int64_t value;
};

struct row_prompt {
    const struct table_columns *columns;
    const struct row_scores *scores; // of the options
    size_t score_columns[2];         // places of its columns
    struct template *prompt, *system, *messages, *question;
    const struct question *asked; // of the options
    struct row_columns read;
    bool has_lists;                      // of the options
    struct arena lists;                  // texts of the row's lists
    struct value variables;              // object: row, and the columns
    struct value_member *names;          // [columns->n + 1]
    bool has_objects;                    // of the options
    struct choice_list choices;          // none: n is 0
    struct enum_choices enum_choices;    // of a schema whose answers are `choices`
    struct property_choices_list scored; // of another schema
    struct value schema;                 // VALUE_NULL: none
    struct buffer parameters;            // members after the messages, each after a comma
    bool has_temperature;                // by an option or a parameter
    struct row_seed seeding;
    struct arena arena;
    // Shortens the rendered row (--truncate-prompt); NULL: it stays whole. Set by the caller.
    enum status (*cut)(void *context, struct buffer *text, struct error *error);
    void *cut_context;
    struct buffer text;        // being rendered; of two columns, both texts after one another
    struct text_spans content; // parts of `text` from the table; only with --messages
};

// True if --prompt is the template itself: it has {{ or {%. Else it is a file's name.
bool row_prompt_is_text(const char *prompt);
// Reads and checks the files. STATUS_REFUSE also if a template reads an unknown column (the error has the
// line and the nearest column) or fails for every row (template_find_refusal), or if a parameter is not one of
// a job.
enum status row_prompt_open(struct row_prompt *prompt, const struct row_prompt_options *options,
                            const struct table_columns *columns, struct error *error) WARN_UNUSED;
void row_prompt_close(struct row_prompt *prompt);
// Makes a job with the parameters of all rows and some prompt. The caller destroys *job, also after an error.
enum status row_prompt_make_job(const struct row_prompt *prompt, struct job **job,
                                struct error *error) WARN_UNUSED;
// Appends the record without its seed and its closing brace. STATUS_REJECT: the row can't be rendered.
enum status row_prompt_render(struct row_prompt *prompt, const struct table_row *row, struct buffer *record,
                              struct error *error) WARN_UNUSED;
// The text of options.prompt alone, valid until the next call. STATUS_REJECT: as of row_prompt_render.
enum status row_prompt_render_text(struct row_prompt *prompt, const struct table_row *row, struct text *text,
                                   struct error *error) WARN_UNUSED;
// Ends the record: appends the seed if seeding.is_added, and the closing brace.
void row_prompt_end(const struct row_prompt *prompt, int64_t seed, struct buffer *record);
