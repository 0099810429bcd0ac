"""Reply topics over a real broker: a job's header names the topic of its result, and the worker's --reply-topics allows it."""
import collections
import json
import os
import random
import signal
import time

import kafka
import metrics
from kafka import finish, headers_of  # noqa: F401  (finish stops the suite's broker)
from session import case, is_wide

SEED = int(os.environ.get("SHEAF_TEST_SEED", "20240607"))
N_KILLS = int(os.environ.get("SHEAF_TEST_KILLS", "8" if is_wide() else "3"))


def job(name, **more):
    return {"custom_id": name, "prompt": "the", "max_tokens": 2, "seed": 1, **more}


def make_topics(test, *replies):
    topics = kafka.Topics(test)
    make_topic(topics, *replies)
    return topics


def make_topic(topics, *names):
    kafka.protocol.create_and_wait(kafka.protocol.Connection(kafka.address()), {topics.prefix + name: (2, {}) for name in names})


def ask(topics, jobs, header, topic, *more):
    topics.produce(jobs, "jobs", "-H", f"{header}={topic}", *more)


def names_of(topics, name):
    counted = collections.Counter(json.loads(record["payload"])["custom_id"] for record in topics.read(name))
    assert max(counted.values(), default=1) == 1, counted
    return sorted(counted)


@case
def a_result_goes_to_the_topic_that_its_job_names_and_no_other_does(test):
    topics = make_topics(test, "replies", "orders.replies")
    allowed = f"{topics.prefix}replies,{topics.prefix}orders.*"
    ask(topics, [job("a"), job("bad", temperature=-1)], "kafka_replyTopic", topics.prefix + "replies", "-H", "kafka_correlationId=17")
    ask(topics, [job("b")], "reply-topic", topics.prefix + "orders.replies")
    ask(topics, [job("c")], "reply-topic", topics.prefix + "results")
    topics.produce([job("d")])
    topics.work_to_the_end("--engine-test", "instant", "--reply-topics", f"{allowed},{topics.prefix}results")
    assert names_of(topics, "replies") == ["a", "bad"] and names_of(topics, "orders.replies") == ["b"] and names_of(topics, "results") == ["c", "d"]
    headers = headers_of(topics.read("replies")[0])
    assert headers["kafka_correlationId"] == "17" and headers["ce_type"] == "sheaf.result", headers
    (dead,) = topics.read("dead")
    assert json.loads(dead["payload"])["custom_id"] == "bad" and headers_of(dead)["kafka_replyTopic"] == topics.prefix + "replies", dead


@case
def a_topic_that_is_not_listed_or_is_the_workers_own_makes_a_dead_letter_before_it_is_computed(test):
    topics = make_topics(test, "replies", "secrets")
    for name in ("secrets", "jobs", "dead", "control"):
        ask(topics, [job(name)], "reply-topic", topics.prefix + name)
    ask(topics, [job("invalid")], "reply-topic", "a topic/ß")
    topics.produce([job("good")])
    topics.work_to_the_end("--engine-test", "instant", "--reply-topics", f"{topics.prefix}replies,{topics.prefix}jobs,{topics.prefix}dead,a*")
    refused = ["control", "dead", "invalid", "jobs", "secrets"]
    assert names_of(topics, "results") == sorted(["good", *refused]) and topics.read("secrets") == []
    dead = {json.loads(record["payload"])["custom_id"]: headers_of(record) for record in topics.read("dead")}
    assert sorted(dead) == refused and {headers["__sheaf.errors.code"] for headers in dead.values()} == {"invalid_field"}, dead
    assert "--reply-topics" in dead["secrets"]["__sheaf.errors.message"] and "secrets" in dead["secrets"]["__sheaf.errors.message"]
    assert test.query("SELECT sum(generated_tokens) FROM workers") == [(2,)]


@case
def without_the_option_the_header_has_no_effect_and_the_worker_says_so_once(test):
    topics = make_topics(test, "replies")
    ask(topics, [job("a"), job("b")], "reply-topic", topics.prefix + "replies")
    topics.work_to_the_end("--engine-test", "instant")
    assert names_of(topics, "results") == ["a", "b"] and topics.read("replies") == topics.read("dead") == []
    assert sum("--reply-topics all results are" in line for line in test.last_output()) == 1, test.last_output()


@case
def a_topic_that_does_not_exist_costs_its_own_jobs_alone_also_when_it_is_deleted_while_a_worker_runs(test):
    topics = make_topics(test, "replies")
    ask(topics, [job("absent")], "reply-topic", topics.prefix + "nowhere")
    ask(topics, [job("a")], "reply-topic", topics.prefix + "replies")
    worker = topics.work("--engine-test", "instant", "--reply-topics", f"{topics.prefix}*", "--metrics", "0")
    test.wait_until("both", lambda: names_of(topics, "replies") == ["a"] and names_of(topics, "results") == ["absent"])
    (dead,) = topics.read("dead")
    headers = headers_of(dead)
    assert headers["__sheaf.errors.code"] == "result_refused" and "nowhere does not exist" in headers["__sheaf.errors.message"], headers
    kafka.delete_topics(test, topics.prefix + "replies")
    ask(topics, [job("late")], "reply-topic", topics.prefix + "replies")
    topics.produce([job("other")])
    test.wait_until("the others", lambda: names_of(topics, "results") == ["absent", "late", "other"])
    assert len(topics.read("dead")) == 2
    address = metrics.served_at(test, worker)
    assert metrics.samples(metrics.get(address, "/metrics")[2])["sheaf_reply_topics_absent_total"] == 2
    said = test.stderr_of(worker)
    assert all(f"reply topic {topics.prefix}{name} does not exist" in said for name in ("nowhere", "replies")), said
    n_said = {}
    for n_dead in (3, 4):
        ask(topics, [job(f"absent{n_dead}")], "reply-topic", topics.prefix + "nowhere")
        test.wait_until("its dead letter", lambda n_dead=n_dead: len(topics.read("dead")) == n_dead)
        n_said[n_dead] = test.stderr_of(worker).count(f"reply topic {topics.prefix}nowhere does not exist")
    assert n_said[3] == n_said[4], test.stderr_of(worker)
    make_topic(topics, "replies")  # again: the next result finds it
    ask(topics, [job("again")], "reply-topic", topics.prefix + "replies")
    test.wait_until("the reply or a dead letter", lambda: names_of(topics, "replies") or len(topics.read("dead")) > 4)
    assert names_of(topics, "replies") == ["again"] and len(topics.read("dead")) == 4, test.stderr_of(worker)
    worker.send_signal(signal.SIGTERM)
    assert test.wait(worker).status == 0


@case
def workers_killed_at_random_instants_send_each_reply_once(test):
    test.environment["SHEAF_CRASH_LIMIT"] = "0"
    topics = make_topics(test, "replies")
    jobs = [job(f"j{i}", max_tokens=4, seed=i) for i in range(400)]
    ask(topics, jobs[::2], "reply-topic", topics.prefix + "replies")
    topics.produce(jobs[1::2])
    rng = random.Random(SEED)
    print(f"# seed {SEED}, {N_KILLS} kills")
    options = ["--window", "24", "--engine-test", "fixed:2", "--reply-topics", topics.prefix + "replies", "-X", "session.timeout.ms=6000", "-X",
               "heartbeat.interval.ms=500"]
    for _ in range(N_KILLS):
        worker = topics.work(*options)
        test.wait_until("it works", lambda worker=worker: worker.poll() is not None or "KV" in test.stderr_of(worker))
        time.sleep(rng.random() * 2.5)  # the instant of the kill
        worker.send_signal(signal.SIGKILL)
        assert test.wait(worker).status == -signal.SIGKILL, "it ended before it was killed"
    topics.work_to_the_end(*options)
    assert names_of(topics, "replies") == sorted(item["custom_id"] for item in jobs[::2])
    assert names_of(topics, "results") == sorted(item["custom_id"] for item in jobs[1::2])
