"""Faults of users and hosts: each gets one clear message, nothing is lost, and the rest continues."""
import os
import re
import resource
import signal
import socket
import subprocess

import tiny_model
from session import Skip, case, error_of, text_of

GOOD = {"prompt": "the winter", "max_tokens": 4, "temperature": 0}


def refused(test, *arguments, status=1, says=()):
    """The program ends with that status and exactly one line that holds every one of these words."""
    finished = test.run(*arguments, status=status)
    lines = finished.err.strip().splitlines()
    assert len(lines) == 1, finished
    for word in says:
        assert word in lines[0], f"expected {word!r}: {finished}"
    assert finished.out == "", finished
    return lines[0]


# ---- lines of the input ----

def one_bad_line(test, line, code, says):
    """Puts a bad line between good ones: it gets its error, and they get the same answers as without it."""
    test.write("good.jsonl", [GOOD, GOOD])
    test.run_file("good.jsonl", "good-out.jsonl")
    expected = [answer["response"]["body"]["choices"] for answer in test.answers("good-out.jsonl")]
    test.write("in.jsonl", [GOOD, line, GOOD])
    test.run_file()
    first, second, third = test.answers()
    assert [first["response"]["body"]["choices"], third["response"]["body"]["choices"]] == expected
    assert second["response"]["status_code"] == 400 and error_of(second)["code"] == code, second
    assert says in error_of(second)["message"], second
    assert test.query("SELECT status, error_code FROM jobs ORDER BY job_index", "out.jsonl.db") == [
        ("done", None), ("failed", code), ("done", None)]
    assert test.query("SELECT error_code, jobs FROM failures", "out.jsonl.db") == [(code, 1)]


@case
def a_line_that_is_no_json_gets_its_own_error(test):
    one_bad_line(test, '{"prompt": "the"', "invalid_encoding", "JSON")


@case
def a_line_that_is_json_but_no_object_gets_its_own_error(test):
    one_bad_line(test, '["the"]', "invalid_field", "object")


@case
def a_line_with_bad_utf8_gets_its_own_error(test):
    test.write("good.jsonl", [GOOD])
    with open(test.path("in.jsonl"), "wb") as file:
        file.write(test.read("good.jsonl") + b'{"prompt": "\xff\xfe", "max_tokens": 2}\n' + test.read("good.jsonl"))
    test.run_file()
    assert [error_of(answer) and error_of(answer)["code"] for answer in test.answers()] == [None, "invalid_encoding", None]


@case
def a_job_without_prompt_or_messages_gets_its_own_error(test):
    one_bad_line(test, {"max_tokens": 3}, "missing_field", "prompt")


@case
def a_prompt_longer_than_the_context_gets_its_own_error(test):
    one_bad_line(test, {"prompt": text_of(1, 400), "max_tokens": 3}, "context_length_exceeded", str(tiny_model.N_CONTEXT))


@case
def an_answer_that_cannot_fit_the_context_gets_its_own_error(test):
    one_bad_line(test, {"prompt": "the", "max_tokens": tiny_model.N_CONTEXT}, "context_length_exceeded",
                 str(tiny_model.N_CONTEXT))


@case
def a_prompt_that_leaves_one_token_of_the_context_is_answered(test):
    tokens = [1] * (tiny_model.N_CONTEXT - 1)
    test.write("in.jsonl", [{"prompt": tokens, "max_tokens": 1}, {"prompt": tokens, "max_tokens": 2}])
    test.run_file()
    first, second = test.answers()
    assert error_of(first) is None and error_of(second)["code"] == "context_length_exceeded", (first, second)


@case
def a_token_id_outside_the_vocabulary_gets_its_own_error(test):
    one_bad_line(test, {"prompt": [1, 2, tiny_model.N_VOCAB], "max_tokens": 3}, "token_out_of_range", str(tiny_model.N_VOCAB))


@case
def a_negative_token_id_gets_its_own_error(test):
    one_bad_line(test, {"prompt": [1, -1], "max_tokens": 3}, "invalid_field", "-1")


@case
def an_empty_prompt_gets_its_own_error(test):
    one_bad_line(test, {"prompt": "", "max_tokens": 3}, "empty_prompt", "prompt")


@case
def a_field_that_is_not_built_yet_is_refused_by_its_name(test):
    one_bad_line(test, dict(GOOD, use_beam_search=True), "unsupported_field", "use_beam_search")


@case
def streaming_is_refused_by_its_name(test):
    one_bad_line(test, dict(GOOD, stream=True), "unsupported_field", "stream")


@case
def a_field_with_a_wrong_type_is_refused_by_its_name(test):
    one_bad_line(test, dict(GOOD, temperature="warm"), "invalid_field", "temperature")


@case
def an_unknown_field_is_listed_in_the_warnings(test):
    test.write("in.jsonl", [dict(GOOD, color="red")])
    test.run_file()
    (answer,) = test.answers()
    assert error_of(answer) is None and any("color" in warning for warning in answer["response"]["body"]["warnings"]), answer


@case
def no_tokens_asked_for_gives_an_empty_answer(test):
    test.write("in.jsonl", [dict(GOOD, max_tokens=0)])
    test.run_file()
    (answer,) = test.answers()
    body = answer["response"]["body"]
    assert body["choices"][0]["text"] == "" and body["usage"]["completion_tokens"] == 0, answer


@case
def submit_counts_the_lines_that_warn(test):
    test.write("in.jsonl", [dict(GOOD, color="red"), GOOD, *[dict(GOOD, user="u") for _ in range(14)]])
    message = test.run("submit", "in.jsonl", "--dataset", "d", "--store", "s.db").err
    assert 'line 1: unknown field "color" ignored' in message and 'field "user" has no effect' in message, message
    assert message.count("has no effect\n") == 9 and "15 lines have fields that are ignored" in message, message


@case
def faulty_lines_are_reported_once_each_while_submitting(test):
    test.write("in.jsonl", [GOOD, "{oops", GOOD])
    finished = test.run_file()
    assert [line for line in finished.err.splitlines() if "warning" in line and "line 2" in line], finished


@case
def an_empty_input_gives_an_empty_output(test):
    test.write("in.jsonl", [])
    test.run_file()
    assert test.read("out.jsonl") == b""


@case
def blank_lines_and_a_missing_last_line_end_are_no_jobs_of_their_own(test):
    with open(test.path("in.jsonl"), "w", encoding="utf-8") as file:
        file.write('\n{"prompt": "the", "max_tokens": 1}\r\n   \n{"prompt": "the", "max_tokens": 1}')
    test.run_file()
    assert [error_of(answer) for answer in test.answers()] == [None, None]


# ---- files ----

@case
def a_missing_model_file_is_named_and_no_store_is_made(test):
    test.write("in.jsonl", [GOOD])
    refused(test, "run", "in.jsonl", "-o", "out.jsonl", "--model", "absent.gguf", says=["absent.gguf", "No such file"])
    assert sorted(os.listdir(test.folder)) == ["in.jsonl", "tiny.gguf"], os.listdir(test.folder)


@case
def a_worker_without_its_model_file_says_so_and_makes_no_store(test):
    refused(test, "work", "--model", "absent.gguf", says=["absent.gguf", "No such file"])
    assert os.listdir(test.folder) == ["tiny.gguf"], os.listdir(test.folder)


@case
def a_file_that_is_no_model_is_refused_by_its_name(test):
    test.write("text.gguf", ["this is a text"])
    test.write("in.jsonl", [GOOD])
    refused(test, "run", "in.jsonl", "-o", "out.jsonl", "--model", "text.gguf", says=["text.gguf", "GGUF"])


@case
def a_folder_in_place_of_a_model_is_refused(test):
    refused(test, "inspect", ".", says=["."])


@case
def an_empty_model_file_is_refused(test):
    test.write("empty.gguf", [])
    refused(test, "inspect", "empty.gguf", says=["empty.gguf"])


@case
def a_model_file_cut_short_anywhere_is_refused(test):
    whole = test.read("tiny.gguf")
    for size in (4, 23, 24, 500, 5000, len(whole) // 2, len(whole) - 1):
        with open(test.path("cut.gguf"), "wb") as file:
            file.write(whole[:size])
        refused(test, "inspect", "cut.gguf", says=["cut.gguf"])


@case
def a_missing_input_file_is_named(test):
    refused(test, "run", "absent.jsonl", "-o", "out.jsonl", "--model", test.model, says=["absent.jsonl", "No such file"])
    refused(test, "submit", "absent.jsonl", "--dataset", "d", says=["absent.jsonl", "No such file"])


@case
def an_output_in_a_folder_that_is_not_there_is_named_before_any_work(test):
    test.write("in.jsonl", [GOOD])
    refused(test, "run", "in.jsonl", "-o", "absent/out.jsonl", "--model", test.model, says=["absent/out.jsonl"])


@case
def a_store_that_is_no_sqlite_file_is_refused_and_left_as_it_is(test):
    text = "no database, but long enough to be read as the first page of one " * 40
    test.write("text.db", [text])
    before = test.read("text.db")
    refused(test, "status", "--store", "text.db", says=["text.db", "SQLite"])
    test.write("in.jsonl", [GOOD])
    refused(test, "submit", "in.jsonl", "--dataset", "d", "--store", "text.db", says=["text.db", "SQLite"])
    assert test.read("text.db") == before


@case
def a_sqlite_file_of_another_program_is_refused_and_left_as_it_is(test):
    import sqlite3
    database = sqlite3.connect(test.path("other.db"))
    database.execute("CREATE TABLE recipes (name TEXT)")
    database.commit()
    database.close()
    before = test.read("other.db")
    test.write("in.jsonl", [GOOD])
    refused(test, "submit", "in.jsonl", "--dataset", "d", "--store", "other.db", says=["other.db", "not a sheaf store"])
    assert test.read("other.db")[100:] == before[100:]


@case
def status_of_a_store_that_is_not_there_does_not_make_one(test):
    refused(test, "status", "--store", "absent.db", says=["absent.db"])
    assert not test.exists("absent.db")


@case
def a_dataset_that_is_not_there_is_named(test):
    test.write("in.jsonl", [GOOD])
    test.run("submit", "in.jsonl", "--dataset", "here")
    for arguments in (["status"], ["collect", "-o", "out.jsonl"], ["cancel"]):
        refused(test, *arguments, "--dataset", "elsewhere", says=["elsewhere"])
    assert not test.exists("out.jsonl")


# ---- a full disk ----

def small_disk(test, n_bytes):
    """A file system of that size mounted on the folder "disk"."""
    folder = test.path("disk")
    os.mkdir(folder)
    command = ["mount", "-t", "tmpfs", "-o", f"size={n_bytes}", "tmpfs", folder]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode != 0:
        raise Skip("a small file system cannot be mounted here")
    test.undo.append(lambda: subprocess.run(["umount", "-l", folder], capture_output=True, check=False))
    return folder


def fill(path, n_left):
    """Leaves so many bytes of the file system free."""
    about = os.statvfs(os.path.dirname(path))
    with open(path, "wb") as file:
        file.write(bytes(max(0, about.f_bavail * about.f_frsize - n_left)))


@case
def a_disk_too_full_to_submit_is_reported_and_the_same_submit_finishes_later(test):
    disk = small_disk(test, 2 << 20)
    fill(os.path.join(disk, "filler"), 300 << 10)
    jobs = [{"prompt": text_of(i, 30), "max_tokens": 2} for i in range(3000)]
    test.write("in.jsonl", jobs)
    store = os.path.join(disk, "s.db")
    refused(test, "submit", "in.jsonl", "--dataset", "d", "--store", store, says=["s.db", "full"])
    os.remove(os.path.join(disk, "filler"))
    test.write("in.jsonl", jobs[:200])  # fits; nothing of the complete file was submitted
    test.run("submit", "in.jsonl", "--dataset", "d", "--store", store)
    assert test.query("SELECT n_submitted FROM datasets WHERE dataset = 'd'", "disk/s.db") == [(200,)]
    test.write("in.jsonl", jobs[1:201])
    refused(test, "submit", "in.jsonl", "--dataset", "d", "--store", store, says=["another input"])


@case
def a_limit_of_file_sizes_is_reported_like_a_full_disk(test):
    """ulimit -f: SIGXFSZ would kill the process without a message."""
    test.write("in.jsonl", [{"prompt": text_of(i, 30), "max_tokens": 2} for i in range(3000)])

    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (300 << 10, 300 << 10))
    finished = test.run("submit", "in.jsonl", "--dataset", "d", status=1, preexec_fn=limit)
    assert "sheaf.db" in finished.err.splitlines()[-1], finished
    test.run("submit", "in.jsonl", "--dataset", "d")
    assert test.query("SELECT n_submitted FROM datasets") == [(3000,)]


@case
def a_quiet_worker_says_once_that_it_waits_for_a_full_disk(test):
    disk = small_disk(test, 64 << 20)
    store = os.path.join(disk, "s.db")
    test.write("in.jsonl", [{"prompt": text_of(i, 9), "max_tokens": 60, "n": 4, "temperature": 0.9} for i in range(200)])
    test.run("submit", "in.jsonl", "--dataset", "d", "--store", store)
    fill(os.path.join(disk, "filler"), 100 << 10)
    worker = test.start("work", "--model", test.model, "--store", store, "--exit-when-idle", "0", "--quiet")
    test.wait_until("the worker says that the disk is full", lambda: "disk is full" in test.stderr_of(worker))
    os.remove(os.path.join(disk, "filler"))
    finished = test.wait(worker)
    assert finished.status == 0 and finished.err.count("disk is full; trying again") == 1 and finished.err.count("\n") == 1, finished


@case
def a_worker_waits_for_a_full_disk_and_loses_nothing(test):
    disk = small_disk(test, 64 << 20)  # the log alone grows to 32 MB between checkpoints
    store = os.path.join(disk, "s.db")
    test.write("in.jsonl", [{"custom_id": f"{i}", "prompt": text_of(i, 9), "max_tokens": 60, "n": 4, "temperature": 0.9}
                            for i in range(400)])
    test.run("submit", "in.jsonl", "--dataset", "d", "--store", store)
    fill(os.path.join(disk, "filler"), 150 << 10)
    worker = test.start("work", "--model", test.model, "--store", store, "--exit-when-idle", "0")
    test.wait_until("the worker says that the disk is full", lambda: "disk is full" in test.stderr_of(worker))
    os.remove(os.path.join(disk, "filler"))
    finished = test.wait(worker)
    assert finished.status == 0, finished
    assert finished.err.count("disk is full") < 20, f"a message each time is too many: {finished}"
    test.run("collect", "--dataset", "d", "-o", "out.jsonl", "--store", store)
    assert [answer["custom_id"] for answer in test.answers()] == [f"{i}" for i in range(400)]
    assert all(error_of(answer) is None for answer in test.answers())
    # The work continues when the disk has space again; no figure is missing or counted twice.
    assert "working again" in finished.err, finished
    totals, = test.query("SELECT n_submitted, n_done, n_failed, completion_tokens, (SELECT count(*) FROM results),"
                         " (SELECT sum(completion_tokens) FROM jobs), (SELECT count(*) FROM queue) FROM datasets", "disk/s.db")
    assert totals == (400, 400, 0, totals[5], 400, totals[5], 0), totals
    (generated, counted, n_jobs), = test.query("SELECT generated_tokens, (SELECT sum(generated) FROM steps),"
                                               " (SELECT sum(done) FROM jobs_by_hour) FROM workers", "disk/s.db")
    assert generated == counted >= totals[3] and n_jobs == 400, (generated, counted, totals)
    assert test.query("PRAGMA integrity_check", "disk/s.db") == [("ok",)]


@case
def a_disk_too_full_for_the_output_is_reported_and_the_store_keeps_the_answers(test):
    disk = small_disk(test, 1 << 20)
    test.write("in.jsonl", [GOOD] * 50)
    test.run("submit", "in.jsonl", "--dataset", "d")
    test.run("work", "--model", test.model, "--exit-when-idle", "0")
    fill(os.path.join(disk, "filler"), 4096)
    output = os.path.join(disk, "out.jsonl")
    refused(test, "collect", "--dataset", "d", "-o", output, says=["out.jsonl", "No space left"])
    assert not test.exists("disk/out.jsonl")
    os.remove(os.path.join(disk, "filler"))
    test.run("collect", "--dataset", "d", "-o", output)
    assert len(test.answers("disk/out.jsonl")) == 50


@case
def a_store_that_may_not_grow_is_reported(test):
    test.write("in.jsonl", [{"prompt": text_of(i, 30), "max_tokens": 2} for i in range(2000)])

    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))

    finished = test.run("submit", "in.jsonl", "--dataset", "d", status=1, preexec_fn=limit)
    assert "sheaf.db" in finished.err and len(finished.err.strip().splitlines()) == 1, finished
    test.run("submit", "in.jsonl", "--dataset", "d")
    assert test.query("SELECT n_submitted, complete FROM datasets") == [(2000, 1)]


# ---- brokers ----

@case
def a_broker_that_is_not_there_is_reported_in_bounded_time(test):
    with socket.socket() as listener:  # bound but not listening, so that connections are refused
        listener.bind(("127.0.0.1", 0))
        broker = f"127.0.0.1:{listener.getsockname()[1]}"
        test.write("in.jsonl", [GOOD])
        commands = (["submit", "in.jsonl", "--dataset", "d"], ["work", "--model", test.model],
                    ["collect", "--dataset", "d", "-o", "out.jsonl"], ["cancel", "--dataset", "d"])
        for process in [test.start(*arguments, "--brokers", broker) for arguments in commands]:
            finished = test.wait(process)
            last = finished.err.strip().splitlines()[-1]
            assert finished.status == 1 and f"Kafka at {broker}: no answer within 10000 ms" in last, finished
    assert not test.exists("out.jsonl")


# ---- usage ----

@case
def a_property_that_would_lose_or_fail_jobs_is_refused(test):
    test.write("in.jsonl", [{"prompt": "a"}])
    for name, value in (("auto.offset.reset", "latest"), ("group.instance.id", "me")):
        refused(test, "submit", "in.jsonl", "--dataset", "d", "--brokers", "127.0.0.1:1", "--jobs", "t", "-X", f"{name}={value}",
                status=2, says=[f"-X {name}: sheaf sets this property itself"])


@case
def a_topic_serves_one_purpose(test):
    test.write("in.jsonl", [{"prompt": "a"}])
    for option, others in (("--jobs", "--jobs and --results"), ("--control", "--results and --control")):
        refused(test, "submit", "in.jsonl", "--dataset", "d", "--brokers", "127.0.0.1:1", option, "sheaf-results", status=2,
                says=[f"{others} both name topic sheaf-results"])


@case
def a_property_that_librdkafka_refuses_is_named_with_its_whole_value(test):
    test.write("in.jsonl", [{"prompt": "a"}])
    for name, value in (("security.protocol", "abc"), ("no.such.property", "x=y")):
        refused(test, "submit", "in.jsonl", "--dataset", "d", "--brokers", "127.0.0.1:1", "--jobs", "t", "-X",
                "client.id=me", "-X", f"{name}={value}", status=2, says=[f"-X {name}: ", f'"{value}"' if value == "abc" else name])


@case
def wrong_usage_exits_with_2_and_one_line(test):
    for arguments in ([], ["fly"], ["run"], ["run", "a", "b"], ["run", "in.jsonl"], ["work"], ["submit", "a"], ["collect"],
                      ["cancel"], ["work", "--model"], ["work", "--modle", "x"], ["run", "--threads", "0"],
                      ["run", "--threads", "many"], ["run", "--max-batch", "99999"], ["work", "--kv-memory", "lots"],
                      ["work", "-X", "nothing"], ["status", "extra"], ["inspect"], ["bench", "--batch"],
                      ["submit", "a", "--dataset", ""], ["submit", "a", "--dataset", "x" * 200],
                      ["run", "a", "-o", "b", "--model", "c", "--config", "absent.conf"]):
        refused(test, *arguments, status=2)


@case
def an_empty_value_is_refused_by_the_option_s_name(test):
    kafka = ["--brokers", "127.0.0.1:1"]
    work = ["work", "--model", test.model]
    for option in ("--group", "--jobs", "--results", "--dead", "--control", "--member-name", "--brokers", "--store", "--metrics"):
        refused(test, *work, *([] if option == "--brokers" else kafka), option, "", status=2, says=[f"{option}: expected ", "empty"])
    for arguments in (["cancel", *kafka], ["cancel"], ["collect", "-o", "out", *kafka], ["submit", "in.jsonl", *kafka], ["status"]):
        refused(test, *arguments, "--dataset", "", status=2, says=["--dataset: expected NAME, got an empty value"])
    for variable in ("SHEAF_GROUP", "SHEAF_BROKERS", "SHEAF_CONFIG", "SHEAF_STORE"):
        test.environment[variable] = ""
        refused(test, *work, status=2, says=[f"{variable}: --{variable[6:].lower()}: expected ", "empty"])
        del test.environment[variable]
    test.write("sheaf.conf", ["group ="])
    refused(test, *work, "--config", "sheaf.conf", status=2, says=["line 1: --group: expected NAME, got an empty value"])
    assert not test.exists("sheaf.db")


@case
def usage_of_kafka_is_checked_before_the_model_is_read(test):
    test.write("no.gguf", ["not read"])
    work = ["work", "--model", "no.gguf", "--brokers", "127.0.0.1:1"]
    for arguments, says in ((["--jobs", "a", "--results", "a"], "--jobs and --results both name topic a"),
                            (["--member-name", "a/b"], "--member-name: expected"),
                            (["--group", "g" * 300], "the group's name is longer than 128 bytes"),
                            (["--group-protocol", "lazy"], "--group-protocol: expected eager"),
                            (["-X", "linger.ms=soon"], "-X linger.ms"),
                            (["-X", "group.id=mine"], "sheaf sets this property itself")):
        refused(test, *work, *arguments, status=2, says=[says])
    assert not test.exists("sheaf.db")


@case
def a_backend_that_does_not_exist_is_refused_as_usage(test):
    test.write("in.jsonl", [GOOD])
    refused(test, "run", "in.jsonl", "-o", "out.jsonl", "--model", test.model, "--backend", "abacus", status=2,
            says=["abacus"])


@case
def pages_of_an_unknown_type_are_refused_as_usage(test):
    test.write("in.jsonl", [GOOD])
    refused(test, "run", "in.jsonl", "-o", "out.jsonl", "--model", test.model, "--backend", "cpu", "--kv-type", "q9",
            status=2, says=["expected f16 or q8_0"])


@case
def help_and_version_are_data_on_standard_output(test):
    for arguments in (["help"], ["--help"], ["help", "run"], ["work", "--help"], ["--version"]):
        finished = test.run(*arguments)
        assert finished.out.startswith(("sheaf", "usage: sheaf")) and finished.err == "", finished


@case
def options_come_from_the_command_line_before_the_environment_before_the_file(test):
    test.write("in.jsonl", [GOOD])
    test.write("sheaf.conf", ["# for every command", "model-name = of the file", "threads = 1", "dataset = other"])
    arguments = ["run", "in.jsonl", "--model", test.model, "--config", "sheaf.conf"]
    test.run(*arguments, "-o", "file.jsonl")
    test.environment["SHEAF_MODEL_NAME"] = "of the environment"
    test.run(*arguments, "-o", "environment.jsonl")
    test.run(*arguments, "-o", "line.jsonl", "--model-name", "of the line")
    names = [test.answers(f"{name}.jsonl")[0]["response"]["body"]["model"] for name in ("file", "environment", "line")]
    assert names == ["of the file", "of the environment", "of the line"], names


@case
def a_faulty_line_of_the_options_file_is_reported_with_its_number(test):
    test.write("sheaf.conf", ["threads = 1", "windwo = 5"])
    refused(test, "work", "--model", test.model, "--config", "sheaf.conf", status=2, says=["sheaf.conf", "line 2", "windwo"])


# ---- memory ----

def address_space(process):
    with open(f"/proc/{process.pid}/status", encoding="ascii") as file:
        return int(next(line for line in file if line.startswith("VmSize")).split()[1]) * 1024


@case
def a_run_whose_address_space_is_cut_ends_with_a_reason_or_goes_on(test):
    test.need_plain_memory()
    test.write("in.jsonl", [{"prompt": f"the winter {i}", "max_tokens": 100, "ignore_eos": True} for i in range(1500)])  # 24 s
    for spare in (0, 300_000, 1_000_000, 1_500_000, 2_000_000):
        output = f"{spare}.jsonl"
        running = test.start("run", "in.jsonl", "-o", output, "--model", test.model, "--engine-test", "fixed:10")
        test.wait_until("the first answers", lambda: test.query("SELECT 1 FROM results LIMIT 1", f"{output}.db"))
        most = address_space(running) + spare
        resource.prlimit(running.pid, resource.RLIMIT_AS, (most, most))
        # After one more batch it has allocated all its memory; then it gets SIGTERM.
        n_answered = "SELECT count(*) FROM results"
        before = test.query(n_answered, f"{output}.db")[0][0]
        test.wait_until("a batch more", lambda: running.poll() is not None or test.query(n_answered, f"{output}.db") > [(before + 64,)])
        running.terminate()
        ended = test.wait(running)
        assert ended.status == 1 and re.search("memory|the same command continues from here", ended.err.splitlines()[-1]), ended
        test.run_file("in.jsonl", output, "--engine-test", "instant")
        assert [answer["custom_id"] for answer in test.answers(output)] == [f"run-{i + 1}" for i in range(1500)]


# ---- the model file ----

def work_on(test, model, *options):
    return test.start("work", "--model", model, "--dataset", "d", *options)


def n_done(test):
    return len(test.query("SELECT 1 FROM jobs WHERE finished_at_us IS NOT NULL"))


@case
def a_model_that_is_written_to_ends_its_worker_and_nothing_more_is_committed(test):
    test.write("in.jsonl", [GOOD] * 2000)
    test.run("submit", "in.jsonl", "--dataset", "d")
    worker = work_on(test, test.model, "--engine-test", "fixed:20", "--max-batch", "4")
    test.wait_until("the first answers", lambda: n_done(test) > 0)
    with open(test.model, "r+b") as model:
        byte = model.read(1)
        model.seek(0)
        model.write(byte)
    finished = test.wait(worker)
    assert finished.status == 1 and "changed while it was in use" in finished.err, finished
    before = n_done(test)
    assert 0 < before < 2000
    # Another worker continues to the same bytes.
    test.run("work", "--model", test.model, "--dataset", "d", "--engine-test", "instant", "--exit-when-idle", "0")
    assert n_done(test) == 2000


@case
def a_model_that_is_cut_ends_its_worker_with_a_message_and_nothing_is_committed(test):
    with open(test.model, "rb") as model:
        content = model.read()
    worker = work_on(test, test.model)
    test.wait_until("the worker is ready", lambda: "system_fingerprint" in test.stderr_of(worker))
    os.truncate(test.model, 64)
    test.write("in.jsonl", [GOOD] * 8)
    test.run("submit", "in.jsonl", "--dataset", "d")
    finished = test.wait(worker)
    assert finished.status == 1, finished
    assert "SIGBUS" in finished.err or "changed while it was in use" in finished.err, finished
    assert test.model in finished.err, finished
    assert n_done(test) == 0
    with open(test.model, "wb") as model:
        model.write(content)
    test.run("work", "--model", test.model, "--dataset", "d", "--exit-when-idle", "0")
    assert n_done(test) == 8
