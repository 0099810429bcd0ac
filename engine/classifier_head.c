#include "engine/classifier_head.h"

#include "engine/file/gguf.h"
#include "engine/model/family.h"
#include "engine/model/folder/model_folder.h"
#include "schemas/base/elementary.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char rerank_template[] = "tokenizer.chat_template.rerank"; // llama.cpp's
static const char *const pooling_names[] = {"first", "mean", "last", "late"};
static const char *const function_names[] = {"none", "sigmoid", "softmax",
                                             "of an unknown kind"}; // SCORE_UNKNOWN

enum { N_POOLINGS = sizeof pooling_names / sizeof *pooling_names };

const char *head_pooling_name(enum head_pooling pooling)
{
    return pooling_names[pooling];
}

const char *score_function_name(enum score_function function)
{
    return function_names[function];
}

bool score_function_find(const char *name, enum score_function *function)
{
    for (int i = 0; i < SCORE_UNKNOWN; i++)
        if (strcmp(name, function_names[i]) == 0) {
            *function = (enum score_function)i;
            return true;
        }
    return false;
}

// --- Facts ---

static void name_key(const struct model *model, const char *suffix, char key[128])
{
    snprintf(key, 128, "%s.classifier.%s", model_family_name(model), suffix);
}

static enum status read_text(const struct model *model, const char *suffix, struct text *text,
                             struct error *error)
{
    char key[128];
    name_key(model, suffix, key);
    return gguf_text(model->gguf, key, text, NULL, error);
}

static enum status refuse_text(const struct model *model, const char *suffix, const char *expected,
                               struct text text, struct error *error)
{
    char key[128];
    name_key(model, suffix, key);
    return error_set(error, STATUS_REFUSE, ERROR_UNKNOWN_TYPE, "%s: expected %s, file has \"%.*s\"", key,
                     expected, (int)(text.size < 64 ? text.size : 64), text.data);
}

// A name of a list. *index is unchanged if the key is absent.
static enum status read_name(const struct model *model, const char *suffix, const char *const *names, int n,
                             const char *expected, int *index, struct error *error)
{
    struct text text = {0};
    enum status status = read_text(model, suffix, &text, error);
    if (status != STATUS_OK || !text.data)
        return status;
    for (int i = 0; i < n; i++)
        if (text_equals_string(text, names[i])) {
            *index = i;
            return STATUS_OK;
        }
    return refuse_text(model, suffix, expected, text, error);
}

static bool is_of(const struct model *model, const char *family)
{
    return strcmp(model_family_name(model), family) == 0;
}

// llama.cpp's converter drops BERT's pooler and keeps the layer after it, which then scores another function.
static enum status check_tensors(const struct model *model, struct error *error)
{
    const struct model_classifier *head = &model->classifier;
    bool needs_dense =
        model->family->bidirectional && !is_of(model, "gemma-embedding") && !is_of(model, "ultrabert");
    if (!head->output.data && !head->dense.data)
        return error_set(error, STATUS_REFUSE, ERROR_MODEL_FILE,
                         "%s has no classification head: tensor cls.output.weight is missing", model->name);
    if (!head->output.data)
        return error_set(error, STATUS_REFUSE, ERROR_MODEL_FILE,
                         "%s: tensor cls.output.weight is missing, the last layer of the classification head",
                         model->name);
    if (needs_dense && !head->dense.data)
        return error_set(error, STATUS_REFUSE, ERROR_MODEL_FILE,
                         "%s: tensor cls.weight is missing, the pooler or dense layer of the classification "
                         "head (a conversion to GGUF may drop it): without it the scores would be another "
                         "function's; use the model's folder",
                         model->name);
    return STATUS_OK;
}

static enum status check_folder(const struct model *model, struct error *error)
{
    struct text refused = {0};
    enum status status = gguf_text(model->gguf, MODEL_FOLDER_NO_SCORES, &refused, NULL, error);
    if (status != STATUS_OK || !refused.data)
        return status;
    return error_set(error, STATUS_REFUSE, ERROR_UNKNOWN_TYPE, "%s/%.*s: the scores would not be the model's",
                     gguf_path(model->gguf), (int)refused.size, refused.data);
}

static enum status read_labels(struct classifier_facts *facts, const struct model *model, struct error *error)
{
    struct gguf_array labels = {0};
    char key[128];
    bool found = false;
    name_key(model, "output_labels", key);
    facts->n_labels = (int32_t)model->classifier.output.dims[1];
    facts->relevant = facts->n_labels == 1 ? 0 : -1;
    enum status status = gguf_array(model->gguf, key, &labels, &found, error);
    if (status != STATUS_OK || !found)
        return status;
    if (labels.kind != GGUF_STRING || labels.n_items != (size_t)facts->n_labels)
        return error_set(error, STATUS_REFUSE, ERROR_MODEL_FILE,
                         "%s: expected %d texts, the rows of cls.output.weight, file has %zu items", key,
                         facts->n_labels, labels.n_items);
    for (int32_t i = 0; facts->n_labels == 2 && i < 2; i++)
        if (text_equals_string(labels.strings[i], "yes") && text_equals_string(labels.strings[1 - i], "no"))
            facts->relevant = i;
    return STATUS_OK;
}

// A function that the file names. *function is unchanged if the key is absent.
static enum status read_function(const struct model *model, const char *suffix, enum score_function *function,
                                 struct error *error)
{
    struct text text = {0};
    enum status status = read_text(model, suffix, &text, error);
    if (status != STATUS_OK || !text.data)
        return status;
    *function = SCORE_UNKNOWN;
    for (int i = 0; i < SCORE_UNKNOWN; i++)
        if (text_equals_string(text, function_names[i]))
            *function = (enum score_function)i;
    return STATUS_OK;
}

// The functions that the file names, or transformers' and sentence-transformers' for that number of labels.
static enum status read_functions(struct classifier_facts *facts, const struct model *model,
                                  struct error *error)
{
    bool one = facts->n_labels == 1;
    facts->function = one ? SCORE_SIGMOID : SCORE_SOFTMAX;
    facts->relevance = one ? SCORE_SIGMOID : facts->relevant >= 0 ? SCORE_SOFTMAX : SCORE_RAW;
    enum status status = read_function(model, "function", &facts->function, error);
    return status == STATUS_OK ? read_function(model, "score_function", &facts->relevance, error) : status;
}

// Files without these keys, as llama.cpp's converter writes them, get the family's pooling and activation; a DistilBERT
// is family bert without token types.
static enum status read_shape(struct classifier_facts *facts, const struct model *model, struct error *error)
{
    bool gelu = is_of(model, "modern-bert") || is_of(model, "eurobert");
    bool relu = is_of(model, "bert") && !model->token_types.data;
    int pooling = !model->family->bidirectional || is_of(model, "gemma-embedding") ? HEAD_POOLING_LAST
                  : is_of(model, "modern-bert")                                    ? HEAD_POOLING_MEAN
                                                                                   : HEAD_POOLING_FIRST;
    struct text name = {0};
    enum status status =
        read_name(model, "pooling", pooling_names, N_POOLINGS, "first, mean, last or late", &pooling, error);
    facts->pooling = (enum head_pooling)pooling;
    facts->activation = gelu ? HEAD_GELU : relu ? HEAD_RELU : HEAD_TANH;
    if (status == STATUS_OK)
        status = read_text(model, "activation", &name, error);
    if (status == STATUS_OK && name.data && !head_activation_find(name, &facts->activation))
        return refuse_text(model, "activation", "tanh, relu, gelu, gelu_tanh, silu or identity", name, error);
    bool fits = model->classifier.dense.data && !model->classifier.norm.data;
    if (status == STATUS_OK && facts->pooling == HEAD_POOLING_LATE && !fits)
        return refuse_text(model, "pooling", "another without cls.weight or with cls.norm", TEXT("late"),
                           error);
    return status;
}

static enum status read_padding(struct classifier_facts *facts, const struct model *model,
                                struct error *error)
{
    char key[128];
    uint32_t padding = 0;
    bool found = false;
    name_key(model, "padding_id", key);
    enum status status = gguf_u32(model->gguf, key, &padding, &found, error);
    facts->padding = status == STATUS_OK && found && padding <= INT32_MAX ? (int32_t)padding : -1;
    return status;
}

enum status classifier_facts_read(struct classifier_facts *facts, const struct model *model,
                                  struct error *error)
{
    *facts = (struct classifier_facts){.answers = {{.id = -1}, {.id = -1}}};
    enum status status = check_tensors(model, error);
    if (status == STATUS_OK)
        status = check_folder(model, error);
    if (status == STATUS_OK)
        status = read_labels(facts, model, error);
    if (status == STATUS_OK)
        status = read_functions(facts, model, error);
    if (status == STATUS_OK)
        status = read_shape(facts, model, error);
    if (status == STATUS_OK)
        status = read_padding(facts, model, error);
    if (status == STATUS_OK)
        status = gguf_text(model->gguf, rerank_template, &facts->template, NULL, error);
    return status;
}

enum status classifier_facts_judge(struct classifier_facts *facts, const struct model *model,
                                   const struct judge_answer *answers, struct text template,
                                   struct error *error)
{
    *facts = (struct classifier_facts){.n_labels = 2,
                                       .pooling = HEAD_POOLING_LAST,
                                       .function = SCORE_SOFTMAX,
                                       .relevance = SCORE_SOFTMAX,
                                       .padding = -1,
                                       .answers = {answers[0], answers[1]},
                                       .template = template};
    for (int i = 0; i < 2; i++)
        assert(answers[i].id >= 0 && answers[i].id < model->shape.n_vocab);
    if (model_has_logits(model) && !model->output_bias.data)
        return gguf_text(model->gguf, rerank_template, &facts->template, NULL, error);
    return error_set(error, STATUS_REFUSE, ERROR_UNKNOWN_TYPE, "%s: %s, so no answer can be scored",
                     model->name,
                     model_has_logits(model) ? "its output matrix has a bias" : "it has no output matrix");
}

enum status classifier_choose_function(const struct classifier_facts *facts, const struct model *model,
                                       bool ranks, enum score_function *function, struct error *error)
{
    const char *suffix = ranks ? "score_function" : "function";
    char made[CLASSIFIER_LABEL_BYTES];
    struct text text = {0};
    struct text first = classifier_label(facts, model, 0, made);
    if (ranks && facts->relevant < 0)
        return error_set(error, STATUS_REFUSE, ERROR_UNKNOWN_TYPE,
                         "%s has %d labels (%.*s, ...): expected a reranker with one, or yes and no; sheaf "
                         "classify gives the labels' probabilities",
                         model->name, facts->n_labels, (int)(first.size < 64 ? first.size : 64), first.data);
    *function = ranks ? facts->relevance : facts->function;
    if (*function != SCORE_UNKNOWN)
        return STATUS_OK;
    enum status status = read_text(model, suffix, &text, error);
    return status == STATUS_OK ? refuse_text(model, suffix, "none, sigmoid or softmax", text, error) : status;
}

struct text classifier_label(const struct classifier_facts *facts, const struct model *model, int32_t label,
                             char made[CLASSIFIER_LABEL_BYTES])
{
    struct gguf_array labels = {0};
    struct error ignored;
    char key[128];
    bool found = false;
    if (facts->answers[0].id >= 0)
        return facts->answers[label].word;
    name_key(model, "output_labels", key);
    if (gguf_array(model->gguf, key, &labels, &found, &ignored) == STATUS_OK && found &&
        labels.kind == GGUF_STRING && (size_t)label < labels.n_items)
        return labels.strings[label];
    int size = snprintf(made, CLASSIFIER_LABEL_BYTES, "LABEL_%d", label);
    return (struct text){made, (size_t)size};
}

// --- The head ---

struct classifier_head {
    struct head_layer dense, output; // dense.n_outputs 0: none
    float *norm, *norm_bias;         // [dense.n_outputs] NULL: none
    double epsilon;
    bool late;
    double scale, softcap; // factor and soft cap of the outputs; 0: no cap
    int32_t n_embd;
    enum score_function function;
    double *items[2];     // [the largest width]
    double *row, *scored; // [n_embd] a hidden state; [n_labels]
};

static float *read_vector(const struct model *model, const struct tensor *tensor, enum status *status,
                          struct error *error)
{
    if (*status == STATUS_OK)
        *status = gguf_load(model->gguf, tensor, error);
    if (*status != STATUS_OK)
        return NULL;
    float *items = calloc((size_t)tensor->dims[0], sizeof *items);
    if (items)
        tensor_traits(tensor->type)->dequantize(tensor->data, items, (size_t)tensor->dims[0]);
    else
        *status = error_memory(error, STATUS_REFUSE, "a classification head");
    return items;
}

static enum status read_head(struct classifier_head *head, const struct model *model,
                             const struct classifier_facts *facts, struct error *error)
{
    const struct model_classifier *from = &model->classifier;
    enum status status = STATUS_OK;
    if (facts->answers[0].id >= 0) {
        const int32_t rows[2] = {facts->answers[0].id, facts->answers[1].id};
        head->scale = (double)model->shape.scales.logits;
        head->softcap = (double)model->shape.scales.logits_softcap;
        return head_layer_read_rows(&head->output, model, &model->output, rows, 2, error);
    }
    if (from->dense.data)
        status = head_layer_read(&head->dense, model, &from->dense, &from->dense_bias, error);
    head->dense.activation = facts->activation;
    if (from->norm.data)
        head->norm = read_vector(model, &from->norm, &status, error);
    if (from->norm_bias.data)
        head->norm_bias = read_vector(model, &from->norm_bias, &status, error);
    if (status == STATUS_OK)
        status = head_layer_read(&head->output, model, &from->output, &from->output_bias, error);
    return status;
}

enum status classifier_head_create(struct classifier_head **out, const struct model *model,
                                   const struct classifier_facts *facts, enum score_function function,
                                   struct error *error)
{
    struct classifier_head *head = calloc(1, sizeof *head);
    *out = head;
    if (!head)
        return error_memory(error, STATUS_REFUSE, "a classification head");
    head->n_embd = model->shape.n_embd;
    head->epsilon = (double)model->shape.norm_epsilon;
    head->late = facts->pooling == HEAD_POOLING_LATE;
    head->scale = 1.0;
    head->function = function;
    enum status status = read_head(head, model, facts, error);
    size_t most = (size_t)(head->dense.n_outputs > head->n_embd ? head->dense.n_outputs : head->n_embd);
    for (int i = 0; i < 2; i++)
        head->items[i] = calloc(most, sizeof *head->items[i]);
    head->row = calloc((size_t)head->n_embd, sizeof *head->row);
    head->scored = calloc((size_t)facts->n_labels, sizeof *head->scored);
    if (status == STATUS_OK && (!head->items[0] || !head->items[1] || !head->row || !head->scored))
        status = error_memory(error, STATUS_REFUSE, "a classification head");
    if (status != STATUS_OK) {
        classifier_head_destroy(head);
        *out = NULL;
    }
    return status;
}

void classifier_head_destroy(struct classifier_head *head)
{
    if (!head)
        return;
    head_layer_finish(&head->dense);
    head_layer_finish(&head->output);
    free(head->norm);
    free(head->norm_bias);
    free(head->items[0]);
    free(head->items[1]);
    free(head->row);
    free(head->scored);
    free(head);
}

int32_t classifier_head_width(const struct classifier_head *head)
{
    return head->late ? head->dense.n_outputs : head->n_embd;
}

const double *classifier_head_row(struct classifier_head *head, const float *row)
{
    if (!head->late)
        return NULL;
    for (int32_t i = 0; i < head->n_embd; i++)
        head->row[i] = (double)row[i];
    head_layer_apply(&head->dense, head->row, head->items[0]);
    return head->items[0];
}

static void normalize(const struct classifier_head *head, double *items)
{
    int32_t n = head->dense.n_outputs;
    double mean = 0.0, square = 0.0;
    for (int32_t i = 0; i < n; i++)
        mean += items[i];
    mean /= n;
    for (int32_t i = 0; i < n; i++)
        square += (items[i] - mean) * (items[i] - mean);
    double scale = 1.0 / sqrt(square / n + head->epsilon);
    for (int32_t i = 0; i < n; i++)
        items[i] = (items[i] - mean) * scale * (double)head->norm[i] +
                   (head->norm_bias ? (double)head->norm_bias[i] : 0.0);
}

static double sigmoid(double x)
{
    double small = elementary_exp(-fabs(x));
    return x < 0.0 ? small / (1.0 + small) : 1.0 / (1.0 + small);
}

static void soften(double *scores, int32_t n)
{
    double largest = scores[0], sum = 0.0;
    for (int32_t i = 1; i < n; i++)
        largest = scores[i] > largest ? scores[i] : largest;
    for (int32_t i = 0; i < n; i++)
        sum += scores[i] = elementary_exp(scores[i] - largest);
    for (int32_t i = 0; i < n; i++)
        scores[i] /= sum;
}

static double cap(double logit, double softcap)
{
    double small = elementary_exp(-2.0 * fabs(logit / softcap));
    return copysign(softcap * (1.0 - small) / (1.0 + small), logit);
}

void classifier_head_apply(struct classifier_head *head, const double *sum, double scale, float *scores)
{
    double *items = head->items[0], *scored = head->scored;
    int32_t n_labels = head->output.n_outputs;
    for (int32_t i = 0; i < classifier_head_width(head); i++)
        items[i] = sum[i] * scale;
    if (head->dense.n_outputs && !head->late) {
        head_layer_apply(&head->dense, items, head->items[1]);
        items = head->items[1];
    }
    if (head->norm)
        normalize(head, items);
    head_layer_apply(&head->output, items, scored);
    for (int32_t i = 0; i < n_labels; i++) {
        scored[i] *= head->scale;
        if (head->softcap > 0.0)
            scored[i] = cap(scored[i], head->softcap);
        if (head->function == SCORE_SIGMOID)
            scored[i] = sigmoid(scored[i]);
    }
    if (head->function == SCORE_SOFTMAX)
        soften(scored, n_labels);
    for (int32_t i = 0; i < n_labels; i++)
        scores[i] = (float)scored[i];
}
