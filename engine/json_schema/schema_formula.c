#include "engine/regex/expression_parts.h"
#include "engine/json_schema/schema_shape.h"
#include "schemas/value.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void fail_compiler(struct schema_compiler *compiler, enum status status)
{
    if (compiler->status == STATUS_OK)
        compiler->status = status;
}

static void name_keyword(struct schema_compiler *compiler, const struct json_node *keyword)
{
    struct buffer pointer = {0};
    json_pointer_write(keyword, &pointer);
    size_t size = pointer.size < JSON_SCHEMA_POINTER_BYTES ? pointer.size : JSON_SCHEMA_POINTER_BYTES - 1;
    if (pointer.data)
        memcpy(compiler->refusal->pointer, pointer.data, size);
    compiler->refusal->pointer[size] = 0;
    utf8_make_printable(compiler->refusal->pointer);
    while (!keyword->key.size && keyword->parent) // an item of a keyword's list
        keyword = keyword->parent;
    snprintf(compiler->refusal->keyword, sizeof compiler->refusal->keyword, "%.*s", (int)keyword->key.size,
             keyword->key.data ? keyword->key.data : "");
    utf8_make_printable(compiler->refusal->keyword);
    buffer_finish(&pointer);
}

// Writes "schema: anyOf at /items/anyOf: ..."; for the root "schema: ...".
static void fail_keyword(struct schema_compiler *compiler, const struct json_node *keyword,
                         enum error_code code, const char *why)
{
    if (compiler->status != STATUS_OK)
        return;
    name_keyword(compiler, keyword);
    const struct schema_refusal *named = compiler->refusal;
    fail_compiler(compiler, *named->pointer
                                ? error_set(compiler->error, STATUS_REJECT, code, "schema: %s at %s: %s",
                                            named->keyword, named->pointer, why)
                                : error_set(compiler->error, STATUS_REJECT, code, "schema: %s", why));
}

void compiler_refuse(struct schema_compiler *compiler, const struct json_node *keyword, const char *why)
{
    fail_keyword(compiler, keyword, ERROR_UNSUPPORTED_FIELD, why);
}

static void describe(const struct json_node *node, char out[VALUE_DESCRIPTION_BYTES])
{
    struct value value = {.kind = VALUE_NULL};
    if (node->kind == JSON_FALSE || node->kind == JSON_TRUE)
        value = (struct value){.kind = VALUE_BOOL, .boolean = node->kind == JSON_TRUE};
    else if (node->kind == JSON_STRING)
        value = (struct value){.kind = VALUE_STRING, .text = node->text};
    if (node->kind == JSON_ARRAY)
        snprintf(out, VALUE_DESCRIPTION_BYTES, "an array of %u", node->n_children);
    else if (node->kind == JSON_OBJECT)
        snprintf(out, VALUE_DESCRIPTION_BYTES, "an object of %u members", node->n_children);
    else if (node->kind == JSON_NUMBER)
        snprintf(out, VALUE_DESCRIPTION_BYTES, "%.*s", (int)node->text.size, node->text.data);
    else
        value_describe(&value, out);
}

void compiler_malformed(struct schema_compiler *compiler, const struct json_node *keyword,
                        const char *expected)
{
    char got[VALUE_DESCRIPTION_BYTES], why[ERROR_TEXT_BYTES];
    describe(keyword, got);
    snprintf(why, sizeof why, "expected %s, got %s", expected, got);
    fail_keyword(compiler, keyword, ERROR_INVALID_FIELD, why);
}

void compiler_refuse_reference(struct schema_compiler *compiler, const struct json_node *keyword)
{
    char got[VALUE_DESCRIPTION_BYTES], why[ERROR_TEXT_BYTES];
    describe(keyword, got);
    snprintf(why, sizeof why, "leads to no schema of this document, got %s", got);
    compiler_refuse(compiler, keyword, why);
}

void compiler_limit(struct schema_compiler *compiler, const char *name, uint64_t limit)
{
    if (compiler->status == STATUS_OK)
        fail_compiler(compiler, error_set(compiler->error, STATUS_REJECT, ERROR_LIMIT_EXCEEDED,
                                          "schema: %s: more than %llu", name, (unsigned long long)limit));
}

void compiler_no_memory(struct schema_compiler *compiler)
{
    if (compiler->status == STATUS_OK)
        fail_compiler(compiler, error_memory(compiler->error, STATUS_RETRY, "a JSON Schema"));
}

void compiler_refuse_pattern(struct schema_compiler *compiler, const struct json_node *keyword,
                             const struct error *why)
{
    if (why->code == ERROR_OUT_OF_MEMORY)
        compiler_no_memory(compiler);
    else
        compiler_refuse(compiler, keyword, why->text);
}

void *compiler_allocate(struct schema_compiler *compiler, size_t count, size_t size)
{
    const struct grammar_limits *limits = &compiler->pool->limits;
    uint64_t bytes_max = limits->values[GRAMMAR_LIMIT_SCHEMA_BYTES], before = compiler->arena->total_bytes;
    size_t bytes;
    if (compiler->status != STATUS_OK)
        return NULL;
    if (__builtin_mul_overflow(count ? count : 1, size, &bytes) || bytes > bytes_max ||
        before > bytes_max - bytes) {
        fail_compiler(compiler, grammar_limit_reached(limits, GRAMMAR_LIMIT_SCHEMA_BYTES, compiler->error));
        return NULL;
    }
    void *memory = arena_allocate(compiler->arena, bytes);
    if (!memory)
        compiler_no_memory(compiler);
    return memory;
}

const struct json_node *compiler_resolve(struct schema_compiler *compiler, const struct json_node *from,
                                         struct text reference)
{
    bool has_memory;
    const struct json_node *target = schema_source_resolve(&compiler->source, from, reference, &has_memory);
    if (!has_memory)
        compiler_no_memory(compiler);
    return target;
}

bool compiler_work(struct schema_compiler *compiler, uint64_t amount)
{
    compiler->work += amount;
    if (compiler->work > SCHEMA_WORK_MAX)
        compiler_limit(compiler, "schema_work", SCHEMA_WORK_MAX);
    if (compiler->status == STATUS_OK && expressions_status(compiler->pool, NULL) != STATUS_OK)
        fail_compiler(compiler, expressions_status(compiler->pool, compiler->error));
    return compiler->status == STATUS_OK;
}

static uint64_t hash_of(const struct formula *formula)
{
    uint64_t hash =
        (uint64_t)formula->kind * 0x9E3779B97F4A7C15u + (formula->node ? formula->node->id + 1 : 0);
    for (uint32_t i = 0; i < formula->n_parts; i++)
        hash = (hash ^ formula->parts[i]) * 0xFF51AFD7ED558CCDu;
    return hash ^ hash >> 29;
}

static bool formulas_equal(const struct formula *a, const struct formula *b)
{
    return a->hash == b->hash && a->kind == b->kind && a->node == b->node && a->n_parts == b->n_parts &&
           (a->n_parts == 0 || memcmp(a->parts, b->parts, a->n_parts * sizeof *a->parts) == 0);
}

static uint32_t intern_formula(struct schema_compiler *compiler, struct formula formula)
{
    if (compiler->status != STATUS_OK)
        return FORMULA_FALSE;
    formula.hash = hash_of(&formula);
    uint32_t *bucket = &compiler->table.buckets[formula.hash % compiler->table.n_buckets];
    for (uint32_t id = *bucket; id; id = compiler->table.items[id].next_of_hash)
        if (formulas_equal(&compiler->table.items[id], &formula))
            return id;
    if (compiler->table.n == SCHEMA_FORMULAS_MAX) {
        compiler_limit(compiler, "schema_formulas", SCHEMA_FORMULAS_MAX);
        return FORMULA_FALSE;
    }
    if (compiler->table.n == compiler->table.n_max) {
        struct formula *larger =
            compiler_allocate(compiler, 2 * (size_t)compiler->table.n_max, sizeof *larger);
        if (!larger)
            return FORMULA_FALSE;
        memcpy(larger, compiler->table.items, compiler->table.n * sizeof *larger);
        compiler->table.items = larger;
        compiler->table.n_max *= 2;
    }
    formula.next_of_hash = *bucket;
    compiler->table.items[compiler->table.n] = formula;
    return *bucket = compiler->table.n++;
}

bool formulas_init(struct schema_compiler *compiler)
{
    compiler->table.n_buckets = 4096;
    compiler->table.n_max = 64;
    compiler->table.n = 2;
    compiler->table.items = compiler_allocate(compiler, compiler->table.n_max, sizeof *compiler->table.items);
    compiler->table.buckets =
        compiler_allocate(compiler, compiler->table.n_buckets, sizeof *compiler->table.buckets);
    return compiler->status == STATUS_OK;
}

uint32_t formula_schema(struct schema_compiler *compiler, const struct json_node *node)
{
    if (node->kind == JSON_TRUE || node->kind == JSON_FALSE)
        return node->kind == JSON_TRUE ? FORMULA_TRUE : FORMULA_FALSE;
    if (node->kind != JSON_OBJECT)
        compiler_malformed(compiler, node, "a schema");
    else if (!node->n_children)
        return FORMULA_TRUE;
    return intern_formula(compiler, (struct formula){.kind = FORMULA_SCHEMA, .node = node});
}

uint32_t formula_value(struct schema_compiler *compiler, const struct json_node *node)
{
    return intern_formula(compiler, (struct formula){.kind = FORMULA_VALUE, .node = node});
}

uint32_t formula_has(struct schema_compiler *compiler, const struct json_node *key)
{
    return intern_formula(compiler, (struct formula){.kind = FORMULA_HAS, .node = key});
}

uint32_t formula_members(struct schema_compiler *compiler, enum formula_kind kind,
                         const struct json_node *keyword, uint32_t which, uint32_t value)
{
    struct formula formula = {.kind = kind, .node = keyword, .n_parts = 2};
    formula.parts = compiler_allocate(compiler, 2, sizeof *formula.parts);
    if (!formula.parts)
        return FORMULA_FALSE;
    formula.parts[0] = which;
    formula.parts[1] = value;
    return intern_formula(compiler, formula);
}

// Merges the parts of `a` and `b`, or the formulas themselves, into a sorted set.
static uint32_t merge_parts(struct schema_compiler *compiler, enum formula_kind kind, uint32_t a, uint32_t b,
                            uint32_t **parts)
{
    const struct formula *left = &compiler->table.items[a], *right = &compiler->table.items[b];
    const uint32_t *from_a = left->kind == kind ? left->parts : &a,
                   *from_b = right->kind == kind ? right->parts : &b;
    uint32_t n_a = left->kind == kind ? left->n_parts : 1, n_b = right->kind == kind ? right->n_parts : 1,
             n = 0, i = 0, j = 0;
    *parts = compiler_allocate(compiler, (size_t)n_a + n_b, sizeof **parts);
    if (!*parts || !compiler_work(compiler, (uint64_t)n_a + n_b))
        return 0;
    while (i < n_a || j < n_b) {
        bool take_a = j == n_b || (i < n_a && from_a[i] <= from_b[j]);
        uint32_t id = take_a ? from_a[i++] : from_b[j++];
        if (n == 0 || (*parts)[n - 1] != id)
            (*parts)[n++] = id;
    }
    return n;
}

// Returns the parts of `a`, then the parts of `b` that are not in `a`. NULL: too many.
static const uint32_t *given_parts(struct schema_compiler *compiler, uint32_t a, uint32_t b, uint32_t n_parts)
{
    if (n_parts > SCHEMA_ORDERED_PARTS_MAX || !compiler_work(compiler, n_parts))
        return NULL;
    uint32_t *given = compiler_allocate(compiler, n_parts, sizeof *given), n = 0;
    for (int side = 0; side < 2 && given; side++) {
        uint32_t id = side ? b : a;
        const struct formula *formula = &compiler->table.items[id];
        bool is_and = formula->kind == FORMULA_AND;
        const uint32_t *from = !is_and ? &id : formula->given ? formula->given : formula->parts;
        for (uint32_t i = 0; i < (is_and ? formula->n_parts : 1); i++) {
            uint32_t found = 0;
            while (found < n && given[found] != from[i])
                found++;
            if (found == n)
                given[n++] = from[i];
        }
    }
    return given;
}

// True if two parts are different values, or a schema and its negation.
static bool parts_contradict(struct schema_compiler *compiler, const uint32_t *parts, uint32_t n_parts)
{
    const struct json_node *value = NULL;
    for (uint32_t i = 0; i < n_parts; i++) {
        const struct formula *formula = &compiler->table.items[parts[i]];
        if (formula->kind == FORMULA_VALUE && value && !json_equal(value, formula->node, compiler->arena))
            return true;
        if (formula->kind == FORMULA_VALUE)
            value = formula->node;
        for (uint32_t j = 0; formula->kind == FORMULA_NOT && j < n_parts; j++) {
            const struct formula *other = &compiler->table.items[parts[j]];
            if (other->kind == FORMULA_SCHEMA && other->node == formula->node)
                return true;
        }
    }
    return false;
}

static uint32_t combine_parts(struct schema_compiler *compiler, enum formula_kind kind, uint32_t a,
                              uint32_t b)
{
    uint32_t zero = kind == FORMULA_AND ? FORMULA_FALSE : FORMULA_TRUE,
             one = kind == FORMULA_AND ? FORMULA_TRUE : FORMULA_FALSE;
    if (compiler->status != STATUS_OK || a == zero || b == zero)
        return compiler->status != STATUS_OK ? FORMULA_FALSE : zero;
    if (a == one || a == b)
        return b;
    if (b == one)
        return a;
    struct formula formula = {.kind = kind};
    formula.n_parts = merge_parts(compiler, kind, a, b, &formula.parts);
    if (compiler->status != STATUS_OK)
        return FORMULA_FALSE;
    if (formula.n_parts == 1)
        return formula.parts[0];
    if (kind == FORMULA_AND && parts_contradict(compiler, formula.parts, formula.n_parts))
        return FORMULA_FALSE;
    if (kind == FORMULA_AND)
        formula.given = given_parts(compiler, a, b, formula.n_parts);
    return intern_formula(compiler, formula);
}

uint32_t formula_and(struct schema_compiler *compiler, uint32_t a, uint32_t b)
{
    return combine_parts(compiler, FORMULA_AND, a, b);
}

uint32_t formula_or(struct schema_compiler *compiler, uint32_t a, uint32_t b)
{
    return combine_parts(compiler, FORMULA_OR, a, b);
}

static int compare_ids(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

uint32_t formula_or_many(struct schema_compiler *compiler, uint32_t *ids, uint32_t n)
{
    uint32_t n_parts = 0;
    if (n == 0 || !compiler_work(compiler, n))
        return FORMULA_FALSE;
    qsort(ids, n, sizeof *ids, compare_ids);
    for (uint32_t i = 0; i < n; i++)
        if (n_parts == 0 || ids[n_parts - 1] != ids[i])
            ids[n_parts++] = ids[i];
    if (n_parts == 1)
        return ids[0];
    return intern_formula(compiler, (struct formula){.kind = FORMULA_OR, .parts = ids, .n_parts = n_parts});
}

uint32_t formula_not(struct schema_compiler *compiler, uint32_t a)
{
    struct formula formula = compiler->table.items[a];
    uint32_t result = formula.kind == FORMULA_AND ? FORMULA_FALSE : FORMULA_TRUE;
    switch (formula.kind) {
    case FORMULA_CONSTANT:
        return a == FORMULA_FALSE ? FORMULA_TRUE : FORMULA_FALSE;
    case FORMULA_SCHEMA:
        return intern_formula(compiler, (struct formula){.kind = FORMULA_NOT, .node = formula.node});
    case FORMULA_NOT:
        return intern_formula(compiler, (struct formula){.kind = FORMULA_SCHEMA, .node = formula.node});
    case FORMULA_VALUE:
        return intern_formula(compiler, (struct formula){.kind = FORMULA_NOT_VALUE, .node = formula.node});
    case FORMULA_NOT_VALUE:
        return intern_formula(compiler, (struct formula){.kind = FORMULA_VALUE, .node = formula.node});
    case FORMULA_HAS:
        return intern_formula(compiler, (struct formula){.kind = FORMULA_HAS_NOT, .node = formula.node});
    case FORMULA_HAS_NOT:
        return intern_formula(compiler, (struct formula){.kind = FORMULA_HAS, .node = formula.node});
    case FORMULA_KEYS:
    case FORMULA_ITEMS:
        return formula_members(compiler, formula.kind == FORMULA_KEYS ? FORMULA_NOT_KEYS : FORMULA_NOT_ITEMS,
                               formula.node, formula.parts[0], formula.parts[1]);
    case FORMULA_NOT_KEYS:
    case FORMULA_NOT_ITEMS:
        return formula_members(compiler, formula.kind == FORMULA_NOT_KEYS ? FORMULA_KEYS : FORMULA_ITEMS,
                               formula.node, formula.parts[0], formula.parts[1]);
    case FORMULA_AND:
        for (uint32_t i = 0; i < formula.n_parts; i++)
            result = formula_or(compiler, result, formula_not(compiler, formula.parts[i]));
        return result;
    case FORMULA_OR:
        for (uint32_t i = 0; i < formula.n_parts; i++)
            result = formula_and(compiler, result, formula_not(compiler, formula.parts[i]));
        return result;
    }
    return result;
}
