"""Every parity case of ../shared/oracle whose family the GPU computes, through `sheaf logits`: the GPU's logits against the
CPU's, within the backend's parity, and against the oracle's own bound.

  parity with the CPU     normalised mean squared error of at most 5e-4 for quantised and 16-bit weights, 1e-6 for F32
  the oracle's bound      tolerance_nmse_exact: all of them. tolerance_abs, of F32 cases, is for float32 throughout: the GPU
                          keeps keys and values in binary16 whatever is asked, so those are held to BINARY16_ABS

SHEAF_ORACLE=all takes every case; else a few that are small and unlike each other.
"""
import array
import json
import os

from session import Skip, case

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "shared", "oracle")
FEW = ["llama-f32", "qwen2moe-f32", "falcon-f32", "llama-q4_k_m", "llama-q2_k"]
NMSE_QUANTISED, NMSE_F32 = 5e-4, 1e-6
BINARY16_ABS = 0.03


def facts():
    try:
        with open(os.path.join(FOLDER, "cases.json"), encoding="utf-8") as file:
            return json.load(file)
    except FileNotFoundError:
        return {}


def floats(data):
    values = array.array("f")
    values.frombytes(data)
    return values


def nmse(values, expected):
    assert len(values) == len(expected), (len(values), len(expected))
    return sum((x - y) ** 2 for x, y in zip(values, expected)) / sum(y * y for y in expected)


def logits(test, backend, model, tokens):
    finished = test.run("logits", model, "--tokens", tokens, "-o", f"{backend}.f32", "--backend", backend, status=None)
    if "built without CUDA" in finished.err or "no CUDA device" in finished.err:
        raise Skip("there is no GPU")
    assert finished.status == 0, finished
    return floats(test.read(f"{backend}.f32"))


def check(test, name, fact):
    with open(os.path.join(FOLDER, f"{name}.tokens"), encoding="utf-8") as file:
        tokens = file.read()
    model = os.path.join(FOLDER, f"{name}.gguf")
    gpu = logits(test, "cuda", model, tokens)
    cpu = logits(test, "cpu", model, tokens)
    apart = nmse(gpu, cpu)
    bound = NMSE_F32 if fact["type"] == "f32" else NMSE_QUANTISED
    print(f"# {name}: nmse {apart:.2g} from the CPU (at most {bound:g})", end="")
    if "tolerance_abs" in fact:
        with open(os.path.join(FOLDER, f"{name}.logits.f32"), "rb") as file:
            largest = max(abs(x - y) for x, y in zip(gpu, floats(file.read())))
        limit = max(fact["tolerance_abs"], BINARY16_ABS)
        print(f", {largest:.2g} from the oracle (at most {limit:g}; float32's {fact['tolerance_abs']:g})")
        assert largest <= limit, name
    if "tolerance_nmse_exact" in fact:
        with open(os.path.join(FOLDER, f"{name}.exact.f32"), "rb") as file:
            from_exact = nmse(gpu, floats(file.read()))
        print(f", {from_exact:.2g} from exact arithmetic (at most {fact['tolerance_nmse_exact']:.2g})")
        assert from_exact <= fact["tolerance_nmse_exact"], name
    assert apart <= bound, name


def make_case(name, fact):
    def run(test):
        check(test, name, fact)
    run.__name__ = name.replace("-", "_of_")
    return case(run)


FACTS = facts()
CHOSEN = [name for name in FACTS if os.environ.get("SHEAF_ORACLE") == "all" or name in FEW]
globals().update({name: make_case(name, FACTS[name]) for name in CHOSEN})

if not CHOSEN:
    @case
    def the_oracle_s_cases(test):
        raise Skip("../shared/oracle is not here")
