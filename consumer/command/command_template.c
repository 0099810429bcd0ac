// sheaf template: renders a chat template, a model's or a file's, over the variables on standard input.
#include "consumer/command/commands.h"
#include "consumer/command/output_file.h"
#include "consumer/file.h"
#include "consumer/runtime.h"
#include "engine/model/model_folder.h"
#include "engine/template/template.h"
#include "schemas/clock.h"
#include "schemas/value.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

// Of a template file or a model file: the template's text, and those of the special tokens.
struct template_source {
    struct gguf *gguf;
    struct tokenizer *tokenizer;
    struct buffer file;
    struct text text, tool_use; // tool_use: for variables with tools; empty: none of its own
    struct template_environment environment;
};

static bool is_model(const char *path)
{
    char magic[4] = "";
    struct stat information;
    if (stat(path, &information) == 0 && S_ISDIR(information.st_mode))
        return true;
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    size_t n = fread(magic, 1, sizeof magic, file);
    fclose(file);
    return n == sizeof magic && memcmp(magic, "GGUF", 4) == 0;
}

static enum status open_model_source(struct template_source *source, const char *path, struct error *error)
{
    enum status status = model_folder_open(&source->gguf, path, error);
    if (status == STATUS_OK)
        status = gguf_text(source->gguf, "tokenizer.chat_template", &source->text, NULL, error);
    if (status == STATUS_OK)
        status = gguf_text(source->gguf, "tokenizer.chat_template.tool_use", &source->tool_use, NULL, error);
    if (status == STATUS_OK && !source->text.size && !source->tool_use.size)
        status = error_set(error, STATUS_REFUSE, ERROR_TEMPLATE, "%s: the model has no chat template", path);
    if (status == STATUS_OK)
        status = tokenizer_open(&source->tokenizer, source->gguf, NULL, error);
    if (status != STATUS_OK)
        return status;
    const struct tokenizer *tokenizer = source->tokenizer;
    source->environment.bos_token = tokenizer_token_text(tokenizer, tokenizer_bos(tokenizer));
    source->environment.eos_token = tokenizer_token_text(tokenizer, tokenizer_eos(tokenizer));
    source->environment.pad_token = tokenizer_token_text(tokenizer, tokenizer_padding(tokenizer));
    source->environment.unk_token = tokenizer_token_text(tokenizer, tokenizer_unk_token(tokenizer));
    return STATUS_OK;
}

static enum status open_source(struct template_source *source, const struct settings *settings,
                               struct error *error)
{
    const char *path = settings->positionals[0];
    enum status status = STATUS_OK;
    if (is_model(path)) {
        status = open_model_source(source, path, error);
    } else {
        status = file_read(path, TEMPLATE_SOURCE_BYTES_MAX, &source->file, error);
        source->text = (struct text){source->file.data, source->file.size};
    }
    if (settings->tool.bos)
        source->environment.bos_token = text_from_string(settings->tool.bos);
    if (settings->tool.eos)
        source->environment.eos_token = text_from_string(settings->tool.eos);
    return status;
}

static enum status parse_now(const struct settings *settings, int64_t *now_s, struct error *error)
{
    struct tm date = {0};
    *now_s = clock_wall_us() / 1000000;
    if (!settings->tool.now)
        return STATUS_OK;
    const char *end = strptime(settings->tool.now, "%Y-%m-%d", &date);
    if (!end || *end)
        return error_set(error, STATUS_REFUSE, ERROR_USAGE, "--now: expected YYYY-MM-DD, got \"%s\"",
                         settings->tool.now);
    *now_s = timegm(&date);
    return STATUS_OK;
}

// Of a model as for a job (make_variables of schemas/prompt.c): tools and documents that are absent are none.
// A file's are undefined, as in plain Jinja2: a template named "tool_use", which no job without tools gets,
// may need them.
static enum status add_absent(struct value *variables, struct arena *arena, struct error *error)
{
    static const char *const names[] = {"tools", "documents"};
    size_t n = sizeof names / sizeof *names;
    struct value all;
    if (!value_object_create(arena, variables->object.n_members + n, &all))
        return error_set(error, STATUS_REFUSE, ERROR_OUT_OF_MEMORY, "standard input: out of memory");
    all.object.n_members = variables->object.n_members;
    for (size_t i = 0; i < variables->object.n_members; i++)
        all.object.members[i] = variables->object.members[i];
    for (size_t i = 0; i < n; i++)
        if (!value_get(variables, names[i]))
            value_put(&all, names[i], (struct value){.kind = VALUE_NULL});
    *variables = all;
    return STATUS_OK;
}

// As for a job (batching/prepare.c).
static struct text choose_template(const struct template_source *source, const struct value *variables)
{
    const struct value *tools = value_get(variables, "tools");
    return source->tool_use.size && tools && tools->kind != VALUE_NULL ? source->tool_use : source->text;
}

static enum status render_line(const struct template_source *source, struct error *error)
{
    struct buffer input = {0}, rendered = {0};
    struct arena arena = {0};
    struct value variables;
    struct template *template = NULL;
    enum status status = file_read("/dev/stdin", VALUE_INPUT_BYTES_MAX, &input, error);
    if (status == STATUS_OK)
        status = json_decode((struct text){input.data, input.size}, &arena, &variables, error);
    if (status == STATUS_OK && variables.kind != VALUE_OBJECT)
        status = error_set(error, STATUS_REJECT, ERROR_INVALID_FIELD,
                           "standard input: expected an object, got %s", value_kind_name(variables.kind));
    if (status == STATUS_OK && source->gguf)
        status = add_absent(&variables, &arena, error);
    struct text text = status == STATUS_OK ? choose_template(source, &variables) : (struct text){0};
    if (status == STATUS_OK && !text.size && source->tool_use.size)
        status =
            error_set(error, STATUS_REJECT, ERROR_TEMPLATE, "the model has a chat template for tools alone");
    if (status == STATUS_OK)
        status = template_parse(&template, text, error);
    if (status == STATUS_OK)
        status = template_render(template, &variables, &source->environment, &rendered, error);
    if (status == STATUS_OK)
        status = output_file_print(rendered.data, rendered.size, error);
    template_destroy(template);
    arena_finish(&arena);
    buffer_finish(&input);
    buffer_finish(&rendered);
    return status;
}

enum status command_template(const struct settings *settings, struct error *error)
{
    struct template_source source = {0};
    enum status status = parse_now(settings, &source.environment.now_s, error);
    if (status == STATUS_OK)
        status = open_source(&source, settings, error);
    if (status == STATUS_OK)
        status = render_line(&source, error);
    tokenizer_close(source.tokenizer);
    gguf_close(source.gguf);
    buffer_finish(&source.file);
    return status;
}
