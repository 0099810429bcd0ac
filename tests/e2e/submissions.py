"""Datasets over a real broker: each line of a file is submitted exactly once, whatever happens to `sheaf submit`; a name means
one file; and what is collected and mirrored are the results of one jobs topic."""
import collections
import json
import os
import random
import re
import signal
import time

from kafka import (SEED, Topics, ask, delete_below, finish, kcat, need_own_broker, restart_broker, served_at,  # noqa: F401
                   stop_broker)  # finish stops the suite's broker
from session import DEADLINE_S, case, is_wide

# Three transactions: of 20,000 lines or, after each 1,000 lines, of 16 MiB. Long lines cost a fifth of many.
N_LINES = 45000
N_LONG_LINES = 2200
LONG = "the water " * 1700
N_KILLS = 12 if is_wide() else 4


def lines_of(n, first=0, prompt="the water"):
    return [{"custom_id": f"line {i}", "prompt": f"{prompt} {i}", "max_tokens": 2} for i in range(first, first + n)]


def write_long(test):
    test.write("in.jsonl", lines_of(N_LONG_LINES, prompt=LONG))


def submit(test, topics, name="d", file="in.jsonl", **others):
    return test.run("submit", file, "--dataset", name, *topics.options, **others)


def start_with_fault(test, topics, fault, name="d", file="in.jsonl", *options, stdin=None):
    """`fault` as in tests/support/fault_points.c."""
    program = os.path.join(os.path.dirname(os.path.dirname(test.sheaf)), "tests", "sheaf-faults")
    assert os.path.exists(program), f"{program} is missing: `ninja -C build tests/sheaf-faults` builds it"
    sheaf, test.sheaf = test.sheaf, program
    test.environment["SHEAF_FAULT"] = fault
    process = test.start("submit", file, "--dataset", name, *topics.options, *options, stdin=stdin)
    test.environment.pop("SHEAF_FAULT")
    test.sheaf = sheaf
    return process


def is_stopped(process):
    with open(f"/proc/{process.pid}/stat", encoding="ascii") as file:
        return file.read().rsplit(")", 1)[1].split()[0] == "T"


def custom_ids(topics, name="d", n=0):
    """Of the dataset's committed jobs, in no order, once there are n of them: a broker ends a transaction in its partitions after it has
    answered that the transaction is committed."""
    deadline = time.monotonic() + DEADLINE_S
    while True:
        found = []
        for line in topics.keys_and_headers("jobs"):
            key, headers = line.split("\t")
            headers = dict(header.split("=", 1) for header in headers.split(","))
            if headers["sheaf-dataset"] == name:
                found.append((headers["sheaf-custom-id"], headers["sheaf-index"], headers["sheaf-job-id"], key))
        if len(found) >= n or time.monotonic() > deadline:
            return found


def must_be_once(topics, n, name="d"):
    found = collections.Counter(custom_ids(topics, name, n))
    twice = [item for item, count in found.items() if count > 1]
    assert not twice, (len(twice), twice[:3])
    expected = {(f"line {i}", f"{i + 1}", f"{name}-{i + 1}", f"{name}-{i + 1}") for i in range(n)}
    assert set(found) == expected, (len(found), sorted(expected - set(found))[:3], sorted(set(found) - expected)[:3])


def markers(topics):
    keys = [(json.loads(record["key"]), record["payload"]) for record in topics.read("control")]
    return [json.loads(payload) for key, payload in keys if key[0] == "submit" and len(key) == 3]


def write_control(topics, key, value):
    kcat("-P", "-t", topics.prefix + "control", "-K", "\t", "-Z", text=f"{json.dumps(key, separators=(',', ':'))}\t{value}\n")


@case
def a_store_beside_brokers_is_not_used_and_that_is_said(test):
    topics = Topics(test, 1)
    test.write("in.jsonl", lines_of(2))
    said = test.run("submit", "in.jsonl", "--dataset", "d", "--store", "own.db", *topics.options).err
    assert "warning: --store own.db: not used" in said and not os.path.exists(test.path("own.db")), said
    must_be_once(topics, 2)


@case
def a_line_that_is_larger_than_the_topic_takes_is_answered_with_both_sizes(test):
    """A broker's max.message.bytes is 1,048,588."""
    topics = Topics(test, 1)
    test.write("in.jsonl", [{"custom_id": "large", "prompt": "x" * 1_200_000}, *lines_of(1)])
    submitted = submit(test, topics)
    assert "2 jobs" in submitted.err and "max.message.bytes 1048588" in submitted.err, submitted
    topics.work_to_the_end()
    error = topics.results()["large"]["error"]
    assert error["code"] == "limit_exceeded", error
    assert re.search(r"a record of 120\d{4} bytes is larger .* \(max.message.bytes 1048588\)", error["message"]), error


# ---- each line once ----

@case
def a_submission_killed_at_each_instant_of_a_transaction_and_run_again_has_each_line_once(test):
    write_long(test)
    for number, fault in enumerate(["begun:1", "produced:1", "committed:1", "begun:2", "produced:2", "committed:3"]):
        topics = Topics(test, name=f"-{number}")
        killed = test.wait(start_with_fault(test, topics, f"{fault}:kill"))
        assert killed.status == -signal.SIGKILL, killed
        submit(test, topics)
        must_be_once(topics, N_LONG_LINES)


@case
def a_submission_killed_at_random_instants_has_each_line_once(test):
    test.write("in.jsonl", lines_of(N_LINES))
    topics = Topics(test)
    rng = random.Random(SEED)
    print(f"# seed {SEED}, {N_KILLS} kills")
    for _ in range(N_KILLS):
        process = test.start("submit", "in.jsonl", "--dataset", "d", *topics.options)
        time.sleep(rng.random() * 2)  # the instant of the kill, whichever it is
        process.kill()
        test.wait(process)
    submit(test, topics)
    must_be_once(topics, N_LINES)


@case
def a_pipe_is_submitted_once_too(test):
    topics = Topics(test, 1)
    lines = "".join(json.dumps(line) + "\n" for line in lines_of(N_LONG_LINES, prompt=LONG))
    killed = start_with_fault(test, topics, "committed:2:kill", file="-", stdin=lines)
    assert test.wait(killed).status == -signal.SIGKILL
    submit(test, topics, file="-", stdin=lines)
    must_be_once(topics, N_LONG_LINES)


@case
def a_broker_that_is_killed_and_comes_back_costs_no_line(test):
    need_own_broker()
    topics = Topics(test)
    write_long(test)
    process = start_with_fault(test, topics, "produced:2:stop")
    test.wait_until("it stands still", lambda: is_stopped(process))
    stop_broker()
    process.send_signal(signal.SIGCONT)
    restart_broker()
    assert test.wait(process).status == 0
    must_be_once(topics, N_LONG_LINES)


@case
def a_second_submission_of_a_dataset_fences_the_first(test):
    topics = Topics(test)
    write_long(test)
    first = start_with_fault(test, topics, "produced:2:stop")
    test.wait_until("it stands still", lambda: is_stopped(first))
    submit(test, topics)
    first.send_signal(signal.SIGCONT)
    fenced = test.wait(first)
    # If it is stopped for longer than its transaction timeout, it finds all lines submitted; else it reports the other process.
    assert fenced.status == 0 or fenced.status == 1 and "another submission of the same dataset" in fenced.err, fenced
    must_be_once(topics, N_LONG_LINES)


@case
def a_marker_behind_another_dataset_s_open_transaction_is_found(test):
    topics = Topics(test, 1)
    write_long(test)
    test.write("other.jsonl", lines_of(10))
    process = start_with_fault(test, topics, "begun:1:stop,committed:1:kill")
    test.wait_until("it stands still", lambda: is_stopped(process))
    other = start_with_fault(test, topics, "produced:1:stop", "other", "other.jsonl", "-X", "transaction.timeout.ms=10000")
    test.wait_until("the other stands still", lambda: is_stopped(other))
    process.send_signal(signal.SIGCONT)
    assert test.wait(process).status == -signal.SIGKILL
    submit(test, topics)  # waits until the broker has aborted the other's transaction
    must_be_once(topics, N_LONG_LINES)
    other.kill()
    test.wait(other)
    submit(test, topics, "other", "other.jsonl")
    must_be_once(topics, 10, "other")


# ---- a name means one file ----

@case
def a_name_used_again_is_resumed_for_the_same_file_and_refused_for_another(test):
    topics = Topics(test)
    test.write("in.jsonl", lines_of(30))
    test.write("other.jsonl", [{"prompt": "another"}] + lines_of(29, 1))
    test.write("shorter.jsonl", lines_of(29))
    submit(test, topics)
    said = submit(test, topics).err
    assert "0 jobs written" in said and "30 were there already" in said, said
    test.write("last.jsonl", lines_of(29) + [{"prompt": "another"}])
    test.write("blank.jsonl", lines_of(7) + [""] + lines_of(23, 7))
    causes = {"other.jsonl": "line 1 is not", "shorter.jsonl": "expected the 30 lines", "last.jsonl": "line 30 is not",
              "blank.jsonl": "line 8 is not"}
    for file, cause in causes.items():
        said = submit(test, topics, file=file, status=1).err
        assert "dataset d on topic" in said and f"{file}: {cause}" in said and "appended, not changed" in said, said
        assert "another name" in said, said
    must_be_once(topics, 30)
    submit(test, topics, "e", "other.jsonl")
    assert len(custom_ids(topics, "e", 30)) == 30


@case
def a_name_used_again_by_another_file_is_refused_after_a_kill_too(test):
    topics = Topics(test, 1)
    write_long(test)
    lines = lines_of(N_LONG_LINES, prompt=LONG)
    test.write("other.jsonl", lines[:999] + [{"prompt": "another"}] + lines[1000:])
    assert test.wait(start_with_fault(test, topics, "committed:1:kill")).status == -signal.SIGKILL
    refused = submit(test, topics, file="other.jsonl", status=1).err  # the last line of the transaction is checked with all before it
    assert re.search("line [0-9]+ is not the one submitted before", refused), refused
    submit(test, topics)
    must_be_once(topics, N_LONG_LINES)


@case
def appended_lines_are_submitted_as_more_of_the_dataset(test):
    topics = Topics(test)
    test.write("in.jsonl", lines_of(20))
    submit(test, topics)
    topics.work_to_the_end()
    test.run("collect", "--dataset", "d", "-o", "out.jsonl", *topics.options)
    test.write("in.jsonl", lines_of(50))
    said = submit(test, topics).err
    assert "30 jobs written" in said and "20 were there already" in said, said
    must_be_once(topics, 50)
    waiting = test.run("collect", "--dataset", "d", "-o", "out.jsonl", *topics.options, status=1)
    assert "20 of 50 jobs have results" in waiting.err, waiting
    topics.work_to_the_end()
    test.run("collect", "--dataset", "d", "-o", "out.jsonl", *topics.options)
    assert [answer["custom_id"] for answer in test.answers()] == [f"line {i}" for i in range(50)]


@case
def a_cancelled_dataset_is_not_submitted_again(test):
    topics = Topics(test, 1)
    test.write("in.jsonl", lines_of(5))
    submit(test, topics)
    test.run("cancel", "--dataset", "d", *topics.options)
    said = submit(test, topics, status=1).err
    assert "dataset d" in said and "cancelled" in said and "another name" in said, said
    must_be_once(topics, 5)


@case
def a_cancellation_by_a_clock_that_is_behind_covers_the_submission(test):
    """Jobs have a creation time by the submitter's clock, here two minutes ahead of the canceller's."""
    topics = Topics(test, 1)
    created = int(time.time()) + 120
    topics.produce(lines_of(20), "jobs", "-H", "sheaf-dataset=d", "-H", f"sheaf-created={created}")
    marker = {"topic": topics.prefix + "jobs", "dataset": "d", "lines": 20, "jobs": 20, "fingerprint": 1, "complete": True,
              "created": created, "partition": 0, "offset": 19}
    write_control(topics, ["submit", topics.prefix + "jobs", "d"], json.dumps(marker))
    said = test.run("cancel", "--dataset", "d", *topics.options).err
    assert "all workers are notified" in said and "no submission" not in said, said
    (record,) = [record for record in topics.read("control") if json.loads(record["key"])[0] == "cancel"]
    assert json.loads(record["payload"])["at"] == created, record
    # as written by a version without markers
    write_control(topics, ["cancel", "d"], json.dumps({"dataset": "d", "at": created - 120}))
    topics.work_to_the_end()
    statuses = collections.Counter(result["status"] for result in topics.results().values())
    assert statuses == {"cancelled": 20}, statuses


@case
def a_cancellation_by_a_clock_that_is_behind_covers_what_is_in_the_log(test):
    """Jobs of a producer that writes no marker, whose clock is ahead of the canceller's."""
    topics = Topics(test, 2)
    headers = ["-H", "sheaf-dataset=d", "-H", f"sheaf-created={int(time.time()) + 120}"]
    topics.produce(lines_of(20), "jobs", *headers)
    test.run("cancel", "--dataset", "d", *topics.options)
    topics.produce(lines_of(5, 20), "jobs", *headers)
    topics.work_to_the_end()
    statuses = {name: result["status"] for name, result in topics.results().items()}
    assert statuses == {f"line {i}": "cancelled" if i < 20 else "done" for i in range(25)}, statuses


@case
def running_jobs_are_cancelled_by_a_clock_that_is_behind(test):
    topics = Topics(test, 2)
    jobs = [dict(line, max_tokens=200, min_tokens=200) for line in lines_of(40)]
    topics.produce(jobs, "jobs", "-H", "sheaf-dataset=d", "-H", f"sheaf-created={int(time.time()) + 120}")
    worker = topics.work("--engine-test", "fixed:1000", "--metrics", "0")
    where = served_at(test, worker)
    test.wait_until("the jobs", lambda: 'sheaf_jobs_inflight 40' in ask(where, "/metrics")[1])
    test.run("cancel", "--dataset", "d", *topics.options)
    test.wait_until("the end", lambda: len(topics.results()) == 40)
    statuses = collections.Counter(result["status"] for result in topics.results().values())
    assert statuses["cancelled"] >= 30, statuses
    worker.terminate()
    test.wait(worker)


@case
def a_cancelled_name_that_nobody_submitted_is_warned_of(test):
    topics = Topics(test, 1)
    said = test.run("cancel", "--dataset", "tpyo", *topics.options).err
    assert "dataset tpyo" in said and "no submission of that name" in said and "all workers are notified" in said, said
    refused = test.run("cancel", "--dataset", "x" * 129, *topics.options, status=2).err
    assert "--dataset: expected 1 to 128 bytes" in refused, refused


@case
def jobs_of_the_name_that_nobody_recorded_are_found_before_the_first_submission(test):
    topics = Topics(test)
    topics.produce(lines_of(3), "jobs", "-H", "sheaf-dataset=d")
    test.write("in.jsonl", lines_of(5))
    said = submit(test, topics, status=1).err
    assert "dataset d" in said and "another name" in said, said
    submit(test, topics, "e")
    must_be_once(topics, 5, "e")
    topics.produce(lines_of(3), "jobs", "-H", "sheaf-dataset=f")
    submit(test, topics, "f")  # the topic is not read once more for each new name
    assert "another name" in submit(test, topics, status=1).err


@case
def a_marker_of_a_topic_that_was_made_again_does_not_count_and_a_tombstone_takes_it_back(test):
    topics = Topics(test, 1)
    test.write("in.jsonl", lines_of(5))
    marker = {"topic": topics.prefix + "jobs", "dataset": "d", "lines": 5, "jobs": 5, "fingerprint": 1, "complete": True,
              "created": 1, "partition": 0, "offset": 4}
    key = ["submit", topics.prefix + "jobs", "d"]
    write_control(topics, key, json.dumps(marker))
    said = submit(test, topics).err
    assert "is not the one it was submitted to" in said and "5 jobs written" in said, said
    marker["created"] = markers(topics)[-1]["created"]
    write_control(topics, key, json.dumps(dict(marker, offset=3)))
    assert "first 5 lines" in submit(test, topics, status=1).err
    write_control(topics, key, json.dumps(dict(marker, partition=7)))
    write_control(topics, key, "")
    write_control(topics, ["submit", "neither topic nor dataset"], "[")
    assert "5 jobs written" in submit(test, topics).err


@case
def a_topic_that_was_made_again_is_noticed_whatever_is_at_the_marker_s_place(test):
    """A job of another dataset; the end of a transaction; what is left of an aborted submission of the dataset."""
    topics = Topics(test, 1)
    test.write("in.jsonl", lines_of(100))
    test.write("more.jsonl", lines_of(1000))
    test.write("hundred.jsonl", lines_of(100, 1000))
    for others in ([("z", "more.jsonl")], [("z", "hundred.jsonl")], []):
        submit(test, topics)
        (last,) = [marker for marker in markers(topics) if marker["dataset"] == "d"][-1:]
        place = last["offset"]
        topics.make_again("jobs", n_partitions=1)
        for name, file in others:
            said = submit(test, topics, name, file).err
        if others == [("z", "hundred.jsonl")]:  # its lines were at 0 to 99, so the end of its transaction is at 100
            write_control(topics, ["submit", topics.prefix + "jobs", "d"], json.dumps(dict(last, offset=100)))
        if not others:
            test.wait_until("another second, which jobs have as their time", lambda: time.time() >= last["created"] + 1)  # pylint: disable=W0640
            assert test.wait(start_with_fault(test, topics, "produced:1:kill")).status == -signal.SIGKILL
        said = submit(test, topics).err
        assert "100 jobs written" in said and "is not the one it was submitted to" in said, (others, place, said)
        must_be_once(topics, 100)
        assert "0 jobs written" in submit(test, topics).err
        topics.make_again("jobs", "control", n_partitions=1)


@case
def a_marker_whose_job_retention_deleted_counts(test):
    topics = Topics(test, 1)
    test.write("in.jsonl", lines_of(100))
    submit(test, topics)
    delete_below(topics.prefix + "jobs", 0, 100)
    assert "0 jobs written" in submit(test, topics).err


@case
def a_job_that_compaction_removed_is_no_sign_of_another_topic(test):
    """The topic is compacted, and the marker's job has a tombstone."""
    topics = Topics(test, 1)
    compacted = {"cleanup.policy": "compact", "segment.ms": "200", "min.cleanable.dirty.ratio": "0.01", "delete.retention.ms": "1"}
    topics.make_again("jobs", n_partitions=1, settings=compacted)
    test.write("in.jsonl", lines_of(10))
    submit(test, topics)
    place = markers(topics)[-1]["offset"]
    (last,) = [record for record in topics.read("jobs") if record["offset"] == place]

    def is_removed():  # each tombstone begins a segment, which lets the ones before be cleaned
        kcat("-P", "-t", topics.prefix + "jobs", "-K", "\t", "-Z", text=f"{last['key']}\t\n")
        return place not in [record["offset"] for record in topics.read("jobs")]
    test.wait_until("the cleaner", is_removed)
    said = submit(test, topics).err
    assert "0 jobs written" in said and "10 were there already" in said, said


@case
def a_control_topic_that_was_made_again_doubles_no_dataset(test):
    """A dataset that is submitted first afterwards has the first marker."""
    topics = Topics(test, 2)
    test.write("in.jsonl", lines_of(50))
    for name in "abc":
        submit(test, topics, name)
    topics.make_again("control", n_partitions=2)
    submit(test, topics, "d")
    submit(test, topics, "e")
    for name in "abc":
        said = submit(test, topics, name, status=1).err
        assert f"dataset {name}" in said and "no record of its submission" in said and "another name" in said, said
    for name in "abcde":
        must_be_once(topics, 50, name)
    assert "0 jobs written" in submit(test, topics, "e").err


@case
def markers_that_retention_deleted_double_no_dataset(test):
    topics = Topics(test, 2)
    topics.make_again("control", n_partitions=2, settings={"cleanup.policy": "delete"})
    test.write("in.jsonl", lines_of(50))
    for name in "ab":
        assert "cleanup.policy=delete" in submit(test, topics, name).err
    delete_below(topics.prefix + "control", 0, 4)  # of a: the search, the marker, the transaction's end; b: the marker
    submit(test, topics, "c")
    for name in "ab":
        assert "no record of its submission" in submit(test, topics, name, status=1).err
        must_be_once(topics, 50, name)


@case
def a_marker_that_is_completed_alone_keeps_the_place_of_the_last_job(test):
    """As after a kill between the last jobs and the end of the file: there is no job left whose place it could have."""
    topics = Topics(test, 1)
    test.write("in.jsonl", lines_of(5))
    submit(test, topics)
    (first,) = markers(topics)
    assert (first["partition"], first["offset"], first["complete"]) == (0, 4, True), first
    write_control(topics, ["submit", topics.prefix + "jobs", "d"], json.dumps(dict(first, complete=False)))
    submit(test, topics)
    assert markers(topics)[-1] == first, markers(topics)


# ---- one jobs topic ----

@case
def datasets_of_one_name_on_two_jobs_topics_are_collected_and_mirrored_apart(test):
    first, second = Topics(test, 2, "-a"), Topics(test, 2, "-b")
    results = first.prefix + "results"
    second.options[second.options.index("--results") + 1] = results
    second.group = first.group + "-b"
    test.write("in.jsonl", lines_of(20))
    test.write("other.jsonl", lines_of(30, 100))
    submit(test, first)
    submit(test, second, file="other.jsonl")
    first.work_to_the_end("--store", "a.db")
    partly = test.run("collect", "--dataset", "d", "-o", "out.jsonl", *second.options, status=1)
    assert "0 of 30 jobs have results" in partly.err, partly
    second.work_to_the_end("--store", "b.db")
    for topics, expected in ((first, range(20)), (second, range(100, 130))):
        test.run("collect", "--dataset", "d", "-o", "out.jsonl", "--overwrite", *topics.options)
        assert [answer["custom_id"] for answer in test.answers()] == [f"line {i}" for i in expected]
    for topics, store, n in ((first, "fleet-a.db", 20), (second, "fleet-b.db", 30)):
        kafka = [*topics.options[:6], "--group", topics.group]
        test.run("mirror", "--until-end", "--store", store, *kafka)
        assert test.query("SELECT count(*), min(topic), max(topic) FROM jobs WHERE status = 'done'", store) == [
            (n, topics.prefix + "jobs", topics.prefix + "jobs")], store
        test.run("status", "--rebuild", "--store", "rebuilt.db", *kafka)
        assert test.query("SELECT n_submitted, n_done FROM datasets", "rebuilt.db") == [(n, n)]
    mixed = test.run("mirror", "--until-end", "--store", "fleet-a.db", *kafka, status=1).err
    assert "fleet-a.db" in mixed and first.prefix + "jobs" in mixed and "another store" in mixed, mixed


# ---- complete or not ----

@case
def collect_says_how_many_of_how_many_are_there_and_that_a_submission_has_not_ended(test):
    topics = Topics(test, 1)
    write_long(test)
    assert test.wait(start_with_fault(test, topics, "committed:1:kill")).status == -signal.SIGKILL
    cut = test.run("collect", "--dataset", "d", "-o", "out.jsonl", *topics.options, status=1)
    found = re.search(r"0 of (\d+) jobs have results", cut.err)
    assert found and int(found[1]) == len(custom_ids(topics, n=int(found[1]))) < N_LONG_LINES and "submission has not ended" in cut.err, cut
    assert not test.exists("out.jsonl")
    forced = test.run("collect", "--dataset", "d", "-o", "out.jsonl", "--force", *topics.options)
    assert found[0] in forced.err and test.answers() == [], forced
    test.write("few.jsonl", lines_of(10))
    submit(test, topics, "few", "few.jsonl")
    none = test.run("collect", "--dataset", "none", "-o", "out.jsonl", *topics.options, status=1)
    assert "there is no dataset none" in none.err, none


@case
def collect_says_which_results_are_gone_with_their_topic_and_not_to_wait_for_them(test):
    topics = Topics(test, 2)
    results = topics.prefix + "results"
    collect = ["collect", "-o", "out.jsonl", *topics.options, "--dataset", "d"]
    by_group = [*collect, "--group", topics.group]
    test.write("in.jsonl", lines_of(40))
    submit(test, topics)
    before = test.run(*by_group, status=1).err
    assert f"0 of 40 jobs have results, group {topics.group} has finished none of topic" in before and "; wait, or" in before, before
    topics.work_to_the_end()
    topics.make_again("results", n_partitions=2)
    gone = f"40 are finished by group {topics.group}, and topic {results} no longer has their results"
    all_gone = test.run(*by_group, status=1).err
    assert f"0 of 40 jobs have results, {gone}" in all_gone and "submit these lines under another name" in all_gone, all_gone
    assert "wait" not in all_gone and "--force" in all_gone, all_gone
    other = test.run(*collect, status=1).err
    assert "group sheaf has finished none" in other and "--group" in other and "wait" in other, other
    test.write("in.jsonl", lines_of(50))
    submit(test, topics)
    some_gone = test.run(*by_group, status=1).err
    assert f"0 of 50 jobs have results, {gone}" in some_gone and "another name and wait for the others" in some_gone, some_gone
    topics.work_to_the_end()
    answered = test.run(*by_group, status=1).err
    assert f"10 of 50 jobs have results, {gone}" in answered and "wait" not in answered, answered
    test.run(*by_group, "--force")
    assert [answer["custom_id"] for answer in test.answers()] == [f"line {i}" for i in range(40, 50)]
    delete_below(results, 0, 1)
    delete_below(results, 1, 1)
    deleted = test.run(*by_group, status=1).err
    assert f"8 of 50 jobs have results, {gone.replace('40', '42')}" in deleted and "retention" in deleted, deleted


@case
def collect_says_which_jobs_are_gone_from_the_topic_and_not_to_wait_for_them(test):
    topics = Topics(test, 1)
    jobs = topics.prefix + "jobs"
    collect = ["collect", "-o", "out.jsonl", *topics.options, "--dataset"]
    test.write("in.jsonl", lines_of(100))
    submit(test, topics)
    delete_below(jobs, 0, 60)
    both = test.run(*collect, "d", status=1).err
    assert f"0 of 100 jobs have results, 60 are no longer on topic {jobs}" in both and "wait for the others" in both, both
    topics.work_to_the_end()
    gone = test.run(*collect, "d", status=1).err
    assert f"40 of 100 jobs have results, 60 are no longer on topic {jobs}" in gone and "another name" in gone, gone
    assert "wait" not in gone and "--force" in gone, gone
    assert "0 jobs written" in submit(test, topics).err
    test.run(*collect, "d", "--force")
    assert [answer["custom_id"] for answer in test.answers()] == [f"line {i}" for i in range(60, 100)]
    test.write("again.jsonl", lines_of(60))
    submit(test, topics, "d-2", "again.jsonl")
    topics.work_to_the_end()
    test.run(*collect, "d-2", "--overwrite")
    assert len(test.answers()) == 60
    delete_below(topics.prefix + "results", 0, 50)
    lost = test.run(*collect, "d-2", status=1).err
    assert "of 60 jobs have results" in lost and f"topic {topics.prefix}results has lost its beginning" in lost, lost
    topics.make_again("jobs", "results", n_partitions=1)
    submit(test, topics, "z", "again.jsonl")
    other = test.run(*collect, "d", status=1).err
    assert "0 of 100 jobs have results" in other and "recreated" in other and "submit it again" in other, other
