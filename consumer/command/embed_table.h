// sheaf embed MODEL TABLE: a vector for each row of a table.
//
//   pass 1   rows -> texts -> tokens -> vectors -> vector_file.h, which an interrupted process resumes (embed_rows.h)
//   pass 2   vectors and rows -> the output (embed_output.h)
//
// Thread: main.
#pragma once

#include "consumer/options/options.h"

// ERROR_JOBS_FAILED: some rows have no vector.
enum status embed_table(const struct settings *settings, const char *path, struct error *error) WARN_UNUSED;
