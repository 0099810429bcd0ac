"""Checks at the end, with independent clients: kcat reads the topics, Python's sqlite3 the store."""
import collections
import json
import sqlite3

SHOWN_MAX = 5


Job = collections.namedtuple("Job", "name is_job key payload")  # name: (dataset, job_id)


class Terminal:
    """Results and dead letters by their job's record: (partition, offset)."""

    def __init__(self, cluster, topics):
        self.results = collections.Counter()
        self.dead = collections.Counter()
        self.values = collections.defaultdict(set)  # of results, by place
        self.names = collections.defaultdict(set)  # likewise: (dataset, job_id)
        self.letters = collections.defaultdict(set)  # of dead letters, by place: (key, value)
        self.places = collections.defaultdict(set)  # by name
        self.statuses = {}  # by name
        self.tokens = {}  # by name: of prompt and answer
        self.elsewhere = []  # results that name another jobs topic than the cluster's: (topic, place)
        for record in cluster.read(topics["results"]):
            headers = record["headers"]
            place = int(headers["sheaf-source-partition"]), int(headers["sheaf-source-offset"])
            if headers["sheaf-source-topic"] != cluster.topics["jobs"]:
                self.elsewhere.append((headers["sheaf-source-topic"], place))
                continue
            self.results[place] += 1
            self.values[place].add(record["payload"])
            result = json.loads(record["payload"])
            name, usage = (result["dataset"], result["job_id"]), result.get("usage") or {}
            self.names[place].add(name)
            self.places[name].add(place)
            self.statuses[name] = result["status"]
            self.tokens[name] = usage.get("prompt_tokens", 0), usage.get("completion_tokens", 0)
        for record in cluster.read(topics["dead"]):
            headers = record["headers"]
            place = int(headers["__sheaf.errors.partition"]), int(headers["__sheaf.errors.offset"])
            self.dead[place] += 1
            self.letters[place].add((record["key"], record["payload"]))


def read_jobs(cluster):
    """{(partition, offset): Job}. A record without an id is named by its partition and offset."""
    jobs = {}
    for record in cluster.read(cluster.topics["jobs"]):
        headers = record["headers"]
        try:
            is_job = json.loads(record["payload"]).get("max_tokens", 0) >= 0
        except ValueError:
            is_job = False
        place = record["partition"], record["offset"]
        name = (headers.get("sheaf-dataset", "default"),
                headers.get("sheaf-job-id", f"{cluster.topics['jobs']}-{place[0]}-{place[1]}"))
        jobs[place] = Job(name, is_job, record["key"], record["payload"])
    return jobs


def is_finished(jobs, terminal, expected):
    """True if no result is missing; duplicates are possible."""
    return all(terminal.results[place] >= expected.get(place, 1) for place in jobs)


class Proof:
    """Returns the checks: (name, number checked, None or the fault)."""

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
    proof.check("results of another topic's jobs", sum(terminal.results.values()), terminal.elsewhere)
    proof.check("results of another job", sum(terminal.results.values()),
                ((place, sorted(names), jobs[place].name) for place, names in terminal.names.items()
                 if place in jobs and names != {jobs[place].name}))
    proof.check("records that are no job: one dead letter each", sum(not job.is_job for job in jobs.values()),
                ((place, terminal.dead[place]) for place, job in jobs.items()
                 if not job.is_job and terminal.dead[place] != times[place]))
    proof.check("dead letters of jobs", sum(terminal.dead.values()),
                (place for place in terminal.dead if place not in jobs or jobs[place].is_job))
    proof.check("dead letters with other bytes than their records", sum(terminal.dead.values()),
                ((place, sorted(letters)) for place, letters in terminal.letters.items()
                 if place in jobs and letters != {(jobs[place].key, jobs[place].payload)}))
    found = collections.Counter(job.name for job in jobs.values())
    proof.check("submitted jobs on the topic", len(submitted), (name for name in submitted if name not in found))
    proof.check("submitted jobs on the topic once", len(submitted), (name for name in submitted if found[name] > 1))
    proof.check("the undisturbed run: results", len(jobs), (place for place in jobs if calm.results[place] != 1))
    proof.check("results with other bytes than undisturbed", len(jobs),
                ((place, sorted(terminal.values[place]), sorted(calm.values[place])) for place in jobs
                 if terminal.values[place] != calm.values[place]))


def prove_store(proof, path, jobs, terminal, what):
    """Checks that the store's jobs and totals equal the results topic's."""
    with sqlite3.connect(path) as connection:
        rows, tokens, places = {}, {}, {}
        for dataset, job_id, status, prompt, completion, partition, offset in connection.execute(
                "SELECT dataset, job_id, status, prompt_tokens, completion_tokens, partition, offset FROM jobs"):
            name = dataset, job_id
            rows[name], tokens[name], places[name] = status, (prompt or 0, completion or 0), (partition, offset)
        totals = {dataset: counts for dataset, *counts in connection.execute(
            "SELECT dataset, n_submitted, n_done, n_failed, n_cancelled, prompt_tokens, completion_tokens FROM datasets")}
        behind = connection.execute("SELECT coalesce(sum(jobs_behind), 0), count(*) FROM lag").fetchone()
        n_partitions = len({partition for partition, _ in jobs})
    proof.check(f"{what}: jobs as in the topics", len(terminal.statuses),
                ((name, status, rows.get(name)) for name, status in terminal.statuses.items() if rows.get(name) != status))
    proof.check(f"{what}: their tokens", len(terminal.tokens),
                ((name, counted, tokens.get(name)) for name, counted in terminal.tokens.items() if tokens.get(name) != counted))
    proof.check(f"{what}: their places", len(terminal.places),
                ((name, sorted(counted), places.get(name)) for name, counted in terminal.places.items() if places.get(name) not in counted))
    proof.check(f"{what}: no other jobs", len(rows), (name for name in rows if name not in terminal.statuses))
    counted = collections.defaultdict(lambda: [0, 0, 0, 0, 0, 0])
    for (dataset, job_id), status in terminal.statuses.items():
        counted[dataset][0] += 1
        counted[dataset][("done", "failed", "cancelled").index(status) + 1] += 1
        for i in range(2):
            counted[dataset][4 + i] += terminal.tokens[(dataset, job_id)][i]
    proof.check(f"{what}: totals of datasets", len(counted),
                ((dataset, totals.get(dataset), counts) for dataset, counts in counted.items() if totals.get(dataset) != counts))
    proof.check(f"{what}: partitions without lag", n_partitions,
                [behind] if behind[0] != 0 or behind[1] < n_partitions else [])


def prove_live_store(proof, path, terminal, what):
    """Checks that a store that was not rebuilt has only existing results; it may lack some."""
    with sqlite3.connect(path) as connection:
        rows = [((dataset, job_id), status) for dataset, job_id, status in connection.execute(
            "SELECT dataset, job_id, status FROM jobs")]
    proof.check(f"{what}: recorded jobs are in the topics", len(rows),
                ((name, status) for name, status in rows if terminal.statuses.get(name) != status))
