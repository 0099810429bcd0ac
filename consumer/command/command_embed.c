// sheaf embed: vectors of texts. Reads lines from standard input and writes a JSON line with the vector of each, or
// gives the rows of a table vectors (embed_table.h). Several texts are computed together.
#include "consumer/table/table.h"
#include "consumer/command/commands.h"
#include "consumer/command/embed_group.h"
#include "consumer/command/embed_table.h"
#include "consumer/command/files/embed_line.h"
#include "consumer/command/files/line_part.h"
#include "consumer/observe/log.h"
#include "schemas/base/clock.h"
#include "schemas/base/file.h"
#include "schemas/value.h"

#include <stdlib.h>
#include <string.h>

// A line of the group; its text is the group's item of the same number.
struct embed_line {
    int64_t index;              // from 0
    size_t first_name, n_names; // bytes of `names`: the line's ids
};

struct command_embed {
    struct embed_group group;
    struct line_part part;    // done.n_failed: written without a vector
    struct embed_line *lines; // [group.n_max]
    struct buffer names, out, made_by;
};

// ---- input ----

static enum status decode(struct command_embed *embed, struct text line, struct arena *arena,
                          struct text *text, struct error *error)
{
    const struct embed_input *input = &embed->part.input;
    *text = line;
    if (line.size > JOB_RECORD_BYTES_MAX)
        return error_set(error, STATUS_REJECT, ERROR_LIMIT_EXCEEDED,
                         "the line has %llu bytes: expected at most %d",
                         (unsigned long long)input->lines.line_bytes, JOB_RECORD_BYTES_MAX);
    if (input->kind == EMBED_LINES_TEXT)
        return STATUS_OK;
    enum status status = embed_line_decode(line, arena, text, &embed->names, error);
    if (status == STATUS_REJECT && input->kind == EMBED_LINES_STRINGS)
        status = error_prefix(error, "the lines before are JSON (--plain-text: texts)");
    return status;
}

// A text that cannot be computed gets an error in the output; any other error ends the command.
static enum status add_line(struct command_embed *embed, struct text line, struct error *error)
{
    struct arena arena = {0};
    struct text text;
    struct error fault;
    struct embed_line *added = &embed->lines[embed->group.n];
    *added = (struct embed_line){.index = embed->part.done.n_lines - 1, .first_name = embed->names.size};
    enum status status = decode(embed, line, &arena, &text, &fault);
    added->n_names = embed->names.size - added->first_name;
    if (status == STATUS_OK) {
        status = embed_group_add(&embed->group, text, &fault);
    } else if (status == STATUS_REJECT) {
        embed_group_add_fault(&embed->group, &fault);
        status = STATUS_OK;
    }
    arena_finish(&arena);
    if (status == STATUS_OK)
        return STATUS_OK;
    *error = fault;
    return error_prefix(error, "standard input: line %lld", (long long)embed->part.done.n_lines);
}

// ---- output ----

static void write_names(struct command_embed *embed, const struct embed_line *line)
{
    if (line->n_names)
        buffer_add(&embed->out, embed->names.data + line->first_name, line->n_names);
}

static void write_error(struct command_embed *embed, const struct embed_line *line, const struct error *fault)
{
    buffer_add_format(&embed->out, "{\"index\":%lld,", (long long)line->index);
    write_names(embed, line);
    buffer_add_format(&embed->out, "\"error\":{\"code\":\"%s\",\"message\":", error_code_name(fault->code));
    json_encode_string(text_from_string(fault->text), &embed->out);
    buffer_add_string(&embed->out, "}}\n");
    embed->part.done.n_failed++;
}

static void write_vector(struct command_embed *embed, const struct embed_line *line, const float *vector,
                         size_t n_tokens)
{
    buffer_add_format(&embed->out, "{\"object\":\"embedding\",\"index\":%lld,", (long long)line->index);
    write_names(embed, line);
    buffer_add_string(&embed->out, "\"embedding\":[");
    for (int32_t i = 0; i < embed->group.embedding.n_dimensions; i++) {
        struct value item = value_single(vector[i]);
        if (i)
            buffer_add_byte(&embed->out, ',');
        json_encode(&item, &embed->out);
    }
    buffer_add_format(&embed->out, "],\"usage\":{\"prompt_tokens\":%zu,\"total_tokens\":%zu}}\n", n_tokens,
                      n_tokens);
}

static enum status complete_group(struct command_embed *embed, struct error *error)
{
    struct embed_group *group = &embed->group;
    enum status status = embed_group_compute(group, error);
    for (int32_t i = 0; i < group->n && status == STATUS_OK; i++) {
        const float *vector = embed_group_vector(group, i);
        if (vector)
            write_vector(embed, &embed->lines[i], vector, group->items[i].n_ids);
        else
            write_error(embed, &embed->lines[i], &group->items[i].error);
    }
    if (status == STATUS_OK && (embed->out.failed || embed->names.failed))
        status = error_memory(error, STATUS_REFUSE, "embeddings");
    if (status == STATUS_OK)
        status = line_part_keep(&embed->part, &embed->out, error);
    embed_group_clear(group);
    buffer_clear(&embed->names);
    buffer_clear(&embed->out);
    return status;
}

static enum status embed_lines(struct command_embed *embed, struct error *error)
{
    struct text line;
    enum status status;
    while ((status = line_part_next(&embed->part, &line, error)) == STATUS_OK && line.data) {
        status = add_line(embed, line, error);
        if (status == STATUS_OK && embed_group_is_full(&embed->group))
            status = complete_group(embed, error);
        if (status != STATUS_OK)
            return status;
    }
    return status == STATUS_OK && embed->group.n > 0 ? complete_group(embed, error) : status;
}

// ---- the command ----

// Names everything but the lines that the vectors depend on. A stream is not resumed.
static enum status name_making(struct command_embed *embed, const struct settings *settings,
                               struct error *error)
{
    if (!embed->part.output.state_path)
        return STATUS_OK;
    enum status status = embed_group_name(&embed->group, settings, &embed->made_by, error);
    buffer_add_format(&embed->made_by, "%s%s%c", settings->tool.plain_text ? " plain-text=1" : "",
                      embed->part.input.kind == EMBED_LINES_STRINGS ? " lines=json" : "", '\0');
    return status == STATUS_OK && embed->made_by.failed ? error_memory(error, STATUS_REFUSE, "embeddings")
                                                        : status;
}

static enum status open_embedder(struct command_embed *embed, struct runtime *runtime,
                                 const struct settings *settings, struct error *error)
{
    enum status status = embed_group_plan(&embed->group, runtime, settings, error);
    if (status == STATUS_OK) // before the weights are packed, which would be in vain
        status = name_making(embed, settings, error);
    if (status == STATUS_OK)
        status = line_part_take_up(&embed->part, embed->made_by.data ? embed->made_by.data : "", error);
    if (status == STATUS_OK)
        status = embed_group_open(&embed->group, error);
    if (status != STATUS_OK)
        return status;
    embed->lines = calloc((size_t)embed->group.n_max, sizeof *embed->lines);
    return embed->lines ? STATUS_OK : error_memory(error, STATUS_REFUSE, "embeddings");
}

static enum status run_embedder(struct command_embed *embed, bool may_overwrite, struct error *error)
{
    double start_s = clock_s();
    int64_t n_before = embed->part.output.state.n_lines;
    if (n_before)
        log_write(LOG_INFO, "resuming: %lld lines were written before", (long long)n_before);
    enum status status = embed_lines(embed, error);
    if (status == STATUS_OK)
        status = line_part_complete(&embed->part, "these vectors", may_overwrite, error);
    if (status != STATUS_OK)
        return status;
    const struct output_part_state *done = &embed->part.done;
    int64_t n_tokens = embed->group.n_tokens;
    double took_s = clock_s() - start_s;
    took_s = took_s > 0 ? took_s : 1;
    const struct log_counts counts = {done->n_lines, done->n_failed, done->n_lines, n_tokens,
                                      (double)(done->n_lines - n_before) / took_s};
    const struct log_fields fields = {.event = "finished", .counts = &counts};
    log_write_fields(LOG_INFO, &fields, "%lld texts, %lld tokens, %.1f tokens/s",
                     (long long)(done->n_lines - done->n_failed), (long long)n_tokens,
                     (double)n_tokens / took_s);
    embed_group_say_cut(&embed->group);
    if (!done->n_failed)
        return STATUS_OK;
    return error_set(error, STATUS_REFUSE, ERROR_JOBS_FAILED, "%lld of %lld texts have no vector",
                     (long long)done->n_failed, (long long)done->n_lines);
}

static enum status embed_stream(const struct settings *settings, struct error *error)
{
    struct runtime runtime = {0};
    struct command_embed embed = {0};
    const struct file_use uses[] = {{"the model", settings->line.positionals[0], .is_model = true},
                                    {"-o", settings->output.file, true}};
    enum status status = file_check_uses(uses, sizeof uses / sizeof uses[0], error);
    if (status == STATUS_OK)
        status = line_part_open(
            &embed.part, settings->output.file ? settings->output.file : "-", settings->tool.plain_text,
            &(struct input_text){settings->annotate.input.encoding, settings->annotate.input.skip_lines},
            error);
    if (status == STATUS_OK)
        status = runtime_open_model(&runtime, settings, settings->line.positionals[0], error);
    if (status == STATUS_OK)
        status = open_embedder(&embed, &runtime, settings, error);
    if (status == STATUS_OK)
        status = run_embedder(&embed, settings->output.overwrite, error);
    line_part_close(&embed.part);
    embed_group_close(&embed.group);
    buffer_finish(&embed.names);
    buffer_finish(&embed.out);
    buffer_finish(&embed.made_by);
    free(embed.lines);
    runtime_close(&runtime);
    return status;
}

// The two positionals may be given in either order: a table has the ending of one, or is named by its options. Over
// Kafka there is no model.
static void find_table(struct settings *settings, const char **table)
{
    const char *first = settings->line.positionals[0];
    bool has_texts = settings->embed.column || settings->annotate.prompt.file;
    if (settings->kafka.brokers && settings->line.n_positionals == 1) { // else lines, which no fleet computes
        *table = has_texts || table_format_of(first) != TABLE_UNKNOWN ? first : NULL;
        return;
    }
    *table = settings->line.n_positionals > 1 ? settings->line.positionals[1] : NULL;
    bool is_first = *table && table_format_of(settings->line.positionals[0]) != TABLE_UNKNOWN &&
                    table_format_of(*table) == TABLE_UNKNOWN;
    if (is_first) {
        *table = settings->line.positionals[0];
        settings->line.positionals[0] = settings->line.positionals[1];
        settings->model.path = (char *)settings->line.positionals[0];
    }
}

enum status command_embed(const struct settings *given, struct error *error)
{
    struct settings settings = *given; // the order of its positionals may change; the texts stay the caller's
    const struct annotate_options *options = &given->annotate;
    const char *table;
    find_table(&settings, &table);
    if (table && settings.kafka.brokers && settings.line.n_positionals > 1)
        return error_set(error, STATUS_REFUSE, ERROR_USAGE,
                         "sheaf embed TABLE --brokers: no model, the workers have it (sheaf work)");
    if (table)
        return embed_table(&settings, table, error);
    if (options->prompt.file)
        return error_set(error, STATUS_REFUSE, ERROR_USAGE,
                         "--prompt is a template over the columns of a table: sheaf embed MODEL TABLE; "
                         "--prefix TEXT is put before each text");
    if (settings.embed.column || settings.embed.vector_type || options->output.into ||
        settings.output.errors || options->estimate.wanted || options->estimate.n_rows)
        return error_set(error, STATUS_REFUSE, ERROR_USAGE,
                         "--column, --vector-type, --into, --errors, --estimate and --sample are of a table: "
                         "sheaf embed MODEL TABLE");
    if (settings.output.file && table_format_of(settings.output.file) == TABLE_PARQUET)
        return error_set(error, STATUS_REFUSE, ERROR_USAGE,
                         "-o %s: vectors of lines are JSON lines; those of a table can be Parquet",
                         settings.output.file);
    return embed_stream(&settings, error);
}
