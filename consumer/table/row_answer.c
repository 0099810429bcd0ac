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
    const struct schema_columns *properties = &answer->properties;
    struct text whole = answer->options.n_choices ? TEXT("label") : TEXT("answer");
    for (size_t i = 0; i < properties->n && status == STATUS_OK; i++) {
        struct text name = properties->items[i].name;
        status = add_column(answer, prefix, name, input, error);
        if (text_equal(name, whole))
            whole = TEXT("answer_json");
    }
    answer->has_whole = !(properties->n && properties->is_object && properties->is_complete);
    if (answer->has_whole && status == STATUS_OK)
        status = add_column(answer, prefix, whole, input, error);
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
    const struct value *schema = answer->options.schema;
    size_t n_properties = answer->properties.n;
    answer->label_sets = arena_allocate_array(&answer->arena, answer->n_answers, sizeof *answer->label_sets);
    bool is_found = answer->label_sets != NULL;
    for (size_t i = 0; is_found && i < answer->n_answers; i++) {
        struct label_set *set = &answer->label_sets[i];
        if (!schema)
            is_found =
                label_set_of_choices(set, &answer->arena, answer->options.choices, answer->options.n_choices);
        else if (i < n_properties || !n_properties) // else of the whole beside its properties
            is_found = label_set_of_schema(set, &answer->arena, schema,
                                           n_properties ? answer->properties.items[i].schema : schema);
    }
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
    if (schema && !schema_columns_find(schema, &answer->arena, &answer->properties))
        return refuse_memory(error);
    return STATUS_OK;
}

enum status row_answer_open(struct row_answer *answer, const struct row_answer_options *options,
                            const struct table_columns *input, struct error *error)
{
    *answer = (struct row_answer){.options = *options};
    enum status status = find_properties(answer, error);
    size_t n = answer->properties.n + options->n_choices + COLUMNS_BESIDE;
    answer->columns.names = arena_allocate_array(&answer->arena, n, sizeof *answer->columns.names);
    answer->fields = arena_allocate_array(&answer->arena, n, sizeof *answer->fields);
    answer->is_given = arena_allocate_array(&answer->arena, n, sizeof *answer->is_given);
    if (status == STATUS_OK && (!answer->columns.names || !answer->fields || !answer->is_given))
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

static bool is_choice(const struct row_answer *answer, struct text text)
{
    for (size_t i = 0; i < answer->options.n_choices; i++)
        if (text_equal(text, answer->options.choices[i]))
            return true;
    return false;
}

static enum status refuse_cut(const struct row_answer *answer, struct error *fault)
{
    const char *what = answer->options.schema ? "JSON" : answer->options.n_choices ? "label" : "constraint";
    return error_set(fault, STATUS_REJECT, ERROR_LIMIT_EXCEEDED,
                     "the answer ended before its %s did: raise --max-tokens", what);
}

// The value of a job that is done: of a schema what the JSON means, else the text. STATUS_REJECT: the text is
// no answer, by answer->fault. A constrained text that max_tokens ended is none, even where it is a valid
// one: the model would have gone on.
static enum status read_answer(struct row_answer *answer, const struct job *job, struct value *value)
{
    struct error *fault = &answer->fault;
    answer->was_cut = answer->options.is_constrained && job->result.choices[0].finish_reason == FINISH_LENGTH;
    *value = value_string(text_of(job));
    if (answer->was_cut)
        return refuse_cut(answer, fault);
    if (!answer->options.schema)
        return !answer->options.n_choices || is_choice(answer, text_of(job))
                   ? STATUS_OK
                   : error_set(fault, STATUS_REJECT, ERROR_INVALID_ENCODING, "the answer is no label");
    if (json_decode_answer(text_of(job), &answer->row_arena, value, fault) != STATUS_OK)
        return error_prefix(fault, "the answer is no JSON");
    if (!answer->has_whole && value->kind != VALUE_OBJECT)
        return error_set(fault, STATUS_REJECT, ERROR_INVALID_ENCODING,
                         "the answer is no JSON object: expected properties, got %s",
                         value_kind_name(value->kind));
    return STATUS_OK;
}

struct vote {
    const struct job *job; // NULL: it has no answer
    struct value value;
};

// The first of the most frequent answers; *n_equal: how many votes have it. NULL: there is none.
static const struct vote *choose_vote(const struct row_answer *answer, const struct vote *votes, int *n_equal)
{
    const struct vote *best = NULL;
    *n_equal = 0;
    for (int32_t i = 0; i < answer->options.n_votes; i++) {
        int n = 0;
        for (int32_t j = 0; votes[i].job && j < answer->options.n_votes; j++)
            n += votes[j].job && value_equal(&votes[i].value, &votes[j].value);
        if (n > *n_equal) {
            *n_equal = n;
            best = &votes[i];
        }
    }
    return best;
}

static void give_value(struct row_answer *answer, size_t column, const struct value *value)
{
    answer->fields[column] = *value;
    answer->is_given[column] = true;
}

static void take_value(struct row_answer *answer, const struct value *value)
{
    const struct schema_columns *properties = &answer->properties;
    if (answer->has_whole)
        give_value(answer, properties->n, value);
    for (size_t i = 0; value->kind == VALUE_OBJECT && i < value->object.n_members; i++)
        for (size_t j = 0; j < properties->n; j++)
            if (text_equal(value->object.members[i].key, properties->items[j].name))
                give_value(answer, j, &value->object.members[i].value);
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

// Of a row none of whose votes is an answer: of a text that is none, else of the first job.
static void take_failure(struct row_answer *answer, struct job *const *votes)
{
    const struct job *job = votes[0];
    struct value value;
    answer->failed = true;
    for (int32_t i = answer->options.n_votes; i-- > 0;)
        job = is_done(votes[i]) ? votes[i] : job;
    if (is_done(job))
        (void)read_answer(answer, job, &value); // fails as before: for was_cut and the fault
    const char *reason = job->result.status == RESULT_CANCELLED ? "cancelled" : "error";
    if (is_done(job))
        reason = finish_reason_name(job->result.choices[0].finish_reason);
    answer->fields[answer->columns.n - 2] = value_string(text_from_string(reason));
    answer->fields[answer->columns.n - 1] =
        value_string(text_from_string(is_done(job) ? answer->fault.text : job->result.error.text));
    if (answer->options.probabilities && is_done(job))
        take_probabilities(answer, job);
}

static void take_vote(struct row_answer *answer, const struct vote *vote, int n_equal)
{
    const struct row_answer_options *options = &answer->options;
    answer->was_cut = false; // as another vote was, perhaps
    answer->fields[answer->columns.n - 2] =
        value_string(text_from_string(finish_reason_name(vote->job->result.choices[0].finish_reason)));
    take_value(answer, &vote->value);
    if (options->probabilities)
        take_probabilities(answer, vote->job);
    if (options->n_votes > 1) {
        size_t column = answer->n_answers + (options->probabilities ? options->n_choices + 1 : 0);
        answer->fields[column] = value_float((double)n_equal / options->n_votes);
    }
}

void row_answer_take(struct row_answer *answer, struct job *const *votes)
{
    struct vote read[ROW_VOTES_MAX];
    int n_equal;
    arena_finish(&answer->row_arena);
    answer->failed = answer->was_cut = false;
    for (size_t i = 0; i < answer->columns.n; i++) {
        answer->fields[i] = (struct value){.kind = VALUE_NULL};
        answer->is_given[i] = i >= answer->n_answers;
    }
    if (answer->options.figures)
        take_figures(answer, votes);
    for (int32_t i = 0; i < answer->options.n_votes; i++) {
        bool is_answer = is_done(votes[i]) && read_answer(answer, votes[i], &read[i].value) == STATUS_OK;
        read[i].job = is_answer ? votes[i] : NULL;
    }
    const struct vote *best = choose_vote(answer, read, &n_equal);
    if (best)
        take_vote(answer, best, n_equal);
    else
        take_failure(answer, votes);
}

bool row_answer_choose_label(struct row_answer *answer, struct text property)
{
    answer->label_column = 0;
    for (size_t i = 0; i < answer->properties.n; i++)
        if (text_equal(answer->properties.items[i].name, property)) {
            answer->label_column = i;
            return true;
        }
    return false;
}

const struct value *row_answer_label(const struct row_answer *answer)
{
    size_t column = answer->label_column;
    return answer->is_given[column] ? &answer->fields[column] : NULL;
}
