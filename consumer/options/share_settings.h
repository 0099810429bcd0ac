// The options --dataset-weight and --dataset-limit.
#pragma once

#include "consumer/options/options.h"
#include "schemas/dataset_share.h"

// Weights of datasets: WEIGHT_LEAST to WEIGHT_MOST.
#define SHARE_WEIGHT_LEAST 0.01
#define SHARE_WEIGHT_MOST  100.0
enum { SHARE_LIMIT_MOST = 16384 }; // of jobs in flight

// Reads the values; the shares point into `options`. STATUS_REFUSE, ERROR_USAGE: one is wrong, or too many
// datasets are named.
enum status share_settings_read(struct dataset_shares *shares, const struct worker_options *options,
                                struct error *error) WARN_UNUSED;
