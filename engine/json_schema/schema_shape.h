// The normal form of a JSON Schema while it is compiled: for each JSON type what is allowed of it.
//
//   formula  a schema of the document, its negation, a value, or "and" and "or" of these; an id, hash-consed.
//            Formulas are never expanded before they are needed, so that recursion through $ref ends.
//   shape    a formula expanded by one level: null and booleans as bits, numbers and strings as expressions,
//            arrays and objects as unions of conjunctive constraints whose items and members are formulas.
//
// Shapes are closed under intersection and union. A schema whose negation has no shape is refused (struct
// schema_refusal). Internal to engine/grammar/json_schema*.c. Not thread-safe.
#pragma once

#include "engine/json_schema/json_number.h"
#include "engine/json_schema/json_schema.h"
#include "engine/json_schema/schema_source.h"

enum { FORMULA_FALSE = 0, FORMULA_TRUE = 1 };

enum formula_kind {
    FORMULA_CONSTANT, // the first two
    FORMULA_SCHEMA,   // a schema of the document
    FORMULA_NOT,      // not that schema
    FORMULA_VALUE,    // equal to a node of the document
    FORMULA_NOT_VALUE,
    FORMULA_HAS,     // an object with that key: the node's key, or its text where it is an item of an array
    FORMULA_HAS_NOT, // no object, or one without that key
    FORMULA_KEYS,    // no object, or one whose members with keys of parts[0], an expression, are parts[1]
    FORMULA_NOT_KEYS,
    FORMULA_ITEMS, // no array, or one whose items from index parts[0] on are parts[1]
    FORMULA_NOT_ITEMS,
    FORMULA_AND,
    FORMULA_OR,
};

struct shape;

struct formula {
    enum formula_kind kind;
    const struct json_node *node; // of a schema, its negation, a value; the keyword of keys and items
    uint32_t *parts;              // of "and" and "or": sorted; two of keys and items
    uint32_t n_parts;
    const uint32_t
        *given; // of "and": the parts as they were put together first, which orders names; NULL: as sorted
    uint64_t hash;
    const struct shape *shape; // once expanded
    bool expanding;            // found again meanwhile: a $ref that leads to itself
    uint32_t outer;            // meanwhile: the formula that is expanded with it, 0: none
    uint32_t next_of_hash;
};

enum { COUNT_UNBOUNDED = UINT32_MAX };

// At least min and at most max items equal to the formula.
struct array_contains {
    uint32_t formula, min, max;
};

struct array_shape {
    uint32_t *prefix; // formulas of the first items
    uint32_t n_prefix;
    uint32_t rest; // formula of the others
    uint32_t min, max;
    struct array_contains *contains;
    uint32_t n_contains;
    const struct json_node *unique; // the keyword, or NULL
};

struct object_name {
    struct text key;
    uint32_t value; // formula; FORMULA_FALSE: must be absent
    bool required;
    bool declared;                  // in `properties`, and so with a place in the order
    const struct json_node *source; // those `properties`: names of different ones may be in any order
};

// Members whose keys match `keys` and are not named.
struct object_class {
    uint32_t keys, value;
};

struct object_shape {
    struct object_name *names;
    uint32_t n_names;
    struct object_class *classes; // disjoint
    uint32_t n_classes;
    uint32_t rest;     // formula of the members of no class
    uint32_t min, max; // members
    const struct json_node *min_keyword;
    struct object_class *needs; // of each at least one member
    uint32_t n_needs;
    const struct json_node *needs_keyword;
};

struct shape {
    bool null, no, yes;
    uint32_t number, string; // expressions
    struct number_form form; // in which its numbers are generated
    struct array_shape *arrays;
    uint32_t n_arrays;
    struct object_shape *objects;
    uint32_t n_objects;
};

// Limits of this folder's normal form; reaching one is an error that names it.
enum {
    SCHEMA_FORMULAS_MAX = 50000,
    SCHEMA_ALTERNATIVES_MAX = 4096, // of arrays, or of objects, in one shape
    SCHEMA_WORK_MAX = 2000000,      // names and classes put together
    SCHEMA_BYTES_MAX =
        100 << 20, // of memory while one schema is compiled, its document with it (at most 48 MB)
    SCHEMA_EXPANSION_DEPTH_MAX = 300,
    SCHEMA_ORDERED_PARTS_MAX = 64, // of an "and" whose names are in the order of its parts
};

// The formulas, hash-consed.
struct formula_table {
    struct formula *items; // [n]
    uint32_t n, n_max;
    uint32_t *buckets; // of hashes
    uint32_t n_buckets;
    uint32_t innermost; // of the formulas that are being expanded, 0: none
};

struct number_expressions {
    uint32_t any, family;
    uint32_t integer, not_integer; // of this draft; EXPRESSION_NOTHING: not asked for yet
};

struct schema_compiler {
    struct schema_source source;
    const struct json_schema_options *options;
    struct arena *arena;
    struct rules *rules;
    struct expressions *pool;
    struct formula_table table;
    struct number_expressions numbers;
    uint64_t work; // also of the schemas compiled to the same rules before
    uint32_t depth;
    bool probe_failed;  // formula_is_nothing returned to a formula that is being expanded
    uint32_t n_probes;  // of formula_is_nothing, one inside another
    enum status status; // the first failure; all functions do nothing from then on
    struct schema_refusal *refusal;
    struct error *error;
};

// Failures. `keyword` is a member of a schema, or part of one; of the document's root none is named.
void compiler_refuse(struct schema_compiler *compiler, const struct json_node *keyword, const char *why);
void compiler_malformed(struct schema_compiler *compiler, const struct json_node *keyword,
                        const char *expected);
// "leads to no schema of this document", with the URI reference.
void compiler_refuse_reference(struct schema_compiler *compiler, const struct json_node *keyword);
void compiler_limit(struct schema_compiler *compiler, const char *name, uint64_t limit);
void compiler_no_memory(struct schema_compiler *compiler);
// For the error of expression_parse: memory that ran out refuses no keyword.
void compiler_refuse_pattern(struct schema_compiler *compiler, const struct json_node *keyword,
                             const struct error *why);
void *compiler_allocate(struct schema_compiler *compiler, size_t count, size_t size); // NULL: failed
// schema_source_resolve. NULL: none, or the compiler has failed.
const struct json_node *compiler_resolve(struct schema_compiler *compiler, const struct json_node *from,
                                         struct text reference);
bool compiler_work(struct schema_compiler *compiler, uint64_t amount); // false: failed

// schema_formula.c
bool formulas_init(struct schema_compiler *compiler);
uint32_t formula_schema(struct schema_compiler *compiler, const struct json_node *node);
uint32_t formula_value(struct schema_compiler *compiler, const struct json_node *node);
uint32_t formula_has(struct schema_compiler *compiler, const struct json_node *key);
// FORMULA_KEYS, FORMULA_ITEMS. `keyword` is named where the negation can't be built.
uint32_t formula_members(struct schema_compiler *compiler, enum formula_kind kind,
                         const struct json_node *keyword, uint32_t which, uint32_t value);
uint32_t formula_and(struct schema_compiler *compiler, uint32_t a, uint32_t b);
uint32_t formula_or(struct schema_compiler *compiler, uint32_t a, uint32_t b);
uint32_t formula_not(struct schema_compiler *compiler, uint32_t a);
// Of formulas of values, none of them an "or"; in n log n. `ids` are sorted in place.
uint32_t formula_or_many(struct schema_compiler *compiler, uint32_t *ids, uint32_t n);

// schema_shape.c
struct shape shape_any(struct schema_compiler *compiler);
struct shape shape_intersect(struct schema_compiler *compiler, const struct shape *a, const struct shape *b);
struct shape shape_unite(struct schema_compiler *compiler, const struct shape *a, const struct shape *b);
// Makes *result the union of itself and `part`. Its arrays and objects are of earlier calls alone: of n parts
// in n steps.
void shape_add(struct schema_compiler *compiler, struct shape *result, const struct shape *part);
struct array_shape array_any(void);
struct object_shape object_any(void);
// The shape of all values but objects (arrays), for constraints on those alone.
struct shape shape_any_but_objects(struct schema_compiler *compiler);
struct shape shape_any_but_arrays(struct schema_compiler *compiler);
struct shape shape_of_objects(struct schema_compiler *compiler, struct object_shape object);
struct shape shape_of_arrays(struct schema_compiler *compiler, struct array_shape array);
// Formula of an object's member with that key, whose name it has or not.
uint32_t object_value(struct schema_compiler *compiler, const struct object_shape *object, struct text key);
uint32_t array_value(const struct array_shape *array, uint32_t index);
// The keys of `rest`: of no class. Names are still among them.
uint32_t object_rest_keys(struct schema_compiler *compiler, const struct object_shape *object);

// formula_shape.c: the formula expanded; NULL once the compiler failed.
const struct shape *formula_shape(struct schema_compiler *compiler, uint32_t formula);
// Proven to be no value at all? Looks `depth` levels down.
bool formula_is_nothing(struct schema_compiler *compiler, uint32_t formula, uint32_t depth);

// schema_keywords.c: keywords one by one.
bool keyword_count(struct schema_compiler *compiler, const struct json_node *keyword, uint32_t *count);
// Sets of numbers (strings) that the keyword allows. False: it is none of those, or says nothing in this
// draft.
bool keyword_numbers(struct schema_compiler *compiler, const struct json_node *keyword, uint32_t *set,
                     struct number_form *form);
bool keyword_strings(struct schema_compiler *compiler, const struct json_node *keyword, uint32_t *set);
// Values of the types that `type` names, and where asked for, of all others. False: it is not `type`.
bool keyword_types(struct schema_compiler *compiler, const struct json_node *keyword, struct shape *allowed,
                   struct shape *others);
// The schema that $ref, $recursiveRef or $dynamicRef leads to; NULL: the compiler has failed.
const struct json_node *keyword_target(struct schema_compiler *compiler, const struct json_node *keyword);
// schema_applicators.c: keywords that apply schemas to the same value: allOf, $ref, if and so on.
bool keyword_formula(struct schema_compiler *compiler, const struct json_node *keyword, uint32_t *formula);
// schema_unevaluated.c: unevaluatedItems and unevaluatedProperties.
uint32_t unevaluated_formula(struct schema_compiler *compiler, const struct json_node *keyword);
// schema_expand.c: a schema expanded.
struct object_shape schema_object(struct schema_compiler *compiler, const struct json_node *schema);
struct array_shape schema_array(struct schema_compiler *compiler, const struct json_node *schema);
struct shape schema_shape(struct schema_compiler *compiler, const struct json_node *schema);
// schema_negation.c
struct shape schema_negation(struct schema_compiler *compiler, const struct json_node *schema);
struct shape members_shape(struct schema_compiler *compiler, struct formula formula);
struct shape value_shape(struct schema_compiler *compiler, const struct json_node *value);
struct shape value_negation(struct schema_compiler *compiler, const struct json_node *value);
