#include "engine/template/lexer.h"
#include "engine/unicode/character.h"
#include "engine/unicode/codepoints.h"
#include "engine/template/literal.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define NOWHERE SIZE_MAX

// Indexed by enum token_kind.
// clang-format off
static const char *const token_names[] = {
    "end of template", "template text", "begin of print statement", "end of print statement",
    "begin of statement block", "end of statement block", "name", "string", "integer", "float",
    "//", "**", "==", "!=", ">=", "<=", ">", "<", "+", "-", "/", "*", "%", "~",
    "[", "]", "(", ")", "{", "}", "=", ".", ":", "|", ",", ";",
};
// clang-format on
_Static_assert(sizeof token_names / sizeof *token_names == TOKEN_SEMICOLON + 1, "a name a kind");

const char *token_kind_name(enum token_kind kind)
{
    return token_names[kind];
}

void lexer_fail(struct lexer *lexer, enum error_code code, uint32_t line, const char *format, ...)
{
    char text[ERROR_TEXT_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    error_set(lexer->error, STATUS_REFUSE, code, "line %u: %s", line, text);
    longjmp(lexer->failure, 1);
}

void *lexer_allocate(struct lexer *lexer, size_t size)
{
    void *memory = arena_allocate(lexer->arena, size);
    if (memory)
        return memory;
    error_memory(lexer->error, STATUS_RETRY, "a chat template");
    longjmp(lexer->failure, 1);
}

static void check_source(struct lexer *lexer, struct text source)
{
    if (source.size > TEMPLATE_SOURCE_BYTES_MAX)
        error_set(lexer->error, STATUS_REFUSE, ERROR_LIMIT_EXCEEDED, "chat template of %zu bytes, at most %d",
                  source.size, TEMPLATE_SOURCE_BYTES_MAX);
    else if (!utf8_valid(source.data, source.size))
        error_set(lexer->error, STATUS_REFUSE, ERROR_INVALID_ENCODING, "the chat template is not UTF-8");
    else
        return;
    longjmp(lexer->failure, 1);
}

void lexer_start(struct lexer *lexer, struct text source)
{
    check_source(lexer, source);
    lexer->line = 1;
    char *copy = lexer_allocate(lexer, source.size + 1);
    size_t size = 0;
    for (size_t i = 0; i < source.size; i++) {
        char byte = source.data[i];
        if (byte == '\r') {
            byte = '\n';
            if (i + 1 < source.size && source.data[i + 1] == '\n')
                i++;
        }
        copy[size++] = byte;
    }
    if (size && copy[size - 1] == '\n')
        size--;
    lexer->source = (struct text){copy, size};
}

static bool is_at(const struct lexer *lexer, size_t position, const char *string)
{
    size_t size = strlen(string);
    return lexer->source.size - position >= size && memcmp(lexer->source.data + position, string, size) == 0;
}

static char byte_at(const struct lexer *lexer, size_t position)
{
    return position < lexer->source.size ? lexer->source.data[position] : '\0';
}

static size_t skip_space(const struct lexer *lexer, size_t position)
{
    while (position < lexer->source.size) {
        size_t next = position;
        if (!codepoint_is_space(codepoints_next(lexer->source, &next)))
            break;
        position = next;
    }
    return position;
}

static void advance_to(struct lexer *lexer, size_t position)
{
    for (size_t i = lexer->position; i < position; i++)
        lexer->line += lexer->source.data[i] == '\n';
    lexer->position = position;
}

// Returns where the tag end at `position` stops (`closing`, optionally after - or +). NOWHERE: no tag ends
// there.
static size_t tag_end(const struct lexer *lexer, size_t position, const char *closing, bool is_block)
{
    char sign = byte_at(lexer, position);
    if (sign == '-' && is_at(lexer, position + 1, closing))
        return skip_space(lexer, position + 3);
    if (is_block && sign == '+' && is_at(lexer, position + 1, closing))
        return position + 3;
    if (!is_at(lexer, position, closing))
        return NOWHERE;
    return position + 2 + (is_block && byte_at(lexer, position + 2) == '\n');
}

// Returns the text before a tag, without the whitespace that the tag's sign or lstrip_blocks removes.
static struct text strip_data(const struct lexer *lexer, size_t start, size_t stop, char sign,
                              bool is_variable)
{
    struct text text = {lexer->source.data + start, stop - start};
    size_t end = text.size;
    while (end > 0) {
        size_t before = end;
        uint32_t codepoint = codepoints_previous(text, &before);
        if (!codepoint_is_space(codepoint) || (sign != '-' && codepoint == '\n'))
            break;
        end = before;
    }
    bool line_start =
        end > 0 ? text.data[end - 1] == '\n' : start == 0 || lexer->source.data[start - 1] == '\n';
    if (sign == '-' || (sign != '+' && !is_variable && line_start))
        text.size = end;
    return text;
}

static bool is_sign(char byte)
{
    return byte == '-' || byte == '+';
}

static size_t find_text(const struct lexer *lexer, size_t position, const char *what)
{
    const char *found =
        memmem(lexer->source.data + position, lexer->source.size - position, what, strlen(what));
    return found ? (size_t)(found - lexer->source.data) : NOWHERE;
}

static void skip_comment(struct lexer *lexer, size_t position)
{
    advance_to(lexer, position + 2 + is_sign(byte_at(lexer, position + 2)));
    size_t close = find_text(lexer, lexer->position, "#}");
    if (close == NOWHERE)
        lexer_fail(lexer, ERROR_TEMPLATE, lexer->line, "missing end of comment tag");
    if (close > lexer->position && is_sign(lexer->source.data[close - 1]))
        close--;
    advance_to(lexer, tag_end(lexer, close, "#}", true));
}

static size_t find_tag(const struct lexer *lexer)
{
    for (size_t position = lexer->position;; position++) {
        position = find_text(lexer, position, "{");
        if (position == NOWHERE)
            return lexer->source.size;
        char next = byte_at(lexer, position + 1);
        if (next == '{' || next == '%' || next == '#')
            return position;
    }
}

// Returns the end of the `{% word %}` at `position`. NOWHERE: there is another tag, or none. *sign becomes the
// sign of its opening. If the tag ends a block (is_end), a newline after it is dropped.
static size_t plain_tag_end(const struct lexer *lexer, size_t position, const char *word, bool is_end,
                            char *sign)
{
    if (!is_at(lexer, position, "{%"))
        return NOWHERE;
    *sign = byte_at(lexer, position + 2);
    size_t at = skip_space(lexer, position + 2 + is_sign(*sign)), size = strlen(word);
    if (!is_at(lexer, at, word))
        return NOWHERE;
    return tag_end(lexer, skip_space(lexer, at + size), "%}", is_end);
}

// Lexes {% raw %} ... {% endraw %} at the position. Its text is unchanged.
static bool lex_raw(struct lexer *lexer, struct token *token)
{
    char sign;
    size_t start = plain_tag_end(lexer, lexer->position, "raw", false, &sign), tag, end = NOWHERE;
    if (start == NOWHERE)
        return false;
    for (tag = start; end == NOWHERE; tag++) {
        tag = find_text(lexer, tag, "{%");
        if (tag == NOWHERE)
            lexer_fail(lexer, ERROR_TEMPLATE, lexer->line, "missing end of raw directive");
        end = plain_tag_end(lexer, tag, "endraw", true, &sign);
    }
    *token = (struct token){.kind = TOKEN_DATA, .line = lexer->line};
    token->text = strip_data(lexer, start, tag - 1, sign, false);
    advance_to(lexer, end);
    return true;
}

// Lexes the opening of the tag at the position.
static void lex_tag(struct lexer *lexer, struct token *token)
{
    size_t tag = lexer->position;
    char type = byte_at(lexer, tag + 1);
    *token =
        (struct token){.kind = type == '{' ? TOKEN_VARIABLE_BEGIN : TOKEN_BLOCK_BEGIN, .line = lexer->line};
    lexer->state = type == '{' ? LEXER_VARIABLE : LEXER_BLOCK;
    advance_to(lexer, tag + 2 + is_sign(byte_at(lexer, tag + 2)));
}

// Lexes the text before the next tag or, if there is no text, the opening of the tag.
static void lex_data(struct lexer *lexer, struct token *token)
{
    for (;;) {
        size_t start = lexer->position, tag = find_tag(lexer);
        bool at_end = tag == lexer->source.size;
        char type = byte_at(lexer, tag + 1);
        *token = (struct token){.kind = TOKEN_DATA, .line = lexer->line};
        token->text = (struct text){lexer->source.data + start, tag - start};
        if (!at_end)
            token->text = strip_data(lexer, start, tag, byte_at(lexer, tag + 2), type == '{');
        advance_to(lexer, tag);
        if (token->text.size)
            return;
        token->kind = TOKEN_END;
        token->line = lexer->line;
        if (at_end)
            return;
        if (type == '#') {
            skip_comment(lexer, tag);
        } else if (!lex_raw(lexer, token)) {
            lex_tag(lexer, token);
            return;
        } else if (token->text.size) {
            return;
        }
    }
}

// Returns the end of the identifier at the lexer's position, or the position itself if there is none.
static size_t name_end(const struct lexer *lexer)
{
    size_t stop = lexer->position;
    for (size_t next = stop; next < lexer->source.size; stop = next)
        if (!character_is_of_name(codepoints_next(lexer->source, &next), stop == lexer->position))
            break;
    return stop;
}

static void lex_string(struct lexer *lexer, size_t stop, struct token *token)
{
    struct text body = {lexer->source.data + lexer->position + 1, stop - lexer->position - 2};
    token->kind = TOKEN_STRING;
    token->text = body;
    if (body.size && memchr(body.data, '\\', body.size)) {
        char *out = lexer_allocate(lexer, body.size + 4);
        const char *problem = literal_unescape(body, out, &token->text);
        if (problem)
            lexer_fail(lexer, ERROR_TEMPLATE, lexer->line, "%s", problem);
    }
    advance_to(lexer, stop);
}

static void balance_brackets(struct lexer *lexer, enum token_kind kind)
{
    static const char closing[] = {
        [TOKEN_LEFT_BRACKET] = ']', [TOKEN_LEFT_PARENTHESIS] = ')', [TOKEN_LEFT_BRACE] = '}'};
    const char *text = token_kind_name(kind);
    if (kind == TOKEN_LEFT_BRACKET || kind == TOKEN_LEFT_PARENTHESIS || kind == TOKEN_LEFT_BRACE) {
        if (lexer->n_brackets == TEMPLATE_NESTING_MAX)
            lexer_fail(lexer, ERROR_LIMIT_EXCEEDED, lexer->line, "nested more than %d levels deep",
                       TEMPLATE_NESTING_MAX);
        lexer->brackets[lexer->n_brackets++] = closing[kind];
    } else if (kind == TOKEN_RIGHT_BRACKET || kind == TOKEN_RIGHT_PARENTHESIS || kind == TOKEN_RIGHT_BRACE) {
        char expected = lexer->n_brackets ? lexer->brackets[--lexer->n_brackets] : '\0';
        if (!expected)
            lexer_fail(lexer, ERROR_TEMPLATE, lexer->line, "unexpected '%s'", text);
        if (expected != text[0])
            lexer_fail(lexer, ERROR_TEMPLATE, lexer->line, "unexpected '%s', expected '%c'", text, expected);
    }
}

static void lex_operator(struct lexer *lexer, struct token *token)
{
    for (unsigned kind = TOKEN_FLOOR_DIVIDE; kind <= TOKEN_SEMICOLON; kind++) {
        if (!is_at(lexer, lexer->position, token_names[kind]))
            continue;
        token->kind = kind;
        token->text = (struct text){lexer->source.data + lexer->position, strlen(token_names[kind])};
        lexer->position += token->text.size;
        balance_brackets(lexer, token->kind);
        return;
    }
    size_t stop = lexer->position;
    codepoints_next(lexer->source, &stop);
    lexer_fail(lexer, ERROR_TEMPLATE, lexer->line, "unexpected character '%.*s'",
               (int)(stop - lexer->position), lexer->source.data + lexer->position);
}

static size_t string_end(const struct lexer *lexer)
{
    char quote = lexer->source.data[lexer->position];
    for (size_t i = lexer->position + 1; i < lexer->source.size; i++) {
        if (lexer->source.data[i] == quote)
            return i + 1;
        if (lexer->source.data[i] == '\\')
            i++;
    }
    return NOWHERE;
}

static void lex_number(struct lexer *lexer, struct token *token)
{
    bool after_dot = lexer->position > 0 && lexer->source.data[lexer->position - 1] == '.';
    struct text rest = {lexer->source.data + lexer->position, lexer->source.size - lexer->position};
    struct literal_number number;
    const char *problem = literal_number(rest, after_dot, &number);
    if (problem)
        lexer_fail(lexer, ERROR_TEMPLATE, lexer->line, "%s", problem);
    token->kind = number.is_float ? TOKEN_FLOAT : TOKEN_INTEGER;
    token->integer = number.integer;
    token->number = number.number;
    token->text = (struct text){rest.data, number.size};
    lexer->position += number.size;
}

static void lex_inside(struct lexer *lexer, struct token *token)
{
    char first = lexer->source.data[lexer->position];
    size_t stop = name_end(lexer);
    if (first >= '0' && first <= '9') {
        lex_number(lexer, token);
    } else if (stop > lexer->position) {
        token->kind = TOKEN_NAME;
        token->text = (struct text){lexer->source.data + lexer->position, stop - lexer->position};
        lexer->position = stop;
    } else if ((first == '\'' || first == '"') && string_end(lexer) != NOWHERE) {
        lex_string(lexer, string_end(lexer), token);
    } else {
        lex_operator(lexer, token);
    }
}

void lexer_next(struct lexer *lexer, struct token *token)
{
    if (lexer->state == LEXER_DATA) {
        lex_data(lexer, token);
        return;
    }
    advance_to(lexer, skip_space(lexer, lexer->position));
    *token = (struct token){.kind = TOKEN_END, .line = lexer->line};
    if (lexer->position == lexer->source.size)
        return;
    bool is_block = lexer->state == LEXER_BLOCK;
    size_t end = NOWHERE;
    if (!lexer->n_brackets)
        end = tag_end(lexer, lexer->position, is_block ? "%}" : "}}", is_block);
    if (end == NOWHERE) {
        lex_inside(lexer, token);
        return;
    }
    token->kind = is_block ? TOKEN_BLOCK_END : TOKEN_VARIABLE_END;
    advance_to(lexer, end);
    lexer->state = LEXER_DATA;
}
