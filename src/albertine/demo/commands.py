"""The commands that a demo shows: how to do each of its steps by hand, and what to do next."""

import os
import shlex
import shutil
import sys
import sysconfig
from pathlib import Path

from albertine.corpus.corpus import Corpus
from albertine.demo.steps import BATCH_TOKENS, HELD_OUT, LOOKS, RATES, TASKS, WORLD_HEADS, Lab

_LONGER = "--model albert-tiny --train.batch-tokens 8192 --train.steps 12000"


def by_hand(lab: Lab) -> list[str]:
    """Return what does the same, step by step."""
    settings = lab.settings
    where = shlex.quote(settings.text) if settings.text else "world/text/"
    seed = f" --seed {settings.seed}" if settings.seed else ""
    train_seed = f" --train.seed {settings.seed}" if settings.seed else ""
    sample_seed = f" --objective.seed {settings.seed}" if settings.seed else ""
    cloze = shlex.quote(str(lab.out / "cloze"))
    for_world = f" --model.heads {WORLD_HEADS} --train.lr {RATES['albert']}" if not settings.text else ""
    pieces = len(Corpus(lab.out / "corpus").tokenizer)
    lines = [
        f"albertine tokenizer train {where} --vocab-size {pieces} --out tokenizer",
        f"albertine corpus build {where} --tokenizer tokenizer --held-out {HELD_OUT}{seed} --out corpus",
        f"albertine pretrain --corpus corpus --model demo{for_world} --train.steps {settings.steps} "
        f"--train.batch-tokens {BATCH_TOKENS}{train_seed}{sample_seed} --out albert",
        "albertine probe albert --corpus corpus",
        "albertine report albert",
    ]
    if not settings.text:
        world = f"--tasks mnli,squad --train {settings.examples} --dev {lab.dev} --test 1 --extra 0 --other 0"
        lines.insert(0, f"albertine world write world --stories {settings.stories} {world}{seed}")
    for name in lab.tasks:
        tuning = TASKS[name]
        data = "world" if tuning.of_world else f"{cloze}/train.jsonl --dev {cloze}/dev.jsonl"
        lines.append(
            f"albertine finetune albert --task {tuning.task} --data {data} --train.steps "
            f"{settings.tuning_steps} --train.batch {tuning.batch} --train.lr {tuning.rate:g} "
            f"--train.optimizer {tuning.optimizer} --train.evaluate-every "
            f"{-(-settings.tuning_steps // LOOKS)}{train_seed} --out {name}"
        )
    return lines


def what_next(lab: Lab) -> dict[str, str]:
    """Return the commands that one will want next, by what they are for."""
    typed = as_typed()
    albert, corpus = (shlex.quote(str(lab.out / name)) for name in ("albert", "corpus"))
    if lab.settings.text:
        further = {"More of it": f"{typed} pretrain --corpus {corpus} --out my-albert {_LONGER}"}
    else:
        further = {"Your own text": f"{typed} demo --text MY_TEXT --out my-demo"}
    return {
        "Ask it, in a browser": f"{typed} serve {albert}",
        **further,
        "Your own labels": f"{typed} finetune {albert} --task classify --data MY.csv --text TEXT_COLUMN "
        "--label LABEL_COLUMN --out my-model",
    }


def as_typed() -> str:
    """Return how one types `albertine` here: its name where the shell finds it, else its path."""
    script = Path(sysconfig.get_path("scripts")) / "albertine"
    found = shutil.which("albertine")
    if found and script.exists() and Path(found).samefile(script):
        return "albertine"
    if not script.exists():
        return shlex.join([sys.executable, "-m", "albertine"])
    if not script.is_relative_to(Path.cwd()):
        return shlex.quote(str(script))
    below = os.path.relpath(script)
    return shlex.quote(below if os.sep in below else f"./{below}")
