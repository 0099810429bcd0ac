// The queue between two threads (batching/lists/queue.h): order, bounds, waiting, its descriptor.
#include "batching/lists/queue.h"
#include "tests/support/cases.h"

#include <poll.h>
#include <pthread.h>

enum { CAPACITY = 3, N_ITEMS = 1000 };

static char items[N_ITEMS]; // only their addresses are used

static struct queue *open_queue(size_t capacity)
{
    struct queue *queue;
    struct error error;
    assert_ok(queue_create(&queue, capacity, &error), &error);
    return queue;
}

static bool is_readable(const struct queue *queue)
{
    struct pollfd descriptor = {.fd = queue_fd(queue), .events = POLLIN};
    return poll(&descriptor, 1, 0) == 1;
}

TEST(items_leave_in_the_order_in_which_they_came)
{
    struct queue *queue = open_queue(CAPACITY);
    int n_pushed = 0, n_popped = 0;
    for (int round = 0; round < 100; round++) { // the ring is crossed at each of its places
        for (int n = 1 + round % CAPACITY; n > 0; n--)
            assert_true(queue_push(queue, &items[n_pushed++]));
        for (void *item; (item = queue_try_pop(queue));)
            assert_ptr_equal(item, &items[n_popped++]);
        assert_int_equal(n_popped, n_pushed);
    }
    queue_destroy(queue);
}

TEST(a_closed_queue_takes_nothing_and_gives_what_it_holds)
{
    struct queue *queue = open_queue(CAPACITY);
    for (int i = 0; i < CAPACITY; i++)
        assert_true(queue_push(queue, &items[i]));
    assert_ptr_equal(queue_try_pop(queue), &items[0]);
    assert_false(queue_is_finished(queue));
    queue_close(queue);
    assert_false(queue_push(queue, &items[CAPACITY]));
    assert_false(queue_is_finished(queue)); // its items are still there
    assert_ptr_equal(queue_pop(queue), &items[1]);
    assert_ptr_equal(queue_pop(queue), &items[2]);
    assert_true(queue_is_finished(queue));
    assert_null(queue_pop(queue));
    assert_null(queue_try_pop(queue));
    queue_destroy(queue);
}

TEST(the_descriptor_is_readable_while_a_pop_would_not_wait)
{
    struct queue *queue = open_queue(CAPACITY);
    for (int round = 0; round < 2; round++) {
        assert_false(is_readable(queue));
        assert_true(queue_push(queue, &items[0]));
        assert_true(is_readable(queue));
        assert_true(queue_push(queue, &items[1]));
        assert_ptr_equal(queue_try_pop(queue), &items[0]);
        assert_true(is_readable(queue));
        assert_ptr_equal(queue_try_pop(queue), &items[1]);
        assert_null(queue_try_pop(queue));
    }
    assert_false(is_readable(queue));
    queue_close(queue); // a pop says that nothing will come
    assert_true(is_readable(queue));
    queue_close(queue);
    assert_true(is_readable(queue));
    queue_destroy(queue);
    queue = open_queue(CAPACITY);
    assert_true(queue_push(queue, &items[0]));
    queue_close(queue);
    assert_true(is_readable(queue));
    assert_ptr_equal(queue_try_pop(queue), &items[0]);
    assert_true(is_readable(queue));
    queue_destroy(queue);
}

// How many of the items were taken.
static void *push_all(void *context)
{
    uintptr_t n = 0;
    while (n < N_ITEMS && queue_push(context, &items[n]))
        n++;
    return (void *)n;
}

TEST(a_push_waits_for_room_and_a_pop_for_an_item)
{
    for (size_t capacity = 1; capacity <= CAPACITY; capacity++) {
        struct queue *queue = open_queue(capacity);
        pthread_t pusher;
        void *n_pushed;
        assert_int_equal(pthread_create(&pusher, NULL, push_all, queue), 0);
        for (int i = 0; i < N_ITEMS; i++)
            assert_ptr_equal(queue_pop(queue), &items[i]);
        assert_int_equal(pthread_join(pusher, &n_pushed), 0);
        assert_int_equal((uintptr_t)n_pushed, N_ITEMS);
        queue_destroy(queue);
    }
}

static void *pop_one(void *context)
{
    return queue_pop(context);
}

TEST(closing_ends_every_wait)
{
    struct queue *queue = open_queue(CAPACITY);
    pthread_t threads[2];
    void *result;
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, pop_one, queue), 0);
    queue_close(queue);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_join(threads[i], &result), 0);
        assert_null(result);
    }
    queue_destroy(queue);
    queue = open_queue(CAPACITY);
    assert_int_equal(pthread_create(&threads[0], NULL, push_all, queue), 0);
    assert_ptr_equal(queue_pop(queue), &items[0]);
    queue_close(queue);
    assert_int_equal(pthread_join(threads[0], &result), 0);
    uintptr_t n = 1;
    for (; queue_pop(queue); n++) // what was taken before stays
        assert_in_range(n, 1, CAPACITY);
    assert_int_equal((uintptr_t)result, n);
    queue_destroy(queue);
}
