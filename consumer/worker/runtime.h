// A loaded model with all it needs: file, tokenizer, chat templates, threads, backend, memory plan, forward
// pass, batcher.
// Thread: main opens and closes it; the engine thread owns the batcher while it runs.
#pragma once

#include "batching/batcher.h"
#include "batching/limits.h"
#include "consumer/options/options.h"
#include "consumer/queue/model_names.h"
#include "consumer/worker/check_cpu.h"
#include "consumer/worker/sampling_defaults.h"
#include "engine/session.h"

struct runtime_template {
    struct template *template;   // NULL: none
    struct answer_format format; // format of the answers to its prompts
};

struct runtime_device {
    struct pool *pool;
    struct backend *backend; // a hybrid includes both
    struct backend *host;    // the CPU backend for a possible hybrid, until the plan is made; else NULL
    bool on_gpu;
    int gpu_capability;            // 90 for 9.0
    uint64_t host_available_bytes; // bytes, at the time of the plan
};

struct runtime {
    struct model *model;
    struct tokenizer *tokenizer;
    struct runtime_template chat;
    struct runtime_template tools; // for jobs with tools; equal to `chat` if the model has no other
    struct runtime_device device;
    struct trace *trace;          // NULL: none
    struct dataset_shares shares; // set by the caller before the batcher is created
    struct check_cpu check;
    struct forward *forward;             // NULL with test_executor
    struct session session;              // runs the steps of `forward`
    struct test_executor *test_executor; // --engine-test, else NULL
    struct batcher *batcher;             // NULL in a worker of another task (task_runtime.h)
    struct limits_plan plan;
    struct text model_name; // in results
    struct model_names names;
    struct sampling_defaults defaults;              // set by runtime_open_generation
    char arithmetic[JOB_FINGERPRINT_BYTES_MAX + 1]; // its name (consumer/worker/arithmetic.h)
    struct adapter_name *adapters; // [n_adapters] of --lora-modules, in the order of their sets
    int32_t n_adapters;
    char
        *fleet_arithmetic; // `arithmetic` and the content of --lora-modules, which all jobs of a dataset need
    const char *task_options; // parts of that name that only the worker's task knows, static; NULL: none
};

// Checks that the model is readable and that the engine's options are valid, for commands that create other
// files first. STATUS_REFUSE: ERROR_FILE, ERROR_USAGE.
enum status runtime_check(const struct settings *settings, struct error *error) WARN_UNUSED;
// The model only; its weights are quantized while loading if the settings say so.
enum status runtime_open_weights(struct runtime *runtime, const struct settings *settings, const char *path,
                                 struct error *error) WARN_UNUSED;
// Model, tokenizer and chat template.
enum status runtime_open_model(struct runtime *runtime, const struct settings *settings, const char *path,
                               struct error *error) WARN_UNUSED;
// Model and chat templates only, to check whether they support a request: weights are not read.
enum status runtime_open_templates(struct runtime *runtime, const struct settings *settings, const char *path,
                                   struct error *error) WARN_UNUSED;
// The start of a worker (task_runtime.h): the model and the pool.
enum status runtime_begin(struct runtime *runtime, const struct settings *settings, const char *path,
                          struct error *error) WARN_UNUSED;
// Tokenizer, chat templates and names of a model whose weights are open.
enum status runtime_open_tokenizer(struct runtime *runtime, const struct model_options *options,
                                   const char *path, struct error *error) WARN_UNUSED;
// After runtime_begin, for generation: tokenizer, backend, memory plan, forward pass and batcher; logs the plan.
// STATUS_RESTART after an interrupt (NULL: none).
enum status runtime_open_generation(struct runtime *runtime, const struct settings *settings,
                                    const char *path, const struct interrupt *interrupt,
                                    struct error *error) WARN_UNUSED;
// runtime_backend.c
// Checks the options of the backend alone. Errors: ERROR_USAGE.
enum status runtime_check_backend(const struct engine_options *options, struct error *error) WARN_UNUSED;
// The adapters of --lora and --lora-modules. The first checks names, paths and scales without a model, the second adds
// the adapters to the open model. Errors: model_add_adapter's; ERROR_USAGE, ERROR_FILE.
enum status runtime_check_adapters(const struct model_options *options, struct error *error) WARN_UNUSED;
enum status runtime_add_adapters(struct runtime *runtime, const struct model_options *options,
                                 struct error *error) WARN_UNUSED;
// The pool, unless it is open.
enum status runtime_open_pool(struct runtime *runtime, const struct engine_options *options,
                              struct error *error) WARN_UNUSED;
// Pool and backend of the settings.
enum status runtime_open_backend(struct runtime *runtime, const struct settings *settings,
                                 struct error *error) WARN_UNUSED;
// Derives the memory plan (sets `wanted`'s backends and placing) and creates the hybrid if the plan needs it.
enum status runtime_plan(struct runtime *runtime, const struct engine_options *options,
                         struct limits_wanted *wanted, struct error *error) WARN_UNUSED;
// Whether a chat template depends on the time of submission.
bool runtime_reads_time(const struct runtime *runtime);
// The KV type of --kv-type for the open backend; without the option *type is unchanged.
enum status runtime_kv_type(const struct engine_options *options, enum kv_type *type,
                            struct error *error) WARN_UNUSED;
// Opens the session of runtime->forward, which was created with `limits`. The settings decide whether its
// steps are checked on the CPU; `timed`: for a trace.
enum status runtime_open_session(struct runtime *runtime, const struct settings *settings,
                                 const struct forward_limits *limits, bool timed,
                                 struct error *error) WARN_UNUSED;
void runtime_close(struct runtime *runtime);
