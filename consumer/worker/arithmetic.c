#include "consumer/worker/arithmetic.h"

#include "engine/file/interrupt.h"
#include "engine/model/adapter.h"
#include "schemas/base/file.h"
#include "schemas/base/hash.h"
#include "schemas/value.h"

#include <stdio.h>
#include <string.h>

static void add_backend(const struct runtime *runtime, const struct engine_options *options,
                        struct buffer *name)
{
    static const char *const kv_types[] = {
        [KV_F32] = "f32", [KV_F16] = "f16", [KV_Q8_0] = "q8_0", [KV_F32_OF_F16] = "f32-of-f16"};
    if (options->test)
        buffer_add_string(name, " backend=engine-test");
    else if (runtime->device.on_gpu)
        buffer_add_format(name, " backend=cuda-sm%d", runtime->device.gpu_capability);
    else
        buffer_add_string(name, " backend=cpu");
    buffer_add_format(name, " kv-type=%s", kv_types[runtime->plan.forward.kv_type]);
    if (options->activation_bits == 16)
        buffer_add_string(name, " activation-bits=16");
}

static void add_text(struct buffer *name, const char *option, const char *value)
{
    if (value)
        buffer_add_format(name, " %s=%s", option, value);
}

static void add_placement(const struct runtime *runtime, struct buffer *name)
{
    const struct placement *placement = &runtime->plan.placement;
    if (limits_is_hybrid(&runtime->plan))
        buffer_add_format(name, " placement=%s:%d",
                          placement->n_host_experts   ? "experts"
                          : placement->host_attention ? "attention-cpu"
                                                      : "layers",
                          runtime->model->shape.n_layers - placement->n_host_layers -
                              placement->n_host_experts);
    else if (runtime->device.on_gpu)
        buffer_add_string(name, " placement=device");
}

enum { NAMED_ADAPTERS_MAX = 4 };

struct adapter_hashes {
    uint64_t items[ADAPTERS_MAX];
};

// HASH[*SCALE]
static void add_adapter(const struct runtime *runtime, const struct adapter_hashes *hashes, int index,
                        struct buffer *out)
{
    double scale = model_adapter_scale(runtime->model, index);
    buffer_add_format(out, "%016llx", (unsigned long long)hashes->items[index]);
    if (scale != 1.0) {
        buffer_add_string(out, "*");
        json_encode_number(scale, out);
    }
}

// lora=HASH[*SCALE],...; of more than NAMED_ADAPTERS_MAX adapters lora=N:HASH, the hash of that list.
static void add_adapters(const struct runtime *runtime, int32_t set, const struct adapter_hashes *hashes,
                         struct buffer *name)
{
    struct buffer list = {0};
    int n = 0;
    for (int i = 0; i < model_n_adapters(runtime->model); i++)
        if (model_adapter_is_in(runtime->model, i, set)) {
            buffer_add_string(&list, n++ ? "," : "");
            add_adapter(runtime, hashes, i, &list);
        }
    if (n > NAMED_ADAPTERS_MAX)
        buffer_add_format(name, " lora=%d:%016llx", n,
                          (unsigned long long)hash_bytes(list.data, list.size, 0));
    else if (n > 0)
        buffer_add_format(name, " lora=%.*s", (int)list.size, list.data);
    name->failed = name->failed || list.failed;
    buffer_finish(&list);
}

static enum status add_template(const struct model_options *options, struct buffer *name, struct error *error)
{
    if (!options->chat_template)
        return STATUS_OK;
    struct buffer file = {0};
    enum status status = file_read_text(options->chat_template, TEMPLATE_SOURCE_BYTES_MAX, &file, error);
    buffer_add_format(name, " chat-template=%016llx",
                      (unsigned long long)hash_bytes(file.data, file.size, 0));
    buffer_finish(&file);
    return status;
}

struct naming {
    struct runtime *runtime;
    const struct settings *settings;
    uint64_t model_hash;
    struct adapter_hashes hashes;
};

// The arithmetic of answers with this adapter set. `out` [JOB_FINGERPRINT_BYTES_MAX + 1].
static enum status name_set(const struct naming *naming, int32_t set, char *out, struct error *error)
{
    const struct runtime *runtime = naming->runtime;
    const struct settings *settings = naming->settings;
    struct buffer name = {.size_max = JOB_FINGERPRINT_BYTES_MAX};
    buffer_add_format(&name, "sheaf=%d model=%016llx", ARITHMETIC_VERSION,
                      (unsigned long long)naming->model_hash);
    add_backend(runtime, &settings->engine, &name);
    add_placement(runtime, &name);
    add_adapters(runtime, set, &naming->hashes, &name);
    add_text(&name, "quantize", settings->model.quantize);
    add_text(&name, "pre", settings->model.pre);
    enum status status = add_template(&settings->model, &name, error);
    add_text(&name, "tool-format", settings->model.tool_format);
    if (settings->model.special_in_content)
        buffer_add_string(&name, " special-in-content=1");
    if (settings->worker.same_draws)
        buffer_add_string(&name, " same-draws=1");
    buffer_add_string(&name, runtime->defaults.names);
    if (runtime->task_options)
        buffer_add_string(&name, runtime->task_options);
    if (status == STATUS_OK && name.failed)
        status = error_set(error, STATUS_REFUSE, ERROR_LIMIT_EXCEEDED,
                           "the name of the arithmetic exceeds %d bytes", JOB_FINGERPRINT_BYTES_MAX);
    if (status == STATUS_OK)
        snprintf(out, JOB_FINGERPRINT_BYTES_MAX + 1, "%.*s", (int)name.size, name.data);
    buffer_finish(&name);
    return status;
}

static bool is_before(struct text a, struct text b)
{
    int order = memcmp(a.data, b.data, a.size < b.size ? a.size : b.size);
    return order ? order < 0 : a.size < b.size;
}

// The adapters' indices in the order of their names: the order of the options changes no answer.
static void sort_by_name(const struct runtime *runtime, int32_t order[ADAPTERS_MAX])
{
    for (int32_t i = 0; i < runtime->n_adapters; i++) {
        int32_t at = i;
        for (; at > 0 && is_before(runtime->adapters[i].name, runtime->adapters[order[at - 1]].name); at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
}

// Adds lora-modules=NAME:HASH[*SCALE],... to the name of set 0.
static enum status name_fleet(const struct naming *naming, struct error *error)
{
    struct runtime *runtime = naming->runtime;
    struct buffer name = {0};
    int32_t order[ADAPTERS_MAX];
    sort_by_name(runtime, order);
    buffer_add_string(&name, runtime->arithmetic);
    const int n_base = model_n_adapters(runtime->model) - runtime->n_adapters; // of --lora
    for (int32_t i = 0; i < runtime->n_adapters; i++) {
        struct text module = runtime->adapters[order[i]].name;
        buffer_add_format(&name, "%s%.*s:", i ? "," : " lora-modules=", (int)module.size, module.data);
        add_adapter(runtime, &naming->hashes, n_base + order[i], &name);
    }
    if (!name.failed)
        runtime->fleet_arithmetic = strndup(name.data, name.size);
    buffer_finish(&name);
    return runtime->fleet_arithmetic ? STATUS_OK
                                     : error_memory(error, STATUS_REFUSE, "the name of the arithmetic");
}

enum status arithmetic_name(struct runtime *runtime, const struct settings *settings,
                            const struct interrupt *interrupt, struct error *error)
{
    struct naming naming = {.runtime = runtime,
                            .settings = settings,
                            .model_hash = model_fingerprint(runtime->model, runtime->device.pool, interrupt)};
    if (interrupt_requested(interrupt))
        return error_set(error, STATUS_RESTART, ERROR_MODEL_FILE, "stopped while reading the model");
    for (int i = 0; i < model_n_adapters(runtime->model); i++)
        naming.hashes.items[i] =
            model_adapter_fingerprint(runtime->model, i, runtime->device.pool, interrupt);
    if (interrupt_requested(interrupt))
        return error_set(error, STATUS_RESTART, ERROR_MODEL_FILE, "stopped while reading the adapters");
    enum status status = name_set(&naming, 0, runtime->arithmetic, error);
    for (int32_t i = 0; i < runtime->n_adapters && status == STATUS_OK; i++)
        status = name_set(&naming, i + 1, runtime->adapters[i].system_fingerprint, error);
    return status == STATUS_OK ? name_fleet(&naming, error) : status;
}
