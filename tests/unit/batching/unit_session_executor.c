// The batcher's executor over a session: which calls it has, and that each is the session's. The session is this
// program's.
#include "batching/session_executor.h"
#include "tests/support/cases.h"

static struct session session;
static struct step step;
static struct sample_result results;
static struct step_findings findings;
static struct error error;

static bool can_compute_ahead;
static const char *called;
static int n_calls;

static enum status call(const char *name, enum status status, const struct session *of)
{
    assert_ptr_equal(of, &session);
    called = name;
    n_calls++;
    return status;
}

bool session_computes_ahead(const struct session *of)
{
    assert_ptr_equal(of, &session);
    return can_compute_ahead;
}

enum status session_step(struct session *of, struct step *what, struct sample_result *out,
                         struct error *failure)
{
    assert_true(what == &step && out == &results && failure == &error);
    return call("step", STATUS_RETRY, of);
}

enum status session_submit(struct session *of, struct step *what, struct error *failure)
{
    assert_true(what == &step && failure == &error);
    return call("submit", STATUS_REJECT, of);
}

enum status session_submit_sampling(struct session *of, struct step *what, struct error *failure)
{
    assert_true(what == &step && failure == &error);
    return call("submit_sampling", STATUS_REFUSE, of);
}

enum status session_collect(struct session *of, const struct step *what, struct sample_result *out,
                            struct error *failure)
{
    assert_true(what == &step && out == &results && failure == &error);
    return call("collect", STATUS_RESTART, of);
}

void session_take_findings(struct session *of, struct step_findings *out)
{
    assert_ptr_equal(out, &findings);
    (void)call("take_findings", STATUS_OK, of);
}

TEST(each_call_is_the_session_s)
{
    can_compute_ahead = true;
    n_calls = 0;
    const struct step_executor executor = session_executor_bind(&session, true);
    assert_int_equal(executor.step(executor.context, &step, &results, &error), STATUS_RETRY);
    assert_string_equal(called, "step");
    assert_non_null(executor.submit);
    assert_int_equal(executor.submit(executor.context, &step, &error), STATUS_REJECT);
    assert_string_equal(called, "submit");
    assert_non_null(executor.submit_sampling);
    assert_int_equal(executor.submit_sampling(executor.context, &step, &error), STATUS_REFUSE);
    assert_string_equal(called, "submit_sampling");
    assert_non_null(executor.collect);
    assert_int_equal(executor.collect(executor.context, &step, &results, &error), STATUS_RESTART);
    assert_string_equal(called, "collect");
    executor.take_findings(executor.context, &findings);
    assert_string_equal(called, "take_findings");
    assert_int_equal(n_calls, 5);
}

TEST(steps_are_submitted_ahead_where_it_is_wanted_and_possible)
{
    for (int i = 0; i < 4; i++) {
        const bool wanted = i & 1;
        can_compute_ahead = i & 2;
        const struct step_executor executor = session_executor_bind(&session, wanted);
        const bool is_ahead = wanted && can_compute_ahead;
        assert_int_equal(executor.submit != NULL, is_ahead);
        assert_int_equal(executor.submit_sampling != NULL, is_ahead);
        assert_int_equal(executor.collect != NULL, is_ahead);
        assert_true(executor.step && executor.take_findings);
    }
}
