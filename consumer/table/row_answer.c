#include "consumer/table/row_answer.h"

#include "schemas/json_answer.h"

#include <stdio.h>
#include <string.h>

enum { COLUMNS_BESIDE = 8 }; // of the answer: agreement, margin, figures, reason, error

static enum status refuse_memory(struct error *error)
{
    return error_set(error, STATUS_REFUSE, ERROR_OUT_OF_MEMORY, "the answers' columns: out of memory");
}

static enum status add_column(struct row_answer *answer, const char *prefix, struct text name,
                              const struct table_columns *input, struct error *error)
{
    struct buffer whole = {0};
    buffer_add_string(&whole, prefix ? prefix : "");
    buffer_add_text(&whole, name);
    struct text column = {whole.failed ? NULL : arena_copy(&answer->arena, whole.data, whole.size),
                          whole.size};
    buffer_finish(&whole);
    if (!column.data)
        return refuse_memory(error);
    if (table_columns_find(input, column) < input->n)
        return error_set(
            error, STATUS_REFUSE, ERROR_USAGE,
            "the table has a column \"%.*s\" already: give the answers' columns another name with "
            "--prefix, as --prefix model_",
            (int)column.size, column.data);
    if (table_columns_find(&answer->columns, column) < answer->columns.n)
        return error_set(error, STATUS_REFUSE, ERROR_USAGE, "the answers have two columns \"%.*s\"",
                         (int)column.size, column.data);
    answer->columns.names[answer->columns.n++] = column;
    return STATUS_OK;
}

static enum status add_answers(struct row_answer *answer, const struct table_columns *input,
                               struct error *error)
{
    const char *prefix = answer->options.prefix;
    enum status status = STATUS_OK;
    if (!answer->n_properties)
        status = add_column(answer, prefix, answer->options.n_choices ? TEXT("label") : TEXT("answer"), input,
                            error);
    for (size_t i = 0; i < answer->n_properties && status == STATUS_OK; i++)
        status = add_column(answer, prefix, answer->properties[i], input, error);
    answer->n_answers = answer->columns.n;
    for (size_t i = 0; answer->options.probabilities && i < answer->options.n_choices && status == STATUS_OK;
         i++)
        status = add_column(answer, prefix, answer->options.choices[i], input, error);
    if (answer->options.probabilities && status == STATUS_OK)
        status = add_column(answer, prefix, TEXT("margin"), input, error);
    if (answer->options.n_votes > 1 && status == STATUS_OK)
        status = add_column(answer, prefix, TEXT("agreement"), input, error);
    return status;
}

// Of each column of the answer.
static enum status find_labels(struct row_answer *answer, struct error *error)
{
    const struct value *schema = answer->options.schema, *properties = NULL;
    answer->label_sets = arena_allocate_array(&answer->arena, answer->n_answers, sizeof *answer->label_sets);
    bool is_found = answer->label_sets != NULL;
    if (is_found && answer->n_properties)
        properties = value_get(schema, "properties");
    for (size_t i = 0; is_found && i < answer->n_answers; i++)
        is_found = properties ? label_set_of_schema(&answer->label_sets[i], &answer->arena, schema,
                                                    &properties->object.members[i].value)
                              : label_set_of_choices(&answer->label_sets[i], &answer->arena,
                                                     answer->options.choices, answer->options.n_choices);
    return is_found ? STATUS_OK : refuse_memory(error);
}

static enum status add_beside(struct row_answer *answer, const struct table_columns *input,
                              struct error *error)
{
    static const char *const figures[] = {"sheaf_prompt_tokens", "sheaf_completion_tokens"};
    static const char *const always[] = {"sheaf_finish_reason", ROW_ANSWER_MARKER};
    const char *prefix = answer->options.prefix;
    enum status status = STATUS_OK;
    for (size_t i = 0; answer->options.figures && i < 2 && status == STATUS_OK; i++)
        status = add_column(answer, prefix, text_from_string(figures[i]), input, error);
    for (size_t i = 0; i < 2 && status == STATUS_OK; i++)
        status = add_column(answer, prefix, text_from_string(always[i]), input, error);
    return status;
}

static enum status find_properties(struct row_answer *answer, struct error *error)
{
    const struct value *schema = answer->options.schema;
    const struct value *properties = schema ? value_get(schema, "properties") : NULL;
    if (!properties || properties->kind != VALUE_OBJECT)
        return STATUS_OK;
    size_t n = properties->object.n_members;
    answer->properties = arena_allocate_array(&answer->arena, n, sizeof *answer->properties);
    for (size_t i = 0; answer->properties && i < n; i++)
        answer->properties[i] = properties->object.members[i].key;
    answer->n_properties = n;
    return answer->properties || !n ? STATUS_OK : refuse_memory(error);
}

enum status row_answer_open(struct row_answer *answer, const struct row_answer_options *options,
                            const struct table_columns *input, struct error *error)
{
    *answer = (struct row_answer){.options = *options};
    enum status status = find_properties(answer, error);
    size_t n = answer->n_properties + options->n_choices + COLUMNS_BESIDE;
    answer->columns.names = arena_allocate_array(&answer->arena, n, sizeof *answer->columns.names);
    answer->fields = arena_allocate_array(&answer->arena, n, sizeof *answer->fields);
    if (status == STATUS_OK && (!answer->columns.names || !answer->fields))
        status = refuse_memory(error);
    if (status == STATUS_OK)
        status = add_answers(answer, input, error);
    if (status == STATUS_OK)
        status = find_labels(answer, error);
    if (status == STATUS_OK)
        status = add_beside(answer, input, error);
    if (status != STATUS_OK)
        row_answer_close(answer);
    return status;
}

void row_answer_close(struct row_answer *answer)
{
    arena_finish(&answer->arena);
    arena_finish(&answer->row_arena);
    *answer = (struct row_answer){0};
}

// ---- a row ----

static struct text text_of(const struct job *job)
{
    return job->result.n_choices ? job->result.choices[0].text : (struct text){0};
}

static bool is_done(const struct job *job)
{
    return job->result.status == RESULT_DONE && job->result.n_choices > 0;
}

// The first of the most frequent texts; *n_equal: how many votes have it. NULL: none is done.
static const struct job *choose_vote(const struct row_answer *answer, struct job *const *votes, int *n_equal)
{
    const struct job *best = NULL;
    *n_equal = 0;
    for (int32_t i = 0; i < answer->options.n_votes; i++) {
        int n = 0;
        for (int32_t j = 0; is_done(votes[i]) && j < answer->options.n_votes; j++)
            n += is_done(votes[j]) && text_equal(text_of(votes[i]), text_of(votes[j]));
        if (n > *n_equal) {
            *n_equal = n;
            best = votes[i];
        }
    }
    return best;
}

// A job is done, but its text is no answer. `reason` must live as long as the fields.
static void take_no_answer(struct row_answer *answer, bool was_cut, struct text reason)
{
    answer->failed = true;
    answer->was_cut = was_cut;
    answer->fields[answer->columns.n - 1] = value_string(reason);
}

// Takes the properties as fields. Strings are unchanged, null is an empty field, other values are JSON.
static void take_properties(struct row_answer *answer, const struct job *job)
{
    struct value object;
    struct error *fault = &answer->fault;
    enum status status = json_decode_answer(text_of(job), &answer->row_arena, &object, fault);
    if (status != STATUS_OK && job->result.choices[0].finish_reason == FINISH_LENGTH) {
        take_no_answer(answer, true, TEXT("the answer ended before its JSON did: raise --max-tokens"));
        return;
    }
    if (status != STATUS_OK)
        error_prefix(fault, "the answer is no JSON");
    else if (object.kind != VALUE_OBJECT)
        status = error_set(fault, STATUS_REJECT, ERROR_INVALID_ENCODING,
                           "the answer is no JSON object: expected properties, got %s",
                           value_kind_name(object.kind));
    if (status != STATUS_OK) {
        take_no_answer(answer, false, text_from_string(fault->text));
        return;
    }
    for (size_t i = 0; i < object.object.n_members; i++)
        for (size_t j = 0; j < answer->n_properties; j++)
            if (text_equal(object.object.members[i].key, answer->properties[j]))
                answer->fields[j] = object.object.members[i].value;
}

static void take_text(struct row_answer *answer, const struct job *job)
{
    answer->fields[0] = value_string(text_of(job));
    for (size_t i = 0; i < answer->options.n_choices; i++)
        if (text_equal(text_of(job), answer->options.choices[i]))
            return;
    if (!answer->options.n_choices)
        return;
    answer->fields[0] = (struct value){.kind = VALUE_NULL};
    take_no_answer(answer, true, TEXT("the answer ended before its label did: raise --max-tokens"));
}

// Of each label in the order of --choice, and how far the first is before the second. The result's own text
// is the label: the most probable one, unless it was voted for.
static void take_probabilities(struct row_answer *answer, const struct job *job)
{
    const struct result *result = &job->result;
    float first = 0, second = 0;
    for (int32_t i = 0; i < result->n_choice_logprobs; i++) {
        float probability = result->choice_logprobs[i].probability;
        for (size_t j = 0; j < answer->options.n_choices; j++)
            if (text_equal(result->choice_logprobs[i].choice, answer->options.choices[j]))
                answer->fields[answer->n_answers + j] = value_single(probability);
        if (probability > first) {
            second = first;
            first = probability;
        } else if (probability > second) {
            second = probability;
        }
    }
    if (result->n_choice_logprobs)
        answer->fields[answer->n_answers + answer->options.n_choices] = value_single(first - second);
}

static void take_figures(struct row_answer *answer, struct job *const *votes)
{
    int64_t prompt_tokens = 0, completion_tokens = 0;
    for (int32_t i = 0; i < answer->options.n_votes; i++) {
        prompt_tokens += votes[i]->result.prompt_tokens;
        completion_tokens += votes[i]->result.completion_tokens;
    }
    answer->fields[answer->columns.n - 4] = value_integer(prompt_tokens);
    answer->fields[answer->columns.n - 3] = value_integer(completion_tokens);
}

static void take_failure(struct row_answer *answer, const struct job *job)
{
    answer->failed = answer->job_failed = true;
    answer->fields[answer->columns.n - 2] =
        value_string(text_from_string(job->result.status == RESULT_CANCELLED ? "cancelled" : "error"));
    answer->fields[answer->columns.n - 1] = value_string(text_from_string(job->result.error.text));
}

void row_answer_take(struct row_answer *answer, struct job *const *votes)
{
    int n_equal;
    const struct job *job = choose_vote(answer, votes, &n_equal);
    arena_finish(&answer->row_arena);
    answer->failed = answer->was_cut = answer->job_failed = false;
    for (size_t i = 0; i < answer->columns.n; i++)
        answer->fields[i] = (struct value){.kind = VALUE_NULL};
    if (answer->options.figures)
        take_figures(answer, votes);
    if (!job) {
        take_failure(answer, votes[0]);
        return;
    }
    answer->fields[answer->columns.n - 2] =
        value_string(text_from_string(finish_reason_name(job->result.choices[0].finish_reason)));
    if (answer->options.schema && answer->n_properties)
        take_properties(answer, job);
    else
        take_text(answer, job);
    if (answer->options.probabilities)
        take_probabilities(answer, job);
    if (answer->options.n_votes > 1) {
        size_t column =
            answer->n_answers + (answer->options.probabilities ? answer->options.n_choices + 1 : 0);
        answer->fields[column] = value_float((double)n_equal / answer->options.n_votes);
    }
}

bool row_answer_choose_label(struct row_answer *answer, struct text property)
{
    answer->label_column = 0;
    for (size_t i = 0; i < answer->n_properties; i++)
        if (text_equal(answer->properties[i], property)) {
            answer->label_column = i;
            return true;
        }
    return false;
}

const struct value *row_answer_label(const struct row_answer *answer)
{
    return &answer->fields[answer->label_column];
}
