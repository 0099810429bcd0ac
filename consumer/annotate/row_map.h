// Maps each row of a table to the ids of its jobs in the store, in the order of the rows, in an unnamed file.
// Written once from the beginning, then read any number of times. Thread: main.
#pragma once

#include "schemas/base/error.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct row_map {
    FILE *file;
};

enum status row_map_open(struct row_map *map, struct error *error) WARN_UNUSED;
void row_map_close(struct row_map *map);
enum status row_map_add(struct row_map *map, const int64_t *jobs, size_t n, struct error *error) WARN_UNUSED;
enum status row_map_rewind(struct row_map *map, struct error *error) WARN_UNUSED;
// Reads the next n ids. STATUS_REJECT: fewer than n are left.
enum status row_map_next(struct row_map *map, int64_t *jobs, size_t n, struct error *error) WARN_UNUSED;
