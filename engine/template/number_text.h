// Numbers from text, as Python's int() and float() read it, and its round().
#pragma once

#include "schemas/text.h"

#include <stdint.h>

enum number_text_status { NUMBER_TEXT_NONE, NUMBER_TEXT_OK, NUMBER_TEXT_TOO_LARGE };

// Blanks around, a sign, single underscores between digits.
enum number_text_status number_text_integer(struct text text, int64_t *integer);
bool number_text_float(struct text text, double *number);
// To `precision` decimal digits (0 or more), by the number's exact value; ties to even.
double number_text_round(double number, int64_t precision);
