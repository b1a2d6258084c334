"""Try the wheel as a user has it: in an empty environment for each Python, without the checkout.

    python tools/try_wheel.py python3.11 python3.12 python3.13

It builds the wheel, installs it with its dependencies only, and runs a small workflow: a world, a
vocabulary, a corpus, a few steps, predictions, a report, a fine-tuned model. It prints one line for each
Python, and exits with status 1 if one of them failed; the log of each is in build/wheel/. A Python that
does not exist, or for which pip finds no torch, is reported as not tried. The settings of pip in PIP_...
apply: PIP_CONSTRAINT can name a file with the build of torch to use.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
LOGS = ROOT / "build" / "wheel"
COMMANDS = """\
albertine --version
albertine info albert-base
albertine world write my-world --stories 400 --extra 20 --other 20 --tasks sst-2 --train 99 --dev 40 --test 9
albertine tokenizer train my-world/text --vocab-size 1000 --out my-tokenizer
albertine corpus build my-world/text --tokenizer my-tokenizer --held-out 0.05 --out my-corpus
albertine pretrain --corpus my-corpus --out my-run --model demo --train.steps 5
albertine fill-mask my-run "The [MASK] was old."
albertine report my-run
albertine finetune my-run --task sst-2 --data my-world --out my-model --train.steps 20 --train.lr 1e-3
"""
NO_LESSON = 3  # the exit status of a fine-tuned model that has learned nothing, which is no failure here


def main() -> int:
    """Try the wheel with each Python of the command line; return the exit status."""
    shutil.rmtree(LOGS, ignore_errors=True)
    LOGS.mkdir(parents=True)
    build = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--wheel-dir",
        str(LOGS),
        str(ROOT),
    ]
    subprocess.run(build, check=True)
    (wheel,) = LOGS.glob("albertine-*.whl")
    results = {python: try_wheel(python, wheel) for python in sys.argv[1:]}
    for python, result in results.items():
        print(f"{python}: {result}")
    return int(any(result.startswith("failed") for result in results.values()))


def try_wheel(python: str, wheel: Path) -> str:
    """Install the wheel into an empty environment and run the workflow; return what happened."""
    if shutil.which(python) is None:
        return "not tried: no such Python"
    with tempfile.TemporaryDirectory() as folder, (LOGS / f"{Path(python).name}.log").open("w") as log:

        def run(*command: str) -> int:
            print("+", *command, file=log, flush=True)
            return subprocess.run(
                command, cwd=folder, env=environment, stdout=log, stderr=log, check=False
            ).returncode

        # The folder first, so that no other installation answers; no PYTHONPATH, which may name the checkout.
        environment = {"PATH": f"{folder}/env/bin:/usr/bin:/bin", "HOME": folder, **inherited_settings()}
        if run(python, "-m", "venv", f"{folder}/env"):
            return f"not tried: no virtual environment; {log.name}"
        pip = (f"{folder}/env/bin/python", "-m", "pip", "--quiet")
        if run(*pip, "install", "torch"):
            return f"not tried: pip finds no torch for it; {log.name}"
        if run(*pip, "install", str(wheel)):
            return f"failed: the wheel cannot be installed; {log.name}"
        for line in COMMANDS.splitlines():
            if run("sh", "-c", line) not in (0, NO_LESSON):
                return f"failed: {line}; {log.name}"
    return "works"


def inherited_settings() -> dict[str, str]:
    """Return the environment variables that pip, TLS and torch need."""
    names = (
        "SSL_CERT_FILE",
        "REQUESTS_CA_BUNDLE",
        "https_proxy",
        "HTTPS_PROXY",
        "no_proxy",
        "OMP_NUM_THREADS",
    )
    return {name: value for name, value in os.environ.items() if name in names or name.startswith("PIP_")}


if __name__ == "__main__":
    sys.exit(main())
