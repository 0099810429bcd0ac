// The intrusive list against an array of numbers.
#include "batching/lists/list.h"
#include "tests/support/cases.h"
#include "tests/support/random.h"

struct linked_number {
    int number;
    struct list_link link;
};

enum { N_ITEMS = 12, N_CHANGES = 2000 };

// Both directions of the list give the expected numbers, and its ends have no neighbour.
static void assert_numbers(const struct list *list, const int *expected, int n)
{
    int i = 0;
    for (struct list_link *link = list->first; link; link = link->next, i++) {
        assert_true(i < n);
        assert_int_equal(LIST_ITEM(link, struct linked_number, link)->number, expected[i]);
        assert_ptr_equal(link->next ? link->next->previous : list->last, link);
    }
    assert_int_equal(i, n);
    assert_true(n ? !list->first->previous && !list->last->next : !list->first && !list->last);
}

static int place_of(const int *numbers, int n, int number)
{
    int place = 0;
    while (place < n && numbers[place] != number)
        place++;
    return place;
}

TEST(items_keep_their_order_through_insertions_and_removals)
{
    struct linked_number items[N_ITEMS] = {0};
    struct list list = {0};
    int expected[N_ITEMS], n = 0;
    uint64_t random = random_seed(5);
    for (int change = 0; change < N_CHANGES; change++) {
        int i = (int)random_below(&random, N_ITEMS), place = place_of(expected, n, i);
        items[i].number = i;
        if (place < n) {
            list_remove(&list, &items[i].link);
            assert_true(!items[i].link.previous && !items[i].link.next);
            memmove(&expected[place], &expected[place + 1], (size_t)(--n - place) * sizeof *expected);
        } else {
            int after = (int)random_below(&random, (uint32_t)n + 1); // items before the new one
            list_insert(&list, after ? &items[expected[after - 1]].link : NULL, &items[i].link);
            memmove(&expected[after + 1], &expected[after], (size_t)(n++ - after) * sizeof *expected);
            expected[after] = i;
        }
        assert_numbers(&list, expected, n);
    }
}

TEST(a_loop_may_remove_the_current_item)
{
    struct linked_number items[5] = {{0}};
    struct list list = {0};
    for (int i = 0; i < 5; i++) {
        items[i].number = i;
        list_append(&list, &items[i].link);
    }
    int n_seen = 0;
    LIST_EACH (struct linked_number, item, &list, link) {
        assert_int_equal(item->number, n_seen++);
        if (item->number != 2)
            list_remove(&list, &item->link);
    }
    assert_int_equal(n_seen, 5);
    assert_numbers(&list, (int[]){2}, 1);
    assert_null(LIST_ITEM((struct list_link *)NULL, struct linked_number, link));
}
