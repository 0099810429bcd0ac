// A worker that is stopped by SIGTERM while jobs wait at the gate, or for their commit.
#include "tests/support/cases.h"
#include "tests/unit/consumer/worker/case_bound.h"
#include "tests/unit/consumer/worker/worker_script.h"

#include <stdatomic.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

enum { N_SUSPECTS = 30, POLLS_MAX = 5 };

// A script that sends SIGTERM while a step of the engine is held, until the waiting jobs were released or so
// many polls later.
struct leaving {
    struct script *script;
    struct fake_model *model;
    enum status (*poll)(struct transport *transport, int timeout_ms, int n_max,
                        const struct transport_events *events, struct error *error);
    enum status (*release)(struct transport *transport, struct job *const *jobs, size_t n_jobs,
                           struct error *error);
    int n_polls;       // since the signal; 0: none yet
    size_t n_released; // while the step was held
};

static struct leaving leaving;

static void let_step_end(void)
{
    if (leaving.model)
        fake_model_release(leaving.model);
    leaving.model = NULL;
}

static enum status poll_leaving(struct transport *transport, int timeout_ms, int n_max,
                                const struct transport_events *events, struct error *error)
{
    if (leaving.n_polls == 0 && leaving.script->queue.n_next == N_SUSPECTS &&
        fake_model_is_held(leaving.model)) {
        raise(SIGTERM);
        leaving.n_polls = 1;
    }
    if (leaving.n_polls > 0 && leaving.n_polls++ > POLLS_MAX)
        let_step_end();
    return leaving.poll(transport, timeout_ms, n_max, events, error);
}

static enum status release_leaving(struct transport *transport, struct job *const *jobs, size_t n_jobs,
                                   struct error *error)
{
    leaving.n_released += leaving.model ? n_jobs : 0;
    if (leaving.n_released >= N_SUSPECTS - 1)
        let_step_end();
    return leaving.release(transport, jobs, n_jobs, error);
}

// A stage whose worker reads SIGTERM.
struct sigterm_stage {
    struct stage stage;
    struct transport_impl impl; // polls as the case says
    sigset_t before;
};

static void sigterm_stage_open(struct sigterm_stage *opened, const struct transport_impl *impl, int n_jobs)
{
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigprocmask(SIG_BLOCK, &signals, &opened->before);
    opened->stage = stage_open(n_jobs, n_jobs);
    opened->impl = *impl;
    opened->stage.script->base.impl = &opened->impl;
    opened->stage.config.limits.idle_s = -1;
    opened->stage.config.stop.fd = signalfd(-1, &signals, SFD_NONBLOCK | SFD_CLOEXEC);
}

static void sigterm_stage_close(struct sigterm_stage *opened)
{
    close(opened->stage.config.stop.fd);
    stage_close(&opened->stage);
    sigprocmask(SIG_SETMASK, &opened->before, NULL);
}

// All but the first wait at the gate, to be computed alone.
TEST(sigterm_gives_suspects_back_before_the_running_job_has_ended)
{
    struct transport_impl impl = script_impl;
    struct sigterm_stage opened;
    impl.poll = poll_leaving;
    impl.release = release_leaving;
    sigterm_stage_open(&opened, &impl, N_SUSPECTS);
    struct stage *stage = &opened.stage;
    leaving = (struct leaving){stage->script, stage->model, script_impl.poll, script_impl.release, 0, 0};
    stage->config.limits.crashes = 3;
    for (int i = 0; i < N_SUSPECTS; i++)
        stage->script->queue.crashes[i] = 2;
    fake_model_hold(stage->model);
    assert_int_equal(stage_run(stage), STATUS_OK);
    int n_answered, n_released;
    check_outcomes(stage->script, &n_answered, &n_released);
    assert_int_equal(n_released, N_SUSPECTS - n_answered);
    assert_true(stage->script->starts.n_alone <= 1);
    assert_true(leaving.n_released >= N_SUSPECTS - 1);
    sigterm_stage_close(&opened);
}

// A clock that only the script's polls move.
static atomic_llong now_ms; // 0: the real one

int __real_clock_gettime(clockid_t clock, struct timespec *t);

int __wrap_clock_gettime(clockid_t clock, struct timespec *t)
{
    long long now = atomic_load(&now_ms);
    if (clock != CLOCK_MONOTONIC || now == 0)
        return __real_clock_gettime(clock, t);
    *t = (struct timespec){.tv_sec = now / 1000, .tv_nsec = now % 1000 * 1000000};
    return 0;
}

enum { POLL_MS = 1000 };

static long long signal_ms; // 0: not sent yet

// SIGTERM is sent once a commit has failed, and again while it leaves: that buys no more time.
static enum status poll_by_the_clock(struct transport *transport, int timeout_ms, int n_max,
                                     const struct transport_events *events, struct error *error)
{
    atomic_fetch_add(&now_ms, POLL_MS);
    if (signal_ms == 0 && ((struct script *)transport)->commits.n_failed > 0) {
        signal_ms = atomic_load(&now_ms);
        raise(SIGTERM);
    } else if (signal_ms > 0 && atomic_load(&now_ms) == signal_ms + 2 * WORKER_GRACE_MS) {
        raise(SIGTERM);
    }
    return script_impl.poll(transport, timeout_ms, n_max, events, error);
}

TEST(finished_jobs_that_cannot_be_committed_end_a_leaving_worker_with_an_error)
{
    struct transport_impl impl = script_impl;
    struct sigterm_stage opened;
    impl.poll = poll_by_the_clock;
    sigterm_stage_open(&opened, &impl, 10);
    struct stage *stage = &opened.stage;
    stage->script->commits.n_to_fail = INT32_MAX;
    struct closing closing = {0};
    stage->config.closing = &closing;
    atomic_store(&now_ms, POLL_MS);
    assert_int_equal(stage_run(stage), STATUS_RESTART);
    closing_end(&closing);
    assert_in_range(closing.limit_ms, WORKER_CLOSE_MS_MIN, WORKER_STOP_MS - 3 * WORKER_GRACE_MS);
    long long left_ms = atomic_exchange(&now_ms, 0) - signal_ms;
    assert_non_null(
        strstr(stage->error.text, "10 finished jobs that could not be committed (the broker is away)"));
    assert_in_range(left_ms, 3 * WORKER_GRACE_MS + 1, 3 * WORKER_GRACE_MS + POLL_MS);
    int n_answered, n_released;
    check_outcomes(stage->script, &n_answered, &n_released);
    assert_int_equal(n_released, 10);
    sigterm_stage_close(&opened);
}

// SIGTERM is sent when the first job is finished; the quota allows no commit for so long after it.
static int quota_ms;

static void advise_by_the_quota(struct transport *transport, struct commit_advice *advice)
{
    if (signal_ms == 0) {
        signal_ms = atomic_load(&now_ms);
        raise(SIGTERM);
    }
    *advice = (struct commit_advice){.not_before_ms = signal_ms + quota_ms};
}

static enum status poll_by_the_quota(struct transport *transport, int timeout_ms, int n_max,
                                     const struct transport_events *events, struct error *error)
{
    if (signal_ms > 0)
        atomic_fetch_add(&now_ms, POLL_MS);
    return script_impl.poll(transport, timeout_ms, n_max, events, error);
}

static void leave_under_quota(int ms, int *n_answered, long long *took_ms)
{
    struct transport_impl impl = script_impl;
    struct sigterm_stage opened;
    int n_released;
    impl.commit_advice = advise_by_the_quota;
    impl.poll = poll_by_the_quota;
    sigterm_stage_open(&opened, &impl, 10);
    struct stage *stage = &opened.stage;
    quota_ms = ms;
    signal_ms = 0;
    atomic_store(&now_ms, POLL_MS);
    enum status status = stage_run(stage);
    *took_ms = atomic_exchange(&now_ms, 0) - signal_ms;
    if (status != STATUS_OK)
        fail_msg("%s", stage->error.text);
    check_outcomes(stage->script, n_answered, &n_released);
    assert_int_equal(n_released, 10 - *n_answered);
    sigterm_stage_close(&opened);
}

TEST(finished_jobs_that_a_quota_holds_back_for_longer_than_a_stop_are_released_at_once)
{
    int n_answered;
    long long took_ms;
    leave_under_quota(WORKER_QUOTA_MS, &n_answered, &took_ms);
    assert_true(n_answered > 0);
    assert_in_range(took_ms, WORKER_QUOTA_MS, WORKER_QUOTA_MS + 2 * POLL_MS);
    leave_under_quota(WORKER_QUOTA_MS + 1 + POLL_MS, &n_answered,
                      &took_ms); // the signal is read within one poll
    assert_int_equal(n_answered, 0);
    assert_true(took_ms < WORKER_QUOTA_MS);
}

// The step that runs when the signal arrives takes longer than the whole leave.
static enum status poll_while_a_step_lasts(struct transport *transport, int timeout_ms, int n_max,
                                           const struct transport_events *events, struct error *error)
{
    if (signal_ms == 0 && leaving.model && fake_model_is_held(leaving.model)) {
        signal_ms = atomic_load(&now_ms);
        raise(SIGTERM);
    }
    if (signal_ms > 0)
        atomic_fetch_add(&now_ms, POLL_MS);
    if (signal_ms > 0 && atomic_load(&now_ms) - signal_ms > 3 * WORKER_GRACE_MS + POLL_MS)
        let_step_end();
    return script_impl.poll(transport, timeout_ms, n_max, events, error);
}

TEST(a_step_that_outlasts_the_leave_is_no_error)
{
    struct transport_impl impl = script_impl;
    struct sigterm_stage opened;
    impl.poll = poll_while_a_step_lasts;
    sigterm_stage_open(&opened, &impl, 10);
    struct stage *stage = &opened.stage;
    leaving = (struct leaving){.script = stage->script, .model = stage->model};
    signal_ms = 0;
    atomic_store(&now_ms, POLL_MS);
    fake_model_hold(stage->model);
    enum status status = stage_run(stage);
    atomic_store(&now_ms, 0);
    if (status != STATUS_OK)
        fail_msg("%s", stage->error.text);
    int n_answered, n_released;
    check_outcomes(stage->script, &n_answered, &n_released);
    assert_int_equal(n_released, 10 - n_answered);
    sigterm_stage_close(&opened);
}

enum { GRACE_MS = 2 * POLL_MS };

// The step ends once the transport's time is over, and long before the worker's own.
static enum status poll_until_the_grace_is_over(struct transport *transport, int timeout_ms, int n_max,
                                                const struct transport_events *events, struct error *error)
{
    if (signal_ms == 0 && leaving.model && fake_model_is_held(leaving.model)) {
        signal_ms = atomic_load(&now_ms);
        raise(SIGTERM);
    } else if (signal_ms > 0 && leaving.model) {
        atomic_fetch_add(&now_ms, POLL_MS);
        if (atomic_load(&now_ms) - signal_ms > GRACE_MS + POLL_MS)
            let_step_end();
    }
    return script_impl.poll(transport, timeout_ms, n_max, events, error);
}

TEST(running_jobs_are_released_when_the_transports_grace_is_over)
{
    struct transport_impl impl = script_impl;
    struct sigterm_stage opened;
    impl.poll = poll_until_the_grace_is_over;
    impl.grace_ms = GRACE_MS;
    sigterm_stage_open(&opened, &impl, 10);
    struct stage *stage = &opened.stage;
    leaving = (struct leaving){.script = stage->script, .model = stage->model};
    signal_ms = 0;
    atomic_store(&now_ms, POLL_MS);
    fake_model_hold(stage->model);
    enum status status = stage_run(stage);
    long long took_ms = atomic_exchange(&now_ms, 0) - signal_ms;
    if (status != STATUS_OK)
        fail_msg("%s", stage->error.text);
    int n_answered, n_released;
    check_outcomes(stage->script, &n_answered, &n_released);
    assert_int_equal(n_released, 10 - n_answered);
    assert_true(n_released > 0);
    assert_true(took_ms < WORKER_GRACE_MS);
    sigterm_stage_close(&opened);
}

TEST_FIXTURE(case_begin, case_finish);
