// Encodes the inputs of encoder models: one text or a pair, with the tokens around them and the types of
// tokens.
#include "engine/tokenizer/tokenizer_parts.h"

#include <assert.h>

// --- Templates ---

size_t tokenizer_n_added(const struct tokenizer *tokenizer, size_t n_texts)
{
    assert(n_texts == 1 || n_texts == 2);
    return tokenizer->templates[n_texts - 1].n_items - n_texts;
}

int32_t tokenizer_type_max(const struct tokenizer *tokenizer)
{
    int32_t most = 0;
    for (size_t t = 0; t < 2; t++)
        for (size_t i = 0; i < tokenizer->templates[t].n_items; i++)
            if (tokenizer->templates[t].items[i].type > most)
                most = tokenizer->templates[t].items[i].type;
    return most;
}

// --- Inputs ---

// Cuts n[0] + n[1] tokens to n_max (truncate_encodings of github.com/huggingface/tokenizers,
// src/utils/truncation.rs): first cuts the longer text to the length of the shorter one, then both to half of
// n_max.
static void cut_pair(size_t n[2], size_t n_max)
{
    if (n[0] + n[1] <= n_max)
        return;
    size_t shorter = n[1] < n[0];
    if (n[shorter] <= n_max / 2) {
        n[!shorter] = n_max - n[shorter];
    } else {
        n[shorter] = n_max / 2;
        n[!shorter] = n_max - n_max / 2;
    }
}

static void add_tokens(const struct template_item *item, const int32_t *from, size_t n,
                       struct token_array *ids, struct token_array *types)
{
    for (size_t i = 0; i < n; i++) {
        token_array_add(ids, from[i]);
        if (types)
            token_array_add(types, item->type);
    }
}

// Takes n[i] tokens of each text: the first ones, or the last ones if the start is cut.
static void assemble(const struct token_template *template, const struct token_array texts[2],
                     const size_t n[2], bool cuts_left, bool special, struct token_array *ids,
                     struct token_array *types)
{
    for (size_t i = 0; i < template->n_items; i++) {
        const struct template_item *item = &template->items[i];
        const struct token_array *text = item->text >= 0 ? &texts[item->text] : NULL;
        size_t n_kept = text ? n[item->text] : 0;
        if (n_kept)
            add_tokens(item, text->ids + (cuts_left ? text->n_ids - n_kept : 0), n_kept, ids, types);
        else if (special && !text)
            add_tokens(item, &item->token, 1, ids, types);
    }
}

enum status tokenizer_encode_input(const struct tokenizer *tokenizer, const struct tokenizer_input *input,
                                   unsigned flags, struct token_array *ids, struct token_array *types,
                                   size_t *n_cut, struct error *error)
{
    size_t n_added = flags & TOKENIZER_ADD_SPECIAL ? tokenizer_n_added(tokenizer, input->n_texts) : 0;
    if (input->n_tokens_max && input->n_tokens_max < n_added)
        return error_set(error, STATUS_REJECT, ERROR_LIMIT_EXCEEDED,
                         "a limit of %zu tokens is below the %zu tokens added to a text", input->n_tokens_max,
                         n_added);
    struct token_array texts[2] = {{0}};
    enum status status = STATUS_OK;
    for (size_t i = 0; i < input->n_texts && status == STATUS_OK; i++)
        status = tokenizer_encode(tokenizer, input->texts[i], flags & ~(unsigned)TOKENIZER_ADD_SPECIAL,
                                  &texts[i], error);
    size_t n[2] = {texts[0].n_ids, texts[1].n_ids};
    if (input->n_tokens_max)
        cut_pair(n, input->n_tokens_max - n_added);
    if (n_cut)
        *n_cut = texts[0].n_ids + texts[1].n_ids - n[0] - n[1];
    if (status == STATUS_OK)
        assemble(&tokenizer->templates[input->n_texts - 1], texts, n, input->cuts_left,
                 flags & TOKENIZER_ADD_SPECIAL, ids, types);
    token_array_finish(&texts[0]);
    token_array_finish(&texts[1]);
    if (status == STATUS_OK && (ids->failed || (types && types->failed)))
        status = error_memory(error, STATUS_RETRY, "the tokens of a text");
    return status;
}

// --- Description ---

void tokenizer_describe_input(const struct tokenizer *tokenizer, size_t n_texts, struct buffer *out)
{
    const struct token_template *template = &tokenizer->templates[n_texts - 1];
    for (size_t i = 0; i < template->n_items; i++) {
        const struct template_item *item = &template->items[i];
        buffer_add_string(out, i ? " " : "");
        if (item->text >= 0)
            buffer_add_string(out, item->text ? "B" : "A");
        else
            buffer_add_text(out, tokenizer->texts[item->token]);
        if (item->type)
            buffer_add_format(out, ":%d", item->type);
    }
}

void tokenizer_describe_case(const struct tokenizer *tokenizer, struct buffer *out)
{
    for (size_t i = 0; i < tokenizer->normalizer.n_steps; i++) {
        const struct normalizer_step *step = &tokenizer->normalizer.steps[i];
        if (step->kind != NORMALIZE_BERT)
            continue;
        buffer_add_string(out, step->options & BERT_LOWERCASE ? "uncased" : "cased");
        buffer_add_string(out, step->options & BERT_ACCENTS ? ", accents stripped" : ", accents kept");
        buffer_add_string(out, tokenizer->rules.assumes_case ? " (assumed: the file does not say)" : "");
        return;
    }
}
