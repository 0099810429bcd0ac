"""The whole fleet in one SQLite file, built from the topics alone, over a real broker."""
import json
import os
import random
import re
import signal
import socket

from commands import stop_while_it_reads_its_options
from kafka import SEED, Topics, ask, commit_offset, delete_below, finish, kcat, served_at  # noqa: F401  (finish stops the suite's broker)
from session import DONE, case, text_of

COLUMNS = "dataset, job_id, custom_id, job_index, status, error_code, finish_reason, prompt_tokens, completion_tokens"
FIGURES = ", cached_tokens, queued_us, prefill_us, decode_us, attempts, topic, partition, offset, constrained_by, forced_tokens, drafted_tokens, accepted_tokens, reasoning_tokens"
TOTALS = """SELECT dataset, n_submitted, n_done, n_failed, n_cancelled, prompt_tokens, completion_tokens, cached_tokens
            FROM datasets ORDER BY dataset"""


def jobs_of(n, first=0):
    return [{"custom_id": f"{i}", "prompt": text_of(i, 1 + i % 9), "max_tokens": 3 + i % 7, "seed": i, **({} if i % 9 else {"guided_regex": "abc[0-9]x"})}
            for i in range(first, first + n)]


def rows(test, store, columns=COLUMNS + FIGURES):
    return sorted(test.query(f"SELECT {columns} FROM jobs", store), key=str)


def mirror(test, topics, *options, store="fleet.db"):
    return test.start("mirror", "--store", store, "--brokers", topics.options[1], "--jobs", topics.prefix + "jobs",
                      "--results", topics.prefix + "results", "--group", topics.prefix + "group", *options)


def mirror_to_the_end(test, topics, *options, **others):
    finished = test.wait(mirror(test, topics, "--until-end", *options, **others))
    assert finished.status == 0, finished


def submit(test, topics, name, lines):
    test.write(f"{name}.jsonl", lines)
    test.run("submit", f"{name}.jsonl", "--dataset", name, *topics.options)


@case
def a_mirror_holds_what_all_the_workers_stores_hold(test):
    topics = Topics(test, 4)
    submit(test, topics, "good", jobs_of(150))
    submit(test, topics, "mixed", jobs_of(40) + ["{no json", {"custom_id": "wrong", "prompt": 7}])
    workers = [topics.work("--store", f"{name}.db", "--exit-when-idle", "2") for name in ("first", "second")]
    assert all(test.wait(worker).status in DONE for worker in workers)
    mirror_to_the_end(test, topics)
    expected = sorted(rows(test, "first.db") + rows(test, "second.db"), key=str)
    assert len(expected) == 192
    assert rows(test, "fleet.db") == expected
    (constrained, forced), = test.query("SELECT jobs, forced_tokens FROM constraints WHERE constrained_by = 'regex' AND dataset = 'good'", "fleet.db")
    assert constrained == 17 and forced > 17, (constrained, forced)
    totals = {row[0]: row[1:5] for row in test.query(TOTALS, "fleet.db")}
    assert totals == {"good": (150, 150, 0, 0), "mixed": (42, 40, 2, 0)}, totals
    # The number of jobs of each worker, which must equal the rows of its store.
    made = sorted(test.query("SELECT count(*) FROM jobs GROUP BY made_by", "fleet.db"))
    assert made == sorted((len(rows(test, f"{name}.db")),) for name in ("first", "second") if rows(test, f"{name}.db")), made
    assert sorted(test.query("SELECT n_done + n_failed FROM fleet", "fleet.db")) == made
    printed = json.loads(test.run("status", "--json", "--store", "fleet.db").out)
    assert printed["jobs_behind"] == 0 and printed["partitions"] == 4, printed
    assert printed["workers_alive"] is printed["steps"] is printed["prefix_hit_share"] is None, printed  # no result says them
    text = test.run("status", "--store", "fleet.db").out
    assert "alive" not in text and "lookups" not in text and "4 partitions" in text, text
    assert json.loads(test.run("status", "--json", "--store", "first.db").out)["workers_alive"] == 0
    assert sum(worker["done"] for worker in printed["fleet"]) == 190, printed


@case
def a_mirror_counts_no_record_without_a_value(test):
    """A tombstone is not a job: else its dataset would never end."""
    topics = Topics(test, 2)
    submit(test, topics, "good", jobs_of(5))
    tombstones = "".join(f"{key}\t\n" for key in ("good-1", "other", "another"))
    kcat("-P", "-t", topics.prefix + "jobs", "-K", "\t", "-Z", text=tombstones)
    topics.work_to_the_end()
    mirror_to_the_end(test, topics)
    assert test.query("SELECT sum(n_submitted), sum(n_done) FROM datasets", "fleet.db") == [(5, 5)]


@case
def a_rebuild_ends_a_mirror_of_its_store_and_counts_right(test):
    topics = Topics(test, 2)
    submit(test, topics, "good", jobs_of(60))
    running = mirror(test, topics)
    test.wait_until("it mirrors", lambda: os.path.exists(os.path.join(test.folder, "fleet.db")) and
                    test.query("SELECT total(n_submitted) FROM datasets", "fleet.db") == [(60.0,)])
    test.run("status", "--rebuild", "--store", "fleet.db", *topics.options)
    submit(test, topics, "more", jobs_of(20))
    ended = test.wait(running)
    assert ended.status == 1 and "another process began to mirror into it" in ended.err, ended
    mirror_to_the_end(test, topics)
    assert sorted(test.query("SELECT dataset, n_submitted FROM datasets", "fleet.db")) == [("good", 60), ("more", 20)]


@case
def a_live_mirror_killed_at_random_counts_nothing_twice(test):
    topics = Topics(test, 3)
    submit(test, topics, "before", jobs_of(200))
    worker = topics.work("--store", "worker.db")
    rng = random.Random(SEED)
    print(f"# seed {SEED}")
    for number in range(6):
        stored = test.query("SELECT total(next_offset) FROM mirrored WHERE partition >= -1", "fleet.db")  # before 60 jobs and 60 results more
        running = mirror(test, topics)
        submit(test, topics, f"set{number}", jobs_of(60))
        n_more = rng.randrange(1, 120)
        test.wait_until("it mirrors", lambda: test.query("SELECT total(next_offset) FROM mirrored WHERE partition >= -1", "fleet.db") and
                        test.query("SELECT total(next_offset) FROM mirrored WHERE partition >= -1", "fleet.db")[0][0] >=
                        (stored[0][0] if stored else 0) + n_more)
        running.send_signal(signal.SIGKILL)
        test.wait(running)
    running = mirror(test, topics)
    test.wait_until("signals are handled", lambda: "mirroring" in test.stderr_of(running))
    test.wait_until("all is mirrored", lambda: test.query("SELECT total(n_done) FROM datasets", "fleet.db") == [(560.0,)])
    test.wait_until("the lag is printed", lambda: test.query("SELECT total(jobs_behind) FROM lag", "fleet.db") == [(0.0,)])
    running.send_signal(signal.SIGTERM)
    assert test.wait(running).status == 0
    worker.send_signal(signal.SIGTERM)
    assert test.wait(worker).status == 0
    assert rows(test, "fleet.db") == rows(test, "worker.db")
    assert test.query("SELECT n_done FROM fleet", "fleet.db") == [(560,)]


@case
def a_mirror_until_the_end_ends_although_the_work_goes_on(test):
    topics = Topics(test, 4)
    submit(test, topics, "long", jobs_of(3000))
    worker = topics.work("--store", "worker.db", "--engine-test", "fixed:20", "--max-batch", "2")
    test.wait_until("some are answered", lambda: len(rows(test, "worker.db")) > 20)
    mirror_to_the_end(test, topics)
    (submitted, done), = test.query("SELECT n_submitted, n_done FROM datasets", "fleet.db")
    assert submitted == 3000 and 20 < done < 3000, (submitted, done)
    worker.kill()


@case
def a_store_that_was_lost_is_rebuilt_from_the_topics(test):
    topics = Topics(test, 2)
    submit(test, topics, "set", jobs_of(80) + ["{no json"])
    topics.work_to_the_end("--store", "worker.db")
    submit(test, topics, "waiting", jobs_of(25))
    kafka = ["--brokers", topics.options[1], "--jobs", topics.prefix + "jobs", "--results", topics.prefix + "results",
             "--group", topics.prefix + "group"]
    for store in ("worker.db", "new.db", "new.db"):
        printed = json.loads(test.run("status", "--rebuild", "--json", "--store", store, *kafka).out)
        progress = {dataset["dataset"]: (dataset["submitted"], dataset["done"], dataset["failed"])
                    for dataset in printed["datasets"]}
        assert progress == {"set": (81, 80, 1), "waiting": (25, 0, 0)}, (store, progress)
        assert 25 <= printed["jobs_behind"] <= 27, printed  # the end of a transaction takes an offset of its partition
    assert rows(test, "worker.db") == rows(test, "new.db")
    # The worker continues with the rebuilt store and finishes the mirror's rows.
    topics.work_to_the_end("--store", "new.db")
    assert test.query("SELECT status, count(*) FROM jobs GROUP BY status ORDER BY status", "new.db") == [
        ("done", 105), ("failed", 1)]
    assert [row[1:4] for row in test.query(TOTALS, "new.db")] == [(81, 80, 1), (25, 25, 0)]


@case
def a_mirror_says_what_is_missing(test):
    finished = test.run("mirror", "--store", "fleet.db", status=2)
    assert "--brokers" in finished.err, finished
    topics = Topics(test, 1)
    finished = test.run("mirror", "--store", "fleet.db", "--brokers", topics.options[1], "--jobs", "no-such-topic",
                        "--results", topics.prefix + "results", status=1)
    assert "no-such-topic" in finished.err, finished


@case
def a_mirror_of_topics_that_were_made_again_ends_and_a_rebuild_counts_right(test):
    """Topics recreated shorter, longer or during a run: the store's rows belong to other topics."""
    topics = Topics(test, 2)
    submit(test, topics, "a", jobs_of(60))
    topics.work_to_the_end("--store", "w.db")
    mirror_to_the_end(test, topics)
    mirror_to_the_end(test, topics, store="few.db")
    live = mirror(test, topics, store="live.db")
    test.wait_until("it mirrors", lambda: test.query("SELECT total(n_done) FROM datasets", "live.db") == [(60,)])
    for n, store in ((20, "few.db"), (300, "fleet.db")):
        topics.make_again("jobs", "results", "control", n_partitions=2)
        submit(test, topics, "c", jobs_of(n))
        submit(test, topics, "a", jobs_of(60))
        topics.group = f"{topics.prefix}of-{n}"
        topics.work_to_the_end("--store", f"w{n}.db")
        ended = test.wait(mirror(test, topics, "--until-end", store=store))
        assert ended.status == 1 and "was recreated" in ended.err and "status --rebuild" in ended.err, ended
        test.run("status", "--rebuild", "--store", store, *topics.options[:6], "--group", topics.prefix + "group")
        totals = {row[0]: row[1:3] for row in test.query(TOTALS, store)}
        assert totals == {"c": (n, n), "a": (60, 60)}, totals
        mirror_to_the_end(test, topics, store=store)
    ended = test.wait(live)
    assert ended.status == 1 and "was recreated" in ended.err, ended


@case
def a_live_mirror_of_topics_that_were_made_again_with_as_many_records_ends(test):
    """Its positions are the new topics' ends: it never read their records."""
    topics = Topics(test, 1)
    topics.produce(jobs_of(20))
    live = mirror(test, topics)
    test.wait_until("it mirrors", lambda: test.query("SELECT total(n_submitted) FROM datasets", "fleet.db") == [(20,)])
    topics.make_again("jobs", n_partitions=1)
    topics.produce([{"custom_id": f"{i}", "prompt": "the", "max_tokens": 2} for i in range(20)])
    ended = test.wait(live)
    assert ended.status == 1 and "was recreated" in ended.err and "status --rebuild" in ended.err, ended


@case
def a_mirror_whose_last_records_retention_deleted_goes_on(test):
    topics = Topics(test, 1)
    submit(test, topics, "a", jobs_of(20))
    topics.work_to_the_end("--store", "w.db")
    mirror_to_the_end(test, topics)
    delete_below(topics.prefix + "jobs", 0, 20)
    submit(test, topics, "b", jobs_of(10))
    mirror_to_the_end(test, topics)
    assert test.query("SELECT dataset, n_submitted FROM datasets ORDER BY dataset", "fleet.db") == [("a", 20), ("b", 10)]


def lag(test, topics, *options):
    return json.loads(test.run("lag", "--json", *topics.options[:4], "--group", topics.group, *options).out)


@case
def the_jobs_a_group_has_not_finished_are_counted_with_and_without_a_worker(test):
    """One long job is left, the first: the committed offset is before it, and the offset map covers all others."""
    topics = Topics(test, 1)
    topics.produce([{"custom_id": "long", "prompt": text_of(0, 5), "max_tokens": 200, "ignore_eos": True}] +
                   [{"custom_id": f"{i}", "prompt": text_of(i, 5), "max_tokens": 2} for i in range(1, 31)])
    assert lag(test, topics) == {"topic": topics.prefix + "jobs", "group": topics.group, "unfinished": 31, "partitions": [
        {"partition": 0, "unfinished": 31, "committed": -1, "end": 31, "map_covered": 0, "owner": None}]}
    served = test.start("lag", "--metrics", "127.0.0.1:0", *topics.options[:4], "--group", topics.group)
    where = served_at(test, served)
    test.wait_until("it has looked", lambda: ask(where, "/readyz")[0] == 200)
    sample = f'sheaf_group_unfinished{{consumergroup="{topics.group}",topic="{topics.prefix}jobs"}}'
    assert f"\n{sample} 31\n" in ask(where, "/metrics")[1]
    assert json.loads(ask(where, "/")[1])["unfinished"] == 31
    worker = topics.work("--max-batch", "4", "--engine-test", "fixed:100")
    test.wait_until("one is left", lambda: lag(test, topics)["unfinished"] == 1)
    assert len(topics.read("results")) == 30
    (partition,) = lag(test, topics)["partitions"]
    assert (partition["committed"], partition["end"], partition["map_covered"]) == (0, 31, 30) and partition["owner"], partition
    worker.kill()
    test.wait_until("the same is served", lambda: f"\n{sample} 1\n" in ask(where, "/metrics")[1])
    topics.work_to_the_end("--store", "sheaf.db")
    assert lag(test, topics)["unfinished"] == 0
    assert "\n0 unfinished in topic" in test.run("lag", *topics.options[:4], "--group", topics.group).out
    served.send_signal(signal.SIGTERM)
    assert test.wait(served).status == 0


@case
def a_mirror_and_a_lag_that_are_stopped_at_once_end_cleanly(test):
    topics = Topics(test, 1)
    where = [f"brokers = {topics.options[1]}", f"jobs = {topics.prefix}jobs", f"group = {topics.group}"]
    for command, option in (("mirror", f"results = {topics.prefix}results"), ("lag", "metrics = 127.0.0.1:0")):
        stopped = stop_while_it_reads_its_options(test, command, *where, option)
        assert stopped.status == 0, stopped


@case
def a_mirror_a_lag_and_an_annotation_end_at_once_when_they_are_stopped_while_no_broker_answers(test):
    """They gave up after 10 s, with that as their error."""
    test.write("table.csv", ["word", "one", "two"])
    test.write("prompt.jinja", ["say {{ word }}"])
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # and does not listen
        brokers = ["--brokers", "127.0.0.1:%d" % closed.getsockname()[1]]
        for status, command in ((0, ["mirror", "--store", "fleet.db"]), (0, ["lag", "--metrics", "127.0.0.1:0"]),
                                (1, ["annotate", "table.csv", "--prompt", "prompt.jinja", "--max-tokens", "2", "-o", "out.csv"])):
            started = test.start(*command, *brokers)
            test.wait_until("it asks", lambda started=started: "refused" in test.stderr_of(started) or started.poll() is not None)
            started.send_signal(signal.SIGTERM)
            ended = test.wait(started)
            assert ended.status == status and "stopped" in ended.err and "no answer" not in ended.err, ended
    assert "the same command continues" in ended.err, ended


@case
def a_lag_that_is_not_known_is_not_served_as_none(test):
    finished = test.run("lag", status=2)
    assert "--brokers" in finished.err, finished
    topics = Topics(test, 1)
    finished = test.run("lag", *topics.options[:2], "--jobs", "no-such-topic", status=1)
    assert "no-such-topic" in finished.err and not finished.out, finished
    test.write("secret", ["0123456789abcdef"])
    finished = test.run("lag", *topics.options[:4], "--metrics", "0.0.0.0:0", status=2)
    assert "--metrics-token" in finished.err, finished
    served = test.start("lag", "--metrics", "127.0.0.1:0", "--metrics-token", "secret", *topics.options[:4])
    where = served_at(test, served)
    assert re.match(r"\d{4}-\d\d-\d\dT[\d:.]+Z sheaf: figures at", test.stderr_of(served)), test.stderr_of(served)
    assert ask(where, "/")[0] == ask(where, "/metrics")[0] == 401
    assert ask(where, "/healthz")[0] == 200 and ask(where, "/other")[0] == 404


@case
def an_offset_beyond_the_end_is_no_lag_of_none(test):
    topics = Topics(test, 1)
    topics.produce(jobs_of(10))
    commit_offset(test, topics.group, topics.prefix + "jobs", 0, 5000)
    where = [*topics.options[:4], "--group", topics.group]
    refused = test.run("lag", *where, status=1)
    assert "partition 0" in refused.err and "5000" in refused.err and "10" in refused.err and not refused.out, refused
    served = test.start("lag", "--metrics", "127.0.0.1:0", *where)
    address = served_at(test, served)
    test.wait_until("it says why", lambda: "5000" in ask(address, "/readyz")[1])
    assert ask(address, "/metrics")[0] == 503
    commit_offset(test, topics.group, topics.prefix + "jobs", 0, 10)
    test.wait_until("it is known", lambda: ask(address, "/readyz")[0] == 200)
    assert lag(test, topics)["unfinished"] == 0
