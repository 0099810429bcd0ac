#include "batching/thinking.h"

#include <string.h>

static const struct thinking_format *format_of(const struct sequence *sequence)
{
    return sequence->prompt->rules.format.thinking;
}

bool thinking_has_budget(const struct sequence *sequence)
{
    return format_of(sequence) && sequence->prompt->job->request.sampling.thinking_token_budget >= 0;
}

void thinking_start(struct sequence *sequence)
{
    bool is_open = sequence->prompt->rules.thinking == THINKING_OPEN;
    sequence->thoughts.scan.place = is_open ? THOUGHT_OPEN : THOUGHT_BEFORE;
}

void thinking_note_token(struct sequence *sequence, int32_t token, const struct tokenizer *tokenizer)
{
    const struct prompt *prompt = sequence->prompt;
    struct thought_scan *scan = &sequence->thoughts.scan;
    if (!thinking_has_budget(sequence) || scan->place == THOUGHT_AFTER)
        return;
    bool has_calls = prompt->rules.format.tools && prompt->job->request.tools.choice != TOOLS_NONE;
    bool is_control = tokenizer_is_control(tokenizer, token);
    struct text name = tokenizer_token_text(tokenizer, token);
    struct buffer bytes = {0};
    if (!is_control)
        tokenizer_decode(tokenizer, token, false, &bytes);
    else if (answer_format_knows(&prompt->rules.format, has_calls, name))
        buffer_add_text(&bytes, name);
    if (bytes.size)
        thought_scan_token(scan, format_of(sequence), (struct text){bytes.data, bytes.size});
    else // the token spells nothing, but thoughts made of such tokens end too
        scan->n_tokens += scan->place == THOUGHT_OPEN;
    scan->text.failed |= bytes.failed;
    buffer_finish(&bytes);
}

bool thinking_is_spent(const struct sequence *sequence)
{
    const struct thought_scan *scan = &sequence->thoughts.scan;
    return thinking_has_budget(sequence) && thought_scan_may_close(scan) &&
           scan->n_tokens >= sequence->prompt->job->request.sampling.thinking_token_budget;
}

// Computes how much of the closing text the thought has already written. A mark that is a single token is
// never completed from partial text, because the model was not trained on such a spelling.
static enum status find_written(const struct sequence *sequence, const struct tokenizer *tokenizer,
                                struct text closing, size_t *size, struct error *error)
{
    struct text end = text_from_string(format_of(sequence)->end);
    struct token_array mark = {0};
    enum status status =
        tokenizer_encode(tokenizer, end, TOKENIZER_PARSE_SPECIAL | TOKENIZER_CONTINUES, &mark, error);
    const char *found = memmem(closing.data, closing.size, end.data, end.size);
    size_t size_max = (size_t)(found - closing.data) + end.size - 1;
    if (mark.n_ids == 1 || format_of(sequence)->farewell)
        size_max = strspn(closing.data, "\n");
    *size = thought_scan_written(&sequence->thoughts.scan, closing, size_max);
    if (status == STATUS_OK && mark.failed)
        status = error_memory(error, STATUS_RETRY, "closing a thought");
    token_array_finish(&mark);
    return status;
}

enum status thinking_closing(const struct sequence *sequence, const struct tokenizer *tokenizer,
                             struct token_array *tokens, struct error *error)
{
    const struct thinking_format *format = format_of(sequence);
    struct buffer text = {0};
    size_t n_written = 0;
    buffer_add_string(&text, format->farewell ? format->farewell : "");
    buffer_add_string(&text, format->closing);
    // With tools the model chooses between content and a call.
    if (format->answer_open && sequence->prompt->job->request.tools.choice == TOOLS_NONE)
        buffer_add_string(&text, format->answer_open);
    struct text closing = {text.data, text.size};
    enum status status =
        text.failed ? STATUS_RETRY : find_written(sequence, tokenizer, closing, &n_written, error);
    if (status == STATUS_OK)
        status =
            tokenizer_encode(tokenizer, (struct text){closing.data + n_written, closing.size - n_written},
                             TOKENIZER_PARSE_SPECIAL | TOKENIZER_CONTINUES, tokens, error);
    if (status == STATUS_OK ? tokens->failed : text.failed)
        status = error_memory(error, STATUS_RETRY, "closing a thought");
    buffer_finish(&text);
    return status;
}
