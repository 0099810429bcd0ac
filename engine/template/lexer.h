// A template's source as tokens, with jinja's rules of whitespace: trim_blocks (the newline behind a block
// is dropped), lstrip_blocks (and blanks before a block at the start of a line), - and + against either.
#pragma once

#include "engine/template/template.h"
#include "schemas/arena.h"

#include <setjmp.h>
#include <stdbool.h>

enum token_kind {
    TOKEN_END,
    TOKEN_DATA,
    TOKEN_VARIABLE_BEGIN,
    TOKEN_VARIABLE_END,
    TOKEN_BLOCK_BEGIN,
    TOKEN_BLOCK_END,
    TOKEN_NAME,
    TOKEN_STRING,
    TOKEN_INTEGER,
    TOKEN_FLOAT,
    // The operators, longer ones first; comparisons together.
    TOKEN_FLOOR_DIVIDE,
    TOKEN_POWER,
    TOKEN_EQUAL,
    TOKEN_NOT_EQUAL,
    TOKEN_GREATER_EQUAL,
    TOKEN_LESS_EQUAL,
    TOKEN_GREATER,
    TOKEN_LESS,
    TOKEN_ADD,
    TOKEN_SUBTRACT,
    TOKEN_DIVIDE,
    TOKEN_MULTIPLY,
    TOKEN_MODULO,
    TOKEN_TILDE,
    TOKEN_LEFT_BRACKET,
    TOKEN_RIGHT_BRACKET,
    TOKEN_LEFT_PARENTHESIS,
    TOKEN_RIGHT_PARENTHESIS,
    TOKEN_LEFT_BRACE,
    TOKEN_RIGHT_BRACE,
    TOKEN_ASSIGN,
    TOKEN_DOT,
    TOKEN_COLON,
    TOKEN_PIPE,
    TOKEN_COMMA,
    TOKEN_SEMICOLON
};

struct token {
    enum token_kind kind;
    uint32_t line;
    struct text text; // data, name, string (unescaped); others: as written
    int64_t integer;
    double number;
};

enum lexer_state { LEXER_DATA, LEXER_BLOCK, LEXER_VARIABLE };

struct lexer {
    struct text source; // newlines are \n, the last one is gone
    size_t position;
    uint32_t line;
    enum lexer_state state;
    char brackets[TEMPLATE_NESTING_MAX]; // the closing ones awaited
    size_t n_brackets;
    struct arena *arena; // of the template
    struct error *error;
    jmp_buf failure; // where an error continues, as in Lua and PostgreSQL: all memory is the arena's
};

// arena, error and failure are set. Errors here and in the parser: STATUS_REFUSE with the line.
void lexer_start(struct lexer *lexer, struct text source);
void lexer_next(struct lexer *lexer, struct token *token);
const char *token_kind_name(enum token_kind kind);
_Noreturn void lexer_fail(struct lexer *lexer, enum error_code code, uint32_t line, const char *format, ...)
    PRINTF_LIKE(4, 5);
void *lexer_allocate(struct lexer *lexer, size_t size); // zeroed, never NULL
