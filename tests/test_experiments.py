"""The research code: without variations it is ALBERT, and every variation trains."""

import json
import re
from dataclasses import asdict, fields, replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
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
from experiments.starts import new_model
from experiments.table import table
from experiments.variation import Variation

import albertine
from albertine.corpus.corpus import Corpus
from albertine.corpus.dataset import PretrainDataset, PretrainSample
from albertine.corpus.settings import ObjectiveSettings
from albertine.errors import InputError
from albertine.model.model import Model
from albertine.model.pretraining_heads import MaskedLMTargets, PretrainingTargets
from albertine.model.rotary import Rotation, rotate
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


@pytest.mark.parametrize(
    "changes", [{"local_start": True}, {"norm": "before", "rotary": True}], ids=["published", "pre-norm"]
)
def test_match_heads_attend_to_the_equal_token_of_the_other_segment(
    changes: dict[str, Any], corpus: Corpus
) -> None:
    """Token 20 is token 0 once more, in the other segment; the others are different tokens."""
    variation = replace(SMALL, hidden_size=256, embedding_size=128, match_heads=1, **changes)
    encoder = new_model(variation, corpus, np.ones(len(corpus.tokenizer))).encoder
    ids, segments, positions = torch.randperm(40), torch.arange(40) // 20, 30 + torch.arange(40)
    ids[20] = ids[0]
    with torch.no_grad():
        embedded = encoder.tokens(ids) + encoder.segments(segments)
        if encoder.positions is not None:
            embedded += encoder.positions(positions)
        states = encoder.block_input(encoder.projection(encoder.norm(embedded)), layer=0, block=0)
        qkv = encoder.qkv(states)
        if variation.rotary:
            qkv = rotate(qkv, Rotation.of_positions(positions, 64, qkv.dtype), 256, parts=2)
    query, key = qkv[0, 192:256], qkv[:, 448:512]
    scores = key @ query / 8
    assert scores[20] > 7
    assert scores[20] == scores.max()
    assert (scores[20:] - scores[:20])[1:].mean() > 1  # the other segment is ahead for different tokens, too


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
    assert runs["fast-falling-mask"] == [*runs["depth"], "--masked", "0.4, 0.15 from 0.7"]
    app = cyclopts.App(result_action="return_value")
    app.default(screen)
    for options in runs.values():
        app.parse_args([*options, "--corpus", "c"], print_error=False, exit_on_error=False)


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


def _result(name: str, options: list[str], seconds: float = 600.0, **values: Any) -> str:
    """Return the line of a finished run."""
    app = cyclopts.App(result_action="return_value")
    app.default(screen)
    _, arguments, _ = app.parse_args([*options, "--corpus", "c"], print_error=False, exit_on_error=False)
    variation = asdict(arguments.arguments["variation"])
    return json.dumps({"name": name, "seconds": seconds, "variation": variation, **values}) + "\n"


def test_series_runs_what_has_no_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[list[str]] = []

    def run(command: list[str], **_: Any) -> Any:
        commands.append(command)
        return SimpleNamespace(returncode=0)

    monkeypatch.setattr("subprocess.run", run)
    out = tmp_path / "results.jsonl"
    runs = dict(read_series(SERIES))
    lines = [
        _result(name, [*options, "--seed", str(seed)])
        for name, options in runs.items()
        for seed in (1, 2)
        if (name, seed) not in (("depth", 1), ("fast", 2), ("plain", 1))
    ]
    lines.append(_result("fast", [*runs["fast"], "--seed", "2", "--lr", "0.5"]))  # its options were others
    lines.append(_result("plain", [*runs["plain"], "--seed", "1"], seconds=60.0))
    without_new_switch = json.loads(lines[0])
    del without_new_switch["variation"]["causal_head"]
    lines[0] = json.dumps(without_new_switch) + "\n"
    out.write_text("".join(lines))
    series(SERIES, corpus=tmp_path, seeds=[1, 2], out=out)
    assert [(command[4], command[6]) for command in commands] == [
        ("plain", "1"),
        ("depth", "1"),
        ("fast", "2"),
    ]
    assert commands[0][2:4] == ["experiments.screen", "--name"]
    commands.clear()
    series(SERIES, corpus=tmp_path, only=["masked30"], out=out)
    assert not commands
    series(SERIES, corpus=tmp_path, only=["masked30"], out=out, blimp=tmp_path)  # it has no minimal pairs yet
    assert len(commands) == 1


def test_series_says_what_is_unknown_and_what_has_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "subprocess.run", lambda command, **_: SimpleNamespace(returncode=int("depth" in command))
    )
    out = tmp_path / "results.jsonl"
    with pytest.raises(InputError, match=r"--only fats: not in .*series.txt \(did you mean fast"):
        series(SERIES, corpus=tmp_path, only=["plain", "fats"], out=out)
    with pytest.raises(SystemExit) as error:
        series(SERIES, corpus=tmp_path, only=["plain", "depth"], out=out)
    assert "--name depth" in str(error.value.code)
    assert "--name plain" not in str(error.value.code)
    series(SERIES, corpus=tmp_path, only=["plain"], out=out)


def test_wrong_options_are_refused_before_the_training(
    corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("experiments.screen._Run.train", lambda _: pytest.fail("trained"))
    out = tmp_path / "results.jsonl"

    def message(variation: Variation = SMALL, **options: Any) -> str:
        with pytest.raises(InputError) as error:
            screen(variation, corpus=corpus.folder, out=out, **options)
        return str(error.value)

    assert "nothing" in message(blimp=tmp_path / "nothing")
    assert "exists; give another folder" in message(save_to=tmp_path)
    model = tmp_path / "models" / "model"
    for changes, named in (
        ({"gated": True}, "encoder.up.weight"),
        ({"norm": "both"}, "encoder.norms.attention_in.weight"),
        ({"activation": "squared-relu"}, "--activation squared-relu"),
        ({"residual_scale": 0.5}, "--residual-scale 0.5"),
    ):
        assert named in message(replace(SMALL, **changes), save_to=model)


def test_a_run_is_recorded_before_its_minimal_pairs_are_scored(
    corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("experiments.screen._Run.train", lambda _: None)
    monkeypatch.setattr("experiments.screen._Run.result", lambda _: {"mask_loss": 5.0})
    monkeypatch.setattr("experiments.screen._check_pairs", lambda *_: None)
    out = tmp_path / "results.jsonl"
    with pytest.raises(InputError):  # such as a folder that has disappeared
        screen(SMALL, corpus=corpus.folder, out=out, blimp=tmp_path / "nothing")
    assert json.loads(out.read_text())["mask_loss"] == 5.0
    monkeypatch.setattr("experiments.screen._blimp_accuracy", lambda *_: 0.5)
    screen(SMALL, corpus=corpus.folder, out=out, blimp=tmp_path / "pairs")
    assert [json.loads(line).get("blimp") for line in out.read_text().splitlines()] == [None, None, 0.5]


def _table_line(name: str, seed: int, loss: float, seconds: float = 600.0, **other: Any) -> str:
    values = {"name": name, "seconds": seconds, "variation": {"seed": seed}, "mask_loss": loss}
    return json.dumps(values | {"tokens": 1_250_000, "encoder_parameters": 823_000, **other})


def test_table_compares_runs_of_the_same_seed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = partial(_table_line, blimp=0.525)
    lines = [run("plain", 1, 9.0), run("plain", 1, 5.9), _table_line("plain", 2, 5.7), run("plain", 2, 5.7)]
    (tmp_path / "results.jsonl").write_text("\n".join([*lines, run("deep", 2, 5.2), run("deep", 3, 5.0)]))
    table(tmp_path / "results.jsonl")
    assert capsys.readouterr().out.splitlines()[2:] == [
        "| deep | 2 3 | 5.200 5.000 | -0.500 | 52.5 | 1.25M | 823k |",
        "| plain | 1 2 | 5.900 5.700 | +0.000 | 52.5 | 1.25M | 823k |",
        "",
        "Left out: 1 earlier results of the same name, seed, time and machine.",
    ]
    with pytest.raises(InputError, match=r"--reference plan: not in .*results.jsonl \(did you mean plain"):
        table(tmp_path / "results.jsonl", reference="plan")


def test_table_separates_times_and_machines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = _table_line
    lines = [
        run("plain", 1, 5.9),
        run("plain", 1, 5.0, seconds=1200.0),
        run("deep", 1, 5.5, seconds=1200.0),
        run("deep", 1, 5.8, machine="other"),
    ]
    (tmp_path / "results.jsonl").write_text("\n".join(lines))
    table(tmp_path / "results.jsonl")
    assert [line.split(" | ")[:4] for line in capsys.readouterr().out.splitlines()[2:]] == [
        ["| plain, 1200 s", "1", "5.000", "+0.000"],
        ["| deep, 1200 s", "1", "5.500", "+0.500"],
        ["| deep, 600 s, other", "1", "5.800", ""],
        ["| plain, 600 s", "1", "5.900", "+0.000"],
    ]
