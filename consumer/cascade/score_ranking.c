#include "consumer/cascade/score_ranking.h"

#include <math.h>
#include <stdlib.h>

struct scored_row {
    float score;
    int32_t row;
};

static int compare_scores(const void *a, const void *b)
{
    const struct scored_row *first = a, *second = b;
    if (first->score != second->score)
        return first->score > second->score ? -1 : 1;
    return first->row < second->row ? -1 : first->row > second->row;
}

static void find_cuts(struct score_ranking *ranking, const struct scored_row *scored)
{
    int32_t n = ranking->n_ranked, last = 0;
    for (int64_t i = 1; i <= SCORE_CUTS; i++) {
        int32_t cut = (int32_t)(n * i / SCORE_CUTS);
        while (cut > 0 && cut < n && scored[cut].score == scored[cut - 1].score)
            cut++;
        if (cut > last)
            ranking->cuts[ranking->n_cuts++] = last = cut;
    }
}

bool score_ranking_open(struct score_ranking *ranking, const float *scores, int32_t n, int64_t n_rows)
{
    struct scored_row *scored = malloc((size_t)(n ? n : 1) * sizeof *scored);
    *ranking =
        (struct score_ranking){.n_rows = n_rows, .rows = malloc((size_t)(n ? n : 1) * sizeof *ranking->rows)};
    if (!scored || !ranking->rows) {
        free(scored);
        score_ranking_close(ranking);
        return false;
    }
    for (int32_t row = 0; row < n; row++)
        if (!isnan(scores[row]))
            scored[ranking->n_ranked++] = (struct scored_row){scores[row], row};
    qsort(scored, (size_t)ranking->n_ranked, sizeof *scored, compare_scores);
    for (int32_t rank = 0; rank < ranking->n_ranked; rank++)
        ranking->rows[rank] = scored[rank].row;
    find_cuts(ranking, scored);
    free(scored);
    return true;
}

void score_ranking_close(struct score_ranking *ranking)
{
    free(ranking->rows);
    *ranking = (struct score_ranking){0};
}

int64_t score_ranking_wrong_max(int64_t n, double target)
{
    // 0.95 * 20 must be 19: a product just above a whole number, by rounding, counts as that number.
    double right = target * (double)n;
    return n - (int64_t)ceil(right - right * 1e-12);
}
