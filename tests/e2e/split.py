"""sheaf annotate over several files: one table, a file after the other, and with --split an output for each file."""
import json
import os

from annotate import BESIDE, annotate, computed, read_csv, write, write_csv
from session import case


def write_parts(test, folder="", n=3, **style):
    """Files of 5, 6, ... rows. Returns their names and rows."""
    names, rows = [], []
    if folder:
        os.makedirs(test.path(folder), exist_ok=True)
    for i in range(n):
        part = [[f"title {i} {j}", f"text {j % 3}"] for j in range(5 + i)]
        names.append(write_csv(test, f"{folder}part{i}.csv", [["title", "text"]] + part, **style))
        rows.append(part)
    return names, rows


def run(test, files, *options, out="out.csv", **others):
    return annotate(test, files[0], *files[1:], *options, out=out, **others)


# ---- one output ----

@case
def several_files_are_one_table(test):
    names, rows = write_parts(test)
    done = run(test, names, "--choice", "a,b", "--figures")
    out = read_csv(test, "out.csv")
    assert [row[:2] for row in out] == [["title", "text"]] + sum(rows, []), out
    write_csv(test, "whole.csv", [["title", "text"]] + sum(rows, []))
    annotate(test, "whole.csv", "--choice", "a,b", "--figures", out="reference.csv")
    assert test.read("out.csv") == test.read("reference.csv")
    before = computed(test)
    run(test, names[::-1], "--choice", "a,b", "--figures", "--reorder")  # the same rows: nothing is computed
    assert computed(test) == before and [row[:2] for row in read_csv(test, "out.csv")[1:]] == sum(rows[::-1], [])
    assert "18 rows" in done.err, done


@case
def files_of_parquet_and_folders_of_them_are_one_table(test):
    names, rows = write_parts(test)
    os.makedirs(test.path("data"))
    for i, name in enumerate(names):
        annotate(test, name, "--choice", "a", "--prefix", "x_", out=f"data/p{i}.parquet")
    run(test, ["data/p2.parquet", "data/p0.parquet"], "--choice", "a,b")
    assert [row[:2] for row in read_csv(test, "out.csv")[1:]] == rows[2] + rows[0]
    os.rename(test.path("data/p2.parquet"), test.path("single.parquet"))
    run(test, ["single.parquet", "data"], "--choice", "a,b", out="out.parquet")
    run(test, ["out.parquet"], "--choice", "c", "--prefix", "y_", out="again.csv")
    assert [row[:2] for row in read_csv(test, "again.csv")[1:]] == rows[2] + rows[0] + rows[1]


@case
def files_of_json_lines_have_the_columns_of_all(test):
    write(test, "a.jsonl", '{"title": "a", "n": 1}\n')
    write(test, "b.jsonl", '{"text": "b", "title": "c"}\n\n{"late": true}\n')
    write(test, "p.jinja", "{{ title }} {{ text }} {{ n }} {{ late }}")
    run(test, ["a.jsonl", "b.jsonl"], out="out.csv")
    assert [row[:4] for row in read_csv(test, "out.csv")] == [["title", "n", "text", "late"], ["a", "1", "", ""], ["c", "", "b", ""], ["", "", "", "true"]]
    run(test, ["a.jsonl", "b.jsonl"], out="out.jsonl")
    assert [line.split(',"answer":')[0] for line in test.read("out.jsonl").decode().splitlines()] == [
        '{"title": "a", "n": 1', '{"text": "b", "title": "c"', '{"late": true']


@case
def a_bad_row_is_named_with_its_file(test):
    names, rows = write_parts(test)
    write(test, names[1], "title,text\na,b\nc\n")
    done = run(test, names, status=1)
    assert "part1.csv: line 3: expected 2 fields" in done.err, done
    done = run(test, names, "--skip-bad-rows", "--errors", "bad.jsonl")
    assert len(read_csv(test, "out.csv")) == 1 + 5 + 1 + 7 and "part1.csv: line 3" in test.read("bad.jsonl").decode(), done


@case
def files_that_do_not_fit_are_refused_before_a_job(test):
    names, _ = write_parts(test)
    write(test, "other.csv", "text,title\na,b\n")
    write(test, "more.csv", "title,text,n\na,b,c\n")
    write(test, "in.jsonl", '{"title": "a", "text": "b"}\n')
    for files, options, said in (([names[0], "other.csv"], [], "other.csv: has other columns than part0.csv"),
                                 ([names[0], "more.csv"], [], "more.csv: has other columns than part0.csv"),
                                 ([names[0], "in.jsonl"], [], "in.jsonl: has another format than part0.csv"),
                                 ([names[0], "absent.csv"], [], "absent.csv"), ([names[0], "-"], [], "not a stream"),
                                 ([names[0], names[1]], ["--table", "t"], "expected files, not a stream or a database")):
        done = run(test, files, *options, status=None)
        assert done.status in (1, 2) and said in done.err and not test.exists("out.csv.db"), (files, done)
    done = run(test, names, out=names[2], status=2)
    assert names[2] in done.err, done


# ---- an output for each file ----

@case
def each_file_has_its_output(test):
    names, rows = write_parts(test)
    write(test, names[1], test.read(names[1]).replace(b"\n", b"\r\n"))
    names.append(write(test, "none.csv", "title,text\n"))
    done = run(test, names, "--choice", "a,b", "--split", out="labelled/")
    assert sorted(os.listdir(test.path("labelled"))) == sorted(names) and test.exists("labelled.db"), done
    for i, name in enumerate(names[:3]):
        annotate(test, name, "--choice", "a,b", "--store", "labelled.db", out="alone.csv")
        assert test.read(f"labelled/{name}") == test.read("alone.csv"), name
    assert read_csv(test, "labelled/none.csv") == [["title", "text", "label", *BESIDE]]
    before = computed(test, "labelled.db")
    again = annotate(test, names[0], *names[1:], "--choice", "a,b", "--split", "--figures", out="labelled", refuses=True)
    assert computed(test, "labelled.db") == before and "18 rows" in again.err
    write(test, "labelled/part1.csv", "edited")  # the others stay as they are, too
    done = annotate(test, names[0], *names[1:], "--choice", "a,b", "--split", out="labelled", refuses=True, status=1)
    assert "labelled/part1.csv" in done.err and len(read_csv(test, "labelled/part0.csv")[0]) == 8, done


@case
def each_file_of_parquet_has_its_output_whose_columns_are_copied(test):
    names, rows = write_parts(test, n=3)
    os.makedirs(test.path("data"))
    for i, name in enumerate(names):
        annotate(test, name, "--choice", "a", "--prefix", "x_", out=f"data/p{i}.parquet")
    write(test, "p.jinja", "{% if title == 'title 1 0' %}{{ title / 2 }}{% endif %}{{ title }}")
    run(test, ["data"], "--choice", "a,b", "--split", "--skip-bad-rows", out="new")  # the first row of the second file is bad
    assert sorted(os.listdir(test.path("new"))) == ["p0.parquet", "p1.parquet", "p2.parquet"]
    for i in range(3):
        assert test.read(f"new/p{i}.parquet").startswith(test.read(f"data/p{i}.parquet")[:100])
        annotate(test, f"new/p{i}.parquet", "--prompt", write(test, "t.jinja", "{{ title }}"), "--choice", "c", "--prefix", "y_", out="again.csv")
        found = read_csv(test, "again.csv")[1:]
        assert [row[:2] for row in found] == rows[i], (i, found)
        assert [bool(row[5]) for row in found] == [(i, j) != (1, 0) for j in range(5 + i)], (i, found)


@case
def split_outputs_take_another_format_by_its_ending(test):
    names, rows = write_parts(test, n=2)
    run(test, names, "--choice", "a,b", "--split", "--output-format", "jsonl", out="new")
    assert sorted(os.listdir(test.path("new"))) == ["part0.jsonl", "part1.jsonl"]
    assert [json.loads(line)["title"] for line in test.read("new/part1.jsonl").splitlines()] == [title for title, _ in rows[1]]
    run(test, names, "--choice", "a,b", "--split", "--estimate", out="estimate")
    assert not test.exists("estimate")


@case
def folders_that_split_cannot_use_are_refused(test):
    names, _ = write_parts(test)
    os.makedirs(test.path("b"))
    write(test, "b/part0.csv", "title,text\na,b\n")
    write(test, "file", "")
    for files, out, said in (([names[0], "b/part0.csv"], "new", "would both be written to new/part0.csv"), (names, "file", "expected a folder"),
                             (names, ".", "part0.csv"), (names, "-", "not a stream"), (names, "no/folder", "creating the folder")):
        done = run(test, files, "--split", out=out, status=None)
        assert done.status in (1, 2) and said in done.err, (out, done)
    assert run(test, names, "--split", "--into", "t", out="x.db", status=2)
