"""A job that crashes its worker: `sheaf-faults` crashes on a prompt with "ZZ". It ends alone, as one dead letter, and nothing
else is harmed. On the embedded queue and over a real broker."""
import json
import os
import re
import signal

import kafka
from session import DONE, case, error_of, text_of
from tiny_model import TOKENS

POISON = "ZZ"
LIMIT = 5  # crashes, unless --crash-limit says otherwise


def faulty(test):
    """The program that crashes; the same program without the fault."""
    program = os.path.join(os.path.dirname(os.path.dirname(test.sheaf)), "tests", "sheaf-faults")
    assert os.path.exists(program), f"{program} is missing: `ninja -C build tests/sheaf-faults` builds it"
    test.sheaf = program
    test.environment["SHEAF_FAULT"] = f"token:{TOKENS.index('Z')}:kill"


def jobs(n, poison, first=0):
    return [{"custom_id": f"line {i}", "prompt": f"{POISON} {i}" if i in poison else text_of(i, 6), "max_tokens": 4,
             "seed": i} for i in range(first, first + n)]


def work_until_it_lives(test, start, crashes_max):
    """Starts workers, as a service manager would, until one ends by itself. How many died."""
    for n_crashes in range(crashes_max + 1):
        finished = test.wait(start())
        if finished.status in DONE:
            return n_crashes
        assert finished.status == -signal.SIGKILL, finished
    raise AssertionError(f"{crashes_max} workers died and it goes on")


@case
def a_job_that_kills_its_worker_is_found_and_fails_alone_on_the_embedded_queue(test):
    faulty(test)
    test.write("in.jsonl", jobs(60, {17}))
    test.run("submit", "in.jsonl", "--dataset", "d")
    n_crashes = work_until_it_lives(
        test, lambda: test.start("work", "--model", test.model, "--exit-when-idle", "0", "--max-batch", "8"), 8)
    assert n_crashes == LIMIT, n_crashes
    test.run("collect", "--dataset", "d", "-o", "out.jsonl")
    answers = test.answers()
    failed = [answer for answer in answers if error_of(answer)]
    assert [answer["custom_id"] for answer in failed] == ["line 17"], failed
    assert error_of(failed[0])["code"] == "crashed" and f"{LIMIT} workers died" in error_of(failed[0])["message"], failed
    # The other answers are the same as without the crash.
    test.environment.pop("SHEAF_FAULT")
    test.run_file("in.jsonl", "calm.jsonl")
    calm = {answer["custom_id"]: answer["response"] for answer in test.answers("calm.jsonl")}
    for answer in answers:
        if answer["custom_id"] != "line 17":
            body = answer["response"]["body"]
            assert [choice["text"] for choice in body["choices"]] == \
                [choice["text"] for choice in calm[answer["custom_id"]]["body"]["choices"]], answer


@case
def three_such_jobs_are_found_one_after_the_other(test):
    faulty(test)
    test.write("in.jsonl", jobs(40, {3, 4, 35}))
    test.run("submit", "in.jsonl", "--dataset", "d")
    n_crashes = work_until_it_lives(
        test, lambda: test.start("work", "--model", test.model, "--exit-when-idle", "0", "--max-batch", "8"), 15)
    assert 9 <= n_crashes <= 15, n_crashes
    assert test.query("SELECT custom_id FROM jobs WHERE error_code = 'crashed' ORDER BY job_index") == \
        [("line 3",), ("line 4",), ("line 35",)]
    assert test.query("SELECT n_done, n_failed FROM datasets") == [(37, 3)]


@case
def without_a_limit_the_job_runs_again_each_time(test):
    faulty(test)
    test.write("in.jsonl", jobs(5, {2}))
    test.run("submit", "in.jsonl", "--dataset", "d")
    for _ in range(5):
        test.run("work", "--model", test.model, "--exit-when-idle", "0", "--crash-limit", "0", status=-signal.SIGKILL)
    assert test.query("SELECT n_done, n_failed FROM datasets") == [(4, 0)]
    assert test.query("SELECT crashes >= 4 FROM queue") == [(1,)]


@case
def on_kafka_the_count_follows_the_partition_to_workers_that_share_no_disk(test):
    faulty(test)
    topics = kafka.Topics(test)
    lines = jobs(60, {17})
    topics.produce(lines)
    n_started = 0

    def start():
        nonlocal n_started
        n_started += 1
        folder = f"machine-{n_started}"
        os.mkdir(test.path(folder))
        return topics.work("--store", os.path.join(folder, "sheaf.db"), "--exit-when-idle", "1", "--max-batch", "8",
                           "-X", "session.timeout.ms=6000")

    n_crashes = work_until_it_lives(test, start, 8)
    assert n_crashes == LIMIT, n_crashes
    results = topics.results()
    assert len(results) == 60
    assert [name for name, result in results.items() if result["status"] != "done"] == ["line 17"]
    assert results["line 17"]["error"]["code"] == "crashed", results["line 17"]
    (letter,) = topics.read("dead")
    headers = dict(zip(letter["headers"][::2], letter["headers"][1::2]))
    assert json.loads(letter["payload"]) == lines[17], letter
    assert headers["__sheaf.errors.code"] == "crashed" and headers["__sheaf.errors.attempts"] == str(LIMIT), headers
    assert headers["__sheaf.errors.stage"] == "compute", headers


@case
def on_kafka_a_worker_that_is_stopped_leaves_no_suspects(test):
    faulty(test)
    topics = kafka.Topics(test, 1)
    for first in range(0, 400, 100):
        topics.produce(jobs(100, set(), first))
        n_before = len(topics.read("results"))
        worker = topics.work("--max-batch", "2", "--engine-test", "fixed:50")  # 10 s: jobs run when it is stopped
        test.wait_until("its first results", lambda: len(topics.read("results")) > n_before)  # pylint: disable=W0640
        worker.terminate()
        assert test.wait(worker).status == 0
    topics.work_to_the_end("--engine-test", "instant", "--crash-limit", "1")  # the first suspect would fail
    assert {result["status"] for result in topics.results().values()} == {"done"}
    assert len(topics.results()) == 400


def quarantined(where):
    """The number of records, from the metric."""
    found = re.findall(r"^sheaf_partition_quarantined\{[^}]*\} (\d+)$", kafka.ask(where, "/metrics")[1], re.M)
    return sum(map(int, found))


@case
def a_producer_s_rubbish_is_left_where_it_is_and_the_others_are_answered(test):
    """Of one partition, so that the good jobs follow the bad records."""
    topics = kafka.Topics(test, 1)
    topics.produce(["not a job at all"] * 300)  # all of one key
    topics.produce(jobs(200, set()))
    for n_lives in (1, 2):  # a restart changes nothing
        worker = topics.work("--engine-test", "instant", "--metrics", "127.0.0.1:0")
        where = kafka.served_at(test, worker)
        test.wait_until("the quarantine", lambda: worker.poll() is not None or  # pylint: disable=W0640
                        kafka.ask(where, "/readyz")[0] == 503 and quarantined(where) > 0)  # pylint: disable=W0640
        test.wait_until("the good jobs", lambda: worker.poll() is not None or  # pylint: disable=W0640
                        sum(result["status"] == "done" for result in topics.results().values()) == 200)
        assert worker.poll() is None, test.stderr_of(worker)
        status, reason = kafka.ask(where, "/readyz")
        assert status == 503 and "partition 0" in reason and "--dead-share" in reason, reason
        assert kafka.ask(where, "/healthz")[0] == 200
        assert quarantined(where) + len(topics.read("dead")) == 300, (quarantined(where), len(topics.read("dead")))
        assert 0 < len(topics.read("dead")) < n_lives * 100, len(topics.read("dead"))
        warnings = [line for line in test.stderr_of(worker).splitlines() if "quarantine" in line]
        assert len(warnings) == 1 and 'key "bad"' in warnings[0] and "--dead-share" in warnings[0], warnings
        worker.terminate()
        assert test.wait(worker).status == 0
    # With the option it answers all of them.
    topics.work_to_the_end("--dead-share", "100")
    assert len(topics.read("dead")) == 300 and len(topics.results()) == 500


@case
def a_topic_of_something_else_is_left_alone_and_ends_no_worker(test):
    """Records with a key each: no producer is known, so their partition counts."""
    topics = kafka.Topics(test, 2)
    lines = "".join(f"{i}\tnot a job at all\n" for i in range(2000))
    kafka.kcat("-P", "-t", topics.prefix + "jobs", "-p", "0", "-K", "\t", text=lines)
    worker = topics.work("--metrics", "127.0.0.1:0", "--engine-test", "instant")
    where = kafka.served_at(test, worker)
    test.wait_until("the quarantine", lambda: worker.poll() is not None or quarantined(where) + len(topics.read("dead")) == 2000)
    assert worker.poll() is None and 0 < len(topics.read("dead")) <= 500, (test.stderr_of(worker), len(topics.read("dead")))
    good = "".join(json.dumps(job) + "\n" for job in jobs(50, set()))
    kafka.kcat("-P", "-t", topics.prefix + "jobs", "-p", "1", text=good)
    test.wait_until("the other partition's jobs", lambda: worker.poll() is not None or
                    sum(result["status"] == "done" for result in topics.results().values()) == 50)
    # A new offset also ends the quarantine: the records are skipped.
    worker.terminate()
    assert test.wait(worker).status == 0


def finish():
    kafka.finish()
