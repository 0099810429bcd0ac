// Open addressing (schemas/base/hash_index.h): growth, equal hashes, wrap-around.
#include "schemas/base/hash_index.h"

#include "tests/support/cases.h"

enum { N_ITEMS = 100000 };

// Few different hashes, so that most searches pass slots of other items with the same hash.
static uint64_t hash_of(uint32_t item, uint32_t n_hashes)
{
    return item % n_hashes * UINT64_C(0x9E3779B97F4A7C15);
}

static uint32_t find(const struct hash_index *index, const uint32_t *items, uint64_t hash, uint32_t item,
                     struct hash_slot **slot)
{
    for (*slot = hash_index_slot(index, hash); (*slot)->number; *slot = hash_index_next(index, *slot, hash))
        if (items[(*slot)->number] == item)
            break;
    return (*slot)->number;
}

static void check_all_found(uint32_t n_items, uint32_t n_hashes)
{
    static uint32_t items[N_ITEMS + 1];
    struct hash_index index = {0};
    struct hash_slot *slot;
    for (uint32_t i = 1; i <= n_items; i++) {
        assert_true(hash_index_reserve(&index));
        assert_int_equal(find(&index, items, hash_of(7 * i, n_hashes), 7 * i, &slot), 0);
        items[i] = 7 * i;
        hash_index_fill(&index, slot, hash_of(7 * i, n_hashes), i);
        assert_true(2 * index.n_used <= index.n_slots);
    }
    assert_int_equal(index.n_used, n_items);
    for (uint32_t i = 1; i <= n_items; i++)
        assert_int_equal(find(&index, items, hash_of(7 * i, n_hashes), 7 * i, &slot), i);
    assert_int_equal(find(&index, items, hash_of(7 * n_items + 1, n_hashes), 7 * n_items + 1, &slot), 0);
    hash_index_finish(&index);
    assert_null(index.slots);
}

TEST(each_item_is_found_after_the_index_has_grown)
{
    check_all_found(N_ITEMS, UINT32_MAX);
}

TEST(items_with_equal_hashes_are_told_apart)
{
    check_all_found(2000, 1);
    check_all_found(2000, 3);
}

TEST(a_search_wraps_around_the_last_slot)
{
    struct hash_index index = {0};
    assert_true(hash_index_reserve(&index));
    const uint64_t last = index.n_slots - 1;
    struct hash_slot *first = hash_index_slot(&index, last);
    hash_index_fill(&index, first, last, 1);
    struct hash_slot *second = hash_index_next(&index, first, last);
    assert_ptr_equal(second, index.slots);
    hash_index_fill(&index, second, last, 2);
    assert_ptr_equal(hash_index_next(&index, hash_index_slot(&index, last), last), second);
    hash_index_finish(&index);
}
