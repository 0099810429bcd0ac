#!/usr/bin/env python3
"""Renders expressions.txt (one a line; also each of its parts between commas) and statements.txt (separated by
---- lines) with Python's jinja2, set up as Hugging Face transformers does for chat templates, and writes cases.json.
Templates that the interpreter refuses by name are in refused.json (with the error) and left out. Needs python3-jinja2. Run here: python3 make_cases.py"""
import datetime
import json
import warnings

import jinja2
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

VARIABLES = {
    "a": 1, "b": 2.5, "s": "Hello World", "u": "Ünïcödé ΣΑΣ straße ǆ ﬁ", "e": "", "n": None, "t": True, "f": False,
    "l": [3, 1, 2], "ls": ["b", "A", "c", "a"], "d": {"x": 1, "y": [1, 2, {"z": "q"}], "items": "it", "Z": None},
    "users": [{"name": "bob", "age": 30, "city": "X"}, {"name": "Al", "age": 25, "city": "y"},
              {"name": "cy", "age": 30, "city": "x"}],
    "nested": [[1, 2], [3, 4]], "ws": "  \t pad \n ", "nl": "line1\nline2\r\n\nline4\u2028x",
    "q": "it's \"q\" \\ \n\t\x01\x7f é\u200b\U0001F600", "big": 9007199254740993, "neg": -7,
    "html": "<a href='x'>&\"</a>", "ints": list(range(12)), "mixed": [1, "a", None, 2.0, True, [1], {"k": 1}],
    "tree": [{"v": 1, "c": [{"v": 2, "c": [{"v": 3}]}, {"v": 4}]}, {"v": 5}],
    "long": 123456789012345678901234567890, "longs": [18446744073709551615, -9223372036854775809, 10**19 + 1],
    "floats": [0.1, 1e16, 1e-5, 123456789.123, 1e22, -0.0, 3.0, 1.5e300, 2.5, 0.30000000000000004],
}
# Known differences: addresses, jinja's folding of constants, lipsum's chance, `self`, Python's own names.
DIFFERENT = ("{{ none[0:1] }}", "{{ 5[0:1] }}", "{{ lipsum() }}", "{{ self }}", "{{ namespace }}", "{{ range }}",
             "{{ \"{}\".format(\"inf\"|float) }}", "{{ \"{:5}|\".format(\"nan\"|float) }}", "{{ \"{:F}\".format(\"inf\"|float) }}")


class Generation(Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_render"), [], [], body).set_lineno(line)

    def _render(self, caller):
        return caller()


def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def make_environment():
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                                extensions=[Generation, loopcontrols])
    environment.filters["tojson"] = tojson
    environment.globals["raise_exception"] = raise_exception
    environment.globals["strftime_now"] = datetime.datetime(2024, 7, 26).strftime
    return environment


def parts(expressions):
    """Splits at the commas that are in no bracket and no string."""
    found, depth, quote, start, i = [], 0, None, 0, 0
    while i < len(expressions):
        character = expressions[i]
        if quote:
            i += character == "\\"
            quote = None if character == quote else quote
        elif character in "'\"":
            quote = character
        elif character in "([{":
            depth += 1
        elif character in ")]}":
            depth -= 1
        elif character == "," and depth == 0:
            found.append(expressions[start:i])
            start = i + 1
        i += 1
    return found + [expressions[start:]]


def sources():
    with open("expressions.txt", encoding="utf-8") as file:
        for line in file.read().splitlines():
            for expression in dict.fromkeys([line] + [part.strip() for part in parts(line)]):
                if expression:
                    yield "{{ " + expression + " }}"
    with open("statements.txt", encoding="utf-8", newline="") as file:
        yield from file.read().split("\n----\n")


def main():
    warnings.simplefilter("ignore")
    environment, cases = make_environment(), {}
    with open("refused.json", encoding="utf-8") as file:
        refused = json.load(file)
    for source in sources():
        if source in refused:
            continue
        try:
            text = environment.from_string(source).render(bos_token="<s>", eos_token="</s>",
                                                          add_generation_prompt=True, **VARIABLES)
        except Exception:  # whatever Python raises: the template is refused
            text = None
        if source not in DIFFERENT and "inf\"|float|round" not in source and " at 0x" not in (text or ""):
            cases[source] = text
    with open("cases.json", "w", encoding="utf-8") as file:
        json.dump({"variables": VARIABLES, "cases": cases}, file, ensure_ascii=False, indent=0)
        file.write("\n")


main()
