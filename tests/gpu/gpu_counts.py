#!/usr/bin/env python3
"""Counts kernels as nvcc compiles them and compares with kernel_counts.txt, from which gpu/README.md quotes.

  gpu_counts.py [--update] TABLE README [--launches PROGRAM] [--source NAME=FILE[,DEFINITION...]]... [-- NVCC ARGUMENT...]

NVCC and its arguments are those of the build (gpu/meson.build), less the targets: each counted source is compiled to a cubin of one. Without
NVCC, kernels are not counted; without PROGRAM (gpu_launches), launches are not. README's text between "<!-- counts" and "<!-- end -->" must be
what follows from the table, always. --update writes what was counted to both.

The table's lines: `kernel TARGET NAME WHAT` with a number for each of FIELDS. WHAT is `all`, the whole kernel with registers, bytes
spilled and static shared memory, or `loopN`: one pass of the N-th innermost loop with products (cubin.product_loops), in
instructions of a warp. `launches STEP PART KERNEL N`: gpu_launches. Counts hold for one version of nvcc; with another one
they are not compared, and the case is skipped.

Any nvcc will do for the check that no kernel writes a register which a wgmma in flight reads (wgmma_registers.py), in its PTX and
in machine code, of all types of weights.
"""
import argparse
import concurrent.futures
import os
import re
import shutil
import subprocess
import sys
import tempfile

import cubin
import gpu_quotes as quotes
import wgmma_registers

FIELDS = ["slots", "products", "copies", "shared", "global", "half", "waits", "local", "registers", "spilled", "static", "barriers"]
# Largest deviations that are no failure, of the count in the table; of the others none is allowed.
TOLERANCE_PERCENT = {"slots": 2, "shared": 2, "global": 2, "half": 2, "waits": 2}
TOLERANCE_REGISTERS = 2
COUNTED = {
    "sm_90a": ["product_q4_k", "product_q6_k", "product_f16", "attention_f16", "attention_q8_0", "norm", "activation_operand", "attention_store",
               "sample"],
}
WITH_WGMMA = ("sm_90a", "product_")  # sources that are read for overwritten registers
AT_ONCE = 2  # compilers
BEGIN, END = "<!-- counts", "<!-- end -->"


# --- Counting ---


def version_of(nvcc):
    printed = subprocess.run([nvcc, "--version"], capture_output=True, text=True, check=True).stdout
    return re.search(r"V([\d.]+)", printed)[1]


def arguments_for(target, arguments):
    """nvcc's, for one target in place of the product's own, to a cubin, with ptxas's report."""
    kept = [one for one in arguments if not one.startswith(("-gencode", "--generate-code"))]
    return [*kept, f"-gencode=arch={target.replace('sm_', 'compute_')},code={target}", "-Xptxas", "-v", "-cubin", "--keep"]


def resources(report):
    """{mangled name: {"registers": .., }} of ptxas -v."""
    found = {}
    for name, text in re.findall(r"Compiling entry function '(\S+)' for .*?\n(.*?Used [^\n]*)", report, re.S):
        def number(pattern, within=text):
            return sum(int(one) for one in re.findall(pattern, within))
        own = text[text.rindex(name):] if name in text else text
        found[name] = {"registers": number(r"Used (\d+) registers"), "static": number(r"(\d+) bytes smem"),
                       "barriers": number(r"used (\d+) barriers"),
                       "spilled": number(r"(\d+) bytes spill stores", own) + number(r"(\d+) bytes spill loads", own)}
    return found


def serialized_in(report):
    """Kernels in which ptxas found too few registers to have several wgmma in flight."""
    return sorted({cubin.short_name(name) for name in re.findall(r"\(C75\d\d\) Potential Performance Loss: wgmma\.mma_async .* function '(\S+)'", report)})


class Compiler:
    """Of one run: each source is compiled once for each target, to PTX and a cubin."""

    def __init__(self, options, folder):
        self.nvcc, *self.arguments = options.nvcc
        self.sources, self.folder, self.compiled = options.sources, folder, {}

    def compile_source(self, target, name):
        """(PTX, cubin, ptxas's report) of one source."""
        file, *definitions = self.sources[name].split(",")
        folder = os.path.join(self.folder, f"{name}.{target}")
        os.mkdir(folder)
        out = os.path.join(folder, "cubin")
        command = [self.nvcc, *arguments_for(target, self.arguments), "--keep-dir", folder, *(f"-D{one}" for one in definitions), file, "-o", out]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
        return os.path.join(folder, os.path.basename(file).replace(".cu", ".ptx")), out, done.stdout + done.stderr

    def compile_all(self, wanted):
        """{(target, name): (PTX, cubin, report)} of pairs of target and name."""
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
            jobs = {key: pool.submit(self.compile_source, *key) for key in wanted if key not in self.compiled}
        self.compiled |= {key: job.result() for key, job in jobs.items()}
        return {key: self.compiled[key] for key in wanted}


def count_source(target, name, out, report):
    """{(target, kernel, what): {field: number}} of one source."""
    if serialized := serialized_in(report):
        raise RuntimeError(f"{name}: ptxas waits after each wgmma in {', '.join(serialized)}")
    used = resources(report)
    if nvdisasm := shutil.which("nvdisasm"):
        wrong = list(cubin.disassembly_differences(nvdisasm, out))
        if wrong:
            raise RuntimeError("\n".join(wrong[:20]))
    counts = {}
    for mangled, instructions in cubin.kernels(out).items():
        if mangled not in used:
            continue  # a function that kernels call
        kernel = cubin.short_name(mangled)
        counts[target, kernel, "all"] = dict(cubin.count(instructions)) | used[mangled]
        for i, loop in enumerate(cubin.product_loops(instructions)):
            counts[target, kernel, f"loop{i + 1}"] = dict(loop)
    return counts


def count_kernels(compiler, targets):
    counts = {}
    wanted = [(target, name) for target, names in targets.items() for name in names]
    for (target, name), (_, out, report) in compiler.compile_all(wanted).items():
        counts |= count_source(target, name, out, report)
    return counts


def count_launches(program):
    """{(step, part, kernel): n}. None: there is no such device."""
    done = subprocess.run([program], capture_output=True, text=True, check=False)
    if done.returncode == 77:
        return None
    if done.returncode:
        raise RuntimeError(f"{program}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
    return {tuple(words[1:4]): int(words[4]) for words in map(str.split, done.stdout.splitlines()) if words[:1] == ["launches"]}


# --- The table ---


def read_table(path):
    """(version of nvcc, kernels, launches)"""
    version, kernels, launches = "", {}, {}
    with open(path, encoding="utf-8") as file:
        for words in map(str.split, file):
            if words[:2] == ["#", "nvcc"]:
                version = words[2]
            elif words[:1] == ["kernel"]:
                kernels[tuple(words[1:4])] = dict(zip(FIELDS, map(int, words[4:])))
            elif words[:1] == ["launches"]:
                launches[tuple(words[1:4])] = int(words[4])
    return version, kernels, launches


def write_table(path, version, kernels, launches):
    lines = ["# Written by tests/gpu/gpu_counts.py --update, and compared by it: what the columns are is said there.", f"# nvcc {version}", "",
             f"#      {'target':<9} {'kernel':<46} {'what':<6}" + "".join(f"{field:>10}" for field in FIELDS)]
    for (target, kernel, what), counts in sorted(kernels.items()):
        lines.append(f"kernel {target:<9} {kernel:<46} {what:<6}" + "".join(f"{counts.get(field, 0):>10}" for field in FIELDS))
    lines.append("")
    lines += [f"launches {step:<12} {part:<11} {kernel:<26}{n:>5}" for (step, part, kernel), n in sorted(launches.items())]
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")


def is_near(field, expected, got):
    if field == "registers":
        return abs(got - expected) <= TOLERANCE_REGISTERS
    return abs(got - expected) <= expected * TOLERANCE_PERCENT.get(field, 0) / 100


def differences(expected, got, fields):
    """Lines: what, expected, got."""
    for key in sorted(expected.keys() | got.keys()):
        if key not in got or key not in expected:
            yield f"{' '.join(key)}: {'not in the table' if key in got else 'not counted'}"
            continue
        for field in fields:
            old, new = expected[key].get(field, 0), got[key].get(field, 0)
            if not is_near(field, old, new):
                within = f"{TOLERANCE_REGISTERS}" if field == "registers" else f"{TOLERANCE_PERCENT.get(field, 0)} %"
                yield f"{' '.join(key)}: {field}: expected {old} (within {within}), got {new}"


# --- README ---


def quoted(text):
    """[(begin, end, name)] of the parts of README that are written here."""
    parts = []
    for match in re.finditer(rf"{BEGIN}: (\w+)[^\n]*-->\n", text):
        parts.append((match.end(), text.index(END, match.end()), match[1]))
    return parts


def with_quotes(text, kernels, launches):
    written = {"kernels": quotes.kernel_lines, "launches": quotes.launch_lines, "goals": quotes.goal_lines}
    for begin, end, name in reversed(quoted(text)):
        text = text[:begin] + "\n".join(written[name](text, kernels, launches)) + "\n" + text[end:]
    return text


def read_text(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


# --- The cases, as TAP ---


def compare_kernels(options, table):
    """None: passed; a text: skipped; a list of lines: failed."""
    if not options.nvcc:
        return "this build has no nvcc, or is not optimized"
    version = version_of(options.nvcc[0])
    if version != table[0]:
        return f"nvcc {version}, the table is of {table[0]}"
    got = count_kernels(options.compiler, COUNTED)
    return list(differences({key: counts for key, counts in table[1].items() if key[0] in COUNTED}, got, FIELDS)) or None


def find_overwritten(options, _):
    """As compare_kernels."""
    if not options.nvcc:
        return "this build has no nvcc"
    target, prefix = WITH_WGMMA
    wanted = [(target, name) for name in options.sources if name.startswith(prefix) and "TILE_TYPE" in options.sources[name]]
    wrong = [] if wanted else ["no source has wgmma"]
    for (_, name), (ptx, out, _) in options.compiler.compile_all(wanted).items():
        in_ptx, in_code = wgmma_registers.ptx_overwrites(read_text(ptx)), wgmma_registers.cubin_overwrites(out)
        if not in_ptx or in_ptx.keys() != in_code.keys():
            wrong.append(f"{name}: kernels with wgmma: {sorted(in_ptx)} in PTX, {sorted(in_code)} in machine code")
        wrong += [f"{kernel} writes a register that a wgmma in flight reads, {what}: {text}" for found, what in ((in_ptx, "PTX"), (in_code, "SASS"))
                  for kernel, texts in found.items() for text in texts]
    return wrong or None


def compare_launches(options, table):
    got = count_launches(options.launches) if options.launches else None
    if got is None:
        return "no emulated device"
    wrap = [{key: {"launches": n} for key, n in counts.items()} for counts in (table[2], got)]
    return list(differences(*wrap, ["launches"])) or None


def compare_readme(options, table):
    text = read_text(options.readme)
    names = [name for _, _, name in quoted(text)]
    if names != ["kernels", "launches", "goals"]:
        return [f"{options.readme}: expected the parts kernels, launches and goals, has {names}"]
    expected = with_quotes(text, *table[1:])
    return [f"{options.readme}: expected {new!r}, has {old!r}"
            for old, new in zip(text.splitlines(), expected.splitlines()) if old != new] or (None if text == expected else ["lines are missing"])


def find_deviations(_, table):
    """On both sides of each tolerance."""
    wrong = []
    for key, counts in table[1].items():
        for field, old in counts.items():
            most = TOLERANCE_REGISTERS if field == "registers" else int(old * TOLERANCE_PERCENT.get(field, 0) / 100)
            for change, n in ((most, 0), (-most, 0), (most + 1, 1), (-most - 1, 1)):
                found = list(differences({key: counts}, {key: counts | {field: old + change}}, FIELDS))
                if len(found) != n:
                    wrong.append(f"{' '.join(key)}: {field} {old} and {old + change}: {found}")
        if len(list(differences({key: counts}, {}, FIELDS))) != 1:
            wrong.append(f"{' '.join(key)} is not missed")
    return wrong or None


def find_serialized(_, __):
    """As ptxas writes it."""
    text = ("ptxas info    : (C7511) Potential Performance Loss: wgmma.mma_async instructions are serialized due to insufficient register resources "
            "for the wgmma pipeline in the function '_Z10gemm_wgmmaI11wgmma_shapeIL11tensor_type30ELi64ELi4ELi1EEEv12product_plan14wgmma_division'\n"
            "ptxas info    : Used 96 registers, used 2 barriers\n")
    found = serialized_in(text), serialized_in("ptxas info    : Used 96 registers, used 2 barriers\n")
    return None if found == (["gemm_wgmma<bf16,64,4,1>"], []) else [f"{found}"]


def find_written(_, __):
    """Loops whose load stands before the wait for the wgmma that reads its registers, and behind it: in PTX and machine code."""
    wrong = []
    for early, n in ((True, 1), (False, 0)):
        ptx = PTX_LOOP.format(before=PTX_LOAD if early else "", behind="" if early else PTX_LOAD, n_left=int(early), what="the loop's wait")
        if [len(texts) for texts in wgmma_registers.ptx_overwrites(ptx).values()] != [n]:
            wrong.append(f"PTX: expected one kernel with {n}, found {wgmma_registers.ptx_overwrites(ptx)}")
        words = [SASS_LOAD, SASS_WGMMA, SASS_WAIT] if early else [SASS_WGMMA, SASS_WAIT_ALL, SASS_LOAD]
        loop = [cubin.Instruction(*word, i) for i, word in enumerate([*words, branch_back(len(words)), SASS_EXIT])]
        found = list(wgmma_registers.overwrites(wgmma_registers.sass_steps(loop)))
        if loop[3].target != 0 or len(found) != n:
            wrong.append(f"machine code: expected {n}, found {found}, branch to {loop[3].target}")
    return wrong or None


PTX_LOAD = "ld.shared.v4.u32 {%r1, %r2, %r3, %r4}, [%r9];"
PTX_LOOP = """.visible .entry _Z4kernv(
)
{{
$L__BB0_1:
    {before}
    {{ .reg .pred p; wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {{%f1, %f2, %f3, %f4}}, {{%r1, %r2, %r3, %r4}}, %rd1, p, 1, 1, 0; }}
    wgmma.commit_group.sync.aligned;
    wgmma.wait_group.sync.aligned {n_left}; // {what}
    {behind}
    @%p1 bra $L__BB0_1;
    ret;
}}
"""
# R24 to R39 are sums, R56 to R59 the first operand.
SASS_WGMMA = (0x0060001038187DF0, 0x000FE60008000818)
SASS_LOAD = (0x000800000C387984, 0x000F280000000C00)
SASS_WAIT, SASS_WAIT_ALL = (0x00008000000079C5, 0x000FE40000010100), (0x00008000000079C5, 0x000FE40000010000)
SASS_EXIT = (0x000000000000794D, 0x000FEA0003800000)


def branch_back(index):
    """A conditional branch to the first instruction."""
    words = -4 * (index + 1) & (1 << 56) - 1
    return 0x0947 | (words & 0xFF) << 16 | (words >> 8 << 34) & (1 << 64) - 1, words >> 38 & 0x3FFFF | ALWAYS_TAKEN


ALWAYS_TAKEN = cubin.ALWAYS << 23

CASES = {
    "deviations of counts are found": find_deviations,
    "kernels whose products of wgmma wait for one another are found": find_serialized,
    "a register that is written while a wgmma reads it is found": find_written,
    "nothing writes a register that a wgmma in flight reads": find_overwritten,
    "the kernels have the counts of the table": compare_kernels,
    "the launches of a step are those of the table": compare_launches,
    "README quotes the table": compare_readme,
}


def compare(options):
    n_failed = 0
    print(f"1..{len(CASES)}")
    table = read_table(options.table)
    for number, (name, case) in enumerate(CASES.items(), 1):
        result = case(options, table)
        failed = isinstance(result, list)
        n_failed += failed
        print(f"{'not ok' if failed else 'ok'} {number} - {name}{f' # SKIP {result}' if isinstance(result, str) else ''}", flush=True)
        for line in result if failed else []:
            print(f"# {line}")
    if n_failed:
        print("# if that is meant: ninja -C BUILD update-counts")
    return n_failed > 0


def update(options):
    version, kernels, launches = read_table(options.table) if os.path.exists(options.table) else ("", {}, {})
    if options.nvcc:
        kept = {key: counts for key, counts in kernels.items() if key[0] not in COUNTED}
        version, kernels = version_of(options.nvcc[0]), kept | count_kernels(options.compiler, COUNTED)
    if options.launches:
        launches = count_launches(options.launches)
    write_table(options.table, version, kernels, launches)
    text = with_quotes(read_text(options.readme), *read_table(options.table)[1:])
    with open(options.readme, "w", encoding="utf-8") as file:
        file.write(text)


def main():
    words, nvcc = sys.argv[1:], []
    if "--" in words:
        words, nvcc = words[:words.index("--")], words[words.index("--") + 1:]
    parser = argparse.ArgumentParser()
    parser.add_argument("table")
    parser.add_argument("readme")
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--launches")
    parser.add_argument("--source", action="append", default=[])
    options = parser.parse_args(words)
    options.nvcc = nvcc
    options.sources = dict(one.split("=", 1) for one in options.source)
    with tempfile.TemporaryDirectory() as folder:
        options.compiler = Compiler(options, folder) if nvcc else None
        return update(options) if options.update else compare(options)


if __name__ == "__main__":
    sys.exit(main())
