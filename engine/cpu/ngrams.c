// The operations of n-gram embeddings. The sequence's state has the tokens before the step, most recent first, and the
// convolution's input rows, oldest first.
#include "engine/cpu/state.h"

#include <assert.h>
#include <string.h>

struct ngram_work {
    struct cpu_backend *backend;
    struct matrix *out;
    const struct matrix *in;
    const struct ngram_parameters *parameters;
};

// The token `back` positions before a row of the step.
static int32_t token_of(const struct ngram_work *work, const struct step_sequence *sequence, int32_t row,
                        int32_t back)
{
    int32_t before = back - (row - sequence->first_row); // rows before the step
    if (before <= 0)
        return work->backend->step->tokens[row - back];
    if (sequence->position == 0)
        return work->parameters->ngram->end;
    return (int32_t)states_ngram_tokens(&work->backend->states, work->parameters->layer,
                                        sequence->state_in)[before - 1];
}

static void embed_row(void *context, int32_t row, int thread)
{
    const struct ngram_work *work = context;
    const struct ngram *ngram = work->parameters->ngram;
    const struct step_sequence *sequence =
        &work->backend->step->sequences[work->backend->buffers.row_sequences[row]];
    const struct tensor *table = &work->parameters->table->tensor;
    int32_t tokens[MODEL_NGRAM_MAX];
    int64_t rows[MODEL_NGRAM_HEADS_MAX];
    float *out = matrix_row(work->out, row);
    for (int32_t back = 0; back < ngram->size; back++)
        tokens[back] = token_of(work, sequence, row, back);
    ngram_rows(ngram, tokens, rows);
    for (int32_t head = 0; head < ngram->n_heads; head++, out += table->dims[0]) {
        const unsigned char *data = table->data;
        assert(rows[head] >= 0 && (uint64_t)rows[head] < tensor_n_rows(table));
        tensor_traits(table->type)
            ->dequantize(data + (uint64_t)rows[head] * tensor_row_bytes(table), out, table->dims[0]);
    }
    (void)thread;
}

// Tokens up to 2^24 are exact as floats (MODEL_VOCABULARY_MAX).
static void keep_tokens(void *context, int32_t index, int thread)
{
    const struct ngram_work *work = context;
    const struct step_sequence *sequence = &work->backend->step->sequences[index];
    int32_t n = work->parameters->ngram->size - 1, last = sequence->first_row + sequence->n_tokens - 1;
    float kept[MODEL_NGRAM_MAX];
    for (int32_t back = 0; back < n; back++)
        kept[back] = (float)token_of(work, sequence, last, back);
    memcpy(states_ngram_tokens(&work->backend->states, work->parameters->layer, sequence->state_out), kept,
           (size_t)n * sizeof *kept);
    (void)thread;
}

void cpu_ngram_embed(struct backend *base, struct matrix *out, const struct ngram_parameters *parameters)
{
    struct cpu_backend *backend = cpu_backend_of(base);
    if (backend->failed)
        return;
    assert(out->n_cols == parameters->ngram->n_heads * (int32_t)parameters->table->tensor.dims[0]);
    struct ngram_work work = {backend, out, NULL, parameters};
    spread_rows(backend, backend->step->n_tokens, 16 * (int64_t)out->n_cols, embed_row, &work);
    spread_rows(backend, backend->step->n_sequences, 64, keep_tokens, &work);
}

// An input row; NULL: before the text.
static const float *input_row(const struct ngram_work *work, const struct step_sequence *sequence,
                              int32_t row)
{
    const struct ngram_state_shape *shape = &work->backend->states.shape.ngram;
    int32_t back = sequence->first_row - row;
    if (back <= 0)
        return matrix_row(work->in, row);
    if (sequence->position == 0)
        return NULL;
    return states_ngram_rows(&work->backend->states, work->parameters->layer, sequence->state_in) +
           (ptrdiff_t)(shape->n_rows - back) * shape->n_channels;
}

static void convolve_row(void *context, int32_t row, int thread)
{
    const struct ngram_work *work = context;
    const struct ngram_state_shape *shape = &work->backend->states.shape.ngram;
    const struct step_sequence *sequence =
        &work->backend->step->sequences[work->backend->buffers.row_sequences[row]];
    int32_t apart = work->parameters->ngram->size, n_taps = shape->n_rows / apart + 1;
    const float *rows[MODEL_TAPS_MAX];
    for (int32_t tap = 0; tap < n_taps; tap++)
        rows[tap] = input_row(work, sequence, row - (n_taps - 1 - tap) * apart);
    struct convolved_row task = {.out = matrix_row(work->out, row),
                                 .rows = rows,
                                 .kernel = work->parameters->kernel->items,
                                 .n_taps = n_taps,
                                 .activated = true};
    work->backend->kernels.rows.convolve(&task, shape->n_channels);
    (void)thread;
}

// In ascending order: a row may be copied from a later row of the state.
static void keep_rows(void *context, int32_t index, int thread)
{
    const struct ngram_work *work = context;
    const struct ngram_state_shape *shape = &work->backend->states.shape.ngram;
    const struct step_sequence *sequence = &work->backend->step->sequences[index];
    float *to = states_ngram_rows(&work->backend->states, work->parameters->layer, sequence->state_out);
    int32_t end = sequence->first_row + sequence->n_tokens;
    for (int32_t i = 0; i < shape->n_rows; i++, to += shape->n_channels) {
        const float *from = input_row(work, sequence, end - shape->n_rows + i);
        if (from)
            memmove(to, from, (size_t)shape->n_channels * sizeof *to);
        else
            memset(to, 0, (size_t)shape->n_channels * sizeof *to);
    }
    (void)thread;
}

void cpu_ngram_convolve(struct backend *base, struct matrix *out, const struct matrix *in,
                        const struct ngram_parameters *parameters)
{
    struct cpu_backend *backend = cpu_backend_of(base);
    if (backend->failed)
        return;
    const struct ngram_state_shape *shape = &backend->states.shape.ngram;
    int32_t n_taps = shape->n_rows / parameters->ngram->size + 1;
    assert(in->n_cols == shape->n_channels && out->n_cols == shape->n_channels);
    assert(parameters->kernel->n_items == (int64_t)n_taps * shape->n_channels);
    struct ngram_work work = {backend, out, in, parameters};
    spread_rows(backend, backend->step->n_tokens, (int64_t)(n_taps + 6) * shape->n_channels, convolve_row,
                &work);
    spread_rows(backend, backend->step->n_sequences, (int64_t)shape->n_rows * shape->n_channels, keep_rows,
                &work);
}
