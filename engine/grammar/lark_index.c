// First pass over a Lark grammar: reads the directives, and finds where each definition begins.
#include "engine/grammar/lark_parts.h"

#include <string.h>

bool lark_is_terminal(struct text name)
{
    size_t i = 0;
    while (i < name.size && name.data[i] == '_')
        i++;
    return i < name.size && name.data[i] >= 'A' && name.data[i] <= 'Z';
}

static void skip_line(struct grammar_source *source)
{
    while (source->at < source->text.size && source_peek(source) != '\n')
        source->at++;
}

static void skip_lines(struct grammar_source *source)
{
    for (char c; source->at < source->text.size; source->at++) {
        c = source_peek(source);
        if (c == '#' || source_next_is(source, "//")) {
            skip_line(source);
            if (source->at >= source->text.size)
                return;
        } else if (c != ' ' && c != '\t' && c != '\r' && c != '\n') {
            return;
        }
    }
}

void lark_skip(struct grammar_source *source)
{
    if (source->depth) {
        skip_lines(source);
        return;
    }
    while (source_peek(source) == ' ' || source_peek(source) == '\t' || source_peek(source) == '\r')
        source->at++;
    if (source_next_is(source, "//") || source_peek(source) == '#')
        skip_line(source);
    if (source_peek(source) != '\n')
        return;
    size_t before = source->at;
    skip_lines(source);
    if (source_peek(source) != '|')
        source->at = before;
}

// Skips the string or regex at the current position.
static enum status skip_quoted(struct grammar_source *source, char quote)
{
    for (source->at++; source_peek(source) != quote; source->at++) {
        if (source->at >= source->text.size || source_peek(source) == '\n')
            return source_refuse(source, "a %s is not closed", quote == '"' ? "string" : "regex");
        source->at += source_peek(source) == '\\' && source->at + 1 < source->text.size;
    }
    source->at++;
    return STATUS_OK;
}

static enum status skip_body(struct grammar_source *source)
{
    enum status status = STATUS_OK;
    unsigned depth = source->depth;
    source->depth = 0;
    while (status == STATUS_OK) {
        lark_skip(source);
        char c = source_peek(source);
        if (source->at >= source->text.size || (c == '\n' && source->depth == 0))
            break;
        if (c == '"' || c == '/') {
            status = skip_quoted(source, c);
            continue;
        }
        source->depth += c == '(' || c == '[';
        source->depth -= (c == ')' || c == ']') && source->depth > 0;
        source->at++;
    }
    source->depth = depth;
    return status;
}

static enum status no_memory(struct lark *lark)
{
    expressions_fail_memory(lark->source.rules->expressions);
    return source_check(&lark->source);
}

static enum status define_name(struct lark *lark, struct text name, struct grammar_name **out)
{
    struct grammar_name *found = *out = names_find(&lark->names, name);
    if (!found)
        return no_memory(lark);
    if (found->defined)
        return source_refuse(&lark->source, "%.*s is defined twice", (int)(name.size < 100 ? name.size : 100),
                             name.data);
    found->defined = true;
    found->expression = EXPRESSION_NOTHING;
    if (!lark_is_terminal(name))
        found->symbol = rules_nonterminal(lark->source.rules);
    return source_check(&lark->source);
}

static enum status index_definition(struct lark *lark)
{
    struct grammar_source *source = &lark->source;
    struct grammar_name *found;
    while (source_take(source, "?") || source_take(source, "!")) // affect only Lark's tree
        ;
    struct text name = source_name(source, false);
    uint32_t priority;
    if (name.size == 0)
        return source_refuse(source, "expected a definition (name: ...) or a directive (%%...)");
    if (source_peek(source) == '{')
        return source_refuse(source, "templates (name{...}) are not supported");
    if (source_peek(source) == '[')
        return source_refuse(source, "attributes (name[...]) are not supported");
    if (source_take(source, ".")) {
        source_take(source, "-");
        if (!source_number(source, &priority))
            return source_refuse(source, "a priority is not a number");
    }
    lark_skip(source);
    if (!source_take(source, ":"))
        return source_refuse(source, "expected ':' after the name of a definition");
    enum status status = define_name(lark, name, &found);
    if (status != STATUS_OK)
        return status;
    found->body = source->at;
    return skip_body(source);
}

static enum status import_one(struct lark *lark, struct text name, struct text alias)
{
    struct grammar_name *found;
    const char *pattern = lark_common_pattern(name);
    if (!pattern)
        return source_refuse(&lark->source, "common.%.*s is not known",
                             (int)(name.size < 100 ? name.size : 100), name.data);
    enum status status = define_name(lark, alias.size ? alias : name, &found);
    if (status != STATUS_OK)
        return status;
    found->body = SIZE_MAX;
    return expression_parse(lark->source.rules->expressions, text_from_string(pattern), PATTERN_WHOLE,
                            &found->expression, lark->source.error);
}

static enum status read_import(struct lark *lark)
{
    struct grammar_source *source = &lark->source;
    lark_skip(source);
    if (!source_take(source, "common"))
        return source_refuse(source, "only common can be imported from");
    if (source_take(source, ".")) {
        struct text name = source_name(source, false), alias = {0};
        lark_skip(source);
        if (source_take(source, "->")) {
            lark_skip(source);
            alias = source_name(source, false);
            if (!lark_is_terminal(alias))
                return source_refuse(source, "an import's other name is not a terminal's");
        }
        return import_one(lark, name, alias);
    }
    lark_skip(source);
    if (!source_take(source, "("))
        return source_refuse(source, "expected a name after %%import common.");
    enum status status = STATUS_OK;
    do {
        lark_skip(source);
        status = import_one(lark, source_name(source, false), (struct text){0});
        lark_skip(source);
    } while (status == STATUS_OK && source_take(source, ","));
    if (status == STATUS_OK && !source_take(source, ")"))
        return source_refuse(source, "the names of %%import are not closed");
    return status;
}

// Stores the position of a %ignore directive. It is read when all names are known.
static enum status read_ignore(struct lark *lark)
{
    struct operand place = {false, (uint32_t)lark->source.at};
    if (!VECTOR_ADD(&lark->ignores, place))
        return no_memory(lark);
    if (lark->ignored == SYMBOL_NOTHING)
        lark->ignored = rules_nonterminal(lark->source.rules);
    return skip_body(&lark->source);
}

static enum status read_directive(struct lark *lark)
{
    struct grammar_source *source = &lark->source;
    size_t before = source->at;
    source->at++;
    struct text name = source_name(source, false);
    if (text_equals_string(name, "import"))
        return read_import(lark);
    if (text_equals_string(name, "ignore"))
        return read_ignore(lark);
    if (text_equals_string(name, "llguidance")) {
        lark_skip(source);
        if (source_take(source, "{") && (lark_skip(source), source_take(source, "}")))
            return STATUS_OK;
        return source_refuse(source, "options of %%llguidance are not supported");
    }
    source->at = before;
    return source_refuse(source, "the directive %%%.*s is not supported",
                         (int)(name.size < 100 ? name.size : 100), name.data);
}

enum status lark_index(struct lark *lark)
{
    struct grammar_source *source = &lark->source;
    enum status status = STATUS_OK;
    for (skip_lines(source); status == STATUS_OK && source->at < source->text.size; skip_lines(source)) {
        status = source_peek(source) == '%' ? read_directive(lark) : index_definition(lark);
        if (status != STATUS_OK)
            return status;
        lark_skip(source);
        if (source->at < source->text.size && source_peek(source) != '\n')
            return source_refuse(source, "expected the end of the line");
    }
    return status;
}
