#include "engine/embedding.h"

#include "engine/classifier_head.h"
#include "engine/embedding_head.h"
#include "engine/file/gguf.h"
#include "engine/model/folder/model_folder.h"
#include "schemas/value.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- pooling ----

static const struct {
    enum pooling pooling;
    const char *name;
} poolings[] = {{POOLING_MEAN, "mean"}, {POOLING_FIRST, "cls"},          {POOLING_LAST, "last"},
                {POOLING_MAX, "max"},   {POOLING_SQRT, "mean_sqrt_len"}, {POOLING_WEIGHTED, "weightedmean"}};

enum { N_POOLINGS = sizeof poolings / sizeof poolings[0], POOLING_RANK = 4 }; // rank: llama.cpp's rerankers

bool pooling_find(const char *name, enum pooling *pooling)
{
    for (int i = 0; i < N_POOLINGS; i++)
        if (strcmp(poolings[i].name, name) == 0) {
            *pooling = poolings[i].pooling;
            return true;
        }
    return false;
}

const char *pooling_name(enum pooling pooling)
{
    for (int i = 0; i < N_POOLINGS; i++)
        if (poolings[i].pooling == pooling)
            return poolings[i].name;
    return "";
}

// Refuses a key that requires something that is not implemented.
static enum status check_key(const struct model *model, const char *key, const char *way_out,
                             struct error *error)
{
    struct text refused = {0};
    enum status status = gguf_text(model->gguf, key, &refused, NULL, error);
    if (status != STATUS_OK || !refused.data)
        return status;
    return error_set(error, STATUS_REFUSE, ERROR_UNKNOWN_TYPE,
                     "%s/%.*s: the vectors would not be the model's%s", gguf_path(model->gguf),
                     (int)refused.size, refused.data, way_out);
}

enum status embedding_check_model(const struct model *model, struct error *error)
{
    return check_key(model, MODEL_FOLDER_NO_EMBEDDINGS, "", error);
}

enum status embedding_check_dimensions(const struct model *model, struct error *error)
{
    return check_key(model, MODEL_FOLDER_NO_DIMENSIONS, " (--dimensions overrules it)", error);
}

enum status embedding_read_defaults(struct embedding_defaults *defaults, const struct model *model,
                                    struct error *error)
{
    uint32_t longest = 0;
    *defaults = (struct embedding_defaults){.normalize = true};
    enum status status = gguf_text(model->gguf, MODEL_FOLDER_PROMPT, &defaults->prompt, NULL, error);
    if (status == STATUS_OK)
        status = gguf_u32(model->gguf, MODEL_FOLDER_TOKENS_MAX, &longest, NULL, error);
    defaults->n_tokens_max = longest <= INT32_MAX ? (int32_t)longest : 0;
    if (status != STATUS_OK)
        return status;
    return gguf_bool(model->gguf, MODEL_FOLDER_NORMALIZES, &defaults->normalize, NULL, error);
}

enum status embedding_read_prompts(const struct model *model, struct arena *arena, struct value *prompts,
                                   struct error *error)
{
    struct text json = {0};
    *prompts = (struct value){.kind = VALUE_OBJECT};
    enum status status = gguf_text(model->gguf, MODEL_FOLDER_PROMPTS, &json, NULL, error);
    return status == STATUS_OK && json.size ? json_decode(json, arena, prompts, error) : status;
}

enum status embedding_find_prompt(const struct model *model, const char *name, struct arena *arena,
                                  struct text *prompt, struct error *error)
{
    struct value prompts;
    enum status status = embedding_read_prompts(model, arena, &prompts, error);
    if (status != STATUS_OK)
        return status;
    const struct value *found = value_get(&prompts, name);
    if (found && found->kind == VALUE_STRING) {
        *prompt = found->text;
        return STATUS_OK;
    }
    char names[256] = "";
    for (size_t i = 0; prompts.kind == VALUE_OBJECT && i < prompts.object.n_members; i++)
        snprintf(names + strlen(names), sizeof names - strlen(names), "%s%.*s", i ? ", " : "",
                 (int)(prompts.object.members[i].key.size % 64), prompts.object.members[i].key.data);
    return error_set(error, STATUS_REFUSE, ERROR_USAGE, "--prompt-name %s: the model %s%s", name,
                     names[0] ? "has the prompts " : "has no prompts", names);
}

enum status pooling_of_model(const struct model *model, enum pooling *pooling, struct error *error)
{
    char key[128];
    uint32_t type = 0;
    enum status status = check_key(model, MODEL_FOLDER_NO_POOLING, " (--pooling overrules it)", error);
    if (status != STATUS_OK)
        return status;
    snprintf(key, sizeof key, "%s.pooling_type", model_family_name(model));
    status = gguf_u32(model->gguf, key, &type, NULL, error);
    if (status != STATUS_OK)
        return status;
    *pooling = type ? (enum pooling)type : model->shape.bidirectional ? POOLING_MEAN : POOLING_LAST;
    if (pooling_name(*pooling)[0])
        return STATUS_OK;
    return error_set(error, STATUS_REFUSE, ERROR_UNKNOWN_TYPE,
                     "%s is %u%s: expected 1 (mean), 2 (cls) or 3 (last)", key, type,
                     type == POOLING_RANK ? ", a reranker's (sheaf rerank; --pooling overrules it)" : "");
}

// ---- the embedder ----

// Arrays of a step, and the text that is partly computed.
struct embedder {
    struct embedder_options options;
    int32_t n_rows_max;                                // longest step, or longest text computed alone
    int32_t *tokens, *positions, *types, *output_rows; // [n_rows_max]
    struct step_sequence *sequences;                   // [n_sequences_max]
    int32_t *pages;                                    // block tables of a step, one after another
    int32_t *free_pages;                               // a stack of free pages
    int32_t n_free;
    int32_t *output_texts; // [n_rows_max] text of each output
    float *hidden;         // [n_rows_max, n_embd]
    int32_t n_summed;      // n_embd, or the width of what a classification head makes of a row
    double *sum;           // [n_summed] sum over the rows of the current text
    struct embedding_head *head;
};

static int32_t pages_of(const struct embedder *embedder, int32_t n_tokens)
{
    return (n_tokens + embedder->options.limits.page_positions - 1) / embedder->options.limits.page_positions;
}

// Number of pages for all texts but the current one. A step has at most n_tokens_max tokens, and each text
// may leave its last page partly filled.
static int64_t pages_of_others(const struct forward_limits *limits)
{
    return limits->n_tokens_max / limits->page_positions + limits->n_sequences_max;
}

int64_t embedder_pages(const struct forward_limits *limits, int32_t n_tokens)
{
    return ((int64_t)n_tokens + limits->page_positions - 1) / limits->page_positions +
           pages_of_others(limits);
}

int32_t embedder_longest(const struct forward_limits *limits, const struct model *model)
{
    int64_t n_pages = limits->n_pages - pages_of_others(limits);
    int64_t n_positions = n_pages > 0 ? n_pages * limits->page_positions : 0;
    return n_positions < model->shape.n_context ? (int32_t)n_positions : model->shape.n_context;
}

static int32_t count_rows(const struct forward_limits *limits, const struct model *model, int32_t n_longest)
{
    bool is_alone = model->shape.bidirectional && n_longest > limits->n_tokens_max;
    return is_alone ? n_longest : limits->n_tokens_max;
}

uint64_t embedder_bytes(const struct forward_limits *limits, const struct model *model, int32_t n_longest)
{
    return (uint64_t)count_rows(limits, model, n_longest) *
           ((uint64_t)model->shape.n_embd * sizeof(float) + 5 * sizeof(int32_t));
}

enum status embedder_create(struct embedder **embedder, const struct embedder_options *options,
                            struct error *error)
{
    const struct forward_limits *limits = &options->limits;
    size_t n_embd = (size_t)options->model->shape.n_embd,
           n_rows = (size_t)count_rows(limits, options->model, options->n_longest);
    assert(limits->hidden_only && limits->n_outputs_max == limits->n_tokens_max);
    *embedder = NULL;
    struct embedder *created = calloc(1, sizeof *created);
    if (created) {
        created->options = *options;
        created->n_rows_max = (int32_t)n_rows;
        created->tokens = calloc(n_rows, sizeof *created->tokens);
        created->positions = calloc(n_rows, sizeof *created->positions);
        created->types = calloc(n_rows, sizeof *created->types);
        created->output_rows = calloc(n_rows, sizeof *created->output_rows);
        created->output_texts = calloc(n_rows, sizeof *created->output_texts);
        created->sequences = calloc((size_t)limits->n_sequences_max, sizeof *created->sequences);
        created->pages = calloc((size_t)limits->n_pages, sizeof *created->pages);
        created->free_pages = calloc((size_t)limits->n_pages, sizeof *created->free_pages);
        created->hidden = calloc(n_rows * n_embd, sizeof *created->hidden);
        created->n_summed =
            options->classifier ? classifier_head_width(options->classifier) : (int32_t)n_embd;
        created->sum = calloc((size_t)created->n_summed, sizeof *created->sum);
    }
    enum status status = STATUS_OK;
    if (!created || !created->tokens || !created->positions || !created->types || !created->output_rows ||
        !created->output_texts || !created->sequences || !created->pages || !created->free_pages ||
        !created->hidden || !created->sum)
        status = error_memory(error, STATUS_REFUSE, "embeddings");
    if (status == STATUS_OK && !options->classifier)
        status = embedding_head_create(&created->head, options->model, options->normalize, error);
    if (status != STATUS_OK) {
        embedder_destroy(created);
        return status;
    }
    *embedder = created;
    return STATUS_OK;
}

void embedder_destroy(struct embedder *embedder)
{
    if (!embedder)
        return;
    free(embedder->tokens);
    free(embedder->positions);
    free(embedder->types);
    free(embedder->output_rows);
    free(embedder->output_texts);
    free(embedder->sequences);
    free(embedder->pages);
    free(embedder->free_pages);
    free(embedder->hidden);
    free(embedder->sum);
    embedding_head_destroy(embedder->head);
    free(embedder);
}

// ---- a step ----

// Progress of the computation: the first incomplete text, the number of its tokens that were computed, and
// its pages, which begin at pages_at in embedder->pages.
struct embedding_place {
    int32_t text, position, pages_at, n_pages;
};

static bool is_wanted(enum pooling pooling, const struct embedding_text *text, int32_t position)
{
    if (pooling == POOLING_FIRST || pooling == POOLING_LAST)
        return position == (pooling == POOLING_FIRST ? 0 : text->n_ids - 1);
    return true;
}

// True if the step can take tokens of the text: some of them or, if attention is bidirectional, all of them.
// A text longer than a step is computed alone.
static bool has_room(const struct embedder *embedder, const struct step *step,
                     const struct embedding_text *text)
{
    int32_t room = embedder->options.limits.n_tokens_max - step->n_tokens;
    if (!embedder->options.model->shape.bidirectional)
        return room > 0;
    return step->n_tokens == 0 || text->n_ids <= room;
}

// Adds the next tokens of the text, from *place on.
static void add_tokens(struct embedder *embedder, struct step *step, const struct embedding_text *text,
                       struct embedding_place *place)
{
    const struct model_shape *shape = &embedder->options.model->shape;
    int32_t n = text->n_ids - place->position, room = embedder->options.limits.n_tokens_max - step->n_tokens;
    n = n < room || shape->bidirectional ? n : room;
    struct step_sequence *sequence = &embedder->sequences[step->n_sequences++];
    sequence->first_row = step->n_tokens;
    sequence->n_tokens = n;
    sequence->position = place->position;
    sequence->n_text = shape->bidirectional ? text->n_ids : 0;
    // The texts of a step are consecutive, at most n_sequences_max of them, so each gets its own slot.
    sequence->state_in = sequence->state_out = place->text % embedder->options.limits.n_sequences_max;
    sequence->long_context = text->n_ids > shape->n_context_original;
    for (int32_t i = 0; i < n; i++, place->position++) {
        int32_t row = step->n_tokens++;
        assert(text->ids[place->position] >= 0 && text->ids[place->position] < shape->n_vocab);
        embedder->tokens[row] = text->ids[place->position];
        embedder->positions[row] = place->position;
        embedder->types[row] = text->types ? text->types[place->position] : 0;
        if (is_wanted(embedder->options.pooling, text, place->position)) {
            embedder->output_texts[step->n_outputs] = place->text;
            embedder->output_rows[step->n_outputs++] = row;
        }
    }
}

// Plans a step from *place on, and advances *place. The pages of texts that the step completes are free for
// the next step.
static struct step plan_step(struct embedder *embedder, const struct embedding_text *texts, int32_t n_texts,
                             struct embedding_place *place)
{
    const struct forward_limits *limits = &embedder->options.limits;
    struct step step = {.tokens = embedder->tokens,
                        .positions = embedder->positions,
                        .types = embedder->types,
                        .sequences = embedder->sequences,
                        .output_rows = embedder->output_rows};
    memmove(embedder->pages, embedder->pages + place->pages_at,
            (size_t)place->n_pages * sizeof *embedder->pages);
    place->pages_at = 0;
    while (place->text < n_texts && step.n_sequences < limits->n_sequences_max &&
           has_room(embedder, &step, &texts[place->text])) {
        const struct embedding_text *text = &texts[place->text];
        int32_t *table = embedder->pages + place->pages_at;
        embedder->sequences[step.n_sequences].pages = table;
        add_tokens(embedder, &step, text, place);
        while (place->n_pages < pages_of(embedder, place->position))
            table[place->n_pages++] = embedder->free_pages[--embedder->n_free];
        if (place->position < text->n_ids)
            break;
        *place =
            (struct embedding_place){.text = place->text + 1, .pages_at = place->pages_at + place->n_pages};
    }
    for (int32_t i = 0; i < place->pages_at; i++)
        embedder->free_pages[embedder->n_free++] = embedder->pages[i];
    return step;
}

// Adds a row to the text's sum, or updates the maximum. `first` is true for the first row that the pooling
// uses.
static void add_row(struct embedder *embedder, const float *row, int32_t position, bool first)
{
    struct classifier_head *classifier = embedder->options.classifier;
    const double *made = classifier ? classifier_head_row(classifier, row) : NULL;
    enum pooling pooling = embedder->options.pooling;
    double weight = pooling == POOLING_WEIGHTED ? position + 1.0 : 1.0;
    for (int32_t i = 0; i < embedder->n_summed; i++) {
        double item = (made ? made[i] : (double)row[i]) * weight, *sum = &embedder->sum[i];
        if (first)
            *sum = item;
        else if (pooling == POOLING_MAX)
            *sum = item > *sum ? item : *sum;
        else
            *sum += item;
    }
}

// Returns the factor by which a sum of n rows is multiplied.
static double pooling_scale(enum pooling pooling, int32_t n)
{
    switch (pooling) {
    case POOLING_MEAN:
        return 1.0 / n;
    case POOLING_SQRT:
        return 1.0 / sqrt(n);
    case POOLING_WEIGHTED:
        return 2.0 / ((double)n * (n + 1.0));
    default:
        return 1.0;
    }
}

// From a text's sum to its vector, or its scores.
static void apply_head(struct embedder *embedder, const struct embedding_text *text, float *vector)
{
    const struct embedder_options *options = &embedder->options;
    double scale = pooling_scale(options->pooling, text->n_ids);
    if (options->classifier)
        classifier_head_apply(options->classifier, embedder->sum, scale, vector);
    else
        embedding_head_apply(embedder->head, embedder->sum, scale,
                             text->n_dimensions ? text->n_dimensions : options->n_dimensions, vector);
}

// Adds the outputs of the texts in the order of their tokens.
static void take_outputs(struct embedder *embedder, const struct step *step,
                         const struct embedding_text *texts, float *vectors)
{
    const struct embedder_options *options = &embedder->options;
    bool by_row = step->n_tokens > options->limits.n_tokens_max; // the step was computed by forward_text
    bool takes_one = options->pooling == POOLING_FIRST || options->pooling == POOLING_LAST;
    for (int32_t output = 0; output < step->n_outputs; output++) {
        int32_t text = embedder->output_texts[output], row = embedder->output_rows[output];
        int32_t position = embedder->positions[row], n_embd = options->model->shape.n_embd;
        const float *hidden = embedder->hidden + (ptrdiff_t)(by_row ? row : output) * n_embd;
        add_row(embedder, hidden, position, takes_one || position == 0);
        if (takes_one || position == texts[text].n_ids - 1)
            apply_head(embedder, &texts[text], vectors + (ptrdiff_t)text * options->n_dimensions);
    }
}

enum status embedder_compute(struct embedder *embedder, const struct embedding_text *texts, int32_t n_texts,
                             float *vectors, struct error *error)
{
    const struct embedder_options *options = &embedder->options;
    embedder->n_free = embedder->options.limits.n_pages;
    for (int32_t i = 0; i < embedder->n_free; i++)
        embedder->free_pages[i] = embedder->n_free - 1 - i;
    for (int32_t i = 0; i < n_texts; i++)
        assert(texts[i].n_ids > 0 && texts[i].n_ids <= options->n_longest);
    struct embedding_place place = {0};
    while (place.text < n_texts) {
        struct step step = plan_step(embedder, texts, n_texts, &place);
        if (options->before_step)
            options->before_step(&step);
        enum status status = options->model->shape.bidirectional
                                 ? forward_text(options->forward, &step, embedder->hidden, error)
                                 : forward_hidden(options->forward, &step, embedder->hidden, error);
        if (status != STATUS_OK)
            return status;
        take_outputs(embedder, &step, texts, vectors);
    }
    return STATUS_OK;
}
