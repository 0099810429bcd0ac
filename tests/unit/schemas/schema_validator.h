// A validator for the part of JSON Schema (draft 2020-12) that our schemas use; a keyword it does not know
// fails the test. A msgpack bin counts as a string, which it is in JSON.
#pragma once

#include "schemas/value.h"
#include "tests/support/cases.h"

#include <math.h>
#include <regex.h>

struct schema_validator {
    const struct value *root; // for $ref
};

static inline bool schema_accepts(const struct schema_validator *schema, const struct value *rule,
                                  const struct value *value);

static inline bool schema_is_number(const struct value *value)
{
    return value->kind == VALUE_INTEGER || value->kind == VALUE_FLOAT;
}

static inline double schema_number(const struct value *value)
{
    return value->kind == VALUE_INTEGER ? (double)value->integer : value->number;
}

// -1, 0, 1. Integers exactly, since 2^63-1 is no double.
static inline int schema_compare(const struct value *a, const struct value *b)
{
    if (a->kind == VALUE_INTEGER && b->kind == VALUE_INTEGER)
        return (a->integer > b->integer) - (a->integer < b->integer);
    if (b->kind == VALUE_INTEGER && value_is_long_integer(a))
        return a->digits[0] == '-' ? -1 : 1;
    if (b->kind == VALUE_INTEGER && schema_number(a) >= 0x1p63) // as a double 2^63-1 is 2^63
        return 1;
    return (schema_number(a) > schema_number(b)) - (schema_number(a) < schema_number(b));
}

static inline bool schema_has_type(const struct value *value, const char *type)
{
    if (strcmp(type, "null") == 0)
        return value->kind == VALUE_NULL;
    if (strcmp(type, "boolean") == 0)
        return value->kind == VALUE_BOOL;
    if (strcmp(type, "string") == 0)
        return value->kind == VALUE_STRING || value->kind == VALUE_BYTES;
    if (strcmp(type, "array") == 0)
        return value->kind == VALUE_ARRAY;
    if (strcmp(type, "object") == 0)
        return value->kind == VALUE_OBJECT;
    if (strcmp(type, "number") == 0)
        return schema_is_number(value);
    assert_string_equal(type, "integer");
    return value->kind == VALUE_INTEGER ||
           (value->kind == VALUE_FLOAT && value->number == trunc(value->number));
}

static inline bool schema_type(const struct value *types, const struct value *value)
{
    char name[16];
    const struct value *items = types->kind == VALUE_ARRAY ? types->array.items : types;
    size_t n_items = types->kind == VALUE_ARRAY ? types->array.n_items : 1;
    for (size_t i = 0; i < n_items; i++) {
        snprintf(name, sizeof name, "%.*s", (int)items[i].text.size, items[i].text.data);
        if (schema_has_type(value, name))
            return true;
    }
    return false;
}

static inline bool schema_same(const struct value *a, const struct value *b)
{
    return schema_is_number(a) && schema_is_number(b) ? schema_compare(a, b) == 0 : value_equal(a, b);
}

static inline bool schema_enum(const struct value *items, const struct value *value)
{
    for (size_t i = 0; i < items->array.n_items; i++)
        if (schema_same(&items->array.items[i], value))
            return true;
    return false;
}

static inline size_t schema_count_accepting(const struct schema_validator *schema, const struct value *rules,
                                            const struct value *value)
{
    size_t n_accepting = 0;
    for (size_t i = 0; i < rules->array.n_items; i++)
        n_accepting += schema_accepts(schema, &rules->array.items[i], value);
    return n_accepting;
}

static inline const struct value *schema_resolve(const struct schema_validator *schema, struct text reference)
{
    char name[64];
    assert_true(reference.size > 8 && memcmp(reference.data, "#/$defs/", 8) == 0);
    snprintf(name, sizeof name, "%.*s", (int)reference.size - 8, reference.data + 8);
    const struct value *rule = value_get(value_get(schema->root, "$defs"), name);
    if (!rule)
        fail_msg("$defs/%s is not there", name);
    return rule;
}

static inline size_t schema_length(struct text text)
{
    size_t n_characters = 0;
    for (size_t i = 0; i < text.size; i++)
        n_characters += ((unsigned char)text.data[i] & 0xC0) != 0x80;
    return n_characters;
}

static inline bool schema_matches(struct text pattern, const struct value *value)
{
    char expression[128], subject[1024];
    regex_t regex;
    if (value->kind != VALUE_STRING)
        return true;
    snprintf(expression, sizeof expression, "%.*s", (int)pattern.size, pattern.data);
    snprintf(subject, sizeof subject, "%.*s", (int)value->text.size, value->text.data);
    assert_int_equal(regcomp(&regex, expression, REG_EXTENDED | REG_NOSUB), 0);
    bool matches = regexec(&regex, subject, 0, NULL, 0) == 0;
    regfree(&regex);
    return matches;
}

// "properties" and "additionalProperties" together; "propertyNames" apart.
static inline bool schema_members(const struct schema_validator *schema, const struct value *rule,
                                  const struct value *object)
{
    const struct value *properties = value_get(rule, "properties");
    const struct value *additional = value_get(rule, "additionalProperties");
    for (size_t i = 0; object->kind == VALUE_OBJECT && i < object->object.n_members; i++) {
        const struct value_member *member = &object->object.members[i];
        const struct value *own = additional;
        for (size_t j = 0; properties && j < properties->object.n_members; j++)
            if (text_equal(properties->object.members[j].key, member->key))
                own = &properties->object.members[j].value;
        if (own && !schema_accepts(schema, own, &member->value))
            return false;
    }
    return true;
}

static inline bool schema_names(const struct schema_validator *schema, const struct value *rule,
                                const struct value *object)
{
    for (size_t i = 0; object->kind == VALUE_OBJECT && i < object->object.n_members; i++) {
        struct value name = value_string(object->object.members[i].key);
        if (!schema_accepts(schema, rule, &name))
            return false;
    }
    return true;
}

static inline bool schema_required(const struct value *names, const struct value *object)
{
    for (size_t i = 0; object->kind == VALUE_OBJECT && i < names->array.n_items; i++) {
        char name[64];
        snprintf(name, sizeof name, "%.*s", (int)names->array.items[i].text.size,
                 names->array.items[i].text.data);
        if (!value_get(object, name))
            return false;
    }
    return true;
}

// "prefixItems" and "items" together.
static inline bool schema_items(const struct schema_validator *schema, const struct value *rule,
                                const struct value *array)
{
    const struct value *prefix = value_get(rule, "prefixItems"), *rest = value_get(rule, "items");
    for (size_t i = 0; array->kind == VALUE_ARRAY && i < array->array.n_items; i++) {
        const struct value *own = prefix && i < prefix->array.n_items ? &prefix->array.items[i] : rest;
        if (own && !schema_accepts(schema, own, &array->array.items[i]))
            return false;
    }
    return true;
}

static inline bool schema_count(const char *keyword, int64_t limit, const struct value *value)
{
    if (strcmp(keyword, "minItems") == 0)
        return value->kind != VALUE_ARRAY || value->array.n_items >= (size_t)limit;
    if (strcmp(keyword, "maxItems") == 0)
        return value->kind != VALUE_ARRAY || value->array.n_items <= (size_t)limit;
    if (strcmp(keyword, "maxProperties") == 0)
        return value->kind != VALUE_OBJECT || value->object.n_members <= (size_t)limit;
    if (strcmp(keyword, "minLength") == 0)
        return value->kind != VALUE_STRING || schema_length(value->text) >= (size_t)limit;
    assert_string_equal(keyword, "maxLength");
    return value->kind != VALUE_STRING || schema_length(value->text) <= (size_t)limit;
}

static inline bool schema_keyword(const struct schema_validator *schema, const struct value *rule,
                                  const char *keyword, const struct value *operand, const struct value *value)
{
    static const char *const silent[] = {"$schema",     "$defs",   "title",
                                         "description", "default", "contentEncoding"};
    for (size_t i = 0; i < sizeof silent / sizeof *silent; i++)
        if (strcmp(keyword, silent[i]) == 0)
            return true;
    if (strcmp(keyword, "$ref") == 0)
        return schema_accepts(schema, schema_resolve(schema, operand->text), value);
    if (strcmp(keyword, "allOf") == 0)
        return schema_count_accepting(schema, operand, value) == operand->array.n_items;
    if (strcmp(keyword, "anyOf") == 0)
        return schema_count_accepting(schema, operand, value) > 0;
    if (strcmp(keyword, "oneOf") == 0)
        return schema_count_accepting(schema, operand, value) == 1;
    if (strcmp(keyword, "type") == 0)
        return schema_type(operand, value);
    if (strcmp(keyword, "enum") == 0)
        return schema_enum(operand, value);
    if (strcmp(keyword, "const") == 0)
        return schema_same(operand, value);
    if (strcmp(keyword, "properties") == 0 || strcmp(keyword, "additionalProperties") == 0)
        return schema_members(schema, rule, value);
    if (strcmp(keyword, "propertyNames") == 0)
        return schema_names(schema, operand, value);
    if (strcmp(keyword, "required") == 0)
        return schema_required(operand, value);
    if (strcmp(keyword, "items") == 0 || strcmp(keyword, "prefixItems") == 0)
        return schema_items(schema, rule, value);
    if (strcmp(keyword, "pattern") == 0)
        return schema_matches(operand->text, value);
    if (strcmp(keyword, "minimum") == 0)
        return !schema_is_number(value) || schema_compare(value, operand) >= 0;
    if (strcmp(keyword, "maximum") == 0)
        return !schema_is_number(value) || schema_compare(value, operand) <= 0;
    if (strcmp(keyword, "exclusiveMinimum") == 0)
        return !schema_is_number(value) || schema_compare(value, operand) > 0;
    return schema_count(keyword, operand->integer, value);
}

static inline bool schema_accepts(const struct schema_validator *schema, const struct value *rule,
                                  const struct value *value)
{
    if (rule->kind == VALUE_BOOL)
        return rule->boolean;
    assert_int_equal(rule->kind, VALUE_OBJECT);
    for (size_t i = 0; i < rule->object.n_members; i++) {
        char keyword[32];
        struct text key = rule->object.members[i].key;
        snprintf(keyword, sizeof keyword, "%.*s", (int)key.size, key.data);
        if (!schema_keyword(schema, rule, keyword, &rule->object.members[i].value, value))
            return false;
    }
    return true;
}
