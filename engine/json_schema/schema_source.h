// A JSON Schema document: its draft, and the targets of its references. References are resolved against $id
// (RFC 3986, 5.2) within the document; no other document is ever read.
#pragma once

#include "engine/json_schema/json_document.h"

enum schema_draft {
    SCHEMA_DRAFT_4,
    SCHEMA_DRAFT_6,
    SCHEMA_DRAFT_7,
    SCHEMA_DRAFT_2019_09,
    SCHEMA_DRAFT_2020_12
};

// A reference target: a base URI, or a base URI with "#" and an anchor.
struct schema_place {
    struct text uri;
    const struct json_node *node;
};

struct schema_source {
    const struct json_node *root;
    enum schema_draft draft;
    struct arena *arena;
    struct schema_place *places;
    size_t n_places, places_max;
    size_t n_embedded; // schemas with their own $id inside the document
};

// Opens a document. False: $schema names an unknown dialect, or memory ran out (!*has_memory).
bool schema_source_open(struct schema_source *source, const struct json_document *document,
                        struct arena *arena, bool *has_memory) WARN_UNUSED;

// Returns the node to which `reference` in `from` refers. NULL: none in this document, or memory ran out
// (!*has_memory).
const struct json_node *schema_source_resolve(const struct schema_source *source,
                                              const struct json_node *from, struct text reference,
                                              bool *has_memory);
// True if a $recursiveRef or $dynamicRef always refers to `target`, however it is reached: the document has
// only one matching anchor.
bool schema_source_is_static(const struct schema_source *source, const struct json_node *keyword,
                             const struct json_node *target);
