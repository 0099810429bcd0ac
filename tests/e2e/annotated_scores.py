"""sheaf annotate --rerank and --classify: columns of scores and labels, the numbers of sheaf rerank and sheaf classify, resumed, evaluated, over Kafka."""
import csv
import io
import json
import os
import signal
import sqlite3

import kafka
import tiny_model
from classify import LABELS, head_folder, lines_of, llama_config
from session import case, text_of

ROWS = [{"q": ("water", "the")[i % 2], "d": " " + text_of(i, 1 + i % 9), "n": str(i)} for i in range(40)] + [{"q": "water", "d": "", "n": "40"}]


finish = kafka.finish


def write_table(test, name, rows):
    with open(test.path(name), "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def read_table(test, name):
    return list(csv.DictReader(io.StringIO(test.read(name).decode())))


def expected_scores(test, rows, *options):
    return [line["score"] for line in lines_of(test, "rerank", test.model, [{"query": row["q"], "document": row["d"]} for row in rows], *options)]


def annotate(test, *options, status=0):
    return test.run("annotate", *options, "--model", test.model, status=status)


@case
def a_column_has_the_scores_of_rerank_in_every_format(test):
    test.model = head_folder(test, "one", 1)
    expected = expected_scores(test, ROWS)
    write_table(test, "in.csv", ROWS)
    done = annotate(test, "in.csv", "--rerank", "q,d", "-o", "out.csv")
    found = read_table(test, "out.csv")
    assert [{key: row[key] for key in ROWS[0]} for row in found] == ROWS and list(found[0])[3:] == ["score", "sheaf_finish_reason", "sheaf_error"]
    assert [float(row["score"]) for row in found] == expected and "1 row has an empty cell" in done.err, done.err
    annotate(test, "in.csv", "--rerank", "q,d", "-o", "out.jsonl", "--prefix", "my_")
    lines = [json.loads(line) for line in test.read("out.jsonl").decode().splitlines()]
    assert [line["my_score"] for line in lines] == expected
    annotate(test, "out.jsonl", "--rerank", "q,d", "-o", "two.parquet")
    annotate(test, "two.parquet", "--rerank", "q,d", "-o", "three.csv", "--prefix", "again_")
    assert [(float(row["score"]), float(row["again_score"])) for row in read_table(test, "three.csv")] == list(zip(expected, expected))
    with sqlite3.connect(test.path("rows.db")) as database:
        database.execute("CREATE TABLE rows(q, d, n)")
        database.executemany("INSERT INTO rows VALUES (:q, :d, :n)", ROWS)
    annotate(test, "rows.db", "--table", "rows", "--rerank", "q,d", "-o", "scores.db", "--into", "scored")
    with sqlite3.connect(test.path("scores.db")) as database:
        assert [row[0] for row in database.execute("SELECT score FROM scored ORDER BY rowid")] == expected


@case
def a_row_has_the_label_and_probabilities_of_classify_and_is_evaluated(test):
    test.model = head_folder(test, "three", 3, LABELS)
    expected = lines_of(test, "classify", test.model, [row["d"] for row in ROWS[:40]])
    rows = [{**row, "gold": line["label"] if i % 4 else "good"} for i, (row, line) in enumerate(zip(ROWS, expected))]
    write_table(test, "in.csv", rows)
    done = annotate(test, "in.csv", "--classify", "--column", "d", "-o", "out.csv", "--evaluate", "gold")
    found = read_table(test, "out.csv")
    assert [row["label"] for row in found] == [line["label"] for line in expected]
    assert [[float(row[label]) for label in LABELS.values()] for row in found] == [line["probs"] for line in expected]
    right = sum(row["gold"] == line["label"] for row, line in zip(rows, expected))
    assert f"accuracy: {right / 40:.4f}" in done.out and 'compared: "gold" with "label"' in done.out, done.out
    test.write("p.jinja", ["{{ q }}{{ d }}"])
    annotate(test, "in.csv", "--classify", "--prompt", "p.jinja", "-o", "both.csv", "--store", "both.db")
    both = lines_of(test, "classify", test.model, [row["q"] + row["d"] for row in rows])
    assert [[float(row[label]) for label in LABELS.values()] for row in read_table(test, "both.csv")] == [line["probs"] for line in both]


@case
def a_judge_scores_rows_and_a_row_that_is_too_long_has_its_error(test):
    test.model = test.path("judge")
    tiny_model.write_folder(test.model, {"config.json": llama_config(architectures=["LlamaForCausalLM"], max_position_embeddings=1024)},
                            listed=tiny_model.folder_tensors())
    answers = ["--answers", "y,n", "--instruct", "find"]
    rows = ROWS[:6] + [{"q": "water", "d": "inner " * 900, "n": "6"}]
    write_table(test, "in.csv", rows)
    done = annotate(test, "in.csv", "--rerank", "q,d", "-o", "out.csv", *answers, status=3)
    found = read_table(test, "out.csv")
    assert [float(row["score"]) for row in found[:6]] == expected_scores(test, rows[:6], *answers)
    assert not found[6]["score"] and "text_2: the pair has" in found[6]["sheaf_error"] and "1 of them without an answer" in done.err, (found[6], done.err)
    test.write("cut.json", [json.dumps({"truncate_prompt_tokens": 900})])
    annotate(test, "in.csv", "--rerank", "q,d", "-o", "cut.csv", "--parameters", "cut.json", *answers)
    assert float(read_table(test, "cut.csv")[6]["score"]) == expected_scores(test, rows[6:], *answers, "--max-length", "900")[0]


@case
def a_killed_run_goes_on_and_equal_rows_are_computed_once(test):
    test.model = head_folder(test, "one", 1)
    rows = [{"q": "water", "d": " " + text_of(i % 300, 1 + i % 20), "n": str(i)} for i in range(900)]
    write_table(test, "in.csv", rows)
    annotate(test, "in.csv", "--rerank", "q,d", "-o", "expected.csv")
    for limit in (20, 200):
        worker = test.start("annotate", "in.csv", "--rerank", "q,d", "-o", "out.csv", "--model", test.model, "--max-rows", "64", "--threads", "1")
        test.wait_until("some are done", lambda limit=limit: worker.poll() is not None or os.path.exists(test.path("out.csv.db")) and
                        (test.query("SELECT count(*) FROM jobs WHERE status = 'done'", "out.csv.db") or [(0,)])[0][0] > limit)
        worker.send_signal(signal.SIGKILL)
        test.wait(worker)
    done = annotate(test, "in.csv", "--rerank", "q,d", "-o", "out.csv")
    assert test.read("out.csv") == test.read("expected.csv") and "0 of all 900 requests" not in done.err, done.err
    n_different = len({(row["q"], row["d"]) for row in rows})
    assert test.query("SELECT count(*) FROM jobs", "out.csv.db") == [(n_different,)], n_different


@case
def estimates_count_the_tokens_of_pairs(test):
    test.model = head_folder(test, "one", 1)
    write_table(test, "in.csv", ROWS)
    usage = sum(line["usage"]["total_tokens"] for line in lines_of(test, "rerank", test.model, [{"query": row["q"], "document": row["d"]} for row in ROWS]))
    shown = annotate(test, "in.csv", "--rerank", "q,d", "--estimate").out
    assert f"prompt tokens    {usage:14d}" in shown and "refused" not in shown, (shown, usage)
    sample = annotate(test, "in.csv", "--rerank", "q,d", "--sample", "5", "-o", "out.csv").out
    assert sample.count("row ") >= 5 and "score" in sample, sample


@case
def options_that_no_score_depends_on_are_refused(test):
    one, three = head_folder(test, "one", 1), head_folder(test, "three", 3, LABELS)
    write_table(test, "in.csv", ROWS)
    test.write("p.jinja", ["{{ q }}"])
    for model, options, words in (
            (one, ["--rerank", "q"], '--rerank: expected the names of two columns, QUERY,DOCUMENT, got "q"'),
            (one, ["--rerank", "q,x"], '--rerank: there is no column "x"'), (three, ["--rerank", "q,d"], "three has 3 labels (bad, ...)"),
            (one, ["--rerank", "q,d", "--prompt", "p.jinja"], "--prompt or --rerank, not both"),
            (one, ["--rerank", "q,d", "--votes", "3"], "--votes or --rerank, not both"), (one, ["--rerank", "q,d", "--classify"], "--rerank or --classify, not both"),
            (one, ["--rerank", "q,d", "--temperature", "1"], "temperature: given beside text_1, but it is no field of /v1/rerank"),
            (three, ["--classify"], "--classify needs --column NAME or --prompt FILE.jinja, one of them"),
            (three, ["--classify", "--column", "q", "--choice", "a,b"], "--choice or --classify, not both"),
            (test.model, ["--classify", "--column", "q"], "has no classification head"), (one, ["--column", "q", "--prompt", "p.jinja"], "--column needs --classify")):
        refused = test.run("annotate", "in.csv", *options, "--model", model, "-o", "out.csv", status=None)
        assert refused.status in (1, 2) and words in refused.err and not test.exists("out.csv.db"), (options, refused)


@case
def over_kafka_a_fleet_scores_the_rows(test):
    topics = kafka.Topics(test)
    test.model = head_folder(test, "three", 3, LABELS)
    write_table(test, "in.csv", ROWS)
    annotate(test, "in.csv", "--classify", "--column", "d", "-o", "expected.csv")
    missing = test.run("annotate", "in.csv", "--classify", "--column", "d", "-o", "out.csv", *topics.options, status=2)
    assert "over Kafka --classify needs the labels" in missing.err, missing
    worker = topics.work("--exit-when-idle", "20")
    test.run("annotate", "in.csv", "--classify", "--column", "d", "-o", "out.csv", "--choice", "bad,so so,good", *topics.options)
    worker.terminate()
    test.wait(worker)
    assert test.read("out.csv") == test.read("expected.csv")
    others = test.run("annotate", "in.csv", "--classify", "--column", "d", "-o", "two.csv", "--choice", "bad,good", "--store", "out.csv.db", *topics.options,
                      status=None)
    assert "expected 2 labels, got 3" in test.read("two.csv").decode(), others
