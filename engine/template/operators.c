#include "engine/template/operators.h"
#include "engine/template/container.h"
#include "engine/template/iterator.h"
#include "engine/template/rendering.h"
#include "engine/template/represent.h"

#include <math.h>
#include <string.h>

#define EXACT (1ll << 53) // integers up to here are doubles

static const char *const symbols[] = {
    [OPERATOR_ADD] = "+",         [OPERATOR_SUBTRACT] = "-",      [OPERATOR_MULTIPLY] = "*",
    [OPERATOR_DIVIDE] = "/",      [OPERATOR_FLOOR_DIVIDE] = "//", [OPERATOR_MODULO] = "%",
    [OPERATOR_EQUAL] = "==",      [OPERATOR_NOT_EQUAL] = "!=",    [OPERATOR_LESS] = "<",
    [OPERATOR_LESS_EQUAL] = "<=", [OPERATOR_GREATER] = ">",       [OPERATOR_GREATER_EQUAL] = ">=",
    [OPERATOR_IN] = "in",         [OPERATOR_NOT_IN] = "not in",
};

static bool fail_operands(struct rendering *rendering, enum operator operator, const struct object * a,
                          const struct object *b)
{
    if (a->kind == OBJECT_UNDEFINED || b->kind == OBJECT_UNDEFINED)
        return object_fail_undefined(rendering, a->kind == OBJECT_UNDEFINED ? a : b);
    if (operator== OPERATOR_ADD && a->kind == OBJECT_STRING)
        return rendering_fail(rendering, "can only concatenate str (not \"%s\") to str", object_type_name(b));
    return rendering_fail(rendering, "unsupported operand type(s) for %s: '%s' and '%s'", symbols[operator],
                          object_type_name(a), object_type_name(b));
}

static bool fail_overflow(struct rendering *rendering)
{
    return rendering_fail_limit(rendering, "an integer beyond 64 bits");
}

static bool fail_zero(struct rendering *rendering)
{
    return rendering_fail(rendering, "division by zero");
}

// Quotient rounded down and the remainder that goes with it, both as Python defines them.
static bool divide_integers(struct rendering *rendering, bool want_quotient, int64_t a, int64_t b,
                            struct object *result)
{
    if (b == 0)
        return fail_zero(rendering);
    if (b == -1) { // INT64_MIN / -1 traps
        int64_t quotient;
        if (want_quotient && __builtin_sub_overflow(0, a, &quotient))
            return fail_overflow(rendering);
        *result = object_integer(want_quotient ? quotient : 0);
        return true;
    }
    int64_t quotient = a / b, remainder = a % b;
    if (remainder != 0 && (remainder < 0) != (b < 0)) {
        remainder += b;
        quotient--;
    }
    *result = object_integer(want_quotient ? quotient : remainder);
    return true;
}

static bool calculate_floats(struct rendering *rendering, enum operator operator, double a, double b,
                             struct object *result)
{
    switch (operator) {
    case OPERATOR_ADD:
        *result = object_float(a + b);
        return true;
    case OPERATOR_SUBTRACT:
        *result = object_float(a - b);
        return true;
    case OPERATOR_MULTIPLY:
        *result = object_float(a * b);
        return true;
    case OPERATOR_DIVIDE:
        *result = object_float(b == 0 ? 0 : a / b);
        return b != 0 || fail_zero(rendering);
    default:
        return rendering_fail(rendering, "'%s' of floats is not supported in chat templates",
                              symbols[operator]);
    }
}

static bool calculate_integers(struct rendering *rendering, enum operator operator, int64_t a, int64_t b,
                               struct object *result)
{
    int64_t integer;
    bool overflow;
    switch (operator) {
    case OPERATOR_ADD:
        overflow = __builtin_add_overflow(a, b, &integer);
        break;
    case OPERATOR_SUBTRACT:
        overflow = __builtin_sub_overflow(a, b, &integer);
        break;
    case OPERATOR_MULTIPLY:
        overflow = __builtin_mul_overflow(a, b, &integer);
        break;
    case OPERATOR_DIVIDE:
        if (a > EXACT || a < -EXACT || b > EXACT || b < -EXACT)
            return rendering_fail_limit(rendering, "a division of integers beyond 2^53");
        return calculate_floats(rendering, OPERATOR_DIVIDE, (double)a, (double)b, result);
    default:
        return divide_integers(rendering, operator== OPERATOR_FLOOR_DIVIDE, a, b, result);
    }
    *result = object_integer(integer);
    return !overflow || fail_overflow(rendering);
}

static bool join_sequences(struct rendering *rendering, const struct object *a, const struct object *b,
                           struct object *result)
{
    const struct sequence *left = a->sequence, *right = b->sequence;
    struct object *items;
    size_t n = left->n_items + right->n_items; // both are in memory: no overflow
    if (!list_allocate(rendering, n, (enum object_kind)a->kind, &items, result))
        return false;
    if (left->n_items)
        memcpy(items, left->items, left->n_items * sizeof *items);
    if (right->n_items)
        memcpy(items + left->n_items, right->items, right->n_items * sizeof *items);
    return true;
}

bool operator_repeat_text(struct rendering *rendering, struct text text, int64_t n, struct object *result)
{
    size_t start = rendering->text.size;
    if (n > 0 && text.size > 0 && (size_t)n > TEMPLATE_OUTPUT_BYTES_MAX / text.size)
        return rendering_fail_limit(rendering, "text longer than %d bytes", TEMPLATE_OUTPUT_BYTES_MAX);
    for (int64_t i = 0; text.size && i < n; i++)
        rendering_add_text(rendering, text);
    return rendering_spend(rendering, n > 0 && text.size ? (size_t)n / 8 : 0) &&
           rendering_take(rendering, start, result);
}

static bool repeat_sequence(struct rendering *rendering, const struct object *sequence, int64_t n,
                            struct object *result)
{
    const struct sequence *one = sequence->sequence;
    struct object *items;
    size_t total;
    if (n < 0)
        n = 0;
    if (__builtin_mul_overflow(one->n_items, (size_t)n, &total))
        total = SIZE_MAX;
    if (!list_allocate(rendering, total, (enum object_kind)sequence->kind, &items, result))
        return false;
    for (size_t i = 0; i < total; i++)
        items[i] = one->items[i % one->n_items];
    return rendering_spend(rendering, total);
}

static bool repeat(struct rendering *rendering, const struct object *a, const struct object *b,
                   struct object *result)
{
    const struct object *repeated = object_is_integral(b) ? a : b, *times = object_is_integral(b) ? b : a;
    if (object_is_integral(times)) {
        int64_t n = object_to_integer(times);
        if (object_is_sequence(repeated))
            return repeat_sequence(rendering, repeated, n, result);
        if (repeated->kind == OBJECT_STRING)
            return operator_repeat_text(rendering, repeated->text, n, result);
    }
    return fail_operands(rendering, OPERATOR_MULTIPLY, a, b);
}

static bool add_strings(struct rendering *rendering, const struct object *a, const struct object *b,
                        struct object *result)
{
    struct object left = *a, right = *b;
    bool markup = a->markup || b->markup; // then the other side is escaped
    if (markup && (!represent_escape(rendering, a, &left) || !represent_escape(rendering, b, &right)))
        return false;
    if (!rendering_concatenate(rendering, left.text, right.text, result))
        return false;
    result->markup = markup;
    return true;
}

bool operator_arithmetic(struct rendering *rendering, enum operator operator, const struct object * a,
                         const struct object *b, struct object *result)
{
    if (object_is_integral(a) && object_is_integral(b))
        return calculate_integers(rendering, operator, object_to_integer(a), object_to_integer(b), result);
    if (object_is_number(a) && object_is_number(b))
        return calculate_floats(rendering, operator, object_to_double(a), object_to_double(b), result);
    switch (operator) {
    case OPERATOR_ADD:
        if (a->kind == OBJECT_STRING && b->kind == OBJECT_STRING)
            return add_strings(rendering, a, b, result);
        if (a->kind == b->kind && object_is_sequence(a))
            return join_sequences(rendering, a, b, result);
        break;
    case OPERATOR_MULTIPLY:
        return repeat(rendering, a, b, result);
    case OPERATOR_MODULO:
        if (a->kind == OBJECT_STRING)
            return rendering_fail(rendering, "%% with text on its left is not supported in chat templates");
        break;
    default:
        break;
    }
    return fail_operands(rendering, operator, a, b);
}

static bool contains_text(struct rendering *rendering, const struct object *item, struct text container,
                          bool *result)
{
    if (item->kind != OBJECT_STRING)
        return rendering_fail(rendering, "'in <string>' requires string as left operand, not %s",
                              object_type_name(item));
    *result = !item->text.size ||
              (container.size && memmem(container.data, container.size, item->text.data, item->text.size));
    return rendering_spend_bytes(rendering, container.size);
}

static bool contains_by_search(struct rendering *rendering, const struct object *item,
                               const struct object *container, bool *result)
{
    struct iterator iterator;
    *result = false;
    if (!iterator_start(rendering, container, &iterator))
        return false;
    for (;;) {
        struct object candidate;
        bool more;
        if (!iterator_next(rendering, &iterator, &candidate, &more))
            return false;
        if (!more)
            return true;
        if (!object_equal(rendering, item, &candidate, result))
            return false;
        if (*result)
            return true;
    }
}

bool operator_contains(struct rendering *rendering, const struct object *item, const struct object *container,
                       bool *result)
{
    const struct object *value;
    if (container->kind == OBJECT_STRING)
        return contains_text(rendering, item, container->text, result);
    if (container->kind == OBJECT_DICT ||
        (container->kind == OBJECT_VIEW && container->detail == VIEW_KEYS)) {
        if (!dict_find(rendering, container->dict, item, &value))
            return false;
        *result = value;
        return true;
    }
    if (!iterator_possible(container))
        return rendering_fail(rendering, "argument of type '%s' is not iterable",
                              object_type_name(container));
    return contains_by_search(rendering, item, container, result);
}

bool operator_compare(struct rendering *rendering, enum operator operator, const struct object * a,
                      const struct object *b, bool *result)
{
    int order;
    switch (operator) {
    case OPERATOR_EQUAL:
        return object_equal(rendering, a, b, result);
    case OPERATOR_NOT_EQUAL:
        if (!object_equal(rendering, a, b, result))
            return false;
        *result = !*result;
        return true;
    case OPERATOR_IN:
        return operator_contains(rendering, a, b, result);
    case OPERATOR_NOT_IN:
        if (!operator_contains(rendering, a, b, result))
            return false;
        *result = !*result;
        return true;
    default:
        break;
    }
    if (!object_compare(rendering, a, b, symbols[operator], &order))
        return false;
    bool nan = (a->kind == OBJECT_FLOAT && isnan(a->number)) || (b->kind == OBJECT_FLOAT && isnan(b->number));
    *result = !nan && (operator== OPERATOR_LESS       ? order < 0 :
                       operator== OPERATOR_LESS_EQUAL ? order <= 0
                       :
                       operator== OPERATOR_GREATER ? order > 0
                                                   : order >= 0);
    return true;
}

bool operator_negative(struct rendering *rendering, const struct object *a, struct object *result)
{
    if (!object_is_number(a))
        return a->kind == OBJECT_UNDEFINED
                   ? object_fail_undefined(rendering, a)
                   : rendering_fail(rendering, "bad operand type for unary -: '%s'", object_type_name(a));
    if (a->kind == OBJECT_FLOAT) {
        *result = object_float(-a->number);
        return true;
    }
    int64_t integer;
    if (__builtin_sub_overflow(0, object_to_integer(a), &integer))
        return fail_overflow(rendering);
    *result = object_integer(integer);
    return true;
}
