// Sets of JSON numbers, as expressions over their spellings. A set contains, for each of its values, all
// spellings of the value within a family of two forms:
//
//   plain        -? (0 | [1-9][0-9]*) (\.[0-9]+)?
//   scientific   -? [1-9] (\.[0-9]{0,19}[1-9])? [eE] [+-]? [0-9]+     shortest round-trip printing of doubles
//
// Therefore the difference between the family and a set is the complement by value. Bounds are compared digit
// by digit. number_generated() decides last which spellings are generated.
#pragma once

#include "engine/regex/expression.h"
#include "engine/json_schema/json_document.h"

uint32_t number_any(struct expressions *pool);    // all numbers that RFC 8259 allows
uint32_t number_family(struct expressions *pool); // all numbers in the two spellings above
// Matches integers by value. with_zeros: 1.0 and 1.5e3 count as integers too, as from draft 6 on.
uint32_t number_integer(struct expressions *pool, bool with_zeros);
uint32_t number_not_integer(struct expressions *pool, bool with_zeros);
// Matches plain integers, and other spellings of at most 15 digits, which doubles keep distinct (C's
// DBL_DIG). Used for negations: a number whose digits differ from excluded values then also differs for
// readers that use doubles.
uint32_t number_distinct(struct expressions *pool);

enum number_bound { NUMBER_LESS, NUMBER_AT_MOST, NUMBER_AT_LEAST, NUMBER_MORE };
uint32_t number_bounded(struct expressions *pool, enum number_bound bound, struct decimal limit);
uint32_t number_equal(struct expressions *pool, struct decimal value);

// The spellings in which numbers are generated:
//
//   NUMBER_INTEGER   0 | -?[1-9][0-9]*, within -(2^63 - 1) to 2^63 - 1, so an int64 holds each
//   NUMBER_SHORTEST  the same, or with a fraction that does not end in 0: for values of enum and const
//   NUMBER_DECIMAL   -?(0|[1-9][0-9]{0,18})(\.[0-9]{1,22})?, or -?[1-9](\.[0-9]{1,20})?[eE][+-]?N, N <= 307,
//                    so a double is finite; includes the shortest round-trip printing of doubles
//
// Consumers that use doubles should set bounds: a double holds integers up to 2^53 exactly. If a schema names
// a number with more digits (by enum, const, or as a lower bound of the magnitude), as many digits as
// necessary are generated. An upper bound of the magnitude can be reached if it has at most
// NUMBER_WHOLE_DIGITS whole digits, so the ranges of int64 and uint64 are complete.
enum number_spelling { NUMBER_INTEGER, NUMBER_SHORTEST, NUMBER_DECIMAL };
enum { NUMBER_FRACTION_DIGITS = 22, NUMBER_MANTISSA_DIGITS = 20, NUMBER_WHOLE_DIGITS = 20 };

// A zeroed form is the form of no number.
struct number_form {
    enum number_spelling spelling;
    uint32_t n_whole;    // whole digits of positive numbers beyond int64; 0: int64
    uint32_t n_negative; // the same for negative numbers
    uint32_t n_fraction; // digits after the point, if more than NUMBER_FRACTION_DIGITS
};

struct number_form number_form_of_value(struct decimal value);
struct number_form number_form_of_bound(enum number_bound bound, struct decimal limit);
struct number_form number_form_of_multiples(struct decimal divisor);
struct number_form number_form_both(struct number_form a, struct number_form b);   // form of an intersection
struct number_form number_form_either(struct number_form a, struct number_form b); // form of a union
// Matches all spellings of a form. Intersect them with the set of values.
uint32_t number_generated(struct expressions *pool, struct number_form form);

// Matches the multiples of a positive decimal, in plain spellings. False: their automaton is too large.
enum { NUMBER_MULTIPLE_REMAINDERS_MAX = 12, NUMBER_MULTIPLE_ENDINGS_MAX = 1024 };
bool number_multiple_of(struct expressions *pool, struct decimal divisor, struct arena *arena, uint32_t *set);
