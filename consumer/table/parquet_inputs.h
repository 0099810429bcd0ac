// The Parquet files that paths name: each one file, or all files of a folder whose names end in .parquet, in the
// order of their names ("data", "data/*.parquet"). Thread: main.
#pragma once

#include "consumer/command/files/input_source.h"
#include "schemas/parquet/parquet_parts.h"

enum { PARQUET_INPUTS_MAX = 500 }; // all are open at once

struct parquet_inputs {
    struct parquet_input *items;  // [n]
    struct input_source *sources; // [n] their descriptors
    size_t n;
    struct arena arena;
};

// Whether the path is a folder, or such a pattern.
bool parquet_inputs_is_folder(const char *path);
// paths: [n], at least one. STATUS_REFUSE: a file can't be read; a folder has no Parquet files, or subfolders that may
// have some; a folder, or one of several files, belongs to a Delta, Hudi or Iceberg table (a single file of such a table
// is read); more than PARQUET_INPUTS_MAX files.
enum status parquet_inputs_open(struct parquet_inputs *inputs, const char *const *paths, size_t n,
                                struct error *error) WARN_UNUSED;
void parquet_inputs_close(struct parquet_inputs *inputs);
