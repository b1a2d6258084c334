"""Tests of the reports of pre-training and fine-tuning runs."""

import re
import shutil
import xml.etree.ElementTree as Tree
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from albertine.command import run_command
from albertine.corpus.build import build_corpus
from albertine.corpus.corpus import Corpus
from albertine.corpus.held_out_sentences import held_out_sentences
from albertine.corpus.settings import CorpusSettings, ObjectiveSettings
from albertine.errors import InputError
from albertine.finetune.finetune import finetune
from albertine.finetune.settings import FinetuneSettings, FinetuneTrainSettings
from albertine.inference.embedding import load_embedding_pipeline
from albertine.inference.fill_mask import fill_mask_pipeline
from albertine.pretrain.run import pretrain
from albertine.pretrain.settings import PretrainSettings
from albertine.report.held_out_examples import fill_mask_examples
from albertine.report.nearest_sentences import nearest_sentences
from albertine.report.pretraining_page import _key_figures
from albertine.report.write import write_report
from albertine.settings import ModelSettings
from albertine.text.settings import TokenizerSettings
from albertine.text.token_text import WholeWordTokens, token_text
from albertine.text.tokenizer import load_tokenizer
from albertine.text.tokenizer_training import build_tokenizer
from albertine.train.settings import PretrainTrainSettings
from albertine.world.settings import WorldSettings
from albertine.world.write import write_world

MODEL = ModelSettings(embedding_size=16, hidden_size=32, layers=3, heads=2, max_length=64)


@pytest.fixture(scope="module")
def pretraining_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A short run, and its corpus in the same folder."""
    folder = tmp_path_factory.mktemp("reports")
    write_world(folder / "world", WorldSettings(stories=500, extra=0, other=0, train=0, workers=1))
    build_tokenizer([str(folder / "world" / "text")], folder / "tokenizer", TokenizerSettings(vocab_size=500))
    corpus_settings = CorpusSettings(workers=1, held_out=0.05)
    build_corpus([str(folder / "world" / "text")], folder / "tokenizer", folder / "corpus", corpus_settings)
    settings = settings_for(folder / "corpus", "sop")
    pretrain(folder / "first", settings)
    return folder / "first"


def settings_for(corpus: Path, pair: Any, **shape: Any) -> PretrainSettings:
    """Return the settings of a short run."""
    return PretrainSettings(
        corpus=corpus,
        device="cpu",
        model=replace(MODEL, **shape),
        objective=ObjectiveSettings(pair, max_length=48),
        train=PretrainTrainSettings(
            steps=10, batch_tokens=512, evaluate_every=5, evaluate_tokens=512, precision="fp32"
        ),
    )


def read_well_formed(page: Path) -> str:
    """Return a page, after checking that it is well-formed and self-contained."""
    content = page.read_text(encoding="utf-8")
    Tree.fromstring(content[content.index("<body>") : content.index("</html>")].replace("&nbsp;", " "))
    assert not re.search(r'(src|href)="?http|@import|url\(', content)
    return content


def test_report_of_a_pretraining_run(pretraining_run: Path) -> None:
    page = read_well_formed(write_report(pretraining_run))
    for text in (
        "3 layers of width 32",
        "token frequencies",
        "no context",
        "Predictions for masked words",
        "Predictions for segment order",
        "L2 distance",
        "3 times,",
        "batch_tokens = 512",
    ):
        assert text in page, text
    assert page.count("<blockquote>") == 4 + 2 * 4 + 4  # masked words, pairs of segments, nearest sentences


def test_report_without_the_corpus(pretraining_run: Path) -> None:
    corpus = pretraining_run.parent / "corpus"
    corpus.rename(pretraining_run.parent / "elsewhere")
    try:
        page = read_well_formed(write_report(pretraining_run))
    finally:
        (pretraining_run.parent / "elsewhere").rename(corpus)
    assert "Predictions for masked words" not in page
    assert "<h2>Training</h2>" in page


def finetuned_runs(pretraining_run: Path, folder: Path) -> Path:
    """Fine-tune two short runs in one folder, and return it."""
    rows = "\n".join(f"{text}\t{label}" for text, label in [("it is good", 1), ("it is bad", 0)] * 20)
    (folder / "data.tsv").write_text(f"text\tlabel\n{rows}\n")
    train = FinetuneTrainSettings(steps=6, batch_size=8, evaluate_every=2, lr=1e-3)
    finetune_settings = FinetuneSettings(
        task="classify", data=str(folder / "data.tsv"), device="cpu", seeds=2, train=train
    )
    finetune(str(pretraining_run), folder / "judge", finetune_settings)
    return folder / "judge"


def test_report_of_a_finetuning_run(pretraining_run: Path, tmp_path: Path) -> None:
    finetuned_runs(pretraining_run, tmp_path)
    page = read_well_formed(write_report(tmp_path / "judge"))
    assert "seed-1" in page
    assert "Labels: 0, 1." in page
    assert "Score on dev" in page
    assert "A model fine-tuned on your own data (classification)." in page
    assert "</b>macro F1" in page
    assert "macro_f1" not in page


@pytest.mark.parametrize(
    ("pair", "shape", "included", "excluded"),
    [
        ("nsp", {}, ("masked tokens, next sentence", "Whether two segments"), ("for segment order",)),
        ("none", {}, ("masked tokens",), ("segment order", "chance")),
        ("none", {"segments": 1}, ("Predictions for masked words", "L2 distance"), ("segment order",)),
        ("sop", {"share": "attention"}, ("layer 2: attention 1, feed-forward 2", "Between"), ("(ALBERT)",)),
        ("sop", {"share": "none"}, ("layer 3: own weights", "(BERT)"), (">ALBERT<",)),
        ("sop", {"groups": 3}, ("layer 3: own weights",), (">ALBERT<",)),
    ],
)  # fmt: skip
def test_report_describes_objective_and_sharing(
    pretraining_run: Path,
    tmp_path: Path,
    pair: str,
    shape: dict[str, Any],
    included: tuple[str, ...],
    excluded: tuple[str, ...],
) -> None:
    settings = settings_for(pretraining_run.parent / "corpus", pair, **shape)
    pretrain(tmp_path / "run", settings)
    page = read_well_formed(write_report(tmp_path / "run"))
    for text in included:
        assert text in page, text
    for text in excluded:
        assert text not in page, text


def test_figures_of_a_log_without_times() -> None:
    figures = dict(_key_figures(MODEL, [{"step": 1, "tokens": 5_120}]))
    assert (figures["training tokens"], figures["training time"]) == ("5,120", "0 s")


def test_a_corpus_of_another_tokenizer_is_ignored(pretraining_run: Path, tmp_path: Path) -> None:
    """A corpus that was rebuilt with another vocabulary has other token ids."""
    world, corpus = pretraining_run.parent / "world" / "text", pretraining_run.parent / "corpus"
    build_tokenizer([str(world)], tmp_path / "tokenizer", TokenizerSettings(vocab_size=300))
    corpus.rename(tmp_path / "kept")
    try:
        corpus_settings = CorpusSettings(workers=1, held_out=0.05)
        build_corpus([str(world)], tmp_path / "tokenizer", corpus, corpus_settings)
        assert "Predictions for masked words" not in read_well_formed(write_report(pretraining_run))
    finally:
        shutil.rmtree(corpus, ignore_errors=True)
        (tmp_path / "kept").rename(corpus)


def test_wordpiece_continuations_are_not_whole_words(tmp_path: Path) -> None:
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "walk", "##ing", "door", ","]
    (tmp_path / "vocab.txt").write_text("\n".join(words) + "\n")
    tokenizer = load_tokenizer(tmp_path)
    assert [token_text(token, tokenizer) for token in ("walk", "##ing", ",")] == ["walk", "-ing", ","]
    ids = np.array(tokenizer.encode("door, walk walking"))
    positions = WholeWordTokens(tokenizer).positions(ids)
    assert [tokenizer.vocabulary[ids[position]] for position in positions] == [
        "door",
        "walk",
    ]  # the second "walk" is a part of "walking"


def test_rmse_is_not_shown_as_a_percentage(pretraining_run: Path, tmp_path: Path) -> None:
    rows = "\n".join(
        f"{text} {number}\t{label}"
        for number in range(20)
        for text, label in [("it is good", 4.5), ("it is bad", 1.0)]
    )
    (tmp_path / "data.tsv").write_text(f"text\tlabel\n{rows}\n")
    train = FinetuneTrainSettings(steps=4, batch_size=8, evaluate_every=2, lr=1e-3)
    finetune_settings = FinetuneSettings(
        task="regress", data=str(tmp_path / "data.tsv"), device="cpu", train=train
    )
    (outcome,) = finetune(str(pretraining_run), tmp_path / "judge", finetune_settings).runs
    page = read_well_formed(write_report(tmp_path / "judge"))
    assert f"<b>{outcome.metrics['rmse']:.3f}</b>RMSE" in page


def test_report_of_an_incomplete_finetuning_run(
    pretraining_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = finetuned_runs(pretraining_run, tmp_path)
    capsys.readouterr()
    assert "Score on dev" in read_well_formed(write_report(run / "seed-1"))  # one of several runs
    assert "results.json" not in capsys.readouterr().err
    (run / "results.json").rename(run / "kept")
    assert "<h2>Runs</h2>" not in read_well_formed(write_report(run))
    assert f"no {run / 'results.json'}: the run is unfinished" in capsys.readouterr().err
    (run / "kept").rename(run / "results.json")
    (run / "seed-0" / "task.json").unlink()  # as before the first evaluation
    with pytest.raises(InputError, match="no evaluation on dev yet"):
        write_report(run / "seed-0")
    for folder in run.glob("seed-*"):
        shutil.rmtree(folder)
    assert "<h2>Training</h2>" not in read_well_formed(write_report(run))
    (run / "results.json").write_text('{"task": "cla')
    with pytest.raises(InputError, match=r"results\.json: not JSON"):
        write_report(run)
    (run / "task.json").write_text("{")
    with pytest.raises(InputError, match=r"task\.json: not JSON"):
        write_report(run)


def test_a_folder_that_is_no_run_is_refused(
    tmp_path: Path, pretraining_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from albertine.cli import app

    assert run_command(app, ["report", str(tmp_path)]) == 2
    assert "not a run; give the --out folder" in capsys.readouterr().err
    assert run_command(app, ["report", str(tmp_path / "none")]) == 2
    assert "none: no such folder; give the --out folder" in capsys.readouterr().err
    (tmp_path / "metrics.jsonl").write_text('{"step": 0}\n')
    (tmp_path / "settings.toml").write_text((pretraining_run / "settings.toml").read_text())
    with pytest.raises(InputError, match="no training step yet"):
        write_report(tmp_path)


def test_incomplete_settings_are_refused(tmp_path: Path, pretraining_run: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(pretraining_run, run)
    settings = (run / "settings.toml").read_text()
    (run / "settings.toml").write_text(settings[: settings.index("\nlr = ")])
    with pytest.raises(InputError, match=r"settings\.toml: train\.\w+ is missing, which the checkpoints"):
        write_report(run)
    shutil.rmtree(run / "checkpoints")  # no copy of the settings is left
    with pytest.raises(InputError, match=r"settings\.toml: train\.lr is missing"):
        write_report(run)


def test_the_command_writes_the_page(pretraining_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from albertine.cli import app

    (pretraining_run / "report.html").unlink(missing_ok=True)
    assert run_command(app, ["report", str(pretraining_run)]) == 0
    assert (pretraining_run / "report.html").exists()
    assert "open it in a browser" in capsys.readouterr().err


@pytest.mark.parametrize(("share", "label"), [("all", "Times that the shared layer"), ("none", "Layers:")])
def test_the_slider_has_the_predictions_of_every_depth(
    pretraining_run: Path, tmp_path: Path, share: str, label: str
) -> None:
    run = pretraining_run
    if share == "none":
        run = tmp_path / "bert"
        pretrain(run, settings_for(pretraining_run.parent / "corpus", "sop", share=share))
    pipeline = fill_mask_pipeline(run)
    (example,) = fill_mask_examples(pipeline, Corpus(pretraining_run.parent / "corpus"), 1, seed=0)
    assert len(example.predictions) == 3
    assert example.predictions[-1] != example.predictions[0]
    page = read_well_formed(write_report(run))
    assert label in page
    assert 'max="3" value="3"' in page
    for depth, predictions in enumerate(example.predictions, start=1):
        assert [score for _, score in predictions] == sorted(
            (score for _, score in predictions), reverse=True
        )
        assert page.count(f'data-depth="{depth}"') == page.count('data-depth="3"') > 1
    num_examples = page.count('data-depth="3">')  # only this depth is visible without JavaScript
    assert page.count('hidden="hidden"') == 2 * num_examples + 1


def test_the_passages_with_a_masked_word_have_all_words_of_the_text(pretraining_run: Path) -> None:
    corpus = Corpus(pretraining_run.parent / "corpus")
    texts = [
        "".join(corpus.tokenizer.decode(shard.tokens.tolist()).split()) for shard in corpus.shards("dev")
    ]
    examples = fill_mask_examples(fill_mask_pipeline(pretraining_run), corpus, 8, seed=1)
    assert len(examples) == 8
    for example in examples:
        passage = "".join(f"{example.before}{example.word}{example.after}".split())
        assert any(passage in text for text in texts)


def test_the_nearest_sentences_are_those_with_the_highest_cosine(pretraining_run: Path) -> None:
    corpus, embed = Corpus(pretraining_run.parent / "corpus"), load_embedding_pipeline(pretraining_run)
    sentences = held_out_sentences(corpus, seed=3, limit=2_000)
    assert len(set(sentences)) == len(sentences) > 20
    vectors = np.stack([embed(text, pooling="mean", normalize=False) for text in sentences])
    vectors -= vectors.mean(0)
    (example,) = nearest_sentences(embed, corpus, 1, seed=3)
    assert example.sentence == sentences[0]
    cosines = [
        float(vectors[0] @ other / np.linalg.norm(vectors[0]) / np.linalg.norm(other)) for other in vectors
    ]
    best = sorted(range(1, len(sentences)), key=lambda index: -cosines[index])[:3]
    assert [cosine for _, cosine in example.nearest] == pytest.approx(
        [cosines[index] for index in best], abs=1e-5
    )
    assert "Nearest sentences" in read_well_formed(write_report(pretraining_run))
