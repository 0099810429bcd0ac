#include "batching/suffix_index.h"

#include <stdlib.h>

static const int32_t orders[] = {1, 2, 4, 8};

enum { N_ORDERS = sizeof orders / sizeof *orders, ORDER_MAX = 8, VOTES_MAX = 15 };

static uint32_t power_of_two(uint32_t n)
{
    uint32_t power = 16;
    while (power < n && power < UINT32_C(1) << 31)
        power *= 2;
    return power;
}

// A token adds N_ORDERS n-grams, but many are equal to earlier ones: 2 slots per token suffice.
enum { SLOTS_A_TOKEN = 2 };

uint64_t suffix_index_bytes(uint32_t capacity)
{
    return (uint64_t)power_of_two(capacity) * (sizeof(int32_t) + SLOTS_A_TOKEN * sizeof(struct suffix_slot));
}

bool suffix_index_init(struct suffix_index *index, uint32_t capacity)
{
    *index = (struct suffix_index){.capacity = power_of_two(capacity)};
    index->n_slots = SLOTS_A_TOKEN * index->capacity;
    index->tokens = malloc(index->capacity * sizeof *index->tokens);
    index->slots = calloc(index->n_slots, sizeof *index->slots);
    if (index->tokens && index->slots)
        return true;
    suffix_index_finish(index);
    return false;
}

void suffix_index_finish(struct suffix_index *index)
{
    free(index->tokens);
    free(index->slots);
    *index = (struct suffix_index){0};
}

static uint64_t extend_hash(uint64_t hash, int32_t token)
{
    hash = (hash ^ (uint32_t)token) * UINT64_C(0x9E3779B97F4A7C15);
    return hash ^ hash >> 29;
}

static struct suffix_slot *slot_of(const struct suffix_index *index, uint64_t hash, int32_t order)
{
    return &index->slots[extend_hash(hash, order) >> 16 & (index->n_slots - 1)];
}

int32_t suffix_index_token(const struct suffix_index *index, uint32_t place)
{
    if (place - index->first >= index->n - index->first)
        return SUFFIX_BREAK;
    return index->tokens[place & (index->capacity - 1)];
}

// Votes for `place` as the continuation of the n-gram that hashes to the slot.
static void vote(const struct suffix_index *index, struct suffix_slot *slot, uint32_t place, int32_t token)
{
    int32_t other = slot->votes > 0 ? suffix_index_token(index, slot->place) : SUFFIX_BREAK;
    if (other == token)
        slot->votes += slot->votes < VOTES_MAX;
    else if (other == SUFFIX_BREAK || slot->votes == 1)
        slot->votes = 1;
    else {
        slot->votes--;
        return;
    }
    slot->place = place;
}

void suffix_index_append(struct suffix_index *index, uint64_t key, int32_t token)
{
    if (!index->tokens)
        return;
    uint32_t place = index->n;
    uint64_t hash = key;
    for (int32_t length = 1, order = 0; token != SUFFIX_BREAK && length <= ORDER_MAX; length++) {
        if ((uint32_t)length > place - index->first)
            break;
        int32_t before = suffix_index_token(index, place - (uint32_t)length);
        hash = extend_hash(hash, before);
        if (orders[order] == length)
            vote(index, slot_of(index, hash, orders[order++]), place, token);
        if (before == SUFFIX_BREAK)
            break;
    }
    index->tokens[place & (index->capacity - 1)] = token;
    index->n++;
    if (index->n - index->first > index->capacity)
        index->first = index->n - index->capacity;
}

// Number of trailing tokens of `tail` that equal the tokens before `place`. Compares no further than a break.
static int32_t common_length(const struct suffix_index *index, uint32_t place, const int32_t *tail, int32_t n)
{
    int32_t length = 0;
    while (length < n && length < SUFFIX_LENGTH_MAX && (uint32_t)length < place - index->first &&
           suffix_index_token(index, place - (uint32_t)length - 1) == tail[n - length - 1])
        if (tail[n - ++length] == SUFFIX_BREAK)
            break;
    return length;
}

struct suffix_match suffix_index_find(const struct suffix_index *index, uint64_t key, const int32_t *tail,
                                      int32_t n)
{
    struct suffix_match best = {0};
    uint64_t hash = key;
    if (!index->tokens)
        return best;
    for (int32_t length = 1, order = 0; length <= ORDER_MAX && length <= n; length++) {
        hash = extend_hash(hash, tail[n - length]);
        if (orders[order] == length) {
            const struct suffix_slot *slot = slot_of(index, hash, orders[order++]);
            int32_t found = slot->votes > 0 && suffix_index_token(index, slot->place) != SUFFIX_BREAK
                                ? common_length(index, slot->place, tail, n)
                                : 0;
            if (found >= length && found >= best.length)
                best = (struct suffix_match){slot->place, found, (int32_t)slot->votes};
        }
        if (tail[n - length] == SUFFIX_BREAK)
            break;
    }
    return best;
}
