"""What `meson install` puts in place: the program, its manual pages, completion, the service unit."""
import os
import re
import shutil
import subprocess

from session import Skip, case

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MAN = "usr/local/share/man/man1"
BASH = "usr/local/share/bash-completion/completions/sheaf.bash"
ZSH = "usr/local/share/zsh/site-functions/_sheaf"


place = {}


def installed(test):
    """The folder of an installation, made by the first case that asks for it."""
    if "folder" in place:
        return place["folder"]
    build = os.path.dirname(os.path.dirname(os.path.abspath(test.sheaf)))
    if not os.path.exists(os.path.join(build, "sheaf.service")):
        raise Skip("built without the rest")
    folder = test.path("installed")
    done = subprocess.run(["meson", "install", "-C", build, "--no-rebuild", "--destdir", folder], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    place["folder"] = folder
    return folder


def content(folder, name):
    with open(os.path.join(folder, name), encoding="utf-8") as file:
        return file.read()


def commands_of(test):
    return re.findall(r"^  (\w+) ", test.run("help").out, re.M)


def options_of(test, command):
    return re.findall(r"^  (?:-(\w),|   ) --([\w-]+) (\S*)", test.run("help", "--help-all", command).out, re.M)


@case
def program_pages_completion_and_service_are_installed(test):
    folder = installed(test)
    commands = commands_of(test)
    assert len(commands) >= 16, commands
    expected = {"sheaf.1"} | {f"sheaf-{command}.1" for command in commands}
    assert set(os.listdir(os.path.join(folder, MAN))) == expected
    for name in (BASH, ZSH, "usr/local/bin/sheaf", "usr/local/share/doc/sheaf/README.md"):
        assert os.path.getsize(os.path.join(folder, name)) > 0, name
    unit = content(folder, "usr/local/lib/systemd/system/sheaf.service")
    assert "ExecStart=/usr/local/bin/sheaf work --config" in unit and "@bindir@" not in unit, unit
    assert "\nRestart=on-failure\n" in unit and "\nRestartPreventExitStatus=2 3\n" in unit, unit
    if shutil.which("systemd-analyze"):
        # Its program is in another root.
        path = test.path("sheaf.service")
        with open(path, "w", encoding="utf-8") as file:
            file.write(unit.replace("/usr/local/bin/sheaf", test.sheaf))
        done = subprocess.run(["systemd-analyze", "verify", path], capture_output=True, text=True)
        assert "Unknown" not in done.stderr, done.stderr


@case
def each_option_is_in_the_page_of_its_command(test):
    folder = installed(test)
    for command in commands_of(test):
        page = content(folder, f"{MAN}/sheaf-{command}.1")
        for letter, option, value in options_of(test, command):
            # roff writes a minus sign as \-
            named = f"\\fB\\-\\-{option}\\fR".replace("-", "\\-").replace("\\\\-", "\\-")
            assert named in page, (command, option)
            assert not letter or f"\\fB\\-{letter}\\fR" in page, (command, letter)
        assert f"sheaf\\-{command}" in content(folder, f"{MAN}/sheaf.1"), command


@case
def the_pages_have_no_faults_of_roff(test):
    if not shutil.which("groff"):
        raise Skip("no groff")
    folder = installed(test)
    for name in os.listdir(os.path.join(folder, MAN)):
        done = subprocess.run(["groff", "-man", "-Tutf8", "-ww", "-P-cbu", os.path.join(folder, MAN, name)],
                              capture_output=True, text=True)
        assert done.returncode == 0 and not done.stderr and "NAME" in done.stdout, (name, done.stderr)


def complete(folder, *words):
    """The words that bash offers in place of the last one."""
    script = (f"source {os.path.join(folder, BASH)}; compopt() {{ :; }}; COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); _sheaf; "
              "printf '%s\\n' \"${COMPREPLY[@]}\"")
    done = subprocess.run(["bash", "-c", script, "bash", *words], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0 and not done.stderr, done.stderr
    return done.stdout.split()


@case
def bash_completes_commands_options_and_files(test):
    folder = installed(test)
    commands = commands_of(test)
    assert set(complete(folder, "sheaf", "")) == {"help", *commands}
    assert complete(folder, "sheaf", "anno") == ["annotate"]
    assert set(complete(folder, "sheaf", "help", "s")) == {command for command in commands if command[0] == "s"}
    for command in commands:
        assert sorted(complete(folder, "sheaf", command, "--")) == sorted(f"--{name}" for _, name, _ in options_of(test, command)), command
    with open(os.path.join(folder, "tiny model.gguf"), "w", encoding="utf-8"):
        pass
    for words in (("run", "in", "--model", "ti"), ("work", "-m", "ti"), ("inspect", "ti")):
        assert complete(folder, "sheaf", *words) == ["tiny", "model.gguf"], words
    assert complete(folder, "sheaf", "work", "--threads", "") == []
    assert complete(folder, "sheaf", "annotate", "--prompt", "ti") == ["tiny", "model.gguf"]


@case
def zsh_completes_each_option_of_a_command(test):
    folder = installed(test)
    text = content(folder, ZSH)
    assert text.startswith("#compdef sheaf\n")
    for command in commands_of(test):
        part = re.search(rf"^    {command}\)\n(.*?);;$", text, re.M | re.S)[1]
        found = re.findall(r"^ +'(?:\(-\w |\*'\{-\w,|\*)?--([\w-]+)", part, re.M)
        assert sorted(found) == sorted(name for _, name, _ in options_of(test, command)), command
        again = re.findall(r"^ +'\*(?:'\{-\w,)?--([\w-]+)", part, re.M)
        assert set(again) == {"choice", "dataset-limit", "dataset-weight", "evaluate", "gold", "lora", "lora-modules", "model-name", "property", "where"} & set(found), (command, again)
    if shutil.which("zsh"):
        subprocess.run(["zsh", "-n", os.path.join(folder, ZSH)], check=True)


@case
def help_of_a_command_has_its_own_defaults(test):
    def lines(command):
        text = test.run("help", "--help-all", command).out
        return {match[1]: match[2] for match in re.finditer(r"^  (?:-\w,|   ) --([\w-]+) (?:\S+)? +(.*)", text, re.M)}
    assert lines("annotate")["store"] == "SQLite file (OUT.csv.db, or IN.csv.db where OUT is no file of its own)"
    assert lines("annotate")["dataset"] == "dataset (default annotate)" and lines("run")["dataset"] == "dataset (default run)"
    assert lines("work")["store"] == "SQLite file (sheaf.db)" and lines("run")["store"].startswith("SQLite file (OUT.jsonl.db, ")
    for command in ("annotate", "run", "collect", "grammar", "dataset"):
        others = {"annotate:", "run:", "collect:"} & set(" ".join(lines(command).values()).split())
        assert not others, (command, others)


@case
def help_groups_options_and_keeps_the_rare_ones_apart(test):
    for command in commands_of(test):
        usual, everything = test.run("help", command).out, test.run("help", "--help-all", command).out
        assert everything == test.run(command, "--help-all").out == test.run("help", command, "--help-all").out
        assert usual == test.run(command, "--help").out
        assert usual.count("\nCommon\n") == 1, usual
        listed = [set(re.findall(r"^  .{4}--([\w-]+)", text, re.M)) for text in (usual, everything)]
        assert listed[0] <= listed[1] and {"help", "help-all", "config"} <= listed[0], command
        rarer = re.search(r"^(\d+) rarer options?:", usual, re.M)
        assert len(listed[1]) - len(listed[0]) == (int(rarer[1]) if rarer else 0), command


@case
def help_of_annotate_begins_with_what_tables_need(test):
    usual = test.run("help", "annotate").out
    places = [usual.index(f"\n{group}\n") for group in ("Common", "Input", "Output", "Queue", "Engine", "Kafka", "Messages")]
    assert places == sorted(places), usual
    for option in ("votes", "questions", "delimiter", "skip-bad-rows", "price-in", "price-out", "sample", "evaluate"):
        assert places[1] < usual.index(f"\n      --{option}") < places[3], option


@case
def each_command_takes_its_model_by_position_and_as_an_option(test):
    test.write("in.jsonl", [{"prompt": "the", "max_tokens": 2, "temperature": 0}])
    test.write("in.csv", ["a", "the"])
    test.write("p.jinja", ["{{ a }}"])
    out = []
    for i, model in enumerate(((test.model,), ("--model", test.model))):
        test.run("submit", "in.jsonl", "--dataset", f"d{i}")
        test.run("work", *model, "--exit-when-idle", "0")
        test.run("collect", "--dataset", f"d{i}", "-o", f"{i}.jsonl")
        test.run("run", "in.jsonl", *model, "-o", f"run{i}.jsonl")
        test.run("annotate", "in.csv", *model, "--prompt", "p.jinja", "--max-tokens", "2", "-o", f"{i}.csv")
        test.run("quantize", *model, f"{i}.gguf", "--type", "f16")
        test.run("logits", *model, "--tokens", "1 2", "-o", f"{i}.f32")
        out.append([test.run("inspect", *model).out, test.run("tokenize", *model, stdin='{"text": "the"}\n').out,
                    test.run("grammar", *model, "--choice", "the,in", stdin="the\nin\n").out.splitlines()[1:],
                    test.run("template", *model, stdin='{"messages": [{"role": "user", "content": "the"}]}\n').out,
                    test.read(f"{i}.gguf"), test.read(f"{i}.f32"), test.read(f"{i}.csv"), test.comparable(f"run{i}.jsonl")])
    for by_position, as_option in zip(*out):
        assert by_position == as_option, (by_position, as_option)
    err = test.run("run", "in.jsonl", test.model, "--model", test.model, "-o", "x.jsonl", status=2).err
    assert "one argument too many" in err, err
