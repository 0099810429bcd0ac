#include "engine/template/operators.h"
#include "engine/template/container.h"
#include "engine/template/format.h"
#include "engine/template/iterator.h"
#include "engine/template/rendering.h"
#include "engine/template/represent.h"

#include <math.h>
#include <string.h>

static const char *const symbols[] = {
    [OPERATOR_ADD] = "+",
    [OPERATOR_SUBTRACT] = "-",
    [OPERATOR_MULTIPLY] = "*",
    [OPERATOR_DIVIDE] = "/",
    [OPERATOR_FLOOR_DIVIDE] = "//",
    [OPERATOR_MODULO] = "%",
    [OPERATOR_POWER] = "** or pow()",
    [OPERATOR_EQUAL] = "==",
    [OPERATOR_NOT_EQUAL] = "!=",
    [OPERATOR_LESS] = "<",
    [OPERATOR_LESS_EQUAL] = "<=",
    [OPERATOR_GREATER] = ">",
    [OPERATOR_GREATER_EQUAL] = ">=",
    [OPERATOR_IN] = "in",
    [OPERATOR_NOT_IN] = "not in",
};

static _Noreturn void fail_operands(struct rendering *rendering, enum operator operator,
                                    const struct object * a, const struct object *b)
{
    object_check_defined(rendering, a);
    object_check_defined(rendering, b);
    if (operator== OPERATOR_ADD && a->kind == OBJECT_STRING)
        rendering_fail(rendering, "can only concatenate str (not \"%s\") to str", object_type_name(b));
    rendering_fail(rendering, "unsupported operand type(s) for %s: '%s' and '%s'", symbols[operator],
                   object_type_name(a), object_type_name(b));
}

static struct object checked_integer(struct rendering *rendering, bool overflow, int64_t integer)
{
    if (overflow)
        rendering_fail_limit(rendering, "an integer beyond 64 bits");
    return object_integer(integer);
}

// Computes the floor quotient or its remainder, as Python defines them. INT64_MIN / -1 would trap.
static struct object divide_integers(struct rendering *rendering, bool want_quotient, int64_t a, int64_t b)
{
    if (b == -1) {
        int64_t negative = 0;
        bool overflow = want_quotient && __builtin_sub_overflow(0, a, &negative);
        return checked_integer(rendering, overflow, negative);
    }
    int64_t quotient = a / b, remainder = a % b;
    if (remainder != 0 && (remainder < 0) != (b < 0)) {
        remainder += b;
        quotient--;
    }
    return object_integer(want_quotient ? quotient : remainder);
}

// Floor quotient or its remainder of floats: Python's float_divmod.
static struct object divide_floats(bool want_quotient, double a, double b)
{
    double remainder = fmod(a, b), quotient = (a - remainder) / b;
    if (remainder != 0 && (b < 0) != (remainder < 0)) {
        remainder += b;
        quotient -= 1;
    } else if (remainder == 0) {
        remainder = copysign(0, b);
    }
    if (!want_quotient)
        return object_float(remainder);
    double whole = floor(quotient);
    if (quotient == 0)
        return object_float(copysign(0, a / b));
    return object_float(quotient - whole > 0.5 ? whole + 1 : whole);
}

// Divides integers with a single rounding, as Python divides integers of any size.
static struct object divide_exactly(int64_t a, int64_t b)
{
    uint64_t x = a < 0 ? 0 - (uint64_t)a : (uint64_t)a, y = b < 0 ? 0 - (uint64_t)b : (uint64_t)b;
    if (!x)
        return object_float(b < 0 ? -0.0 : 0.0);
    int shift = __builtin_clzll(x);
    unsigned __int128 wide = (unsigned __int128)(x << shift) << 64, quotient = wide / y;
    quotient |= quotient * y != wide;
    double magnitude = ldexp((double)quotient, -64 - shift);
    return object_float((a < 0) != (b < 0) ? -magnitude : magnitude);
}

static struct object raise_float(struct rendering *rendering, double a, double b)
{
    double power = pow(a, b);
    if (a == 0 && b < 0)
        rendering_fail(rendering, "0.0 cannot be raised to a negative power");
    if (isnan(power) && !isnan(a) && !isnan(b))
        rendering_fail(rendering, "a power that is a complex number is not supported in templates");
    if (isinf(power) && isfinite(a) && isfinite(b))
        rendering_fail(rendering, "a power that is too large for a float");
    return object_float(power);
}

static struct object raise_integer(struct rendering *rendering, int64_t a, int64_t b)
{
    int64_t power = 1;
    if (b < 0)
        return raise_float(rendering, (double)a, (double)b);
    for (bool overflow = false; b; b >>= 1) {
        if (b & 1)
            overflow = __builtin_mul_overflow(power, a, &power);
        if (!overflow && b > 1)
            overflow = __builtin_mul_overflow(a, a, &a);
        if (overflow)
            checked_integer(rendering, true, 0);
    }
    return object_integer(power);
}

static struct object calculate_floats(struct rendering *rendering, enum operator operator, double a, double b)
{
    switch (operator) {
    case OPERATOR_ADD:
        return object_float(a + b);
    case OPERATOR_SUBTRACT:
        return object_float(a - b);
    case OPERATOR_MULTIPLY:
        return object_float(a * b);
    case OPERATOR_DIVIDE:
        return object_float(a / b);
    case OPERATOR_POWER:
        return raise_float(rendering, a, b);
    default:
        return divide_floats(operator== OPERATOR_FLOOR_DIVIDE, a, b);
    }
}

static struct object calculate_integers(struct rendering *rendering, enum operator operator, int64_t a,
                                        int64_t b)
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
        return divide_exactly(a, b);
    case OPERATOR_POWER:
        return raise_integer(rendering, a, b);
    default:
        return divide_integers(rendering, operator== OPERATOR_FLOOR_DIVIDE, a, b);
    }
    return checked_integer(rendering, overflow, integer);
}

static struct object calculate_number(struct rendering *rendering, enum operator operator,
                                      const struct object * a, const struct object *b)
{
    if (operator>= OPERATOR_DIVIDE && operator<= OPERATOR_MODULO && object_to_double(b) == 0)
        rendering_fail(rendering, "division by zero");
    bool is_long = a->kind == OBJECT_LONG || b->kind == OBJECT_LONG;
    if (is_long && a->kind != OBJECT_FLOAT && b->kind != OBJECT_FLOAT)
        rendering_fail_limit(rendering, "arithmetic with an integer beyond 64 bits");
    if (object_is_integral(a) && object_is_integral(b))
        return calculate_integers(rendering, operator, object_to_integer(a), object_to_integer(b));
    return calculate_floats(rendering, operator, object_to_double(a), object_to_double(b));
}

static struct object join_sequences(struct rendering *rendering, const struct object *a,
                                    const struct object *b)
{
    const struct object_sequence *left = a->sequence, *right = b->sequence;
    size_t n = left->n_items + right->n_items; // both are in memory: no overflow
    struct object *items, joined = list_allocate(rendering, n, (enum object_kind)a->kind, &items);
    if (left->n_items)
        memcpy(items, left->items, left->n_items * sizeof *items);
    if (right->n_items)
        memcpy(items + left->n_items, right->items, right->n_items * sizeof *items);
    return joined;
}

struct object operator_repeat_text(struct rendering *rendering, struct text text, int64_t n)
{
    size_t start = rendering->text.size;
    if (n > 0 && text.size > 0 && (size_t)n > TEMPLATE_OUTPUT_BYTES_MAX / text.size)
        rendering_fail_limit(rendering, "text longer than %d bytes", TEMPLATE_OUTPUT_BYTES_MAX);
    for (int64_t i = 0; text.size && i < n; i++)
        rendering_add_text(rendering, text);
    rendering_spend(rendering, n > 0 && text.size ? (size_t)n / 8 : 0);
    return rendering_take(rendering, start);
}

static struct object repeat_sequence(struct rendering *rendering, const struct object *sequence, int64_t n)
{
    const struct object_sequence *one = sequence->sequence;
    size_t total;
    if (__builtin_mul_overflow(one->n_items, n < 0 ? 0 : (size_t)n, &total))
        total = SIZE_MAX;
    struct object *items, list = list_allocate(rendering, total, (enum object_kind)sequence->kind, &items);
    for (size_t i = 0; i < total; i++)
        items[i] = one->items[i % one->n_items];
    rendering_spend(rendering, total);
    return list;
}

static struct object repeat_object(struct rendering *rendering, const struct object *a,
                                   const struct object *b)
{
    const struct object *repeated = object_is_integral(b) ? a : b, *times = object_is_integral(b) ? b : a;
    if (object_is_integral(times) && object_is_sequence(repeated))
        return repeat_sequence(rendering, repeated, object_to_integer(times));
    if (object_is_integral(times) && repeated->kind == OBJECT_STRING)
        return operator_repeat_text(rendering, repeated->text, object_to_integer(times));
    fail_operands(rendering, OPERATOR_MULTIPLY, a, b);
}

static struct object add_strings(struct rendering *rendering, const struct object *a, const struct object *b)
{
    struct object left = *a, right = *b;
    bool markup = a->markup || b->markup; // then the other operand is escaped
    if (markup) {
        left = represent_escape(rendering, a);
        right = represent_escape(rendering, b);
    }
    struct object string = rendering_concatenate(rendering, left.text, right.text);
    string.markup = markup;
    return string;
}

struct object operator_arithmetic(struct rendering *rendering, enum operator operator,
                                  const struct object * a, const struct object *b)
{
    if (object_is_number(a) && object_is_number(b))
        return calculate_number(rendering, operator, a, b);
    if (operator== OPERATOR_ADD && a->kind == OBJECT_STRING && b->kind == OBJECT_STRING)
        return add_strings(rendering, a, b);
    if (operator== OPERATOR_ADD && a->kind == b->kind && object_is_sequence(a))
        return join_sequences(rendering, a, b);
    if (operator== OPERATOR_MULTIPLY)
        return repeat_object(rendering, a, b);
    if (operator== OPERATOR_MODULO && a->kind == OBJECT_STRING)
        return format_printf(rendering, a->text, b);
    fail_operands(rendering, operator, a, b);
}

static bool contains_text(struct rendering *rendering, const struct object *item, struct text container)
{
    if (item->kind != OBJECT_STRING)
        rendering_fail(rendering, "'in <string>' requires string as left operand, not %s",
                       object_type_name(item));
    rendering_spend_bytes(rendering, container.size);
    return !item->text.size ||
           (container.size && memmem(container.data, container.size, item->text.data, item->text.size));
}

static bool contains_item(struct rendering *rendering, const struct object *item,
                          const struct object *container)
{
    if (container->kind == OBJECT_STRING)
        return contains_text(rendering, item, container->text);
    if (container->kind == OBJECT_DICT || (container->kind == OBJECT_VIEW && container->detail == VIEW_KEYS))
        return dict_find(rendering, container->dict, item);
    if (!iterator_possible(container))
        rendering_fail(rendering, "argument of type '%s' is not iterable", object_type_name(container));
    struct iterator iterator = iterator_start(rendering, container);
    struct object candidate;
    while (iterator_next(rendering, &iterator, &candidate))
        if (object_equal(rendering, item, &candidate))
            return true;
    return false;
}

bool operator_compare(struct rendering *rendering, enum operator operator, const struct object * a,
                      const struct object *b)
{
    if (operator== OPERATOR_EQUAL || operator== OPERATOR_NOT_EQUAL)
        return object_equal(rendering, a, b) == (operator== OPERATOR_EQUAL);
    if (operator== OPERATOR_IN || operator== OPERATOR_NOT_IN)
        return contains_item(rendering, a, b) == (operator== OPERATOR_IN);
    int order = object_compare(rendering, a, b, symbols[operator]);
    if ((a->kind == OBJECT_FLOAT && isnan(a->number)) || (b->kind == OBJECT_FLOAT && isnan(b->number)))
        return false;
    return (operator== OPERATOR_LESS && order<0) || (operator== OPERATOR_LESS_EQUAL && order <= 0) ||
           (operator== OPERATOR_GREATER && order> 0) || (operator== OPERATOR_GREATER_EQUAL && order >= 0);
}

static struct object negative_long(struct rendering *rendering, const char *digits)
{
    if (*digits == '-')
        return object_long(rendering, digits + 1);
    if (strcmp(digits, "9223372036854775808") == 0)
        return object_integer(INT64_MIN);
    char *negative = rendering_allocate(rendering, strlen(digits) + 2);
    negative[0] = '-';
    strcpy(negative + 1, digits);
    return object_long(rendering, negative);
}

struct object operator_sign(struct rendering *rendering, const struct object *a, bool is_negative)
{
    int64_t integer;
    object_check_defined(rendering, a);
    if (!object_is_number(a))
        rendering_fail(rendering, "bad operand type for unary %c: '%s'", is_negative ? '-' : '+',
                       object_type_name(a));
    if (a->kind == OBJECT_FLOAT)
        return object_float(is_negative ? -a->number : a->number);
    if (a->kind == OBJECT_LONG)
        return is_negative ? negative_long(rendering, a->digits) : *a;
    if (!is_negative)
        return object_integer(object_to_integer(a));
    if (__builtin_sub_overflow(0, object_to_integer(a), &integer))
        return object_long(rendering, "9223372036854775808");
    return object_integer(integer);
}
