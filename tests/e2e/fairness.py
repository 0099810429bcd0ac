"""Datasets that share a worker: turns, weights and limits, on the embedded queue and over a real broker."""
import json
import signal

import kafka
import metrics
from kafka import finish  # noqa: F401  (stops the suite's broker)
from session import case

BATCH = ("--max-batch", "8", "--threads", "1")
ANSWER_TOKENS = 4


def lines(name, n):
    return [{"custom_id": f"{name}-{i}", "prompt": f"the {name} {i}", "max_tokens": ANSWER_TOKENS, "seed": i} for i in range(n)]


def submit(test, name, n, *options):
    test.write(f"{name}.jsonl", lines(name, n))
    test.run("submit", f"{name}.jsonl", "--dataset", name, *options)


def n_done_before_the_last_of(test, name, other):
    """The number of jobs of `other` finished before the last job of `name`."""
    return test.query(f"SELECT count(*) FROM jobs WHERE dataset = '{other}'"
                      f" AND finished_at_us <= (SELECT max(finished_at_us) FROM jobs WHERE dataset = '{name}')")[0][0]


def stop(test, worker):
    worker.send_signal(signal.SIGKILL)
    test.wait(worker)


def wait_until_done(test, name, n):
    test.wait_until(f"{name} is done", lambda: test.query(f"SELECT n_done FROM datasets WHERE dataset = '{name}'") == [(n,)])


# ---- the embedded queue ----

@case
def a_dataset_of_ten_does_not_wait_for_one_of_a_hundred_thousand(test):
    submit(test, "big", 100_000)
    submit(test, "ten", 10)
    worker = test.start("work", "--model", test.model, "--engine-test", "fixed:2", *BATCH)
    wait_until_done(test, "ten", 10)
    stop(test, worker)
    n_big = n_done_before_the_last_of(test, "ten", "big")
    print(f"# {n_big} of 100,000 before the ten")
    assert n_big <= 64, n_big  # of which the claim's eighth goes to the oldest


@case
def of_two_large_datasets_the_heavier_one_gets_more(test):
    submit(test, "light", 5000)
    submit(test, "heavy", 5000)
    worker = test.start("work", "--model", test.model, "--engine-test", "fixed:1", "--dataset-weight", "heavy=4", *BATCH)
    wait_until_done(test, "heavy", 5000)
    stop(test, worker)
    n_light = n_done_before_the_last_of(test, "heavy", "light")
    assert 1000 < n_light < 5000 // 2, n_light  # a quarter, and at the end a turn of the jobs in the window


@case
def a_limit_bounds_what_a_worker_claims_of_a_dataset_and_the_figures_show_each(test):
    submit(test, "big", 3000)
    submit(test, "other", 400)
    worker, address = metrics.start(test, "--engine-test", "fixed:2", "--dataset-limit", "big=3", *BATCH)
    most = 0

    def other_is_done():
        nonlocal most
        rows = dict(test.query("SELECT dataset, count(*) FROM queue JOIN jobs ON jobs.id = job WHERE queue.worker IS NOT NULL GROUP BY 1"))
        most = max(most, rows.get("big", 0))
        return metrics.samples(metrics.get(address, "/metrics")[2]).get('sheaf_dataset_jobs_total{dataset="other",status="done"}') == 400
    test.wait_until("the other dataset is done", other_is_done)
    assert most == 3, most
    figures = metrics.samples(metrics.get(address, "/metrics")[2])
    assert figures['sheaf_dataset_jobs_inflight{dataset="big"}'] <= 3 and figures['sheaf_dataset_jobs_inflight{dataset="other"}'] == 0, figures
    assert figures['sheaf_dataset_jobs_unfinished{dataset="big"}'] > 0, figures
    assert figures['sheaf_dataset_tokens_total{dataset="other"}'] >= 400, figures
    assert figures['sheaf_dataset_dead_letters_total{dataset="other"}'] == 0, figures
    stop(test, worker)


@case
def weights_and_limits_that_are_none_are_refused(test):
    for option, value in (("--dataset-weight", "a"), ("--dataset-weight", "a=0"), ("--dataset-weight", "a=x"), ("--dataset-weight", "2"),
                          ("--dataset-weight", "a=101"), ("--dataset-limit", "a=-1"), ("--dataset-limit", "x"), ("--dataset-limit", "16385")):
        refused = test.run("work", "--model", test.model, "--exit-when-idle", "0", option, value, status=2)
        assert f"{option} {value}: expected" in refused.err, refused
    test.run("work", "--model", test.model, "--exit-when-idle", "0", "--dataset-weight", "a=b=0.5", "--dataset-weight", "=100", "--dataset-limit", "5",
             "--dataset-limit", "a=16384", "--dataset-limit", "b=0")
    test.write("sheaf.conf", ["dataset-limit = 0"])
    test.run("work", "--model", test.model, "--exit-when-idle", "0", "--config", "sheaf.conf")


# ---- Kafka ----

def order_of_results(topics):
    return [json.loads(record["payload"])["dataset"] for record in topics.read("results")]


def run_behind(test, n, *options):
    """Ten jobs after n of another dataset in one partition. Returns the number of the other's results before the last of the ten."""
    topics = kafka.Topics(test, n_partitions=1)
    submit(test, "big", n, *topics.options)
    submit(test, "ten", 10, *topics.options)
    topics.work_to_the_end("--engine-test", "fixed:1", *BATCH, *options)
    results = topics.results()
    assert len(results) == n + 10
    order = order_of_results(topics)
    return order[:max(i for i, name in enumerate(order) if name == "ten")].count("big")


@case
def over_kafka_datasets_within_the_window_take_turns(test):
    n_big = run_behind(test, 4000, "--window", "8192")
    print(f"# {n_big} of 4,000 before the ten")
    assert n_big < 4000 // 2, n_big  # a turn of 4,096 tokens, of prompts whose beginnings are cached, and the running batch


@case
def over_kafka_a_limit_holds_jobs_back_so_that_those_behind_them_are_found(test):
    n_big = run_behind(test, 1500, "--window", "64", "--dataset-limit", "big=8")
    print(f"# {n_big} of 1,500 before the ten")
    assert n_big < 200, n_big


@case
def over_kafka_killed_workers_with_limits_answer_each_job_once(test):
    test.environment["SHEAF_CRASH_LIMIT"] = "0"
    topics = kafka.Topics(test, n_partitions=2)
    for name, n in (("a", 400), ("b", 300), ("c", 20)):
        submit(test, name, n, *topics.options)
    options = ("--engine-test", "fixed:4", *BATCH, "--window", "32", "--dataset-limit", "a=5", "--dataset-limit", "12", "-X", "session.timeout.ms=6000",
               "-X", "heartbeat.interval.ms=500")
    for n in (40, 120, 250):  # results at the kill
        worker = topics.work(*options)
        test.wait_until(f"{n} results", lambda n=n: worker.poll() is not None or len(topics.read("results")) >= n)
        stop(test, worker)
    topics.work_to_the_end(*options)
    assert len(topics.results()) == 720  # none twice
