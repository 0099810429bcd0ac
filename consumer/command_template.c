// sheaf template: renders a chat template, a model's or a file's, over the variables on standard input.
#include "consumer/commands.h"
#include "consumer/runtime.h"
#include "engine/model_folder.h"
#include "engine/template/template.h"
#include "schemas/value.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

// What a template file and a model file have in common: the template's text, and the texts of bos and eos.
struct source {
    struct gguf *gguf;
    struct tokenizer *tokenizer;
    struct buffer file;
    struct text text, bos, eos;
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

static enum status open_model_source(struct source *source, const char *path, struct error *error)
{
    enum status status = model_folder_open(&source->gguf, path, error);
    if (status == STATUS_OK)
        status = gguf_text(source->gguf, "tokenizer.chat_template", &source->text, NULL, error);
    if (status == STATUS_OK && !source->text.size)
        status = error_set(error, STATUS_REFUSE, ERROR_TEMPLATE, "%s: the model has no chat template", path);
    if (status == STATUS_OK)
        status = tokenizer_open(&source->tokenizer, source->gguf, NULL, error);
    if (status != STATUS_OK)
        return status;
    int32_t bos = tokenizer_bos(source->tokenizer), eos = tokenizer_eos(source->tokenizer);
    if (bos >= 0)
        source->bos = tokenizer_token_text(source->tokenizer, bos);
    if (eos >= 0)
        source->eos = tokenizer_token_text(source->tokenizer, eos);
    return STATUS_OK;
}

static enum status open_source(struct source *source, const struct settings *settings, struct error *error)
{
    const char *path = settings->positionals[0];
    enum status status = STATUS_OK;
    if (is_model(path)) {
        status = open_model_source(source, path, error);
    } else {
        status = read_file(path, TEMPLATE_SOURCE_BYTES_MAX, &source->file, error);
        source->text = (struct text){source->file.data, source->file.size};
    }
    if (settings->bos)
        source->bos = text_from_string(settings->bos);
    if (settings->eos)
        source->eos = text_from_string(settings->eos);
    return status;
}

static enum status parse_now(const struct settings *settings, int64_t *now, struct error *error)
{
    struct tm date = {0};
    *now = time(NULL);
    if (!settings->now)
        return STATUS_OK;
    const char *end = strptime(settings->now, "%Y-%m-%d", &date);
    if (!end || *end)
        return error_set(error, STATUS_REFUSE, ERROR_USAGE, "--now: expected YYYY-MM-DD, got \"%s\"", settings->now);
    *now = timegm(&date);
    return STATUS_OK;
}

static enum status render(const struct source *source, int64_t now, struct error *error)
{
    struct buffer input = {0}, rendered = {0};
    struct arena arena = {0};
    struct value variables;
    struct template *template = NULL;
    enum status status = template_parse(&template, source->text, error);
    if (status == STATUS_OK)
        status = read_file("/dev/stdin", VALUE_INPUT_BYTES_MAX, &input, error);
    if (status == STATUS_OK)
        status = json_decode((struct text){input.data, input.size}, &arena, &variables, error);
    if (status == STATUS_OK && variables.kind != VALUE_OBJECT)
        status = error_set(error, STATUS_REJECT, ERROR_INVALID_FIELD, "standard input: expected an object, got %s",
                           value_kind_name(variables.kind));
    struct template_environment environment = {.bos_token = source->bos, .eos_token = source->eos, .now = now};
    if (status == STATUS_OK)
        status = template_render(template, &variables, &environment, &rendered, error);
    if (status == STATUS_OK && rendered.size)
        fwrite(rendered.data, 1, rendered.size, stdout);
    template_destroy(template);
    arena_finish(&arena);
    buffer_finish(&input);
    buffer_finish(&rendered);
    return status;
}

enum status command_template(const struct settings *settings, struct error *error)
{
    struct source source = {0};
    int64_t now;
    enum status status = parse_now(settings, &now, error);
    if (status == STATUS_OK)
        status = open_source(&source, settings, error);
    if (status == STATUS_OK)
        status = render(&source, now, error);
    tokenizer_close(source.tokenizer);
    gguf_close(source.gguf);
    buffer_finish(&source.file);
    return status;
}
