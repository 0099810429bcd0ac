#!/usr/bin/env python3
"""Runs the end-to-end cases of one suite and reports in TAP: each case is a sentence.

  run.py SUITE --sheaf build/consumer/sheaf [--only WORD] [--keep]

A suite is a module beside this file; its cases are the functions marked with @case, run in the order of the file,
each in a folder of its own. Only Python's standard library is used, and sheaf is known by its command line alone.
A comment after each case has its seconds: by the clock, of the processor, and of the processor in brokers.
SHEAF_TEST_CASES selects cases by a pattern of their names, as in programs of C (ops/test NAME:CASE and second chances).
"""
import argparse
import fnmatch
import importlib
import os
import sys
import tempfile
import time
import traceback

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import session  # noqa: E402


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suite")
    parser.add_argument("--sheaf", required=True, help="the program")
    parser.add_argument("--only", default="", help="cases with this word in their name")
    parser.add_argument("--keep", action="store_true", help="leave the folders of failed cases")
    options = parser.parse_args()
    module = importlib.import_module(options.suite)
    cases = [item for item in vars(module).values() if getattr(item, "is_case", False) and options.only in item.__name__]
    if not cases:
        parser.error(f"no case of {options.suite} has {options.only!r} in its name")
    # Not inherited by the programs that cases run: suite "ci" tests ops/test itself.
    pattern = os.environ.pop("SHEAF_TEST_CASES", "*").replace(" ", "_")
    cases = [run for run in cases if fnmatch.fnmatchcase(run.__name__, pattern)]
    print(f"1..{len(cases)}", flush=True)
    n_failed = 0
    with tempfile.TemporaryDirectory(prefix="sheaf-e2e-", ignore_cleanup_errors=True) as root:
        try:
            for number, run in enumerate(cases, 1):
                n_failed += not run_case(number, run, os.path.abspath(options.sheaf), root, options.keep)
        finally:
            if hasattr(module, "finish"):
                module.finish()
    return n_failed > 0


def seconds():
    """(by the clock, of the processor in this program and its ended children, in the brokers that it started)"""
    kafka = sys.modules.get("kafka")
    return time.monotonic(), sum(os.times()[:4]), kafka.broker_seconds() if kafka else 0.0


def run_case(number, run, sheaf, root, keep):
    name = run.__name__.replace("_", " ")
    folder = tempfile.mkdtemp(prefix=f"{number:02d}-", dir=None if keep else root)
    began = seconds()
    test = session.Session(sheaf, folder)
    try:
        run(test)
        line = f"ok {number} - {name}"
    except session.Skip as reason:
        line = f"ok {number} - {name} # SKIP {reason}"
    except BaseException as fault:
        line = f"not ok {number} - {name}"
        for text in traceback.format_exc().splitlines() + test.last_output():
            print(f"# {text}")
        if keep:
            print(f"# folder: {folder}")
        if not isinstance(fault, Exception):
            raise
    finally:
        test.end()
    clock, own, brokers = (after - before for before, after in zip(began, seconds()))
    print(line)
    print(f"# {clock:.1f} s, processor {own:.1f} s, brokers {brokers:.1f} s", flush=True)
    return line.startswith("ok")


if __name__ == "__main__":
    sys.exit(main())
