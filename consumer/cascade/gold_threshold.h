// Finds how many rows keep the small model's label, from rows whose gold label is known. These must be a random sample
// of the table: drawn without regard to its contents, all samples of that size equally likely.
//
//   with a large model     It answers the other rows. With probability `confidence` over the sample, at least the share
//                          `target` of the table's labels, of both models, equal the gold labels. The thresholds are
//                          tested from the highest on, the first of which keeps no label of the small model: so the
//                          large model alone must be accurate enough to begin with.
//   without a large model  The other rows have no label. With probability `confidence` at least the share `target` of
//                          the labels that are kept equal the gold labels. The first threshold is one with enough gold
//                          labels above it to pass; it is chosen by the scores and the size of the sample.
//
// Each threshold is tested against the hypothesis that too many labels are wrong, by the hypergeometric distribution of
// the wrong ones in the sample, and the search ends with the first that is not rejected. If a threshold is chosen whose
// hypothesis holds, the first such threshold was rejected too, with probability at most 1 - confidence: one level
// suffices for all tests (fixed-sequence testing). Thread: main.
#pragma once

#include "consumer/cascade/score_ranking.h"

struct gold_label {
    int32_t rank;        // of its row in the ranking; n_ranked: the small model has no label
    bool is_small_right; // equals the small model's label
    bool is_large_right;
};

struct gold_threshold {
    double target, confidence;
    bool has_large;
    // results
    bool is_found;   // else no threshold passed, and nothing is guaranteed
    int32_t n_kept;  // labels of the small model
    int64_t n_gold;  // labels that its test compared
    int64_t n_wrong; // of these
};

// The results are of the last threshold that passed, or without is_found of the first one.
void gold_threshold_find(struct gold_threshold *threshold, const struct score_ranking *ranking,
                         const struct gold_label *labels, int64_t n_labels);
// The least number of gold labels that can show anything: all of them right.
int64_t gold_threshold_least(double target, double confidence);
