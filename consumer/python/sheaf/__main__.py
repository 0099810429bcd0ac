"""`python -m sheaf ...` is `sheaf ...`."""
import os
import sys

from ._program import find_program


def main():
    program = find_program()
    os.execv(program, [program, *sys.argv[1:]])


if __name__ == "__main__":
    main()
