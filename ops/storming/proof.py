"""What must hold at the end, from what independent clients read: kcat the topics, Python's sqlite3 the store."""
import collections
import json
import sqlite3

SHOWN_MAX = 5


class Terminal:
    """The results and the dead letters by where their job's record is: (partition, offset)."""

    def __init__(self, cluster, topics):
        self.results = collections.Counter()
        self.dead = collections.Counter()
        self.values = collections.defaultdict(set)  # of results, by place
        self.statuses = {}  # by (dataset, job_id)
        for record in cluster.read(topics["results"]):
            headers = record["headers"]
            place = int(headers["sheaf-source-partition"]), int(headers["sheaf-source-offset"])
            self.results[place] += 1
            self.values[place].add(record["payload"])
            result = json.loads(record["payload"])
            self.statuses[(result["dataset"], result["job_id"])] = result["status"]
        for record in cluster.read(topics["dead"]):
            headers = record["headers"]
            self.dead[(int(headers["__sheaf.errors.partition"]), int(headers["__sheaf.errors.offset"]))] += 1


def read_jobs(cluster):
    """{(partition, offset): (dataset, job_id) or None for what is no job}."""
    jobs = {}
    for record in cluster.read(cluster.topics["jobs"]):
        headers = record["headers"]
        try:
            is_job = json.loads(record["payload"]).get("max_tokens", 0) >= 0
        except ValueError:
            is_job = False
        name = (headers.get("sheaf-dataset"), headers.get("sheaf-job-id")) if headers else None
        jobs[(record["partition"], record["offset"])] = name, is_job
    return jobs


def is_finished(jobs, terminal, expected):
    """Nothing is missing any more; there may be too much."""
    return all(terminal.results[place] >= expected.get(place, 1) for place in jobs)


class Proof:
    """A list of what was checked: (what, how much, None or what is wrong)."""

    def __init__(self):
        self.checks = []

    def check(self, what, n_checked, wrong):
        wrong = list(wrong)
        shown = "; ".join(str(item) for item in wrong[:SHOWN_MAX])
        self.checks.append((what, n_checked, f"{len(wrong)} wrong: {shown}" if wrong else None))

    def holds(self):
        return all(fault is None for _, _, fault in self.checks)


def prove_topics(proof, jobs, terminal, expected, submitted, calm):
    """`expected`: {place: how often its job was to be answered} where that is not once, because the group's offsets were
    set back below it after it had been answered. `submitted`: the identities that must be there. `calm`: what an undisturbed run over
    the same records gave."""
    times = {place: expected.get(place, 1) for place in jobs}
    proof.check("jobs lost", len(jobs), (place for place in jobs if terminal.results[place] < times[place]))
    proof.check("jobs answered more often than asked", len(jobs),
                ((place, terminal.results[place], times[place]) for place in jobs if terminal.results[place] > times[place]))
    proof.check("results of no job", sum(terminal.results.values()), (place for place in terminal.results if place not in jobs))
    proof.check("records that are no job: one dead letter each", sum(not is_job for _, is_job in jobs.values()),
                ((place, terminal.dead[place]) for place, (_, is_job) in jobs.items()
                 if not is_job and terminal.dead[place] != times[place]))
    proof.check("dead letters of jobs", sum(terminal.dead.values()),
                (place for place in terminal.dead if place not in jobs or jobs[place][1]))
    found = {name for name, _ in jobs.values() if name}
    proof.check("submitted jobs on the topic", len(submitted), (name for name in submitted if name not in found))
    proof.check("the undisturbed run: results", len(jobs), (place for place in jobs if calm.results[place] != 1))
    proof.check("results with other bytes than undisturbed", len(jobs),
                ((place, sorted(terminal.values[place]), sorted(calm.values[place])) for place in jobs
                 if terminal.values[place] != calm.values[place]))


def prove_store(proof, path, jobs, terminal, what):
    """The store's jobs and totals are those of the results topic."""
    with sqlite3.connect(path) as connection:
        rows = {(dataset, job_id): status for dataset, job_id, status in connection.execute(
            "SELECT dataset, job_id, status FROM jobs")}
        totals = {dataset: counts for dataset, *counts in connection.execute(
            "SELECT dataset, n_submitted, n_done, n_failed, n_cancelled FROM datasets")}
        behind = connection.execute("SELECT coalesce(sum(jobs_behind), 0), count(*) FROM lag").fetchone()
        n_partitions = len({partition for partition, _ in jobs})
    proof.check(f"{what}: jobs as in the topics", len(terminal.statuses),
                ((name, status, rows.get(name)) for name, status in terminal.statuses.items() if rows.get(name) != status))
    proof.check(f"{what}: no other jobs", len(rows), (name for name in rows if name not in terminal.statuses))
    counted = collections.defaultdict(lambda: [0, 0, 0, 0])
    for (dataset, _), status in terminal.statuses.items():
        counted[dataset][0] += 1
        counted[dataset][("done", "failed", "cancelled").index(status) + 1] += 1
    proof.check(f"{what}: totals of datasets", len(counted),
                ((dataset, totals.get(dataset), counts) for dataset, counts in counted.items() if totals.get(dataset) != counts))
    proof.check(f"{what}: partitions without lag", n_partitions,
                [behind] if behind[0] != 0 or behind[1] < n_partitions else [])


def prove_live_store(proof, path, terminal, what):
    """What workers recorded before anybody rebuilt it may be incomplete, never invented."""
    with sqlite3.connect(path) as connection:
        rows = [((dataset, job_id), status) for dataset, job_id, status in connection.execute(
            "SELECT dataset, job_id, status FROM jobs")]
    proof.check(f"{what}: recorded jobs are in the topics", len(rows),
                ((name, status) for name, status in rows if terminal.statuses.get(name) != status))
