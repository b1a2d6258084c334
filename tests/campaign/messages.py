"""Error messages on the standard error of a command, and signs of a defect in it."""

PREFIX = "albertine: "
MAX_LINE_LENGTH = 1_000  # characters
_DEFECT_SIGNS = (
    "Traceback", "internal error", "a defect in Albertine", "panicked", "PanicException", "Warning: ",
    "Exception ignored", "resource_tracker",
)  # fmt: skip


def error_messages(stderr: str) -> list[str]:
    """Return the lines that are error messages of Albertine."""
    return [line for line in stderr.splitlines() if line.startswith(PREFIX)]


def find_defect(stderr: str) -> str | None:
    """Return the first sign of a defect, with the line that describes it; None if there is no sign."""
    sign = next((sign for sign in _DEFECT_SIGNS if sign in stderr), None)
    if sign is None:
        return None
    lines = stderr.splitlines()
    # The last line of a traceback names the error.
    line = lines[-1] if sign == "Traceback" else next(line for line in lines if sign in line)
    return f"{sign}: {line}"
