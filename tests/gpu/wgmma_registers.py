"""Registers that are written while a wgmma in flight reads them, in PTX and in machine code (cubin.py).

A wgmma is asynchronous: it reads a and the sums in registers until its group has been waited for (PTX ISA, wgmma.mma_async). The compilers
know that of the sums, but do not always keep to it for a. Both texts become a list of Steps. The state before each step is the set
of registers that wgmma in flight may read, each with the number of groups committed since the latest such wgmma; where control flow
joins, the least number counts. It is computed to a fixed point, so a wgmma of one pass of a loop meets the writes of the next one.
"""
import re

import cubin

GROUPS_MAX = 8  # a wait leaves fewer in flight


class Step:
    """One instruction: the registers that it writes, and what it does to wgmma."""
    __slots__ = ("text", "writes", "reads", "commits", "leaves", "following", "elsewhere")

    def __init__(self, text, writes=()):
        self.text = text
        self.writes = writes
        self.reads = None  # a wgmma: what it reads until it is waited for
        self.commits = False
        self.leaves = None  # a wait: number of groups that stay in flight
        self.following = []  # indexes of the steps that control may reach next
        self.elsewhere = False  # control goes where is not known: calls, tables of branches


def state_after(step, state):
    if step.reads is not None:
        state = state | dict.fromkeys(step.reads, 0)
    if step.commits:
        state = {register: min(age + 1, GROUPS_MAX) for register, age in state.items()}
    if step.leaves is not None:
        state = {register: age for register, age in state.items() if age <= step.leaves}
    return state


def overwrites(steps):
    """Texts of the steps that write a register which a wgmma in flight reads."""
    states = [None] * len(steps)
    states[0] = {}
    waiting = [0]
    while waiting:
        at = waiting.pop()
        state = state_after(steps[at], states[at])
        for other in steps[at].following:
            before = states[other]
            if before is None:
                states[other] = state
                waiting.append(other)
                continue
            joined = before | {register: min(age, before.get(register, age)) for register, age in state.items()}
            if joined != before:
                states[other] = joined
                waiting.append(other)
    for step, state in zip(steps, states):
        if state and step.reads is None and (step.elsewhere or not state.keys().isdisjoint(step.writes)):
            yield step.text


# --- PTX ---

REGISTER = re.compile(r"%(?:fd|f|rd|rs|r|p)\d+\b")
WITHOUT_RESULT = re.compile(r"(st|red|bar|barrier|bra|brx|ret|exit|trap|fence|membar|prefetch|griddepcontrol|setmaxnreg|cp|wgmma|mbarrier\.init|"
                            r"call|nanosleep|brkpt|discard|applypriority)\b")


def ptx_kernels(text):
    """{mangled name: body} of the kernels with wgmma."""
    found = {}
    for match in re.finditer(r"^(?:\.visible |\.weak )?\.entry (\w+)\(", text, re.M):
        begin = text.index("\n{", match.end()) + 2
        body = text[begin:text.index("\n}\n", begin)]
        if "wgmma.mma_async" in body:
            found[match[1]] = body
    return found


def ptx_statements(body):
    """Statements, and labels with their colon."""
    lines = [line.split("//")[0] for line in body.splitlines()]
    text = "\n".join(line for line in lines if not line.lstrip().startswith((".loc", ".pragma", ".file")))
    for statement in text.split(";"):
        statement = statement.lstrip("{} \t\n")
        while match := re.match(r"[$\w]+:(?!:)", statement):
            yield match[0]
            statement = statement[match.end():].lstrip("{} \t\n")
        if statement and statement[0] != ".":
            yield statement.strip()


def first_operand(operands):
    return operands[:operands.index("}") + 1] if operands.startswith("{") else operands.split(",")[0]


def ptx_step(statement):
    """(Step, label that it branches to, whether the next statement may follow)"""
    match = re.match(r"(@!?%p\d+\s+|@!?\w+\s+)?([\w.:]+)\s*(.*)", statement, re.S)
    guarded, operation, operands = match[1], match[2], match[3]
    step, target = Step(" ".join(statement.split())), None
    if operation.startswith("wgmma.mma_async"):
        sums, a = re.findall(r"\{([^}]*)\}", operands)[:2]
        step.reads = REGISTER.findall(sums) + REGISTER.findall(a)
    elif operation.startswith("wgmma.commit_group"):
        step.commits = True
    elif operation.startswith("wgmma.wait_group"):
        step.leaves = int(operands)
    elif operation.split(".")[0] == "bra":
        target = operands
    elif operation.split(".")[0] in ("brx", "call"):
        step.elsewhere = True
    elif not WITHOUT_RESULT.match(operation):
        step.writes = tuple(REGISTER.findall(first_operand(operands)))
    goes_on = bool(guarded) or operation.split(".")[0] not in ("bra", "brx", "ret", "exit", "trap")
    return step, target, goes_on


def ptx_steps(body):
    steps, labels, targets, going_on = [], {}, [], []
    for statement in ptx_statements(body):
        if statement.endswith(":"):
            labels[statement[:-1]] = len(steps)
            continue
        step, target, goes_on = ptx_step(statement)
        steps.append(step)
        targets.append(target)
        going_on.append(goes_on)
    for i, step in enumerate(steps):
        if targets[i] is not None:
            step.following.append(labels[targets[i]])
        if going_on[i] and i + 1 < len(steps):
            step.following.append(i + 1)
    return steps


# --- Machine code ---

NO_REGISTER = 255
# Operations (the low 9 bits) whose bits 16 to 23 are no general register that is written; of the uniform datapath
# all from 0x80 to 0xFF. Another one that writes none would be counted as a write, which can only be one too many.
SASS_WITHOUT_RESULT = {
    0x0B, 0x0C, 0x1C, 0x2D, 0x2E, 0x2F, 0x102,  # FSETP ISETP PLOP3 PREEXIT ACQBULK ELECT FCHK
    0x118, 0x11A, 0x11B, 0x11D, 0x141, 0x144, 0x145, 0x146, 0x147, 0x148, 0x149, 0x14D, 0x150,  # barriers and branches
    0x186, 0x187, 0x188, 0x18F, 0x192, 0x1A7, 0x1AB, 0x1AE, 0x1AF, 0x1B2, 0x1BA,  # stores, copies, mbarriers, fences
    0x1C3, 0x1C5, 0x1C6, 0x1C8,  # S2UR WARPGROUP FENCE USETMAXREG
}
LOADS = {0x181, 0x182, 0x183, 0x184}  # LDG LDC LDL LDS, with a size in bits 73 to 75
LOAD_WIDTHS = {5: 2, 6: 4}
WIDE = {0x05: 2, 0x25: 2, 0x3C: 4}  # CS2R, IMAD.WIDE, HMMA of float32
HGMMA, WARPGROUP, DEPBAR_BIT = 0x1F0, 0x1C5, 47
A_IN_REGISTERS = 6  # HGMMA's form
NO_GROUP = 7  # of HGMMA, bits 84 to 86: it does not end a group


def sass_written(low, high):
    """The general registers that an instruction writes."""
    operation, first = low & 0x1FF, low >> 16 & 0xFF
    if operation in SASS_WITHOUT_RESULT or 0x80 <= operation <= 0xFF or first == NO_REGISTER:
        return range(0)
    width = LOAD_WIDTHS.get(high >> 9 & 7, 1) if operation in LOADS else WIDE.get(operation, 1)
    return range(first, first + width)


def sass_step(one, index):
    step = Step(f"instruction {index}, {one.low:016x} {one.high:016x}")
    if one.low & 0x1FF == HGMMA:
        if one.low >> 9 & 7 != A_IN_REGISTERS:
            raise ValueError(f"{step.text}: expected an HGMMA with its first operand in registers")
        sums, a, n_rows = one.low >> 16 & 0xFF, one.low >> 24 & 0xFF, ((one.low >> 53 & 0x1F) + 1) * 8
        step.reads = (*range(sums, sums + n_rows // 2), *range(a, a + 4))
        step.commits = one.high >> 20 & 7 != NO_GROUP
    elif one.low & 0x1FF == WARPGROUP and one.low >> DEPBAR_BIT & 1:
        step.leaves = one.high >> 8 & 0x3F
    else:
        step.writes = sass_written(one.low, one.high)
    step.elsewhere = one.low & 0x1FF in (0x144, 0x149, 0x150)  # CALL BRX RET
    return step


def sass_steps(instructions):
    steps = [sass_step(one, i) for i, one in enumerate(instructions)]
    blocks = cubin.basic_blocks(instructions)
    for begin, end, following in blocks:
        for i in range(begin, end - 1):
            steps[i].following.append(i + 1)
        steps[end - 1].following += [blocks[other][0] for other in following]
    return steps


# --- Both ---


def ptx_overwrites(text):
    """{kernel: [text of a step]} of all kernels with wgmma."""
    return {cubin.short_name(name): list(overwrites(ptx_steps(body))) for name, body in ptx_kernels(text).items()}


def cubin_overwrites(path):
    return {cubin.short_name(name): list(overwrites(sass_steps(instructions))) for name, instructions in cubin.kernels(path).items()
            if any(one.name == "HGMMA" for one in instructions)}
