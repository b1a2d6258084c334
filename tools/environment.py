"""Makes the project's virtual environment, and only if something changed.

`make` calls this with the Python that the person chose. It runs on any Python 3,
so that one that is too old gets a sentence and not a syntax error. The
environment is rebuilt when its Python is another one, and installed into when
`pyproject.toml` or `constraints.txt` changed since the last time; a mark in the
environment, written last, says so. An interrupted set-up leaves no mark and is
simply done again.
"""

import hashlib
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
VENV = os.path.join(ROOT, ".venv")
PYTHON = os.path.join(VENV, "bin", "python")
OLDEST, NEWEST = (3, 11), (3, 13)


def stop(sentence):
    """End with one clear line."""
    sys.stderr.write("set-up: " + sentence + "\n")
    sys.exit(2)


def check_python():
    """Stop unless this Python can carry the project."""
    here = sys.version_info[:2]
    if not OLDEST <= here <= NEWEST:
        stop(
            "Python %d.%d at %s does not fit: 3.11 to 3.13 is needed; name one: make demo PYTHON=python3.12"
            % (here[0], here[1], sys.executable)
        )
    try:
        import ensurepip  # noqa: F401  # Debian packages it apart from Python
        import venv  # noqa: F401
    except ImportError:
        stop("this Python has no venv module; on Debian and Ubuntu: apt-get install python3-venv")


def mark_path(extras):
    """Return where the mark of an installation with these extras lies."""
    return os.path.join(VENV, ".installed-" + (extras or "core"))


def fingerprint():
    """Return what an installation depends on, in one short word."""
    digest = hashlib.sha256(sys.version.encode())
    digest.update(ROOT.encode())  # an editable installation points at this folder
    for name in ("pyproject.toml", "constraints.txt"):
        with open(os.path.join(ROOT, name), "rb") as file:
            digest.update(file.read())
    return digest.hexdigest()


def is_marked(extras, wanted):
    """Tell whether the environment holds these extras as the files say now."""
    try:
        with open(mark_path(extras)) as file:
            return file.read() == wanted
    except OSError:
        return False


def made_by_this_python():
    """Tell whether an environment exists and runs on this very Python version."""
    try:
        found = subprocess.check_output(
            [PYTHON, "-c", "import sys; print(sys.version)"], universal_newlines=True
        )
    except (OSError, subprocess.CalledProcessError):
        return False
    return found.strip() == sys.version.strip()


def install(extras):
    """Create the environment where it is missing, and install the project into it."""
    if not made_by_this_python():
        run([sys.executable, "-m", "venv", "--clear", VENV], "the virtual environment could not be made")
    constraints = os.path.join(ROOT, "constraints.txt")
    target = ROOT + ("[%s]" % extras if extras else "")
    pip = [PYTHON, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    run([*pip, "--constraint", constraints, "--editable", target], "pip could not install the project")


def run(command, problem):
    """Run a command; stop with one line under its own words if it fails."""
    if subprocess.call(command):
        stop(problem + "; its own words are above")


def main():
    """Bring the environment up to date for the extras named on the command line."""
    extras = sys.argv[1] if len(sys.argv) > 1 else ""
    check_python()
    wanted = fingerprint()
    # Whoever has the tools for development has everything.
    if is_marked(extras, wanted) or is_marked("dev", wanted):
        return
    print("set-up: installing into .venv (once; again only if pyproject.toml or constraints.txt changes)")
    sys.stdout.flush()
    install(extras)
    with open(mark_path(extras), "w") as file:
        file.write(wanted)


if __name__ == "__main__":
    main()
