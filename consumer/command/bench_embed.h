// sheaf bench --embed: measures embeddings by the length of the texts.
// Thread: engine.
#pragma once

#include "consumer/options/options.h"
#include "consumer/worker/runtime.h"

// Plans and creates the forward pass of the runtime's open weights and backend, and prints the measurements.
enum status bench_embed(struct runtime *runtime, const struct settings *settings,
                        struct error *error) WARN_UNUSED;
