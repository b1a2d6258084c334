"""Create or update the virtual environment of the project, if anything changed.

`make` runs this script with the chosen Python. It is valid syntax for any Python version, so
that an unsupported one prints an error message and no syntax error. The environment is created
again if its Python or its folder changed, and updated if `pyproject.toml` or
`constraints.txt` changed. A marker file, written last, records the state: after an interrupted
setup there is no marker, and the setup is repeated.

torch is large and has its own rules. An installed torch that is new enough is kept. It may be in
the environment, or in the Python that creates the environment, whose packages are then visible in
it. Otherwise the tested version is installed; without an NVIDIA GPU, the build without CUDA, which
is gigabytes smaller.

uv installs everything else, in seconds where pip takes minutes. Where it cannot, pip does: uv does not
read pip's settings, such as a private index, nor see packages outside the environment.
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
    """Print one line and exit with status 2."""
    sys.stderr.write("setup: " + message + "\n")
    sys.exit(2)


def run_or_exit(command, problem):
    """Run a command; if it fails, exit with one line that describes the problem."""
    if subprocess.call(command):
        exit_with_error(problem + "; see its output above")


def venv_python():
    """Return the path of the environment's Python."""
    return os.path.join(VENV_FOLDER, "bin", "python")


def pip_command(*arguments):
    """Return a pip command for the environment."""
    return [venv_python(), "-m", "pip", "--disable-pip-version-check", "--quiet"] + list(arguments)


def uv_command(*arguments):
    """Return a command with which uv installs into the environment."""
    uv = [venv_python(), "-m", "uv", "--quiet", "pip", "install", "--python", venv_python()]
    return uv + list(arguments)


def read_text(name):
    """Return the text of a file of the project; empty if the file does not exist."""
    try:
        with open(os.path.join(ROOT, name)) as file:
            return file.read()
    except (IOError, OSError):
        return ""


def check_python():
    """Exit with an error if this Python is unsupported or has no venv module."""
    version = sys.version_info[:2]
    if not MIN_PYTHON <= version <= MAX_PYTHON:
        exit_with_error(
            "Python %d.%d at %s is not supported; use 3.11 to 3.13, as in: make demo PYTHON=python3.12"
            % (version[0], version[1], sys.executable)
        )
    try:
        import ensurepip  # noqa: F401  # a separate package on Debian
        import venv  # noqa: F401
    except ImportError:
        exit_with_error(
            "this Python has no venv module; on Debian or Ubuntu run: apt-get install python3-venv"
        )


# The environment.


def environment_id():
    """Return a text that identifies an environment: the Python version and the project folder."""
    return sys.version + "\n" + ROOT


def create_environment():
    """Create the environment, unless it exists for this Python and this folder."""
    if os.path.exists(venv_python()) and read_text(".venv/.home") == environment_id():
        return
    base = getattr(sys, "_base_executable", sys.executable)  # sys.executable may be the environment's own
    options = ["--system-site-packages"] if torch_version(base) >= min_torch_version() else []
    run_or_exit(
        [base, "-m", "venv", "--clear"] + options + [VENV_FOLDER],
        "the virtual environment could not be created",
    )
    with open(os.path.join(VENV_FOLDER, ".home"), "w") as file:
        file.write(environment_id())


def install_marker_path(extras):
    """Return the path of the marker file of an installation with these extras."""
    return os.path.join(VENV_FOLDER, ".installed-" + (extras or "core"))


def fingerprint():
    """Return a hash of everything that an installation depends on."""
    parts = [environment_id(), read_text("pyproject.toml"), read_text("constraints.txt")]
    return hashlib.sha256("\n".join(parts).encode("utf-8")).hexdigest()


def is_installed(extras, expected_fingerprint):
    """Return whether the environment is up to date for these extras."""
    return os.path.exists(venv_python()) and read_text(install_marker_path(extras)) == expected_fingerprint


# torch.


def version_tuple(version):
    """Return a version as a tuple of integers: 2.13.0+cpu is (2, 13, 0)."""
    return tuple(int(part) for part in re.findall(r"\d+", version.split("+")[0]))


def min_torch_version():
    """Return the oldest version of torch that the project supports."""
    return version_tuple(re.search(r'"torch>=([0-9.]+)', read_text("pyproject.toml")).group(1))


def torch_version(interpreter):
    """Return the version of torch of an interpreter; () if it has none."""
    code = "import importlib.metadata; print(importlib.metadata.version('torch'))"
    process = subprocess.Popen([interpreter, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    output = process.communicate()[0].decode("utf-8", "replace")
    return version_tuple(output) if process.returncode == 0 else ()


def has_gpu():
    """Return whether an NVIDIA driver is present."""
    return os.path.exists("/proc/driver/nvidia") or os.path.exists("/dev/nvidiactl")


def install_torch(requirement):
    """Install the tested version of torch, in the build for this machine."""
    if sys.platform.startswith("linux") and not has_gpu() and would_install_cuda(requirement):
        # uv can select PyTorch's builds without CUDA.
        run_or_exit(
            pip_command("install", "uv"),
            "pip could not install uv, which is needed for the build of torch without CUDA",
        )
        run_or_exit(
            uv_command("--torch-backend", "cpu", requirement),
            "the build of torch without CUDA could not be installed; install it into .venv by hand",
        )
    else:
        run_or_exit(pip_command("install", requirement), "pip could not install torch")


def would_install_cuda(requirement):
    """Return whether pip would install CUDA packages with torch; installs nothing."""
    report = tempfile.NamedTemporaryFile(suffix=".json", delete=False)
    report.close()
    try:
        run_or_exit(
            pip_command("install", "--dry-run", "--report", report.name, requirement),
            "pip could not find torch",
        )
        with open(report.name) as file:
            names = [package["metadata"]["name"].lower() for package in json.load(file)["install"]]
    finally:
        os.remove(report.name)
    return any(name.startswith(CUDA_PACKAGES) for name in names)


# The installation.


def install(extras):
    """Install the project and its dependencies at the tested versions; torch follows its own rules."""
    create_environment()
    for name in os.listdir(VENV_FOLDER):
        if name.startswith(".installed-"):
            os.remove(os.path.join(VENV_FOLDER, name))
    constraints = read_text("constraints.txt").splitlines()
    torch_pin = next(pin for pin in constraints if pin.startswith("torch=="))
    if torch_version(venv_python()) < min_torch_version():
        install_torch(torch_pin)
    constraints_file = tempfile.NamedTemporaryFile("w", suffix=".txt", delete=False)
    try:
        # Without the pin of torch, pip keeps the installed version.
        constraints_file.write("\n".join(pin for pin in constraints if pin != torch_pin))
        constraints_file.close()
        # Unlike the options, the variables also apply to build dependencies.
        for name in ("PIP_CONSTRAINT", "UV_CONSTRAINT", "UV_BUILD_CONSTRAINT"):
            os.environ[name] = constraints_file.name
        install_project(ROOT + ("[%s]" % extras if extras else ""))
    finally:
        os.remove(constraints_file.name)


def install_project(requirement):
    """Install the project with uv, or with pip if uv is unusable."""
    if "include-system-site-packages = true" not in read_text(".venv/pyvenv.cfg"):
        with open(os.devnull, "w") as discarded:  # pip prints its own errors
            commands = (pip_command("install", "uv"), uv_command("--editable", requirement))
            if all(subprocess.call(command, stderr=discarded) == 0 for command in commands):
                return
        print("setup: uv could not install the project; pip tries, which takes some minutes")
        sys.stdout.flush()
    run_or_exit(pip_command("install", "--editable", requirement), "pip could not install the project")


def main():
    """Update the environment for the extras named on the command line."""
    extras = sys.argv[1] if len(sys.argv) > 1 else ""
    check_python()
    expected_fingerprint = fingerprint()
    # The dev extra includes everything.
    if is_installed(extras, expected_fingerprint) or is_installed("dev", expected_fingerprint):
        return
    print("setup: installing into .venv (repeated only if pyproject.toml or constraints.txt changes)")
    sys.stdout.flush()
    install(extras)
    with open(install_marker_path(extras), "w") as file:
        file.write(expected_fingerprint)


if __name__ == "__main__":
    main()
