// Splits a template's source into tokens, with jinja's whitespace rules: trim_blocks (drops the newline after
// a block tag), lstrip_blocks (drops blanks before a block tag at the start of a line); - and + override
// both.
#pragma once

#include "engine/template/template.h"
#include "schemas/base/arena.h"

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
    // Operators, longest first; comparisons are adjacent.
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
    struct text text; // data, name or unescaped string; for other tokens the source text
    int64_t integer;
    double number;
};

enum lexer_state { LEXER_DATA, LEXER_BLOCK, LEXER_VARIABLE };

struct lexer {
    struct text source; // newlines are \n; a final newline is removed
    size_t position;
    uint32_t line;
    enum lexer_state state;
    char brackets[TEMPLATE_NESTING_MAX]; // the expected closing brackets, innermost last
    size_t n_brackets;
    struct arena *arena; // the template's arena
    struct error *error;
    jmp_buf failure; // longjmp target of errors; all memory is in the arena, so nothing leaks
};

// Starts a lexer. The caller sets arena, error and failure. Errors here and in the parser are STATUS_REFUSE
// with the line.
void lexer_start(struct lexer *lexer, struct text source);
void lexer_next(struct lexer *lexer, struct token *token);
const char *token_kind_name(enum token_kind kind);
_Noreturn void lexer_fail(struct lexer *lexer, enum error_code code, uint32_t line, const char *format, ...)
    PRINTF_LIKE(4, 5);
void *lexer_allocate(struct lexer *lexer, size_t size); // zeroed, never NULL
