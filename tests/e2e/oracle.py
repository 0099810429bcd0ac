"""Every parity case of ../shared/oracle whose family the GPU computes, through `sheaf logits`, by normalized mean squared error:

  quantized, 16 bits  from exact arithmetic at most NMSE_QUANTISED, and the oracle's own bound (the llama-f16 case: F16_NMSE, since
                      keys, values and x are binary16 here). From the CPU as much more as the CPU is from exact arithmetic: it
                      rounds activations to 8 bits, 3e-3 in the worst case
  F32                 from the CPU, its pages of 16 bits too, at most NMSE_F32 (gemma2: NMSE_DEEP, since what attention's
                      binary16 queries and weights lose adds up over its 26 layers). The oracle's bound is for float32
                      throughout: here the largest difference from its logits is at most BINARY16_ABS, and for qwen3,
                      qwen3moe and gemma3 what the oracle asks for

SHEAF_ORACLE=all takes every case; else a few that are small and unlike each other.
"""
import array
import json
import os

from session import Skip, case

SHARED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "shared")
FOLDER = os.path.join(os.environ.get("SHEAF_SHARED", SHARED), "oracle")
FEW = ["llama-f32", "qwen2moe-f32", "falcon-f32", "llama-q4_k_m", "llama-q2_k"]
NMSE_QUANTISED, NMSE_F32, NMSE_DEEP, F16_NMSE = 5e-4, 1e-6, 1e-5, 3e-6
BINARY16_ABS = 0.04


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
    finished = test.run("logits", model, "--tokens", tokens, "-o", f"{backend}.f32", "--backend", backend, "--kv-type", "f16",
                        status=None)
    if "built without CUDA" in finished.err or "looking for devices" in finished.err:
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
    if "tolerance_nmse_exact" in fact:
        with open(os.path.join(FOLDER, f"{name}.exact.f32"), "rb") as file:
            exact = floats(file.read())
        limit = max(fact["tolerance_nmse_exact"], F16_NMSE) if fact["type"] == "f16" else fact["tolerance_nmse_exact"]
        limit = min(limit, NMSE_QUANTISED)
        from_exact, cpu_from_exact = nmse(gpu, exact), nmse(cpu, exact)
        print(f"# {name}: nmse {from_exact:.2g} from exact arithmetic (at most {limit:.2g}; the CPU's {cpu_from_exact:.2g}), "
              f"{apart:.2g} from the CPU")
        assert from_exact <= limit, name
        assert apart <= NMSE_QUANTISED + 1.2 * cpu_from_exact, name
        return
    with open(os.path.join(FOLDER, f"{name}.logits.f32"), "rb") as file:
        largest = max(abs(x - y) for x, y in zip(gpu, floats(file.read())))
    own = name in ("qwen3-f32", "qwen3moe-f32", "gemma3-f32")
    limit = fact["tolerance_abs"] if own else BINARY16_ABS
    bound = NMSE_DEEP if name == "gemma2-f32" else NMSE_F32
    print(f"# {name}: nmse {apart:.2g} from the CPU (at most {bound:g}), {largest:.2g} from the oracle (at most {limit:g})")
    assert largest <= limit, name
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
