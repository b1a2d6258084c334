"""Commands that a demo shows: the equivalent of each step, and commands for further work."""

import os
import shlex
import shutil
import sys
import sysconfig
from pathlib import Path

from albertine.demo import plan
from albertine.demo.run_lengths import run_lengths
from albertine.demo.settings import WORLD_HEADS
from albertine.demo.workspace import DemoWorkspace
from albertine.pretrain.curriculum import GROW


def equivalent_commands(workspace: DemoWorkspace) -> list[str]:
    """Return the commands that repeat the steps of a demo."""
    settings = workspace.settings
    text_source = shlex.quote(settings.text) if settings.text else "world/text/"
    seed = f" --seed {settings.seed}" if settings.seed else ""
    train_seed = f" --train.seed {settings.seed}" if settings.seed else ""
    sample_seed = f" --objective.seed {settings.seed}" if settings.seed else ""
    cloze = shlex.quote(str(workspace.out / "cloze"))
    world_options = f" --model.heads {WORLD_HEADS} --train.lr {plan.LEARNING_RATES['albert']}"
    model, lengths = workspace.model_settings("albert"), run_lengths(settings)
    positions = " --model.norm-first --model.rotary" if model.rotary else ""
    lines = [
        f"albertine tokenizer train {text_source} --vocab-size {model.vocab_size} --out tokenizer",
        f"albertine corpus build {text_source} --tokenizer tokenizer "
        f"--held-out {plan.HELD_OUT_FRACTION}{seed} --out corpus",
        f"albertine pretrain --corpus corpus --model demo --model.hidden-size {model.hidden_size}"
        f"{positions}{'' if settings.text else world_options} "
        f"--curriculum.depth {GROW} --objective.mlm-probability {plan.MLM_PROBABILITY} "
        f"--train.steps {lengths.pretraining_steps} --train.batch-tokens {plan.BATCH_TOKENS}"
        f"{train_seed}{sample_seed} --out albert",
        "albertine probe albert --corpus corpus",
        "albertine report albert",
    ]
    if (workspace.out / "agreement").exists():
        pairs = shlex.quote(str(workspace.out / "agreement"))
        lines.insert(-1, f"albertine evaluate albert --task blimp --data {pairs}")
    if not settings.text:
        world_task_options = (
            f"--tasks sst-2,squad --train {settings.examples} --dev {plan.DEV_EXAMPLES} --test 1 "
            "--extra 0 --other 0"
        )
        lines.insert(
            0, f"albertine world write world --stories {settings.stories} {world_task_options}{seed}"
        )
    for name in workspace.task_names():
        task = plan.DEMO_TASKS[name]
        steps = lengths.finetuning_steps
        data = "world" if task.uses_world else f"{cloze}/train.jsonl --dev {cloze}/dev.jsonl"
        lines.append(
            f"albertine finetune albert --task {task.task} --data {data} --train.steps "
            f"{steps} --train.batch-size {task.batch_size} --train.lr {task.lr:g} "
            f"--train.optimizer {task.optimizer} --train.evaluate-every {steps}"
            f" --{'' if task.mark_matches else 'no-'}mark-matches"
            f"{train_seed} --out {name}"
        )
    return lines


def next_commands(workspace: DemoWorkspace) -> dict[str, str]:
    """Return commands for further work, by their purpose."""
    executable = albertine_executable()
    albert, corpus = (shlex.quote(str(workspace.out / name)) for name in ("albert", "corpus"))
    if workspace.settings.text:
        continuation = {
            "Train a larger model, by default as long as the text is worth": f"{executable} pretrain "
            f"--corpus {corpus} --model albertine-tiny --out my-albert"
        }
    else:
        continuation = {"Use your own text": f"{executable} demo --text MY_TEXT --out my-demo"}
    return {
        "Try it in a browser": f"{executable} serve {albert}",
        **continuation,
        "Use your own labels": f"{executable} finetune {albert} --task classify --data MY.csv "
        "--text TEXT_COLUMN --label LABEL_COLUMN --out my-model",
    }


def albertine_executable() -> str:
    """Return the command that runs `albertine` in this shell: its name if on the PATH, else its path."""
    script = Path(sysconfig.get_path("scripts")) / "albertine"
    executable = shutil.which("albertine")
    if executable and script.exists() and Path(executable).samefile(script):
        return "albertine"
    if not script.exists():
        return shlex.join([sys.executable, "-m", "albertine"])
    if not script.is_relative_to(Path.cwd()):
        return shlex.quote(str(script))
    relative_path = os.path.relpath(script)
    return shlex.quote(relative_path if os.sep in relative_path else f"./{relative_path}")
