#include "engine/forward_parts.h"

#include <math.h>

// gate's y = activation(gate) * up, per row or, with `experts`, per (row, expert) pair.
static void multiply_gated(struct pass *pass, struct product gate, struct product up, const struct matrix *x,
                           bool experts)
{
    const struct backend_operations *operations = pass->operations;
    enum activation_kind activation = pass->shape->activation;
    bool adapted = pass->adapted->n_groups && (gate.adapters || up.adapters);
    if (operations->gated_products && !adapted) {
        operations->gated_products(pass->backend, &gate, &up, x, pass->n_rows, experts, activation);
        return;
    }
    struct product products[] = {gate, up};
    if (experts)
        operations->expert_products(pass->backend, products, 2, x, pass->n_rows, false);
    else
        pass_multiply(pass, products, 2, x);
    int32_t n_rows = experts ? pass->n_rows * pass->shape->experts.n_used : pass->n_rows;
    operations->activate(pass->backend, gate.y, gate.y, up.y, n_rows, activation);
}

// branch = MLP(input), gated or plain.
static void run_mlp(struct pass *pass, int32_t index, const struct matrix *input)
{
    const struct forward_layer *layer = &pass->forward->layers[index];
    const struct forward_matrices *m = &pass->forward->matrices;
    bool gated = layer->weights[SLOT_FFN_GATE] != NULL;
    struct matrix *hidden = gated ? m->gate : m->up;
    struct product up = slot_product(m->up, layer, SLOT_FFN_UP);
    float sparsity = pass->forward->model->layers[index].sparsity;
    if (sparsity > -INFINITY) {
        struct product products[] = {slot_product(m->gate, layer, SLOT_FFN_GATE), up};
        pass_multiply(pass, products, 2, input);
        pass->operations->sparsify(pass->backend, m->gate, pass->n_rows, sparsity);
        pass->operations->activate(pass->backend, m->gate, m->gate, m->up, pass->n_rows,
                                   pass->shape->activation);
    } else if (gated) {
        multiply_gated(pass, slot_product(m->gate, layer, SLOT_FFN_GATE), up, input, false);
    } else {
        pass_multiply_one(pass, up, input);
    }
    if (!gated && pass->shape->activation == ACTIVATION_XIELU) {
        pass->operations->xielu(pass->backend, hidden, pass->n_rows,
                                &pass->forward->model->layers[index].xielu);
    } else if (!gated) {
        pass->operations->activate(pass->backend, hidden, hidden, NULL, pass->n_rows,
                                   pass->shape->activation);
    }
    if (layer->weights[SLOT_FFN_SUB_NORM])
        pass_normalize(pass, hidden, hidden, layer, SLOT_FFN_SUB_NORM, false);
    pass_multiply_one(pass, slot_product(m->branch, layer, SLOT_FFN_DOWN), hidden);
}

// gate's y = min(activation(gate), limit) * max(-limit, min(up, limit)), per row or (row, expert) pair.
static void multiply_limited(struct pass *pass, struct product gate, struct product up,
                             const struct matrix *x, bool experts, float limit)
{
    const struct backend_operations *operations = pass->operations;
    struct product products[] = {gate, up};
    int32_t n_rows = experts ? pass->n_rows * pass->shape->experts.n_used : pass->n_rows;
    if (limit == 0.0f) {
        multiply_gated(pass, gate, up, x, experts);
        return;
    }
    if (experts)
        operations->expert_products(pass->backend, products, 2, x, pass->n_rows, false);
    else
        pass_multiply(pass, products, 2, x);
    operations->activate(pass->backend, gate.y, gate.y, NULL, n_rows, pass->shape->activation);
    operations->limit(pass->backend, gate.y, n_rows, -INFINITY, limit);
    operations->limit(pass->backend, up.y, n_rows, -limit, limit);
    operations->multiply_by(pass->backend, gate.y, up.y, n_rows);
}

// shared = the shared expert, times its gate if it has one.
static void run_shared_expert(struct pass *pass, const struct forward_layer *layer,
                              const struct matrix *input, float limit)
{
    const struct forward_matrices *m = &pass->forward->matrices;
    struct product up = slot_product(m->experts.shared_up, layer, SLOT_SHARED_UP);
    bool gated = layer->weights[SLOT_SHARED_GATE] != NULL;
    if (gated) {
        multiply_limited(pass, slot_product(m->experts.shared_gate, layer, SLOT_SHARED_GATE), up, input,
                         false, limit);
    } else {
        pass_multiply_one(pass, up, input);
        pass->operations->activate(pass->backend, up.y, up.y, NULL, pass->n_rows, pass->shape->activation);
    }
    pass_multiply_one(pass, slot_product(m->experts.shared, layer, SLOT_SHARED_DOWN),
                      gated ? m->experts.shared_gate : up.y);
    if (layer->weights[SLOT_SHARED_ROUTER]) {
        pass_multiply_one(pass, slot_product(m->experts.shared_router, layer, SLOT_SHARED_ROUTER), input);
        pass->operations->gate_rows(pass->backend, m->experts.shared, m->experts.shared_router, pass->n_rows);
    }
}

// Selects the experts of each row. `seen`: see struct route_parameters.
static void route_rows(struct pass *pass, int32_t index, const struct matrix *input,
                       const struct matrix *seen)
{
    const struct forward_layer *layer = &pass->forward->layers[index];
    const struct forward_matrices *m = &pass->forward->matrices;
    const struct model_shape *shape = pass->shape;
    pass_multiply_one(pass, slot_product(m->experts.router, layer, SLOT_ROUTER), input);
    if (layer->weights[SLOT_ROUTER_SCALE])
        pass->operations->scale(pass->backend, m->experts.router, pass->n_rows,
                                1.0f / sqrtf((float)shape->n_embd), 0.0f);
    if (shape->experts.logits_softcap != 0.0f)
        pass->operations->scale(pass->backend, m->experts.router, pass->n_rows, 1.0f,
                                shape->experts.logits_softcap);
    struct route_parameters parameters = {.layer = index,
                                          .input = seen,
                                          .kind = shape->experts.route_kind,
                                          .n_used = shape->experts.n_used,
                                          .normalized = shape->experts.normalized,
                                          .scale = shape->experts.scale,
                                          .pick_bias = layer->weights[SLOT_ROUTER_PICK_BIAS],
                                          .n_groups = shape->experts.n_groups,
                                          .n_groups_used = shape->experts.n_groups_used,
                                          .weighs_inputs = shape->experts.weighs_inputs};
    pass->operations->route(pass->backend, m->experts.router, pass->n_rows, &parameters);
}

// branch = weighted sum of the routed experts, which may read and write a latent, plus the shared expert.
static void run_experts(struct pass *pass, int32_t index, const struct matrix *input)
{
    const struct forward_layer *layer = &pass->forward->layers[index];
    const struct model_layer *tensors = &pass->forward->model->layers[index];
    const struct forward_matrices *m = &pass->forward->matrices;
    struct product up = slot_product(m->experts.pair_up, layer, SLOT_UP_EXPERTS);
    bool gated = layer->weights[SLOT_GATE_EXPERTS] != NULL, latent = layer->weights[SLOT_EXPERTS_IN] != NULL;
    const struct matrix *seen = latent ? m->experts.latent : input;
    if (latent)
        pass_multiply_one(pass, slot_product(m->experts.latent, layer, SLOT_EXPERTS_IN), input);
    if (gated) {
        multiply_limited(pass, slot_product(m->experts.pair_gate, layer, SLOT_GATE_EXPERTS), up, seen, true,
                         tensors->experts_limit);
    } else {
        int32_t n_pairs = pass->n_rows * pass->shape->experts.n_used;
        pass->operations->expert_products(pass->backend, &up, 1, seen, pass->n_rows, false);
        pass->operations->activate(pass->backend, up.y, up.y, NULL, n_pairs, pass->shape->activation);
    }
    struct product down = slot_product(m->experts.pair_down, layer, SLOT_DOWN_EXPERTS);
    pass->operations->expert_products(pass->backend, &down, 1, gated ? m->experts.pair_gate : up.y,
                                      pass->n_rows, true);
    pass->operations->expert_sum(pass->backend, latent ? m->experts.latent : m->branch, m->experts.pair_down,
                                 pass->n_rows);
    if (latent)
        pass_multiply_one(pass, slot_product(m->branch, layer, SLOT_EXPERTS_OUT), m->experts.latent);
    if (layer->weights[SLOT_SHARED_UP]) {
        run_shared_expert(pass, layer, input, tensors->shared_limit);
        pass->operations->add(pass->backend, m->branch, m->experts.shared, pass->n_rows,
                              pass->shape->experts.shared_scale);
    }
}

// branch = experts + MLP, each of x with its own norms before and after (Gemma 4).
static void run_experts_and_mlp(struct pass *pass, int32_t index)
{
    const struct forward_layer *layer = &pass->forward->layers[index];
    const struct forward_matrices *m = &pass->forward->matrices;
    pass_normalize(pass, pass->normed, pass->x, layer, SLOT_ROUTER_SCALE, true);
    route_rows(pass, index, pass->normed, NULL);
    pass_normalize(pass, pass->normed, pass->x, layer, SLOT_FFN_NORM_2, true);
    run_experts(pass, index, pass->normed);
    pass_normalize(pass, m->experts.shared, m->branch, layer, SLOT_FFN_POST_NORM_2, false);
    pass_normalize(pass, pass->normed, pass->x, layer, SLOT_FFN_NORM, true);
    run_mlp(pass, index, pass->normed);
    pass_normalize(pass, m->branch, m->branch, layer, SLOT_FFN_POST_NORM_1, false);
    pass->operations->add(pass->backend, m->branch, m->experts.shared, pass->n_rows, 1.0f);
}

void pass_feed_forward(struct pass *pass, int32_t index, const struct matrix *input)
{
    const struct forward_layer *layer = &pass->forward->layers[index];
    if (layer->weights[SLOT_ROUTER_SCALE]) {
        run_experts_and_mlp(pass, index);
    } else if (layer->weights[SLOT_ROUTER]) {
        route_rows(pass, index, input, layer->weights[SLOT_EXPERTS_IN] ? NULL : input);
        run_experts(pass, index, input);
    } else {
        run_mlp(pass, index, input);
    }
}
