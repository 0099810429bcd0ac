"""A queue that other processes work on: jobs are submitted, watched and collected."""
import json
import os
import tempfile
import time

from ._child import Child, Progress, Results
from ._program import option_arguments
from ._rows import encode_rows, is_path
from ._tasks import PROGRESS_S, check_options, json_lines

POLL_S = 1
WITHOUT_GROUP = ("submit", "cancel")  # these commands have no consumer group


class Client:
    """A queue on Kafka (brokers="HOST:9092") or in a SQLite file (store="jobs.db").

    options: of every command, for example config=, and over Kafka group=, jobs=, results= and property=[...]. With brokers, status() reads
    the topics; with brokers and the store of a `sheaf mirror` it reads the store.
    """

    def __init__(self, *, brokers=None, store=None, program=None, **options):
        check_options(options)
        if brokers is None and store is None:
            raise TypeError("Client: give brokers= or store=")
        self.brokers, self.store, self.program, self.options = brokers, store, program, options

    def submit(self, requests, dataset, **options):
        """Queues requests, given as for sheaf.run. The same dataset and lines are queued once. Returns an Outcome: done has the jobs
        that are new."""
        source = None if is_path(requests) else encode_rows(requests, "requests", "prompt")
        place = os.fspath(requests) if source is None else "-"
        return self.child("submit", [place], source=source, dataset=dataset, **options).run()

    def status(self, dataset=None):
        """A dict of the dataset's figures: submitted, done, failed, cancelled, running, jobs_per_second, seconds_left and more; without
        a dataset what `sheaf status --json` prints."""
        if self.brokers is None or self.store is not None:
            options = {name: self.options[name] for name in ("config",) if name in self.options}
            text = self.child_of_store("status", json=True, dataset=dataset, store=self.store, **options).run().text
        else:
            with tempfile.TemporaryDirectory(prefix="sheaf-") as folder:
                text = self.child_of_store("status", json=True, dataset=dataset, store=f"{folder}/mirror.db", rebuild=True,
                                           brokers=self.brokers, **self.options).run().text
        status = json.loads(text)
        return status if dataset is None else status["datasets"][0]

    def wait(self, dataset, *, progress=None, poll_s=POLL_S, timeout_s=None):
        """Returns the status of a dataset when none of its jobs is unfinished. Raises TimeoutError after timeout_s."""
        began = time.monotonic()
        while True:
            status = self.status(dataset)
            done = status["done"] + status["failed"] + status["cancelled"]
            if progress:
                progress(Progress(dataset, done, status["failed"], status["submitted"], status["completion_tokens"],
                                  status["jobs_per_second"]))
            if done >= status["submitted"]:
                return status
            if timeout_s is not None and time.monotonic() - began >= timeout_s:
                raise TimeoutError(f"dataset {dataset}: {done} of {status['submitted']} jobs are finished after {timeout_s} s")
            time.sleep(poll_s)

    def results(self, dataset, **options):
        """An iterator over a finished dataset's results, as dicts in input order; force=True: those that exist."""
        return Results(json_lines(lambda _: self.child("collect", ["--output=-"], dataset=dataset, **options)))

    def cancel(self, dataset, **options):
        """Cancels the unfinished jobs."""
        return self.child("cancel", [], dataset=dataset, **options).run()

    def work(self, model, *, progress=None, check=False, **options):
        """Computes jobs in this process's child; with exit_when_idle=0 until the queue has none."""
        check_options(options)
        return self.child("work", [os.fspath(model), f"--progress={PROGRESS_S}"], progress=progress, check=check, **options).run()

    def child(self, command, words, *, source=None, progress=None, check=False, **options):
        check_options(options)
        queue = {"brokers": self.brokers} if self.brokers is not None else {"store": self.store}
        own = {name: value for name, value in self.options.items() if name != "group" or command not in WITHOUT_GROUP}
        arguments = [command, *words, *option_arguments({**queue, **own, **options})]
        return Child(arguments, source=source, progress=progress, check=check, program=self.program)

    def child_of_store(self, command, **options):
        return Child([command, *option_arguments(options)], program=self.program)
