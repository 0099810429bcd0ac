"""The queue on a real broker: kcat, an independent client, produces jobs and reads results.

The broker is $SHEAF_TEST_BROKER (HOST:PORT), else one that ops/kafka/start brings up for this suite.
"""
import collections
import importlib.machinery
import importlib.util
import json
import os
import random
import re
import resource
import shutil
import signal
import socket
import sqlite3
import struct
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request

import faults
from adapters import fingerprints, lora_of, write_adapter
from session import DEADLINE_S, DONE, Skip, case, is_wide, text_of, varied_jobs

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SEED = int(os.environ.get("SHEAF_TEST_SEED", "20240607"))
N_KILLS = 8 if is_wide() else 3
KAFKA_VERSION = "3.9.1"  # 4.3.1 can lose the end of a transaction when a single broker comes back (ops/FAULTS.md)
broker = {}
broker_folders = set()  # of the brokers that were started
stopped_brokers = {"seconds": 0.0}


def ops(name, *arguments, timeout=900):
    if "--dir" in arguments:
        folder = arguments[arguments.index("--dir") + 1]
        if name == "start":
            broker_folders.add(folder)
        elif name == "stop":
            stopped_brokers["seconds"] += processor_seconds(folder)
    return subprocess.run([os.path.join(ROOT, "ops", "kafka", name), *arguments], capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, timeout=timeout, check=False,
                          env=dict(os.environ, SHEAF_KAFKA_VERSION=KAFKA_VERSION))


def processor_seconds(folder):
    """Of the broker in the folder, 0 when it does not run."""
    try:
        with open(os.path.join(folder, "pid"), encoding="ascii") as file:
            pid = int(file.read())
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:
            user, system = file.read().rsplit(")", 1)[1].split()[11:13]
    except (OSError, ValueError):
        return 0.0
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def broker_seconds():
    """Processor time of all brokers that ops() started, ended ones too."""
    return stopped_brokers["seconds"] + sum(map(processor_seconds, broker_folders))


def address():
    """Of the suite's broker; started by the first case that needs it."""
    if "missing" in broker:
        raise Skip(broker["missing"])
    if "address" in broker:
        return broker["address"]
    absent = [name for name in ("java", "kcat") if not shutil.which(name)]
    if absent:
        broker["missing"] = f"there is no {' and no '.join(absent)}"
    elif os.environ.get("SHEAF_TEST_BROKER"):
        broker["address"] = os.environ["SHEAF_TEST_BROKER"]
    elif not shutil.which("mvn") and not os.path.exists(os.path.expanduser("~/.cache/sheaf")):
        broker["missing"] = "there is no Kafka, and no Maven to fetch it"
    else:
        broker["folder"] = tempfile.mkdtemp(prefix="sheaf-kafka-")
        broker["far"] = socket.create_server(("127.0.0.1", 0))
        started = start_broker()
        if started.returncode:
            finish()
            broker["missing"] = "no broker: " + " ".join(started.stderr.split()[-30:])
        else:
            broker["address"] = started.stdout.strip()
    return address()


def start_broker():
    """Starts or restarts the broker with the same ports. Clients of the additional listener get the address of broker["far"]."""
    return ops("start", "--dir", broker["folder"], "--proxy", str(broker["far"].getsockname()[1]))


def stop_broker():
    """Kills it."""
    ops("stop", "--kill", "--dir", broker["folder"])


def restart_broker():
    started = start_broker()
    assert started.stdout.strip() == address(), started


def need_own_broker():
    """Skips a case that stops the broker where another one is given."""
    address()
    if "folder" not in broker:
        raise Skip("the broker is not this suite's own")


def finish():
    if "folder" in broker:
        stop_broker()
        broker.pop("far").close()
        shutil.rmtree(broker.pop("folder"), ignore_errors=True)


def load_protocol():
    """ops/kafka/topics speaks Kafka's protocol; as a module it is called so."""
    loader = importlib.machinery.SourceFileLoader("kafka_protocol", os.path.join(ROOT, "ops", "kafka", "topics"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("kafka_protocol", loader))
    writes, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    loader.exec_module(module)
    sys.dont_write_bytecode = writes
    return module


protocol = load_protocol()


def create_topics(brokers, prefix, n_partitions):
    """Returns when each partition has a leader."""
    protocol.create_and_wait(protocol.Connection(brokers), protocol.topics_of(prefix, n_partitions))


def kcat(*arguments, text=None):
    """What it prints, as bytes. `text` is its standard input."""
    return subprocess.run(["kcat", "-b", address(), *arguments], input=(text or "").encode(), stdout=subprocess.PIPE, check=True,
                          timeout=DEADLINE_S).stdout


class Topics:
    """The four topics of one case, and kcat on them."""

    def __init__(self, test, n_partitions=3, name=""):
        self.prefix = f"{os.path.basename(test.folder)}{name}-"
        self.group = os.path.basename(test.folder) + "-group"
        self.test = test
        create_topics(address(), self.prefix, n_partitions)
        self.options = ["--brokers", address()]
        for name in ("jobs", "results", "dead", "control"):
            self.options += [f"--{name}", self.prefix + name]

    def make_again(self, *names, n_partitions, settings=None):
        """Deletes and recreates topics; topics with other settings get one partition."""
        delete_topics(self.test, *(self.prefix + name for name in names))
        if settings:
            protocol.create(protocol.Connection(address()), {self.prefix + name: (1, settings) for name in names})
        create_topics(address(), self.prefix, n_partitions)

    def produce(self, jobs, name="jobs", *options):
        """One record per job, with the custom_id as its key."""
        lines = "".join(f"{job.get('custom_id', '') if isinstance(job, dict) else 'bad'}\t"
                        f"{json.dumps(job) if isinstance(job, dict) else job}\n" for job in jobs)
        kcat("-P", "-X", "enable.idempotence=true", "-t", self.prefix + name, "-K", "\t", *options, text=lines)

    def read(self, name):
        """[{key, payload, headers}] of all committed records."""
        lines = kcat("-C", "-t", self.prefix + name, "-o", "beginning", "-e", "-q", "-J", "-X", "isolation.level=read_committed")
        return [json.loads(line.decode(errors="replace")) for line in lines.splitlines()]

    def keys_and_headers(self, name):
        """"KEY, tab, NAME=VALUE,NAME=VALUE" of all committed records."""
        return kcat("-C", "-t", self.prefix + name, "-o", "beginning", "-e", "-q", "-f", "%k\\t%h\\n", "-X",
                    "isolation.level=read_committed").decode().splitlines()

    def read_bytes(self, name):
        """The values of all committed records, one after the other."""
        return kcat("-C", "-t", self.prefix + name, "-o", "beginning", "-e", "-q", "-f", "%s\\n")

    def results(self):
        """{custom_id: result}; checks that no result is duplicated."""
        values = [json.loads(record["payload"]) for record in self.read("results")]
        counted = collections.Counter((value["dataset"], value["job_id"]) for value in values)
        assert max(counted.values(), default=1) == 1, [item for item in counted.items() if item[1] > 1]
        return {value["custom_id"]: value for value in values}

    def work(self, *options):
        return self.test.start("work", "--model", self.test.model, "--threads", "1", "--group", self.group,
                               *self.options, *options)

    def work_to_the_end(self, *options):
        finished = self.test.wait(self.work("--exit-when-idle", "1", *options))
        assert finished.status in DONE, finished


def headers_of(record):
    return dict(zip(record["headers"][::2], record["headers"][1::2]))


def delete_below(topic, partition, offset):
    """DeleteRecords (https://kafka.apache.org/protocol, 21) version 1, with the client of ops/kafka/topics."""
    string, array = protocol.string, protocol.array
    body = array([string(topic) + array([struct.pack(">iq", partition, offset)])]) + struct.pack(">i", 120_000)
    reader = protocol.Connection(address()).request(21, 1, body)
    reader.take("i")  # throttle time
    ((_, partitions),) = reader.array(lambda: (reader.string(), reader.array(lambda: (reader.take("i"), reader.take("q"), reader.take("h")))))
    assert [(number, code) for number, _, code in partitions] == [(partition, 0)], partitions


def n_brokers():
    """Metadata (3) version 1 without topics: the brokers that the controller considers alive."""
    return protocol.Connection(address()).request(3, 1, protocol.array([])).take("i")


def commit_offset(test, group, topic, partition, offset):
    """OffsetCommit (8) version 2, by no member. FindCoordinator (10) makes the broker the group's coordinator."""
    string, array = protocol.string, protocol.array
    body = string(group) + struct.pack(">i", -1) + string("") + struct.pack(">q", -1) + array(
        [string(topic) + array([struct.pack(">iq", partition, offset) + string("")])])

    def is_committed():
        protocol.Connection(address()).request(10, 0, string(group))
        reader = protocol.Connection(address()).request(8, 2, body)
        ((_, partitions),) = reader.array(lambda: (reader.string(), reader.array(lambda: (reader.take("i"), reader.take("h")))))
        assert partitions[0][1] in (0, 14, 15, 16), partitions  # the coordinator loads, is not available, is not this one
        return partitions == [(partition, 0)]
    test.wait_until("the offset is committed", is_committed)


def delete_topics(test, *names):
    """DeleteTopics (20) version 1. The broker follows the controller, which answers before that."""
    body = protocol.array([protocol.string(name) for name in names]) + struct.pack(">i", 120_000)
    reader = protocol.Connection(address()).request(20, 1, body)
    reader.take("i")  # throttle time
    codes = dict(reader.array(lambda: (reader.string(), reader.take("h"))))
    assert codes == dict.fromkeys(names, 0), codes
    test.wait_until("the topics are gone", lambda: not any(protocol.leaders(protocol.Connection(address()), names).values()))


def create_on_both(topic, settings):
    """CreateTopics (19) version 4: one partition, two replicas."""
    string, array = protocol.string, protocol.array
    item = string(topic) + struct.pack(">ih", 1, 2) + array([]) + array([string(name) + string(value) for name, value in settings.items()])
    reader = protocol.Connection(address()).request(19, 4, array([item]) + struct.pack(">i?", 120_000, False))
    reader.take("i")  # throttle time
    codes = [code for _, code, _ in reader.array(lambda: (reader.string(), reader.take("h"), reader.string()))]
    assert codes == [0], codes


def served_at(test, worker):
    """HOST:PORT of its figures."""
    test.wait_until("the address", lambda: "figures at http://" in test.stderr_of(worker) or worker.poll() is not None)
    return re.search(r"figures at http://(\S+)/", test.stderr_of(worker)).group(1)


def ask(where, path):
    """(status, text)"""
    try:
        with urllib.request.urlopen(f"http://{where}{path}", timeout=DEADLINE_S) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def reference(test, jobs):
    """{custom_id: choices} of a run on the embedded queue."""
    test.write("reference-in.jsonl", jobs)
    test.run_file("reference-in.jsonl", "reference.jsonl")
    return {answer["custom_id"]: [choice_of(choice) for choice in answer["response"]["body"]["choices"]]
            for answer in test.answers("reference.jsonl")}


def choice_of(choice):
    """The fields of a choice that both formats have."""
    message = choice.get("message") or {}
    return message.get("content", choice.get("text")), choice["finish_reason"]


def seeded(jobs):
    return [dict(job, seed=i) for i, job in enumerate(jobs)]


def text_of_result(choice):
    return choice_of(choice)


@case
def jobs_that_kcat_produces_are_answered_once_and_read_back_by_kcat(test):
    topics = Topics(test)
    jobs = seeded(varied_jobs(90))
    topics.produce(jobs)
    topics.work_to_the_end()
    results = topics.results()
    expected = reference(test, jobs)
    assert sorted(results) == sorted(expected)
    for custom_id, result in results.items():
        assert result["status"] == "done", result
        assert [text_of_result(choice) for choice in result["choices"]] == expected[custom_id], (result, expected[custom_id])
    assert topics.read("dead") == []


@case
def a_result_carries_the_key_and_says_where_its_job_came_from(test):
    topics = Topics(test)
    topics.produce([{"custom_id": "one", "prompt": "the", "max_tokens": 2}], "jobs", "-H", "traceparent=00-ab-cd-01")
    topics.work_to_the_end()
    (record,) = topics.read("results")
    headers = dict(zip(record["headers"][::2], record["headers"][1::2]))
    assert record["key"] == "one", record
    assert headers["content-type"] in ("application/json", "application/msgpack"), headers
    assert headers["sheaf-source-topic"] == topics.prefix + "jobs", headers
    assert headers["sheaf-source-offset"] == "0" and headers["traceparent"] == "00-ab-cd-01", headers
    assert headers["ce_specversion"] == "1.0", headers


@case
def submit_work_and_collect_give_the_answers_of_the_embedded_queue(test):
    topics = Topics(test)
    jobs = seeded(varied_jobs(40))
    jobs[7] = {"custom_id": "line 7", "prompt": text_of(1, 400)}
    test.write("in.jsonl", jobs + ["{no json"])
    test.run("submit", "in.jsonl", "--dataset", "run", *topics.options)
    topics.work_to_the_end()
    test.run("collect", "--dataset", "run", "-o", "out.jsonl", *topics.options)
    test.run_file("in.jsonl", "reference.jsonl")
    assert test.comparable() == test.comparable("reference.jsonl")
    test.run("collect", "--dataset", "run", "-o", "out.jsonl", *topics.options)  # its own lines
    test.write("mine.jsonl", [{"id": "batch_req_mine"}])
    refused = test.run("collect", "--dataset", "run", "-o", "mine.jsonl", *topics.options, status=1)
    assert "mine.jsonl exists, and has other lines" in refused.err and b"batch_req_mine" in test.read("mine.jsonl"), refused
    refused = test.run("collect", "--dataset", "run", "-o", "fresh.jsonl", "--errors", "mine.jsonl", *topics.options, status=1)
    assert not test.exists("fresh.jsonl"), refused
    test.run("collect", "--dataset", "run", "-o", "mine.jsonl", "--overwrite", *topics.options)
    assert test.read("mine.jsonl") == test.read("out.jsonl")


@case
def a_record_that_is_no_job_is_a_dead_letter_and_the_others_go_on(test):
    topics = Topics(test, 1)
    good = [{"custom_id": f"{i}", "prompt": "the", "max_tokens": 2} for i in range(4)]
    topics.produce(good[:2] + ["no job at all", '{"custom_id": "named", "prompt": 7}'] + good[2:])
    topics.work_to_the_end()
    results = topics.results()
    assert [results[f"{i}"]["status"] for i in range(4)] == ["done"] * 4
    assert results["named"]["status"] == "failed" and "prompt" in results["named"]["error"]["message"], results["named"]
    dead = topics.read("dead")
    assert [record["payload"] for record in dead] == ["no job at all", '{"custom_id": "named", "prompt": 7}'], dead
    for record, offset in zip(dead, ("2", "3")):
        headers = dict(zip(record["headers"][::2], record["headers"][1::2]))
        assert headers["__sheaf.errors.topic"] == topics.prefix + "jobs", headers
        assert headers["__sheaf.errors.offset"] == offset and headers["__sheaf.errors.message"], headers
        assert record["key"] == "bad"


@case
def with_unique_jobs_the_first_record_of_a_job_id_alone_is_answered(test):
    """Deduplicates in a worker's memory, and by its store after a restart; also bad records and jobs without an id."""
    topics = Topics(test, 2)
    job = {"prompt": "the", "max_tokens": 2, "seed": 1, "job_id": "a", "dataset": "d"}
    options = ["--engine-test", "instant", "--unique-jobs", "--store", "w.db"]
    topics.produce([job, job, {**job, "prompt": "another"}, {**job, "dataset": "other"}, {"prompt": "the", "max_tokens": 2}])
    said = test.wait(topics.work("--exit-when-idle", "1", *options)).err
    assert "3 jobs answered" in said and "2 records repeated a job_id" in said, said
    assert "the first alone is answered" in said, said
    assert len(topics.read("results")) == 3 and not topics.read("dead")
    topics.produce([job, {**job, "job_id": "b"}, {**job, "prompt": 7}])
    worker = topics.work(*options, "--metrics", "127.0.0.1:0")
    where = served_at(test, worker)
    test.wait_until("it is answered", lambda: 'sheaf_jobs_total{status="done"} 1\n' in ask(where, "/metrics")[1])
    test.wait_until("both are finished", lambda: "\nsheaf_repeated_jobs_total 2\n" in ask(where, "/metrics")[1])
    worker.terminate()
    test.wait(worker)
    assert len(topics.read("results")) == 4 and not topics.read("dead")
    assert test.query("SELECT dataset, job_id, status FROM jobs WHERE dataset <> 'default' ORDER BY 1, 2", "w.db") == \
        [("d", "a", "done"), ("d", "b", "done"), ("other", "a", "done")]
    assert "\n0 unfinished in topic" in test.run("lag", *topics.options[:4], "--group", topics.group).out
    topics.produce([{**job, "job_id": "b"}])
    topics.work_to_the_end("--engine-test", "instant", "--store", "w.db")  # without the option each is answered
    assert len(topics.read("results")) == 5


@case
def a_job_in_msgpack_is_answered_like_one_in_json(test):
    topics = Topics(test, 1)

    def packed(text):
        return struct.pack("B", 0xa0 | len(text)) + text.encode()

    record = b"\x84" + packed("custom_id") + packed("packed") + packed("prompt") + packed("the winter") + packed(
        "max_tokens") + b"\x06" + packed("temperature") + b"\x00"
    with open(test.path("job.msgpack"), "wb") as file:
        file.write(record)
    kcat("-P", "-t", topics.prefix + "jobs", "-H", "content-type=application/msgpack", test.path("job.msgpack"))
    plain = {"custom_id": "plain", "prompt": "the winter", "max_tokens": 6, "temperature": 0}
    topics.produce([plain])
    topics.work_to_the_end()
    expected = reference(test, [plain])["plain"][0][0].encode()
    # The answer to msgpack is msgpack, where the text stands as it is; in JSON it is escaped.
    values = topics.read_bytes("results")
    assert values.count(expected) + values.count(json.dumps(expected.decode(), ensure_ascii=False).encode()[1:-1]) >= 2, (
        expected, values)
    assert values.count(b"packed") >= 1 and values.count(b"plain") >= 1, values


class FarLine:
    """A line to the suite's broker on which an answer takes 2 * DELAY_S longer."""
    DELAY_S = 0.125

    def __init__(self):
        need_own_broker()
        self.address = f"127.0.0.1:{broker['far'].getsockname()[1]}"
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                client = broker["far"].accept()[0]
            except (KeyError, OSError):  # closed with the broker
                return
            try:
                with open(os.path.join(broker["folder"], "proxied"), encoding="utf-8") as file:
                    server = socket.create_connection(("127.0.0.1", int(file.read())))
            except (KeyError, OSError, ValueError):  # no broker, or its port is being written
                client.close()
                continue
            for ends in (client, server), (server, client):
                threading.Thread(target=self.carry, args=ends, daemon=True).start()

    def carry(self, source, target):
        try:
            while data := source.recv(65536):
                time.sleep(self.DELAY_S)
                target.sendall(data)
        except OSError:
            pass
        for end in (source, target):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


@case
def a_worker_far_from_its_broker_goes_on_after_an_outage(test):
    """The broker's answers take 250 ms."""
    topics, line = Topics(test, 1), FarLine()
    topics.options[1] = line.address
    worker = topics.work("--engine-test", "instant", "--metrics", "127.0.0.1:0")
    where = served_at(test, worker)
    test.wait_until("it is ready", lambda: ask(where, "/readyz")[0] == 200)
    stop_broker()
    test.wait_until("it is not", lambda: "no broker is up" in ask(where, "/readyz")[1])
    restart_broker()
    test.wait_until("it is ready again", lambda: ask(where, "/readyz")[0] == 200)
    worker.terminate()
    ended = test.wait(worker)
    assert ended.status == 0 and "held by a transaction" not in ended.err, ended


@case
def a_start_without_a_file_descriptor_left_names_that_as_the_cause(test):
    """The last line of its log, which a supervisor shows."""
    topics = Topics(test, 1)

    def limit():
        resource.setrlimit(resource.RLIMIT_NOFILE, (24, 24))

    worker = test.start("work", "--model", test.model, "--threads", "1", "--group", topics.group, *topics.options,
                        preexec_fn=limit)
    finished = test.wait(worker)
    assert finished.status == 1, finished
    assert "Too many open files" in finished.err.strip().splitlines()[-1], finished


@case
def a_record_may_have_thousands_of_headers(test):
    """A dead letter keeps the first 1,024 and says that there were more; a job is answered, whatever it carries."""
    topics = Topics(test, 1)
    counts = (1023, 1024, 1025, 5000)
    for n in counts:
        headers = [option for i in range(n) for option in ("-H", f"h{i}={i}")]
        topics.produce(["no job"], "jobs", *headers)
        topics.produce([{"custom_id": f"{n}", "prompt": "the", "max_tokens": 2}], "jobs", "-H", "traceparent=00-ab-cd-01", *headers)
    topics.work_to_the_end()
    answered = {name: result["status"] for name, result in topics.results().items() if name in map(str, counts)}
    assert answered == {f"{n}": "done" for n in counts}, answered
    assert len(topics.read("results")) == 2 * len(counts)
    dead = topics.read("dead")
    assert [record["payload"] for record in dead] == ["no job"] * len(counts), dead
    for record, n in zip(dead, counts):
        pairs = list(zip(record["headers"][::2], record["headers"][1::2]))
        theirs = [pair for pair in pairs if not pair[0].startswith("__sheaf")]
        assert theirs == [(f"h{i}", f"{i}") for i in range(min(n, 1024))], (n, len(theirs))
        omitted = [value for name, value in pairs if name == "__sheaf.errors.omitted"]
        assert omitted == (["headers beyond the 1024th"] if n > 1024 else []), (n, omitted)
    traced = [record for record in topics.read("results") if "traceparent" in (record["headers"] or [])]
    assert len(traced) == len(counts)


@case
def workers_killed_at_random_instants_publish_every_result_exactly_once(test):
    test.environment["SHEAF_CRASH_LIMIT"] = "0"  # repeated kills from outside are not a job's fault
    topics = Topics(test)
    jobs = seeded(varied_jobs(600))
    expected = reference(test, jobs)
    topics.produce(jobs)
    rng = random.Random(SEED)
    print(f"# seed {SEED}, {N_KILLS} kills")
    options = ["--window", "48", "-X", "session.timeout.ms=6000", "-X", "heartbeat.interval.ms=500"]
    for _ in range(N_KILLS):
        worker = topics.work(*options)
        test.wait_until("it works", lambda worker=worker: worker.poll() is not None or "KV" in test.stderr_of(worker))
        time.sleep(rng.random() * 2.5)  # the instant of the kill, whichever it is
        worker.send_signal(signal.SIGKILL)
        assert test.wait(worker).status == -signal.SIGKILL, "it ended before it was killed"
    topics.work_to_the_end(*options)
    results = topics.results()
    assert sorted(results) == sorted(expected)
    for custom_id, result in results.items():
        assert [text_of_result(choice) for choice in result["choices"]] == expected[custom_id], custom_id


@case
def two_workers_share_the_partitions_and_one_that_leaves_loses_nothing(test):
    topics = Topics(test, 4)
    paced = ("--window", "32", "--max-batch", "4", "--engine-test", "fixed:8")  # 100 jobs take 8 s: they run while partitions move
    first = topics.work("--store", "first.db", *paced)
    second = topics.work("--store", "second.db", *paced)
    owned = "SELECT count(*) FROM partitions WHERE worker IS NOT NULL"
    jobs = []

    def produce(n):
        jobs.extend({"custom_id": f"{i}", "prompt": text_of(i, 6), "max_tokens": 40, "seed": i} for i in range(len(jobs), len(jobs) + n))
        topics.produce(jobs[-n:])

    def both_own_partitions():
        own = [test.query(owned, store) > [(0,)] for store in ("first.db", "second.db")]
        if not all(own) and len(topics.read("results")) == len(jobs):
            produce(20)  # one may answer all jobs before the other joins; a store knows a partition once it has jobs
        return all(own)

    produce(100)
    test.wait_until("both own partitions", both_own_partitions)
    produce(100)
    second.send_signal(signal.SIGTERM)
    assert test.wait(second).status == 0
    test.wait_until("all is answered", lambda: len(topics.read("results")) == len(jobs))
    first.send_signal(signal.SIGTERM)
    assert test.wait(first).status == 0
    assert sorted(topics.results()) == sorted(job["custom_id"] for job in jobs)


@case
def a_worker_that_its_group_refuses_is_not_ready_and_ends_with_an_error(test):
    """Another client is in the group, with an assignor that ours has not. A stop that is asked for then does not mask it."""
    topics, others = Topics(test), Topics(test, 1, "-of-another")  # kcat commits what it reads, so it reads no job of ours
    topics.produce(seeded(varied_jobs(3)))
    others.produce(varied_jobs(1))
    other = subprocess.Popen(["kcat", "-u", "-b", address(), "-G", topics.group, "-X", "auto.offset.reset=earliest", "-X",
                              "partition.assignment.strategy=roundrobin", others.prefix + "jobs"],
                             stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert other.stdout.readline(), "kcat is no member"
        worker = topics.work("--metrics", "127.0.0.1:0", "--membership-timeout", "3s", "-X",
                             "partition.assignment.strategy=range")
        metrics_at = served_at(test, worker)
        answers = []

        def has_ended():
            try:
                answers.append((ask(metrics_at, "/healthz"), ask(metrics_at, "/readyz")))
            except OSError:  # it serves no more
                worker.send_signal(signal.SIGTERM)
            return worker.poll() is not None
        test.wait_until("its end", has_ended)
        ended = test.wait(worker)
        assert ended.status == 1, ended
        assert "no confirmed member of group" in ended.err and "nconsistent group protocol" in ended.err, ended
        assert "working again" not in ended.err, ended
        assert not any(ready[0] == 200 for _, ready in answers), answers
        other.terminate()  # it leaves the group, which would keep a killed member for its session
        other.wait(DEADLINE_S)
    finally:
        other.kill()
        other.wait()
    topics.work_to_the_end("--membership-timeout", "600s")
    assert len(topics.results()) == 3


@case
def a_stop_that_is_asked_for_while_the_broker_does_not_answer_ends_the_start(test):
    """A broker that accepts connections and never answers, like a stopped process."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(DEADLINE_S)
        worker = test.start("work", "--model", test.model, "--threads", "1", "--brokers",
                            f"127.0.0.1:{silent.getsockname()[1]}")
        with silent.accept()[0]:
            worker.send_signal(signal.SIGTERM)
            ended = test.wait(worker)
    assert ended.status == 0 and "stopped while starting; no job was taken" in ended.err, ended


def stop_in_a_commit(test, path, awaited, *options):
    """Three jobs; the worker hangs in the commit of their results, and has SIGTERM once `path` matches `awaited`."""
    topics = Topics(test, 1)
    topics.produce(seeded(varied_jobs(3)))
    plain = test.sheaf
    test.sheaf = os.path.join(os.path.dirname(plain), "../tests/sheaf-faults")
    test.environment["SHEAF_FAULT"] = "produced:2:wait=600000"  # the first marks the jobs as started
    worker = topics.work("--metrics", "127.0.0.1:0", *options)
    metrics_at = served_at(test, worker)
    test.wait_until(awaited, lambda: re.search(awaited, ask(metrics_at, path)[1]))
    worker.send_signal(signal.SIGTERM)
    ended = test.wait(worker)
    assert ended.status == 1, ended
    assert "waiting for the transport to commit results for 20 s since it was asked to stop" in ended.err, ended
    test.sheaf = plain
    del test.environment["SHEAF_FAULT"]
    topics.work_to_the_end()
    assert len(topics.results()) == 3
    return ended


@case
def a_worker_that_hangs_in_a_commit_ends_soon_after_it_is_asked_to(test):
    """librdkafka 2.0.2 may never return from sending offsets if the broker dies, in spite of its timeout."""
    stop_in_a_commit(test, "/readyz", "main loop has waited")


@case
def a_worker_that_hangs_in_a_commit_after_it_has_read_the_signal_ends_soon_too(test):
    """After the signal one call has the same limit, not the longer limit of a running worker.

    A step has ended, so jobs run and are finished; the shortest of them has 1.4 s left, less than the 2 s of grace.
    """
    ended = stop_in_a_commit(test, "/metrics", r"sheaf_steps_total [1-9]", "--engine-test", "fixed:700")
    assert "running ones are finished" in ended.err, ended


@case
def a_mirror_that_an_open_transaction_keeps_from_the_end_of_the_results_fails_and_names_it(test):
    topics = Topics(test, 1)
    topics.produce(seeded(varied_jobs(3)))
    topics.work_to_the_end()
    other = subprocess.Popen(["kcat", "-P", "-b", address(), "-t", topics.prefix + "results", "-X", f"transactional.id={topics.prefix}held"],
                             stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        # kcat sends once its input buffer is full
        other.stdin.write(b"held\n" * 40_000)
        other.stdin.flush()
        everything = subprocess.Popen(["kcat", "-C", "-u", "-q", "-b", address(), "-t", topics.prefix + "results", "-o", "beginning",
                                       "-X", "isolation.level=read_uncommitted"], stdout=subprocess.PIPE, text=True)
        while everything.stdout.readline() != "held\n":
            assert everything.poll() is None
        everything.kill()
        everything.wait()
        held = test.run("mirror", "--until-end", "--store", "mirror.db", *topics.options, status=1)
        assert f"topic {topics.prefix}results partition 0: a transaction stays open" in held.err, held
    finally:
        other.stdin.close()
        other.wait()
    test.run("mirror", "--until-end", "--store", "mirror.db", *topics.options)
    assert test.query("SELECT count(*) FROM jobs WHERE status = 'done'", "mirror.db") == [(3,)]


@case
def a_worker_names_its_librdkafka_and_refuses_a_protocol_that_it_has_not(test):
    topics = Topics(test, 1)
    refused = test.wait(topics.work("--group-protocol", "sticky"))
    assert refused.status == 2 and "expected eager, cooperative or consumer" in refused.err, refused
    for name, needed in (("cooperative", (2, 6, 1)), ("consumer", (2, 12, 0))):
        ended = test.wait(topics.work("--exit-when-idle", "0", "--group-protocol", name))
        loaded = re.search(r"(?:, librdkafka|newer, this is) (\d+)\.(\d+)\.(\d+)", ended.err)
        assert loaded, ended
        if tuple(map(int, loaded.groups())) < needed:
            assert ended.status == 2, ended
            assert f"--group-protocol {name} needs librdkafka {'.'.join(map(str, needed))} or newer, this is " in ended.err, ended
        else:
            assert ended.status == 0, ended


@case
def fleets_that_start_become_ready_and_share_the_topic(test):
    """Few rounds of `ops/storm --startups`; its times count from ten on, as with SHEAF_TEST_STARTUPS=100."""
    address()
    rounds = os.environ.get("SHEAF_TEST_STARTUPS", "3" if is_wide() else "1")
    build = os.path.dirname(os.path.dirname(os.path.abspath(test.sheaf)))
    done = subprocess.run([os.path.join(ROOT, "ops", "storm"), "--startups", rounds, "--seed", str(SEED), "--build", build],
                          capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@case
def a_group_that_is_given_other_topics_works_on_those(test):
    """At once: the group still knows the worker by the topics it had before, until its session times out."""
    for number in range(2):
        topics = Topics(test, name=f"-{number}")
        topics.produce(seeded(varied_jobs(12)))
        topics.work_to_the_end("-X", "session.timeout.ms=6000")
        assert len(topics.results()) == 12, (number, topics.results())


@case
def a_cancelled_dataset_has_one_result_for_each_of_its_jobs(test):
    topics = Topics(test)
    test.write("in.jsonl", [{"prompt": "the", "max_tokens": 3}] * 30)
    test.write("other.jsonl", [{"prompt": "the", "max_tokens": 3}] * 5)
    test.run("submit", "in.jsonl", "--dataset", "unwanted", *topics.options)
    test.run("submit", "other.jsonl", "--dataset", "wanted", *topics.options)
    test.run("cancel", "--dataset", "unwanted", *topics.options)
    topics.work_to_the_end()
    statuses = collections.Counter((result["dataset"], result["status"]) for result in topics.results().values())
    assert statuses == {("unwanted", "cancelled"): 30, ("wanted", "done"): 5}, statuses


@case
def equal_requests_are_computed_once_in_the_window_and_from_the_store(test):
    topics = Topics(test)
    jobs = [dict(job, custom_id=f"{name} {i}") for i, job in enumerate(seeded(varied_jobs(20))) for name in ("once", "again")]
    topics.produce(jobs)
    topics.work_to_the_end("--engine-test", "fixed:2", "--max-batch", "4")
    assert test.query("SELECT sum(is_duplicate), count(*) FROM jobs") == [(20, 40)]
    before = test.query("SELECT sum(generated_tokens) FROM workers")
    topics.produce([dict(job, custom_id=f"third {i}") for i, job in enumerate(jobs)])
    topics.work_to_the_end("--engine-test", "fixed:2")  # another process, the same store
    assert test.query("SELECT sum(is_duplicate), count(*) FROM jobs") == [(60, 80)]
    assert test.query("SELECT sum(generated_tokens) FROM workers") == before
    results = topics.results()
    assert len(results) == 80
    for i in range(20):
        texts = {json.dumps(results[name]["choices"]) for name in (f"once {i}", f"again {i}", f"third {2 * i}", f"third {2 * i + 1}")}
        assert len(texts) == 1, texts
    counted = collections.Counter(headers_of(record).get("sheaf-duplicate") for record in topics.read("results"))
    assert counted == {None: 20, "1": 60}, counted
    test.run("mirror", "--until-end", "--store", "mirror.db", *topics.options)  # a figure that the topics have
    figures = "SELECT n_duplicates, duplicate_prompt_tokens, duplicate_completion_tokens FROM datasets"
    assert test.query(figures, "mirror.db") == test.query(figures)


@case
def workers_with_and_without_an_adapter_never_take_each_others_answers(test):
    topics, adapter = Topics(test, 4), write_adapter(test, "adapter")
    jobs = seeded(varied_jobs(20))
    expected = {None: reference(test, jobs)}
    test.run_file("reference-in.jsonl", "adapted.jsonl", "--lora", adapter)
    lora = lora_of(*fingerprints(test, "adapted.jsonl"))
    expected[lora] = {answer["custom_id"]: [choice_of(choice) for choice in answer["response"]["body"]["choices"]]
                      for answer in test.answers("adapted.jsonl")}
    assert expected[lora] != expected[None]
    passes = [("first", ["--lora", adapter], lora, 0), ("second", [], None, 0), ("third", ["--lora", adapter], lora, 20), ("fourth", [], None, 20)]
    for name, options, _, _ in passes:  # another process each, the same store
        topics.produce([dict(job, custom_id=f"{name}/{job['custom_id']}") for job in jobs])
        topics.work_to_the_end(*options)
    together = [topics.work("--exit-when-idle", "1", "--max-batch", "2", *options) for options in ([], ["--lora", adapter])]
    topics.produce([dict(job, custom_id=f"both/{job['custom_id']}") for job in jobs])
    for worker in together:
        finished = test.wait(worker)
        assert finished.status in DONE, finished
    results = topics.results()
    assert len(results) == 5 * len(jobs)
    for custom_id, result in results.items():
        name, own = custom_id.split("/")
        computed_with = lora_of(result["system_fingerprint"])
        assert [text_of_result(choice) for choice in result["choices"]] == expected[computed_with][own], (custom_id, computed_with)
        assert name == "both" or computed_with == next(item[2] for item in passes if item[0] == name), (custom_id, result)
    counted = collections.Counter(record["key"].split("/")[0] for record in topics.read("results")
                                  if headers_of(record).get("sheaf-duplicate"))
    assert [counted[item[0]] for item in passes] == [item[3] for item in passes], counted
    refused = test.wait(topics.work("--exit-when-idle", "0", "--require-arithmetic", lora))
    assert refused.status == 2 and f"{lora}, this worker has none" in refused.err, refused


@case
def questions_about_a_table_are_answered_over_the_topics_with_the_bytes_of_the_embedded_queue(test):
    topics = Topics(test)
    test.write("in.jsonl", [{"id": i, "text": f"{text_of(i, 5)} {i}"} for i in range(30)])
    test.write("prompt.jinja", ["{{ text }}"])
    questions = [{"name": "tone", "prompt": "Which tone?", "choice": ["warm", "cold"]}, {"name": "free", "prompt": "What else?", "temperature": 0.8}]
    test.write("q.json", [questions])
    options = ["in.jsonl", "--prompt", "prompt.jinja", "--max-tokens", "6", "--figures", "--questions", "q.json"]
    test.run("annotate", *options, "--model", test.model, "-o", "reference.jsonl")
    annotating = test.start("annotate", *options, "-o", "out.jsonl", *topics.options)
    topics.work_to_the_end("--store", "worker.db")
    worker = topics.work("--store", "worker.db")
    assert test.wait(annotating).status == 0
    assert test.read("out.jsonl") == test.read("reference.jsonl") and len(topics.results()) == 60
    worker.send_signal(signal.SIGTERM)
    assert test.wait(worker).status == 0


@case
def a_table_is_annotated_over_the_topics_with_the_bytes_of_the_embedded_queue(test):
    topics = Topics(test)
    rows = [{"id": i, "text": f"{text_of(i, 5)} {i % 50}" if i % 17 else ""} for i in range(80)]
    test.write("in.jsonl", rows[:60])
    test.write("prompt.jinja", ["{{ text }}"])
    options = ["in.jsonl", "--prompt", "prompt.jinja", "--max-tokens", "6", "--temperature", "0.8", "--votes", "2", "--figures"]
    test.run("annotate", *options, "--model", test.model, "-o", "reference.jsonl")

    annotating = test.start("annotate", *options, "-o", "out.jsonl", *topics.options)
    topics.work_to_the_end("--store", "worker.db")  # jobs are submitted before it starts, or while it is idle
    worker = topics.work("--store", "worker.db")
    assert test.wait(annotating).status in DONE
    assert test.read("out.jsonl") == test.read("reference.jsonl")
    n_before = len(topics.read("results"))
    test.run("annotate", *options, "-o", "out.jsonl", *topics.options)  # nothing is left to do
    assert test.read("out.jsonl") == test.read("reference.jsonl") and len(topics.read("jobs")) == n_before

    # Grown and edited: only what is new is submitted.
    rows[3]["text"] = "edited"
    test.write("in.jsonl", rows)
    test.run("annotate", *options, "--model", test.model, "-o", "reference.jsonl")
    test.run("annotate", *options, "-o", "out.jsonl", *topics.options)
    assert test.read("out.jsonl") == test.read("reference.jsonl")
    (n_jobs,) = test.query("SELECT n_submitted FROM datasets", "out.jsonl.db")[0]
    assert len(topics.results()) == n_jobs > n_before
    assert test.query("SELECT n_done, n_failed FROM datasets", "out.jsonl.db") == test.query("SELECT n_done, n_failed FROM datasets", "reference.jsonl.db")
    worker.send_signal(signal.SIGTERM)
    assert test.wait(worker).status == 0
    refused = test.run("annotate", *options, "-o", "out.jsonl", "--retry-failed", *topics.options, status=2)
    assert "--retry-failed" in refused.err, refused


@case
def a_table_of_the_topics_has_the_certificate_of_the_embedded_queue(test):
    topics = Topics(test)
    rows = [{"id": i, "text": f"{text_of(i, 5)} {i % 20}"} for i in range(40)]
    test.write("in.jsonl", rows[:30])
    options = ["in.jsonl", "--prompt", "Is {{ text }} warm?", "--max-tokens", "6", "--temperature", "0.8", "--certificate"]
    test.run("annotate", *options, "reference.json", "--model", test.model, "-o", "reference.jsonl")
    worker = topics.work("--store", "worker.db")
    test.run("annotate", *options, "out.json", "-o", "out.jsonl", *topics.options)
    assert test.read("out.json") == test.read("reference.json") and test.read("out.jsonl") == test.read("reference.jsonl")
    done = test.run("verify", "out.jsonl", "--certificate", "out.json", "--model", test.model)
    assert "30 of 30 rows computed again are equal" in done.out, done.out
    worker.send_signal(signal.SIGTERM)
    assert test.wait(worker).status == 0
    worker = topics.work("--store", "worker.db", "--kv-type", "q8_0")
    test.write("in.jsonl", rows)
    done = test.run("annotate", *options, "out.json", "-o", "out.jsonl", *topics.options, status=1)
    assert "no certificate out.json: row 31 was computed with another arithmetic" in done.err and "kv-type=q8_0" in done.err, done.err
    assert len(test.answers()) == 40 and test.read("out.json") == test.read("reference.json")
    refused = test.run("verify", "out.jsonl", "--certificate", "out.json", status=1)
    assert "rows were added: expected 30, got 40; the first that differs is row 31" in refused.err, refused.err
    worker.send_signal(signal.SIGTERM)
    assert test.wait(worker).status == 0


@case
def an_annotation_over_the_topics_that_is_killed_goes_on_and_submits_no_job_twice(test):
    topics = Topics(test)
    test.write("in.csv", ["text", *(f"{text_of(i, 4)} {i}" for i in range(300))])
    test.write("prompt.jinja", ["{{ text }}"])
    options = ["annotate", "in.csv", "--prompt", "prompt.jinja", "--max-tokens", "4", "-o", "out.csv"]
    first = test.start(*options, *topics.options)  # no worker: it waits
    test.wait_until("all are submitted", lambda: len(topics.read("jobs")) == 300)
    first.send_signal(signal.SIGKILL)
    first.wait()
    worker = topics.work("--engine-test", "fixed:5", "--max-batch", "4", "--store", "worker.db")
    for n in (20, 150):
        running = test.start(*options, *topics.options)
        test.wait_until(f"{n} are answered", lambda: test.query(f"SELECT n_done FROM datasets WHERE n_done >= {n}", "out.csv.db"))
        running.send_signal(signal.SIGKILL)  # the last one may be done by then
        running.wait()
    stopped = test.start(*options, *topics.options)
    test.wait_until("it follows", lambda: "were there already" in test.stderr_of(stopped))
    stopped.send_signal(signal.SIGTERM)
    stopped = test.wait(stopped)
    if stopped.status == 1:  # unless it was done by then
        assert "the same command continues" in stopped.err, stopped
    test.run(*options, *topics.options)
    worker.send_signal(signal.SIGTERM)
    assert test.wait(worker).status == 0
    assert len(topics.read("jobs")) == len(topics.results()) == 300
    test.run(*options[:-1], "reference.csv", "--model", test.model, "--engine-test", "instant")
    assert test.read("out.csv") == test.read("reference.csv")
    for suffix in ("", "-wal", "-shm", "-workers"):  # the store is lost: the topics have all of it
        if test.exists("out.csv.db" + suffix):
            os.remove(test.path("out.csv.db" + suffix))
    os.remove(test.path("out.csv"))
    test.run(*options, *topics.options)
    assert test.read("out.csv") == test.read("reference.csv") and len(topics.read("jobs")) == 300


@case
def requests_of_an_abandoned_prompt_are_cancelled_and_asked_again_when_it_is_used_again(test):
    """They were computed and awaited: 59 answers for a table of 30 rows."""
    topics = Topics(test)
    test.write("in.csv", ["text", *(f"{text_of(i, 4)} {i}" for i in range(29)), "same"])
    test.write("first.jinja", ["{{ text }}"])
    test.write("second.jinja", ["{{ text }}{% if text != 'same' %}!{% endif %}"])
    table = ["annotate", "in.csv", "--max-tokens", "4"]
    for prompt in ("first", "second"):
        test.run(*table, "--prompt", f"{prompt}.jinja", "-o", f"reference-{prompt}.csv", "--model", test.model)

    def annotate(prompt):
        return test.start(*table, "--prompt", f"{prompt}.jinja", "-o", "out.csv", *topics.options)
    stopped = annotate("first")
    test.wait_until("all are submitted", lambda: len(topics.read("jobs")) == 30)
    stopped.send_signal(signal.SIGTERM)
    test.wait(stopped)
    running = annotate("second")
    test.wait_until("the others are cancelled", lambda: running.poll() is not None or
                    "29 requests of other prompts or rows without an answer: cancelled" in test.stderr_of(running))
    topics.work_to_the_end("--store", "worker.db")
    assert test.wait(running).status == 0
    assert test.read("out.csv") == test.read("reference-second.csv")

    def n_of_status():
        return collections.Counter(json.loads(record["payload"])["status"] for record in topics.read("results"))
    assert n_of_status() == {"done": 30, "cancelled": 29}
    running = annotate("first")
    test.wait_until("they are asked again", lambda: running.poll() is not None or len(topics.read("jobs")) == 59 + 29)
    topics.work_to_the_end("--store", "worker.db")
    ended = test.wait(running)
    assert ended.status == 0 and test.read("out.csv") == test.read("reference-first.csv"), ended
    assert n_of_status() == {"done": 59, "cancelled": 29}
    test.run(*table, "--prompt", "first.jinja", "-o", "out.csv", *topics.options)  # nothing is left to do
    assert len(topics.read("jobs")) == 88 and test.read("out.csv") == test.read("reference-first.csv")


@case
def the_store_follows_what_was_committed(test):
    topics = Topics(test)
    topics.produce([{"custom_id": f"{i}", "prompt": "the", "max_tokens": 2} for i in range(50)] + ["no job"])
    topics.work_to_the_end()
    counted = dict(test.query("SELECT status, count(*) FROM jobs GROUP BY status"))
    assert counted == {"done": 50, "failed": 1}, counted
    assert test.query("SELECT sum(jobs_behind), sum(in_flight), count(*) FROM lag") == [(0, 0, 3)]
    printed = json.loads(test.run("status", "--json").out)
    assert sum(dataset["done"] for dataset in printed["datasets"]) == 50, printed


def works_without_store_until(test, store, mend):
    topics = Topics(test, 1)
    topics.produce([{"custom_id": f"{i}", "prompt": "the", "max_tokens": 2} for i in range(30)])
    worker = topics.work("--store", store)
    test.wait_until("the results", lambda: worker.poll() is not None or len(topics.read("results")) == 30)
    assert "working without a store" in test.stderr_of(worker), test.stderr_of(worker)
    mend()
    test.wait_until("the store", lambda: worker.poll() is not None or "figures are written from now on" in test.stderr_of(worker))
    topics.produce([{"custom_id": f"later {i}", "prompt": "the", "max_tokens": 2} for i in range(10)])
    test.wait_until("the figures", lambda: worker.poll() is not None
                    or test.query("SELECT count(*) FROM jobs WHERE status = 'done'", store) == [(10,)])
    worker.send_signal(signal.SIGTERM)
    assert test.wait(worker).status == 0
    assert test.query("SELECT count(*) FROM workers WHERE stopped_at_us IS NOT NULL", store) == [(1,)]
    assert len(topics.results()) == 40


@case
def a_worker_whose_store_is_unreadable_works_without_and_opens_it_once_it_can(test):
    test.write("text.db", ["no database, but long enough to be read as the first page of one " * 40])
    works_without_store_until(test, "text.db", lambda: os.remove(test.path("text.db")))


@case
def a_worker_whose_store_is_of_a_newer_version_works_without_it(test):
    newer = sqlite3.connect(test.path("newer.db"))
    newer.executescript("CREATE TABLE later (x); PRAGMA user_version = 99;")
    newer.close()
    works_without_store_until(test, "newer.db", lambda: os.remove(test.path("newer.db")))


@case
def a_worker_on_a_full_disk_works_without_store_and_slot_and_writes_figures_once_it_can(test):
    disk = faults.small_disk(test, 2 << 20)
    filler = os.path.join(disk, "filler")
    faults.fill(filler, 0)
    works_without_store_until(test, os.path.join(disk, "s.db"), lambda: os.remove(filler))


@case
def a_job_past_its_deadline_is_late_though_its_answer_is_known(test):
    topics = Topics(test, 1)
    known = {"prompt": "the winter", "temperature": 0, "max_tokens": 8}
    topics.produce([dict(known, custom_id="known")])
    topics.work_to_the_end()
    topics.produce([dict(known, custom_id="late", deadline=int(time.time()) - 1), dict(known, custom_id="again")])
    topics.work_to_the_end()
    results = topics.results()
    assert results["late"]["status"] == "failed" and results["late"]["error"]["code"] == "deadline_exceeded", results
    assert results["again"]["choices"] == results["known"]["choices"], results


@case
def too_few_in_sync_replicas_are_named_and_the_results_follow_once_there_are_enough(test):
    need_own_broker()
    topics = Topics(test, 1)
    topics.produce([{"custom_id": "first", "prompt": "the", "max_tokens": 2}])
    topics.work_to_the_end("--engine-test", "instant")  # makes the coordinators' topics, on the first broker
    second = tempfile.mkdtemp(prefix="sheaf-kafka-second-")
    try:
        assert ops("start", "--dir", second, "--join", broker["folder"], "--node", "2").returncode == 0
        delete_topics(test, topics.prefix + "results")
        create_on_both(topics.prefix + "results", {"min.insync.replicas": "2"})
        create_topics(address(), topics.prefix, 1)  # until it has a leader
        ops("stop", "--kill", "--dir", second)
        topics.produce([{"custom_id": f"{i}", "prompt": "the", "max_tokens": 2} for i in range(5)])
        worker = topics.work("--metrics", "127.0.0.1:0", "--engine-test", "instant", "--no-reuse")
        where = served_at(test, worker)
        named = f"topic {topics.prefix}results partition 0 has 1 in-sync replicas, fewer than its min.insync.replicas of 2"
        test.wait_until("the reason", lambda: worker.poll() is not None or named in ask(where, "/readyz")[1])
        assert ask(where, "/readyz")[0] == 503 and named in test.stderr_of(worker), test.stderr_of(worker)
        assert ops("start", "--dir", second, "--join", broker["folder"], "--node", "2").returncode == 0
        test.wait_until("the results", lambda: worker.poll() is not None or len(topics.results()) == 5)
        test.wait_until("it is ready", lambda: worker.poll() is not None or ask(where, "/readyz")[0] == 200)
        worker.terminate()
        assert test.wait(worker).status == 0
    finally:
        ops("stop", "--kill", "--dir", second)
        shutil.rmtree(second, ignore_errors=True)
        test.wait_until("the first broker is alone", lambda: n_brokers() == 1)  # no topic is put on the second one


@case
def two_records_with_one_job_id_are_both_answered_and_the_worker_says_so(test):
    topics = Topics(test, 1)
    jobs = [{"job_id": "twice", "prompt": "the winter", "max_tokens": 2, "seed": 1}, {"job_id": "once", "prompt": "the", "max_tokens": 2},
            {"job_id": "twice", "prompt": "the water", "max_tokens": 2, "seed": 1}, {"job_id": "once", "prompt": "the", "max_tokens": 2}]
    topics.produce(jobs)
    finished = test.wait(topics.work("--exit-when-idle", "1"))
    assert finished.status == 0 and len(topics.read("results")) == 4
    (warning,) = [line for line in finished.err.splitlines() if "one job_id" in line]
    assert "partition 0 offset 0 and partition 0 offset 2" in warning and '"twice" of dataset "default"' in warning, warning


@case
def framing_a_byte_order_mark_and_x_msgpack_are_read(test):
    topics = Topics(test, 1)
    records = {"plain": b"", "framed": b"\0\0\0\1\7", "mark": b"\xef\xbb\xbf"}
    for name, before in records.items():
        with open(test.path(name), "wb") as file:
            file.write(before + json.dumps({"custom_id": name, "prompt": "the", "max_tokens": 2, "seed": 1}).encode())
        kcat("-P", "-t", topics.prefix + "jobs", "-H", "content-type=application/json", test.path(name))
    with open(test.path("packed"), "wb") as file:
        file.write(b"\x82\xa9custom_id\xa6packed\xa6prompt\xa3the")
    kcat("-P", "-t", topics.prefix + "jobs", "-H", "content-type=application/x-msgpack", test.path("packed"))
    topics.work_to_the_end()
    assert topics.read("dead") == []
    assert len(topics.read("results")) == 4


@case
def two_groups_over_one_topic_give_results_of_different_identities(test):
    topics = Topics(test, 1)
    topics.produce([{"custom_id": "one", "prompt": "the", "max_tokens": 2}])
    identities = set()
    for group in ("a", "b"):
        topics.group = group
        topics.work_to_the_end("--store", f"{group}.db")
    for record in topics.read("results"):
        headers = dict(zip(record["headers"][::2], record["headers"][1::2]))
        identities.add((headers["ce_source"], headers["ce_id"]))
    assert identities == {(f"/sheaf/{group}/{topics.prefix}jobs", "0-0") for group in ("a", "b")}, identities


@case
def a_fleet_that_shares_its_group_with_another_one_of_other_results_is_told(test):
    topics = Topics(test, 2)
    protocol.create_and_wait(protocol.Connection(address()), {topics.prefix + "other": (2, {})})
    topics.produce([{"custom_id": f"{i}", "prompt": "the", "max_tokens": 2} for i in range(20)])
    topics.work_to_the_end("--store", "ours.db")
    other = [topics.prefix + "other" if option == topics.prefix + "results" else option for option in topics.options]
    for options, is_told in ((topics.options, False), (other, True)):
        ended = test.run("work", "--model", test.model, "--group", topics.group, "--exit-when-idle", "1", "--store", "other.db", *options)
        assert ("if two fleets share this --group" in ended.err) == is_told, ended


@case
def a_mirror_s_table_of_workers_is_of_its_group_alone(test):
    topics = Topics(test, 1)
    test.write("in.jsonl", [{"prompt": text_of(i, 3), "max_tokens": 2, "temperature": 0} for i in range(20)])
    test.run("submit", "in.jsonl", "--dataset", "d", *topics.options)
    for group in ("a", "b"):
        topics.group = group
        topics.work_to_the_end("--store", f"{group}.db")
    for group in ("a", "b"):
        mirrored = test.run("mirror", "--until-end", "--store", f"{group}-fleet.db", "--group", group, *topics.options)
        assert test.query("SELECT n_submitted, n_done FROM datasets", f"{group}-fleet.db") == [(20, 20)]
        workers = test.query("SELECT worker, n_done FROM fleet", f"{group}-fleet.db")
        assert len(workers) == 1 and workers[0][1] == 20, workers
        assert f"results of other groups than {group}" in mirrored.err, mirrored


@case
def missing_topics_are_made_with_the_partitions_asked_for(test):
    topics = Topics(test, 1)
    test.write("in.jsonl", [{"prompt": "the", "max_tokens": 2}] * 3)
    options = [name if name.startswith("--") or name == address() else name + "-new" for name in topics.options]
    test.run("submit", "in.jsonl", "--dataset", "d", "--create-topics", "--partitions", "5", *options)
    listed = kcat("-L", "-t", topics.prefix + "jobs-new").decode()
    assert "with 5 partitions" in listed, listed


@case
def a_member_s_name_is_given_by_option(test):
    topics = Topics(test, 1)
    topics.produce([{"custom_id": "one", "prompt": "the", "max_tokens": 2}])
    first = topics.work("--member-name", "pod-1")
    test.wait_until("the result", lambda: first.poll() is not None or len(topics.read("results")) == 1)
    second = test.wait(topics.work("--member-name", "pod-1"))
    assert second.status != 0 and "pod-1" in second.err, second
    os.mkdir(os.path.join(test.folder, "third"))  # another machine
    third = topics.work("--member-name", "pod-1", "--store", "third/third.db", "--metrics", "127.0.0.1:0")
    metrics_at = served_at(test, third)
    test.wait_until("the wait for its namesake", lambda: third.poll() is not None or
                    "waiting for the end of its session" in ask(metrics_at, "/readyz")[1])
    third.send_signal(signal.SIGTERM)
    assert test.wait(third).status == 0
    first.send_signal(signal.SIGTERM)
    assert test.wait(first).status == 0
    topics.produce([{"custom_id": "two", "prompt": "the", "max_tokens": 2}])
    topics.work_to_the_end("--member-name", "pod-1", "--store", "elsewhere.db")  # the dead pod's partitions, at once
    assert sorted(topics.results()) == ["one", "two"]


@case
def a_worker_that_is_to_refuse_deleted_jobs_ends_and_another_answers_the_rest(test):
    topics = Topics(test, 1)
    jobs = [{"custom_id": f"{i}", "prompt": text_of(i, 6), "max_tokens": 4, "seed": i} for i in range(40)]
    topics.produce(jobs[:20])
    topics.work_to_the_end("--refuse-deleted")
    topics.produce(jobs[20:])
    delete_below(topics.prefix + "jobs", 0, 35)
    for _ in range(2):  # it stays refused
        finished = test.wait(topics.work("--refuse-deleted", "--exit-when-idle", "1"))
        assert finished.status == 1 and "the offsets 20 to 34 were deleted" in finished.err.splitlines()[-1], finished
    assert sorted(topics.results(), key=int) == [f"{i}" for i in range(20)]
    finished = test.wait(topics.work("--exit-when-idle", "1"))
    assert finished.status == 0 and "the offsets 20 to 34 were deleted" in finished.err, finished
    assert re.search("warning: kafka: .*offset reset", finished.err), finished  # librdkafka's own, shown without --log-level
    assert sorted(topics.results(), key=int) == [f"{i}" for i in [*range(20), *range(35, 40)]]


@case
def a_result_says_at_which_attempt_its_job_was_answered(test):
    topics = Topics(test, 1)
    topics.produce([{"custom_id": f"{i}", "prompt": text_of(i, 6), "max_tokens": 40, "seed": i} for i in range(2000)])
    worker = topics.work("--max-batch", "4", "--engine-test", "fixed:10", "-X", "session.timeout.ms=6000")
    test.wait_until("some results", lambda: test.query("SELECT 1 FROM jobs LIMIT 1") != [])
    worker.send_signal(signal.SIGKILL)
    test.wait(worker)
    before = topics.read("results")
    topics.work_to_the_end("--engine-test", "instant", "-X", "session.timeout.ms=6000")
    records = topics.read("results")
    attempts = collections.Counter(headers_of(record)["sheaf-attempts"] for record in records)
    assert 0 < len(before) < len(records) == 2000 and {headers_of(record)["sheaf-attempts"] for record in before} == {"1"}, attempts
    assert set(attempts) == {"1", "2"} and attempts["1"] >= len(before), attempts


def set_quota(client, bytes_per_second):
    """AlterClientQuotas (https://kafka.apache.org/protocol, 49) version 0: producer_byte_rate of a client.id."""
    string, array = protocol.string, protocol.array
    entity = array([string("client-id") + string(client)])
    rates = array([string("producer_byte_rate") + struct.pack(">d?", bytes_per_second, False)])
    reader = protocol.Connection(address()).request(49, 0, array([entity + rates]) + b"\0")
    reader.take("i")  # throttle time
    codes = reader.array(lambda: (reader.take("h"), reader.string(), reader.array(lambda: (reader.string(), reader.string()))))
    assert [code for code, *_ in codes] == [0], codes


@case
def a_worker_that_its_brokers_throttle_publishes_each_result_once_and_says_why_it_is_slow(test):
    """A broker does not read from a throttled connection: offsets sent over it timed out after 10 s."""
    topics = Topics(test, 1)
    set_quota(f"sheaf-{topics.group}-slow", 700)
    n_jobs = 200
    topics.produce([{"custom_id": f"{i}", "prompt": text_of(i, 12), "max_tokens": 100, "ignore_eos": True, "temperature": 1, "seed": i}
                    for i in range(n_jobs)])
    worker = topics.work("--member-name", "slow", "--metrics", "127.0.0.1:0", "--engine-test", "fixed:2", "--max-batch", "16")
    metrics_at = served_at(test, worker)

    def sample(name):
        return float(re.search(rf"^{re.escape(name)} (\S+)$", ask(metrics_at, "/metrics")[1] + f"\n{name} 0", re.M).group(1))
    test.wait_until("all is answered", lambda: sample('sheaf_jobs_total{status="done"}') == n_jobs)
    assert sample("sheaf_throttled_seconds_total") > 10
    n_again = sample('sheaf_txn_total{outcome="aborted"}') + sample("sheaf_producers_replaced_total")
    assert n_again <= 1, n_again  # before the worker knows of the quota
    worker.send_signal(signal.SIGTERM)
    ended = test.wait(worker)
    assert ended.status == 0 and "throttled by the broker" in ended.err, ended
    assert len(topics.results()) == n_jobs


@case
def a_stop_that_a_throttle_outlasts_ends_at_once_and_leaves_no_suspects(test):
    """The throttle lasts minutes. A worker used to exit with status 1 after 40 s, and the next one treated waiting jobs as suspects."""
    topics = Topics(test, 1)
    set_quota(f"sheaf-{topics.group}-slow", 20)
    n_jobs = 200
    topics.produce([{"custom_id": f"{i}", "prompt": text_of(i, 12), "max_tokens": 30, "ignore_eos": True} for i in range(n_jobs)])
    worker = topics.work("--member-name", "slow", "--engine-test", "fixed:20", "--max-batch", "16")
    test.wait_until("it is throttled", lambda: worker.poll() is not None or "throttled by the broker" in test.stderr_of(worker))
    n_published = len(topics.results())
    worker.send_signal(signal.SIGTERM)
    ended = test.wait(worker)
    assert ended.status == 0 and "finished jobs are released, because a quota" in ended.err, ended
    assert len(topics.results()) == n_published
    finished = test.wait(topics.work("--exit-when-idle", "1", "--engine-test", "instant", "--member-name", "next"))
    assert finished.status == 0 and "may have been running" not in finished.err, finished
    assert len(topics.results()) == n_jobs


@case
def a_worker_that_starts_while_its_only_broker_is_down_names_it_and_ends_to_be_started_again(test):
    """With an exit status for which sheaf.service restarts it."""
    need_own_broker()
    topics = Topics(test, 1)
    topics.produce([{"custom_id": "a", "prompt": "the winter", "max_tokens": 4}])
    stop_broker()
    ended = test.wait(topics.work())
    with open(os.path.join(ROOT, "ops", "sheaf.service.in"), encoding="utf-8") as file:
        unit = dict(line.split("=", 1) for line in file.read().splitlines() if re.match(r"\w+=", line))
    assert unit["Restart"] == "on-failure" and str(ended.status) not in unit["RestartPreventExitStatus"].split(), unit
    assert ended.status == 1, ended
    last = ended.err.strip().splitlines()[-1]
    assert f"Kafka at {address()}: no answer within 10000 ms" in last and "refused" in last, ended
    assert "check that a broker is up there" in last and "start this again" in last, ended
    restart_broker()
    topics.work_to_the_end()
    assert list(topics.results()) == ["a"]


@case
def a_jobs_topic_that_is_made_again_under_a_worker_is_answered_whole(test):
    """With the same number of jobs the worker's position was at their end, so that none was answered."""
    topics = Topics(test, 2)
    topics.produce([{"custom_id": f"{i}", "prompt": text_of(i, 6), "max_tokens": 2} for i in range(30)])
    worker = topics.work("--engine-test", "instant")
    test.wait_until("the first are answered", lambda: len(topics.read("results")) == 30)
    topics.make_again("jobs", n_partitions=2)
    topics.produce([{"custom_id": f"{i}", "job_id": f"again-{i}", "prompt": text_of(i, 6), "max_tokens": 2} for i in range(30)])
    ended = test.wait(worker)
    assert ended.status == 1 and f"topic {topics.prefix}jobs was deleted or recreated" in ended.err, ended
    topics.work_to_the_end("--engine-test", "instant")
    assert collections.Counter(json.loads(record["payload"])["job_id"].startswith("again-") for record in topics.read("results")) == {False: 30, True: 30}


@case
def a_broker_that_is_killed_and_comes_back_costs_no_job(test):
    need_own_broker()
    topics = Topics(test)
    jobs = [{"custom_id": f"{i}", "prompt": text_of(i, 6), "max_tokens": 40, "seed": i} for i in range(300)]
    topics.produce(jobs)
    worker = topics.work("--window", "32", "--max-batch", "16", "--engine-test", "fixed:20")  # 15 s: the broker is killed within
    test.wait_until("some are answered", lambda: len(topics.read("results")) > 20)
    stop_broker()
    restart_broker()

    def all_answered():
        assert worker.poll() is None, "the worker ended"
        return len(topics.read("results")) >= 300

    test.wait_until("all are answered", all_answered)
    worker.send_signal(signal.SIGTERM)
    assert test.wait(worker).status == 0
    assert sorted(topics.results()) == sorted(job["custom_id"] for job in jobs)
