"""Draft tokens change no byte: answers by sha256 with and without, in every batch, with little memory, and through kills."""
import hashlib
import os
import random

import constraints
import kills
import tools
from session import case, varied_jobs

N_JOBS = 48


def twice(jobs):
    """Each job, and a different request whose answer begins alike: its draft is the first job's answer."""
    return jobs + [dict(job, custom_id=f"again {job['custom_id']}", max_tokens=job["max_tokens"] + 1) for job in jobs if "max_tokens" in job]


def digest(test, name="out.jsonl"):
    return hashlib.sha256(test.comparable(name)).hexdigest()


def drafts(test, store):
    (figures,) = test.query("SELECT drafted_tokens, accepted_tokens FROM speculation", store)
    assert test.query("SELECT sum(drafted), sum(accepted) FROM steps", store) == [figures], figures
    assert test.query("SELECT drafted_tokens, accepted_tokens FROM workers", store) == [figures], figures
    return figures


def same_with_drafts(test, jobs, ways, model=None, *common):
    """Runs the jobs without drafts and in each way. Returns the draft tokens of all ways, and those that were accepted."""
    test.write("in.jsonl", jobs)
    model, totals = model or test.model, [0, 0]
    test.run("run", "in.jsonl", "-o", "reference.jsonl", "--model", model, "--speculate", "off", *common)
    assert drafts(test, "reference.jsonl.db") == (0, 0)
    for i, way in enumerate(ways):
        output = f"out-{i}.jsonl"
        test.run("run", "in.jsonl", "-o", output, "--model", model, *way, *common)
        assert digest(test, output) == digest(test, "reference.jsonl"), way
        totals = [sum(pair) for pair in zip(totals, drafts(test, output + ".db"))]
    print(f"# {totals[0]} draft tokens, {totals[1]} accepted")
    return totals


@case
def answers_are_the_same_bytes_with_drafts_of_any_length(test):
    drafted, accepted = same_with_drafts(test, twice(varied_jobs(N_JOBS)), [
        ["--speculate", "1"], ["--speculate", "8", "--threads", "1"], ["--speculate", "32"], ["--speculate", "32", "--max-batch", "1"],
        ["--speculate", "16", "--max-rows", "9", "--max-batch", "5"], ["--speculate", "8", "--kv-memory", "300K", "--max-batch", "8"],
        ["--speculate", "8", "--backend", "cpu:plain"], ["--max-batch", "2"]])
    assert accepted > 500 and drafted - accepted > 500, (drafted, accepted)


@case
def pages_in_bytes_are_written_again_where_a_draft_was_wrong(test):
    drafted, accepted = same_with_drafts(test, twice(varied_jobs(N_JOBS)), [["--speculate", "16"], ["--speculate", "5", "--max-batch", "3"]],
                                         None, "--kv-type", "q8_0")
    assert accepted > 100 and drafted - accepted > 100, (drafted, accepted)


@case
def constrained_answers_are_the_same_bytes_with_drafts(test):
    ways = [["--speculate", "4"], ["--speculate", "32"], ["--speculate", "32", "--max-batch", "2"], ["--max-batch", "2"]]
    drafted, accepted = same_with_drafts(test, twice(constraints.jobs(40)), ways)
    assert accepted > 100 and drafted > accepted, (drafted, accepted)


@case
def tokens_of_forced_bytes_that_others_may_spell_too_are_drafted(test):
    """One answer without repetition: the drafts are the tokens of the constraint's forced text."""
    # After "a" only "t" can follow, but "th" is also a token: it is drawn, and "t" is the draft.
    job = [{"custom_id": "0", "prompt": "7", "max_tokens": 40, "temperature": 0, "guided_regex": "on(do|eo)at(he|ix)in(gw|tw)es(zu|ty)"}]
    drafted, accepted = same_with_drafts(test, job, [["--speculate", "1", "--max-batch", "1"]])
    assert (drafted, accepted) == (1, 1), (drafted, accepted)


@case
def calls_of_tools_are_the_same_bytes_with_drafts(test):
    model = tools.write_model(test)
    drafted, accepted = same_with_drafts(test, twice(tools.jobs(24, n=2)), [["--speculate", "32"], ["--speculate", "8", "--max-batch", "2"]],
                                         model, *tools.template(test, tools.THINKS))
    assert accepted > 100 and drafted > accepted, (drafted, accepted)


@case
def a_run_killed_while_it_drafts_has_the_bytes_of_one_without_drafts(test):
    test.environment["SHEAF_CRASH_LIMIT"] = "0"  # killed from outside, again and again: no job is to blame
    test.write("in.jsonl", twice(varied_jobs(200)))
    whole_s = test.run_file("in.jsonl", "reference.jsonl", "--speculate", "off").seconds
    rng = random.Random(kills.SEED + 7)
    n_kills = n_ended = 0
    while n_kills < 6:
        assert n_ended < 40, "the runs end before they are killed"
        ended = kills.until_killed(test, rng, whole_s, "run", "in.jsonl", "-o", "out.jsonl", "--model", test.model, "--speculate",
                                   str(rng.choice([2, 8, 32])), "--window", "32", "--max-batch", "8")
        n_kills, n_ended = n_kills + (not ended), n_ended + ended
        if ended:
            assert digest(test) == digest(test, "reference.jsonl")
            for name in ("out.jsonl", "out.jsonl.db", "out.jsonl.db-wal", "out.jsonl.db-shm", "out.jsonl.db-workers"):
                if test.exists(name):
                    os.remove(test.path(name))
    test.run_file("in.jsonl", "out.jsonl", "--speculate", "16")
    assert digest(test) == digest(test, "reference.jsonl")
    assert test.query("SELECT sum(accepted_tokens) > 0 FROM jobs", "out.jsonl.db") == [(1,)]


@case
def a_number_of_drafts_that_is_none_is_refused_by_name(test):
    test.write("in.jsonl", varied_jobs(1))
    for value in ("on", "0", "33", "-1", "4x"):
        refused = test.run("run", "in.jsonl", "-o", "out.jsonl", "--model", test.model, "--speculate", value, status=2)
        assert f'--speculate: expected auto, off or a number of draft tokens from 1 to 32, got "{value}"' in refused.err, refused.err
