#include "consumer/annotate/question_list.h"

#include "consumer/annotate/schema_file.h"
#include "schemas/base/file.h"
#include "schemas/yaml_decode.h"

#include <string.h>

static enum status refuse_question(const struct question *question, const char *what, struct error *error)
{
    return error_set(error, STATUS_REFUSE, ERROR_USAGE, "%s: %s", question->source, what);
}

static enum status refuse_kind(const char *source, const char *what, const char *expected,
                               const struct value *got, struct error *error)
{
    char shown[VALUE_DESCRIPTION_BYTES];
    value_describe(got, shown);
    return error_set(error, STATUS_REFUSE, ERROR_USAGE, "%s: %s: expected %s, got %s", source, what, expected,
                     shown);
}

static enum status refuse_memory(const char *source, struct error *error)
{
    return error_memory(error, STATUS_REFUSE, "%s", source);
}

// "FILE: question 3", or with its name: "FILE: question \"tone\"".
static const char *make_source(struct arena *arena, const char *path, size_t number, struct text name)
{
    struct buffer source = {0};
    if (name.size)
        buffer_add_format(&source, "%s: question \"%.*s\"", path, (int)name.size, name.data);
    else
        buffer_add_format(&source, "%s: question %zu", path, number);
    const char *copy = source.failed ? NULL : arena_copy(arena, source.data, source.size);
    buffer_finish(&source);
    return copy;
}

static enum status read_text(const struct question *question, const struct value *object, const char *name,
                             struct text *text, struct error *error)
{
    const struct value *value = value_get(object, name);
    if (!value)
        return error_set(error, STATUS_REFUSE, ERROR_USAGE, "%s: it has no \"%s\"", question->source, name);
    if (value->kind != VALUE_STRING || !value->text.size)
        return refuse_kind(question->source, name, "a text", value, error);
    *text = value->text;
    return STATUS_OK;
}

static enum status read_choice(struct question_list *list, struct question *question,
                               const struct value *choice, struct error *error)
{
    if (choice->kind != VALUE_ARRAY || !choice->array.n_items)
        return refuse_kind(question->source, "choice", "a list of texts", choice, error);
    struct text *labels = arena_allocate_array(&list->arena, choice->array.n_items, sizeof *labels);
    if (!labels)
        return refuse_memory(question->source, error);
    for (size_t i = 0; i < choice->array.n_items; i++) {
        if (choice->array.items[i].kind != VALUE_STRING)
            return refuse_kind(question->source, "choice", "texts, in quotes if they look like others",
                               &choice->array.items[i], error);
        labels[i] = choice->array.items[i].text;
    }
    enum status status =
        choice_list_of(&question->choices, labels, choice->array.n_items, "choice", &list->arena, error);
    return status == STATUS_OK ? status : error_prefix(error, "%s", question->source);
}

// {"regex": ...} or {"grammar": ...}, as a request has it.
static enum status add_structured(struct question_list *list, struct question *question,
                                  const struct value_member *member, struct error *error)
{
    struct value outputs;
    if (member->value.kind != VALUE_STRING)
        return refuse_kind(question->source, member->key.data[0] == 'r' ? "regex" : "grammar", "a text",
                           &member->value, error);
    if (!value_object_create(&list->arena, 1, &outputs))
        return refuse_memory(question->source, error);
    outputs.object.members[outputs.object.n_members++] = *member;
    value_put(&question->parameters, "structured_outputs", outputs);
    return STATUS_OK;
}

static enum status read_member(struct question_list *list, struct question *question,
                               const struct value_member *member, struct error *error)
{
    if (text_equals_string(member->key, "name") || text_equals_string(member->key, "prompt"))
        return STATUS_OK;
    if (text_equals_string(member->key, "choice"))
        return read_choice(list, question, &member->value, error);
    if (text_equals_string(member->key, "regex") || text_equals_string(member->key, "grammar"))
        return add_structured(list, question, member, error);
    if (text_equals_string(member->key, "schema")) {
        if (member->value.kind != VALUE_OBJECT)
            return refuse_kind(question->source, "schema", "an object", &member->value, error);
        question->schema = schema_file_unwrap(&member->value);
        return STATUS_OK;
    }
    question->parameters.object.members[question->parameters.object.n_members++] = *member;
    return STATUS_OK;
}

static enum status check_constraints(const struct question *question, const struct value *object,
                                     struct error *error)
{
    static const char *const constraints[] = {"choice", "schema", "regex", "grammar"};
    int n = 0;
    for (size_t i = 0; i < sizeof constraints / sizeof *constraints; i++)
        n += value_get(object, constraints[i]) != NULL;
    return n > 1 ? refuse_question(question, "one of choice, schema, regex and grammar, not several", error)
                 : STATUS_OK;
}

static enum status read_question(struct question_list *list, const char *path, const struct value *object,
                                 struct error *error)
{
    struct question *question = &list->items[list->n];
    *question = (struct question){.source = make_source(&list->arena, path, list->n + 1, (struct text){0})};
    if (!question->source)
        return refuse_memory(path, error);
    if (object->kind != VALUE_OBJECT)
        return refuse_kind(path, "a question", "an object", object, error);
    enum status status = read_text(question, object, "name", &question->name, error);
    for (size_t i = 0; i < list->n && status == STATUS_OK; i++)
        if (text_equal(list->items[i].name, question->name))
            return error_set(error, STATUS_REFUSE, ERROR_USAGE, "%s: two questions are named \"%.*s\"", path,
                             (int)question->name.size, question->name.data);
    if (status == STATUS_OK)
        question->source = make_source(&list->arena, path, list->n + 1, question->name);
    if (!question->source ||
        !value_object_create(&list->arena, object->object.n_members + 1, &question->parameters))
        return refuse_memory(path, error);
    if (status == STATUS_OK)
        status = read_text(question, object, "prompt", &question->prompt, error);
    if (status == STATUS_OK)
        status = check_constraints(question, object, error);
    for (size_t i = 0; i < object->object.n_members && status == STATUS_OK; i++)
        status = read_member(list, question, &object->object.members[i], error);
    return status;
}

static bool is_json(const char *path)
{
    size_t size = strlen(path);
    return size > 5 && strcmp(path + size - 5, ".json") == 0;
}

static enum status read_file(struct question_list *list, const char *path, struct value *value,
                             struct error *error)
{
    struct buffer content = {0};
    enum status status = file_read_text(path, QUESTION_FILE_BYTES_MAX, &content, error);
    struct text text = {content.data ? content.data : "", content.size};
    if (status == STATUS_OK) {
        status = is_json(path) ? json_decode(text, &list->arena, value, error)
                               : yaml_decode(text, &list->arena, value, error);
        if (status != STATUS_OK) {
            error_prefix(error, "%s", path);
            error->code = ERROR_USAGE;
            status = error->status = STATUS_REFUSE;
        }
    }
    buffer_finish(&content);
    return status;
}

static enum status take_questions(struct question_list *list, const char *path, const struct value *value,
                                  struct error *error)
{
    enum status status = STATUS_OK;
    if (value->kind != VALUE_ARRAY || !value->array.n_items)
        status = refuse_kind(path, "--questions", "a list of questions", value, error);
    if (status == STATUS_OK && value->array.n_items > QUESTIONS_MAX)
        status = error_set(error, STATUS_REFUSE, ERROR_LIMIT_EXCEEDED, "%s: more than %d questions", path,
                           QUESTIONS_MAX);
    if (status == STATUS_OK) {
        list->items = arena_allocate_array(&list->arena, value->array.n_items, sizeof *list->items);
        status = list->items ? STATUS_OK : refuse_memory(path, error);
    }
    for (size_t i = 0; status == STATUS_OK && i < value->array.n_items; i++, list->n++)
        status = read_question(list, path, &value->array.items[i], error);
    return status;
}

enum status question_list_read(struct question_list *list, const char *path, struct error *error)
{
    struct value value;
    *list = (struct question_list){0};
    enum status status = read_file(list, path, &value, error);
    if (status == STATUS_OK)
        status = take_questions(list, path, &value, error);
    if (status != STATUS_OK)
        question_list_finish(list);
    return status;
}

enum status question_list_copy(struct question_list *list, const char *source, const struct value *questions,
                               struct error *error)
{
    struct value copy;
    *list = (struct question_list){0};
    enum status status = value_copy(questions, &list->arena, &copy)
                             ? take_questions(list, source, &copy, error)
                             : refuse_memory(source, error);
    if (status != STATUS_OK)
        question_list_finish(list);
    return status;
}

enum status question_list_read_value(const char *path, struct arena *arena, struct value *questions,
                                     struct error *error)
{
    struct question_list list = {0};
    struct value value;
    enum status status = read_file(&list, path, &value, error);
    if (status == STATUS_OK && !value_copy(&value, arena, questions))
        status = refuse_memory(path, error);
    question_list_finish(&list);
    return status;
}

void question_list_finish(struct question_list *list)
{
    arena_finish(&list->arena);
    *list = (struct question_list){0};
}
