// Memory plans of models that a test makes (batching/limits.h).
#pragma once

#include "batching/limits.h"
#include "tests/support/cases.h"
#include "tests/support/open_model.h"

enum { PLENTY = 1 << 30 };

static inline bool plan_fits(struct limits_plan *plan, const struct model *model, uint64_t available,
                             const struct limits_wanted *wanted)
{
    struct error error = {0};
    enum status status = limits_derive(plan, model, available, wanted, &error);
    if (status != STATUS_OK)
        assert_int_equal(error.code, ERROR_OUT_OF_MEMORY);
    return status == STATUS_OK;
}
