#include "batching/embedding/classifier_input.h"

#include <string.h>
#include <strings.h>

// --- Templates ---

// github.com/QwenLM/Qwen3-Embedding, README: Qwen3-Reranker.
#define INSTRUCT "Given a web search query, retrieve relevant passages that answer the query"
static const char qwen_template[] =
    "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct "
    "provided. Note that the answer can only be \"yes\" or \"no\".<|im_end|>\n<|im_start|>user\n<Instruct>: " INSTRUCT
    "\n<Query>: {query}\n<Document>: {document}<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n";

// The parts of a template that are replaced.
enum place { PLACE_QUERY, PLACE_DOCUMENT, PLACE_INSTRUCT, PLACE_COUNT };
static const char *const places[PLACE_COUNT] = {"{query}", "{document}", INSTRUCT};

static bool has_place(struct text template, enum place place)
{
    return template.size && memmem(template.data, template.size, places[place], strlen(places[place]));
}

// The place that begins at the template's first byte; PLACE_COUNT: none.
static enum place place_at(struct text template)
{
    for (int place = 0; place < PLACE_COUNT; place++) {
        size_t size = strlen(places[place]);
        if (template.size >= size && memcmp(template.data, places[place], size) == 0)
            return (enum place)place;
    }
    return PLACE_COUNT;
}

// Appends the template up to the end or, with *split, to the end of the document; *split is what follows. The filled
// places are plain text: a control token in them is text.
static void fill(struct text template, const struct text filled[PLACE_COUNT], struct buffer *out,
                 struct text_spans *plain, struct text *split)
{
    while (template.size) {
        enum place place = place_at(template);
        size_t size = place == PLACE_COUNT ? 1 : strlen(places[place]), start = out->size;
        bool keeps = place == PLACE_COUNT || (place == PLACE_INSTRUCT && !filled[place].size);
        buffer_add_text(out, keeps ? (struct text){template.data, size} : filled[place]);
        if (place != PLACE_COUNT && out->size > start)
            text_spans_add(plain, start, out->size);
        template = (struct text){template.data + size, template.size - size};
        if (place == PLACE_DOCUMENT && split) {
            *split = template;
            return;
        }
    }
}

static enum status encode_filled(const struct tokenizer *tokenizer, struct text template,
                                 const struct text filled[PLACE_COUNT], struct text *split,
                                 struct token_array *ids, struct error *error)
{
    struct buffer text = {0};
    struct text_spans plain = {0};
    fill(template, filled, &text, &plain, split);
    enum status status = text.failed || plain.failed
                             ? error_memory(error, STATUS_RETRY, "a pair")
                             : tokenizer_encode_around(tokenizer, (struct text){text.data, text.size}, &plain,
                                                       TOKENIZER_PARSE_SPECIAL, ids, error);
    buffer_finish(&text);
    text_spans_finish(&plain);
    return status;
}

// Cuts the document's end: the tokens before the template's end are encoded apart, whose first one is a control token.
static enum status encode_cut(const struct classifier_reader *reader, const struct text filled[PLACE_COUNT],
                              struct token_array *ids, size_t *n_cut, struct error *error)
{
    const struct text none[PLACE_COUNT] = {filled[0], {0}, filled[2]}, template = reader->facts->template;
    struct token_array head = {0}, bare = {0}, end = {0};
    struct text rest = {0}, same = {0};
    enum status status = encode_filled(reader->tokenizer, template, filled, &rest, &head, error);
    if (status == STATUS_OK)
        status = encode_filled(reader->tokenizer, template, none, &same, &bare, error);
    if (status == STATUS_OK)
        status = encode_filled(reader->tokenizer, rest, filled, NULL, &end, error);
    size_t n_max = reader->n_tokens_max;
    if (status == STATUS_OK && n_max < bare.n_ids + end.n_ids)
        status = error_set(error, STATUS_REJECT, ERROR_CONTEXT_LENGTH,
                           "the template and the query have %zu tokens: expected at most %zu",
                           bare.n_ids + end.n_ids, n_max);
    size_t n_head = status == STATUS_OK && head.n_ids + end.n_ids > n_max ? n_max - end.n_ids : head.n_ids;
    *n_cut = head.n_ids - n_head;
    for (size_t i = 0; status == STATUS_OK && i < n_head; i++)
        token_array_add(ids, head.ids[i]);
    for (size_t i = 0; status == STATUS_OK && i < end.n_ids; i++)
        token_array_add(ids, end.ids[i]);
    token_array_finish(&head);
    token_array_finish(&bare);
    token_array_finish(&end);
    return status;
}

static enum status encode_template(const struct classifier_reader *reader, const struct text texts[2],
                                   struct token_array *ids, struct token_array *types, size_t *n_cut,
                                   struct error *error)
{
    const struct text filled[PLACE_COUNT] = {texts[0], texts[1], reader->instruct};
    size_t start = ids->n_ids;
    enum status status = encode_filled(reader->tokenizer, reader->facts->template, filled, NULL, ids, error);
    if (status == STATUS_OK && reader->n_tokens_max && ids->n_ids - start > reader->n_tokens_max) {
        ids->n_ids = start;
        status = encode_cut(reader, filled, ids, n_cut, error);
    }
    for (size_t i = types ? types->n_ids : ids->n_ids; status == STATUS_OK && i < ids->n_ids; i++)
        token_array_add(types, 0);
    return status;
}

// --- Inputs ---

enum status classifier_reader_check(const struct classifier_reader *reader, struct error *error)
{
    const struct tensor *rows = &reader->model->token_types;
    int32_t most = tokenizer_type_max(reader->tokenizer);
    if (rows->data && (uint64_t)most >= rows->dims[1])
        return error_set(error, STATUS_REFUSE, ERROR_MODEL_FILE,
                         "the tokenizer gives token types up to %d: expected at most %llu, the rows of "
                         "token_types.weight",
                         most, (unsigned long long)rows->dims[1] - 1);
    if (reader->instruct.size && !has_place(reader->facts->template, PLACE_INSTRUCT))
        return error_set(error, STATUS_REFUSE, ERROR_USAGE,
                         "--instruct: %s has no template with an instruction", reader->model->name);
    return STATUS_OK;
}

// What transformers does with a decoder's input: the last token that is no padding is read, and those after it change
// nothing before them.
static void drop_padding(int32_t padding, size_t start, struct token_array *ids, struct token_array *types)
{
    while (padding >= 0 && ids->n_ids > start + 1 && ids->ids[ids->n_ids - 1] == padding) {
        ids->n_ids--;
        if (types)
            types->n_ids--;
    }
}

enum status classifier_input_encode(const struct classifier_reader *reader, const struct text texts[2],
                                    size_t n_texts, struct token_array *ids, struct token_array *types,
                                    size_t *n_cut, struct error *error)
{
    unsigned flags = TOKENIZER_ADD_SPECIAL | TOKENIZER_PARSE_SPECIAL;
    size_t start = ids->n_ids, start_types = types ? types->n_ids : 0;
    struct token_array *wanted = reader->model->token_types.data ? types : NULL;
    *n_cut = 0;
    struct tokenizer_input input = {.texts = {texts[0], n_texts == 2 ? texts[1] : (struct text){0}},
                                    .n_texts = n_texts,
                                    .n_tokens_max = reader->n_tokens_max,
                                    .cuts_left = reader->cuts_left};
    enum status status =
        n_texts == 2 && reader->facts->template.size
            ? encode_template(reader, texts, ids, wanted, n_cut, error)
            : tokenizer_encode_input(reader->tokenizer, &input, flags, ids, wanted, n_cut, error);
    if (status == STATUS_OK)
        drop_padding(reader->facts->padding, start, ids, wanted);
    size_t n_ids = ids->n_ids - start;
    if (status == STATUS_OK && n_ids == 0)
        status = error_set(error, STATUS_REJECT, ERROR_EMPTY_PROMPT, "the text has no tokens");
    if (status == STATUS_OK && n_ids > (size_t)reader->n_longest)
        status = error_set(error, STATUS_REJECT, ERROR_CONTEXT_LENGTH,
                           "the %s has %zu tokens: expected at most %d", n_texts == 2 ? "pair" : "text",
                           n_ids, reader->n_longest);
    if (status != STATUS_OK) {
        ids->n_ids = start;
        if (types)
            types->n_ids = start_types;
    }
    return status;
}

// --- Judges ---

static enum status find_answer(const struct model *model, const struct tokenizer *tokenizer,
                               struct judge_answer *answer, struct error *error)
{
    int shown = answer->word.size < 64 ? (int)answer->word.size : 64;
    struct token_array ids = {0};
    enum status status = tokenizer_encode(tokenizer, answer->word, TOKENIZER_CONTINUES, &ids, error);
    if (status == STATUS_OK && ids.n_ids != 1)
        status =
            error_set(error, STATUS_REFUSE, ERROR_USAGE, "--answers: \"%.*s\" has %zu tokens: expected one",
                      shown, answer->word.data, ids.n_ids);
    if (status == STATUS_OK && ids.ids[0] >= model->shape.n_vocab)
        status = error_set(error, STATUS_REFUSE, ERROR_MODEL_FILE,
                           "--answers: \"%.*s\" is token %d: the model has %d", shown, answer->word.data,
                           ids.ids[0], model->shape.n_vocab);
    answer->id = status == STATUS_OK ? ids.ids[0] : -1;
    token_array_finish(&ids);
    return status;
}

// Qwen3-Reranker, and models trained from it (zerank): only their names tell them from a chat model.
static bool is_named_reranker(const struct model *model)
{
    const char *family = model_family_name(model);
    return strncmp(family, "qwen3", 5) == 0 &&
           (strcasestr(model->name, "rerank") || strcasestr(model->name, "zerank"));
}

enum status classifier_judge_read(struct classifier_facts *facts, const struct model *model,
                                  const struct tokenizer *tokenizer, const char *answers, struct error *error)
{
    const char *given = answers ? answers : "yes,no", *comma = strchr(given, ',');
    if (!answers && !is_named_reranker(model))
        return error_set(error, STATUS_REFUSE, ERROR_MODEL_FILE,
                         "%s has no classification head: tensor cls.output.weight is missing%s", model->name,
                         model_has_logits(model)
                             ? "; a model that answers yes or no, as Qwen3-Reranker: --answers yes,no"
                             : "");
    if (!comma || comma == given || !comma[1])
        return error_set(error, STATUS_REFUSE, ERROR_USAGE,
                         "--answers: expected two words as yes,no, the relevant one first, got \"%s\"",
                         given);
    struct judge_answer found[2] = {{-1, {given, (size_t)(comma - given)}},
                                    {-1, text_from_string(comma + 1)}};
    enum status status = find_answer(model, tokenizer, &found[0], error);
    if (status == STATUS_OK)
        status = find_answer(model, tokenizer, &found[1], error);
    return status == STATUS_OK
               ? classifier_facts_judge(facts, model, found, text_from_string(qwen_template), error)
               : status;
}
