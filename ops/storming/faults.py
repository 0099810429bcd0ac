"""What is broken, when: a plan drawn from the seed, one entry a fault. Each fault is a function of the storm; what it
breaks for a time it heals itself, in `Storm.later`."""
import os
import random
import signal
import sqlite3
import time

BALLAST = "ballast"


def kill_worker(storm, rng):
    """SIGKILL at a random instant."""
    living = storm.fleet.living()
    if not living:
        return False
    storm.fleet.kill(rng.choice(living))
    return True


def stop_worker(storm, rng):
    """SIGSTOP, and SIGCONT later: at once, or when its session and its transaction are long over."""
    running = [worker for worker in storm.fleet.living() if worker.continue_at is None]
    if not running:
        return False
    storm.fleet.stop(rng.choice(running), rng.choice((rng.uniform(0.02, 1), rng.uniform(1, 14))))
    return True


def leave_and_join(storm, rng):
    """SIGTERM; the worker is restarted after a pause."""
    running = [worker for worker in storm.fleet.living() if worker.continue_at is None and not worker.asked_to_go]
    if len(running) < 2:
        return False
    storm.fleet.leave(rng.choice(running), rng.uniform(0, 10))
    return True


def kill_broker(storm, rng):
    """kill -9, then a restart at once, or after the session and transaction timeouts."""
    if not storm.broker_up.is_set():
        return False
    storm.restart_broker(rng.choice((0, rng.uniform(0, 2), rng.uniform(0, 2), rng.uniform(6, 12))))
    return True


def stop_broker(storm, rng):
    """SIGSTOP: connections stay open without responses."""
    if not storm.broker_up.is_set():
        return False
    storm.cluster.signal(signal.SIGSTOP)

    def go_on():
        try:
            storm.cluster.signal(signal.SIGCONT)
        except OSError:
            pass  # it was killed meanwhile
    storm.later(rng.uniform(0.2, 5), go_on)
    return True


HALT_S = (10, 35)  # longer than the broker's session with its controller: its partitions lose their leader
HALT_GAP_S = (1, 8)  # between two of them


def halt_broker(storm, rng):
    """SIGSTOP longer than the controller's session timeout: after SIGCONT the controller fences the broker for a moment."""
    if not storm.broker_up.is_set() or storm.is_halted:
        return False
    storm.is_halted = True
    storm.cluster.signal(signal.SIGSTOP)

    def go_on():
        try:
            storm.cluster.signal(signal.SIGCONT)
        except OSError:
            pass  # it was killed meanwhile
        storm.note("the broker goes on")
        storm.later(rng.uniform(*HALT_GAP_S), lambda: setattr(storm, "is_halted", False))
    storm.later(rng.uniform(*HALT_S), go_on)
    return True


def cut_connections(storm, rng):
    """Cuts the connections through the proxy: now, or in the middle of a message."""
    if rng.random() < 0.5:
        storm.proxy.cut()
    else:
        storm.proxy.cut_soon(rng.randrange(1, 20000))
    return True


def bad_network(storm, rng):
    """For a while the proxy forwards nothing, forwards slowly, or refuses connections."""
    if storm.proxy.mode != "open":
        return False
    mode = rng.choice(("held", "slow", "refusing"))
    storm.proxy.set_mode(mode)
    if mode == "refusing":
        storm.proxy.cut()
    storm.counts[f"network {mode}"] += 1
    storm.later(rng.uniform(0.2, 10), lambda: storm.proxy.set_mode("open"))
    return True


def lock_store(storm, rng):
    """Another program writes to the SQLite file and does not end its transaction."""
    machine = rng.choice(storm.machines)
    if not os.path.exists(machine.store):
        return False
    connection = sqlite3.connect(machine.store, timeout=5, isolation_level=None, check_same_thread=False)
    try:
        connection.execute("BEGIN IMMEDIATE")
    except sqlite3.OperationalError:
        connection.close()
        return False
    storm.later(rng.choice((rng.uniform(0.1, 2), rng.uniform(2, 13))), connection.close)
    return True


def fill_disk(storm, rng):
    """The file system of a machine is full for a while; or, where none could be mounted, files can't grow there for the
    processes that start from now on."""
    machine = rng.choice(storm.machines)
    if machine.has_quota:
        return False
    if not storm.mounted(machine):
        machine.has_quota = True
        storm.later(rng.uniform(1, 8), lambda: setattr(machine, "has_quota", False))
        return True
    path = os.path.join(machine.folder, BALLAST)
    if os.path.exists(path):
        return False
    with open(path, "wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(1 << 16))
        except OSError:
            pass
    storm.later(rng.uniform(1, 8), lambda: os.path.exists(path) and os.unlink(path))
    return True


def delete_store(storm, rng):
    """rm store.db* while workers have it open."""
    machine = rng.choice(storm.machines)
    for suffix in ("", "-wal", "-shm"):
        if os.path.exists(machine.store + suffix):
            os.unlink(machine.store + suffix)
    return True


def add_partition(storm, rng):
    """Adds a partition to the jobs topic."""
    if not storm.broker_up.is_set():
        return False
    wanted = storm.cluster.n_partitions["jobs"] + 1
    if storm.cluster.look_at_partitions() < wanted:
        storm.cluster.add_partitions(wanted)
    return True


def reset_offsets(storm, rng):
    """Stops all workers, some by SIGKILL, then resets the group's offsets, which deletes its offset maps."""
    storm.reset_offsets(rng.randrange(1, 60), badly=rng.random() < 0.5)
    return True


# Name in the report, function, and number of faults per thousand kills of workers.
FAULTS = {
    "kill worker": (kill_worker, 1000),
    "stop worker": (stop_worker, 80),
    "leave and join": (leave_and_join, 60),
    "kill broker": (kill_broker, 50),
    "stop broker": (stop_broker, 20),
    "halt broker": (halt_broker, 0),
    "cut connections": (cut_connections, 80),
    "bad network": (bad_network, 50),
    "lock store": (lock_store, 40),
    "fill disk": (fill_disk, 20),
    "delete store": (delete_store, 10),
    "add partition": (add_partition, 6),
    "reset offsets": (reset_offsets, 3),
}


def make_plan(seed, seconds, n_kills, n_broker_kills, n_broker_halts=0):
    """[(time, name, seed of its own)], at random times over the given seconds. Each kind at least once, where workers are
    killed at all."""
    rng = random.Random(f"{seed}-plan")
    plan = []
    for name, (_, per_thousand) in FAULTS.items():
        n_faults = max(1, round(per_thousand * n_kills / 1000)) if n_kills else 0
        if name == "kill broker":
            n_faults = n_broker_kills
        if name == "halt broker":
            n_faults = n_broker_halts
        plan += [(rng.uniform(0, seconds), name, rng.randrange(1 << 32)) for _ in range(n_faults)]
    return sorted(plan)


def now():
    return time.monotonic()
