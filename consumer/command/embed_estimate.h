// sheaf embed TABLE --estimate and --sample: what the vectors of a table will cost.
//
//   --estimate   counts the rows, their different texts and the tokens of these, without computing a vector
//   --sample N   computes N rows too, prints each one's nearest in the sample, and estimates the time of all
//
// Thread: main.
#pragma once

#include "consumer/command/embed_rows.h"

enum { EMBED_SAMPLE_ROWS_MAX = 4096 };

// Prints to standard output. The runtime has a loaded model. STATUS_REFUSE: ERROR_USAGE.
enum status embed_estimate(struct embed_source *source, struct runtime *runtime,
                           const struct settings *settings, struct error *error) WARN_UNUSED;
