// The worker's loop when memory runs out: it waits for a bounded time, then releases its jobs and ends.
#include "batching/engine_thread.h"
#include "tests/support/cases.h"
#include "tests/unit/consumer/worker/case_bound.h"
#include "tests/unit/consumer/worker/worker_script.h"

TEST(memory_that_is_missing_for_a_moment_is_waited_for_and_no_longer)
{
    for (int i = 0; i < 2; i++) {
        struct stage stage = stage_open(100, 50);
        stage.script->commits.lack_memory = true;
        stage.script->commits.n_to_fail = i == 0 ? 3 : 1000;
        assert_int_equal(stage_run(&stage), i == 0 ? STATUS_OK : STATUS_RESTART);
        int n_answered, n_released;
        check_outcomes(stage.script, &n_answered, &n_released);
        assert_int_equal(n_answered, i == 0 ? 100 : 0);
        if (i == 1) {
            assert_int_equal(stage.error.code, ERROR_OUT_OF_MEMORY);
            assert_int_equal(stage.script->commits.n_failed, WORKER_MEMORY_TRIES);
        }
        stage_close(&stage);
    }
}

static const struct script *starved; // once this source was read no memory is left for an order to stop

struct order *__real_order_create(enum order_kind kind);

struct order *__wrap_order_create(enum order_kind kind)
{
    return starved && starved->queue.n_next > 0 && kind == ORDER_ABORT ? NULL : __real_order_create(kind);
}

TEST(a_worker_without_memory_stops_its_engine_all_the_same)
{
    struct stage stage = stage_open(100, 50);
    stage.script->commits.are_fatal = true;
    starved = stage.script;
    assert_int_equal(stage_run(&stage), STATUS_RESTART);
    starved = NULL;
    stage_end(&stage, 0);
}

TEST_FIXTURE(case_begin, case_finish);
