"""annotate --certificate and sheaf verify: a table whose rows, model or certificate were changed is found, and rows are computed again to
the same bytes. The root is also computed here, from its description in consumer/certificate/row_leaf.h."""
import csv
import hashlib
import io
import json
import random
import signal
import sqlite3

import tiny_model
from annotate import annotate, read_csv, write, write_csv
from classify import head_folder
from session import SOME_FAILED, case

ROWS = [["id", "title", "note"]] + [[str(i), f"word {i % 9} \"q\"", f"note {i}, {i * 7 % 5}"] for i in range(40)]
PROMPT = ("--prompt", "Is {{ title }} good?", "--max-tokens", "8")


def certify(test, *options, table="in.csv", out="out.csv", rows=ROWS, engine=None, **others):
    if table == "in.csv" and rows:
        write_csv(test, table, rows)
    options = (*options, "--certificate", "c.json")
    if {"--rerank", "--classify"} & set(options):
        return test.run("annotate", table, *options, "--overwrite", "--model", test.model, "-o", out)
    prompt = () if {"--prompt", "--messages"} & set(options) else PROMPT
    return annotate(test, table, *prompt, *options, out=out, engine=engine, **others)


def verify(test, table="out.csv", *options, certificate="c.json", status=0):
    return test.run("verify", table, "--certificate", certificate, *options, status=status)


def computes_again(test, table="out.csv", *options, n=40):
    """All rows are computed again and are equal."""
    done = verify(test, table, "--model", test.model, "--sample", "1000000", *options)
    assert f"{n} of {n} rows computed again are equal: all rows" in done.out, done.out
    return done


def refused(test, says, table="out.csv", *options, certificate="c.json"):
    done = verify(test, table, *options, certificate=certificate, status=1)
    says = [says] if isinstance(says, str) else says
    assert all(text in done.err for text in says), (says, done.err)
    return done


def certificate_of(test, name="c.json"):
    return json.loads(test.read(name))


def rewrite(test, name="d.json", **changes):
    write(test, name, json.dumps({**certificate_of(test), **changes}))
    return name


# ---- the root ----

def fields(texts):
    return hashlib.sha256(b"".join(len(text.encode()).to_bytes(8, "big") + text.encode() for text in texts)).digest()


def tree(leaves):
    """RFC 6962, section 2.1."""
    if len(leaves) == 1:
        return leaves[0]
    n_left = 1
    while 2 * n_left < len(leaves):
        n_left *= 2
    return hashlib.sha256(b"\1" + tree(leaves[:n_left]) + tree(leaves[n_left:])).digest()


def leaf(kind, number, *hashes):
    return hashlib.sha256(b"\0" + bytes([kind]) + number.to_bytes(8, "big") + b"".join(hashes)).digest()


def root_of(certificate, rows, record_of):
    """The root and the tags of a table. rows: lists of the input's and the answers' texts."""
    arithmetic = hashlib.sha256(certificate["arithmetic"].encode()).digest()
    n = len(certificate["columns"])
    leaves = [leaf(1, i + 1, fields(row[:n]), fields([record_of(row)]), arithmetic, fields(row[n:])) if any(row[n:]) else
              leaf(2, i + 1, fields(row[:n]), bytes(32), bytes(32), fields(row[n:])) for i, row in enumerate(rows)]
    pairs = [f"\"{name}\": " + (value if name == "options" else json.dumps(value, ensure_ascii=False))
             for name, value in certificate.items() if name not in ("root", "tags")]
    statement = "{" + ",\n ".join(pairs)
    last = leaf(0, 0, hashlib.sha256(statement.encode()).digest(), *[bytes(32)] * 3)
    return tree(leaves + [last]).hex(), "".join(item[:2].hex() for item in leaves)


def record_of(row):
    prompt = json.dumps(f"Is {row[1]} good?")
    return '{"messages":[{"role":"user","content":%s}],"max_tokens":8,"temperature":0}' % prompt


def forge(test, rows, **changes):
    """Members of a certificate that fits the rows."""
    certificate = {**certificate_of(test), **changes}
    certificate["options"] = json.dumps(certificate["options"], separators=(",", ":"))
    root, tags = root_of(certificate, rows, record_of)
    return {**changes, "root": root, "tags": tags}


@case
def anyone_can_compute_the_root_from_its_description(test):
    certify(test)
    certificate = certificate_of(test)
    assert list(certificate) == ["sheaf_certificate", "rows", "format", "arithmetic", "columns", "answers", "unread", "options", "root", "tags"]
    assert forge(test, read_csv(test, "out.csv")[1:]) == {"root": certificate["root"], "tags": certificate["tags"]}
    assert certificate["columns"] == ROWS[0] and certificate["options"]["prompt"] == PROMPT[1] and certificate["rows"] == 40


@case
def a_row_that_is_called_left_out_is_not_hidden(test):
    certify(test)
    rows = read_csv(test, "out.csv")
    rows[17][3:] = [""] * len(rows[17][3:])
    write_csv(test, "forged.csv", rows)
    certificate = certificate_of(test)
    certificate["options"] = json.dumps(certificate["options"], separators=(",", ":"))
    for table_format in ("csv", "parquet"):
        certificate["format"] = table_format
        root, tags = root_of(certificate, rows[1:], record_of)
        forged = rewrite(test, format=table_format, root=root, tags=tags)
        if table_format == "csv":  # annotate writes such rows to copies of Parquet files alone
            refused(test, "row 17 has neither an answer nor a reason", "forged.csv", certificate=forged)
        else:
            done = verify(test, "forged.csv", "--model", test.model, certificate=forged)
            assert "1 row was left out: it was not asked, and has no answer\n39 of 39 rows computed again are equal" in done.out, done.out


@case
def a_forged_answer_is_found_by_computing_it_again(test):
    certify(test)
    rows = read_csv(test, "out.csv")
    byte = len(rows[17][3][:2].encode()) + 1
    rows[17][3] = rows[17][3][:2] + "~" + rows[17][3][3:]
    write_csv(test, "forged.csv", rows)
    refused(test, ["changed: 1 of 40 rows", "row 17:"], "forged.csv")
    forged = rewrite(test, **forge(test, rows[1:]))
    verify(test, "forged.csv", certificate=forged)  # of its own root: nothing is wrong but the answer
    done = refused(test, [f"1 of 40 rows computed again differ, the first is row 17, column \"answer\", byte {byte}:", "~"], "forged.csv", "--model",
                   test.model, certificate=forged)
    assert certificate_of(test, "d.json")["root"] in done.out
    samples = {verify(test, "forged.csv", "--model", test.model, "--sample", "20", "--seed", str(seed), certificate=forged, status=None).status
               for seed in range(12)}
    assert samples == {0, 1}, samples  # half of the samples have the row
    first, second = (verify(test, "out.csv", "--model", test.model, "--sample", "20", "--seed", "5").out for _ in range(2))
    assert first == second and "at most 4 of the 40 rows differ (10 %), at 95 % confidence; chosen with --seed 5" in first, first


# ---- changed tables ----

def changes():
    def cell(row, column, text):
        return lambda rows: rows[row].__setitem__(column, text)

    def swap(a, b, column=None):
        def change(rows):
            if column is None:
                rows[a], rows[b] = rows[b], rows[a]
            else:
                rows[a][column], rows[b][column] = rows[b][column], rows[a][column]
        return change
    return {
        "a cell that the prompt reads": (cell(5, 1, "other"), ["1 of 40 rows", "the first is row 5:"]),
        "a cell that it does not read": (cell(5, 2, "other"), ["1 of 40 rows", "the first is row 5:"]),
        "a blank at its end": (cell(1, 2, ROWS[1][2] + " "), ["1 of 40 rows", "the first is row 1:"]),
        "an answer": (cell(40, 3, "other"), ["1 of 40 rows", "the first is row 40:"]),
        "a finish reason": (cell(40, 4, "other"), ["1 of 40 rows", "the first is row 40:"]),
        "an error": (cell(40, 5, "other"), ["1 of 40 rows", "the first is row 40:"]),
        "all answers of a row": (lambda rows: rows[7].__setitem__(slice(3, 6), ["", "", ""]), ["1 of 40 rows", "the first is row 7:"]),
        "two rows swapped": (swap(3, 14), ["2 of 40 rows", "the first is row 3:"]),
        "two ids swapped": (swap(3, 14, 0), ["2 of 40 rows", "the first is row 3:"]),
        "two answers swapped": (swap(3, 14, 3), ["2 of 40 rows", "the first is row 3:"]),
        "text moved to the next cell": (lambda rows: rows[9].__setitem__(slice(1, 3), [rows[9][1] + rows[9][2], ""]), ["1 of 40 rows", "row 9:"]),
        "the first row removed": (lambda rows: rows.pop(1), ["rows were removed: expected 40, got 39", "the first that differs is row 1"]),
        "a row removed": (lambda rows: rows.pop(20), ["rows were removed: expected 40, got 39", "differs is row 20"]),
        "the last row removed": (lambda rows: rows.pop(), ["rows were removed: expected 40, got 39", "; all others are"]),
        "all rows removed": (lambda rows: rows.__delitem__(slice(1, None)), ["rows were removed: expected 40, got 0"]),
        "a row added": (lambda rows: rows.insert(20, list(rows[1])), ["rows were added: expected 40, got 41", "differs is row 20"]),
        "the last row twice": (lambda rows: rows.append(list(rows[-1])), ["rows were added: expected 40, got 41", "differs is row 41"]),
        "a column renamed": (cell(0, 0, "key"), "it has no readable column \"id\""),
        "a column removed": (lambda rows: [row.pop(2) for row in rows], "it has no readable column \"note\""),
        "a column added": (lambda rows: [row.append("x" if i else "more") for i, row in enumerate(rows)],
                           "the certificate does not cover its column \"more\""),
    }


@case
def each_change_of_a_table_is_found_and_named(test):
    certify(test)
    done = verify(test)
    assert "out.csv: its 40 rows are the certificate's, root " + certificate_of(test)["root"] in done.out and "give --model" in done.out, done.out
    for name, (change, says) in changes().items():
        rows = read_csv(test, "out.csv")
        change(rows)
        write_csv(test, "changed.csv", rows)
        assert not refused(test, says, "changed.csv").out, name


@case
def what_says_the_same_is_verified(test):
    certify(test)
    rows = read_csv(test, "out.csv")
    for name, style in {"quoted.csv": {"quoting": csv.QUOTE_ALL}, "windows.csv": {"end": "\r\n"}, "tabs.tsv": {"delimiter": "\t"}}.items():
        write_csv(test, name, rows, **style)
        computes_again(test, name)
    write(test, "rows.jsonl", "".join(json.dumps(dict(zip(rows[0], row))) + "\n" for row in rows[1:]))
    computes_again(test, "rows.jsonl")
    order = sorted(range(6), key=lambda i: -i)
    write_csv(test, "order.csv", [[row[i] for i in order] for row in rows])
    computes_again(test, "order.csv")
    with sqlite3.connect(test.path("rows.db")) as database:
        database.execute("CREATE TABLE t(id INTEGER, title TEXT, note TEXT, answer TEXT, sheaf_finish_reason TEXT, sheaf_error TEXT)")
        database.executemany("INSERT INTO t VALUES(?, ?, ?, ?, ?, ?)", [[cell or None for cell in row] for row in rows[1:]])
    computes_again(test, "rows.db", "--table", "t")


# ---- changed certificates ----

@case
def each_change_of_a_certificate_is_found(test):
    certify(test, "--choice", "good,bad", "--system", write(test, "s.jinja", "You judge."))
    whole = certificate_of(test)
    computes_again(test)
    write(test, "d.json", json.dumps(dict(reversed(whole.items())), indent=3))  # another order says the same
    verify(test, certificate="d.json")
    options = whole["options"]
    other = {"prompt": "Is {{ title }} good?{# more #}", "system": "You judge!", "choice": ["good,bad,worse"], "max_tokens": 9}
    for name, value in other.items():
        refused(test, ["another table, or a certificate whose columns, prompt, options or arithmetic were changed", "40 of 40"] if name != "prompt" else
                "the certificate was changed", certificate=rewrite(test, options={**options, name: value}))
    refused(test, "the certificate was changed", certificate=rewrite(test, options={**options, "prompt": options["prompt"] + "\n"}))
    refused(test, "give other columns than its answers: 9, not 3", certificate=rewrite(test, options={**options, "probabilities": True, "figures": True}))
    refused(test, "another table, or a certificate", certificate=rewrite(test, arithmetic=whole["arithmetic"].replace("model=", "model=0")))
    refused(test, "the certificate was changed", certificate=rewrite(test, format="tsv"))
    refused(test, "the certificate was changed", certificate=rewrite(test, unread=["other"]))
    refused(test, "another table", certificate=rewrite(test, columns=whole["columns"][::-1]))
    refused(test, "rows were added: expected 39, got 40", certificate=rewrite(test, rows=39, tags=whole["tags"][:-4]))
    root = whole["root"]
    refused(test, ["the certificate was changed", root[::-1], root], certificate=rewrite(test, root=root[::-1]))
    tags = whole["tags"][:8] + "%04x" % (int(whole["tags"][8:12], 16) ^ 1) + whole["tags"][12:]
    refused(test, "the certificate was changed: the tag of row 3 is", certificate=rewrite(test, tags=tags))


@case
def a_certificate_that_leaves_out_what_it_should_cover_is_refused(test):
    """Whoever writes a certificate can compute its root; what such a root does not cover is refused."""
    certify(test)
    rows = read_csv(test, "out.csv")
    names = rows[0]
    refused(test, "the certificate does not cover its column \"note\"", certificate=rewrite(test, columns=names[:2], unread=names[2:3]))
    refused(test, "the certificate does not cover its column \"note\"", certificate=rewrite(test, columns=names[:2]))
    options = certificate_of(test)["options"]
    for changes, says in (({"prompt": None}, "the certificate's options: sheaf annotate: give --prompt"), ({"messages": "{}"}, "--prompt or --messages, not both"),
                          ({"classify": True, "rerank": "a,b"}, "give --model"), ({"rerank": "title,note", "choice": ["a"]}, "not both"),
                          ({"schema": {"type": "string"}, "choice": ["a"]}, "--schema or --choice"), ({"temperature": "hot"}, "expected a number"),
                          ({"votes": 3, "temperature": "0"}, "all votes would be equal"), ({"prompt": "{{ nothing }}"}, "no column \"nothing\""),
                          ({"questions": [{"name": "a"}]}, "it has no \"prompt\""), ({"truncate_prompt": 3}, "give --model"),
                          ({"prompt": "{% for i in range(999999999) %}{{ i }}{% endfor %}"}, "row 1: ")):
        given = {name: value for name, value in {**options, **changes}.items() if value is not None}
        refused(test, says, certificate=rewrite(test, options=given))
    refused(test, "the certificate names no arithmetic", certificate=rewrite(test, **forge(test, rows[1:], arithmetic="")))


@case
def what_is_no_certificate_is_refused_by_name(test):
    certify(test)
    whole = test.read("c.json").decode()
    for text, says in (("", "d.json: "), ("\0", "d.json: "), (whole[:-20], "d.json: "), ("{}", "without \"sheaf_certificate\""), ("[1]", "expected an object"),
                       (whole.replace('"rows": 40', '"rows": 40, "rows": 40'), "rows"), (whole.replace('ate": 1', 'ate": 2'), "expected version 1, got 2"),
                       (whole.replace('"rows"', '"note": 1, "rows"'), "a certificate has no member \"note\""),
                       (whole.replace('"max_tokens"', '"max_token"'), "no option is named \"max_token\""),
                       (whole.replace('"tags": "', '"tags": "00'), "tags: expected 4 digits"), ('{"a": "' + "x" * (33 << 20) + '"}', "d.json")):
        write(test, "d.json", text)
        refused(test, says, certificate="d.json")
    refused(test, "no.json: ", certificate="no.json")
    test.run("verify", "out.csv", status=2)
    test.run("verify", "--certificate", "c.json", status=2)


# ---- models and arithmetics ----

@case
def another_model_or_arithmetic_is_refused_by_name(test):
    certify(test, "--kv-type", "q8_0")
    computes_again(test)  # the certificate has the type
    refused(test, ["another model or arithmetic: the certificate has kv-type=q8_0, this worker has kv-type=f16"], "out.csv", "--model", test.model,
            "--kv-type", "f16")
    model = test.path("other.gguf")
    tiny_model.write(model, seed=8)
    refused(test, ["another model or arithmetic: the certificate has model=", "this worker has model="], "out.csv", "--model", model)
    refused(test, "no.gguf", "out.csv", "--model", "no.gguf")
    certify(test, "--chat-template", write(test, "t.jinja", "{{ messages[0].content }}"), "--activation-bits", "16", "--quantize", "q4_0",
            out="other.csv")
    assert "chat-template=" in certificate_of(test)["arithmetic"]
    computes_again(test, "other.csv")


# ---- all kinds of answers ----

SCHEMA = {"type": "object", "properties": {"price": {"type": "number"}, "n": {"type": "integer"}, "ok": {"type": "boolean"}, "kind": {"enum": ["a", "b"]}},
          "required": ["price", "ok", "kind"]}


@case
def answers_of_all_kinds_are_computed_again(test):
    write(test, "s.json", json.dumps(SCHEMA))
    write(test, "q.yaml", "- {name: tone, prompt: Which tone?, choice: [warm, cold]}\n- {name: x, prompt: 'And {{ note }}?', max_tokens: 5}\n"
          "- name: f\n  prompt: Facts?\n  schema: {type: object, properties: {n: {enum: [1, 2]}}, required: [n]}\n  max_tokens: 20\n")
    write(test, "m.jinja", '{"role": "system", "content": "You {{ id }}"}\n{"role": "user", "content": "Is {{ title }} good?"}\n')
    write(test, "more.json", json.dumps({"temperature": 0.9, "logprobs": True, "top_logprobs": 2, "max_tokens": 6}))
    kinds = [("--choice", "good,bad"), ("--choice", "good,bad", "--probabilities", "--figures", "--prefix", "my_"),
             ("--schema", "s.json", "--max-tokens", "60"), ("--temperature", "0.8"), ("--temperature", "0.8", "--same-draws"),
             ("--votes", "3", "--choice", "a,b", "--temperature", "1.3"), ("--questions", "q.yaml", "--figures"),
             ("--questions", "q.yaml", "--votes", "2", "--temperature", "1", "--top-k", "9"), ("--parameters", "more.json"),
             ("--messages", "m.jinja", "--max-tokens", "8"), ("--truncate-prompt", "4", "--truncate", "left"), ("--thoughts", "thinks"),
             ("--reorder",)]
    for options in kinds:
        certify(test, *options)
        computes_again(test)
        certify(test, *options, out="out.jsonl")
        computes_again(test, "out.jsonl")


@case
def scores_and_labels_are_computed_again(test):
    certify(test, "--rerank", "title,note", "--answers", "the,a")
    computes_again(test)
    test.model = head_folder(test, "many", 3)
    certify(test, "--classify", "--column", "note", out="labels.jsonl")
    computes_again(test, "labels.jsonl")
    refused(test, "give --model: the columns follow from its labels", "labels.jsonl")


@case
def rows_without_an_answer_are_certified_too(test):
    rows = ROWS + [["40", "x " * 300, "too long"], ["41", "y", "fits"]]
    certify(test, "--schema", write(test, "s.json", json.dumps(SCHEMA)), rows=rows, status=SOME_FAILED)
    found = read_csv(test, "out.csv")
    assert all(row[-1] for row in found[1:]), found
    done = verify(test, "out.csv", "--model", test.model)
    assert "42 of 42 rows computed again are equal: all rows" in done.out, done.out
    found[41][-1] += "."
    write_csv(test, "changed.csv", found)
    refused(test, "the first is row 41:", "changed.csv")


# ---- formats ----

@case
def tables_of_all_formats_are_certified(test):
    write(test, "s.json", json.dumps(SCHEMA))
    options = ("--schema", "s.json", "--max-tokens", "60")
    write_csv(test, "semi.csv", ROWS[1:], delimiter=";")
    certify(test, *options, out="two.parquet")
    computes_again(test, "two.parquet")
    certify(test, *options, "--into", "t", out="out.db")
    computes_again(test, "out.db")
    with sqlite3.connect(test.path("out.db")) as database:
        database.execute("UPDATE t SET ok = 1 - ok WHERE rowid = 4 AND ok IS NOT NULL")
        database.execute("UPDATE t SET note = note || '.' WHERE rowid = 4")
    refused(test, "the first is row 4:", "out.db")
    certify(test, "--no-header", "--delimiter", ";", "--prompt", "Is {{ column2 }} good?", "--max-tokens", "5", table="semi.csv", out="semi_out.csv")
    computes_again(test, "semi_out.csv")
    write(test, "in.tsv", "id\ttitle\tnote\n" + "".join(f"{i}\t\"word {i}\t\\n\n" for i in range(40)))
    certify(test, "--no-quotes", table="in.tsv", out="out.tsv")
    computes_again(test, "out.tsv")
    write(test, "in.jsonl", "".join(json.dumps({"id": i, "title": {"a": i, "b": [True, None, 1.50]}, **({"note": None} if i % 2 else {})}) + "\n" for i in range(40)))
    certify(test, "--prompt", "{{ title.a }} {{ title.b | tojson }} {% for k in row %}{{ k }}{% endfor %}", "--max-tokens", "5", table="in.jsonl", out="out.jsonl")
    computes_again(test, "out.jsonl")


@case
def a_parquet_file_is_copied_certified_and_its_rows_that_were_left_out_too(test):
    import parquet
    parquet.take(test, "pyarrow_1_snappy")
    certify(test, "--prompt", "Is {{ title }} {{ tags }} good? {{ price }} {{ ok }}", "--max-tokens", "6", "--skip-empty", table="in.parquet", out="out.parquet")
    certificate = certificate_of(test)
    assert certificate["unread"] == ["st"] and "st" not in certificate["columns"] and certificate["rows"] == parquet.ROWS, certificate
    done = verify(test, "out.parquet", "--model", test.model)
    assert f"{parquet.ROWS - 3} of {parquet.ROWS - 3} rows computed again are equal" in done.out, done.out
    certify(test, "--prompt", "Is {{ title }} {{ tags }} good? {{ price }} {{ ok }}", "--max-tokens", "6", "--skip-empty", table="in.parquet", out="out.csv")
    computes_again(test, "out.csv", n=parquet.ROWS - 3)


@case
def an_output_that_keeps_too_little_is_written_without_a_certificate(test):
    write(test, "in.jsonl", "".join(json.dumps({"title": {"a": i}}) + "\n" for i in range(5)))
    options = ("--prompt", "{{ title.a }}", "--max-tokens", "5")
    done = certify(test, *options, table="in.jsonl", out="out.csv", status=1)
    assert "the table is written, but no certificate c.json: row 1: the output does not keep what its request was rendered from" in done.err and not test.exists("c.json") and test.exists("out.csv"), done.err
    certify(test, *options, table="in.jsonl", out="out.jsonl")
    computes_again(test, "out.jsonl", n=5)


@case
def a_row_that_may_get_an_answer_later_refuses_the_certificate(test):
    write_csv(test, "in.csv", [row + [str(i)] for i, row in enumerate(ROWS)])
    options = ("annotate", "in.csv", "--model", test.model, "--prompt", "Is {{ id }} good?", "--max-tokens", "8", "--certificate", "c.json", "-o", "out.csv")
    process = test.start(*options, "--engine-test", "fixed:20", "--max-batch", "1")
    test.wait_until("an answer", lambda: test.query("SELECT 1 FROM answers", "out.csv.db"))
    test.run("cancel", "--dataset", "annotate", "--store", "out.csv.db")
    done = test.wait(process)
    assert done.status == 1 and "no answer for a reason that may pass: cancelled" in done.err and test.exists("out.csv") and not test.exists("c.json"), done.err
    test.run("dataset", "reopen", "annotate", "--store", "out.csv.db")
    test.run(*options, "--engine-test", "instant")
    verify(test, "out.csv", "--engine-test", "instant", "--model", test.model)


@case
def an_empty_table_and_several_files(test):
    certify(test, rows=ROWS[:1])
    done = verify(test, "out.csv", "--model", test.model)
    assert "its 0 rows are" in done.out and "no row was asked" in done.out, done.out
    write_csv(test, "a.csv", ROWS[:20])
    write_csv(test, "b.csv", ROWS[:1] + ROWS[20:])
    test.run("annotate", "a.csv", "b.csv", "--model", test.model, *PROMPT, "-o", "both", "--split", "--certificate", "both.json")
    done = test.run("verify", "both/a.csv", "both/b.csv", "--certificate", "both.json", "--model", test.model)
    assert "40 of 40 rows" in done.out and "both/a.csv, both/b.csv: their 40 rows are the certificate's" in done.out, done.out
    done = test.run("verify", "both/b.csv", "both/a.csv", "--certificate", "both.json", status=1)
    assert "both/b.csv, both/a.csv: another table" in done.err and "the first is row 1 (in both/b.csv)" in done.err, done
    rows = read_csv(test, "both/b.csv")
    write_csv(test, "both/b.csv", [*rows[:-1], [rows[-1][0] + "!", *rows[-1][1:]]])
    done = test.run("verify", "both/a.csv", "both/b.csv", "--certificate", "both.json", status=1)
    assert "changed: 1 of 40 rows differ from the certificate, the first is row 40 (in both/b.csv)" in done.err, done
    for i in range(5):
        write_csv(test, f"{i}.csv", [*ROWS[:1], ROWS[i + 1]])
    files = [f"{i}.csv" for i in range(5)]
    test.run("annotate", *files, "--model", test.model, *PROMPT, "-o", "five.csv", "--certificate", "five.json")
    test.run("annotate", *files, "--model", test.model, *PROMPT, "-o", "five", "--store", "five.db", "--split", "--certificate", "split.json")
    done = test.run("verify", *[f"five/{name}" for name in files], "--certificate", "split.json")
    assert "five/0.csv, five/1.csv, five/2.csv and 2 others: their 5 rows" in done.out, done.out
    assert "five.csv: its 5 rows" in test.run("verify", "five.csv", "--certificate", "five.json").out


# ---- runs ----

@case
def a_run_that_is_killed_ends_with_the_certificate_of_a_calm_one(test):
    write_csv(test, "in.csv", ROWS)
    options = ("annotate", "in.csv", "--model", test.model, *PROMPT, "--temperature", "0.7", "--certificate")
    test.run(*options, "calm.json", "-o", "calm.csv")
    random.seed(3)
    for _ in range(3):
        process = test.start(*options, "c.json", "-o", "out.csv", "--max-batch", "1")
        n_before = len(test.query("SELECT 1 FROM answers", "out.csv.db"))
        test.wait_until("answers", lambda n=n_before: len(test.query("SELECT 1 FROM answers", "out.csv.db")) > n or process.poll() is not None)
        process.send_signal(signal.SIGKILL)
        test.wait(process)
    test.run(*options, "c.json", "-o", "out.csv")
    assert test.read("c.json") == test.read("calm.json") and test.read("out.csv") == test.read("calm.csv")
    test.run(*options, "c.json", "-o", "out.csv")  # again: nothing is new
    assert test.read("c.json") == test.read("calm.json")
    write(test, "c.json", "mine")
    done = test.run(*options, "c.json", "-o", "out.csv", status=1)
    assert "c.json" in done.err and test.read("c.json") == b"mine", done.err


@case
def what_has_no_certificate_is_refused_before_a_row_is_computed(test):
    write_csv(test, "in.csv", ROWS)
    for options, says in ((["-o", "-"], "-o is a file, not a stream"), (["-o", "out.csv", "--sample", "3"], "--estimate or --sample"),
                          (["-o", "out.csv", "--estimate"], "--estimate or --sample"),
                          (["-o", "out.csv", "--reorder", "--prompt", "{% for k, v in row.items() %}{{ v }}{% endfor %}"], "--reorder")):
        prompt = [] if "--prompt" in options else PROMPT
        done = test.run("annotate", "in.csv", "--model", test.model, *prompt, *options, "--certificate", "c.json", status=2)
        assert says in done.err and not test.exists("c.json") and not test.exists("out.csv"), done.err
    done = test.run("annotate", "in.csv", "--model", test.model, *PROMPT, "-o", "out.csv", "--certificate", "out.csv", status=2)
    assert "--certificate" in done.err, done.err
    done = test.run("annotate", "in.csv", "--model", test.model, *PROMPT, "-o", "out.csv", "--certificate", "no/c.json", status=1)
    assert not test.exists("out.csv"), done.err
