"""`sheaf report`: one well-formed page without external resources, with the figures that SQL finds in the store."""
import csv
import json
import os
import re
import sqlite3

import page
from session import case, text_of

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LABELS = ["good & <b>bad</b>", "good", "none"]


def report(test, dataset, store="sheaf.db"):
    test.run("report", "--dataset", dataset, "-o", f"{dataset}.html", "--store", store)
    return page.Page(test.read(f"{dataset}.html").decode())


def number(text):
    return int(text.replace(",", ""))


@case
def its_figures_are_those_of_the_store(test):
    jobs = [{"custom_id": f"line {i}", "prompt": text_of(i, 1 + i % 9), "max_tokens": 1 + i % 7, "ignore_eos": True, "seed": i}
            for i in range(60)]
    jobs += [{"custom_id": f"bad {i}", "prompt": ""} for i in range(5)]
    jobs += [{"custom_id": "<script>alert(1)</script>", "prompt": "the", "max_tokens": "'many' \"&\""}]
    test.write("in.jsonl", jobs)
    test.run("run", "in.jsonl", "-o", "out.jsonl", "--model", test.model, "--store", "sheaf.db", "--dataset", "a <name> & 'more'")
    found = report(test, "a <name> & 'more'")
    assert found.text(found.all("h1")[0]) == "a <name> & 'more'"
    tiles = found.tiles()
    (figures,) = test.query("SELECT n_submitted, n_done, n_failed, n_cancelled FROM datasets")
    assert tuple(number(tiles[name]) for name in ("submitted", "done", "failed", "cancelled")) == figures == (66, 60, 6, 0)
    (tokens,) = test.query("SELECT sum(prompt_tokens) - sum(cached_tokens), sum(cached_tokens), sum(completion_tokens), 0 FROM jobs")
    assert tuple(found.bars("By cost, each request's prompt once").values()) == tokens and tokens[2] > 0
    (done,) = test.query("SELECT count(*) FROM jobs WHERE status = 'done'")
    for title in ("Seconds of a job: wait, prefill, decode", "Tokens of a prompt", "Tokens of an answer"):
        assert sum(found.columns(title)) == done[0] == 60, title
    answers = [n for (n,) in test.query("SELECT count(*) FROM jobs WHERE status = 'done' GROUP BY completion_tokens ORDER BY completion_tokens")]
    assert found.columns("Tokens of an answer")[1:] == answers
    sequences = test.query("SELECT max(n_sequences) FROM steps")[0][0]
    assert 0 < max(found.columns("Batch: sequences in a step")) <= sequences
    errors = found.table("error")[1:]
    assert [(row[0], number(row[1])) for row in errors if row[0]] == test.query("SELECT error_code, jobs FROM failures")
    # Up to three examples of each.
    assert [row[2] for row in errors] == ["bad 0", "bad 1", "bad 2", "<script>alert(1)</script>"], errors
    messages = dict(test.query("SELECT custom_id, error FROM jobs WHERE status = 'failed'"))
    assert all(row[3] and messages[row[2]].startswith(row[3].rstrip("\u2026. ")) for row in errors), (errors, messages)
    assert not any(element.text == "Evaluation" for element in found.all("h2"))


@case
def tokens_of_duplicates_are_a_class_of_their_own(test):
    jobs = [{"custom_id": f"line {i}", "prompt": text_of(i % 2, 9), "max_tokens": 5, "ignore_eos": True, "temperature": 0} for i in range(20)]
    test.write("in.jsonl", jobs)
    test.run("run", "in.jsonl", "-o", "out.jsonl", "--model", test.model, "--store", "sheaf.db", "--dataset", "d")
    found = report(test, "d")
    each = [prompt for (prompt,) in test.query("SELECT prompt_tokens FROM jobs ORDER BY id")]
    (cached,) = test.query("SELECT cached_tokens FROM datasets")[0]
    assert tuple(found.bars("By cost, each request's prompt once").values()) == (sum(each[:2]) - cached, cached, 10, sum(each[2:]) + 18 * 5), found.bars("By cost, each request's prompt once")
    assert number(found.tiles()["answered from duplicates"]) == 18
    # annotate's equal rows are no jobs
    test.write("in.csv", ["text", *(f"the {i % 4}" for i in range(12))])
    test.write("prompt.jinja", ["{{ text }}"])
    test.run("annotate", "in.csv", test.model, "--prompt", "prompt.jinja", "-o", "out.csv", "--dataset", "a", "--store", "sheaf.db",
             "--max-tokens", "3")
    found = report(test, "a")
    (prompt, completion), (of_rows, tokens) = test.query(
        "SELECT prompt_tokens - cached_tokens, completion_tokens FROM datasets WHERE dataset = 'a' UNION ALL"
        " SELECT n_duplicate_rows, duplicate_row_tokens FROM datasets WHERE dataset = 'a'")
    (whole,) = test.query("SELECT sum(prompt_tokens + completion_tokens) FROM jobs WHERE dataset = 'a'")[0]
    assert (of_rows, tokens) == (8, 2 * whole), (of_rows, tokens, whole)
    assert tuple(found.bars("By cost, each request's prompt once").values())[2:] == (completion, tokens) and found.bars("By cost, each request's prompt once")["prompts, not from the prefix cache"] == prompt
    assert number(found.tiles()["answered from duplicates"]) == 8


@case
def labels_and_the_evaluation_are_those_of_annotate(test):
    rows = [{"id": i, "text": text_of(i, 4), "gold": LABELS[i % 3] if i % 10 else ""} for i in range(40)]
    with open(test.path("in.csv"), "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, ["id", "text", "gold"])
        writer.writeheader()
        writer.writerows(rows)
    test.write("prompt.jinja", ["{{ text }}"])
    test.write("label.json", [{"type": "object", "properties": {"label": {"enum": LABELS}, "sure": {"type": "boolean"}},
                               "required": ["label", "sure"]}])
    finished = test.run("annotate", "in.csv", test.model, "--prompt", "prompt.jinja", "--schema", "label.json", "--evaluate", "gold",
                        "-o", "out.csv", "--dataset", "d", "--store", "sheaf.db")
    found = report(test, "d")
    with open(test.path("out.csv"), newline="", encoding="utf-8") as file:
        labelled = list(csv.DictReader(file))
    for name in ("label", "sure"):
        texts = [row[name] for row in labelled]
        assert found.bars(name) == {text: texts.count(text) for text in set(texts)}, name
    counted = [(row["gold"], row["label"]) for row in labelled if row["gold"]]
    tiles = found.tiles()
    assert number(tiles["rows with a gold label"]) == len(counted) == 36
    right = sum(gold == label for gold, label in counted)
    assert tiles["accuracy"] == f"{right / len(counted):.4f}" and f"accuracy: {tiles['accuracy']}" in finished.out + finished.err, finished
    matrix = found.table("")
    for row in matrix[1:]:
        for label, n in zip(matrix[0][1:], row[1:]):
            assert int(n) == counted.count((row[0], label)), (row, label)
    assert [row[0] for row in found.table("label")[1:]] == matrix[0][1:]
    # The file belongs to the dataset.
    test.run("dataset", "rename", "d", "e")
    assert report(test, "e").tiles()["accuracy"] == tiles["accuracy"]
    # More labels than a matrix holds are refused, not omitted.
    with sqlite3.connect(test.path("sheaf.db")) as database:
        database.executemany("INSERT INTO evaluations (dataset, gold, answer, n) VALUES ('e', ?, ?, 1)", [(str(i), str(i)) for i in range(513)])
    refused = test.run("report", "--dataset", "e", "-o", "many.html", status=1)
    assert "more than 512 different labels" in refused.err and not test.exists("many.html"), refused
    test.run("dataset", "delete", "e")
    assert test.query("SELECT * FROM evaluations") == [] and test.query("SELECT * FROM table_labels") == []


def bars_of(test, name, columns, **others):
    """Checks that each bar is the number of the output's rows with that label."""
    with open(test.path(name + ".csv"), newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    found = report(test, "annotate", name + ".csv.db")
    assert any(element.text == "Answers: rows of the table" for element in found.all("h2"))
    for column in columns:
        texts = [row[column] or "null" for row in rows if not row["sheaf_error"]]
        assert found.bars(column) == {text: texts.count(text) for text in set(texts)}, (column, found.bars(column), texts)
    return found


@case
def labels_are_counted_by_the_rows_of_the_table_as_it_is(test):
    moods, model = ["good", "bad", "mixed"], test.model
    schema = {"$defs": {"mood": {"enum": moods}}, "type": "object", "required": ["mood", "size", "word"],
              "properties": {"mood": {"$ref": "#/$defs/mood"}, "size": {"anyOf": [{"enum": [1, 2, 3]}, {"type": "null"}]}, "word": {"type": "string", "maxLength": 3}}}
    test.write("schema.json", [schema])
    test.write("prompt.jinja", ["{{ text }}"])
    lines = [text_of(i, 3) + f" {i}" for i in range(6)]
    arguments = (model, "--prompt", "prompt.jinja", "--schema", "schema.json")
    def annotate(name, rows, *options, status=0):
        test.write("in.csv", ["text", *rows])
        test.run("annotate", "in.csv", *arguments, *options, "-o", name + ".csv", status=status)
    annotate("rows", [lines[0]] * 10 + [lines[1]] * 5 + [lines[2]])  # each label of few requests is shown
    found = bars_of(test, "rows", ["mood", "size"])
    assert sum(found.bars("mood").values()) == 16
    annotate("rows", [lines[1]] * 2 + [lines[3]])  # deleted rows are not counted
    assert sum(bars_of(test, "rows", ["mood", "size"]).bars("mood").values()) == 3
    annotate("votes", lines, "--votes", "5")
    assert sum(bars_of(test, "votes", ["mood"]).bars("mood").values()) == 6
    assert test.query("SELECT count(*) FROM jobs", "votes.csv.db") == [(30,)]
    annotate("errors", lines[:3] + [text_of(1, 3000)], status=3)
    assert sum(bars_of(test, "errors", ["mood", "size"]).bars("mood").values()) == 3


@case
def a_dataset_without_results_has_a_page_and_one_that_is_none_has_not(test):
    test.write("in.jsonl", [{"prompt": "the"}])
    test.run("submit", "in.jsonl", "--dataset", "d")
    assert number(report(test, "d").tiles()["remaining"]) == 1
    finished = test.run("report", "--dataset", "none", "-o", "none.html", status=1)
    assert "sheaf.db: there is no dataset none" in finished.err and not test.exists("none.html")
    assert test.run("report", "--dataset", "d", "-o", "-").out.startswith("<!DOCTYPE html>")


@case
def the_questions_of_annotators_have_answers(test):
    with open(os.path.join(ROOT, "store", "QUERIES.md"), encoding="utf-8") as file:
        questions = re.findall(r"^## (\d+)\. .*?```sql\n(.*?)```", file.read(), re.S | re.M)
    test.write("in.csv", ["text,gold"] + [f"{text_of(i, 4)} {i},negative" for i in range(12)])
    test.write("prompt.jinja", ["{{ text }}"])
    test.write("label.json", [{"type": "object", "properties": {"sentiment": {"enum": ["positive", "mixed"]}, "topic": {"enum": ["size"]}},
                               "required": ["sentiment", "topic"]}])
    test.run("annotate", "in.csv", test.model, "--prompt", "prompt.jinja", "--schema", "label.json", "--evaluate", "gold", "-o", "out.csv",
             "--dataset", "reviews", "--store", "sheaf.db")
    for dataset, temperature in (("first", 0), ("second", 1.5)):
        test.write("in.jsonl", [{"custom_id": f"line {i}", "prompt": "the same", "max_tokens": 9, "temperature": temperature, "seed": i,
                                 "ignore_eos": True} for i in range(4)] + [{"prompt": ""},
                                {"prompt": "x", "guided_regex": "(a)\\1"}])
        test.run("run", "in.jsonl", test.model, "-o", "out.jsonl", "--dataset", dataset, "--overwrite", "--store", "sheaf.db")
    rows = {}
    with sqlite3.connect(f"file:{test.path('sheaf.db')}?mode=ro", uri=True) as store:
        for number, query in questions:
            rows[int(number)] = store.execute(query).fetchall()
    assert not [n for n in range(13, 26) if not rows[n]], rows
    assert sum(n for _, n, _ in rows[14]) == sum(n for _, _, n in rows[15]) == 12, rows
    assert {row[0] for row in rows[16]} <= {1, 2, 3, 4}
    assert sorted(row[1:4] for row in rows[18]) == [(code, 1, f"{dataset}-{line}") for code, line in (("empty_prompt", 5), ("invalid_field", 6))
                                                    for dataset in ("first", "second")], rows[18]
    kinds = {(dataset, kind): counts for dataset, kind, *counts in rows[23]}
    assert kinds["reviews", "json"][:3] == [12, 12, 0] and kinds["reviews", "json"][5] > 12, rows[23]
    assert kinds["first", "none"][:2] == [5, 4] and kinds["first", "regex"] == [1, 0, 1, 0, 0, 0], rows[23]
    assert [row[:4] for row in rows[24]] == [("regex", "invalid_field", 2, "first-6")], rows[24]
    assert rows[20] == [("first", "the same", 4), ("second", "the same", 4)], rows[20]
    costs = {dataset: (computed, cached, generated) for dataset, computed, cached, generated, _ in rows[19]}
    assert costs["first"][2] == 9 and costs["second"][2] == 36 and len(costs) == 3, costs  # the greedy ones are equal
    assert rows[25] == [("first", f"line {i}", "first", "line 0") for i in (1, 2, 3)], rows[25]


@case
def prompts_of_every_shape_are_distinguished(test):
    with open(os.path.join(ROOT, "store", "QUERIES.md"), encoding="utf-8") as file:
        query, = re.findall(r"^## 20\. .*?```sql\n(.*?)```", file.read(), re.S | re.M)
    message = [{"role": "user", "content": "d"}]
    requests = [{"prompt": "a"}, {"tokens": [1, 2]}, {"tokens": [1, 3]}, {"messages": message}, {"prompt": ["e", "f"]}, {"prompt": [4, 5]}]
    bodies = [("/v1/completions", {"prompt": "b"}), ("/v1/completions", {"prompt": "c"}), ("/v1/completions", {"prompt": [6, 7]})]
    lines = requests + [{"custom_id": f"b{i}", "method": "POST", "url": url, "body": {"model": "m", **body}}
                        for i, (url, body) in enumerate(bodies)]
    test.write("once.jsonl", lines)
    test.run("submit", "once.jsonl", "--dataset", "once", status=None)
    assert test.query(query) == []
    test.write("twice.jsonl", [lines[0], lines[7], lines[1], dict(lines[7], custom_id="x"),
                               dict(lines[3], custom_id="y"), dict(lines[7], custom_id="z"),
                               {"custom_id": "v", "method": "POST", "url": "/v1/chat/completions", "body": {"messages": message}}])
    test.run("submit", "twice.jsonl", "--dataset", "twice", status=None)
    assert [row[1:] for row in test.query(query)] == [("c", 3), (json.dumps(message, separators=(",", ":")), 2)], test.query(query)
