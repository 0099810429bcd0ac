// Parses grammars in Lark's notation as context-free grammars over characters. Lark's lexer takes the longest
// terminal; here a text is accepted if it can be divided into terminals in any way. Text that %ignore matches
// may occur between any two terminals. Aliases, priorities and ! ? before a name affect only Lark's tree and
// are skipped.
#include "engine/grammar/grammar.h"
#include "engine/grammar/lark_parts.h"

#include <assert.h>
#include <string.h>

static int name_width(struct text name)
{
    return (int)(name.size < 100 ? name.size : 100);
}

// Appends the ignored text to a terminal of a rule. Inside a terminal the expression is unchanged.
static enum status as_operand(struct lark *lark, uint32_t expression, struct operand *operand)
{
    *operand = (struct operand){false, expression};
    if (lark->in_terminal || lark->ignored == SYMBOL_NOTHING)
        return source_check(&lark->source);
    const uint32_t parts[] = {rules_terminal(lark->source.rules, expression, TERMINAL_TEXT), lark->ignored};
    *operand = (struct operand){true, rules_sequence(lark->source.rules, parts, 2)};
    return source_check(&lark->source);
}

// Matches each ASCII letter in both cases.
static uint32_t any_case(struct expressions *pool, struct text text)
{
    uint32_t id = EXPRESSION_EMPTY;
    for (size_t i = text.size; i > 0; i--) {
        unsigned char c = (unsigned char)text.data[i - 1], other = c ^ 0x20;
        bool is_letter = (c | 0x20) >= 'a' && (c | 0x20) <= 'z';
        const struct code_range both[] = {{c, c}, {is_letter ? other : c, is_letter ? other : c}};
        id = expression_concat(pool, expression_set(pool, both, 2), id);
    }
    return id;
}

static bool is_ascii(struct text text)
{
    for (size_t i = 0; i < text.size; i++)
        if ((unsigned char)text.data[i] >= 0x80)
            return false;
    return true;
}

// Called after "..": reads the end of a range. Both ends must be single characters.
static enum status read_range(struct lark *lark, struct text first, uint32_t *expression)
{
    struct grammar_source *source = &lark->source;
    struct buffer last = {0};
    uint32_t from = 0, to = 0;
    if (!source_take(source, "\""))
        return source_refuse(source, "a range is not \"a\"..\"z\"");
    enum status status = source_quoted(source, &last);
    if (status == STATUS_OK) {
        bool single = first.size && last.size && utf8_decode(first.data, first.size, &from) == first.size &&
                      utf8_decode(last.data, last.size, &to) == last.size && from <= to;
        if (single)
            *expression = expression_set(source->rules->expressions, &(struct code_range){from, to}, 1);
        else
            status = source_refuse(source, "a range is not \"a\"..\"z\"");
    }
    buffer_finish(&last);
    return status;
}

static enum status string_expression(struct lark *lark, struct text text, uint32_t *expression)
{
    struct grammar_source *source = &lark->source;
    struct expressions *pool = source->rules->expressions;
    size_t before = source->at;
    lark_skip(source);
    if (source_take(source, "..")) {
        lark_skip(source);
        return read_range(lark, text, expression);
    }
    source->at = before;
    if (source_take(source, "i")) {
        if (!is_ascii(text))
            return source_refuse(source, "the flag i of a string that is not ASCII is not supported");
        *expression = any_case(pool, text);
    } else {
        *expression = expression_literal(pool, text);
    }
    return STATUS_OK;
}

static enum status read_string(struct lark *lark, uint32_t *expression)
{
    struct buffer text = {0};
    enum status status = source_quoted(&lark->source, &text);
    if (status == STATUS_OK)
        status = string_expression(lark, (struct text){text.data, text.size}, expression);
    buffer_finish(&text);
    return status;
}

// Called after '/': reads a regex.
static enum status read_regex(struct lark *lark, uint32_t *expression)
{
    struct grammar_source *source = &lark->source;
    size_t start = source->at;
    while (source_peek(source) != '/') {
        if (source->at >= source->text.size || source_peek(source) == '\n')
            return source_refuse(source, "a regex is not closed");
        source->at += source_peek(source) == '\\' && source->at + 1 < source->text.size ? 2 : 1;
    }
    struct text regex = {source->text.data + start, source->at - start};
    source->at++;
    char flag = source_peek(source);
    if (flag && strchr("imslux", flag))
        return source_refuse(source, "the flag %c of a regex is not supported", flag);
    enum status status =
        expression_parse(source->rules->expressions, regex, PATTERN_PART, expression, source->error);
    if (status != STATUS_OK && source_check(source) == STATUS_OK) {
        char text[ERROR_TEXT_BYTES];
        memcpy(text, source->error->text, sizeof text);
        return source_refuse(source, "%s", text);
    }
    return status;
}

static enum status read_reference(struct lark *lark, struct operand *operand)
{
    struct grammar_source *source = &lark->source;
    struct text name = source_name(source, false);
    if (name.size == 0)
        return source_refuse(source, "expected a string, a regex, a group or a name");
    if (source_peek(source) == '{')
        return source_refuse(source, "templates (name{...}) are not supported");
    if (lark_is_terminal(name)) {
        uint32_t expression;
        enum status status = lark_terminal(lark, name, &expression);
        return status == STATUS_OK ? as_operand(lark, expression, operand) : status;
    }
    struct grammar_name *found = names_find(&lark->names, name);
    if (!found || !found->defined)
        return source_refuse(source, "%.*s is not defined", name_width(name), name.data);
    if (lark->in_terminal)
        return source_refuse(source, "the rule %.*s is used in a terminal", name_width(name), name.data);
    *operand = (struct operand){true, found->symbol};
    return STATUS_OK;
}

static struct operand repeat_operand(struct lark *lark, struct operand operand, uint32_t min, uint32_t max)
{
    struct rules *rules = lark->source.rules;
    if (lark->in_terminal)
        return (struct operand){false, expression_repeat(rules->expressions, operand.id, min, max)};
    return operand_repeat(rules, operand, min, max);
}

static enum status read_group(struct lark *lark, bool optional, struct operand *operand)
{
    struct grammar_source *source = &lark->source;
    enum status status = source_enter(source);
    if (status == STATUS_OK)
        status = lark_read_choice(lark, operand);
    if (status != STATUS_OK)
        return status;
    if (!source_take(source, optional ? "]" : ")"))
        return source_refuse(source, "a group is not closed");
    source_leave(source);
    if (optional)
        *operand = repeat_operand(lark, *operand, 0, 1);
    return source_check(source);
}

static enum status read_item(struct lark *lark, struct operand *operand)
{
    struct grammar_source *source = &lark->source;
    uint32_t expression = EXPRESSION_NOTHING;
    enum status status;
    if (source_take(source, "("))
        return read_group(lark, false, operand);
    if (source_take(source, "["))
        return read_group(lark, true, operand);
    if (source_peek(source) == '<')
        return source_refuse(source, "special tokens (<...>) are not supported");
    if (source_peek(source) == '%')
        return source_refuse(source, "grammars inside a rule (%%...) are not supported");
    if (source_peek(source) == '~' || source_peek(source) == '&')
        return source_refuse(source, "the operator %c is not supported", source_peek(source));
    if (source_take(source, "\""))
        status = read_string(lark, &expression);
    else if (source_take(source, "/"))
        status = read_regex(lark, &expression);
    else
        return read_reference(lark, operand);
    return status == STATUS_OK ? as_operand(lark, expression, operand) : status;
}

// Reads ~n or ~n..m, after the ~.
static enum status read_count(struct lark *lark, uint32_t *min, uint32_t *max)
{
    struct grammar_source *source = &lark->source;
    lark_skip(source);
    if (!source_number(source, min))
        return source_refuse(source, "a repetition is not ~n or ~n..m");
    *max = *min;
    if (source_take(source, "..") && !source_number(source, max))
        return source_refuse(source, "a repetition is not ~n or ~n..m");
    return *min <= *max ? STATUS_OK : source_refuse(source, "a repetition has its numbers out of order");
}

static enum status read_repeated(struct lark *lark, struct operand *operand)
{
    struct grammar_source *source = &lark->source;
    enum status status = read_item(lark, operand);
    while (status == STATUS_OK) {
        uint32_t min, max;
        bool found = true;
        lark_skip(source);
        if (source_take(source, "~"))
            status = read_count(lark, &min, &max);
        else
            status = source_repetition(source, &found, &min, &max);
        if (!found)
            break;
        if (status == STATUS_OK) {
            *operand = repeat_operand(lark, *operand, min, max);
            status = source_check(source);
        }
    }
    return status;
}

static enum status add_operand(struct lark *lark, struct operands *list, struct operand operand)
{
    if (!VECTOR_ADD(list, operand))
        expressions_fail_memory(lark->source.rules->expressions);
    return source_check(&lark->source);
}

static bool ends_sequence(struct grammar_source *source)
{
    char c = source_peek(source);
    return source->at >= source->text.size || c == '|' || c == ')' || c == ']' ||
           (c == '\n' && source->depth == 0) || source_next_is(source, "->");
}

static enum status read_sequence(struct lark *lark, struct operand *operand)
{
    struct grammar_source *source = &lark->source;
    struct operands parts = {0};
    enum status status = STATUS_OK;
    for (lark_skip(source); status == STATUS_OK && !ends_sequence(source); lark_skip(source)) {
        struct operand part;
        status = read_repeated(lark, &part);
        if (status == STATUS_OK)
            status = add_operand(lark, &parts, part);
    }
    if (status == STATUS_OK && source_take(source, "->")) { // the alternative's name in Lark's tree
        lark_skip(source);
        if (source_name(source, false).size == 0)
            status = source_refuse(source, "expected a name after ->");
        lark_skip(source);
        if (status == STATUS_OK && !ends_sequence(source))
            status = source_refuse(source, "expected the end of an alternative after its name");
    }
    if (status == STATUS_OK) {
        *operand = operand_sequence(source->rules, &parts);
        status = source_check(source);
    }
    VECTOR_FINISH(&parts);
    return status;
}

enum status lark_read_choice(struct lark *lark, struct operand *operand)
{
    struct operands parts = {0};
    enum status status = STATUS_OK;
    do {
        struct operand part;
        status = read_sequence(lark, &part);
        if (status == STATUS_OK)
            status = add_operand(lark, &parts, part);
    } while (status == STATUS_OK && source_take(&lark->source, "|"));
    if (status == STATUS_OK) {
        *operand = operand_choice(lark->source.rules, &parts);
        status = source_check(&lark->source);
    }
    VECTOR_FINISH(&parts);
    return status;
}

// Reads the right side that begins at `body`, then restores the position.
static enum status read_body(struct lark *lark, size_t body, bool is_terminal, struct operand *operand)
{
    struct grammar_source *source = &lark->source, kept = *source;
    bool was_in_terminal = lark->in_terminal;
    source->at = body;
    source->depth = 0;
    lark->in_terminal = is_terminal;
    enum status status = lark_read_choice(lark, operand);
    if (status == STATUS_OK && (source_peek(source) == ')' || source_peek(source) == ']'))
        status = source_refuse(source, "a group is closed that was not opened");
    source->at = kept.at;
    source->depth = kept.depth;
    lark->in_terminal = was_in_terminal;
    return status;
}

enum status lark_terminal(struct lark *lark, struct text name, uint32_t *expression)
{
    struct grammar_source *source = &lark->source;
    struct grammar_name *found = names_find(&lark->names, name);
    if (!found || !found->defined)
        return source_refuse(source, "%.*s is not defined", name_width(name), name.data);
    if (found->reading)
        return source_refuse(source, "the terminal %.*s is recursive", name_width(name), name.data);
    if (found->body != SIZE_MAX) {
        struct operand operand;
        found->reading = true;
        size_t body = found->body;
        enum status status = source_enter(source);
        if (status == STATUS_OK)
            status = read_body(lark, body, true, &operand);
        if (status != STATUS_OK)
            return status;
        assert(!operand.is_symbol);
        source_leave(source);
        found = names_find(&lark->names, name); // `found` is invalid if names were added
        found->reading = false;
        found->body = SIZE_MAX;
        found->expression = operand.id;
    }
    *expression = found->expression;
    return STATUS_OK;
}

// Defines ignored text. It may precede the first terminal and follow each terminal, any number of times.
static enum status define_ignored(struct lark *lark)
{
    struct rules *rules = lark->source.rules;
    uint32_t either = EXPRESSION_NOTHING;
    for (size_t i = 0; i < lark->ignores.n; i++) {
        struct operand operand;
        enum status status = read_body(lark, lark->ignores.items[i].id, true, &operand);
        if (status != STATUS_OK)
            return status;
        assert(!operand.is_symbol);
        either = expression_either(rules->expressions, either, operand.id);
    }
    uint32_t ignored = expression_repeat(rules->expressions, either, 0, EXPRESSION_UNBOUNDED);
    rules_define(rules, lark->ignored, rules_terminal(rules, ignored, TERMINAL_TEXT));
    return source_check(&lark->source);
}

static enum status read_rules(struct lark *lark, uint32_t *start)
{
    enum status status = lark_index(lark);
    for (size_t i = 0; status == STATUS_OK && i < lark->names.items.n; i++) {
        struct grammar_name name = lark->names.items.items[i];
        struct operand operand;
        if (!name.defined || name.symbol == SYMBOL_NOTHING)
            continue;
        status = read_body(lark, name.body, false, &operand);
        if (status == STATUS_OK)
            rules_define(lark->source.rules, name.symbol, operand_symbol(lark->source.rules, operand));
    }
    if (status == STATUS_OK && lark->ignored != SYMBOL_NOTHING)
        status = define_ignored(lark);
    if (status != STATUS_OK)
        return status;
    struct grammar_name *found = names_find(&lark->names, TEXT("start"));
    if (!found || !found->defined)
        return source_refuse(&lark->source, "no rule is named start");
    const uint32_t parts[] = {lark->ignored, found->symbol};
    *start = lark->ignored == SYMBOL_NOTHING ? found->symbol : rules_sequence(lark->source.rules, parts, 2);
    return source_check(&lark->source);
}

enum status grammar_compile_lark(struct grammar **grammar, struct text text,
                                 const struct grammar_limits *limits, struct error *error)
{
    *grammar = NULL;
    struct rules *rules = rules_create(limits);
    if (!rules)
        return error_memory(error, STATUS_RETRY, "a grammar");
    struct lark lark = {.source = {.rules = rules, .text = text, .error = error}};
    if (text.size > rules->expressions->limits.values[GRAMMAR_LIMIT_SOURCE_BYTES])
        expressions_fail(rules->expressions, GRAMMAR_LIMIT_SOURCE_BYTES);
    uint32_t start = SYMBOL_NOTHING;
    enum status status = rules_status(rules, error);
    if (status == STATUS_OK)
        status = read_rules(&lark, &start);
    names_finish(&lark.names);
    VECTOR_FINISH(&lark.ignores);
    if (status == STATUS_OK)
        return grammar_create(grammar, rules, start, error);
    rules_destroy(rules);
    return status;
}
