// Sets of JSON numbers as expressions over their spellings. A set holds all spellings of each of its values,
// of the family
//
//   plain       -? (0 | [1-9][0-9]*) (\.[0-9]+)?
//   scientific  -? [1-9] (\.[0-9]{0,19}[1-9])? [eE] [+-]? [0-9]+        what shortest round-trip printing of
//   doubles writes
//
// so that the difference from `family` is the complement by value. All bounds are decided digit by digit.
#pragma once

#include "engine/grammar/expression.h"
#include "engine/grammar/json_document.h"

uint32_t number_any(struct expressions *pool);    // whatever RFC 8259 allows
uint32_t number_family(struct expressions *pool); // the two spellings above
// Integers by value: with_zeros, 1.0 and 1.5e3 are integers too, as from draft 6 on.
uint32_t number_integer(struct expressions *pool, bool with_zeros);
uint32_t number_not_integer(struct expressions *pool, bool with_zeros);

enum number_bound { NUMBER_LESS, NUMBER_AT_MOST, NUMBER_AT_LEAST, NUMBER_MORE };
uint32_t number_bounded(struct expressions *pool, enum number_bound bound, struct decimal limit);
uint32_t number_equal(struct expressions *pool, struct decimal value);

// The multiples of a positive decimal, in plain spellings. False when their set is no small automaton.
enum { NUMBER_MULTIPLE_REMAINDERS_MAX = 12, NUMBER_MULTIPLE_ENDINGS_MAX = 1024 };
bool number_multiple_of(struct expressions *pool, struct decimal divisor, struct arena *arena, uint32_t *set);
