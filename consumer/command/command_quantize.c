// sheaf quantize: writes a model of any supported format as GGUF, with its matrices in another type, or in
// types of GGUF with the same items.
#include "consumer/command/commands.h"
#include "consumer/command/files/own_output.h"
#include "consumer/observe/log.h"
#include "engine/file/gguf_quantize.h"
#include "engine/file/gguf_write.h"
#include "engine/model/folder/model_folder.h"
#include "engine/tokenizer/vocabulary.h"
#include "schemas/base/file.h"
#include "schemas/base/pool.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

struct quantize_progress {
    int percent; // shown last
    bool shown;
};

static void show_progress(void *context, uint64_t done_bytes, uint64_t total_bytes)
{
    struct quantize_progress *progress = context;
    int percent = total_bytes ? (int)(100.0 * (double)done_bytes / (double)total_bytes) : 100;
    if (!isatty(STDERR_FILENO) || (progress->shown && percent == progress->percent))
        return;
    progress->percent = percent;
    progress->shown = true;
    fprintf(stderr, "\rquantizing: %3d %%", percent);
}

static uint64_t tensor_bytes(const struct gguf *gguf)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < gguf_n_tensors(gguf); i++)
        bytes += gguf_tensor_at(gguf, i)->size_bytes;
    return bytes;
}

// "210 Q4_K, 1 Q6_K, 61 F32": the number of tensors of each type.
static void count_types(const struct gguf *gguf, char *text, size_t text_bytes)
{
    size_t used = 0;
    for (int type = 0; type < TENSOR_TYPE_COUNT; type++) {
        size_t n = 0;
        for (size_t i = 0; i < gguf_n_tensors(gguf); i++)
            n += gguf_tensor_at(gguf, i)->type == (enum tensor_type)type;
        if (n && used < text_bytes)
            used += (size_t)snprintf(text + used, text_bytes - used, "%s%zu %s", used ? ", " : "", n,
                                     tensor_traits((enum tensor_type)type)->name);
    }
}

static void say_what_was_written(const struct settings *settings, const struct gguf *quantized,
                                 enum tensor_type type, const char *before, uint64_t bytes_before)
{
    char text[512] = "";
    if (type != TENSOR_TYPE_COUNT && gguf_quantize_replaced(quantized, type, text, sizeof text))
        log_write(LOG_WARNING,
                  "--type %s: its blocks of %d items do not divide all rows; tensors of other types: %s",
                  settings->tool.type, (int)tensor_traits(type)->block_items, text);
    count_types(quantized, text, sizeof text);
    log_write(LOG_INFO, "%s: %zu tensors (%s), %.1f MB from %.1f MB (%s)", settings->line.positionals[1],
              gguf_n_tensors(quantized), text, (double)tensor_bytes(quantized) / 1e6,
              (double)bytes_before / 1e6, before);
}

static enum status check_options(const struct settings *settings, enum tensor_type *type, struct error *error)
{
    static const char known[] = "q8_0, q6_k, q5_k, q4_k, q4_0, bf16, f16 or f32";
    if (settings->tool.type && !gguf_quantize_type(settings->tool.type, type))
        return error_set(error, STATUS_REFUSE, ERROR_USAGE, "--type: expected %s, got \"%s\"", known,
                         settings->tool.type);
    const struct file_use uses[] = {{"IN", settings->line.positionals[0], .is_model = true},
                                    {"OUT", settings->line.positionals[1], true}};
    return file_check_uses(uses, sizeof uses / sizeof uses[0], error);
}

// Adds the keys that other engines need for the tokenizer of a Hugging Face folder. sheaf itself reads
// tokenizer.json, which the file contains too.
static enum status add_tokenizer(const struct gguf *gguf, struct gguf_writer *keys, struct error *error)
{
    struct vocabulary_gaps gaps;
    enum status status = vocabulary_write_ggml(gguf, keys, &gaps, error);
    if (status == STATUS_OK && gaps.unknown.size)
        log_write(LOG_WARNING,
                  "%.*s has no name in GGUF: sheaf reads the file's tokenizer, other programs can't",
                  (int)gaps.unknown.size, gaps.unknown.data);
    if (status == STATUS_OK && gaps.ignored.size)
        log_write(LOG_WARNING,
                  "%.*s has no key in GGUF: sheaf follows it, other programs give some texts other tokens",
                  (int)gaps.ignored.size, gaps.ignored.data);
    if (status == STATUS_OK && !gguf_has(gguf, "general.type"))
        gguf_writer_text(keys, "general.type", TEXT("model"));
    return status;
}

// Refuses before the long part what own_output_check_bytes would refuse after it: OUT exists, and is no model of these
// tensors.
static enum status check_existing(const struct gguf *quantized, const struct settings *settings,
                                  struct error *error)
{
    const char *path = settings->line.positionals[1];
    struct stat about;
    struct gguf *existing = NULL;
    struct error unread;
    if (settings->output.overwrite || stat(path, &about) != 0 || !S_ISREG(about.st_mode) ||
        about.st_size == 0)
        return STATUS_OK;
    bool is_alike = gguf_open(&existing, path, &unread) == STATUS_OK &&
                    gguf_n_tensors(existing) == gguf_n_tensors(quantized);
    for (size_t i = 0; is_alike && i < gguf_n_tensors(quantized); i++)
        is_alike = gguf_tensor_at(existing, i)->type == gguf_tensor_at(quantized, i)->type;
    gguf_close(existing);
    if (is_alike)
        return STATUS_OK;
    return error_set(error, STATUS_REFUSE, ERROR_FILE,
                     "%s exists, and has other content than this output: give another name, or --overwrite",
                     path);
}

static enum status write_model(const struct gguf *gguf, const struct gguf_writer *keys,
                               const struct settings *settings, struct quantize_progress *progress,
                               struct error *error)
{
    struct output_file output;
    const char *path = settings->line.positionals[1];
    enum status status = output_file_open(&output, path, error);
    if (status != STATUS_OK)
        return status;
    status = gguf_write(gguf, keys, output.file, show_progress, progress, error);
    if (status != STATUS_OK)
        error_prefix(error, "%s", path);
    else
        status = own_output_check_bytes(&output, settings->output.overwrite, error);
    if (status == STATUS_OK)
        status = output_file_complete(&output, error);
    output_file_close(&output);
    return status;
}

enum status command_quantize(const struct settings *settings, struct error *error)
{
    struct gguf *source = NULL, *quantized = NULL;
    struct pool *pool = NULL;
    struct quantize_progress progress = {0};
    enum tensor_type type = TENSOR_TYPE_COUNT; // as in the model
    char before[512] = "";
    uint64_t bytes_before = 0;
    enum status status = check_options(settings, &type, error);
    if (status == STATUS_OK)
        status = pool_create(&pool, (int)settings->engine.threads, error);
    if (status == STATUS_OK)
        status = model_folder_open(&source, settings->line.positionals[0], error);
    if (status == STATUS_OK) {
        bytes_before = tensor_bytes(source);
        count_types(source, before, sizeof before);
        status = gguf_quantize(&quantized, source, type, pool, error);
    }
    struct gguf_writer keys = {0};
    if (status == STATUS_OK)
        status = add_tokenizer(quantized, &keys, error);
    if (status == STATUS_OK)
        status = check_existing(quantized, settings, error);
    if (status == STATUS_OK)
        status = write_model(quantized, &keys, settings, &progress, error);
    gguf_writer_finish(&keys);
    if (progress.shown)
        fputs("\r\033[K", stderr);
    if (status == STATUS_OK)
        say_what_was_written(settings, quantized, type, before, bytes_before);
    gguf_close(quantized);
    pool_destroy(pool);
    return status;
}
