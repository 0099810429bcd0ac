"""sheaf annotate --questions: several columns for one reading of a row. Each question is answered as a run of its own would answer it, and
the row's tokens are computed once."""
import json
import re
import signal

import metrics
import page
from annotate import BESIDE, annotate, computed, read_csv, table, tokens_of_steps, write, write_csv
from session import case

ROW = "Is {{ title }} good? {{ text }}"
QUESTIONS = [
    {"name": "tone", "prompt": "Which tone?", "choice": ["warm", "cold", "yes"]},
    {"name": "score", "prompt": "How many?", "schema": {"type": "object", "properties": {"n": {"type": "integer", "minimum": 1, "maximum": 5},
                                                                                         "sure": {"type": "boolean"}}, "required": ["n", "sure"]}},
    {"name": "code", "prompt": "Which code of {{ n }}?", "regex": "[A-C]{2}", "max_tokens": 8},
    {"name": "free", "prompt": "What else?", "max_tokens": 5},
]
COLUMNS = ["tone", "score_n", "score_sure", "code", "free"]


def ask(test, questions=QUESTIONS, *options, table="in.csv", name="q.json", **others):
    if questions is not None:
        write(test, name, questions if isinstance(questions, str) else json.dumps(questions))
    write(test, "p.jinja", ROW + "\n")
    others.setdefault("engine", None)
    return annotate(test, table, "--questions", name, *options, **others)


def ask_alone(test, question, *options, prompt=ROW, out="alone.csv"):
    """One question in a separate run, with a prompt of the same form. Returns the columns of its answer."""
    write(test, "alone.jinja", prompt + "\n\n" + question["prompt"] + "\n")
    more = []
    if "choice" in question:
        more = ["--choice", ",".join(question["choice"])]
    elif "schema" in question:
        write(test, "alone-schema.json", json.dumps(question["schema"]))
        more = ["--schema", "alone-schema.json"]
    parameters = {"structured_outputs" if key == "regex" else key: {"regex": value} if key == "regex" else value
                  for key, value in question.items() if key not in ("name", "prompt", "choice", "schema")}
    write(test, "alone-parameters.json", json.dumps(parameters))
    annotate(test, "in.csv", "--prompt", "alone.jinja", "--parameters", "alone-parameters.json", *more, *options, "--prefix", "alone_",
             out=out, engine=None)
    rows = read_csv(test, out)
    return [row[3:rows[0].index("alone_sheaf_finish_reason")] for row in rows[1:]]


# ---- answers ----

@case
def each_question_has_the_bytes_of_a_run_of_its_own(test):
    write_csv(test, "in.csv", table(30))
    ask(test)
    out = read_csv(test, "out.csv")
    assert out[0] == table(0)[0] + COLUMNS + BESIDE, out[0]
    alone = [ask_alone(test, question, out=f"alone{i}.csv") for i, question in enumerate(QUESTIONS)]
    for i, row in enumerate(out[1:]):
        assert row[3:-2] == [cell for columns in alone for cell in columns[i]], (row, [columns[i] for columns in alone])
    assert {row[3] for row in out[1:]} <= {"warm", "cold", "yes"} and len({tuple(row[3:7]) for row in out[1:]}) > 3, out


@case
def drawn_answers_have_the_bytes_of_a_run_of_their_own(test):
    write_csv(test, "in.csv", table(12) + table(12)[1:3])
    drawn = [dict(question, temperature=0.9) for question in QUESTIONS] + [dict(QUESTIONS[3], name="again", temperature=0.9)]
    ask(test, drawn, "--votes", "3")
    out = read_csv(test, "out.csv")
    votes = [name for name in out[0][3:-2] if "agreement" in name]
    assert votes == ["tone_agreement", "score_agreement_n", "score_agreement_sure", "code_agreement", "free_agreement", "again_agreement"], out[0]
    alone = [ask_alone(test, question, "--votes", "3", out=f"alone{i}.csv") for i, question in enumerate(drawn)]
    for i, row in enumerate(out[1:]):
        assert row[3:-2] == [cell for columns in alone for cell in columns[i]], (row, [columns[i] for columns in alone])


@case
def probabilities_are_columns_of_the_questions_with_labels(test):
    write_csv(test, "in.csv", table(6))
    ask(test, QUESTIONS, "--probabilities")
    out = read_csv(test, "out.csv")
    assert out[0][3:-2] == ["tone", "tone_warm", "tone_cold", "tone_yes", "tone_margin", "score_n", "score_sure", "score_sure_true",
                            "score_sure_false", "score_sure_margin", *COLUMNS[3:]], out[0]
    for i, (first, end) in enumerate(((3, 8), (8, 13))):
        alone = ask_alone(test, QUESTIONS[i], "--probabilities", out=f"alone{i}.csv")
        assert [row[first:end] for row in out[1:]] == alone, (out, alone)
    done = ask(test, QUESTIONS[2:], "--probabilities", status=2)
    assert "--probabilities needs a question with choice" in done.err, done


@case
def the_row_is_computed_once_for_all_questions(test):
    write_csv(test, "in.csv", [["title", "text"]] + [[str(i), f"row {i}: " + "the water of a river " * 8] for i in range(12)])
    ten = [{"name": f"q{i}", "prompt": f"Which {i}?", "choice": ["a", "b"]} for i in range(10)]
    ask(test, ten[:1], out="one.csv")
    ask(test, ten, out="ten.csv")
    one, several = computed(test, "one.csv.db")[0], computed(test, "ten.csv.db")[0]
    n_asked, = test.query("SELECT prompt_tokens FROM datasets", "ten.csv.db")[0]
    n_question = 20  # tokens of a question and of the end of its message, at most
    assert several < one + 9 * 12 * n_question and n_asked > 9 * one, (one, several, n_asked)


@case
def a_question_that_fails_leaves_its_own_cells_empty(test):
    write_csv(test, "in.csv", table(5))
    questions = [dict(QUESTIONS[1], max_tokens=2), QUESTIONS[0], dict(QUESTIONS[3], name="long", prompt="{{ text * 40000 }}?" )]
    done = ask(test, questions, status=3)
    out = read_csv(test, "out.csv")
    assert out[0][3:] == ["score_n", "score_sure", "tone", "long", *BESIDE], out[0]
    for row in out[1:]:
        assert row[3:5] == ["", ""] and row[5] in QUESTIONS[0]["choice"] and row[7] == "length", row
        assert row[8].startswith("score: the answer ended before its JSON did"), row
    assert any("; long: " in row[8] for row in out[1:]) and "5 rows have no answer" in done.err, (out, done)
    ask(test, questions, out="out.jsonl", status=3)
    for line in test.answers("out.jsonl"):
        assert line["score_n"] is None and line["tone"] in QUESTIONS[0]["choice"], line


@case
def a_question_more_is_computed_alone_and_order_computes_nothing(test):
    write_csv(test, "in.csv", table(20))
    ask(test, QUESTIONS[:2])
    first, n_first = read_csv(test, "out.csv"), test.query("SELECT count(*) FROM results", "out.csv.db")[0][0]
    done = ask(test, QUESTIONS[:3])
    assert f"20 different requests are new, {n_first} of all" in done.err, done
    assert [row[:6] for row in read_csv(test, "out.csv")] == [row[:6] for row in first]
    ask(test, QUESTIONS)
    before, out = computed(test), read_csv(test, "out.csv")
    ask(test, QUESTIONS[::-1])
    turned = read_csv(test, "out.csv")
    assert computed(test) == before
    for row, other in zip(out, turned, strict=True):
        assert dict(zip(out[0], row)) == dict(zip(turned[0], other))
    ask(test, QUESTIONS, "--reorder", "--overwrite")
    assert read_csv(test, "out.csv") == out and computed(test) == before


@case
def a_run_over_parquet_that_is_killed_again_and_again_ends_with_the_bytes_of_a_calm_one(test):
    write_csv(test, "in.csv", [["title", "text"]] + [[f"title {i}", f"text {i}"] for i in range(2000)])
    write(test, "q.json", json.dumps([{"name": "tone", "prompt": "Which?", "choice": ["warm", "cold"]}, {"name": "free", "prompt": "Why?"}]))
    annotate(test, "in.csv", "--choice", "a", out="in.parquet")
    options = ("in.parquet", "--prompt", "p.jinja", "--questions", "q.json", "--prefix", "b_", "--max-tokens", "8", "--max-batch", "8", "--window", "16",
               "--threads", "1", "--speculate", "off", "--trace-steps")  # how many rows drafts have depends on times
    annotate(test, *options, "whole.jsonl", out="whole.parquet", engine=None)
    for n_least in (1000, 2000, 3000):
        process = test.start("annotate", *options, f"steps{n_least}.jsonl", "--model", test.model, "-o", "out.parquet")
        test.wait_until("answers", lambda: (test.query("SELECT count(*) FROM results", "out.parquet.db") or [(0,)])[0][0] >= n_least)
        process.kill()
        assert test.wait(process).status == -signal.SIGKILL and not test.exists("out.parquet")
    annotate(test, *options, "last.jsonl", out="out.parquet", engine=None)
    assert test.read("out.parquet") == test.read("whole.parquet")
    computed_tokens = sum(tokens_of_steps(test, name) for name in ("steps1000.jsonl", "steps2000.jsonl", "steps3000.jsonl", "last.jsonl"))
    assert computed_tokens <= 1.01 * tokens_of_steps(test, "whole.jsonl"), (computed_tokens, tokens_of_steps(test, "whole.jsonl"))


# ---- formats ----

@case
def all_formats_have_the_columns_of_the_questions(test):
    write_csv(test, "in.csv", table(9))
    ask(test)
    expected = [dict(zip(COLUMNS, row[3:])) for row in read_csv(test, "out.csv")[1:]]
    ask(test, out="out.tsv")
    assert [dict(zip(COLUMNS, row[3:])) for row in read_csv(test, "out.tsv", delimiter="\t")[1:]] == expected
    ask(test, out="out.jsonl")
    lines = test.answers("out.jsonl")
    assert [{name: str(line[name]).replace("True", "true").replace("False", "false") for name in COLUMNS} for line in lines] == expected, lines
    ask(test, QUESTIONS, "--into", "t", out="out.db")
    rows = test.query(f"SELECT {', '.join(COLUMNS)} FROM t", "out.db")
    assert [row[0] for row in rows] == [row["tone"] for row in expected] and [str(row[1]) for row in rows] == [row["score_n"] for row in expected]
    ask(test, out="out.parquet")  # read back by the same command: n is a number there, and a boolean one
    write(test, "again.json", json.dumps(QUESTIONS[:1]))
    annotate(test, "out.parquet", "--questions", "again.json", "--prefix", "b_", out="again.jsonl", engine="instant")
    for line, before in zip(test.answers("again.jsonl"), lines, strict=True):
        assert {name: line[name] for name in COLUMNS} == {name: before[name] for name in COLUMNS}, (line, before)
        assert line["b_tone"] in QUESTIONS[0]["choice"]


@case
def yaml_and_json_mean_the_same(test):
    write_csv(test, "in.csv", table(8))
    ask(test)
    text = """# four questions
- name: tone
  prompt: Which tone?
  choice: [warm, cold, yes]   # yes is a text
- name: score
  prompt: "How many?"
  schema:
    type: object
    properties:
      n: {type: integer, minimum: 1, maximum: 5}
      sure:
        type: boolean
    required: [n, sure]
- {name: code, prompt: "Which code of {{ n }}?", regex: "[A-C]{2}", max_tokens: 8}
- name: free
  prompt: |
    What else?
  max_tokens: 5
"""
    before = computed(test)
    out = read_csv(test, "out.csv")
    ask(test, text, name="q.yaml")
    assert read_csv(test, "out.csv") == out and computed(test) == before


@case
def figures_and_thoughts_are_of_all_questions(test):
    write_csv(test, "in.csv", table(4))
    ask(test, QUESTIONS[:2], "--figures", "--thoughts", "why", "--parameters", write(test, "c.json", '{"logprobs": true}'))
    out = read_csv(test, "out.csv")
    assert out[0][3:] == ["tone", "tone_logprobs", "score_n", "score_sure", "score_logprobs", "sheaf_prompt_tokens", "sheaf_completion_tokens",
                          "sheaf_reasoning_tokens", "tone_why", "score_why", *BESIDE], out[0]
    n_prompt, = test.query("SELECT prompt_tokens FROM datasets", "out.csv.db")[0]
    assert sum(int(row[8]) for row in out[1:]) == n_prompt and json.loads(out[1][4])[0]["token"], out[1]


# ---- samples and gold labels ----

@case
def a_sample_shows_each_question_and_the_estimate_counts_all_requests(test):
    write_csv(test, "in.csv", table(40))
    done = ask(test, QUESTIONS, "--sample", "6", "--price-in", "1", "--price-out", "2", out="sample.csv")
    assert done.out.count("-> tone: ") == 6 and done.out.count("-> score_n: ") == 6 and done.out.count("-> code: ") == 6, done.out
    n_rows = len({tuple(row[:3]) for row in table(40)[1:]})
    assert f"all 40 rows, {4 * n_rows} different requests, estimated from 6 rows" in done.out, done.out
    done = ask(test, QUESTIONS, "--estimate", "--price-out", "1000000", "--max-tokens", "30", out="none.csv")
    ask(test, QUESTIONS, "--max-tokens", "30")
    n_prompt, n_jobs = test.query("SELECT prompt_tokens, n_done FROM datasets", "out.csv.db")[0]
    figures = {" ".join(line.split()[:-1]): line.split()[-1] for line in done.out.splitlines()}
    assert figures["rows"] == "40" and figures["of different"] == str(n_prompt) and figures["different"] == str(n_jobs), (done.out, n_prompt)
    n_computed, n_once = computed(test)[0], int(figures["rows read once"])
    assert n_computed <= n_once < 0.6 * n_prompt, (done.out, n_computed, n_prompt)  # shared prefixes of rows are also computed once
    assert figures["price of answers, at most"] == f"{n_jobs // 4 * (30 + 30 + 8 + 5):.6f}" and not test.exists("none.csv.db"), done.out


@case
def gold_labels_are_of_one_question(test):
    rows = table(10)
    ask(test, QUESTIONS, table=write_csv(test, "in.csv", rows))
    out = read_csv(test, "out.csv")
    for name, column in (("tone", 3), ("score_n", 4)):
        golden = [rows[0] + ["gold"]] + [row + [answer[column]] for row, answer in zip(rows[1:], out[1:])]
        write_csv(test, "gold.csv", golden)
        done = ask(test, QUESTIONS, "--evaluate", f"gold={name}", table="gold.csv")
        assert f'compared: "gold" with "{name}"' in done.out and "accuracy: 1.0000" in done.out, done.out
    done = ask(test, QUESTIONS, "--evaluate", "gold", table="gold.csv", status=2)
    assert 'no question is named "gold": give --evaluate gold=QUESTION' in done.err, done
    done = ask(test, QUESTIONS, "--evaluate", "gold=nothing", table="gold.csv", status=2)
    assert 'the questions have no property "nothing"' in done.err, done


# ---- while it runs ----

@case
def the_live_page_has_the_shares_of_labels_rows_and_the_output(test):
    write_csv(test, "in.csv", table(300))
    write(test, "q.json", json.dumps(QUESTIONS))
    write(test, "p.jinja", ROW)
    # more requests than the slowed steps answer while the page is read
    worker = test.start("annotate", "in.csv", "--questions", "q.json", "--prompt", "p.jinja", "--model", test.model, "-o", "out.csv", "--metrics",
                        "127.0.0.1:0", "--engine-test", "fixed:20", "--max-batch", "4")
    address = metrics.served_at(test, worker)
    seen = []

    def has_labels():
        status, _, text = metrics.get(address, "/")
        seen[:] = [page.Page(text)] if status == 200 and ">warm, cold, yes<" in text and ">sure<" in text else []
        return bool(seen)
    test.wait_until("labels", has_labels)
    tones, sure = seen[0].bars("warm, cold, yes"), seen[0].bars("sure")
    assert set(tones) <= {"warm", "cold", "yes"} and set(sure) <= {"true", "false"} and min(*tones.values(), *sure.values()) > 0, (tones, sure)
    text = "".join(seen[0].root.itertext())
    assert "writes out.csv" in text and re.search(r"annotaterow \d", text), text
    worker.send_signal(signal.SIGINT)
    assert test.wait(worker).status != 0 and not test.exists("out.csv")


# ---- refusals, each before the first job ----

@case
def faulty_questions_are_refused_before_the_first_job(test):
    write_csv(test, "in.csv", table(3))
    tone = QUESTIONS[0]
    cases = [
        ([tone, dict(tone)], 'two questions are named "tone"'),
        ([dict(tone, name="text")], 'the table has a column "text" already'),
        ([dict(tone, name="a", schema=None) | {"name": "n"}], "one of choice, schema, regex and grammar"),
        ([{"name": "score", "prompt": "a", "schema": {"type": "object", "properties": {"n": {"type": "null"}}}}, dict(tone, name="score_n")],
         'the answers have two columns "score_n"'),
        ([tone | {"max_token": 3}], 'question "tone": unknown field "max_token"; the nearest is max_tokens'),
        ([tone | {"messages": []}], '"messages" is no parameter of all rows'),
        ([{"name": "a", "prompt": "{{ tilte }}"}], 'question "a": line 1: there is no column "tilte"; the nearest is "title"'),
        ([{"name": "a", "prompt": "{% if %}"}], 'question "a": '),
        ([{"name": "a", "prompt": "b", "regex": "("}], 'question "a": '),
        ([{"name": "a"}], 'question "a": it has no "prompt"'),
        ([{"prompt": "a"}], 'question 1: it has no "name"'),
        ([{"name": 7, "prompt": "a"}], "question 1: name: expected a text, got 7"),
        (["tone"], 'a question: expected an object, got "tone"'),
        ([dict(tone, choice=[])], "choice: expected a list of texts"),
        ([dict(tone, choice=[1])], "choice: expected texts, in quotes if they look like others, got 1"),
        ([dict(tone, choice=["a", "a"])], 'question "tone": choice: "a" occurs twice'),
        ({"tone": tone}, "expected a list of questions"),
        ([], "expected a list of questions"),
    ]
    for questions, said in cases:
        done = ask(test, questions, status=None)
        assert said in done.err and done.status in (1, 2), (questions, done)
        assert not test.exists("out.csv.db"), questions
    for text, said in (("- name: a\n  prompt: b\n  name: c\n", 'q.yaml: line 1: key "name" occurs twice'), ("- name: [\n", "q.yaml: line 2"),
                       ("- &a {name: x, prompt: y}\n- *a\n", "q.yaml: line 2: an alias"), ("- name: 007\n  prompt: b\n", "q.yaml: line 1: a number")):
        done = ask(test, text, name="q.yaml", status=2)
        assert said in done.err and not test.exists("out.csv.db"), (text, done)


@case
def options_that_a_question_has_itself_are_refused(test):
    write_csv(test, "in.csv", table(3))
    write(test, "s.json", '{"type": "object", "properties": {"a": {"type": "null"}}}')
    for options in (["--choice", "a,b"], ["--schema", "s.json"]):
        assert "each question has its own" in ask(test, QUESTIONS, *options, status=2).err
    write(test, "m.jinja", '{"role": "user", "content": "a"}')
    assert "--questions needs --prompt" in ask(test, QUESTIONS, "--messages", "m.jinja", status=2).err
    done = ask(test, [QUESTIONS[0] | {"temperature": 0}, QUESTIONS[3]], "--votes", "3", status=2)
    assert "temperature 0" in done.err, done
