"""One run of the program: rows go in, lines come out, messages become progress, log records and exceptions.

A single loop serves the three pipes, in the caller's thread: the caller's iterable is read only as fast as the program reads,
lines are given out one by one, and memory is bounded by a few pipe buffers and the longest line.
"""
import contextlib
import dataclasses
import json
import logging
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Iterator

from ._errors import Crashed, Error, JobsFailed, UsageError
from ._program import find_program

CHUNK_BYTES = 1 << 16
STOP_AGAIN_S = 2  # after SIGTERM; the second one makes a worker release its running jobs
STOP_KILL_S = 60  # a worker ends within 50 s of the first signal
EXIT_USAGE, EXIT_JOBS_FAILED = 2, 3
LEVELS = {"error": logging.ERROR, "warning": logging.WARNING, "info": logging.INFO, "debug": logging.DEBUG}
logger = logging.getLogger("sheaf")


@dataclasses.dataclass(frozen=True)
class Progress:
    """Figures of a running command. None: unknown."""
    dataset: str | None
    done: int  # finished jobs, failed ones included
    failed: int  # of them failed, in this run
    total: int | None
    tokens: int | None  # computed by this run
    rate: float | None  # jobs per second

    @property
    def seconds_left(self):
        if self.total is None or not self.rate:
            return None
        return max(0, self.total - self.done) / self.rate


@dataclasses.dataclass
class Outcome:
    """What a command did. A figure that it does not report is None."""
    exit_status: int = 0
    dataset: str | None = None
    done: int | None = None  # of annotate: rows; of submit: jobs that were queued now
    failed: int | None = None
    tokens: int | None = None
    rate: float | None = None
    text: str = ""  # printed to standard output: an evaluation, a sample, an estimate


class Results(Iterator):
    """An iterator over results. The program starts at the first one; `outcome` is set after the last.

    close(), the end of a `with` block, an exception in the loop's source and the collection of an unused iterator stop the program.
    """

    def __init__(self, generator):
        self._generator = generator
        self.outcome = None

    def __next__(self):
        try:
            return next(self._generator)
        except StopIteration as end:
            if end.value is not None:
                self.outcome = end.value
            raise StopIteration from None

    def close(self):
        self._generator.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Child:
    """source: an iterable of bytes for standard input; None: there is none. check: exit status 3 raises JobsFailed."""

    def __init__(self, arguments, *, source=None, progress=None, check=False, program=None):
        self.arguments = [find_program(program), *arguments, "--log-json"]
        self.source, self.progress, self.check = source, progress, check
        self.outcome, self.last_message, self.code = Outcome(), "", None
        self.process = self.selector = None

    # ---- the loop ----

    def lines(self):
        """Generates the lines of standard output as bytes and returns the Outcome."""
        self.start()
        try:
            yield from self.pump()
            self.process.wait()
        finally:
            self.stop()
        return self.finish()

    def run(self):
        """Runs to the end; what the command prints is outcome.text."""
        lines, text = self.lines(), []
        while True:
            try:
                text.append(next(lines))
            except StopIteration as end:
                end.value.text = b"".join(text).decode(errors="replace")
                return end.value

    def start(self):
        environment = {name: value for name, value in os.environ.items() if name != "SHEAF_PROGRAM"}
        inherited, self.alive = os.pipe()  # the program ends when this process does, also by SIGKILL, and knows that its input is not whole
        try:
            environment["SHEAF_PARENT_FD"] = str(inherited)
            self.process = subprocess.Popen(self.arguments, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0,
                                            stdin=subprocess.DEVNULL if self.source is None else subprocess.PIPE, pass_fds=(inherited,))
        except BaseException:
            os.close(self.alive)
            raise
        finally:
            os.close(inherited)
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.process.stdout, selectors.EVENT_READ)
        self.selector.register(self.process.stderr, selectors.EVENT_READ)
        self.pending = {self.process.stdout: bytearray(), self.process.stderr: bytearray()}
        if self.source is not None:
            self.source, self.unsent = iter(self.source), memoryview(b"")
            os.set_blocking(self.process.stdin.fileno(), False)
            self.selector.register(self.process.stdin, selectors.EVENT_WRITE)

    def pump(self):
        while self.selector.get_map():
            for key, _ in self.selector.select():
                pipe = key.fileobj
                if pipe is self.process.stdin:
                    self.feed()
                elif pipe is self.process.stderr:
                    for line in self.read_lines(pipe):
                        self.take_message(line)
                else:
                    yield from self.read_lines(pipe)

    def feed(self):
        if not self.unsent:
            chunk = bytearray()
            for item in self.source:
                chunk += item
                if len(chunk) >= CHUNK_BYTES:
                    break
            if not chunk:
                with contextlib.suppress(BrokenPipeError):  # it has ended
                    os.write(self.alive, b"e")
                self.close_input()
                return
            self.unsent = memoryview(chunk)
        try:
            self.unsent = self.unsent[os.write(self.process.stdin.fileno(), self.unsent):]
        except BlockingIOError:
            pass
        except BrokenPipeError:  # it has ended; its exit status and last message say why
            self.close_input()

    def close_input(self):
        self.selector.unregister(self.process.stdin)
        self.process.stdin.close()

    def read_lines(self, pipe):
        """The complete lines that the pipe has now; at its end also one without a line feed."""
        data = os.read(pipe.fileno(), CHUNK_BYTES)
        if not data:
            self.selector.unregister(pipe)
            last, self.pending[pipe] = bytes(self.pending[pipe]), bytearray()
            return [last] if last else []
        *lines, rest = data.split(b"\n")
        if not lines:
            self.pending[pipe] += rest
            return []
        lines[0] = bytes(self.pending[pipe]) + lines[0]
        self.pending[pipe] = bytearray(rest)
        return [line + b"\n" for line in lines]

    # ---- messages ----

    def take_message(self, line):
        text = line.decode(errors="replace").strip()
        try:
            message = json.loads(text)
            level, text = LEVELS[message["level"]], message["message"]
        except (ValueError, KeyError, TypeError):  # before its options are known the program writes plain lines
            message, level, text = {}, logging.ERROR, text.removeprefix("sheaf: ")
        event = message.get("event")
        if event == "failed":
            self.code = message.get("code")
        if event == "failed" or (not message and text):
            self.last_message = text  # raised, not logged
            return
        if text:
            logger.log(level, "%s", text)
        if event in ("progress", "finished") and "done" in message:
            self.take_figures(event, message)

    def take_figures(self, event, message):
        names = ("dataset", "done", "failed", "tokens", "rate")
        if event == "finished":
            for name in names:
                setattr(self.outcome, name, message.get(name))
        if self.progress:
            self.progress(Progress(total=message.get("total"), **{name: message.get(name) for name in names}))

    # ---- the end ----

    def stop(self):
        """Ends the program if it runs. Its input is closed only after that: an end of the input would mean that it is complete."""
        try:
            if self.process.poll() is None:
                self.terminate()
        finally:
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait()
            os.close(self.alive)
            self.selector.close()
            for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
                if pipe:
                    pipe.close()

    def terminate(self):
        for wait_s in (STOP_AGAIN_S, STOP_KILL_S - STOP_AGAIN_S):
            self.process.send_signal(signal.SIGTERM)
            began = time.monotonic()
            while self.process.poll() is None and time.monotonic() < began + wait_s:
                self.drain(began + wait_s - time.monotonic())
            if self.process.poll() is not None:
                return

    def drain(self, seconds):
        """Reads and drops what the program writes while it ends."""
        pipes = [key.fileobj for key in self.selector.get_map().values()]
        if self.process.stdin in pipes:
            self.selector.unregister(self.process.stdin)
        elif pipes:
            for key, _ in self.selector.select(max(0, seconds)):
                if not os.read(key.fd, CHUNK_BYTES):
                    self.selector.unregister(key.fileobj)
        else:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(max(0, seconds))

    def finish(self):
        status = self.process.returncode
        self.outcome.exit_status = status
        if status == 0 or (status == EXIT_JOBS_FAILED and not self.check):
            if status:
                logger.warning("%s", self.last_message)
            return self.outcome
        command = f"sheaf {self.arguments[1]}"
        message = self.last_message or f"{command}: exit status {status}"
        if status < 0:
            raise Crashed(f"{command} was ended by signal {-status} ({signal.Signals(-status).name})", signal=-status, exit_status=status)
        if status == EXIT_USAGE:
            raise UsageError(message, exit_status=status, code=self.code)
        if status == EXIT_JOBS_FAILED:
            raise JobsFailed(message, exit_status=status, code=self.code, outcome=self.outcome)
        raise Error(message, exit_status=status, code=self.code)
