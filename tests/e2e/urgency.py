"""Priorities, deadlines and cancelling on the embedded queue; their reports, and the removal of old ones."""
import json
import time
import zlib

from session import case, error_of, text_of


def jobs(n, **more):
    """Distinct requests: a request equal to an answered one is answered when it is claimed."""
    group = "-".join(str(value) for value in more.values())
    return [dict({"custom_id": f"{group}-{i}", "prompt": text_of(i, 5), "max_tokens": 4, "seed": zlib.crc32(f"{group}-{i}".encode())}, **more)
            for i in range(n)]


def submit(test, dataset, lines):
    test.write(f"{dataset}.jsonl", lines)
    test.run("submit", f"{dataset}.jsonl", "--dataset", dataset)


def work(test, *options):
    finished = test.run("work", "--model", test.model, "--exit-when-idle", "0", "--max-batch", "1", "--window", "4", *options)
    return finished


@case
def the_more_urgent_jobs_finish_first_and_the_others_keep_their_share(test):
    submit(test, "low", jobs(8, priority=-3))
    submit(test, "middle", jobs(16))
    submit(test, "high", jobs(40, priority=7))
    work(test)
    order = [dataset for (dataset,) in test.query("SELECT dataset FROM jobs ORDER BY finished_at_us, id")]
    assert len(order) == 64
    first = order[:40]
    assert first.count("high") >= 40 * 6 // 8, first  # the share of the oldest is taken at the claim and in the window
    assert 3 <= first.count("low") <= 10, first       # which were submitted first
    last_high = max(i for i, dataset in enumerate(order) if dataset == "high")
    assert last_high < max(i for i, dataset in enumerate(order) if dataset == "middle"), order


@case
def a_job_past_its_deadline_fails_with_an_error_of_its_own_and_the_others_do_not(test):
    now = int(time.time())
    submit(test, "d", jobs(3, deadline=now - 1) + jobs(3, deadline=now + 3600) + jobs(3) + jobs(1, deadline=1800000000000))
    work(test)
    test.run("collect", "--dataset", "d", "-o", "out.jsonl")
    answers = test.answers()
    codes = [(error_of(answer) or {}).get("code") for answer in answers]
    assert codes == ["deadline_exceeded"] * 3 + [None] * 6 + ["limit_exceeded"], codes
    assert "passed" in error_of(answers[0])["message"], answers[0]
    (failure,) = test.query("SELECT jobs FROM failures WHERE error_code = 'deadline_exceeded'")
    assert failure == (3,)
    assert test.query("SELECT count(*) FROM jobs WHERE deadline_us > 0") == [(6,)]


@case
def status_shows_what_waits_by_priority_and_what_came_too_late(test):
    now = int(time.time())
    submit(test, "d", jobs(3, priority=5, deadline=now - 1) + jobs(2, priority=5) + jobs(4))
    printed = json.loads(test.run("status", "--json").out)
    assert printed["unfinished"] == [
        {"dataset": "d", "priority": 5, "waiting": 5, "running": 0, "late": 3, "suspects": 0},
        {"dataset": "d", "priority": 0, "waiting": 4, "running": 0, "late": 0, "suspects": 0}], printed
    assert printed["suspects"] == [] and printed["datasets"][0]["late"] == 0, printed
    text = test.run("status").out
    assert "unfinished" in text and "priority" in text, text
    work(test)
    printed = json.loads(test.run("status", "--json").out)
    assert printed["unfinished"] == [] and printed["datasets"][0]["late"] == 3 and printed["datasets"][0]["failed"] == 3, printed
    assert "3 past their deadline" in test.run("status").out


@case
def priorities_change_the_order_and_no_answer(test):
    lines = jobs(20)
    test.write("plain.jsonl", lines)
    test.run_file("plain.jsonl", "plain-out.jsonl")
    test.write("urgent.jsonl", [dict(line, priority=i * 7 % 5, deadline=4000000000 + i * 60) for i, line in enumerate(lines)])
    test.run_file("urgent.jsonl", "urgent-out.jsonl", "--max-batch", "2")
    assert test.comparable("plain-out.jsonl") == test.comparable("urgent-out.jsonl")


@case
def a_cancellation_is_read_before_the_waiting_jobs_are_computed(test):
    """The batch holds 4 of 400 jobs, each a step per token: jobs cancelled meanwhile are not computed."""
    lines = [dict(line, max_tokens=200, ignore_eos=True) for line in jobs(400)]
    submit(test, "d", lines)
    worker = test.start("work", "--model", test.model, "--max-batch", "4", "--exit-when-idle", "0", "--threads", "1",
                        "--engine-test", "fixed:20")
    test.wait_until("a first answer", lambda: test.query("SELECT n_done FROM datasets WHERE n_done > 0"))
    test.run("cancel", "--dataset", "d")
    finished = test.wait(worker)
    assert finished.status == 0, finished
    (n_done, n_cancelled), = test.query("SELECT n_done, n_cancelled FROM datasets")
    assert n_done + n_cancelled == 400 and n_cancelled > 300, (n_done, n_cancelled)
    # After another second at most one batch finishes, and only if the worker was stopped meanwhile.
    (late,), = test.query("SELECT count(*) FROM jobs JOIN datasets USING (dataset) WHERE status = 'done'"
                          " AND finished_at_us > cancelled_at_us + 1000000")
    assert late <= 4, late


@case
def old_rows_become_sums_and_what_nobody_collected_stays(test):
    submit(test, "collected", jobs(30))
    submit(test, "kept", jobs(10))
    work(test)
    test.run("collect", "--dataset", "collected", "-o", "out.jsonl")
    before = test.query("SELECT * FROM jobs_by_hour"), test.query("SELECT * FROM throughput_by_hour")
    time_before = test.query("SELECT max(collected_at_us) FROM datasets")[0][0]
    test.wait_until("a second later", lambda: time.time() * 1e6 > time_before + 1100000)
    submit(test, "new", jobs(1))
    worker = test.start("work", "--model", test.model, "--retain", "1s", "--no-reuse")
    test.wait_until("the old jobs to go", lambda: test.query("SELECT count(*) FROM jobs WHERE dataset = 'collected'") == [(0,)])
    worker.terminate()
    assert test.wait(worker).status == 0
    assert test.query("SELECT count(*) FROM jobs WHERE dataset = 'kept'") == [(10,)]
    after = [row for row in test.query("SELECT * FROM jobs_by_hour") if row[0] != "new"]
    assert after == before[0], (after, before[0])
    assert test.query("SELECT sum(steps) FROM throughput_by_hour")[0][0] > sum(row[5] for row in before[1])
    refused = test.run("collect", "--dataset", "collected", "-o", "again.jsonl", status=1)
    assert "--retain" in refused.err and not test.exists("again.jsonl"), refused
    test.run("collect", "--dataset", "kept", "-o", "kept-out.jsonl")
    assert len(test.answers("kept-out.jsonl")) == 10
    printed = json.loads(test.run("status", "--json").out)
    assert {row["dataset"]: row["done"] for row in printed["datasets"]} == {"collected": 30, "kept": 10, "new": 1}, printed
