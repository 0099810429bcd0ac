// Recursive descent parser of patterns. Patterns of JSON Schema follow ECMA-262 (section 22.2.1; annex B
// where no other dialect has a different meaning). Regexes of the whole text follow Python with flag
// re.ASCII. Where Python and Rust disagree, the regex has Python's meaning or is rejected.
#include "engine/regex/pattern_class.h"

#include <string.h>

enum { PATTERN_DEPTH_MAX = 250 };

static enum status read_choice(struct pattern_reader *reader, uint32_t *id);

static enum status check_pool(struct pattern_reader *reader)
{
    return expressions_status(reader->pool, reader->error);
}

static uint32_t read_number(const struct pattern_reader *reader, size_t *at)
{
    uint64_t value = 0;
    for (; *at < reader->text.size && reader->text.data[*at] >= '0' && reader->text.data[*at] <= '9'; (*at)++)
        if (value < EXPRESSION_UNBOUNDED)
            value = value * 10 + (uint64_t)(reader->text.data[*at] - '0');
    return value >= EXPRESSION_UNBOUNDED ? EXPRESSION_UNBOUNDED - 1 : (uint32_t)value;
}

// True if {,n} or {,} follows: a repetition in Python, characters in annex B of ECMA-262.
static bool lacks_minimum(const struct pattern_reader *reader)
{
    if (!pattern_next_is(reader, "{,"))
        return false;
    size_t at = reader->at + 2;
    read_number(reader, &at);
    return at < reader->text.size && reader->text.data[at] == '}';
}

// Reads {n}, {n,}, {n,m} or {,m}. False: the brace is a character.
static bool read_braces(struct pattern_reader *reader, uint32_t *min, uint32_t *max)
{
    size_t at = reader->at + 1, start = at;
    *min = *max = read_number(reader, &at);
    if (at == start && !lacks_minimum(reader))
        return false;
    if (at < reader->text.size && reader->text.data[at] == ',') {
        start = ++at;
        *max = read_number(reader, &at);
        if (at == start)
            *max = EXPRESSION_UNBOUNDED;
    }
    if (at >= reader->text.size || reader->text.data[at] != '}')
        return false;
    reader->at = at + 1;
    return true;
}

static bool read_quantifier(struct pattern_reader *reader, uint32_t *min, uint32_t *max)
{
    *min = 0;
    *max = EXPRESSION_UNBOUNDED;
    if (pattern_take(reader, "*"))
        return true;
    if (pattern_take(reader, "+")) {
        *min = 1;
        return true;
    }
    if (pattern_take(reader, "?")) {
        *max = 1;
        return true;
    }
    return pattern_next_is(reader, "{") && read_braces(reader, min, max);
}

static enum status read_group_name(struct pattern_reader *reader)
{
    const char *name = reader->text.data + reader->at,
               *end = memchr(name, '>', reader->text.size - reader->at);
    if (!end || end == name)
        return pattern_refuse(reader, "a group's name is not closed");
    for (const char *c = name; c < end; c++)
        if ((unsigned char)*c < 0x80 && *c != '_' && *c != '$' && !(*c >= '0' && *c <= '9') &&
            !((*c | 0x20) >= 'a' && (*c | 0x20) <= 'z'))
            return pattern_refuse(reader, "a group's name has a character that names don't have");
    reader->at += (size_t)(end - name) + 1;
    return STATUS_OK;
}

// Reads a group; called after '('.
static enum status read_group(struct pattern_reader *reader, uint32_t *id)
{
    bool ahead = false, negative = false;
    enum status status = STATUS_OK;
    if (pattern_take(reader, "?=")) {
        ahead = true;
    } else if (pattern_take(reader, "?!")) {
        ahead = negative = true;
    } else if (pattern_next_is(reader, "?<=") || pattern_next_is(reader, "?<!")) {
        return pattern_refuse(reader, "look-behind assertions are not supported");
    } else if (pattern_take(reader, "?<") || pattern_take(reader, "?P<")) {
        status = read_group_name(reader);
    } else if (pattern_next_is(reader, "?") && !pattern_take(reader, "?:")) {
        return pattern_refuse(reader, "groups that begin with (?%c are not supported",
                              reader->at + 1 < reader->text.size && reader->text.data[reader->at + 1] > ' ' &&
                                      reader->text.data[reader->at + 1] < 0x7F
                                  ? reader->text.data[reader->at + 1]
                                  : ' ');
    }
    if (status == STATUS_OK && ++reader->depth > PATTERN_DEPTH_MAX) {
        expressions_fail(reader->pool, GRAMMAR_LIMIT_DEPTH);
        status = check_pool(reader);
    }
    if (status == STATUS_OK)
        status = read_choice(reader, id);
    if (status != STATUS_OK)
        return status;
    reader->depth--;
    if (!pattern_take(reader, ")"))
        return pattern_refuse(reader, "a group is not closed");
    if (ahead)
        *id = pattern_assertion(&reader->tree, PATTERN_AHEAD, negative, *id);
    return check_pool(reader);
}

static bool read_assertion(struct pattern_reader *reader, uint32_t *id)
{
    bool whole = reader->dialect != PATTERN_SEARCH;
    if (pattern_take(reader, "^") || (whole && pattern_take(reader, "\\A")))
        *id = pattern_assertion(&reader->tree, PATTERN_BEGIN, false, NO_PATTERN);
    else if (whole && (pattern_take(reader, "\\Z") || pattern_take(reader, "\\z")))
        *id = pattern_assertion(&reader->tree, PATTERN_END, false, NO_PATTERN);
    else if (pattern_take(reader, "$"))
        *id = pattern_assertion(&reader->tree, whole ? PATTERN_LINE_END : PATTERN_END, false, NO_PATTERN);
    else if (pattern_take(reader, "\\b"))
        *id = pattern_assertion(&reader->tree, PATTERN_BOUNDARY, false, NO_PATTERN);
    else if (pattern_take(reader, "\\B"))
        *id = pattern_assertion(&reader->tree, PATTERN_BOUNDARY, true, NO_PATTERN);
    else
        return false;
    return true;
}

// Rejects braces and brackets that are not characters in every dialect.
static enum status refuse_bare(struct pattern_reader *reader)
{
    size_t before = reader->at;
    uint32_t min, max;
    bool quantifier = read_quantifier(reader, &min, &max);
    reader->at = before;
    if (quantifier)
        return pattern_refuse(reader, "nothing to repeat");
    if (pattern_next_is(reader, "\\b{") || pattern_next_is(reader, "\\B{"))
        return pattern_refuse(reader, "braces after \\%c are not supported",
                              reader->text.data[reader->at + 1]);
    if (reader->dialect == PATTERN_SEARCH && reader->had_bracket && pattern_next_is(reader, "]"))
        return pattern_refuse(reader, "a ] that closes no class: a ] is no character of a class unless it "
                                      "is written \\]");
    return STATUS_OK;
}

static enum status read_atom(struct pattern_reader *reader, uint32_t *id)
{
    enum status status = STATUS_OK;
    uint32_t set = EXPRESSION_NOTHING;
    if (pattern_take(reader, "("))
        return read_group(reader, id);
    status = refuse_bare(reader);
    if (status != STATUS_OK)
        return status;
    if (read_assertion(reader, id))
        return check_pool(reader);
    if (pattern_take(reader, "\\"))
        status = pattern_read_escape(reader, false, &set);
    else if (pattern_take(reader, "["))
        status = pattern_read_class(reader, &set);
    else if (pattern_take(reader, "."))
        set = pattern_dot(reader);
    else
        status = pattern_read_character(reader, &set);
    if (status != STATUS_OK)
        return status;
    *id = pattern_plain(&reader->tree, set);
    return check_pool(reader);
}

static enum status read_term(struct pattern_reader *reader, uint32_t *id)
{
    bool is_group = pattern_next_is(reader, "(");
    enum status status = read_atom(reader, id);
    uint32_t min, max;
    if (status == STATUS_OK && reader->dialect == PATTERN_SEARCH && lacks_minimum(reader))
        return pattern_refuse(reader, "a repetition without a minimum: write {0,n}");
    size_t before = reader->at;
    if (status != STATUS_OK || !read_quantifier(reader, &min, &max))
        return status;
    if (!is_group && reader->tree.nodes.items[*id].kind != PATTERN_PLAIN) { // ^*, \b?
        reader->at = before;
        return pattern_refuse(reader, "nothing to repeat");
    }
    if (min > max)
        return pattern_refuse(reader, "{%u,%u} has its numbers out of order", min, max);
    if (pattern_next_is(reader, "+"))
        return pattern_refuse(reader, "possessive repetitions are not supported");
    pattern_take(reader, "?"); // lazy: matches the same texts
    uint32_t more_min, more_max;
    before = reader->at;
    if (read_quantifier(reader, &more_min, &more_max)) {
        reader->at = before;
        return pattern_refuse(reader, "nothing to repeat");
    }
    *id = pattern_repeat(&reader->tree, *id, min, max);
    return check_pool(reader);
}

static enum status read_sequence(struct pattern_reader *reader, uint32_t *id)
{
    VECTOR(uint32_t) parts = {0};
    enum status status = STATUS_OK;
    while (status == STATUS_OK && reader->at < reader->text.size && !pattern_next_is(reader, "|") &&
           !pattern_next_is(reader, ")")) {
        uint32_t part = 0;
        status = read_term(reader, &part);
        if (status == STATUS_OK && !VECTOR_ADD(&parts, part)) {
            expressions_fail_memory(reader->pool);
            status = check_pool(reader);
        }
    }
    if (status == STATUS_OK) {
        *id = pattern_many(&reader->tree, PATTERN_SEQUENCE, parts.items, parts.n);
        status = check_pool(reader);
    }
    VECTOR_FINISH(&parts);
    return status;
}

static enum status read_choice(struct pattern_reader *reader, uint32_t *id)
{
    VECTOR(uint32_t) parts = {0};
    enum status status = STATUS_OK;
    do {
        uint32_t part = 0;
        status = read_sequence(reader, &part);
        if (status == STATUS_OK && !VECTOR_ADD(&parts, part)) {
            expressions_fail_memory(reader->pool);
            status = check_pool(reader);
        }
    } while (status == STATUS_OK && pattern_take(reader, "|"));
    if (status == STATUS_OK) {
        *id = pattern_many(&reader->tree, PATTERN_CHOICE, parts.items, parts.n);
        status = check_pool(reader);
    }
    VECTOR_FINISH(&parts);
    return status;
}

static enum status parse_pattern(struct pattern_reader *reader, bool search, uint32_t *expression)
{
    uint32_t root = 0;
    enum status status = read_choice(reader, &root);
    if (status != STATUS_OK)
        return status;
    if (reader->at < reader->text.size)
        return pattern_refuse(reader, "a group is closed that was not opened");
    if (reader->dialect == PATTERN_PART && reader->tree.nodes.items[root].kind != PATTERN_PLAIN)
        return pattern_refuse(reader,
                              "assertions (^, $, \\b, (?=...)) look at the text around a terminal: they are "
                              "not supported in grammars");
    if (!pattern_language(&reader->tree, root, search, expression))
        return pattern_refuse(reader, "assertions inside an unbounded repetition are not supported");
    if (check_pool(reader) == STATUS_OK && expression_positions(reader->pool, *expression) >
                                               reader->pool->limits.values[GRAMMAR_LIMIT_POSITIONS])
        expressions_fail(reader->pool, GRAMMAR_LIMIT_POSITIONS);
    return check_pool(reader);
}

enum status expression_parse(struct expressions *pool, struct text pattern, enum pattern_dialect dialect,
                             uint32_t *expression, struct error *error)
{
    struct pattern_reader reader = {
        .pool = pool, .dialect = dialect, .tree = {.pool = pool}, .text = pattern, .error = error};
    *expression = EXPRESSION_NOTHING;
    if (pattern.size > pool->limits.values[GRAMMAR_LIMIT_SOURCE_BYTES])
        expressions_fail(pool, GRAMMAR_LIMIT_SOURCE_BYTES);
    enum status status = check_pool(&reader);
    if (status == STATUS_OK)
        status = parse_pattern(&reader, dialect == PATTERN_SEARCH, expression);
    pattern_tree_finish(&reader.tree);
    return status;
}
