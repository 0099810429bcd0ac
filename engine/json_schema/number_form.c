// The spellings in which numbers are generated (json_number.h).
#include "engine/json_schema/json_number.h"

static const char int64_digits[] = "9223372036854775807";

enum { INT64_DIGITS = sizeof int64_digits - 1 };

static uint32_t digit_set(struct expressions *pool, int first, int last)
{
    struct code_range range = {(uint32_t)('0' + first), (uint32_t)('0' + last)};
    return first > last ? EXPRESSION_NOTHING : expression_set(pool, &range, 1);
}

static uint32_t repeat_digit(struct expressions *pool, uint32_t min, uint32_t max)
{
    return expression_repeat(pool, digit_set(pool, 0, 9), min, max);
}

static uint32_t make_optional(struct expressions *pool, uint32_t a)
{
    return expression_either(pool, EXPRESSION_EMPTY, a);
}

static uint32_t one_of(struct expressions *pool, char a, char b)
{
    struct code_range ranges[] = {{(uint32_t)a, (uint32_t)a}, {(uint32_t)b, (uint32_t)b}};
    return expression_set(pool, ranges, 2);
}

static uint32_t literal_text(struct expressions *pool, const char *text)
{
    return expression_literal(pool, text_from_string(text));
}

// Matches 1 to the largest int64 digit by digit: after the first smaller digit all others are free.
static uint32_t positive_int64(struct expressions *pool)
{
    uint32_t result = EXPRESSION_EMPTY;
    for (uint32_t i = INT64_DIGITS; i-- > 0;) {
        int digit = int64_digits[i] - '0';
        uint32_t less = expression_concat(pool, digit_set(pool, i == 0, digit - 1),
                                          repeat_digit(pool, INT64_DIGITS - 1 - i, INT64_DIGITS - 1 - i));
        result =
            expression_either(pool, less, expression_concat(pool, digit_set(pool, digit, digit), result));
    }
    uint32_t shorter =
        expression_concat(pool, digit_set(pool, 1, 9), repeat_digit(pool, 0, INT64_DIGITS - 2));
    return expression_either(pool, shorter, result);
}

static uint32_t positive_integer(struct expressions *pool, uint32_t n_digits)
{
    return n_digits ? expression_concat(pool, digit_set(pool, 1, 9), repeat_digit(pool, 0, n_digits - 1))
                    : positive_int64(pool);
}

static uint32_t larger_of(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

// Matches numbers such as 1, -7 and 0 and, with `has_fraction`, 0.5 and -1.25.
static uint32_t shortest_number(struct expressions *pool, struct number_form form, bool has_fraction)
{
    uint32_t zero = digit_set(pool, 0, 0), minus = literal_text(pool, "-");
    uint32_t whole = positive_integer(pool, form.n_whole), below = positive_integer(pool, form.n_negative);
    uint32_t signed_whole = expression_either(pool, whole, expression_concat(pool, minus, below));
    uint32_t integer = expression_either(pool, zero, signed_whole);
    if (!has_fraction)
        return integer;
    uint32_t n = larger_of(form.n_fraction, NUMBER_FRACTION_DIGITS);
    uint32_t signed_zero = expression_concat(pool, make_optional(pool, minus), zero);
    uint32_t parts[] = {expression_either(pool, signed_zero, signed_whole), literal_text(pool, "."),
                        repeat_digit(pool, 0, n - 1), digit_set(pool, 1, 9)};
    return expression_either(pool, integer, expression_concat_many(pool, parts, 4));
}

// Matches exponents that a double can hold with any mantissa: -307 to 307.
static uint32_t exponent_part(struct expressions *pool)
{
    uint32_t parts[] = {repeat_digit(pool, 1, 2),
                        expression_concat(pool, digit_set(pool, 1, 2), repeat_digit(pool, 2, 2)),
                        expression_concat(pool, literal_text(pool, "30"), digit_set(pool, 0, 7))};
    uint32_t sign = make_optional(pool, one_of(pool, '+', '-'));
    return expression_concat(pool, one_of(pool, 'e', 'E'),
                             expression_concat(pool, sign, expression_either_many(pool, parts, 3)));
}

static uint32_t decimal_number(struct expressions *pool, struct number_form form)
{
    uint32_t point = literal_text(pool, "."), n = larger_of(form.n_fraction, NUMBER_FRACTION_DIGITS);
    uint32_t whole = expression_either(
        pool, digit_set(pool, 0, 0),
        expression_concat(
            pool, digit_set(pool, 1, 9),
            repeat_digit(pool, 0, larger_of(larger_of(form.n_whole, form.n_negative), INT64_DIGITS) - 1)));
    uint32_t plain =
        expression_concat(pool, whole,
                          make_optional(pool, expression_concat(pool, point, repeat_digit(pool, 1, n))));
    uint32_t mantissa = expression_concat(
        pool, digit_set(pool, 1, 9),
        make_optional(pool, expression_concat(pool, point, repeat_digit(pool, 1, NUMBER_MANTISSA_DIGITS))));
    uint32_t scientific = expression_concat(pool, mantissa, exponent_part(pool));
    return expression_concat(pool, make_optional(pool, literal_text(pool, "-")),
                             expression_either(pool, plain, scientific));
}

uint32_t number_generated(struct expressions *pool, struct number_form form)
{
    return form.spelling == NUMBER_DECIMAL ? decimal_number(pool, form)
                                           : shortest_number(pool, form, form.spelling == NUMBER_SHORTEST);
}

// Returns the number of whole digits if the value is beyond int64, else 0.
static uint32_t whole_beyond_int64(struct decimal value)
{
    struct decimal largest = {.digits = text_from_string(int64_digits)};
    value.negative = false;
    return decimal_compare(value, largest) > 0 ? (uint32_t)((int64_t)value.digits.size + value.exponent) : 0;
}

static uint32_t fraction_digits(struct decimal value)
{
    return value.exponent < 0 ? (uint32_t)-value.exponent : 0;
}

static struct number_form make_form(enum number_spelling spelling, bool is_negative, uint32_t n_whole,
                                    uint32_t n_fraction)
{
    return (struct number_form){spelling, is_negative ? 0 : n_whole, is_negative ? n_whole : 0, n_fraction};
}

struct number_form number_form_of_value(struct decimal value)
{
    return make_form(decimal_is_integer(value) ? NUMBER_INTEGER : NUMBER_SHORTEST, value.negative,
                     whole_beyond_int64(value), fraction_digits(value));
}

struct number_form number_form_of_bound(enum number_bound bound, struct decimal limit)
{
    bool above = bound == NUMBER_AT_LEAST || bound == NUMBER_MORE, has_larger = above != limit.negative;
    uint32_t n = whole_beyond_int64(limit), n_fraction = fraction_digits(limit);
    if (has_larger)
        n += n > 0;
    else if (n > NUMBER_WHOLE_DIGITS)
        n = 0;
    if (n_fraction > 2 * NUMBER_FRACTION_DIGITS)
        n_fraction = 2 * NUMBER_FRACTION_DIGITS;
    return make_form(NUMBER_DECIMAL, limit.negative, n, n_fraction + 2);
}

struct number_form number_form_of_multiples(struct decimal divisor)
{
    uint32_t n = whole_beyond_int64(divisor);
    return (struct number_form){decimal_is_integer(divisor) ? NUMBER_INTEGER : NUMBER_DECIMAL, n, n,
                                fraction_digits(divisor)};
}

struct number_form number_form_both(struct number_form a, struct number_form b)
{
    return (struct number_form){a.spelling < b.spelling ? a.spelling : b.spelling,
                                larger_of(a.n_whole, b.n_whole), larger_of(a.n_negative, b.n_negative),
                                larger_of(a.n_fraction, b.n_fraction)};
}

struct number_form number_form_either(struct number_form a, struct number_form b)
{
    return (struct number_form){a.spelling > b.spelling ? a.spelling : b.spelling,
                                larger_of(a.n_whole, b.n_whole), larger_of(a.n_negative, b.n_negative),
                                larger_of(a.n_fraction, b.n_fraction)};
}
