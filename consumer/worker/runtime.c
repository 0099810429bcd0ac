#include "consumer/worker/runtime.h"

#include "batching/session_executor.h"
#include "batching/speculation.h"
#include "consumer/observe/log.h"
#include "consumer/queue/fault.h"
#include "consumer/worker/arithmetic.h"
#include "consumer/worker/bus_error.h"
#include "consumer/worker/check_log.h"
#include "consumer/worker/required_arithmetic.h"
#include "consumer/worker/test_executor.h"
#include "consumer/worker/trace.h"
#include "engine/file/gguf_quantize.h"
#include "engine/file/interrupt.h"
#include "engine/model/adapter.h"
#include "engine/model/folder/model_folder.h"
#include "schemas/base/file.h"
#include "schemas/base/hash.h"
#include "schemas/base/machine.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

// ---- model ----

// A template that the interpreter refuses does not prevent plain prompts: only jobs with messages get the
// error.
static enum status open_model_template(struct runtime *runtime, const char *key, const char *jobs,
                                       struct template **template, struct answer_format *format,
                                       struct error *error)
{
    struct text source = {0};
    enum status status = gguf_text(runtime->model->gguf, key, &source, NULL, error);
    answer_format_detect(format, source);
    if (status != STATUS_OK || !source.size || template_parse(template, source, error) == STATUS_OK)
        return status;
    log_write(LOG_WARNING, "%s: %s; jobs with %s will be refused", key, error->text, jobs);
    return STATUS_OK;
}

static enum status open_model_templates(struct runtime *runtime, struct error *error)
{
    bool named = gguf_has(runtime->model->gguf, "tokenizer.chat_template.tool_use");
    enum status status = open_model_template(runtime, "tokenizer.chat_template", "messages",
                                             &runtime->chat.template, &runtime->chat.format, error);
    if (status == STATUS_OK && named)
        status = open_model_template(runtime, "tokenizer.chat_template.tool_use", "tools",
                                     &runtime->tools.template, &runtime->tools.format, error);
    if (!named) {
        runtime->tools.template = runtime->chat.template;
        runtime->tools.format = runtime->chat.format;
    }
    return status;
}

// A template given by an option must be valid.
static enum status open_template(struct runtime *runtime, const struct model_options *options,
                                 struct error *error)
{
    if (!options->chat_template)
        return open_model_templates(runtime, error);
    struct buffer file = {0};
    enum status status = file_read_text(options->chat_template, TEMPLATE_SOURCE_BYTES_MAX, &file, error);
    if (status == STATUS_OK && !file.size)
        status = error_set(error, STATUS_REFUSE, ERROR_TEMPLATE,
                           "%s: expected a chat template, got an empty file", options->chat_template);
    else if (status == STATUS_OK &&
             template_parse(&runtime->chat.template, (struct text){file.data, file.size}, error) != STATUS_OK)
        status = error_prefix(error, "%s", options->chat_template);
    answer_format_detect(&runtime->chat.format, (struct text){file.data, file.size});
    runtime->tools.template = runtime->chat.template;
    runtime->tools.format = runtime->chat.format;
    buffer_finish(&file);
    return status;
}

static enum status choose_tool_format(struct runtime *runtime, const struct model_options *options,
                                      struct error *error)
{
    if (!options->tool_format)
        return STATUS_OK;
    const struct tool_format *format = tool_format_find(options->tool_format);
    runtime->chat.format.tools = runtime->tools.format.tools = format;
    if (format)
        return STATUS_OK;
    struct buffer names = {0};
    tool_format_list(&names);
    (void)error_set(error, STATUS_REFUSE, ERROR_USAGE, "--tool-format: expected one of %s, got \"%s\"",
                    names.data ? names.data : "", options->tool_format);
    buffer_finish(&names);
    return STATUS_REFUSE;
}

static enum status parse_quantize(const struct model_options *options, enum tensor_type *type,
                                  struct error *error)
{
    if (gguf_quantize_type(options->quantize, type))
        return STATUS_OK;
    return error_set(error, STATUS_REFUSE, ERROR_USAGE,
                     "--quantize: expected q8_0, q6_k, q5_k, q4_k, q4_0, bf16, f16 or f32, got \"%s\"",
                     options->quantize);
}

// Takes ownership of *gguf, also on failure.
static enum status quantize_model(struct runtime *runtime, const struct settings *settings,
                                  struct gguf **gguf, struct error *error)
{
    enum tensor_type type;
    struct gguf *source = *gguf;
    *gguf = NULL;
    enum status status = parse_quantize(&settings->model, &type, error);
    if (status == STATUS_OK)
        status = runtime_open_pool(runtime, &settings->engine, error);
    if (status != STATUS_OK) {
        gguf_close(source);
        return status;
    }
    status = gguf_quantize(gguf, source, type, runtime->device.pool, error);
    char text[512];
    if (status == STATUS_OK && gguf_quantize_replaced(*gguf, type, text, sizeof text))
        log_write(LOG_WARNING,
                  "--quantize %s: its blocks of %d items do not divide all rows; tensors of other types: %s",
                  settings->model.quantize, (int)tensor_traits(type)->block_items, text);
    return status;
}

static enum status say_what_is_not_used(const struct gguf *gguf, struct error *error)
{
    struct text unknown = {0};
    enum status status = gguf_text(gguf, MODEL_FOLDER_UNKNOWN, &unknown, NULL, error);
    if (status == STATUS_OK && unknown.size)
        log_write(LOG_WARNING, "settings of the model that are not known here, and not read: %.*s",
                  (int)unknown.size, unknown.data);
    struct text quantization = {0};
    if (status == STATUS_OK)
        status = gguf_text(gguf, MODEL_FOLDER_QUANTIZATION, &quantization, NULL, error);
    if (status == STATUS_OK && quantization.size)
        log_write(LOG_INFO, "%.*s", (int)quantization.size, quantization.data);
    return status;
}

enum status runtime_open_weights(struct runtime *runtime, const struct settings *settings, const char *path,
                                 struct error *error)
{
    struct gguf *gguf = NULL;
    bus_error_handle(path);
    enum status status = model_folder_open(&gguf, path, error);
    if (status == STATUS_OK && settings->model.quantize)
        status = quantize_model(runtime, settings, &gguf, error);
    if (status == STATUS_OK)
        status = say_what_is_not_used(gguf, error);
    if (status == STATUS_OK)
        status = model_open_taking(&runtime->model, gguf, error);
    return status == STATUS_OK ? runtime_add_adapters(runtime, &settings->model, error) : status;
}

// A longer name could not be read back from results. A file's own name is shorter (engine/model/model.h).
static enum status name_model(struct runtime *runtime, const struct model_options *options, const char *path,
                              struct error *error)
{
    runtime->names = (struct model_names){.given = options->names,
                                          .own = text_from_string(runtime->model->name),
                                          .path = path,
                                          .is_required = options->is_required,
                                          .adapters = runtime->adapters,
                                          .n_adapters = runtime->n_adapters};
    runtime->model_name = model_names_first(&runtime->names);
    for (char *const *given = options->names; given && *given; given++) {
        size_t size = strlen(*given);
        if (size == 0 || size > JOB_MODEL_BYTES_MAX || !utf8_valid(*given, size))
            return error_set(error, STATUS_REFUSE, ERROR_USAGE,
                             "--model-name: expected 1 to %d bytes of UTF-8, got %zu bytes",
                             JOB_MODEL_BYTES_MAX, size);
    }
    for (int32_t i = 0; i < runtime->n_adapters; i++)
        if (model_names_have(&runtime->names, runtime->adapters[i].name))
            return error_set(error, STATUS_REFUSE, ERROR_USAGE,
                             "--lora-modules: %.*s is the model's own name",
                             (int)runtime->adapters[i].name.size, runtime->adapters[i].name.data);
    return STATUS_OK;
}

static enum status open_tokenizer(struct runtime *runtime, const struct model_options *options,
                                  const char *path, struct error *error)
{
    enum status status = tokenizer_open(&runtime->tokenizer, runtime->model->gguf, options->pre, error);
    if (status == STATUS_OK && tokenizer_n_tokens(runtime->tokenizer) > runtime->model->shape.n_vocab)
        status = error_set(error, STATUS_REFUSE, ERROR_MODEL_FILE,
                           "%s: the tokenizer has %d tokens, the model only %d", path,
                           tokenizer_n_tokens(runtime->tokenizer), runtime->model->shape.n_vocab);
    return status;
}

static enum status open_templates(struct runtime *runtime, const struct model_options *options,
                                  const char *path, struct error *error)
{
    enum status status = open_template(runtime, options, error);
    if (status == STATUS_OK)
        status = choose_tool_format(runtime, options, error);
    return status == STATUS_OK ? name_model(runtime, options, path, error) : status;
}

enum status runtime_open_tokenizer(struct runtime *runtime, const struct model_options *options,
                                   const char *path, struct error *error)
{
    enum status status = open_tokenizer(runtime, options, path, error);
    return status == STATUS_OK ? open_templates(runtime, options, path, error) : status;
}

enum status runtime_open_model(struct runtime *runtime, const struct settings *settings, const char *path,
                               struct error *error)
{
    enum status status = runtime_open_weights(runtime, settings, path, error);
    return status == STATUS_OK ? runtime_open_tokenizer(runtime, &settings->model, path, error) : status;
}

enum status runtime_open_templates(struct runtime *runtime, const struct settings *settings, const char *path,
                                   struct error *error)
{
    struct settings unchanged = *settings;
    unchanged.model.quantize = NULL;
    unchanged.model.adapters = unchanged.model.modules = NULL;
    enum status status = runtime_open_weights(runtime, &unchanged, path, error);
    if (status == STATUS_OK)
        status = open_template(runtime, &settings->model, error);
    return status == STATUS_OK ? choose_tool_format(runtime, &settings->model, error) : status;
}

// ---- machine ----

// "layers:20": the placement, and the number of layers on the device.
static enum status parse_placement(const char *text, struct limits_wanted *wanted, struct error *error)
{
    static const char *const names[] = {[PLACING_AUTO] = "auto",
                                        [PLACING_DEVICE] = "device",
                                        [PLACING_LAYERS] = "layers",
                                        [PLACING_ATTENTION] = "attention-cpu",
                                        [PLACING_EXPERTS] = "experts"};
    size_t length = strcspn(text, ":");
    for (int placing = 0; placing <= PLACING_EXPERTS; placing++) {
        if (strlen(names[placing]) != length || memcmp(names[placing], text, length) != 0)
            continue;
        wanted->placing = (enum placing)placing;
        char *end = (char *)text + length;
        long n = *end && placing >= PLACING_LAYERS ? strtol(text + length + 1, &end, 10) : 0;
        long least = placing == PLACING_EXPERTS ? 0 : 1;
        if (*end || (text[length] && (n < least || n > MODEL_LAYERS_MAX || end == text + length + 1)))
            break;
        wanted->n_device_layers = text[length] && n == 0 ? LIMITS_NO_LAYERS : (int32_t)n;
        return STATUS_OK;
    }
    return error_set(
        error, STATUS_REFUSE, ERROR_USAGE,
        "--placement: expected auto, device, layers, attention-cpu or experts, the last three also with a number "
        "of layers from 1 (experts: 0) to %d as layers:20, got \"%s\"",
        MODEL_LAYERS_MAX, text);
}

// The hybrid of both backends, which it owns; without a hybrid, the device's backend.
static enum status place_model(struct runtime *runtime, struct error *error)
{
    const struct limits_plan *plan = &runtime->plan;
    if (!limits_is_hybrid(plan)) {
        if (runtime->device.host)
            runtime->device.host->device.destroy(runtime->device.host);
        runtime->device.host = NULL;
        return STATUS_OK;
    }
    struct backend *hybrid;
    enum status status = hybrid_backend_create(&hybrid, runtime->device.backend, runtime->device.host,
                                               runtime->model, &plan->placement, error);
    if (status != STATUS_OK)
        return status;
    runtime->device.backend = hybrid;
    runtime->device.host = NULL;
    char text[320];
    limits_describe_placement(plan, runtime->model, text, sizeof text);
    log_write(LOG_INFO, "placement: %s", text);
    return STATUS_OK;
}

enum status runtime_plan(struct runtime *runtime, const struct engine_options *options,
                         struct limits_wanted *wanted, struct error *error)
{
    struct backend *backend = runtime->device.backend;
    wanted->backend = backend;
    wanted->device = runtime->device.on_gpu;
    enum status status =
        parse_placement(options->gpu.placement ? options->gpu.placement : "auto", wanted, error);
    if (status == STATUS_OK && !runtime->device.on_gpu && wanted->placing != PLACING_AUTO)
        status = error_set(error, STATUS_REFUSE, ERROR_USAGE, "--placement %s: there is no GPU to place on",
                           options->gpu.placement);
    if (status != STATUS_OK)
        return status;
    runtime->device.host_available_bytes = machine_available_bytes();
    bool bytes = wanted->kv_type && *wanted->kv_type == KV_Q8_0;
    if (bytes && (wanted->placing == PLACING_LAYERS || wanted->placing == PLACING_ATTENTION))
        return error_set(
            error, STATUS_REFUSE, ERROR_USAGE,
            "--placement %s with --kv-type q8_0: expected f16, pages on two devices have 16 bits",
            options->gpu.placement);
    if (runtime->device.host && (!bytes || wanted->placing == PLACING_EXPERTS)) {
        wanted->host = runtime->device.host;
        wanted->host_available_bytes = runtime->device.host_available_bytes;
    }
    status = limits_derive(&runtime->plan, runtime->model, backend->device.available_bytes(backend), wanted,
                           error);
    return status == STATUS_OK ? place_model(runtime, error) : status;
}

bool runtime_reads_time(const struct runtime *runtime)
{
    const struct template *chat = runtime->chat.template, *tools = runtime->tools.template;
    return (chat && template_reads_time(chat)) || (tools && template_reads_time(tools));
}

enum status runtime_kv_type(const struct engine_options *options, enum kv_type *type, struct error *error)
{
    if (!options->kv_type)
        return STATUS_OK;
    if (strcmp(options->kv_type, "f16") == 0)
        *type = KV_F16;
    else if (strcmp(options->kv_type, "q8_0") == 0)
        *type = KV_Q8_0;
    else
        return error_set(error, STATUS_REFUSE, ERROR_USAGE, "--kv-type: expected f16 or q8_0, got \"%s\"",
                         options->kv_type);
    return STATUS_OK;
}

// Numbers of draft tokens: limit for a step of the batch; fixed number per sequence (0: chosen by expected
// gain).
struct draft_numbers {
    int32_t n_max, n_fixed;
};

// No draft tokens on a GPU: its steps are submitted ahead, and the cost of a row is measured on a CPU only. There
// a number on the command line is refused; one of the environment or the file is for hosts with a CPU alone.
// The mock engine drafts only if --speculate asks for it, so that its steps last as long as its specification
// says.
static enum status parse_speculate(const struct engine_options *options, bool on_gpu,
                                   struct draft_numbers *drafts, struct error *error)
{
    const char *text = options->speculate ? options->speculate : "auto";
    bool is_auto = strcmp(text, "auto") == 0, is_off = strcmp(text, "off") == 0;
    char *end = (char *)text;
    long n = is_auto || is_off ? 0 : strtol(text, &end, 10);
    if (!is_auto && !is_off && (end == text || *end || n < 1 || n > DRAFT_TOKENS_MAX))
        return error_set(
            error, STATUS_REFUSE, ERROR_USAGE,
            "--speculate: expected auto, off or a number of draft tokens from 1 to %d, got \"%s\"",
            DRAFT_TOKENS_MAX, text);
    if (n && on_gpu && options->cpu_option)
        return error_set(error, STATUS_REFUSE, ERROR_USAGE,
                         "--speculate %s: expected a CPU, on a GPU no tokens are drafted", text);
    bool drafts_any = !is_off && !on_gpu && !(is_auto && options->test);
    *drafts = (struct draft_numbers){drafts_any ? LIMITS_DRAFTS : 0, (int32_t)n};
    return STATUS_OK;
}

enum status runtime_check(const struct settings *settings, struct error *error)
{
    const char *path = settings->model.path;
    enum tensor_type type;
    enum kv_type kv_type;
    struct draft_numbers drafts;
    if (access(path, R_OK) != 0)
        return error_set(error, STATUS_REFUSE, ERROR_FILE, "%s: opening the model: %s", path,
                         strerror(errno));
    enum status status = runtime_check_backend(&settings->engine, error);
    if (status == STATUS_OK)
        status = runtime_check_adapters(&settings->model, error);
    if (status == STATUS_OK && settings->model.quantize)
        status = parse_quantize(&settings->model, &type, error);
    if (status == STATUS_OK)
        status = runtime_kv_type(&settings->engine, &kv_type, error);
    return status == STATUS_OK ? parse_speculate(&settings->engine, false, &drafts, error) : status;
}

struct load_display {
    const struct interrupt *interrupt;
    bool shown;
    int64_t next_percent;
};

static bool show_loading(void *context, uint64_t done_bytes, uint64_t total_bytes)
{
    struct load_display *loading = context;
    int64_t percent = total_bytes ? (int64_t)(100.0 * (double)done_bytes / (double)total_bytes) : 100;
    if (interrupt_requested(loading->interrupt))
        return false;
    if (!isatty(STDERR_FILENO) || percent < loading->next_percent)
        return true;
    loading->next_percent = percent + 5;
    loading->shown = percent < 100;
    fprintf(stderr, "\rloading weights: %3lld %%%s", (long long)percent, percent < 100 ? "" : "\r\033[K");
    return true;
}

static void say_plan(const struct runtime *runtime)
{
    const struct limits_plan *plan = &runtime->plan;
    log_write(LOG_INFO, "%.*s (%s, %.1f M parameters) on %s, %d thread%s", (int)runtime->model_name.size,
              runtime->model_name.data, model_family_name(runtime->model),
              (double)model_n_parameters(runtime->model) / 1e6, runtime->device.backend->device.name,
              pool_n_threads(runtime->device.pool), pool_n_threads(runtime->device.pool) == 1 ? "" : "s");
    log_write(LOG_INFO, "batch: up to %d sequences and %d rows a step, window of %d jobs",
              plan->batch.n_sequences_max, plan->batch.n_tokens_max, plan->batch.n_jobs_max);
    char drafts[48] = "";
    if (plan->draft_bytes)
        snprintf(drafts, sizeof drafts, "drafts %.1f MB, ", (double)plan->draft_bytes / 1e6);
    char states[96] = "";
    if (plan->state_bytes)
        snprintf(states, sizeof states, "recurrent states %.1f MB (%d of sequences, %d of shared prefixes), ",
                 (double)plan->state_bytes / 1e6, plan->batch.n_sequences_max,
                 plan->batch.n_state_slots - plan->batch.n_sequences_max);
    log_write(LOG_INFO,
              "memory: weights %.1f MB, matrices %.1f MB, %s%sKV %.1f MB (%d pages of %d positions)",
              (double)plan->weight_bytes / 1e6, (double)plan->matrix_bytes / 1e6, drafts, states,
              (double)plan->page_bytes / 1e6, plan->batch.n_pages, plan->batch.page_positions);
    if (plan->state_bytes)
        log_write(LOG_INFO, "family %s has recurrent layers: no tokens are drafted",
                  model_family_name(runtime->model));
    int64_t n_positions = (int64_t)plan->batch.n_pages * plan->batch.page_positions,
            n_context = runtime->model->shape.n_context;
    if (n_positions < n_context)
        log_write(LOG_WARNING,
                  "KV pages hold %lld of the context's %lld tokens: a job that needs more is refused; "
                  "--kv-memory %lldM holds one context",
                  (long long)n_positions, (long long)n_context,
                  (long long)((double)plan->page_bytes / (double)n_positions * (double)n_context / 0x1p20) +
                      1);
    log_write(LOG_INFO, "system_fingerprint of results: %s", runtime->arithmetic);
    for (int32_t i = 0; i < runtime->n_adapters; i++)
        log_write(LOG_INFO, "jobs of model %.*s: %s", (int)runtime->adapters[i].name.size,
                  runtime->adapters[i].name.data, runtime->adapters[i].system_fingerprint);
}

enum status runtime_open_session(struct runtime *runtime, const struct settings *settings,
                                 const struct forward_limits *limits, bool timed, struct error *error)
{
    struct check_cpu_wanted wanted = {.every = settings->engine.check_cpu,
                                      .model = runtime->model,
                                      .backend = runtime->device.backend,
                                      .pool = runtime->device.pool,
                                      .plan = runtime->plan,
                                      .host_available_bytes = runtime->device.host_available_bytes};
    wanted.plan.forward = *limits;
    if (settings->engine.check_cpu) {
        enum status status = check_cpu_open(&runtime->check, &wanted, error);
        if (status != STATUS_OK)
            return status;
    }
    struct session_options options = {.forward = runtime->forward,
                                      .check = runtime->check.check,
                                      .check_every = settings->engine.check_cpu,
                                      .timed = timed ? runtime->device.backend : NULL,
                                      .before_step = fault_step};
    session_init(&runtime->session, &options);
    return STATUS_OK;
}

// The plan used the memory free at that time; another program may have allocated some of it since.
static enum status say_lacking(const struct runtime *runtime, struct error *error)
{
    uint64_t left_bytes = runtime->device.backend->device.available_bytes(runtime->device.backend);
    return error_prefix(
        error,
        "the GPU has not the memory that was planned for; --gpu-memory %lluM would fit what it has now",
        (unsigned long long)(left_bytes >> 20));
}

static enum status open_engine(struct runtime *runtime, const struct settings *settings,
                               const struct interrupt *interrupt, struct error *error)
{
    struct load_display loading = {.interrupt = interrupt};
    enum status status = forward_create(&runtime->forward, runtime->model, runtime->device.backend,
                                        &runtime->plan.forward, show_loading, &loading, error);
    if (loading.shown)
        fputs("\r\033[K", stderr);
    if (status == STATUS_REFUSE && error->code == ERROR_OUT_OF_MEMORY && runtime->device.on_gpu)
        return say_lacking(runtime, error);
    if (status == STATUS_OK)
        status = runtime_open_session(runtime, settings, &runtime->plan.forward,
                                      settings->engine.trace_steps != NULL, error);
    if (status == STATUS_OK && settings->engine.trace_steps)
        status = trace_open(&runtime->trace, settings->engine.trace_steps, settings->output.overwrite, error);
    return status;
}

static enum status open_test_executor(struct runtime *runtime, const struct engine_options *options,
                                      struct error *error)
{
    log_write(LOG_WARNING, "--engine-test %s: answers are words at random, not the model's", options->test);
    return test_executor_create(&runtime->test_executor, options->test, runtime->tokenizer, error);
}

static enum status create_batcher(struct runtime *runtime, const struct settings *settings,
                                  struct error *error)
{
    const struct tokenizer *tokenizer = runtime->tokenizer;
    struct draft_numbers drafts;
    enum status status = parse_speculate(&settings->engine, runtime->device.on_gpu, &drafts, error);
    if (status != STATUS_OK)
        return status;
    struct batcher_config config = {
        .executor = runtime->test_executor
                        ? test_executor_bind(runtime->test_executor)
                        : session_executor_bind(&runtime->session, !settings->engine.no_ahead),
        .pool = runtime->device.pool,
        .environment = {.tokenizer = tokenizer,
                        .chat_template = runtime->chat.template,
                        .chat_format = runtime->chat.format,
                        .tool_format = runtime->tools.format,
                        .tool_template = runtime->tools.template,
                        .special_in_content = settings->model.special_in_content,
                        .sampling_defaults = runtime->defaults.sampling,
                        .reasoning_effort = runtime->defaults.reasoning_effort,
                        .limits = {.n_context = runtime->model->shape.n_context,
                                   .n_context_original = runtime->model->shape.n_context_original,
                                   .n_vocab = runtime->model->shape.n_vocab,
                                   .page_bytes =
                                       runtime->plan.page_bytes / (uint64_t)runtime->plan.batch.n_pages,
                                   .max_tokens_default = (int32_t)runtime->defaults.max_tokens}},
        .limits = runtime->plan.batch,
        .shares = &runtime->shares,
        .n_drafts_fixed = drafts.n_fixed};
    // the arithmetic of a set names the contents of its adapters
    uint64_t hashes[ADAPTERS_MAX];
    for (int32_t i = 0; i < runtime->n_adapters; i++)
        hashes[i] = hash_bytes(runtime->adapters[i].system_fingerprint,
                               strlen(runtime->adapters[i].system_fingerprint), 0);
    config.adapters.hashes = hashes;
    config.adapters.n = runtime->n_adapters;
    return batcher_create(&runtime->batcher, &config, error);
}

// Opens everything that does not need the tokenizer.
static enum status open_engine_of_weights(struct runtime *runtime, const struct settings *settings,
                                          const char *path, const struct interrupt *interrupt,
                                          struct error *error)
{
    struct limits_wanted wanted = {.n_sequences_max = (int32_t)settings->engine.n_sequences_max,
                                   .n_tokens_max = (int32_t)settings->engine.n_tokens_max,
                                   .n_jobs_max = (int32_t)settings->engine.window,
                                   .page_bytes = settings->engine.kv_memory_bytes};
    enum status status = open_templates(runtime, &settings->model, path, error);
    if (status == STATUS_OK)
        status = sampling_defaults_read(&runtime->defaults, runtime->model->gguf, &settings->sampling, error);
    if (status == STATUS_OK && settings->sampling.thinking_token_budget && !runtime->chat.format.thinking)
        log_write(LOG_WARNING,
                  "--thinking-token-budget has no effect: no thoughts are known in the answers to the "
                  "model's chat template");
    if (status == STATUS_OK)
        status = runtime_open_backend(runtime, settings, error);
    struct draft_numbers drafts = {0};
    if (status == STATUS_OK)
        status = parse_speculate(&settings->engine, runtime->device.on_gpu, &drafts, error);
    if (status == STATUS_OK && drafts.n_fixed && runtime->model->shape.recurrent.n_layers)
        status =
            error_set(error, STATUS_REFUSE, ERROR_USAGE,
                      "--speculate %d: family %s has recurrent layers, whose states can't go back when a "
                      "draft token is refused; expected auto or off",
                      drafts.n_fixed, model_family_name(runtime->model));
    wanted.n_drafts_max = drafts.n_max;
    enum kv_type kv_type = KV_F16;
    wanted.kv_type = settings->engine.kv_type ? &kv_type : NULL;
    if (status == STATUS_OK)
        status = runtime_kv_type(&settings->engine, &kv_type, error);
    if (status == STATUS_OK)
        status = runtime_plan(runtime, &settings->engine, &wanted, error);
    // before the weights are packed, which would be in vain if the name differs
    if (status == STATUS_OK)
        status = arithmetic_name(runtime, settings, interrupt, error);
    if (status == STATUS_OK && settings->worker.require_arithmetic)
        status =
            required_arithmetic_check(settings->worker.require_arithmetic, runtime->fleet_arithmetic, error);
    return status == STATUS_OK && !settings->engine.test ? open_engine(runtime, settings, interrupt, error)
                                                         : status;
}

// Opens the tokenizer as a background task on one thread, while the others hash and pack the weights. They
// stop when it fails.
struct tokenizer_opening {
    struct pool_task task;
    struct runtime *runtime;
    const struct settings *settings;
    const char *path;
    const struct interrupt *interrupt; // the caller's
    struct error error;
    atomic_bool failed;
};

static void run_opening(void *context)
{
    struct tokenizer_opening *opening = context;
    atomic_store(&opening->failed, open_tokenizer(opening->runtime, &opening->settings->model, opening->path,
                                                  &opening->error) != STATUS_OK);
}

static bool loading_is_vain(void *context)
{
    struct tokenizer_opening *opening = context;
    return atomic_load(&opening->failed) || interrupt_requested(opening->interrupt);
}

static enum status open_while_tokenizing(struct runtime *runtime, const struct settings *settings,
                                         const char *path, const struct interrupt *interrupt,
                                         struct error *error)
{
    struct tokenizer_opening opening = {
        .runtime = runtime, .settings = settings, .path = path, .interrupt = interrupt};
    opening.task = (struct pool_task){.run = run_opening, .context = &opening};
    struct interrupt either = {loading_is_vain, &opening};
    // A single thread opens the tokenizer first, so that the weights are not loaded in vain.
    bool beside = pool_n_threads(runtime->device.pool) > 1;
    if (beside)
        pool_start(runtime->device.pool, &opening.task);
    else
        run_opening(&opening);
    enum status status = open_engine_of_weights(runtime, settings, path, &either, error);
    if (beside)
        pool_wait(runtime->device.pool, &opening.task);
    if (!atomic_load(&opening.failed))
        return status;
    *error = opening.error;
    return error->status;
}

enum status runtime_begin(struct runtime *runtime, const struct settings *settings, const char *path,
                          struct error *error)
{
    *runtime = (struct runtime){0};
    enum status status = STATUS_OK;
    if (settings->worker.require_arithmetic)
        status = required_arithmetic_validate(settings->worker.require_arithmetic, error);
    if (status == STATUS_OK)
        status = runtime_open_weights(runtime, settings, path, error);
    return status == STATUS_OK ? runtime_open_pool(runtime, &settings->engine, error) : status;
}

enum status runtime_open_generation(struct runtime *runtime, const struct settings *settings,
                                    const char *path, const struct interrupt *interrupt, struct error *error)
{
    enum status status = open_while_tokenizing(runtime, settings, path, interrupt, error);
    if (status == STATUS_OK && settings->engine.test)
        status = open_test_executor(runtime, &settings->engine, error);
    if (status == STATUS_OK)
        status = create_batcher(runtime, settings, error);
    if (status == STATUS_OK)
        say_plan(runtime);
    return status;
}

void runtime_close(struct runtime *runtime)
{
    batcher_destroy(runtime->batcher);
    trace_close(runtime->trace);
    if (runtime->check.check)
        check_log_totals(&runtime->session.totals);
    session_finish(&runtime->session);
    check_cpu_close(&runtime->check);
    forward_destroy(runtime->forward);
    test_executor_destroy(runtime->test_executor);
    if (runtime->device.backend)
        runtime->device.backend->device.destroy(runtime->device.backend);
    if (runtime->device.host)
        runtime->device.host->device.destroy(runtime->device.host);
    pool_destroy(runtime->device.pool);
    if (runtime->tools.template != runtime->chat.template)
        template_destroy(runtime->tools.template);
    template_destroy(runtime->chat.template);
    tokenizer_close(runtime->tokenizer);
    model_close(runtime->model);
    free(runtime->adapters);
    free(runtime->fleet_arithmetic);
    *runtime = (struct runtime){0};
}
