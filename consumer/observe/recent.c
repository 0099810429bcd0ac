#include "consumer/observe/recent.h"

#include <stdio.h>

void recent_count(struct recent *recent, int64_t second, int64_t n_jobs, int64_t n_tokens)
{
    size_t slot = (size_t)(second % (RECENT_S + 1));
    if (!recent->has_begun)
        recent->begun_second = second;
    recent->has_begun = true;
    if (recent->seconds[slot].second != second) {
        recent->seconds[slot].second = second;
        recent->seconds[slot].n_jobs = recent->seconds[slot].n_tokens = 0;
    }
    recent->seconds[slot].n_jobs += n_jobs;
    recent->seconds[slot].n_tokens += n_tokens;
}

void recent_rates(const struct recent *recent, int64_t second, double *jobs, double *tokens)
{
    int64_t n_jobs = 0, n_tokens = 0, n_seconds = second - recent->begun_second - 1;
    n_seconds = n_seconds < RECENT_S ? n_seconds : RECENT_S;
    for (size_t i = 0; i <= RECENT_S; i++) {
        int64_t age_s = second - recent->seconds[i].second;
        if (age_s < 1 || age_s > n_seconds)
            continue;
        n_jobs += recent->seconds[i].n_jobs;
        n_tokens += recent->seconds[i].n_tokens;
    }
    *jobs = n_seconds > 0 ? (double)n_jobs / (double)n_seconds : 0;
    *tokens = n_seconds > 0 ? (double)n_tokens / (double)n_seconds : 0;
}

void recent_copy_text(char *to, size_t size, struct text text)
{
    size_t n = text.size < size - 1 ? text.size : size - 1;
    while (n && n < text.size && ((unsigned char)text.data[n] & 0xc0) == 0x80)
        n--;
    if (n)
        memcpy(to, text.data, n);
    to[n] = '\0';
}

static struct text prompt_of(const struct request *request)
{
    const struct value *messages = &request->prompt.messages;
    if (request->prompt.kind != PROMPT_MESSAGES)
        return request->prompt.text;
    if (messages->kind != VALUE_ARRAY || messages->array.n_items == 0)
        return (struct text){0};
    const struct value *content = value_get(&messages->array.items[messages->array.n_items - 1], "content");
    return content && content->kind == VALUE_STRING ? content->text : (struct text){0};
}

void recent_add(struct recent *recent, const struct job *job)
{
    bool is_done = job->result.status == RESULT_DONE;
    struct recent_job *kept = is_done ? &recent->answers[recent->n_answers++ % RECENT_ANSWERS]
                                      : &recent->errors[recent->n_errors++ % RECENT_ERRORS];
    kept->code = job->result.error.code;
    kept->index = job->index;
    kept->prompt[0] = kept->text[0] = '\0';
    recent_copy_text(kept->dataset, sizeof kept->dataset, job->dataset);
    recent_copy_text(kept->custom_id, sizeof kept->custom_id, job->custom_id);
    if (!recent->keeps_content)
        return;
    recent_copy_text(kept->prompt, sizeof kept->prompt, prompt_of(&job->request));
    if (!is_done)
        recent_copy_text(kept->text, sizeof kept->text, text_from_string(job->result.error.text));
    else if (job->result.n_choices > 0)
        recent_copy_text(kept->text, sizeof kept->text, job->result.choices[0].text);
}
