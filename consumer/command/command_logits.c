// sheaf logits: writes the float32 logits of every position of a text given as token ids.
#include "consumer/command/commands.h"
#include "consumer/command/files/own_output.h"
#include "schemas/base/file.h"
#include "consumer/worker/runtime.h"
#include "engine/logits.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum status parse_ids(const char *text, struct token_array *ids, struct error *error)
{
    for (const char *at = text; *(at += strspn(at, " ,\t\n"));) {
        char *end;
        errno = 0;
        long id = strtol(at, &end, 10);
        if (end == at || errno || id < 0 || id > INT32_MAX)
            return error_set(error, STATUS_REFUSE, ERROR_USAGE, "--tokens: expected token ids, got \"%.20s\"",
                             at);
        token_array_add(ids, (int32_t)id);
        at = end;
    }
    if (ids->failed)
        return error_memory(error, STATUS_REFUSE, "--tokens");
    return STATUS_OK;
}

static enum status write_logits(const struct output_options *options, const float *logits, size_t n,
                                size_t n_vocab, struct error *error)
{
    struct output_file output;
    enum status status = output_file_open(&output, options->file, error);
    if (status != STATUS_OK)
        return status;
    if (fwrite(logits, sizeof *logits, n, output.file) != n)
        status = error_set(error, STATUS_REFUSE, ERROR_FILE, "%s: writing: %s", output.name, strerror(errno));
    if (status == STATUS_OK)
        status = own_output_check_rows(&output, n_vocab * sizeof *logits, options->overwrite, error);
    if (status == STATUS_OK)
        status = output_file_complete(&output, error);
    output_file_close(&output);
    return status;
}

static enum status compute_logits(struct runtime *runtime, const struct token_array *ids,
                                  enum kv_type kv_type, const struct output_options *options,
                                  struct error *error)
{
    size_t n;
    if (__builtin_mul_overflow(ids->n_ids, (size_t)runtime->model->shape.n_vocab, &n) ||
        n > SIZE_MAX / sizeof(float))
        return error_memory(error, STATUS_REFUSE, "logits of %zu tokens", ids->n_ids);
    float *logits = malloc((n ? n : 1) * sizeof *logits);
    if (!logits)
        return error_memory(error, STATUS_REFUSE, "logits of %zu tokens", ids->n_ids);
    enum status status = logits_of_text(runtime->model, runtime->device.backend, kv_type, ids->ids,
                                        (int32_t)ids->n_ids, logits, error);
    if (status == STATUS_OK)
        status = write_logits(options, logits, n, (size_t)runtime->model->shape.n_vocab, error);
    free(logits);
    return status;
}

static enum status place_model(struct runtime *runtime, const struct token_array *ids,
                               const struct settings *settings, const enum kv_type *kv_type,
                               struct error *error)
{
    // logits_of_text refuses a text longer than the context
    size_t n_context = (size_t)runtime->model->shape.n_context;
    size_t n_ids = ids->n_ids < n_context ? ids->n_ids : n_context;
    uint64_t n_pages = n_ids / LIMITS_PAGE_POSITIONS + 2;
    struct limits_wanted wanted = {.n_sequences_max = LOGITS_CHUNK_TOKENS, // each token is an output
                                   .n_tokens_max = LOGITS_CHUNK_TOKENS,
                                   .n_state_slots = 1,
                                   .kv_type = kv_type,
                                   .page_bytes = n_pages * forward_page_bytes(runtime->model, NULL,
                                                                              LIMITS_PAGE_POSITIONS, KV_F32)};
    return runtime_plan(runtime, &settings->engine, &wanted, error);
}

enum status command_logits(const struct settings *settings, struct error *error)
{
    if (!settings->tool.tokens || !settings->output.file)
        return options_refuse_missing(&settings->line, settings->tool.tokens ? NULL : "--tokens IDS",
                                      settings->output.file ? NULL : "-o OUT.f32", error);
    struct runtime runtime = {0};
    struct token_array ids = {0};
    const struct file_use uses[] = {{"the model", settings->line.positionals[0], .is_model = true},
                                    {"-o", settings->output.file, true}};
    enum status status = file_check_uses(uses, sizeof uses / sizeof uses[0], error);
    if (status == STATUS_OK)
        status = parse_ids(settings->tool.tokens, &ids, error);
    if (status == STATUS_OK)
        status = runtime_open_weights(&runtime, settings, settings->line.positionals[0], error);
    if (status == STATUS_OK)
        status = runtime_open_backend(&runtime, settings, error);
    enum kv_type kv_type = KV_F32;
    // unrounded KV pages by default, to compare the arithmetic without the cache's rounding
    if (status == STATUS_OK) {
        status = runtime_kv_type(&settings->engine, &kv_type, error);
        if (kv_type == KV_F16)
            kv_type = KV_F32_OF_F16; // the same rounding on every backend
    }
    if (status == STATUS_OK)
        status = place_model(&runtime, &ids, settings, &kv_type, error);
    if (status == STATUS_OK)
        status = compute_logits(&runtime, &ids, kv_type, &settings->output, error);
    token_array_finish(&ids);
    runtime_close(&runtime);
    return status;
}
