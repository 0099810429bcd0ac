#!/usr/bin/env python3
"""The goals on one H200 and what gpu_device.sh measured beside them: OUT/goals.csv, and the same on standard output.

  gpu_goals.py OUT BATCH

Reads OUT/decode.log and OUT/prefill.log (sheaf bench --json, one object a line) and OUT/trace.jsonl (sheaf run --trace-steps).
The share of a step's time that is not on the device is taken over the steps that decode BATCH rows. Exit status 1: something
was not measured.
"""
import csv
import json
import os
import sys

DECODE_GOALS = {1: 560, 64: 12000, 256: 22000}  # tokens/s
PREFILL_GOAL, PREFILL_BATCH = 26000, 8
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


def off_device_percent(steps, batch):
    """None: there were no such steps. The first ones load kernels and capture graphs."""
    steps = [step for step in steps if step["rows"] == batch and step["outputs"] == batch][4:]
    elapsed = sum(step["since_last_us"] for step in steps)
    on_device = sum(value for step in steps for name, value in step.items()
                    if name.endswith("_us") and name not in ("ended_us", "since_last_us"))
    return 100 * (1 - on_device / elapsed) if elapsed else None


def goals(out, batch):
    """(what, "at least" or "at most", goal, measured or None)"""
    decode = {one["batch"]: one["decode_tokens_per_second"] for one in objects(os.path.join(out, "decode.log"))}
    prefill = {one["batch"]: one["prefill_tokens_per_second"] for one in objects(os.path.join(out, "prefill.log"))}
    for size in sorted(set(DECODE_GOALS) | set(decode)):
        yield f"decode tokens/s, batch {size}", "at least", DECODE_GOALS.get(size), decode.get(size)
    yield f"prefill tokens/s, batch {PREFILL_BATCH}", "at least", PREFILL_GOAL, prefill.get(PREFILL_BATCH)
    yield (f"% of a step not on the device, batch {batch}", "at most", OFF_DEVICE_GOAL,
           off_device_percent(objects(os.path.join(out, "trace.jsonl")), batch))


def main():
    out, batch = sys.argv[1], int(sys.argv[2])
    n_missing = 0
    with open(os.path.join(out, "goals.csv"), "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["what", "bound", "goal", "measured", "met"])
        for what, bound, goal, measured in goals(out, batch):
            n_missing += goal is not None and measured is None
            met = "" if goal is None or measured is None else measured >= goal if bound == "at least" else measured <= goal
            row = [what, bound, "" if goal is None else goal, "" if measured is None else f"{measured:.1f}",
                   met if met == "" else "yes" if met else "no"]
            writer.writerow(row)
            print(",".join(str(item) for item in row))
    return n_missing > 0


if __name__ == "__main__":
    sys.exit(main())
