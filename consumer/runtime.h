// A model ready to work: file, tokenizer, chat template, threads, backend, memory plan, forward pass, batcher.
// Thread: main opens and closes it; the batcher is the engine thread's while it runs.
#pragma once

#include "batching/batcher.h"
#include "batching/limits.h"
#include "consumer/check_cpu.h"
#include "consumer/options.h"
#include "consumer/sampling_defaults.h"
#include "engine/session.h"

struct runtime {
    struct model *model;
    struct tokenizer *tokenizer;
    struct template *chat_template; // NULL: none
    struct template *tool_template; // for jobs with tools: the same where the model has none of its own for them
    struct pool *pool;
    struct backend *backend; // of both, where device and host compute together
    struct backend *host;    // the CPU's beside a GPU, until it is needed or not; else NULL
    bool on_gpu;
    uint64_t host_memory_available; // when the plan was made
    struct trace *trace; // NULL: none
    struct check_cpu check;
    struct forward *forward;         // NULL when test_engine stands in its place
    struct session session;          // of `forward`
    struct test_engine *test_engine; // --engine-test, else NULL
    struct batcher *batcher;
    struct limits_plan plan;
    struct text model_name;
    struct sampling_defaults defaults; // once runtime_open has returned
    int gpu_capability; // 90 for 9.0
    char arithmetic[JOB_FINGERPRINT_BYTES_MAX + 1]; // its name (consumer/arithmetic.h); set by runtime_open
};

// Whether the file is there and readable: for commands that make other files first. STATUS_REFUSE, ERROR_FILE.
enum status runtime_check_model(const char *path, struct error *error) WARN_UNUSED;
// The model alone, its weights quantised as they are loaded where the settings ask for it.
enum status runtime_open_weights(struct runtime *runtime, const struct settings *settings, const char *path,
                                 struct error *error) WARN_UNUSED;
// Model, tokenizer and chat template.
enum status runtime_open_model(struct runtime *runtime, const struct settings *settings, const char *path,
                               struct error *error) WARN_UNUSED;
// Model, backend, memory plan, forward pass and batcher; says what it derived.
enum status runtime_open(struct runtime *runtime, const struct settings *settings, const char *path,
                         struct error *error) WARN_UNUSED;
// Pool and backend of the settings.
enum status runtime_open_backend(struct runtime *runtime, const struct settings *settings, struct error *error)
    WARN_UNUSED;
// Derives the memory plan of what is wanted (its backends and placing are filled in) and places the backend by it.
enum status runtime_plan(struct runtime *runtime, const struct settings *settings, struct limits_wanted *wanted,
                         struct error *error) WARN_UNUSED;
// Of KV pages, as --kv-type says for the open backend; without it *type stays.
enum status runtime_kv_type(const struct runtime *runtime, const struct settings *settings, enum kv_type *type,
                            struct error *error) WARN_UNUSED;
// The session of the forward pass, checked on the CPU by the settings and `timed` for a trace. `forward` is there, with limits.
enum status runtime_open_session(struct runtime *runtime, const struct settings *settings,
                                 const struct forward_limits *limits, bool timed, struct error *error) WARN_UNUSED;
void runtime_close(struct runtime *runtime);
