"""The documents name tests, options, queries, alerts and files that exist; released SQL stays as it is."""
import hashlib
import os
import re
import sqlite3

from session import case

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DOCUMENTS = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "ops/RUNBOOK.md", "ops/FAULTS.md", "store/QUERIES.md", "consumer/worker/README.md",
             "consumer/command/README.md", "consumer/serve/README.md", "consumer/python/README.md", "consumer/queue/kafka/README.md", "consumer/annotate/README.md", "consumer/evaluate/README.md", "consumer/certificate/README.md", "batching/README.md", "engine/grammar/README.md")


def text_of_file(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def cases_of_programs():
    """{program, as ops/FAULTS.md calls it: the sentences that its functions are named by}."""
    found = {}
    for folder, prefix in (*((f"tests/{kind}", "") for kind in ("unit", "kernel", "gpu", "kafka", "golden")), ("tests/e2e", "e2e/")):
        for at, _, names in os.walk(os.path.join(ROOT, folder)):
            for name in names:
                if name.endswith((".c", ".py", ".sh")):
                    functions = re.findall(r"^(?:static void |def |TEST(?:_WITH)?\()(\w+)[(),]", text_of_file(os.path.join(at, name)), re.M)
                    found[prefix + name.rsplit(".", 1)[0]] = {function.replace("_", " ") for function in functions}
    return found


@case
def each_row_of_faults_is_shown_by_tests_that_exist(test):
    known, n_named = cases_of_programs(), 0
    for line in text_of_file("ops/FAULTS.md").splitlines():
        if not line.startswith("| ") or line.startswith("| when "):
            continue
        program = None
        for part in line.strip("| ").split("|")[-1].split(";"):
            named = re.fullmatch(r"\s*(?:([\w/]+): )?(.+?)\s*", part)
            program = named[1] or program
            if named[2] in known or named[2].startswith("`ops/storm`"):
                n_named += 1  # all of its cases; a storm
                continue
            assert program in known and named[2] in known[program], (line, part)
            n_named += 1
    assert n_named > 60, n_named


@case
def no_fault_has_two_rows(test):
    """The first cell of a row must not end with a comma."""
    faults = sorted(line.split("|")[1].strip() for line in text_of_file("ops/FAULTS.md").splitlines() if line.startswith("| "))
    assert len(faults) > 60, len(faults)
    assert not [pair for pair in zip(faults, faults[1:]) if pair[0] == pair[1] or pair[1].startswith(pair[0] + ",")]


@case
def each_option_of_a_command_in_the_documents_is_one_of_it(test):
    n_options = 0
    for path in DOCUMENTS:
        for command, rest in re.findall(r"sheaf (\w+)((?: [^`\n|]*)?)[`\n|]", text_of_file(path)):
            options = re.findall(r"(?<![\w-])--[a-z][a-z-]+", rest)
            if options:
                known = test.run("help", "--help-all", command).out
                for option in options:
                    assert re.search(rf"{option}\b(?!-)", known), (path, command, option)
                    n_options += 1
    assert n_options > 10, n_options


@case
def each_query_of_the_runbook_runs(test):
    test.write("in.jsonl", [{"prompt": "the", "max_tokens": 2}])
    test.run("submit", "in.jsonl", "--dataset", "set")
    queries = re.findall(r"sqlite3 -readonly \S+ '([^']+)'|`(SELECT [^`]+)`", text_of_file("ops/RUNBOOK.md"))
    assert len(queries) >= 5, queries
    with sqlite3.connect(test.path("sheaf.db")) as store:
        for pair in queries:
            store.execute("".join(pair)).fetchall()


@case
def the_runbook_tells_of_each_alert_and_of_no_other(test):
    alerts = set(re.findall(r"alert: (\w+)", text_of_file("ops/alerts.yaml")))
    assert alerts and alerts == set(re.findall(r"^\| (Sheaf\w+) \|", text_of_file("ops/RUNBOOK.md"), re.M))


@case
def each_file_that_a_document_points_at_is_there(test):
    for path in DOCUMENTS:
        for target in re.findall(r"\]\(([^)#:]+)\)", text_of_file(path)):
            assert os.path.exists(os.path.join(ROOT, os.path.dirname(path), target)), (path, target)
        for target in re.findall(r"`((?:ops|tests|consumer|store|schemas|engine|gpu|batching)/[\w./-]+)`", text_of_file(path)):
            is_pattern = re.search(r"\bN\b|NAME", target)
            assert is_pattern or os.path.exists(os.path.join(ROOT, target)), (path, target)


# Stores of this version exist: its schema stays, and another version needs a migration (store/database.c).
RELEASED_STORE = (14, "929963dd26c62098")
STORE_VERSION_15 = "cf5d3dcfc2c7f98b"
STORE_VERSION_16 = "299c5193bde59c14"
STORE_VERSION_17 = (17, "c0893a472c89f138")


@case
def the_schema_of_a_released_store_version_is_not_changed(test):
    def digest_of(path):
        statements = re.sub(r"--[^\n]*|\s+", " ", text_of_file(path))
        return hashlib.sha256(" ".join(statements.split()).encode()).hexdigest()[:16]

    def version_of(name):
        return int(re.search(rf"\b{name} = (\d+)", text_of_file("store/store.h")).group(1))
    assert (version_of("STORE_VERSION_RELEASED"), digest_of("schemas/store.sql")) == RELEASED_STORE
    assert digest_of("schemas/store_15.sql") == STORE_VERSION_15
    assert digest_of("schemas/store_16.sql") == STORE_VERSION_16
    assert (version_of("STORE_VERSION"), digest_of("schemas/store_17.sql")) == STORE_VERSION_17
