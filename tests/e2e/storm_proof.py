"""Checks that ops/storm's proof finds faults. A small correct state is built, then one thing after the
other is put wrong in it: each must be found, by the check that is there for it and by name."""
import copy
import json
import os
import sqlite3
import sys

from session import case

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "ops"))

from storming import faults, jobs as storm_jobs, proof, shares, startups  # noqa: E402

TOPICS = {name: "w-" + name for name in ("jobs", "results", "dead")}
CALM = {"results": "calm-results", "dead": "calm-dead"}
N_JOBS = 12  # in two datasets over three partitions; every sixth record is no job
AGAIN = 2, 2  # answered, and set back below: to be answered twice


def source_of(partition, offset, topic="w-jobs"):
    return {"sheaf-source-topic": topic, "sheaf-source-partition": str(partition), "sheaf-source-offset": str(offset)}


class World:
    """The records that kcat would read, and a mirror's store."""

    def __init__(self, store):
        self.topics, self.store = TOPICS, store
        self.records = {name: [] for name in (*TOPICS.values(), *CALM.values())}
        self.expected = {AGAIN: 2}
        self.submitted = []
        for i in range(N_JOBS):
            self.add_job(i)
        self.records[TOPICS["results"]].append(copy.deepcopy(self.result(*AGAIN)))
        self.fill_store()

    def add_job(self, i):
        place, is_job = (i % 3, i // 3), i % 6 != 5
        name = (f"set-{i % 2}", f"set-{i % 2}-{i}") if is_job else ("default", f"w-jobs-{place[0]}-{place[1]}")
        payload = json.dumps({"prompt": f"p{i}", "max_tokens": 4}) if is_job else f"rubbish {i}"
        headers = {"sheaf-dataset": name[0], "sheaf-job-id": name[1]} if is_job else {}
        self.records["w-jobs"].append(
            {"partition": place[0], "offset": place[1], "key": None, "payload": payload, "headers": headers})
        if is_job:
            self.submitted.append(name)
        result = {"dataset": name[0], "job_id": name[1], "status": "done" if is_job else "failed"}
        if is_job:
            result.update(choices=[{"text": f"answer {i}"}], usage={"prompt_tokens": i + 1, "completion_tokens": 2 * i + 1})
        source = source_of(*place)
        for topic in ("w-results", "calm-results"):
            self.records[topic].append({"payload": json.dumps(result), "headers": dict(source)})
        if not is_job:
            where = {"__sheaf.errors.partition": str(place[0]), "__sheaf.errors.offset": str(place[1])}
            self.records["w-dead"].append({"key": None, "payload": payload, "headers": where})

    def read(self, topic):
        return iter(copy.deepcopy(self.records[topic]))

    def result(self, partition, offset):
        return next(record for record in self.records["w-results"] if record["headers"] == source_of(partition, offset))

    def fill_store(self):
        terminal = proof.Terminal(self, TOPICS)
        with sqlite3.connect(self.store) as connection:
            connection.executescript(
                "DROP TABLE IF EXISTS jobs; DROP TABLE IF EXISTS datasets; DROP TABLE IF EXISTS lag;"
                "CREATE TABLE jobs (dataset, job_id, status, prompt_tokens, completion_tokens, partition, offset);"
                "CREATE TABLE datasets (dataset, n_submitted, n_done, n_failed, n_cancelled, prompt_tokens, completion_tokens);"
                "CREATE TABLE lag (partition, jobs_behind); INSERT INTO lag VALUES (0, 0), (1, 0), (2, 0);")
            for name, status in terminal.statuses.items():
                (place,) = terminal.places[name]
                connection.execute("INSERT INTO jobs VALUES (?, ?, ?, ?, ?, ?, ?)",
                                   (*name, status, *terminal.tokens[name], *place))
            connection.execute(
                "INSERT INTO datasets SELECT dataset, count(*), sum(status = 'done'), sum(status = 'failed'), 0,"
                " sum(prompt_tokens), sum(completion_tokens) FROM jobs GROUP BY dataset")

    def query(self, sql):
        with sqlite3.connect(self.store) as connection:
            connection.execute(sql)

    def prove(self):
        """The names of the checks that failed."""
        found, records = proof.Proof(), proof.read_jobs(self)
        terminal = proof.Terminal(self, TOPICS)
        proof.prove_topics(found, records, terminal, self.expected, self.submitted, proof.Terminal(self, CALM))
        proof.prove_store(found, self.store, records, terminal, "store")
        proof.prove_live_store(found, self.store, terminal, "live")
        assert found.holds() == all(wrong is None for _, _, wrong in found.checks)
        return {what for what, _, wrong in found.checks if wrong}


def change(record, **members):
    """A record whose JSON value has other members."""
    record["payload"] = json.dumps(dict(json.loads(record["payload"]), **members))


def swap(world):
    """Two jobs get each other's result."""
    first, second = world.result(0, 1), world.result(1, 1)
    first["payload"], second["payload"] = second["payload"], first["payload"]


def swap_everywhere(world):
    """Also in the undisturbed run, as if the program itself had the fault."""
    swap(world)
    first, second = ([record for record in world.records["calm-results"] if record["headers"] == source_of(partition, 1)][0]
                     for partition in (0, 1))
    first["payload"], second["payload"] = second["payload"], first["payload"]


def results(world):
    return world.records["w-results"]


def letters(world):
    return world.records["w-dead"]


# Changes to the records, and the checks that must fail, and perhaps others beside (what is wrong once can show twice).
IN_THE_TOPICS = {
    "a result is lost": (lambda w: results(w).remove(w.result(0, 0)), {"jobs lost"}),
    "the second of two that were asked for is lost": (lambda w: results(w).remove(w.result(*AGAIN)), {"jobs lost"}),
    "a result is doubled": (lambda w: results(w).append(w.result(0, 0)), {"jobs answered more often than asked"}),
    "a third where two were asked for": (lambda w: results(w).append(w.result(*AGAIN)), {"jobs answered more often than asked"}),
    "one byte is another": (lambda w: change(w.result(0, 0), choices=[{"text": "answer 1"}]),
                            {"results with other bytes than undisturbed"}),
    "of two results that were asked for one has other bytes": (lambda w: change(w.result(*AGAIN), model="x"),
                                                               {"results with other bytes than undisturbed"}),
    "two jobs get each other's result": (swap, {"results of another job", "results with other bytes than undisturbed"}),
    "they do undisturbed, too": (swap_everywhere, {"results of another job"}),
    "a result of no job": (lambda w: results(w).append(dict(w.result(0, 0), headers=source_of(7, 0))), {"results of no job"}),
    "a result of another topic's job": (lambda w: results(w).append(dict(w.result(0, 0), headers=source_of(0, 0, "x"))),
                                        {"results of another topic's jobs"}),
    "a job's own result names another topic": (lambda w: w.result(0, 0).update(headers=source_of(0, 0, "x")), {"jobs lost"}),
    "a dead letter is lost": (lambda w: letters(w).pop(), {"records that are no job: one dead letter each"}),
    "a dead letter is doubled": (lambda w: letters(w).append(letters(w)[0]), {"records that are no job: one dead letter each"}),
    "a dead letter of a job": (lambda w: letters(w).append({"key": None, "payload": "x", "headers": {
        "__sheaf.errors.partition": "0", "__sheaf.errors.offset": "0"}}), {"dead letters of jobs"}),
    "a dead letter has other bytes": (lambda w: letters(w)[0].update(payload="rubbish"),
                                      {"dead letters with other bytes than their records"}),
    "a dead letter has another key": (lambda w: letters(w)[0].update(key="k"), {"dead letters with other bytes than their records"}),
    "a submitted job is not on the topic": (lambda w: w.submitted.append(("set-0", "set-0-99")), {"submitted jobs on the topic"}),
    "a submitted job is on the topic twice": (lambda w: w.records["w-jobs"].append(dict(w.records["w-jobs"][0], offset=99)),
                                              {"submitted jobs on the topic once"}),
    "the undisturbed run lacks one": (lambda w: w.records["calm-results"].pop(0), {"the undisturbed run: results"}),
}
IN_THE_STORE = {
    "a row is missing": ("DELETE FROM jobs WHERE job_id = 'set-0-0'", {"store: jobs as in the topics"}),
    "a row too many": ("INSERT INTO jobs VALUES ('set-0', 'x', 'done', 1, 1, 0, 0)",
                       {"store: no other jobs", "live: recorded jobs are in the topics"}),
    "a row tells another end": ("UPDATE jobs SET status = 'failed' WHERE job_id = 'set-0-0'",
                                {"store: jobs as in the topics", "live: recorded jobs are in the topics"}),
    "a row has other tokens": ("UPDATE jobs SET completion_tokens = 99 WHERE job_id = 'set-0-0'", {"store: their tokens"}),
    "a row has another place": ("UPDATE jobs SET offset = 99 WHERE job_id = 'set-0-0'", {"store: their places"}),
    "a dataset counts one too many": ("UPDATE datasets SET n_done = n_done + 1 WHERE dataset = 'set-1'", {"store: totals of datasets"}),
    "a dataset counts a token too many": ("UPDATE datasets SET completion_tokens = completion_tokens + 1", {"store: totals of datasets"}),
    "a partition is behind": ("UPDATE lag SET jobs_behind = 1 WHERE partition = 2", {"store: partitions without lag"}),
    "a partition is unknown": ("DELETE FROM lag WHERE partition = 2", {"store: partitions without lag"}),
}


@case
def a_world_in_which_all_is_well_is_proved(test):
    assert World(test.path("store.db")).prove() == set()


@case
def whatever_is_wrong_in_the_topics_is_found_by_its_check(test):
    for what, (break_it, wanted) in IN_THE_TOPICS.items():
        world = World(test.path("store.db"))
        break_it(world)
        found = world.prove()
        assert wanted <= found, (what, found)


@case
def whatever_is_wrong_in_the_store_is_found_by_its_check(test):
    for what, (sql, wanted) in IN_THE_STORE.items():
        world = World(test.path("store.db"))
        world.query(sql)
        found = world.prove()
        assert wanted <= found and all(name.startswith(("store: ", "live: ")) for name in found), (what, found)


@case
def nothing_is_proved_of_topics_that_could_not_be_read(test):
    world = World(test.path("store.db"))
    for records in world.records.values():
        records.clear()
    assert "submitted jobs on the topic" in world.prove()


@case
def a_storm_of_one_seed_breaks_and_submits_the_same_things_each_time(test):
    plans = [faults.make_plan(seed, 60, 40, 2) for seed in (1, 1, 2)]
    assert plans[0] == plans[1] != plans[2]
    assert {name for _, name, _ in plans[0]} == set(faults.FAULTS) - {"halt broker"}
    assert [name for _, name, _ in faults.make_plan(1, 60, 0, 0, 3)] == ["halt broker"] * 3
    counts = {name: sum(name == other for _, other, _ in plans[0]) for name in faults.FAULTS}
    assert counts["kill worker"] == 40 and counts["kill broker"] == 2, counts
    assert storm_jobs.make_jobs(3, 50, 1) == storm_jobs.make_jobs(3, 50, 1) != storm_jobs.make_jobs(3, 50, 2)


@case
def a_worker_that_is_not_ready_or_does_not_own_its_share_is_seen(test):
    well = {"worker 0": ([0, 1], None), "worker 1": ([2], None)}
    assert shares.find_wrong(3, well, [[2], [1, 0]]) == []
    worlds = {
        "not ready": ({**well, "worker 1": (None, "/readyz: 503")}, [[0, 1], [2]]),
        "0 owners": ({**well, "worker 1": ([], None)}, [[0, 1], []]),
        "2 owners": ({**well, "worker 1": ([1, 2], None)}, [[0, 1], [1, 2]]),
        "shared as [0, 3]": ({"worker 0": ([0, 1, 2], None), "worker 1": ([], None)}, [[0, 1, 2], []]),
        "the coordinator has": (well, [[0, 1], []]),
        "the coordinator has [[], [0, 1], [2]]": (well, [[0, 1], [2], []]),  # a member that nobody knows
    }
    for what, (views, assignments) in worlds.items():
        wrong = shares.find_wrong(3, views, assignments)
        assert any(what in text for text in wrong), (what, wrong)
    more = {"worker 0": ([0], None), "worker 1": ([], None)}  # more workers than partitions
    assert shares.find_wrong(1, more, [[], [0]]) == []


@case
def a_round_beyond_three_times_the_median_is_seen(test):
    seconds = [2.0] * startups.ROUNDS_LEAST
    assert startups.too_slow(seconds) == [] and startups.too_slow([6.0, *seconds]) == []
    assert len(startups.too_slow([6.1, *seconds])) == 1
    assert startups.too_slow([2.0] * (startups.ROUNDS_LEAST - 2) + [9.0]) == []  # too few to say
    plan = startups.plan(1, 50)
    assert plan == startups.plan(1, 50) != startups.plan(2, 50)
    assert {len(gaps) for gaps in plan} >= {2, 12} and all(2 <= len(gaps) <= 12 for gaps in plan)
