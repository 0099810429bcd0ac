// The part of a runtime that computes embeddings: from a loaded model and an open backend to an embedder and the
// rules of its texts. For workers of TASK_EMBED and for sheaf embed.
// Thread: main opens and closes it; the engine thread owns the embedder while it runs.
#pragma once

#include "batching/embedding/embedding_input.h"
#include "consumer/options/options.h"
#include "engine/embedding.h"

struct runtime;

struct embedding_runtime {
    struct embedder *embedder;
    struct embedding_rules rules;
    enum pooling pooling;
    bool normalize;
    int32_t n_dimensions; // of each vector: --dimensions, else the model's width
    struct arena arena;   // of the prompts
};

// Before the backend: settings of the model and of --pooling, --dimensions, --prompt, --prompt-name, --max-length,
// --normalize. STATUS_REFUSE: ERROR_USAGE, ERROR_UNKNOWN_TYPE.
enum status embedding_runtime_choose(struct embedding_runtime *embedding, const struct runtime *runtime,
                                     const struct embed_options *options, struct error *error) WARN_UNUSED;
// The memory plan, in runtime->plan.
enum status embedding_runtime_plan(struct embedding_runtime *embedding, struct runtime *runtime,
                                   const struct engine_options *options, struct error *error) WARN_UNUSED;
// The forward pass and the embedder; logs the plan.
enum status embedding_runtime_open(struct embedding_runtime *embedding, struct runtime *runtime,
                                   const struct interrupt *interrupt, struct error *error) WARN_UNUSED;
void embedding_runtime_close(struct embedding_runtime *embedding);
// Appends the options that vectors depend on, for the name of the arithmetic.
void embedding_runtime_name(const struct embedding_runtime *embedding, const struct embed_options *options,
                            struct buffer *name);
