"""Comments are plain English: none has the phrases of a dialect that this code was once written in, and each file that one names exists."""
import os
import re

from session import case

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FOLDERS = ("schemas", "store", "engine", "gpu", "batching", "consumer")
PHRASES = {  # what to write instead: an example
    r"^(Of|That of|Those of)\b": "open with the noun: 'Error of a row' -> 'The error of a row'",
    r"(?<!look-)\bbehind\b": "after",
    r"\b(that|those) of\b": "repeat the noun",
    r"\b(is|are|was|were) (not )?there\b(?! (a|an|any|no|is|are)\b)": "exists, does not exist",
    r"\bthe ones? before\b": "the previous one",
    r"\b(go|goes|going|went) on\b": "continues",
    r"\b(come|comes|came|coming) to\b": "reaches, becomes",
    r"\bstands?\b(?! for\b| alone\b)": "is",
    r"\b(transactions?|offsets?|results?|what) hangs?\b": "stays open",
    r"\b(a|the|this|one|each|next|last) looks?\b": "scan",
    r"\bmade again\b": "recreated",
    r"\bas many as\b": "up to, the number of",
    r"\basked for yet\b": "not computed yet",
    r"\bwhich of (them|these|those)\b": "name them",
}
# Comments with another meaning of the words. At most 40.
ALLOWED = set()  # {"folder/file.c:phrase_with_underscores"}
ALLOWED_MAX = 40
A_FILE = re.compile(r"(?<![\w/.<*-])((?:[a-z_]+/)*[a-z][a-z0-9_]+\.(?:c|h|cu|sql))\b")
OTHERS = {"rdkafka_admin.c"}  # of other projects


def sources():
    for folder in FOLDERS:
        for at, _, names in os.walk(os.path.join(ROOT, folder)):
            for name in sorted(names):
                if name.endswith((".c", ".h", ".cu")):
                    path = os.path.join(at, name)
                    with open(path, encoding="utf-8") as file:
                        yield os.path.relpath(path, ROOT), file.read()


def comments(text):
    """(line, text) of each comment; consecutive lines of their own are one."""
    found, last = [], None
    for number, line in enumerate(text.splitlines(), 1):
        bare = re.sub(r'"(\\.|[^"\\])*"', lambda quoted: "_" * len(quoted[0]), line)
        at = bare.find("//")
        if at < 0:
            last = None
        elif last is not None and not bare[:at].strip():
            last[1] += " " + line[at + 2:].strip()
        else:
            found.append([number, line[at + 2:].strip()])
            last = found[-1] if not bare[:at].strip() else None
    return found


@case
def comments_are_read_as_they_stand_in_the_source(test):
    assert comments('int a; // one\n// two\n//  three "x"\nputs("// no"); // four\n') == [[1, "one"], [2, 'two three "x"'], [4, "four"]]
    matching = [phrase for phrase in PHRASES if re.search(phrase, "Of a row that stands behind the one before")]
    assert len(matching) == 4, matching


@case
def no_comment_has_a_phrase_of_the_dialect(test):
    assert len(ALLOWED) <= ALLOWED_MAX
    faults, used = [], set()
    for path, text in sources():
        for line, comment in comments(text):
            for phrase, instead in PHRASES.items():
                match = re.search(phrase, comment)
                place = f"{path}:{match[0].replace(' ', '_')}" if match else ""
                used.add(place)
                if match and place not in ALLOWED:
                    faults.append(f"{path}:{line}: \"{match[0]}\": {instead}: {comment[:100]}")
    assert not faults, "\n" + "\n".join(faults)
    assert not ALLOWED - used, f"no longer there: {ALLOWED - used}"


@case
def each_file_that_a_comment_names_exists(test):
    known = {os.path.basename(path) for path, _ in sources()}
    for folder in ("schemas", "tests", "ops", "store", "engine"):
        for _, _, names in os.walk(os.path.join(ROOT, folder)):
            known.update(names)
    faults = []
    for path, text in sources():
        for line, comment in comments(text):
            for name in A_FILE.findall(comment):
                exists = os.path.exists(os.path.join(ROOT, name)) if "/" in name else name in known
                if not exists and name not in OTHERS:
                    faults.append(f"{path}:{line}: {name}")
    assert not faults, "\n" + "\n".join(faults)
