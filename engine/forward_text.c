// One text of a model with bidirectional attention that is longer than a step. Every layer needs the keys and
// values of the whole text before its first row attends:
//
//   hidden = embedding, chunk by chunk
//   for each layer:
//     for each chunk: keys and values of hidden's rows -> pages
//     for each chunk: queries of hidden's rows -> attention, MLP -> hidden's rows
//
// A row's result does not depend on the chunks: each operation computes it as in a step of the whole text.
#include "engine/forward_parts.h"

#include <assert.h>
#include <stddef.h>

struct long_text {
    struct forward *forward;
    const struct step *whole;
    float *hidden; // [n_tokens, n_embd] the residual stream
    struct error *error;
};

// The step of a chunk, whose outputs are all of its rows. It points to `sequence`.
static struct step chunk_step(const struct long_text *text, int32_t first, struct step_sequence *sequence)
{
    const struct step *whole = text->whole;
    int32_t most = text->forward->limits.n_tokens_max, left = whole->n_tokens - first;
    *sequence = whole->sequences[0];
    sequence->n_tokens = left < most ? left : most;
    sequence->position = first;
    return (struct step){.n_tokens = sequence->n_tokens,
                         .tokens = whole->tokens + first,
                         .positions = whole->positions + first,
                         .types = whole->types ? whole->types + first : NULL,
                         .n_sequences = 1,
                         .sequences = sequence,
                         .n_outputs = sequence->n_tokens};
}

static float *rows_at(const struct long_text *text, int32_t first)
{
    return text->hidden + (ptrdiff_t)first * text->forward->model->shape.n_embd;
}

static bool has_output(const struct step *whole, int32_t first, int32_t n)
{
    for (int32_t i = 0; i < whole->n_outputs; i++)
        if (whole->output_rows[i] >= first && whole->output_rows[i] < first + n)
            return true;
    return false;
}

static enum status embed_chunk(const struct long_text *text, int32_t first)
{
    struct step_sequence sequence;
    struct step step = chunk_step(text, first, &sequence);
    struct pass pass = pass_begin(text->forward, &step, true);
    pass_embed(&pass);
    pass.operations->read(pass.backend, pass.x, pass.n_rows, rows_at(text, first));
    return pass.operations->end(pass.backend, NULL, text->error);
}

static enum status store_chunk(const struct long_text *text, int32_t layer, int32_t first)
{
    struct step_sequence sequence;
    struct step step = chunk_step(text, first, &sequence);
    struct pass pass = pass_begin(text->forward, &step, true);
    pass.operations->write(pass.backend, pass.x, pass.n_rows, rows_at(text, first));
    pass_run_layer(&pass, layer, PASS_KEYS);
    return pass.operations->end(pass.backend, NULL, text->error);
}

// Begins a step on rows of `hidden`. The layers' own inputs are recomputed from the embedded tokens.
static struct pass begin_chunk(const struct long_text *text, struct step *step, int32_t first)
{
    struct pass pass = pass_begin(text->forward, step, true);
    if (pass.shape->n_layer_input) {
        pass_embed(&pass);
        inputs_compute(&pass);
    }
    pass.operations->write(pass.backend, pass.x, pass.n_rows, rows_at(text, first));
    return pass;
}

static enum status finish_chunk(const struct long_text *text, int32_t layer, int32_t first)
{
    struct step_sequence sequence;
    struct step step = chunk_step(text, first, &sequence);
    bool last = layer == text->forward->model->shape.n_layers - 1;
    if (last && !has_output(text->whole, first, step.n_tokens))
        return STATUS_OK;
    struct pass pass = begin_chunk(text, &step, first);
    pass_run_layer(&pass, layer, PASS_QUERIES);
    if (last)
        pass_read_hidden(&pass, rows_at(text, first));
    else
        pass.operations->read(pass.backend, pass.x, pass.n_rows, rows_at(text, first));
    return pass.operations->end(pass.backend, NULL, text->error);
}

enum status forward_text(struct forward *forward, struct step *step, float *hidden, struct error *error)
{
    struct long_text text = {forward, step, hidden, error};
    int32_t n_chunk = forward->limits.n_tokens_max;
    enum status status = STATUS_OK;
    assert(forward->model->shape.bidirectional && forward->limits.hidden_only && step->n_outputs > 0);
    if (step->n_tokens <= n_chunk)
        return forward_hidden(forward, step, hidden, error);
    assert(step->n_sequences == 1 && step->sequences[0].n_text == step->n_tokens);
    for (int32_t first = 0; status == STATUS_OK && first < step->n_tokens; first += n_chunk)
        status = embed_chunk(&text, first);
    for (int32_t layer = 0; status == STATUS_OK && layer < forward->model->shape.n_layers; layer++) {
        for (int32_t first = 0; status == STATUS_OK && first < step->n_tokens; first += n_chunk)
            status = store_chunk(&text, layer, first);
        for (int32_t first = 0; status == STATUS_OK && first < step->n_tokens; first += n_chunk)
            status = finish_chunk(&text, layer, first);
    }
    return status;
}
