"""Files as inputs and outputs: pipes, links, devices, lines appended, and two uses of one file."""
import gzip
import json
import os
import re
import shutil
import signal
import stat
import subprocess
import threading

from session import case, error_of, is_wide, text_of


def short_jobs(n, first=0):
    return [{"custom_id": f"line {i}", "prompt": f"{text_of(i, 5)} {i}", "max_tokens": 3, "temperature": 0} for i in range(first, first + n)]


def lines_of(jobs):
    return "".join(json.dumps(job) + "\n" for job in jobs)


def run(test, source="in.jsonl", output="out.jsonl", *options, **others):
    return test.run_file(source, output, "--engine-test", "instant", *options, **others)


def ids(test, name="out.jsonl"):
    return [answer["custom_id"] for answer in test.answers(name)]


def fed_by(test, text):
    """The path of a FIFO from which `text` is read once."""
    path = test.path("fifo")
    if not os.path.exists(path):
        os.mkfifo(path)

    def write():
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    threading.Thread(target=write, daemon=True).start()
    return path


# ---- inputs ----

@case
def a_pipe_by_path_is_an_input_like_a_file(test):
    text = lines_of(short_jobs(2000))
    assert len(text) > 1 << 17  # more than a pipe holds
    run(test, fed_by(test, text))
    assert ids(test) == [f"line {i}" for i in range(2000)]
    test.run("submit", "/dev/stdin", "--dataset", "d", stdin=text)
    assert test.query("SELECT n_submitted FROM datasets") == [(2000,)]
    test.run("submit", fed_by(test, text), "--dataset", "d")
    assert test.query("SELECT n_submitted FROM datasets") == [(2000,)]


@case
def an_input_without_an_end_or_of_a_kind_that_has_no_lines_is_refused(test):
    for path, expected in (("/dev/zero", "got a device"), (test.folder, "got a folder"), ("absent.jsonl", "No such file")):
        finished = test.run("submit", path, "--dataset", "d", status=1)
        assert expected in finished.err, finished
        finished = run(test, path, status=1)
        assert expected in finished.err, finished
    test.write("utf-16.jsonl", [])
    with open(test.path("utf-16.jsonl"), "wb") as file:
        file.write("{}\n".encode("utf-16"))
    finished = test.run("submit", "utf-16.jsonl", "--dataset", "d", status=1)
    assert "expected UTF-8, got UTF-16" in finished.err, finished
    assert sorted(os.listdir(test.folder)) == ["tiny.gguf", "utf-16.jsonl"], os.listdir(test.folder)


@case
def a_byte_order_mark_is_no_text_of_the_files_that_people_write(test):
    """Editors on Windows put one before prompts, templates, schemas and parameters."""
    names = {"p.jinja": "a {{ text }}", "s.jinja": "sys", "m.jinja": '{"role": "user", "content": "{{ text }}"}\n', "chat.jinja": "{% for m in messages %}{{ m.content }}{% endfor %}",
             "schema.json": '{"type": "object", "properties": {"a": {"enum": ["x", "y"]}}, "required": ["a"]}', "par.json": '{"seed": 3}',
             "given.json": '{"messages": [{"role": "user", "content": "x"}]}', "ids.jsonl": '{"text": "a"}\n', "long.txt": "the winter and the sea\n"}
    texts = {}
    for mark in ("", "\ufeff"):
        folder = test.path("marked" if mark else "plain")
        os.mkdir(folder)
        for name, text in names.items():
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                file.write(mark + text)
        with open(os.path.join(folder, "in.csv"), "w") as file:
            file.write("text\nthe winter\n")
        model = ["--model", test.model, "--chat-template", f"{folder}/chat.jinja"]
        for kind, options in {"prompt": ["--prompt", f"{folder}/p.jinja", "--system", f"{folder}/s.jinja", "--schema", f"{folder}/schema.json",
                                         "--parameters", f"{folder}/par.json"], "messages": ["--messages", f"{folder}/m.jinja", "--max-tokens", "3"]}.items():
            ran = test.run("annotate", f"{folder}/in.csv", *options, *model, "-o", f"{folder}/{kind}.csv")
            texts.setdefault(kind, []).append(test.read(f"{folder}/{kind}.csv"))
            texts.setdefault(kind + " arithmetic", []).append([line for line in ran.err.splitlines() if "system_fingerprint" in line])
            texts.setdefault(kind + " tokens", []).append(test.query("SELECT job_id, prompt_tokens FROM jobs", f"{folder}/{kind}.csv.db"))
        read = lambda name: test.read(f"{folder}/{name}").decode()
        texts.setdefault("template", []).append(test.run("template", f"{folder}/chat.jinja", stdin=read("given.json")).out)
        texts.setdefault("tokens", []).append(test.run("tokenize", test.model, stdin=read("ids.jsonl")).out)
        texts.setdefault("perplexity", []).append(test.run("perplexity", test.model, f"{folder}/long.txt").out)
        texts.setdefault("grammar", []).append(json.loads(test.run("grammar", test.model, "--json-schema", f"{folder}/schema.json", "--json",
                                                                   stdin='{"a":"x"}\n{"a":"z"}\n').out.splitlines()[1])["valid"])
    for kind, (plain, marked) in texts.items():
        assert plain == marked, (kind, plain, marked)
    with open(test.path("wide.jinja"), "w", encoding="utf-16") as file:
        file.write("{{ text }}")
    refused = test.run("annotate", "plain/in.csv", "--prompt", "wide.jinja", "--model", test.model, "-o", "wide.csv", status=1)
    assert refused.err == "sheaf: wide.jinja: line 1: expected text in UTF-8, got UTF-16\n", refused


@case
def a_byte_order_mark_is_no_part_of_the_first_line(test):
    with open(test.path("in.jsonl"), "w", encoding="utf-8-sig") as file:
        file.write(lines_of(short_jobs(3)))
    assert "line 1" not in run(test).err
    assert ids(test) == ["line 0", "line 1", "line 2"] and not any(error_of(answer) for answer in test.answers())


@case
def lines_appended_to_a_file_are_more_of_the_dataset(test):
    test.write("in.jsonl", short_jobs(700))
    run(test)
    before = test.read("out.jsonl")
    test.write("in.jsonl", short_jobs(1500))
    finished = run(test)
    assert "resuming: 700 of 1500" in finished.err, finished
    assert test.read("out.jsonl").startswith(before) and ids(test) == [f"line {i}" for i in range(1500)]
    test.run("submit", "in.jsonl", "--dataset", "d")
    test.write("in.jsonl", short_jobs(1501))
    finished = test.run("submit", "in.jsonl", "--dataset", "d")
    assert "1 job queued" in finished.err and "there already" in finished.err, finished
    test.write("in.jsonl", short_jobs(1499) + short_jobs(3, 5000))
    finished = test.run("submit", "in.jsonl", "--dataset", "d", status=1)
    assert "another input" in finished.err and "sheaf.db" in finished.err, finished
    assert test.query("SELECT n_submitted FROM datasets") == [(1501,)]


@case
def a_line_that_was_changed_is_named_and_one_that_was_half_written_is_submitted_whole(test):
    lines = lines_of(short_jobs(5)).splitlines()
    with open(test.path("in.jsonl"), "w", encoding="utf-8") as file:
        file.write("\n".join(lines[:2] + ["", lines[2][:30]]))  # the writer has written so much
    for command in (["submit", "in.jsonl", "--dataset", "d"], ["run", "in.jsonl", "-o", "out.jsonl", "--model", test.model]):
        assert "line 4:" in test.run(*command).err
    assert [error_of(answer) is None for answer in test.answers()] == [True, True, False]
    test.write("in.jsonl", lines[:2] + [""] + lines[2:])
    for command in (["submit", "in.jsonl", "--dataset", "d"], ["run", "in.jsonl", "-o", "out.jsonl", "--model", test.model]):
        assert "line 4 was half written" in test.run(*command).err
    assert ids(test) == [f"line {i}" for i in range(5)] and not any(error_of(answer) for answer in test.answers())
    assert test.query("SELECT n_submitted, n_done, n_failed, complete FROM datasets", "out.jsonl.db") == [(5, 5, 0, 1)]
    assert test.query("SELECT count(*) FROM jobs") == test.query("SELECT count(*) FROM queue") == [(5,)]
    for number, line in ((2, lines[3]), (3, lines[0].replace("line 0", "new")), (6, lines[4][:-3] + "5}")):
        changed = lines[:2] + [""] + lines[2:]
        changed[number - 1] = line.replace("line 3", "other")
        test.write("in.jsonl", changed)
        finished = test.run("submit", "in.jsonl", "--dataset", "d", status=1)
        assert f"line {number} is not the one submitted before" in finished.err and "another name" in finished.err, finished
        test.run("dataset", "rename", "d", "renamed")
        finished = test.run("submit", "in.jsonl", "--dataset", "renamed", status=1)
        assert f"line {number} is not the one submitted before" in finished.err, finished
        test.run("dataset", "rename", "renamed", "d")


@case
def an_input_without_a_line_of_the_one_before_is_refused_though_it_has_its_ids(test):
    for unrelated in (lambda i: {"custom_id": f"request-{i}", "prompt": f"other {i}", "max_tokens": 2}, lambda i: {"prompt": f"other {i}", "max_tokens": 2}):
        test.write("in.jsonl", [{**unrelated(i), "prompt": f"the {i}"} for i in range(4)])
        run(test, "in.jsonl", "out.jsonl", "--store", "s.db")
        before = test.query("SELECT * FROM jobs", "s.db"), test.query("SELECT * FROM results", "s.db"), test.query("SELECT * FROM datasets", "s.db")
        test.write("other.jsonl", [unrelated(i) for i in range(5)])
        finished = run(test, "other.jsonl", "out.jsonl", "--store", "s.db", status=1)
        assert "dataset run was made from another input" in finished.err and "another name" in finished.err, finished
        assert before == (test.query("SELECT * FROM jobs", "s.db"), test.query("SELECT * FROM results", "s.db"), test.query("SELECT * FROM datasets", "s.db"))
        test.run("dataset", "delete", "run", "--store", "s.db")
        os.unlink(test.path("out.jsonl"))


@case
def a_half_line_is_submitted_whole_under_the_dataset_s_new_name(test):
    lines = lines_of(short_jobs(3)).splitlines()
    with open(test.path("in.jsonl"), "w", encoding="utf-8") as file:
        file.write("\n".join(lines[:2] + [lines[2][:30]]))
    test.run("submit", "in.jsonl", "--dataset", "d")
    test.run("dataset", "rename", "d", "e")
    test.write("in.jsonl", lines)
    assert "line 3 was half written" in test.run("submit", "in.jsonl", "--dataset", "e").err
    assert test.query("SELECT job_id, job_index FROM jobs ORDER BY id") == [("d-1", 1), ("d-2", 2), ("e-3", 3)]


N_SHARED = 20_000 if is_wide() else 4000


@case
def two_runs_of_one_command_share_the_jobs(test):
    test.write("in.jsonl", short_jobs(N_SHARED))
    command = ["run", "in.jsonl", "-o", "out.jsonl", "--model", test.model, "--engine-test", "instant", "--window", "64"]
    for process in [test.start(*command) for _ in range(3)]:
        assert test.wait(process).status == 0
    assert ids(test) == [f"line {i}" for i in range(N_SHARED)]
    assert test.query("SELECT n_submitted, n_done, complete FROM datasets", "out.jsonl.db") == [(N_SHARED, N_SHARED, 1)]
    assert test.query("SELECT count(*) FROM results", "out.jsonl.db") == [(N_SHARED,)]


@case
def a_job_has_its_line_s_number_and_no_line_is_passed_over(test):
    with open(test.path("in.jsonl"), "w", encoding="utf-8") as file:
        file.write('\n{"prompt":"a"}\n\n   \n\0\0\0\n{no json\n{"prompt":"b"}')
    finished = test.run("submit", "in.jsonl", "--dataset", "d")
    assert "in.jsonl: line 5:" in finished.err and "in.jsonl: line 6:" in finished.err, finished
    assert test.query("SELECT job_id, job_index FROM jobs ORDER BY id") == [("d-2", 2), ("d-5", 5), ("d-6", 6), ("d-7", 7)]


@case
def a_line_that_is_too_long_is_named_with_its_size(test):
    with open(test.path("in.jsonl"), "w", encoding="utf-8") as file:
        file.write('{"custom_id":"long","prompt":"' + "x" * 50_000_000 + '"}\n{"prompt":"b"}\n')
    finished = run(test)
    assert "line 1: record: expected at most 16777216 bytes, got 50000032" in finished.err, finished
    first, second = test.answers()
    error = error_of(first)
    assert error["code"] == "limit_exceeded" and "16777217 or more" in error["message"], first
    assert error_of(second) is None and second["custom_id"] == "run-2", second


@case
def gzip_is_read_and_a_damaged_or_cut_file_submits_nothing(test):
    whole = gzip.compress(lines_of(short_jobs(900)).encode()) + gzip.compress(lines_of(short_jobs(900, 900)).encode())
    for name, content, expected in (("cut.jsonl", whole[:-1], "end too early"), ("tail.jsonl", whole + b"xx", "damaged"),
                                    ("damaged.jsonl", whole[:3000] + b"????" + whole[3004:], "damaged")):
        with open(test.path(name), "wb") as file:
            file.write(content)
        finished = test.run("submit", name, "--dataset", "d", status=1)
        assert expected in finished.err and name in finished.err and not test.exists("sheaf.db"), finished
    with open(test.path("in.jsonl"), "wb") as file:
        file.write(whole + bytes(512))
    run(test)
    assert ids(test) == [f"line {i}" for i in range(1800)]


@case
def two_lines_with_one_custom_id_are_refused_and_nothing_is_submitted(test):
    test.write("in.jsonl", short_jobs(1500) + ["", {"custom_id": "line 7", "prompt": "again"}])
    for finished in (test.run("submit", "in.jsonl", "--dataset", "d", status=1), run(test, status=1)):
        assert 'lines 8 and 1502 have the same custom_id "line 7"' in finished.err, finished
    assert not test.exists("sheaf.db") and not test.exists("out.jsonl.db")


@case
def a_line_that_is_no_json_keeps_its_custom_id(test):
    test.write("in.jsonl", ['{"custom_id": "first", "prompt": no json', '{"prompt": "a "b" c", "custom_id": "second"}', "{no id"])
    run(test)
    assert [(answer["custom_id"], error_of(answer)["code"]) for answer in test.answers()] == [
        ("first", "invalid_encoding"), ("second", "invalid_encoding"), ("run-3", "invalid_encoding")]


@case
def run_takes_the_dataset_s_name(test):
    test.write("in.jsonl", [{"prompt": "a"}])
    run(test, "in.jsonl", "out.jsonl", "--dataset", "mine")
    assert ids(test) == ["mine-1"] and test.query("SELECT dataset FROM datasets", "out.jsonl.db") == [("mine",)]
    finished = run(test, "in.jsonl", "other.jsonl", "--dataset", "x" * 129, status=2)
    assert "--dataset: expected 1 to 128 bytes" in finished.err, finished


# ---- outputs ----

def listing(test):
    return sorted(name for name in os.listdir(test.folder) if not name.startswith("tmp"))


@case
def an_output_that_is_no_regular_file_is_written_through(test):
    test.write("in.jsonl", short_jobs(3) + ["{no json"])
    run(test)
    reference = test.read("out.jsonl").decode()
    os.mkfifo(test.path("pipe"))
    for output in ("pipe", "link-to-pipe"):
        if output != "pipe":
            os.symlink("pipe", test.path(output))
        read = []
        reader = threading.Thread(target=lambda: read.append(open(test.path("pipe"), encoding="utf-8").read()))
        reader.start()
        run(test, "in.jsonl", output, "--store", "out.jsonl.db")
        reader.join()
        assert read == [reference] and stat.S_ISFIFO(os.lstat(test.path("pipe")).st_mode)
    null = test.path("null")  # /dev/null's kind, where no harm comes to the machine
    try:
        os.mknod(null, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
        with open(null, "wb"):
            pass
    except OSError:
        null = "/dev/null"
    if null != "/dev/null" or os.geteuid() != 0:
        run(test, "in.jsonl", null, "--store", "out.jsonl.db")
        test.run("collect", "--dataset", "run", "-o", null, "--errors", null, "--store", "out.jsonl.db")
        assert stat.S_ISCHR(os.stat(null).st_mode)
    for path in ("/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"):
        assert run(test, "in.jsonl", path, "--store", "out.jsonl.db").out == reference
    finished = run(test, "in.jsonl", "/dev/full", "--store", "out.jsonl.db", status=1)
    assert "/dev/full: writing: No space left" in finished.err, finished


@case
def standard_output_that_is_a_file_is_continued_and_not_replaced(test):
    test.write("in.jsonl", short_jobs(2))
    run(test)
    with open(test.path("all.txt"), "wb") as file:
        file.write(b"before\n")
        file.flush()
        subprocess.run([test.sheaf, "collect", "--dataset", "run", "-o", "/dev/stdout", "--store", "out.jsonl.db"],
                       cwd=test.folder, stdout=file, check=True)
    assert test.read("all.txt") == b"before\n" + test.read("out.jsonl")


@case
def a_link_stays_a_link_and_a_file_keeps_its_mode(test):
    test.write("in.jsonl", short_jobs(2))
    run(test)
    os.mkdir(test.path("folder"))
    os.symlink("folder/target.jsonl", test.path("link.jsonl"))
    collect = ("collect", "--dataset", "run", "--store", "out.jsonl.db", "-o")
    test.run(*collect, "link.jsonl")  # to a file that does not exist yet
    assert os.path.islink(test.path("link.jsonl")) and test.read("folder/target.jsonl") == test.read("out.jsonl")
    for mode in (0o600, 0o664):
        test.write("folder/target.jsonl", ["old"])
        os.chmod(test.path("folder/target.jsonl"), mode)
        test.run(*collect, "link.jsonl", "--overwrite")
        assert stat.S_IMODE(os.stat(test.path("folder/target.jsonl")).st_mode) == mode
        assert os.path.islink(test.path("link.jsonl")) and test.read("folder/target.jsonl") == test.read("out.jsonl")
    if os.geteuid() == 0:
        os.chown(test.path("folder/target.jsonl"), 1234, 2345)
        test.run(*collect, "link.jsonl")
        about = os.stat(test.path("folder/target.jsonl"))
        assert (about.st_uid, about.st_gid) == (1234, 2345)
    previous = os.umask(0o027)
    try:
        test.run(*collect, "new.jsonl")
    finally:
        os.umask(previous)
    assert stat.S_IMODE(os.stat(test.path("new.jsonl")).st_mode) == 0o640
    assert os.listdir(test.path("folder")) == ["target.jsonl"]
    os.symlink("loop.jsonl", test.path("loop.jsonl"))
    assert "Too many levels" in test.run(*collect, "loop.jsonl", status=1).err
    assert "got a folder" in test.run(*collect, "folder", status=1).err


@case
def the_files_of_logits_and_quantize_are_outputs_like_others(test):
    os.symlink("target", test.path("link"))
    test.run("logits", test.model, "--tokens", "3 17 9", "-o", "link")
    logits = test.read("target")
    assert os.path.islink(test.path("link")) and len(logits) % 12 == 0
    test.run("quantize", test.model, "link", "--type", "f16", "--overwrite")
    assert os.path.islink(test.path("link")) and test.read("target")[:4] == b"GGUF"
    for path in ("/dev/full",):
        for command in (("logits", test.model, "--tokens", "3", "-o", path), ("quantize", test.model, path, "--type", "f16")):
            finished = test.run(*command, status=1)
            assert "/dev/full" in finished.err and "No space left" in finished.err, finished
    before = test.read("tiny.gguf")
    for command in (("logits", test.model, "--tokens", "3", "-o", "./tiny.gguf"), ("embed", test.model, "-o", "./tiny.gguf"), ("quantize", test.model, "tiny.gguf", "--type", "f16")):
        assert "are one file" in test.run(*command, status=2).err
    assert test.read("tiny.gguf") == before


@case
def a_file_beside_the_store_that_belongs_to_it_is_no_output(test):
    test.write("in.jsonl", short_jobs(2))
    test.run("submit", "in.jsonl", "--dataset", "d")
    os.mkdir(test.path("folder"))
    os.symlink("folder/real.db", test.path("link.db"))
    before = listing(test)
    for suffix in ("-wal", "-shm", "-workers"):
        beside = f"sheaf.db{suffix}"
        for arguments in (("-o", beside), ("-o", "out.jsonl", "--errors", test.path(beside))):
            finished = test.run("collect", "--dataset", "d", "--force", *arguments, status=2)
            assert f"--store's {suffix} file are one file" in finished.err, finished
        finished = test.run("work", "--model", test.model, "--trace-steps", beside, status=2)
        assert f"--trace-steps and --store's {suffix} file are one file" in finished.err, finished
        for store, output in (("s.db", f"s.db{suffix}"), ("link.db", f"folder/real.db{suffix}"), ("link.db", f"link.db{suffix}")):
            finished = run(test, "in.jsonl", output, "--store", store, status=2)
            assert f"-o and the store's {suffix} file are one file" in finished.err, finished
        assert "are one file" in run(test, "in.jsonl", "out.jsonl", "--errors", f"out.jsonl.db{suffix}", status=2).err
    assert listing(test) == before, listing(test)
    run(test, "in.jsonl", "out.jsonl", "--log", "out.jsonl.db-wal", status=2)
    assert not test.exists("out.jsonl") and not test.exists("out.jsonl.db")
    test.run("collect", "--dataset", "d", "--force", "-o", "sheaf.db-answers")


@case
def text_that_standard_output_does_not_take_is_an_error_with_its_cause(test):
    test.write("in.jsonl", [{"prompt": "the", "max_tokens": 2}])
    test.write("in.csv", ["text", "a"])
    test.write("p.jinja", ["{{ text }}"])
    annotate = ["annotate", "in.csv", "--prompt", "p.jinja", "--model", test.model]
    test.run("run", "in.jsonl", "-o", "out.jsonl", "--model", test.model, "--store", "sheaf.db")

    def full():
        os.dup2(os.open("/dev/full", os.O_WRONLY), 1)

    def closed():
        os.close(1)
    for command in (["--version"], ["help"], ["help", "run"], ["status"], ["status", "--json"], ["dataset", "list"], ["inspect", test.model],
                    ["collect", "--dataset", "run", "-o", "-"], ["report", "--dataset", "run", "-o", "-"], [*annotate, "--estimate"],
                    [*annotate, "--sample", "1", "-o", "s.csv"], [*annotate, "-o", "e.csv", "--evaluate", "text", "--choice", "a,b"]):
        for broken, cause in ((full, "No space left on device"), (closed, "Bad file descriptor")):
            done = test.run(*command, status=1, preexec_fn=broken)
            assert f"standard output: writing: {cause}" in done.err, done


@case
def a_store_that_is_no_file_is_refused(test):
    test.write("in.jsonl", [{"prompt": "the", "max_tokens": 2}])
    for path, words in (("/dev/null", "expected a file, got a device"), (test.folder, "Is a directory")):
        for command in (["run", "in.jsonl", "-o", "out.jsonl", "--model", test.model], ["submit", "in.jsonl", "-d", "d"], ["status"]):
            done = test.run(*command, "--store", path, status=1)
            assert f"{path}: opening the store: {words}" in done.err and "Success" not in done.err, done


@case
def a_standard_descriptor_that_is_closed_becomes_none_of_our_files(test):
    test.write("in.jsonl", short_jobs(3))
    test.run_file("in.jsonl", "reference.jsonl")
    for n, closed in enumerate(([0], [1], [2], [0, 2], [0, 1, 2])):
        def close():
            for fd in closed:
                os.close(fd)
        test.run_file("in.jsonl", f"{n}.jsonl", preexec_fn=close)
        assert test.comparable(f"{n}.jsonl") == test.comparable("reference.jsonl"), closed
    finished = test.run_file("in.jsonl", "-", preexec_fn=lambda: os.close(1), status=1)
    assert "writing" in finished.err, finished


@case
def one_file_may_be_read_for_several_uses(test):
    test.write("in.jsonl", short_jobs(2))
    for used in ("in.jsonl", "tiny.gguf"):
        for option in ("--model", "--prompt", "--system", "--messages", "--parameters", "--schema", "--chat-template", "--config"):
            beside = [] if option == "--model" else ["--model", test.model]
            beside += [] if option == "--prompt" else ["--prompt", used]
            finished = test.run("annotate", used, option, used, *beside, "-o", "out.csv", "--engine-test", "instant", status=None)
            assert "are one file" not in finished.err, finished


@case
def one_file_for_two_uses_is_refused_before_anything_is_written(test):
    test.write("in.jsonl", short_jobs(2))
    os.symlink("in.jsonl", test.path("link.jsonl"))
    os.link(test.path("in.jsonl"), test.path("hard.jsonl"))
    before, names = test.read("in.jsonl"), listing(test)
    for expected, *arguments in (
            ("the input and -o", "in.jsonl", "in.jsonl"), ("the input and -o", "in.jsonl", "./link.jsonl"),
            ("the input and -o", "in.jsonl", "hard.jsonl"), ("the input and --errors", "in.jsonl", "out.jsonl", "--errors", "in.jsonl"),
            ("-o and --errors", "in.jsonl", "out.jsonl", "--errors", test.path("out.jsonl")),
            ("-o and --errors", "in.jsonl", "-", "--errors", "-"), ("-o and the store", "in.jsonl", "s.db", "--store", "s.db"),
            ("--errors and the store", "in.jsonl", "out.jsonl", "--errors", "out.jsonl.db"),
            ("the input and the store", "in.jsonl", "out.jsonl", "--store", "in.jsonl"),
            ("--model and -o", "in.jsonl", "tiny.gguf")):
        finished = run(test, *arguments, status=2)
        assert f"{expected} are one file" in finished.err, finished
    assert test.read("in.jsonl") == before and listing(test) == names, listing(test)
    run(test, "in.jsonl", "out.jsonl", "--log", "out.jsonl", status=2)  # which has the message
    assert b"-o and --log are one file" in test.read("out.jsonl")
    test.run("submit", "in.jsonl", "--dataset", "d")
    for arguments in (("-o", "sheaf.db"), ("-o", "out.jsonl", "--errors", "out.jsonl"), ("-o", "out.jsonl", "--errors", "sheaf.db")):
        assert "are one file" in test.run("collect", "--dataset", "d", "--force", *arguments, status=2).err
    assert "are one file" in test.run("submit", "in.jsonl", "--dataset", "d", "--store", "in.jsonl", status=2).err
    for option, other in (("--store", test.model), ("--trace-steps", test.model), ("--trace-steps", "sheaf.db")):
        assert "are one file" in test.run("work", "--model", test.model, option, other, status=2).err
    test.run("collect", "--dataset", "d", "--force", "-o", "/dev/null", "--errors", "/dev/null")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


@case
def of_two_that_write_one_output_the_last_is_whole(test):
    n = 3000
    for name, first in (("a", 0), ("b", 10000)):
        test.write(f"{name}.jsonl", short_jobs(n, first))
        run(test, f"{name}.jsonl", f"{name}-out.jsonl")
    whole = {test.read("a-out.jsonl"), test.read("b-out.jsonl")}
    for _ in range(5):
        processes = [test.start("collect", "--dataset", "run", "--store", f"{name}-out.jsonl.db", "-o", "out.jsonl",
                                "--overwrite") for name in "abab"]
        for process in processes:
            assert test.wait(process).status == 0
        assert test.read("out.jsonl") in whole
    assert not [name for name in listing(test) if name.endswith(".part")], listing(test)


@case
def a_killed_run_leaves_no_part_of_its_output(test):
    test.write("in.jsonl", short_jobs(2000))
    process = test.start("run", "in.jsonl", "-o", "out.jsonl", "--model", test.model, "--engine-test", "fixed:20", "--max-batch", "1")
    test.wait_until("it works", lambda: test.query("SELECT count(*) FROM results", "out.jsonl.db") > [(0,)])
    process.send_signal(signal.SIGKILL)
    test.wait(process)
    assert "out.jsonl" not in listing(test) and not [name for name in listing(test) if name.endswith(".part")], listing(test)


@case
def a_run_from_pipe_to_pipe_leaves_nothing_behind(test):
    os.mkdir(test.path("temporary"))
    test.environment["TMPDIR"] = test.path("temporary")
    before = listing(test)
    jobs = short_jobs(3)
    finished = test.run("run", "-", "-o", "-", "--model", test.model, "--engine-test", "instant", stdin=lines_of(jobs))
    assert [json.loads(line)["custom_id"] for line in finished.out.splitlines()] == ["line 0", "line 1", "line 2"]
    finished = run(test, fed_by(test, lines_of(jobs)), "/dev/stdout")
    assert len(finished.out.splitlines()) == 3
    os.remove(test.path("fifo"))
    process = test.start("run", "/dev/stdin", "-o", "-", "--model", test.model, "--engine-test", "fixed:20", "--max-batch", "1",
                         stdin=lines_of(short_jobs(1000)))
    process.stdin.write(process.input)
    process.stdin.close()
    process.stdin, process.input = None, None
    test.wait_until("it works", lambda: "jobs" in test.stderr_of(process) or os.listdir(test.path("temporary")))
    test.wait_until("it computes", lambda: [name for name in os.listdir(test.path("temporary")) for _ in
                                            test.query("SELECT 1 FROM results LIMIT 1", f"temporary/{name}/run.db")])
    process.send_signal(signal.SIGTERM)
    finished = test.wait(process)
    assert finished.status == 1 and "jobs to go" in finished.err and "continues from here" not in finished.err, finished
    assert listing(test) == before and os.listdir(test.path("temporary")) == [], (listing(test), os.listdir(test.path("temporary")))


# ---- standard output, standard error, the environment ----

@case
def a_standard_output_that_takes_nothing_fails_every_command(test):
    test.write("in.jsonl", short_jobs(2))
    run(test)
    for arguments in (("help",), ("help", "run"), ("--version",), ("run", "--help"), ("inspect", test.model),
                      ("status", "--store", "out.jsonl.db"), ("status", "--json", "--store", "out.jsonl.db"),
                      ("collect", "--dataset", "run", "-o", "-", "--store", "out.jsonl.db")):
        with open("/dev/full", "wb") as full:
            finished = subprocess.run([test.sheaf, *arguments], cwd=test.folder, stdout=full, stderr=subprocess.PIPE, check=False)
        assert finished.returncode == 1 and b"standard output: writing: " in finished.stderr, (arguments, finished)


@case
def a_file_of_another_kind_is_refused_before_it_is_a_dataset(test):
    """So the correct file keeps the output's name and store."""
    test.write("in.jsonl", short_jobs(3))
    with open(test.path("in.csv"), "w", encoding="utf-8") as file:
        file.write("id,text\n1,good\n2,bad\n")
    with open(test.path("pretty.json"), "w", encoding="utf-8") as file:
        json.dump({"prompt": "a"}, file, indent=2)
    for name, n_lines in (("in.csv", "3 lines"), ("pretty.json", "3 lines"), (test.model, "lines")):
        finished = run(test, name, status=1)
        assert "expected a JSON object in each line, got none in " in finished.err and n_lines in finished.err, finished
        finished = test.run("submit", name, "--dataset", "d", status=1)
        assert "expected a JSON object in each line" in finished.err, finished
    assert len(run(test, "in.jsonl").out) == 0 and len(test.read("out.jsonl").splitlines()) == 3
    test.run("submit", "in.jsonl", "--dataset", "d")


@case
def watching_ends_when_nobody_reads(test):
    test.write("in.jsonl", short_jobs(2))
    test.run("submit", "in.jsonl", "--dataset", "d")  # and nobody works
    watcher = test.start("status", "--watch")
    watcher.stdout.close()
    test.wait_until("it ends", lambda: watcher.poll() is not None)
    assert watcher.returncode == 1 and "Broken pipe" in test.stderr_of(watcher)


@case
def progress_is_a_line_now_and_then_where_there_is_no_terminal(test):
    test.write("in.jsonl", short_jobs(400))
    process = test.start("run", "in.jsonl", "-o", "out.jsonl", "--model", test.model, "--engine-test", "fixed:20", "--max-batch", "1",
                         "--progress", "1")
    line = re.compile(r"^sheaf: \d+/400 jobs, [\d.]+/s, 0 failed, \d+ tokens/s(, \d+ % of prompts cached)?, \d+ (s|min) left$", re.M)
    test.wait_until("two lines", lambda: len(line.findall(test.stderr_of(process))) >= 2)
    process.send_signal(signal.SIGTERM)
    test.wait(process)
    assert "\r" not in test.stderr_of(process)
    for options in ((), ("--progress", "0")):
        assert "tokens/s" not in run(test, "in.jsonl", f"other{len(options)}.jsonl", *options).err


@case
def a_variable_that_no_option_reads_is_named_with_the_nearest(test):
    test.environment.update(SHEAF_THREDS="1", SHEAF_THREADS="1", SHEAF_MAX_BATCH="4")
    test.write("in.jsonl", short_jobs(2))
    finished = run(test)
    assert "warning: SHEAF_THREDS: no option reads this variable; the nearest name is SHEAF_THREADS" in finished.err, finished
    assert finished.err.count("no option reads") == 1, finished


@case
def a_file_of_options_that_is_none_is_refused(test):
    test.write("in.jsonl", short_jobs(2))
    for path, expected in ((test.folder, "Is a directory"), ("/dev/zero", "larger than 1048576 bytes")):
        finished = run(test, "in.jsonl", "out.jsonl", "--config", path, status=2)
        assert expected in finished.err, finished
    finished = run(test, "in.jsonl", "out.jsonl", "--config", fed_by(test, "max-batch = 2\nwindow = 3\n"), "-v")
    assert len(test.answers()) == 2


@case
def a_file_that_is_no_log_is_not_appended_to(test):
    test.write("in.jsonl", [{"prompt": "the", "max_tokens": 1}])
    shutil.copy(test.model, test.path("copy.gguf"))
    before = test.read("copy.gguf")
    finished = test.run("run", "in.jsonl", "-o", "out.jsonl", "--model", test.model, "--log", "copy.gguf", status=2)
    assert "--log copy.gguf: expected a log or an empty file" in finished.err, finished
    assert test.read("copy.gguf") == before
    for _ in range(2):  # a log of its own is continued, also in the other form
        test.run("run", "in.jsonl", "-o", "out.jsonl", "--model", test.model, "--log", "a.log")
        test.run("run", "in.jsonl", "-o", "out.jsonl", "--model", test.model, "--log", "a.log", "--log-json")


@case
def the_reason_of_a_failure_is_on_standard_error_with_a_log_and_with_quiet(test):
    test.write("in.jsonl", [{"prompt": "the", "max_tokens": 1}])
    finished = test.run("run", "in.jsonl", "-o", "out.jsonl", "--model", "absent.gguf", "--log", "a.log", status=1)
    assert "absent.gguf" in finished.err and b"absent.gguf" in test.read("a.log"), finished
    test.run("submit", "in.jsonl", "--dataset", "d", "--store", "s.db")
    finished = test.run("collect", "--dataset", "d", "-o", "x.jsonl", "--store", "s.db", "-q", status=1)
    assert "have results" in finished.err, finished


@case
def no_command_overwrites_an_unrelated_file_of_results_or_errors(test):
    test.write("in.jsonl", [*short_jobs(2), {"custom_id": "bad", "prompt": 5}])
    for name in ("out.txt", "e.txt"):
        test.write(name, ["precious"])
    store = ("--store", "s.db")

    def refused(named, *arguments):
        done = test.run(*arguments, status=1)
        assert f"{named} exists, and was not written for dataset run of s.db" in done.err and "--overwrite" in done.err, done
        assert test.read("out.txt") == test.read("e.txt") == b"precious\n" and not test.exists("new.txt")
    command = ("run", "in.jsonl", "--model", test.model, "--engine-test", "instant", *store)
    refused("e.txt", *command, "-o", "new.txt", "--errors", "e.txt")
    test.run(*command, "-o", "-")  # its answers are in the store
    collect = ("collect", "--dataset", "run", *store)
    refused("out.txt", *command, "-o", "out.txt")
    refused("e.txt", *command, "-o", "new.txt", "--errors", "e.txt")
    refused("out.txt", *collect, "-o", "out.txt")
    refused("e.txt", *collect, "-o", "new.txt", "--errors", "e.txt")
    for name in (command, collect):
        for _ in range(2):  # the second time they belong to it
            test.run(*name, "-o", f"{name[0]}.txt", "--errors", f"{name[0]}-errors.txt")
            assert len(test.answers(f"{name[0]}.txt")) == 2 and len(test.answers(f"{name[0]}-errors.txt")) == 1
    test.run(*collect, "-o", "run.txt")  # the dataset's, whichever command wrote it
    test.run(*collect, "-o", "out.txt", "--errors", "e.txt", "--overwrite")
    assert len(test.answers("out.txt")) == 2 and len(test.answers("e.txt")) == 1


@case
def an_output_that_was_edited_is_not_overwritten(test):
    test.write("in.jsonl", [*short_jobs(2), {"custom_id": "bad", "prompt": 5}])
    command = ("run", "in.jsonl", "--model", test.model, "--engine-test", "instant", "--store", "s.db")
    collect = ("collect", "--dataset", "run", "--store", "s.db")
    files = ("-o", "out.jsonl", "--errors", "e.jsonl")
    test.run(*command, *files)
    for name in ("out.jsonl", "e.jsonl"):
        written = test.read(name)
        test.write(name, ["edited"])
        for again in (command, collect):
            done = test.run(*again, *files, status=1)
            assert f"{name} was changed after dataset run wrote it" in done.err and test.read(name) == b"edited\n", done
        test.run(*collect, *files, "--overwrite")
        assert test.read(name) == written
    test.run(*command, *files)


@case
def an_output_that_is_edited_while_its_jobs_run_is_not_overwritten(test):
    test.write("in.jsonl", short_jobs(2))
    run(test)
    test.write("in.jsonl", short_jobs(20))
    process = test.start("run", "in.jsonl", "-o", "out.jsonl", "--model", test.model, "--engine-test", "fixed:20", "--max-batch", "1")
    test.wait_until("a result", lambda: test.query("SELECT count(*) FROM results", "out.jsonl.db")[0][0] > 2)
    process.send_signal(signal.SIGSTOP)
    test.write("out.jsonl", ["edited"])
    process.send_signal(signal.SIGCONT)
    done = test.wait(process)
    assert done.status == 1 and "out.jsonl was changed after dataset run wrote it" in done.err, done
    assert test.read("out.jsonl") == b"edited\n"
    run(test, "in.jsonl", "out.jsonl", "--overwrite")  # the answers were kept
    assert len(test.answers()) == 20


@case
def an_output_in_the_model_s_folder_or_over_a_file_of_it_is_refused(test):
    test.write("in.jsonl", short_jobs(1))
    os.makedirs(test.path("model/1_Pooling"))
    shutil.copy(test.model, test.path("model/weights"))
    os.symlink("model/weights", test.path("linked"))
    for name in ("model-00001-of-00002.gguf", "model-00002-of-00002.gguf"):
        shutil.copy(test.model, test.path(name))

    def refused(model, output, expected, *command):
        files = sorted(os.listdir(test.path("model")))
        done = test.run(*(command or ("run", "in.jsonl")), "-o", output, "--model", model, status=2)
        assert expected in done.err, done
        assert sorted(os.listdir(test.path("model"))) == files, done
    refused("model", "model/out.jsonl", "-o is in --model's folder: model/out.jsonl")
    refused("model/", "model/1_Pooling/config.json", "-o is in --model's folder")
    refused("model", "linked", "-o is in --model's folder")
    refused("model", "model/out.csv", "-o is in --model's folder", "annotate", "in.jsonl", "--prompt", "p.jinja")
    refused("model", "model/out.jsonl", "-o is in the model's folder", "embed")
    refused("model-00001-of-00002.gguf", "model-00002-of-00002.gguf", "-o is a part of --model")
    for output in ("model/config.json", "model/weights"):
        assert "OUT is in IN's folder" in test.run("quantize", "model", output, "--type", "q8_0", status=2).err
    done = test.run("run", "in.jsonl", "-o", "out.jsonl", "--model", "model", status=1)  # its store may be anywhere
    assert "config.json" in done.err and test.run("run", "in.jsonl", "-o", "-", "--store", "model/s.db", "--model", "model", status=1).err == done.err, done


@case
def reports_logits_models_and_traces_replace_only_what_they_wrote(test):
    test.write("in.jsonl", short_jobs(3))
    run(test)
    commands = {"page.html": ["report", "--dataset", "run", "--store", "out.jsonl.db", "-o", "page.html"],
                "x.f32": ["logits", test.model, "--tokens", "3 4 5", "-o", "x.f32"],
                "y.gguf": ["quantize", test.model, "y.gguf", "--type", "q8_0"],
                "steps": ["run", "in.jsonl", "-o", "traced.jsonl", "--model", test.model, "--trace-steps", "steps", "--max-tokens", "2"]}
    written = {}
    for name, command in commands.items():
        test.run(*command)
        written[name] = test.read(name)
        assert written[name], name
        test.run(*command)  # its own
        assert name == "steps" or test.read(name) == written[name], name
        edited = b"x" + test.read(name)
        for other in (edited, b"my notes\n"):
            with open(test.path(name), "wb") as file:
                file.write(other)
            if name == "steps":
                os.remove(test.path("traced.jsonl.db"))  # else nothing is left to compute: no engine, no trace
                if os.path.exists(test.path("traced.jsonl")):
                    os.remove(test.path("traced.jsonl"))
            refused = test.run(*command, status=1)
            assert f"{name} exists, and " in refused.err and "--overwrite" in refused.err and test.read(name) == other, refused
        test.run(*command, "--overwrite")
        assert name == "steps" or test.read(name) == written[name], name
    test.run("logits", test.model, "--tokens", "3 4 5 6", "-o", "x.f32")  # of another text
    assert 3 * len(test.read("x.f32")) == 4 * len(written["x.f32"])
    test.run("run", "in.jsonl", "-o", "b.jsonl", "--model", test.model, "--dataset", "b", "--store", "out.jsonl.db")
    other_type = test.run("quantize", test.model, "y.gguf", "--type", "f16", status=1)
    assert "y.gguf exists, and has other content" in other_type.err and test.read("y.gguf")[:4] == b"GGUF", other_type
    refused = test.run("report", "--dataset", "b", "--store", "out.jsonl.db", "-o", "page.html", status=1)
    assert "page.html exists, and is not this dataset's report" in refused.err, refused
