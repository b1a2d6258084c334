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
VENV = os.path.join(ROOT, ".venv")
OLDEST, NEWEST = (3, 11), (3, 13)
CUDA_PACKAGES = ("nvidia-", "cuda-", "triton")


def stop(sentence):
    """End with one clear line."""
    sys.stderr.write("set-up: " + sentence + "\n")
    sys.exit(2)


def run(command, problem):
    """Run a command; stop with one line under its own words if it fails."""
    if subprocess.call(command):
        stop(problem + "; its own words are above")


def python():
    """Return the Python of the environment."""
    return os.path.join(VENV, "bin", "python")


def pip(*words):
    """Return a pip command in the environment."""
    return [python(), "-m", "pip", "--disable-pip-version-check", "--quiet"] + list(words)


def read(name):
    """Return a file of the project, or of the environment, as text; nothing if it is not there."""
    try:
        with open(os.path.join(ROOT, name)) as file:
            return file.read()
    except (IOError, OSError):
        return ""


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


# The environment itself.


def home():
    """Return what an environment belongs to: this Python, in this folder."""
    return sys.version + "\n" + ROOT


def make_environment():
    """Create the environment, unless there is one of this Python in this folder."""
    if os.path.exists(python()) and read(".venv/.home") == home():
        return
    base = getattr(sys, "_base_executable", sys.executable)  # this may be the old environment's own Python
    words = ["--system-site-packages"] if torch_version(base) >= lower_bound() else []
    run([base, "-m", "venv", "--clear"] + words + [VENV], "the virtual environment could not be made")
    with open(os.path.join(VENV, ".home"), "w") as file:
        file.write(home())


def mark_path(extras):
    """Return where the mark of an installation with these extras lies."""
    return os.path.join(VENV, ".installed-" + (extras or "core"))


def fingerprint():
    """Return what an installation depends on, in one short word."""
    parts = [home(), read("pyproject.toml"), read("constraints.txt")]
    return hashlib.sha256("\n".join(parts).encode("utf-8")).hexdigest()


def is_marked(extras, wanted):
    """Tell whether the environment holds these extras as the files say now."""
    return os.path.exists(python()) and read(mark_path(extras)) == wanted


# torch.


def numbers(version):
    """Return a version as numbers that compare: 2.13.0+cpu is (2, 13, 0)."""
    return tuple(int(part) for part in re.findall(r"\d+", version.split("+")[0]))


def lower_bound():
    """Return the oldest torch that the project takes."""
    return numbers(re.search(r'"torch>=([0-9.]+)', read("pyproject.toml")).group(1))


def torch_version(interpreter):
    """Return the version of torch that an interpreter has; () if none."""
    code = "import importlib.metadata as m; print(m.version('torch'))"
    process = subprocess.Popen([interpreter, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    answer = process.communicate()[0].decode("utf-8", "replace")
    return numbers(answer) if process.returncode == 0 else ()


def has_gpu():
    """Tell whether an NVIDIA driver runs here."""
    return os.path.exists("/proc/driver/nvidia") or os.path.exists("/dev/nvidiactl")


def install_torch(requirement):
    """Install the tested torch, in the build that fits the machine."""
    if sys.platform.startswith("linux") and not has_gpu() and brings_cuda(requirement):
        # uv knows where PyTorch keeps its builds without CUDA.
        run(pip("install", "uv"), "pip could not install uv, which finds the build of torch without CUDA")
        command = [python(), "-m", "uv", "pip", "install", "--python", python(), "--torch-backend", "cpu"]
        run(
            command + [requirement],
            "the build of torch without CUDA could not be had; install it into .venv by hand",
        )
    else:
        run(pip("install", requirement), "pip could not install torch")


def brings_cuda(requirement):
    """Tell whether pip, asked for torch, would bring CUDA packages along; nothing is installed."""
    report = tempfile.NamedTemporaryFile(suffix=".json", delete=False)
    report.close()
    try:
        run(pip("install", "--dry-run", "--report", report.name, requirement), "pip could not find torch")
        with open(report.name) as file:
            names = [one["metadata"]["name"].lower() for one in json.load(file)["install"]]
    finally:
        os.remove(report.name)
    return any(name.startswith(CUDA_PACKAGES) for name in names)


# All of it.


def install(extras):
    """Install the project, its dependencies at the tested versions, and torch by its own rules."""
    make_environment()
    for name in os.listdir(VENV):
        if name.startswith(".installed-"):
            os.remove(os.path.join(VENV, name))
    pins = read("constraints.txt").splitlines()
    torch_pin = next(pin for pin in pins if pin.startswith("torch=="))
    if torch_version(python()) < lower_bound():
        install_torch(torch_pin)
    others = tempfile.NamedTemporaryFile("w", suffix=".txt", delete=False)
    try:
        others.write("\n".join(pin for pin in pins if pin != torch_pin))  # whichever torch is there now stays
        others.close()
        os.environ["PIP_CONSTRAINT"] = (
            others.name
        )  # unlike the option, it also holds for what builds the package
        run(
            pip("install", "--editable", ROOT + ("[%s]" % extras if extras else "")),
            "pip could not install the project",
        )
    finally:
        os.remove(others.name)


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
