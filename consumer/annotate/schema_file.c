#include "consumer/annotate/schema_file.h"

#include <string.h>

// Keywords of drafts 4 to 2020-12.
// clang-format off
static const char *const keywords[] = {
    "$anchor", "$comment", "$defs", "$dynamicAnchor", "$dynamicRef", "$id", "$recursiveAnchor",
    "$recursiveRef", "$ref", "$schema", "$vocabulary", "additionalItems", "additionalProperties", "allOf",
    "anyOf", "const", "contains", "contentEncoding", "contentMediaType", "contentSchema", "default",
    "definitions", "dependencies", "dependentRequired", "dependentSchemas", "deprecated", "description",
    "else", "enum", "examples", "exclusiveMaximum", "exclusiveMinimum", "format", "id", "if", "items",
    "maxContains", "maxItems", "maxLength", "maxProperties", "maximum", "minContains", "minItems",
    "minLength", "minProperties", "minimum", "multipleOf", "not", "oneOf", "pattern", "patternProperties",
    "prefixItems", "properties", "propertyNames", "readOnly", "required", "then", "title", "type",
    "unevaluatedItems", "unevaluatedProperties", "uniqueItems", "writeOnly"};
// clang-format on

static bool is_among(struct text name, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (text_equals_string(name, names[i]))
            return true;
    return false;
}

static const struct value *object_member(const struct value *object, const char *key)
{
    const struct value *member = value_get(object, key);
    return member && member->kind == VALUE_OBJECT ? member : NULL;
}

static bool has_type(const struct value *wrapper, const char *name)
{
    const struct value *type = value_get(wrapper, "type");
    return type && type->kind == VALUE_STRING && text_equals_string(type->text, name);
}

const struct value *schema_file_unwrap(const struct value *object)
{
    static const char *const of_wrapper[] = {"name", "strict", "schema", "description"};
    static const char *const of_object[] = {"type", "schema"};
    const struct value *wrapper = object, *inner = object_member(object, "response_format");
    if (inner && object->object.n_members == 1)
        wrapper = inner;
    const bool is_object = has_type(wrapper, "json_object");
    if (has_type(wrapper, "json_schema"))
        wrapper = object_member(wrapper, "json_schema");
    const struct value *schema = wrapper ? object_member(wrapper, "schema") : NULL;
    for (size_t i = 0; schema && i < wrapper->object.n_members; i++) {
        struct text key = wrapper->object.members[i].key;
        if (!(is_object ? is_among(key, of_object, sizeof of_object / sizeof *of_object)
                        : is_among(key, of_wrapper, sizeof of_wrapper / sizeof *of_wrapper)))
            return object;
    }
    return schema ? schema : object;
}

void schema_file_unknown(const struct value *schema, struct buffer *names)
{
    for (size_t i = 0; i < schema->object.n_members; i++) {
        struct text key = schema->object.members[i].key;
        bool is_extension = key.size > 2 && memcmp(key.data, "x-", 2) == 0; // by convention
        if (is_extension || is_among(key, keywords, sizeof keywords / sizeof *keywords))
            continue;
        buffer_add_string(names, names->size ? ", \"" : "\"");
        buffer_add_printable(names, key, 0);
        buffer_add_byte(names, '"');
    }
}
