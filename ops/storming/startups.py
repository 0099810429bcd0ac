"""Fleets that start: rounds of 2 to 12 workers with random gaps between them, each a group of its own. A round takes from the
start of its last worker until each one is ready, owns its share, and all jobs are committed."""
import os
import random
import shutil
import signal
import statistics
import time

from . import fleet, shares

ROUND_S_MAX = 240
WORKERS = 2, 12
GAP_S_MAX = 1.5
N_PARTITIONS = 12
SLOWEST = 3  # limit of a round, relative to the median
ROUNDS_LEAST = 10  # fewer rounds have no meaningful median
LOOK_S = 0.1


def plan(seed, n_rounds):
    """[[gap before each worker]] of the rounds."""
    rng = random.Random(f"{seed}-startups")
    return [[0.0] + [rng.uniform(0, rng.choice((0.1, GAP_S_MAX))) for _ in range(rng.randint(*WORKERS) - 1)]
            for _ in range(n_rounds)]


def too_slow(seconds):
    """The rounds beyond their limit, as texts."""
    if len(seconds) < ROUNDS_LEAST:
        return []
    limit = SLOWEST * statistics.median(seconds)
    return [f"round {number} took {took:.1f} s, more than {limit:.1f} s" for number, took in enumerate(seconds, 1)
            if took > limit]


class Round:
    def __init__(self, cluster, folder, number, make_command):
        self.cluster, self.number = cluster, number
        self.folder = os.path.join(folder, f"round-{number}")
        os.mkdir(self.folder)
        machine = fleet.Machine(self.folder)
        cluster.group = f"startup-{number}"
        self.make = lambda i: fleet.Worker(i, machine, make_command(machine, cluster.group), False)
        self.workers = []

    def run(self, gaps, ends):
        """Returns the duration in seconds, or raises."""
        for i, gap in enumerate(gaps):
            time.sleep(gap)
            worker = self.make(i)
            worker.log_path = os.path.join(self.folder, f"worker-{i}.log")
            worker.start("")
            self.workers.append(worker)
        began = time.monotonic()
        while True:
            wrong = self.look(ends)
            took = time.monotonic() - began
            if not wrong:
                return took
            if took > ROUND_S_MAX:
                raise TimeoutError(f"round {self.number}, {len(gaps)} workers: not within {ROUND_S_MAX} s: {'; '.join(wrong[:3])}")
            time.sleep(LOOK_S)

    def look(self, ends):
        wrong = [f"worker {worker.number} ended: {worker.last_words()}" for worker in self.workers if not worker.is_alive()]
        wrong = wrong or shares.look_at(self.cluster, self.workers)
        if not wrong:
            committed = self.cluster.committed()
            wrong = [f"partition {i}: {committed.get(i)} of {end} committed" for i, end in enumerate(ends) if committed.get(i) != end]
        return wrong

    def end(self):
        for worker in self.workers:
            if worker.is_alive():
                worker.process.send_signal(signal.SIGTERM)
        statuses = []
        for worker in self.workers:
            try:
                statuses.append(worker.process.wait(60))
            except Exception:
                worker.process.kill()
                statuses.append(worker.process.wait())
        return statuses

    def clear(self):
        shutil.rmtree(self.folder, ignore_errors=True)


def run(cluster, folder, n_rounds, seed, make_command, report):
    """Returns (seconds of each round, faults)."""
    ends, seconds, wrong = cluster.ends("jobs"), [], []
    warm_up = [[0.0, 0.0]]  # not counted: the first group and transaction create the broker's internal topics
    for number, gaps in enumerate(warm_up + plan(seed, n_rounds)):
        one = Round(cluster, folder, number, make_command)
        try:
            took = one.run(gaps, ends)
            if number > 0:
                seconds.append(took)
                report(f"round {number}: {len(gaps)} workers, {took:.1f} s; median {statistics.median(seconds):.1f} s, "
                       f"slowest {max(seconds):.1f} s")
        except TimeoutError as fault:
            wrong.append(str(fault))
            report(str(fault))
        finally:
            statuses = one.end()
        if any(statuses):
            wrong.append(f"round {number}: workers ended with {statuses}")
        if wrong:
            break
        one.clear()
    return seconds, wrong + too_slow(seconds)
