// sheaf embed: reads texts from standard input and writes a JSON line with the vector of each. Several texts
// are computed together.
#include "consumer/command/commands.h"
#include "consumer/command/files/embed_input.h"
#include "consumer/command/files/embed_line.h"
#include "consumer/worker/arithmetic.h"
#include "consumer/command/files/output_part.h"
#include "consumer/command/files/own_output.h"
#include "schemas/base/file.h"
#include "consumer/observe/log.h"
#include "consumer/worker/runtime.h"
#include "engine/embedding.h"
#include "engine/embedding_head.h"
#include "schemas/base/clock.h"
#include "schemas/base/hash.h"
#include "schemas/value.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Limits of a group, the texts that are read, computed and written together. GROUP_STEPS: limit of its
// tokens, in steps of n_tokens_max tokens.
enum { GROUP_STEPS = 8, GROUP_TEXTS_MAX = 4096 };

enum { MADE_BY_BYTES = JOB_FINGERPRINT_BYTES_MAX + 128 };

struct grouped_text {
    int64_t index;              // of the line, from 0
    size_t first_id, n_ids;     // of its tokens
    size_t first_name, n_names; // bytes of `names`: the line's ids
    struct error error;         // of a line without a vector: STATUS_REJECT
};

// Lines whose texts are computed together.
struct text_group {
    struct grouped_text *items; // [GROUP_TEXTS_MAX]
    int32_t n;
    struct token_array ids;
    struct buffer names;
    struct embedding_text *texts; // [GROUP_TEXTS_MAX]
    float *vectors;               // [GROUP_TEXTS_MAX, n_dimensions]
};

struct command_embed {
    struct runtime *runtime;
    struct embedder *embedder;
    struct embedding_defaults defaults; // the model's, after the options
    struct arena arena;
    int32_t n_dimensions, n_longest;
    int64_t n_cut; // truncated texts
    const char *cut_by;
    struct buffer prefixed;
    size_t n_group_tokens;
    struct text_group group;
    struct buffer out;
    struct output_part output;
    char made_by[MADE_BY_BYTES];   // what the vectors depend on besides the lines
    struct output_part_state done; // lines read so far; n_failed: written without a vector
    int64_t n_tokens;
    struct embed_input input;
    bool may_overwrite;
};

// ---- input ----

// Truncates a text to the model's maximum; an eos that the tokenizer added stays the last token.
static void cut_text(struct command_embed *embed, struct grouped_text *grouped)
{
    struct token_array *ids = &embed->group.ids;
    size_t n_max = (size_t)embed->defaults.n_tokens_max;
    if (!n_max || grouped->n_ids <= n_max)
        return;
    if (tokenizer_adds_eos(embed->runtime->tokenizer))
        ids->ids[grouped->first_id + n_max - 1] = ids->ids[ids->n_ids - 1];
    grouped->n_ids = n_max;
    ids->n_ids = grouped->first_id + n_max;
    embed->n_cut++;
}

static enum status tokenize_text(struct command_embed *embed, struct text text, struct grouped_text *grouped)
{
    if (embed->defaults.prompt.size) {
        buffer_clear(&embed->prefixed);
        buffer_add_text(&embed->prefixed, embed->defaults.prompt);
        buffer_add_text(&embed->prefixed, text);
        if (embed->prefixed.failed)
            return error_set(&grouped->error, STATUS_REFUSE, ERROR_OUT_OF_MEMORY,
                             "embeddings: out of memory");
        text = (struct text){embed->prefixed.data, embed->prefixed.size};
    }
    // An encoder's authors find its special tokens in texts; nothing in a vector can be taken for an instruction.
    unsigned flags =
        TOKENIZER_ADD_SPECIAL | (embed->runtime->model->shape.bidirectional ? TOKENIZER_PARSE_SPECIAL : 0);
    enum status status =
        tokenizer_encode(embed->runtime->tokenizer, text, flags, &embed->group.ids, &grouped->error);
    grouped->n_ids = embed->group.ids.n_ids - grouped->first_id;
    if (status != STATUS_OK)
        return status;
    cut_text(embed, grouped);
    if (grouped->n_ids == 0)
        return error_set(&grouped->error, STATUS_REJECT, ERROR_EMPTY_PROMPT, "the text has no tokens");
    if (grouped->n_ids > (size_t)embed->n_longest) {
        int32_t n_context = embed->runtime->model->shape.n_context;
        return error_set(&grouped->error, STATUS_REJECT, ERROR_CONTEXT_LENGTH,
                         "the text has %zu tokens: expected at most %d%s", grouped->n_ids, embed->n_longest,
                         embed->n_longest < n_context ? ", the positions of --kv-memory"
                                                      : ", the model's context");
    }
    return STATUS_OK;
}

// A text that cannot be computed gets an error in the output; any other error ends the command.
static enum status add_line(struct command_embed *embed, struct text line, struct error *error)
{
    struct arena arena = {0};
    struct text text;
    struct grouped_text *grouped = &embed->group.items[embed->group.n++];
    *grouped = (struct grouped_text){.index = embed->done.n_lines++,
                                     .first_id = embed->group.ids.n_ids,
                                     .first_name = embed->group.names.size};
    enum status status = STATUS_OK;
    if (line.size > JOB_RECORD_BYTES_MAX)
        status = error_set(&grouped->error, STATUS_REJECT, ERROR_LIMIT_EXCEEDED,
                           "the line has %llu bytes: expected at most %d",
                           (unsigned long long)embed->input.lines.line_bytes, JOB_RECORD_BYTES_MAX);
    else if (embed->input.kind == EMBED_LINES_TEXT)
        text = line;
    else
        status = embed_line_decode(line, &arena, &text, &embed->group.names, &grouped->error);
    if (status == STATUS_REJECT && embed->input.kind == EMBED_LINES_STRINGS)
        status = error_prefix(&grouped->error, "the lines before are JSON (--plain-text: texts)");
    grouped->n_names = embed->group.names.size - grouped->first_name;
    if (status == STATUS_OK)
        status = tokenize_text(embed, text, grouped);
    arena_finish(&arena);
    if (status == STATUS_OK || status == STATUS_REJECT) {
        if (status == STATUS_REJECT)
            embed->group.ids.n_ids = grouped->first_id;
        return STATUS_OK;
    }
    *error = grouped->error;
    return error_prefix(error, "standard input: line %lld", (long long)embed->done.n_lines);
}

// ---- output ----

static void write_names(struct command_embed *embed, const struct grouped_text *grouped)
{
    if (grouped->n_names)
        buffer_add(&embed->out, embed->group.names.data + grouped->first_name, grouped->n_names);
}

static void write_error(struct command_embed *embed, const struct grouped_text *grouped)
{
    buffer_add_format(&embed->out, "{\"index\":%lld,", (long long)grouped->index);
    write_names(embed, grouped);
    buffer_add_format(&embed->out,
                      "\"error\":{\"code\":\"%s\",\"message\":", error_code_name(grouped->error.code));
    json_encode_string(text_from_string(grouped->error.text), &embed->out);
    buffer_add_string(&embed->out, "}}\n");
    embed->done.n_failed++;
}

static void write_vector(struct command_embed *embed, const struct grouped_text *grouped, const float *vector)
{
    buffer_add_format(&embed->out, "{\"object\":\"embedding\",\"index\":%lld,", (long long)grouped->index);
    write_names(embed, grouped);
    buffer_add_string(&embed->out, "\"embedding\":[");
    for (int32_t i = 0; i < embed->n_dimensions; i++) {
        struct value item = value_single(vector[i]);
        if (i)
            buffer_add_byte(&embed->out, ',');
        json_encode(&item, &embed->out);
    }
    buffer_add_format(&embed->out, "],\"usage\":{\"prompt_tokens\":%zu,\"total_tokens\":%zu}}\n",
                      grouped->n_ids, grouped->n_ids);
    embed->n_tokens += (int64_t)grouped->n_ids;
}

static bool is_finite(const float *vector, int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        if (!isfinite(vector[i]))
            return false;
    return true;
}

static enum status write_group(struct command_embed *embed, struct error *error)
{
    const float *vector = embed->group.vectors;
    for (int32_t i = 0; i < embed->group.n; i++) {
        struct grouped_text *grouped = &embed->group.items[i];
        if (grouped->error.status == STATUS_OK) {
            if (!is_finite(vector, embed->n_dimensions))
                (void)error_set(&grouped->error, STATUS_REJECT, ERROR_LOGITS_NAN,
                                "the model's hidden state has a NaN or an infinity");
            else
                write_vector(embed, grouped, vector);
            vector += embed->n_dimensions;
        }
        if (grouped->error.status != STATUS_OK)
            write_error(embed, grouped);
    }
    if (embed->out.failed || embed->group.names.failed)
        return error_set(error, STATUS_REFUSE, ERROR_OUT_OF_MEMORY, "embeddings: out of memory");
    FILE *file = embed->output.file.file;
    if (fwrite(embed->out.data, 1, embed->out.size, file) != embed->out.size || fflush(file) != 0)
        return error_set(error, STATUS_REFUSE, ERROR_FILE, "writing the vectors: %s", strerror(errno));
    buffer_clear(&embed->out);
    return output_part_keep(&embed->output, &embed->done, error);
}

static enum status complete_group(struct command_embed *embed, struct error *error)
{
    int32_t n_texts = 0;
    for (int32_t i = 0; i < embed->group.n; i++)
        if (embed->group.items[i].error.status == STATUS_OK)
            embed->group.texts[n_texts++] =
                (struct embedding_text){embed->group.ids.ids + embed->group.items[i].first_id,
                                        (int32_t)embed->group.items[i].n_ids};
    enum status status =
        embedder_compute(embed->embedder, embed->group.texts, n_texts, embed->group.vectors, error);
    if (status == STATUS_OK)
        status = write_group(embed, error);
    embed->group.n = 0;
    embed->group.ids.n_ids = 0;
    buffer_clear(&embed->group.names);
    return status;
}

static enum status refuse_lines(const struct command_embed *embed, struct error *error)
{
    return error_set(
        error, STATUS_REFUSE, ERROR_FILE,
        "%s was written from other input: its first %lld lines differ from standard input; give the "
        "same lines (more may follow), or remove it to start over",
        embed->output.file.temporary, (long long)embed->output.state.n_lines);
}

// Skips a line whose output exists already. STATUS_REFUSE: the output was made from other lines.
static enum status skip_line(struct command_embed *embed, struct text line, struct error *error)
{
    const struct output_part_state *before = &embed->output.state;
    embed->done.n_lines++;
    embed->done.input = hash_bytes(line.data, line.size, embed->done.input);
    if (embed->done.n_lines < before->n_lines || embed->done.input == before->input)
        return STATUS_OK;
    return refuse_lines(embed, error);
}

static enum status take_line(struct command_embed *embed, struct text line, struct error *error)
{
    embed->done.input = hash_bytes(line.data, line.size, embed->done.input);
    enum status status = add_line(embed, line, error);
    bool is_full = embed->group.n == GROUP_TEXTS_MAX || embed->group.ids.n_ids >= embed->n_group_tokens;
    return status == STATUS_OK && is_full ? complete_group(embed, error) : status;
}

static enum status embed_lines(struct command_embed *embed, struct error *error)
{
    struct text line;
    int64_t n_before = embed->output.state.n_lines;
    enum status status;
    while ((status = embed_input_next(&embed->input, &line, error)) == STATUS_OK && line.data) {
        status =
            embed->done.n_lines < n_before ? skip_line(embed, line, error) : take_line(embed, line, error);
        if (status != STATUS_OK)
            return status;
    }
    if (status == STATUS_OK && embed->done.n_lines < n_before)
        status = refuse_lines(embed, error);
    if (status == STATUS_OK && embed->group.n > 0)
        status = complete_group(embed, error);
    return status;
}

// ---- the command ----

static enum status choose_pooling(const struct embed_options *options, const struct model *model,
                                  enum pooling *pooling, struct error *error)
{
    const char *name = options->pooling;
    if (!name || strcmp(name, "model") == 0)
        return pooling_of_model(model, pooling, error);
    if (pooling_find(name, pooling))
        return STATUS_OK;
    return error_set(
        error, STATUS_REFUSE, ERROR_USAGE,
        "--pooling: expected model, last, mean, cls, max, mean_sqrt_len or weightedmean, got \"%s\"", name);
}

static enum status choose_dimensions(struct command_embed *embed, const struct embed_options *options,
                                     struct error *error)
{
    int32_t n_embd = embedding_width(embed->runtime->model);
    enum status status =
        options->dimensions ? STATUS_OK : embedding_check_dimensions(embed->runtime->model, error);
    if (status != STATUS_OK)
        return status;
    embed->n_dimensions = options->dimensions ? (int32_t)options->dimensions : n_embd;
    if (embed->n_dimensions <= n_embd)
        return STATUS_OK;
    return error_set(error, STATUS_REFUSE, ERROR_USAGE,
                     "--dimensions: expected at most %d, the model's width, got %d", n_embd,
                     embed->n_dimensions);
}

// Options override the settings in the model's files.
static enum status choose_defaults(struct command_embed *embed, const struct embed_options *options,
                                   struct error *error)
{
    if (options->normalize && options->no_normalize)
        return error_set(error, STATUS_REFUSE, ERROR_USAGE, "--normalize and --no-normalize: expected one");
    if (options->prefix && options->prompt_name)
        return error_set(error, STATUS_REFUSE, ERROR_USAGE, "--prompt and --prompt-name: expected one");
    enum status status = embedding_read_defaults(&embed->defaults, embed->runtime->model, error);
    if (options->prefix)
        embed->defaults.prompt = text_from_string(options->prefix);
    if (status == STATUS_OK && options->prompt_name)
        status = embedding_find_prompt(embed->runtime->model, options->prompt_name, &embed->arena,
                                       &embed->defaults.prompt, error);
    embed->cut_by = options->max_length ? "--max-length" : "max_seq_length of the model; --max-length N";
    if (options->max_length)
        embed->defaults.n_tokens_max = (int32_t)options->max_length;
    if (options->normalize || options->no_normalize)
        embed->defaults.normalize = options->normalize;
    return status;
}

static enum status place_model(struct command_embed *embed, const struct settings *settings,
                               struct error *error)
{
    struct runtime *runtime = embed->runtime;
    enum kv_type kv_type;
    const struct model_shape *shape = &runtime->model->shape;
    int32_t *n_max = &embed->defaults.n_tokens_max;
    int32_t n_longest = *n_max && *n_max < shape->n_context ? *n_max : shape->n_context;
    if (shape->bidirectional && *n_max)
        *n_max = n_longest; // as sentence-transformers does
    struct limits_wanted wanted = {.n_tokens_max = (int32_t)settings->engine.n_tokens_max, // 0: derived
                                   .no_snapshots = true,
                                   .page_bytes = settings->engine.kv_memory_bytes,
                                   .backend = runtime->device.backend,
                                   .device = runtime->device.on_gpu};
    if (shape->bidirectional && (settings->engine.kv_type || settings->engine.kv_memory_bytes))
        return error_set(
            error, STATUS_REFUSE, ERROR_USAGE,
            "%s: family %s attends in both directions, so it holds keys and values of one layer, "
            "and no KV pages",
            settings->engine.kv_type ? "--kv-type" : "--kv-memory", model_family_name(runtime->model));
    enum status status = runtime_kv_type(&settings->engine, &kv_type, error);
    if (settings->engine.kv_type)
        wanted.kv_type = &kv_type;
    limits_set_embedding(&wanted, runtime->model, n_longest);
    if (status == STATUS_OK)
        status = runtime_plan(runtime, &settings->engine, &wanted, error);
    if (status != STATUS_OK && shape->bidirectional)
        return error_prefix(error, "texts of up to %d tokens (--max-length)", n_longest);
    if (status != STATUS_OK)
        return status;
    struct forward_limits *limits = &runtime->plan.forward;
    int64_t n_pages = embedder_pages(limits, n_longest);
    limits->n_pages = n_pages < limits->n_pages ? (int32_t)n_pages : limits->n_pages;
    embed->n_longest = embedder_longest(limits, runtime->model);
    embed->n_longest = embed->n_longest < n_longest ? embed->n_longest : n_longest;
    if (embed->n_longest > 0)
        return STATUS_OK;
    return error_set(error, STATUS_REFUSE, ERROR_OUT_OF_MEMORY,
                     "--kv-memory: %d pages of %d positions hold no text beside a step of %d tokens: give "
                     "more, or a smaller --max-rows",
                     limits->n_pages, limits->page_positions, limits->n_tokens_max);
}

// Describes everything but the lines that the vectors depend on, for resuming. A stream cannot be resumed.
static enum status name_making(struct command_embed *embed, const struct settings *settings,
                               const struct embedder_options *options, struct error *error)
{
    struct runtime *runtime = embed->runtime;
    if (!embed->output.state_path)
        return STATUS_OK;
    enum status status = arithmetic_name(runtime, settings, NULL, error);
    int size = snprintf(embed->made_by, sizeof embed->made_by, "%s pooling=%s dimensions=%d%s%s%s",
                        runtime->arithmetic, pooling_name(options->pooling), embed->n_dimensions,
                        options->normalize ? "" : " no-normalize=1",
                        settings->tool.plain_text ? " plain-text=1" : "",
                        embed->input.kind == EMBED_LINES_STRINGS ? " lines=json" : "");
    struct text prompt = embed->defaults.prompt;
    if (prompt.size)
        size += snprintf(embed->made_by + size, sizeof embed->made_by - (size_t)size, " prompt=%016llx",
                         (unsigned long long)hash_bytes(prompt.data, prompt.size, 0));
    if (embed->defaults.n_tokens_max)
        snprintf(embed->made_by + size, sizeof embed->made_by - (size_t)size, " max-length=%d",
                 embed->defaults.n_tokens_max);
    return status;
}

static void say_memory(const struct command_embed *embed)
{
    const struct limits_plan *plan = &embed->runtime->plan;
    const struct model *model = embed->runtime->model;
    double pages = (double)forward_page_bytes(model, embed->runtime->device.backend,
                                              plan->forward.page_positions, plan->forward.kv_type) *
                   plan->forward.n_pages;
    log_write(LOG_INFO, "memory: weights %.1f MB, matrices %.1f MB, %s %.1f MB, rows of texts %.1f MB",
              (double)plan->weight_bytes / 1e6, (double)plan->matrix_bytes / 1e6,
              model->shape.bidirectional ? "keys and values of one layer" : "KV", pages / 1e6,
              (double)embedder_bytes(&plan->forward, model, embed->n_longest) / 1e6);
}

static enum status open_embedder(struct command_embed *embed, const struct settings *settings,
                                 struct error *error)
{
    struct runtime *runtime = embed->runtime;
    struct embedder_options options = {.model = runtime->model};
    enum status status = embedding_check_model(runtime->model, error);
    if (status == STATUS_OK)
        status = choose_defaults(embed, &settings->embed, error);
    options.normalize = embed->defaults.normalize;
    if (status == STATUS_OK)
        status = choose_pooling(&settings->embed, runtime->model, &options.pooling, error);
    if (status == STATUS_OK)
        status = choose_dimensions(embed, &settings->embed, error);
    if (status == STATUS_OK)
        status = runtime_open_backend(runtime, settings, error);
    if (status == STATUS_OK)
        status = place_model(embed, settings, error);
    if (status == STATUS_OK)
        status = name_making(embed, settings, &options, error);
    if (status == STATUS_OK)
        status = forward_create(&runtime->forward, runtime->model, runtime->device.backend,
                                &runtime->plan.forward, NULL, NULL, error);
    if (status != STATUS_OK)
        return status;
    struct text prompt = embed->defaults.prompt;
    options.forward = runtime->forward;
    options.limits = runtime->plan.forward;
    options.n_dimensions = embed->n_dimensions;
    options.n_longest = embed->n_longest;
    status = embedder_create(&embed->embedder, &options, error);
    embed->n_group_tokens = (size_t)GROUP_STEPS * (size_t)options.limits.n_tokens_max;
    embed->group.items = calloc(GROUP_TEXTS_MAX, sizeof *embed->group.items);
    embed->group.texts = calloc(GROUP_TEXTS_MAX, sizeof *embed->group.texts);
    embed->group.vectors =
        calloc((size_t)GROUP_TEXTS_MAX * (size_t)embed->n_dimensions, sizeof *embed->group.vectors);
    if (status == STATUS_OK && (!embed->group.items || !embed->group.texts || !embed->group.vectors))
        status = error_set(error, STATUS_REFUSE, ERROR_OUT_OF_MEMORY, "embeddings: out of memory");
    if (status == STATUS_OK)
        say_memory(embed);
    if (status == STATUS_OK)
        log_write(LOG_INFO, "%s on %s: vectors of %d%s, pooling %s, texts of up to %d tokens%s%.*s%s",
                  runtime->model->name, runtime->device.backend->device.name, embed->n_dimensions,
                  options.normalize ? "" : ", not normalized", pooling_name(options.pooling),
                  embed->n_longest, prompt.size ? " after the prompt \"" : "", (int)prompt.size,
                  prompt.size ? prompt.data : "", prompt.size ? "\"" : "");
    return status;
}

static enum status take_up_part(struct command_embed *embed, struct error *error)
{
    enum status status = output_part_take_up(&embed->output, embed->made_by, error);
    embed->done.n_failed = embed->output.state.n_failed;
    if (status == STATUS_OK && embed->output.state.n_lines)
        log_write(LOG_INFO, "resuming: %lld lines were written before",
                  (long long)embed->output.state.n_lines);
    return status;
}

static enum status run_embedder(struct command_embed *embed, struct error *error)
{
    double start_s = clock_s();
    enum status status = take_up_part(embed, error);
    if (status == STATUS_OK)
        status = embed_lines(embed, error);
    if (status == STATUS_OK) // else the part is kept: with --overwrite nothing is computed again
        status = own_output_check_lines(&embed->output.file, "these vectors", embed->may_overwrite, error);
    if (status == STATUS_OK)
        status = output_part_complete(&embed->output, error);
    if (status != STATUS_OK)
        return status;
    const struct output_part_state *done = &embed->done;
    double took_s = clock_s() - start_s;
    log_write(LOG_INFO, "%lld texts, %lld tokens, %.1f tokens/s", (long long)(done->n_lines - done->n_failed),
              (long long)embed->n_tokens, (double)embed->n_tokens / (took_s > 0 ? took_s : 1));
    if (embed->n_cut)
        log_write(LOG_WARNING, "%lld texts were cut after %d tokens (%s)", (long long)embed->n_cut,
                  embed->defaults.n_tokens_max, embed->cut_by);
    if (!done->n_failed)
        return STATUS_OK;
    return error_set(error, STATUS_REFUSE, ERROR_JOBS_FAILED, "%lld of %lld texts have no vector",
                     (long long)done->n_failed, (long long)done->n_lines);
}

static void close_embedder(struct command_embed *embed)
{
    embed_input_close(&embed->input);
    output_part_close(&embed->output);
    embedder_destroy(embed->embedder);
    token_array_finish(&embed->group.ids);
    buffer_finish(&embed->group.names);
    buffer_finish(&embed->out);
    buffer_finish(&embed->prefixed);
    arena_finish(&embed->arena);
    free(embed->group.items);
    free(embed->group.texts);
    free(embed->group.vectors);
    runtime_close(embed->runtime);
}

enum status command_embed(const struct settings *settings, struct error *error)
{
    struct runtime runtime = {0};
    struct command_embed embed = {.runtime = &runtime, .may_overwrite = settings->output.overwrite};
    const struct file_use uses[] = {{"the model", settings->line.positionals[0], .is_model = true},
                                    {"-o", settings->output.file, true}};
    enum status status = file_check_uses(uses, sizeof uses / sizeof uses[0], error);
    if (status == STATUS_OK)
        status = output_part_open(&embed.output, settings->output.file ? settings->output.file : "-", error);
    if (status == STATUS_OK)
        status = embed_input_open(&embed.input, settings->tool.plain_text, error);
    if (status == STATUS_OK)
        status = runtime_open_model(&runtime, settings, settings->line.positionals[0], error);
    if (status == STATUS_OK)
        status = open_embedder(&embed, settings, error);
    if (status == STATUS_OK)
        status = run_embedder(&embed, error);
    close_embedder(&embed);
    return status;
}
