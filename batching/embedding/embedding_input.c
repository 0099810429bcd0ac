#include "batching/embedding/embedding_input.h"

#include <stdio.h>
#include <string.h>

// ---- prompts ----

static bool find_prompt(const struct embedding_rules *rules, const char *name, struct text *prompt)
{
    const struct value *found = value_get(&rules->prompts, name);
    if (found && found->kind == VALUE_STRING)
        *prompt = found->text;
    return found && found->kind == VALUE_STRING;
}

static enum status refuse_prompt(const struct embedding_rules *rules, struct text name, struct error *error)
{
    char names[256] = "";
    const struct value *prompts = &rules->prompts;
    for (size_t i = 0; prompts->kind == VALUE_OBJECT && i < prompts->object.n_members; i++)
        snprintf(names + strlen(names), sizeof names - strlen(names), "%s%.*s", i ? ", " : "",
                 (int)(prompts->object.members[i].key.size < 64 ? prompts->object.members[i].key.size : 64),
                 prompts->object.members[i].key.data);
    return error_set(error, STATUS_REJECT, ERROR_INVALID_FIELD, "prompt_name: %s%s, got \"%.*s\"",
                     names[0] ? "expected one of the model's prompts " : "the model has no prompts", names,
                     (int)name.size, name.data);
}

enum status embedding_input_prompt(const struct embedding_rules *rules,
                                   const struct request_embedding *request, struct text *prompt,
                                   struct error *error)
{
    *prompt = rules->prompt;
    for (size_t i = 0; request->prompt_name.size && rules->prompts.kind == VALUE_OBJECT &&
                       i < rules->prompts.object.n_members;
         i++) {
        const struct value_member *member = &rules->prompts.object.members[i];
        if (member->value.kind == VALUE_STRING && text_equal(member->key, request->prompt_name)) {
            *prompt = member->value.text;
            return STATUS_OK;
        }
    }
    if (request->prompt_name.size)
        return refuse_prompt(rules, request->prompt_name, error);
    if (request->type == INPUT_QUERY)
        (void)find_prompt(rules, "query", prompt);
    if (request->type == INPUT_DOCUMENT)
        (void)(find_prompt(rules, "document", prompt) || find_prompt(rules, "passage", prompt) ||
               find_prompt(rules, "corpus", prompt));
    return STATUS_OK;
}

// ---- tokens ----

static int32_t limit_of(const struct embedding_rules *rules, const struct embedding_cut *cut)
{
    return cut->n_tokens > 0 && cut->n_tokens < rules->n_longest ? cut->n_tokens : rules->n_longest;
}

static enum status check_length(const struct embedding_rules *rules, size_t n_ids, struct error *error)
{
    if (n_ids == 0)
        return error_set(error, STATUS_REJECT, ERROR_EMPTY_PROMPT, "the text has no tokens");
    if (n_ids <= (size_t)rules->n_longest)
        return STATUS_OK;
    return error_set(error, STATUS_REJECT, ERROR_CONTEXT_LENGTH,
                     "the text has %zu tokens: expected at most %d, %s", n_ids, rules->n_longest,
                     rules->limited_by);
}

// The text with its prompt before it, in the buffer if there is a prompt.
static struct text join_prompt(struct text prompt, struct text text, struct buffer *joined)
{
    if (!prompt.size)
        return text;
    buffer_add_text(joined, prompt);
    buffer_add_text(joined, text);
    return (struct text){joined->data, joined->size};
}

enum status embedding_input_encode(const struct embedding_rules *rules, struct text prompt, struct text text,
                                   const struct embedding_cut *cut, struct token_array *ids, size_t *n_cut,
                                   struct error *error)
{
    struct buffer joined = {0};
    size_t n_before = ids->n_ids;
    struct tokenizer_input input = {.texts = {join_prompt(prompt, text, &joined)},
                                    .n_texts = 1,
                                    .n_tokens_max = cut->n_tokens ? (size_t)limit_of(rules, cut) : 0,
                                    .cuts_left = cut->is_left};
    unsigned flags = TOKENIZER_ADD_SPECIAL | TOKENIZER_PARSE_SPECIAL;
    *n_cut = 0;
    enum status status =
        joined.failed ? error_memory(error, STATUS_RETRY, "a text after its prompt")
                      : tokenizer_encode_input(rules->tokenizer, &input, flags, ids, NULL, n_cut, error);
    buffer_finish(&joined);
    return status == STATUS_OK ? check_length(rules, ids->n_ids - n_before, error) : status;
}

enum status embedding_input_copy(const struct embedding_rules *rules, const int32_t *tokens, int32_t n_tokens,
                                 const struct embedding_cut *cut, struct token_array *ids, size_t *n_cut,
                                 struct error *error)
{
    for (int32_t i = 0; i < n_tokens; i++)
        if (tokens[i] < 0 || tokens[i] >= rules->n_vocab)
            return error_set(error, STATUS_REJECT, ERROR_TOKEN_RANGE,
                             "token %d of the list: expected an id from 0 to %d, got %d", i,
                             rules->n_vocab - 1, tokens[i]);
    int32_t n_kept = cut->n_tokens && n_tokens > limit_of(rules, cut) ? limit_of(rules, cut) : n_tokens;
    *n_cut = (size_t)(n_tokens - n_kept);
    for (int32_t i = 0; i < n_kept && n_kept <= rules->n_longest; i++)
        token_array_add(ids, tokens[cut->is_left ? n_tokens - n_kept + i : i]);
    if (ids->failed)
        return error_memory(error, STATUS_RETRY, "the tokens of a text");
    return check_length(rules, (size_t)n_kept, error);
}
