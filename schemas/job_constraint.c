// Structured output: constraints on the text of an answer. OpenAI's response_format, vLLM's
// structured_outputs and older guided_* fields, and llama.cpp's json_schema and grammar become one
// constraint, which is encoded as structured_outputs.
#include "schemas/request.h"

#include <stdlib.h>
#include <string.h>

static struct constraint *constraint_of(struct decoding *decoding)
{
    return &decoding->job->request.constraint;
}

static enum status set_constraint(struct decoding *decoding, const char *field, enum constraint_kind kind,
                                  struct text source)
{
    struct constraint *constraint = constraint_of(decoding);
    if (constraint->kind != CONSTRAINT_NONE)
        return error_set(decoding->error, STATUS_REJECT, ERROR_INVALID_FIELD,
                         "%s: given beside %s; one constraint is possible", field, constraint->field);
    constraint->kind = kind;
    constraint->source = source;
    constraint->field = field;
    return STATUS_OK;
}

static enum status decode_source(struct decoding *decoding, const char *field, enum constraint_kind kind,
                                 const struct value *value)
{
    if (value->kind != VALUE_STRING || value->text.size == 0)
        return decoding_expected(decoding, field, "a string that is not empty", value);
    return set_constraint(decoding, field, kind, value->text);
}

// Decodes a JSON Schema: an object or a boolean or, in vLLM's fields, a text that contains the schema's JSON.
static enum status decode_schema(struct decoding *decoding, const char *field, const struct value *value,
                                 bool may_be_text)
{
    if (may_be_text && value->kind == VALUE_STRING)
        return decode_source(decoding, field, CONSTRAINT_JSON_SCHEMA, value);
    if (value->kind != VALUE_OBJECT && value->kind != VALUE_BOOL)
        return decoding_expected(decoding, field, "a JSON Schema", value);
    struct buffer text = {0};
    json_encode(value, &text);
    const char *copy = text.failed ? NULL : arena_copy(&decoding->job->arena, text.data, text.size);
    size_t size = text.size;
    buffer_finish(&text);
    return copy ? set_constraint(decoding, field, CONSTRAINT_JSON_SCHEMA, (struct text){copy, size})
                : decoding_out_of_memory(decoding);
}

static enum status decode_choices(struct decoding *decoding, const char *field, const struct value *value)
{
    struct constraint *constraint = constraint_of(decoding);
    if (value->kind != VALUE_ARRAY || value->array.n_items == 0)
        return decoding_expected(decoding, field, "a list of strings that is not empty", value);
    if (value->array.n_items > JOB_CHOICES_MAX)
        return error_set(decoding->error, STATUS_REJECT, ERROR_LIMIT_EXCEEDED,
                         "%s: expected at most %d strings, got %zu", field, JOB_CHOICES_MAX,
                         value->array.n_items);
    enum status status = set_constraint(decoding, field, CONSTRAINT_CHOICE, (struct text){0});
    if (status != STATUS_OK)
        return status;
    constraint->choices =
        arena_allocate_array(&decoding->job->arena, value->array.n_items, sizeof *constraint->choices);
    if (!constraint->choices)
        return decoding_out_of_memory(decoding);
    for (size_t i = 0; i < value->array.n_items; i++) {
        const struct value *item = &value->array.items[i];
        if (item->kind != VALUE_STRING || item->text.size == 0)
            return decoding_expected(decoding, field, "strings that are not empty", item);
        constraint->choices[i] = item->text;
    }
    constraint->n_choices = (int32_t)value->array.n_items;
    return STATUS_OK;
}

// ---- OpenAI's fields ----

// `strict` has no effect: a schema is enforced or refused. `name` and `description` are ignored.
static enum status decode_json_schema_format(struct decoding *decoding, const struct value *format)
{
    static const struct text names[] = {TEXT("name"), TEXT("description"), TEXT("strict"), TEXT("schema")};
    const struct value *wrapper = value_get(format, "json_schema");
    const struct value *schema = wrapper ? value_get(wrapper, "schema") : NULL, null = {.kind = VALUE_NULL};
    if (!schema)
        return decoding_expected(decoding, "response_format.json_schema.schema", "a JSON Schema", &null);
    enum status status = decode_schema(decoding, "response_format.json_schema.schema", schema, false);
    return status == STATUS_OK ? decoding_warn_of_unknown(decoding, "response_format.json_schema", wrapper,
                                                          names, sizeof names / sizeof *names)
                               : status;
}

// The format may have a member "schema", which llama.cpp's server accepts. Then the constraint is that
// schema.
static enum status decode_json_object_format(struct decoding *decoding, const struct value *format)
{
    const struct value *schema = value_get(format, "schema");
    if (schema && schema->kind != VALUE_NULL)
        return decode_schema(decoding, "response_format.schema", schema, false);
    return set_constraint(decoding, "response_format", CONSTRAINT_JSON_OBJECT, (struct text){0});
}

struct format_type {
    struct text name;
    const char *member; // the member that it reads besides "type"; or NULL
    enum status (*decode)(struct decoding *decoding, const struct value *format);
};

static const struct format_type format_types[] = {
    {TEXT("text"), NULL, NULL},
    {TEXT("json_object"), "schema", decode_json_object_format},
    {TEXT("json_schema"), "json_schema", decode_json_schema_format},
};

static const struct format_type *find_format_type(const struct value *name)
{
    for (size_t i = 0; name && name->kind == VALUE_STRING && i < sizeof format_types / sizeof *format_types;
         i++)
        if (text_equal(name->text, format_types[i].name))
            return &format_types[i];
    return NULL;
}

// Warns of members that belong to other types, which have no effect.
static enum status warn_of_members(struct decoding *decoding, const struct format_type *type,
                                   const struct value *format)
{
    static const struct text names[] = {TEXT("type"), TEXT("json_schema"), TEXT("schema")};
    for (size_t i = 0; i < sizeof format_types / sizeof *format_types; i++) {
        const char *name = format_types[i].member;
        const struct value *member = name && &format_types[i] != type ? value_get(format, name) : NULL;
        if (member && member->kind != VALUE_NULL &&
            !job_warn(decoding->job, "field \"response_format.%s\" has no effect", name))
            return decoding_out_of_memory(decoding);
    }
    return decoding_warn_of_unknown(decoding, "response_format", format, names, sizeof names / sizeof *names);
}

enum status constraint_decode_response_format(struct decoding *decoding, struct value *value)
{
    const struct value *name = value_get(value, "type"), null = {.kind = VALUE_NULL};
    if (value->kind != VALUE_OBJECT)
        return decoding_expected(decoding, "response_format", "an object", value);
    const struct format_type *type = find_format_type(name);
    if (!type)
        return decoding_expected(decoding, "response_format.type",
                                 "\"text\", \"json_object\" or \"json_schema\"", name ? name : &null);
    enum status status = type->decode ? type->decode(decoding, value) : STATUS_OK;
    return status == STATUS_OK ? warn_of_members(decoding, type, value) : status;
}

// ---- vLLM's and llama.cpp's fields ----

static enum status decode_whitespace_pattern(struct decoding *decoding, const char *field,
                                             const struct value *value)
{
    if (value->kind != VALUE_STRING)
        return decoding_expected(decoding, field, "a string", value);
    if (value->text.size > JOB_STOP_BYTES_MAX)
        return error_set(decoding->error, STATUS_REJECT, ERROR_LIMIT_EXCEEDED,
                         "%s: expected at most %d bytes, got %zu", field, JOB_STOP_BYTES_MAX,
                         value->text.size);
    constraint_of(decoding)->whitespace_pattern = value->text;
    return STATUS_OK;
}

// True if the member is one of vLLM's switches and is off.
static bool is_default_member(const struct value_member *member)
{
    static const char *const names[] = {"disable_fallback", "disable_any_whitespace",
                                        "disable_additional_properties"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (text_equals_string(member->key, names[i]))
            return member->value.kind == VALUE_BOOL && !member->value.boolean;
    return false;
}

static enum status decode_member(struct decoding *decoding, const struct value_member *member)
{
    const struct value *value = &member->value;
    if (value->kind == VALUE_NULL)
        return STATUS_OK;
    if (text_equals_string(member->key, "json"))
        return decode_schema(decoding, "structured_outputs.json", value, true);
    if (text_equals_string(member->key, "regex"))
        return decode_source(decoding, "structured_outputs.regex", CONSTRAINT_REGEX, value);
    if (text_equals_string(member->key, "choice"))
        return decode_choices(decoding, "structured_outputs.choice", value);
    if (text_equals_string(member->key, "grammar"))
        return decode_source(decoding, "structured_outputs.grammar", CONSTRAINT_GRAMMAR, value);
    if (text_equals_string(member->key, "json_object") && value->kind == VALUE_BOOL)
        return value->boolean ? set_constraint(decoding, "structured_outputs.json_object",
                                               CONSTRAINT_JSON_OBJECT, (struct text){0})
                              : STATUS_OK;
    if (text_equals_string(member->key, "whitespace_pattern"))
        return decode_whitespace_pattern(decoding, "structured_outputs.whitespace_pattern", value);
    if (is_default_member(member))
        return STATUS_OK;
    return error_set(decoding->error, STATUS_REJECT, ERROR_UNSUPPORTED_FIELD,
                     "structured_outputs.%.*s: not supported",
                     (int)(member->key.size < 64 ? member->key.size : 64), member->key.data);
}

enum status constraint_decode_structured_outputs(struct decoding *decoding, struct value *value)
{
    enum status status = STATUS_OK;
    if (value->kind != VALUE_OBJECT)
        return decoding_expected(decoding, "structured_outputs", "an object", value);
    for (size_t i = 0; i < value->object.n_members && status == STATUS_OK; i++)
        status = decode_member(decoding, &value->object.members[i]);
    return status;
}

enum status constraint_decode_guided_json(struct decoding *decoding, struct value *value)
{
    return decode_schema(decoding, "guided_json", value, true);
}

enum status constraint_decode_guided_regex(struct decoding *decoding, struct value *value)
{
    return decode_source(decoding, "guided_regex", CONSTRAINT_REGEX, value);
}

enum status constraint_decode_guided_choice(struct decoding *decoding, struct value *value)
{
    return decode_choices(decoding, "guided_choice", value);
}

enum status constraint_decode_guided_grammar(struct decoding *decoding, struct value *value)
{
    return decode_source(decoding, "guided_grammar", CONSTRAINT_GRAMMAR, value);
}

enum status constraint_decode_guided_whitespace_pattern(struct decoding *decoding, struct value *value)
{
    return decode_whitespace_pattern(decoding, "guided_whitespace_pattern", value);
}

enum status constraint_decode_json_spacing(struct decoding *decoding, struct value *value)
{
    struct constraint *constraint = constraint_of(decoding);
    int64_t indent = 0;
    if (value->kind == VALUE_STRING && text_equals_string(value->text, "compact"))
        return STATUS_OK; // the default
    if (value->kind == VALUE_STRING && text_equals_string(value->text, "spaced"))
        constraint->indent = JSON_INDENT_SPACED;
    else if (value->kind == VALUE_STRING)
        return decoding_expected(decoding, "json_spacing", "\"compact\", \"spaced\" or a number of blanks",
                                 value);
    else if (decoding_integer(decoding, "json_spacing", value, 1, JOB_JSON_INDENT_MAX, true, &indent) !=
             STATUS_OK)
        return decoding->error->status;
    else
        constraint->indent = (int32_t)indent;
    return STATUS_OK;
}

enum status constraint_decode_json_schema(struct decoding *decoding, struct value *value)
{
    return decode_schema(decoding, "json_schema", value, false);
}

enum status constraint_decode_grammar(struct decoding *decoding, struct value *value)
{
    return decode_source(decoding, "grammar", CONSTRAINT_GRAMMAR, value);
}

// Returns the name of a field that contradicts a constraint or tools, or NULL. With these only the constraint
// determines where an answer ends.
static const char *named_beside(const struct request *request)
{
    return request->stop.ignore_eos                   ? "ignore_eos"
           : request->stop.min_tokens > 0             ? "min_tokens"
           : request->vocabulary.n_allowed_tokens > 0 ? "allowed_token_ids"
           : request->vocabulary.n_bad_words > 0      ? "bad_words"
                                                      : NULL;
}

static enum status finish_spacing(struct decoding *decoding)
{
    const struct constraint *constraint = constraint_of(decoding);
    bool is_json = constraint->kind == CONSTRAINT_JSON_OBJECT || constraint->kind == CONSTRAINT_JSON_SCHEMA;
    const char *field = constraint->indent                    ? "json_spacing"
                        : constraint->any_order               ? "json_any_order"
                        : constraint->whitespace_pattern.size ? "whitespace_pattern"
                                                              : NULL;
    if (field && !is_json)
        return error_set(decoding->error, STATUS_REJECT, ERROR_INVALID_FIELD,
                         "%s: needs a JSON Schema or a response_format of JSON", field);
    if (constraint->indent && constraint->whitespace_pattern.size)
        return error_set(decoding->error, STATUS_REJECT, ERROR_INVALID_FIELD,
                         "json_spacing: impossible beside whitespace_pattern");
    return STATUS_OK;
}

// For choice_logprobs_decide: the most probable choice is the answer, so nothing is generated.
static enum status finish_decision(struct decoding *decoding)
{
    struct request *request = &decoding->job->request;
    const char *field = request->n > 1                        ? "n"
                        : request->best_of                    ? "best_of"
                        : request->echo                       ? "echo"
                        : request->constraint.closes          ? "close_at_max_tokens"
                        : request->tools.choice != TOOLS_NONE ? "tools"
                                                              : NULL;
    if (!request->scores.decide)
        return STATUS_OK;
    if (!request->scores.wanted)
        return error_set(decoding->error, STATUS_REJECT, ERROR_INVALID_FIELD,
                         "choice_logprobs_decide: needs \"choice_logprobs\": true");
    if (field)
        return error_set(decoding->error, STATUS_REJECT, ERROR_INVALID_FIELD,
                         "choice_logprobs_decide: impossible beside %s", field);
    request->stop.max_tokens = 0;
    return STATUS_OK;
}

static int compare_choices(const void *left, const void *right)
{
    const struct text *a = left, *b = right;
    int order = memcmp(a->data, b->data, a->size < b->size ? a->size : b->size);
    return order ? order : (a->size > b->size) - (a->size < b->size);
}

static enum status refuse_scores(struct decoding *decoding)
{
    return error_set(
        decoding->error, STATUS_REJECT, ERROR_INVALID_FIELD,
        "choice_logprobs: needs structured_outputs.choice, or a schema with properties that are enums or "
        "booleans");
}

// For choice_logprobs with a schema.
static enum status finish_property_scores(struct decoding *decoding)
{
    struct request *request = &decoding->job->request;
    struct value schema;
    const char *field = request->n > 1                        ? "n"
                        : request->best_of                    ? "best_of"
                        : request->tools.choice != TOOLS_NONE ? "tools"
                        : request->scores.include_end         ? "choice_logprobs_include_end"
                        : request->scores.decide              ? "choice_logprobs_decide"
                                                              : NULL;
    if (field)
        return error_set(decoding->error, STATUS_REJECT, ERROR_INVALID_FIELD,
                         "choice_logprobs: with a schema impossible beside %s", field);
    enum status status =
        json_decode_spelled(request->constraint.source, &decoding->job->arena, &schema, decoding->error);
    if (status == STATUS_REJECT) {
        decoding->error->code = ERROR_INVALID_FIELD;
        return error_prefix(decoding->error, "%s", request->constraint.field);
    }
    if (status == STATUS_OK)
        status = scored_values_find(&schema, &decoding->job->arena, &request->scores, decoding->error);
    return status == STATUS_OK && request->scores.n_values == 0 ? refuse_scores(decoding) : status;
}

// For choice_logprobs: refuses equal choices, because they would share one probability.
static enum status finish_scores(struct decoding *decoding)
{
    const struct constraint *constraint = &decoding->job->request.constraint;
    size_t n = (size_t)constraint->n_choices;
    if (constraint->kind == CONSTRAINT_JSON_SCHEMA)
        return finish_property_scores(decoding);
    if (constraint->kind != CONSTRAINT_CHOICE)
        return refuse_scores(decoding);
    struct text *sorted = malloc(n * sizeof *sorted);
    if (!sorted)
        return decoding_out_of_memory(decoding);
    memcpy(sorted, constraint->choices, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, compare_choices);
    enum status status = STATUS_OK;
    for (size_t i = 1; i < n && status == STATUS_OK; i++)
        if (text_equal(sorted[i], sorted[i - 1])) {
            size_t shown = utf8_complete_prefix(sorted[i].data, sorted[i].size < 64 ? sorted[i].size : 64);
            status =
                error_set(decoding->error, STATUS_REJECT, ERROR_INVALID_FIELD,
                          "choice_logprobs: the choice \"%.*s\" occurs twice", (int)shown, sorted[i].data);
        }
    free(sorted);
    return status;
}

enum status constraint_finish(struct decoding *decoding)
{
    const struct request *request = &decoding->job->request;
    const char *beside = named_beside(request);
    if (request->scores.wanted && finish_scores(decoding) != STATUS_OK)
        return decoding->error->status;
    if (request->scores.include_end && !request->scores.wanted)
        return error_set(decoding->error, STATUS_REJECT, ERROR_INVALID_FIELD,
                         "choice_logprobs_include_end: needs \"choice_logprobs\": true");
    if (finish_decision(decoding) != STATUS_OK || finish_spacing(decoding) != STATUS_OK)
        return decoding->error->status;
    bool is_free = request->constraint.kind == CONSTRAINT_NONE;
    if (request->constraint.closes && is_free && request->tools.choice == TOOLS_NONE)
        return error_set(decoding->error, STATUS_REJECT, ERROR_INVALID_FIELD,
                         "close_at_max_tokens: needs a constraint or tools");
    if ((is_free && request->tools.choice == TOOLS_NONE) || !beside)
        return STATUS_OK;
    return error_set(decoding->error, STATUS_REJECT, ERROR_INVALID_FIELD, "%s: impossible beside %s", beside,
                     is_free ? "tools" : request->constraint.field);
}

static bool encode_choices(const struct constraint *constraint, struct arena *arena, struct value *value)
{
    if (!value_array_create(arena, (size_t)constraint->n_choices, value))
        return false;
    for (int32_t i = 0; i < constraint->n_choices; i++)
        value->array.items[i] = value_string(constraint->choices[i]);
    return true;
}

// Names of the members of structured_outputs, indexed by kind.
static const char *const names[] = {NULL, "json_object", "json", "regex", "choice", "grammar"};
static const char tools_name[] = "tools";

const char *job_constraint_name(const struct job *job)
{
    const struct request *request = &job->request;
    if (request->constraint.kind != CONSTRAINT_NONE)
        return names[request->constraint.kind];
    return request->tools.choice != TOOLS_NONE ? tools_name : job->figures.constrained_by;
}

const char *constraint_name_find(struct text name)
{
    for (size_t i = 1; i < sizeof names / sizeof names[0]; i++)
        if (text_equals_string(name, names[i]))
            return names[i];
    return text_equals_string(name, tools_name) ? tools_name : NULL;
}

bool constraint_encode_structured_outputs(const struct job *job, struct arena *arena, struct value *value)
{
    const struct constraint *constraint = &job->request.constraint;
    struct value content =
        constraint->kind == CONSTRAINT_JSON_OBJECT ? value_bool(true) : value_string(constraint->source);
    if (constraint->kind == CONSTRAINT_NONE)
        return true;
    if (!value_object_create(arena, 2, value) ||
        (constraint->kind == CONSTRAINT_CHOICE && !encode_choices(constraint, arena, &content)))
        return false;
    value_put(value, names[constraint->kind], content);
    if (constraint->whitespace_pattern.size)
        value_put(value, "whitespace_pattern", value_string(constraint->whitespace_pattern));
    return true;
}

bool constraint_encode_json_spacing(const struct job *job, struct arena *arena, struct value *value)
{
    int32_t indent = job->request.constraint.indent;
    if (indent)
        *value = indent == JSON_INDENT_SPACED ? value_string(TEXT("spaced")) : value_integer(indent);
    return true;
}
