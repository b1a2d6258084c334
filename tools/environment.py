"""Makes the project's virtual environment, and only if something changed.

`make` calls this with the Python that the person chose. It runs on any Python, so
that one that is too old gets a sentence and not a syntax error. The environment
is made anew when its Python or its folder is another one, and installed into when
`pyproject.toml` or `constraints.txt` changed since the last time; a mark in the
environment, written last, says so. An interrupted set-up leaves no mark and is
simply done again.

torch is the one large package, so it has rules of its own. One that the person
already has is kept if it is new enough: in the environment, or in the Python that
the environment is made with (which it then sees). Otherwise the tested version
is installed, and on a machine without an NVIDIA GPU never the build that brings
gigabytes of CUDA along.
"""

import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
VENV_FOLDER = os.path.join(ROOT, ".venv")
MIN_PYTHON, MAX_PYTHON = (3, 11), (3, 13)
CUDA_PACKAGES = ("nvidia-", "cuda-", "triton")


def exit_with_error(message):
    """End with one clear line."""
    sys.stderr.write("set-up: " + message + "\n")
    sys.exit(2)


def run_or_exit(command, problem):
    """Run a command; stop with one line under its own words if it fails."""
    if subprocess.call(command):
        exit_with_error(problem + "; its own words are above")


def venv_python():
    """Return the Python of the environment."""
    return os.path.join(VENV_FOLDER, "bin", "python")


def pip_command(*arguments):
    """Return a pip command in the environment."""
    return [venv_python(), "-m", "pip", "--disable-pip-version-check", "--quiet"] + list(arguments)


def read_text(name):
    """Return a file of the project, or of the environment, as text; nothing if it is not there."""
    try:
        with open(os.path.join(ROOT, name)) as file:
            return file.read()
    except (IOError, OSError):
        return ""


def check_python():
    """Stop unless this Python can carry the project."""
    version = sys.version_info[:2]
    if not MIN_PYTHON <= version <= MAX_PYTHON:
        exit_with_error(
            "Python %d.%d at %s does not fit: 3.11 to 3.13 is needed; name one: make demo PYTHON=python3.12"
            % (version[0], version[1], sys.executable)
        )
    try:
        import ensurepip  # noqa: F401  # Debian packages it apart from Python
        import venv  # noqa: F401
    except ImportError:
        exit_with_error("this Python has no venv module; on Debian and Ubuntu: apt-get install python3-venv")


# The environment itself.


def environment_id():
    """Return what an environment belongs to: this Python, in this folder."""
    return sys.version + "\n" + ROOT


def create_environment():
    """Create the environment, unless there is one of this Python in this folder."""
    if os.path.exists(venv_python()) and read_text(".venv/.home") == environment_id():
        return
    base = getattr(sys, "_base_executable", sys.executable)  # this may be the old environment's own Python
    options = ["--system-site-packages"] if torch_version(base) >= min_torch_version() else []
    run_or_exit(
        [base, "-m", "venv", "--clear"] + options + [VENV_FOLDER], "the virtual environment could not be made"
    )
    with open(os.path.join(VENV_FOLDER, ".home"), "w") as file:
        file.write(environment_id())


def install_marker_path(extras):
    """Return where the mark of an installation with these extras lies."""
    return os.path.join(VENV_FOLDER, ".installed-" + (extras or "core"))


def fingerprint():
    """Return what an installation depends on, in one short word."""
    parts = [environment_id(), read_text("pyproject.toml"), read_text("constraints.txt")]
    return hashlib.sha256("\n".join(parts).encode("utf-8")).hexdigest()


def is_installed(extras, expected_fingerprint):
    """Tell whether the environment holds these extras as the files say now."""
    return os.path.exists(venv_python()) and read_text(install_marker_path(extras)) == expected_fingerprint


# torch.


def version_tuple(version):
    """Return a version as numbers that compare: 2.13.0+cpu is (2, 13, 0)."""
    return tuple(int(part) for part in re.findall(r"\d+", version.split("+")[0]))


def min_torch_version():
    """Return the oldest torch that the project takes."""
    return version_tuple(re.search(r'"torch>=([0-9.]+)', read_text("pyproject.toml")).group(1))


def torch_version(interpreter):
    """Return the version of torch that an interpreter has; () if none."""
    code = "import importlib.metadata as m; print(m.version('torch'))"
    process = subprocess.Popen([interpreter, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    answer = process.communicate()[0].decode("utf-8", "replace")
    return version_tuple(answer) if process.returncode == 0 else ()


def has_gpu():
    """Tell whether an NVIDIA driver runs here."""
    return os.path.exists("/proc/driver/nvidia") or os.path.exists("/dev/nvidiactl")


def install_torch(requirement):
    """Install the tested torch, in the build that fits the machine."""
    if sys.platform.startswith("linux") and not has_gpu() and would_install_cuda(requirement):
        # uv knows where PyTorch keeps its builds without CUDA.
        run_or_exit(
            pip_command("install", "uv"),
            "pip could not install uv, which finds the build of torch without CUDA",
        )
        command = [
            venv_python(),
            "-m",
            "uv",
            "pip",
            "install",
            "--python",
            venv_python(),
            "--torch-backend",
            "cpu",
        ]
        run_or_exit(
            command + [requirement],
            "the build of torch without CUDA could not be had; install it into .venv by hand",
        )
    else:
        run_or_exit(pip_command("install", requirement), "pip could not install torch")


def would_install_cuda(requirement):
    """Tell whether pip, asked for torch, would bring CUDA packages along; nothing is installed."""
    report = tempfile.NamedTemporaryFile(suffix=".json", delete=False)
    report.close()
    try:
        run_or_exit(
            pip_command("install", "--dry-run", "--report", report.name, requirement),
            "pip could not find torch",
        )
        with open(report.name) as file:
            names = [one["metadata"]["name"].lower() for one in json.load(file)["install"]]
    finally:
        os.remove(report.name)
    return any(name.startswith(CUDA_PACKAGES) for name in names)


# All of it.


def install(extras):
    """Install the project, its dependencies at the tested versions, and torch by its own rules."""
    create_environment()
    for name in os.listdir(VENV_FOLDER):
        if name.startswith(".installed-"):
            os.remove(os.path.join(VENV_FOLDER, name))
    constraints = read_text("constraints.txt").splitlines()
    torch_pin = next(pin for pin in constraints if pin.startswith("torch=="))
    if torch_version(venv_python()) < min_torch_version():
        install_torch(torch_pin)
    others = tempfile.NamedTemporaryFile("w", suffix=".txt", delete=False)
    try:
        others.write(
            "\n".join(pin for pin in constraints if pin != torch_pin)
        )  # whichever torch is there now stays
        others.close()
        os.environ["PIP_CONSTRAINT"] = (
            others.name
        )  # unlike the option, it also holds for what builds the package
        run_or_exit(
            pip_command("install", "--editable", ROOT + ("[%s]" % extras if extras else "")),
            "pip could not install the project",
        )
    finally:
        os.remove(others.name)


def main():
    """Bring the environment up to date for the extras named on the command line."""
    extras = sys.argv[1] if len(sys.argv) > 1 else ""
    check_python()
    expected_fingerprint = fingerprint()
    # Whoever has the tools for development has everything.
    if is_installed(extras, expected_fingerprint) or is_installed("dev", expected_fingerprint):
        return
    print("set-up: installing into .venv (once; again only if pyproject.toml or constraints.txt changes)")
    sys.stdout.flush()
    install(extras)
    with open(install_marker_path(extras), "w") as file:
        file.write(expected_fingerprint)


if __name__ == "__main__":
    main()
