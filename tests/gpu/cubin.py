#!/usr/bin/env python3
"""Machine code of CUDA kernels: the kernels of a cubin, their instructions by class, and the path of each loop with products.

  cubin.py PROGRAM...    prints the hash of each program's kernels, which a build from the same sources has too

A cubin is an ELF file with a section `.text.NAME` for each kernel. Instructions of compute capability 7.0 and later have 16 bytes: the
low 9 bits name the operation, bits 9 to 11 the form of its operands, bits 12 to 15 the predicate. The table below has what is counted;
it, and the targets of branches, are compared with nvdisasm where there is one (disassembly_differences): no part of what counting needs.
"""
import hashlib
import os
import re
import struct
import subprocess
import sys
from collections import Counter

INSTRUCTION_BYTES = 16
ALWAYS = 7  # the predicate that is true

NAMES = {
    0x3C: "HMMA", 0x1F0: "HGMMA",
    0x1AE: "LDGSTS", 0x1BA: "UBLKCP",
    0x184: "LDS", 0x3B: "LDSM", 0x188: "STS",
    0x181: "LDG", 0x186: "STG",
    0x183: "LDL", 0x187: "STL",
    0x30: "HADD2", 0x31: "HFMA2", 0x32: "HMUL2", 0x35: "HFMA2",
    0x11D: "BAR", 0x1A7: "SYNCS", 0x1B2: "SYNCS", 0x1C5: "WARPGROUP", 0x148: "WARPSYNC", 0x11A: "DEPBAR", 0x1AF: "LDGDEPBAR",
    0x1C6: "FENCE", 0x192: "MEMBAR",
    0x118: "NOP", 0x147: "BRA", 0x149: "BRX", 0x14D: "EXIT", 0x150: "RET", 0x15C: "BPT",
}
CLASSES = {
    "products": {"HMMA", "HGMMA"},
    "copies": {"LDGSTS", "UBLKCP"},
    "shared": {"LDS", "LDSM", "STS"},
    "global": {"LDG", "STG"},
    "local": {"LDL", "STL"},
    "half": {"HADD2", "HFMA2", "HMUL2"},
    "waits": {"BAR", "SYNCS", "WARPGROUP", "WARPSYNC", "DEPBAR", "LDGDEPBAR", "FENCE", "MEMBAR"},
}
CLASS_OF = {name: group for group, names in CLASSES.items() for name in names}


class Instruction:
    __slots__ = ("low", "high", "name", "always", "target")

    def __init__(self, low, high, index):
        self.low, self.high = low, high
        self.name = NAMES.get(low & 0x1FF, "")
        self.always = low >> 12 & 0xF == ALWAYS
        self.target = branch_target(low, high, index) if self.name == "BRA" else None
        # BRA has a second predicate
        self.always = self.always and (self.name != "BRA" or high >> 23 & 0xF == ALWAYS)


def branch_target(low, high, index):
    """Index of the instruction. The distance counts words of 4 bytes: its low 8 bits at bit 16, the others from bit 34 on."""
    words = low >> 16 & 0xFF | (low >> 34 | (high & 0x3FFFF) << 30) << 8
    if words >> 55:
        words -= 1 << 56
    return index + 1 + words * 4 // INSTRUCTION_BYTES


def sections(data):
    """(name, bytes) of a 64-bit little-endian ELF file."""
    if data[:6] != b"\x7fELF\x02\x01":
        raise ValueError("no 64-bit ELF file")
    (offset,) = struct.unpack_from("<Q", data, 40)
    size, n, names_at = struct.unpack_from("<HHH", data, 58)
    headers = [struct.unpack_from("<IIQQQQ", data, offset + i * size) for i in range(n)]
    names = headers[names_at]
    for name, kind, _, _, begin, length in headers:
        text = data[names[4] + name:]
        yield text[:text.index(b"\0")].decode(), b"" if kind == 8 else data[begin:begin + length]


def kernels(path):
    """{mangled name: [Instruction]}, without what fills the section's end."""
    with open(path, "rb") as file:
        data = file.read()
    found = {}
    for name, code in sections(data):
        if not name.startswith(".text."):
            continue
        words = struct.iter_unpack("<QQ", code)
        instructions = [Instruction(low, high, i) for i, (low, high) in enumerate(words)]
        while instructions and (instructions[-1].name == "NOP" or instructions[-1].target == len(instructions) - 1):
            instructions.pop()
        found[name[len(".text."):]] = instructions
    return found


def disassembly_differences(nvdisasm, path):
    """Lines on what is read here in another way than by nvdisasm."""
    printed = subprocess.run([nvdisasm, "-c", path], capture_output=True, text=True, check=True).stdout
    code, labels, name = {}, {}, ""
    for line in printed.splitlines():
        if match := re.match(r"\.text\.(\S+):", line):
            name = match[1]
        elif match := re.match(r"(\.L_x_\d+):", line):
            labels[match[1]] = len(code.get(name, []))
        elif match := re.match(r"\s+/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z0-9_]+)(.*);", line):
            code.setdefault(name, []).append((match[1], match[2]))
    for kernel, instructions in kernels(path).items():
        for i, one in enumerate(instructions):
            operation, operands = code[kernel][i]
            label = re.search(r"\((\.L_x_\d+)\)", operands)
            if (operation if operation in NAMES.values() else "") != one.name:
                yield f"{kernel} {i}: nvdisasm has {operation}, read was {one.name or 'another one'}"
            elif operation == "BRA" and label and labels[label[1]] != one.target:
                yield f"{kernel} {i}: a branch to {labels[label[1]]}, read was {one.target}"


def count(instructions):
    """Counter of classes, with 'slots' for all."""
    counts = Counter(CLASS_OF[one.name] for one in instructions if one.name in CLASS_OF)
    counts["slots"] = len(instructions)
    return counts


# --- Control flow ---


ENDS = {"BRA", "BRX", "EXIT", "RET", "BPT"}  # BPT: a trap


def basic_blocks(instructions):
    """[(begin, end, [index of a successor])]. A call continues behind itself; the targets of BRX are not known."""
    n = len(instructions)
    begins = {0}
    for i, one in enumerate(instructions):
        if one.target is not None and 0 <= one.target < n:
            begins.add(one.target)
        if one.name in ENDS:
            begins.add(i + 1)
    begins = sorted(begin for begin in begins if begin < n)
    index = {begin: i for i, begin in enumerate(begins)}
    blocks = []
    for i, begin in enumerate(begins):
        end = begins[i + 1] if i + 1 < len(begins) else n
        last, following = instructions[end - 1], []
        if last.target in index:
            following.append(index[last.target])
        ends = last.always and last.name in ENDS
        if not ends and end in index:
            following.append(index[end])
        blocks.append((begin, end, following))
    return blocks


def dominators(successors):
    """For each node the set of those that every way from node 0 leads through, as the number of each one's immediate one. Unreached:
    None (Cooper, Harvey, Kennedy: A simple, fast dominance algorithm)."""
    order, seen, stack = [], {0}, [(0, iter(successors[0]))]
    while stack:
        node, following = stack[-1]
        for other in following:
            if other not in seen:
                seen.add(other)
                stack.append((other, iter(successors[other])))
                break
        else:
            order.append(node)
            stack.pop()
    rank = {node: i for i, node in enumerate(order)}
    before = {node: [] for node in order}
    for node in order:
        for other in successors[node]:
            before[other].append(node)
    immediate = {0: 0}
    changed = True
    while changed:
        changed = False
        for node in reversed(order[:-1]):
            best = None
            for other in before[node]:
                if other not in immediate:
                    continue
                if best is None:
                    best = other
                    continue
                one = other
                while one != best:
                    while rank[one] < rank[best]:
                        one = immediate[one]
                    while rank[best] < rank[one]:
                        best = immediate[best]
            if immediate.get(node) != best:
                immediate[node] = best
                changed = True
    return immediate, before


def dominates(immediate, one, other):
    while other != one:
        if other == immediate[other]:
            return False
        other = immediate[other]
    return True


def natural_loops(successors):
    """{header: (blocks, blocks that lead back to it)}"""
    immediate, before = dominators(successors)
    loops = {}
    for node in immediate:
        for header in successors[node]:
            if not dominates(immediate, header, node):
                continue
            blocks, latches = loops.setdefault(header, ({header}, []))
            latches.append(node)
            stack = [node]
            while stack:
                one = stack.pop()
                if one not in blocks:
                    blocks.add(one)
                    stack += before[one]
    return loops


def best_path(header, blocks, latches, successors, value):
    """The blocks of one pass through a loop with the largest sum of values; inner loops are passed once."""
    order, seen, stack = [], {header}, [(header, iter(successors[header]))]
    edges, open_nodes = {}, {header}
    while stack:
        node, following = stack[-1]
        for other in following:
            if other not in blocks or other in open_nodes:
                continue
            edges.setdefault(node, []).append(other)
            if other not in seen:
                seen.add(other)
                open_nodes.add(other)
                stack.append((other, iter(successors[other])))
                break
        else:
            order.append(node)
            open_nodes.discard(node)
            stack.pop()
    best = {}
    for node in order:
        ways = [(best[other][0], other) for other in edges.get(node, []) if other in best]
        if node in latches:
            ways.append(((0,) * len(value(node)), None))
        if ways:
            total, following = max(ways, key=lambda way: way[0])
            best[node] = (tuple(a + b for a, b in zip(total, value(node))), following)
    path, node = [], header
    while node is not None:
        path.append(node)
        node = best[node][1]
    return path


def product_loops(instructions):
    """Counters of the innermost loops with products, in the order of their addresses: of the pass that has all products and copies,
    and otherwise the fewest instructions."""
    blocks = basic_blocks(instructions)
    successors = [following for _, _, following in blocks]
    counts = [count(instructions[begin:end]) for begin, end, _ in blocks]
    loops = {header: loop for header, loop in natural_loops(successors).items() if any(counts[i]["products"] for i in loop[0])}
    found = []
    for header, (members, latches) in sorted(loops.items()):
        if any(other in members for other in loops if other != header):
            continue
        path = best_path(header, members, latches, successors,
                         lambda i: (counts[i]["products"], counts[i]["copies"], -counts[i]["slots"]))
        found.append(sum((counts[i] for i in path), Counter()))
    return found


# --- Names ---


def short_name(mangled):
    """Of a kernel with template arguments that are numbers, enum values and classes of such: name<1,2>, or name<1,2;3>."""
    match = re.match(r"_Z(?:N\d+_GLOBAL__N__\w+?E?)?(\d+)", mangled)
    if not match:
        return mangled
    at = match.end()
    name, rest = mangled[at:at + int(match[1])], mangled[at + int(match[1]):]
    if not rest.startswith("I"):
        return name
    # arguments: L<type><value>E; a class has its own between I and E
    arguments, depth, at, enum = [[]], 0, 0, ""
    while at < len(rest):
        if match := re.compile(r"L(\d*[a-z_]+|S\w?_)(\d+)E").match(rest, at):
            # an enum's name; a substitution stands for the one before
            enum = match[1].lstrip("0123456789") if match[1][0].isdigit() else enum
            arguments[-1].append(ENUMS.get((enum, match[2]), match[2]) if match[1][0] in "S0123456789" else match[2])
            at = match.end()
        elif rest[at] == "I":
            depth += 1
            at += 1
        elif rest[at] == "E":
            depth -= 1
            if depth == 0:
                break
            if depth == 1:
                arguments.append([])
            at += 1
        elif match := re.compile(r"\d+").match(rest, at):
            at = match.end() + int(match[0])
        elif match := re.compile(r"S\w?_").match(rest, at):
            at = match.end()
        else:
            at += 1
    return f"{name}<{';'.join(','.join(one) for one in arguments if one)}>"


ENUMS = {("tensor_type", number): name for number, name in
         {"1": "f16", "2": "q4_0", "8": "q8_0", "12": "q4_k", "13": "q5_k", "14": "q6_k", "30": "bf16"}.items()}
ENUMS |= {("kv_type", "2"): "f16", ("kv_type", "3"): "q8_0"}


def embedded_hash(path):
    """Of the kernels that nvcc embeds in a program; None: it has none."""
    with open(path, "rb") as file:
        code = dict(sections(file.read())).get(".nv_fatbin")
    return hashlib.sha256(code).hexdigest()[:16] if code else None


if __name__ == "__main__":
    for program in sys.argv[1:]:
        print(f"kernels of {os.path.basename(program)}: {embedded_hash(program) or 'none'}")
