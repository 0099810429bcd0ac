"""sheaf annotate --evaluate on tables of which some rows have gold labels: intervals, shares and means of all rows, groups, several gold
columns, lists and numbers, differences that are corrected and read back. The answers are planted, so the truth is known."""
import csv
import io
import json
import math
import os
import random

import page
from annotate import annotate, read_csv, write, write_csv
from annotated_answers import set_answers, write_schema
from session import case

SCHEMA = {"type": "object", "properties": {"label": {"enum": ["yes", "no"]}}, "required": ["label"], "additionalProperties": False}


def plant(test, rows, answers, schema=SCHEMA, table="in.csv", header=("title", "text", "gold", "country")):
    """Writes the table, answers it, and replaces the answers."""
    write_csv(test, table, [list(header)] + rows)
    write_schema(test, schema)
    options = (table, "--schema", "s.json", "--max-tokens", "60")
    annotate(test, *options, status=None)
    set_answers(test, [json.dumps(answer) for answer in answers])
    return options


def figures(test, name="figures.csv"):
    """(gold, group, label, figure): (value, low, high), None where there is none."""
    rows = csv.DictReader(io.StringIO(test.read(name).decode(), newline=""))
    return {(row["gold"], row["group"], row["label"], row["figure"]): tuple(float(row[part]) if row[part] else None for part in ("value", "low", "high"))
            for row in rows}


def labelled(n, n_gold, seed=1, first=False):
    """Rows of which n_gold have a gold label, the truths, and answers that are right in nine of ten rows."""
    draw = random.Random(seed)
    truths = ["yes" if draw.random() < (0.5 if i % 2 else 0.2) else "no" for i in range(n)]
    answers = [truth if draw.random() < 0.9 else {"yes": "no", "no": "yes"}[truth] for truth in truths]
    chosen = set(range(n_gold)) if first else set(draw.sample(range(n), n_gold))
    rows = [[f"title {i}", f"text {i}", truths[i] if i in chosen else "", "BA"[i % 2]] for i in range(n)]
    return rows, truths, answers


def poststratified(rows, answers, label, where=lambda row: True):
    """The share of a label as the paper's formula gives it."""
    pairs = [(row[2], answer) for row, answer in zip(rows, answers) if where(row)]
    share = 0
    for has in (True, False):
        part = [gold for gold, answer in pairs if (answer == label) == has]
        gold = [one for one in part if one]
        share += len(part) / len(pairs) * (sum(one == label for one in gold) / len(gold))
    return share


@case
def shares_of_all_rows_follow_from_all_answers_and_some_gold_labels(test):
    rows, truths, answers = labelled(600, 200)
    options = plant(test, rows, [{"label": answer} for answer in answers])
    done = annotate(test, *options, "--evaluate", "gold=label", "--by", "country", "--statistics", "figures.csv")
    assert "shares of all 600 rows, from their answers and 200 gold rows, with 95 % intervals\n" in done.out, done.out
    assert "the gold rows are a simple random sample" in done.out and "caution" not in done.out, done.out
    found = figures(test)
    for group, where in (("", lambda row: True), ("A", lambda row: row[3] == "A"), ("B", lambda row: row[3] == "B")):
        value, low, high = found["gold", group, "yes", "share"]
        assert math.isclose(value, poststratified(rows, answers, "yes", where), abs_tol=1e-9), (group, value)
        true = [truth == "yes" for row, truth in zip(rows, truths) if where(row)]
        assert low < sum(true) / len(true) < high and high - low < 0.25, (group, low, high)
        claimed = [answer == "yes" for row, answer in zip(rows, answers) if where(row)]
        assert math.isclose(found["gold", group, "yes", "share_of_answers"][0], sum(claimed) / len(claimed), abs_tol=1e-9)
    value, low, high = found["gold", "A - B", "yes", "difference"]
    assert low < value < high and low > 0, found
    assert math.isclose(value, found["gold", "A", "yes", "share"][0] - found["gold", "B", "yes", "share"][0], abs_tol=1e-9)
    assert ("gold", "B - A", "yes", "difference") not in found  # B has as many rows and comes first: it is the reference
    value, low, high = found["gold", "", "", "accuracy"]
    gold = [(row[2], answer) for row, answer in zip(rows, answers) if row[2]]
    assert math.isclose(value, sum(a == b for a, b in gold) / len(gold), abs_tol=1e-9) and low < value < high
    done = annotate(test, *options, "--evaluate", "gold=label", "--by", "country=C")
    assert 'no row has the value "C": differences are from the largest group' in done.err and 'differences are from "B"' in done.out, done
    annotate(test, *options, "--evaluate", "gold=label", "--by", "country=A", "--statistics", "figures.jsonl")
    lines = [json.loads(line) for line in test.read("figures.jsonl").decode().splitlines()]
    assert [line["group"] for line in lines if line["figure"] == "difference"] == ["B - A"] * 2, lines
    assert all(line["rows"] >= line["gold_rows"] and (line["low"] is None) == (line["high"] is None) for line in lines)


@case
def rows_without_a_group_are_a_group_and_not_the_whole_table(test):
    rows, _, answers = labelled(200, 80)
    rows = [[*row[:3], row[3].replace("B", "")] for row in rows]
    done = annotate(test, *plant(test, rows, [{"label": answer} for answer in answers]), "--evaluate", "gold=label", "--by", "country=A",
                    "--statistics", "figures.csv")
    lines = test.read("figures.csv").decode().splitlines()
    names = [tuple(line.split(",")[:5]) for line in lines]
    assert len(names) == len(set(names)), lines
    assert math.isclose(figures(test)["gold", "(empty)", "yes", "share"][0], poststratified(rows, answers, "yes", lambda row: not row[3]), abs_tol=1e-9)
    assert ("gold", "(empty) - A", "yes", "difference") in figures(test) and "\n(empty)  " in done.out, done.out


@case
def gold_rows_that_are_no_random_sample_are_doubted(test):
    rows, _, answers = labelled(600, 100, first=True)
    options = plant(test, rows, [{"label": answer} for answer in answers])
    done = annotate(test, *options, "--evaluate", "gold=label")
    assert "caution: the gold rows are the first 100 rows, not a random sample of all\n" in done.out, done.out
    assert "first 100 rows, not a random sample" in done.err, done.err
    # rows chosen by their answer
    answered = [i for i, answer in enumerate(answers) if answer == "yes"]
    for i, row in enumerate(rows):
        row[2] = "yes" if i in answered[::2] or i % 20 == 0 else ""
    write_csv(test, "in.csv", [["title", "text", "gold", "country"]] + rows)
    done = annotate(test, *options, "--evaluate", "gold=label")
    assert 'caution: the gold rows were not drawn at random: their answer is "yes" in' in done.out, done.out
    for i, row in enumerate(rows):
        row[2] = "no" if i % 50 == 0 else ""
    write_csv(test, "in.csv", [["title", "text", "gold", "country"]] + rows)
    assert "caution: there are only 12 gold rows" in annotate(test, *options, "--evaluate", "gold=label").out


@case
def differences_are_corrected_and_read_back_as_gold(test):
    rows, truths, answers = labelled(120, 60)
    options = plant(test, rows, [{"label": answer} for answer in answers])
    for name in ("d.csv", "d.jsonl", "d.tsv", "d.parquet"):
        done = annotate(test, *options, "--evaluate", "gold=label", "--differences", name)
        expected = [i for i in range(120) if rows[i][2] and rows[i][2] != answers[i]]
        assert f"differences: {len(expected)}, in {name}\n" in done.out and expected, done.out
        if name == "d.csv":
            found = list(csv.DictReader(io.StringIO(test.read(name).decode(), newline="")))
        elif name == "d.jsonl":
            lines = [json.loads(line) for line in test.read(name).decode().splitlines()]
            assert [(line["sheaf_row"], line["sheaf_gold"], line["title"]) for line in lines] == [(i + 1, rows[i][2], f"title {i}") for i in expected]
    assert [(int(line["sheaf_row"]), line["sheaf_column"], line["sheaf_gold"], line["sheaf_answer"], line["sheaf_probability"], line["text"])
            for line in found] == [(i + 1, "gold", rows[i][2], answers[i], "", f"text {i}") for i in expected]
    # The labeller corrects each gold label: accuracy is 1, and the table is unchanged.
    for line in found:
        line["sheaf_gold"] = line["sheaf_answer"]
    for name, delimiter in (("corrected.csv", ","), ("excel.csv", ";")):
        with open(test.path(name), "w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, found[0], delimiter=delimiter)
            writer.writeheader()
            writer.writerows(found)
        done = annotate(test, *options, "--evaluate", "gold=label", "--gold", name, "--differences", "left.csv")
        assert "accuracy: 1.0000" in done.out and "differences: 0, in left.csv" in done.out and f"gold labels of {name}: {len(found)}\n" in done.out, done
        assert "other cells" not in done.err, done.err
    # Unedited files of each format are read back unchanged.
    plain = annotate(test, *options, "--evaluate", "gold=label").out
    for name in ("d.csv", "d.jsonl", "d.tsv", "d.parquet"):
        done = annotate(test, *options, "--evaluate", "gold=label", "--gold", name)
        assert done.out.split("\n", 1)[1] == plain and "other cells" not in done.err, (name, done)
    # A table whose rows were moved.
    write_csv(test, "in.csv", [["title", "text", "gold", "country"]] + rows[1:] + rows[:1])
    assert f"{len(found)} of {len(found)} rows have other cells" in annotate(test, *options, "--evaluate", "gold=label", "--gold", "d.csv").err


@case
def gold_labels_come_from_a_file_of_row_numbers(test):
    rows, truths, answers = labelled(100, 0)
    options = plant(test, rows, [{"label": answer} for answer in answers])
    chosen = random.Random(3).sample(range(100), 40)
    write_csv(test, "g.csv", [["row", "truth"]] + [[i + 1, truths[i]] for i in chosen] + [[101, "yes"]])
    done = annotate(test, *options, "--evaluate", "truth=label", "--gold", "g.csv")
    right = sum(truths[i] == answers[i] for i in chosen) / 40
    assert f"rows with a gold label: 40\naccuracy: {right:.4f} (" in done.out, done.out
    assert "1 of 41 gold labels are of rows that the table does not have" in done.err, done.err
    for content, reason, status in (("title,truth\n1,yes\n", "no column sheaf_row or row", 2), ("row,label\n1,yes\n", 'or a column "truth"', 2),
                                    ("row,truth\n0,yes\n", "line 2: expected the number of a row", 1),
                                    ("row,truth\n1.5,yes\n", "expected the number of a row", 1),
                                    ("row,truth\n1,yes\n1,no\n", "row 1 has two gold labels", 1)):
        write(test, "g.csv", content)
        done = annotate(test, *options, "--evaluate", "truth=label", "--gold", "g.csv", status=status)
        assert reason in done.err, (content, done.err)
    with open(test.path("g.csv"), "wb") as file:
        file.write("row,truth\n1,yes\n2,sí\n".encode("cp1252"))
    done = annotate(test, *options, "--evaluate", "truth=label", "--gold", "g.csv", status=1)
    assert "--gold g.csv: line 3: a gold label that is not UTF-8" in done.err, done.err
    # a second file corrects some of them and takes precedence
    write_csv(test, "g.csv", [["row", "truth"]] + [[i + 1, truths[i]] for i in chosen])
    options += ("--evaluate", "truth=label", "--gold", "g.csv")
    done = annotate(test, *options, "--differences", "d.csv")
    lines = list(csv.DictReader(io.StringIO(test.read("d.csv").decode(), newline="")))
    with open(test.path("c.csv"), "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, lines[0])
        writer.writeheader()
        writer.writerows({**line, "sheaf_gold": line["sheaf_answer"]} for line in lines)
    done = annotate(test, *options, "--gold", "c.csv")
    assert "rows with a gold label: 40\naccuracy: 1.0000" in done.out and "--gold" not in done.err, done
    assert annotate(test, *options, "--gold", "c.csv", "--differences", "c.csv", status=2).err.count("c.csv")
    options = options[:-4]
    write(test, "g.jsonl", "")  # differences of a table without any
    assert "gold labels of g.jsonl: 0\n" in annotate(test, *options, "--evaluate", "gold=label", "--gold", "g.jsonl").out
    write(test, "g.csv", "row,truth\n1,yes\n1,yes\n2,\n")
    assert "rows with a gold label: 1\n" in annotate(test, *options, "--evaluate", "truth=label", "--gold", "g.csv").out
    annotate(test, *options, "--evaluate", "truth", status=2)


@case
def numbers_have_means_errors_and_correlations(test):
    draw = random.Random(4)
    schema = {"type": "object", "properties": {"n": {"type": "number"}}, "required": ["n"], "additionalProperties": False}
    truths = [round(draw.gauss(10, 3), 1) for _ in range(800)]
    answers = [round(truth + draw.gauss(1, 1), 1) for truth in truths]
    chosen = set(draw.sample(range(800), 150))
    rows = [[f"t {i}", f"x {i}", truths[i] if i in chosen else "", "BA"[i % 2]] for i in range(800)]
    options = plant(test, rows, [{"n": answer} for answer in answers], schema)
    done = annotate(test, *options, "--evaluate", "gold=n", "--by", "country", "--statistics", "figures.csv")
    found = figures(test)
    value, low, high = found["gold", "", "", "mean"]
    assert low < sum(truths) / 800 < high and high - low < 0.5 and abs(sum(answers) / 800 - sum(truths) / 800) > 0.5, found
    errors = [answers[i] - truths[i] for i in chosen]
    for name, expected in (("mean_error", sum(errors) / 150), ("mean_absolute_error", sum(map(abs, errors)) / 150)):
        value, low, high = found["gold", "", "", name]
        assert math.isclose(value, expected, abs_tol=1e-9) and low < value < high, (name, found)
    value, low, high = found["gold", "", "", "correlation"]
    assert 0.85 < low < value < high < 1
    assert found["gold", "A - B", "", "mean_difference"][1] is not None
    for text in ("mean absolute error: ", "correlation (Pearson): ", "mean of all 800 rows, from their answers and 150 gold rows", "by \"country\""):
        assert text in done.out, done.out
    # more numbers than a confusion matrix has classes
    rows = [[row[0], row[1], truth + i / 1000, row[3]] for i, (row, truth) in enumerate(zip(rows, truths))]
    write_csv(test, "in.csv", [["title", "text", "gold", "country"]] + rows)
    done = annotate(test, *options, "--evaluate", "gold=n")
    assert "rows with a gold label: 800\n" in done.out and "mean of all" not in done.out, done.out
    # labels that are numbers have a mean too
    write_csv(test, "in.csv", [["title", "text", "gold"]] + [[f"r {i}", "x", i % 3 + 1] for i in range(30)])
    done = annotate(test, "in.csv", "--choice", "1,2,3", "--evaluate", "gold", "--by", "text", out="rating.csv")
    assert "mean absolute error: " in done.out and "Cohen's kappa: " in done.out and "mean of all 30 rows, which all have gold labels" in done.out, done.out


@case
def a_mean_beside_gold_labels_that_are_no_numbers_is_of_the_gold_rows_alone(test):
    """Answers do not tell which rows have a number: here they are 0 if the gold label is null."""
    draw = random.Random(6)
    schema = {"type": "object", "properties": {"n": {"type": ["number", "null"]}}, "required": ["n"], "additionalProperties": False}
    truths = [round(draw.gauss(2020, 2), 1) if i % 2 else None for i in range(400)]
    chosen = set(draw.sample(range(400), 100))
    rows = [[f"t {i}", f"x {i}", ("null" if truths[i] is None else truths[i]) if i in chosen else "", "BA"[i % 3 == 0]] for i in range(400)]
    options = plant(test, rows, [{"n": truth or 0} for truth in truths], schema)
    done = annotate(test, *options, "--evaluate", "gold=n", "--by", "country", "--statistics", "figures.csv")
    value, low, high = figures(test)["gold", "", "", "mean"]
    gold = [truths[i] for i in chosen if truths[i] is not None]
    true = [truth for truth in truths if truth is not None]
    assert math.isclose(value, sum(gold) / len(gold), abs_tol=1e-9) and low < sum(true) / len(true) < high, (value, low, high)
    # four digits would show 2020 to 2020
    assert f"from {len(gold)} gold rows alone" in done.out and f"{value:.2f}  {low:.2f} to {high:.2f}\n" in done.out, done.out
    test.run("report", "--dataset", "annotate", "-o", "r.html", "--store", "out.csv.db", "--statistics", "figures.csv")
    row = next(row for row in page.Page(test.read("r.html").decode()).table("figure") if row[0] == "mean" and not row[2])
    assert row[3:6] == [f"{part:.2f}" for part in (value, low, high)], row
    assert "caution" not in done.out, done.out
    for group in "AB":
        value, low, high = figures(test)["gold", group, "", "mean"]
        assert value - 3 < low < value < high < value + 3, (group, value, low, high)
    methods = {row["method"] for row in csv.DictReader(io.StringIO(test.read("figures.csv").decode(), newline="")) if row["figure"].startswith("mean")}
    assert {"gold rows alone, Student", "gold rows alone, Welch"} < methods and not any("PPI" in method for method in methods), methods
    write(test, "g.csv", "row,gold\n1,0x10\n2,1.5\n")  # C reads the first one as 16
    n_others = 1 + sum(truths[i] is None for i in chosen - {0, 1})
    done = annotate(test, *options, "--evaluate", "gold=n", "--gold", "g.csv")
    assert f"gold labels that are no numbers, left out of means: {n_others}\n" in done.out, done.out


@case
def lists_are_compared_label_by_label(test):
    draw = random.Random(5)
    names = ["price", "size", "taste"]
    schema = {"type": "object", "properties": {"topics": {"type": "array", "items": {"enum": names}, "maxItems": 6}}, "required": ["topics"],
              "additionalProperties": False}
    truths = [[name for name in names if draw.random() < 0.4] for _ in range(300)]
    answers = [[name for name in names if (name in truth) == (draw.random() < 0.85)] for truth in truths]
    for answer in answers:
        answer *= draw.choice((1, 2))  # a label that is repeated is the same label
        draw.shuffle(answer)
    chosen = set(draw.sample(range(300), 120))
    spell = [json.dumps, ";".join, "|".join, ", ".join]
    rows = [[f"t {i}", f"x {i}", (spell[i % 4](truths[i]) or "[]") if i in chosen else "", ""] for i in range(300)]
    options = plant(test, rows, [{"topics": answer} for answer in answers], schema)
    done = annotate(test, *options, "--evaluate", "gold=topics", "--statistics", "figures.csv", "--differences", "d.csv")
    found = figures(test)
    equal = sum(set(truths[i]) == set(answers[i]) for i in chosen) / 120
    assert math.isclose(found["gold", "", "", "accuracy"][0], equal, abs_tol=1e-9), (found, equal)
    overlap = sum(len(set(truths[i]) & set(answers[i])) / len(set(truths[i]) | set(answers[i])) if truths[i] or answers[i] else 1 for i in chosen) / 120
    assert math.isclose(found["gold", "", "", "overlap"][0], overlap, abs_tol=1e-9)
    for name in names:
        both = sum(name in truths[i] and name in answers[i] for i in chosen)
        assert math.isclose(found["gold", "", name, "precision"][0], both / sum(name in answers[i] for i in chosen), abs_tol=1e-9)
        assert math.isclose(found["gold", "", name, "recall"][0], both / sum(name in truths[i] for i in chosen), abs_tol=1e-9)
        value, low, high = found["gold", "", name, "share"]
        assert low < sum(name in truth for truth in truths) / 300 < high, (name, found)
    assert "overlap (mean Jaccard index): " in done.out and f"differences: {120 - round(120 * equal)}, in d.csv" in done.out, done.out


@case
def several_columns_of_gold_labels_are_compared_in_one_run(test):
    questions = [{"name": "tone", "prompt": "Which tone?", "choice": ["warm", "cold"]}, {"name": "n", "prompt": "How many?", "choice": ["1", "2", "3"]}]
    write(test, "q.json", json.dumps(questions))
    write_csv(test, "in.csv", [["title", "text", "mood", "n_gold"]] + [[f"t {i}", f"x {i}", "warm" if i % 3 else "", str(i % 3 + 1)] for i in range(60)])
    done = annotate(test, "in.csv", "--questions", "q.json", "--evaluate", "mood=tone", "--evaluate", "n_gold=n", "--probabilities",
                    "--statistics", "figures.csv", "--differences", "d.csv", engine=None)
    assert 'compared: "mood" with "tone"\n' in done.out and 'compared: "n_gold" with "n"\n' in done.out, done.out
    out = [dict(zip(read_csv(test, "out.csv")[0], row)) for row in read_csv(test, "out.csv")[1:]]
    found = figures(test)
    for gold, answer in (("mood", "tone"), ("n_gold", "n")):
        pairs = [(row[gold], row[answer]) for row in out if row[gold]]
        assert math.isclose(found[gold, "", "", "accuracy"][0], sum(a == b for a, b in pairs) / len(pairs), abs_tol=1e-9)
    lines = list(csv.DictReader(io.StringIO(test.read("d.csv").decode(), newline="")))
    expected = [(i + 1, gold, out[i][gold], out[i][answer], out[i][f"{answer}_{out[i][answer]}"])
                for i in range(60) for gold, answer in (("mood", "tone"), ("n_gold", "n")) if out[i][gold] and out[i][gold] != out[i][answer]]
    assert [(int(line["sheaf_row"]), line["sheaf_column"], line["sheaf_gold"], line["sheaf_answer"], line["sheaf_probability"]) for line in lines] == expected
    done = annotate(test, "in.csv", "--questions", "q.json", "--evaluate", "mood=tone", "--evaluate", "mood=tone", status=2)
    assert '"mood" is compared twice' in done.err, done.err


@case
def options_of_the_evaluation_are_checked_before_anything_is_computed(test):
    write_csv(test, "in.csv", [["title", "text", "gold"], ["a", "b", "x"]])
    for options, reason in ((["--differences", "d.csv"], "--differences needs --evaluate"), (["--gold", "g.csv"], "--gold needs --evaluate"),
                            (["--by", "title"], "--by needs --evaluate"), (["--statistics", "s.csv"], "--statistics needs --evaluate"),
                            (["--evaluate", "gold", "--by", "titel"], 'no column "titel"; the nearest is title'),
                            (["--evaluate", "gold", "--differences", "d.txt"], "expected a name .csv"),
                            (["--evaluate", "gold", "--statistics", "s.xlsx"], "expected a name .csv or .jsonl"),
                            (["--evaluate", "gold", "--gold", "g.xlsx"], "expected a file .csv"),
                            (["--evaluate", "gold", "--differences", "d.csv", "--sample", "1"], "not with --sample"),
                            (["--evaluate", "gold", "--differences", "in.csv"], "in.csv")):
        assert reason in annotate(test, "in.csv", "--choice", "x,y", *options, status=2, refuses=True).err, (options, reason)
    assert not test.exists("out.csv") and not test.exists("d.csv")
    # a file of someone else is not overwritten
    write(test, "d.csv", "mine\n")
    assert "d.csv" in annotate(test, "in.csv", "--choice", "x,y", "--evaluate", "gold", "--differences", "d.csv", status=1, refuses=True).err
    write_csv(test, "in.csv", [["title", "text", "gold", "sheaf_row"], ["a", "b", "x", 1]])
    assert "has a column sheaf_row already" in annotate(test, "in.csv", "--choice", "x,y", "--evaluate", "gold", "--differences", "e.csv", status=2).err
    write_csv(test, "in.csv", [["title", "text", "gold"]])
    done = annotate(test, "in.csv", "--choice", "x,y", "--evaluate", "gold", "--differences", "e.csv")
    assert "differences: 0, in e.csv\n" in done.out and test.read("e.csv").startswith(b"title,text,gold,sheaf_row,"), done
    write_csv(test, "in.csv", [["title", "text", "gold"]] + [[f"a {i}", "b", "x"] for i in range(101)])
    os.remove(test.path("out.csv"))
    done = annotate(test, "in.csv", "--choice", "x,y", "--evaluate", "gold", "--by", "title", status=1)
    assert "--by: column \"title\" has more than 100 different values" in done.err and not test.exists("out.csv"), done


@case
def an_evaluation_that_fails_leaves_table_and_certificate(test):
    """512 gold labels are known before anything is computed; the answers add others."""
    write_csv(test, "in.csv", [["title", "text", "gold"]] + [[f"a {i}", "b", f"label {i}"] for i in range(512)])
    options = ("--prompt", "Is {{ title }} {{ text }} good?", "--max-tokens", "4", "--evaluate", "gold")
    done = annotate(test, "in.csv", *options, "--differences", "d.csv", "--statistics", "s.csv", "--certificate", "c.json", status=1)
    assert "no evaluation: " in done.out and "(the table is written, to out.csv)" in done.err and "differences" not in done.out, done
    assert not test.exists("d.csv") and not test.exists("s.csv")  # of the rows up to the fault
    assert "its 512 rows" in test.run("verify", "out.csv", "--certificate", "c.json").out


@case
def a_report_shows_the_statistics(test):
    rows, _, answers = labelled(300, 100)
    options = plant(test, rows, [{"label": answer} for answer in answers])
    annotate(test, *options, "--evaluate", "gold=label", "--by", "country", "--statistics", "figures.csv")
    test.run("report", "--dataset", "annotate", "-o", "r.html", "--store", "out.csv.db", "--statistics", "figures.csv")
    found = page.Page(test.read("r.html").decode())
    shown = {tuple(row[:3]): row[3:] for row in found.table("figure")[1:]}
    expected = figures(test)
    assert len(shown) == len(expected), (len(shown), len(expected))
    for (_, group, label, figure), (value, low, high) in expected.items():
        row = shown[figure, label, group]
        assert [float(cell) if cell else None for cell in row[:3]] == [None if part is None else float(f"{part:.4g}") for part in (value, low, high)], row
    tiles = found.tiles()
    assert "95 % interval of accuracy" in tiles and "95 % interval of Cohen's kappa" in tiles, tiles
    write(test, "other.csv", "a,b\n1,2\n")
    assert 'no column "gold"' in test.run("report", "--dataset", "annotate", "-o", "r2.html", "--store", "out.csv.db", "--statistics", "other.csv", status=1).err
