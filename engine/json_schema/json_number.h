// Sets of JSON numbers as expressions over their spellings; which of them are generated is decided last. A
// set holds all spellings of each of its values, of the family
//
//   plain       -? (0 | [1-9][0-9]*) (\.[0-9]+)?
//   scientific  -? [1-9] (\.[0-9]{0,19}[1-9])? [eE] [+-]? [0-9]+        what shortest round-trip printing of
//   doubles writes
//
// so that the difference from `family` is the complement by value. All bounds are decided digit by digit.
#pragma once

#include "engine/regex/expression.h"
#include "engine/json_schema/json_document.h"

uint32_t number_any(struct expressions *pool);    // whatever RFC 8259 allows
uint32_t number_family(struct expressions *pool); // the two spellings above
// Integers by value: with_zeros, 1.0 and 1.5e3 are integers too, as from draft 6 on.
uint32_t number_integer(struct expressions *pool, bool with_zeros);
uint32_t number_not_integer(struct expressions *pool, bool with_zeros);
// Plain integers, and other spellings of at most 15 digits, of which a double keeps which is which (C's
// DBL_DIG): for negations, so that a number that is none of the values by its digits is none for a reader
// with doubles.
uint32_t number_distinct(struct expressions *pool);

enum number_bound { NUMBER_LESS, NUMBER_AT_MOST, NUMBER_AT_LEAST, NUMBER_MORE };
uint32_t number_bounded(struct expressions *pool, enum number_bound bound, struct decimal limit);
uint32_t number_equal(struct expressions *pool, struct decimal value);

// The spellings in which numbers are generated, whatever else JSON allows for the same value:
//
//   NUMBER_INTEGER   0 | -?[1-9][0-9]*                 from -(2^63 - 1) to 2^63 - 1: an int64 holds each.
//                    Consumers with doubles give bounds (a double holds integers of up to 2^53 exactly).
//   NUMBER_SHORTEST  the same, or with a fraction that does not end in 0: for the values of enum and const
//   NUMBER_DECIMAL   -?(0|[1-9][0-9]{0,18})(\.[0-9]{1,22})?, or -?[1-9](\.[0-9]{1,20})?[eE][+-]?N, N up to
//                    307, so that a double is finite; shortest round-trip printing of doubles is among them
//
// Where a schema names a number that has more digits (by enum, const, or a bound of numbers that are larger
// still), digits are as many as it takes. A bound on the side of smaller numbers has digits up to it where it
// has at most NUMBER_WHOLE_DIGITS: the ranges of an int64 and of a uint64 are whole.
enum number_spelling { NUMBER_INTEGER, NUMBER_SHORTEST, NUMBER_DECIMAL };
enum { NUMBER_FRACTION_DIGITS = 22, NUMBER_MANTISSA_DIGITS = 20, NUMBER_WHOLE_DIGITS = 20 };

// Zeroed is that of no number.
struct number_form {
    enum number_spelling spelling;
    uint32_t n_whole;    // digits before the point of positive numbers, beyond an int64; 0: as above
    uint32_t n_negative; // the same of negative ones
    uint32_t n_fraction; // digits behind it, where more than NUMBER_FRACTION_DIGITS
};

struct number_form number_form_of_value(struct decimal value);
struct number_form number_form_of_bound(enum number_bound bound, struct decimal limit);
struct number_form number_form_of_multiples(struct decimal divisor);
struct number_form number_form_both(struct number_form a, struct number_form b);   // of an intersection
struct number_form number_form_either(struct number_form a, struct number_form b); // of a union
// All spellings of a form, to be intersected with the set of values.
uint32_t number_generated(struct expressions *pool, struct number_form form);

// The multiples of a positive decimal, in plain spellings. False when their set is no small automaton.
enum { NUMBER_MULTIPLE_REMAINDERS_MAX = 12, NUMBER_MULTIPLE_ENDINGS_MAX = 1024 };
bool number_multiple_of(struct expressions *pool, struct decimal divisor, struct arena *arena, uint32_t *set);
