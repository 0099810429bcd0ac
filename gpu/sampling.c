#include "gpu/state.h"

#include <assert.h>
#include <string.h>

// The download holds the outcomes of all outputs, then the alternatives of all outputs.
static size_t top_offset(int32_t n_outputs)
{
    return ((size_t)n_outputs * sizeof(struct sample_outcome) + 15) / 16 * 16;
}

size_t gpu_outcome_bytes(int32_t n_outputs)
{
    return top_offset(n_outputs) + (size_t)n_outputs * JOB_TOP_LOGPROBS_MAX * sizeof(struct token_logprob);
}

void gpu_sample(struct backend *base, struct matrix *logits)
{
    struct gpu_backend *backend = gpu_backend_of(base);
    backend->submitted.slot->drawn = true;
    if (!gpu_enqueues(backend))
        return;
    assert(backend->current.step->samples && backend->current.padded.n_outputs <= logits->n_rows_max);
    unsigned char *outcome = backend->memory.outcome.memory;
    struct sample_arguments arguments = {
        .logits = logits->device.items,
        .stride = logits->device.stride,
        .n_vocab = logits->n_cols,
        .n_outputs = backend->current.padded.n_outputs,
        .settings = upload_address(backend, backend->current.layout.settings),
        .biases = upload_address(backend, 0),
        .history = upload_address(backend, 0),
        .masks = upload_address(backend, 0),
        .given_biased = backend->memory.given.memory,
        .given_history = (float *)backend->memory.given.memory +
                         backend->memory.upload.size_bytes / sizeof(struct sample_bias),
        .counts = backend->memory.counts.memory,
        .states = backend->memory.states.memory,
        .outcomes = (struct sample_outcome *)(void *)outcome,
        .top = (struct token_logprob *)(void *)(outcome + top_offset(backend->current.padded.n_outputs))};
    launch_sample_logprobs(backend->stream, &arguments);
    launch_sample_adjust(backend->stream, &arguments);
    launch_sample_draw(backend->stream, &arguments);
}

static bool wants_top(const struct step *step)
{
    for (int32_t i = 0; step->samples && i < step->n_outputs; i++)
        if (step->samples[i].sampling->logprobs && step->samples[i].sampling->top_logprobs > 0)
            return true;
    return false;
}

size_t gpu_outcome_wanted_bytes(const struct gpu_backend *backend, const struct step *step)
{
    size_t outcomes = (size_t)step->n_outputs * sizeof(struct sample_outcome);
    return wants_top(step) ? gpu_outcome_bytes(backend->current.padded.n_outputs) : outcomes;
}

void gpu_take_outcomes(const struct step_slot *slot, struct sample_result *results)
{
    const struct sample_outcome *outcomes = (const struct sample_outcome *)(const void *)slot->outcome_host;
    const struct token_logprob *top =
        (const struct token_logprob *)(const void *)(slot->outcome_host + top_offset(slot->n_outputs_padded));
    for (int32_t i = 0; i < slot->n_outputs; i++) {
        results[i] = (struct sample_result){.token = outcomes[i].token,
                                            .logprob = outcomes[i].logprob,
                                            .n_top = outcomes[i].n_top};
        memcpy(results[i].top, top + (size_t)i * JOB_TOP_LOGPROBS_MAX,
               (size_t)results[i].n_top * sizeof *top);
    }
}
