#include "consumer/worker/arithmetic.h"

#include "engine/file/interrupt.h"
#include "engine/model/adapter.h"
#include "schemas/base/file.h"
#include "schemas/base/hash.h"
#include "schemas/value.h"

#include <stdio.h>

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

static void add_adapters(const struct runtime *runtime, const struct interrupt *interrupt,
                         struct buffer *name)
{
    for (int i = 0; i < model_n_adapters(runtime->model); i++) {
        uint64_t fingerprint = model_adapter_fingerprint(runtime->model, i, runtime->device.pool, interrupt);
        double scale = model_adapter_scale(runtime->model, i);
        buffer_add_format(name, "%s%016llx", i ? "," : " lora=", (unsigned long long)fingerprint);
        if (scale != 1.0) {
            buffer_add_string(name, "*");
            json_encode_number(scale, name);
        }
    }
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

enum status arithmetic_name(struct runtime *runtime, const struct settings *settings,
                            const struct interrupt *interrupt, struct error *error)
{
    struct buffer name = {.size_max = sizeof runtime->arithmetic - 1};
    uint64_t fingerprint = model_fingerprint(runtime->model, runtime->device.pool, interrupt);
    if (interrupt_requested(interrupt))
        return error_set(error, STATUS_RESTART, ERROR_MODEL_FILE, "stopped while reading the model");
    buffer_add_format(&name, "sheaf=%d model=%016llx", ARITHMETIC_VERSION, (unsigned long long)fingerprint);
    add_backend(runtime, &settings->engine, &name);
    add_placement(runtime, &name);
    add_adapters(runtime, interrupt, &name);
    if (interrupt_requested(interrupt)) {
        buffer_finish(&name);
        return error_set(error, STATUS_RESTART, ERROR_MODEL_FILE, "stopped while reading the adapters");
    }
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
                           "the name of the arithmetic exceeds %zu bytes", sizeof runtime->arithmetic - 1);
    if (status == STATUS_OK)
        snprintf(runtime->arithmetic, sizeof runtime->arithmetic, "%.*s", (int)name.size, name.data);
    buffer_finish(&name);
    return status;
}
