"""sheaf annotate over Parquet: values as texts, chunks of columns that are copied, and what is refused before a job is queued. The files are
those of other writers in tests/fuzz/corpus/parquet: twelve rows each, made by pyarrow, DuckDB and fastparquet."""
import base64
import csv
import datetime
import io
import json
import os
import random
import re
import sqlite3
import struct

from annotate import BESIDE, annotate, computed, read_csv, write, write_csv
from session import case

CORPUS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "fuzz", "corpus", "parquet")
ROWS = 12


def take(test, name, as_name="in.parquet"):
    with open(os.path.join(CORPUS, name), "rb") as file:
        return write(test, as_name, file.read())


def shown(items):
    """A list as DuckDB's CSV has it."""
    texts = {"b,c": "'b,c'", None: "NULL"}
    return "" if items is None else "[" + ", ".join(texts.get(item, item) for item in items) + "]"


def values():
    """The columns of pyarrow's files, as DuckDB's CSV has them."""
    day, at = datetime.date(2024, 2, 27), datetime.datetime(2024, 2, 27, 1, 2, 3)
    return [{"title": "" if i % 5 == 3 else f"title {i % 4}", "n": "" if i % 6 == 5 else str(i * 1000 - 3000), "x": str(i / 7), "f": str(i / 10),
             "ok": "true" if i % 3 == 0 else "false", "day": str(day + datetime.timedelta(days=i)),
             "at": str(at + datetime.timedelta(seconds=i)) + ".12+00", "price": f"{i * 1.25:.2f}",
             "tags": shown(None if i == 2 else ["a", "b,c", None][:i % 4]), "st": ""} for i in range(ROWS)]


def rows_of(test, name):
    return list(csv.DictReader(io.StringIO(test.read(name).decode(), newline="")))


def prompts(test, store):
    records = test.query("SELECT CAST(record AS TEXT) FROM records ORDER BY job", store)
    return [json.loads(record)["messages"][0]["content"] for record, in records]


def data_of(test, name):
    """The bytes of a file before its footer."""
    content = test.read(name)
    assert content[:4] == content[-4:] == b"PAR1", content[-8:]
    return content[:len(content) - 8 - int.from_bytes(content[-8:-4], "little")]


# ---- values ----

@case
def values_of_every_type_are_the_texts_of_duckdb(test):
    for name in ("pyarrow_1_snappy", "pyarrow_2_zstd", "pyarrow_1_lz4", "pyarrow_int96_gzip", "pyarrow_2_delta_length"):
        write(test, "p.jinja", "{{ title }}")
        done = annotate(test, take(test, name))
        found = rows_of(test, "out.csv")
        expected = values()
        assert len(found) == ROWS and found[0]["sheaf_finish_reason"] == "stop", (name, found)
        for row, whole in zip(found, expected):
            columns = [column for column in row if column in whole]
            if "int96" in name:
                whole["at"] = whole["at"].removesuffix("+00")  # of no zone
            assert {column: row[column] for column in columns} == {column: whole[column] for column in columns}, (name, row, whole)
        assert ('column "st" is a struct, which is not read: it is empty in the output' in done.err) == ("st" in found[0]), done


@case
def prompts_read_the_same_texts(test):
    template = "{{ title }}|{{ n }}|{{ x }}|{{ f }}|{{ ok }}|{{ day }}|{{ at }}|{{ price }}|{{ tags }}|{{ row['n'] }}"
    write(test, "p.jinja", template)
    annotate(test, take(test, "pyarrow_2_zstd"), out="out.parquet")
    columns = ["title", "n", "x", "f", "ok", "day", "at", "price", "tags", "n"]
    assert prompts(test, "out.parquet.db") == ["|".join(row[column] for column in columns) for row in values()]
    write(test, "p.jinja", "{{ title }} {{ n + 1 if n is not none }}")  # a number is a number
    annotate(test, "in.parquet", "--prompt", "p.jinja", "--store", "s.db", out="out.parquet")
    assert prompts(test, "s.db")[:6] == ["title 0 -2999", "title 1 -1999", "title 2 -999", " 1", "title 0 1001", "title 1 "]


@case
def other_writers_are_read(test):
    write(test, "p.jinja", "{{ title }}")
    annotate(test, take(test, "duckdb_brotli"))
    row = rows_of(test, "out.csv")[4]
    assert [row[name] for name in ("title", "n", "tags", "price", "ok", "id", "tm", "small")] == \
        ["title 0", "4", "[x4, NULL]", "5.00", "true", "123e4567-e89b-12d3-a456-426614174004", "01:02:07", "4"], row
    annotate(test, take(test, "fastparquet_snappy"))
    assert [(row["title"], row["n"], row["c"]) for row in rows_of(test, "out.csv")][3:5] == [("", "3", "k0"), ("title 0", "4", "k1")]
    annotate(test, take(test, "pyarrow_empty"))
    assert read_csv(test, "out.csv") == [["title", "n", "answer", *BESIDE]]


# ---- Parquet out ----

@case
def columns_are_copied_byte_for_byte_and_answers_follow_in_each_row_group(test):
    write(test, "p.jinja", "{{ title }}")
    for name, n_groups in (("pyarrow_1_snappy", 3), ("pyarrow_2_zstd", 2), ("duckdb_brotli", 1)):
        source = data_of(test, take(test, name))
        annotate(test, "in.parquet", out="out.parquet")
        copied = data_of(test, "out.parquet")
        # the copy must begin with the input's bytes: the longest common prefix is one row group or all; then the copy has its own pages
        at, groups, position = 4, 0, 4
        while at < len(source):
            n = 0
            while at + n < len(source) and copied[position:position + n + 1] == source[at:at + n + 1]:
                n += 1
            if n < 16:
                break  # page indexes, which are not copied
            groups, at = groups + 1, at + n
            position = copied.find(source[at:at + 16], position + n) if at < len(source) else position
            if position < 0:
                break
        assert groups == n_groups, (name, groups, at, len(source))
        annotate(test, "in.parquet", out="first.csv")
        annotate(test, "out.parquet", "--prefix", "again_", out="second.csv")
        first, second = rows_of(test, "first.csv"), rows_of(test, "second.csv")
        assert [{name: row[name] for name in first[0]} for row in second] == first, (name, first[0], second[0])


def read_field(data, table, index):
    """The place of a table's field in a FlatBuffer, or None."""
    vtable = table - struct.unpack_from("<i", data, table)[0]
    size = struct.unpack_from("<H", data, vtable)[0]
    offset = struct.unpack_from("<H", data, vtable + 4 + 2 * index)[0] if 4 + 2 * index < size else 0
    return table + offset if offset else None


def follow(data, at):
    return at + struct.unpack_from("<I", data, at)[0]


def vector(data, at):
    return [follow(data, at + 4 + 4 * i) for i in range(struct.unpack_from("<I", data, at)[0])]


def text_at(data, at):
    return data[at + 4:at + 4 + struct.unpack_from("<I", data, at)[0]].decode()


def arrow_fields(content):
    """(name, type's number, the first member of the type) of each field of a file's ARROW:schema; None: it has none."""
    at = content.rfind(b"ARROW:schema")
    if at < 0:
        return None
    encoded = re.search(rb"[A-Za-z0-9+/]{60,}=*", content[at + 12:]).group()
    encoded = encoded[encoded.index(b"/////"):]  # the length before it may be of the same characters
    data = base64.b64decode(encoded)
    assert data[:4] == b"\xff" * 4 and struct.unpack_from("<I", data, 4)[0] == len(data) - 8, data[:16]
    data = data[8:]
    message = follow(data, 0)
    assert data[read_field(data, message, 1)] == 1, data[:80]
    schema = follow(data, read_field(data, message, 2))
    fields = []
    for field in vector(data, follow(data, read_field(data, schema, 1))):
        kind = follow(data, read_field(data, field, 3))
        member = read_field(data, kind, 0)
        fields.append((text_at(data, follow(data, read_field(data, field, 0))), data[read_field(data, field, 2)],
                       member and struct.unpack_from("<H", data, member)[0]))
    return fields


@case
def the_arrow_schema_has_the_new_columns_after_its_own(test):
    write(test, "p.jinja", "{{ title }}")
    write(test, "schema.json", json.dumps({"type": "object", "properties": {"count": {"type": "integer"}, "share": {"type": "number"},
                                                                              "is_good": {"type": "boolean"}, "word": {"enum": ["a", "b"]}}}))
    before = arrow_fields(test.read(take(test, "pyarrow_1_snappy")))
    assert len(before) > 5, before
    annotate(test, "in.parquet", "--schema", "schema.json", out="out.parquet")
    # 2: an integer of 64 bits, 3: a floating-point number of precision 2, 6: a boolean, 5: a text
    added = [("count", 2, 64), ("share", 3, 2), ("is_good", 6, None), ("word", 5, None), ("sheaf_finish_reason", 5, None),
             ("sheaf_error", 5, None)]
    assert arrow_fields(test.read("out.parquet")) == before + added
    take(test, "pyarrow_2_zstd", "none.parquet")
    annotate(test, "none.parquet", out="none.out.parquet")
    assert arrow_fields(test.read("none.out.parquet")) is None
    os.mkdir(test.path("data"))
    for name in ("data/a.parquet", "data/b.parquet"):
        take(test, "pyarrow_1_snappy", name)
    annotate(test, "data", out="out.parquet")
    assert len(arrow_fields(test.read("out.parquet"))) == len(before) + 3
    content = test.read("data/b.parquet")
    write(test, "data/b.parquet", content.replace(b"ARROW:schema", b"ARROW:schemb"))
    annotate(test, "data", out="out.parquet")
    assert arrow_fields(test.read("out.parquet")) is None


@case
def properties_have_the_types_of_their_schema(test):
    write(test, "p.jinja", "{{ title }}")
    schema = {"type": "object", "properties": {"mood": {"enum": ["good", "bad"]}, "n": {"type": "integer", "minimum": 3, "maximum": 3},
                                               "x": {"type": ["number", "null"], "enum": [1.5]}, "ok": {"type": "boolean", "const": True},
                                               "list": {"const": ["a", 1]}, "ref": {"$ref": "#/$defs/n"}},
              "required": ["mood", "n", "x", "ok", "list", "ref"], "additionalProperties": False, "$defs": {"n": {"type": "integer", "const": 7}}}
    write(test, "s.json", json.dumps(schema))
    take(test, "pyarrow_2_delta_length")
    annotate(test, "in.parquet", "--schema", "s.json", "--figures", "--prefix", "a_", "--max-tokens", "200", out="out.parquet")
    annotate(test, "out.parquet", out="out.jsonl")
    row = test.answers("out.jsonl")[0]
    assert row["a_mood"] in ("good", "bad") and row["a_n"] == 3 and row["a_x"] == 1.5 and row["a_ok"] is True, row
    assert row["a_list"] == '["a",1]' and row["a_ref"] == 7 and row["a_sheaf_prompt_tokens"] > 0 and row["a_sheaf_error"] is None, row


@case
def formats_combine_freely(test):
    write(test, "p.jinja", "{{ title }}")
    write_csv(test, "in.csv", [["title", "text"], ["a", "x,y"], ['b "q"', ""], ["ü", "line\nfeed"]])
    annotate(test, "in.csv", out="csv.parquet")
    annotate(test, "csv.parquet", "--prefix", "b_", out="back.csv")
    assert [row[:2] for row in read_csv(test, "back.csv")] == read_csv(test, "in.csv")
    annotate(test, "csv.parquet", "--prefix", "b_", "--into", "t", out="out.db")
    assert test.query("SELECT title, text FROM t", "out.db") == [tuple(row) for row in read_csv(test, "in.csv")[1:]]
    annotate(test, "out.db", "--table", "t", "--prefix", "c_", out="db.parquet")
    annotate(test, "db.parquet", "--prefix", "d_", out="db.jsonl")
    assert [row["title"] for row in test.answers("db.jsonl")] == ["a", 'b "q"', "ü"]
    write(test, "in.jsonl", '{"title":"a","n":1.50,"list":[1,"x"],"none":null}\n{"title":"b"}\n')
    annotate(test, "in.jsonl", out="jsonl.parquet")
    annotate(test, "jsonl.parquet", "--prefix", "b_", out="back.jsonl")
    first, second = test.answers("back.jsonl")
    assert (first["title"], first["n"], first["list"], first["none"], second["n"]) == ("a", "1.50", '[1,"x"]', None, None), (first, second)


@case
def a_pipe_and_the_options_of_formats(test):
    write(test, "p.jinja", "{{ title }}")
    take(test, "pyarrow_1_snappy", "data.bin")
    assert "data.bin: sheaf reads no Parquet here: sheaf annotate reads it" in annotate(test, "data.bin", status=1).err
    annotate(test, "data.bin", "--input-format", "parquet", "--output-format", "parquet", out="out.bin")
    annotate(test, "out.bin", "--input-format", "parquet", "--prefix", "b_", out="out.csv")
    assert [row["title"] for row in rows_of(test, "out.csv")] == [row["title"] for row in values()]
    done = annotate(test, take(test, "pyarrow_1_snappy", "in.csv"), status=1)
    assert "in.csv: sheaf reads no Parquet here: sheaf annotate reads it, by a name that ends in .parquet or --input-format parquet" in done.err, done


@case
def rows_that_are_left_out_are_null(test):
    write(test, "p.jinja", "{{ title }}")
    take(test, "pyarrow_1_snappy")
    annotate(test, "in.parquet", "--skip-empty", "--errors", "errors.jsonl", out="out.parquet")
    annotate(test, "out.parquet", "--prefix", "b_", out="out.jsonl")
    rows = test.answers("out.jsonl")
    assert [row["sheaf_finish_reason"] for row in rows] == [None if i % 5 == 3 else "stop" for i in range(ROWS)], rows
    errors = test.read("errors.jsonl").splitlines()
    assert [line.split(b",")[0] for line in errors] == [b'{"row":4', b'{"row":9'], errors
    assert b'"title":null,"n":0,' in errors[0] and b'"price":3.75,"tags":["a","b,c",null],"st":null}' in errors[0], errors


@case
def a_quoted_pattern_without_a_folder_is_the_files_of_this_one(test):
    write(test, "p.jinja", "{{ title }} {{ n }}")
    for name in ("a.parquet", "b.parquet"):
        take(test, "pyarrow_2_delta_length", name)
    annotate(test, "*.parquet", out="out.csv")
    assert [row["title"] for row in rows_of(test, "out.csv")] == 2 * [row["title"] for row in values()]


@case
def a_folder_is_one_table_in_the_order_of_its_names(test):
    write(test, "p.jinja", "{{ title }} {{ n }}")
    os.mkdir(test.path("data"))
    for name in ("data/b.parquet", "data/a.parquet"):
        take(test, "pyarrow_2_delta_length", name)
    for name in ("data/notes.txt", "data/.c.parquet", "data/_SUCCESS.parquet"):
        write(test, name, "no table")
    for path in ("data", "data/", "data/*.parquet"):
        annotate(test, path, "--store", "s.db", out="out.parquet")
        annotate(test, "out.parquet", "--store", "s.db", "--prefix", "b_", out="out.csv")
        rows = rows_of(test, "out.csv")
        assert [row["title"] for row in rows] == 2 * [row["title"] for row in values()], rows
        assert all(row["sheaf_finish_reason"] == "stop" for row in rows), rows
    content = bytearray(test.read("data/b.parquet"))
    content[30] ^= 255
    write(test, "data/b.parquet", bytes(content))
    done = annotate(test, "data", out="other.csv", status=1)
    assert 'data/b.parquet: column "title": page at byte 4: ' in done.err, done
    take(test, "pyarrow_1_lz4", "data/b.parquet")
    done = annotate(test, "data", out="other.csv", status=1)
    assert "data/b.parquet: its columns or their types are not the columns of data/a.parquet: " in done.err, done
    os.mkdir(test.path("many"))
    for i in range(501):
        write(test, f"many/{i}.parquet", "")
    assert "many: more than 500 Parquet files" in annotate(test, "many", status=1).err
    os.remove(test.path("many/7.parquet"))
    assert "many/0.parquet: a damaged Parquet file: it is too short" in annotate(test, "many", status=1).err
    os.mkdir(test.path("empty"))
    assert "empty: expected a file, or a folder with files *.parquet" in annotate(test, "empty", status=1).err


@case
def a_folder_with_rows_in_folders_is_refused(test):
    write(test, "p.jinja", "{{ title }}")
    os.makedirs(test.path("data/_temporary"))
    for name in ("data/a.parquet", "data/_temporary/b.parquet"):
        take(test, "pyarrow_1_snappy", name)
    os.mkdir(test.path("data/notes"))
    assert annotate(test, "data", out="out.csv").err.count("12 rows in out.csv") == 1
    take(test, "pyarrow_1_snappy", "data/notes/c.parquet")
    refusal = "data: the folder notes in it is not read: name the folders or files one by one, or 'data/*.parquet' without it"
    assert refusal in annotate(test, "data", out="out.csv", status=1).err
    assert "12 rows in out.csv" in annotate(test, "data/*.parquet", out="out.csv").err
    assert "24 rows in both.csv" in annotate(test, "data/*.parquet", "data/notes", out="both.csv").err
    os.makedirs(test.path("hive/year=2024/month=1"))
    take(test, "pyarrow_1_snappy", "hive/year=2024/month=1/a.parquet")
    assert "hive: the folder year=2024 in it is not read: " in annotate(test, "hive", out="out.csv", status=1).err


# Their logs name the files whose rows count; the others hold rows that were deleted.
@case
def files_of_a_table_with_a_log_are_refused(test):
    write(test, "p.jinja", "{{ title }}")
    for kind, log, folder in ((" Delta", "delta/_delta_log/0.json", "delta"), (" Delta", "parts/_delta_log/0.json", "parts/day=1"),
                              (" Hudi", "hudi/.hoodie/hoodie.properties", "hudi"), (" Hudi", "days/.hoodie/hoodie.properties", "days/2024/01"),
                              ("n Iceberg", "ice/metadata/v1.metadata.json", "ice/data")):
        for path in (os.path.dirname(log), folder):
            os.makedirs(test.path(path), exist_ok=True)
        write(test, log, "")
        for name in ("a", "b"):
            take(test, "pyarrow_1_snappy", f"{folder}/{name}.parquet")
        reason = f": a{kind} table, whose log says which files count: export it as Parquet"
        for paths in ([folder], [folder + "/"], [f"{folder}/*.parquet"], [f"{folder}/a.parquet", f"{folder}/b.parquet"]):
            assert f"{paths[0]}{reason}" in annotate(test, *paths, out="out.csv", status=1).err, (kind, paths)
        assert "12 rows in out.csv" in annotate(test, f"{folder}/a.parquet", out="out.csv").err  # a file that is named alone
        os.remove(test.path("out.csv.db"))
    os.makedirs(test.path("plain/metadata"))
    write(test, "plain/metadata/notes.json", "{}")
    take(test, "pyarrow_1_snappy", "plain/a.parquet")
    assert "12 rows in out.csv" in annotate(test, "plain/*.parquet", out="out.csv").err


@case
def answers_are_kept_when_the_format_of_the_output_changes(test):
    write(test, "p.jinja", "{{ title }} {{ n }}")
    take(test, "pyarrow_2_zstd")
    annotate(test, "in.parquet", "--store", "s.db", out="out.csv")
    tokens = computed(test, "s.db")
    annotate(test, "in.parquet", "--store", "s.db", out="out.parquet")
    annotate(test, "out.csv", "--store", "s.db", "--prefix", "b_", out="other.parquet")
    assert computed(test, "s.db") == tokens
    annotate(test, "in.parquet", "--store", "s.db", out="same.parquet")
    assert test.read("same.parquet") == test.read("out.parquet")


# ---- what is refused ----

def jobs(test, store):
    return test.query("SELECT count(*) FROM jobs", store) if test.exists(store) else [(0,)]


@case
def a_damaged_page_is_refused_before_a_job_is_queued_if_the_prompt_reads_it(test):
    content = bytearray(test.read(take(test, "pyarrow_1_snappy")))
    at = content.index(b"title 0")
    content[at] ^= 1
    write(test, "in.parquet", bytes(content))
    write(test, "p.jinja", "{{ n }}")
    annotate(test, "in.parquet", out="out.parquet")
    write(test, "p.jinja", "{{ title }}")
    done = annotate(test, "in.parquet", "--store", "s.db", out="other.parquet", status=1)
    assert 'in.parquet: column "title": page at byte 4: its checksum is another: it is damaged' in done.err, done
    assert jobs(test, "s.db") == [(0,)] and not test.exists("other.parquet")
    done = annotate(test, "in.parquet", "--prompt", "p.jinja", "--skip-bad-rows", "--store", "s.db", out="other.csv", status=1)
    assert "page at byte 4" in done.err and jobs(test, "s.db") == [(0,)], done


@case
def a_damaged_last_page_of_a_large_table_is_found_before_its_first_rows_are_queued(test):
    draw = random.Random(5)
    rows = [[str(i), draw.randbytes(600_000).hex() + "the mark %02d" % i] for i in range(20)]  # 16 MB of prompts are queued at once
    write_csv(test, "in.csv", [["title", "text"], *rows])
    write(test, "p.jinja", "{{ title }}")
    annotate(test, "in.csv", out="in.parquet")
    content = test.read("in.parquet")
    at = content.index(b"the mark 19")
    write(test, "in.parquet", content[:at] + b"T" + content[at + 1:])
    write(test, "p.jinja", "{{ text }}")
    done = annotate(test, "in.parquet", "--prefix", "b_", "--store", "s.db", status=1)
    assert re.search(r'in.parquet: column "text": page at byte [0-9]{7,}: its checksum is another', done.err), done
    assert jobs(test, "s.db") == [(0,)], done


@case
def a_file_that_is_cut_encrypted_or_another_is_refused_by_name(test):
    write(test, "p.jinja", "{{ title }}")
    content = test.read(take(test, "pyarrow_1_snappy"))
    for fault, words in ((content[:-1], "expected a Parquet file, which ends in PAR1: it is another file, or not whole"),
                         (content[:9000][:-8] + b"\xff\xff\xff\x7fPAR1", "its footer is larger than the file"),
                         (content[:-4] + b"PARE", "is encrypted: sheaf reads no encrypted Parquet"),
                         (b"title,text\na,b\n", "expected a Parquet file"), (b"", "too short")):
        write(test, "in.parquet", fault)
        done = annotate(test, "in.parquet", status=1)
        assert "in.parquet: " in done.err and words in done.err, done
        assert jobs(test, "out.csv.db") == [(0,)], done


@case
def a_column_that_is_not_read_is_refused_only_where_a_prompt_reads_it(test):
    take(test, "duckdb_brotli")
    for template, column, what in (("{{ st }}", "st", "a struct"), ("{{ iv }}", "iv", "an interval"),
                                   ("{% for name, value in row.items() %}{{ value }}{% endfor %}", "st", "a struct")):
        write(test, "p.jinja", template)
        done = annotate(test, "in.parquet", status=1)
        assert f'in.parquet: column "{column}" is {what}, which is not read: leave it out of the prompt' in done.err, done
        assert jobs(test, "out.csv.db") == [(0,)], done
    write(test, "p.jinja", "{{ title }}")
    assert "is not read" not in annotate(test, "in.parquet", out="out.parquet").err  # its bytes are copied
    done = annotate(test, "in.parquet")
    assert 'column "iv" is an interval, which is not read: it is empty in the output' in done.err, done


@case
def a_prompt_that_takes_a_text_for_a_boolean_or_a_list_is_refused(test):
    take(test, "pyarrow_1_snappy")
    boolean, items = 'column "ok" is a boolean, which a prompt reads as the text true or false', 'column "tags" is a list, which a prompt reads as a text'
    for template, refusal in (("{% if ok %}a{% endif %}", boolean), ("{{ 'a' if not row.ok else 'b' }}", boolean), ("{% if ok == true %}a{% endif %}", boolean),
                              ("{% if row['ok'] is true %}a{% endif %}", boolean), ("{% for tag in tags or [] %}{{ tag }}{% endfor %}", items),
                              ("{% for tag in tags %}{{ tag }}{% endfor %}", items), ("{{ tags|join(', ') }}", items), ("{{ tags[0] }}", items),
                              ("{% if 'a' in tags %}a{% endif %}", items), ("{% if tags %}a{% endif %}", items),
                              ("{% if ok == 'true' %}a{% endif %}{{ tags }}", None), ("{% if ok is none or tags is none %}a{% endif %}", None)):
        write(test, "p.jinja", template + " {{ title }}")
        done = annotate(test, "in.parquet", status=1 if refusal else 0)
        assert not refusal or refusal in done.err, (template, done)
    # texts of CSV and values of JSON lines are what they are
    for name, content in (("in.csv", "title,ok,tags\na,false,[]\n"), ("in.jsonl", '{"title": "a", "ok": false, "tags": []}\n')):
        write(test, name, content)
        write(test, "p.jinja", "{% if ok %}a{% endif %}{{ tags|length }}")
        annotate(test, name)


@case
def gold_labels_are_read_from_a_column_that_no_prompt_reads(test):
    write(test, "p.jinja", "{{ n }}")
    take(test, "pyarrow_1_snappy")
    done = annotate(test, "in.parquet", "--choice", "title 0,title 1,title 2,title 3", "--evaluate", "title", out="out.parquet")
    assert "accuracy" in done.out, done
    database = sqlite3.connect(test.path("out.parquet.db"))
    assert database.execute("SELECT sum(n) FROM evaluations WHERE gold LIKE 'title%'").fetchone()[0] == sum(i % 5 != 3 for i in range(ROWS))
    database.close()
