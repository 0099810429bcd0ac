"""The answers in the tables that sheaf annotate writes: values of JSON, columns of schemas, labels, and what is compared with gold
labels. Stored answers are replaced by others where the model would have to be persuaded of them."""
import json
import sqlite3

from annotate import BESIDE, annotate, read_csv, table, write, write_csv
from session import case


def set_answers(test, texts, store="out.csv.db", reason="stop"):
    """Replaces the stored answers in the order of their jobs; the same command then writes these."""
    database = sqlite3.connect(test.path(store))
    records = database.execute("SELECT job, CAST(record AS TEXT) FROM results ORDER BY job").fetchall()
    for (job, record), text in zip(records, texts, strict=True):
        record = json.loads(record)
        record["choices"][0].update(text=text, finish_reason=reason)
        database.execute("UPDATE stored_results SET record = ?, frame = NULL WHERE job = ?", (json.dumps(record).encode(), job))
    database.commit()
    database.close()


def write_schema(test, schema, name="s.json"):
    return write(test, name, json.dumps(schema))


# ---- schemas ----

@case
def a_key_that_occurs_twice_in_an_answer_counts_by_its_last_member(test):
    write_csv(test, "in.csv", [["title", "text"], ["a", "1"], ["b", "2"], ["c", "3"], ["d", "4"]])
    write_schema(test, {"type": "object", "properties": {"u": {"const": True}, "o": {"type": "object"}}, "required": ["u", "o"],
                        "additionalProperties": {"enum": ["a", "b"]}})
    options = ("in.csv", "--schema", "s.json", "--max-tokens", "200")
    annotate(test, *options, status=None)
    set_answers(test, ['{"u":true,"o":{},", ":"a",", ":"b"}', '{"u":true,"o":{"x":1,"x":2.50}}', '{"u":true,"o":{},"\\u0000":"a"}', '{"u":true,'])
    done = annotate(test, *options, status=3)
    out = [dict(zip(read_csv(test, "out.csv")[0], row)) for row in read_csv(test, "out.csv")[1:]]
    assert [row["u"] for row in out] == ["true", "true", "true", ""] and out[1]["o"] == '{"x":2.50}', out
    assert [row["sheaf_error"] for row in out[:3]] == ["", "", ""] and "no JSON: not valid JSON: byte 10" in out[3]["sheaf_error"], out
    assert "--retry-failed" not in done.err, done  # the label would have the same text


@case
def a_schema_of_one_value_gives_the_value_itself(test):
    schemas = {"word": {"enum": ["yes"]}, "text": {"type": "string", "enum": ["a \"b\""]}, "boolean": {"type": "boolean", "enum": [False]},
               "number": {"type": "integer", "minimum": 7, "maximum": 7}, "list": {"const": [1, "x"]}, "object": {"const": {"a": None}}}
    values = {"word": "yes", "text": 'a "b"', "boolean": False, "number": 7, "list": [1, "x"], "object": {"a": None}}
    cells = {"word": "yes", "text": 'a "b"', "boolean": "false", "number": "7", "list": '[1,"x"]', "object": '{"a":null}'}
    gold = {"word": "yes ", "text": 'a "b"', "boolean": "False", "number": "7.0", "list": '[1,"x"]', "object": '{"a":null}'}
    for name, schema in schemas.items():
        write_schema(test, schema)
        write_csv(test, "in.csv", [["title", "text", "gold"], ["a", "b", gold[name]], ["c", "d", "other"]])
        options = ("in.csv", "--schema", "s.json", "--store", name + ".db", "--max-tokens", "60")
        done = annotate(test, *options, "--evaluate", "gold")
        assert [row[3:] for row in read_csv(test, "out.csv")[1:]] == 2 * [[cells[name], "stop", ""]], (name, test.read("out.csv"))
        assert "accuracy: 0.5000" in done.out, (name, done.out)
        if name != "number":  # the range is not a list of labels
            assert 'gold labels that no answer can be: "other" (1 row' in done.out, done.out
        classes = test.query("SELECT DISTINCT answer FROM evaluations", name + ".db")
        assert classes == [(cells[name],)], (name, classes)
        if name in ("word", "text", "boolean"):
            labels = test.query("SELECT label, n FROM table_labels", name + ".db")
            assert labels == [(cells[name], 2)], labels
        annotate(test, *options, out="out.jsonl")
        assert [row["answer"] for row in test.answers("out.jsonl")] == 2 * [values[name]], (name, test.answers("out.jsonl"))
    write_schema(test, schemas["boolean"])
    annotate(test, "in.csv", "--schema", "s.json", "--into", "t", "--store", "jobs.db", out="out.db")
    assert test.query("SELECT DISTINCT answer, typeof(answer) FROM t", "out.db") == [(0, "integer")]


@case
def an_answer_that_was_cut_is_none_whatever_constrains_it(test):
    write_csv(test, "in.csv", table(3))
    write(test, "regex.json", json.dumps({"structured_outputs": {"regex": "[ab]{40}"}}))
    write(test, "any.json", json.dumps({"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"const": "abcdefgh"}}}}))
    write(test, "list.json", json.dumps({"type": "array", "items": {"type": "integer"}, "minItems": 30}))
    write(test, "object.json", json.dumps({"type": "object", "minProperties": 1}))
    write(test, "number.json", json.dumps({"const": 12345678}))
    for given in (["--parameters", "regex.json"], ["--parameters", "any.json"], ["--schema", "list.json"], ["--schema", "object.json"],
                  ["--schema", "number.json"]):
        done = annotate(test, "in.csv", *given, "--max-tokens", "2", out=given[1] + ".csv", status=3)
        assert "3 were cut off: a larger --max-tokens" in done.err and "--retry-failed" not in done.err, done
        assert all(row[3] == "" and row[4] == "length" and "max-tokens" in row[5] for row in read_csv(test, given[1] + ".csv")[1:])
    annotate(test, "in.csv", "--max-tokens", "2", out="free.csv")  # free text is a valid answer wherever it ends
    # a label that is a prefix of another may be a cut answer; so may "12" of a number
    annotate(test, "in.csv", "--choice", "no,no idea", out="labels.csv")
    set_answers(test, ["no"] * 3, "labels.csv.db", "length")
    annotate(test, "in.csv", "--choice", "no,no idea", out="labels.csv", status=3)
    write_schema(test, {"type": "integer"})
    annotate(test, "in.csv", "--schema", "s.json", out="numbers.csv", status=None)
    set_answers(test, ["12"] * 3, "numbers.csv.db", "length")
    annotate(test, "in.csv", "--schema", "s.json", out="numbers.csv", status=3)
    assert [row[3] for row in read_csv(test, "numbers.csv")[1:]] == [""] * 3


@case
def properties_that_always_apply_are_columns_wherever_the_schema_has_them(test):
    write_csv(test, "in.csv", [["title", "text", "gold"], ["a", "b", "x"], ["c", "d", "y"]])
    mood = {"type": "object", "properties": {"s": {"enum": ["x"]}}, "required": ["s"]}
    own = {"type": "object", "properties": {"u": {"type": "boolean"}}, "required": ["u"]}
    closed = {"additionalProperties": False}
    cases = [({**own, "allOf": [mood]}, ["u", "s"]),
             ({"$ref": "#/$defs/a~1b", "$defs": {"a/b": {"$ref": "#/$defs/c"}, "c": mood}}, ["s"]),
             ({**own, "allOf": [{"$ref": "#/$defs/c"}], "$defs": {"c": {**mood, "allOf": [{"properties": {"t": {"const": 1}}, "required": ["t"]}]}}},
              ["u", "s", "t"]),
             ({"properties": mood["properties"], "required": ["s"]}, ["s"]),
             # other columns may follow, before the column of the whole answer
             ({**own, "additionalProperties": {"enum": ["a", "b"]}}, ["u", "answer"]),
             ({**own, "anyOf": [mood, {"properties": {"z": {"const": 1}}, "required": ["z"]}]}, ["u", "answer"]),
             ({**own, "patternProperties": {"^k": {"const": 1}}, **closed}, ["u", "answer"]),
             ({"properties": {"answer": {"const": 1}}, "required": ["answer"], "additionalProperties": {"const": 2}, "type": "object"},
              ["answer", "answer_json"]),
             ({"type": ["object", "null"], "properties": mood["properties"], **closed}, ["s", "answer"]),
             ({"$schema": "http://json-schema.org/draft-07/schema#", **own, "allOf": [mood]}, ["u", "s", "answer"]),
             ({**own, "required": ["u", "z"]}, ["u", "answer"]),
             ({"anyOf": [mood, own]}, ["answer"])]
    for number, (schema, columns) in enumerate(cases):
        write_schema(test, schema)
        store = f"{number}.db"
        annotate(test, "in.csv", "--schema", "s.json", "--max-tokens", "200", "--store", store, "--parameters",
                 write(test, "close.json", json.dumps({"close_at_max_tokens": True})), engine=None)
        head, *rows = read_csv(test, "out.csv")
        assert head[3:-2] == columns, (schema, head)
        last = test.query("SELECT json_extract(results.record, '$.choices[0].text') FROM results ORDER BY job", store)
        for row, (text,) in zip(rows, last, strict=True):
            row, answer = dict(zip(head, row)), json.loads(text)
            assert row["sheaf_error"] == "", (schema, row)
            if columns[-1].startswith("answer"):
                assert json.loads(row[columns[-1]] or "null") == answer, (row, answer)
            else:
                assert set(answer) <= set(columns), (answer, columns)
            for name in [name for name in columns if isinstance(answer, dict) and name in answer]:
                cell = answer[name] if isinstance(answer[name], str) else json.dumps(answer[name])
                assert row[name] == cell, (name, row, answer)
    write_schema(test, cases[0][0])
    done = annotate(test, "in.csv", "--schema", "s.json", "--evaluate", "gold=s", out="gold.csv", engine=None)
    assert "accuracy: 0.5000" in done.out and 'no answer can be: "y" (1 row' in done.out, done


@case
def a_property_that_an_answer_lacks_is_no_null(test):
    write_csv(test, "in.csv", [["title", "text"], ["a", "1"], ["b", "2"], ["c", "3"], ["d", "4"]])
    write_schema(test, {"type": "object", "properties": {"s": {"type": ["integer", "null"]}, "t": {"type": "array", "items": {"enum": ["x"]}, "maxItems": 1}}})
    options = ("in.csv", "--schema", "s.json", "--max-tokens", "200", "--store", "s.db")
    annotate(test, *options, out="out.jsonl", status=None)
    set_answers(test, ['{"s":null}', '{"t":[]}', '{}', '{"s":'], store="s.db")
    annotate(test, *options, out="out.jsonl", status=3)
    lines = [json.loads(line) for line in test.read("out.jsonl").splitlines()]
    assert [list(line.items())[2:4] for line in lines[:2]] == [[("s", None), ("sheaf_finish_reason", "stop")], [("t", []), ("sheaf_finish_reason", "stop")]], lines
    assert "s" not in lines[2] and "t" not in lines[2] and (lines[3]["s"], lines[3]["t"]) == (None, None), lines  # a failed row has all
    annotate(test, *options, status=3)
    assert [row[2:4] for row in read_csv(test, "out.csv")[1:]] == [["", ""], ["", "[]"], ["", ""], ["", ""]], test.read("out.csv")


@case
def a_value_that_is_no_object_is_an_answer_where_the_schema_allows_it(test):
    write_csv(test, "in.csv", [["title", "text"], ["a", "b"], ["c", "d"]])
    write_schema(test, {"type": ["object", "null"], "properties": {"s": {"enum": ["x"]}}, "required": ["s"], "additionalProperties": False})
    options = ("in.csv", "--schema", "s.json", "--max-tokens", "60")
    annotate(test, *options)
    set_answers(test, ["null", '{"s":"x"}'])
    annotate(test, *options)
    assert [row[2:] for row in read_csv(test, "out.csv")] == [["s", "answer", *BESIDE], ["", "", "stop", ""], ["x", '{"s":"x"}', "stop", ""]]


@case
def a_schema_may_be_in_the_wrapper_of_a_response_format(test):
    write_csv(test, "in.csv", [["title", "text"], ["a", "b"]])
    schema = {"type": "object", "properties": {"s": {"enum": ["x"]}}, "required": ["s"]}
    wrapper = {"name": "mood", "strict": True, "schema": schema}
    for file in (wrapper, {"schema": schema}, {**wrapper, "description": "d"}, {"type": "json_schema", "json_schema": wrapper},
                 {"response_format": {"type": "json_schema", "json_schema": wrapper}}, {"type": "json_object", "schema": schema},
                 {"response_format": {"type": "json_object", "schema": schema}}):
        done = annotate(test, "in.csv", "--schema", write_schema(test, file))
        assert read_csv(test, "out.csv")[0][2:-2] == ["s"] and "s.json: a response_format of OpenAI's" in done.err, (file, done)
    assert test.query("SELECT count(*) FROM jobs", "out.csv.db") == [(1,)]
    for file, names in (({"name": "x", "schema": schema, "type": "object"}, '"name", "schema"'), ({"type": "object", "propertes": {}}, '"propertes"'),
                        ({"nullable": True, "title": "t"}, '"nullable"')):
        done = annotate(test, "in.csv", "--schema", write_schema(test, file), "--max-tokens", "60", out="other.csv", status=None)
        assert f"warning: s.json: the schema names no properties, and JSON Schema has no keyword {names}\n" in done.err, done
    for file in (schema, {"enum": ["x"], "x-note": 1}, {**schema, "version": 2}):
        done = annotate(test, "in.csv", "--schema", write_schema(test, file), out="plain.csv")
        assert "response_format" not in done.err and "has no keyword" not in done.err, done


# ---- answers that are reused ----

def n_computed(test, store="out.csv.db"):
    return test.query("SELECT count(*) FROM jobs WHERE NOT is_duplicate AND status = 'done'", store)[0][0]


@case
def answers_that_ended_by_themselves_are_kept_when_max_tokens_is_raised(test):
    write_csv(test, "in.csv", [["title", "text"]] + [[f"title {i}", "b"] for i in range(12)])
    write_schema(test, {"type": "object", "properties": {"m": {"type": "string", "maxLength": 30}}, "required": ["m"]})
    options = ("in.csv", "--schema", "s.json")
    done = annotate(test, *options, "--max-tokens", "24", engine=None, status=None)
    reasons = [row[-2] for row in read_csv(test, "out.csv")[1:]]
    n_stop = reasons.count("stop")
    assert 0 < n_stop and {"stop", "length"} >= set(reasons), (reasons, done)
    annotate(test, *options, "--max-tokens", "100", "--figures", engine=None)
    assert n_computed(test) == 12 + reasons.count("length"), (n_computed(test), reasons)
    raised = test.read("out.csv")
    annotate(test, *options, "--max-tokens", "100", "--figures", out="fresh.csv", engine=None)
    assert test.read("fresh.csv") == raised, raised
    # a limit that exceeds the context is refused, also if all rows are answered
    annotate(test, *options, "--max-tokens", "100000", engine=None, status=3)
    assert all("context holds" in row[-1] for row in read_csv(test, "out.csv")[1:])
    annotate(test, *options, "--max-tokens", "101", "--no-reuse", engine=None)
    assert n_computed(test) == 24 + reasons.count("length"), n_computed(test)
    # a given seed; a seed hashed from the request depends on the limit
    annotate(test, *options, "--max-tokens", "100", "--temperature", "0.7", out="drawn.csv", engine=None)
    annotate(test, *options, "--max-tokens", "110", "--temperature", "0.7", out="drawn.csv", engine=None)
    assert n_computed(test, "drawn.csv.db") == 24
    write(test, "seed.json", '{"seed": 7}')
    for most in ("100", "110"):
        annotate(test, *options, "--max-tokens", most, "--temperature", "0.7", "--parameters", "seed.json", out="seeded.csv", engine=None)
    assert n_computed(test, "seeded.csv.db") == 12


@case
def an_answer_that_ended_under_any_limit_has_the_bytes_of_a_larger_one(test):
    write_csv(test, "in.csv", [["title", "text"], ["a", "b"]])
    schemas = [{"enum": ["yes", "no idea"]}, {"type": "object", "properties": {"a": {"enum": ["x y", "z"]}, "b": {"type": "boolean"}},
               "required": ["a", "b"]}, {"type": "array", "items": {"const": "abc"}, "maxItems": 3}]
    for number, schema in enumerate(schemas):
        write_schema(test, schema)
        options = ("in.csv", "--schema", "s.json", "--figures", "--store", f"{number}.db")
        annotate(test, *options, "--max-tokens", "60", "--no-reuse", engine=None)
        whole = test.read("out.csv")
        for most in range(1, 30):  # an answer cut by its limit has no end token
            annotate(test, *options, "--max-tokens", str(most), "--no-reuse", "--dataset", f"d{most}", engine=None, status=None)
            annotate(test, *options, "--max-tokens", "60", "--dataset", f"d{most}", engine=None)
            assert test.read("out.csv") == whole, (most, schema)


@case
def equal_requests_of_another_dataset_and_other_annotations_of_a_schema_are_answered(test):
    write_csv(test, "in.csv", table(5))
    n = len({tuple(row) for row in table(5)[1:]})
    schema = {"type": "object", "properties": {"m": {"enum": ["x", "y"]}}, "required": ["m"]}
    write_schema(test, schema)
    options = ("in.csv", "--schema", "s.json", "--store", "jobs.db")
    annotate(test, *options, "--dataset", "first")
    annotate(test, *options, "--dataset", "second", out="second.csv")
    assert test.read("second.csv") == test.read("out.csv") and n_computed(test, "jobs.db") == n
    schema["properties"]["m"]["description"], schema["title"] = "the mood", "Mood"
    write_schema(test, schema)
    annotate(test, *options, "--dataset", "first")
    assert test.query("SELECT count(*) FROM jobs", "jobs.db") == [(2 * n,)], "a description makes no other request"
    annotate(test, *options, "--dataset", "third", "--no-reuse", out="third.csv")
    assert test.read("third.csv") == test.read("out.csv") and n_computed(test, "jobs.db") == 2 * n


# ---- labels and votes ----

@case
def votes_that_are_no_answers_count_for_nothing(test):
    write_csv(test, "in.csv", [["title", "text"], ["a", "b"]])
    options = ("in.csv", "--choice", "x,y", "--votes", "5")
    annotate(test, *options, engine=None)
    set_answers(test, ["", "", "y", "x", "y"])
    annotate(test, *options, engine=None)
    assert read_csv(test, "out.csv")[1][2:] == ["y", "0.4", "stop", ""], test.read("out.csv")
    set_answers(test, [""] * 5, reason="length")
    annotate(test, *options, engine=None, status=3)
    assert read_csv(test, "out.csv")[1][2:5] == ["", "", "length"], test.read("out.csv")
    write_schema(test, {"type": "object", "properties": {"m": {"enum": ["x", "y"]}}, "required": ["m"], "additionalProperties": {"enum": [1]}})
    options = ("in.csv", "--schema", "s.json", "--votes", "3", "--max-tokens", "60")
    annotate(test, *options, out="s.csv", engine=None, status=None)
    set_answers(test, ['{"m":"x"', '{"m":"y","k":1,"k":1}', '{"m":"y","k":1}'], "s.csv.db")
    annotate(test, *options, engine=None, out="s.csv")
    row = dict(zip(*read_csv(test, "s.csv")))
    assert (row["m"], row["agreement_m"][:5], row["sheaf_error"]) == ("y", "0.666", ""), row


@case
def votes_on_a_schema_are_counted_for_each_property_of_few_values(test):
    write_csv(test, "in.csv", [["title", "text"], ["a", "b"]])
    write_schema(test, {"type": "object", "properties": {
        "why": {"type": "string"}, "mood": {"enum": ["neg", "neu", "pos"]}, "stars": {"type": "integer", "minimum": 1, "maximum": 5},
        "tags": {"type": "array", "items": {"enum": ["p", "q", "r"]}}, "score": {"type": "number"}},
        "required": ["why", "mood", "stars", "tags", "score"], "additionalProperties": False})
    options = ("in.csv", "--schema", "s.json", "--votes", "5", "--max-tokens", "200")
    annotate(test, *options, engine=None, status=None)
    set_answers(test, [json.dumps(dict(zip(("why", "mood", "stars", "tags", "score"), draw))) for draw in (
        ("one", "neg", 2, ["p", "q"], 0.1), ("two", "neu", 3, ["q"], 0.2), ("three", "neu", 3, ["q", "r"], 0.3), ("four", "neu", 4, ["q"], 0.4),
        ("five", "pos", 3, ["p"], 0.5))])
    annotate(test, *options, engine=None)
    header, row = read_csv(test, "out.csv")
    # answers two and three have the winning mood and stars, two also the tags: its text and number are used
    assert header[2:] == ["why", "mood", "stars", "tags", "score", "agreement_mood", "agreement_stars", "agreement_tags", *BESIDE], header
    assert row[2:] == ["two", "neu", "3", '["q"]', "0.2", "0.6", "0.6", "0.6", "stop", ""], row
    # a schema without a property to vote on: the most frequent whole answer, with a warning
    write_schema(test, {"type": "object", "properties": {"why": {"type": "string", "maxLength": 4}}, "required": ["why"]})
    options = ("in.csv", "--schema", "s.json", "--votes", "3", "--max-tokens", "60")
    annotate(test, *options, engine=None, out="t.csv", status=None)
    set_answers(test, ['{"why":"a"}', '{"why":"b"}', '{"why":"b"}'], "t.csv.db")
    done = annotate(test, *options, engine=None, out="t.csv")
    assert "no property of the schema is voted on" in done.err and read_csv(test, "t.csv")[1][2:] == ["b", "stop", ""], done


@case
def probabilities_of_a_label_that_begins_another_one_are_of_the_whole_label(test):
    write_csv(test, "in.csv", table(6))
    for choice, has_end in (("no,no idea", True), ("no,yes", False)):
        annotate(test, "in.csv", "--choice", choice, "--probabilities", out=f"{has_end}.csv", engine=None)
        record, = test.query("SELECT CAST(record AS TEXT) FROM records LIMIT 1", f"{has_end}.csv.db")[0]
        assert json.loads(record).get("choice_logprobs_include_end", False) == has_end, record
    for row in read_csv(test, "True.csv")[1:]:  # without the end token "no" would have slightly less than 0.5
        assert row[3] == ["no", "no idea"][float(row[5]) > float(row[4])], row


@case
def probabilities_of_a_schema_of_one_enum_are_those_of_its_answers_as_choices(test):
    write_csv(test, "in.csv", table(6))
    for schema, name, values in (({"enum": ["warm", "cold", "x,y"]}, "tone", ["warm", "cold", "x,y"]), ({"enum": [1, 10, None]}, "k", ["1", "10", "null"]),
                                 ({"type": "boolean"}, "ok", ["true", "false"])):
        write_schema(test, {"type": "object", "properties": {name: schema}, "required": [name]})
        annotate(test, "in.csv", "--schema", "s.json", "--probabilities", out=f"{name}.csv", engine=None)
        out = read_csv(test, f"{name}.csv")
        assert out[0][3:] == [name] + [f"{name}_{value}" for value in values] + [f"{name}_margin", *BESIDE], out[0]
        texts = [json.dumps({name: json.loads(value) if schema.get("enum") != ["warm", "cold", "x,y"] else value}, separators=(",", ":")) for value in values]
        choices = [option for text in texts for option in ("--choice", '"' + text.replace('"', '""') + '"')]
        annotate(test, "in.csv", *choices, "--probabilities", out="choices.csv", engine=None)
        for row, other in zip(out[1:], read_csv(test, "choices.csv")[1:]):
            assert row[4:-2] == other[4:-2] and texts[values.index(row[3] or "null")] == other[3], (row, other)
            assert abs(sum(map(float, row[4:-3])) - 1) < 1e-6 and max(range(len(values)), key=lambda i: float(row[4 + i])) == values.index(row[3] or "null")
    write(test, "q.json", json.dumps([{"name": "a", "prompt": "Which?", "schema": {"type": "object", "properties": {"tone": {"enum": ["x", "y"]}}, "required": ["tone"]}},
                                      {"name": "b", "prompt": "What?", "schema": {"type": "object", "properties": {"u": {"const": 1}, "v": {"const": 2}}}}]))
    annotate(test, "in.csv", "--questions", "q.json", "--probabilities", out="q.csv", engine=None)
    assert read_csv(test, "q.csv")[0][3:9] == ["a_tone", "a_tone_x", "a_tone_y", "a_tone_margin", "b_u", "b_v"], read_csv(test, "q.csv")[0]
    for schema in ({"properties": {"u": {"type": "string"}}, "required": ["u"]}, {"properties": {"u": {"enum": [["x"]]}}, "required": ["u"]},
                   {"properties": {"u": {"const": "x"}, "v": {"type": "string"}}},
                   {"properties": {"u": {"enum": ["x", "y"], "not": {"const": "x"}}}, "required": ["u"]},  # x is no answer
                   {"properties": {"u": {"enum": [1, "z"], "type": "integer"}}, "required": ["u"]}):
        write_schema(test, {"type": "object", **schema})
        done = annotate(test, "in.csv", "--schema", "s.json", "--probabilities", status=2)
        assert "needs --choice, or a schema with a property that is an enum or a boolean" in done.err, (schema, done.err)


@case
def probabilities_of_several_properties_are_of_their_values_after_the_answer_before_them(test):
    write_csv(test, "in.csv", [[*row, gold] for row, gold in zip(table(6), ["gold", "x", "y", "x", "y", "x"])])
    properties = {"why": {"type": "string", "maxLength": 4}, "tone": {"enum": ["x", "y"]}, "ok": {"type": ["boolean", "null"]}}
    write_schema(test, {"type": "object", "properties": properties, "required": ["why", "tone"]})
    options = ("in.csv", "--schema", "s.json", "--max-tokens", "120")
    done = annotate(test, *options, "--probabilities", "--evaluate", "gold=tone", "--differences", "d.csv", out="p.csv", engine=None)
    annotate(test, *options, out="plain.csv", engine=None)
    out, plain = read_csv(test, "p.csv"), read_csv(test, "plain.csv")
    scored = ["tone_x", "tone_y", "tone_margin", "ok_true", "ok_false", "ok_null", "ok_margin"]
    assert out[0][4:] == ["why", "tone", "ok", *scored, *BESIDE], out[0]
    records = [json.loads(record) for record, in test.query("SELECT CAST(record AS TEXT) FROM results ORDER BY job", "p.csv.db")]
    for row, other, record in zip(out[1:], plain[1:], records, strict=True):
        assert row[4:7] == other[4:7] and row[-2:] == other[-2:], (row, other)  # the same answers
        tone, ok = row[7:9], row[10:13]
        assert abs(sum(map(float, tone)) - 1) < 1e-6 and abs(float(row[9]) - abs(float(tone[0]) - float(tone[1]))) < 1e-6, row
        if row[6] or record["choices"][0]["text"].endswith("null}"):
            assert abs(sum(map(float, ok)) - 1) < 1e-6 and float(row[13]) >= 0, row
        else:
            assert ok == ["", "", ""] and row[13] == "", row
        found = {score["choice"]: score["probability"] for score in record["choice_logprobs"]}
        assert abs(float(tone[0]) - found['{"tone":"x"}']) < 1e-6, (row, found)
    for row in read_csv(test, "d.csv")[1:]:  # sheaf_row, ..., sheaf_answer, sheaf_probability
        assert row[-1] == out[int(row[-5])][7 + ["x", "y"].index(row[-2])], row
    assert "accuracy" in done.out, done.out
    drawn = annotate(test, *options, "--probabilities", "--votes", "3", "--temperature", "1", out="votes.csv", engine=None)
    assert all(abs(float(row[7]) + float(row[8]) - 1) < 1e-6 for row in read_csv(test, "votes.csv")[1:]), drawn


@case
def a_label_in_quotes_may_have_a_comma(test):
    write_csv(test, "in.csv", [["title", "text", "gold"]] + [[f"title {i}", "b", ["x,y", "z", 'a"b'][i % 3]] for i in range(12)])
    done = annotate(test, "in.csv", "--choice", '"x,y", z ,"a""b"', "--probabilities", "--evaluate", "gold", engine=None)
    out = read_csv(test, "out.csv")
    assert out[0][3:8] == ["label", "x,y", "z", 'a"b', "margin"] and {row[3] for row in out[1:]} <= {"x,y", "z", 'a"b'}, out
    assert "no answer can be" not in done.out, done.out
    for choice, words in (('"x,y', "a quote is not closed"), ('"x" y', "expected a comma"), ('x,""', "a label is empty")):
        assert words in annotate(test, "in.csv", "--choice", choice, status=2).err
    lines = test.run("grammar", test.model, "--choice", '"the,in",the', stdin="the,in\nthe\nin\n").out.splitlines()[1:]
    assert [line.startswith("accepted") for line in lines] == [True, True, False], lines


# ---- gold labels ----

@case
def null_is_a_label_and_a_missing_property_is_no_answer(test):
    prompt = ["--prompt", write(test, "t.jinja", "{{ t }}")]
    write_schema(test, {"type": "object", "properties": {"s": {"enum": [None]}}, "required": ["s"]})
    write(test, "in.jsonl", '{"t":"a","g":"null"}\n{"t":"b","g":null}\n{"t":"c"}\n{"t":"d","g":""}\n{"t":"e","g":"x"}\n')
    for schema in ({"enum": [None]}, {"type": "object", "properties": {"s": {"enum": [None]}}, "required": ["s"]}):
        write_schema(test, schema)
        store = f"{len(schema)}.db"
        done = annotate(test, "in.jsonl", *prompt, "--schema", "s.json", "--evaluate", "g", "--store", store, out="out.jsonl")
        assert "rows with a gold label: 3\naccuracy: 0.6667" in done.out and "(no answer)" not in done.out, done
        assert "rows without a gold label, left out: 2\n" in done.out and 'no answer can be: "x" (1 row' in done.out, done
        assert test.query("SELECT gold, answer, n FROM evaluations ORDER BY gold", store) == [("null", "null", 2), ("x", "null", 1)]
        assert [row.get("s", row.get("answer", 0)) for row in test.answers("out.jsonl")] == 5 * [None]
        assert test.query("SELECT label, n FROM table_labels", store) == [("null", 5)]
    write(test, "in.csv", "t,g\na,null\nb,\nc,x\n")
    done = annotate(test, "in.csv", *prompt, "--schema", "s.json", "--evaluate", "g")
    assert "rows with a gold label: 2\naccuracy: 0.5000" in done.out and "left out: 1\n" in done.out, done
    # a gold null that no answer can equal: a row without a label
    write_schema(test, {"type": "object", "properties": {"s": {"enum": ["x", None]}, "o": {"enum": ["x"]}}, "required": ["s"]})
    options = ("in.jsonl", *prompt, "--schema", "s.json", "--max-tokens", "60", "--store", "n.db")
    annotate(test, *options)
    set_answers(test, ['{"s":null,"o":"x"}', '{"s":"x","o":"x"}', '{"s":null}', '{"s":"x"}', '{"s":"x"}'], "n.db")
    done = annotate(test, *options, "--evaluate", "g=o")
    assert "left out: 3, 1 of them with a null, which no answer can be\n" in done.out, done
    assert test.query("SELECT gold, answer, n FROM evaluations ORDER BY gold", "n.db") == [("null", "x", 1), ("x", "", 1)]
    assert test.query("SELECT property, label, n FROM table_labels ORDER BY 1, 2", "n.db") == [("o", "x", 2), ("s", "null", 2), ("s", "x", 3)]
    done = annotate(test, *options, "--evaluate", "g=s")
    assert "rows with a gold label: 3\naccuracy: 0.6667" in done.out, done


@case
def more_gold_labels_than_an_evaluation_has_are_refused_before_anything_is_computed(test):
    write_csv(test, "in.csv", [["title", "text", "g"]] + [[f"a {i}", "b", f"label {i}"] for i in range(513)])
    for how in ([], ["--sample", "513"], ["--reorder"]):
        done = annotate(test, "in.csv", "--choice", "x,y", "--evaluate", "g", *how, status=1)
        assert 'column "g" has more than 512 different gold labels' in done.err and "Nothing was computed" in done.err, done
        assert test.query("SELECT count(*) FROM results", "out.csv.db") == [(0,)] and not test.exists("out.csv")
    write_csv(test, "in.csv", [["title", "text", "g"]] + [[f"a {i}", "b", f"label {i % 510} "] for i in range(600)])
    done = annotate(test, "in.csv", "--choice", "x,y", "--evaluate", "g")
    assert "rows with a gold label: 600\n" in done.out and test.query("SELECT count(*) FROM evaluations", "out.csv.db")[0][0] >= 510, done.out


@case
def an_evaluation_with_too_many_answers_costs_not_the_table(test):
    write_csv(test, "in.csv", [["title", "text", "g"]] + [[f"a {i}", "b", "x"] for i in range(600)])
    annotate(test, "in.csv", "--max-tokens", "4")
    set_answers(test, [f"answer {i}" for i in range(600)])
    for how in ([], ["--sample", "600"]):
        done = annotate(test, "in.csv", "--max-tokens", "4", "--evaluate", "g", *how, status=1)
        assert "no evaluation: --evaluate: more than 512 different labels" in done.out and "more than 512" in done.err, done
    assert "the table is written, to out.csv" in annotate(test, "in.csv", "--max-tokens", "4", "--evaluate", "g", status=1).err
    assert len({row[3] for row in read_csv(test, "out.csv")[1:]}) == 600
    assert test.query("SELECT count(*) FROM evaluations", "out.csv.db") == [(0,)]
