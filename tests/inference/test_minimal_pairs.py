"""Tests of the evaluation on minimal pairs: accuracies, intervals, ties, formats, the command, errors."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binomtest
from tests.conftest import made_up_sentences
from tests.task_fixtures import save_untrained_model, write_jsonl

import albertine
from albertine import device
from albertine.cli import app
from albertine.command import run_command
from albertine.display import display_text
from albertine.errors import InputError
from albertine.inference import minimal_pairs as minimal_pairs_module
from albertine.inference.fill_mask import FillMaskPipeline, fill_mask_pipeline_in
from albertine.inference.minimal_pairs import MinimalPairsResult, evaluate_minimal_pairs
from albertine.inference.settings import EvaluateSettings
from albertine.settings import HeadSettings
from albertine.tasks.card import TaskCard
from albertine.tasks.formats.minimal_pairs import read_minimal_pairs
from albertine.text.read_errors import ReadErrors

Pair = tuple[str, str]


def pairs(seed: int, count: int) -> list[Pair]:
    """Return pairs of different sentences."""
    sentences = [" ".join(sentence.split()[:5]) for sentence in made_up_sentences(seed, 2 * count)]
    return list(zip(sentences[::2], sentences[1::2], strict=True))


def rows(data: list[Pair], paradigm: str = "", phenomenon: str = "") -> list[dict[str, Any]]:
    """Return pairs in the format of BLiMP; without names, as a user writes them."""
    names = {"UID": paradigm, "linguistics_term": phenomenon, "field": "syntax", "pairID": "0"}
    return [{"sentence_good": good, "sentence_bad": bad, **(names if paradigm else {})} for good, bad in data]


@pytest.fixture
def data(tmp_path: Path) -> dict[str, list[Pair]]:
    """Three paradigms of different sizes of two phenomena, in the folder `tmp_path / "pairs"`."""
    paradigms = {"agreement_1": pairs(1, 12), "agreement_2": pairs(2, 5), "island": pairs(3, 7)}
    for name, phenomenon in (
        ("agreement_1", "agreement"),
        ("agreement_2", "agreement"),
        ("island", "islands"),
    ):
        write_jsonl(tmp_path / "pairs" / f"{name}.jsonl", rows(paradigms[name], name, phenomenon))
    (tmp_path / "pairs" / "._island.jsonl").write_bytes(b"\0")  # written by macOS
    (tmp_path / "pairs" / "README.md").write_text("about the data")
    return paradigms


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"sentence_good": " "}, "line 1: column sentence_good is empty"),
        ({"sentence_bad": ""}, "line 1: column sentence_bad is empty"),
        ({"UID": ["x"]}, "line 1: column UID holds list \\['x'\\], not a name"),
    ],
)
def test_pairs_that_decide_nothing_are_errors(row: dict[str, Any], message: str, tmp_path: Path) -> None:
    file = write_jsonl(
        tmp_path / "a.jsonl", [{"sentence_good": "a b", "sentence_bad": "b a", "UID": " "} | row]
    )
    with pytest.raises(InputError, match=message):
        list(read_minimal_pairs(str(file), ReadErrors(skip=False)))


def evaluate(checkpoint: Path, data: Path, **options: Any) -> list[MinimalPairsResult]:
    return evaluate_minimal_pairs(
        checkpoint, albertine.EvaluateSettings(data=str(data), device="cpu", **options)
    )


def share_correct(checkpoint: Path, data: list[Pair], method: Any) -> float:
    pipeline = albertine.fill_mask_pipeline(checkpoint, device="cpu")
    better = [
        pipeline.score([good], method=method)[0].pll > pipeline.score([bad], method=method)[0].pll
        for good, bad in data
    ]
    return sum(better) / len(better)


def test_accuracies_are_means_over_paradigms(
    checkpoint: Path, tmp_path: Path, data: dict[str, list[Pair]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(minimal_pairs_module, "_CHUNK_SIZE", 5)
    results = evaluate(checkpoint, tmp_path / "pairs", method="both")
    assert [result.method for result in results] == ["word-l2r", "token"]
    for result in results:
        expected = {name: share_correct(checkpoint, data[name], result.method) for name in data}
        assert {one.name: one.accuracy for one in result.paradigms} == pytest.approx(expected)
        assert {one.name: one.num_pairs for one in result.paradigms} == {k: len(v) for k, v in data.items()}
        assert {one.name: one.accuracy for one in result.phenomena} == pytest.approx(
            {
                "agreement": (expected["agreement_1"] + expected["agreement_2"]) / 2,
                "islands": expected["island"],
            }
        )
        assert result.overall.accuracy == pytest.approx(sum(expected.values()) / 3)
        assert result.overall.num_pairs == 24
        for paradigm in result.paradigms:
            interval = binomtest(
                round(paradigm.accuracy * paradigm.num_pairs), paradigm.num_pairs
            ).proportion_ci(method="wilson")
            assert (paradigm.low, paradigm.high) == pytest.approx(tuple(interval), abs=1e-4)


def test_the_interval_of_a_mean_counts_small_paradigms_fully() -> None:
    """The mean of paradigms of 4 and 400 pairs is as uncertain as half the accuracy of the small one."""
    paradigm_class = minimal_pairs_module._Paradigm
    small, large = paradigm_class("", 4, {"token": 2.0}), paradigm_class("", 400, {"token": 200.0})
    for paradigm in (small, large):
        paradigm.ties = {"token": 0}
    one, both = (
        minimal_pairs_module._accuracy("", members, "token") for members in ([large], [small, large])
    )
    assert (both.accuracy, both.num_pairs) == (0.5, 404)
    # var = (p q / 4 + p q / 400) / 4, as of a mean of 15.84 pairs
    margin = 1.96 * (0.25 / 15.84 + 1.96**2 / (4 * 15.84**2)) ** 0.5 / (1 + 1.96**2 / 15.84)
    assert both.high - both.low == pytest.approx(2 * margin, rel=1e-3)
    assert one.high - one.low < (both.high - both.low) / 4


def test_the_interval_of_a_mean_is_wide_enough_where_the_small_paradigm_is_difficult() -> None:
    generator = np.random.default_rng(0)
    sizes, shares = (400, 400, 400, 20), (0.97, 0.95, 0.97, 0.55)
    hits = 0
    for _ in range(500):
        paradigms = [minimal_pairs_module._Paradigm("", size) for size in sizes]
        for paradigm, share in zip(paradigms, shares, strict=True):
            paradigm.points["token"] = float(generator.binomial(paradigm.num_pairs, share))
        result = minimal_pairs_module._accuracy("", paradigms, "token")
        hits += result.low <= sum(shares) / 4 <= result.high
    assert hits >= 450  # 0.93 of them; sizes alone would give 0.85


def test_sentences_of_the_same_tokens_are_ties_of_half_a_point(checkpoint: Path, tmp_path: Path) -> None:
    """The vocabulary has no capitals, so sentences that differ in them are the same to the model."""
    good, bad = pairs(4, 1)[0]
    if share_correct(checkpoint, [(good, bad)], "token") == 0:
        good, bad = bad, good
    # BLiMP itself has some pairs of identical sentences.
    file = write_jsonl(
        tmp_path / "mine.island.jsonl", rows([(good, bad), ("Kalo mi", "kalo MI"), ("a b", "a b")])
    )
    (result,) = evaluate(checkpoint, file, method="token")
    assert (result.overall.ties, result.overall.num_pairs) == (2, 3)
    assert result.overall.accuracy == pytest.approx(2 / 3)
    assert result.phenomena == ()
    assert [one.name for one in result.paradigms] == ["mine.island"]


def test_a_number_of_pairs_takes_the_first_of_each_paradigm(
    checkpoint: Path, tmp_path: Path, data: dict[str, list[Pair]]
) -> None:
    together = [row for name, some in data.items() for row in rows(some, name, "all")]
    file = write_jsonl(tmp_path / "together.jsonl", together[::-1])
    (result,) = evaluate(checkpoint, file, pairs=3)
    assert {one.name: one.num_pairs for one in result.paradigms} == dict.fromkeys(data, 3)
    expected = share_correct(checkpoint, data["island"][-3:], "word-l2r")
    assert result.paradigms[0].accuracy == pytest.approx(expected)


def test_invalid_and_too_long_pairs_stop_or_are_skipped(checkpoint: Path, tmp_path: Path) -> None:
    good, bad = pairs(5, 1)[0]
    file = tmp_path / "pairs.jsonl"
    lines: list[dict[str, Any]] = [
        {"sentence_good": good, "sentence_bad": bad, "UID": 7},
        {"sentence_good": good, "sentence_bad": "kalo " * 100},
        {"sentence_good": good, "sentence_bad": 1},
        {"sentence_good": good, "sentence_bad": bad, "UID": ["a"]},
        {"sentence_good": good},
    ]
    for index, message in enumerate(
        ("", "a sentence of .* tokens", "holds int 1, not text", "list", "no column sentence_bad")
    ):
        write_jsonl(file, [lines[0], lines[index]])
        if message:
            with pytest.raises(InputError, match=f"pairs.jsonl, line 2: .*{message}"):
                evaluate(checkpoint, file)
    write_jsonl(file, lines)
    (result,) = evaluate(checkpoint, file, on_error="skip")
    assert [(one.name, one.num_pairs) for one in result.paradigms] == [("7", 1)]


def run_evaluate(*arguments: str | Path) -> int:
    return run_command(app, ["evaluate", *map(str, arguments), "--device", "cpu"])


def test_command_prints_a_table_or_json(
    checkpoint: Path, tmp_path: Path, data: dict[str, list[Pair]], capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = (checkpoint, "--task", "BLiMP", "--data", tmp_path / "pairs", "--method", "both")
    assert run_evaluate(*arguments) == 0
    table = capsys.readouterr().out.splitlines()
    assert table[0] == f"{checkpoint}: accuracy in %, with 95% interval"
    first_cells = [line.split()[0] for line in table[1:]]
    assert first_cells == [
        "paradigm", "agreement", "agreement_1", "agreement_2", "islands", "island", "overall",
    ]  # fmt: skip
    assert run_evaluate(*arguments, "--json") == 0
    results = json.loads(capsys.readouterr().out)["results"]
    assert [result["method"] for result in results] == ["word-l2r", "token"]
    assert set(results[0]) == {"model", "task", "method", "overall", "phenomena", "paradigms", "seconds"}
    assert results[0]["paradigms"][0]["phenomenon"] == "agreement"


@pytest.mark.parametrize("columns", ["200", "80"])
def test_names_of_paradigms_are_printed_whole(
    checkpoint: Path,
    tmp_path: Path,
    data: dict[str, list[Pair]],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    columns: str,
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    name = "a\n[red]b\x1b" + "c" * 40
    file = write_jsonl(tmp_path / "pairs.jsonl", rows(data["island"], name, "islands"))
    assert run_evaluate(checkpoint, "--task", "blimp", "--data", file) == 0
    lines = capsys.readouterr().out.splitlines()[2:]
    assert all(len(line) <= int(columns) for line in lines)
    cells = [line.strip().split("  ")[0] for line in lines]
    # Folded on a narrow terminal, on one line otherwise; a line break in a name never starts a row.
    assert "".join(cells) == "islands" + display_text(name) + "overall"
    assert (len(cells) == 3) == (columns == "200")


def test_wrong_calls_give_one_line(
    checkpoint: Path, tmp_path: Path, data: dict[str, list[Pair]], capsys: pytest.CaptureFixture[str]
) -> None:
    classifier = save_untrained_model(
        tmp_path / "classifier",
        checkpoint,
        HeadSettings("classify"),
        TaskCard("classify", "classify", ("a", "b")),
    )
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty.jsonl").touch()
    folder = tmp_path / "pairs"
    calls: tuple[tuple[list[str | Path], str], ...] = (
        ([checkpoint, "--task", "blimp"], "--data is missing"),
        (["--task", "blimp", "--data", folder], "MODEL is missing"),
        ([classifier, "--task", "blimp", "--data", folder], "its head is classify; only a pre-trained model"),
        ([checkpoint, "--task", "blimp", "--data", tmp_path / "empty"], "no .jsonl files in this folder"),
        ([checkpoint, "--task", "blimp", "--data", tmp_path / "empty.jsonl"], "no minimal pairs"),
        ([checkpoint, "--task", "blimp", "--data", tmp_path / "nothing"], "unsupported format"),
        (
            [checkpoint, "--task", "blimp", "--data", folder, "--text", "x"],
            "--text is for the tasks of fine-",
        ),
        ([checkpoint, "--task", "blimp", "--data", folder, "--split", "test"], "not for minimal pairs"),
        ([classifier, "--data", folder, "--pairs", "3"], "--pairs is for --task blimp"),
        ([classifier, "--data", folder, "--method", "token"], "--method is for --task blimp"),
    )
    for arguments, message in calls:
        assert run_evaluate(*arguments) == 2
        assert message in capsys.readouterr().err
    finetune = [
        "finetune",
        str(checkpoint),
        "--task",
        "blimp",
        "--data",
        str(folder),
        "--out",
        str(tmp_path / "o"),
    ]
    assert run_command(app, finetune) == 2
    assert "--task blimp: an evaluation of pre-trained models" in capsys.readouterr().err
    with pytest.raises(InputError, match=r"albertine\.evaluate_minimal_pairs"):
        albertine.evaluate(classifier, albertine.EvaluateSettings(task="blimp", data=str(folder)))


def test_pairs_are_scored_in_fp32_on_all_machines(
    checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_jsonl(tmp_path / "pairs.jsonl", rows(pairs(4, 2)))
    monkeypatch.setattr(device, "has_fast_bf16", lambda _: True)
    precisions = []

    def open_pipeline(*args: Any, **keys: Any) -> FillMaskPipeline:
        precisions.append(args[2].precision)
        return fill_mask_pipeline_in(*args, **keys)

    monkeypatch.setattr(minimal_pairs_module, "fill_mask_pipeline_in", open_pipeline)
    evaluate_minimal_pairs(checkpoint, EvaluateSettings(task="blimp", data=str(tmp_path / "pairs.jsonl")))
    assert precisions == ["fp32"]
    assert run_command(app, ["evaluate", "--help"]) == 0
    assert "For blimp, auto is fp32." in " ".join(capsys.readouterr().out.split())
