#include "engine/template/template.h"
#include "engine/template/evaluate.h"
#include "engine/template/functions.h"
#include "engine/template/parser.h"
#include "engine/template/rendering.h"

#include <assert.h>
#include <stdlib.h>

enum { TEXT_BYTES_FIRST = 4096 };

// False: an error was raised through the parser's `failure`.
static bool parse_source(struct parser *parser, struct text source)
{
    if (setjmp(parser->lexer.failure))
        return false;
    lexer_start(&parser->lexer, source);
    statements_parse_template(parser);
    return true;
}

static int compare_words(const void *left, const void *right)
{
    const struct text *a = left, *b = right;
    size_t size = a->size < b->size ? a->size : b->size;
    int order = size ? memcmp(a->data, b->data, size) : 0;
    return order ? order : (a->size > b->size) - (a->size < b->size);
}

enum status template_parse(struct template **template, struct text source, struct error *error)
{
    *template = calloc(1, sizeof **template);
    if (!*template)
        return error_memory(error, STATUS_RETRY, "a chat template");
    struct parser parser = {.template = *template, .lexer = {.arena = &(*template)->arena, .error = error}};
    if (parse_source(&parser, source)) {
        if ((*template)->n_words)
            qsort((*template)->words, (*template)->n_words, sizeof *(*template)->words, compare_words);
        return STATUS_OK;
    }
    template_destroy(*template);
    *template = NULL;
    return error->status;
}

void template_destroy(struct template *template)
{
    if (!template)
        return;
    arena_finish(&template->arena);
    free(template);
}

bool template_reads_time(const struct template *template)
{
    for (uint32_t i = 0; i < template->n_names; i++)
        if (text_equal(template->names[i], TEXT("strftime_now")))
            return true;
    return false;
}

const struct template_refusal *template_find_refusal(const struct template *template)
{
    return &template->refusal;
}

bool template_is_text_method(struct text name)
{
    return functions_find_method(OBJECT_STRING, name) != NULL;
}

bool template_names(const struct template *template, struct text word)
{
    return template->n_words &&
           bsearch(&word, template->words, template->n_words, sizeof word, compare_words) != NULL;
}

void template_mentions(const struct template *template,
                       void (*receive)(void *context, const struct template_mention *mention), void *context)
{
    for (const struct outside_mention *mention = template->first_mention; mention; mention = mention->next) {
        struct text name = template->names[mention->name];
        if (!template->is_outside[mention->name] || functions_find(&globals_table, name))
            continue;
        struct template_mention found = {name,          mention->member,       mention->printed,
                                         mention->line, mention->is_condition, mention->reads_items};
        receive(context, &found);
    }
}

// False: an error was raised through `failure`.
static bool render_template(struct rendering *rendering)
{
    const struct template *template = rendering->template;
    if (setjmp(rendering->failing.target))
        return false;
    size_t n_names = template->n_names;
    rendering->scope.globals = rendering_allocate_array(rendering, n_names, sizeof *rendering->scope.globals);
    rendering->scope.globals_known =
        rendering_allocate_array(rendering, n_names, sizeof *rendering->scope.globals_known);
    rendering->scope.spare_activations = rendering_allocate_array(rendering, template->n_procedures,
                                                                  sizeof *rendering->scope.spare_activations);
    rendering->scope.activation = call_activation_create(rendering, &template->procedure, NULL);
    evaluate_enter_scope(rendering, &template->scope);
    buffer_reserve(&rendering->text, TEXT_BYTES_FIRST);
    execute_statements(rendering, &template->body);
    rendering_check_text(rendering);
    return true;
}

// Returns the spans to the caller, and for each source where it is first printed.
static void copy_spans(struct rendering *rendering, size_t offset, struct text_spans *out)
{
    for (size_t i = 0; i < rendering->content.n_items; i++) {
        const struct text_span *span = &rendering->content.items[i];
        rendering_arrive(rendering, span->source, span->start);
        if (out)
            text_spans_add(out, offset + span->start, offset + span->end);
    }
    if (out)
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
        .failing.error = error,
        .steps_left = TEMPLATE_STEPS_MAX,
    };
    enum status status = STATUS_OK;
    for (uint32_t i = 0; i < environment->n_sources; i++)
        environment->sources[i].first = SIZE_MAX;
    if (render_template(&rendering)) {
        copy_spans(&rendering, out->size, environment->content);
        buffer_add(out, rendering.text.data, rendering.text.size);
        if (out->failed)
            status = out->is_full ? error_set(error, STATUS_REJECT, ERROR_LIMIT_EXCEEDED,
                                              "the rendered template has no room")
                                  : error_memory(error, STATUS_RETRY, "rendering a template");
    } else {
        status =
            rendering.failing.line ? error_prefix(error, "line %u", rendering.failing.line) : error->status;
    }
    if (status == STATUS_OK && rendering.content.failed)
        status = error_memory(error, STATUS_RETRY, "rendering a template");
    text_spans_finish(&rendering.content);
    buffer_finish(&rendering.text);
    arena_finish(&rendering.arena);
    arena_finish(&rendering.large);
    return status;
}
