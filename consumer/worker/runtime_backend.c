// Pool, CPU, GPU and adapters of a worker, as its options choose them (consumer/worker/runtime.h).
#include "consumer/worker/runtime.h"

#include "consumer/observe/log.h"
#include "engine/cpu/backend.h"
#include "engine/model/adapter.h"
#include "gpu/backend.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ADAPTER_PATH_BYTES_MAX = 4096 };

#define LORA    "--lora"
#define MODULES "--lora-modules"

// "cpu:NAME" limits the kernels to that instruction set.
static bool parse_level(const char *name, enum cpu_level *level)
{
    *level = CPU_AUTO;
    if (strncmp(name, "cpu:", strlen("cpu:")) == 0)
        return cpu_level_find(name + strlen("cpu:"), level);
    return strcmp(name, "auto") == 0 || strcmp(name, "cuda") == 0 || strcmp(name, "cpu") == 0;
}

// A file's name has a dot or a slash, so that a misspelled word is no file.
static enum status parse_tiles(const char *text, struct gpu_options *options, struct error *error)
{
    options->tiles = GPU_TILES_AUTO;
    options->tiles_path = text && strpbrk(text, "./") ? text : NULL;
    if (!text)
        return STATUS_OK;
    options->tiles = strcmp(text, "by-rows") == 0 ? GPU_TILES_BY_ROWS : GPU_TILES_MEASURED;
    if (options->tiles_path || strcmp(text, "measured") == 0 || strcmp(text, "by-rows") == 0)
        return STATUS_OK;
    return error_set(
        error, STATUS_REFUSE, ERROR_USAGE,
        "--tiles: expected measured, by-rows or a file with a dot or a slash in its name, got \"%s\"", text);
}

static void say_tiles(const char *text)
{
    log_write(LOG_INFO, "%s", text);
}

static enum status open_gpu(struct runtime *runtime, const struct settings *settings, struct error *error)
{
    struct gpu_options options = {.index = (int)settings->engine.gpu.device,
                                  .memory_bytes = settings->engine.gpu.memory_bytes,
                                  .eager = settings->engine.gpu.no_graphs || settings->engine.gpu.sync,
                                  .sync = settings->engine.gpu.sync,
                                  .no_overlap = settings->engine.gpu.no_overlap,
                                  .no_carveout = settings->engine.gpu.no_carveout,
                                  .no_wgmma = settings->engine.gpu.no_wgmma,
                                  .say = say_tiles,
                                  .pool = runtime->device.pool};
    enum status status = parse_tiles(settings->engine.gpu.tiles, &options, error);
    if (status != STATUS_OK)
        return status;
    status = gpu_backend_create(&runtime->device.backend, &options, error);
    if (status != STATUS_OK)
        return status;
    runtime->device.on_gpu = true;
    runtime->device.gpu_capability = gpu_backend_capability(runtime->device.backend);
    status = cpu_backend_create(&runtime->device.host, runtime->device.pool, CPU_AUTO, error);
    if (status != STATUS_OK)
        return status;
    char device[128];
    gpu_backend_describe(runtime->device.backend, device, sizeof device);
    log_write(LOG_INFO, "GPU %d: %s", options.index, device);
    return STATUS_OK;
}

static const char *backend_name(const struct engine_options *options)
{
    return options->backend ? options->backend : "auto";
}

static int activation_bits(const struct engine_options *options)
{
    return options->activation_bits ? (int)options->activation_bits : 8;
}

static enum status check_activation_bits(const struct engine_options *options, bool on_gpu,
                                         struct error *error)
{
    const int bits = activation_bits(options);
    if (bits != 8 && bits != 16)
        return error_set(error, STATUS_REFUSE, ERROR_USAGE, "--activation-bits: expected 8 or 16, got %d",
                         bits);
    if (bits == 16 && on_gpu)
        return error_set(
            error, STATUS_REFUSE, ERROR_USAGE,
            "--activation-bits 16: expected a CPU (--backend cpu); a GPU computes with binary16");
    return STATUS_OK;
}

static enum status check_gpu_options(const struct settings *settings, struct error *error)
{
    enum status status = check_activation_bits(&settings->engine, true, error);
    if (status == STATUS_OK && (settings->model.adapters || settings->model.modules))
        return error_set(error, STATUS_REFUSE, ERROR_USAGE,
                         "%s: expected a CPU (--backend cpu); a GPU does not compute adapters",
                         settings->model.adapters ? LORA : MODULES);
    return status;
}

static enum status parse_backend(const struct engine_options *options, enum cpu_level *level,
                                 struct error *error)
{
    const char *name = backend_name(options);
    if (parse_level(name, level))
        return STATUS_OK;
    return error_set(error, STATUS_REFUSE, ERROR_USAGE, "--backend: expected auto, cpu or cuda, got \"%s\"",
                     name);
}

static enum status open_cpu(struct runtime *runtime, enum cpu_level level, struct error *error)
{
    enum status status = cpu_backend_create(&runtime->device.backend, runtime->device.pool, level, error);
    if (status != STATUS_OK)
        return status;
    int refusal;
    const char *refused = cpu_backend_refused(runtime->device.backend, &refusal);
    if (refused)
        log_write(LOG_WARNING, "%s: the operating system refuses its registers (%s); computing with %s",
                  refused, strerror(refusal), runtime->device.backend->device.name);
    return STATUS_OK;
}

enum status runtime_check_backend(const struct engine_options *options, struct error *error)
{
    enum cpu_level level;
    struct gpu_options gpu;
    enum status status = parse_backend(options, &level, error);
    if (status == STATUS_OK)
        status = parse_tiles(options->gpu.tiles, &gpu, error);
    return status == STATUS_OK ? check_activation_bits(options, false, error) : status;
}

enum status runtime_open_pool(struct runtime *runtime, const struct engine_options *options,
                              struct error *error)
{
    return runtime->device.pool ? STATUS_OK
                                : pool_create(&runtime->device.pool, (int)options->threads, error);
}

enum status runtime_open_backend(struct runtime *runtime, const struct settings *settings,
                                 struct error *error)
{
    const char *name = backend_name(&settings->engine);
    enum cpu_level level = CPU_AUTO;
    enum status status = runtime_check_backend(&settings->engine, error);
    if (status == STATUS_OK)
        status = parse_backend(&settings->engine, &level, error);
    if (status == STATUS_OK)
        status = runtime_open_pool(runtime, &settings->engine, error);
    bool wanted = strcmp(name, "cuda") == 0;
    if (status == STATUS_OK && (wanted || strcmp(name, "auto") == 0)) {
        struct error absent = {0};
        if (open_gpu(runtime, settings, &absent) == STATUS_OK)
            return check_gpu_options(settings, error);
        if (wanted || runtime->device.on_gpu) {
            *error = absent;
            return error_prefix(error, "--backend cuda");
        }
        if (settings->engine.gpu.option)
            return error_set(error, STATUS_REFUSE, ERROR_USAGE, "--%s: expected a GPU: %s",
                             settings->engine.gpu.option, absent.text);
        log_write(LOG_INFO, "computing on the CPU: %s", absent.text);
    }
    if (status == STATUS_OK)
        status = open_cpu(runtime, level, error);
    if (status == STATUS_OK)
        cpu_backend_set_activation_bits(runtime->device.backend, activation_bits(&settings->engine));
    return status;
}

// ---- adapters ----

// "PATH=0.5" is a path and a scale, unless the whole is a path.
static enum status parse_adapter(const char *option, const char *given, char path[ADAPTER_PATH_BYTES_MAX + 1],
                                 double *scale, struct error *error)
{
    const char *equals = strrchr(given, '=');
    size_t size = strlen(given);
    *scale = 1.0;
    if (equals && access(given, F_OK) != 0) {
        char *end;
        *scale = strtod(equals + 1, &end);
        size = (size_t)(equals - given);
        if (!equals[1] || *end || !isfinite(*scale))
            return error_set(error, STATUS_REFUSE, ERROR_USAGE,
                             "%s: expected a number after the last =, as PATH=0.5, got \"%s\"", option,
                             given);
    }
    if (size == 0 || size > ADAPTER_PATH_BYTES_MAX)
        return error_set(error, STATUS_REFUSE, ERROR_USAGE,
                         "%s: expected a path of 1 to %d bytes, got \"%s\"", option, ADAPTER_PATH_BYTES_MAX,
                         given);
    memcpy(path, given, size);
    path[size] = 0;
    return STATUS_OK;
}

static enum status check_adapter(const char *option, const char *given, struct error *error)
{
    char path[ADAPTER_PATH_BYTES_MAX + 1];
    double scale;
    enum status status = parse_adapter(option, given, path, &scale, error);
    if (status == STATUS_OK && access(path, R_OK) != 0)
        status = error_set(error, STATUS_REFUSE, ERROR_FILE, "%s %s: %s", option, path, strerror(errno));
    return status;
}

// NAME of NAME=PATH. Blanks and commas separate names in the arithmetic of a worker (consumer/worker/arithmetic.h).
static enum status parse_module(const char *given, struct text *name, struct error *error)
{
    const char *equals = strchr(given, '=');
    *name = (struct text){given, equals ? (size_t)(equals - given) : 0};
    bool is_fit = name->size > 0 && name->size <= JOB_MODEL_BYTES_MAX && utf8_valid(name->data, name->size);
    for (size_t i = 0; i < name->size; i++)
        is_fit = is_fit && (unsigned char)given[i] > ' ' && given[i] != ',' && given[i] != 0x7f;
    return is_fit ? STATUS_OK
                  : error_set(error, STATUS_REFUSE, ERROR_USAGE,
                              MODULES
                              ": expected NAME=PATH with a name of 1 to %d bytes without blanks and commas, "
                              "got \"%s\"",
                              JOB_MODEL_BYTES_MAX, given);
}

enum status runtime_check_adapters(const struct model_options *options, struct error *error)
{
    enum status status = STATUS_OK;
    for (char *const *given = options->adapters; given && *given && status == STATUS_OK; given++)
        status = check_adapter(LORA, *given, error);
    for (char *const *given = options->modules; given && *given && status == STATUS_OK; given++) {
        struct text name;
        status = parse_module(*given, &name, error);
        if (status == STATUS_OK)
            status = check_adapter(MODULES, *given + name.size + 1, error);
    }
    return status;
}

static enum status add_adapter(struct runtime *runtime, bool is_module, const char *given,
                               struct error *error)
{
    char path[ADAPTER_PATH_BYTES_MAX + 1];
    double scale;
    struct buffer unknown = {0};
    enum status status = parse_adapter(is_module ? MODULES : LORA, given, path, &scale, error);
    if (status == STATUS_OK)
        status = is_module ? model_add_adapter_set(runtime->model, path, scale, &unknown, error)
                           : model_add_adapter(runtime->model, path, scale, &unknown, error);
    if (status == STATUS_OK && unknown.size)
        log_write(LOG_WARNING, "%s: settings of the adapter that are not known here, and not read: %.*s",
                  path, (int)unknown.size, unknown.data);
    buffer_finish(&unknown);
    return status;
}

static enum status add_module(struct runtime *runtime, const char *given, struct error *error)
{
    struct adapter_name *adapter = &runtime->adapters[runtime->n_adapters];
    enum status status = parse_module(given, &adapter->name, error);
    for (int32_t i = 0; i < runtime->n_adapters && status == STATUS_OK; i++)
        if (text_equal(runtime->adapters[i].name, adapter->name))
            status = error_set(error, STATUS_REFUSE, ERROR_USAGE, MODULES ": two adapters have the name %.*s",
                               (int)adapter->name.size, adapter->name.data);
    runtime->n_adapters++;
    return status == STATUS_OK ? add_adapter(runtime, true, given + adapter->name.size + 1, error) : status;
}

enum status runtime_add_adapters(struct runtime *runtime, const struct model_options *options,
                                 struct error *error)
{
    enum status status = STATUS_OK;
    size_t n = 0;
    for (char *const *given = options->adapters; given && *given && status == STATUS_OK; given++)
        status = add_adapter(runtime, false, *given, error);
    while (options->modules && options->modules[n])
        n++;
    if (status == STATUS_OK && n && !(runtime->adapters = calloc(n, sizeof *runtime->adapters)))
        return error_memory(error, STATUS_REFUSE, "names of adapters");
    for (size_t i = 0; i < n && status == STATUS_OK; i++)
        status = add_module(runtime, options->modules[i], error);
    return status;
}
