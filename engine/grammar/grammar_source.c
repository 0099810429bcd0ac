#include "engine/grammar/grammar_source.h"
#include "schemas/base/hash.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { POSITIONS_REPEATED_MAX = 2000 };

enum status source_refuse(struct grammar_source *source, const char *format, ...)
{
    char text[ERROR_TEXT_BYTES];
    unsigned long line = 1;
    for (size_t i = 0; i < source->at && i < source->text.size; i++)
        line += source->text.data[i] == '\n';
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    utf8_make_printable(text);
    return error_set(source->error, STATUS_REJECT, ERROR_INVALID_FIELD, "line %lu: %s", line, text);
}

enum status source_check(struct grammar_source *source)
{
    return rules_status(source->rules, source->error);
}

enum status source_enter(struct grammar_source *source)
{
    struct expressions *pool = source->rules->expressions;
    source->depth++;
    if (++source->levels > pool->limits.values[GRAMMAR_LIMIT_DEPTH])
        expressions_fail(pool, GRAMMAR_LIMIT_DEPTH);
    return source_check(source);
}

void source_leave(struct grammar_source *source)
{
    source->depth--;
    source->levels--;
}

bool source_next_is(const struct grammar_source *source, const char *string)
{
    size_t size = strlen(string);
    return source->text.size - source->at >= size &&
           memcmp(source->text.data + source->at, string, size) == 0;
}

bool source_take(struct grammar_source *source, const char *string)
{
    bool there = source_next_is(source, string);
    source->at += there ? strlen(string) : 0;
    return there;
}

char source_peek(const struct grammar_source *source)
{
    return source->at < source->text.size ? source->text.data[source->at] : '\0';
}

bool source_number(struct grammar_source *source, uint32_t *number)
{
    uint64_t value = 0;
    size_t start = source->at;
    for (char c; (c = source_peek(source)) >= '0' && c <= '9'; source->at++)
        if (value < EXPRESSION_UNBOUNDED)
            value = value * 10 + (uint64_t)(c - '0');
    *number = value < EXPRESSION_UNBOUNDED ? (uint32_t)value : EXPRESSION_UNBOUNDED - 1;
    return source->at > start;
}

static int digit_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static enum status read_code_point(struct grammar_source *source, int n_digits, struct buffer *out)
{
    uint32_t value = 0;
    for (int i = 0; i < n_digits; i++, source->at++) {
        int digit = digit_value(source_peek(source));
        if (digit < 0)
            return source_refuse(source, "an escape needs %d hexadecimal digits", n_digits);
        value = value * 16 + (uint32_t)digit;
    }
    if (value > CODE_POINT_MAX || (value >= 0xD800 && value <= 0xDFFF))
        return source_refuse(source, "an escape is no character: U+%04X", value);
    char utf8[4];
    buffer_add(out, utf8, utf8_encode(value, utf8));
    return STATUS_OK;
}

// Called after a backslash: appends the character that the escape denotes.
static enum status read_escape(struct grammar_source *source, struct buffer *out)
{
    static const char letters[] = "ntrfvb0\\\"'/[]-", values[] = "\n\t\r\f\v\b\0\\\"'/[]-";
    char c = source_peek(source);
    const char *letter = c ? strchr(letters, c) : NULL;
    source->at += c != '\0';
    if (letter)
        buffer_add_byte(out, values[letter - letters]);
    else if (c == 'x')
        return read_code_point(source, 2, out);
    else if (c == 'u')
        return read_code_point(source, 4, out);
    else if (c == 'U')
        return read_code_point(source, 8, out);
    else
        return source_refuse(source, "unknown escape \\%c in a string", c > ' ' && c < 0x7F ? c : ' ');
    return STATUS_OK;
}

enum status source_quoted(struct grammar_source *source, struct buffer *out)
{
    enum status status = STATUS_OK;
    while (status == STATUS_OK && source_peek(source) != '"') {
        if (source->at >= source->text.size || source_peek(source) == '\n')
            return source_refuse(source, "a string is not closed");
        if (source_take(source, "\\"))
            status = read_escape(source, out);
        else
            buffer_add_byte(out, source->text.data[source->at++]);
    }
    source->at++;
    if (status == STATUS_OK && out->failed)
        expressions_fail_memory(source->rules->expressions);
    if (status == STATUS_OK && !utf8_valid(out->data, out->size))
        return source_refuse(source, "a string is not UTF-8");
    return status == STATUS_OK ? source_check(source) : status;
}

struct text source_name(struct grammar_source *source, bool hyphens)
{
    size_t start = source->at;
    for (char c; (c = source_peek(source)) != '\0'; source->at++) {
        char lower = c | 0x20;
        if (!(lower >= 'a' && lower <= 'z') && !(c >= '0' && c <= '9') && c != '_' && !(hyphens && c == '-'))
            break;
    }
    return (struct text){source->text.data + start, source->at - start};
}

static void skip_spaces(struct grammar_source *source)
{
    while (source_peek(source) == ' ' || source_peek(source) == '\t')
        source->at++;
}

static enum status read_braces(struct grammar_source *source, uint32_t *min, uint32_t *max)
{
    skip_spaces(source);
    bool has_min = source_number(source, min), has_max = has_min;
    *min = has_min ? *min : 0;
    *max = *min;
    skip_spaces(source);
    if (source_take(source, ",")) {
        skip_spaces(source);
        has_max = source_number(source, max);
        if (!has_max)
            *max = EXPRESSION_UNBOUNDED;
        skip_spaces(source);
    }
    if ((!has_min && !has_max) || !source_take(source, "}"))
        return source_refuse(source, "a repetition is not {n}, {n,}, {n,m} or {,m}");
    return *min <= *max ? STATUS_OK : source_refuse(source, "a repetition has its numbers out of order");
}

enum status source_repetition(struct grammar_source *source, bool *found, uint32_t *min, uint32_t *max)
{
    *found = true;
    *min = 0;
    *max = EXPRESSION_UNBOUNDED;
    if (source_take(source, "+"))
        *min = 1;
    else if (source_take(source, "?"))
        *max = 1;
    else if (source_take(source, "{"))
        return read_braces(source, min, max);
    else
        *found = source_take(source, "*");
    return STATUS_OK;
}

struct grammar_name *names_find(struct grammar_names *names, struct text name)
{
    if (!hash_index_reserve(&names->index))
        return NULL;
    const uint64_t hash = hash_bytes(name.data, name.size, 0);
    struct hash_slot *slot = hash_index_slot(&names->index, hash);
    for (; slot->number; slot = hash_index_next(&names->index, slot, hash))
        if (text_equal(names->items.items[slot->number - 1].name, name))
            return &names->items.items[slot->number - 1];
    if (!VECTOR_ADD(&names->items, (struct grammar_name){.name = name}))
        return NULL;
    hash_index_fill(&names->index, slot, hash, (uint32_t)names->items.n);
    return &names->items.items[names->items.n - 1];
}

void names_finish(struct grammar_names *names)
{
    VECTOR_FINISH(&names->items);
    hash_index_finish(&names->index);
    *names = (struct grammar_names){0};
}

uint32_t operand_symbol(struct rules *rules, struct operand operand)
{
    return operand.is_symbol ? operand.id : rules_terminal(rules, operand.id, TERMINAL_TEXT);
}

static bool any_symbol(const struct operands *parts)
{
    for (size_t i = 0; i < parts->n; i++)
        if (parts->items[i].is_symbol)
            return true;
    return false;
}

// Joins the parts first..stop - 1, all expressions, into one expression.
static uint32_t join_parts(struct rules *rules, const struct operands *parts, size_t first, size_t stop,
                           bool either)
{
    uint32_t *ids = malloc((stop - first + 1) * sizeof *ids);
    if (!ids)
        return expressions_fail_memory(rules->expressions);
    for (size_t i = first; i < stop; i++)
        ids[i - first] = parts->items[i].id;
    uint32_t id = either ? expression_either_many(rules->expressions, ids, stop - first)
                         : expression_concat_many(rules->expressions, ids, stop - first);
    free(ids);
    return id;
}

// Joins parts of which some are symbols. Adjacent expressions become one terminal.
static struct operand join_mixed(struct rules *rules, const struct operands *parts, bool either)
{
    uint32_t *symbols = malloc((parts->n + 1) * sizeof *symbols), n = 0;
    if (!symbols) {
        expressions_fail_memory(rules->expressions);
        return (struct operand){true, SYMBOL_NOTHING};
    }
    for (size_t i = 0; i < parts->n;) {
        size_t stop = i;
        while (stop < parts->n && !parts->items[stop].is_symbol)
            stop++;
        if (stop > i)
            symbols[n++] = rules_terminal(rules, join_parts(rules, parts, i, stop, either), TERMINAL_TEXT);
        else
            symbols[n++] = parts->items[stop++].id;
        i = stop;
    }
    uint32_t symbol = either ? rules_choice(rules, symbols, n) : rules_sequence(rules, symbols, n);
    free(symbols);
    return (struct operand){true, symbol};
}

struct operand operand_sequence(struct rules *rules, const struct operands *parts)
{
    return any_symbol(parts) ? join_mixed(rules, parts, false)
                             : (struct operand){false, join_parts(rules, parts, 0, parts->n, false)};
}

struct operand operand_choice(struct rules *rules, const struct operands *parts)
{
    return any_symbol(parts) ? join_mixed(rules, parts, true)
                             : (struct operand){false, join_parts(rules, parts, 0, parts->n, true)};
}

// If the repeated expression would be long, the parser counts the repetition instead.
struct operand operand_repeat(struct rules *rules, struct operand operand, uint32_t min, uint32_t max)
{
    if (!operand.is_symbol) {
        uint32_t id = expression_repeat(rules->expressions, operand.id, min, max);
        if (expression_positions(rules->expressions, id) <= POSITIONS_REPEATED_MAX)
            return (struct operand){false, id};
    }
    return (struct operand){true, rules_repeat(rules, operand_symbol(rules, operand), min, max)};
}
