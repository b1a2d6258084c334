"""The research code: without variations it is ALBERT, and every variation trains."""

import json
import re
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import cyclopts
import numpy as np
import pytest
import torch
from experiments.easy_samples import EasySamplesDataset
from experiments.network import VariantModel
from experiments.save import published_modules
from experiments.screen import screen
from experiments.series import read_series, series
from experiments.table import table
from experiments.variation import Variation

import albertine
from albertine.corpus.corpus import Corpus
from albertine.corpus.dataset import PretrainDataset, PretrainSample
from albertine.corpus.settings import ObjectiveSettings
from albertine.model.heads import MaskedLMTargets, PretrainingTargets
from albertine.model.model import Model
from albertine.pretrain.unigram_baseline import TokenFrequencies
from albertine.settings import HeadSettings, ModelSettings
from tests.model.model_fixtures import random_strip

SERIES = Path(__file__).parent.parent / "experiments" / "series.txt"
SMALL = Variation(hidden_size=24, layers=3, heads=4, embedding_size=10, batch="256", local_start=False)


@pytest.mark.parametrize("is_first", [False, True], ids=["published", "norms of inputs, rotary positions"])
def test_networks_of_model_folders_are_equal(is_first: bool) -> None:
    settings = ModelSettings(
        vocab_size=61,
        embedding_size=10,
        hidden_size=24,
        layers=3,
        heads=4,
        norm_first=is_first,
        rotary=is_first,
    )
    albert: Any = Model(settings, HeadSettings(kind="pretrain"), seed=1)
    for parameter in albert.parameters():
        parameter.data.add_(0.1 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(2)))
    variation = replace(SMALL, norm="before", rotary=True) if is_first else SMALL
    model = VariantModel(variation, 61)
    for variant, original in published_modules(model, albert):
        variant.load_state_dict(original.state_dict())
    model.bias.data.copy_(albert.head.masked.bias)
    strip = random_strip([9, 3, 14, 3])
    labels = torch.zeros(4, dtype=torch.long)
    targets = PretrainingTargets(MaskedLMTargets(torch.tensor([1, 8, 20]), labels[:3]), labels)
    for depth in (1, 3):
        expected, actual = (one(strip, targets, depth=depth) for one in (albert, model))
        torch.testing.assert_close(actual.masked.logits, expected.masked.logits, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(actual.pair_logits, expected.pair_logits, rtol=1e-4, atol=1e-5)


def test_causal_attention_does_not_depend_on_how_it_is_computed() -> None:
    """With gradients, the probabilities are kept; without, attention is torch's own."""
    encoder = VariantModel(replace(SMALL, rotary=True), 61).encoder
    strip = replace(random_strip([9, 3, 14, 3, 13]), causal=True)
    with torch.no_grad():
        expected = encoder(strip)
    torch.testing.assert_close(encoder(strip), expected, rtol=1e-5, atol=1e-5)
    changed = replace(strip, tokens=strip.tokens.clone())
    changed.tokens[8] = (changed.tokens[8] + 1) % 61  # the last token of the first sequence
    actual = encoder(changed)
    torch.testing.assert_close(actual[:8], expected[:8], rtol=1e-5, atol=1e-5)
    assert not torch.allclose(actual[8], expected[8], atol=1e-3)


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"norm": "before", "residual_scale": 0.5, "step_gains": True, "step_biases": True, "step_rank": 2},
        {"norm": "both", "gated": True, "rotary": True, "value_embeddings": True, "embedding_skip": True},
        {"activation": "squared-relu", "causal": "0.5", "replaced_weight": 1.0, "z_loss": 1e-4},
        {"optimizer": "adamw", "schedule": "cosine", "average": 0.9, "pair": "none"},
        {
            "masked": "0.4, 0.2 from 0.5",
            "length": "32, 64 from 0.5",
            "depth": "1, 3 from 0.5",
            "batch": "128, 256 from 0.5",
        },
        {"hidden_size": 64, "embedding_size": 32, "local_start": True, "context_seconds": 0.2},
        {"hidden_size": 64, "embedding_size": 32, "local_start": True, "match_heads": 1},
        {"copies": 0.5, "only_masks": True, "ngram": 1},
        {"easy": "1, 0 from 0.5"},
        {"causal": "0.5", "causal_targets": 0.5, "causal_head": True},
        {"precision": "bf16", "causal": "0.5", "replaced_weight": 1.0, "gated": True},
    ],
    ids=str,
)
def test_every_variation_trains(changes: dict[str, Any], corpus: Corpus, tmp_path: Path) -> None:
    out = tmp_path / "results.jsonl"
    screen(replace(SMALL, **changes), corpus=corpus.folder, seconds=1.0, out=out)
    assert out.read_text().count("mask_loss") == 1


def test_easy_samples_are_those_of_more_frequent_tokens(corpus: Corpus) -> None:
    frequencies = TokenFrequencies.from_corpus(corpus).log_probabilities
    objective, indices = ObjectiveSettings(max_length=32), np.arange(20)

    def difficulty(samples: list[PretrainSample]) -> list[float]:
        return [float(frequencies[sample.original_tokens()].mean()) for sample in samples]

    first, second = (
        difficulty(PretrainDataset(corpus, objective).draw(2 * indices + offset)) for offset in (0, 1)
    )
    for share, expected in ((0.0, first), (1.0, list(map(max, first, second)))):
        dataset = EasySamplesDataset(corpus, objective, 0.0, share, frequencies)
        assert difficulty(dataset.draw(indices)) == expected


@pytest.mark.slow
def test_saved_model_opens(corpus: Corpus, tmp_path: Path) -> None:
    screen(
        SMALL, corpus=corpus.folder, seconds=1.0, out=tmp_path / "results.jsonl", save_to=tmp_path / "model"
    )
    assert albertine.load(tmp_path / "model").settings.layers == SMALL.layers


def test_series_has_only_known_options() -> None:
    runs = dict(read_series(SERIES))
    known = {f"--{field.name.replace('_', '-')}" for field in fields(Variation)}
    for options in runs.values():
        named = {word.replace("--no-", "--") for word in options if word.startswith("--")}
        assert named <= known
    assert runs["fast"] == [*runs["depth"], "--masked", "0.3"]


def test_commands_of_the_records_name_runs_of_the_series() -> None:
    app = cyclopts.App(result_action="return_value")
    app.default(series)
    names = {name for name, _ in read_series(SERIES)}
    records = (SERIES.parent.parent / "docs" / "records" / "ideas").glob("*.md")
    commands = [
        command
        for record in records
        for command in re.findall(
            r"`python -m experiments\.series (.*?)`", record.read_text(encoding="utf-8")
        )
    ]
    assert len(commands) > 10
    for command in commands:
        _, arguments, _ = app.parse_args(command, print_error=False, exit_on_error=False)
        assert set(arguments.arguments["only"]) <= names, command


def test_series_runs_what_has_no_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[list[str]] = []
    monkeypatch.setattr("subprocess.run", lambda command, **_: commands.append(command))
    out = tmp_path / "results.jsonl"
    finished = [(name, seed) for name, _ in read_series(SERIES) for seed in (1, 2) if name != "depth"]
    lines = [{"name": name, "variation": {"seed": seed}} for name, seed in [*finished, ("depth", 2)]]
    out.write_text("".join(json.dumps(line) + "\n" for line in lines))
    series(SERIES, corpus=tmp_path, seeds=[1, 2], out=out)
    (command,) = commands
    assert command[2:7] == ["experiments.screen", "--name", "depth", "--seed", "1"]


def test_table_compares_runs_of_the_same_seed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def run(name: str, seed: int, loss: float) -> str:
        values = {"name": name, "variation": {"seed": seed}, "mask_loss": loss, "tokens": 1_250_000}
        return json.dumps(values | {"encoder_parameters": 823_000, "blimp": 0.525})

    lines = [run("plain", 1, 9.0), run("plain", 1, 5.9), run("plain", 2, 5.7)]
    (tmp_path / "results.jsonl").write_text("\n".join([*lines, run("deep", 2, 5.2), run("deep", 3, 5.0)]))
    table(tmp_path / "results.jsonl")
    assert capsys.readouterr().out.splitlines()[2:] == [
        "| deep | 2 3 | 5.200 5.000 | -0.500 | 52.5 | 1.25M | 823k |",
        "| plain | 1 2 | 5.900 5.700 | +0.000 | 52.5 | 1.25M | 823k |",
    ]
