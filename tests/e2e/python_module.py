"""The Python module: rows, frames, requests and texts through the program; interruptions; the examples of its documents."""
import csv
import importlib.util
import itertools
import json
import os
import pathlib
import pickle
import re
import signal
import subprocess
import sys
import threading
import types

import kafka
from session import Skip, case

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
MODULE = ROOT / "consumer" / "python"
DEMO = ROOT / "ops" / "demo-model"
ANNOTATOR = str(DEMO / "annotator.gguf")
sys.path.insert(0, str(MODULE))
import sheaf  # noqa: E402

finish = kafka.finish
LABELS = ["positive", "negative", "neutral", "mixed"]
COUNTER = []


def reviews(n):
    with open(DEMO / "reviews.csv", encoding="utf-8", newline="") as file:
        return list(itertools.islice(csv.DictReader(file), n))


def demo(test, **others):
    """What annotate needs for the demo's labels."""
    return {"model": ANNOTATOR, "prompt": DEMO / "prompt.jinja", "system": DEMO / "system.txt", "schema": DEMO / "label.json",
            "program": test.sheaf, **others}


def refusal(kind, function):
    """The exception of this class that the function raises."""
    try:
        function()
    except kind as error:
        return error
    raise AssertionError(f"no {kind.__name__}")


def is_running(lives, test):
    """Whether the process is running; a zombie is not."""
    if not lives():
        return False
    with open(f"/proc/{int(test.read('pid'))}/stat", encoding="utf-8") as file:
        return file.read().rsplit(")", 1)[1].split()[0] != "Z"


def watched(test):
    """A program that writes its process id to the file pid and execs sheaf, and a function that tells whether it is running."""
    path = test.path("watched")
    test.write("watched", ["#!/bin/sh", f'echo $$ >{test.path("pid")}', f'exec {test.sheaf} "$@"'])
    os.chmod(path, 0o755)

    def lives():
        number = test.read("pid").strip() if test.exists("pid") else b""  # the shell makes the file before it writes
        return bool(number) and os.path.exists(f"/proc/{int(number)}")
    return path, lives


# ---- rows and frames ----


@case
def rows_of_an_iterable_come_back_in_order_with_their_answers(test):
    rows = [{**row, "n": i, "x": None if i % 2 else 1.5, "größe": [i, "ß"]} for i, row in enumerate(reviews(30))]
    results = sheaf.annotate(iter(rows), **demo(test))
    assert results.outcome is None
    answers = list(results)
    assert [{name: answer[name] for name in rows[0]} for answer in answers] == rows
    assert all(answer["sentiment"] in LABELS and answer["sheaf_error"] is None for answer in answers), answers[0]
    outcome = results.outcome
    assert (outcome.exit_status, outcome.dataset, outcome.done, outcome.failed) == (0, "annotate", 30, 0) and outcome.tokens > 30, outcome
    assert list(sheaf.annotate([], **demo(test))) == []


@case
def a_path_is_answered_like_its_rows_and_a_file_as_the_command_writes_it(test):
    with open(test.path("in.csv"), "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, reviews(1)[0])
        writer.writeheader()
        writer.writerows(reviews(20))
    answers = list(sheaf.annotate(test.path("in.csv"), **demo(test)))
    assert answers == list(sheaf.annotate(reviews(20), **demo(test)))
    assert sorted(os.listdir(test.folder)) == ["in.csv", "tiny.gguf"], "no store is left"
    schema = json.loads((DEMO / "label.json").read_text())
    outcome = sheaf.annotate(pathlib.Path(test.path("in.csv")), output=test.path("out.csv"), evaluate="gold", **demo(test, schema=schema))
    assert outcome.done == 20 and "accuracy: " in outcome.text, outcome
    test.run("annotate", "in.csv", ANNOTATOR, "--prompt", str(DEMO / "prompt.jinja"), "--system", str(DEMO / "system.txt"), "--schema",
             str(DEMO / "label.json"), "-o", "expected.csv")
    assert test.read("out.csv") == test.read("expected.csv")
    outcome = sheaf.annotate(reviews(20), output=test.path("rows.csv"), **demo(test))
    assert outcome.done == 20 and test.read("rows.csv").splitlines()[3] == test.read("out.csv").splitlines()[3]
    assert "prompt tokens" in sheaf.annotate(test.path("in.csv"), estimate=True, **demo(test)).text


@case
def labels_texts_and_schemas_of_python_are_given_to_the_program_as_they_are(test):
    class Model:
        @staticmethod
        def model_json_schema():
            return {"type": "object", "properties": {"größe": {"enum": ["klein, fein", 'a "b"']}}, "required": ["größe"]}
    labels = ["klein, fein", 'a "b"', " x "]
    kinds = {}
    rows = [{"n": i} for i in range(12)]
    for name, options in (("label", {"choice": labels}), ("größe", {"schema": Model})):
        answers = list(sheaf.annotate(rows, model=test.model, program=test.sheaf, messages='{"role": "user", "content": "ß {{ n }}"}',
                                      temperature=2.0, **options))
        kinds[name] = {answer[name] for answer in answers}
    assert kinds["label"] <= set(labels) and kinds["größe"] <= {"klein, fein", 'a "b"'}, kinds
    figures = next(sheaf.annotate(rows, model=test.model, program=test.sheaf, prompt="{{ n }}", max_tokens=2, figures=True))
    assert figures["sheaf_completion_tokens"] <= 2, figures


@case
def a_data_frame_comes_back_in_its_kind_with_its_own_columns_as_they_were(test):
    kinds = 0
    rows = [{**row, "n": i, "share": float("nan") if i == 3 else i / 2} for i, row in enumerate(reviews(15))]
    expected = [answer["sentiment"] for answer in sheaf.annotate(rows, **demo(test))]
    if importlib.util.find_spec("pandas"):
        import pandas
        frame = pandas.DataFrame(rows, index=range(100, 115)).assign(at=pandas.Timestamp("2026-01-02"))
        labelled = sheaf.annotate(frame, **demo(test))
        assert labelled[frame.columns].equals(frame) and list(labelled["sentiment"]) == expected and list(labelled.index) == list(frame.index)
        vectors = sheaf.embed(frame, column="review", model=test.model, program=test.sheaf)
        assert vectors["embedding"][104] == list(sheaf.embed([rows[4]["review"]], model=test.model, program=test.sheaf))[0]
        nothing = sheaf.annotate(frame[:0], **demo(test))
        assert list(nothing.columns) == list(labelled.columns) and len(nothing) == 0, nothing
        refusal(ValueError, lambda: sheaf.annotate(frame, skip_empty=True, **demo(test)))
        refusal(ValueError, lambda: sheaf.annotate(pandas.concat([frame, frame], axis=1), **demo(test)))
        kinds += 1
    if importlib.util.find_spec("polars"):
        import polars
        frame = polars.DataFrame(rows)
        labelled = sheaf.annotate(frame, **demo(test))
        assert isinstance(labelled, polars.DataFrame) and labelled[frame.columns].equals(frame) and labelled["sentiment"].to_list() == expected
        assert labelled["sheaf_error"].null_count() == 15
        assert sheaf.annotate(frame[:0], **demo(test)).columns == labelled.columns
        kinds += 1
    if not kinds:
        raise Skip("neither pandas nor polars is installed")


# ---- requests and texts ----


@case
def requests_are_answered_as_by_the_command_and_a_failed_one_has_its_error(test):
    jobs = ["the winter", {"custom_id": "b", "messages": [{"role": "user", "content": "the sea"}]}, {"prompt": "the", "temperature": -1}]
    results = sheaf.run(jobs, model=test.model, program=test.sheaf, max_tokens=4)
    lines = list(results)
    assert [line["custom_id"] for line in lines] == ["run-1", "b", "run-3"], lines
    assert lines[2]["response"]["status_code"] == 400 and results.outcome.failed == 1 and results.outcome.exit_status == 3
    test.write("in.jsonl", [{"prompt": "the winter"}, *jobs[1:]])
    outcome = sheaf.run(test.path("in.jsonl"), model=test.model, program=test.sheaf, max_tokens=4, output=test.path("out.jsonl"))
    assert outcome.done == 3 and outcome.failed == 1 and outcome.tokens > 0, outcome
    assert [line["response"]["body"].get("choices") for line in test.answers()] == [line["response"]["body"].get("choices") for line in lines]
    error = refusal(sheaf.JobsFailed, lambda: list(sheaf.run(jobs, model=test.model, program=test.sheaf, max_tokens=4, check=True)))
    assert error.outcome.failed == 1 and error.exit_status == 3 and "1 job failed" in str(error), error


@case
def texts_become_vectors_in_order_and_one_without_a_vector_none(test):
    texts = ["the winter", "water " * 2000, "the"]
    results = sheaf.embed(texts, model=test.model, program=test.sheaf)
    vectors = list(results)
    line = json.loads(test.run("embed", test.model, stdin=json.dumps({"text": "the winter"}) + "\n").out)
    assert vectors[0] == line["embedding"] and vectors[1] is None and len(vectors[2]) == len(vectors[0])
    assert (results.outcome.done, results.outcome.failed) == (3, 1), results.outcome
    assert list(sheaf.embed([{"t": "the"}], column="t", model=test.model, program=test.sheaf)) == [vectors[2]]
    test.write("in.jsonl", [{"t": text} for text in texts[::2]])
    outcome = sheaf.embed(test.path("in.jsonl"), column="t", model=test.model, program=test.sheaf, output=test.path("out.npy"))
    assert outcome.done == 2 and test.read("out.npy").startswith(b"\x93NUMPY"), outcome


# ---- how a run ends ----


@case
def each_exit_status_has_its_exception(test):
    rows = [{"n": 1}]
    known = {"model": test.model, "program": test.sheaf}
    error = refusal(sheaf.UsageError, lambda: list(sheaf.annotate(rows, prompt="{{ n }}", moonlight=3, **known)))
    assert error.exit_status == 2 and "--moonlight" in str(error), error
    error = refusal(sheaf.Error, lambda: list(sheaf.annotate(rows, prompt="{{ n", **known)))
    assert type(error) is sheaf.Error and (error.exit_status, error.code) == (1, "template_failed") and "prompt.jinja" in str(error), error
    error = refusal(sheaf.Error, lambda: list(sheaf.run(["x"], model=test.path("none.gguf"), program=test.sheaf)))
    assert error.code == "file" and "none.gguf" in str(error), error
    error = refusal(sheaf.ProgramMissing, lambda: list(sheaf.run(["x"], model=test.model, program=test.path("none"))))
    assert isinstance(error, FileNotFoundError), error
    test.write("killed", ["#!/bin/sh", "kill -9 $$"])
    os.chmod(test.path("killed"), 0o755)
    error = refusal(sheaf.Crashed, lambda: list(sheaf.run(["x"], model=test.model, program=test.path("killed"))))
    assert error.signal == signal.SIGKILL and "SIGKILL" in str(error), error
    assert pickle.loads(pickle.dumps(error)).signal == signal.SIGKILL
    for options in ({"log": "f"}, {"quiet": True}, {"output_format": "csv"}):
        refusal(TypeError, lambda: sheaf.annotate(rows, prompt="{{ n }}", **options, **known))
    refusal(ValueError, lambda: list(sheaf.annotate(rows, prompt="x", choice=[], **known)))
    refusal(TypeError, lambda: list(sheaf.annotate(["no mapping"], prompt="x", **known)))
    refusal(TypeError, lambda: list(sheaf.annotate([{"n": object()}], prompt="x", **known)))


@case
def progress_is_called_while_jobs_are_computed_and_at_the_end(test):
    seen = []
    rows = [{"n": i} for i in range(40)]
    list(sheaf.annotate(rows, model=test.model, program=test.sheaf, prompt="{{ n }}", max_tokens=8, progress=seen.append, max_batch=1,
                        engine_test="fixed:10", dataset="d"))
    assert len(seen) >= 2 and all(figures.dataset == "d" and figures.total == 40 and figures.failed == 0 for figures in seen), seen
    assert [figures.done for figures in seen] == sorted(figures.done for figures in seen) and seen[-1].done == 40, seen
    assert 0 < seen[0].done < 40 and seen[0].tokens > 0 and seen[0].rate > 0 and seen[0].seconds_left > 0, seen


def paced(program, test):
    """A run whose jobs take minutes, which sheaf.run would wait for."""
    return {"model": test.model, "program": program, "max_batch": 1, "engine_test": "fixed:200", "max_tokens": 30}


@case
def an_exception_of_the_input_or_the_callback_ends_the_program(test):
    program, lives = watched(test)

    def broken():
        yield from ("the winter" for _ in range(5000))
        test.wait_until("it runs", lives)
        raise KeyError("of the input")
    refusal(KeyError, lambda: list(sheaf.run(broken(), **paced(program, test))))
    assert test.exists("pid") and not lives()
    os.remove(test.path("pid"))

    def called(_):
        assert lives()
        raise KeyError("of the callback")
    refusal(KeyError, lambda: list(sheaf.run(["the"] * 50, progress=called, **paced(program, test))))
    assert test.exists("pid") and not lives()
    os.remove(test.path("pid"))
    client = sheaf.Client(store=test.path("jobs.db"), program=program)
    refusal(KeyError, lambda: client.submit(broken(), "d"))
    assert test.exists("pid") and not lives()
    assert test.query("SELECT count(*) FROM jobs", "jobs.db") in ([], [(0,)]), "a part of the input was queued"


@case
def an_iterator_that_is_left_ends_the_program_and_one_that_is_not_used_starts_none(test):
    program, lives = watched(test)
    results = sheaf.embed(["the winter"] * 20000, model=test.model, program=program)
    assert not test.exists("pid")
    with results:
        assert next(results) and lives()
    assert not lives() and list(results) == [] and results.outcome is None
    os.remove(test.path("pid"))
    for vector in sheaf.embed(["the winter"] * 20000, model=test.model, program=program):
        assert vector and lives()
        break
    assert not lives()


SCRIPT = """
import sys
sys.path.insert(0, {module!r})
import sheaf
try:
    list(sheaf.run(["the winter"] * 50, model={model!r}, program={program!r}, max_batch=1, engine_test="fixed:200", max_tokens=30,
                   progress=lambda figures: print("started", flush=True)))
except KeyboardInterrupt:
    print("interrupted")
"""


@case
def an_interrupt_ends_the_program_too(test):
    program, lives = watched(test)
    text = SCRIPT.format(module=str(MODULE), model=test.model, program=program)
    process = subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "started\n"
        test.wait_until("the program runs", lives)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=120)
        assert out.splitlines()[-1] == "interrupted" and process.returncode == 0 and not lives(), out
    finally:
        process.kill()


KILLED = """
import sys, threading
sys.path.insert(0, {module!r})
import sheaf

def endless():
    yield "the winter"
    yield "the sea"
    print("started", flush=True)
    sys.stdin.read()

{call}
"""


@case
def a_killed_parent_ends_the_program_and_its_input_counts_as_broken_off(test):
    program, lives = watched(test)
    known = f"model={test.model!r}, program={program!r}, max_batch=1, engine_test='fixed:200', max_tokens=30"
    calls = {"jobs": "client = sheaf.Client(store='jobs.db', program={program!r}); client.submit(endless(), 'd')",
             "run": f"list(sheaf.run(['the'] * 50, store='run.db', progress=lambda _: print('started', flush=True), {known}))",
             "out": f"sheaf.run(endless(), output='out.jsonl', store='out.db', {known})"}
    for name, call in calls.items():
        text = KILLED.format(module=str(MODULE), call=call.replace("{program!r}", repr(program)))
        process = subprocess.Popen([sys.executable, "-c", text], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=test.folder)
        try:
            assert process.stdout.readline() == "started\n", name
            test.wait_until("the program runs", lives)
        finally:
            process.kill()
            process.communicate(timeout=120)
        test.wait_until("the program's end", lambda: not lives())
        os.remove(test.path("pid"))
    assert not test.exists("jobs.db") or test.query("SELECT count(*) FROM jobs", "jobs.db") == [(0,)], "a part of the input was queued"
    assert not test.exists("out.db") or test.query("SELECT count(*) FROM jobs", "out.db") == [(0,)]
    assert test.query("SELECT count(*) FROM jobs", "run.db") == [(50,)]


@case
def a_program_that_ended_before_its_input_has_its_own_exception(test):
    program, lives = watched(test)

    def late():
        test.wait_until("its end", lambda: test.exists("pid") and test.read("pid") and not is_running(lives, test))
        yield from ()
    error = refusal(sheaf.UsageError, lambda: list(sheaf.run(late(), model=test.model, program=program, moonlight=3)))
    assert "--moonlight" in str(error), error


@case
def the_thread_that_started_a_program_may_end_before_it(test):
    program, lives = watched(test)
    results, first = sheaf.embed(["the winter"] * 20000, model=test.model, program=program), []
    thread = threading.Thread(target=lambda: first.append(next(results)))
    thread.start()
    thread.join()
    assert len(first) == 1 and lives()
    assert len(list(results)) == 19999 and results.outcome.done == 20000


@case
def a_descriptor_that_is_no_pipe_is_named_and_nothing_is_watched(test):
    test.write("in.jsonl", ["the winter"])
    with open(test.path("in.jsonl"), "rb") as file:
        done = subprocess.run([test.sheaf, "embed", test.model, "--parent-fd", str(file.fileno())], input=b"the sea\n", capture_output=True,
                              pass_fds=(file.fileno(),), check=True)
    assert b"no pipe" in done.stderr and len(done.stdout.splitlines()) == 1, done


@case
def memory_does_not_grow_with_the_input_or_the_output(test):
    text = f"""
import resource, sys
sys.path.insert(0, {str(MODULE)!r})
import sheaf
before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
rows = ({{"n": i, "text": "ab" * 2000}} for i in range(12000))
n = sum(row["n"] for row in sheaf.annotate(rows, model={test.model!r}, program={test.sheaf!r}, prompt="{{{{ n }}}}", max_tokens=1,
                                            engine_test="instant"))
print(n, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib)
"""
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False, timeout=300)
    total, grown_kib = (int(word) for word in done.stdout.split())
    assert total == 12000 * 11999 // 2 and grown_kib < 12 << 10, done  # of 48 MB in each direction


# ---- the queue ----


@case
def a_client_submits_watches_and_collects(test):
    client = sheaf.Client(store=test.path("jobs.db"), program=test.sheaf)
    assert client.submit(["the winter", {"prompt": "the sea", "custom_id": "sea"}], "d").done == 2
    assert client.submit(["the winter", {"prompt": "the sea", "custom_id": "sea"}], "d").done == 0
    status = client.status("d")
    assert (status["submitted"], status["done"]) == (2, 0) and client.status()["datasets"] == [status]
    refusal(TimeoutError, lambda: client.wait("d", timeout_s=0))
    assert "1 answer" not in str(refusal(sheaf.Error, lambda: list(client.results("d"))))
    outcome = client.work(test.model, exit_when_idle=0, max_tokens=4)
    assert (outcome.done, outcome.failed) == (2, 0) and outcome.tokens > 0, outcome
    seen = []
    assert client.wait("d", progress=seen.append)["done"] == 2 and seen[-1].done == seen[-1].total == 2
    assert [line["custom_id"] for line in client.results("d")] == ["d-1", "sea"]
    client.submit(["the"], "gone")
    client.cancel("gone")
    assert client.wait("gone")["cancelled"] == 1
    refusal(sheaf.Error, lambda: client.status("nothing"))
    refusal(TypeError, sheaf.Client)


@case
def a_client_of_kafka_does_the_same_over_topics(test):
    COUNTER.append(None)
    prefix = f"python{len(COUNTER)}-"
    brokers = kafka.address()
    kafka.create_topics(brokers, prefix, 2)
    topics = {name: prefix + name for name in ("jobs", "results", "dead", "control")}
    client = sheaf.Client(brokers=brokers, program=test.sheaf, group=prefix, **topics)
    assert client.submit([f"the winter {i}" for i in range(10)], "d").done == 10
    assert client.status("d")["done"] == 0
    client.work(test.model, exit_when_idle=2, max_tokens=4, store=test.path("worker.db"))
    assert client.wait("d")["done"] == 10
    assert [line["custom_id"] for line in client.results("d")] == [f"d-{i}" for i in range(1, 11)]


# ---- documents ----


def in_folder(test, function):
    """Calls the function in the test's folder, with the program of the test."""
    before, os.environ["SHEAF_PROGRAM"] = os.getcwd(), test.sheaf
    os.chdir(test.folder)
    try:
        return function()
    finally:
        os.chdir(before)
        del os.environ["SHEAF_PROGRAM"]


def write_reviews(test, name="reviews.csv"):
    with open(test.path(name), "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, reviews(1)[0])
        writer.writeheader()
        writer.writerows(reviews(12))


@case
def the_examples_of_the_readme_run(test):
    blocks = re.findall(r"```python\n(.*?)```", (MODULE / "README.md").read_text(encoding="utf-8"), re.S)
    names = {"MODEL": ANNOTATOR}
    write_reviews(test)

    def execute():
        for block in blocks:
            exec(compile(block, "README.md", "exec"), names)  # pylint: disable=exec-used
    in_folder(test, execute)
    assert len(blocks) == 2 and names["row"]["label"] in ("good", "bad") and names["outcome"].done == 12 and len(names["vectors"]) == 2
    assert names["line"]["custom_id"] == "evening-2"


@case
def the_task_of_the_airflow_example_labels_a_file_and_continues_after_a_kill(test):
    def decorator(*arguments, **_):
        return arguments[0] if arguments and callable(arguments[0]) else lambda function: function
    airflow, decorators = types.ModuleType("airflow"), types.ModuleType("airflow.decorators")
    decorators.task = decorator
    decorators.dag = lambda **_: lambda function: lambda: None  # the graph is Airflow's
    saved = {name: sys.modules.get(name) for name in ("airflow", "airflow.decorators")}
    sys.modules |= {"airflow": airflow, "airflow.decorators": decorators}
    try:
        spec = importlib.util.spec_from_file_location("airflow_labels", MODULE / "examples" / "airflow_labels.py")
        example = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(example)
    finally:
        for name, module in saved.items():
            sys.modules.pop(name) if module is None else sys.modules.__setitem__(name, module)
    write_reviews(test, "reviews-2026-01-02.csv")
    label = in_folder(test, lambda: example.label("2026-01-02", folder=test.folder, model=ANNOTATOR))
    assert label["rows"] == 12 and label["tokens"] > 0, label
    again = in_folder(test, lambda: example.label("2026-01-02", folder=test.folder, model=ANNOTATOR))
    assert again == {"rows": 12, "tokens": 0}, again
    with open(test.path("labels-2026-01-02.csv"), encoding="utf-8", newline="") as file:
        assert all(row["label"] in LABELS for row in csv.DictReader(file))


@case
def the_cells_of_the_notebook_run(test):
    notebook = json.loads((MODULE / "examples" / "reviews.ipynb").read_text(encoding="utf-8"))
    cells = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    names = {}

    def execute():
        os.symlink(ANNOTATOR, "MODEL.gguf")
        for cell in cells:
            exec(compile(cell, "reviews.ipynb", "exec"), names)  # pylint: disable=exec-used
    in_folder(test, execute)
    assert notebook["nbformat"] == 4 and len(names["labelled"]) == len(names["answers"]) == 3


@case
def the_module_has_the_programs_version_and_is_its_command(test):
    assert test.run("--version").out == f"sheaf {sheaf.__version__}\n"
    environment = os.environ | {"PYTHONPATH": str(MODULE), "SHEAF_PROGRAM": test.sheaf}
    done = subprocess.run([sys.executable, "-m", "sheaf", "--version"], env=environment, capture_output=True, text=True, check=False)
    assert done.stdout == f"sheaf {sheaf.__version__}\n", done
    environment = {"PATH": os.path.dirname(test.sheaf), "PYTHONPATH": str(MODULE)}
    done = subprocess.run([sys.executable, "-c", "import sheaf; print(sheaf.find_program())"], env=environment, capture_output=True,
                          text=True, check=False)
    checkout = ROOT / "build" / "consumer" / "sheaf"
    assert done.stdout.strip() == (str(checkout) if checkout.exists() else test.sheaf), done
