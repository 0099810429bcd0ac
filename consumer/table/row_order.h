// The order in which rows are computed, and the fields' order in each prompt, so that prompts share long
// beginnings: Greedy Group Recursion of "Optimizing LLM Queries in Relational Data Analytics Workloads" (Liu
// et al. 2024, algorithm 1). Rows are added in the table's order, then planned once. Thread: main.
//
// A node is a set of rows and the columns not yet placed. Columns that are constant in it come first. Then
// the value with the most to share, length^2 * (rows - 1), takes its rows, again and again, until no value is
// in two of the rows that are left; each group is a node of its own, without that column. The paper's
// algorithm with functional dependencies places what follows from a column behind it; here that are the
// constants of the group.
#pragma once

#include "schemas/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// 128 MiB of cells; planning takes about as much again, and 16 bytes a row.
enum { ROW_ORDER_CELLS_MAX = 1 << 24 };

struct row_cell {
    uint32_t hash, length; // of the field; equal hashes count as equal fields
};

// A zeroed struct with n_columns is valid and empty.
struct row_order {
    size_t n_columns, n_rows, capacity;
    struct row_cell *cells; // [n_rows][n_columns]
    uint32_t *rows;         // [n_rows]: numbers of rows, from 0, in the order of computing
    uint16_t *fields;       // [n_rows][n_columns]: columns of each row in their order
};

// *cells: [n_columns] of the new row, to be filled before the next call. STATUS_REFUSE: out of memory, or more
// than ROW_ORDER_CELLS_MAX cells.
enum status row_order_add(struct row_order *order, struct row_cell **cells, struct error *error) WARN_UNUSED;
// are_fields_free false: only rows are ordered, and the columns are in the order in which prompts have them.
enum status row_order_plan(struct row_order *order, bool are_fields_free, struct error *error) WARN_UNUSED;
void row_order_finish(struct row_order *order);
