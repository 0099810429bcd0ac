// Cost model of a step by its number of rows, measured while the engine runs: decides whether draft rows pay.
// On a CPU the time of a step is
//   - constant for few rows, where reading the weights bounds it,
//   - then grows by the tiles of the matrix products,
//   - then grows in proportion to the rows.
//
// Sizes that were not measured are interpolated from the nearest measured ones, on top of a guessed shape
// that is nearly flat below ROW_COST_BUSY rows and proportional from there on. So large batches draft no
// tokens unless measured steps have shown that drafting pays.
//
// A step's time is scale * shape(rows). The scale follows the machine's load and the context lengths within a
// few steps; the shape is learned slowly.
// Thread: engine.
#pragma once

#include <stdint.h>

enum { ROW_COST_SIZES = 128, ROW_COST_BUSY = 16 };

// Zeroed is valid: nothing was measured.
struct row_cost {
    double scale_us; // time of a step whose shape is 1
    // [rows - 1] the learned shape relative to the guessed shape, and the number of steps it was learned
    // from.
    double corrections[ROW_COST_SIZES];
    int32_t n_steps[ROW_COST_SIZES];
    double filled[ROW_COST_SIZES]; // corrections, with interpolated ones for sizes that were not measured
};

// Records that a step of n_rows rows took `us`. Steps of more than ROW_COST_SIZES rows are ignored.
void row_cost_note(struct row_cost *cost, int32_t n_rows, double us);
// Expected time of a step, for comparison with other sizes: before the first measured step it has no unit.
double row_cost_of(const struct row_cost *cost, int32_t n_rows);
