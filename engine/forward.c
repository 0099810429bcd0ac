#include "engine/forward_parts.h"

#include "engine/model/family.h"

#include <assert.h>
#include <math.h>
#include <stddef.h>

static void enter_phase(struct pass *pass, enum step_phase phase)
{
    pass->operations->phase(pass->backend, phase);
}

void pass_embed(struct pass *pass)
{
    const struct forward *forward = pass->forward;
    struct matrix *out = forward->embd_proj ? forward->matrices.table_rows : pass->x;
    enter_phase(pass, PHASE_EMBED);
    pass->operations->embed(pass->backend, out, forward->token_embd, pass->shape->scales.embedding,
                            forward->position_embd, forward->token_types);
    if (forward->embd_norm)
        pass_normalize_rows(pass, out, out, forward->embd_norm, forward->embd_norm_bias,
                            pass->shape->norm_epsilon, false);
    if (forward->embd_proj)
        pass_multiply_one(pass, (struct product){pass->x, forward->embd_proj, forward->embd_proj_bias, NULL},
                          out);
}

static void normalize_queries_and_keys(struct pass *pass, int32_t index, unsigned parts)
{
    const struct forward_matrices *m = &pass->forward->matrices;
    const struct model *model = pass->forward->model;
    if (parts & PASS_QUERIES)
        pass_normalize_heads(pass, m->q, index, SLOT_ATTN_Q_NORM, model_layer_heads(model, index).n_heads);
    if (parts & PASS_KEYS && model->layers[index].kv_layer == index)
        pass_normalize_heads(pass, m->k, index, SLOT_ATTN_K_NORM, model_layer_heads(model, index).n_kv_heads);
}

// The widths of a layer's matrices, where layers differ.
static void size_matrices(struct pass *pass, int32_t index)
{
    const struct forward_matrices *m = &pass->forward->matrices;
    const struct model *model = pass->forward->model;
    struct layer_heads heads = model_layer_heads(model, index);
    int32_t n_heads = heads.n_heads;
    const struct tensor *gate = &model->layers[index].tensors[SLOT_ATTN_GATE];
    const struct {
        struct matrix *matrix;
        int32_t n_cols;
    } sizes[] = {
        {m->q, n_heads * heads.key_dim},
        {m->k, heads.n_kv_heads * heads.key_dim},
        {m->v, heads.n_kv_heads * heads.value_dim},
        {m->heads, n_heads * heads.value_dim},
        {m->out.heads, n_heads * heads.value_dim},
        {m->gate, model->layers[index].n_ff},
        {m->up, model->layers[index].n_ff},
        {m->gated.gate, (int32_t)gate->dims[1]},
    };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes && model->heads; i++)
        if (sizes[i].matrix && sizes[i].n_cols)
            pass->operations->set_columns(pass->backend, sizes[i].matrix, sizes[i].n_cols);
}

// The values that a family normalizes; without a projection of their own they are the keys', before their
// norm.
static void make_values(struct pass *pass, int32_t index, bool from_keys)
{
    const struct forward_matrices *m = &pass->forward->matrices;
    struct layer_heads heads = model_layer_heads(pass->forward->model, index);
    struct head_columns all = {0, 0};
    struct norm_parameters parameters = {.kind = NORM_RMS,
                                         .epsilon = pass->shape->norm_epsilon,
                                         .n_groups = heads.n_kv_heads};
    if (from_keys)
        pass->operations->copy_columns(pass->backend, m->v, all, m->k, all, 1,
                                       heads.n_kv_heads * heads.key_dim, pass->n_rows);
    pass->operations->norm(pass->backend, m->v, m->v, pass->n_rows, &parameters);
}

// QKV projection, or one part of it; only the queries' in a layer that reads another's keys and values.
static void project_heads(struct pass *pass, int32_t index, const struct matrix *input, unsigned parts)
{
    const struct forward_layer *layer = &pass->forward->layers[index];
    const struct forward_matrices *m = &pass->forward->matrices;
    const struct model *model = pass->forward->model;
    const struct model_shape *shape = pass->shape;
    bool gated = shape->attention.gated;
    struct product products[] = {slot_product(gated ? m->gated.query_gate : m->q, layer, SLOT_ATTN_Q),
                                 slot_product(m->k, layer, SLOT_ATTN_K),
                                 slot_product(m->v, layer, SLOT_ATTN_V),
                                 slot_product(m->gated.gate, layer, SLOT_ATTN_GATE)};
    bool queries = parts & PASS_QUERIES, keys = parts & PASS_KEYS;
    bool own = keys && model->layers[index].kv_layer == index,
         from_keys = own && !layer->weights[SLOT_ATTN_V];
    int n_keys = !own ? 0 : from_keys ? 1 : 2;
    int n_products = queries && layer->weights[SLOT_ATTN_GATE] ? 4 : queries + n_keys;
    pass_multiply(pass, products + !queries, n_products, input);
    if (gated && queries) {
        int32_t dim = shape->attention.key_dim, n_heads = shape->attention.n_heads;
        struct head_columns to = {0, dim}, query = {0, 2 * dim}, gate = {dim, 2 * dim};
        pass->operations->copy_columns(pass->backend, m->q, to, m->gated.query_gate, query, n_heads, dim,
                                       pass->n_rows);
        pass->operations->copy_columns(pass->backend, m->gated.gate, to, m->gated.query_gate, gate, n_heads,
                                       dim, pass->n_rows);
    }
    enter_phase(pass, PHASE_ATTENTION);
    if (own && model->family->values_normalized)
        make_values(pass, index, from_keys);
    if (!model->family->norm_after_rope)
        normalize_queries_and_keys(pass, index, parts);
}

static void rotate_matrix(struct pass *pass, struct matrix *x, int32_t n_heads, int32_t head_dim, int table)
{
    pass->operations->rope(pass->backend, x, pass->n_rows, n_heads, head_dim,
                           pass->forward->model->rope[table].n_dims, pass->shape->rope.style, table);
}

// Applies rope to queries and keys.
static void rotate_heads(struct pass *pass, int32_t index, unsigned parts)
{
    const struct model *model = pass->forward->model;
    const struct model_layer *tensors = &model->layers[index];
    const struct forward_matrices *m = &pass->forward->matrices;
    const struct model_shape *shape = pass->shape;
    struct layer_heads heads = model_layer_heads(model, index);
    bool still = tensors->unrotated && shape->rope.unrotated_own_table;
    if (shape->rope.style == ROPE_NONE || (tensors->unrotated && !still))
        return;
    int own = shape->rope.queries_own_table || still ? 1 : 0;
    int table = tensors->windowed && shape->rope.n_tables == 2 && !own && !shape->rope.unrotated_own_table;
    if (parts & PASS_QUERIES)
        rotate_matrix(pass, m->q, heads.n_heads, heads.key_dim, own ? own : table);
    if (!still && parts & PASS_KEYS && tensors->kv_layer == index)
        rotate_matrix(pass, m->k, heads.n_kv_heads, heads.key_dim, table);
}

static void attend_pages(struct pass *pass, int32_t index)
{
    const struct model_shape *shape = pass->shape;
    const struct model_layer *tensors = &pass->forward->model->layers[index];
    const struct model_layer *source = &pass->forward->model->layers[tensors->kv_layer];
    int32_t window = tensors->windowed ? shape->window.n_positions : 0;
    if (shape->bidirectional && window)
        window = window / 2 + 1;
    struct disentangled_terms terms = disentangled_terms(pass->forward);
    struct attention_parameters parameters = {.layer = source->store,
                                              .n_heads =
                                                  model_layer_heads(pass->forward->model, index).n_heads,
                                              .scale = shape->attention.scale,
                                              .softcap = shape->attention.softcap,
                                              .window = shape->window.chunked ? 0 : window,
                                              .chunk = shape->window.chunked ? window : 0,
                                              .alibi_bias_max = shape->attention.alibi_bias_max,
                                              .selects = tensors->selects,
                                              .relative_bias = pass->forward->relative_bias,
                                              .relative_center = relative_bias_center(shape),
                                              .disentangled = shape->disentangled.n_rows ? &terms : NULL,
                                              .sinks = pass->forward->layers[index].weights[SLOT_ATTN_SINKS]};
    pass->operations->attend(pass->backend, pass->heads, pass->forward->matrices.q, &parameters);
    bool has_gate = pass->forward->layers[index].weights[SLOT_ATTN_GATE] != NULL;
    if (shape->attention.value_scale != 1.0f)
        pass->operations->scale(pass->backend, pass->heads, pass->n_rows, shape->attention.value_scale, 0.0f);
    if (has_gate && pass->forward->model->family->gated_by_softplus)
        pass->operations->gate_softplus(pass->backend, pass->heads, pass->forward->matrices.gated.gate,
                                        pass->n_rows);
    else if (has_gate && pass->forward->model->family->gated_by_head)
        pass->operations->gate_rows(pass->backend, pass->heads, pass->forward->matrices.gated.gate,
                                    pass->n_rows);
    else if (shape->attention.gated || has_gate)
        pass->operations->activate(pass->backend, pass->heads, pass->forward->matrices.gated.gate,
                                   pass->heads, pass->n_rows, ACTIVATION_SIGMOID);
}

// After the last layer that stores keys and values, or a state, only the output rows are computed, from this
// layer's heads and states on.
static void keep_outputs(struct pass *pass, int32_t index, bool normed_wanted)
{
    const struct forward_matrices *m = &pass->forward->matrices;
    const struct model_layer *tensors = &pass->forward->model->layers[index];
    if (pass->step->n_outputs == pass->n_rows)
        return;
    if (tensors->attends) {
        pass->operations->gather(pass->backend, m->out.heads, pass->heads);
        pass->heads = m->out.heads;
    }
    if (tensors->recurrent) {
        pass->operations->gather(pass->backend, m->out.states, pass->states);
        pass->states = m->out.states;
    }
    pass->operations->gather(pass->backend, m->out.x, pass->x);
    if (normed_wanted)
        pass->operations->gather(pass->backend, m->out.normed, pass->normed);
    if (pass->shape->altup.n)
        altup_keep_outputs(pass);
    if (pass->shape->hyper.n)
        hyper_keep_outputs(pass);
    if (pass->forward->model->heads) // layers follow
        pass->operations->keep_outputs(pass->backend);
    pass->x = m->out.x;
    pass->normed = m->out.normed;
    pass->n_rows = pass->step->n_outputs;
    pass->adapted = &pass->forward->adapted[1];
}

// Residual sum: x += branch, after the post-norm or before it if the family has one.
static void add_branch(struct pass *pass, const struct forward_layer *layer, enum layer_slot post_norm)
{
    if (pass->shape->hyper.n) {
        hyper_leave(pass);
        return;
    }
    struct matrix *branch = pass->forward->matrices.branch;
    bool has_norm = layer->weights[post_norm] != NULL,
         sum_first = pass->forward->model->family->normed_after_sum;
    if (has_norm && !sum_first)
        pass_normalize(pass, branch, branch, layer, post_norm, false);
    pass->operations->add(pass->backend, pass->x, branch, pass->n_rows, pass->shape->scales.residual);
    if (has_norm && sum_first)
        pass_normalize(pass, pass->x, pass->x, layer, post_norm, false);
}

// The last layer with keys and values, or a state, of its own.
static int32_t last_stored(const struct model *model)
{
    int32_t layer = model->shape.n_layers - 1;
    while (layer > 0 && (model->layers[layer].kv_layer != layer ||
                         !(model->layers[layer].attends || model->layers[layer].recurrent)))
        layer--;
    return layer;
}

// heads = attention(input). False: only the keys and values are wanted.
static bool run_attention(struct pass *pass, int32_t index, const struct matrix *input, unsigned parts)
{
    const struct forward_matrices *m = &pass->forward->matrices;
    const struct model_layer *tensors = &pass->forward->model->layers[index];
    pass->heads = pass->n_rows == pass->step->n_tokens ? m->heads : m->out.heads;
    if (pass->shape->latent.dim) {
        latent_project(pass, index, input);
        enter_phase(pass, PHASE_ATTENTION);
    } else {
        project_heads(pass, index, input, parts);
    }
    rotate_heads(pass, index, parts);
    if (pass->forward->model->family->norm_after_rope)
        normalize_queries_and_keys(pass, index, parts);
    if (tensors->indexed && !pass->shape->latent.dim)
        index_run(pass, index, input);
    if (pass->shape->disentangled.n_rows)
        disentangled_project(pass, index, parts);
    if (parts & PASS_KEYS && tensors->kv_layer == index)
        pass->operations->kv_store(pass->backend, tensors->store, m->k, m->v);
    bool last = index == last_stored(pass->forward->model);
    if (!(parts & PASS_QUERIES) || (last && pass->step->n_outputs == 0))
        return false;
    attend_pages(pass, index);
    enter_phase(pass, PHASE_PRODUCTS);
    return true;
}

// branch = attention(input), a recurrence's output, or the sum of both. False: only the keys and values are
// wanted, or the state, as of a last layer without outputs.
static bool run_mixers(struct pass *pass, int32_t index, const struct matrix *input, unsigned parts,
                       bool normed_wanted)
{
    const struct forward_layer *layer = &pass->forward->layers[index];
    const struct forward_matrices *m = &pass->forward->matrices;
    const struct model_layer *tensors = &pass->forward->model->layers[index];
    bool last = index == last_stored(pass->forward->model);
    if (tensors->linear) {
        pass_multiply_one(pass, slot_product(m->branch, layer, SLOT_ATTN_OUT), input);
        return true;
    }
    if (tensors->recurrent) {
        pass->states = m->state.heads;
        recurrent_run(pass, index, input);
    }
    if (tensors->attends && !run_attention(pass, index, input, parts))
        return false;
    if (last && pass->step->n_outputs == 0)
        return false;
    if (last)
        keep_outputs(pass, index, normed_wanted);
    if (layer->weights[SLOT_ATTN_SUB_NORM])
        pass_normalize(pass, pass->heads, pass->heads, layer, SLOT_ATTN_SUB_NORM, false);
    if (tensors->attends)
        pass_multiply_one(pass, slot_product(m->branch, layer, SLOT_ATTN_OUT),
                          pass->shape->latent.dim ? latent_values(pass, layer) : pass->heads);
    struct matrix *branch = tensors->attends ? m->state.branch : m->branch;
    if (tensors->recurrent)
        pass_multiply_one(pass, slot_product(branch, layer, SLOT_STATE_OUT), pass->states);
    if (tensors->recurrent && tensors->attends)
        pass->operations->add(pass->backend, m->branch, branch, pass->n_rows, 1.0f);
    return true;
}

void pass_run_layer(struct pass *pass, int32_t index, unsigned parts)
{
    const struct forward_layer *layer = &pass->forward->layers[index];
    bool parallel = pass->shape->parallel_residual;
    bool attn_normed = layer->weights[SLOT_ATTN_NORM] != NULL,
         ffn_normed = layer->weights[SLOT_FFN_NORM] != NULL;
    const struct model_layer *tensors = &pass->forward->model->layers[index];
    enter_phase(pass, PHASE_PRODUCTS);
    size_matrices(pass, index);
    bool convolves = pass->forward->convolution && index == 0;
    if (convolves && parts & PASS_KEYS)
        convolution_begin(pass);
    if (pass->shape->altup.n)
        altup_predict(pass, index);
    if (attn_normed)
        pass_normalize(pass, pass->normed, pass->x, layer, SLOT_ATTN_NORM,
                       (!parallel || ffn_normed) && !pass->shape->altup.n);
    if (tensors->ngram >= 0)
        ngrams_add(pass, index);
    if (pass->shape->hyper.n)
        hyper_enter(pass, index, false);
    const struct matrix *seen = attn_normed || pass->shape->hyper.n ? pass->normed : pass->x;
    if (pass->shape->altup.n)
        altup_make_laurel(pass, index, seen);
    bool mixes = tensors->attends || tensors->recurrent || tensors->linear;
    if (mixes && !run_mixers(pass, index, seen, parts, parallel && !ffn_normed))
        return;
    // In a parallel layer the MLP reads the same input as attention, so its norm precedes the residual sum; a
    // layer without an MLP norm uses the output of attention's norm.
    if (parallel && ffn_normed)
        pass_normalize(pass, pass->normed, pass->x, layer, SLOT_FFN_NORM, false);
    if (mixes)
        add_branch(pass, layer, SLOT_ATTN_POST_NORM);
    if (tensors->n_ff == 0 && !tensors->sparse)
        return;
    if (pass->shape->altup.n)
        altup_add_laurel(pass);
    if (!parallel && ffn_normed)
        pass_normalize(pass, pass->normed, pass->x, layer, SLOT_FFN_NORM, !layer->weights[SLOT_ROUTER]);
    if (pass->shape->hyper.n)
        hyper_enter(pass, index, true);
    const struct matrix *input = parallel || ffn_normed || pass->shape->hyper.n ? pass->normed : pass->x;
    pass_feed_forward(pass, index, input);
    add_branch(pass, layer, SLOT_FFN_POST_NORM);
    if (convolves)
        convolution_add(pass);
    if (pass->shape->altup.n) {
        altup_correct(pass, index);
    } else if (pass->shape->n_layer_input) {
        inputs_project(pass, index, pass->x);
        pass->operations->add(pass->backend, pass->x, pass->forward->matrices.branch, pass->n_rows, 1.0f);
    }
    if (tensors->output_scale != 1.0f)
        pass->operations->scale(pass->backend, pass->x, pass->n_rows, tensors->output_scale, 0.0f);
}

// Calls await_masks, either before or during the step: a backend with reads_masks_late computes while the
// masks are filled.
static void await_masks(const struct forward *forward, const struct step *step, bool late)
{
    if (step->await_masks && late == forward->backend->operations.reads_masks_late)
        step->await_masks(step->masks_context);
}

static void compute_logits(struct pass *pass)
{
    const struct forward *forward = pass->forward;
    const struct model_shape *shape = pass->shape;
    bool consumed = !pass->operations->output_product;
    struct matrix *input = shape->hyper.n ? pass->x : pass->normed;
    if (!shape->hyper.n)
        pass_normalize_rows(pass, pass->normed, pass->x, forward->output_norm, forward->output_norm_bias,
                            shape->norm_epsilon, consumed);
    if (forward->output_head)
        output_head_run(pass, consumed);
    struct product product = {forward->matrices.out.logits, forward->output, forward->output_bias,
                              forward->output_adapters};
    bool adapted = pass->adapted->n_groups && product.adapters;
    await_masks(forward, pass->step, true);
    if (pass->operations->output_product && pass->step->samples && !pass->step->stops && !adapted)
        pass->operations->output_product(pass->backend, &product, input);
    else
        pass_multiply_one(pass, product, input);
    if (shape->scales.logits != 1.0f || shape->scales.logits_softcap != 0.0f)
        pass->operations->scale(pass->backend, forward->matrices.out.logits, pass->n_rows,
                                shape->scales.logits, shape->scales.logits_softcap);
}

static void fill_rope(struct forward *forward, struct step *step)
{
    const struct model *model = forward->model;
    int32_t block = model->shape.index.block;
    for (int32_t table = 0; table < model->shape.rope.n_tables; table++) {
        for (int32_t i = 0; i < step->n_sequences; i++) {
            const struct step_sequence *sequence = &step->sequences[i];
            bool blocks = table == 1 && model->shape.index.means,
                 lengthened = table == 0 && sequence->long_context && model->rope_long.n_dims;
            const struct rope *rope = lengthened ? &model->rope_long : &model->rope[table];
            for (int32_t row = sequence->first_row; row < sequence->first_row + sequence->n_tokens; row++)
                rope_fill(rope, blocks ? step->positions[row] / block * block : step->positions[row],
                          forward->rope[table] + (ptrdiff_t)row * rope->n_dims);
        }
        step->rope[table] = forward->rope[table];
        step->n_rope_dims[table] = model->rope[table].n_dims;
    }
}

// Asserts the slots of recurrent states: a slot that is written belongs to one sequence of the step.
static void check_slots(const struct forward *forward, const struct step *step)
{
    for (int32_t i = 0; i < step->n_sequences && forward->model->shape.recurrent.n_layers; i++) {
        const struct step_sequence *sequence = &step->sequences[i];
        assert(sequence->state_out >= 0 && sequence->state_out < forward->limits.n_state_slots);
        assert(sequence->position == 0 ||
               (sequence->state_in >= 0 && sequence->state_in < forward->limits.n_state_slots));
        for (int32_t j = 0; j < step->n_sequences; j++) {
            const struct step_sequence *other = &step->sequences[j];
            assert(j == i || (other->state_out != sequence->state_out &&
                              (other->position == 0 || other->state_in != sequence->state_out)));
            (void)other;
        }
    }
}

// Asserts the caller's arguments; jobs were checked earlier.
static void check_step(const struct forward *forward, const struct step *step)
{
    const struct forward_limits *limits = &forward->limits;
    const struct model_shape *shape = &forward->model->shape;
    int32_t position_limit = forward->position_embd ? shape->n_context : MODEL_CONTEXT_MAX;
    assert(step->n_tokens > 0 && step->n_tokens <= limits->n_tokens_max);
    assert(step->n_sequences > 0 && step->n_sequences <= limits->n_sequences_max);
    assert(step->n_outputs >= 0 && step->n_outputs <= limits->n_outputs_max &&
           step->n_outputs <= step->n_tokens);
    int32_t row = 0;
    for (int32_t i = 0; i < step->n_sequences; i++) {
        const struct step_sequence *sequence = &step->sequences[i];
        assert(sequence->first_row == row && sequence->n_tokens > 0 &&
               sequence->n_tokens <= step->n_tokens - row);
        assert(sequence->position >= 0 && sequence->position <= position_limit - sequence->n_tokens);
        assert(shape->bidirectional == (sequence->n_text > 0));
        assert(!sequence->n_text || (sequence->n_text <= shape->n_context &&
                                     sequence->position <= sequence->n_text - sequence->n_tokens));
        for (int32_t j = 0; j < sequence->n_tokens; j++, row++) {
            assert(step->tokens[row] >= -limits->n_outputs_max && step->tokens[row] < shape->n_vocab);
            assert(step->tokens[row] >= 0 || forward_computes_ahead(forward));
            assert(step->positions[row] == sequence->position + j);
        }
        int32_t n_pages = (sequence->position + sequence->n_tokens - 1) / limits->page_positions + 1;
        n_pages = sequence->n_text ? (sequence->n_text - 1) / limits->page_positions + 1 : n_pages;
        for (int32_t j = 0; j < n_pages; j++)
            assert(sequence->pages[j] >= 0 && sequence->pages[j] < limits->n_pages);
    }
    assert(row == step->n_tokens);
    for (int32_t i = 0; i < step->n_copies; i++) {
        const struct page_copy *copy = &step->copies[i];
        assert(copy->from >= 0 && copy->from < limits->n_pages && copy->to >= 0 &&
               copy->to < limits->n_pages && copy->from != copy->to);
        (void)copy;
    }
    assert(step->output_rows || step->n_outputs == step->n_tokens);
    for (int32_t i = 0; step->output_rows && i < step->n_outputs; i++)
        assert(step->output_rows[i] > (i ? step->output_rows[i - 1] : -1) &&
               step->output_rows[i] < step->n_tokens);
    (void)row;
    (void)limits;
    (void)position_limit;
}

struct pass pass_begin(struct forward *forward, struct step *step, bool stops)
{
    check_step(forward, step);
    check_slots(forward, step);
    fill_rope(forward, step);
    adapters_group_rows(forward, step);
    step->stops = stops;
    struct pass pass = {.forward = forward,
                        .operations = &forward->backend->operations,
                        .backend = forward->backend,
                        .step = step,
                        .shape = &forward->model->shape,
                        .n_rows = step->n_tokens,
                        .adapted = &forward->adapted[0],
                        .x = forward->matrices.x,
                        .normed = forward->matrices.normed,
                        .heads = forward->matrices.heads};
    await_masks(forward, step, false);
    pass.operations->begin(pass.backend, step);
    return pass;
}

struct pass pass_enqueue_layers(struct forward *forward, struct step *step, bool stops)
{
    struct pass pass = pass_begin(forward, step, stops);
    pass_embed(&pass);
    if (pass.shape->n_layer_input)
        inputs_compute(&pass);
    if (pass.shape->altup.n)
        altup_begin(&pass);
    if (pass.shape->hyper.n)
        hyper_begin(&pass);
    int32_t n_layers = step->n_outputs ? pass.shape->n_layers : last_stored(forward->model) + 1;
    for (int32_t i = 0; i < n_layers; i++)
        pass_run_layer(&pass, i, PASS_QUERIES | PASS_KEYS);
    if (pass.shape->altup.n && step->n_outputs)
        altup_end(&pass);
    if (pass.shape->hyper.n && step->n_outputs)
        hyper_end(&pass);
    return pass;
}

// Enqueues the whole step, without calling `end`.
static void run_step(struct forward *forward, struct step *step, float *logits)
{
    assert(!forward->limits.hidden_only);
    struct pass pass = pass_enqueue_layers(forward, step, logits != NULL);
    if (step->n_outputs > 0) {
        compute_logits(&pass);
        if (!step->samples_apart)
            enter_phase(&pass, PHASE_SAMPLING);
        if (logits) // before the sampler modifies them
            pass.operations->read(pass.backend, forward->matrices.out.logits, step->n_outputs, logits);
        if (step->samples && !step->samples_apart)
            pass.operations->sample(pass.backend, forward->matrices.out.logits);
    }
}

enum status forward_step(struct forward *forward, struct step *step, struct sample_result *results,
                         float *logits, struct error *error)
{
    assert(!step->samples_apart);
    run_step(forward, step, logits);
    return forward->backend->operations.end(forward->backend, step->samples ? results : NULL, error);
}

void pass_read_hidden(struct pass *pass, float *hidden)
{
    const struct forward *forward = pass->forward;
    struct matrix *out = pass->x;
    if (forward->output_norm) {
        out = pass->normed;
        pass_normalize_rows(pass, out, pass->x, forward->output_norm, forward->output_norm_bias,
                            pass->shape->norm_epsilon, false);
    }
    pass->operations->read(pass->backend, out, pass->n_rows, hidden);
}

enum status forward_hidden(struct forward *forward, struct step *step, float *hidden, struct error *error)
{
    assert(forward->limits.hidden_only && !step->samples);
    struct pass pass = pass_enqueue_layers(forward, step, true);
    if (step->n_outputs > 0)
        pass_read_hidden(&pass, hidden);
    return forward->backend->operations.end(forward->backend, NULL, error);
}

bool forward_computes_ahead(const struct forward *forward)
{
    return forward->backend->operations.submit != NULL;
}

enum status forward_submit(struct forward *forward, struct step *step, struct error *error)
{
    assert(step->samples);
    run_step(forward, step, NULL);
    return forward->backend->operations.submit(forward->backend, error);
}

enum status forward_submit_sampling(struct forward *forward, struct step *step, struct error *error)
{
    const struct backend_operations *operations = &forward->backend->operations;
    assert(step->samples_apart && step->n_outputs > 0);
    operations->resume(forward->backend, step);
    operations->phase(forward->backend, PHASE_SAMPLING);
    operations->sample(forward->backend, forward->matrices.out.logits);
    return operations->submit(forward->backend, error);
}

enum status forward_collect(struct forward *forward, struct sample_result *results, struct error *error)
{
    return forward->backend->operations.collect(forward->backend, results, error);
}
