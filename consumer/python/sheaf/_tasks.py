"""annotate, run and embed: the commands that compute in one process."""
import contextlib
import csv
import io
import json
import os
import tempfile
import time

from ._child import Child, Progress, Results, logger
from ._frames import frame_of
from ._program import option_arguments
from ._rows import encode_rows, is_path

PROGRESS_S = 1  # interval of the calls of progress=
OWN_OPTIONS = {"log", "log_json", "progress", "quiet", "output_format", "help", "help_all"}


def annotate(rows, *, model=None, prompt=None, messages=None, system=None, schema=None, choice=None, output=None, progress=None,
             check=False, program=None, **options):
    """Answers a prompt for each row and adds the answers as columns.

    rows: an iterable of mappings, a path of CSV, TSV, JSON lines, Parquet or SQLite, or a data frame of pandas or polars.
    prompt, messages, system: the text of a Jinja template, or its file as an os.PathLike. schema: a JSON Schema as a dict, a class
    of pydantic, or a file. choice: a list of labels. progress: called with a Progress about once a second.

    Returns an iterator over the rows with their answers (Results), in the order of the input; for a data frame a new one of its kind;
    with output=PATH, sample=N or estimate=True an Outcome, after the command has ended. With output the same call resumes after
    an interruption; else store=PATH does that.
    """
    check_options(options)
    frame = frame_of(rows)
    if frame and (options.get("skip_empty") or options.get("skip_bad_rows")):
        raise ValueError("skip_empty and skip_bad_rows leave rows out: filter the data frame before")
    source = None if is_path(rows) else encode_rows(frame.rows() if frame else rows)
    has_text = output is not None or options.get("sample") or options.get("estimate")
    is_empty = frame is not None and len(frame.frame) == 0 and not has_text
    line_format = "csv" if is_empty else "jsonl"
    arguments = ["annotate", os.fspath(rows) if source is None else "-", *option_arguments({"model": model, **options})]
    if is_empty:
        source = [csv_line(frame.columns)]
    if source is not None:
        arguments.append(f"--input-format={line_format}")
    if has_text and output is not None:
        arguments.append(f"--output={os.fspath(output)}")
    elif not has_text:
        arguments += ["--output=-", f"--output-format={line_format}"]
    needs_store = not options.get("store") and (not has_text or (output is None and source is not None))

    def start(folder):
        more = prompt_arguments(folder, prompt=prompt, messages=messages, system=system)
        more += schema_arguments(folder, schema) + choice_arguments(choice)
        if needs_store:
            more.append(f"--store={folder}/annotate.db")
        return Child([*arguments, *more, f"--progress={PROGRESS_S}"], source=source, progress=progress, check=check, program=program)

    if has_text:
        return run_child(start)
    if is_empty:
        names = next(csv.reader(io.StringIO(run_child(start).text)))
        return frame.with_columns({name: [] for name in names if name not in frame.columns})
    results = Results(json_lines(start))
    return add_answers(frame, results) if frame else results


def run(requests, *, model=None, output=None, progress=None, check=False, program=None, **options):
    """Answers requests: an iterable of mappings (lines of OpenAI's batches, or objects with prompt or messages) or of prompts, or a
    path of such lines.

    Returns an iterator over the lines of OpenAI's batch output, as dicts, in input order; with output=PATH an Outcome.
    """
    check_options(options)
    source = None if is_path(requests) else encode_rows(requests, "requests", "prompt")
    arguments = ["run", os.fspath(requests) if source is None else "-", *option_arguments({"model": model, **options}),
                 f"--output={'-' if output is None else os.fspath(output)}", f"--progress={PROGRESS_S}"]

    def start(folder):
        own_store = [] if output is not None or options.get("store") else [f"--store={folder}/run.db"]
        return Child([*arguments, *own_store], source=source, progress=progress, check=check, program=program)

    return Results(json_lines(start)) if output is None else run_child(start)


def embed(texts, *, model, column=None, output=None, progress=None, check=False, program=None, **options):
    """Computes the vectors of texts: an iterable of strings, or with column="NAME" of mappings, a data frame or a path of a table.

    Returns an iterator over lists of floats, with None for a text that has no vector (a warning of the logger "sheaf" has its
    error); for a data frame a new one with a column `embedding`; with output=PATH (OUT.npy, OUT.jsonl, OUT.csv) an Outcome.
    """
    check_options(options)
    frame = frame_of(texts)
    if (is_path(texts) or frame) and column is None:
        raise TypeError("embed: a table needs column=")
    if is_path(texts):
        if output is None:
            raise TypeError("embed: the vectors of a file's rows are written to a file: give output=")
        arguments = ["embed", *option_arguments({**options, "column": column, "output": output}), os.fspath(model), os.fspath(texts)]
        return run_child(lambda _: Child(arguments, progress=progress, check=check, program=program))
    rows = frame.rows() if frame else texts
    source = encode_rows(texts_of(rows, column), "texts")
    arguments = ["embed", *option_arguments({**options, "output": output}), os.fspath(model)]

    def start(_):
        return Child(arguments, source=source, progress=progress, check=check, program=program)

    if output is not None:
        return run_child(start)
    results = Results(vectors(start, progress))
    return frame.with_columns({"embedding": list(results)}) if frame else results


# ---- arguments ----


def check_options(options):
    for name in options:
        if name in OWN_OPTIONS:
            raise TypeError(f"{name}: this option is set by the module")


def write_text(folder, name, text):
    path = os.path.join(folder, name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


def prompt_arguments(folder, **templates):
    """A string is a template's text; the program reads files."""
    return [f"--{name}={write_text(folder, f'{name}.jinja', given) if isinstance(given, str) else os.fspath(given)}"
            for name, given in templates.items() if given is not None]


def schema_arguments(folder, schema):
    if schema is None:
        return []
    if is_path(schema):
        return [f"--schema={os.fspath(schema)}"]
    if hasattr(schema, "model_json_schema"):  # a class of pydantic
        schema = schema.model_json_schema()
    return [f"--schema={write_text(folder, 'schema.json', json.dumps(schema, ensure_ascii=False))}"]


def csv_line(names):
    line = io.StringIO()
    csv.writer(line).writerow(names)
    return line.getvalue().encode()


def choice_arguments(choice):
    """Labels are fields of CSV."""
    labels = [] if choice is None else [choice] if isinstance(choice, str) else list(choice)
    if choice is not None and not labels:
        raise ValueError("choice: expected at least one label")
    return ["--choice=" + '"{}"'.format(str(label).replace('"', '""')) for label in labels]


# ---- runs ----


def run_child(start):
    with tempfile.TemporaryDirectory(prefix="sheaf-") as folder:
        return start(folder).run()


def json_lines(start):
    with tempfile.TemporaryDirectory(prefix="sheaf-") as folder, contextlib.closing(start(folder).lines()) as lines:
        while True:
            try:
                line = next(lines)
            except StopIteration as end:
                return end.value
            yield json.loads(line)


def add_answers(frame, results):
    """The frame with the columns that the results have beyond its own. Rows are in the same order."""
    known, added, n = set(frame.columns), {}, 0
    for row in results:
        for name, value in row.items():
            if name not in known:
                added.setdefault(name, [None] * n).append(value)
        n += 1
        for values in added.values():
            if len(values) < n:
                values.append(None)
    return frame.with_columns(added)


def texts_of(rows, column):
    for number, row in enumerate(rows):
        text = row if column is None else row[column]
        if not isinstance(text, str):
            raise TypeError(f"embed: item {number}: expected a text, got {type(text).__name__}")
        yield {"text": text}


def vectors(start, progress):
    results, n_failed, n_tokens, began = Results(json_lines(start)), 0, 0, time.monotonic()
    shown = began
    with contextlib.closing(results):
        for line in results:
            failed = "error" in line
            if failed:
                n_failed += 1
                logger.warning("text %d: %s", line["index"], line["error"]["message"])
            n_tokens += 0 if failed else line["usage"]["prompt_tokens"]
            now = time.monotonic()
            if progress and now - shown >= PROGRESS_S:
                done, shown = line["index"] + 1, now
                progress(Progress(None, done, n_failed, None, n_tokens, done / (now - began)))
            yield None if failed else line["embedding"]
    return results.outcome
