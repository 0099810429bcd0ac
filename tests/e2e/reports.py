"""`status` and `dataset list` print the figures of their JSON, which equal those of the store's rows."""
import json
import sqlite3
import time

import page
from session import case, text_of

DAY_US = 86400 * 1000000


def write_rows(test, *statements):
    with sqlite3.connect(test.path("sheaf.db")) as store:
        for sql in statements:
            store.execute(sql)
    store.close()


def two_datasets(test):
    """`first` is done, with one failure; `second` waits."""
    jobs = [{"custom_id": f"line {i}", "prompt": text_of(i, 5), "max_tokens": 4, "seed": i} for i in range(5)]
    test.write("first.jsonl", jobs + ["{no json"])
    test.write("second.jsonl", jobs[:4])
    test.run("submit", "first.jsonl", "--dataset", "first")
    test.run("submit", "second.jsonl", "--dataset", "second")
    test.run("work", "--engine-test", "instant", "--model", test.model, "--exit-when-idle", "0", "--dataset", "first")


def both(test, *command):
    return json.loads(test.run(*command, "--json").out), test.run(*command).out


def time_left(seconds):
    if seconds is None:
        return "-"
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def progress_row(dataset):
    share = 100 * (dataset["done"] + dataset["failed"] + dataset["cancelled"]) / dataset["submitted"] if dataset["submitted"] else 0
    percent = "-" if dataset["is_total_unknown"] else f"{share:.1f}%"
    return (f"{dataset['dataset']:<20} {dataset['submitted']:9} {dataset['done']:9} {dataset['failed']:7} {dataset['cancelled']:9} "
            f"{dataset['running']:8} {percent:>7} {dataset['jobs_per_second']:8.1f} {time_left(dataset['seconds_left']):>8}\n")


@case
def the_table_of_progress_has_the_figures_of_the_json(test):
    two_datasets(test)
    # a second from the first start to the last end
    write_rows(test, "UPDATE jobs SET finished_at_us = (SELECT max(finished_at_us) FROM jobs), queued_us = 600000, prefill_us = 300000,"
               " decode_us = 100000 WHERE dataset = 'first'")
    printed, text = both(test, "status")
    assert text.startswith(f"{'dataset':<20} {'submitted':>9}") and len(printed["datasets"]) == 2, text
    for dataset in printed["datasets"]:
        assert progress_row(dataset) in text, (dataset, text)
    rate = printed["datasets"][0]["jobs_per_second"]
    assert rate == 6 and printed["datasets"][0]["seconds_left"] == 0, printed
    write_rows(test, "UPDATE datasets SET n_submitted = 600 WHERE dataset = 'first'")
    printed, text = both(test, "status", "--dataset", "first")
    assert (printed["workers_alive"], printed["datasets"][0]["seconds_left"]) == (0, None) and progress_row(printed["datasets"][0]) in text, (printed, text)
    test.start("work", "--engine-test", "instant", "--model", test.model, "--dataset", "none")
    test.wait_until("a worker is alive", lambda: json.loads(test.run("status", "--json").out)["workers_alive"] == 1)
    for seconds in (1, 89, 90, 91, 5399, 5400, 9000):
        write_rows(test, f"UPDATE datasets SET n_submitted = 6 + 6 * {seconds} WHERE dataset = 'first'")
        printed, text = both(test, "status", "--dataset", "first")
        assert printed["datasets"][0]["seconds_left"] == seconds and progress_row(printed["datasets"][0]) in text, (seconds, printed, text)
    write_rows(test, "UPDATE datasets SET n_submitted = 0, n_done = 0, n_failed = 0 WHERE dataset = 'first'",
               "UPDATE datasets SET n_cancelled = 3 WHERE dataset = 'second'")
    printed, text = both(test, "status")
    assert all(progress_row(dataset) in text for dataset in printed["datasets"]), (printed, text)
    assert [dataset["cancelled"] for dataset in printed["datasets"]] == [0, 3], printed


@case
def a_total_is_unknown_while_the_partitions_of_a_store_s_workers_have_more(test):
    """As over Kafka, where a store has a dataset's jobs only once its workers take them."""
    two_datasets(test)
    write_rows(test, "UPDATE datasets SET submitted_at_us = NULL WHERE dataset = 'first'",
               "UPDATE jobs SET queued_us = 1000000 WHERE dataset = 'first'",
               "INSERT INTO partitions (topic, partition, worker, position, committed, log_end, in_flight, map_covered, updated_at_us)"
               " SELECT 'jobs', 0, max(id), 6, 6, 10, 0, 3, 0 FROM workers")
    columns = "SELECT dataset, percent IS NULL, seconds_left IS NULL, is_total_unknown FROM progress ORDER BY 1"
    assert test.query(columns) == [("first", 1, 1, 1), ("second", 0, 1, 0)], test.query(columns)
    printed, text = both(test, "status", "--dataset", "first")
    first = printed["datasets"][0]
    assert (first["is_total_unknown"], first["seconds_left"], printed["jobs_behind"]) == (True, None, 1), printed
    assert progress_row(first) in text and "100.0%" not in text, text
    watching = test.start("status", "--watch", "--dataset", "first")
    for _ in range(2):
        while "1 jobs behind" not in (line := watching.stdout.readline()):
            assert line, test.wait(watching)
    assert watching.poll() is None
    write_rows(test, "UPDATE partitions SET map_covered = 4")  # all is finished, and so is the command
    assert test.wait(watching).status == 0
    assert test.query(columns)[0] == ("first", 0, 0, 0), test.query(columns)
    printed, text = both(test, "status", "--dataset", "first")
    assert not printed["datasets"][0]["is_total_unknown"] and "100.0%" in text, text


@case
def the_rate_below_a_second_is_one_figure_everywhere(test):
    two_datasets(test)
    for span_us, expected in ((50000, 100), (1, 5e6), (125000, 40), (2500000, 2)):
        write_rows(test, "UPDATE jobs SET finished_at_us = 1700000000000000, queued_us = 0, prefill_us = 0, decode_us = 0 WHERE dataset = 'first'",
                   "UPDATE jobs SET status = 'cancelled', finished_at_us = 1690000000000000 WHERE status = 'failed'",
                   "UPDATE datasets SET n_failed = 0, n_cancelled = 1, last_finished_at_us = 1700000000000000 WHERE dataset = 'first'",
                   "UPDATE jobs SET finished_at_us = finished_at_us - 1 WHERE custom_id = 'line 0' AND dataset = 'first'",
                   f"UPDATE jobs SET queued_us = {span_us - 1} WHERE custom_id = 'line 0' AND dataset = 'first'")
        printed, text = both(test, "status", "--dataset", "first")
        assert printed["datasets"][0]["jobs_per_second"] == expected and progress_row(printed["datasets"][0]) in text, (span_us, printed)
        assert test.query("SELECT jobs_per_second FROM progress WHERE dataset = 'first'") == [(expected,)]
        test.run("report", "--dataset", "first", "-o", "report.html")
        tiles = page.Page(test.read("report.html").decode()).tiles()
        assert [float(tiles[name].replace(",", "")) for name in ("jobs per second", "jobs per second, last minute of work")] == [expected] * 2, tiles
    write_rows(test, "UPDATE jobs SET queued_us = 0, finished_at_us = 1700000000000000 WHERE dataset = 'first' AND status = 'done'")
    printed, _ = both(test, "status", "--dataset", "first")
    assert (printed["datasets"][0]["jobs_per_second"], printed["datasets"][0]["seconds_left"]) == (0, None), printed  # no time passed
    # of a longer run the last minute
    write_rows(test, "UPDATE jobs SET queued_us = 100000000 WHERE dataset = 'first' AND status = 'done'")
    printed, _ = both(test, "status", "--dataset", "first")
    assert printed["datasets"][0]["jobs_per_second"] == 0.08, printed


@case
def progress_finds_the_last_minute_by_time_and_reads_no_older_jobs(test):
    two_datasets(test)
    plan = [row[-1] for row in test.query("EXPLAIN QUERY PLAN SELECT * FROM progress WHERE dataset = 'first'")]
    assert sum("jobs_of_topics (finished_at_us>? AND finished_at_us<?)" in step for step in plan) == 1, plan
    assert sum("jobs_of_queue (finished_at_us>? AND finished_at_us<?)" in step for step in plan) == 1, plan


@case
def failures_past_their_deadline_and_of_crashes_are_counted_apart(test):
    two_datasets(test)
    _, text = both(test, "status")
    assert "of the failed" not in text, text
    write_rows(test, "UPDATE jobs SET error_code = 'deadline_exceeded' WHERE status = 'failed'")
    printed, text = both(test, "status", "--dataset", "first")
    assert (printed["datasets"][0]["late"], printed["datasets"][0]["crashed"]) == (1, 0), printed
    assert "of the failed: 1 past their deadline, 0 that killed workers\n" in text, text
    write_rows(test, "UPDATE jobs SET error_code = 'crashed' WHERE status = 'failed'")
    printed, text = both(test, "status", "--dataset", "first")
    assert (printed["datasets"][0]["late"], printed["datasets"][0]["crashed"]) == (0, 1), printed
    assert "of the failed: 0 past their deadline, 1 that killed workers\n" in text, text


@case
def what_waits_and_what_may_have_killed_workers_is_listed_the_worst_first(test):
    two_datasets(test)
    write_rows(test, "UPDATE queue SET priority = 7 WHERE job = (SELECT max(job) FROM queue)",
               "UPDATE queue SET crashes = 1 WHERE job = (SELECT min(job) FROM queue)",
               "UPDATE queue SET crashes = 2 WHERE job = (SELECT min(job) + 1 FROM queue)")
    printed, text = both(test, "status")
    assert sum(row["waiting"] for row in printed["unfinished"]) == 4, printed
    assert sorted(row["priority"] for row in printed["unfinished"]) == [0, 7], printed
    assert sum(row["suspects"] for row in printed["unfinished"]) == 2, printed
    for row in printed["unfinished"]:
        assert (f"{row['dataset']:<20} {row['priority']:9} {row['waiting']:9} {row['running']:8} {row['late']:9} "
                f"{row['suspects']:9}\n") in text, (row, text)
    assert [(job["custom_id"], job["crashes"]) for job in printed["suspects"]] == [("line 1", 2), ("line 0", 1)], printed
    words = {"waiting": "waits", "among_few": "is computed among few", "alone": "is computed alone"}
    lines = [f"second {job['custom_id']}: {job['crashes']} {'crash' if job['crashes'] == 1 else 'crashes'}, {job['attempts']} "
             f"{'attempt' if job['attempts'] == 1 else 'attempts'}; {words[job['state']]}\n" for job in printed["suspects"]]
    assert "\njobs that may have killed workers, the worst first:\n" + "".join(lines) in text, (lines, text)
    assert text.count("unfinished") == 1 and text.count("the worst first") == 1, text


@case
def a_fleet_and_its_partitions_are_listed(test):
    two_datasets(test)
    now_us = int(time.time() * 1000000)
    write_rows(test, f"INSERT INTO fleet VALUES ('a', {now_us - 10000000}, {now_us}, 20, 2, 1, 200, 50, 30, 1)",
               f"INSERT INTO fleet VALUES ('b', {now_us - DAY_US}, {now_us}, 7, 0, 0, 0, 9, 0, 1)",
               f"INSERT INTO partitions VALUES ('jobs', 0, NULL, 'a', 90, 80, 100, 0, 5, {now_us}, 0)",
               f"INSERT INTO partitions VALUES ('jobs', 1, NULL, NULL, 10, 10, 17, 0, 0, {now_us}, 0)")
    printed, text = both(test, "status")
    fleet = {worker["worker"]: worker for worker in printed["fleet"]}
    assert {name: (worker["done"], worker["failed"], worker["cancelled"], worker["completion_tokens"]) for name, worker in
            fleet.items()} == {"a": (20, 2, 1, 50), "b": (7, 0, 0, 9)}, printed
    for name, cached in (("a", 15.0), ("b", 0.0)):
        assert (f"{name:<30} {fleet[name]['done']:9} {fleet[name]['failed']:7} {fleet[name]['cancelled']:9} "
                f"{fleet[name]['jobs_per_second']:8.1f} {cached:7.1f}%\n") in text, (printed, text)
    assert (printed["partitions"], printed["partitions_owned"]) == (2, 1), printed
    assert (f"\n2 partitions, 1 of them owned: {printed['jobs_behind']} jobs behind; {printed['map_covered']} finished above what is "
            "committed, kept by offset maps\n") in text and printed["map_covered"] == 5, (printed, text)


@case
def the_totals_of_all_steps_are_at_the_end(test):
    two_datasets(test)
    write_rows(test, "UPDATE workers SET n_steps = 10, n_sequence_steps = 45, generated_tokens = 700, prefill_tokens = 30, "
                     "busy_us = 2000000, prefix_lookups = 8, prefix_hits = 2, prefix_tokens = 200, tokens_saved = 125")
    printed, text = both(test, "status")
    assert (printed["steps"], printed["generated_tokens"], printed["prefill_tokens"]) == (10, 700, 30), printed
    assert (printed["generated_tokens_per_busy_second"], printed["mean_batch"]) == (350, 4.5), printed
    assert (printed["prefix_hit_share"], printed["tokens_saved_share"]) == (0.25, 0.625), printed
    assert text.endswith("\n0 workers alive; 10 steps, mean batch 4.5, 350 tokens generated per busy second;\n"
                         "prefix cache: 25.0 % of lookups hit, 62.5 % of the tokens looked up were in it\n"), text
    write_rows(test, "UPDATE workers SET busy_us = 0")
    assert json.loads(test.run("status", "--json").out)["generated_tokens_per_busy_second"] == 0


@case
def the_list_of_datasets_has_the_figures_of_its_json(test):
    assert test.run("submit", "-", "--dataset", "d", stdin='{"prompt": "x"}\n').status == 0
    write_rows(test, "UPDATE datasets SET submitted_at_us = 1700000000999999")
    printed, text = both(test, "dataset", "list")
    dataset = printed["datasets"][0]
    assert (dataset["submitted_at"], dataset["last_finished_at"], dataset["model"]) == (1700000000999999, 0, None), printed
    assert text.splitlines()[1] == (f"{'d':<20} {dataset['state']:<9} {1:9} {0:9} {0:7} {0:9} {0:8}  2023-11-14 22:13:20 -"), text
    write_rows(test, "UPDATE datasets SET submitted_at_us = 0")
    assert test.run("dataset", "list").out.splitlines()[1].split()[-2:] == ["-", "-"]
    assert test.run("dataset", "list").out.count("submitted") == 2  # one line of names
