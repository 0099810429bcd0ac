"""SIGKILL at random instants, then restarts: every line is answered exactly once."""
import os
import random
import re
import signal
import time

from session import case, is_wide, varied_jobs

SEED = int(os.environ.get("SHEAF_TEST_SEED", "20240607"))
N_KILLS = int(os.environ.get("SHEAF_TEST_KILLS", "20" if is_wide() else "6"))
N_JOBS = 400


def kill(test, process):
    process.send_signal(signal.SIGKILL)
    return test.wait(process)


def until_killed(test, rng, longest_s, *arguments):
    """Starts the command and kills it at a random instant. True: it had already ended."""
    process = test.start(*arguments)
    time.sleep(rng.random() ** 2 * longest_s)
    return kill(test, process).status == 0


def until_it_ends(test, rng, *arguments):
    """Kills and restarts the command until it ends by itself; each run has a little more time, so that it ends on any machine."""
    longest_s = 0.2
    while not until_killed(test, rng, longest_s, *arguments):
        longest_s *= 1.2


def reference(test, *options):
    test.write("in.jsonl", varied_jobs(N_JOBS))
    seconds = test.run_file("in.jsonl", "reference.jsonl", *options).seconds
    assert len(test.answers("reference.jsonl")) == N_JOBS
    return seconds


def check_exactly_once(test, store):
    assert test.query("SELECT count(*), count(DISTINCT job_id) FROM jobs", store) == [(N_JOBS, N_JOBS)]
    assert test.query("SELECT count(*) FROM results", store) == [(N_JOBS,)]
    assert test.query("SELECT count(*) FROM queue", store) == [(0,)]
    assert test.query("SELECT n_submitted, n_done + n_failed FROM datasets", store) == [(N_JOBS, N_JOBS)]
    assert test.query("PRAGMA integrity_check", store) == [("ok",)]
    assert test.comparable() == test.comparable("reference.jsonl")


@case
def a_run_killed_at_random_instants_answers_every_line_once_with_the_same_bytes(test):
    test.environment["SHEAF_CRASH_LIMIT"] = "0"  # killed from outside, again and again: no job is to blame
    whole_s = reference(test)
    rng = random.Random(SEED)
    print(f"# seed {SEED}, {N_KILLS} kills; SHEAF_TEST_SEED and SHEAF_TEST_KILLS choose others")
    n_kills = n_runs = 0
    while n_kills < N_KILLS:
        n_runs += 1
        assert n_runs < 10 * N_KILLS, "the runs end before they are killed"
        for name in ("out.jsonl", "out.jsonl.db", "out.jsonl.db-wal", "out.jsonl.db-shm", "out.jsonl.db-workers"):
            if test.exists(name) and n_runs > 1 and ended:
                os.remove(test.path(name))
        ended = until_killed(test, rng, whole_s, "run", "in.jsonl", "-o", "out.jsonl", "--model", test.model,
                             "--window", "32")
        n_kills += not ended
        assert ended or not test.exists("out.jsonl") or test.comparable() == test.comparable("reference.jsonl")
    test.run_file()
    check_exactly_once(test, "out.jsonl.db")


@case
def workers_killed_while_others_work_lose_no_job_and_double_no_result(test):
    test.environment["SHEAF_CRASH_LIMIT"] = "0"  # killed from outside, again and again: no job is to blame
    reference(test, "--engine-test", "instant")
    rng = random.Random(SEED + 1)
    submit = ["submit", "in.jsonl", "--dataset", "run"]
    until_it_ends(test, rng, *submit)
    # Paced: both together take 3 s at least.
    arguments = ["work", "--model", test.model, "--threads", "1", "--window", "24", "--max-batch", "16", "--exit-when-idle", "0",
                 "--engine-test", "fixed:20"]
    workers = [test.start(*arguments) for _ in range(2)]
    n_kills = 0
    test.wait_until("a first answer", lambda: test.query("SELECT count(*) FROM results") > [(0,)])
    while n_kills < N_KILLS and test.query("SELECT count(*) FROM results")[0][0] < N_JOBS:
        victim = rng.randrange(2)
        n_kills += kill(test, workers[victim]).status != 0
        workers[victim] = test.start(*arguments)
        time.sleep(rng.random() / 2)  # the instant of the next kill, whichever it is
    for worker in workers:
        assert test.wait(worker).status == 0
    print(f"# {n_kills} kills")
    assert n_kills > 0
    test.run("collect", "--dataset", "run", "-o", "out.jsonl")
    check_exactly_once(test, "sheaf.db")


@case
def jobs_of_a_killed_worker_are_taken_by_one_that_is_running(test):
    test.write("in.jsonl", [dict(job, max_tokens=30, n=2) for job in varied_jobs(60)])
    test.run("submit", "in.jsonl", "--dataset", "d")
    arguments = ["work", "--model", test.model, "--threads", "1", "--max-batch", "4", "--engine-test", "fixed:10"]
    first = test.start(*arguments, "--window", "64")
    test.wait_until("the first worker computes jobs",
                    lambda: test.query("SELECT count(*) FROM jobs WHERE status = 'running'") > [(0,)])
    second = test.start(*arguments, "--exit-when-idle", "1")
    test.wait_until("the second is there", lambda: test.query("SELECT count(*) FROM workers") == [(2,)])
    kill(test, first)
    assert test.wait(second).status == 0
    assert test.query("SELECT count(*) FROM results") == [(60,)]
    assert test.query("SELECT count(*) FROM queue") == [(0,)]
    assert test.query("SELECT max(attempts) FROM jobs") == [(2,)]


@case
def a_worker_says_that_it_computes_the_jobs_of_a_dead_one_a_few_at_a_time(test):
    test.write("in.jsonl", [dict(job, max_tokens=200) for job in varied_jobs(100)])
    test.run("submit", "in.jsonl", "--dataset", "d")
    arguments = ["work", "--model", test.model, "--dataset", "d", "--max-batch", "4"]
    for deaths in (1, 2):
        worker = test.start(*arguments, "--engine-test", "fixed:50")
        test.wait_until("it computes", lambda: test.query(f"SELECT 1 FROM queue WHERE worker = {deaths}") != [])
        kill(test, worker)
    last = test.run(*arguments, "--engine-test", "instant", "--exit-when-idle", "0")
    (suspects,), = test.query("SELECT count(*) FROM jobs WHERE attempts > 1")
    lines = [line for line in last.err.splitlines() if "when a worker died" in line]
    assert len(lines) >= 2 and "until they are answered at most 64" in lines[0] and "full batches again" in lines[-1], last
    assert 0 < int(re.search(r"sheaf: (\d+) jobs", lines[0])[1]) <= suspects, (lines, suspects)


@case
def a_submit_killed_halfway_and_repeated_queues_every_line_once(test):
    rng = random.Random(SEED + 2)
    test.write("in.jsonl", varied_jobs(5000))
    for _ in range(8):
        until_killed(test, rng, 0.3, "submit", "in.jsonl", "--dataset", "d")
    test.run("submit", "in.jsonl", "--dataset", "d")
    assert test.query("SELECT count(*), count(DISTINCT job_index), min(job_index), max(job_index) FROM jobs") == [
        (5000, 5000, 1, 5000)]
    assert test.query("SELECT count(*) FROM queue") == [(5000,)]
    assert test.query("SELECT n_submitted, complete FROM datasets") == [(5000, 1)]
