// Per-layer embeddings (Gemma 3n and 4): besides the residual stream, each layer has an input of its own, a
// few hundred items of a table's row for the token plus a projection of the embedded token. The table is
// larger than the other weights together, and a step reads one row a token. EmbeddingGemma 2 has no table. Source:
// github.com/huggingface/transformers, models/gemma4/modeling_gemma4.py, project_per_layer_inputs.
#include "engine/forward_parts.h"

#include "engine/model/family.h"

#include <math.h>

static void normalize(const struct pass *pass, struct matrix *x, const struct weight *weight,
                      int32_t n_groups)
{
    struct norm_parameters parameters = {
        .kind = NORM_RMS, .weight = weight, .epsilon = pass->shape->norm_epsilon, .n_groups = n_groups};
    pass->operations->norm(pass->backend, x, x, pass->n_rows, &parameters);
}

void inputs_compute(const struct pass *pass)
{
    const struct backend_operations *operations = pass->operations;
    const struct forward *forward = pass->forward;
    const struct input_matrices *m = &forward->matrices.input;
    const struct model_shape *shape = pass->shape;
    struct product product = {m->all, forward->layer_embd_proj, NULL};
    if (forward->layer_embd)
        operations->embed(pass->backend, m->table, forward->layer_embd, sqrtf((float)shape->n_layer_input),
                          NULL, NULL);
    operations->products(pass->backend, &product, 1, pass->x, pass->n_rows);
    operations->scale(pass->backend, m->all, pass->n_rows, 1.0f / sqrtf((float)shape->n_embd), 0.0f);
    normalize(pass, m->all, forward->layer_embd_norm, shape->n_layers);
    if (!forward->layer_embd)
        return;
    operations->add(pass->backend, m->all, m->table, pass->n_rows, 1.0f);
    operations->scale(pass->backend, m->all, pass->n_rows, sqrtf(0.5f), 0.0f);
}

void inputs_project(const struct pass *pass, int32_t index, const struct matrix *x)
{
    const struct backend_operations *operations = pass->operations;
    const struct input_matrices *m = &pass->forward->matrices.input;
    struct weight *const *weights = pass->forward->layers[index].weights;
    struct matrix *branch = pass->forward->matrices.branch, *own = m->own;
    int32_t width = pass->shape->n_layer_input;
    struct head_columns from = {index * width, 0}, to = {0, 0};
    struct product gate = {m->gate, weights[SLOT_INPUT_GATE], NULL},
                   out = {branch, weights[SLOT_INPUT_OUT], NULL};
    operations->copy_columns(pass->backend, m->own, to, m->all, from, 1, width, pass->step->n_tokens);
    if (pass->n_rows != pass->step->n_tokens) {
        operations->gather(pass->backend, m->own_outputs, m->own);
        own = m->own_outputs;
    }
    operations->products(pass->backend, &gate, 1, x, pass->n_rows);
    operations->activate(pass->backend, m->gate, m->gate, own, pass->n_rows, pass->shape->activation);
    operations->products(pass->backend, &out, 1, m->gate, pass->n_rows);
    normalize(pass, branch, weights[SLOT_INPUT_POST_NORM], 1);
}
