"""Where the program is, and its command line."""
import os
import pathlib
import shutil

from ._errors import ProgramMissing

HERE = pathlib.Path(__file__).resolve().parent


def find_program(program=None):
    """The path of the program. Raises ProgramMissing."""
    given = program or os.environ.get("SHEAF_PROGRAM")
    if given:
        found = shutil.which(os.fspath(given))
        if not found:
            raise ProgramMissing(f"{os.fspath(given)}: no executable file is there")
        return found
    places = [HERE / "bin" / "sheaf"]
    if len(HERE.parents) > 2 and (HERE.parents[2] / "meson.build").exists():
        places.append(HERE.parents[2] / "build" / "consumer" / "sheaf")
    for place in places:
        if os.access(place, os.X_OK):
            return str(place)
    found = shutil.which("sheaf")
    if not found:
        raise ProgramMissing("the program sheaf was not found in $PATH; name it by program= or $SHEAF_PROGRAM")
    return found


def option_arguments(options):
    """{"max_tokens": 4, "figures": True, "property": ["a=1", "b=2"]} as words of a command line."""
    words = []
    for name, value in options.items():
        for item in value if isinstance(value, (list, tuple)) else [value]:
            if item is True:
                words.append(f"--{name.replace('_', '-')}")
            elif item is not None and item is not False:
                words.append(f"--{name.replace('_', '-')}={os.fspath(item) if isinstance(item, os.PathLike) else item}")
    return words
