"""A run that was broken off, in whatever way, ends as if it had not been."""

import errno
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from albertine.corpus.build import build_corpus
from albertine.corpus.corpus import Corpus
from albertine.corpus.settings import CorpusSettings
from albertine.errors import InputError, WorkError
from albertine.lock import held
from albertine.pretrain.curriculum import Curriculum
from albertine.pretrain.run import pretrain
from albertine.pretrain.settings import PretrainSettings
from albertine.settings import write
from albertine.train import snapshots
from albertine.train.loop import Trainer

from .conftest import GIVEN, Nursery, steps_of, weights_of, with_train


class PowerCut(BaseException):
    pass


def cut_after(steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a run break off after so many steps of a process."""
    whole = Trainer._advance
    taken = 0

    def advance(self: Trainer) -> None:
        nonlocal taken
        if taken == steps:
            raise PowerCut
        taken += 1
        whole(self)

    monkeypatch.setattr(Trainer, "_advance", advance)


GROWING = Curriculum("16, 32 from 0.5", "1, 2 from 0.25, 3 from 0.7", "0.3, 0.15 from 0.4")
VARIANTS: dict[str, dict[str, Any]] = {
    "muon": {},
    "adamw": {"train": {"optimizer": "adamw"}},
    "lamb": {"train": {"optimizer": "lamb"}},
    "dropout": {"model": {"dropout": 0.2, "attention_dropout": 0.2}},
    "accumulation": {"train": {"at_once": 64}},
    "recomputation in bf16": {"train": {"recompute": True, "precision": "bf16"}},
    "curricula": {"curriculum": GROWING},
    "workers": {"workers": 1, "curriculum": GROWING},
    "several epochs": {"train": {"steps": 40, "batch_tokens": 2048}},
    "no second segment": {"objective": {"pair": "none"}},
    "nothing shared": {"model": {"share": "none"}},
}


def variant(settings: PretrainSettings, name: str) -> PretrainSettings:
    for table, change in VARIANTS[name].items():
        value = replace(getattr(settings, table), **change) if isinstance(change, dict) else change
        settings = replace(settings, **{table: value})
    return settings


@pytest.mark.parametrize("name", VARIANTS)
def test_a_broken_run_ends_as_an_unbroken_one(
    name: str, settings: PretrainSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = variant(settings, name)
    pretrain(tmp_path / "whole", settings, GIVEN)
    for cut in (1, 4, 5):
        with monkeypatch.context() as patch, pytest.raises(PowerCut):
            cut_after(cut, patch)
            pretrain(tmp_path / "broken", settings, GIVEN)
    pretrain(tmp_path / "broken", settings, GIVEN)
    assert steps_of(tmp_path / "whole") == steps_of(tmp_path / "broken")
    assert weights_of(tmp_path / "whole") == weights_of(tmp_path / "broken")


def words(settings: PretrainSettings, out: Path, tmp_path: Path) -> list[str]:
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(write(settings))
    return ["pretrain", "--config", str(recipe), "--out", str(out)]


def test_killed_at_random_moments(settings: PretrainSettings, tmp_path: Path, nursery: Nursery) -> None:
    """At least twenty times, from its first moments to its last, also while it writes."""
    settings = with_train(variant(settings, "curricula"), steps=60, save_every=2, at_once=100)
    whole = words(settings, tmp_path / "whole", tmp_path)
    started = time.monotonic()
    ended, said = nursery.run(*whole)
    assert ended == [0], said
    took = time.monotonic() - started
    draw = random.Random()  # other moments every time; the end is the same
    command = [*words(settings, tmp_path / "killed", tmp_path), "--quiet"]
    kills = 0
    while kills < 20:
        # Short lives, so that there are many; now and then one that gets far.
        life = draw.uniform(0.0, 0.35 * took)
        ended, said = nursery.run(*command, kill_after=life)
        assert ended in ([-9], [0]), said
        if ended == [0]:
            assert weights_of(tmp_path / "whole") == weights_of(tmp_path / "killed")
            shutil.rmtree(tmp_path / "killed")  # done too soon: anew, and the kills count on
            continue
        kills += 1
    ended, said = nursery.run(*command)
    assert ended == [0], said
    assert weights_of(tmp_path / "whole") == weights_of(tmp_path / "killed")
    assert steps_of(tmp_path / "whole") == steps_of(tmp_path / "killed")
    assert not list(tmp_path.rglob("*.partial"))
