// GBNF as defined by llama.cpp: rules `name ::= ...` of strings, classes, names, groups, | and the
// repetitions * + ? {n,m}. The start symbol is `root`.
#include "engine/grammar/grammar.h"
#include "engine/grammar/grammar_source.h"
#include "engine/regex/pattern_class.h"

#include <string.h>

struct gbnf {
    struct grammar_source source;
    struct grammar_names names;
};

static enum status read_choice(struct gbnf *gbnf, struct operand *operand);

static void skip_blanks(struct grammar_source *source)
{
    for (char c; source->at < source->text.size; source->at++) {
        c = source_peek(source);
        if (c == '#')
            while (source->at + 1 < source->text.size && source->text.data[source->at + 1] != '\n')
                source->at++;
        else if (c != ' ' && c != '\t' && c != '\n' && c != '\r')
            return;
    }
}

// True if a rule begins here: a name, then ::=.
static bool at_rule(struct grammar_source *source)
{
    size_t before = source->at;
    bool is_rule = source_name(source, true).size > 0;
    skip_blanks(source);
    is_rule = is_rule && source_next_is(source, "::=");
    source->at = before;
    return is_rule;
}

static enum status read_class(struct gbnf *gbnf, struct operand *operand)
{
    struct grammar_source *source = &gbnf->source;
    struct pattern_reader reader = {
        .pool = source->rules->expressions, .text = source->text, .at = source->at, .error = source->error};
    enum status status = pattern_read_class(&reader, &operand->id);
    source->at = reader.at;
    return status;
}

static enum status read_string(struct gbnf *gbnf, struct operand *operand)
{
    struct buffer text = {0};
    enum status status = source_quoted(&gbnf->source, &text);
    if (status == STATUS_OK)
        operand->id =
            expression_literal(gbnf->source.rules->expressions, (struct text){text.data, text.size});
    buffer_finish(&text);
    return status;
}

static enum status read_reference(struct gbnf *gbnf, struct operand *operand)
{
    struct text name = source_name(&gbnf->source, true);
    struct grammar_name *found = names_find(&gbnf->names, name);
    if (!found) {
        expressions_fail_memory(gbnf->source.rules->expressions);
        return source_check(&gbnf->source);
    }
    if (!found->symbol)
        found->symbol = rules_nonterminal(gbnf->source.rules);
    *operand = (struct operand){true, found->symbol};
    return source_check(&gbnf->source);
}

static enum status read_group(struct gbnf *gbnf, struct operand *operand)
{
    enum status status = source_enter(&gbnf->source);
    if (status == STATUS_OK)
        status = read_choice(gbnf, operand);
    if (status != STATUS_OK)
        return status;
    source_leave(&gbnf->source);
    return source_take(&gbnf->source, ")") ? STATUS_OK
                                           : source_refuse(&gbnf->source, "a group is not closed");
}

static enum status read_item(struct gbnf *gbnf, struct operand *operand)
{
    struct grammar_source *source = &gbnf->source;
    *operand = (struct operand){0};
    if (source_take(source, "\""))
        return read_string(gbnf, operand);
    if (source_take(source, "["))
        return read_class(gbnf, operand);
    if (source_take(source, "("))
        return read_group(gbnf, operand);
    if (source_take(source, ".")) {
        operand->id = EXPRESSION_ANY;
        return STATUS_OK;
    }
    if (source_peek(source) == '<' || source_peek(source) == '!')
        return source_refuse(source, "references to tokens (<...>) are not supported");
    size_t before = source->at;
    if (source_name(source, true).size == 0)
        return source_refuse(source, "expected a string, a class, a group or a rule's name");
    source->at = before;
    return read_reference(gbnf, operand);
}

static enum status read_repeated(struct gbnf *gbnf, struct operand *operand)
{
    struct grammar_source *source = &gbnf->source;
    enum status status = read_item(gbnf, operand);
    while (status == STATUS_OK) {
        uint32_t min, max;
        bool found;
        skip_blanks(source);
        status = source_repetition(source, &found, &min, &max);
        if (!found)
            break;
        if (status == STATUS_OK) {
            *operand = operand_repeat(source->rules, *operand, min, max);
            status = source_check(source);
        }
    }
    return status;
}

static bool add_operand(struct gbnf *gbnf, struct operands *list, struct operand operand)
{
    if (VECTOR_ADD(list, operand))
        return true;
    expressions_fail_memory(gbnf->source.rules->expressions);
    return false;
}

static enum status read_sequence(struct gbnf *gbnf, struct operand *operand)
{
    struct grammar_source *source = &gbnf->source;
    struct operands parts = {0};
    enum status status = STATUS_OK;
    for (skip_blanks(source); status == STATUS_OK && source->at < source->text.size; skip_blanks(source)) {
        struct operand part;
        if (source_peek(source) == '|' || source_peek(source) == ')' ||
            (source->depth == 0 && at_rule(source)))
            break;
        status = read_repeated(gbnf, &part);
        if (status == STATUS_OK && !add_operand(gbnf, &parts, part))
            status = source_check(source);
    }
    if (status == STATUS_OK) {
        *operand = operand_sequence(source->rules, &parts);
        status = source_check(source);
    }
    VECTOR_FINISH(&parts);
    return status;
}

static enum status read_choice(struct gbnf *gbnf, struct operand *operand)
{
    struct grammar_source *source = &gbnf->source;
    struct operands parts = {0};
    enum status status = STATUS_OK;
    do {
        struct operand part;
        status = read_sequence(gbnf, &part);
        if (status == STATUS_OK && !add_operand(gbnf, &parts, part))
            status = source_check(source);
    } while (status == STATUS_OK && source_take(source, "|"));
    if (status == STATUS_OK) {
        *operand = operand_choice(source->rules, &parts);
        status = source_check(source);
    }
    VECTOR_FINISH(&parts);
    return status;
}

static enum status read_rule(struct gbnf *gbnf)
{
    struct grammar_source *source = &gbnf->source;
    struct operand left, right;
    if (!at_rule(source))
        return source_refuse(source, "expected a rule: name ::= ...");
    size_t start = source->at;
    enum status status = read_reference(gbnf, &left);
    if (status != STATUS_OK)
        return status;
    struct text name = {source->text.data + start, source->at - start};
    struct grammar_name *found = names_find(&gbnf->names, name);
    if (found->defined)
        return source_refuse(source, "rule %.*s is defined twice", (int)(name.size < 100 ? name.size : 100),
                             name.data);
    found->defined = true;
    skip_blanks(source);
    source_take(source, "::=");
    status = read_choice(gbnf, &right);
    if (status != STATUS_OK)
        return status;
    if (source_peek(source) == ')')
        return source_refuse(source, "a group is closed that was not opened");
    rules_define(source->rules, left.id, operand_symbol(source->rules, right));
    return source_check(source);
}

static enum status read_rules(struct gbnf *gbnf, uint32_t *start)
{
    struct grammar_source *source = &gbnf->source;
    enum status status = STATUS_OK;
    for (skip_blanks(source); status == STATUS_OK && source->at < source->text.size; skip_blanks(source))
        status = read_rule(gbnf);
    if (status != STATUS_OK)
        return status;
    struct grammar_name *root = names_find(&gbnf->names, TEXT("root"));
    if (!root || !root->defined)
        return source_refuse(source, "no rule is named root");
    *start = root->symbol;
    for (size_t i = 0; i < gbnf->names.items.n; i++) {
        struct grammar_name *name = &gbnf->names.items.items[i];
        if (!name->defined)
            return source_refuse(source, "rule %.*s is not defined",
                                 (int)(name->name.size < 100 ? name->name.size : 100), name->name.data);
    }
    return STATUS_OK;
}

enum status grammar_compile_gbnf(struct grammar **grammar, struct text text,
                                 const struct grammar_limits *limits, struct error *error)
{
    *grammar = NULL;
    struct rules *rules = rules_create(limits);
    if (!rules)
        return error_memory(error, STATUS_RETRY, "a grammar");
    struct gbnf gbnf = {.source = {.rules = rules, .text = text, .error = error}};
    if (text.size > rules->expressions->limits.values[GRAMMAR_LIMIT_SOURCE_BYTES])
        expressions_fail(rules->expressions, GRAMMAR_LIMIT_SOURCE_BYTES);
    uint32_t start = SYMBOL_NOTHING;
    enum status status = rules_status(rules, error);
    if (status == STATUS_OK)
        status = read_rules(&gbnf, &start);
    names_finish(&gbnf.names);
    if (status == STATUS_OK)
        return grammar_create(grammar, rules, start, error);
    rules_destroy(rules);
    return status;
}
