#include "schemas/dataset_share.h"

static struct dataset_share *find(struct dataset_shares *shares, struct text dataset)
{
    for (int i = 0; i < shares->n_items; i++)
        if (text_equal(shares->items[i].dataset, dataset))
            return &shares->items[i];
    return NULL;
}

struct dataset_share dataset_share_of(const struct dataset_shares *shares, struct text dataset)
{
    const struct dataset_share *found = find((struct dataset_shares *)shares, dataset);
    struct dataset_share share = found ? *found : (struct dataset_share){dataset, 1, -1};
    if (share.n_in_flight_max < 0)
        share.n_in_flight_max = shares->n_in_flight_max;
    return share;
}

struct dataset_share *dataset_shares_add(struct dataset_shares *shares, struct text dataset)
{
    struct dataset_share *share = find(shares, dataset);
    if (share || shares->n_items == DATASET_SHARES_MAX)
        return share;
    share = &shares->items[shares->n_items++];
    *share = (struct dataset_share){dataset, 1, -1};
    return share;
}

bool dataset_shares_have_limits(const struct dataset_shares *shares)
{
    bool have = shares->n_in_flight_max > 0;
    for (int i = 0; i < shares->n_items; i++)
        have = have || shares->items[i].n_in_flight_max > 0;
    return have;
}
