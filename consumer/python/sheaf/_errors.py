"""Exceptions, one for each way in which the program ends without success."""


class Error(Exception):
    """Exit status 1: the command failed. `code` is the name of the error, as in results: "model_file", "store_error".

    exit_status: of the program; None: it did not start.
    """

    def __init__(self, message, *, exit_status=None, code=None):
        super().__init__(message)
        self.exit_status, self.code = exit_status, code


class UsageError(Error, ValueError):
    """Exit status 2: an option or a combination of options is wrong."""


class JobsFailed(Error):
    """Exit status 3, with check=True: the command did its work, but some jobs failed. `outcome` has their number."""

    def __init__(self, message, *, outcome=None, **others):
        super().__init__(message, **others)
        self.outcome = outcome


class Crashed(Error):
    """A signal ended the program: SIGKILL of the kernel when memory is short, for example. `signal` is its number."""

    def __init__(self, message, *, signal=None, **others):
        super().__init__(message, **others)
        self.signal = signal


class ProgramMissing(Error, FileNotFoundError):
    """The program was not found, or is not executable."""
