// Chooses the rows that keep the small model's label. The large model answers all other rows, and its labels are right by
// definition. With probability `confidence` over the draws at least the share `target` of the table's labels are right,
// for tables of any size and any two models: nothing is assumed of the scores.
//
// A threshold is bad if more than the share 1 - target of all rows are above it and have a wrong small label.
// Thresholds are tested from the highest on, each against the hypothesis that it is bad (betting_test.h), and the search
// ends with the first that is not rejected. If a bad threshold is chosen, the highest bad threshold was rejected too,
// which happens with probability at most 1 - confidence: one level suffices for all tests (fixed-sequence testing). Rows
// are drawn from the whole table in one random order; the test of a threshold takes those above it in this order, which
// is a draw without replacement. Its number of draws may depend on anything, so the search ends when further draws are
// likely to cost more labels of the large model than they save. Draws below the threshold cost nothing: the large model
// answers these rows anyway.
//
// After S. Zeighami, S. Shankar, A. Parameswaran: Cut Costs, Not Accuracy: LLM-Powered Data Processing with Guarantees
// (BARGAIN), arXiv 2509.02896. Thread: any.
#pragma once

#include "consumer/cascade/betting_test.h"
#include "consumer/cascade/score_ranking.h"

struct threshold_options {
    double target, confidence; // both above 0 and below 1
    uint64_t seed;             // of the order of the draws
};

struct threshold_search {
    struct threshold_options options;
    const struct score_ranking *ranking;
    int32_t *order;           // [n_ranked]: ranks as they are drawn
    bool *is_wrong;           // [n_drawn] of `order`: the small model's label
    int32_t n_drawn;          // of which the last call of threshold_search_answer gave the answers
    int32_t n_asked;          // rows passed by threshold_search_next
    int32_t at;               // the cut that is tested
    int32_t n_kept;           // rows above the last threshold that passed
    struct betting_test test; // of the cut `at`
};

// The ranking must live as long. False: out of memory.
bool threshold_search_open(struct threshold_search *search, const struct score_ranking *ranking,
                           const struct threshold_options *options);
void threshold_search_close(struct threshold_search *search);
// Returns the ranks of *n rows that the large model must label next, and whose answers must follow by
// threshold_search_answer. *n 0: the search has ended, and n_kept is final.
const int32_t *threshold_search_next(struct threshold_search *search, int32_t *n);
// The answer to the next rank: whether the small model's label is wrong.
void threshold_search_answer(struct threshold_search *search, bool is_wrong);
// The draws among the first n ranks, and how many of them were wrong.
void threshold_search_count(const struct threshold_search *search, int32_t n, int32_t *n_drawn,
                            int32_t *n_wrong);
