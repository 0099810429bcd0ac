// The order in which rows are computed, and the fields' order in each prompt, so that prompts share long
// prefixes: Greedy Group Recursion of "Optimizing LLM Queries in Relational Data Analytics Workloads" (Liu et
// al. 2024, algorithm 1). Rows are added in the table's order, then planned once. Thread: main.
//
// A node is a set of rows and the columns that are not placed yet. First come the columns that are constant
// in the node. Then the value with the highest score, length^2 * (rows - 1), takes its rows as a group, and
// this repeats until no value is in two of the remaining rows. Each group is a node of its own, without the
// group's column.
//
//   table          prompts
//   id city mood   mood=ok city=Bonn id=1    group mood=ok, in it group city=Bonn
//    1 Bonn ok     mood=ok city=Bonn id=3
//    2 Ulm  ok     mood=ok id=2 city=Ulm     the rest of the group
//    3 Bonn ok     id=4 city=Rome mood=bad   the rest of the table
//    4 Rome bad
//
// The paper's algorithm places columns that functionally depend on a group's column after it; here they are
// constants of the group.
#pragma once

#include "schemas/base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// 128 MiB of cells; planning needs about as much again, and 16 bytes per row.
enum { ROW_ORDER_CELLS_MAX = 1 << 24 };

struct row_cell {
    uint32_t hash, length; // of the field; equal hashes count as equal fields
};

// A zeroed struct with n_columns is valid and empty.
struct row_order {
    size_t n_columns, n_rows, capacity;
    struct row_cell *cells; // [n_rows][n_columns]
    uint32_t *rows;         // [n_rows]: numbers of rows, from 0, in the order of computing
    uint16_t *fields;       // [n_rows][n_columns]: columns of each row, in the order of its prompt
};

// Adds a row. *cells: [n_columns], to be filled before the next call. STATUS_REFUSE: out of memory, or more
// than ROW_ORDER_CELLS_MAX cells.
enum status row_order_add(struct row_order *order, struct row_cell **cells, struct error *error) WARN_UNUSED;
// are_fields_free false: only the rows are ordered; the columns must be in the order in which prompts have
// them.
enum status row_order_plan(struct row_order *order, bool are_fields_free, struct error *error) WARN_UNUSED;
void row_order_finish(struct row_order *order);
