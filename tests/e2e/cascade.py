"""sheaf annotate --cascade: a small model labels all rows, a large one those where the small one's label would break a guarantee. The
large model of these tests is the usual random one, the small one a copy with noise on its output matrix: its labels agree the more
often, the more probable they are."""
import csv
import io
import json
import random
import signal

import tiny_model
from annotate import BESIDE, read_csv, tokens_of_steps, write, write_csv
from session import case

CHOICES = ["yes", "no", "other"]
GUARANTEE = ("--choice", ",".join(CHOICES), "--guarantee", "accuracy=0.95")


def noisy_tensors(amount):
    def drawn(seed, n_rows):
        listed, data = tiny_model.cached_tensors(seed, n_rows)
        begin = next(offset for name, _, _, offset in listed if name == "output.weight")
        rng, data = random.Random(seed), bytearray(data)
        for block in range(begin, begin + n_rows * tiny_model.WIDTH // 32 * 34, 34):
            for i in range(block + 2, block + 34):
                byte = (data[i] ^ 128) - 128 + rng.randint(-amount, amount)
                data[i] = max(-127, min(127, byte)) & 255
        return listed, bytes(data)
    return drawn


def small_model(test, amount=110):
    tiny_model.write(test.path("small.gguf"), drawn=noisy_tensors(amount))
    write(test, "p.jinja", "Is {{ title }} good? {{ text }}\n")


def reviews(n, seed=1):
    draw = random.Random(seed)
    words = "good bad water river stone light dark warm cold slow fast round the a of in".split()
    return [["title", "text"]] + [[" ".join(draw.choices(words, k=2)), " ".join(draw.choices(words, k=draw.randint(2, 12)))] for _ in range(n)]


def cascade(test, *options, table="in.csv", models=None, out="out.csv", status=0, **others):
    models = models or f"{test.path('small.gguf')},{test.model}"
    return test.run("annotate", table, "--prompt", "p.jinja", "--cascade", models, *(options if "--choice" in options else (*GUARANTEE, *options)),
                    "--overwrite", "-o", out, status=status, **others)


def columns(test, name="out.csv"):
    rows = read_csv(test, name)
    return [dict(zip(rows[0], row, strict=True)) for row in rows[1:]]


def alone(test, model, name, table="in.csv"):
    """The rows as a run with one model labels them."""
    done = test.run("annotate", table, "--prompt", "p.jinja", "--choice", ",".join(CHOICES), "--probabilities", "--model", model, "-o", name)
    assert done.status == 0, done
    return columns(test, name)


@case
def each_row_has_the_label_of_its_model_and_the_guarantee_holds(test):
    small_model(test)
    write_csv(test, "in.csv", reviews(1500))
    done = cascade(test, "--probabilities")
    out, large, small = columns(test), alone(test, test.model, "large.csv"), alone(test, test.path("small.gguf"), "small-alone.csv")
    assert list(out[0]) == ["title", "text", "label", *CHOICES, "margin", "label_model", *BESIDE], out[0]
    by_small = [i for i, row in enumerate(out) if row["label_model"] == "small.gguf"]
    by_large = [i for i, row in enumerate(out) if row["label_model"] == "tiny.gguf"]
    assert len(by_small) + len(by_large) == 1500 and len(by_small) > 300, (len(by_small), len(by_large))
    for i, row in enumerate(out):
        model = small if row["label_model"] == "small.gguf" else large
        assert all(row[name] == model[i][name] for name in ("label", *CHOICES, "margin", *BESIDE)), (i, row, model[i])
    n_equal = sum(row["label"] == large[i]["label"] for i, row in enumerate(out))
    n_small_equal = sum(row["label"] == large[i]["label"] for i, row in enumerate(small))
    assert n_equal >= 0.95 * 1500 > n_small_equal, (n_equal, n_small_equal)
    threshold = float(done.out.split("a probability of at least ")[1].split()[0])
    assert all(max(float(out[i][name]) for name in CHOICES) >= threshold - 1e-4 for i in by_small), threshold
    assert f"cascade: 1500 rows, {len(by_small)} labelled by small.gguf, {len(by_large)} by tiny.gguf, " in done.out, done.out
    assert "with probability 0.95 over the choice of the rows that were drawn, at least 95 % of the table's labels equal those of tiny.gguf" in done.out
    assert done.err.count("M parameters) on") == 2, done.err  # each model is loaded once
    accuracy = float(done.out.split("estimate: accuracy ")[1].split(",")[0])
    assert abs(accuracy - n_equal / 1500) < 0.03, (accuracy, n_equal)
    # below the threshold all rows are the large model's, so it answered no row that the small one kept
    jobs = dict(test.query("SELECT dataset, count(*) FROM jobs GROUP BY 1", "out.csv.db"))
    different = len({(row["title"], row["text"]) for row in out})
    assert jobs["annotate"] == different and jobs["annotate-large"] <= len(by_large) < different, (jobs, different)


@case
def equal_rows_have_equal_labels_of_one_model(test):
    small_model(test)
    rows = reviews(300)
    write_csv(test, "in.csv", rows + rows[1:] + rows[1:])
    cascade(test)
    out = columns(test)
    for i, row in enumerate(out):
        assert row == out[i % 300], (i, row, out[i % 300])
    assert len({row["label_model"] for row in out}) == 2


@case
def the_same_command_computes_nothing_and_another_seed_draws_other_rows(test):
    small_model(test)
    write_csv(test, "in.csv", reviews(800))
    first = cascade(test)
    whole, n_jobs = test.read("out.csv"), test.query("SELECT count(*) FROM jobs", "out.csv.db")
    again = cascade(test)
    assert test.read("out.csv") == whole and again.out == first.out, again
    assert "tiny.gguf: %d of %d requests" % (2 * test.query("SELECT n_done FROM datasets WHERE dataset = 'annotate-large'", "out.csv.db")[0]) in again.err, again.err
    assert test.query("SELECT count(*) FROM jobs", "out.csv.db") == n_jobs
    other = cascade(test, "--seed", "7")
    assert other.out != first.out, other.out
    tiny_model.write(test.path("third.gguf"), seed=3)
    done = cascade(test, models=f"{test.path('small.gguf')},{test.path('third.gguf')}", status=1)
    assert "annotate-large has answers of another model" in done.err, done.err
    done = cascade(test, "--force-new", models=f"{test.path('small.gguf')},{test.path('third.gguf')}")
    fresh = cascade(test, "--store", "fresh.db", models=f"{test.path('small.gguf')},{test.path('third.gguf')}", out="fresh.csv")
    assert test.read("out.csv") == test.read("fresh.csv") != whole and done.out == fresh.out, (done.out, fresh.out)


@case
def a_run_that_is_killed_in_each_model_ends_with_the_bytes_of_a_calm_one(test):
    small_model(test)
    write_csv(test, "in.csv", reviews(1500))
    options = ("--max-batch", "8", "--window", "16", "--threads", "1", "--speculate", "off")
    calm = cascade(test, *options, "--trace-steps", "whole.jsonl", out="whole.csv")
    n_large = test.query("SELECT count(*) FROM jobs WHERE dataset = 'annotate-large'", "whole.csv.db")[0][0]
    traces = ["last.jsonl", "last.jsonl.large"]
    counted = "SELECT count(*) FROM results JOIN jobs ON jobs.id = results.job WHERE dataset = "
    # 300: in the rounds of draws; the last in the rest
    for i, (dataset, n_least) in enumerate((("annotate", 500), ("annotate", 1000), ("annotate-large", 20), ("annotate-large", n_large * 2 // 3))):
        process = test.start("annotate", "in.csv", "--prompt", "p.jinja", "--cascade", f"{test.path('small.gguf')},{test.model}", *GUARANTEE, *options,
                             "--trace-steps", f"trace{i}.jsonl", "-o", "out.csv")
        test.wait_until("answers", lambda: (test.query(f"{counted}'{dataset}'", "out.csv.db") or [(0,)])[0][0] >= n_least)
        process.kill()
        assert test.wait(process).status == -signal.SIGKILL and not test.exists("out.csv")
        traces += [f"trace{i}.jsonl"] + ([f"trace{i}.jsonl.large"] if test.exists(f"trace{i}.jsonl.large") else [])
    last = cascade(test, *options, "--trace-steps", "last.jsonl")
    assert test.read("out.csv") == test.read("whole.csv") and last.out == calm.out, (last.out, calm.out)
    whole = tokens_of_steps(test, "whole.jsonl") + tokens_of_steps(test, "whole.jsonl.large")
    n_computed = sum(tokens_of_steps(test, name) for name in traces)
    # what was in flight at a kill is computed again: 16 rows of at most 60 tokens
    assert n_computed <= whole + 4 * 16 * 60, (n_computed, whole)


@case
def a_run_that_is_stopped_at_any_round_writes_no_table(test):
    small_model(test)
    write_csv(test, "in.csv", reviews(1500))
    calm, n_stopped = cascade(test, out="whole.csv"), 0
    counted = "SELECT count(*) FROM results JOIN jobs ON jobs.id = results.job WHERE dataset = 'annotate-large'"
    for n_more in (1, 2, 62, 30, 30):
        before = (test.query(counted, "out.csv.db") or [(0,)])[0][0] if test.exists("out.csv.db") else 0
        process = test.start("annotate", "in.csv", "--prompt", "p.jinja", "--cascade", f"{test.path('small.gguf')},{test.model}", *GUARANTEE, "-o",
                             "out.csv", "--overwrite", "--max-batch", "2", "--threads", "1")
        test.wait_until("answers", lambda: process.poll() is not None or (test.query(counted, "out.csv.db") or [(0,)])[0][0] >= before + n_more)
        process.send_signal(signal.SIGINT)
        done = test.wait(process)
        assert done.status == 0 and done.out == calm.out or done.status == 1 and "stopped: " in done.err and not test.exists("out.csv"), done
        n_stopped += done.status == 1
    last = cascade(test)
    assert n_stopped and last.out == calm.out and test.read("out.csv") == test.read("whole.csv"), (last.out, calm.out)


# ---- gold labels ----

def with_gold(test, n, share, seed=3, wrong=0.0):
    """The table with labels of the large model as gold ones, of some random rows; some of these are another label. The
    guarantee may fail for one seed in twenty: unit_gold_threshold has the probability, this is one of the others."""
    write_csv(test, "in.csv", reviews(n))
    draw, large = random.Random(seed), alone(test, test.model, "large.csv")
    gold = [row["label"] if draw.random() >= wrong else CHOICES[(CHOICES.index(row["label"]) + 1) % 3] for row in large]
    rows = [[*row, f" {gold[i]} " if draw.random() < share else ""] for i, row in enumerate(reviews(n)[1:])]
    write_csv(test, "gold.csv", [["title", "text", "truth"]] + rows)
    return gold


@case
def gold_labels_choose_the_threshold_and_both_models_are_held_to_them(test):
    small_model(test)
    gold = with_gold(test, 1500, 0.3)
    done = cascade(test, "--gold-column", "truth", table="gold.csv")
    out = columns(test)
    n_small, n_right = sum(row["label_model"] == "small.gguf" for row in out), sum(row["label"] == gold[i] for i, row in enumerate(out))
    assert n_small > 200 and n_right >= 0.95 * 1500, (n_small, n_right)
    assert "if these are a random sample of the table, at least 95 % of the table's labels equal the gold labels" in done.out, done.out
    assert f"{n_small} labelled by small.gguf, {1500 - n_small} by tiny.gguf" in done.out, done.out
    differ = sum(row["truth"].strip() not in ("", row["label"]) for row in out)
    n_gold = sum(row["truth"] != "" for row in out)
    assert f"{differ} of {n_gold} gold labels differ" in done.out, (differ, n_gold, done.out)
    whole = test.read("out.csv")
    assert cascade(test, "--gold-column", "truth", table="gold.csv").out == done.out and test.read("out.csv") == whole


@case
def files_of_gold_labels_are_for_the_evaluation_and_a_column_for_the_guarantee(test):
    small_model(test)
    gold = with_gold(test, 1500, 0.3)
    done = cascade(test, "--gold", "truth", table="gold.csv")  # the older name of --gold-column
    assert cascade(test, "--gold-column", "truth", table="gold.csv").out == done.out
    write_csv(test, "some.csv", [["row", "truth"]] + [[str(i + 1), gold[i]] for i in range(0, 1500, 7)])
    evaluated = cascade(test, "--gold-column", "truth", "--evaluate", "truth", "--gold", "some.csv", table="gold.csv")
    out = columns(test)
    rows = [i for i, row in enumerate(out) if i % 7 == 0 or row["truth"]]
    assert len(rows) > sum(row["truth"] != "" for row in out) > 100, len(rows)
    accuracy = sum(out[i]["label"] == gold[i] for i in rows) / len(rows)
    assert f"rows with a gold label: {len(rows)}\naccuracy: {accuracy:.4f}" in evaluated.out and done.out.strip() in evaluated.out, evaluated


@case
def statistics_and_the_page_have_the_guarantee(test):
    small_model(test)
    with_gold(test, 600, 0.5)
    for name in ("s.csv", "s.jsonl"):
        done = cascade(test, "--statistics", name, table="gold.csv")
        out = columns(test)
        n_small = sum(row["label_model"] == "small.gguf" for row in out)
        if name == "s.csv":
            found = list(csv.DictReader(io.StringIO(test.read(name).decode())))
        else:
            found = [json.loads(line) for line in test.read(name).splitlines()]
        figures = {(row["figure"], row["label"]): row["value"] for row in found}
        assert {row["gold"] for row in found} == {"tiny.gguf"} and {int(row["rows"]) for row in found} == {600}, found
        assert float(figures["cascade_share", "small.gguf"]) == n_small / 600 and float(figures["cascade_share", "tiny.gguf"]) == (600 - n_small) / 600, figures
        assert float(figures["cascade_guarantee", ""]) == 0.95 == float(figures["cascade_confidence", ""]), figures
        assert f"of at least {float(figures['cascade_threshold', 'small.gguf']):.4g}\n" in done.out, (figures, done.out)
        assert f"accuracy {float(figures['cascade_accuracy', '']):.4g}, " in done.out, (figures, done.out)
    test.run("report", "--dataset", "annotate", "--store", "out.csv.db", "--statistics", "s.csv", "-o", "page.html")
    page = test.read("page.html").decode()
    assert "tiny.gguf \u2013 label" in page and "cascade_guarantee" in page and f"{n_small / 600:.4g}" in page, page[-3000:]
    done = cascade(test, "--gold-column", "truth", "--evaluate", "truth", "--statistics", "g.csv", models=test.path("small.gguf"), table="gold.csv", status=None)
    found = list(csv.DictReader(io.StringIO(test.read("g.csv").decode())))
    assert found[0]["figure"] == "accuracy" and found[-1]["figure"] == "cascade_accuracy" and found[-1]["gold"] == "truth", found
    assert any(row["figure"] == "cascade_share_open" for row in found), found


@case
def without_a_large_model_rows_below_the_threshold_stay_open(test):
    small_model(test)
    gold = with_gold(test, 1500, 0.4)
    done = cascade(test, "--gold-column", "truth", models=test.path("small.gguf"), table="gold.csv")
    out = columns(test)
    kept = [i for i, row in enumerate(out) if row["label"]]
    assert 100 < len(kept) < 1500 and sum(out[i]["label"] == gold[i] for i in kept) >= 0.95 * len(kept), len(kept)
    for i, row in enumerate(out):
        expected = ["small.gguf", "stop", ""] if row["label"] else ["", "error", "open: its label is below the threshold of --cascade"]
        assert [row["label_model"], row["sheaf_finish_reason"], row["sheaf_error"]] == expected, row
    assert f"{len(kept)} labelled by small.gguf, {1500 - len(kept)} open" in done.out, done.out
    assert "at least 95 % of the labels given equal the gold labels" in done.out, done.out


@case
def a_guarantee_that_gold_labels_do_not_show_is_refused_before_the_large_model_labels_the_rest(test):
    small_model(test)
    with_gold(test, 400, 0.1)
    done = cascade(test, "--gold-column", "truth", table="gold.csv", status=1)
    n_gold = sum(row[2] != "" for row in read_csv(test, "gold.csv")[1:])
    assert f"can't be shown with {n_gold} gold labels: at least 59 are needed" in done.err, done.err
    with_gold(test, 400, 0.5, wrong=0.2)
    done = cascade(test, "--gold-column", "truth", table="gold.csv", status=1)
    assert "is not shown even if tiny.gguf labels all rows" in done.err and not test.exists("out.csv"), done.err
    assert test.query("SELECT count(*) FROM jobs WHERE dataset = 'annotate-large'", "out.csv.db")[0][0] < 300
    done = cascade(test, "--gold-column", "truth", models=test.path("small.gguf"), table="gold.csv", status=1)
    assert "of its most probable ones" in done.err, done.err


# ---- edges ----

@case
def a_small_table_and_rows_that_fail(test):
    small_model(test)
    rows = reviews(40)
    rows[5][1] = "x" * 2000  # more than the context
    write_csv(test, "in.csv", rows)
    done = cascade(test, status=3)
    out = columns(test)
    assert out[4]["label"] == "" and "256" in out[4]["sheaf_error"] and out[4]["label_model"] == "tiny.gguf", out[4]
    assert all(row["label"] in CHOICES for i, row in enumerate(out) if i != 4) and "cascade: 40 rows" in done.out, done
    write_csv(test, "in.csv", reviews(0))
    done = cascade(test)
    assert "cascade: 0 rows" in done.out and columns(test) == [], done


@case
def formats_prefixes_and_left_out_rows(test):
    small_model(test)
    rows = reviews(120)
    rows[3] = ["", ""]
    write(test, "in.jsonl", "".join(json.dumps(dict(zip(rows[0], row))) + "\n" for row in rows[1:]))
    cascade(test, "--prefix", "m_", "--skip-empty", table="in.jsonl", out="out.jsonl")
    out = test.answers("out.jsonl")
    assert len(out) == 119 and {row["m_label_model"] for row in out} <= {"small.gguf", "tiny.gguf"} and all(row["m_label"] in CHOICES for row in out)
    done = cascade(test, "--skip-empty", table="in.jsonl", out="out.parquet")
    assert "cascade: 119 rows" in done.out, done.out
    write_csv(test, "taken.csv", [["title", "text", "label_model"], ["a", "b", "c"]])
    assert "has a column \"label_model\" already" in cascade(test, table="taken.csv", status=2).err


@case
def what_does_not_fit_is_refused_by_name(test):
    small_model(test)
    write_csv(test, "in.csv", reviews(5))
    both = f"{test.path('small.gguf')},{test.model}"
    choice, guarantee = ("--choice", "a,b"), ("--guarantee", "accuracy=0.9")
    write(test, "p.jinja", "{{ title }}\n")
    for options, words in (
            ((*choice, "--cascade", both), "--cascade needs --guarantee accuracy=X"),
            ((*choice, "--cascade", both, "--guarantee", "recall=0.9"), "--guarantee: expected accuracy=X"),
            ((*choice, "--cascade", both, "--guarantee", "accuracy=1"), "--guarantee: expected accuracy=X"),
            ((*choice, "--cascade", both, *guarantee, "--confidence", "95"), "--confidence: expected a number above 0 and below 1"),
            ((*choice, "--cascade", test.model, *guarantee), "SMALL alone needs --gold-column COLUMN"),
            ((*choice, "--cascade", f"{both},{test.model}", *guarantee), "expected two models, SMALL,LARGE"),
            ((*choice, "--cascade", f"{test.model},{test.model}", *guarantee), "SMALL and LARGE are one model"),
            ((*choice, "--cascade", both, *guarantee, "--model", test.model), "--cascade names the models"),
            ((*choice, "--cascade", both, *guarantee, "--votes", "3"), "--votes does not fit"),
            ((*choice, "--cascade", both, *guarantee, "--sample", "3"), "--cascade does not fit --sample"),
            ((*choice, "--cascade", both, *guarantee, "--estimate"), "--cascade does not fit --estimate"),
            ((*choice, "--cascade", both, *guarantee, "--certificate", "c.json"), "--cascade does not fit --certificate"),
            ((*choice, "--cascade", both, *guarantee, "--partial"), "--cascade does not fit --partial"),
            ((*choice, "--cascade", both, *guarantee, "--brokers", "127.0.0.1:1"), "not with --brokers"),
            (("--cascade", both, *guarantee), "--cascade needs --choice"),
            (("--cascade", both, *guarantee, "--questions", "q.json"), "not --questions"),
            ((*choice, "--cascade", both, *guarantee, "--gold", "title", "--gold", "text"), "--gold is a file for --evaluate: name the column of --cascade by --gold-column"),
            ((*choice, "--cascade", both, *guarantee, "--gold-column", "titel"), "--gold-column: there is no column \"titel\"; the nearest is title"),
            ((*choice, "--cascade", both, *guarantee, "--gold", "g.csv"), "--gold needs --evaluate COLUMN"),
            ((*choice, "--gold-column", "title", "--model", test.model), "--gold-column: expected --cascade SMALL,LARGE with it"),
            ((*choice, "--evaluate", "title", "--gold", "title", "--model", test.model), "a column of the table is named by --evaluate"),
            ((*choice, "--cascade", both, *guarantee, "--gold", "titel"), "--gold-column: there is no column \"titel\"; the nearest is title"),
            ((*choice, "--cascade", both, *guarantee, "--dataset", 123 * "d"), "a name has at most 122 bytes"),
            ((*choice, *guarantee, "--model", test.model), "--guarantee: expected --cascade SMALL,LARGE"),
            ((*choice, "--cascade", f"{test.path('small.gguf')},none.gguf", *guarantee), "none.gguf")):
        done = test.run("annotate", "in.csv", "--prompt", "p.jinja", *options, "-o", "out.csv", status=None)
        assert done.status in (1, 2) and words in done.err and not test.exists("out.csv"), (options, done)
    assert not test.exists("out.csv.db")
