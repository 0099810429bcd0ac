// Autotuning: steps of made-up tokens, of the sizes that the device asks for (backend_device.tune). They are computed
// before the first job, so their pages and state slots are free.
#include "engine/forward_parts.h"

#include <stdlib.h>

struct tuning {
    struct forward *forward;
    int32_t n_each, n_pages_each; // tokens and pages of a sequence; the last sequence may have fewer tokens
    int32_t n_sequences_max, n_rows_max;
    int32_t *tokens, *positions, *output_rows; // [n_rows_max]
    int32_t *pages;                            // [n_sequences_max, n_pages_each]
    struct step_sequence *sequences;           // [n_sequences_max]
};

static int32_t smaller_of(int64_t a, int32_t b)
{
    return a < b ? (int32_t)a : b;
}

static int32_t divide_up(int32_t a, int32_t b)
{
    return (a - 1) / b + 1;
}

// A sequence has the length of an attention segment, because only the number of rows matters. It is longer if the step
// would otherwise have more than n_sequences_max sequences.
static void size_sequences(struct tuning *tuning)
{
    const struct forward_limits *limits = &tuning->forward->limits;
    const struct model_shape *shape = &tuning->forward->model->shape;
    int32_t page = limits->page_positions, n = divide_up(limits->n_tokens_max, limits->n_sequences_max);
    n = divide_up(n > ATTENTION_SEGMENT ? n : ATTENTION_SEGMENT, page) * page;
    n = smaller_of((int64_t)limits->n_pages * page, n);
    tuning->n_each = smaller_of(n, shape->n_context);
    tuning->n_pages_each = divide_up(tuning->n_each, page);
    n = smaller_of(limits->n_pages / tuning->n_pages_each, limits->n_sequences_max);
    tuning->n_sequences_max = shape->recurrent.n_layers ? smaller_of(n, limits->n_state_slots) : n;
    tuning->n_rows_max = smaller_of((int64_t)tuning->n_sequences_max * tuning->n_each, limits->n_tokens_max);
}

static bool allocate_step(struct tuning *tuning)
{
    size_t n_rows = (size_t)tuning->n_rows_max, n_sequences = (size_t)tuning->n_sequences_max,
           n_pages = n_sequences * (size_t)tuning->n_pages_each;
    tuning->tokens = calloc(n_rows, sizeof *tuning->tokens);
    tuning->positions = calloc(n_rows, sizeof *tuning->positions);
    tuning->output_rows = calloc(n_rows, sizeof *tuning->output_rows);
    tuning->pages = calloc(n_pages, sizeof *tuning->pages);
    tuning->sequences = calloc(n_sequences, sizeof *tuning->sequences);
    if (!tuning->tokens || !tuning->positions || !tuning->output_rows || !tuning->pages || !tuning->sequences)
        return false;
    for (size_t i = 0; i < n_pages; i++)
        tuning->pages[i] = (int32_t)i;
    for (int32_t row = 0; row < tuning->n_rows_max; row++)
        tuning->positions[row] = row % tuning->n_each;
    return true;
}

// The last rows have outputs, up to the largest number of a step.
static struct step make_step(struct tuning *tuning, int32_t n_rows)
{
    bool bidirectional = tuning->forward->model->shape.bidirectional;
    struct step step = {.n_tokens = n_rows,
                        .tokens = tuning->tokens,
                        .positions = tuning->positions,
                        .n_sequences = divide_up(n_rows, tuning->n_each),
                        .sequences = tuning->sequences,
                        .n_outputs = smaller_of(n_rows, tuning->forward->limits.n_outputs_max),
                        .output_rows = tuning->output_rows};
    for (int32_t i = 0; i < step.n_outputs; i++)
        tuning->output_rows[i] = n_rows - step.n_outputs + i;
    for (int32_t i = 0; i < step.n_sequences; i++) {
        int32_t first = i * tuning->n_each, n = smaller_of(n_rows - first, tuning->n_each);
        tuning->sequences[i] = (struct step_sequence){.first_row = first,
                                                      .n_tokens = n,
                                                      .pages = tuning->pages + i * tuning->n_pages_each,
                                                      .n_text = bidirectional ? n : 0,
                                                      .state_in = i,
                                                      .state_out = i};
    }
    return step;
}

static enum status run_step(void *context, int32_t n_rows, struct error *error)
{
    struct tuning *tuning = context;
    struct step step = make_step(tuning, n_rows);
    if (!tuning->forward->limits.hidden_only)
        return forward_step(tuning->forward, &step, NULL, NULL, error);
    pass_enqueue_layers(tuning->forward, &step, false);
    return tuning->forward->backend->operations.end(tuning->forward->backend, NULL, error);
}

enum status forward_tune(struct forward *forward, struct error *error)
{
    const struct backend_device *device = &forward->backend->device;
    struct tuning tuning = {.forward = forward};
    enum status status = STATUS_OK;
    if (!device->tune)
        return STATUS_OK;
    size_sequences(&tuning);
    if (allocate_step(&tuning))
        status = device->tune(forward->backend, tuning.n_rows_max, run_step, &tuning, error);
    else
        status = error_memory(error, STATUS_REFUSE, "the steps of autotuning");
    free(tuning.tokens);
    free(tuning.positions);
    free(tuning.output_rows);
    free(tuning.pages);
    free(tuning.sequences);
    return status;
}
