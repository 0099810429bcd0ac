// Hyper-connections (arXiv:2409.19606) with gates of low rank, and n-gram embeddings, as in Qwen4-Exp. A row has n
// residual streams s; the vector c holds their normalized items:
//   enter   m = sigmoid(U silu(L c / n)); the input of attention or MLP is the mean over the streams of m c
//   leave   s_i += 2 sigmoid(g_i) y, with g = A c / n and the result y
// Source: github.com/huggingface/transformers, models/qwen4_exp/modeling_qwen4_exp.py.
#include "engine/forward_parts.h"
#include "engine/model/ngram.h"

static void normalize_streams(const struct pass *pass, struct matrix *out, const struct matrix *in,
                              const struct weight *weight)
{
    struct norm_parameters norm = {.kind = NORM_RMS,
                                   .weight = weight,
                                   .epsilon = pass->shape->norm_epsilon,
                                   .n_groups = pass->shape->hyper.n,
                                   .own_weights = true};
    pass->operations->norm(pass->backend, out, in, pass->n_rows, &norm);
}

static void multiply_one(const struct pass *pass, struct matrix *y, const struct weight *weight,
                         const struct matrix *x)
{
    struct product product = {y, weight, NULL, NULL};
    pass->operations->products(pass->backend, &product, 1, x, pass->n_rows);
}

// out = the streams merged; pass->spare becomes their normalized items.
static void merge(const struct pass *pass, struct matrix *out, const struct weight *norm,
                  const struct weight *low, const struct weight *mix)
{
    const struct hyper_matrices *m = &pass->forward->matrices.hyper;
    normalize_streams(pass, pass->spare, pass->streams, norm);
    multiply_one(pass, m->low, low, pass->spare);
    pass->operations->scale(pass->backend, m->low, pass->n_rows, 1.0f / (float)pass->shape->hyper.n, 0.0f);
    pass->operations->activate(pass->backend, m->low, m->low, NULL, pass->n_rows, ACTIVATION_SILU);
    multiply_one(pass, m->mixed, mix, m->low);
    pass->operations->merge_streams(pass->backend, out, m->mixed, pass->spare, pass->n_rows);
}

void hyper_begin(struct pass *pass)
{
    int32_t width = pass->shape->n_embd;
    pass->streams = pass->forward->matrices.hyper.streams;
    pass->spare = pass->forward->matrices.hyper.spare;
    pass->gates = pass->forward->matrices.hyper.gates;
    for (int32_t i = 0; i < pass->shape->hyper.n; i++)
        pass->operations->copy_columns(pass->backend, pass->streams, (struct head_columns){i * width, 0},
                                       pass->x, (struct head_columns){0, 0}, 1, width, pass->n_rows);
}

void hyper_enter(struct pass *pass, int32_t index, bool feeds_forward)
{
    struct weight *const *weights = pass->forward->layers[index].weights;
    int offset = feeds_forward ? SLOT_HYPER_FFN_NORM - SLOT_HYPER_ATTN_NORM : 0;
    merge(pass, pass->normed, weights[SLOT_HYPER_ATTN_NORM + offset], weights[SLOT_HYPER_ATTN_LOW + offset],
          weights[SLOT_HYPER_ATTN_MIX + offset]);
    multiply_one(pass, pass->gates, weights[SLOT_HYPER_ATTN_ADD + offset], pass->spare);
    pass->operations->scale(pass->backend, pass->gates, pass->n_rows, 1.0f / (float)pass->shape->hyper.n,
                            0.0f);
}

void hyper_leave(struct pass *pass)
{
    pass->operations->add_to_streams(pass->backend, pass->streams, pass->gates,
                                     pass->forward->matrices.branch, pass->n_rows);
}

void hyper_keep_outputs(struct pass *pass)
{
    struct matrix *outputs = pass->forward->matrices.hyper.gate_outputs, *reduced = pass->spare;
    pass->operations->gather(pass->backend, reduced, pass->streams);
    pass->operations->gather(pass->backend, outputs, pass->gates);
    pass->spare = pass->streams;
    pass->streams = reduced;
    pass->gates = outputs;
}

void hyper_end(struct pass *pass)
{
    const struct forward *forward = pass->forward;
    merge(pass, pass->x, forward->hyper_norm, forward->hyper_low, forward->hyper_mix);
}

// Each stream += sigmoid(key . query) value, and a convolution of these; keys and values are projected from the
// n-gram embeddings, queries are the streams.
void ngrams_add(struct pass *pass, int32_t index)
{
    const struct forward *forward = pass->forward;
    const struct backend_operations *operations = pass->operations;
    const struct hyper_matrices *m = &forward->matrices.hyper;
    struct weight *const *weights = forward->layers[index].weights;
    int32_t number = forward->model->layers[index].ngram;
    struct ngram_parameters parameters = {.layer = number,
                                          .ngram = &forward->model->ngrams[number],
                                          .table = weights[SLOT_NGRAM_TABLE],
                                          .kernel = weights[SLOT_NGRAM_CONVOLUTION]};
    struct product products[] = {{m->mixed, weights[SLOT_NGRAM_KEY], NULL, NULL},
                                 {m->value, weights[SLOT_NGRAM_VALUE], NULL, NULL}};
    operations->ngram_embed(pass->backend, m->ngrams, &parameters);
    operations->products(pass->backend, products, 2, m->ngrams, pass->n_rows);
    normalize_streams(pass, m->mixed, m->mixed, weights[SLOT_NGRAM_KEY_NORM]);
    normalize_streams(pass, pass->spare, pass->streams, weights[SLOT_NGRAM_QUERY_NORM]);
    operations->gate_streams(pass->backend, m->mixed, m->mixed, pass->spare, m->value, pass->n_rows);
    operations->add(pass->backend, pass->streams, m->mixed, pass->n_rows, 1.0f);
    normalize_streams(pass, m->mixed, m->mixed, weights[SLOT_NGRAM_STATE_NORM]);
    operations->ngram_convolve(pass->backend, pass->spare, m->mixed, &parameters);
    operations->add(pass->backend, pass->streams, pass->spare, pass->n_rows, 1.0f);
}
