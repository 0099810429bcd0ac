// YAML, read by libyaml into the tree that JSON has. Scalars are resolved by the core schema of YAML 1.2.2
// (10.3), so `yes`, `no`, `on` and `off` are texts, as dates are.
#pragma once

#include "schemas/value.h"

// Reads one document. An empty one is null. STATUS_REJECT, with the line: a fault of the syntax, a second
// document, an alias, a tag other than !!str, a key that is no text, has a NUL or occurs twice, a number that JSON spells
// otherwise (+1, 007, 0x1F, .5), and the limits of value.h. STATUS_RETRY: out of memory. All memory is in the
// arena.
enum status yaml_decode(struct text input, struct arena *arena, struct value *value,
                        struct error *error) WARN_UNUSED;
