"""The commands on the embedded queue: several processes submit, work, watch, cancel and collect at once."""
import json
import os
import pty
import re
import signal
import sqlite3
import subprocess

import tiny_model
from session import DEADLINE_S, Skip, case, error_of, text_of, varied_jobs

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


PACE = "--engine-test", "fixed:20"  # steps take at least 20 ms on any machine, so that jobs are still running when the test acts


def slow_jobs(n, n_tokens=200):
    """Jobs of 8 answers that take n_tokens steps each."""
    return [{"custom_id": f"line {i}", "prompt": text_of(i, 3), "max_tokens": n_tokens, "n": 8, "temperature": 0.9,
             "ignore_eos": True} for i in range(n)]


def short_jobs(n, first=0):
    return [{"custom_id": f"line {i}", "prompt": text_of(i, 5), "max_tokens": 4, "temperature": 0.7, "seed": i}
            for i in range(first, first + n)]


def work(test, *options):
    return test.start("work", "--model", test.model, "--threads", "1", *options)


def full_pipe():
    """The ends of a full pipe without a reader."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    try:
        while True:
            os.write(writer, bytes(4096))
    except BlockingIOError:
        os.set_blocking(writer, True)
    return reader, writer


@case
def messages_that_nobody_reads_stop_no_work_and_are_counted(test):
    test.write("in.jsonl", short_jobs(3))
    reader, writer = full_pipe()
    worker = subprocess.Popen([test.sheaf, "work", "--model", test.model, "--threads", "1", "--metrics", "127.0.0.1:0"], cwd=test.folder,
                              env=test.environment, stdin=subprocess.DEVNULL, stderr=writer)
    os.close(writer)
    try:
        test.wait_until("the store is there", lambda: os.path.exists(os.path.join(test.folder, "sheaf.db")))
        test.run("submit", "in.jsonl", "--dataset", "run")
        test.wait_until("all is answered", lambda: test.query("SELECT n_done FROM datasets") == [(3,)])
        os.read(reader, 1 << 20)
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(DEADLINE_S) == 0
        with os.fdopen(reader) as rest:
            assert re.search("[0-9]+ messages were lost: nobody read them", rest.read())
    finally:
        worker.kill()
        worker.wait()


@case
def submit_work_and_collect_give_the_answers_of_run(test):
    test.write("in.jsonl", varied_jobs(30))
    test.run_file("in.jsonl", "reference.jsonl")
    test.run("submit", "in.jsonl", "--dataset", "run")
    test.run("work", "--model", test.model, "--exit-when-idle", "0")
    test.run("collect", "--dataset", "run", "-o", "out.jsonl")
    assert test.comparable() == test.comparable("reference.jsonl")


@case
def a_worker_that_ends_leaves_a_closed_store(test):
    test.write("in.jsonl", short_jobs(3))
    test.run("submit", "in.jsonl", "--dataset", "run")
    test.run("work", "--model", test.model, "--exit-when-idle", "0")
    # SQLite's last connection to close moves the log into the file
    assert not any(os.path.exists(os.path.join(test.folder, "sheaf.db" + end)) for end in ("-wal", "-shm")), os.listdir(test.folder)
    assert test.query("SELECT n_done FROM datasets") == [(3,)]


@case
def a_success_is_reported_without_a_warning(test):
    test.write("in.jsonl", short_jobs(10))
    runs = [test.run_file(), test.run("submit", "in.jsonl", "--dataset", "d"),
            test.run("work", "--model", test.model, "--exit-when-idle", "0"), test.run("status"),
            test.run("collect", "--dataset", "d", "-o", "d.jsonl"),
            test.run("run", "in.jsonl", "-o", "-", "--model", test.model)]
    assert not any("warning" in finished.err for finished in runs), runs


@case
def a_run_says_how_many_answers_and_errors_it_wrote_and_where(test):
    test.write("in.jsonl", short_jobs(7) + ["{no job"])
    finished = test.run_file(status=3)
    assert re.search(r"8 answers in out\.jsonl, 1 of them errors; figures in \S+", finished.err), finished
    assert finished.err.endswith("1 job failed: exit status 3\n"), finished  # submitting again would answer no job
    finished = test.run("run", "in.jsonl", "-o", "apart.jsonl", "--errors", "errors.jsonl", "--model", test.model, status=3)
    assert re.search(r": 7 answers in apart\.jsonl, 1 errors in errors\.jsonl; figures in \S+", finished.err), finished
    assert [len(test.read(name).splitlines()) for name in ("apart.jsonl", "errors.jsonl")] == [7, 1]
    test.write("good.jsonl", short_jobs(7))
    assert "7 answers in good.out.jsonl, 0 of them errors" in test.run_file("good.jsonl", "good.out.jsonl", status=0).err


@case
def on_a_terminal_quantize_shows_how_far_it_is_and_clears_the_line(test):
    ours, theirs = pty.openpty()
    process = subprocess.Popen([test.sheaf, "quantize", test.model, "small.gguf", "--type", "q8_0"], cwd=test.folder,
                               env=test.environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=theirs)
    os.close(theirs)
    shown = b""
    try:
        while piece := os.read(ours, 4096):
            shown += piece
    except OSError:  # the terminal's other end is closed
        pass
    os.close(ours)
    assert process.wait(DEADLINE_S) == 0, shown
    percents = [int(percent) for percent in re.findall(rb"\rquantizing: +(\d+) %", shown)]
    assert percents and percents == sorted(set(percents)) and percents[-1] == 100, shown
    assert b"\r\x1b[K" in shown, shown
    quiet = test.run("quantize", test.model, "again.gguf", "--type", "q8_0")
    assert "quantizing" not in quiet.err, quiet


@case
def standard_input_and_output_take_the_place_of_files(test):
    lines = "".join(json.dumps(job) + "\n" for job in short_jobs(5))
    finished = test.run("run", "-", "-o", "-", "--model", test.model, stdin=lines)
    answers = [json.loads(line) for line in finished.out.splitlines()]
    assert [answer["custom_id"] for answer in answers] == [f"line {i}" for i in range(5)]
    test.run("submit", "-", "--dataset", "d", stdin=lines)
    test.run("work", "--model", test.model, "--exit-when-idle", "0")
    collected = test.run("collect", "--dataset", "d", "-o", "-").out
    assert [json.loads(line)["custom_id"] for line in collected.splitlines()] == [f"line {i}" for i in range(5)]


@case
def the_test_engine_answers_by_job_and_seed_whatever_its_pace(test):
    test.write("in.jsonl", short_jobs(40))
    for spec in ("instant", "fixed:1", "random:3"):
        name = spec.replace(":", "-") + ".jsonl"
        finished = test.run_file("in.jsonl", name, "--engine-test", spec)
        assert f"--engine-test {spec}" in finished.err, finished
        assert test.comparable(name) == test.comparable("instant.jsonl")
    answers = [answer["response"]["body"]["choices"][0] for answer in test.answers("instant.jsonl")]
    assert {answer["finish_reason"] for answer in answers} == {"stop", "length"}
    for spec in ("fast", "fixed:", "fixed:-1", "random:1x", "fixed:600001"):
        finished = test.run_file("in.jsonl", "refused.jsonl", "--engine-test", spec, status=2)
        assert "--engine-test: expected instant" in finished.err and spec in finished.err, finished
    test.run_file("in.jsonl", "longest.jsonl", "--engine-test", "random:0")


@case
def failed_jobs_go_to_the_file_of_errors(test):
    jobs = short_jobs(6)
    jobs[2]["max_tokens"] = "many"
    jobs[4] = "{no json"
    test.write("in.jsonl", jobs)
    test.run_file("in.jsonl", "out.jsonl", "--errors", "errors.jsonl")
    assert [answer["custom_id"] for answer in test.answers()] == ["line 0", "line 1", "line 3", "line 5"]
    assert [error_of(answer)["code"] for answer in test.answers("errors.jsonl")] == ["invalid_field", "invalid_encoding"]


@case
def a_run_done_before_writes_its_output_again_without_work(test):
    test.write("in.jsonl", short_jobs(5))
    test.run_file()
    before = test.read("out.jsonl")
    os.remove(test.path("out.jsonl"))
    test.run_file()
    assert test.read("out.jsonl") == before
    # The second worker has only checked that its model is the one that answered.
    assert test.query("SELECT sum(n_steps > 0) FROM workers", "out.jsonl.db") == [(1,)]
    assert test.query("SELECT count(DISTINCT worker) FROM jobs", "out.jsonl.db") == [(1,)]


def ids_of(test):
    return [answer["custom_id"] for answer in test.answers()]


@case
def a_run_computes_the_changed_and_new_lines_of_its_input_alone(test):
    lines = [json.dumps({"custom_id": f"line {i}", "prompt": text_of(i, 3), "max_tokens": 4, "temperature": 0.8}) for i in range(9)]
    test.write("in.jsonl", lines)
    test.run_file()
    before = dict(zip(ids_of(test), test.comparable().splitlines()))
    mended = [lines[0], lines[4].replace("{", "{ ", 1), lines[2].replace('"max_tokens": 4', '"max_tokens": 5'), *lines[5:8], lines[3],
              lines[1].replace("line 1", "new"), lines[8]]
    test.write("in.jsonl", mended)
    finished = test.run_file()
    assert "7 lines are as they were, 2 are new or changed, 1 is gone" in finished.err, finished
    assert ids_of(test) == [json.loads(line)["custom_id"] for line in mended]
    for name, line in zip(ids_of(test), test.comparable().splitlines()):  # "run-N" has the line's number
        assert name in ("new", "line 2") or re.sub(rb"run-\d", b"", line) == re.sub(rb"run-\d", b"", before[name]), (before[name], line)
    assert test.query("SELECT n_submitted, n_done, complete FROM datasets", "out.jsonl.db") == [(9, 9, 1)]
    assert test.query("SELECT count(*) FROM jobs WHERE worker = 2", "out.jsonl.db") == [(2,)]
    test.run("run", "in.jsonl", "-o", "fresh.jsonl", "--model", test.model)
    assert test.comparable("fresh.jsonl") == test.comparable()
    test.write("in.jsonl", mended[:3])
    assert "3 lines are as they were, 0 are new or changed, 6 are gone" in test.run_file().err
    assert ids_of(test) == [json.loads(line)["custom_id"] for line in mended[:3]]
    test.write("in.jsonl", mended[:3] + lines[7:8])
    test.run_file()
    assert test.query("SELECT n_submitted, n_done FROM datasets", "out.jsonl.db") == [(4, 4)]
    assert test.query("SELECT count(*) FROM results", "out.jsonl.db") == [(4,)]


@case
def a_run_that_was_killed_goes_on_with_a_changed_input(test):
    jobs = short_jobs(40)
    test.write("in.jsonl", jobs)
    process = test.start("run", "in.jsonl", "-o", "out.jsonl", "--model", test.model, "--engine-test", "fixed:20", "--max-batch", "1", "--window", "2")
    test.wait_until("an answer", lambda: test.exists("out.jsonl.db") and test.query("SELECT count(*) FROM results", "out.jsonl.db") not in ([], [(0,)]))
    process.kill()
    test.wait(process)
    (n_done, n_claimed), = test.query("SELECT (SELECT count(*) FROM results), count(*) FROM queue WHERE worker IS NOT NULL", "out.jsonl.db")
    assert n_done < 38 and n_claimed > 0, (n_done, n_claimed)
    test.write("in.jsonl", [*jobs[1:38], dict(jobs[38], max_tokens=3), dict(jobs[39], custom_id="new")])
    finished = test.run_file("in.jsonl", "out.jsonl", "--engine-test", "instant")
    assert "37 lines are as they were, 2 are new or changed, 2 are gone" in finished.err, finished
    assert ids_of(test) == [*(f"line {i}" for i in range(1, 39)), "new"] and not any(error_of(answer) for answer in test.answers())


@case
def answers_of_lines_without_ids_are_found_where_the_lines_stand_now(test):
    lines = [{"prompt": f"the water {i}", "temperature": 0, "max_tokens": 3} for i in range(6)]
    test.write("in.jsonl", lines)
    test.run_file()
    test.write("in.jsonl", [{"prompt": "new", "temperature": 0, "max_tokens": 3}] + lines)
    test.run_file()
    assert test.query("SELECT sum(NOT is_duplicate AND worker = 2) FROM jobs", "out.jsonl.db") == [(1,)]
    assert test.query("SELECT dataset, n_done FROM datasets", "out.jsonl.db") == [("run", 7)]
    test.run("run", "in.jsonl", "-o", "fresh.jsonl", "--model", test.model)
    assert test.comparable("fresh.jsonl") == test.comparable()


@case
def answers_stay_unless_the_user_has_them_removed_and_a_repeated_run_says_how_to_go_on(test):
    test.write("in.jsonl", short_jobs(5))
    test.run_file()
    before = test.read("out.jsonl")
    month_us = 40 * 86400 * 10**6
    with sqlite3.connect(test.path("out.jsonl.db")) as store:
        store.execute("UPDATE jobs SET finished_at_us = finished_at_us - ?", (month_us,))
        store.execute("UPDATE datasets SET collected_at_us = collected_at_us - ?1, last_finished_at_us = last_finished_at_us - ?1", (month_us,))
    for _ in range(2):
        test.run_file()
        assert test.read("out.jsonl") == before and test.query("SELECT count(*) FROM results", "out.jsonl.db") == [(5,)]
        with sqlite3.connect(test.path("out.jsonl.db")) as store:
            store.execute("UPDATE datasets SET collected_at_us = collected_at_us - ?1", (month_us,))
    for options in (("--retain", "30d"), ()):
        done = test.run_file("in.jsonl", "out.jsonl", *options)
        assert "out.jsonl is there, as it was written" in done.err, done
        assert test.query("SELECT count(*) FROM jobs", "out.jsonl.db") == [(0,)]
    with open(test.path("out.jsonl"), "ab") as file:
        file.write(b"{}\n")
    done = test.run_file(status=1)
    assert "the output is not as it was written" in done.err and "sheaf dataset delete run --store out.jsonl.db" in done.err, done
    test.write("out.jsonl", [])
    with open(test.path("out.jsonl"), "wb") as file:
        file.write(before)
    test.write("in.jsonl", short_jobs(6))
    assert "the input has changed" in test.run_file(status=1).err
    test.run("dataset", "delete", "run", "--store", "out.jsonl.db")
    test.run_file("in.jsonl", "out.jsonl", "--overwrite")
    assert len(test.answers()) == 6


@case
def a_run_does_not_overwrite_a_file_that_it_did_not_write(test):
    test.write("in.jsonl", short_jobs(2))
    test.write("out.jsonl", short_jobs(1))
    before = test.read("out.jsonl")
    done = test.run_file(status=1)
    assert "out.jsonl exists, and was not written for dataset run" in done.err and test.read("out.jsonl") == before, done
    test.run_file("in.jsonl", "out.jsonl", "--overwrite")
    test.run_file()
    assert len(test.answers()) == 2


@case
def the_rate_of_a_dataset_stays_when_another_one_works_later(test):
    for name, minutes in (("first", 5), ("second", 0)):
        test.write("in.jsonl", short_jobs(8))
        test.run("submit", "in.jsonl", "--dataset", name)
        test.run("work", "--model", test.model, "--exit-when-idle", "0", "--no-reuse")
        with sqlite3.connect(test.path("sheaf.db")) as store:
            store.execute("UPDATE jobs SET finished_at_us = finished_at_us - ? WHERE dataset = ?", (minutes * 60 * 10**6, name))
            store.execute("UPDATE datasets SET last_finished_at_us = last_finished_at_us - ? WHERE dataset = ?", (minutes * 60 * 10**6, name))
    rates = dict(test.query("SELECT dataset, jobs_per_second FROM progress"))
    assert rates["first"] and rates["first"] > 0 and rates["second"] > 0, rates
    printed = json.loads(test.run("status", "--json").out)
    assert {row["dataset"]: row["jobs_per_second"] > 0 for row in printed["datasets"]} == {"first": True, "second": True}, printed


@case
def a_run_of_another_input_is_refused_and_keeps_what_is_there(test):
    test.write("in.jsonl", short_jobs(5))
    test.run_file()
    before = test.read("out.jsonl")
    test.write("in.jsonl", short_jobs(5, 10))
    finished = test.run_file("in.jsonl", "out.jsonl", status=1)
    assert "another input" in finished.err and "out.jsonl.db" in finished.err, finished
    assert test.read("out.jsonl") == before


@case
def a_file_submitted_twice_is_queued_once(test):
    test.write("in.jsonl", short_jobs(700))
    test.run("submit", "in.jsonl", "--dataset", "d")
    assert "there already" in test.run("submit", "in.jsonl", "--dataset", "d").err
    assert test.query("SELECT count(*) FROM queue") == [(700,)]
    assert test.query("SELECT n_submitted FROM datasets") == [(700,)]


@case
def collect_before_the_end_is_refused_unless_forced(test):
    test.write("in.jsonl", short_jobs(3))
    test.run("submit", "in.jsonl", "--dataset", "d")
    finished = test.run("collect", "--dataset", "d", "-o", "out.jsonl", status=1)
    assert "dataset d: 0 of 3 jobs have results; wait" in finished.err and not test.exists("out.jsonl"), finished
    assert "0 of 3 jobs have results" in test.run("collect", "--dataset", "d", "-o", "out.jsonl", "--force").err
    assert test.read("out.jsonl") == b""
    test.run("work", "--model", test.model, "--exit-when-idle", "0", "--engine-test", "instant")
    test.write("in.jsonl", short_jobs(5))
    test.run("submit", "in.jsonl", "--dataset", "d")
    finished = test.run("collect", "--dataset", "d", "-o", "out.jsonl", status=1)
    assert "dataset d: 3 of 5 jobs have results; wait" in finished.err and test.read("out.jsonl") == b"", finished
    assert "3 of 5 jobs have results" in test.run("collect", "--dataset", "d", "-o", "out.jsonl", "--force").err
    assert len(test.answers()) == 3


@case
def a_worker_reports_how_many_jobs_it_answered(test):
    for n, expected in (1, "1 job answered, 0 failed, 0 cancelled"), (2, "2 jobs answered, 0 failed, 0 cancelled"):
        test.write("in.jsonl", short_jobs(n))
        test.run("submit", "in.jsonl", "--dataset", f"of {n}")
        finished = test.run("work", "--model", test.model, "--exit-when-idle", "0", "--engine-test", "instant")
        assert expected in finished.err, finished


@case
def cancelled_jobs_are_no_work_and_have_no_rate(test):
    test.write("in.jsonl", short_jobs(30))
    test.run("submit", "in.jsonl", "--dataset", "d")
    test.run("cancel", "--dataset", "d")
    (printed,) = json.loads(test.run("status", "--json").out)["datasets"]
    assert (printed["cancelled"], printed["jobs_per_second"], printed["seconds_left"]) == (30, 0, None), printed


@case
def status_tells_progress_as_text_and_as_json(test):
    test.write("in.jsonl", short_jobs(5) + ["{no json"])
    test.run("submit", "in.jsonl", "--dataset", "first")
    test.write("more.jsonl", short_jobs(4))
    test.run("submit", "more.jsonl", "--dataset", "second")
    test.run("work", "--model", test.model, "--exit-when-idle", "0", "--dataset", "first")
    printed = json.loads(test.run("status", "--json").out)
    first, second = printed["datasets"]
    assert (first["dataset"], first["submitted"], first["done"], first["failed"]) == ("first", 6, 5, 1), printed
    assert (second["dataset"], second["submitted"], second["done"]) == ("second", 4, 0), printed
    assert printed["steps"] > 0 and printed["workers_alive"] == 0, printed
    only = json.loads(test.run("status", "--json", "--dataset", "second").out)
    assert [dataset["dataset"] for dataset in only["datasets"]] == ["second"], only
    text = test.run("status").out
    assert "first" in text and "second" in text and "100.0%" in text, text


@case
def texts_from_outside_reach_the_terminal_without_what_it_would_obey(test):
    hostile = "n\033]0;pwn\007\u009b31m\u202ex"
    name = tiny_model.value(tiny_model.STRING, hostile)
    tiny_model.write(os.path.join(test.folder, "hostile.gguf"), more_keys={"general.name": name})
    test.write("in.jsonl", short_jobs(2))
    test.run("submit", "in.jsonl", "--dataset", hostile)
    said = [test.run("status"), test.run("work", "--model", "hostile.gguf", "--exit-when-idle", "0"),
            test.run("inspect", "hostile.gguf"), test.run("status"), test.run("dataset", "list"),
            test.run("run", "in.jsonl", "-o", "out.jsonl", "--model", "hostile.gguf", "--model-name", hostile),
            test.run("status", "--dataset", hostile + "?", status=None), test.run("dataset", "delete", hostile)]
    test.write("t.csv", [f"review,{hostile}", f"good,neg{hostile}", "x,positive"])
    test.write("p.jinja", ["{{ review }}"])
    said.append(test.run("annotate", "t.csv", test.model, "--prompt", "p.jinja", "--choice", "positive,negative",
                         "--evaluate", hostile, "-s", "e.db", "-o", "e.csv"))
    for finished in said:
        text = finished.out + finished.err
        assert "pwn" in text and not re.search("[\0-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", text), (finished.arguments, text)


@case
def watching_ends_when_everything_is_finished(test):
    test.write("in.jsonl", short_jobs(20))
    test.run("submit", "in.jsonl", "--dataset", "d")
    watcher = test.start("status", "--watch", "--dataset", "d")
    test.run("work", "--model", test.model, "--exit-when-idle", "0")
    finished = test.wait(watcher)
    assert finished.status == 0 and "100.0%" in finished.out, finished


@case
def cancelled_jobs_have_one_result_each_and_no_worker_takes_them(test):
    test.write("in.jsonl", short_jobs(50))
    test.run("submit", "in.jsonl", "--dataset", "d")
    test.run("cancel", "--dataset", "d")
    test.run("work", "--model", test.model, "--exit-when-idle", "0")
    test.run("collect", "--dataset", "d", "-o", "out.jsonl")
    assert [error_of(answer)["code"] for answer in test.answers()] == ["cancelled"] * 50
    assert test.query("SELECT n_cancelled, n_done FROM datasets") == [(50, 0)]
    finished = test.run("submit", "in.jsonl", "--dataset", "d", status=1)
    assert "was cancelled" in finished.err, finished


@case
def cancelling_a_finished_dataset_changes_nothing_and_says_so(test):
    test.write("in.jsonl", short_jobs(20))
    test.run("submit", "in.jsonl", "--dataset", "d")
    test.run("work", "--model", test.model, "--exit-when-idle", "0")
    finished = test.run("cancel", "--dataset", "d")
    assert "nothing to cancel: all 20 jobs have finished (20 answered, 0 failed, 0 cancelled)" in finished.err, finished
    test.write("in.jsonl", short_jobs(30))
    test.run("submit", "in.jsonl", "--dataset", "d")
    test.run("work", "--model", test.model, "--exit-when-idle", "0")
    assert test.query("SELECT n_submitted, n_done, cancelled_at_us FROM datasets") == [(30, 30, None)]


@case
def running_jobs_of_a_cancelled_dataset_stop_and_the_others_finish(test):
    test.write("slow.jsonl", slow_jobs(300))
    test.write("other.jsonl", short_jobs(20))
    test.run("submit", "slow.jsonl", "--dataset", "slow")
    worker = work(test, "--exit-when-idle", "0", "--max-batch", "16", *PACE)
    test.wait_until("jobs run", lambda: test.query("SELECT count(*) FROM jobs WHERE status = 'running'") > [(0,)])
    test.run("submit", "other.jsonl", "--dataset", "other")
    test.run("cancel", "--dataset", "slow")
    assert test.wait(worker).status == 0
    test.run("collect", "--dataset", "slow", "-o", "slow-out.jsonl")
    test.run("collect", "--dataset", "other", "-o", "other-out.jsonl")
    codes = [error_of(answer) and error_of(answer)["code"] for answer in test.answers("slow-out.jsonl")]
    assert len(codes) == 300 and codes.count("cancelled") > 0 and set(codes) <= {None, "cancelled"}, codes
    assert [error_of(answer) for answer in test.answers("other-out.jsonl")] == [None] * 20


N_SHARED = 500


@case
def several_workers_share_the_queue_while_others_submit_watch_and_collect(test):
    # Slow steps, so that no worker can answer all jobs before the others start.
    workers = [work(test, "--window", "32", "--max-batch", "8", *PACE) for _ in range(3)]
    test.wait_until("they are registered", lambda: test.query("SELECT count(*) FROM workers") == [(3,)])
    others = []
    for name, first in (("a", 0), ("b", 1000)):
        test.write(f"{name}.jsonl", short_jobs(N_SHARED, first))
        others.append(test.start("submit", f"{name}.jsonl", "--dataset", name))
    others += [test.start("status", "--json") for _ in range(3)]
    test.wait_until("there are jobs", lambda: test.query("SELECT count(*) FROM jobs WHERE dataset = 'a'") > [(0,)])
    others.append(test.start("collect", "--dataset", "a", "-o", "early.jsonl", "--force"))
    test.wait_until("all is done", lambda: test.query("SELECT count(*) FROM results") == [(2 * N_SHARED,)])
    for worker in workers:
        worker.send_signal(signal.SIGTERM)
    for process in others + workers:
        finished = test.wait(process)
        assert finished.status == 0, finished
    for name, first in (("a", 0), ("b", 1000)):
        test.run("collect", "--dataset", name, "-o", f"{name}-out.jsonl")
        test.run_file(f"{name}.jsonl", f"{name}-reference.jsonl", "--engine-test", "instant")
        answers, expected = (test.answers(f"{name}-{kind}.jsonl") for kind in ("out", "reference"))
        assert [answer["custom_id"] for answer in answers] == [f"line {i}" for i in range(first, first + N_SHARED)]
        assert [answer["response"]["body"]["choices"] for answer in answers] == [
            answer["response"]["body"]["choices"] for answer in expected]
    shares = dict(test.query("SELECT worker, count(*) FROM jobs GROUP BY worker"))
    assert sum(shares.values()) == 2 * N_SHARED and len(shares) > 1, shares
    assert test.query("SELECT max(attempts) FROM jobs") == [(1,)]


@case
def a_stopped_worker_releases_its_waiting_jobs_and_another_finishes_them(test):
    test.write("in.jsonl", slow_jobs(60, 50))
    test.run("submit", "in.jsonl", "--dataset", "d")
    worker = work(test, "--max-batch", "8", *PACE)
    test.wait_until("some jobs are done", lambda: test.query("SELECT count(*) FROM results") > [(0,)])
    worker.send_signal(signal.SIGTERM)
    finished = test.wait(worker)
    assert finished.status == 0, finished
    n_done = test.query("SELECT count(*) FROM results")[0][0]
    assert 0 < n_done < 60, n_done
    assert test.query("SELECT status, count(*) FROM jobs GROUP BY status ORDER BY status") == [
        ("done", n_done), ("queued", 60 - n_done)]
    assert test.query("SELECT count(*) FROM queue WHERE worker IS NOT NULL") == [(0,)]
    assert test.query("SELECT count(*) FROM workers WHERE stopped_at_us IS NULL") == [(0,)]
    assert test.wait(work(test, "--exit-when-idle", "0", "--engine-test", "instant")).status == 0
    test.run("collect", "--dataset", "d", "-o", "out.jsonl")
    assert [answer["custom_id"] for answer in test.answers()] == [f"line {i}" for i in range(60)]
    # A job that is released before its start counts no attempt.
    assert test.query("SELECT max(attempts) FROM jobs") == [(1,)]


@case
def a_second_signal_gives_running_jobs_back_too(test):
    test.write("in.jsonl", slow_jobs(40, 240))
    test.run("submit", "in.jsonl", "--dataset", "d")
    worker = work(test, "--max-batch", "8", "--engine-test", "fixed:1000")
    test.wait_until("jobs run", lambda: test.query("SELECT count(*) FROM jobs WHERE status = 'running'") > [(0,)])
    worker.send_signal(signal.SIGINT)
    test.wait_until("the first signal is handled", lambda: "stopping" in test.stderr_of(worker))
    worker.send_signal(signal.SIGINT)
    finished = test.wait(worker)
    assert finished.status == 0 and "stopping now: running jobs are released" in finished.err, finished
    assert test.query("SELECT count(*) FROM queue WHERE worker IS NOT NULL") == [(0,)]
    assert test.query("SELECT count(*) FROM jobs WHERE status NOT IN ('queued', 'done')") == [(0,)]


@case
def a_stopped_run_says_so_and_the_same_command_continues_it(test):
    test.write("in.jsonl", slow_jobs(60, 50))
    run = test.start("run", "in.jsonl", "-o", "out.jsonl", "--model", test.model, "--max-batch", "8", *PACE)
    test.wait_until("some jobs are done", lambda: test.query("SELECT count(*) FROM results", "out.jsonl.db") > [(0,)])
    run.send_signal(signal.SIGTERM)
    finished = test.wait(run)
    assert finished.status == 1 and "continues from here" in finished.err and not test.exists("out.jsonl"), finished
    test.run_file("in.jsonl", "out.jsonl", "--engine-test", "instant")
    assert len(test.answers()) == 60


def stop_at_once():
    """Runs in the new process: blocks SIGTERM and leaves one pending, so that it arrives while the model is loaded."""
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    os.kill(os.getpid(), signal.SIGTERM)


@case
def a_stop_while_the_model_loads_ends_the_start(test):
    test.write("in.jsonl", short_jobs(1))
    worker = test.wait(test.start("work", "--model", test.model, preexec_fn=stop_at_once))
    assert worker.status == 0 and "stopped while reading the model; no job was taken" in worker.err, worker
    run = test.wait(test.start("run", "in.jsonl", "-o", "out.jsonl", "--model", test.model, preexec_fn=stop_at_once))
    assert run.status == 1 and "stopped with 1 job to go; the same command continues from here" in run.err, run
    test.run_file()
    assert len(test.answers()) == 1


def stop_while_it_reads_its_options(test, *lines):
    """Reads its options from a pipe, so that the test controls the instant: before any other work."""
    command, *options = lines
    if not os.path.exists(test.path("options")):
        os.mkfifo(test.path("options"))
    started = test.start(command, "--config", "options")
    with open(test.path("options"), "w", encoding="ascii") as pipe:  # also after the command has opened it
        started.send_signal(signal.SIGTERM)
        pipe.write("\n".join(options) + "\n")
    return test.wait(started)


@case
def a_worker_that_is_stopped_at_once_ends_cleanly(test):
    """SIGTERM killed the process there, which a supervisor treats as a failure."""
    worker = stop_while_it_reads_its_options(test, "work", f"model = {test.model}")
    assert worker.status == 0 and "no job was taken" in worker.err, worker


@case
def a_worker_waits_for_jobs_and_takes_them_when_they_come(test):
    worker = work(test)
    test.wait_until("it is registered", lambda: test.query("SELECT count(*) FROM workers") == [(1,)])
    for name in ("a", "b"):
        test.write(f"{name}.jsonl", short_jobs(5))
        test.run("submit", f"{name}.jsonl", "--dataset", name)
        test.wait_until(f"{name} is done", lambda name=name: test.query(
            f"SELECT n_done FROM datasets WHERE dataset = '{name}'") == [(5,)])
    worker.send_signal(signal.SIGTERM)
    assert test.wait(worker).status == 0


@case
def the_store_is_readable_by_its_owner_only(test):
    test.write("in.jsonl", short_jobs(1))
    test.run("submit", "in.jsonl", "--dataset", "d")
    assert os.stat(test.path("sheaf.db")).st_mode & 0o777 == 0o600


@case
def the_store_is_sound_and_its_totals_agree_with_its_jobs(test):
    test.write("in.jsonl", varied_jobs(60) + ["{no json"] * 3)
    test.run_file()
    assert test.query("PRAGMA integrity_check", "out.jsonl.db") == [("ok",)]
    assert test.query("PRAGMA foreign_key_check", "out.jsonl.db") == []
    totals = test.query("SELECT n_submitted, n_done, n_failed, prompt_tokens, completion_tokens, cached_tokens FROM datasets",
                        "out.jsonl.db")
    counted = test.query("SELECT count(*), sum(status = 'done'), sum(status = 'failed'), sum(prompt_tokens),"
                         " sum(completion_tokens), sum(cached_tokens) FROM jobs", "out.jsonl.db")
    assert totals == counted, (totals, counted)
    (generated, batches) = test.query("SELECT generated_tokens, (SELECT sum(generated) FROM steps) FROM workers",
                                      "out.jsonl.db")[0]
    assert generated == batches, (generated, batches)
    for view in ("progress", "failures", "throughput_by_minute", "cache_benefit", "lag"):
        test.query(f"SELECT * FROM {view}", "out.jsonl.db")


@case
def every_query_of_its_document_can_be_asked_of_a_store_and_gives_its_columns(test):
    with open(os.path.join(ROOT, "store", "QUERIES.md"), encoding="utf-8") as file:
        queries = re.findall(r"```sql\n(.*?)```\n\n```\n┌.*?┐\n│(.*?)│\n├", file.read(), re.S)
    assert len(queries) == 28, len(queries)
    test.write("in.jsonl", short_jobs(30) + ["{no json"])
    test.run_file()
    database = sqlite3.connect(f"file:{test.path('out.jsonl.db')}?mode=ro", uri=True)
    for query, columns in queries:
        cursor = database.execute(query)
        assert [column[0] for column in cursor.description] == [name.strip() for name in columns.split("│")], (query, columns)
        cursor.fetchall()
    database.close()


@case
def a_reader_of_the_store_sees_whole_transactions_while_a_worker_writes(test):
    test.write("in.jsonl", short_jobs(400))
    test.run("submit", "in.jsonl", "--dataset", "d")
    worker = work(test, "--exit-when-idle", "0", "--window", "16", "--max-batch", "8", *PACE)
    database = sqlite3.connect(f"file:{test.path('sheaf.db')}?mode=ro", uri=True, timeout=DEADLINE_S)
    seen = set()
    while worker.poll() is None:
        row = database.execute("SELECT n_done + n_failed, (SELECT count(*) FROM results), (SELECT count(*) FROM queue)"
                               " FROM datasets").fetchone()
        assert row[0] == row[1] == 400 - row[2], row
        seen.add(row[0])
    database.close()
    assert test.wait(worker).status == 0
    assert len(seen - {0, 400}) > 1, seen  # 50 batches take 4 s: more than two of its states can't be missed


@case
def tokenize_gives_the_ids_of_published_vocabularies(test):
    folder = os.path.join(os.environ.get("SHEAF_SHARED", os.path.join(os.path.dirname(ROOT), "shared")), "vocab")
    if not os.path.exists(os.path.join(folder, "cases.json")):
        raise Skip(f"there is no {folder}/cases.json")
    with open(os.path.join(folder, "cases.json"), encoding="utf-8") as file:
        cases = json.load(file)
    texts = "".join(json.dumps({"text": text}) + "\n" for text in cases["texts"])
    for expected, options in ((cases["ids"], []), (cases["ids_special"], ["--special"])):
        for name, ids in expected.items():
            out = test.run("tokenize", os.path.join(folder, f"{name}.gguf"), *options, stdin=texts).out
            assert [json.loads(line) for line in out.splitlines()] == ids, (name, options)


@case
def grammar_says_which_texts_a_constraint_accepts(test):
    test.write("schema.json", [{"type": "object", "properties": {"label": {"enum": ["the", "winter"]}},
                                "required": ["label"], "additionalProperties": False}])
    texts = '{"label":"the"}\n{"label":"tree"}\n'
    printed = test.run("grammar", "tiny.gguf", "--json-schema", "schema.json", "--json", stdin=texts).out.splitlines()
    assert [json.loads(line).get("valid") for line in printed] == [None, True, False], printed
    assert json.loads(printed[2])["byte"] == len('{"label":"t') and json.loads(printed[1])["tokens"] > 0, printed
    test.write("g.gbnf", ['root ::= "the" | word', 'word ::= "wi" [a-z]+'])
    test.write("g.lark", ['start: "the" | WORD', "WORD: /wi[a-z]+/"])
    for options, expected in ((["--choice", "the,winter"], [True, False, False]), (["--regex", "[a-h]+e?|the"], [True, False, False]),
                              (["--grammar", "g.gbnf"], [True, True, False]), (["--grammar", "g.lark"], [True, True, False])):
        printed = test.run("grammar", "tiny.gguf", *options, "--json", stdin="the\nwint\nthen.\n").out.splitlines()
        assert [json.loads(line)["valid"] for line in printed[1:]] == expected, (options, printed)


@case
def a_text_has_no_bos_in_front_where_its_tokens_are_judged(test):
    tiny_model.write(test.path("bos.gguf"), more_keys={"tokenizer.ggml.add_bos_token": tiny_model.value(tiny_model.BOOL, True)})
    printed = [[json.loads(line) for line in
                test.run("grammar", model, "--choice", "the,winter", "--json", stdin="the\n").out.splitlines()][1:]
               for model in ("tiny.gguf", "bos.gguf")]
    assert printed[0][0]["valid"] and printed[0] == printed[1], printed


@case
def grammar_judges_cases_of_schemas_and_instances(test):
    cases = [{"name": "number", "schema": {"type": "integer", "minimum": 2},
              "tests": [{"data": 2}, {"data": 2.0}, {"data": 1}, {"data": "2"}]},
             {"name": "refused", "schema": {"items": {"uniqueItems": True}}, "tests": [{"data": []}]},
             {"name": "nothing", "schema": False, "tests": [{"data": 1}]},
             {"name": "all", "schema": True, "tests": [{"data": {"b": [1, {"\u00e9": None}], "a": "\n"}}]},
             {"name": "once", "schema": {"const": "winter"}, "tests": [{"data": "winter"}]},
             {"name": "twice", "schema": {"const": "winter"}, "tests": [{"data": "winter"}] * 2}]
    test.write("cases.jsonl", cases)
    for spaces in ([], ["--spaces"]):
        out = test.run("grammar", "tiny.gguf", "--cases", "cases.jsonl", "--json", *spaces).out
        printed = [json.loads(line) for line in out.splitlines()]
        assert [case["name"] for case in printed] == ["number", "refused", "nothing", "all", "once", "twice"], printed
        assert [case["status"] for case in printed] == ["ok", "refused", "error", "ok", "ok", "ok"], printed
        assert [test["valid"] for test in printed[0]["tests"]] == [True, True, False, False], printed
        assert (printed[1]["keyword"], printed[1]["pointer"]) == ("uniqueItems", "/items/uniqueItems"), printed
        assert [test["valid"] for test in printed[3]["tests"]] == [True] and printed[3]["mask_us"]["count"] == printed[3]["tokens"], printed
        once, twice = ([case["tokens"], case["forced_tokens"]] for case in printed[4:])
        assert once[1] > 0 and twice == [2 * n for n in once], printed
        for times in (case["mask_us"] for case in printed):
            histogram = times["histogram"]
            assert sum(histogram) == times["count"] and bool(histogram) == bool(times["count"]), times
            steps = len(histogram) - 1
            assert times["max"] <= 2 ** (steps / 8) + 0.01 and (steps < 1 or times["max"] > 2 ** ((steps - 1) / 8) - 0.01), times
    assert test.run("grammar", "tiny.gguf", "--cases", "cases.jsonl", status=2).status == 2
    assert test.run("grammar", "tiny.gguf", "--choice", "a", "--regex", "a", status=2).status == 2


@case
def what_a_command_lacks_is_named_alone(test):
    test.write("in.jsonl", short_jobs(1))
    test.write("p.jinja", ["{{ prompt }}"])
    model, out = f"--model={test.model}", ["-o", "out.any"]
    for command, given, lacks in ((["run", "in.jsonl"], [model], "give -o OUT.jsonl\n"), (["run", "in.jsonl"], out, "give --model FILE\n"),
                                  (["annotate", "in.jsonl", "--prompt", "p.jinja"], [model], "give -o OUT\n"),
                                  (["annotate", "in.jsonl", "--prompt", "p.jinja"], out, "give --model MODEL\n"),
                                  (["annotate", "in.jsonl"], [], "give --model MODEL and -o OUT\n"),
                                  (["collect"], out, "give --dataset NAME\n"), (["report"], ["-d", "x"], "give -o FILE.html\n"),
                                  (["logits", test.model], out, "give --tokens IDS\n")):
        done = test.run(*command, *given, status=2)
        assert done.err.endswith(f"sheaf {command[0]}: {lacks}"), done
    for words in (["help", "nope"], ["--help", "nope"], ["nope"], ["nope", "--help"]):
        done = test.run(*words, status=2)
        assert 'there is no command "nope"; see sheaf help' in done.err and not done.out, done
    assert "usage: sheaf run" in test.run("help", "run").out and "annotate" in test.run("help").out


@case
def letters_of_flags_may_stand_together(test):
    test.write("in.jsonl", short_jobs(1))
    done = test.run("run", "in.jsonl", "-qo", "out.jsonl", "--model", test.model)
    assert not done.err and len(test.answers()) == 1, done
    done = test.run("run", "in.jsonl", "-vqoother.jsonl", "--model", test.model)
    assert len(test.answers("other.jsonl")) == 1, done
    assert "has no option -x" in test.run("run", "in.jsonl", "-qx", "--model", test.model, status=2).err
    assert "give --store FILE (run and annotate have theirs beside the output" in test.run("status", status=1).err
    assert 'no command "anotate"; the nearest is annotate; see' in test.run("anotate", status=2).err
    assert "no option --promt=x; the nearest is --prompt; see" in test.run("annotate", "--promt=x", status=2).err
    assert "--output: expected FILE after it" in test.run("run", "in.jsonl", "--model", test.model, "-qo", status=2).err


@case
def an_output_is_refused_by_a_name_of_what_is_not_written(test):
    test.write("in.jsonl", short_jobs(1))
    test.write("p.jinja", ["{{ prompt }}"])
    test.model
    before = sorted(os.listdir(test.folder))
    for name in ("out.jsonl.gz", "OUT.PARQUET", "out.xlsx", "out.csv.zst"):
        for command in (["run", "in.jsonl", "--model", test.model], ["annotate", "in.jsonl", "--prompt", "p.jinja", "--model", test.model],
                        ["collect", "-d", "run"], ["report", "-d", "run"]):
            for option in (["-o", name], ["-o", "out.jsonl", "--errors", name]):
                if (len(option) > 2 and command[0] == "report") or (command[0], option[-2:]) == ("annotate", ["-o", "OUT.PARQUET"]):
                    continue  # annotate writes Parquet (parquet.py)
                done = test.run(*command, *option, status=2)
                assert f"{option[-2]} {name}: sheaf writes no {name[name.rindex('.'):].lower()} file: " in done.err, done
                assert sorted(os.listdir(test.folder)) == before, os.listdir(test.folder)


def advised(finished):
    """The command that its last message names in quotes."""
    return re.search(r'"sheaf ([^"]*)" queues', finished.err.splitlines()[-1])[1].split()


@case
def cancelled_jobs_are_not_called_failed_and_the_advice_queues_them_again(test):
    jobs = short_jobs(40) + ["{no job"]
    test.write("in.jsonl", jobs)
    test.run("submit", "in.jsonl", "--dataset", "run", "--store", "out.jsonl.db")
    test.run("cancel", "--dataset", "run", "--store", "out.jsonl.db")
    test.run("work", "--model", test.model, "--store", "out.jsonl.db", "--exit-when-idle", "0")
    with sqlite3.connect(test.path("out.jsonl.db")) as store:  # cancelled while the run went on
        store.execute("UPDATE datasets SET cancelled_at_us = NULL")
    done = test.run_file(status=3)
    assert "41 jobs were cancelled: exit status 3; " in done.err and "--retry-failed" not in done.err, done
    with sqlite3.connect(test.path("out.jsonl.db")) as store:
        store.execute("UPDATE datasets SET cancelled_at_us = 1")
    test.run(*advised(done))
    assert "1 job failed: exit status 3" in test.run_file(status=3).err
    assert [error_of(answer) is None for answer in test.answers()] == [True] * 40 + [False]


@case
def a_cancelled_dataset_is_reopened_as_the_message_says(test):
    test.write("in.jsonl", short_jobs(3))
    test.run("submit", "in.jsonl", "--dataset", "b")
    test.run("cancel", "--dataset", "b")
    done = test.run("submit", "in.jsonl", "--dataset", "b", status=1)
    test.run(*advised(done))
    test.run("submit", "in.jsonl", "--dataset", "b")
    assert test.query("SELECT count(*) FROM jobs WHERE status = 'queued'") == [(3,)]


@case
def options_of_the_model_can_be_seen_before_work(test):
    printed = json.loads(test.run("inspect", "tiny.gguf", "--json").out)
    assert printed["family"] == "llama" and printed["context"] == 256 and printed["template"] == "yes", printed
    ids = test.run("tokenize", "tiny.gguf", stdin='{"text": "the winter"}\n{"text": ""}\n').out.splitlines()
    assert len(json.loads(ids[0])) > 0 and json.loads(ids[1]) == [], ids
    added = test.run("tokenize", "tiny.gguf", "--add-special-tokens", stdin='{"text": "the winter"}\n{"text": "the winter", "pair": ""}\n').out
    assert added.splitlines() == ['{"ids": %s, "types": [%s]}' % (ids[0], ", ".join("0" for _ in json.loads(ids[0])))] * 2, added
    pair = test.run("tokenize", "tiny.gguf", stdin='{"text": "a", "pair": "b"}\n', status=None)
    assert pair.status != 0 and "needs --add-special-tokens" in pair.err, pair.err
    special = test.run("tokenize", "tiny.gguf", "--special", stdin='{"text": "<|im_start|>the winter"}\n').out
    assert json.loads(special) == [tiny_model.TOKENS.index("<|im_start|>")] + json.loads(ids[0]), special
    prompt = test.run("template", "tiny.gguf", stdin='{"messages": [{"role": "user", "content": "hi"}],'
                                                     ' "add_generation_prompt": true}').out
    assert prompt == "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n", prompt
    test.run("logits", "tiny.gguf", "--tokens", "3 17 9", "-o", "logits.f32")
    assert len(test.read("logits.f32")) == 3 * printed["vocabulary"] * 4
    sizes = json.loads(test.run("bench", "tiny.gguf", "--prompt", "8", "--generate", "4", "--batch", "1,2", "--repeat", "1",
                                "--json").out)
    assert [(line["batch"], line["prompt"], line["generate"]) for line in sizes] == [(1, 8, 4), (2, 8, 4)], sizes
    lengths = json.loads(test.run("bench", "tiny.gguf", "--embed", "--repeat", "1", "--json").out)
    assert [line["length"] for line in lengths] == [8, 32, 128, 256] and all(line["texts_per_second"] > 0 for line in lengths), lengths

@case
def the_text_of_inspect_has_the_figures_of_its_json(test):
    printed = json.loads(test.run("inspect", "tiny.gguf", "--json").out)
    lines = dict(line.split(None, 1) for line in test.run("inspect", "tiny.gguf").out.splitlines() if not line.startswith("weights"))
    weights = [line.split(None, 1)[1] for line in test.run("inspect", "tiny.gguf").out.splitlines() if line.startswith("weights")]
    size = os.path.getsize(os.path.join(test.folder, "tiny.gguf"))
    memory = printed["memory"]
    assert printed["file_bytes"] == size and lines["file"].endswith(f"tiny.gguf, {size / 1e6:.1f} MB"), (printed, lines)
    assert (printed["layers"], printed["width"], printed["heads"], printed["key_value_heads"], printed["feed_forward"]) == (
        tiny_model.N_LAYERS, tiny_model.WIDTH, tiny_model.N_HEADS, tiny_model.N_KV_HEADS, tiny_model.N_FF), printed
    assert lines["shape"] == "{layers} layers, width {width}, {heads} heads ({key_value_heads} key-value) of {head_dim}, "\
                             "feed-forward {feed_forward}".format(**printed), lines
    assert lines["family"] == f"llama, {printed['parameters'] / 1e6:.1f} M parameters", lines
    assert (lines["context"], lines["vocabulary"]) == (f"{printed['context']} tokens", f"{tiny_model.N_VOCAB} tokens"), lines
    assert lines["tokenizer"] == "bpe gpt-2, bos {bos}, eos {eos}".format(**printed), lines
    assert sorted(weights) == sorted(f"{name:<6} {held['tensors']:4} tensors, {held['bytes'] / 1e6:.1f} MB"
                                     for name, held in printed["weights"].items()), (weights, printed)
    assert sum(held["tensors"] for held in printed["weights"].values()) == len(list(tiny_model.tensors(tiny_model.N_VOCAB))), printed
    token_bytes = memory["pages"] / (memory["n_pages"] * 16)
    megabytes = {key: f"{memory[key] / 1e6:.1f} MB" for key in ("weights", "matrices", "pages")}
    assert memory["states"] == 0, memory
    assert lines["memory"] == ("weights {weights}, matrices {matrices}, KV {pages} for ".format(**megabytes) +
                               f"{memory['n_pages']} pages; {token_bytes / 1e3:.1f} KB a token"), lines
    assert memory["mapped"] == 0 and "mapped" not in lines, (memory, lines)
    assert lines["fingerprint"] == printed["fingerprint"] and lines["template"] == "yes", lines
    assert "experts" not in lines, lines


@case
def bench_measures_several_settings_with_one_model_and_computes_sequences_alone(test):
    found = test.run("bench", "tiny.gguf", "--settings", "8+4@1/2,12+1@3", "--max-rows", "7", "--alone", "--repeat", "1", "--trace-steps", "steps")
    steps = [json.loads(line) for line in test.read("steps").splitlines()]
    # Once for each setting: prompts in steps of 7 rows, then steps with a row of each sequence.
    assert [step["rows"] for step in steps] == [7, 1, *[1] * 4, 7, 7, 2, *[2] * 4, *[7] * 5, 1, 3], steps
    assert all(step["products_us"] > 0 and step["since_last_us"] < step["ended_us"] for step in steps), steps
    test.write("other", ["text"])
    refused = test.run("bench", "tiny.gguf", "--settings", "8+4@1", "--repeat", "1", "--trace-steps", "other", status=1)
    assert "other exists, and is no trace of steps" in refused.err and test.read("other").strip() == b"text", refused
    assert re.findall(r"prompt (\d+), generate (\d+), median", found.out) == [("8", "4"), ("12", "1")], found
    assert [line.split()[0] for line in found.out.splitlines() if line.split()[0] != "batch"] == ["1", "2", "3"], found
    assert re.findall(r"batch (\d+): (\d) sequences alone have the same tokens and logprobs", found.err) == [("1", "1"), ("2", "2"), ("3", "3")], found
    for wrong in ("8+4", "8+4@", "8+4@0", "8+4@1,", "+4@1", "8@1", "8+4@1;", "8+4@4097", "8+4@" + "/".join(["1"] * 17), "-8+4@1"):
        assert "--settings: expected up to 16 batches" in test.run("bench", "tiny.gguf", "--settings", wrong, status=2).err, wrong
    long = test.run("bench", "tiny.gguf", "--settings", "8+4@1,1048576+1@1", status=1)
    assert "--settings asks for 1048577" in long.err, long


@case
def bench_measures_products_of_each_weight_type_without_a_model(test):
    found = json.loads(test.run("bench", "--products", "--backend", "cpu", "--threads", "1", "--json").out)
    assert found["kernels"].startswith("cpu/") and found["threads"] == 1 and found["memory"] > 0, found
    assert {rate["rows"] for rate in found["products"]} == {1, 8, 32, 512}, found
    assert {"Q4_K", "Q8_0", "BF16", "F32"} <= {rate["type"] for rate in found["products"]}, found
    assert len(found["products"]) == len({(rate["type"], rate["rows"]) for rate in found["products"]})
    assert all(rate["gmacs"] > 0 and rate["gbytes"] > 0 for rate in found["products"]), found
    refused = test.run("bench", status=2)
    assert "expected a model, or --products" in refused.err, refused


@case
def the_measurement_of_the_path_of_a_job_runs_its_commands(test):
    subprocess.run([os.path.join(ROOT, "ops/bench/path"), "queue", "--jobs", "20", "--repeat", "1", "--sheaf", test.sheaf, "--csv", test.path("path.csv")],
                   cwd=test.folder, env=test.environment, check=True, timeout=DEADLINE_S)
    assert "queue,collect," in open(test.path("path.csv"), encoding="utf-8").read()


@case
def a_worker_s_messages_have_the_time_but_on_a_terminal_and_in_the_journal(test):
    timed = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z sheaf: ")
    for stream, has_times in ((None, True), ("{dev}:{ino}", False), ("{dev}:1", True), ("journal", True)):
        with open(test.path("messages"), "w+", encoding="utf-8") as file:
            about = os.fstat(file.fileno())
            environment = dict(test.environment)
            environment.pop("JOURNAL_STREAM", None)
            if stream:
                environment["JOURNAL_STREAM"] = stream.format(dev=about.st_dev, ino=about.st_ino)
            subprocess.run([test.sheaf, "work", test.model, "--exit-when-idle", "0"], cwd=test.folder, env=environment, stderr=file,
                           check=True, timeout=DEADLINE_S)
            lines = open(test.path("messages"), encoding="utf-8").read().splitlines()
        assert lines and all(bool(timed.match(line)) == has_times for line in lines), (stream, lines)
        assert all("sheaf: " in line for line in lines), lines
    assert test.run("submit", "absent.jsonl", "--dataset", "d", status=1).err.startswith("sheaf: ")  # no service
