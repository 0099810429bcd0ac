// The time of a step by its number of rows, measured as the engine runs: whether rows for draft tokens pay. On
// a CPU it is flat for few rows, where weights are read from memory for each step, then grows by the tiles of
// the products, then with the rows. Where a size was not measured its time is guessed: from the nearest sizes
// that were, by a shape that is nearly flat up to ROW_COST_BUSY rows and proportional beyond, so that in large
// batches nothing is drafted, unless steps of other sizes have shown that it pays.
//
// A step's time is scale * shape of its size. The scale follows the machine's load and the length of contexts
// within a few steps, the shape is learned slowly.
// Thread: engine.
#pragma once

#include <stdint.h>

enum { ROW_COST_SIZES = 128, ROW_COST_BUSY = 16 };

// Zeroed is valid: nothing was measured.
struct row_cost {
    double scale_us; // of a shape of 1
    // By rows - 1: the shape in times of the guess, and how many steps it was learned from.
    double corrections[ROW_COST_SIZES];
    int32_t n_steps[ROW_COST_SIZES];
    double filled[ROW_COST_SIZES]; // corrections, with those of sizes that were not measured
};

// A step of n_rows rows took `us`. Larger ones than ROW_COST_SIZES are not measured.
void row_cost_note(struct row_cost *cost, int32_t n_rows, double us);
// Expected time of a step, to compare with others: without a measured step it has no unit.
double row_cost_of(const struct row_cost *cost, int32_t n_rows);
