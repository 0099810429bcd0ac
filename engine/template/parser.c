#include "engine/template/parser.h"
#include "engine/template/codepoints.h"
#include "schemas/hash.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void parser_set_error(struct parser *parser, uint32_t line, const char *format, ...)
{
    char text[ERROR_TEXT_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    error_set(parser->error, STATUS_REFUSE, ERROR_TEMPLATE, "line %u: %s", line, text);
}

void *parser_allocate(struct parser *parser, size_t size)
{
    void *memory = arena_allocate(parser->arena, size);
    if (!memory)
        error_set(parser->error, STATUS_RETRY, ERROR_OUT_OF_MEMORY, "no memory for a chat template");
    return memory;
}

bool parser_enter(struct parser *parser)
{
    if (parser->depth == TEMPLATE_NESTING_MAX) {
        error_set(parser->error, STATUS_REFUSE, ERROR_LIMIT_EXCEEDED,
                  "line %u: nested more than %d levels deep", parser->token.line, TEMPLATE_NESTING_MAX);
        return false;
    }
    parser->depth++;
    return true;
}

void parser_leave(struct parser *parser)
{
    parser->depth--;
}

bool parser_advance(struct parser *parser)
{
    if (parser->has_ahead) {
        parser->token = parser->ahead;
        parser->has_ahead = false;
        return true;
    }
    return lexer_next(&parser->lexer, &parser->token) == STATUS_OK;
}

bool parser_look_ahead(struct parser *parser)
{
    if (!parser->has_ahead && lexer_next(&parser->lexer, &parser->ahead) != STATUS_OK)
        return false;
    parser->has_ahead = true;
    return true;
}

bool parser_is_name(const struct parser *parser, const char *name)
{
    return parser->token.kind == TOKEN_NAME && text_equals_string(parser->token.text, name);
}

struct text parser_token_text(const struct parser *parser)
{
    struct text text = text_from_string(token_kind_name(parser->token.kind));
    if (parser->token.kind == TOKEN_NAME)
        text = parser->token.text;
    text.size = (size_t)codepoints_cut(text);
    return text;
}

static bool fail_expected(struct parser *parser, const char *expected)
{
    struct text got = parser_token_text(parser);
    return parser_fail(parser, parser->token.line, "expected '%s', got '%.*s'", expected, (int)got.size,
                       got.data);
}

bool parser_expect(struct parser *parser, enum token_kind kind)
{
    if (parser->token.kind != kind)
        return fail_expected(parser, token_kind_name(kind));
    return parser_advance(parser);
}

bool parser_expect_name(struct parser *parser, const char *name)
{
    if (!parser_is_name(parser, name))
        return fail_expected(parser, name);
    return parser_advance(parser);
}

bool parser_skip(struct parser *parser, enum token_kind kind, bool *skipped)
{
    *skipped = parser->token.kind == kind;
    return !*skipped || parser_advance(parser);
}

bool parser_skip_name(struct parser *parser, const char *name, bool *skipped)
{
    *skipped = parser_is_name(parser, name);
    return !*skipped || parser_advance(parser);
}

void *parser_grow(struct parser *parser, void *items, size_t n_items, size_t *capacity, size_t size)
{
    if (n_items < *capacity)
        return items;
    size_t larger = *capacity ? *capacity * 2 : 4;
    void *copy = parser_allocate(parser, larger * size); // bounded by the source's size
    if (!copy)
        return NULL;
    if (n_items)
        memcpy(copy, items, n_items * size);
    *capacity = larger;
    return copy;
}

static bool grow_name_index(struct parser *parser)
{
    uint32_t n_slots = parser->name_index ? (parser->name_index_mask + 1) * 2 : 64;
    parser->name_index = parser_allocate(parser, n_slots * sizeof *parser->name_index);
    if (!parser->name_index)
        return false;
    parser->name_index_mask = n_slots - 1;
    for (uint32_t i = 0; i < parser->template->n_names; i++) {
        struct text name = parser->template->names[i];
        uint32_t slot = (uint32_t)hash_bytes(name.data, name.size, 0) & parser->name_index_mask;
        while (parser->name_index[slot])
            slot = (slot + 1) & parser->name_index_mask;
        parser->name_index[slot] = i + 1;
    }
    return true;
}

bool parser_name(struct parser *parser, struct text name, uint32_t *number)
{
    struct template *template = parser->template;
    if ((!parser->name_index || template->n_names * 2 > parser->name_index_mask) && !grow_name_index(parser))
        return false;
    uint32_t slot = (uint32_t)hash_bytes(name.data, name.size, 0) & parser->name_index_mask;
    while (parser->name_index[slot]) {
        *number = parser->name_index[slot] - 1;
        if (text_equal(template->names[*number], name))
            return true;
        slot = (slot + 1) & parser->name_index_mask;
    }
    size_t capacity = parser->names_capacity;
    struct text *names = parser_grow(parser, template->names, template->n_names, &capacity, sizeof *names);
    if (!names)
        return false;
    parser->names_capacity = (uint32_t)capacity;
    template->names = names;
    *number = template->n_names++;
    names[*number] = name;
    parser->name_index[slot] = *number + 1;
    return true;
}
