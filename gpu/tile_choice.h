// The tiling of each GEMM (struct product_tiling), chosen by measuring. All tilings give the same bytes, so a choice only
// affects the speed. A choice holds for GEMMs with the same type, numbers of outputs and inputs, epilogue, and step of rows.
//
// Thread: engine.
#pragma once

#include "gpu/device.h"
#include "gpu/kernels/kernels.h"

struct tile_choice {
    enum tensor_type type;
    bool gated;
    int32_t n_outputs, n_inputs; // n_outputs: of all parts
    int32_t n_rows;              // the largest number of rows of the step (tile_rows)
    struct product_tiling tiling;
    double us; // measured time of a launch; 0: unknown
};

struct tile_choices {
    struct tile_choice *items; // [n]
    int32_t n, n_max;
};

// Rounds a number of rows up to a step: 32, 64, 96, 128, then powers of 2.
int32_t tile_rows(int32_t n_rows);
// NULL: this GEMM was not measured, or is not computed with the tiles that a file named for it.
const struct tile_choice *tile_choices_find(const struct tile_choices *choices,
                                            const struct product_launch *call);
// Measures the tilings of a GEMM in graphs of several launches, on its own weights and rows, and keeps the fastest. The
// launches write y and the next operand, as the GEMM's own launch does after them. The stream must not be in a capture.
// Waits for the device. False: there is no choice, or no graph, event or memory for it; the GEMM runs by rows.
bool tile_choices_measure(struct tile_choices *choices, struct device *device,
                          const struct product_launch *call);
// Keeps a choice, in place of the one for the same GEMMs. False: out of memory.
bool tile_choices_set(struct tile_choices *choices, const struct tile_choice *choice);
void tile_choices_finish(struct tile_choices *choices);
