// Which jobs of the store answer each row of a table, in the rows' order: numbers in a file without a name.
// Written once from the beginning, then read as often as wanted. Thread: main.
#pragma once

#include "schemas/error.h"

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
// STATUS_REJECT: fewer are left.
enum status row_map_next(struct row_map *map, int64_t *jobs, size_t n, struct error *error) WARN_UNUSED;
