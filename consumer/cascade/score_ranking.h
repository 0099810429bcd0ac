// The rows of a table in falling order of the small model's probability of its label, and the thresholds that are
// tested: for each, the small model's labels of the first rows are kept. Thread: any.
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { SCORE_CUTS = 50 }; // about equal numbers of rows lie between two thresholds

struct score_ranking {
    int64_t n_rows;   // with a label or not; not more than 2^31
    int32_t *rows;    // [n_ranked]: the row at each rank
    int32_t n_ranked; // rows with a score
    // Ascending; the last is n_ranked. Rows with equal scores are on one side of each cut.
    int32_t cuts[SCORE_CUTS];
    int32_t n_cuts;
};

// scores: [n]; NAN: no score, such a row is never kept. n_rows: of the table, at least the number of scores that are not
// NAN. False: out of memory.
bool score_ranking_open(struct score_ranking *ranking, const float *scores, int32_t n, int64_t n_rows);
void score_ranking_close(struct score_ranking *ranking);
// The largest number of n labels that may be wrong if the share `target` must be right.
int64_t score_ranking_wrong_max(int64_t n, double target);
