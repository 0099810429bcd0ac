#include "batching/row_cost.h"

// Weights of a new step in the moving averages. The shape of a size begins as the plain average of its steps.
static const double SCALE_WEIGHT = 1.0 / 8, SHAPE_WEIGHT = 1.0 / 16;
// Guessed cost of one more row below ROW_COST_BUSY, relative to a step of one row.
static const double GUESS_ROW = 0.12;
// A step that took longer than expected by more than this factor was interrupted.
static const double OUTLIER = 1.5;

static double guess(int32_t n_rows)
{
    double busy = 1.0 + GUESS_ROW * (ROW_COST_BUSY - 1);
    return n_rows < ROW_COST_BUSY ? 1.0 + GUESS_ROW * (n_rows - 1) : busy * n_rows / ROW_COST_BUSY;
}

static double fill_between(const struct row_cost *cost, int32_t before, int32_t after, int32_t i)
{
    if (before < 0 || after >= ROW_COST_SIZES)
        return cost->corrections[before < 0 ? after : before];
    double share = (double)(i - before) / (double)(after - before);
    return cost->corrections[before] * (1.0 - share) + cost->corrections[after] * share;
}

// Fills in the sizes that were not measured: interpolates between measured neighbours, or copies the nearest
// one.
static void fill_corrections(struct row_cost *cost)
{
    for (int32_t i = 0, before = -1; i < ROW_COST_SIZES; before = i++) {
        while (i < ROW_COST_SIZES && cost->n_steps[i] == 0)
            i++;
        for (int32_t j = before + 1; j < i; j++)
            cost->filled[j] = fill_between(cost, before, i, j);
        if (i < ROW_COST_SIZES)
            cost->filled[i] = cost->corrections[i];
    }
}

double row_cost_of(const struct row_cost *cost, int32_t n_rows)
{
    int32_t last = n_rows < ROW_COST_SIZES ? n_rows : ROW_COST_SIZES;
    return cost->scale_us > 0.0 ? cost->scale_us * guess(n_rows) * cost->filled[last - 1] : guess(n_rows);
}

void row_cost_note(struct row_cost *cost, int32_t n_rows, double us)
{
    if (n_rows < 1 || n_rows > ROW_COST_SIZES || !(us > 0.0))
        return;
    int32_t *n_steps = &cost->n_steps[n_rows - 1];
    double *correction = &cost->corrections[n_rows - 1];
    if (cost->scale_us > 0.0) {
        double ratio = us / row_cost_of(cost, n_rows);
        ratio = ratio > OUTLIER ? OUTLIER : ratio < 1.0 / OUTLIER ? 1.0 / OUTLIER : ratio;
        double weight = 1.0 / (*n_steps + 1);
        weight = weight < SHAPE_WEIGHT ? SHAPE_WEIGHT : weight;
        *correction = cost->filled[n_rows - 1] * (1.0 + (ratio - 1.0) * weight);
        if (*n_steps > 0) // a new size says nothing about the machine's load
            cost->scale_us *= 1.0 + (ratio - 1.0) * SCALE_WEIGHT;
    } else {
        cost->scale_us = us / guess(n_rows);
        *correction = 1.0;
    }
    *n_steps += 1;
    fill_corrections(cost);
}
