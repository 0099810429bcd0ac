"""Checks that each running worker does its share. It says that it is ready, its partitions are its share of the topic, each partition has
one owner, and the group's coordinator, asked by its own protocol, says the same."""
import collections
import re
import urllib.error
import urllib.request

from .cluster import protocol

BrokerError = protocol.BrokerError
ASK_S = 5
OWNED = re.compile(r'^sheaf_partition_inflight\{[^}]*partition="(\d+)"', re.MULTILINE)
SERVED_AT = re.compile(r"figures at http://([^/\s]+)/")


def ask(address, path):
    """(status, text); 0: no answer."""
    try:
        with urllib.request.urlopen(f"http://{address}{path}", timeout=ASK_S) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError as error:
        return 0, str(error)


def served_at(worker):
    """Address of the worker's metrics; None: not served yet."""
    with open(worker.log_path, "rb") as file:
        text = file.read().decode(errors="replace")
    found = SERVED_AT.findall(text[text.rfind("\n==== ") + 1:])
    return found[-1] if found else None


def look(worker):
    """(its partitions, None), or (None, why it is not ready)."""
    address = served_at(worker)
    if not address:
        return None, "it serves no figures yet"
    status, text = ask(address, "/readyz")
    if status != 200:
        return None, f"/readyz: {status} {text.strip()}"
    status, text = ask(address, "/metrics")
    return ([int(number) for number in OWNED.findall(text)], None) if status == 200 else (None, f"/metrics: {status}")


def is_fair(counts, n_partitions):
    return sum(counts) == n_partitions and max(counts) - min(counts) <= 1


def find_wrong(n_partitions, views, assignments):
    """`views`: {worker: result of look()}; `assignments`: [[partition, ...] of each member], from the coordinator.
    Returns what is not as it should be, as texts."""
    wrong = [f"{name} is not ready: {why}" for name, (_, why) in views.items() if why]
    owned = [partitions for partitions, why in views.values() if not why]
    owners = collections.Counter(number for partitions in owned for number in partitions)
    wrong += [f"partition {number} has {owners[number]} owners" for number in range(n_partitions) if owners[number] != 1]
    if not wrong and not is_fair([len(partitions) for partitions in owned], n_partitions):
        wrong.append(f"{n_partitions} partitions are shared as {sorted(len(partitions) for partitions in owned)}")
    if sorted(map(sorted, assignments)) != sorted(map(sorted, owned)):
        wrong.append(f"the coordinator has {sorted(map(sorted, assignments))}, the workers say {sorted(map(sorted, owned))}")
    return wrong


def look_at(cluster, workers):
    """find_wrong() of the running workers."""
    views = {f"worker {worker.number}": look(worker) for worker in workers}
    try:
        return find_wrong(cluster.look_at_partitions(), views, cluster.assignments())
    except (OSError, BrokerError) as fault:
        return [f"the coordinator does not answer: {fault}"]
