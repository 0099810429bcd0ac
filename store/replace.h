// Where the answers of lines that a changed file no longer has wait for equal requests (store_replace_begin):
// rows of `jobs` without a row of `datasets`, under a name longer than a dataset may have.
#pragma once

#include "store/store.h"

enum { BEFORE_NAME_BYTES = JOB_DATASET_BYTES_MAX + 8 };

// Not terminated.
struct text replace_before_name(struct text dataset, char name[BEFORE_NAME_BYTES]);
