"""sheaf, an offline batch worker for language models, from Python.

    import sheaf

    rows = [{"id": 1, "review": "The screen is bright."}]
    for row in sheaf.annotate(rows, model="MODEL.gguf", prompt="Good or bad? {{ review }}", choice=["good", "bad"]):
        print(row["id"], row["label"])

The module starts the program `sheaf` and computes nothing itself. Every option of a command is a keyword argument: its name
with underscores, True for an option without a value, a list for one that is repeated.

The program is the argument `program`, else $SHEAF_PROGRAM, else the wheel's, else build/consumer/sheaf of the checkout that
this file is in, else `sheaf` in $PATH. Its messages go to the logger "sheaf".
"""
from ._child import Outcome, Progress, Results
from ._client import Client
from ._errors import Crashed, Error, JobsFailed, ProgramMissing, UsageError
from ._program import find_program
from ._tasks import annotate, embed, run

__version__ = "0.1.0"
__all__ = ["Client", "Crashed", "Error", "JobsFailed", "Outcome", "ProgramMissing", "Progress", "Results", "UsageError", "annotate",
           "embed", "find_program", "run"]
