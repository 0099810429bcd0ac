"""sheaf embed of a table's column: row i of the vectors is row i of the table, in every format, and after an interruption."""
import ast
import base64
import csv
import json
import math
import os
import resource
import signal
import sqlite3
import struct

import tiny_model
from session import case, text_of

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

WIDTH = tiny_model.WIDTH


def rows_of(n):
    """Some texts are equal, some have quotes and line feeds, some no vector."""
    return [(str(i), "" if i % 50 == 7 else text_of(i % 90, 1 + i % 9) + ('",\n"' if i % 11 == 0 else "")) for i in range(n)]


def write_csv(test, name, rows, delimiter=","):
    with open(test.path(name), "w", encoding="utf-8", newline="") as file:
        csv.writer(file, delimiter=delimiter).writerows([("id", "text"), *rows])


def lines_of(test, texts, *options):
    """The vectors of sheaf embed of these lines; None: it has an error."""
    stdin = "".join(json.dumps({"text": text}) + "\n" for text in texts)
    lines = [json.loads(line) for line in test.run("embed", test.model, *options, stdin=stdin).out.splitlines()]
    return [line.get("embedding") for line in lines], [line.get("error") for line in lines]


def load(test, name):
    """NumPy's array as a list of rows' bytes, with its header."""
    data = test.read(name)
    assert data[:8] == b"\x93NUMPY\x01\x00", data[:8]
    (n,) = struct.unpack("<H", data[8:10])
    assert (10 + n) % 64 == 0, n
    header = ast.literal_eval(data[10:10 + n].decode())
    n_rows, n_items = header["shape"]
    assert header["fortran_order"] is False, header
    size = {"<f4": 4, "<f2": 2, "|i1": 1, "|u1": 1}[header["descr"]] * n_items
    assert len(data) == 10 + n + n_rows * size, header
    return header, [data[10 + n + i * size:10 + n + (i + 1) * size] for i in range(n_rows)]


def packed(vector):
    return struct.pack(f"<{len(vector)}f", *vector)


def single(vector):
    """As float32: the shortest digits of JSON are of this type."""
    return list(struct.unpack(f"<{len(vector)}f", packed(vector)))


NAN = [math.nan] * WIDTH


@case
def row_i_of_the_array_is_the_vector_of_row_i_and_equal_texts_are_computed_once(test):
    rows = rows_of(1500)
    write_csv(test, "in.csv", rows)
    expected, errors = lines_of(test, [text for _, text in rows])
    done = test.run("embed", test.model, "in.csv", "--column", "text", "-o", "out.npy", "--errors", "errors.jsonl", status=3)
    header, found = load(test, "out.npy")
    assert header["shape"] == (1500, WIDTH) and header["descr"] == "<f4", header
    for i, row in enumerate(found):
        assert row == packed(expected[i]) if expected[i] else all(map(math.isnan, struct.unpack(f"<{WIDTH}f", row))), i
    listed = [json.loads(line) for line in test.read("errors.jsonl").splitlines()]
    bad = [i for i, error in enumerate(errors) if error]
    assert [line["index"] for line in listed] == bad and [line["error"] for line in listed] == [errors[i] for i in bad], listed
    assert "30 of 1500 rows have no vector, see errors.jsonl" in done.err, done
    n_different = len({text for _, text in rows})
    assert f"{1500 - n_different} of them with the text of another" in done.err, (n_different, done)
    assert not [name for name in os.listdir(test.folder) if "part" in name or "vectors" in name], os.listdir(test.folder)


@case
def other_types_are_conversions_of_the_same_vectors(test):
    rows = [row for row in rows_of(40) if row[1]]
    write_csv(test, "in.csv", rows)
    vectors = list(map(single, lines_of(test, [text for _, text in rows], "--pooling", "mean")[0]))
    for kind, descr in (("f16", "<f2"), ("int8", "|i1"), ("binary", "|u1")):
        test.run("embed", "in.csv", "--model", test.model, "--pooling", "mean", "--column", "text", "-o", f"{kind}.npy", "--vector-type", kind)
        header, found = load(test, f"{kind}.npy")
        assert header["descr"] == descr, header
        if kind == "f16":
            assert found == [struct.pack(f"<{WIDTH}e", *vector) for vector in vectors]
        elif kind == "int8":
            for row, vector in zip(found, vectors):
                assert all(abs(item - 127 * x) <= 0.5001 for item, x in zip(struct.unpack(f"{WIDTH}b", row), vector)), (row, vector)
        else:
            bits = ["".join("1" if x > 0 else "0" for x in vector) for vector in vectors]
            assert found == [int(text, 2).to_bytes(WIDTH // 8, "big") for text in bits]


@case
def a_table_gets_a_column_of_vectors_in_each_format(test):
    rows = rows_of(60)
    write_csv(test, "in.csv", rows)
    write_csv(test, "in.tsv", rows, "\t")
    test.write("in.jsonl", [json.dumps({"id": name, "text": text}) for name, text in rows])
    database = sqlite3.connect(test.path("in.db"))
    database.execute("CREATE TABLE t (id TEXT, text TEXT)")
    database.executemany("INSERT INTO t VALUES (?, ?)", rows)
    database.commit()
    expected = [vector and packed(vector) for vector in lines_of(test, [text for _, text in rows])[0]]
    for source, options in (("in.csv", []), ("in.tsv", []), ("in.jsonl", []), ("in.db", ["--table", "t"])):
        for output in ("out.csv", "out.tsv", "out.jsonl", "out.db", "out.npy"):
            into = ["--into", "vectors"] if output == "out.db" else []
            test.run("embed", source, test.model, "--column", "text", "-o", output, "--overwrite", *options, *into, status=3)
            if output.endswith("sv"):
                with open(test.path(output), encoding="utf-8", newline="") as file:
                    header, *found = csv.reader(file, delimiter="," if output == "out.csv" else "\t")
                assert header == ["id", "text", "embedding"], header
                found = [(name, text, base64.b64decode(vector) or None) for name, text, vector in found]
            elif output == "out.jsonl":
                found = [json.loads(line) for line in test.read(output).splitlines()]
                found = [(line["id"], line["text"], packed(line["embedding"]) if "embedding" in line else None) for line in found]
            elif output == "out.db":
                found = sqlite3.connect(test.path(output)).execute("SELECT id, text, embedding FROM vectors").fetchall()
            else:
                found = [row if not math.isnan(struct.unpack("<f", row[:4])[0]) else None for row in load(test, output)[1]]
                found = [(name, text, vector) for (name, text), vector in zip(rows, found)]
            assert found == [(name, text, vector) for (name, text), vector in zip(rows, expected)], (source, output)


def interrupt(test, rows, output):
    """At half of the vectors the file may not grow further."""
    limit = 128 + len(rows) * WIDTH * 4 // 2
    cut = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    finished = test.run("embed", test.model, "in.csv", "--column", "text", "-o", output, "--max-rows", "64", status=1, preexec_fn=cut)
    assert "File too large" in finished.err and not test.exists(output), finished


@case
def an_interrupted_command_resumes_to_the_same_bytes(test):
    rows = rows_of(900)
    write_csv(test, "in.csv", rows)
    for output, part in (("out.npy", "out.npy.part"), ("out.csv", "out.csv.vectors.part")):
        whole = test.run("embed", test.model, "in.csv", "--column", "text", "-o", output, status=3)
        expected = test.read(output)
        os.remove(test.path(output))
        interrupt(test, rows, output)
        n_before = json.loads(test.read(part + ".state"))["n_lines"]
        assert 0 < n_before < len(rows), n_before
        refused = test.run("embed", test.model, "in.csv", "--column", "id", "-o", output, status=1)
        assert "was computed from other rows" in refused.err, refused
        refused = test.run("embed", test.model, "in.csv", "--column", "text", "-o", output, "--pooling", "mean", status=1)
        assert "was written with other options" in refused.err, refused
        rest = test.run("embed", test.model, "in.csv", "--column", "text", "-o", output, "--errors", "errors.jsonl", status=3)
        assert f"resuming: {n_before} rows were computed before" in rest.err, rest
        assert test.read(output) == expected and len(test.read("errors.jsonl").splitlines()) == 18
        assert "18 of 900 rows have no vector" in whole.err and "18 of 900 rows have no vector" in rest.err, (whole, rest)
        assert not [name for name in os.listdir(test.folder) if "part" in name or "vectors" in name], os.listdir(test.folder)


@case
def a_killed_command_resumes_to_the_same_bytes(test):
    rows = rows_of(3000)
    write_csv(test, "in.csv", rows)
    test.run("embed", test.model, "in.csv", "--column", "text", "-o", "expected.npy", status=3)
    command = ["embed", test.model, "in.csv", "--column", "text", "-o", "out.npy", "--max-rows", "16", "--threads", "1"]
    for _ in range(3):
        process = test.start(*command)
        before = os.path.getsize(test.path("out.npy.part")) if test.exists("out.npy.part") else 0
        test.wait_until("it grows", lambda: process.poll() is not None or (test.exists("out.npy.part") and os.path.getsize(test.path("out.npy.part")) > before + 128))
        process.send_signal(signal.SIGKILL)
        test.wait(process)
    if not test.exists("out.npy"):
        test.run(*command, status=3)
    assert test.read("out.npy") == test.read("expected.npy")


@case
def rows_without_a_text_and_wrong_options_are_named(test):
    test.write("in.jsonl", ['{"text": "the"}', '{"text": 5}', '{"other": 1}', '{"text": "the winter"}'])
    test.run("embed", test.model, "in.jsonl", "--column", "text", "-o", "out.npy", "--errors", "errors.jsonl", status=3)
    listed = [json.loads(line) for line in test.read("errors.jsonl").splitlines()]
    assert [(line["index"], line["line"], line["error"]["message"]) for line in listed] == [
        (1, 2, "column text: expected a text, got 5"), (2, 3, "column text: expected a text, got null")], listed
    write_csv(test, "in.csv", rows_of(3))
    test.write("bad.jinja", ["{{ txt }}"])
    for arguments, words in ((["in.csv", "-o", "x.npy"], "--column: expected one of id, text"),
                             (["in.csv", "--column", "body", "-o", "x.npy"], '--column: expected one of id, text, got "body"'),
                             (["in.csv", "--column", "text"], "give -o OUT.npy"),
                             (["in.csv", "--column", "text", "-o", "x.bin"], "expected .npy, .csv, .tsv, .jsonl, .parquet or .db at its end"),
                             (["in.csv", "--column", "text", "-o", "x.npy", "--vector-type", "f64"], 'expected f32, f16, int8 or binary, got "f64"'),
                             (["in.csv", "--column", "text", "-o", "x.npy", "--vector-type", "int8", "--no-normalize"], "expected vectors of length 1"),
                             (["in.csv", "--column", "text", "-o", "x.db"], "-o OUT.db and --into TABLE"),
                             (["in.csv", "--column", "text", "-o", "in.csv", "--overwrite"], "in.csv"),
                             (["in.csv", "--column", "text", "-o", "out.npy"], "out.npy exists: --overwrite replaces it"),
                             (["in.csv", "--column", "text", "--prompt", "p.jinja", "-o", "x.npy"], "--column or --prompt, not both"),
                             (["in.csv", "--prompt", "bad.jinja", "-o", "x.npy"], 'there is no column "txt"; the nearest is "text"'),
                             (["in.csv", "--column", "text", "--sample", "5000"], "--sample: expected at most 4096 rows, got 5000"),
                             (["in.csv", "--column", "text", "--estimate", "--price-in", "x"], "--price-in: expected a number"),
                             (["no.csv", "--column", "text", "-o", "x.npy"], "no.csv")):
        refused = test.run("embed", test.model, *arguments, status=None)
        assert refused.status in (1, 2) and words in refused.err and not test.exists("x.npy"), refused
    assert "JSON lines" in test.run("embed", test.model, "-o", "x.parquet", stdin="the\n", status=2).err
    for options in (["--column", "text"], ["--prompt", "bad.jinja"], ["--sample", "3"]):
        assert "sheaf embed MODEL TABLE" in test.run("embed", test.model, *options, stdin="the\n", status=2).err
    write_csv(test, "empty.csv", [])
    test.run("embed", test.model, "empty.csv", "--column", "text", "-o", "empty.npy")
    assert load(test, "empty.npy")[0]["shape"] == (0, WIDTH)


@case
def a_template_over_the_columns_makes_the_texts(test):
    rows = [row for row in rows_of(80) if row[1]]
    write_csv(test, "in.csv", rows)
    test.write("p.jinja", ["{{ id }}: {{ text | upper }}"])
    expected = lines_of(test, [f"{name}: {text.upper()}" for name, text in rows])[0]
    test.run("embed", test.model, "in.csv", "--prompt", "p.jinja", "-o", "out.npy")
    assert load(test, "out.npy")[1] == list(map(packed, expected))
    test.write("in.jsonl", ['{"text": "the", "tags": ["a", "b"]}'])
    test.write("t.jinja", ["{{ text }}{% for tag in row.tags or [] %} {{ tag }}{% endfor %}"])
    test.run("embed", test.model, "in.jsonl", "--prompt", "t.jinja", "-o", "tags.npy")
    assert load(test, "tags.npy")[1][0] == packed(lines_of(test, ["the a b"])[0][0])
    test.write("equal.jinja", ["the winter"])
    done = test.run("embed", test.model, "in.csv", "--prompt", "equal.jinja", "-o", "equal.npy")
    assert f"{len(rows) - 1} of them with the text of another" in done.err and "reads no column" in done.err, done
    assert set(load(test, "equal.npy")[1]) == {packed(lines_of(test, ["the winter"])[0][0])}


@case
def parquet_is_read_and_written(test):
    rows = rows_of(60)
    write_csv(test, "in.csv", rows)
    test.run("embed", test.model, "in.csv", "--column", "text", "-o", "in.parquet", status=3)
    expected = [vector and packed(vector) for vector in lines_of(test, [text for _, text in rows])[0]]
    test.write("p.jinja", ["{{ row.text }}"])
    for options in (["--column", "text"], ["--prompt", "p.jinja"]):
        test.run("embed", test.model, "in.parquet", *options, "-o", "out.npy", "--overwrite", status=3)
        found = [row if not math.isnan(struct.unpack("<f", row[:4])[0]) else None for row in load(test, "out.npy")[1]]
        assert found == expected, options
    refused = test.run("embed", test.model, "in.parquet", "--column", "text", "-o", "out.jsonl", status=None)
    assert refused.status in (1, 2) and "embedding" in refused.err, refused  # the column exists
    sheaf_rows = test.run("embed", test.model, "in.parquet", "--column", "id", "-o", "ids.npy")
    assert "60 rows, 0 of them" in sheaf_rows.err, sheaf_rows


def figures(finished):
    return {line[:16].strip(): float(line[16:]) for line in finished.out.splitlines() if line[16:].strip().replace(".", "").isdigit()}


@case
def an_estimate_counts_what_a_run_computes_and_writes_nothing(test):
    rows = rows_of(400)
    write_csv(test, "in.csv", rows)
    before = sorted(os.listdir(test.folder))
    done = test.run("embed", test.model, "in.csv", "--column", "text", "--estimate", "--price-in", "2000000")
    found = figures(done)
    assert sorted(os.listdir(test.folder)) == before
    run = test.run("embed", test.model, "in.csv", "--column", "text", "-o", "out.npy", status=3)
    n_tokens = int(run.err.split(" tokens, ")[0].split()[-1])
    assert found["rows"] == 400 and found["tokens of these"] == n_tokens and found["price"] == 2 * n_tokens, (found, run)
    assert found["different texts"] == len({text for _, text in rows}) and found["refused texts"] == 1, found


@case
def a_sample_computes_its_rows_alone(test):
    rows = [("0", "the winter"), ("1", "another thing"), ("2", "the winter")] + [("x", 'inner "')] * 3
    write_csv(test, "in.csv", rows)
    before = sorted(os.listdir(test.folder))
    done = test.run("embed", test.model, "in.csv", "--column", "text", "--sample", "6")
    assert done.out.startswith("row 1: the winter\n    -> ") and "cosine 1.0000 to row 3\nrow 2: another thing\n" in done.out, done
    found = figures(done)
    assert found["rows"] == 6 and found["different texts"] == 3 and found["tokens/s"] > 0 and "seconds for all" in found, (found, done)
    two = [test.run("embed", test.model, "in.csv", "--column", "text", "--sample", "2", "--seed", "3").out.split("\n\n")[0] for _ in range(2)]
    assert two[0].count("    -> ") == 2 and two[0] == two[1], two
    assert sorted(os.listdir(test.folder)) == before


@case
def the_demo_finds_the_nearest_vectors_with_sql(test):
    rows = [(f"review-{i:04}", text_of(i, 3 + i % 7)) for i in range(12)]
    with open(test.path("in.csv"), "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("id", "review"), *rows])
    test.run("embed", test.model, "in.csv", "--column", "review", "--no-normalize", "-o", "vectors.db", "--into", "reviews")
    database = sqlite3.connect(test.path("vectors.db"))
    with open(os.path.join(ROOT, "ops", "demo-nearest.sql"), encoding="utf-8") as file:
        create, select = "".join(line for line in file if not line.startswith(".")).rsplit(";\n\n", 1)
    database.executescript(create + ";")
    vectors = {name: struct.unpack(f"<{WIDTH}f", blob) for name, blob in database.execute("SELECT id, embedding FROM reviews")}
    items = database.execute("SELECT id, i, x FROM items").fetchall()
    assert len(items) == 12 * WIDTH and all(vectors[name][i] == x for name, i, x in items), items[:3]
    for name, other, cosine in database.execute("SELECT id, other, cosine FROM cosines"):
        left, right = vectors[name], vectors[other]
        expected = sum(map(lambda a, b: a * b, left, right)) / math.hypot(*left) / math.hypot(*right)
        assert abs(cosine - expected) < 1e-9, (name, other, cosine, expected)
    assert len(database.execute(select).fetchall()) == 6
