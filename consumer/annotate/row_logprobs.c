#include "consumer/annotate/row_logprobs.h"

static bool make_token(struct text bytes, float logprob, struct arena *arena, struct value *token)
{
    if (!value_object_create(arena, 3, token))
        return false;
    value_put(token, "token", value_string(bytes));
    value_put(token, "logprob", value_single(logprob));
    return true;
}

static bool make_entry(const struct logprob_entry *entry, struct arena *arena, struct value *token)
{
    struct value top;
    if (!make_token(entry->chosen_bytes, entry->chosen.logprob, arena, token))
        return false;
    if (!entry->n_top)
        return true;
    if (!value_array_create(arena, (size_t)entry->n_top, &top))
        return false;
    for (int32_t i = 0; i < entry->n_top; i++)
        if (!make_token(entry->top_bytes[i], entry->top[i].logprob, arena, &top.array.items[i]))
            return false;
    value_put(token, "top_logprobs", top);
    return true;
}

bool row_logprobs(const struct choice *choice, struct arena *arena, struct value *logprobs)
{
    *logprobs = (struct value){.kind = VALUE_NULL};
    if (!choice->logprobs)
        return true;
    if (!value_array_create(arena, (size_t)choice->n_tokens, logprobs))
        return false;
    for (int32_t i = 0; i < choice->n_tokens; i++)
        if (!make_entry(&choice->logprobs[choice->n_echoed + i], arena, &logprobs->array.items[i]))
            return false;
    return true;
}
