// sheaf embed: reads texts from standard input and writes a JSON line with the vector of each. Several texts
// are computed together.
#include "consumer/command/commands.h"
#include "consumer/annotate/table.h"
#include "consumer/command/embed_table.h"
#include "consumer/command/files/embed_input.h"
#include "consumer/command/files/embed_line.h"
#include "consumer/worker/arithmetic.h"
#include "consumer/command/files/output_part.h"
#include "consumer/command/files/own_output.h"
#include "schemas/base/file.h"
#include "consumer/observe/log.h"
#include "consumer/worker/embedding_runtime.h"
#include "consumer/worker/runtime.h"
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
    struct embedding_runtime embedding;
    struct embedding_cut cut;
    int64_t n_cut; // truncated texts
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

static enum status tokenize_text(struct command_embed *embed, struct text text, struct grouped_text *grouped)
{
    const struct embedding_rules *rules = &embed->embedding.rules;
    size_t n_cut = 0;
    enum status status = embedding_input_encode(rules, rules->prompt, text, &embed->cut, &embed->group.ids,
                                                &n_cut, &grouped->error);
    grouped->n_ids = embed->group.ids.n_ids - grouped->first_id;
    embed->n_cut += n_cut > 0;
    return status;
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
    for (int32_t i = 0; i < embed->embedding.n_dimensions; i++) {
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
            if (!is_finite(vector, embed->embedding.n_dimensions))
                (void)error_set(&grouped->error, STATUS_REJECT, ERROR_LOGITS_NAN,
                                "the model's hidden state has a NaN or an infinity");
            else
                write_vector(embed, grouped, vector);
            vector += embed->embedding.n_dimensions;
        }
        if (grouped->error.status != STATUS_OK)
            write_error(embed, grouped);
    }
    if (embed->out.failed || embed->group.names.failed)
        return error_memory(error, STATUS_REFUSE, "embeddings");
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
        embedder_compute(embed->embedding.embedder, embed->group.texts, n_texts, embed->group.vectors, error);
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

static enum status choose_cut(struct command_embed *embed, const struct embed_options *options,
                              struct error *error)
{
    const char *side = options->truncate;
    if (!side)
        return STATUS_OK;
    embed->cut = (struct embedding_cut){.n_tokens = -1, .is_left = strcmp(side, "left") == 0};
    if (embed->cut.is_left || strcmp(side, "right") == 0)
        return STATUS_OK;
    return error_set(error, STATUS_REFUSE, ERROR_USAGE, "--truncate: expected left or right, got \"%s\"",
                     side);
}

// Describes everything but the lines that the vectors depend on, for resuming. A stream cannot be resumed.
static enum status name_making(struct command_embed *embed, const struct settings *settings,
                               struct error *error)
{
    struct runtime *runtime = embed->runtime;
    struct buffer name = {.size_max = sizeof embed->made_by - 1};
    if (!embed->output.state_path)
        return STATUS_OK;
    enum status status = arithmetic_name(runtime, settings, NULL, error);
    buffer_add_string(&name, runtime->arithmetic);
    embedding_runtime_name(&embed->embedding, &settings->embed, &name);
    buffer_add_format(&name, " dimensions=%d%s%s", embed->embedding.n_dimensions,
                      settings->tool.plain_text ? " plain-text=1" : "",
                      embed->input.kind == EMBED_LINES_STRINGS ? " lines=json" : "");
    struct text prompt = embed->embedding.rules.prompt;
    if (prompt.size)
        buffer_add_format(&name, " prompt=%016llx",
                          (unsigned long long)hash_bytes(prompt.data, prompt.size, 0));
    if (settings->embed.truncate)
        buffer_add_format(&name, " truncate=%s", settings->embed.truncate);
    if (status == STATUS_OK && name.failed)
        status = error_set(error, STATUS_REFUSE, ERROR_LIMIT_EXCEEDED,
                           "the name of what vectors depend on exceeds %zu bytes", sizeof embed->made_by - 1);
    if (status == STATUS_OK)
        snprintf(embed->made_by, sizeof embed->made_by, "%.*s", (int)name.size, name.data);
    buffer_finish(&name);
    return status;
}

static enum status open_embedder(struct command_embed *embed, const struct settings *settings,
                                 struct error *error)
{
    struct runtime *runtime = embed->runtime;
    enum status status = choose_cut(embed, &settings->embed, error);
    if (status == STATUS_OK)
        status = embedding_runtime_choose(&embed->embedding, runtime, &settings->embed, error);
    if (status == STATUS_OK)
        status = runtime_open_backend(runtime, settings, error);
    if (status == STATUS_OK)
        status = embedding_runtime_plan(&embed->embedding, runtime, &settings->engine, error);
    if (status == STATUS_OK)
        status = name_making(embed, settings, error);
    if (status == STATUS_OK)
        status = embedding_runtime_open(&embed->embedding, runtime, NULL, error);
    if (status != STATUS_OK)
        return status;
    size_t n_dimensions = (size_t)embed->embedding.n_dimensions;
    embed->n_group_tokens = (size_t)GROUP_STEPS * (size_t)runtime->plan.forward.n_tokens_max;
    embed->group.items = calloc(GROUP_TEXTS_MAX, sizeof *embed->group.items);
    embed->group.texts = calloc(GROUP_TEXTS_MAX, sizeof *embed->group.texts);
    embed->group.vectors = calloc(GROUP_TEXTS_MAX * n_dimensions, sizeof *embed->group.vectors);
    if (!embed->group.items || !embed->group.texts || !embed->group.vectors)
        status = error_memory(error, STATUS_REFUSE, "embeddings");
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
    took_s = took_s > 0 ? took_s : 1;
    const struct log_counts counts = {done->n_lines, done->n_failed, done->n_lines, embed->n_tokens,
                                      (double)(done->n_lines - embed->output.state.n_lines) / took_s};
    const struct log_fields fields = {.event = "finished", .counts = &counts};
    log_write_fields(LOG_INFO, &fields, "%lld texts, %lld tokens, %.1f tokens/s",
                     (long long)(done->n_lines - done->n_failed), (long long)embed->n_tokens,
                     (double)embed->n_tokens / took_s);
    if (embed->n_cut)
        log_write(LOG_WARNING, "%lld texts were cut to %d tokens, %s", (long long)embed->n_cut,
                  embed->embedding.rules.n_longest, embed->embedding.rules.limited_by);
    if (!done->n_failed)
        return STATUS_OK;
    return error_set(error, STATUS_REFUSE, ERROR_JOBS_FAILED, "%lld of %lld texts have no vector",
                     (long long)done->n_failed, (long long)done->n_lines);
}

static void close_embedder(struct command_embed *embed)
{
    embed_input_close(&embed->input);
    output_part_close(&embed->output);
    embedding_runtime_close(&embed->embedding);
    token_array_finish(&embed->group.ids);
    buffer_finish(&embed->group.names);
    buffer_finish(&embed->out);
    free(embed->group.items);
    free(embed->group.texts);
    free(embed->group.vectors);
    runtime_close(embed->runtime);
}

// The two positionals may be given in either order: a table has the ending of one, or is named by its options.
static void find_table(struct settings *settings, const char **table)
{
    *table = settings->line.n_positionals > 1 ? settings->line.positionals[1] : NULL;
    bool is_first = *table && table_format_of(settings->line.positionals[0]) != TABLE_UNKNOWN &&
                    table_format_of(*table) == TABLE_UNKNOWN;
    if (is_first) {
        *table = settings->line.positionals[0];
        settings->line.positionals[0] = settings->line.positionals[1];
        settings->model.path = (char *)settings->line.positionals[0];
    }
}

static enum status embed_rows(const struct settings *settings, const char *table, struct error *error)
{
    struct runtime runtime = {0};
    struct command_embed embed = {0};
    enum status status = choose_cut(&embed, &settings->embed, error);
    if (status == STATUS_OK)
        status = embed_table_check(settings, table, error);
    if (status == STATUS_OK)
        status = runtime_open_model(&runtime, settings, settings->line.positionals[0], error);
    if (status == STATUS_OK)
        status = embed_table(&runtime, settings, table, &embed.cut, error);
    runtime_close(&runtime);
    return status;
}

static enum status embed_stream(const struct settings *settings, struct error *error)
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

enum status command_embed(const struct settings *given, struct error *error)
{
    struct settings settings = *given; // the order of its positionals may change; the texts stay the caller's
    const char *table;
    find_table(&settings, &table);
    if (table)
        return embed_rows(&settings, table, error);
    if (settings.embed.column || settings.embed.vector_type || settings.annotate.output.into ||
        settings.output.errors)
        return error_set(
            error, STATUS_REFUSE, ERROR_USAGE,
            "--column, --vector-type, --into and --errors are of a table: sheaf embed MODEL TABLE");
    return embed_stream(&settings, error);
}
