// Alternating updates (AltUp; Baykal et al. 2023, arXiv:2301.13310) and learned augmented residuals (LAuReL;
// Menghani et al. 2024, arXiv:2411.07501), as in Gemma 3n. The residual stream has n parts:
//   predict   p_i = s_i + sum over j of c_ij s_j, with coefficients c from the active part s_a
//   layer     y = attention and MLP of p_a
//   correct   s_i = p_i + (d_i + 1) (y - p_a), with coefficients d from y
// Source: github.com/huggingface/transformers, models/gemma3n/modeling_gemma3n.py.
#include "engine/forward_parts.h"

#include <math.h>

static struct head_columns part_columns(const struct pass *pass, int32_t part)
{
    return (struct head_columns){part * pass->shape->n_embd, pass->shape->n_embd};
}

// Copies one part.
static void take_part(const struct pass *pass, struct matrix *out, const struct matrix *parts, int32_t part)
{
    struct head_columns to = {0, 0};
    pass->operations->copy_columns(pass->backend, out, to, parts, part_columns(pass, part), 1,
                                   pass->shape->n_embd, pass->n_rows);
}

static void normalize(const struct pass *pass, struct matrix *out, const struct matrix *in,
                      const struct weight *weight)
{
    struct norm_parameters parameters = {
        .kind = NORM_RMS, .weight = weight, .epsilon = pass->shape->norm_epsilon, .n_groups = 1};
    pass->operations->norm(pass->backend, out, in, pass->n_rows, &parameters);
}

static void multiply_one(const struct pass *pass, struct matrix *y, const struct weight *weight,
                         const struct matrix *x)
{
    struct product product = {y, weight, NULL};
    pass->operations->products(pass->backend, &product, 1, x, pass->n_rows);
}

void altup_begin(struct pass *pass)
{
    const struct forward *forward = pass->forward;
    struct head_columns first = {0, 0};
    pass->streams = forward->matrices.altup.streams;
    pass->predictions = forward->matrices.altup.predictions;
    pass->laurel = forward->matrices.altup.laurel;
    pass->operations->copy_columns(pass->backend, pass->streams, first, pass->x, first, 1,
                                   pass->shape->n_embd, pass->n_rows);
    pass->operations->head_products(pass->backend, pass->streams, part_columns(pass, 1), forward->altup_proj,
                                    pass->x, first, pass->n_rows);
    pass->operations->match_rms(pass->backend, pass->streams, pass->shape->n_embd, pass->n_rows);
}

// coefficients = weight * tanh(router * norm(x) / n_embd)
static void make_coefficients(struct pass *pass, int32_t index, enum layer_slot slot,
                              struct matrix *coefficients)
{
    struct weight *const *weights = pass->forward->layers[index].weights;
    struct matrix *modalities = pass->forward->matrices.altup.modalities;
    normalize(pass, pass->normed, pass->x, weights[SLOT_ALTUP_ROUTER_NORM]);
    multiply_one(pass, modalities, weights[SLOT_ALTUP_ROUTER], pass->normed);
    pass->operations->scale(pass->backend, modalities, pass->n_rows, 1.0f / (float)pass->shape->n_embd, 1.0f);
    multiply_one(pass, coefficients, weights[slot], modalities);
}

void altup_predict(struct pass *pass, int32_t index)
{
    struct matrix *coefficients = pass->forward->matrices.altup.predict;
    struct head_columns all = {0, 0};
    take_part(pass, pass->x, pass->streams, pass->shape->altup.active);
    make_coefficients(pass, index, SLOT_ALTUP_PREDICT, coefficients);
    pass->operations->copy_columns(pass->backend, pass->predictions, all, pass->streams, all, 1,
                                   pass->shape->altup.n * pass->shape->n_embd, pass->n_rows);
    pass->operations->mix(pass->backend, pass->predictions, 0, coefficients, 0.0f, pass->streams,
                          pass->shape->n_embd, pass->n_rows);
    take_part(pass, pass->x, pass->predictions, pass->shape->altup.active);
}

void altup_make_laurel(struct pass *pass, int32_t index, const struct matrix *input)
{
    struct weight *const *weights = pass->forward->layers[index].weights;
    struct matrix *low = pass->forward->matrices.altup.laurel_low;
    multiply_one(pass, low, weights[SLOT_LAUREL_IN], input);
    multiply_one(pass, pass->laurel, weights[SLOT_LAUREL_OUT], low);
    normalize(pass, pass->laurel, pass->laurel, weights[SLOT_LAUREL_POST_NORM]);
    pass->operations->add(pass->backend, pass->laurel, input, pass->n_rows, 1.0f);
}

void altup_keep_outputs(struct pass *pass)
{
    struct matrix *outputs = pass->forward->matrices.altup.laurel_outputs, *reduced = pass->streams;
    pass->operations->gather(pass->backend, outputs, pass->laurel);
    pass->operations->gather(pass->backend, reduced, pass->predictions);
    pass->laurel = outputs;
    pass->streams = pass->predictions;
    pass->predictions = reduced;
}

void altup_add_laurel(struct pass *pass)
{
    pass->operations->add(pass->backend, pass->x, pass->laurel, pass->n_rows, 1.0f);
    pass->operations->scale(pass->backend, pass->x, pass->n_rows, sqrtf(0.5f), 0.0f);
}

void altup_correct(struct pass *pass, int32_t index)
{
    const struct backend_operations *operations = pass->operations;
    const struct forward_matrices *m = &pass->forward->matrices;
    int32_t n_embd = pass->shape->n_embd, active = pass->shape->altup.active;
    struct matrix *corrected = pass->predictions;
    make_coefficients(pass, index, SLOT_ALTUP_CORRECT, m->altup.correct);
    take_part(pass, m->branch, pass->predictions, active); // becomes y - p_a
    operations->scale(pass->backend, m->branch, pass->n_rows, -1.0f, 0.0f);
    operations->add(pass->backend, m->branch, pass->x, pass->n_rows, 1.0f);
    operations->mix(pass->backend, corrected, 0, m->altup.correct, 1.0f, m->branch, n_embd, pass->n_rows);
    take_part(pass, pass->x, corrected, active);
    operations->multiply(pass->backend, pass->x, pass->forward->layers[index].weights[SLOT_ALTUP_SCALE],
                         pass->n_rows);
    inputs_project(pass, index, pass->x);
    operations->mix(pass->backend, corrected, 1, NULL, 1.0f, m->branch, n_embd, pass->n_rows);
    pass->predictions = pass->streams;
    pass->streams = corrected;
}

void altup_end(struct pass *pass)
{
    const struct backend_operations *operations = pass->operations;
    struct matrix *merged = pass->predictions, *branch = pass->forward->matrices.branch;
    int32_t n = pass->shape->altup.n;
    struct head_columns first = {0, 0}, others = part_columns(pass, 1);
    operations->head_products(pass->backend, merged, others, pass->forward->altup_unembd_proj, pass->streams,
                              others, pass->n_rows); // first: a hybrid then copies where this weight is
    operations->copy_columns(pass->backend, merged, first, pass->streams, first, 1, pass->shape->n_embd,
                             pass->n_rows);
    operations->match_rms(pass->backend, merged, pass->shape->n_embd, pass->n_rows);
    take_part(pass, pass->x, merged, 0);
    for (int32_t part = 1; part < n; part++) {
        take_part(pass, branch, merged, part);
        operations->add(pass->backend, pass->x, branch, pass->n_rows, 1.0f);
    }
    operations->scale(pass->backend, pass->x, pass->n_rows, 1.0f / (float)n, 0.0f);
}
