"""The claims of the package, and those in files of the user."""

import re
from importlib.resources import files
from pathlib import Path

from albertine import progress
from albertine.errors import InputError, did_you_mean
from albertine.study.claim import Claim
from albertine.study.claim_file import parse_claim, read_claim
from albertine.study.protocol import find_protocol, tasks_to_finetune
from albertine.study.settings import StudySettings
from albertine.study.task_examples import layouts_text, missing_tasks


def claim_names() -> list[str]:
    """Return the names of the claims of the package: those of tables by number, then the others."""
    folder = files(__package__) / "claims"
    names = [file.name.removesuffix(".toml") for file in folder.iterdir() if file.name.endswith(".toml")]
    return sorted(names, key=_position)


def _position(name: str) -> tuple[bool, int, str]:
    table = re.match(r"table-(\d+)", name)
    return table is None, int(table[1]) if table else 0, name


def claims_for(settings: StudySettings) -> list[Claim]:
    """Return the claims of the package whose arms are meant for a scale, and whose tasks are given."""
    claims = map(find_claim, claim_names())
    of_scale = [claim for claim in claims if not claim.only_scales or settings.scale in claim.only_scales]
    return [claim for claim in of_scale if _has_tasks(claim, settings)]


def _has_tasks(claim: Claim, settings: StudySettings) -> bool:
    """Return whether the user's folder has the real tasks of a claim; print which ones it lacks."""
    protocol = find_protocol(claim, settings.scale)
    tasks = tasks_to_finetune(claim, protocol) if protocol.text == "own" else []
    if not tasks or settings.data is None:
        return not tasks
    if missing := missing_tasks(settings.data, tasks):
        progress.print_message(
            f"{claim.name}: left out, because {settings.data} has no {layouts_text(missing)}"
        )
    return not missing


def find_claim(name: str) -> Claim:
    """Return a claim of the package by name, or the claim in a file; raise `InputError` if there is none."""
    known = claim_names()
    if name.endswith(".toml"):
        claim = read_claim(Path(name))
        if claim.name in known:
            raise InputError(f"{name}: the package has a claim of this name; rename the file")
        return claim
    if name not in known and Path(name).exists():
        raise InputError(
            f"{name}: neither a claim nor a .toml file; to give several texts to --text, use one folder or "
            "a glob in quotes"
        )
    if name not in known:
        raise InputError(
            f"{name}: unknown claim{did_you_mean(name, known)}; known: {', '.join(known)}, or a .toml file"
        )
    text = (files(__package__) / "claims" / f"{name}.toml").read_text(encoding="utf-8")
    return parse_claim(text, name, f"{name}.toml")
