#!/usr/bin/env python3
"""The goals on one H200, and beside them what gpu_device.sh measured on the device it names: OUT/goals.csv, and the same on standard output.

  gpu_goals.py LOGS OUT BATCH

Reads LOGS/facts.log (the device), LOGS/settings.log, LOGS/decode.log, LOGS/prefill.log and LOGS/saturated.log (sheaf bench --json, one object a line; the first
has all of them), OUT/trace.jsonl (--trace-steps of sheaf run or sheaf bench) and OUT/stages.csv, for what shared the device. A saturated worker computes a token of a prompt for each token that it generates: their times add up.
The share of a step's time that is not on the device is taken over the steps that decode BATCH rows; of sheaf bench it lacks the scheduler's part. OUT/phases.csv has where the
time of such a step goes, and of steps with prompts. Exit status 1: something was not measured.
"""
import csv
import json
import os
import sys

# tokens/s of an H200, without multicast and without products of integers (gpu/README.md): Llama-3-8B's shape, Q4_K_M
DECODE_GOALS = {1: 450, 64: 12000}
SATURATED_GOAL = 14000  # 128 tokens in and 128 out, any batch
PREFILL_GOAL, PREFILL_BATCH = 32000, 8
OFF_DEVICE_GOAL = 5  # per cent, at batch 64


def objects(path):
    """Of a file of one JSON object a line, with other lines between them."""
    found = []
    if os.path.exists(path):
        with open(path, encoding="utf-8", errors="replace") as file:
            for line in file:
                text = line.strip().strip("[],")
                if text.startswith("{") and text.endswith("}"):
                    found.append(json.loads(text))
    return found


def phases(step):
    """By name; what the device spent on each."""
    return {name: value for name, value in step.items() if name.endswith("_us") and name not in ("ended_us", "since_last_us")}


def decoding(steps, batch):
    """The first ones load kernels and capture graphs."""
    return [step for step in steps if step["rows"] == batch and step["outputs"] == batch][4:]


def off_device_percent(steps, batch):
    """None: there were no such steps."""
    steps = decoding(steps, batch)
    elapsed = sum(step["since_last_us"] for step in steps)
    on_device = sum(sum(phases(step).values()) for step in steps)
    return 100 * (1 - on_device / elapsed) if elapsed else None


def phase_means(steps, batch):
    """(which steps, how many, rows, {phase: microseconds}), means over the steps."""
    for what, chosen in (("decoding", decoding(steps, batch)), ("prompts", [step for step in steps if step["rows"] > batch])):
        n = len(chosen)
        if n:
            names = phases(chosen[0])
            yield (what, n, sum(step["rows"] for step in chosen) / n,
                   {name: sum(step[name] for step in chosen) / n for name in [*names, "since_last_us"]})


def kind_of(setting):
    return "prefill" if setting["generate"] == 1 else "saturated" if setting["generate"] == setting["prompt"] else "decode"


def settings(logs, kind):
    """Of the process that measures all kinds, before that of one of them, which then measures again."""
    together = [one for one in objects(os.path.join(logs, "settings.log")) if kind_of(one) == kind]
    return [*together, *objects(os.path.join(logs, f"{kind}.log"))]


def goals(logs, out, batch):
    """(what, "at least" or "at most", goal, measured or None)"""
    decode = {one["batch"]: one["decode_tokens_per_second"] for one in settings(logs, "decode")}
    prefill = {one["batch"]: one["prefill_tokens_per_second"] for one in settings(logs, "prefill")}
    saturated = [1 / (1 / one["prefill_tokens_per_second"] + 1 / one["decode_tokens_per_second"])
                 for one in settings(logs, "saturated")]
    for size in sorted(set(DECODE_GOALS) | set(decode)):
        yield f"decode tokens/s, batch {size}", "at least", DECODE_GOALS.get(size), decode.get(size)
    yield "tokens/s, 128 in and 128 out", "at least", SATURATED_GOAL, max(saturated, default=None)
    yield f"prefill tokens/s, batch {PREFILL_BATCH}", "at least", PREFILL_GOAL, prefill.get(PREFILL_BATCH)
    yield (f"% of a step not on the device, batch {batch}", "at most", OFF_DEVICE_GOAL,
           off_device_percent(objects(os.path.join(out, "trace.jsonl")), batch))


def device_name(logs):
    path = os.path.join(logs, "facts.log")
    if not os.path.exists(path):
        return ""
    with open(path, encoding="utf-8", errors="replace") as file:
        return next((line.split(":", 1)[1].strip() for line in file if line.startswith("device:")), "")


def shared_with(out):
    """Of the stages whose times are quoted."""
    path = os.path.join(out, "stages.csv")
    if not os.path.exists(path):
        return ""
    with open(path, encoding="utf-8", newline="") as file:
        marks = {row[3] for row in csv.reader(file) if row[0] in ("settings", "decode", "prefill", "saturated", "trace") and len(row) > 3}
    return "".join(f"; {mark}" for mark in sorted(marks))


def write_phases(out, batch):
    with open(os.path.join(out, "phases.csv"), "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["steps", "how_many", "rows", "phase", "mean_us"])
        for what, n, rows, means in phase_means(objects(os.path.join(out, "trace.jsonl")), batch):
            for name, mean in means.items():
                writer.writerow([what, n, f"{rows:.1f}", name, f"{mean:.1f}"])


def main():
    logs, out, batch = sys.argv[1], sys.argv[2], int(sys.argv[3])
    n_missing = 0
    write_phases(out, batch)
    with open(os.path.join(out, "goals.csv"), "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["what", "bound", "goal", "measured", "met", "device"])
        for what, bound, goal, measured in goals(logs, out, batch):
            n_missing += goal is not None and measured is None
            met = "" if goal is None or measured is None else measured >= goal if bound == "at least" else measured <= goal
            row = [what, bound, "" if goal is None else goal, "" if measured is None else f"{measured:.1f}",
                   met if met == "" else "yes" if met else "no", device_name(logs) + shared_with(out)]
            writer.writerow(row)
            print(",".join(str(item) for item in row))
    return n_missing > 0


if __name__ == "__main__":
    sys.exit(main())
