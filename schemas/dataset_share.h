// How the datasets of a worker share it. A worker's datasets take turns; the weight of a dataset is the
// length of its turns. A job without a dataset belongs to the dataset with the empty name.
#pragma once

#include "schemas/base/text.h"

enum { DATASET_SHARES_MAX = 256 };

struct dataset_share {
    struct text dataset;
    double weight;           // 1 for datasets that are not listed
    int64_t n_in_flight_max; // jobs that a worker holds at a time; 0: no limit; -1: the limit of the others
};

// The caller keeps the texts valid. A zeroed struct gives each dataset weight 1 and no limit.
struct dataset_shares {
    struct dataset_share items[DATASET_SHARES_MAX];
    int n_items;
    int64_t n_in_flight_max; // of datasets without their own limit; 0: none
};

// The share of a dataset; its limit is not -1.
struct dataset_share dataset_share_of(const struct dataset_shares *shares, struct text dataset);
// Finds or adds a dataset's entry, of weight 1 and limit -1. NULL: there are DATASET_SHARES_MAX.
struct dataset_share *dataset_shares_add(struct dataset_shares *shares, struct text dataset);
// Whether any dataset has a limit.
bool dataset_shares_have_limits(const struct dataset_shares *shares);
