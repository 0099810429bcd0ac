"""Tables as they come: encodings, lines above the header, CR alone; prompts without a file, samples without an output, tables that are
written before all rows have an answer."""
import csv
import gzip
import io
import json
import os
import random
import signal

from annotate import annotate, read_csv, write, write_csv
from session import case

ROWS = [["name", "text"], ["Zoë", "naïve café “quoted” €5"], ["Jörg", 'says "ja"\nand leaves']]


def text_of_rows(rows, end="\r\n"):
    text = io.StringIO()
    csv.writer(text, lineterminator=end).writerows(rows)
    return text.getvalue()


def asked(test, store="out.csv.db"):
    return [json.loads(record)["messages"][-1]["content"] for record, in test.query("SELECT CAST(record AS TEXT) FROM records ORDER BY job", store)]


@case
def each_encoding_is_read_and_the_output_is_utf_8(test):
    text = text_of_rows(ROWS)
    for i, (encoding, option) in enumerate((("cp1252", "cp1252"), ("utf-16", None), ("utf-16", "utf-16"), ("utf-16-le", "utf-16"), ("utf-16-be", "utf-16be"),
                                            ("utf-8", None), ("utf-8", "utf-8"), ("utf-8-sig", None))):
        for packed in (False, True):
            content = text.encode(encoding)
            name = write(test, f"in{i}.csv" + (".gz" if packed else ""), gzip.compress(content) if packed else content)
            annotate(test, name, "--prompt", "{{ name }}: {{ text }}", *(["--encoding", option] if option else []), "--store", f"{i}{packed}.db")
            out = test.read("out.csv").decode("utf-8-sig")
            assert [row[:2] for row in csv.reader(io.StringIO(out, newline=""))] == ROWS, (encoding, out)
            assert asked(test, f"{i}{packed}.db") == [f"{name}: {words}" for name, words in ROWS[1:]], encoding
            # a mark stays, as Excel reads UTF-8 by it
            assert test.read("out.csv").startswith(b"\xef\xbb\xbf") == (encoding in ("utf-16", "utf-8-sig")), encoding


@case
def text_beyond_a_piece_is_decoded_whole(test):
    draw = random.Random(3)
    rows = [["text"]] + [["".join(draw.choice("aé€😀字 ") for _ in range(40)) + str(i)] for i in range(3000)]
    write(test, "in.csv", text_of_rows(rows, "\n").encode("utf-16"))
    annotate(test, "in.csv", "--prompt", "{{ text }}")
    assert [row[:1] for row in read_csv(test, "out.csv")][1:] == rows[1:]


@case
def other_text_is_refused_before_the_first_job_with_the_encoding_that_fits(test):
    latin = "name,text\nZo\xeb,x\x81y\n".encode("latin-1")  # a byte that Windows does not define
    for name, content, words in (("a.csv", text_of_rows(ROWS).encode("cp1252"), "a.csv: line 2: column \"name\" holds text that is not UTF-8: give --encoding cp1252"),
                                 ("b.csv", latin, "give --encoding latin1"),
                                 ("c.csv", text_of_rows(ROWS).encode("utf-16-le"), "c.csv: expected UTF-8, got other text: give --encoding utf-16"),
                                 ("d.csv", text_of_rows(ROWS).encode("utf-16-be"), "give --encoding utf-16be"),
                                 ("e.jsonl", '{"name": "Zoë", "text": "x"}\n'.encode("cp1252"), "give --encoding cp1252"),
                                 ("f.csv", "näme,text\na,b\n".encode("cp1252"), "the name of column 1 is not UTF-8: give --encoding cp1252")):
        write(test, name, content)
        refused = annotate(test, name, "--prompt", "{{ name }} {{ text }}" if name != "f.csv" else "{{ text }}", out=name + ".out", status=1)
        assert words in refused.err and not test.exists(name + ".out.db"), refused
    # bytes that no prompt reads pass through, as before
    write(test, "g.csv", b"name,text\nZo\xeb,plain\n")
    annotate(test, "g.csv", "--prompt", "{{ text }}")
    assert test.read("out.csv").splitlines()[1].startswith(b"Zo\xeb,plain,")
    for option, words in (("cp1252", "--encoding cp1252, but the file begins as UTF-16 does"), ("ebcdic", "expected utf-8, utf-16, cp1252 or latin1")):
        write(test, "h.csv", text_of_rows(ROWS).encode("utf-16"))
        refused = annotate(test, "h.csv", "--prompt", "{{ text }}", "--encoding", option, out="h.out", status=None)
        assert refused.status in (1, 2) and words in refused.err, refused
    write(test, "i.csv", b"\xff\xfe" + "a,b\n".encode("utf-16-le") + b"\x00\xd8" + "x".encode("utf-16-le"))
    refused = annotate(test, "i.csv", "--prompt", "{{ a }}", out="i.out", status=1)
    assert "byte 10: expected UTF-16, got half of a surrogate pair" in refused.err, refused


@case
def lines_above_the_header_are_left_out_and_counted(test):
    write(test, "in.csv", "Report of May\r\n\r\n\"an open quote\r\nname,text\r\na,b\r\nc,d,e\r\n")
    refused = annotate(test, "in.csv", "--prompt", "{{ text }}", "--skip-lines", "3", status=1)
    assert "in.csv: line 6: expected 2 fields" in refused.err, refused
    annotate(test, "in.csv", "--prompt", "{{ text }}", "--skip-lines", "3", "--skip-bad-rows")
    assert [row[:2] for row in read_csv(test, "out.csv")] == [["name", "text"], ["a", "b"]]
    write(test, "in.jsonl", '# made by hand\n{"text": "one"}\n')
    annotate(test, "in.jsonl", "--prompt", "{{ text }}", "--skip-lines", "1", out="out.jsonl")
    assert json.loads(test.read("out.jsonl"))["text"] == "one"


@case
def lines_may_end_in_cr_alone(test):
    write(test, "in.csv", 'name,text\ra,b\rc,"d ""e"""\r')
    annotate(test, "in.csv", "--prompt", "{{ text }}", "--choice", "yes,no")
    assert [row[:2] for row in read_csv(test, "out.csv")] == [["name", "text"], ["a", "b"], ["c", 'd "e"']]
    assert b"\r" not in test.read("out.csv")
    write(test, "in.tsv", "name\ttext\ra\tb\r")
    annotate(test, "in.tsv", "--prompt", "{{ text }}", "--no-quotes", out="out.tsv")
    assert test.read("out.tsv").splitlines()[1].startswith(b"a\tb\t")
    write(test, "mixed.csv", "name,text\na,b\rc\n")  # not in quotes: still a fault
    refused = annotate(test, "mixed.csv", "--prompt", "{{ text }}", out="mixed.out", status=1)
    assert "a CR without LF must be in quotes" in refused.err, refused


@case
def embed_has_the_same_encodings(test):
    import embed
    texts = "süß\nthe €\n"
    plain = embed.embedded_file(test, "a.txt", texts)[1]
    for i, (content, options) in enumerate(((texts.encode("utf-16"), ()), (texts.encode("cp1252"), ("--encoding", "cp1252")),
                                            (b"a title\n" + texts.encode(), ("--skip-lines", "1")), (texts.replace("\n", "\r").encode(), ()))):
        assert embed.embedded_file(test, f"{i}.txt", content, *options)[1] == plain, options


# ---- the command line ----

@case
def a_prompt_may_be_the_template_itself(test):
    write_csv(test, "in.csv", [["title", "text"], ["a", "b"], ["c", ""]])
    annotate(test, "in.csv", "--prompt", "Is {{ title }} good?\n{% if text %}{{ text }}{% endif %}.\n")
    assert asked(test) == ["Is a good?\nb.", "Is c good?\n."]
    refused = annotate(test, "in.csv", "--prompt", "Is {{ titel }} good?", status=1)
    assert '--prompt: line 1: there is no column "titel"; the nearest is "title"' in refused.err, refused
    missing = annotate(test, "in.csv", "--prompt", "Is it good?", status=1)
    assert "Is it good?: No such file" in missing.err, missing


@case
def a_sample_needs_no_output_and_a_pipe_no_store(test):
    write_csv(test, "in.csv", [["text"]] + [[f"text {i}"] for i in range(50)])
    done = test.run("annotate", "in.csv", "--model", test.model, "--prompt", "{{ text }}", "--sample", "3", "--engine-test", "instant")
    assert "all 50 rows" in done.out and test.exists("in.csv.db"), done
    os.mkdir(test.path("tmp"))
    os.environ["TMPDIR"] = test.path("tmp")
    try:
        done = test.run("annotate", "-", "--model", test.model, "--prompt", "{{ text }}", "--choice", "a,b", "-o", "-", "--engine-test", "instant", stdin=test.read("in.csv").decode())
    finally:
        del os.environ["TMPDIR"]
    assert len(done.out.splitlines()) == 51 and os.listdir(test.path("tmp")) == [], done


@case
def a_prompt_is_cut_to_a_number_of_tokens_before_the_template(test):
    words = "the water and a river in the end "
    write_csv(test, "in.csv", [["text"], [words * 3], ["ü€😀" * 30], ["short"]])
    for side, options in (("right", ()), ("right", ("--truncate", "right")), ("left", ("--truncate", "left"))):
        done = annotate(test, "in.csv", "--prompt", "{{ text }}", "--truncate-prompt", "20", *options, out=f"{side}{len(options)}.csv")
        assert "in.csv: 2 rows are cut to 20 tokens (--truncate-prompt)" in done.err, done
        for whole, cut in zip((words * 3, "ü€😀" * 30, "short"), asked(test, f"{side}{len(options)}.csv.db")):
            assert whole.startswith(cut) if side == "right" else whole.endswith(cut), (side, cut)
            lines = json.dumps({"text": cut}) + "\n"
            n_tokens = len(json.loads(test.run("tokenize", test.model, stdin=lines).out))
            assert n_tokens == 20 or (n_tokens <= 20 and cut != words * 3), (n_tokens, cut)
        assert [row[0] for row in read_csv(test, f"{side}{len(options)}.csv")][1:] == [words * 3, "ü€😀" * 30, "short"]
    for options, what in ((("--truncate", "left"), "--truncate: expected --truncate-prompt N with it"), (("--truncate-prompt", "5", "--truncate", "up"), "expected left or right"),
                          (("--truncate-prompt", "5", "--messages", "m"), "--truncate-prompt needs --prompt")):
        prompt = () if "--messages" in options else ("--prompt", "{{ text }}")
        refused = annotate(test, "in.csv", *prompt, *options, out="no.csv", status=2)
        assert what in refused.err, refused


# ---- a table at any moment ----

@case
def a_run_that_is_stopped_writes_the_table_as_it_is(test):
    rows = [["text"]] + [[f"text {i % 300}"] for i in range(400)]
    write_csv(test, "in.csv", rows)
    calm = annotate(test, "in.csv", "--prompt", "{{ text }}", out="calm.csv")
    assert calm.status == 0
    command = ("annotate", "in.csv", "--prompt", "{{ text }}", "--model", test.model, "-o", "out.csv", "--max-batch", "4", "--partial")
    process = test.start(*command, "--engine-test", "fixed:30")
    test.wait_until("answers", lambda: test.exists("out.csv.db") and test.query("SELECT count(*) > 8 FROM results", "out.csv.db") == [(1,)])
    part = test.run("collect", "--dataset", "annotate", "--store", "out.csv.db", "--partial", "-o", "part.jsonl")
    lines = [json.loads(line) for line in test.read("part.jsonl").splitlines()]
    assert [line["row"] for line in lines] == list(range(1, 301)), part  # rows 301 to 400 ask the same as earlier ones
    n_open = sum((line["error"] or {}).get("code") == "not_finished" for line in lines)
    assert 0 < n_open < 300 and f"{n_open} jobs are not finished" in part.err and {line["response"] is None for line in lines} == {True, False}, part
    process.send_signal(signal.SIGINT)
    ended = test.wait(process)
    assert ended.status == 1 and "the same command continues" in ended.err, ended
    answers = read_csv(test, "out.csv")[1:]
    assert [row[:1] for row in answers] == rows[1:]
    n_written = sum(row[1] != "" for row in answers)
    assert 8 < n_written < 400, n_written
    assert all(row[-1] == "no answer yet: the run was stopped" for row in answers if not row[1]), answers
    (n_done,), = test.query("SELECT n_done FROM datasets", "out.csv.db")
    assert f"{n_done} of 300 requests are answered" in ended.err and f"400 rows in out.csv, {400 - n_written} of them without an answer" in ended.err, ended
    done = test.run(*command, "--engine-test", "instant")
    assert "0 of them without an answer" in done.err and test.read("out.csv") == test.read("calm.csv"), done


@case
def without_the_option_a_stopped_run_writes_nothing(test):
    write_csv(test, "in.csv", [["text"]] + [[f"text {i}"] for i in range(300)])
    process = test.start("annotate", "in.csv", "--prompt", "{{ text }}", "--model", test.model, "-o", "out.csv", "--max-batch", "4", "--engine-test", "fixed:30")
    test.wait_until("answers", lambda: test.exists("out.csv.db") and test.query("SELECT count(*) > 8 FROM results", "out.csv.db") == [(1,)])
    process.send_signal(signal.SIGINT)
    assert test.wait(process).status == 1 and not test.exists("out.csv")
