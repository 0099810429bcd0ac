#include "engine/template/parser.h"
#include "engine/unicode/codepoints.h"
#include "schemas/base/hash.h"

#include <string.h>

void parser_enter(struct parser *parser)
{
    if (parser->depth++ == TEMPLATE_NESTING_MAX)
        parser_fail_limit(parser, parser->token.line, "nested more than %d levels deep",
                          TEMPLATE_NESTING_MAX);
}

void parser_leave(struct parser *parser)
{
    parser->depth--;
}

static void add_word(struct parser *parser, struct text word)
{
    struct template *template = parser->template;
    template->words =
        parser_grow(parser, template->words, template->n_words, &parser->words_capacity, sizeof word);
    template->words[template->n_words++] = word;
}

// Records a word for template_names. "a.b" in map(attribute='a.b') names two members.
static void note_word(struct parser *parser, struct text word)
{
    add_word(parser, word);
    if (!word.size || !memchr(word.data, '.', word.size))
        return;
    for (size_t start = 0, end; start <= word.size; start = end + 1) {
        for (end = start; end < word.size && word.data[end] != '.';)
            end++;
        add_word(parser, (struct text){word.data + start, end - start});
    }
}

static void read_token(struct parser *parser, struct token *token)
{
    lexer_next(&parser->lexer, token);
    if (token->kind == TOKEN_NAME || token->kind == TOKEN_STRING)
        note_word(parser, token->text);
}

struct token parser_advance(struct parser *parser)
{
    struct token token = parser->token;
    if (parser->has_ahead)
        parser->token = parser->ahead;
    else
        read_token(parser, &parser->token);
    parser->has_ahead = false;
    return token;
}

void parser_look_ahead(struct parser *parser)
{
    if (!parser->has_ahead)
        read_token(parser, &parser->ahead);
    parser->has_ahead = true;
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

static _Noreturn void fail_expected(struct parser *parser, const char *expected)
{
    struct text got = parser_token_text(parser);
    parser_fail(parser, parser->token.line, "expected '%s', got '%.*s'", expected, (int)got.size, got.data);
}

struct token parser_expect(struct parser *parser, enum token_kind kind)
{
    if (parser->token.kind != kind)
        fail_expected(parser, token_kind_name(kind));
    return parser_advance(parser);
}

void parser_expect_name(struct parser *parser, const char *name)
{
    if (!parser_skip_name(parser, name))
        fail_expected(parser, name);
}

bool parser_skip(struct parser *parser, enum token_kind kind)
{
    bool skipped = parser->token.kind == kind;
    if (skipped)
        parser_advance(parser);
    return skipped;
}

bool parser_skip_name(struct parser *parser, const char *name)
{
    bool skipped = parser_is_name(parser, name);
    if (skipped)
        parser_advance(parser);
    return skipped;
}

void *parser_grow(struct parser *parser, void *items, size_t n_items, size_t *capacity, size_t size)
{
    if (n_items < *capacity)
        return items;
    *capacity = *capacity ? *capacity * 2 : 4;
    void *copy = parser_allocate(parser, *capacity * size); // bounded by the source's size
    if (n_items)
        memcpy(copy, items, n_items * size);
    return copy;
}

static uint32_t *find_name(const struct parser *parser, struct text name)
{
    uint32_t slot = (uint32_t)hash_bytes(name.data, name.size, 0) & parser->name_index_mask;
    while (parser->name_index[slot] &&
           !text_equal(parser->template->names[parser->name_index[slot] - 1], name))
        slot = (slot + 1) & parser->name_index_mask;
    return &parser->name_index[slot];
}

static void grow_name_index(struct parser *parser)
{
    uint32_t n_slots = parser->name_index ? (parser->name_index_mask + 1) * 2 : 64;
    parser->name_index = parser_allocate(parser, n_slots * sizeof *parser->name_index);
    parser->name_index_mask = n_slots - 1;
    for (uint32_t i = 0; i < parser->template->n_names; i++)
        *find_name(parser, parser->template->names[i]) = i + 1;
}

uint32_t parser_name(struct parser *parser, struct text name)
{
    struct template *template = parser->template;
    if (!parser->name_index || template->n_names * 2 > parser->name_index_mask)
        grow_name_index(parser);
    uint32_t *found = find_name(parser, name);
    if (*found)
        return *found - 1;
    size_t capacity = parser->names_capacity;
    template->names = parser_grow(parser, template->names, template->n_names, &capacity, sizeof name);
    parser->names_capacity = (uint32_t)capacity;
    template->names[template->n_names] = name;
    *found = template->n_names + 1;
    return template->n_names++;
}
