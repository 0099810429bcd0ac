// --require-arithmetic: a worker whose arithmetic (consumer/worker/arithmetic.h) is not the fleet's does not start.
//
// The requirement is a list of parts separated by spaces, as in a result's system_fingerprint:
//
//   backend=cuda-sm90 kv-type=f16            each part must be in the worker's name, which may have more
//   sheaf=1 model=9f86d081884c7d65 ...       begins with "sheaf=": a whole name, must equal the worker's
#pragma once

#include "schemas/base/error.h"

// Errors: STATUS_REFUSE, ERROR_USAGE: a part without a name or a value, or no part at all.
enum status required_arithmetic_validate(const char *required, struct error *error) WARN_UNUSED;

// `name` is the worker's arithmetic. Errors: STATUS_REFUSE, ERROR_USAGE; the text has every required part
// that differs, with the worker's own value.
enum status required_arithmetic_check(const char *required, const char *name,
                                      struct error *error) WARN_UNUSED;
