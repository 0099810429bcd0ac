// JSON read by jansson, for comparison with schemas/json_read.c.
#pragma once

#include "schemas/value.h"

// To the rules of json_decode, but integers beyond int64 are a fault, and a NUL behind a number is passed
// over.
bool library_json_read(struct text input, struct arena *arena, struct value *value);
