// The worker's loop with a store that another process has locked: group events are handled, figures wait.
#include "store/store.h"
#include "tests/golden/case_bound.h"
#include "tests/worker_script.h"

#include <cmocka.h>

enum { N_LOCKED = 5 };

static int n_records, patience_ms;

enum status __wrap_store_record(struct store *store, const struct store_record *record, struct error *error);
void __wrap_store_set_patience(struct store *store, int wait_ms);

void __wrap_store_set_patience(struct store *store, int wait_ms)
{
    (void)store;
    patience_ms = wait_ms;
}

enum status __wrap_store_record(struct store *store, const struct store_record *record, struct error *error)
{
    (void)store, (void)record;
    assert_int_equal(patience_ms,
                     n_records == 0 || n_records > N_LOCKED ? STORE_TURN_MS : STORE_TURN_MS / 10);
    if (n_records++ < N_LOCKED)
        return error_set(error, STATUS_RETRY, ERROR_STORE, "another process holds the store");
    return STATUS_OK;
}

static void a_locked_store_is_waited_for_once_until_it_is_free(void **state)
{
    (void)state;
    struct stage stage = stage_open(1000, 100);
    stage.config.records.store = (struct store *)stage.script; // not looked into
    stage.config.records.jobs_need_recording = true;
    patience_ms = STORE_TURN_MS; // as consumer/late_store.c leaves it
    assert_int_equal(stage_run(&stage), STATUS_OK);
    int n_answered, n_released;
    check_outcomes(stage.script, &n_answered, &n_released);
    assert_int_equal(n_answered, 1000);
    assert_true(n_records > N_LOCKED + 1);
    stage_close(&stage);
}

int main(void)
{
    const struct CMUnitTest tests[] = {CASE(a_locked_store_is_waited_for_once_until_it_is_free)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
