// sheaf embed TABLE --column C: a vector for each row of a table.
//
//   pass 1   rows -> texts -> tokens -> vectors -> vector_file.h, which an interrupted process resumes; equal texts
//            are computed once
//   pass 2   vectors and rows -> the output: a .npy array (of float32: the vector file itself), or the table with a
//            column of vectors (consumer/annotate/table_writer.h); rows without a vector -> the errors file
//
// Thread: main.
#pragma once

#include "consumer/worker/embedding_runtime.h"
#include "consumer/worker/runtime.h"

// `runtime`: the model is loaded, everything else is opened here. ERROR_JOBS_FAILED: some rows have no vector.
enum status embed_table(struct runtime *runtime, const struct settings *settings, const char *path,
                        const struct embedding_cut *cut, struct error *error) WARN_UNUSED;
// Before the model is loaded: the options, and the table's columns.
enum status embed_table_check(const struct settings *settings, const char *path,
                              struct error *error) WARN_UNUSED;
