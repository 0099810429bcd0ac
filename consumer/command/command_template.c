// sheaf template: renders a chat template with the variables on standard input. A model's template is
// rendered as for a job, a template file as Jinja2 does.
#include "batching/chat.h"
#include "consumer/command/commands.h"
#include "consumer/command/files/output_file.h"
#include "consumer/observe/log.h"
#include "consumer/worker/runtime.h"
#include "engine/answer/answer_grammar.h"
#include "engine/grammar/grammar.h"
#include "engine/model/folder/model_folder.h"
#include "schemas/base/clock.h"
#include "schemas/base/file.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

// The content of a template file or a model: the template's text and the special tokens' texts.
struct template_input {
    struct gguf *gguf;
    struct tokenizer *tokenizer;
    struct buffer file;
    struct text text, tool_use; // tool_use: for variables with tools; empty: none of its own
    struct template_environment environment;
    bool is_dated; // the time is given by --now
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

static enum status open_model_source(struct template_input *input, const char *path, struct error *error)
{
    enum status status = model_folder_open(&input->gguf, path, error);
    if (status == STATUS_OK)
        status = gguf_text(input->gguf, "tokenizer.chat_template", &input->text, NULL, error);
    if (status == STATUS_OK)
        status = gguf_text(input->gguf, "tokenizer.chat_template.tool_use", &input->tool_use, NULL, error);
    if (status == STATUS_OK && !input->text.size && !input->tool_use.size)
        status = error_set(error, STATUS_REFUSE, ERROR_TEMPLATE, "%s: the model has no chat template", path);
    if (status == STATUS_OK)
        status = tokenizer_open(&input->tokenizer, input->gguf, NULL, error);
    if (status != STATUS_OK)
        return status;
    const struct tokenizer *tokenizer = input->tokenizer;
    input->environment.bos_token = tokenizer_token_text(tokenizer, tokenizer_bos(tokenizer));
    input->environment.eos_token = tokenizer_token_text(tokenizer, tokenizer_eos(tokenizer));
    input->environment.pad_token = tokenizer_token_text(tokenizer, tokenizer_padding(tokenizer));
    input->environment.unk_token = tokenizer_token_text(tokenizer, tokenizer_unk_token(tokenizer));
    return STATUS_OK;
}

static enum status open_source(struct template_input *input, const struct settings *settings,
                               struct error *error)
{
    const char *path = settings->line.positionals[0];
    enum status status = STATUS_OK;
    if (is_model(path)) {
        status = open_model_source(input, path, error);
    } else {
        status = file_read_text(path, TEMPLATE_SOURCE_BYTES_MAX, &input->file, error);
        input->text = (struct text){input->file.data, input->file.size};
    }
    if (settings->template.bos)
        input->environment.bos_token = text_from_string(settings->template.bos);
    if (settings->template.eos)
        input->environment.eos_token = text_from_string(settings->template.eos);
    return status;
}

static enum status parse_now(const struct template_options *options, int64_t *now_s, struct error *error)
{
    struct tm date = {0};
    *now_s = clock_wall_us() / 1000000;
    if (!options->now)
        return STATUS_OK;
    const char *end = strptime(options->now, "%Y-%m-%d", &date);
    if (!end || *end)
        return error_set(error, STATUS_REFUSE, ERROR_USAGE, "--now: expected YYYY-MM-DD, got \"%s\"",
                         options->now);
    *now_s = timegm(&date);
    return STATUS_OK;
}

// ---- a model's template: as for a job ----

static bool is_field(struct text name)
{
    static const char *const fields[] = {"messages",
                                         "tools",
                                         "tool_choice",
                                         "documents",
                                         "enable_thinking",
                                         "add_generation_prompt",
                                         "created",
                                         "continue_final_message",
                                         "model",
                                         "reasoning_effort",
                                         "thinking_token_budget"};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (text_equals_string(name, fields[i]))
            return true;
    return false;
}

static bool has_member(const struct value *object, struct text key)
{
    for (size_t i = 0; object && object->kind == VALUE_OBJECT && i < object->object.n_members; i++)
        if (text_equal(object->object.members[i].key, key))
            return true;
    return false;
}

// Writes the job with these variables. A variable that is not among the fields of a prompt (is_field) becomes
// a member of chat_template_kwargs.
static enum status make_record(const struct value *variables, struct arena *arena, struct buffer *record,
                               struct error *error)
{
    const struct value *given = value_get(variables, "chat_template_kwargs");
    size_t n = variables->object.n_members;
    size_t n_given = given && given->kind == VALUE_OBJECT ? given->object.n_members : 0;
    struct value job, kwargs;
    if (!value_object_create(arena, n + 1, &job) || !value_object_create(arena, n + n_given, &kwargs))
        return error_memory(error, STATUS_REFUSE, "standard input");
    for (size_t i = 0; i < n_given; i++)
        kwargs.object.members[kwargs.object.n_members++] = given->object.members[i];
    for (size_t i = 0; i < n; i++) {
        const struct value_member *member = &variables->object.members[i];
        struct value *target = is_field(member->key) ? &job : &kwargs;
        if (&member->value != given && (target == &job || !has_member(given, member->key)))
            target->object.members[target->object.n_members++] = *member;
    }
    value_put(&job, "chat_template_kwargs", given && given->kind != VALUE_OBJECT ? *given : kwargs);
    json_encode(&job, record);
    return record->failed ? error_memory(error, STATUS_REFUSE, "standard input") : STATUS_OK;
}

// Chooses the template as for a job (batching/prepare.c).
static enum status choose_template(const struct template_input *input, const struct job *job,
                                   struct text *text, struct error *error)
{
    const struct value *tools = value_get(&job->request.prompt.variables, "tools");
    *text = input->tool_use.size && tools && tools->kind != VALUE_NULL ? input->tool_use : input->text;
    if (text->size)
        return STATUS_OK;
    return error_set(error, STATUS_REJECT, ERROR_TEMPLATE, "the model has a chat template for tools alone");
}

// Checks whether calls of the job's tools can be constrained. The model's special tokens are not known here;
// used as call markers they do not affect the result.
static enum status check_calls(const struct job *job, const struct answer_format *format, struct error *error)
{
    enum status status = chat_check_tools(job, format, error);
    if (status != STATUS_OK || job->request.tools.choice == TOOLS_NONE)
        return status;
    const struct answer_task task = {.format = format,
                                     .thinking = THINKING_CLOSED,
                                     .tools = &job->request.tools};
    struct rules *rules = rules_create(&grammar_limits_default);
    struct grammar *grammar = NULL;
    uint32_t start;
    int32_t function = -1;
    if (!rules)
        return error_memory(error, STATUS_REFUSE, "standard input");
    status = answer_grammar_build(&task, rules, &start, &function, error);
    if (status == STATUS_OK)
        status = grammar_create(&grammar, rules, start, error);
    else
        rules_destroy(rules);
    grammar_destroy(grammar);
    return status != STATUS_OK && function >= 0
               ? error_prefix(error, "tools[%d].function.parameters", function)
               : status;
}

static enum status render_job(const struct template_input *input, struct job *job, struct buffer *rendered,
                              struct error *error)
{
    struct text text;
    struct template *template = NULL;
    struct answer_format format = {0};
    struct template_environment environment = input->environment;
    if (job->created_s && !input->is_dated)
        environment.now_s = job->created_s;
    enum status status = choose_template(input, job, &text, error);
    if (status == STATUS_OK)
        status = template_parse(&template, text, error);
    if (status == STATUS_OK) {
        answer_format_detect(&format, text);
        status = chat_render(job, template, &environment, &format, rendered, error);
    }
    if (status == STATUS_OK)
        status = check_calls(job, &format, error);
    for (int32_t i = 0; i < job->result.n_warnings; i++)
        log_write(LOG_WARNING, "%.*s", (int)job->result.warnings[i].size, job->result.warnings[i].data);
    template_destroy(template);
    return status;
}

static enum status render_as_job(const struct template_input *input, const struct value *variables,
                                 struct arena *arena, struct buffer *rendered, struct error *error)
{
    struct buffer record = {0};
    struct job *job = job_create();
    enum status status = job ? make_record(variables, arena, &record, error)
                             : error_memory(error, STATUS_REFUSE, "standard input");
    if (status == STATUS_OK)
        status = job_decode(job, (struct text){record.data, record.size}, ENCODING_JSON, error);
    if (status == STATUS_OK)
        status = render_job(input, job, rendered, error);
    job_destroy(job);
    buffer_finish(&record);
    return status;
}

// ---- a template file: rendered as Jinja2 does ----

static enum status render_file(const struct template_input *input, const struct value *variables,
                               struct buffer *rendered, struct error *error)
{
    struct template *template = NULL;
    enum status status = template_parse(&template, input->text, error);
    if (status == STATUS_OK)
        status = template_render(template, variables, &input->environment, rendered, error);
    template_destroy(template);
    return status;
}

static enum status render_variables(const struct template_input *input, struct error *error)
{
    struct buffer given = {0}, rendered = {0};
    struct arena arena = {0};
    struct value variables;
    enum status status = file_read_text("/dev/stdin", VALUE_INPUT_BYTES_MAX, &given, error);
    if (status == STATUS_OK)
        status = json_decode((struct text){given.data, given.size}, &arena, &variables, error);
    if (status == STATUS_OK && variables.kind != VALUE_OBJECT)
        status = error_set(error, STATUS_REJECT, ERROR_INVALID_FIELD,
                           "standard input: expected an object, got %s", value_kind_name(variables.kind));
    if (status == STATUS_OK)
        status = input->gguf ? render_as_job(input, &variables, &arena, &rendered, error)
                             : render_file(input, &variables, &rendered, error);
    if (status == STATUS_OK)
        status = output_file_print(rendered.data, rendered.size, error);
    arena_finish(&arena);
    buffer_finish(&given);
    buffer_finish(&rendered);
    return status;
}

enum status command_template(const struct settings *settings, struct error *error)
{
    struct template_input input = {0};
    input.is_dated = settings->template.now != NULL;
    enum status status = parse_now(&settings->template, &input.environment.now_s, error);
    if (status == STATUS_OK)
        status = open_source(&input, settings, error);
    if (status == STATUS_OK)
        status = render_variables(&input, error);
    tokenizer_close(input.tokenizer);
    gguf_close(input.gguf);
    buffer_finish(&input.file);
    return status;
}
