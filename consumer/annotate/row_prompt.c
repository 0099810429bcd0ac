#include "consumer/annotate/row_prompt.h"

#include "consumer/annotate/row_messages.h"
#include "consumer/annotate/schema_columns.h"
#include "consumer/annotate/schema_file.h"
#include "consumer/observe/log.h"
#include "schemas/base/clock.h"
#include "schemas/base/file.h"
#include "schemas/base/nearest.h"
#include "schemas/schema_annotations.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

// Refuses because of a fault in something that all rows share.
static enum status refuse_prompt(struct error *error, const char *what)
{
    error_prefix(error, "%s", what);
    error->code = ERROR_USAGE;
    return error->status = STATUS_REFUSE;
}

// ---- templates against the table's columns ----

enum { HINT_COLUMNS = 8 };

struct check {
    struct row_prompt *prompt;
    const char *path;
    struct error *error;
    enum status status;
};

static bool has_delimiter(struct text name)
{
    bool has = false;
    for (size_t i = 0; i < name.size; i++)
        has |= name.data[i] == ';' || name.data[i] == '|' || name.data[i] == '\t';
    return has;
}

// Ends the error about an unknown column: the column that was probably meant, else the first columns, which
// also reveal a wrong delimiter.
static void add_hint(struct buffer *hint, const struct table_columns *columns, struct text name)
{
    for (size_t i = 0; i < columns->n; i++) { // {{ a.b }} and {{ a-b }} read a variable "a"
        struct text column = columns->names[i];
        if (column.size > name.size + 1 && memchr(".- ", column.data[name.size], 3) &&
            memcmp(column.data, name.data, name.size) == 0) {
            buffer_add_format(hint, "; \"%.*s\" is row['%.*s']", (int)column.size, column.data,
                              (int)column.size, column.data);
            return;
        }
    }
    struct text nearest = nearest_name(name, columns->names, columns->n);
    if (columns->n == 1 && has_delimiter(columns->names[0])) {
        buffer_add_format(hint,
                          "; the table has one column, \"%.*s\": is its delimiter another (--delimiter)?",
                          (int)columns->names[0].size, columns->names[0].data);
        return;
    }
    if (nearest.data) {
        buffer_add_format(hint, "; the nearest is \"%.*s\"", (int)nearest.size, nearest.data);
        return;
    }
    buffer_add_string(hint, "; the table has");
    for (size_t i = 0; i < columns->n && i < HINT_COLUMNS; i++)
        buffer_add_format(hint, "%s\"%.*s\"", i ? ", " : " ", (int)columns->names[i].size,
                          columns->names[i].data);
    if (columns->n > HINT_COLUMNS)
        buffer_add_format(hint, " and %zu others", columns->n - HINT_COLUMNS);
}

// A member of another variable than row is no column's.
static uint8_t uses_of(const struct template_mention *mention)
{
    if (mention->member.data && !text_equals_string(mention->name, "row"))
        return 0;
    return (uint8_t)((mention->is_condition ? FIELD_IS_CONDITION : 0) |
                     (mention->reads_items ? FIELD_HAS_ITEMS : 0));
}

static void use_column(struct check *check, const struct template_mention *mention, struct text name)
{
    const struct table_columns *columns = check->prompt->columns;
    size_t column = table_columns_find(columns, name);
    if (column < columns->n) {
        if (!check->prompt->read.is_used[column])
            check->prompt->read.mentioned[check->prompt->read.n_mentioned++] = (uint16_t)column;
        check->prompt->read.is_used[column] = true;
        check->prompt->read.uses[column] |= uses_of(mention);
        return;
    }
    if (!columns->n) // an empty table
        return;
    struct buffer hint = {0};
    add_hint(&hint, columns, name);
    check->status =
        error_set(check->error, STATUS_REFUSE, ERROR_TEMPLATE, "%s: line %u: there is no column \"%.*s\"%s",
                  check->path, mention->line, (int)name.size, name.data, hint.data ? hint.data : "");
    buffer_finish(&hint);
}

// {{ title.upper }} prints a method of a text, not a member: a field is no object.
static bool prints_method(const struct check *check, const struct template_mention *mention)
{
    bool is_of_row = text_equals_string(mention->name, "row");
    bool is_column = is_of_row && mention->member.data == mention->printed.data; // {{ row.title }}
    return !check->prompt->has_objects && mention->printed.data && !is_column &&
           !(is_of_row && !mention->member.data) && template_is_text_method(mention->printed);
}

static void check_mention(void *context, const struct template_mention *mention)
{
    struct check *check = context;
    if (check->status != STATUS_OK)
        return;
    if (!text_equals_string(mention->name, "row"))
        use_column(check, mention, mention->name);
    else if (mention->member.data)
        use_column(check, mention, mention->member);
    else // a computed member, or all members
        check->prompt->read.all = true;
    if (check->status == STATUS_OK && prints_method(check, mention))
        check->status = error_set(check->error, STATUS_REFUSE, ERROR_TEMPLATE,
                                  "%s: line %u: \"%.*s\" is a method of texts: call it, with ()", check->path,
                                  mention->line, (int)mention->printed.size, mention->printed.data);
}

bool row_prompt_is_text(const char *prompt)
{
    return prompt && (strstr(prompt, "{{") || strstr(prompt, "{%"));
}

// path: where the text is from, for errors.
static enum status parse_template(struct row_prompt *prompt, const char *path, struct text text,
                                  struct template **template, struct error *error)
{
    enum status status = STATUS_OK;
    if (text.size && text.data[text.size - 1] == '\n') // it ends the file, not the prompt
        text.size--;
    if (template_parse(template, text, error) != STATUS_OK)
        status = error_prefix(error, "%s", path);
    const struct template_refusal *refusal = status == STATUS_OK ? template_find_refusal(*template) : NULL;
    if (refusal && refusal->text[0]) // in a branch that some row may take
        return error_set(error, STATUS_REFUSE, ERROR_TEMPLATE, "%s: line %u: %s", path, refusal->line,
                         refusal->text);
    struct check check = {prompt, path, error, status};
    if (status == STATUS_OK)
        template_mentions(*template, check_mention, &check);
    return check.status;
}

static enum status open_template(struct row_prompt *prompt, const char *path, struct template **template,
                                 struct error *error)
{
    struct buffer source = {0};
    if (!path)
        return STATUS_OK;
    if (template == &prompt->prompt && row_prompt_is_text(path))
        return parse_template(prompt, "--prompt", text_from_string(path), template, error);
    enum status status = file_read_text(path, PROMPT_FILE_BYTES_MAX, &source, error);
    struct text text = {source.data ? source.data : "", source.size};
    if (status == STATUS_OK)
        status = parse_template(prompt, path, text, template, error);
    buffer_finish(&source);
    return status;
}

// The columns of --rerank and --column.
static enum status use_score_columns(struct row_prompt *prompt, struct error *error)
{
    const struct table_columns *columns = prompt->columns;
    const char *option = prompt->scores->task == TASK_RERANK ? "--rerank" : "--column";
    for (size_t i = 0; i < prompt->scores->n_columns && columns->n; i++) {
        struct text name = prompt->scores->columns[i];
        size_t column = table_columns_find(columns, name);
        struct buffer hint = {0};
        if (column == columns->n) {
            add_hint(&hint, columns, name);
            enum status status =
                error_set(error, STATUS_REFUSE, ERROR_USAGE, "%s: there is no column \"%.*s\"%s", option,
                          (int)name.size, name.data, hint.data ? hint.data : "");
            buffer_finish(&hint);
            return status;
        }
        if (!prompt->read.is_used[column])
            prompt->read.mentioned[prompt->read.n_mentioned++] = (uint16_t)column;
        prompt->read.is_used[column] = true;
        prompt->score_columns[i] = column;
    }
    return STATUS_OK;
}

// `row` with all columns, then the columns themselves: a column named "row" is row['row'].
static enum status create_variables(struct row_prompt *prompt, struct error *error)
{
    size_t n = prompt->columns->n;
    prompt->read.is_used = arena_allocate_array(&prompt->arena, n, sizeof *prompt->read.is_used);
    prompt->read.uses = arena_allocate_array(&prompt->arena, n, sizeof *prompt->read.uses);
    prompt->names = arena_allocate_array(&prompt->arena, n + 1, sizeof *prompt->names);
    prompt->read.mentioned = arena_allocate_array(&prompt->arena, n, sizeof *prompt->read.mentioned);
    if (!prompt->read.is_used || !prompt->read.uses || !prompt->names || !prompt->read.mentioned)
        return error_memory(error, STATUS_REFUSE, "prompts");
    for (size_t i = 0; i < n; i++)
        prompt->names[i + 1].key = prompt->columns->names[i];
    prompt->names[0].key = TEXT("row");
    struct value *row = &prompt->names[0].value;
    *row = (struct value){.kind = VALUE_OBJECT};
    row->object.members = prompt->names + 1;
    row->object.n_members = n;
    prompt->variables = (struct value){.kind = VALUE_OBJECT};
    prompt->variables.object.members = prompt->names;
    prompt->variables.object.n_members = n + 1;
    return STATUS_OK;
}

void row_columns_add(struct row_columns *columns, const struct row_columns *others, size_t n_columns)
{
    for (size_t i = 0; i < others->n_mentioned; i++) {
        size_t j = 0;
        while (j < columns->n_mentioned && columns->mentioned[j] != others->mentioned[i])
            j++;
        if (j == columns->n_mentioned)
            columns->mentioned[columns->n_mentioned++] = others->mentioned[i];
    }
    for (size_t i = 0; i < n_columns; i++)
        columns->is_used[i] |= others->is_used[i];
    columns->all |= others->all;
}

// ---- parameters ----

static enum status read_object(struct row_prompt *prompt, const char *path, struct value *object,
                               struct error *error)
{
    struct buffer content = {0};
    enum status status = file_read_text(path, PROMPT_FILE_BYTES_MAX, &content, error);
    if (status == STATUS_OK) {
        struct text text = {content.data ? content.data : "", content.size};
        if (json_decode(text, &prompt->arena, object, error) != STATUS_OK)
            status = refuse_prompt(error, path);
        else if (object->kind != VALUE_OBJECT)
            status = error_set(error, STATUS_REFUSE, ERROR_USAGE, "%s: expected a JSON object, got %s", path,
                               value_kind_name(object->kind));
    }
    buffer_finish(&content);
    return status;
}

static void add_member(struct row_prompt *prompt, const char *name)
{
    buffer_add_byte(&prompt->parameters, ',');
    json_encode_string(text_from_string(name), &prompt->parameters);
    buffer_add_byte(&prompt->parameters, ':');
}

static bool is_of_rows(struct text name)
{
    static const char *const names[] = {"messages", "prompt", "tokens",  "custom_id", "job_id",  "dataset",
                                        "index",    "body",   "created", "n",         "best_of", "task",
                                        "input",    "text_1", "text_2",  "query",     "partial"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (text_equals_string(name, names[i]))
            return true;
    return false;
}

// Whether the question has the parameter, which overrides the one of all rows.
static bool is_of_question(const struct row_prompt_options *options, struct text name)
{
    const struct question *question = options->question;
    for (size_t i = 0; question && i < question->parameters.object.n_members; i++)
        if (text_equal(question->parameters.object.members[i].key, name))
            return true;
    return false;
}

static const char *find_given(const struct row_prompt_options *options, struct text name)
{
    for (size_t i = 0; i < ROW_PROMPT_PARAMETERS_MAX; i++)
        if (options->given[i].value && text_equals_string(name, options->given[i].name))
            return options->given[i].value;
    return NULL;
}

static bool is_zero(const struct value *value)
{
    return (value->kind == VALUE_INTEGER && value->integer == 0) ||
           (value->kind == VALUE_FLOAT && value->number == 0);
}

// Adds a parameter of the file, or of an option, which overrides the file.
static enum status add_parameter(struct row_prompt *prompt, const char *source, struct text name,
                                 const struct value *value, struct error *error)
{
    if (is_of_rows(name))
        return error_set(error, STATUS_REFUSE, ERROR_USAGE, "%s: \"%.*s\" is no parameter of all rows",
                         source, (int)name.size, name.data);
    if (text_equals_string(name, "prompt_logprobs") && value->kind != VALUE_NULL)
        return error_set(error, STATUS_REFUSE, ERROR_USAGE,
                         "%s: prompt_logprobs: no column of the table would have them", source);
    if (text_equals_string(name, "seed")) {
        prompt->seeding.value = value->kind == VALUE_INTEGER ? value->integer : 0;
        prompt->seeding.is_given = true;
        return value->kind == VALUE_INTEGER
                   ? STATUS_OK
                   : error_set(error, STATUS_REFUSE, ERROR_USAGE, "%s: seed: expected an integer", source);
    }
    if (text_equals_string(name, "temperature")) {
        prompt->has_temperature = true;
        prompt->seeding.is_added = !is_zero(value);
    }
    buffer_add_byte(&prompt->parameters, ',');
    json_encode_string(name, &prompt->parameters);
    buffer_add_byte(&prompt->parameters, ':');
    json_encode(value, &prompt->parameters);
    return STATUS_OK;
}

static enum status add_parameters(struct row_prompt *prompt, const struct row_prompt_options *options,
                                  struct error *error)
{
    struct value object = {.kind = VALUE_OBJECT};
    const char *path = options->parameters;
    enum status status = path ? read_object(prompt, path, &object, error) : STATUS_OK;
    for (size_t i = 0; status == STATUS_OK && i < object.object.n_members; i++) {
        const struct value_member *member = &object.object.members[i];
        if (!find_given(options, member->key) && !is_of_question(options, member->key))
            status = add_parameter(prompt, path, member->key, &member->value, error);
    }
    for (size_t i = 0; status == STATUS_OK && i < ROW_PROMPT_PARAMETERS_MAX; i++) {
        const struct row_prompt_parameter *given = &options->given[i];
        if (!given->value || is_of_question(options, text_from_string(given->name)))
            continue;
        struct value value = value_string(text_from_string(given->value));
        if (!given->is_text &&
            (json_decode(text_from_string(given->value), &prompt->arena, &value, error) != STATUS_OK ||
             (value.kind != VALUE_INTEGER && value.kind != VALUE_FLOAT)))
            return error_set(error, STATUS_REFUSE, ERROR_USAGE, "--%s: expected a number, got \"%s\"",
                             given->option, given->value);
        status = add_parameter(prompt, "options", text_from_string(given->name), &value, error);
    }
    for (size_t i = 0;
         status == STATUS_OK && options->question && i < options->question->parameters.object.n_members;
         i++) {
        const struct value_member *member = &options->question->parameters.object.members[i];
        status = add_parameter(prompt, options->question->source, member->key, &member->value, error);
    }
    return status;
}

// Warns of unknown keywords, such as a misspelled "properties": JSON Schema ignores them.
static void warn_of_unknown(const char *path, const struct value *schema)
{
    struct buffer names = {0};
    schema_file_unknown(schema, &names);
    if (names.size && !names.failed)
        log_write(LOG_WARNING, "%s: the schema names no properties, and JSON Schema has no keyword %s", path,
                  names.data);
    buffer_finish(&names);
}

// The columns are the schema's properties. If the schema does not mention other properties, none are
// generated; if it has no type, it means an object.
static enum status close_schema(struct row_prompt *prompt, const char *path, struct error *error)
{
    struct schema_columns columns;
    const struct value *schema = &prompt->schema;
    struct value closed;
    if (!schema_columns_find(schema, &prompt->arena, &columns) ||
        !value_object_create(&prompt->arena, schema->object.n_members + 2, &closed))
        return error_memory(error, STATUS_REFUSE, "prompts");
    if (!columns.n) {
        warn_of_unknown(path, schema);
        return STATUS_OK;
    }
    bool is_composed = value_get(schema, "$ref") || value_get(schema, "allOf");
    memcpy(closed.object.members, schema->object.members,
           schema->object.n_members * sizeof *schema->object.members);
    closed.object.n_members = schema->object.n_members;
    if (!columns.is_typed && columns.is_plain)
        value_put(&closed, "type", value_string(TEXT("object")));
    if (columns.is_silent && !is_composed)
        value_put(&closed, "additionalProperties", value_bool(false));
    else if (columns.is_silent && columns.has_unevaluated)
        value_put(&closed, "unevaluatedProperties", value_bool(false));
    prompt->schema = closed;
    return STATUS_OK;
}

static enum status read_schema(struct row_prompt *prompt, const char *path, struct error *error)
{
    struct value file;
    enum status status = read_object(prompt, path, &file, error);
    if (status != STATUS_OK)
        return status;
    const struct value *schema = schema_file_unwrap(&file);
    if (schema != &file)
        log_write(LOG_INFO, "%s: a response_format of OpenAI's: the schema in it is taken", path);
    prompt->schema = *schema;
    return STATUS_OK;
}

static void add_format(struct row_prompt *prompt, const struct value *schema)
{
    add_member(prompt, "response_format");
    buffer_add_string(&prompt->parameters,
                      "{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"answer\",\"schema\":");
    json_encode(schema, &prompt->parameters);
    buffer_add_string(&prompt->parameters, "}}");
}

// Finds what --probabilities scores: the answers of the schema as choices, or the values of its properties.
static enum status find_scored(struct row_prompt *prompt, struct error *error)
{
    enum status status = enum_choices_find(&prompt->enum_choices, &prompt->schema, &prompt->arena, error);
    prompt->choices = prompt->enum_choices.answers;
    if (status == STATUS_OK && !prompt->choices.n)
        status = property_choices_find(&prompt->scored, &prompt->schema, &prompt->arena, error);
    if (status != STATUS_OK || prompt->choices.n || prompt->scored.n || prompt->asked)
        return status; // with several questions, some may have no probabilities
    return error_set(
        error, STATUS_REFUSE, ERROR_USAGE,
        "--probabilities needs --choice, or a schema with a property that is an enum or a boolean");
}

// path: the file of prompt->schema, for messages. scores_choices: its answers become choices, or its values are scored.
static enum status add_schema(struct row_prompt *prompt, const char *path, bool scores_choices,
                              struct error *error)
{
    enum status status = close_schema(prompt, path, error);
    struct value bare; // prompts do not show annotations, so a changed one must not change requests
    if (status == STATUS_OK && scores_choices)
        status = find_scored(prompt, error);
    if (status != STATUS_OK || prompt->choices.n)
        return status;
    if (status == STATUS_OK && !schema_without_annotations(&prompt->schema, &prompt->arena, &bare))
        status = error_memory(error, STATUS_REFUSE, "prompts");
    if (status != STATUS_OK)
        return status;
    add_format(prompt, &bare);
    if (prompt->scored.n)
        buffer_add_string(&prompt->parameters, ",\"choice_logprobs\":true");
    return STATUS_OK;
}

static void add_choices(struct row_prompt *prompt, const struct row_prompt_options *options)
{
    add_member(prompt, "structured_outputs");
    buffer_add_string(&prompt->parameters, "{\"choice\":[");
    for (size_t i = 0; i < prompt->choices.n; i++) {
        buffer_add_string(&prompt->parameters, i ? "," : "");
        json_encode_string(prompt->choices.items[i], &prompt->parameters);
    }
    buffer_add_string(&prompt->parameters, "]}");
    if (options->scores_choices)
        buffer_add_string(&prompt->parameters, ",\"choice_logprobs\":true");
    if (options->scores_choices && prompt->choices.nests) // "no" would include the probability of "no idea"
        buffer_add_string(&prompt->parameters, ",\"choice_logprobs_include_end\":true");
    if (options->scores_choices && !options->needs_seeds) // votes are drawn
        buffer_add_string(&prompt->parameters, ",\"choice_logprobs_decide\":true");
}

// Reads the constraint on the answers: a schema or choices, of the options or of the question.
static enum status add_constraint(struct row_prompt *prompt, const struct row_prompt_options *options,
                                  struct error *error)
{
    const struct question *question = options->question;
    const char *source = question ? question->source : options->schema;
    enum status status = STATUS_OK;
    if (question)
        prompt->choices = question->choices;
    else if (options->choices)
        status = choice_list_read(&prompt->choices, options->choices, &prompt->arena, error);
    if (question && question->schema)
        prompt->schema = *question->schema;
    else if (options->schema)
        status = read_schema(prompt, options->schema, error);
    if (status == STATUS_OK && prompt->schema.kind == VALUE_OBJECT)
        status = add_schema(prompt, source, options->scores_choices, error);
    if (status == STATUS_OK && prompt->choices.n)
        add_choices(prompt, options);
    return status;
}

// A warning about a job is an error here, because all rows would have it. Only --parameters and questions can
// contain such a field.
static enum status refuse_parameter(const struct row_prompt *prompt, struct text warning, struct error *error)
{
    static const char ignored[] = " ignored";
    const char *at = memmem(warning.data, warning.size, ignored, sizeof ignored - 1);
    size_t n = at ? (size_t)(at - warning.data) : warning.size;
    const char *rest = at ? at + sizeof ignored - 1 : "";
    return error_set(error, STATUS_REFUSE, ERROR_USAGE, "%s: %.*s%.*s",
                     prompt->asked ? prompt->asked->source : "--parameters", (int)n, warning.data,
                     at ? (int)(warning.size - n - sizeof ignored + 1) : 0, rest);
}

enum status row_prompt_make_job(const struct row_prompt *prompt, struct job **job, struct error *error)
{
    struct buffer record = {0};
    if (prompt->scores->task == TASK_GENERATE)
        buffer_add_string(&record, "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]");
    else
        row_scores_begin(prompt->scores->task, (const struct text[2]){TEXT("a"), TEXT("a")}, &record);
    buffer_add(&record, prompt->parameters.data, prompt->parameters.size);
    row_prompt_end(prompt, prompt->seeding.value, &record);
    *job = job_create();
    enum status status = error_memory(error, STATUS_REFUSE, "prompts");
    if (*job && !record.failed && !prompt->parameters.failed)
        status = job_decode(*job, (struct text){record.data, record.size}, ENCODING_JSON, error);
    if (status == STATUS_REJECT)
        status = refuse_prompt(error, prompt->asked ? prompt->asked->source : "the parameters of all rows");
    else if (status == STATUS_OK && (*job)->result.n_warnings)
        status = refuse_parameter(prompt, (*job)->result.warnings[0], error);
    buffer_finish(&record);
    return status;
}

// Checks, before anything is queued, that a worker accepts the parameters.
static enum status check_parameters(const struct row_prompt *prompt, struct error *error)
{
    struct job *job;
    enum status status = row_prompt_make_job(prompt, &job, error);
    job_destroy(job);
    return status;
}

enum status row_prompt_open(struct row_prompt *prompt, const struct row_prompt_options *options,
                            const struct table_columns *columns, struct error *error)
{
    static const struct row_scores chats = {.task = TASK_GENERATE};
    *prompt = (struct row_prompt){.columns = columns,
                                  .scores = options->scores ? options->scores : &chats,
                                  .asked = options->question,
                                  .has_objects = options->has_objects,
                                  .has_lists = options->has_lists,
                                  .seeding.is_given = options->has_seed,
                                  .seeding.value = options->seed};
    enum status status = create_variables(prompt, error);
    if (status == STATUS_OK)
        status = use_score_columns(prompt, error);
    if (status == STATUS_OK)
        status = open_template(prompt, options->prompt, &prompt->prompt, error);
    if (status == STATUS_OK)
        status = open_template(prompt, options->system, &prompt->system, error);
    if (status == STATUS_OK)
        status = open_template(prompt, options->messages, &prompt->messages, error);
    if (status == STATUS_OK && options->question)
        status = parse_template(prompt, options->question->source, options->question->prompt,
                                &prompt->question, error);
    if ((options->needs_utf8 || prompt->read.all) && status == STATUS_OK)
        memset(prompt->read.is_used, true, columns->n);
    if (status == STATUS_OK)
        status = add_parameters(prompt, options, error);
    if (!prompt->has_temperature && options->needs_seeds)
        prompt->seeding.is_added = true; // the model's default temperature
    else if (!prompt->has_temperature && prompt->scores->task == TASK_GENERATE)
        buffer_add_string(&prompt->parameters, ",\"temperature\":0");
    if (status == STATUS_OK)
        status = add_constraint(prompt, options, error);
    if (status == STATUS_OK)
        status = check_parameters(prompt, error);
    if (status != STATUS_OK)
        row_prompt_close(prompt);
    return status;
}

void row_prompt_close(struct row_prompt *prompt)
{
    template_destroy(prompt->prompt);
    template_destroy(prompt->system);
    template_destroy(prompt->messages);
    template_destroy(prompt->question);
    buffer_finish(&prompt->parameters);
    buffer_finish(&prompt->text);
    text_spans_finish(&prompt->content);
    arena_finish(&prompt->arena);
    arena_finish(&prompt->lists);
    *prompt = (struct row_prompt){0};
}

// ---- a row ----

static enum status take_fields(struct row_prompt *prompt, const struct table_row *row, struct error *error)
{
    enum status status = STATUS_OK;
    if (prompt->lists.chunks)
        arena_finish(&prompt->lists);
    for (size_t place = 0; status == STATUS_OK && place < prompt->columns->n; place++) {
        size_t i = prompt->read.order ? prompt->read.order[place] : place;
        const struct value *field = &row->fields[i];
        struct text name = prompt->columns->names[i];
        const char *fault = field->kind == VALUE_BYTES ? "bytes, which no prompt can read" : NULL;
        if (field->kind == VALUE_STRING && !utf8_valid(field->text.data, field->text.size))
            fault = "text that is not UTF-8";
        if (fault && prompt->read.is_used[i])
            return error_set(error, STATUS_REJECT, ERROR_TEMPLATE, "column \"%.*s\" holds %s", (int)name.size,
                             name.data, fault);
        // an invalid field that no template reads is replaced by null
        prompt->names[place + 1].key = name;
        prompt->names[place + 1].value = fault ? (struct value){.kind = VALUE_NULL} : *field;
        if (prompt->has_lists && prompt->read.is_used[i])
            status = field_text_take(name, prompt->read.uses[i], &prompt->lists,
                                     &prompt->names[place + 1].value, error);
    }
    return status;
}

// Appends to prompt->text.
static enum status render_template(struct row_prompt *prompt, const struct template *template,
                                   struct error *error)
{
    struct template_environment environment = {.is_timeless = true, .none_is_empty = true};
    if (template == prompt->messages) {
        text_spans_cut(&prompt->content, 0);
        environment.content = &prompt->content;
        environment.is_json = true;
    }
    return template_render(template, &prompt->variables, &environment, &prompt->text, error);
}

static void add_message(const char *role, struct text content, struct buffer *record)
{
    buffer_add_string(record, "{\"role\":\"");
    buffer_add_string(record, role);
    buffer_add_string(record, "\",\"content\":");
    json_encode_string(content, record);
    buffer_add_byte(record, '}');
}

// The texts of two columns, or of one, or of the template; prompt->text has them.
static enum status render_scored(struct row_prompt *prompt, struct buffer *record, struct error *error)
{
    size_t first = 0, n_columns = prompt->scores->n_columns;
    enum status status = STATUS_OK;
    buffer_clear(&prompt->text);
    for (size_t i = 0; i < n_columns; i++) { // take_fields has refused bytes that are no text
        bool is_text = row_scores_text(&prompt->names[prompt->score_columns[i] + 1].value, &prompt->text);
        assert(is_text);
        first = i == 0 ? prompt->text.size : first;
    }
    if (n_columns == 0)
        status = render_template(prompt, prompt->prompt, error);
    const char *data = prompt->text.data ? prompt->text.data : "";
    first = n_columns == 2 ? first : prompt->text.size;
    const struct text texts[2] = {{data, first}, {data + first, prompt->text.size - first}};
    if (status == STATUS_OK)
        row_scores_begin(prompt->scores->task, texts, record);
    return status;
}

enum status row_prompt_render(struct row_prompt *prompt, const struct table_row *row, struct buffer *record,
                              struct error *error)
{
    enum status status = take_fields(prompt, row, error);
    if (prompt->scores->task != TASK_GENERATE) {
        if (status == STATUS_OK)
            status = render_scored(prompt, record, error);
        buffer_add(record, prompt->parameters.data, prompt->parameters.size);
        return status;
    }
    buffer_add_string(record, "{\"messages\":[");
    buffer_clear(&prompt->text);
    if (status == STATUS_OK && prompt->system) {
        status = render_template(prompt, prompt->system, error);
        add_message("system", (struct text){prompt->text.data, prompt->text.size}, record);
        buffer_add_byte(record, ',');
        buffer_clear(&prompt->text);
    }
    if (status == STATUS_OK)
        status = render_template(prompt, prompt->messages ? prompt->messages : prompt->prompt, error);
    if (status == STATUS_OK && prompt->cut && !prompt->messages)
        status = prompt->cut(prompt->cut_context, &prompt->text, error);
    if (status == STATUS_OK && prompt->question) {
        buffer_add_string(&prompt->text, "\n\n");
        status = render_template(prompt, prompt->question, error);
    }
    if (status == STATUS_OK && prompt->messages)
        status = row_messages_add((struct text){prompt->text.data, prompt->text.size}, &prompt->content,
                                  record, error);
    else if (status == STATUS_OK)
        add_message("user", (struct text){prompt->text.data, prompt->text.size}, record);
    buffer_add_byte(record, ']');
    buffer_add(record, prompt->parameters.data, prompt->parameters.size);
    return status;
}

enum status row_prompt_render_text(struct row_prompt *prompt, const struct table_row *row, struct text *text,
                                   struct error *error)
{
    enum status status = take_fields(prompt, row, error);
    buffer_clear(&prompt->text);
    if (status == STATUS_OK)
        status = render_template(prompt, prompt->prompt, error);
    if (status == STATUS_OK && prompt->text.failed)
        status = error_memory(error, STATUS_REFUSE, "prompts");
    if (status == STATUS_OK)
        *text = (struct text){prompt->text.data ? prompt->text.data : "", prompt->text.size};
    return status;
}

void row_prompt_end(const struct row_prompt *prompt, int64_t seed, struct buffer *record)
{
    if (prompt->seeding.is_added) {
        buffer_add_string(record, ",\"seed\":");
        buffer_add_integer(record, seed);
    }
    buffer_add_byte(record, '}');
}
