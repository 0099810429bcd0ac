// sheaf bench --products: measures matrix products by weight type and rows, beside the peaks of this machine.
// Thread: engine.
#pragma once

#include "consumer/options/options.h"
#include "consumer/worker/runtime.h"

// Prints the measurements; about ten seconds. The runtime's backend is open, without a model. STATUS_REFUSE: it is
// a GPU.
enum status bench_products(const struct runtime *runtime, const struct settings *settings,
                           struct error *error) WARN_UNUSED;
