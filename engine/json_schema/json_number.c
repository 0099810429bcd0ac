#include "engine/json_schema/json_number.h"
#include "engine/regex/expression_parts.h"

#include <string.h>

static uint32_t digits_between(struct expressions *pool, int first, int last)
{
    struct code_range range = {(uint32_t)('0' + first), (uint32_t)('0' + last)};
    return first > last ? EXPRESSION_NOTHING : expression_set(pool, &range, 1);
}

static uint32_t any_digit(struct expressions *pool)
{
    return digits_between(pool, 0, 9);
}

static uint32_t byte_letter(struct expressions *pool, char byte)
{
    struct code_range range = {(uint32_t)byte, (uint32_t)byte};
    return expression_set(pool, &range, 1);
}

static uint32_t either_letter(struct expressions *pool, char a, char b)
{
    return expression_either(pool, byte_letter(pool, a), byte_letter(pool, b));
}

static uint32_t concat_three(struct expressions *pool, uint32_t a, uint32_t b, uint32_t c)
{
    return expression_concat(pool, a, expression_concat(pool, b, c));
}

static uint32_t make_optional(struct expressions *pool, uint32_t a)
{
    return expression_either(pool, EXPRESSION_EMPTY, a);
}

static uint32_t repeat_digit(struct expressions *pool, uint32_t min, uint32_t max)
{
    return expression_repeat(pool, any_digit(pool), min, max);
}

static uint32_t repeat_zero(struct expressions *pool, uint32_t min)
{
    return expression_repeat(pool, byte_letter(pool, '0'), min, EXPRESSION_UNBOUNDED);
}

static uint32_t any_fraction(struct expressions *pool)
{
    return make_optional(pool, expression_concat(pool, byte_letter(pool, '.'),
                                                 repeat_digit(pool, 1, EXPRESSION_UNBOUNDED)));
}

static uint32_t zero_fraction(struct expressions *pool)
{
    return make_optional(pool, expression_concat(pool, byte_letter(pool, '.'), repeat_zero(pool, 1)));
}

// Matches the digits of a non-negative integer without leading zeros.
static uint32_t whole_digits(struct expressions *pool)
{
    uint32_t positive =
        expression_concat(pool, digits_between(pool, 1, 9), repeat_digit(pool, 0, EXPRESSION_UNBOUNDED));
    return expression_either(pool, byte_letter(pool, '0'), positive);
}

static uint32_t any_exponent(struct expressions *pool)
{
    uint32_t sign = make_optional(pool, either_letter(pool, '+', '-'));
    return concat_three(pool, either_letter(pool, 'e', 'E'), sign,
                        repeat_digit(pool, 1, EXPRESSION_UNBOUNDED));
}

// Matches [1-9](\.[0-9]{0,k-1}[1-9])?: at most k digits after the point.
static uint32_t mantissa_digits(struct expressions *pool, uint32_t k)
{
    uint32_t tail =
        concat_three(pool, byte_letter(pool, '.'), repeat_digit(pool, 0, k - 1), digits_between(pool, 1, 9));
    return expression_concat(pool, digits_between(pool, 1, 9),
                             k ? make_optional(pool, tail) : EXPRESSION_EMPTY);
}

enum { MANTISSA_FRACTION = 20, DISTINCT_DIGITS = 15 };

static uint32_t either_sign(struct expressions *pool, uint32_t magnitude)
{
    return expression_concat(pool, make_optional(pool, byte_letter(pool, '-')), magnitude);
}

static uint32_t family_magnitude(struct expressions *pool)
{
    uint32_t plain = expression_concat(pool, whole_digits(pool), any_fraction(pool));
    uint32_t scientific =
        expression_concat(pool, mantissa_digits(pool, MANTISSA_FRACTION), any_exponent(pool));
    return expression_either(pool, plain, scientific);
}

uint32_t number_any(struct expressions *pool)
{
    uint32_t plain = expression_concat(pool, whole_digits(pool), any_fraction(pool));
    return either_sign(pool, expression_concat(pool, plain, make_optional(pool, any_exponent(pool))));
}

uint32_t number_family(struct expressions *pool)
{
    return either_sign(pool, family_magnitude(pool));
}

// Compares digit strings with `text`. The first different digit decides; rest(n) may follow it, where n is
// the number of digits of `text` left. If all digits are equal, `equal` may follow.
static uint32_t compare_digits(struct expressions *pool, struct text text, bool more,
                               uint32_t (*rest)(struct expressions *, size_t), uint32_t equal,
                               bool first_may_be_zero)
{
    uint32_t result = equal;
    for (size_t i = text.size; i-- > 0;) {
        int digit = text.data[i] - '0';
        int least = i == 0 && !first_may_be_zero ? 1 : 0;
        uint32_t other = more ? digits_between(pool, digit + 1, 9) : digits_between(pool, least, digit - 1);
        uint32_t decided = expression_concat(pool, other, rest(pool, text.size - i - 1));
        uint32_t same = expression_concat(pool, byte_letter(pool, text.data[i]), result);
        result = expression_either(pool, decided, same);
    }
    return result;
}

static uint32_t rest_of_fraction(struct expressions *pool, size_t n)
{
    (void)n;
    return repeat_digit(pool, 0, EXPRESSION_UNBOUNDED);
}

// Matches what may follow equal whole digits so that the fraction is greater (`more`) or less than `text`, or
// also equal with `equal`.
static uint32_t compare_fraction(struct expressions *pool, struct text text, bool more, bool equal)
{
    uint32_t point = byte_letter(pool, '.');
    uint32_t positive = concat_three(pool, repeat_zero(pool, 0), digits_between(pool, 1, 9),
                                     repeat_digit(pool, 0, EXPRESSION_UNBOUNDED));
    if (!text.size && more)
        return equal ? any_fraction(pool) : expression_concat(pool, point, positive);
    if (!text.size)
        return equal ? zero_fraction(pool) : EXPRESSION_NOTHING;
    uint32_t end = more ? positive : EXPRESSION_NOTHING;
    if (equal)
        end = more ? repeat_digit(pool, 0, EXPRESSION_UNBOUNDED) : repeat_zero(pool, 0);
    uint32_t compared = compare_digits(pool, text, more, rest_of_fraction, end, true);
    if (more)
        return expression_concat(pool, point, compared);
    // A proper prefix of the fraction is less, because `text` does not end in 0.
    uint32_t shorter = EXPRESSION_EMPTY;
    for (size_t i = text.size - 1; i-- > 0;)
        shorter = make_optional(pool, expression_concat(pool, byte_letter(pool, text.data[i]), shorter));
    uint32_t first = text.size > 1 ? shorter : EXPRESSION_EMPTY;
    uint32_t prefixes = text.size > 1
                            ? expression_both(pool, first, repeat_digit(pool, 1, EXPRESSION_UNBOUNDED))
                            : EXPRESSION_NOTHING;
    return make_optional(pool, expression_concat(pool, point, expression_either(pool, compared, prefixes)));
}

static uint32_t rest_of_whole(struct expressions *pool, size_t n)
{
    return expression_concat(pool, repeat_digit(pool, (uint32_t)n, (uint32_t)n), any_fraction(pool));
}

// The digits of a decimal before and after its point. For numbers below 1 `whole` is "0".
struct decimal_parts {
    struct text whole, fraction;
};

enum { CUT_BYTES = DECIMAL_DIGITS_MAX + DECIMAL_EXPONENT_MAX + 8 };

static struct decimal_parts cut_at_point(struct decimal decimal, char buffer[CUT_BYTES])
{
    size_t n = 0, zeros_before = 0, n_whole;
    int64_t top = (int64_t)decimal.digits.size + decimal.exponent; // whole digits if positive
    if (top <= 0)
        zeros_before = (size_t)(1 - top);
    memset(buffer, '0', zeros_before);
    n = zeros_before;
    if (decimal.digits.size)
        memcpy(buffer + n, decimal.digits.data, decimal.digits.size);
    n += decimal.digits.size;
    for (int64_t i = 0; i < decimal.exponent; i++)
        buffer[n++] = '0';
    n_whole = top <= 0 ? 1 : (size_t)top;
    return (struct decimal_parts){{buffer, n_whole}, {buffer + n_whole, n - n_whole}};
}

// Matches plain spellings, without a sign, of values greater (`more`) or less than the limit's magnitude, or
// also equal with `equal`.
static uint32_t compare_plain(struct expressions *pool, struct decimal limit, bool more, bool equal)
{
    char buffer[CUT_BYTES];
    struct decimal_parts cut = cut_at_point(limit, buffer);
    uint32_t k = (uint32_t)cut.whole.size;
    uint32_t tail = compare_fraction(pool, cut.fraction, more, equal);
    uint32_t result = compare_digits(pool, cut.whole, more, rest_of_whole, tail, k == 1);
    uint32_t other = EXPRESSION_NOTHING;
    if (more)
        other =
            expression_concat(pool, digits_between(pool, 1, 9), repeat_digit(pool, k, EXPRESSION_UNBOUNDED));
    else if (k > 1)
        other = expression_either(pool, byte_letter(pool, '0'),
                                  expression_concat(pool, digits_between(pool, 1, 9),
                                                    repeat_digit(pool, 0, k - 2)));
    return expression_either(pool, result, expression_concat(pool, other, any_fraction(pool)));
}

static uint32_t rest_of_exponent(struct expressions *pool, size_t n)
{
    return repeat_digit(pool, (uint32_t)n, (uint32_t)n);
}

// Matches digits, with leading zeros allowed, of integers greater (`more`) or less than `magnitude`, or also
// equal with `equal`.
static uint32_t compare_exponent_digits(struct expressions *pool, uint64_t magnitude, bool more, bool equal)
{
    char text[INTEGER_TEXT_BYTES];
    struct text decimal = text_from_integer((int64_t)magnitude, text);
    uint32_t k = (uint32_t)decimal.size;
    uint32_t end = equal ? EXPRESSION_EMPTY : EXPRESSION_NOTHING;
    uint32_t same_length = compare_digits(pool, decimal, more, rest_of_exponent, end, true);
    if (!more) {
        uint32_t shorter = k > 1 ? repeat_digit(pool, 1, k - 1) : EXPRESSION_NOTHING;
        return expression_concat(pool, repeat_zero(pool, 0), expression_either(pool, same_length, shorter));
    }
    uint32_t longer = concat_three(pool, digits_between(pool, 1, 9), repeat_digit(pool, k, k),
                                   repeat_digit(pool, 0, EXPRESSION_UNBOUNDED));
    return expression_concat(pool, repeat_zero(pool, 0), expression_either(pool, same_length, longer));
}

// Matches exponents, including the letter e, greater (`more`) or less than `exponent`, or also equal with
// `equal`.
static uint32_t compare_exponent(struct expressions *pool, int64_t exponent, bool more, bool equal)
{
    uint32_t minus = byte_letter(pool, '-'), plus = make_optional(pool, byte_letter(pool, '+'));
    uint32_t result;
    if (exponent == 0 || (exponent > 0) == more) {
        // An exponent has one sign, except zero, which may have both.
        uint64_t magnitude = (uint64_t)(exponent < 0 ? -exponent : exponent);
        uint32_t side = compare_exponent_digits(pool, magnitude, true, equal);
        result = expression_concat(pool, more ? plus : minus, side);
        if (exponent == 0 && equal)
            result = expression_either(pool, result,
                                       expression_concat(pool, more ? minus : plus, repeat_zero(pool, 1)));
    } else {
        uint64_t magnitude = (uint64_t)(exponent < 0 ? -exponent : exponent);
        uint32_t other =
            expression_concat(pool, exponent > 0 ? minus : plus, repeat_digit(pool, 1, EXPRESSION_UNBOUNDED));
        uint32_t side = compare_exponent_digits(pool, magnitude, false, equal);
        result = expression_either(pool, other, expression_concat(pool, exponent > 0 ? plus : minus, side));
    }
    return expression_concat(pool, either_letter(pool, 'e', 'E'), result);
}

static uint32_t compare_scientific(struct expressions *pool, struct decimal limit, bool more, bool equal)
{
    uint32_t any = mantissa_digits(pool, MANTISSA_FRACTION);
    if (!limit.digits.size)
        return more ? expression_concat(pool, any, any_exponent(pool)) : EXPRESSION_NOTHING;
    int64_t exponent = (int64_t)limit.digits.size + limit.exponent - 1;
    struct text first = {limit.digits.data, 1}, fraction = {limit.digits.data + 1, limit.digits.size - 1};
    uint32_t tail = compare_fraction(pool, fraction, more, equal);
    uint32_t compared = compare_digits(pool, first, more, rest_of_whole, tail, false);
    uint32_t at = expression_concat(pool, expression_both(pool, compared, any),
                                    expression_both(pool, compare_exponent(pool, exponent, true, true),
                                                    compare_exponent(pool, exponent, false, true)));
    return expression_either(pool, at,
                             expression_concat(pool, any, compare_exponent(pool, exponent, more, false)));
}

static uint32_t compare_magnitude(struct expressions *pool, struct decimal limit, bool more, bool equal)
{
    return expression_either(pool, compare_plain(pool, limit, more, equal),
                             compare_scientific(pool, limit, more, equal));
}

uint32_t number_bounded(struct expressions *pool, enum number_bound bound, struct decimal limit)
{
    bool more = bound == NUMBER_AT_LEAST || bound == NUMBER_MORE;
    bool equal = bound == NUMBER_AT_LEAST || bound == NUMBER_AT_MOST;
    uint32_t minus = byte_letter(pool, '-');
    uint32_t zero = expression_concat(pool, byte_letter(pool, '0'), zero_fraction(pool));
    if (!limit.digits.size) { // the sign decides
        uint32_t positive = compare_magnitude(pool, limit, true, false);
        uint32_t side = more ? positive : expression_concat(pool, minus, positive);
        return equal ? expression_either(pool, side, either_sign(pool, zero)) : side;
    }
    if (limit.negative == more) { // all numbers of the other sign, and some of this sign
        uint32_t part = compare_magnitude(pool, limit, false, equal);
        uint32_t other = family_magnitude(pool);
        uint32_t negative = more ? part : other, positive = more ? other : part;
        return expression_either(pool, positive, expression_concat(pool, minus, negative));
    }
    uint32_t part = compare_magnitude(pool, limit, true, equal);
    return more ? part : expression_concat(pool, minus, part);
}

uint32_t number_equal(struct expressions *pool, struct decimal value)
{
    return expression_both(pool, number_bounded(pool, NUMBER_AT_LEAST, value),
                           number_bounded(pool, NUMBER_AT_MOST, value));
}

// Matches scientific spellings of integers: the exponent is at least the number of digits after the point.
static uint32_t scientific_integer(struct expressions *pool)
{
    uint32_t parts[MANTISSA_FRACTION + 1];
    for (uint32_t k = 0; k <= MANTISSA_FRACTION; k++)
        parts[k] = expression_concat(pool, mantissa_digits(pool, k), compare_exponent(pool, k, true, true));
    return expression_either_many(pool, parts, MANTISSA_FRACTION + 1);
}

static uint32_t make_integer(struct expressions *pool, bool with_zeros)
{
    if (!with_zeros)
        return either_sign(pool, whole_digits(pool));
    uint32_t plain = expression_concat(pool, whole_digits(pool), zero_fraction(pool));
    return either_sign(pool, expression_either(pool, plain, scientific_integer(pool)));
}

uint32_t number_integer(struct expressions *pool, bool with_zeros)
{
    uint32_t *known = &pool->number_sets[with_zeros];
    return *known ? *known : (*known = make_integer(pool, with_zeros));
}

static uint32_t make_distinct(struct expressions *pool)
{
    uint32_t others = expression_set_complement(pool, any_digit(pool));
    others = expression_repeat(pool, others, 0, EXPRESSION_UNBOUNDED);
    uint32_t one = expression_concat(pool, others, any_digit(pool));
    uint32_t few = expression_concat(pool, expression_repeat(pool, one, 0, DISTINCT_DIGITS), others);
    return expression_either(pool, either_sign(pool, whole_digits(pool)), few);
}

uint32_t number_distinct(struct expressions *pool)
{
    uint32_t *known = &pool->number_sets[4];
    return *known ? *known : (*known = make_distinct(pool));
}

static uint32_t make_not_integer(struct expressions *pool, bool with_zeros)
{
    if (!with_zeros)
        return expression_both(pool, number_any(pool),
                               expression_complement(pool, number_integer(pool, false)));
    uint32_t others =
        expression_both(pool, number_family(pool), expression_complement(pool, number_integer(pool, true)));
    return expression_both(pool, others, number_distinct(pool));
}

uint32_t number_not_integer(struct expressions *pool, bool with_zeros)
{
    uint32_t *known = &pool->number_sets[2 + with_zeros];
    return *known ? *known : (*known = make_not_integer(pool, with_zeros));
}
