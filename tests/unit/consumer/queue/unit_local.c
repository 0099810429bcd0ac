// The embedded queue's transport looks for jobs when the store's log changes, or half a second later: counted
// by its claims, while no time passes but the test's.
#include "consumer/queue/local.h"
#include "tests/support/cases.h"
#include "tests/support/store_jobs.h"

#include <time.h>

static int64_t now_ms = 1000000;

int __wrap_clock_gettime(clockid_t clock, struct timespec *t)
{
    *t = (struct timespec){now_ms / 1000, now_ms % 1000 * 1000000};
    return 0;
}

static int n_claims, n_received;

enum status __real_store_claim(struct store *store, struct text dataset, size_t n_max, int64_t bytes_max,
                               void (*receive)(void *context, const struct claimed_job *job), void *context,
                               size_t *n_claimed, struct error *claim_error);

enum status __wrap_store_claim(struct store *store, struct text dataset, size_t n_max, int64_t bytes_max,
                               void (*receive)(void *context, const struct claimed_job *job), void *context,
                               size_t *n_claimed, struct error *claim_error)
{
    n_claims++;
    return __real_store_claim(store, dataset, n_max, bytes_max, receive, context, n_claimed, claim_error);
}

static void count_received(void *context, const struct record *record)
{
    n_received++;
}

static const struct transport_events events = {.receive = count_received};

// The claims of one poll.
static int poll_once(struct transport *transport)
{
    n_claims = 0;
    assert_int_equal(transport->impl->poll(transport, 0, 10, &events, &error), STATUS_OK);
    return n_claims;
}

static void poll_until_empty(struct transport *transport)
{
    while (poll_once(transport)) {
    }
}

static void write_beside(const char *name)
{
    char beside[160];
    snprintf(beside, sizeof beside, "%s/%s", folder, name);
    FILE *file = fopen(beside, "w");
    assert_non_null(file);
    fputs("x", file);
    fclose(file);
}

TEST(an_empty_queue_is_asked_again_when_its_log_has_changed)
{
    struct store *store = open_store(true), *other = open_store(false);
    struct transport *transport;
    assert_ok(local_transport_open(&transport, store, (struct text){0}, &error), &error);
    poll_until_empty(transport);
    n_received = 0;
    assert_int_equal(poll_once(transport), 0);
    write_beside("another file");
    write_beside("x-wal");
    assert_int_equal(poll_once(transport), 0);
    submit(other, "a", 0, 3);
    write_beside("another file"); // after the log's events, which one read returns together
    assert_int_equal(poll_once(transport), 1);
    assert_int_equal(n_received, 3);
    poll_until_empty(transport);
    now_ms += 499;
    assert_int_equal(poll_once(transport), 0);
    now_ms += 1;
    assert_int_equal(poll_once(transport), 1); // a worker may have died, which changes nothing in the store
    transport->impl->close(transport);
    store_close(other);
    store_close(store);
}

static void check_identity(void *context, const struct record *record)
{
    const struct job_identity *identity = &record->identity;
    char job_id[32], custom_id[32];
    snprintf(job_id, sizeof job_id, "a-%d", n_received);
    snprintf(custom_id, sizeof custom_id, "custom-%d", n_received);
    assert_true(text_equal(identity->dataset, TEXT("a")));
    assert_true(text_equal(identity->job_id, text_from_string(job_id)));
    assert_true(text_equal(identity->custom_id, text_from_string(custom_id)));
    assert_int_equal(identity->has_index, n_received != 1);
    assert_true(!identity->has_index || identity->index == n_received);
    assert_true(identity->has_created && identity->created_s == now_ms / 1000);
    assert_int_equal(record->n_headers, 0);
    n_received++;
}

TEST(a_record_has_the_identity_that_was_submitted)
{
    struct store *store = open_store(true);
    struct transport *transport;
    struct submission lines[2] = {
        {.job_id = TEXT("a-0"), .custom_id = TEXT("custom-0"), .index = 0, .record = TEXT("{}")},
        {.job_id = TEXT("a-1"), .custom_id = TEXT("custom-1"), .index = -1, .record = TEXT("{}")}};
    size_t n_added;
    assert_ok(store_submit(store, TEXT("a"), lines, 2, &n_added, &error), &error);
    assert_ok(local_transport_open(&transport, store, (struct text){0}, &error), &error);
    const struct transport_events some = {.receive = check_identity};
    n_received = 0;
    assert_int_equal(transport->impl->poll(transport, 0, 10, &some, &error), STATUS_OK);
    assert_int_equal(n_received, 2);
    transport->impl->close(transport);
    store_close(store);
}

// Records of 15 bytes. The first is taken whatever its size.
TEST(a_poll_claims_no_more_bytes_than_it_is_to_deliver)
{
    struct store *store = open_store(true);
    struct transport *transport;
    assert_ok(local_transport_open(&transport, store, (struct text){0}, &error), &error);
    submit(store, "a", 10, 10);
    static const struct {
        int64_t bytes_max;
        int n_received;
    } polls[] = {{1, 1}, {15, 1}, {16, 2}, {3 * 15, 3}, {0, 3}};
    for (size_t i = 0; i < sizeof polls / sizeof *polls; i++) {
        struct transport_events some = {.receive = count_received, .bytes_max = polls[i].bytes_max};
        n_received = 0;
        now_ms += 500;
        assert_int_equal(transport->impl->poll(transport, 0, 10, &some, &error), STATUS_OK);
        assert_int_equal(n_received, polls[i].n_received);
    }
    transport->impl->close(transport);
    store_close(store);
}

TEST_FIXTURE(fresh_path, NULL);
GROUP_FIXTURE(make_folder, remove_folder);
