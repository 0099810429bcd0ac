// A made model on a GPU backend, which is the emulated device or a real one, for tests of whole steps.
#pragma once

#include "engine/forward.h"
#include "gpu/backend.h"
#include "tests/support/make_model.h"

#include <stdbool.h>
#include <stddef.h>

struct machine {
    struct pool *pool;
    struct backend *backend;
    struct forward *forward;
};

void machine_close(struct machine *machine);

// Relative to the expected items.
double squared_error(const float *got, const float *expected, size_t n);

// A step of one token at position 0, whose pieces the caller may change.
struct single_step {
    int32_t token, position, output, pages[2];
    struct step_sequence sequence;
    struct sampling sampling;
    struct sample_request request;
    struct step step;
};

void single_step_init(struct single_step *single);

// 77, the exit status of a skipped test: there is no device.
int device_missing(void);
// Only of the emulated device faults can be ordered.
bool device_is_emulated(void);
// Whether every case runs: on a device, or where SHEAF_TEST_WIDE asks for it (tests/support/wide.h).
bool device_cases_are_wide(void);
