// Normal form of a JSON Schema during compilation: for each JSON type, the values that are allowed.
//
//   formula  a schema of the document, its negation, a value, or "and" and "or" of formulas; an id.
//            Hash-consed; expanded only when needed, so that recursion through $ref ends.
//   shape    a formula expanded by one level: null and booleans as bits, numbers and strings as expressions,
//            arrays and objects as unions of conjunctive constraints whose items and members are formulas.
//
//   {"type": ["null", "array"], "items": {"$ref": "#"}}
//   shape: null yes, numbers and strings none, one array whose `rest` is the formula of {"$ref": "#"}
//
// Shapes are closed under intersection and union. A schema whose negation has no shape is rejected (struct
// schema_refusal). Internal to engine/json_schema/. Not thread-safe.
#pragma once

#include "engine/json_schema/json_number.h"
#include "engine/json_schema/json_schema.h"
#include "engine/json_schema/schema_source.h"

enum { FORMULA_FALSE = 0, FORMULA_TRUE = 1 };

enum formula_kind {
    FORMULA_CONSTANT, // FORMULA_FALSE and FORMULA_TRUE
    FORMULA_SCHEMA,   // a schema of the document
    FORMULA_NOT,      // the negation of a schema
    FORMULA_VALUE,    // equal to a node of the document
    FORMULA_NOT_VALUE,
    FORMULA_HAS,     // an object with a key: the node's key, or the node's text if it is an array item
    FORMULA_HAS_NOT, // not an object, or one without that key
    FORMULA_KEYS,    // not an object, or all members whose keys match parts[0] (an expression) satisfy
                     // parts[1]
    FORMULA_NOT_KEYS,
    FORMULA_ITEMS, // not an array, or all items from index parts[0] on satisfy parts[1]
    FORMULA_NOT_ITEMS,
    FORMULA_AND,
    FORMULA_OR,
};

struct shape;

struct formula {
    enum formula_kind kind;
    const struct json_node *node; // the schema or value; for FORMULA_KEYS and FORMULA_ITEMS the keyword
    uint32_t *parts;              // parts of "and" and "or", sorted; FORMULA_KEYS and FORMULA_ITEMS have two
    uint32_t n_parts;
    // For "and": the parts in the order given, which determines the order of names. NULL: use the sorted
    // order.
    const uint32_t *given;
    uint64_t hash;
    const struct shape *shape; // NULL: not expanded yet
    bool expanding;            // being expanded; if it is reached again, a $ref leads to itself
    uint32_t outer;            // while expanding: the enclosing formula being expanded; 0: none
    uint32_t next_of_hash;
};

enum { COUNT_UNBOUNDED = UINT32_MAX };

// Between min and max items satisfy the formula.
struct array_contains {
    uint32_t formula, min, max;
};

struct array_shape {
    uint32_t *prefix; // formulas of the first items
    uint32_t n_prefix;
    uint32_t rest; // formula of all other items
    uint32_t min, max;
    struct array_contains *contains;
    uint32_t n_contains;
    const struct json_node *unique; // the keyword, or NULL
};

struct object_name {
    struct text key;
    uint32_t value; // formula; FORMULA_FALSE means that the member must be absent
    bool required;
    bool declared;                  // a `properties` names it, so it has a position in the order
    const struct json_node *source; // that `properties`; names of different `properties` may mix
};

// Members whose keys match `keys` and are not among the names.
struct object_class {
    uint32_t keys, value;
};

struct object_shape {
    struct object_name *names;
    uint32_t n_names;
    struct object_class *classes; // disjoint classes
    uint32_t n_classes;
    uint32_t rest;     // formula of members in no class
    uint32_t min, max; // number of members
    const struct json_node *min_keyword;
    struct object_class *needs; // for each, at least one member must exist
    uint32_t n_needs;
    const struct json_node *needs_keyword;
};

struct shape {
    bool null, no, yes;
    uint32_t number, string; // expressions
    struct number_form form; // spellings in which its numbers are generated
    struct array_shape *arrays;
    uint32_t n_arrays;
    struct object_shape *objects;
    uint32_t n_objects;
};

// Limits of the normal form. The error names the limit that was exceeded.
enum {
    SCHEMA_FORMULAS_MAX = 50000,
    SCHEMA_ALTERNATIVES_MAX = 4096, // arrays, or objects, in one shape
    SCHEMA_WORK_MAX = 2000000,      // names and classes that were combined
    // Memory while one schema is compiled, including its document (at most 48 MB).
    SCHEMA_BYTES_MAX = 100 << 20,
    SCHEMA_EXPANSION_DEPTH_MAX = 300,
    SCHEMA_ORDERED_PARTS_MAX = 64, // parts of an "and" whose names keep the order of the parts
};

// The formulas, hash-consed.
struct formula_table {
    struct formula *items; // [n]
    uint32_t n, n_max;
    uint32_t *buckets; // hash table
    uint32_t n_buckets;
    uint32_t innermost; // the formula being expanded now; 0: none
};

struct number_expressions {
    uint32_t any, family;
    uint32_t integer, not_integer; // expressions of this draft; EXPRESSION_NOTHING: not computed yet
};

struct schema_compiler {
    struct schema_source source;
    const struct json_schema_options *options;
    struct arena *arena;
    struct rules *rules;
    struct expressions *pool;
    struct formula_table table;
    struct number_expressions numbers;
    uint64_t work; // includes schemas compiled earlier to the same rules
    uint32_t depth;
    bool probe_failed;  // formula_is_nothing() reached a formula that is being expanded
    uint32_t n_probes;  // nested calls of formula_is_nothing()
    enum status status; // the first failure; after it all functions do nothing
    struct schema_refusal *refusal;
    struct error *error;
};

// Record failures. `keyword` is a member of a schema or part of one; the root of the document has no name.
void compiler_refuse(struct schema_compiler *compiler, const struct json_node *keyword, const char *why);
void compiler_malformed(struct schema_compiler *compiler, const struct json_node *keyword,
                        const char *expected);
// Rejects the keyword: "leads to no schema of this document", with the URI reference.
void compiler_refuse_reference(struct schema_compiler *compiler, const struct json_node *keyword);
void compiler_limit(struct schema_compiler *compiler, const char *name, uint64_t limit);
void compiler_no_memory(struct schema_compiler *compiler);
// Handles errors of expression_parse(). Lack of memory does not reject the keyword.
void compiler_refuse_pattern(struct schema_compiler *compiler, const struct json_node *keyword,
                             const struct error *why);
void *compiler_allocate(struct schema_compiler *compiler, size_t count, size_t size); // NULL: failed
// Like schema_source_resolve(). NULL: not found, or the compiler has failed.
const struct json_node *compiler_resolve(struct schema_compiler *compiler, const struct json_node *from,
                                         struct text reference);
bool compiler_work(struct schema_compiler *compiler, uint64_t amount); // false: failed

// schema_formula.c
bool formulas_init(struct schema_compiler *compiler);
uint32_t formula_schema(struct schema_compiler *compiler, const struct json_node *node);
uint32_t formula_value(struct schema_compiler *compiler, const struct json_node *node);
uint32_t formula_has(struct schema_compiler *compiler, const struct json_node *key);
// Builds FORMULA_KEYS or FORMULA_ITEMS. If the negation cannot be built, the error names `keyword`.
uint32_t formula_members(struct schema_compiler *compiler, enum formula_kind kind,
                         const struct json_node *keyword, uint32_t which, uint32_t value);
uint32_t formula_and(struct schema_compiler *compiler, uint32_t a, uint32_t b);
uint32_t formula_or(struct schema_compiler *compiler, uint32_t a, uint32_t b);
uint32_t formula_not(struct schema_compiler *compiler, uint32_t a);
// Builds the "or" of formulas of values in O(n log n); none of them is an "or". Sorts and keeps `ids`.
uint32_t formula_or_many(struct schema_compiler *compiler, uint32_t *ids, uint32_t n);

// schema_shape.c
struct shape shape_any(struct schema_compiler *compiler);
struct shape shape_intersect(struct schema_compiler *compiler, const struct shape *a, const struct shape *b);
struct shape shape_unite(struct schema_compiler *compiler, const struct shape *a, const struct shape *b);
// Sets *result to the union of *result and *part. If *result was empty or built by this function alone, n
// calls take O(n) steps.
void shape_add(struct schema_compiler *compiler, struct shape *result, const struct shape *part);
struct array_shape array_any(void);
struct object_shape object_any(void);
// All values except objects (arrays): the base for a constraint on objects (arrays) only.
struct shape shape_any_but_objects(struct schema_compiler *compiler);
struct shape shape_any_but_arrays(struct schema_compiler *compiler);
struct shape shape_of_objects(struct schema_compiler *compiler, struct object_shape object);
struct shape shape_of_arrays(struct schema_compiler *compiler, struct array_shape array);
// Returns the formula of the member with this key, whether the key is among the names or not.
uint32_t object_value(struct schema_compiler *compiler, const struct object_shape *object, struct text key);
uint32_t array_value(const struct array_shape *array, uint32_t index);
// Matches keys in no class, for `rest`. They include the names.
uint32_t object_rest_keys(struct schema_compiler *compiler, const struct object_shape *object);

// Expands the formula (formula_shape.c). NULL: the compiler has failed.
const struct shape *formula_shape(struct schema_compiler *compiler, uint32_t formula);
// True if it is proven that no value satisfies the formula. Examines `depth` levels.
bool formula_is_nothing(struct schema_compiler *compiler, uint32_t formula, uint32_t depth);

// schema_keywords.c: keywords one by one.
bool keyword_count(struct schema_compiler *compiler, const struct json_node *keyword, uint32_t *count);
// Finds the set of numbers (strings) that the keyword allows. False: it is another keyword, or has no meaning
// in this draft.
bool keyword_numbers(struct schema_compiler *compiler, const struct json_node *keyword, uint32_t *set,
                     struct number_form *form);
bool keyword_strings(struct schema_compiler *compiler, const struct json_node *keyword, uint32_t *set);
// Finds the values of the types that `type` lists and, if `others` is not NULL, all other values. False: it
// is another keyword.
bool keyword_types(struct schema_compiler *compiler, const struct json_node *keyword, struct shape *allowed,
                   struct shape *others);
// Returns the schema to which $ref, $recursiveRef or $dynamicRef refers. NULL: the compiler has failed.
const struct json_node *keyword_target(struct schema_compiler *compiler, const struct json_node *keyword);
// schema_applicators.c: keywords that apply schemas to the same value, such as allOf, $ref and if.
bool keyword_formula(struct schema_compiler *compiler, const struct json_node *keyword, uint32_t *formula);
// schema_unevaluated.c: unevaluatedItems and unevaluatedProperties.
uint32_t unevaluated_formula(struct schema_compiler *compiler, const struct json_node *keyword);
// schema_expand.c: expands a schema.
struct object_shape schema_object(struct schema_compiler *compiler, const struct json_node *schema);
struct array_shape schema_array(struct schema_compiler *compiler, const struct json_node *schema);
struct shape schema_shape(struct schema_compiler *compiler, const struct json_node *schema);
// schema_negation.c
struct shape schema_negation(struct schema_compiler *compiler, const struct json_node *schema);
struct shape members_shape(struct schema_compiler *compiler, struct formula formula);
struct shape value_shape(struct schema_compiler *compiler, const struct json_node *value);
struct shape value_negation(struct schema_compiler *compiler, const struct json_node *value);
