#include "consumer/annotate/row_answer.h"

#include "consumer/annotate/row_logprobs.h"
#include "schemas/json_answer.h"

#include <math.h>
#include <string.h>

enum { COLUMNS_BESIDE = 5 }; // whole answer, agreement, margin, logprobs, thoughts

enum status row_answer_refuse_column(struct text column, struct error *error)
{
    return error_set(error, STATUS_REFUSE, ERROR_USAGE,
                     "the table has a column \"%.*s\" already: give the answers' columns another name with "
                     "--prefix, as --prefix model_",
                     (int)column.size, column.data);
}

// name: of a column of an unnamed question, or what follows the question's name and "_".
static enum status add_column(struct row_answer *answer, struct text name, const struct table_columns *input,
                              struct error *error)
{
    struct buffer whole = {0};
    const char *prefix = answer->options.prefix;
    buffer_add_string(&whole, prefix ? prefix : "");
    buffer_add_text(&whole, answer->options.name);
    if (answer->options.name.size && name.size)
        buffer_add_byte(&whole, '_');
    buffer_add_text(&whole, name);
    struct text column = {whole.failed ? NULL : arena_copy(&answer->arena, whole.data, whole.size),
                          whole.size};
    buffer_finish(&whole);
    if (!column.data)
        return error_memory(error, STATUS_REFUSE, "the answers' columns");
    if (table_columns_find(input, column) < input->n)
        return row_answer_refuse_column(column, error);
    if (table_columns_find(&answer->columns, column) < answer->columns.n)
        return error_set(error, STATUS_REFUSE, ERROR_USAGE, "the answers have two columns \"%.*s\"",
                         (int)column.size, column.data);
    answer->columns.names[answer->columns.n++] = column;
    return STATUS_OK;
}

// With properties: one column for each property that is voted on. Otherwise: one column.
static enum status add_agreements(struct row_answer *answer, const struct table_columns *input,
                                  struct error *error)
{
    answer->agreement_column = answer->columns.n;
    if (answer->options.n_votes <= 1)
        return STATUS_OK;
    if (!answer->properties.n)
        return add_column(answer, TEXT("agreement"), input, error);
    enum status status = STATUS_OK;
    for (size_t i = 0; i < answer->properties.n && status == STATUS_OK; i++) {
        struct buffer name = {0};
        if (answer->vote_rules[i].kind == VOTE_NONE)
            continue;
        buffer_add_string(&name, "agreement_");
        buffer_add_text(&name, answer->properties.items[i].name);
        status = name.failed ? error_memory(error, STATUS_REFUSE, "the answers' columns")
                             : add_column(answer, (struct text){name.data, name.size}, input, error);
        buffer_finish(&name);
        answer->n_voted++;
    }
    return status;
}

static enum status add_scored(struct row_answer *answer, const struct property_choices_list *scored,
                              const struct table_columns *input, struct error *error)
{
    enum status status = STATUS_OK;
    for (size_t i = 0; i < scored->n && status == STATUS_OK; i++) {
        for (size_t j = 0; j < scored->items[i].n && status == STATUS_OK; j++)
            status = add_column(answer, scored->items[i].columns[j], input, error);
        if (status == STATUS_OK)
            status = add_column(answer, scored->items[i].margin, input, error);
    }
    return status;
}

static enum status add_answers(struct row_answer *answer, const struct table_columns *input,
                               struct error *error)
{
    enum status status = STATUS_OK;
    const struct schema_columns *properties = &answer->properties;
    const struct enum_choices *values = answer->options.enum_choices;
    struct text whole = answer->options.n_choices && !values ? TEXT("label") : TEXT("answer");
    for (size_t i = 0; i < properties->n && status == STATUS_OK; i++) {
        struct text name = properties->items[i].name;
        status = add_column(answer, name, input, error);
        if (text_equal(name, whole))
            whole = TEXT("answer_json");
    }
    if (answer->options.name.size)
        whole = (struct text){0};
    answer->has_whole = !(properties->n && properties->is_object && properties->is_complete);
    if (answer->has_whole && status == STATUS_OK)
        status = add_column(answer, whole, input, error);
    answer->n_answers = answer->columns.n;
    for (size_t i = 0; answer->options.probabilities && i < answer->options.n_choices && status == STATUS_OK;
         i++)
        status = add_column(answer, values ? values->columns[i] : answer->options.choices[i], input, error);
    if (answer->options.probabilities && status == STATUS_OK)
        status = add_column(answer, values ? values->margin : TEXT("margin"), input, error);
    answer->scored_column = answer->columns.n;
    if (status == STATUS_OK && answer->options.scored)
        status = add_scored(answer, answer->options.scored, input, error);
    if (status == STATUS_OK)
        status = add_agreements(answer, input, error);
    answer->logprobs_column = answer->columns.n;
    return status == STATUS_OK && answer->options.logprobs
               ? add_column(answer, TEXT("logprobs"), input, error)
               : status;
}

// Finds the labels of each column of the answer.
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
        else if (i < n_properties || !n_properties) // no labels for a whole answer beside its properties
            is_found = label_set_of_schema(set, &answer->arena, schema,
                                           n_properties ? answer->properties.items[i].schema : schema);
    }
    return is_found ? STATUS_OK : error_memory(error, STATUS_REFUSE, "the answers' columns");
}

static enum status find_properties(struct row_answer *answer, struct error *error)
{
    const struct value *schema = answer->options.schema;
    size_t n = 0;
    if (schema && !schema_columns_find(schema, &answer->arena, &answer->properties))
        return error_memory(error, STATUS_REFUSE, "the answers' columns");
    n = answer->properties.n;
    answer->vote_rules = arena_allocate_array(&answer->arena, n ? n : 1, sizeof *answer->vote_rules);
    for (size_t i = 0; answer->vote_rules && i < n; i++)
        answer->vote_rules[i] = vote_rule_of(schema, answer->properties.items[i].schema);
    return answer->vote_rules ? STATUS_OK : error_memory(error, STATUS_REFUSE, "the answers' columns");
}

enum status row_answer_open(struct row_answer *answer, const struct row_answer_options *options,
                            const struct table_columns *input, struct error *error)
{
    *answer = (struct row_answer){.options = *options};
    enum status status = find_properties(answer, error);
    size_t n = 2 * answer->properties.n + options->n_choices +
               (options->scored ? options->scored->n_columns : 0) + COLUMNS_BESIDE;
    answer->columns.names = arena_allocate_array(&answer->arena, n, sizeof *answer->columns.names);
    answer->fields = arena_allocate_array(&answer->arena, n, sizeof *answer->fields);
    answer->is_given = arena_allocate_array(&answer->arena, n, sizeof *answer->is_given);
    if (status == STATUS_OK && (!answer->columns.names || !answer->fields || !answer->is_given))
        status = error_memory(error, STATUS_REFUSE, "the answers' columns");
    if (status == STATUS_OK)
        status = add_answers(answer, input, error);
    if (status == STATUS_OK)
        status = find_labels(answer, error);
    answer->thoughts_column = answer->columns.n;
    if (status == STATUS_OK && options->thoughts)
        status = add_column(answer, text_from_string(options->thoughts), input, error);
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

static enum status refuse_cut(const struct row_answer *answer, bool is_thought, struct error *fault)
{
    if (is_thought)
        return error_set(fault, STATUS_REJECT, ERROR_LIMIT_EXCEEDED,
                         "the answer ended in its thoughts: raise --max-tokens, or limit the thoughts with "
                         "--thinking-token-budget");
    const char *what = answer->options.schema ? "JSON" : answer->options.n_choices ? "label" : "constraint";
    return error_set(fault, STATUS_REJECT, ERROR_LIMIT_EXCEEDED,
                     "the answer ended before its %s did: raise --max-tokens", what);
}

// Reads the value of a finished job: the decoded JSON if there is a schema, otherwise the text.
// STATUS_REJECT: the text is not a valid answer; answer->fault says why. A constrained text that max_tokens
// ended is invalid even if it satisfies the constraint: the model would have continued. So is any text that
// ended in its thoughts.
static enum status read_answer(struct row_answer *answer, const struct job *job, struct value *value)
{
    struct error *fault = &answer->fault;
    bool is_thought = job->result.choices[0].reasoning.data && text_of(job).size == 0;
    answer->was_cut = job->result.choices[0].finish_reason == FINISH_LENGTH &&
                      (answer->options.is_constrained || is_thought);
    *value = value_string(text_of(job));
    if (answer->was_cut)
        return refuse_cut(answer, is_thought, fault);
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
    const struct job *job; // NULL: not a valid answer
    struct value value;
};

// The most frequent answer; on a tie, the first. *n_equal: number of votes with this answer. NULL: no valid
// answer.
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

// Fills in the probability of each choice, from `column` on, and the margin between the two most probable ones.
static void take_choices(struct row_answer *answer, const struct result *result, const struct text *choices,
                         size_t n, size_t column)
{
    float first = 0, second = 0;
    bool is_scored = false;
    for (int32_t i = 0; i < result->n_choice_logprobs; i++) {
        float probability = result->choice_logprobs[i].probability;
        size_t j = 0;
        while (j < n && !text_equal(result->choice_logprobs[i].choice, choices[j]))
            j++;
        if (j == n)
            continue; // of another property
        is_scored = true;
        answer->fields[column + j] = value_single(probability);
        if (probability > first) {
            second = first;
            first = probability;
        } else if (probability > second) {
            second = probability;
        }
    }
    if (is_scored)
        answer->fields[column + n] = value_single(first - second);
}

// The row's label is the result's own text: the most probable label, or the winner of a vote.
static void take_probabilities(struct row_answer *answer, const struct job *job)
{
    const struct row_answer_options *options = &answer->options;
    size_t column = answer->scored_column;
    if (options->probabilities)
        take_choices(answer, &job->result, options->choices, options->n_choices, answer->n_answers);
    for (size_t i = 0; options->scored && i < options->scored->n; i++) {
        const struct property_choices *property = &options->scored->items[i];
        take_choices(answer, &job->result, property->choices, property->n, column);
        column += property->n + 1;
    }
}

static void take_figures(struct row_answer *answer, struct job *const *votes)
{
    memset(answer->figures, 0, sizeof answer->figures);
    for (int32_t i = 0; i < answer->options.n_votes; i++) {
        answer->figures[0] += votes[i]->result.prompt_tokens;
        answer->figures[1] += votes[i]->result.completion_tokens;
        answer->figures[2] += votes[i]->result.reasoning_tokens;
    }
}

// The thoughts of a finished job. A job without thoughts leaves the field empty.
static void take_thoughts(struct row_answer *answer, const struct job *job)
{
    struct text thoughts = job->result.choices[0].reasoning;
    if (answer->options.thoughts && thoughts.data)
        answer->fields[answer->thoughts_column] = value_string(thoughts);
}

// Error of a row without a valid vote: why the text of its first finished job is invalid; if no job finished,
// the first job's error.
static void take_failure(struct row_answer *answer, struct job *const *votes)
{
    const struct job *job = votes[0];
    struct value value;
    answer->failed = true;
    for (int32_t i = answer->options.n_votes; i-- > 0;)
        job = is_done(votes[i]) ? votes[i] : job;
    if (is_done(job))
        (void)read_answer(answer, job, &value); // fails again, and sets was_cut and fault
    const char *reason = job->result.status == RESULT_CANCELLED ? "cancelled" : "error";
    if (is_done(job))
        reason = finish_reason_name(job->result.choices[0].finish_reason);
    answer->finish_reason = text_from_string(reason);
    answer->failure = text_from_string(is_done(job) ? answer->fault.text : job->result.error.text);
    if (is_done(job))
        take_probabilities(answer, job);
    if (is_done(job))
        take_thoughts(answer, job);
}

// False: out of memory.
static bool take_vote(struct row_answer *answer, const struct vote *vote)
{
    answer->was_cut = false; // an earlier vote may have set it
    answer->is_limited = vote->job->result.choices[0].finish_reason == FINISH_LENGTH;
    answer->finish_reason = text_from_string(finish_reason_name(vote->job->result.choices[0].finish_reason));
    take_value(answer, &vote->value);
    take_thoughts(answer, vote->job);
    take_probabilities(answer, vote->job);
    return !answer->options.logprobs || row_logprobs(&vote->job->result.choices[0], &answer->row_arena,
                                                     &answer->fields[answer->logprobs_column]);
}

// ---- votes on single properties ----

struct ballot {
    const struct vote *draws[ROW_VOTES_MAX]; // [n]: votes that are valid answers
    size_t n;
    size_t n_agreeing[ROW_VOTES_MAX]; // [n]: properties in which the draw agrees with the winner
};

// The last member of that name counts, as in take_value.
static const struct value *find_property(const struct vote *vote, struct text name)
{
    const struct value *found = NULL;
    for (size_t i = 0; vote->value.kind == VALUE_OBJECT && i < vote->value.object.n_members; i++)
        if (text_equal(vote->value.object.members[i].key, name))
            found = &vote->value.object.members[i].value;
    return found;
}

static bool count_property(struct row_answer *answer, size_t property, struct ballot *ballot,
                           struct vote_outcome *outcome)
{
    const struct value *values[ROW_VOTES_MAX];
    const struct vote_rule *rule = &answer->vote_rules[property];
    for (size_t i = 0; i < ballot->n; i++)
        values[i] = find_property(ballot->draws[i], answer->properties.items[property].name);
    if (!vote_count(rule, values, ballot->n, &answer->row_arena, outcome))
        return false;
    for (size_t i = 0; i < ballot->n; i++)
        ballot->n_agreeing[i] += vote_agrees(rule, values[i], outcome->winner);
    return true;
}

// The draw that agrees with the winners in most properties; on a tie, the first. It gives the properties that
// are not voted on, the whole answer and the finish reason.
static const struct vote *choose_draw(const struct ballot *ballot)
{
    size_t best = 0;
    for (size_t i = 1; i < ballot->n; i++)
        if (ballot->n_agreeing[i] > ballot->n_agreeing[best])
            best = i;
    return ballot->draws[best];
}

static bool take_properties(struct row_answer *answer, struct ballot *ballot)
{
    size_t n = answer->properties.n, column = answer->agreement_column;
    struct vote_outcome *outcomes = arena_allocate_array(&answer->row_arena, n, sizeof *outcomes);
    if (!outcomes)
        return false;
    for (size_t i = 0; i < n; i++)
        if (answer->vote_rules[i].kind != VOTE_NONE && !count_property(answer, i, ballot, &outcomes[i]))
            return false;
    if (!take_vote(answer, choose_draw(ballot)))
        return false;
    for (size_t i = 0; i < n; i++) {
        if (answer->vote_rules[i].kind == VOTE_NONE)
            continue;
        const struct value *winner = outcomes[i].winner;
        answer->fields[i] = winner ? *winner : (struct value){.kind = VALUE_NULL};
        answer->is_given[i] = winner != NULL;
        answer->fields[column++] = value_float((double)outcomes[i].n_agreeing / answer->options.n_votes);
    }
    return true;
}

// False: out of memory.
static bool take_votes(struct row_answer *answer, const struct vote *votes)
{
    struct ballot ballot = {.n = 0};
    int n_equal;
    for (int32_t i = 0; i < answer->options.n_votes; i++)
        if (votes[i].job)
            ballot.draws[ballot.n++] = &votes[i];
    if (answer->n_voted)
        return take_properties(answer, &ballot);
    bool is_taken = take_vote(answer, choose_vote(answer, votes, &n_equal));
    if (answer->options.n_votes > 1 && !answer->properties.n)
        answer->fields[answer->agreement_column] = value_float((double)n_equal / answer->options.n_votes);
    return is_taken;
}

enum status row_answer_take(struct row_answer *answer, struct job *const *votes, struct error *error)
{
    struct vote read[ROW_VOTES_MAX];
    bool is_answered = false;
    arena_finish(&answer->row_arena);
    answer->failed = answer->was_cut = answer->is_limited = false;
    for (size_t i = 0; i < answer->columns.n; i++) {
        answer->fields[i] = (struct value){.kind = VALUE_NULL};
        answer->is_given[i] = i >= answer->n_answers;
    }
    answer->failure = (struct text){0};
    take_figures(answer, votes);
    for (int32_t i = 0; i < answer->options.n_votes; i++) {
        bool is_answer = is_done(votes[i]) && read_answer(answer, votes[i], &read[i].value) == STATUS_OK;
        read[i].job = is_answer ? votes[i] : NULL;
        is_answered |= is_answer;
    }
    if (!is_answered)
        take_failure(answer, votes);
    else if (!take_votes(answer, read))
        return error_memory(error, STATUS_REFUSE, "the answers' columns");
    return STATUS_OK;
}

bool row_answer_find_label(const struct row_answer *answer, struct text property, size_t *found)
{
    struct text prefix = text_from_string(answer->options.prefix ? answer->options.prefix : "");
    *found = 0;
    for (size_t i = 0; i < answer->n_answers; i++) {
        struct text column = answer->columns.names[i];
        struct text bare = {column.data + prefix.size, column.size - prefix.size};
        bool is_property = i < answer->properties.n && !answer->options.name.size;
        if (is_property ? text_equal(answer->properties.items[i].name, property)
                        : answer->options.name.size && text_equal(bare, property)) {
            *found = i;
            return true;
        }
    }
    return false;
}

const struct value *row_answer_label(const struct row_answer *answer, size_t column)
{
    return answer->is_given[column] ? &answer->fields[column] : NULL;
}

// The probability of `value`, which is one of the n labels; their fields begin at `column`. NAN: unknown.
static double find_probability(const struct row_answer *answer, const struct value *value,
                               const struct text *labels, size_t n, size_t column)
{
    struct buffer json = {0};
    double found = NAN;
    if (value->kind != VALUE_STRING)
        json_encode(value, &json);
    struct text text = value->kind == VALUE_STRING ? value->text : (struct text){json.data, json.size};
    for (size_t i = 0; i < n; i++)
        if (text_equal(text, labels[i]) && answer->fields[column + i].kind == VALUE_FLOAT)
            found = answer->fields[column + i].number;
    buffer_finish(&json);
    return found;
}

double row_answer_probability(const struct row_answer *answer, size_t column)
{
    const struct row_answer_options *options = &answer->options;
    const struct text *labels = options->enum_choices ? options->enum_choices->labels : options->choices;
    size_t at = answer->scored_column;
    if (options->probabilities && column == 0)
        return find_probability(answer, &answer->fields[0], labels, options->n_choices, answer->n_answers);
    for (size_t i = 0; options->scored && column < answer->properties.n && i < options->scored->n; i++) {
        const struct property_choices *property = &options->scored->items[i];
        if (text_equal(property->name, answer->properties.items[column].name))
            return find_probability(answer, &answer->fields[column], property->labels, property->n, at);
        at += property->n + 1;
    }
    return NAN;
}
