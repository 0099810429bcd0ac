// Decimal numbers, and equality of JSON values (json_document.h).
#include "engine/json_schema/json_document.h"

#include <string.h>

static bool read_exponent(struct text number, size_t at, int64_t *exponent)
{
    bool negative = at < number.size && number.data[at] == '-';
    if (at < number.size && (number.data[at] == '-' || number.data[at] == '+'))
        at++;
    *exponent = 0;
    for (; at < number.size; at++)
        if (*exponent < 1000000000)
            *exponent = *exponent * 10 + (number.data[at] - '0');
    if (negative)
        *exponent = -*exponent;
    return true;
}

static void strip_zeros(struct decimal *decimal)
{
    while (decimal->digits.size && decimal->digits.data[0] == '0') {
        decimal->digits.data++;
        decimal->digits.size--;
    }
    while (decimal->digits.size && decimal->digits.data[decimal->digits.size - 1] == '0') {
        decimal->digits.size--;
        decimal->exponent++;
    }
    if (!decimal->digits.size)
        decimal->exponent = 0;
}

bool decimal_read(struct text number, struct arena *arena, struct decimal *decimal)
{
    size_t at = 0, n = 0;
    int64_t exponent = 0;
    bool fraction = false;
    if (number.size > 4 * DECIMAL_DIGITS_MAX)
        return false;
    char *digits = arena_allocate(arena, number.size + 1);
    if (!digits)
        return false;
    *decimal = (struct decimal){.negative = number.size && number.data[0] == '-'};
    for (at = decimal->negative; at < number.size && number.data[at] != 'e' && number.data[at] != 'E'; at++) {
        if (number.data[at] == '.') {
            fraction = true;
            continue;
        }
        digits[n++] = number.data[at];
        decimal->exponent -= fraction;
    }
    if (at < number.size && !read_exponent(number, at + 1, &exponent))
        return false;
    decimal->digits = (struct text){digits, n};
    decimal->exponent += exponent;
    strip_zeros(decimal);
    if (!decimal->digits.size)
        decimal->negative = false;
    return decimal->digits.size <= DECIMAL_DIGITS_MAX && decimal->exponent <= DECIMAL_EXPONENT_MAX &&
           decimal->exponent >= -DECIMAL_EXPONENT_MAX;
}

static int compare_magnitude(struct decimal a, struct decimal b)
{
    if (!a.digits.size || !b.digits.size)
        return (a.digits.size > 0) - (b.digits.size > 0);
    int64_t top_a = (int64_t)a.digits.size + a.exponent, top_b = (int64_t)b.digits.size + b.exponent;
    if (top_a != top_b)
        return top_a < top_b ? -1 : 1;
    size_t shared = a.digits.size < b.digits.size ? a.digits.size : b.digits.size;
    int order = memcmp(a.digits.data, b.digits.data, shared);
    if (order)
        return order < 0 ? -1 : 1;
    return (a.digits.size > b.digits.size) - (a.digits.size < b.digits.size);
}

int decimal_compare(struct decimal a, struct decimal b)
{
    if (a.negative != b.negative)
        return a.negative ? -1 : 1;
    return a.negative ? compare_magnitude(b, a) : compare_magnitude(a, b);
}

bool decimal_is_integer(struct decimal decimal)
{
    return decimal.exponent >= 0;
}

bool decimal_to_count(struct decimal decimal, uint32_t *count)
{
    if (decimal.negative || decimal.exponent < 0 || (int64_t)decimal.digits.size + decimal.exponent > 10)
        return false;
    uint64_t value = 0;
    for (size_t i = 0; i < decimal.digits.size; i++)
        value = value * 10 + (uint64_t)(decimal.digits.data[i] - '0');
    for (int64_t i = 0; i < decimal.exponent; i++)
        value *= 10;
    *count = (uint32_t)value;
    return value < UINT32_MAX;
}

static bool numbers_equal(struct text a, struct text b, struct arena *arena)
{
    struct decimal left, right;
    if (text_equal(a, b))
        return true;
    return decimal_read(a, arena, &left) && decimal_read(b, arena, &right) &&
           decimal_compare(left, right) == 0;
}

static bool children_equal(const struct json_node *a, const struct json_node *b, struct arena *arena)
{
    if (a->n_children != b->n_children)
        return false;
    const struct json_node *other = b->first;
    for (const struct json_node *child = a->first; child; child = child->next) {
        if (a->kind == JSON_OBJECT)
            other = json_member(b, child->key);
        if (!other || !json_equal(child, other, arena))
            return false;
        if (a->kind == JSON_ARRAY)
            other = other->next;
    }
    return true;
}

bool json_equal(const struct json_node *a, const struct json_node *b, struct arena *arena)
{
    if (a->kind != b->kind)
        return false;
    switch (a->kind) {
    case JSON_NULL:
    case JSON_FALSE:
    case JSON_TRUE:
        return true;
    case JSON_NUMBER:
        return numbers_equal(a->text, b->text, arena);
    case JSON_STRING:
        return text_equal(a->text, b->text);
    case JSON_ARRAY:
    case JSON_OBJECT:
        return children_equal(a, b, arena);
    }
    return false;
}
