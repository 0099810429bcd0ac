#include "consumer/annotate/row_scores.h"

#include <math.h>

void row_scores_close(struct row_scores *scores)
{
    arena_finish(&scores->arena);
    *scores = (struct row_scores){0};
}

// ---- a row's job ----

bool row_scores_text(const struct value *field, struct buffer *text)
{
    bool is_text = field->kind == VALUE_STRING;
    if (field->kind == VALUE_BYTES || (is_text && !utf8_valid(field->text.data, field->text.size)))
        return false;
    if (is_text)
        buffer_add_text(text, field->text);
    else if (field->kind != VALUE_NULL)
        json_encode(field, text);
    return true;
}

void row_scores_begin(enum task task, const struct text *texts, struct buffer *record)
{
    if (task == TASK_RERANK) {
        buffer_add_string(record, "{\"text_1\":");
        json_encode_string(texts[0], record);
        buffer_add_string(record, ",\"text_2\":");
        json_encode_string(texts[1], record);
        return;
    }
    buffer_add_string(record, "{\"task\":\"classify\",\"input\":");
    json_encode_string(texts[0], record);
}

// ---- its answer ----

static enum status refuse_result(struct job *job, const char *what, size_t expected, size_t got)
{
    struct error error;
    (void)error_set(&error, STATUS_REJECT, ERROR_INVALID_FIELD, "the result: expected %zu %s, got %zu",
                    expected, what, got);
    job_fail(job, &error);
    return STATUS_OK;
}

// The label is the text, and the labels' probabilities are as of choice_logprobs.
static bool take_class(const struct row_scores *scores, struct job *job, const struct value *item,
                       struct choice *choice)
{
    const struct value *label = value_get(item, "label"), *numbers = value_get(item, "probs");
    numbers = numbers ? numbers : value_get(item, "logits");
    size_t n = numbers && numbers->kind == VALUE_ARRAY ? numbers->array.n_items : 0;
    struct choice_logprob *logprobs = arena_allocate_array(&job->arena, n ? n : 1, sizeof *logprobs);
    if (!logprobs)
        return false;
    if (!label || label->kind != VALUE_STRING || n != scores->n_labels)
        return refuse_result(job, "labels", scores->n_labels, n) == STATUS_OK;
    for (size_t i = 0; i < n; i++) {
        const struct value *number = &numbers->array.items[i];
        double probability = number->kind == VALUE_FLOAT ? number->number : (double)number->integer;
        logprobs[i] = (struct choice_logprob){scores->labels[i], log(probability), (float)probability};
    }
    choice->text = label->text;
    job->result.choice_logprobs = logprobs;
    job->result.n_choice_logprobs = (int32_t)n;
    return true;
}

static bool take_score(struct job *job, const struct value *item, struct choice *choice)
{
    const struct value *score = value_get(item, "score");
    struct buffer text = {0};
    if (!score || (score->kind != VALUE_FLOAT && score->kind != VALUE_INTEGER))
        return refuse_result(job, "score", 1, 0) == STATUS_OK;
    buffer_add_string(&text, "{\"score\":");
    json_encode(score, &text);
    buffer_add_byte(&text, '}');
    bool is_taken = !text.failed && job_set_text(job, &choice->text, (struct text){text.data, text.size});
    buffer_finish(&text);
    return is_taken;
}

enum status row_scores_answer(const struct row_scores *scores, struct job *job, struct error *error)
{
    const struct value *items = &job->result.rankings.items;
    if (scores->task == TASK_GENERATE || job->result.status != RESULT_DONE)
        return STATUS_OK;
    if (job->request.task != scores->task || items->kind != VALUE_ARRAY || items->array.n_items != 1)
        return refuse_result(job, "score", 1, items->kind == VALUE_ARRAY ? items->array.n_items : 0);
    struct choice *choice = arena_allocate(&job->arena, sizeof *choice);
    if (!choice)
        return error_memory(error, STATUS_REFUSE, "the scores of a row");
    *choice = (struct choice){.finish_reason = FINISH_STOP};
    bool is_taken = scores->task == TASK_RERANK ? take_score(job, &items->array.items[0], choice)
                                                : take_class(scores, job, &items->array.items[0], choice);
    if (!is_taken)
        return error_memory(error, STATUS_REFUSE, "the scores of a row");
    if (job->result.status == RESULT_DONE) {
        job->result.choices = choice;
        job->result.n_choices = 1;
    }
    return STATUS_OK;
}
