"""Workers: starts, kills and stops them, adds new ones, and restarts each that ended."""
import json
import os
import random
import resource
import signal
import subprocess
import time

# Short timeouts, so that Kafka detects dead members many times in a storm.
PROPERTIES = {
    "session.timeout.ms": 6000, "heartbeat.interval.ms": 500, "max.poll.interval.ms": 15000,
    "transaction.timeout.ms": 9000, "socket.timeout.ms": 8000, "topic.metadata.refresh.interval.ms": 2000,
}
OF_THE_BROKER = ("session.timeout.ms", "heartbeat.interval.ms")  # with KIP-848
POINTS = ("claimed", "begun", "produced", "offsets", "committed", "published")
STOP_S_MAX = 14  # beyond the session and the transaction
QUOTA_BYTES = 1 << 20  # of a file that grows on a "full" disk
LAST_WORDS_MAX = 20


def properties(group_protocol):
    return {name: value for name, value in PROPERTIES.items() if group_protocol != "consumer" or name not in OF_THE_BROKER}


class Worker:
    """A slot for one process at a time. Workers of one machine share a folder, and so the store and its slots."""

    def __init__(self, number, machine, command, is_dynamic):
        self.number, self.machine, self.command, self.is_dynamic = number, machine, command, is_dynamic
        self.process, self.started_at, self.continue_at = None, 0, None
        self.leaves_until = 0  # not to be started before
        self.killed = self.asked_to_go = False
        self.faults = ""  # that its process passes
        self.log_path = os.path.join(os.path.dirname(machine.folder), f"worker-{number}.log")

    def start(self, faults):
        environment = {name: value for name, value in os.environ.items() if not name.startswith("SHEAF_")}
        if faults:
            environment["SHEAF_FAULT"] = faults
        with open(self.log_path, "ab") as log:
            stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            log.write(f"==== {stamp} started, faults {faults or 'none'}\n".encode())
            log.flush()  # before what the process writes
            self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            env=environment, cwd=self.machine.folder, preexec_fn=self.machine.limits())
        self.faults, self.started_at, self.continue_at = faults, time.monotonic(), None
        self.killed = self.asked_to_go = False

    def is_alive(self):
        return self.process is not None and self.process.poll() is None

    def is_stopped(self):
        """Ended by a signal: its own at a fault point, or the storm's."""
        try:
            with open(f"/proc/{self.process.pid}/stat") as file:
                return file.read().rpartition(")")[2].split()[0] == "T"
        except OSError:
            return False

    def wait(self, deadline_s):
        """Waits for the exit status. A process that stops itself at a fault point is continued."""
        until = time.monotonic() + deadline_s
        while time.monotonic() < until:
            if self.process.poll() is not None:
                return self.process.returncode
            if self.is_stopped():
                self.process.send_signal(signal.SIGCONT)
            time.sleep(0.05)
        raise subprocess.TimeoutExpired(self.command, deadline_s)

    def last_words(self):
        with open(self.log_path, "rb") as file:
            lines = file.read()[-4000:].decode(errors="replace").splitlines()
        line = next((line for line in reversed(lines) if line and not line.startswith("====")), "{}")
        try:
            return json.loads(line).get("message", "")
        except ValueError:
            return line


class Machine:
    """A folder with one store. With `has_quota` files can't grow: a full disk where no file system can be mounted."""

    def __init__(self, folder):
        self.folder, self.store = folder, os.path.join(folder, "store.db")
        self.has_quota = False

    def limits(self):
        return quota if self.has_quota else None


def quota():
    """Writing beyond it fails with EFBIG instead of ending the process."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (QUOTA_BYTES, resource.RLIM_INFINITY))


class Fleet:
    def __init__(self, workers, seed, fault_share, counts):
        self.workers, self.fault_share, self.counts = workers, fault_share, counts
        self.rng = random.Random(seed)
        self.is_up = True  # dead workers are started again
        self.has_faults = True
        self.last_words = {}  # last output line of each worker that ended by itself: count

    # ---- what happens to workers ----

    def order_of_faults(self):
        """Fault points of the next process: usually one or two, else none."""
        orders = []
        if self.has_faults and self.rng.random() < self.fault_share:
            for _ in range(self.rng.choice((1, 1, 2))):
                action = self.rng.choice(("kill", "kill", "kill", "stop", f"wait={self.rng.randrange(20, 9000)}"))
                orders.append(f"{self.rng.choice(POINTS)}:{self.rng.randrange(1, 9)}:{action}")
        if self.has_faults and self.rng.random() < 0.3:
            orders.append(f"poll:{self.rng.randrange(20, 400)}:again")
            self.counts["workers made to fetch again"] += 1
        return ",".join(orders)

    def supervise(self):
        """Call often: restarts workers that ended, continues workers whose stop time is over."""
        now = time.monotonic()
        for worker in self.workers:
            if worker.is_alive():
                self.look_at(worker, now)
                continue
            if worker.process is not None:
                self.take_note(worker)
                worker.process = None
            if self.is_up and now >= worker.leaves_until:
                worker.start(self.order_of_faults())
                self.counts["workers started"] += 1

    def look_at(self, worker, now):
        if worker.continue_at is None and worker.is_stopped():
            self.counts["workers stopped at a fault point"] += 1
            worker.continue_at = now + self.rng.uniform(0.05, STOP_S_MAX)
        if worker.continue_at is not None and now >= worker.continue_at:
            worker.continue_at = None
            worker.process.send_signal(signal.SIGCONT)

    def take_note(self, worker):
        status = worker.process.returncode
        if worker.killed:
            return
        if status == -signal.SIGKILL:
            self.counts["workers killed at a fault point"] += 1
        elif status == 0 and worker.asked_to_go:
            pass
        else:
            self.counts[f"workers ended by themselves with status {status}"] += 1
            words = "".join("N" if letter.isdigit() else letter for letter in worker.last_words())[:200]
            if len(self.last_words) < LAST_WORDS_MAX or words in self.last_words:
                self.last_words[words] = self.last_words.get(words, 0) + 1
            worker.leaves_until = time.monotonic() + 0.5  # like a supervisor's restart delay

    def living(self):
        return [worker for worker in self.workers if worker.is_alive() and not worker.killed]

    def kill(self, worker):
        worker.process.kill()
        worker.killed = True
        self.counts["workers killed at random"] += 1

    def stop(self, worker, seconds):
        worker.process.send_signal(signal.SIGSTOP)
        worker.continue_at = time.monotonic() + seconds
        self.counts["workers stopped at random"] += 1

    def leave(self, worker, seconds):
        worker.asked_to_go = True
        worker.process.send_signal(signal.SIGTERM)
        worker.leaves_until = time.monotonic() + seconds
        self.counts["workers that left and joined"] += 1

    # ---- all of them ----

    def calm(self):
        """Workers started from now on have no fault points. Nothing is killed, so that a hanging worker is noticed."""
        self.has_faults = False

    def end(self, number, deadline_s=60):
        """Stops all workers and returns the exit statuses of the running ones."""
        self.is_up = False
        lived = self.living()
        for worker in lived:
            worker.asked_to_go, worker.killed = True, number == signal.SIGKILL
            worker.process.send_signal(signal.SIGCONT)
            worker.process.send_signal(number)
        statuses = []
        for worker in self.workers:
            if worker.process is None:
                continue
            try:
                status = worker.wait(deadline_s)
            except subprocess.TimeoutExpired:
                worker.process.kill()
                status = worker.process.wait()
                self.counts["workers that did not leave in time"] += 1
            if worker in lived and not (worker.faults and status == -signal.SIGKILL):  # else at a fault point
                statuses.append(status)
            worker.process = None
        return statuses
