// Multiples of a decimal (json_number.h). If the divisor has s digits after its point, x is a multiple if and
// only if N = x 10^s is an integer divisible by M = 2^a 5^b q. Divisibility by 2^a 5^b depends on the last
// max(a, b) digits of N, which are enumerated. Divisibility by q depends on all digits: an automaton of q
// states, converted to an expression by state elimination.
#include "engine/regex/expression_parts.h"
#include "engine/json_schema/json_number.h"

#include <string.h>

struct divisor {
    uint64_t modulus;   // the number M
    uint64_t smooth, q; // factors of M: M = smooth q
    uint32_t n_ending;  // digits that decide divisibility by `smooth`
    uint32_t fraction;  // the number s
};

static uint32_t digit_set(struct expressions *pool, int first, int last)
{
    struct code_range range = {(uint32_t)('0' + first), (uint32_t)('0' + last)};
    return expression_set(pool, &range, 1);
}

static bool analyze_divisor(struct decimal decimal, struct divisor *divisor)
{
    if (decimal.negative || !decimal.digits.size || (int64_t)decimal.digits.size + decimal.exponent > 15 ||
        decimal.digits.size > 15)
        return false;
    *divisor =
        (struct divisor){.smooth = 1, .fraction = decimal.exponent < 0 ? (uint32_t)-decimal.exponent : 0};
    for (size_t i = 0; i < decimal.digits.size; i++)
        divisor->modulus = divisor->modulus * 10 + (uint64_t)(decimal.digits.data[i] - '0');
    for (int64_t i = 0; i < decimal.exponent; i++)
        divisor->modulus *= 10;
    uint32_t twos = 0, fives = 0;
    divisor->q = divisor->modulus;
    for (; divisor->q % 2 == 0; divisor->q /= 2, twos++)
        divisor->smooth *= 2;
    for (; divisor->q % 5 == 0; divisor->q /= 5, fives++)
        divisor->smooth *= 5;
    divisor->n_ending = twos > fives ? twos : fives;
    return true;
}

static uint64_t power_of_ten(uint32_t n)
{
    uint64_t power = 1;
    while (n--)
        power *= 10;
    return power;
}

static uint32_t zero_digits(struct expressions *pool)
{
    return expression_repeat(pool, digit_set(pool, 0, 0), 0, EXPRESSION_UNBOUNDED);
}

// Matches a fraction with exactly these digits and any trailing zeros. If all digits are zero, the fraction
// is optional.
static uint32_t fraction_of(struct expressions *pool, struct text digits)
{
    while (digits.size && digits.data[digits.size - 1] == '0')
        digits.size--;
    uint32_t with = expression_concat(pool, expression_literal(pool, digits), zero_digits(pool));
    if (!digits.size)
        with = expression_concat(pool, digit_set(pool, 0, 0), zero_digits(pool));
    with = expression_concat(pool, expression_literal(pool, TEXT(".")), with);
    return digits.size ? with : expression_either(pool, EXPRESSION_EMPTY, with);
}

// Matches whole numbers without leading zeros.
static uint32_t any_whole(struct expressions *pool)
{
    uint32_t digits = expression_repeat(pool, digit_set(pool, 0, 9), 0, EXPRESSION_UNBOUNDED);
    return expression_either(pool, digit_set(pool, 0, 0),
                             expression_concat(pool, digit_set(pool, 1, 9), digits));
}

// Expressions, indexed by the number of deciding digits left and the remainder of the digits before them.
struct endings {
    struct expressions *pool;
    const struct divisor *divisor;
    uint32_t *whole, *fraction; // [left][remainder]: the expression + 1; 0: not built yet
};

// Matches the digits after the point; `left` more of them decide divisibility. Trailing zeros may be omitted
// or added.
static uint32_t fraction_ending(struct endings *endings, uint32_t left, uint32_t remainder)
{
    struct expressions *pool = endings->pool;
    uint32_t smooth = (uint32_t)endings->divisor->smooth,
             *known = &endings->fraction[left * smooth + remainder];
    if (*known)
        return *known - 1;
    uint64_t rest = remainder;
    for (uint32_t i = 0; i < left; i++)
        rest = rest * 10 % smooth;
    uint32_t result = rest == 0 ? zero_digits(pool) : EXPRESSION_NOTHING;
    for (uint32_t digit = 0; left && digit < 10; digit++) {
        uint32_t next = fraction_ending(endings, left - 1, (remainder * 10 + digit) % smooth);
        uint32_t one = expression_concat(pool, digit_set(pool, (int)digit, (int)digit), next);
        result = expression_either(pool, result, one);
    }
    *known = result + 1;
    return result;
}

static uint32_t whole_ending(struct endings *endings, uint32_t left, uint32_t remainder)
{
    struct expressions *pool = endings->pool;
    uint32_t smooth = (uint32_t)endings->divisor->smooth, *known = &endings->whole[left * smooth + remainder];
    uint32_t result = EXPRESSION_NOTHING;
    if (*known)
        return *known - 1;
    if (left == 0) {
        uint32_t digits = fraction_ending(endings, endings->divisor->fraction, remainder);
        uint32_t some =
            expression_both(pool, digits, expression_repeat(pool, EXPRESSION_ANY, 1, EXPRESSION_UNBOUNDED));
        uint32_t none = expression_is_nullable(pool, digits) ? EXPRESSION_EMPTY : EXPRESSION_NOTHING;
        result =
            expression_either(pool, none, expression_concat(pool, expression_literal(pool, TEXT(".")), some));
    }
    for (uint32_t digit = 0; left && digit < 10; digit++) {
        uint32_t next = whole_ending(endings, left - 1, (remainder * 10 + digit) % smooth);
        uint32_t one = expression_concat(pool, digit_set(pool, (int)digit, (int)digit), next);
        result = expression_either(pool, result, one);
    }
    *known = result + 1;
    return result;
}

// Builds the plain spellings without a sign whose N is divisible by `smooth`.
static bool by_endings(struct expressions *pool, const struct divisor *divisor, struct arena *arena,
                       uint32_t *set)
{
    uint32_t length = divisor->n_ending > divisor->fraction ? divisor->n_ending : divisor->fraction;
    uint32_t n_whole = length - divisor->fraction;
    if (divisor->smooth > NUMBER_MULTIPLE_ENDINGS_MAX)
        return false;
    struct endings endings = {pool, divisor, NULL, NULL};
    endings.whole = arena_allocate_array(arena, (n_whole + 1) * divisor->smooth, sizeof *endings.whole);
    endings.fraction =
        arena_allocate_array(arena, (divisor->fraction + 1) * divisor->smooth, sizeof *endings.fraction);
    if (!endings.whole || !endings.fraction) {
        expressions_fail_memory(pool);
        return false;
    }
    uint32_t before =
        expression_concat(pool, digit_set(pool, 1, 9),
                          expression_repeat(pool, digit_set(pool, 0, 9), 0, EXPRESSION_UNBOUNDED));
    uint32_t zero = expression_concat(pool, digit_set(pool, 0, 0), whole_ending(&endings, 0, 0));
    uint32_t result =
        expression_either(pool, expression_concat(pool, before, whole_ending(&endings, n_whole, 0)), zero);
    for (uint32_t n = 1; n <= n_whole; n++) // numbers of n digits, the first not 0
        for (uint32_t digit = 1; digit < 10; digit++) {
            uint32_t next = whole_ending(&endings, n - 1, digit % (uint32_t)divisor->smooth);
            uint32_t one = expression_concat(pool, digit_set(pool, (int)digit, (int)digit), next);
            result = expression_either(pool, result, one);
        }
    *set = result;
    return true;
}

// Matches any whole number, with up to s digits and trailing zeros after the point.
static uint32_t any_with_fraction(struct expressions *pool, uint32_t s)
{
    uint32_t fraction = expression_concat(pool, expression_repeat(pool, digit_set(pool, 0, 9), s ? 1 : 0, s),
                                          zero_digits(pool));
    fraction = expression_both(pool, fraction,
                               expression_repeat(pool, digit_set(pool, 0, 9), 1, EXPRESSION_UNBOUNDED));
    fraction = expression_concat(pool, expression_literal(pool, TEXT(".")), fraction);
    return expression_concat(pool, any_whole(pool), expression_either(pool, EXPRESSION_EMPTY, fraction));
}

// Matches digit strings whose remainder modulo q is `last`. A state is the remainder so far, 0 at the start;
// arrows[i][j] matches the digits that lead from i to j. Eliminates all states except 0 and `last`.
static uint32_t digits_of_remainder(struct expressions *pool, uint32_t q, uint32_t last)
{
    uint32_t arrows[NUMBER_MULTIPLE_REMAINDERS_MAX][NUMBER_MULTIPLE_REMAINDERS_MAX] = {{0}};
    for (uint32_t i = 0; i < q; i++)
        for (uint32_t digit = 0; digit < 10; digit++) {
            uint32_t *arrow = &arrows[i][(i * 10 + digit) % q];
            *arrow = expression_either(pool, *arrow, digit_set(pool, (int)digit, (int)digit));
        }
    for (uint32_t k = q; k-- > 1;) {
        uint32_t loop = expression_repeat(pool, arrows[k][k], 0, EXPRESSION_UNBOUNDED);
        for (uint32_t i = 0; k != last && i < q; i++)
            for (uint32_t j = 0; i != k && j < q; j++)
                if (j != k) {
                    uint32_t through =
                        expression_concat(pool, arrows[i][k], expression_concat(pool, loop, arrows[k][j]));
                    arrows[i][j] = expression_either(pool, arrows[i][j], through);
                }
        for (uint32_t i = 0; k != last && i < q; i++)
            arrows[i][k] = arrows[k][i] = EXPRESSION_NOTHING;
    }
    if (last == 0)
        return expression_repeat(pool, arrows[0][0], 0, EXPRESSION_UNBOUNDED);
    uint32_t back =
        expression_concat(pool, arrows[last][0],
                          expression_concat(pool,
                                            expression_repeat(pool, arrows[0][0], 0, EXPRESSION_UNBOUNDED),
                                            arrows[0][last]));
    uint32_t loop =
        expression_repeat(pool, expression_either(pool, arrows[last][last], back), 0, EXPRESSION_UNBOUNDED);
    return expression_concat(pool, expression_repeat(pool, arrows[0][0], 0, EXPRESSION_UNBOUNDED),
                             expression_concat(pool, arrows[0][last], loop));
}

// Builds the plain spellings without a sign whose N is divisible by q: for each fraction, the whole digits
// with matching remainders.
static uint32_t by_remainders(struct expressions *pool, const struct divisor *divisor)
{
    uint32_t q = (uint32_t)divisor->q, result = EXPRESSION_NOTHING, wholes[NUMBER_MULTIPLE_REMAINDERS_MAX];
    uint64_t scale = power_of_ten(divisor->fraction);
    for (uint32_t remainder = 0; remainder < q; remainder++)
        wholes[remainder] = expression_both(pool, any_whole(pool), digits_of_remainder(pool, q, remainder));
    for (uint64_t i = 0; i < scale; i++) {
        char text[16];
        uint64_t rest = i;
        for (uint32_t at = divisor->fraction; at-- > 0; rest /= 10)
            text[at] = (char)('0' + rest % 10);
        uint32_t fraction = fraction_of(pool, (struct text){text, divisor->fraction});
        for (uint32_t remainder = 0; remainder < q; remainder++)
            if ((remainder * scale + i) % q == 0)
                result =
                    expression_either(pool, result, expression_concat(pool, wholes[remainder], fraction));
    }
    return result;
}

bool number_multiple_of(struct expressions *pool, struct decimal decimal, struct arena *arena, uint32_t *set)
{
    struct divisor divisor;
    uint32_t endings, result;
    if (!analyze_divisor(decimal, &divisor) || divisor.q >= NUMBER_MULTIPLE_REMAINDERS_MAX ||
        (divisor.q > 1 && divisor.fraction > 2))
        return false;
    if (divisor.smooth == 1)
        result = any_with_fraction(pool, divisor.fraction);
    else if (by_endings(pool, &divisor, arena, &endings))
        result = endings;
    else
        return false;
    if (divisor.q > 1)
        result = expression_both(pool, result, by_remainders(pool, &divisor));
    *set = expression_concat(pool,
                             expression_either(pool, EXPRESSION_EMPTY, expression_literal(pool, TEXT("-"))),
                             result);
    return expressions_status(pool, NULL) == STATUS_OK;
}
