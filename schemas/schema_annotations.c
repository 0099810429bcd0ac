#include "schemas/schema_annotations.h"

#include <string.h>

enum { ANNOTATIONS_DEPTH_MAX = 64 };

enum keyword {
    KEYWORD_OTHER,
    KEYWORD_ANNOTATION,
    KEYWORD_SCHEMA,  // the value is a schema, or a list of schemas
    KEYWORD_SCHEMAS, // the members of the value are schemas
};

static enum keyword keyword_of(struct text name)
{
    static const struct {
        const char *name;
        enum keyword keyword;
    } known[] = {{"title", KEYWORD_ANNOTATION},
                 {"description", KEYWORD_ANNOTATION},
                 {"examples", KEYWORD_ANNOTATION},
                 {"$comment", KEYWORD_ANNOTATION},
                 {"properties", KEYWORD_SCHEMAS},
                 {"patternProperties", KEYWORD_SCHEMAS},
                 {"dependentSchemas", KEYWORD_SCHEMAS},
                 {"$defs", KEYWORD_SCHEMAS},
                 {"definitions", KEYWORD_SCHEMAS},
                 {"items", KEYWORD_SCHEMA},
                 {"additionalItems", KEYWORD_SCHEMA},
                 {"prefixItems", KEYWORD_SCHEMA},
                 {"unevaluatedItems", KEYWORD_SCHEMA},
                 {"contains", KEYWORD_SCHEMA},
                 {"additionalProperties", KEYWORD_SCHEMA},
                 {"unevaluatedProperties", KEYWORD_SCHEMA},
                 {"propertyNames", KEYWORD_SCHEMA},
                 {"allOf", KEYWORD_SCHEMA},
                 {"anyOf", KEYWORD_SCHEMA},
                 {"oneOf", KEYWORD_SCHEMA},
                 {"not", KEYWORD_SCHEMA},
                 {"if", KEYWORD_SCHEMA},
                 {"then", KEYWORD_SCHEMA},
                 {"else", KEYWORD_SCHEMA}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (text_equals_string(name, known[i].name))
            return known[i].keyword;
    return KEYWORD_OTHER;
}

// True if a reference may lead into an annotation: "#/examples/0", "#/$defs/a/title", or any reference with
// an escape.
static bool may_lead_into_annotation(struct text reference)
{
    static const char *const parts[] = {"/title", "/description", "/examples", "/$comment", "%"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts && reference.size; i++)
        if (memmem(reference.data, reference.size, parts[i], strlen(parts[i])))
            return true;
    return false;
}

// True if any "$ref", at any depth, may lead into an annotation. Searches all members, not only keywords that
// are known to contain schemas, because a reference may lead anywhere. Recursive, at most VALUE_DEPTH_MAX
// deep.
static bool refers_to_annotations(const struct value *value)
{
    if (value->kind == VALUE_ARRAY)
        for (size_t i = 0; i < value->array.n_items; i++)
            if (refers_to_annotations(&value->array.items[i]))
                return true;
    if (value->kind == VALUE_OBJECT)
        for (size_t i = 0; i < value->object.n_members; i++) {
            const struct value_member *member = &value->object.members[i];
            if ((member->value.kind == VALUE_STRING && text_equals_string(member->key, "$ref") &&
                 may_lead_into_annotation(member->value.text)) ||
                refers_to_annotations(&member->value))
                return true;
        }
    return false;
}

static bool strip_schema(struct arena *arena, const struct value *schema, struct value *bare, int depth);

// Does strip_schema for each item of a list, or for each member of an object whose keys are not keywords.
static bool strip_each(struct arena *arena, const struct value *several, struct value *bare, int depth)
{
    *bare = *several;
    if (several->kind == VALUE_OBJECT) {
        size_t n = several->object.n_members;
        if (!value_object_create(arena, n, bare))
            return false;
        for (size_t i = 0; i < n; i++, bare->object.n_members++) {
            bare->object.members[i] = several->object.members[i];
            if (!strip_schema(arena, &several->object.members[i].value, &bare->object.members[i].value,
                              depth))
                return false;
        }
    } else if (several->kind == VALUE_ARRAY) {
        size_t n = several->array.n_items;
        bare->array.items = arena_allocate_array(arena, n ? n : 1, sizeof *bare->array.items);
        if (!bare->array.items)
            return false;
        for (size_t i = 0; i < n; i++)
            if (!strip_schema(arena, &several->array.items[i], &bare->array.items[i], depth))
                return false;
    }
    return true;
}

// Removes annotations. Recursive, at most ANNOTATIONS_DEPTH_MAX deep; deeper schemas are not changed.
static bool strip_schema(struct arena *arena, const struct value *schema, struct value *bare, int depth)
{
    *bare = *schema;
    if (schema->kind != VALUE_OBJECT || depth == ANNOTATIONS_DEPTH_MAX)
        return true;
    if (!value_object_create(arena, schema->object.n_members, bare))
        return false;
    for (size_t i = 0; i < schema->object.n_members; i++) {
        const struct value_member *member = &schema->object.members[i];
        enum keyword keyword = keyword_of(member->key);
        if (keyword == KEYWORD_ANNOTATION)
            continue;
        struct value_member *kept = &bare->object.members[bare->object.n_members++];
        *kept = *member;
        bool is_one = keyword == KEYWORD_SCHEMA && member->value.kind == VALUE_OBJECT;
        if (keyword != KEYWORD_OTHER &&
            !(is_one ? strip_schema(arena, &member->value, &kept->value, depth + 1)
                     : strip_each(arena, &member->value, &kept->value, depth + 1)))
            return false;
    }
    return true;
}

bool schema_without_annotations(const struct value *schema, struct arena *arena, struct value *bare)
{
    *bare = *schema;
    return refers_to_annotations(schema) || strip_schema(arena, schema, bare, 0);
}
