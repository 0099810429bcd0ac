"""Datasets of jobs from a seed, submitted during the storm."""
import json
import os
import random
import subprocess
import threading

WORDS = ("the", "river", "of", "seven", "winters", "carries", "old", "stones", "and", "a", "song", "towards", "the", "sea")
RUBBISH = "no job, but record {} of dataset {}"
SUBMIT_TRIES = 100


def dataset_name(number):
    return f"storm-{number:03d}"


def make_jobs(number, n_jobs, seed):
    """Short prompts, answers of 1 to 24 tokens in one or two choices, so that jobs finish out of order."""
    rng = random.Random(f"{seed}-{number}")
    jobs = []
    for i in range(n_jobs):
        job = {"custom_id": f"{dataset_name(number)}/{i}", "prompt": " ".join(rng.choices(WORDS, k=rng.randrange(1, 9))),
               "max_tokens": rng.choice((1, 2, 4, 8, 24)), "seed": rng.randrange(1 << 31), "temperature": 1.0}
        if rng.random() < 0.1:
            job["n"] = 2
        if rng.random() < 0.02:
            job["max_tokens"] = -1  # valid JSON, but refused: an error result
        jobs.append(job)
    return jobs


class Submission(threading.Thread):
    """Submits the datasets one after the other with `sheaf submit`, some twice, and malformed records between them with kcat: each
    when its share of the faults is behind, which share() returns, so that there is work as long as anything breaks."""

    def __init__(self, sheaf, cluster, folder, n_datasets, n_jobs, share, seed, counts):
        super().__init__(daemon=True)
        self.sheaf, self.cluster, self.folder, self.counts = sheaf, cluster, folder, counts
        self.n_datasets, self.n_jobs, self.share, self.seed = n_datasets, n_jobs, share, seed
        self.rng, self.kill_rng = (random.Random(f"{seed}-{name}") for name in ("submission", "submission-kills"))
        self.ending = threading.Event()
        self.n_submitted, self.fault = 0, None
        for number in range(n_datasets):
            with open(self.path(number), "w") as file:
                file.writelines(json.dumps(job) + "\n" for job in make_jobs(number, n_jobs, seed))

    def names(self):
        """The (dataset, job_id) that must be on the topic at the end."""
        return [(dataset_name(number), f"{dataset_name(number)}-{i}") for number in range(self.n_datasets)
                for i in range(1, self.n_jobs + 1)]

    def path(self, number):
        return os.path.join(self.folder, dataset_name(number) + ".jsonl")

    def run(self):
        try:
            for number in range(self.n_datasets):
                while self.share() < number / self.n_datasets and not self.ending.wait(0.1):
                    pass
                self.submit(number)
                if self.rng.random() < 0.15:
                    self.submit(number)  # a client that got no response submits again
                    self.counts["datasets submitted twice"] += 1
                self.rubbish(number)
        except Exception as fault:  # reported by the storm's own thread
            self.fault = fault

    def submit(self, number):
        command = [self.sheaf, "submit", self.path(number), "--dataset", dataset_name(number), "--brokers",
                   self.cluster.address, "--jobs", self.cluster.topics["jobs"], "--control", self.cluster.topics["control"]]
        if self.kill_rng.random() < 0.3:
            self.submit_and_kill(command)
        for _ in range(SUBMIT_TRIES):
            done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
            if done.returncode == 0:
                self.n_submitted += self.n_jobs
                return
            self.counts["submissions repeated"] += 1
            self.ending.wait(0.5)
        raise RuntimeError(f"sheaf submit: {done.stderr[-500:]}")

    def submit_and_kill(self, command):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.ending.wait(self.kill_rng.random())
        process.kill()
        process.wait()
        self.counts["submissions killed"] += 1

    def rubbish(self, number):
        for _ in range(SUBMIT_TRIES):
            try:
                self.cluster.produce("jobs", [RUBBISH.format(i, number) for i in range(self.rng.randrange(3))] or [])
                return
            except subprocess.SubprocessError:
                self.ending.wait(0.5)
        raise RuntimeError("kcat could not produce")
