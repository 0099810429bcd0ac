// Values of the interpreter, which correspond to Python's objects. They are small and copied. Their contents
// are in the rendering's arena, in the template or in the caller's variables. Contents are immutable, except
// for namespaces, cyclers, joiners, loops and generators. So lists and dicts never form cycles; only a
// namespace can.
#pragma once

#include "schemas/base/text.h"
#include "schemas/value.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rendering;
struct function;

enum object_kind {
    OBJECT_MISSING, // no value: an unset variable, an omitted argument
    OBJECT_UNDEFINED,
    OBJECT_NONE,
    OBJECT_BOOL,
    OBJECT_INTEGER,
    OBJECT_FLOAT,
    OBJECT_LONG, // an integer beyond 64 bits: its digits and, for arithmetic with floats, its rounded number
    OBJECT_STRING,
    OBJECT_LIST,
    OBJECT_TUPLE,
    OBJECT_DICT,
    OBJECT_RANGE,
    OBJECT_VIEW, // keys(), values() or items() of a dict
    OBJECT_GENERATOR,
    OBJECT_NAMESPACE,
    OBJECT_LOOP,
    OBJECT_MACRO,
    OBJECT_CYCLER,
    OBJECT_JOINER,
    OBJECT_FUNCTION, // a global function, or a method with its object
};

// Why a value is undefined; selects the text of the error raised on use.
enum undefined_reason {
    UNDEFINED_NAME,      // text: the variable's name
    UNDEFINED_ATTRIBUTE, // text: the attribute; `owner`: what lacks it
    UNDEFINED_ELEMENT,   // text: how the index prints; `owner`: what lacks it
    UNDEFINED_HINT,      // text: the whole message
    UNDEFINED_UNSAFE,    // text: the attribute that the sandbox refuses; `owner`
};

enum view_kind { VIEW_KEYS, VIEW_VALUES, VIEW_ITEMS };

enum { TUPLE_PLAIN, TUPLE_GROUP }; // a group of groupby: its items also have the names `grouper` and `list`

struct object {
    uint8_t kind;   // enum object_kind
    uint8_t detail; // enum undefined_reason, enum view_kind; TUPLE_GROUP for a tuple
    uint8_t owner;  // enum object_kind of the owner of an undefined attribute
    bool markup;    // markup-safe string: `escape` does not change it
    union {
        bool boolean;
        int64_t integer;
        struct {
            double number;
            // Spelling of a JSON number, if `number` would be printed differently; else NULL. For
            // OBJECT_LONG: "-12".
            const char *digits;
        };
        struct text text; // UTF-8
        const struct object_sequence *sequence;
        struct dict *dict; // dict, view, namespace
        const struct range *range;
        struct generator *generator;
        struct loop *loop;
        const struct macro *macro;
        struct cycle *cycle; // cycler, joiner
        const struct bound_function *function;
    };
};

// cycler(...): items[position] is the current item. joiner(separator): items[0] is printed, except at
// position 0.
struct cycle {
    const struct object *items;
    size_t n_items, position;
};

struct object_sequence {
    size_t n_items;
    const struct object *items;
};

// Namespace entries are mutable; a dict is frozen after its first use.
struct dict_entry {
    struct object key, value;
};

struct dict {
    struct dict_entry *entries; // in order of insertion
    uint32_t n_entries, capacity;
};

struct range {
    int64_t start, stop, step; // step is not 0
    int64_t n_items;
};

struct bound_function {
    const struct function *function;
    struct object self; // MISSING for a global function
};

#define OBJECT_NONE_VALUE ((struct object){.kind = OBJECT_NONE})

static inline struct object object_bool(bool boolean)
{
    return (struct object){.kind = OBJECT_BOOL, .boolean = boolean};
}

static inline struct object object_integer(int64_t integer)
{
    return (struct object){.kind = OBJECT_INTEGER, .integer = integer};
}

static inline struct object object_float(double number)
{
    return (struct object){.kind = OBJECT_FLOAT, .number = number};
}

static inline struct object object_string(struct text text)
{
    return (struct object){.kind = OBJECT_STRING, .text = text};
}

static inline struct object object_undefined(enum undefined_reason reason, struct text text)
{
    return (struct object){.kind = OBJECT_UNDEFINED, .detail = (uint8_t)reason, .text = text};
}

static inline struct object object_undefined_hint(const char *hint) // hint: a string literal
{
    return object_undefined(UNDEFINED_HINT, text_from_string(hint));
}

static inline bool object_is_sequence(const struct object *object)
{
    return object->kind == OBJECT_LIST || object->kind == OBJECT_TUPLE;
}

// Makes an integer beyond 64 bits from a copy of its digits, "-12345678901234567890".
struct object object_long(struct rendering *rendering, const char *digits);

// True and False are the integers 1 and 0 to Python's arithmetic, comparison and indexing.
static inline bool object_is_integral(const struct object *object)
{
    return object->kind == OBJECT_INTEGER || object->kind == OBJECT_BOOL;
}

static inline bool object_is_number(const struct object *object)
{
    return object_is_integral(object) || object->kind == OBJECT_FLOAT || object->kind == OBJECT_LONG;
}

static inline int64_t object_to_integer(const struct object *integral)
{
    return integral->kind == OBJECT_BOOL ? integral->boolean : integral->integer;
}

static inline double object_to_double(const struct object *number)
{
    return object_is_integral(number) ? (double)object_to_integer(number) : number->number;
}

const char *object_type_name(const struct object *object); // as Python's type(x).__name__
bool object_truth(const struct object *object);
int64_t object_length(struct rendering *rendering, const struct object *object); // len(x); -1: no length

// The functions below fail when the nesting is too deep or Python would raise.
bool object_equal(struct rendering *rendering, const struct object *a, const struct object *b);
// Returns a negative number, 0 or a positive number. Fails for kinds without an order; `symbol` is the
// operator in the message.
int object_compare(struct rendering *rendering, const struct object *a, const struct object *b,
                   const char *symbol);

// Fails with the message of jinja's UndefinedError for this value, or of its SecurityError.
_Noreturn void object_fail_undefined(struct rendering *rendering, const struct object *undefined);
static inline void object_check_defined(struct rendering *rendering, const struct object *object)
{
    if (object->kind == OBJECT_UNDEFINED)
        object_fail_undefined(rendering, object);
}

// Converts a JSON-like value to an object. It shares strings with `value`, which must outlive the rendering.
struct object object_from_value(struct rendering *rendering, const struct value *value);
