#include "engine/template/template.h"
#include "engine/template/evaluate.h"
#include "engine/template/execute.h"
#include "engine/template/functions.h"
#include "engine/template/parser.h"
#include "engine/template/rendering.h"

#include <assert.h>
#include <stdlib.h>

enum { TEXT_BYTES_FIRST = 4096 };

enum status template_parse(struct template **template, struct text source, struct error *error)
{
    *template = NULL;
    struct template *parsed = calloc(1, sizeof *parsed);
    if (!parsed)
        return error_set(error, STATUS_RETRY, ERROR_OUT_OF_MEMORY, "no memory for a chat template");
    struct parser parser = {.template = parsed, .arena = &parsed->arena, .error = error};
    if (lexer_start(&parser.lexer, source, &parsed->arena, error) != STATUS_OK ||
        !statements_parse_template(&parser)) {
        template_destroy(parsed);
        return error->status;
    }
    *template = parsed;
    return STATUS_OK;
}

void template_destroy(struct template *template)
{
    if (!template)
        return;
    arena_finish(&template->arena);
    free(template);
}

void template_mentions(const struct template *template,
                       void (*receive)(void *context, const struct template_mention *mention), void *context)
{
    for (const struct outside_mention *mention = template->first_mention; mention; mention = mention->next) {
        struct text name = template->names[mention->name];
        if (!template->is_outside[mention->name] || functions_find_global(name))
            continue;
        struct template_mention found = {name, mention->member, mention->line};
        receive(context, &found);
    }
}

static bool start(struct rendering *rendering)
{
    const struct template *template = rendering->template;
    rendering->globals = rendering_allocate_array(rendering, template->n_names, sizeof *rendering->globals);
    rendering->globals_known =
        rendering_allocate_array(rendering, template->n_names, sizeof *rendering->globals_known);
    rendering->spare_activations =
        rendering_allocate_array(rendering, template->n_procedures, sizeof *rendering->spare_activations);
    if (!rendering->globals || !rendering->globals_known || !rendering->spare_activations)
        return false;
    struct activation *root = call_activation_create(rendering, &template->procedure, NULL);
    if (!root || !evaluate_enter_scope(rendering, root, &template->scope))
        return false;
    buffer_reserve(&rendering->text, TEXT_BYTES_FIRST);
    return execute(rendering, root, &template->body) == FLOW_NEXT && rendering_check_text(rendering);
}

static void copy_spans(const struct rendering *rendering, size_t offset, struct text_spans *out)
{
    for (size_t i = 0; i < rendering->content.n_items; i++)
        text_spans_add(out, offset + rendering->content.items[i].start,
                       offset + rendering->content.items[i].end);
    out->failed |= rendering->content.failed;
}

enum status template_render(const struct template *template, const struct value *variables,
                            const struct template_environment *environment, struct buffer *out,
                            struct error *error)
{
    static const struct value none = {.kind = VALUE_OBJECT};
    assert(!variables || variables->kind == VALUE_OBJECT);
    struct rendering rendering = {
        .template = template,
        .variables = variables ? variables : &none,
        .environment = environment,
        .text = {.size_max = TEMPLATE_OUTPUT_BYTES_MAX},
        .error = error,
        .steps_left = TEMPLATE_STEPS_MAX,
    };
    enum status status = STATUS_OK;
    if (start(&rendering)) {
        if (environment->content)
            copy_spans(&rendering, out->size, environment->content);
        buffer_add(out, rendering.text.data, rendering.text.size);
        if (out->failed)
            status =
                error_set(error, STATUS_REJECT, ERROR_LIMIT_EXCEEDED, "the rendered template has no room");
    } else {
        status = rendering.error_line ? error_prefix(error, "line %u", rendering.error_line) : error->status;
    }
    if (status == STATUS_OK && environment->content && environment->content->failed)
        status = error_set(error, STATUS_RETRY, ERROR_OUT_OF_MEMORY, "no memory for rendering a template");
    text_spans_finish(&rendering.content);
    buffer_finish(&rendering.text);
    arena_finish(&rendering.arena);
    arena_finish(&rendering.large);
    return status;
}
