#include "engine/model/ngram.h"

static uint64_t split_mix(uint64_t x)
{
    x += 0x9E3779B97F4A7C15u;
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
    x = (x ^ x >> 27) * 0x94D049BB133111EBu;
    return x ^ x >> 31;
}

static bool is_prime(int64_t n)
{
    if (n < 4 || n % 2 == 0)
        return n == 2 || n == 3;
    for (int64_t divisor = 3; divisor * divisor <= n; divisor += 2)
        if (n % divisor == 0)
            return false;
    return true;
}

void ngram_init(struct ngram *ngram, const struct ngram_shape *shape, int32_t n_vocab, int32_t index)
{
    *ngram = (struct ngram){.size = shape->size,
                            .n_heads_each = shape->n_heads_each,
                            .n_heads = (shape->size - 1) * shape->n_heads_each,
                            .end = shape->end};
    int64_t half = INT64_MAX / n_vocab / 2, prime = shape->n_rows_least - 1;
    half = half > 1 ? half : 1;
    uint64_t seed = (uint64_t)(shape->seed + 10007 * (int64_t)index);
    for (int32_t p = 0; p < shape->size; p++)
        ngram->multipliers[p] =
            2 * (int64_t)(split_mix(seed + 0x9E3779B97F4A7C15u * (uint64_t)(p + 1)) % (uint64_t)half) + 1;
    for (int32_t skipped = 0; skipped < index * ngram->n_heads; skipped++)
        while (!is_prime(++prime))
            ;
    for (int32_t head = 0; head < ngram->n_heads; head++) {
        while (!is_prime(++prime))
            ;
        ngram->n_rows[head] = prime;
        ngram->first[head] = ngram->n_rows_all;
        ngram->n_rows_all += prime;
    }
}

void ngram_rows(const struct ngram *ngram, const int32_t *tokens, int64_t *rows)
{
    int64_t mixed = tokens[0] * ngram->multipliers[0];
    bool ended = false;
    for (int32_t p = 1, head = 0; p < ngram->size; p++) {
        ended = ended || tokens[p] == ngram->end;
        mixed ^= (ended ? ngram->end : tokens[p]) * ngram->multipliers[p];
        for (int32_t i = 0; i < ngram->n_heads_each; i++, head++)
            rows[head] = ngram->first[head] + mixed % ngram->n_rows[head];
    }
}
