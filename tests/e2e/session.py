"""A test's folder and the processes that it starts there. Each process has a deadline and is killed when its case ends."""
import json
import os
import re
import signal
import sqlite3
import subprocess
import tempfile
import time

import tiny_model

DEADLINE_S = float(os.environ.get("SHEAF_TEST_DEADLINE_S", "300"))  # detects a hang; no case waits for it
LAST_LINES = 40
SOME_FAILED = 3  # the exit status of run and work when they did their work and jobs failed
DONE = (0, SOME_FAILED)


class Skip(Exception):
    pass


def is_wide():
    """Whether cases run in all their rounds, kills and sizes: SHEAF_TEST_WIDE=1, as tests/support/wide.h has it. ops/nightly sets it."""
    return os.environ.get("SHEAF_TEST_WIDE", "") not in ("", "0")


def case(function):
    function.is_case = True
    return function


class Finished:
    def __init__(self, arguments, status, out, err, seconds):
        self.arguments, self.status, self.out, self.err, self.seconds = arguments, status, out, err, seconds

    def __str__(self):
        return f"sheaf {' '.join(self.arguments)}: exit {self.status} after {self.seconds:.1f} s\n{self.err}"


class Session:
    def __init__(self, sheaf, folder):
        self.sheaf, self.folder = sheaf, folder
        self.processes, self.log = [], []
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith("SHEAF_")}
        self.undo = []
        self.model = self.path("tiny.gguf")
        tiny_model.write(self.model)

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, lines):
        """Writes a file of lines; values that are not text are written as JSON."""
        with open(self.path(name), "w", encoding="utf-8") as file:
            for line in lines:
                file.write((line if isinstance(line, str) else json.dumps(line)) + "\n")
        return self.path(name)

    def read(self, name):
        with open(self.path(name), "rb") as file:
            return file.read()

    def exists(self, name):
        return os.path.exists(self.path(name))

    # ---- processes ----

    def start(self, *arguments, stdin=None, preexec_fn=None):
        stderr_file = tempfile.TemporaryFile(dir=self.folder)
        process = subprocess.Popen([self.sheaf, *arguments], cwd=self.folder, env=self.environment, text=True,
                                   errors="replace", stdin=subprocess.PIPE if stdin is not None else subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=stderr_file, preexec_fn=preexec_fn)
        process.input, process.arguments, process.started = stdin, arguments, time.monotonic()
        process.stderr_file, process.waited = stderr_file, False
        self.processes.append(process)
        return process

    def stderr_of(self, process):
        """Its standard error so far."""
        size = os.fstat(process.stderr_file.fileno()).st_size
        return os.pread(process.stderr_file.fileno(), size, 0).decode(errors="replace")

    def wait(self, process, deadline_s=DEADLINE_S):
        late = ""
        try:
            out, _ = process.communicate(process.input, timeout=deadline_s)
        except subprocess.TimeoutExpired:
            process.kill()
            out, _ = process.communicate()
            late = f"(killed: no end after {deadline_s} s)"
        err = self.stderr_of(process) + late
        process.waited = True
        finished = Finished(process.arguments, process.returncode, out, err, time.monotonic() - process.started)
        self.log.append(str(finished))
        assert finished.status not in (-signal.SIGSEGV, -signal.SIGABRT, -signal.SIGBUS, -signal.SIGFPE), finished
        assert "Sanitizer" not in err and "runtime error:" not in err, finished
        return finished

    def run(self, *arguments, stdin=None, status=0, deadline_s=DEADLINE_S, preexec_fn=None):
        """Runs to the end; `status` is the required exit status, None: any. 0 also accepts 3, some jobs failed."""
        finished = self.wait(self.start(*arguments, stdin=stdin, preexec_fn=preexec_fn), deadline_s)
        done = finished.status in DONE if status == 0 else finished.status == status
        assert status is None or done, f"expected exit {status}: {finished}"
        return finished

    def wait_until(self, what, condition, deadline_s=DEADLINE_S):
        """`what`: a text, or a function that returns one on timeout. A slow condition is polled less often."""
        began = asked = time.monotonic()
        while not condition():
            answered = time.monotonic()
            assert answered < began + deadline_s, f"{what() if callable(what) else what}: not after {deadline_s} s"
            time.sleep(min(max(0.01, 2 * (answered - asked)), 1))
            asked = time.monotonic()

    def end(self):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
                process.communicate()
            process.stderr_file.close()
        for step in reversed(self.undo):
            step()

    def last_output(self):
        for process in self.processes:
            if not process.waited:
                state = "running" if process.poll() is None else f"exit {process.returncode}"
                self.log.append(f"sheaf {' '.join(process.arguments)}: {state}\n{self.stderr_of(process)}")
        return [line for text in self.log[-6:] for line in text.splitlines()[-LAST_LINES:]]

    def is_sanitized(self):
        """Whether the program has the address sanitizer; repetitive cases may then be shorter."""
        with open(self.sheaf, "rb") as file:
            return b"__asan_init" in file.read()

    def need_plain_memory(self):
        """Skips a case that limits the address space: sanitizers reserve terabytes."""
        if self.is_sanitized():
            raise Skip("a sanitizer reserves address space")

    # ---- results ----

    def query(self, sql, store="sheaf.db"):
        """Rows from the store; [] while it does not exist."""
        try:
            database = sqlite3.connect(f"file:{self.path(store)}?mode=ro", uri=True, timeout=30)
        except sqlite3.OperationalError:
            return []
        try:
            return database.execute(sql).fetchall()
        except sqlite3.OperationalError as error:
            if "no such table" in str(error):
                return []
            raise
        finally:
            database.close()

    def answers(self, name="out.jsonl"):
        return [json.loads(line) for line in self.read(name).splitlines()]

    def comparable(self, name="out.jsonl"):
        """The file's bytes without the time of submission, which is the only thing that may differ."""
        return re.sub(rb'"created":\d+', b'"created":0', self.read(name))

    def run_file(self, source="in.jsonl", output="out.jsonl", *options, **others):
        return self.run("run", source, "-o", output, "--model", self.model, *options, **others)


# ---- jobs ----

WORDS = "the water in there another thing inner other earth rather within then winter finger anther".split()
SHARED = "You answer in the way the others did, and the answer is in the end within the limit. "


def error_of(answer):
    """The error of a line of the output: of the batch, or in the response's body; None when there is none."""
    return answer["error"] or answer["response"]["body"].get("error")


def text_of(number, n_words):
    return " ".join(WORDS[(number * 7 + i * i) % len(WORDS)] for i in range(n_words))


def varied_jobs(n):
    """Jobs of every kind: greedy and drawn, chat and plain, with a shared prefix and without, short and long, constrained and free."""
    jobs = []
    for i in range(n):
        job = {"custom_id": f"line {i}", "max_tokens": 3 + i * 5 % 29}
        if i % 3 == 0:
            job["messages"] = [{"role": "system", "content": SHARED}, {"role": "user", "content": text_of(i, 1 + i % 9)}]
        elif i % 3 == 1:
            job["prompt"] = SHARED + text_of(i, i % 11)
        else:
            job["prompt"] = text_of(i, 1 + i % 23)
        if i % 4 == 0:
            job["temperature"] = 0
        else:
            job.update(temperature=0.8, seed=i)
        if i % 5 == 0:
            job["n"] = 3
        if i % 6 == 0:
            job.update(top_p=0.9, top_k=40, min_p=0.01)
        if i % 7 == 0:
            job.update(presence_penalty=0.5, frequency_penalty=0.3, repetition_penalty=1.1)
        if i % 9 == 4:
            job["guided_regex"] = "([a-f]{3,9} )*[0-9]{2,40}"
        elif i % 11 == 8:
            job["structured_outputs"] = {"choice": ["the one", "the other", "none"]}
            job.update(choice_logprobs=True, choice_logprobs_include_end=i % 2 == 0)
        elif i % 8 == 3:
            job["bad_words"] = ["er", "t", "winter"]
        if i % 8 == 6:
            job["prompt_logprobs"] = i % 3
        if i % 8 == 7 and "prompt" in job:
            job.update(echo=True, max_tokens=i % 16 // 8 * 4)
        if i % 2 == 0 or "echo" in job:
            job.update(logprobs=True, top_logprobs=2) if "messages" in job else job.update(logprobs=2)
        jobs.append(job)
    return jobs
