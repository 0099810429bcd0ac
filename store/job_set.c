#include "store/job_set.h"

#include <stdlib.h>
#include <string.h>

bool job_set_add(struct job_set *set, int64_t id, bool *is_new)
{
    size_t at = (size_t)id / 8;
    if (at >= set->n_bytes) {
        size_t n = at * 2 + 1024;
        unsigned char *bits = realloc(set->bits, n);
        if (!bits)
            return false;
        memset(bits + set->n_bytes, 0, n - set->n_bytes);
        set->bits = bits;
        set->n_bytes = n;
    }
    *is_new = !job_set_has(set, id);
    set->bits[at] |= (unsigned char)(1 << (id % 8));
    set->n += *is_new;
    return true;
}

bool job_set_has(const struct job_set *set, int64_t id)
{
    size_t at = (size_t)id / 8;
    return at < set->n_bytes && (set->bits[at] >> (id % 8) & 1);
}

void job_set_finish(struct job_set *set)
{
    free(set->bits);
    *set = (struct job_set){0};
}
