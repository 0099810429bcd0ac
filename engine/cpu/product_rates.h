// Measures matrix products of one weight by its type and the number of rows, beside the peaks of this machine.
// Thread: the pool's owner.
#pragma once

#include "engine/cpu/kernels.h"
#include "engine/cpu/product/peak.h"

struct product_rate {
    enum tensor_type type;
    int32_t n_rows;
    double products, of_peak; // GMAC/s; share of the peak of the instructions, 0: not known
    double memory, of_memory; // GB/s of packed weights; share of the memory's
};

struct product_rates {
    void *context;
    void (*begin)(void *context, const char *kernels,
                  const struct product_peak *peak); // before the first rate
    void (*receive)(void *context, const struct product_rate *rate);
    struct product_peak peak; // set
};

// About ten seconds. `activation_bits`: 8 or 16. Errors: ERROR_OUT_OF_MEMORY.
enum status product_rates_measure(struct product_rates *rates, struct pool *pool, enum cpu_level level,
                                  int activation_bits, struct error *error) WARN_UNUSED;
