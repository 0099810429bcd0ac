#include "engine/json_schema/schema_source.h"

#include <stdlib.h>
#include <string.h>

static struct text slice_text(struct text text, size_t from, size_t to)
{
    return (struct text){from ? text.data + from : text.data, to - from};
}

static bool starts_with(struct text text, const char *start)
{
    size_t size = strlen(start);
    return text.size >= size && memcmp(text.data, start, size) == 0;
}

static bool find_draft(const struct json_node *root, enum schema_draft *draft)
{
    static const struct {
        const char *uri;
        enum schema_draft draft;
    } drafts[] = {
        {"://json-schema.org/draft-04/schema", SCHEMA_DRAFT_4},
        {"://json-schema.org/draft-06/schema", SCHEMA_DRAFT_6},
        {"://json-schema.org/draft-07/schema", SCHEMA_DRAFT_7},
        {"://json-schema.org/draft/2019-09/schema", SCHEMA_DRAFT_2019_09},
        {"://json-schema.org/draft/2020-12/schema", SCHEMA_DRAFT_2020_12},
        {"://json-schema.org/schema", SCHEMA_DRAFT_2020_12}, // "the latest"
    };
    const struct json_node *named = json_member_named(root, "$schema");
    *draft = SCHEMA_DRAFT_2020_12;
    if (!named || named->kind != JSON_STRING)
        return true;
    struct text uri = named->text;
    while (uri.size && uri.data[uri.size - 1] == '#')
        uri.size--;
    if (!starts_with(uri, "http"))
        return false;
    uri = slice_text(uri, starts_with(uri, "https") ? 5 : 4, uri.size);
    for (size_t i = 0; i < sizeof drafts / sizeof drafts[0]; i++)
        if (text_equals_string(uri, drafts[i].uri)) {
            *draft = drafts[i].draft;
            return true;
        }
    return false;
}

// The parts of a URI reference (RFC 3986, appendix B), including their delimiters.
struct uri {
    struct text scheme, authority, path, query, fragment;
};

static size_t find_any(struct text text, size_t from, const char *bytes)
{
    while (from < text.size && (!text.data[from] || !strchr(bytes, text.data[from])))
        from++;
    return from;
}

static struct uri split_uri(struct text text)
{
    struct uri uri = {0};
    size_t at = 0, colon = find_any(text, 0, ":/?#");
    if (colon > 0 && colon < text.size && text.data[colon] == ':') {
        uri.scheme = slice_text(text, 0, colon + 1);
        at = colon + 1;
    }
    if (starts_with(slice_text(text, at, text.size), "//")) {
        size_t end = find_any(text, at + 2, "/?#");
        uri.authority = slice_text(text, at, end);
        at = end;
    }
    size_t end = find_any(text, at, "?#");
    uri.path = slice_text(text, at, end);
    at = end;
    end = find_any(text, at, "#");
    uri.query = slice_text(text, at, end);
    uri.fragment = slice_text(text, end, text.size);
    return uri;
}

// RFC 3986, 5.2.4, in place.
static void remove_dots(struct buffer *path, size_t from)
{
    size_t out = from, at = from, size = path->size;
    char *data = path->data;
    while (at < size) {
        size_t end = at + 1;
        while (end < size && data[end] != '/')
            end++;
        size_t n = end - at;
        bool one = n == 2 && data[at] == '/' && data[at + 1] == '.';
        bool two = n == 3 && data[at] == '/' && data[at + 1] == '.' && data[at + 2] == '.';
        if (two)
            while (out > from && data[--out] != '/')
                continue;
        if ((one || two) && end == size)
            data[out++] = '/';
        if (!one && !two) {
            memmove(data + out, data + at, n);
            out += n;
        }
        at = end;
    }
    path->size = out;
}

// Writes the reference resolved against the base, without its fragment.
static void resolve_uri(struct text base_text, struct text reference_text, struct buffer *out)
{
    struct uri base = split_uri(base_text), reference = split_uri(reference_text);
    bool own = reference.scheme.size > 0, host = own || reference.authority.size > 0;
    bool path = host || reference.path.size > 0;
    buffer_add_text(out, own ? reference.scheme : base.scheme);
    buffer_add_text(out, host ? reference.authority : base.authority);
    size_t from = out->size;
    if (path && !host && reference.path.data[0] != '/') {
        size_t keep = base.path.size;
        while (keep > 0 && base.path.data[keep - 1] != '/')
            keep--;
        buffer_add_text(out, slice_text(base.path, 0, keep));
        if (!keep && base.authority.size)
            buffer_add_byte(out, '/');
    }
    buffer_add_text(out, path ? reference.path : base.path);
    if (!out->failed && out->size > from && out->data[from] == '/')
        remove_dots(out, from);
    buffer_add_text(out, path || reference.query.size ? reference.query : base.query);
}

static const struct json_node *own_id(const struct schema_source *source, const struct json_node *node)
{
    const struct json_node *id = json_member_named(node, source->draft == SCHEMA_DRAFT_4 ? "id" : "$id");
    if (!id || id->kind != JSON_STRING)
        return NULL;
    // Up to draft 7, all keywords beside $ref are ignored.
    if (source->draft <= SCHEMA_DRAFT_7 && json_member_named(node, "$ref"))
        return NULL;
    return id;
}

static void write_base(const struct schema_source *source, const struct json_node *node, struct buffer *out)
{
    while (node && (!own_id(source, node) || own_id(source, node)->text.data[0] == '#'))
        node = node->parent;
    if (!node)
        return;
    struct buffer outer = {0};
    write_base(source, node->parent, &outer);
    resolve_uri((struct text){outer.data, outer.size}, own_id(source, node)->text, out);
    out->failed |= outer.failed;
    buffer_finish(&outer);
}

static bool add_place(struct schema_source *source, const struct json_node *node, struct text uri)
{
    if (source->n_places == source->places_max) {
        size_t max = source->places_max ? 2 * source->places_max : 16;
        struct schema_place *places = arena_allocate_array(source->arena, max, sizeof *places);
        if (!places)
            return false;
        if (source->n_places)
            memcpy(places, source->places, source->n_places * sizeof *places);
        source->places = places;
        source->places_max = max;
    }
    const char *copy = arena_copy(source->arena, uri.data ? uri.data : "", uri.size);
    source->places[source->n_places++] = (struct schema_place){{copy, uri.size}, node};
    return copy != NULL;
}

static bool add_anchor(struct schema_source *source, const struct json_node *node, struct text anchor)
{
    struct buffer uri = {0};
    write_base(source, node, &uri);
    buffer_add_byte(&uri, '#');
    buffer_add_text(&uri, anchor);
    bool added = !uri.failed && add_place(source, node, (struct text){uri.data, uri.size});
    buffer_finish(&uri);
    return added;
}

static bool add_names(struct schema_source *source, const struct json_node *node)
{
    const struct json_node *id = own_id(source, node);
    bool good = true;
    if (id && id->text.size) {
        struct uri parts = split_uri(id->text);
        if (id->text.data[0] != '#') {
            struct buffer uri = {0};
            write_base(source, node, &uri);
            good = !uri.failed && add_place(source, node, (struct text){uri.data, uri.size});
            buffer_finish(&uri);
            source->n_embedded += node != source->root;
        }
        if (good && source->draft <= SCHEMA_DRAFT_7 && parts.fragment.size > 1)
            good = add_anchor(source, node, slice_text(parts.fragment, 1, parts.fragment.size));
    }
    static const char *const anchors[] = {"$anchor", "$dynamicAnchor"};
    for (int i = 0; good && i < 2 && source->draft >= SCHEMA_DRAFT_2019_09; i++) {
        const struct json_node *anchor = json_member_named(node, anchors[i]);
        if (anchor && anchor->kind == JSON_STRING && (i == 0 || source->draft == SCHEMA_DRAFT_2020_12)) {
            good = add_anchor(source, node, anchor->text);
        }
    }
    return good;
}

// True if the keyword contains schemas: as its value, in an array, or (*members) as members of an object.
static bool holds_schemas(struct text key, bool *members)
{
    static const char *const single[] = {"additionalItems",
                                         "additionalProperties",
                                         "allOf",
                                         "anyOf",
                                         "contains",
                                         "else",
                                         "if",
                                         "items",
                                         "not",
                                         "oneOf",
                                         "prefixItems",
                                         "propertyNames",
                                         "then",
                                         "unevaluatedItems",
                                         "unevaluatedProperties",
                                         "contentSchema"};
    static const char *const named[] = {
        "$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"};
    *members = false;
    for (size_t i = 0; i < sizeof single / sizeof single[0]; i++)
        if (text_equals_string(key, single[i]))
            return true;
    *members = true;
    for (size_t i = 0; i < sizeof named / sizeof named[0]; i++)
        if (text_equals_string(key, named[i]))
            return true;
    return false;
}

static bool index_schema(struct schema_source *source, const struct json_node *schema)
{
    if (schema->kind != JSON_OBJECT)
        return true;
    if (!add_names(source, schema))
        return false;
    if (source->draft <= SCHEMA_DRAFT_7 && json_member_named(schema, "$ref") && schema->parent)
        return true; // only pointers can reach members beside $ref
    for (const struct json_node *member = schema->first; member; member = member->next) {
        bool members;
        if (!holds_schemas(member->key, &members))
            continue;
        if (!members && !index_schema(source, member))
            return false;
        for (const struct json_node *child = member->first; child; child = child->next)
            if ((members || member->kind == JSON_ARRAY) && !index_schema(source, child))
                return false;
    }
    return true;
}

bool schema_source_open(struct schema_source *source, const struct json_document *document,
                        struct arena *arena, bool *has_memory)
{
    *source = (struct schema_source){.root = document->root, .arena = arena};
    *has_memory = true;
    if (!find_draft(document->root, &source->draft))
        return false;
    *has_memory = add_place(source, document->root, (struct text){0}) && index_schema(source, document->root);
    return *has_memory;
}

static const struct json_node *find_place(const struct schema_source *source, struct text uri)
{
    for (size_t i = 0; i < source->n_places; i++)
        if (text_equal(source->places[i].uri, uri))
            return source->places[i].node;
    return NULL;
}

static size_t unescape_percent(struct text text, char *out)
{
    size_t n = 0;
    for (size_t i = 0; i < text.size; i++) {
        char digits[3] = {0}, *end = digits;
        if (text.data[i] == '%' && i + 2 < text.size)
            memcpy(digits, text.data + i + 1, 2);
        unsigned long byte = strtoul(digits, &end, 16);
        out[n++] = end == digits + 2 ? (char)byte : text.data[i];
        i += end == digits + 2 ? 2 : 0;
    }
    return n;
}

static const struct json_node *step_into(const struct json_node *node, struct text token)
{
    char *digits = NULL, copy[16] = {0};
    if (node->kind != JSON_ARRAY)
        return json_member(node, token);
    if (!token.size || token.size >= sizeof copy || strchr("+- ", token.data[0]))
        return NULL;
    memcpy(copy, token.data, token.size);
    unsigned long index = strtoul(copy, &digits, 10);
    return *digits ? NULL : json_item(node, index);
}

static const struct json_node *follow_pointer(const struct json_node *node, struct text pointer,
                                              bool *has_memory)
{
    char *token = malloc(pointer.size + 1);
    size_t at = 0;
    while (token && node && at < pointer.size) {
        if (pointer.data[at++] != '/') {
            node = NULL;
            break;
        }
        size_t n = 0;
        for (; at < pointer.size && pointer.data[at] != '/'; at++) {
            bool escape = pointer.data[at] == '~' && at + 1 < pointer.size &&
                          (pointer.data[at + 1] == '0' || pointer.data[at + 1] == '1');
            token[n++] = !escape ? pointer.data[at] : pointer.data[++at] == '0' ? '~' : '/';
        }
        node = step_into(node, (struct text){token, n});
    }
    free(token);
    *has_memory = token != NULL;
    return token ? node : NULL;
}

// Follows a fragment: a JSON pointer relative to its base, or an anchor.
static const struct json_node *follow_fragment(const struct schema_source *source, struct buffer *base,
                                               struct text fragment, bool *has_memory)
{
    const struct json_node *node = find_place(source, (struct text){base->data, base->size});
    if (!fragment.size || fragment.data[0] == '/')
        return node ? follow_pointer(node, fragment, has_memory) : NULL;
    buffer_add_byte(base, '#');
    buffer_add_text(base, fragment);
    *has_memory = !base->failed;
    return base->failed ? NULL : find_place(source, (struct text){base->data, base->size});
}

const struct json_node *schema_source_resolve(const struct schema_source *source,
                                              const struct json_node *from, struct text reference,
                                              bool *has_memory)
{
    struct buffer base = {0}, uri = {0};
    struct uri parts = split_uri(reference);
    const struct json_node *found = NULL;
    char *fragment = malloc(parts.fragment.size + 1);
    write_base(source, from, &base);
    resolve_uri((struct text){base.data, base.size}, reference, &uri);
    *has_memory = fragment && !uri.failed && !base.failed;
    if (*has_memory) {
        struct text rest = {parts.fragment.size ? parts.fragment.data + 1 : "",
                            parts.fragment.size ? parts.fragment.size - 1 : 0};
        found = follow_fragment(source, &uri, (struct text){fragment, unescape_percent(rest, fragment)},
                                has_memory);
    }
    free(fragment);
    buffer_finish(&base);
    buffer_finish(&uri);
    return found;
}

bool schema_source_is_static(const struct schema_source *source, const struct json_node *keyword,
                             const struct json_node *target)
{
    if (source->draft == SCHEMA_DRAFT_2019_09) {
        const struct json_node *anchor = json_member_named(target, "$recursiveAnchor");
        return source->n_embedded == 0 || !anchor || anchor->kind != JSON_TRUE;
    }
    struct text fragment = split_uri(keyword->text).fragment;
    const struct json_node *anchor = json_member_named(target, "$dynamicAnchor");
    if (fragment.size < 2 || !anchor || anchor->kind != JSON_STRING ||
        !text_equal(anchor->text, slice_text(fragment, 1, fragment.size)))
        return true;
    for (size_t i = 0; i < source->n_places; i++) {
        const struct json_node *other = json_member_named(source->places[i].node, "$dynamicAnchor");
        if (source->places[i].node != target && other && other->kind == JSON_STRING &&
            text_equal(other->text, anchor->text))
            return false;
    }
    return true;
}
