// Any bytes as a model file: opened, described and, if it is small enough for that, computed with for a few
// tokens.
#include "engine/cpu/backend.h"
#include "engine/embedding.h"
#include "engine/logits.h"
#include "tests/fuzz/fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    N_IDS = 5,
    VOCABULARY_MAX = 512,
    WIDTH_MAX = 256,
    EXPERTS_MAX = 16,
    LAYERS_MAX = 4,
    WEIGHT_BYTES_MAX = 1 << 20
};

static bool is_small(const struct model *model)
{
    const struct model_shape *shape = &model->shape;
    return model_weight_bytes(model) <= WEIGHT_BYTES_MAX && shape->n_vocab <= VOCABULARY_MAX &&
           shape->n_embd <= WIDTH_MAX && shape->n_ff <= WIDTH_MAX && shape->experts.n <= EXPERTS_MAX &&
           shape->n_layers <= LAYERS_MAX &&
           shape->attention.n_heads * shape->attention.key_dim <= WIDTH_MAX &&
           shape->attention.n_heads * shape->attention.value_dim <= WIDTH_MAX &&
           shape->experts.n_ff <= WIDTH_MAX && shape->experts.n_ff_shared <= WIDTH_MAX;
}

static void compute_step(const struct model *model)
{
    static float logits[N_IDS * VOCABULARY_MAX];
    struct error error;
    struct pool *pool;
    struct backend *backend;
    int32_t ids[N_IDS], n_ids = model->shape.n_context < N_IDS ? model->shape.n_context : N_IDS;
    for (int32_t i = 0; i < n_ids; i++)
        ids[i] = i % model->shape.n_vocab;
    if (pool_create(&pool, 1, &error) != STATUS_OK ||
        cpu_backend_create(&backend, pool, CPU_AVX512, &error) != STATUS_OK)
        abort();
    // Weights of any bits give logits of any bits: what is tested is that nothing else happens.
    if (logits_of_text(model, backend, KV_F32, ids, n_ids, logits, &error) != STATUS_OK)
        abort();
    backend->device.destroy(backend);
    pool_destroy(pool);
}

// A text longer than a step.
static void compute_embedding(const struct model *model)
{
    enum { N_ROWS = 3 };
    static float vector[WIDTH_MAX];
    struct error error;
    struct pool *pool;
    struct backend *backend;
    struct forward *forward;
    struct embedder *embedder;
    int32_t ids[N_IDS], n_ids = model->shape.n_context < N_IDS ? model->shape.n_context : N_IDS;
    for (int32_t i = 0; i < n_ids; i++)
        ids[i] = i % model->shape.n_vocab;
    struct forward_limits limits = {.n_tokens_max = N_ROWS,
                                    .n_outputs_max = N_ROWS,
                                    .n_sequences_max = 1,
                                    .page_positions = 16,
                                    .kv_type = KV_F32,
                                    .hidden_only = true};
    limits.n_pages = (int32_t)embedder_pages(&limits, n_ids);
    if (pool_create(&pool, 1, &error) != STATUS_OK ||
        cpu_backend_create(&backend, pool, CPU_AVX512, &error) != STATUS_OK ||
        forward_create(&forward, model, backend, &limits, NULL, NULL, &error) != STATUS_OK)
        abort();
    struct embedder_options options = {.model = model,
                                       .forward = forward,
                                       .limits = limits,
                                       .pooling = POOLING_MEAN,
                                       .normalize = true,
                                       .n_dimensions = 1,
                                       .n_longest = n_ids};
    struct embedding_text text = {ids, n_ids, NULL};
    if (embedder_create(&embedder, &options, &error) == STATUS_OK &&
        embedder_compute(embedder, &text, 1, vector, &error) != STATUS_OK)
        abort();
    embedder_destroy(embedder);
    forward_destroy(forward);
    backend->device.destroy(backend);
    pool_destroy(pool);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int file = memfd_create("fuzz", 0);
    if (file < 0 || write(file, data, size) != (ssize_t)size)
        abort();
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    struct model *model;
    struct error error;
    if (model_open(&model, path, &error) == STATUS_OK) {
        float pairs[ROPE_DIMS_MAX];
        for (int32_t i = 0; i < model->shape.rope.n_tables; i++)
            rope_fill(&model->rope[i], MODEL_CONTEXT_MAX - 1, pairs);
        if (model_n_parameters(model) == 0 || strlen(model_family_name(model)) == 0)
            abort();
        model_fingerprint(model, NULL, NULL);
        if (is_small(model) && model->shape.bidirectional)
            compute_embedding(model);
        else if (is_small(model))
            compute_step(model);
        model_close(model);
    } else if (strlen(error.text) == 0) {
        abort();
    }
    close(file);
    return 0;
}
