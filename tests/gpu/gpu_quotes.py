"""Parts of gpu/README.md that follow from kernel_counts.txt and from the rates that README states as measured: see gpu_counts.py.

The bounds are of a model of Llama-3-8B's shape in Q4_K_M. A launch takes the longest of three times: its bytes, its products, and the
instructions of its loops with products, each at the device's rate, and of the last two as many times more as multiprocessors have no block.
What comes before and behind a loop, and waiting, is left out. So a bound is what the counts allow, not an estimate of what is reached.
"""
import math
import re

import gpu_goals

TARGET = "sm_90a"

# of the H200, by its data sheet
N_MULTIPROCESSORS, N_SCHEDULERS, PRODUCTS_A_CYCLE = 132, 4, 2048
CACHE_BYTES_A_CYCLE = 25  # of a multiprocessor, as gpu/kernels/product_type.cu assumes

# Label, kernel, loop, what a pass is. kernel_counts.txt has all kernels.
ROWS = [
    ("Q4_K, up to 8 rows", "gemm_skinny<q4_k,1,1,4,2>", "loop1", "512 inputs x 16 outputs"),
    ("Q4_K, 9 to 16 rows", "gemm_skinny<q4_k,2,2,1,2>", "loop1", "512 inputs x 32 outputs"),
    ("Q4_K, tiles of 64 outputs x 64 rows", "gemm_wgmma<q4_k,64,1,4>", "loop1", "256 inputs x 16 outputs x 64 rows"),
    ("of 256 x 64", "gemm_wgmma<q4_k,64,4,1>", "loop1", "256 inputs x 16 outputs x 64 rows"),
    ("of 128 x 128", "gemm_wgmma<q4_k,128,2,1>", "loop1", "256 inputs x 16 outputs x 128 rows"),
    ("of 192 x 128", "gemm_wgmma<q4_k,128,3,1>", "loop1", "256 inputs x 16 outputs x 128 rows"),
    ("Q4_K by mma, tiles of 128 x 128", "gemm_tiled<q4_k,4,2,1,8,165888>", "loop1", "128 inputs x 32 outputs x 64 rows"),
    ("Q4_K, an expert's rows in a tile of 128 x 128", "gemm_experts<q4_k,165888>", "loop1", "128 inputs x 32 outputs x 64 rows"),
    ("F16, more than 128 rows", "gemm_wgmma<f16,128,2,1>", "loop1", "128 inputs x 16 outputs x 128 rows"),
    ("Q6_K, up to 8 rows", "gemm_skinny<q6_k,1,1,4,2>", "loop1", "512 inputs x 16 outputs"),
    ("attention, keys", "decode<f16,1,1>", "loop1", "32 positions x 32 dimensions"),
    ("attention, values", "decode<f16,1,1>", "loop2", "64 positions x 16 dimensions"),
    ("attention of 8-bit pages, keys", "decode<q8_0,1,1>", "loop1", "32 positions x 32 dimensions"),
    ("attention of 8-bit pages, values", "decode<q8_0,1,1>", "loop2", "64 positions x 16 dimensions"),
    ("norm with operand, 4,096 items", "norm_long<4,0>", "all", "the whole kernel"),
]
STEPS = {"decode_1": "decoding, batch 1", "decode_64": "decoding, batch 64", "prefill_128": "a prompt of 128 tokens"}
PARTS = {"layer_q4_k": "a layer", "layer_q6_k": "a layer with values and down in Q6_K", "layer_bf16": "a layer in BF16", "layer_experts": "a layer with 2 of 8 experts",
         "one_layer": "a step of one layer"}


# --- Counts ---


def kernel_lines(_, kernels, __):
    yield f"| kernel, {TARGET} | a pass of its loop | instructions of a warp | tensor core | copies | registers | bytes spilled |"
    yield "|---|---|---|---|---|---|---|"
    for label, kernel, what, a_pass in ROWS:
        counts, whole = kernels[TARGET, kernel, what], kernels[TARGET, kernel, "all"]
        yield (f"| {label} | {a_pass} | {counts['slots']:,} | {counts['products']} | {counts['copies']} | "
               f"{whole['registers']} | {whole['spilled']} |")


def launches_of(launches, step, part):
    return {kernel: n for (of, within, kernel), n in launches.items() if (of, within) == (step, part)}


def launch_lines(_, __, launches):
    yield "| launches | " + " | ".join(PARTS.values()) + " |"
    yield "|---" * (len(PARTS) + 1) + "|"
    for step, label in STEPS.items():
        cells = []
        for part in PARTS:
            of = launches_of(launches, step, part)
            cells.append(f"{sum(of.values())}: " + ", ".join(f"{n} {kernel}" if n > 1 else kernel for kernel, n in sorted(of.items())))
        yield f"| {label} | " + " | ".join(cells) + " |"


# --- Bounds ---

N_LAYERS, N_MORE = 32, 16  # layers; those with values and down in Q6_K
EMBEDDING, FEED_FORWARD, KEY_VALUE, VOCABULARY, HEADS, KV_HEADS, HEAD_DIM = 4096, 14336, 1024, 128256, 32, 8, 128
WEIGHT_BYTES = {"q4_k": 144 / 256, "q6_k": 210 / 256}


def rates_of(text):
    """Of README's table, in bytes, operations and seconds."""
    units = {"TFLOP/s": 1e12, "TB/s": 1e12, "us": 1e-6}
    rates = {}
    for name, number, unit in re.findall(r"^\| (wgmma|mma\.sync|memory|second-level cache|graph node) \| ([\d.]+) (\S+) \|", text, re.M):
        rates[name] = float(number) * units[unit]
    # the clock at which the measured rate of wgmma would be all that the data sheet allows: it was at least this
    rates["slots"] = rates["wgmma"] / (2 * PRODUCTS_A_CYCLE) * N_SCHEDULERS
    return rates


class Costs:
    """Sums over launches: bytes, operations and slots in seconds, and of each launch the longest of them."""

    def __init__(self, rates, kernels):
        self.rates, self.kernels = rates, kernels
        self.bytes = self.products = self.slots = self.cache = self.longest = 0.0
        self.n_launches = 0

    def add(self, n_bytes, operations, slots, rate="wgmma", times=1, cache_bytes=0.0):
        parts = n_bytes / self.rates["memory"], operations / self.rates[rate], slots / self.rates["slots"], cache_bytes / self.rates["second-level cache"]
        self.bytes += times * parts[0]
        self.products += times * parts[1]
        self.slots += times * parts[2]
        self.cache += times * parts[3]
        self.longest += times * max(parts)

    def loop(self, kernel, what):
        return self.kernels[TARGET, kernel, what]

    def gemm(self, types, inputs, n_rows, result_bytes=4, times=1):
        """`types`: {type of weights: outputs}, in one launch."""
        def n_bytes(kind, n):
            return n * inputs * WEIGHT_BYTES[kind] + n_rows * (2 * inputs + result_bytes * n)

        if n_rows <= 16:
            # a block has sets of panels in any number: all multiprocessors are taken
            panels, padded = (1, 8) if n_rows <= 8 else (2, 16)
            shape = "1,1,4,2" if n_rows <= 8 else "2,2,1,2"
            slots = sum(self.loop(f"gemm_skinny<{kind},{shape}>", "loop1")["slots"] * inputs * n / (512 * 16 * panels) for kind, n in types.items())
            self.add(sum(n_bytes(*one) for one in types.items()), 2 * padded * inputs * sum(types.values()), slots, "mma.sync", times)
            return
        self.gemm_wgmma(types, inputs, n_rows, sum(n_bytes(*one) for one in types.items()), times)

    def gemm_wgmma(self, types, inputs, n_rows, n_bytes, times):
        """With the tiles that the counts make fastest (the program measures); weights of two types have narrow ones."""
        one_type = len(types) == 1

        def tiles(rows, outputs):
            return sum(math.ceil(n / outputs) for n in types.values()) * math.ceil(n_rows / rows)

        def time(rows, over_outputs, _):
            weight_bytes = WEIGHT_BYTES[next(iter(types))]
            given, passed = 64 * over_outputs * weight_bytes + 2 * rows, 64 * over_outputs * rows // (PRODUCTS_A_CYCLE // CACHE_BYTES_A_CYCLE)
            return math.ceil(tiles(rows, 64 * over_outputs) / N_MULTIPROCESSORS) * max(given, passed)

        few = N_MULTIPROCESSORS // 2
        has_between = types.keys() == {"q4_k"}  # the others' rings have no room
        if n_rows > 128 and one_type and tiles(128, 128) <= few:
            shape = 128, 1, 2
        else:
            narrow = (32, 1, 4) if n_rows <= 32 else (64, 1, 4) if n_rows <= 128 else (128, 2, 1)
            wide = (32, 4, 1) if n_rows <= 32 else (96, 4, 1) if 64 < n_rows <= 96 and has_between else (64, 4, 1) if n_rows <= 128 else (128, 3, 1)
            shape = wide if one_type and time(*wide) < time(*narrow) else narrow
        rows, over_outputs, over_chunks = shape
        outputs, row_tiles, n_blocks = 64 * over_outputs, math.ceil(n_rows / rows), tiles(rows, 64 * over_outputs)  # one block a multiprocessor
        idle = math.ceil(n_blocks / N_MULTIPROCESSORS) * N_MULTIPROCESSORS / n_blocks
        if over_chunks == 4 and n_blocks <= few and one_type:
            # a tile is two blocks', of which the first one has whole rounds of four chunks
            n_chunks = math.ceil(inputs / 512)
            idle *= min(math.ceil(math.ceil(n_chunks / 2) / 4) * 4, n_chunks) / n_chunks
        operations = slots = cache_bytes = 0.0
        for kind, n in types.items():
            loop = self.loop(f"gemm_wgmma<{kind},{rows},{over_outputs},{over_chunks}>", "loop1")
            operations += 2 * rows * row_tiles * inputs * n * idle
            slots += loop["slots"] * inputs / (loop["products"] * 16) * (n / 16) * row_tiles * idle
            cache_bytes += row_tiles * inputs * n * WEIGHT_BYTES[kind] + math.ceil(n / outputs) * n_rows * inputs * 2
        self.add(n_bytes, operations, slots, "wgmma", times, cache_bytes)

    def attention(self, n_sequences, n_rows, n_positions, times=1):
        """n_rows of each sequence see n_positions each, on average."""
        row_bytes = n_rows * n_sequences * EMBEDDING * (4 + 4 + 2)  # queries, results, operand
        key_value = n_sequences * n_positions * KV_HEADS * HEAD_DIM * 4 * (2 if n_rows > 1 else 1)  # a prompt sees half of it on average
        strips = 1 if n_rows == 1 else math.ceil(n_rows * HEADS / KV_HEADS / 64)  # tiles of 64 queries
        kernel, queries = ("decode<f16,1,1>", 16) if n_rows == 1 else ("prefill<f16,4,1>", 64)
        # each of 8 warps has four passes of both loops in a segment of 256 positions
        passes = 8 * 4 * n_sequences * KV_HEADS * strips * n_positions / 256
        slots = passes * (self.loop(kernel, "loop1")["slots"] + self.loop(kernel, "loop2")["slots"])
        # the scores' queries are two binary16
        operations = 2 * 3 * queries * HEAD_DIM * n_positions * n_sequences * KV_HEADS * strips
        self.add(key_value + row_bytes, operations, slots, "mma.sync", times)

    def rows(self, n_bytes_a_row, n_rows, times=1):
        self.add(n_bytes_a_row * n_rows, 0, 0, times=times)


def step(rates, kernels, launches, n_sequences, n_rows, n_positions):
    """Costs of a step of n_rows of each sequence."""
    costs, n = Costs(rates, kernels), n_sequences * n_rows
    for more, times in (("q4_k", N_LAYERS - N_MORE), ("q6_k", N_MORE)):
        qkv = {"q4_k": EMBEDDING + 2 * KEY_VALUE} if more == "q4_k" else {"q4_k": EMBEDDING + KEY_VALUE, "q6_k": KEY_VALUE}
        costs.rows(EMBEDDING * (4 + 4 + 4 + 2), n, 2 * times)  # norm: x, what is added, x again, operand
        costs.gemm(qkv, EMBEDDING, n, times=times)
        costs.rows((EMBEDDING * 2 + 2 * KEY_VALUE) * 4 + KEY_VALUE * 4, n, times)  # rotation and store
        costs.attention(n_sequences, n_rows, n_positions, times)
        costs.gemm({"q4_k": EMBEDDING}, EMBEDDING, n, times=times)
        # of two outputs an item of down's operand, at any number of rows
        costs.gemm({"q4_k": 2 * FEED_FORWARD}, EMBEDDING, n, result_bytes=1, times=times)
        costs.gemm({more: EMBEDDING}, FEED_FORWARD, n, times=times)
    costs.gemm({"q6_k": VOCABULARY}, EMBEDDING, n_sequences)
    costs.rows(VOCABULARY * 4, n_sequences)
    name = "decode_1" if n == 1 else "decode_64" if n_rows == 1 else "prefill_128"
    count = {part: sum(launches_of(launches, name, part).values()) for part in PARTS}
    costs.n_launches = (N_LAYERS - N_MORE - 1) * count["layer_q4_k"] + N_MORE * count["layer_q6_k"] + count["one_layer"]
    return costs


def goal_lines(text, kernels, launches):
    rates = rates_of(text)

    def of(*shape):
        return step(rates, kernels, launches, *shape)

    goals = gpu_goals.DECODE_GOALS
    # tokens, goal, [(how often, step)]
    cases = [
        ("decode, batch 1, 512 positions", 1, goals[1], [(1, of(1, 1, 512))]),
        ("decode, batch 64, 512 positions", 64, goals[64], [(1, of(64, 1, 512))]),
        ("128 in and 128 out, batch 256", 256, gpu_goals.SATURATED_GOAL, [(1, of(256, 1, 192)), (256 / 8192, of(64, 128, 64))]),
        ("prefill, 8 prompts of 1,024", 8192, gpu_goals.PREFILL_GOAL, [(1, of(8, 1024, 512))]),
    ]
    yield "| | goal, tokens/s | memory, ms | products, ms | instructions, ms | second-level cache, ms | launch by launch, ms | launches | bound, tokens/s | with launches one by one |"
    yield "|---|---|---|---|---|---|---|---|---|---|"
    for label, n_tokens, goal, steps in cases:
        def total(name, within=steps):
            return sum(times * getattr(costs, name) for times, costs in within)
        longest, n_launches = total("longest"), total("n_launches")
        bounds = n_tokens / longest, n_tokens / (longest + n_launches * rates["graph node"])
        said = [f"{round(bound, -2 if bound > 2000 else -1):,.0f}{'' if bound >= goal else ': below the goal'}" for bound in bounds]
        yield (f"| {label} | {goal:,} | {total('bytes') * 1e3:.2f} | {total('products') * 1e3:.2f} | {total('slots') * 1e3:.2f} | "
               f"{total('cache') * 1e3:.2f} | {longest * 1e3:.2f} | {n_launches:.0f} | {said[0]} | {said[1]} |")
