"""The folders are layers: which folder may include which, and which single file uses a third-party header or a system interface."""
import collections
import os
import re

from session import case

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MODEL_FOLDER = "engine/model/folder/model_folder.h"
ENGINE = {"engine", "engine/answer", "engine/cpu", "engine/file", "engine/grammar", "engine/json_schema", "engine/model", "engine/regex", "engine/template",
          "engine/tokenizer", MODEL_FOLDER}
BASE = {"schemas", "schemas/base"}
QUEUE = {"consumer/queue", "consumer/queue/kafka", "consumer/queue/kafka/client"}
LAYERS = {  # folder: the folders of ours that it may include, besides itself, and single headers of others
    "schemas/base": set(),
    "schemas": {"schemas/base"},
    "schemas/parquet": {"schemas", "schemas/base"},
    "store/frame": {"schemas/base"},
    "store": {"schemas", "schemas/base", "store/frame"},
    "engine/unicode": {"schemas/base"},
    "engine/template": {"schemas", "schemas/base", "engine/unicode"},
    "engine/regex": {"schemas", "schemas/base"},
    "engine/grammar": {"schemas", "schemas/base", "engine/regex"},
    "engine/json_schema": {"schemas", "schemas/base", "engine/grammar", "engine/regex"},
    "engine/answer": {"schemas", "schemas/base", "engine/grammar", "engine/json_schema"},
    "engine/file": {"schemas", "schemas/base"},
    "engine/tokenizer": {"schemas", "schemas/base", "engine/file"},
    "engine/model/folder": {"schemas", "schemas/base", "engine/file", "engine/model"},
    "engine/model": {"schemas", "schemas/base", "engine/file", MODEL_FOLDER, "engine/model/folder/folder_parts.h"},  # parts: for adapters
    "engine": {"schemas", "schemas/base", "engine/file", "engine/model", MODEL_FOLDER},
    "engine/cpu/product": {"schemas", "schemas/base", "engine", "engine/file"},
    "engine/cpu": {"schemas", "schemas/base", "engine", "engine/file", "engine/cpu/product"},
    "gpu/emulation": {"engine/file"},
    "gpu/kernels": {"schemas", "schemas/base", "engine", "engine/file", "engine/model", "gpu/emulation"},
    "gpu": {"schemas", "schemas/base", "engine", "engine/file", "engine/model", "gpu/emulation", "gpu/kernels"},
    "batching/lists": {"schemas", "schemas/base"},
    "batching": {"schemas", "schemas/base", "engine", "engine/answer", "engine/grammar", "engine/json_schema", "engine/template", "engine/tokenizer",
                 "batching/lists"},
    "batching/embedding": {"schemas", "schemas/base", "engine", "engine/tokenizer", "batching", "batching/lists"},
    "consumer/queue": BASE | {"store"},
    "consumer/queue/kafka/client": BASE | {"consumer/queue"},
    "consumer/queue/kafka": BASE | {"consumer/queue", "consumer/queue/kafka/client"},
    "consumer/observe": BASE | QUEUE | {"store", "batching", "batching/lists"},
    "consumer/options": BASE | QUEUE | {"store", "batching", "consumer/observe"},
    "consumer/worker": BASE | QUEUE | ENGINE | {"store", "gpu", "batching", "batching/lists", "batching/embedding", "consumer/observe", "consumer/options"},
    "consumer/command/files": BASE | QUEUE | ENGINE | {"store", "batching", "consumer/observe", "consumer/options"},
    "consumer/table": BASE | {"schemas/parquet", "store", "consumer/observe", "consumer/options", "consumer/command/files"},
    "consumer/evaluate": BASE | {"consumer/table", "schemas/parquet", "store", "consumer/observe", "consumer/options"},
    "consumer/annotate": BASE | QUEUE | {"consumer/evaluate", "consumer/table", "schemas/parquet", "store", "batching", "engine/template", "consumer/observe", "consumer/options", "consumer/worker", "consumer/command/files"},
    "consumer/certificate": BASE | {"consumer/annotate", "consumer/evaluate", "consumer/table", "schemas/parquet", "store", "consumer/options", "consumer/observe", "consumer/worker", "consumer/command/files"},
    "consumer/cascade": BASE | {"store", "consumer/table", "consumer/observe", "consumer/options", "consumer/worker", "consumer/annotate", "consumer/evaluate"},
    "consumer/serve": BASE | QUEUE | {"store", "batching", "consumer/observe", "consumer/options", "consumer/command/files"},
    "consumer/command": BASE | QUEUE | ENGINE | {"store", "batching", "batching/lists", "batching/embedding", "consumer/observe", "consumer/options", "consumer/worker", "consumer/command/files",
                                                 "consumer/annotate", "consumer/cascade", "consumer/certificate", "consumer/evaluate", "consumer/table", "consumer/serve"},
}
THIRD_PARTY = {  # header: where its including files stand, and how many at most
    "msgpack.h": (r"schemas/msgpack\.c", 1),
    "msgpack/unpack_define.h": (r"schemas/msgpack\.c", 1),
    "msgpack/unpack_template.h": (r"schemas/msgpack\.c", 1),
    "yaml.h": (r"schemas/yaml_decode\.c", 1),
    "xxhash.h": (r"schemas/base/hash\.c", 1),
    "sodium.h": (r"schemas/base/(digest|sha256)\.c", 2),
    "pcre2.h": (r"engine/tokenizer/\w+\.c", 1),
    "utf8proc.h": (r"engine/tokenizer/\w+\.c", 1),
    "sqlite3.h": (r"store/\w+\.[ch]", 9),
    "librdkafka/rdkafka.h": (r"consumer/queue/kafka/(client/)?\w+\.[ch]", 19),
    "setjmp.h": (r"engine/template/(lexer|rendering)\.h", 2),
    "zlib.h": (r"consumer/command/files/input_source\.c|schemas/parquet/parquet_codec\.c", 2),
    "snappy-c.h": (r"schemas/parquet/parquet_codec\.c", 1),
    "zstd.h": (r"schemas/parquet/parquet_codec\.c", 1),
    "lz4.h": (r"schemas/parquet/parquet_codec\.c", 1),
    "brotli/decode.h": (r"schemas/parquet/parquet_codec\.c", 1),
    "microhttpd.h": (r"consumer/(observe/http|serve/serve_http)\.c", 2),
    "curl/curl.h": (r"consumer/queue/http_post\.c", 1),
    "dlfcn.h": (r"consumer/queue/http_post\.c", 1),
    "sanitizer/asan_interface.h": (r"schemas/base/arena\.c", 1),
}
SYSTEM = set("""arpa/inet assert ctype dirent errno fcntl float inttypes immintrin arm_neon asm/hwcap sys/auxv sys/syscall libgen limits malloc math netdb poll pthread sched signal stdalign
    stdarg stdatomic stdbool stddef stdint stdio stdlib string strings sys/eventfd sys/file sys/inotify sys/ioctl sys/mman
    sys/random sys/resource sys/signalfd sys/socket sys/stat sys/statvfs sys/sysmacros sys/sysinfo sys/time sys/types sys/uio sys/utsname sys/wait time
    unistd cpuid x86intrin endian locale""".split())
# Files that call each other in a circle, because what they read is nested: an expression holds expressions, a value values. No other
# files do: of two files at most one calls the other, directly or through more.
NESTED = {
    "engine/template": [{"expressions", "primary"},  # the parser: parentheses, arguments
                        # the interpreter: values may be macros or loops with filters, which are evaluated on use; a list of values;
                        # % formats values, and a slice with a step picks from text
                        {"access", "call", "container", "evaluate", "execute", "format_number", "format_printf", "functions", "iterator",
                         "loop", "object", "operators", "represent", "text_operations"}],
    # A schema's keywords hold schemas, and whether one allows anything decides how another is expanded.
    "engine/json_schema": [{"formula_shape", "schema_applicators", "schema_expand", "schema_negation"}],
}
ROOM_FILES_MAX = 60
LINES_MAX = 800
TABLES = {"engine/unicode/character_tables.h", "engine/unicode/entity_table.h", "engine/tokenizer/unicode_ranges.h"}  # generated


def sources(folders=frozenset(folder.split("/")[0] for folder in LAYERS)):
    for folder in sorted(folders):
        for at, folders, names in os.walk(os.path.join(ROOT, folder)):
            folders.sort()
            for name in sorted(names):
                if name.endswith((".c", ".cc", ".h", ".cu", ".cuh")):
                    path = os.path.join(at, name)
                    with open(path, encoding="utf-8") as file:
                        yield os.path.relpath(path, ROOT), file.read()


def includes(text, kind):
    opening, closing = ("\"", "\"") if kind == "ours" else ("<", ">")
    return re.findall(rf"^\s*#\s*include\s*{opening}([^{closing}]+){closing}", text, re.M)


def code_of(text):
    """Without comments and the contents of strings."""
    text = re.sub(r'"(\\.|[^"\\\n])*"', '""', text)
    return re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.S)


def none(faults):
    assert not faults, "\n" + "\n".join(faults)


@case
def a_folder_includes_only_the_folders_below_it(test):
    faults = []
    for path, text in sources():
        folder = os.path.dirname(path)
        for header in includes(text, "ours"):
            other = os.path.dirname(header)
            if other != folder and other not in LAYERS[folder] and header not in LAYERS[folder]:
                faults.append(f"{path} includes {header}")
    none(faults)


def calls_within(folder):
    """file: the files of the folder that define a function it names."""
    texts = {path: code_of(text) for path, text in sources() if os.path.dirname(path) == folder and path.endswith(".c")}
    owner = {name: path for path, text in texts.items()
             for name in re.findall(r"^(?!static)[a-z][\w *]*?\b(\w+)\([^;{}]*\)\n\{", text, re.M)}
    return {path: {owner[word] for word in set(re.findall(r"\w+", text)) if owner.get(word, path) != path}
            for path, text in texts.items()}


def circles_in(calls):
    """Sets of files each of which calls all others of its set, directly or through more."""
    reached = {path: set(called) for path, called in calls.items()}
    for middle in reached:
        for path in reached:
            if middle in reached[path]:
                reached[path] |= reached[middle]
    return {frozenset(other for other in reached[path] if path in reached[other]) for path in reached if path in reached[path]}


@case
def no_file_is_called_by_one_that_it_calls(test):
    for folder in LAYERS:
        calls = calls_within(folder)
        assert any(calls.values()) or len(calls) <= 4, f"{folder}: no calls were found"
        nested = {frozenset(f"{folder}/{stem}.c" for stem in stems) for stems in NESTED.get(folder, [])}
        assert circles_in(calls) == nested, f"{folder}: circles {[sorted(circle) for circle in circles_in(calls) ^ nested]}"


@case
def include_paths_start_at_the_root(test):
    generated = {"store/store_sql.h"}
    none([f"{path} includes {header}" for path, text in sources() for header in includes(text, "ours")
          if not os.path.exists(os.path.join(ROOT, header)) and header not in generated])


@case
def only_consumer_knows_that_a_gpu_exists(test):
    none([f"{path} includes {header}" for path, text in sources() for header in includes(text, "ours")
          if header.startswith("gpu/") and not path.startswith(("gpu/", "consumer/"))])


@case
def every_third_party_header_is_included_where_it_belongs_and_nowhere_else(test):
    found, faults = {}, []
    for path, text in sources():
        for header in includes(text, "theirs"):
            if header.removesuffix(".h") in SYSTEM or path.startswith("gpu/"):
                continue
            pattern, _ = THIRD_PARTY.get(header, (None, 0))
            if pattern is None or not re.fullmatch(pattern, path):
                faults.append(f"{path} includes <{header}>")
            found.setdefault(header, []).append(path)
    for header, paths in found.items():
        if header in THIRD_PARTY and len(paths) > THIRD_PARTY[header][1]:
            faults.append(f"<{header}> is included by {', '.join(paths)}")
    none(faults)


@case
def only_consumer_logs_reads_the_environment_or_exits(test):
    calls = re.compile(r"\b(printf|puts|putchar|perror|fprintf|vfprintf|syslog|getenv|secure_getenv|setenv|exit|_exit|_Exit|"
                       r"quick_exit|abort|signal|sigaction)\s*\(|\b(stdout|stderr|stdin|environ)\b")
    none([f"{path}: {match.group(0)}" for path, text in sources() if not path.startswith("consumer/")
          for match in calls.finditer(code_of(text)) if (path, match.group(1)) != ("schemas/base/file.c", "getenv")])  # TMPDIR


@case
def every_header_is_guarded_by_pragma_once(test):
    none([path for path, text in sources() if path.endswith(".h") and "#pragma once" not in text
          and path not in TABLES])


@case
def a_room_has_at_most_sixty_files(test):
    rooms = collections.Counter(os.path.dirname(path) for path, _ in [*sources(), *sources({"tests"})])
    none([f"{room}: {n} sources" for room, n in rooms.items() if n > ROOM_FILES_MAX])
    assert not rooms["consumer"] and not rooms["tests"] and not rooms["tests/unit"], "a source lies in no room"


@case
def no_file_is_longer_than_its_limit_or_named_after_nothing(test):
    faults = [f"{path}: {text.count(chr(10))} lines" for path, text in sources()
              if text.count("\n") > LINES_MAX and path not in TABLES]
    faults += [path for path, _ in sources()
               if re.fullmatch(r"(util|utils|common|helper|helpers|misc)\.\w+", os.path.basename(path))]
    none(faults)


@case
def no_lock_is_taken_outside_the_queue_the_pool_the_exporter_and_the_server(test):
    may = re.compile(r"batching/lists/queue\.[ch]|schemas/base/pool\.[ch]|consumer/observe/exporter\.[ch]|consumer/serve/(serve_state|answer_topics|gone_jobs)\.[ch]")
    none([f"{path}: {match.group(0)}" for path, text in sources() if not may.fullmatch(path)
          for match in re.finditer(r"\bpthread_(mutex|cond|rwlock|spin|barrier)\w*|\bmtx_\w+", code_of(text))])
