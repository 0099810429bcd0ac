"""One Apache Kafka broker of ops/kafka, and independent clients of it: kcat, Kafka's own tools, and its protocol."""
import importlib.machinery
import importlib.util
import json
import os
import shutil
import signal
import struct
import subprocess
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
KAFKA = os.path.join(ROOT, "ops", "kafka")
LIST_OFFSETS, OFFSET_FETCH, FIND_COORDINATOR, DESCRIBE_GROUPS, CREATE_PARTITIONS = 2, 9, 10, 15, 37
LATEST, READ_UNCOMMITTED, READ_COMMITTED = -1, 0, 1
DEADLINE_S = 120
READ_TRIES = 10
TOOL_S = 600  # Kafka's own tools start a Java


def load_protocol():
    """ops/kafka/topics speaks Kafka's protocol; as a module it is called so."""
    loader = importlib.machinery.SourceFileLoader("kafka_protocol", os.path.join(KAFKA, "topics"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("kafka_protocol", loader))
    loader.exec_module(module)
    return module


protocol = load_protocol()


# Brokers such as 4.3.1 skip a transaction's markers where they end it while a partition has no leader (KAFKA-20734), as none
# has for a moment when a single broker comes back: read-committed readers never get past it. No client can help it, so the
# storm's broker is of the newest line that waits for the leader.
KAFKA_VERSION = "3.9.1"


class Missing(Exception):
    """A tool or service that the storm needs is missing."""


class Unsettled(Exception):
    """An expected state was not reached. Not an OSError: that means the broker is unreachable for now."""


def require_tools():
    absent = [name for name in ("java", "kcat") if not shutil.which(name)]
    if not shutil.which("mvn") and not os.path.exists(os.path.expanduser("~/.cache/sheaf")):
        absent.append("mvn")
    if absent:
        raise Missing(f"there is no {' and no '.join(absent)}")


class Cluster:
    """The broker, its four topics, and what others see of them. One thread at a time, except kill and restart."""

    def __init__(self, folder, n_partitions, proxy_port, version):
        self.folder, self.proxy_port = folder, proxy_port
        self.environment = dict(os.environ, SHEAF_KAFKA_VERSION=version)
        self.topics = {name: "storm-" + name for name in ("jobs", "results", "dead", "control")}
        self.group = "storm-group"
        self.address = self.start()
        self.run_ops("topics", "--brokers", self.address, "--prefix", "storm-", "--partitions", str(n_partitions))
        # Results topic of a group without faults that answers the same jobs.
        self.run_ops("topics", "--brokers", self.address, "--prefix", "calm-", "--partitions", "1")
        self.calm_topics = dict(self.topics, results="calm-results", dead="calm-dead", control="calm-control")
        self.calm_group = "calm-group"
        self.n_partitions = {"jobs": n_partitions, "results": n_partitions, "dead": 1, "control": 1}

    # ---- the broker ----

    def run_ops(self, name, *arguments):
        done = subprocess.run([os.path.join(KAFKA, name), *arguments], capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, timeout=600, check=False, env=self.environment)
        if done.returncode:
            raise Missing(f"ops/kafka/{name}: {done.stderr.strip()[-2000:]}")
        return done.stdout.strip()

    def start(self):
        return self.run_ops("start", "--dir", self.folder, "--proxy", str(self.proxy_port))

    def kill(self):
        self.run_ops("stop", "--kill", "--dir", self.folder)

    def signal(self, number):
        with open(os.path.join(self.folder, "pid")) as file:
            os.kill(int(file.read()), number)

    def proxied_port(self):
        with open(os.path.join(self.folder, "proxied")) as file:
            return int(file.read())

    def end(self):
        try:
            self.signal(signal.SIGCONT)
        except OSError:
            pass
        self.run_ops("stop", "--kill", "--dir", self.folder)

    # ---- what an independent client reads ----

    def read(self, topic):
        """All committed records of a topic: dictionaries with partition, offset, key, payload and headers."""
        with tempfile.TemporaryFile() as out:
            for tries_left in reversed(range(READ_TRIES)):  # kcat's default of 5 s is too short on a busy machine
                out.seek(0)
                out.truncate()
                try:
                    subprocess.run(["kcat", "-b", self.address, "-C", "-t", topic, "-o", "beginning", "-e", "-q", "-J",
                                    "-X", "isolation.level=read_committed"], stdout=out, stderr=subprocess.DEVNULL,
                                   check=True, timeout=DEADLINE_S)
                    break
                except subprocess.SubprocessError:
                    if not tries_left:
                        raise
            out.seek(0)
            for line in out:
                record = json.loads(line.decode(errors="replace"))
                pairs = record.get("headers") or []
                record["headers"] = dict(zip(pairs[::2], pairs[1::2]))
                yield record

    def produce(self, name, lines):
        text = "".join(line + "\n" for line in lines)
        subprocess.run(["kcat", "-b", self.address, "-P", "-X", "enable.idempotence=true", "-t", self.topics[name]], input=text, text=True, check=True,
                       timeout=DEADLINE_S, stderr=subprocess.DEVNULL)

    # ---- the protocol ----

    def ends(self, name, isolation=READ_COMMITTED):
        """[end offset of each partition]; control records count."""
        partitions = [struct.pack(">iq", i, LATEST) for i in range(self.n_partitions[name])]
        body = struct.pack(">ib", -1, isolation) + protocol.array(
            [protocol.string(self.topics[name]) + protocol.array(partitions)])
        reader = protocol.Connection(self.address).request(LIST_OFFSETS, 2, body)
        reader.take("i")  # throttle time

        def partition():
            number, code, _, offset = reader.take("i"), reader.take("h"), reader.take("q"), reader.take("q")
            if code:
                raise protocol.BrokerError(f"{name} {number}: error {code}")
            return number, offset

        ((_, found),) = reader.array(lambda: (reader.string(), reader.array(partition)))
        return [offset for _, offset in sorted(found)]

    def has_open_transactions(self):
        return any(self.ends(name, READ_COMMITTED) != self.ends(name, READ_UNCOMMITTED) for name in ("results", "dead"))

    def look_at_partitions(self):
        """The number of partitions of the jobs topic: a request without a response may have been executed."""
        name = self.topics["jobs"]
        found = protocol.leaders(protocol.Connection(self.address), [name])
        self.n_partitions["jobs"] = max(self.n_partitions["jobs"], len(found.get(name, [])))
        return self.n_partitions["jobs"]

    def add_partitions(self, n_partitions):
        topic = protocol.string(self.topics["jobs"]) + struct.pack(">ii", n_partitions, -1)
        body = protocol.array([topic]) + struct.pack(">i?", DEADLINE_S * 1000, False)
        reader = protocol.Connection(self.address).request(CREATE_PARTITIONS, 0, body)
        reader.take("i")
        for name, code, text in reader.array(lambda: (reader.string(), reader.take("h"), reader.string())):
            if code:
                raise protocol.BrokerError(f"{name}: {text or 'refused'} (error {code})")
        self.n_partitions["jobs"] = n_partitions

    def wait(self, what, condition, deadline_s=DEADLINE_S):
        """Waits until the condition holds. An unreachable broker is retried."""
        end = time.monotonic() + deadline_s
        while True:
            try:
                if condition():
                    return
            except (OSError, protocol.BrokerError, subprocess.SubprocessError):
                pass
            if time.monotonic() > end:
                raise Unsettled(f"{what}: not within {deadline_s} s")
            time.sleep(0.1)

    def coordinator(self):
        """A group's requests go to its coordinator (FindCoordinator). The cluster has one broker."""
        connection = protocol.Connection(self.address)
        connection.request(FIND_COORDINATOR, 0, protocol.string(self.group))
        return connection

    def group_state(self):
        reader = self.coordinator().request(DESCRIBE_GROUPS, 0, protocol.array([protocol.string(self.group)]))
        reader.take("i")  # one group
        code, _, state = reader.take("h"), reader.string(), reader.string()
        if code:
            raise protocol.BrokerError(f"group: error {code}")
        return state

    def assignments(self):
        """[[partition of the jobs topic, ...] of each member], from the coordinator."""
        reader = self.coordinator().request(DESCRIBE_GROUPS, 0, protocol.array([protocol.string(self.group)]))
        reader.take("i")  # one group
        code, _, _, _, _ = reader.take("h"), reader.string(), reader.string(), reader.string(), reader.string()
        if code:
            raise protocol.BrokerError(f"group: error {code}")

        def member():
            for _ in range(3):  # member id, client id, host
                reader.string()
            reader.take(f"{reader.take('i')}s")  # metadata
            return self.partitions_of(reader.take(f"{reader.take('i')}s"))
        return reader.array(member)

    def partitions_of(self, assignment):
        """Assignment of Kafka's consumer protocol; empty during a rebalance."""
        if not assignment:
            return []
        reader = protocol.Reader(assignment)
        reader.take("h")  # version
        topics = dict(reader.array(lambda: (reader.string(), reader.array(lambda: reader.take("i")))))
        return topics.get(self.topics["jobs"], [])

    def committed(self):
        """{partition: offset} of the jobs topic; partitions without a committed offset are absent."""
        partitions = protocol.array([struct.pack(">i", i) for i in range(self.n_partitions["jobs"])])
        body = protocol.string(self.group) + protocol.array([protocol.string(self.topics["jobs"]) + partitions])
        reader = self.coordinator().request(OFFSET_FETCH, 2, body)

        def partition():
            number, offset, _, code = reader.take("i"), reader.take("q"), reader.string(), reader.take("h")
            if code:
                raise protocol.BrokerError(f"partition {number}: error {code}")
            return number, offset

        ((_, found),) = reader.array(lambda: (reader.string(), reader.array(partition)))
        return {number: offset for number, offset in found if offset >= 0}

    # ---- Kafka's own tools ----

    def reset_offsets(self, n_back):
        """kafka-consumer-groups --reset-offsets, n_back records back in each partition that has an offset. The group must
        be empty. Returns {partition: new offset}."""
        wanted = {number: max(0, offset - n_back) for number, offset in self.committed().items()}
        if not wanted:
            return {}
        jars = os.path.join(self.run_ops("install"), "jars", "*")
        with tempfile.NamedTemporaryFile("w", suffix=".csv") as file:
            file.writelines(f"{self.topics['jobs']},{number},{offset}\n" for number, offset in wanted.items())
            file.flush()
            done = subprocess.run(["java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", jars,
                                   "-Dlog4j2.configurationFile=" + os.path.join(KAFKA, "log4j2.properties"),
                                   "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand", "--bootstrap-server",
                                   self.address, "--group", self.group, "--reset-offsets", "--from-file", file.name,
                                   "--execute"], capture_output=True, text=True, timeout=TOOL_S, check=False,
                                  stdin=subprocess.DEVNULL)
        if self.committed() != wanted:
            said = " ".join(line for line in (done.stdout + done.stderr).splitlines() if " INFO " not in line)
            raise Missing(f"kafka-consumer-groups: {said[:300]}")
        return wanted
