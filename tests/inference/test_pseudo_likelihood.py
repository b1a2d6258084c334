"""Tests of pseudo-log-likelihoods: same values as transformers, words, shared computation, errors."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from tests.task_fixtures import MODEL

import albertine
from albertine.engines.torch_engine import TorchEngine, prepare_torch_engine
from albertine.errors import InputError
from albertine.inference import masked_copies, pseudo_likelihood
from albertine.inference.masked_copies import MASKED_METHODS, ScoringMethod
from albertine.inference.pseudo_likelihood import PseudoLikelihoodScorer, TextScore
from albertine.interop.save_checkpoint import save_folder
from albertine.model.encoder import ComputeOptions
from albertine.model.model import Model
from albertine.model.strip import Strip
from albertine.settings import HeadSettings, ModelSettings
from albertine.text.tokenizer import load_tokenizer
from albertine.text.word_encoder import spaced_word_starts

# Words of one and of many tokens, marks with and without a space, unknown characters, equal texts.
TEXTS = (
    "Kalo mi ren tas.",
    'Kalo, mi (ren) - tas\'s: "vu"!',
    "kalomiren tasvudor welshigonbraun unka",
    "zzzzz qqq 漢 mi",
    "mi",
    "",
    "Kalo mi ren tas.",
    " ".join(["kalo miren"] * 5),
)
WORDPIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *".,'!()-:", *"klmrtvdwsgbuaeion"]
WORDPIECES += [
    "kalo",
    "mi",
    "##ren",
    "##lo",
    "##mi",
    "tas",
    "vu",
    "##vu",
    "##dor",
    *("##" + c for c in "aeimnokr"),
]


def with_large_weights(model: Model) -> Model:
    """Return a model that prefers some tokens clearly to others and depends on every position."""
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(12)
            else:
                parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator))
    return model.eval()


@pytest.fixture(scope="module")
def albert(tokenizer: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("albert") / "model"
    save_folder(with_large_weights(Model(MODEL)), folder, tokenizer=load_tokenizer(tokenizer))
    return folder


def saved_bert(head: HeadSettings, factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a BERT whose layers have different weights."""
    vocabulary = factory.mktemp("wordpiece")
    (vocabulary / "vocab.txt").write_text("\n".join(WORDPIECES) + "\n")
    settings = replace(
        MODEL, vocab_size=len(WORDPIECES), embedding_size=32, share="none", layers=3, activation="gelu"
    )
    folder = factory.mktemp("bert") / "model"
    model = with_large_weights(Model(settings, head))
    save_folder(model, folder, tokenizer=load_tokenizer(vocabulary))
    return folder


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved_bert(HeadSettings(kind="mlm"), tmp_path_factory)


@pytest.fixture(params=["albert", "bert"])
def folder(request: pytest.FixtureRequest) -> Path:
    path: Path = request.getfixturevalue(request.param)
    return path


def reference_scores(folder: Path, text: str, method: ScoringMethod) -> list[float]:
    """Return the log-probability of each token by transformers, with its words, one masked row at a time."""
    tokenizer: Any = transformers.AutoTokenizer.from_pretrained(folder)
    model_class: Any = transformers.AutoModelForMaskedLM
    model = model_class.from_pretrained(folder).eval()
    encoding = tokenizer(text)
    ids, words = encoding["input_ids"], encoding.word_ids()
    scores = []
    for position in range(1, len(ids) - 1):
        masked = [
            tokenizer.mask_token_id
            if index == position
            or (method == "word-l2r" and index > position and words[index] == words[position])
            else token_id
            for index, token_id in enumerate(ids)
        ]
        with torch.no_grad():
            logits = model(input_ids=torch.tensor([masked])).logits[0, position]
        scores.append(float(logits.log_softmax(0)[ids[position]]))
    return scores


@pytest.mark.parametrize("method", MASKED_METHODS)
def test_scores_match_transformers(folder: Path, method: ScoringMethod) -> None:
    scores = albertine.fill_mask_pipeline(folder, device="cpu").score(TEXTS, method=method)
    assert len(scores) == len(TEXTS)
    for text, score in zip(TEXTS, scores, strict=True):
        expected = reference_scores(folder, text, method)
        assert score.log_likelihoods == pytest.approx(expected, abs=1e-4)
        assert score.pll == pytest.approx(sum(expected), abs=1e-4)


def test_methods_differ_in_words_of_several_tokens(folder: Path) -> None:
    pipeline = albertine.fill_mask_pipeline(folder, device="cpu")
    (alone,), (to_the_right,) = (
        pipeline.score(["kalomi mi"], method=method) for method in ("token", "word-l2r")
    )
    assert alone.num_words == to_the_right.num_words == 2
    differs = [a != b for a, b in zip(alone.log_likelihoods, to_the_right.log_likelihoods, strict=True)]
    assert any(differs)
    assert not differs[-1], "the last token has nothing to its right"


def test_words_are_those_of_the_pipeline(folder: Path) -> None:
    tokenizer: Any = transformers.AutoTokenizer.from_pretrained(folder)
    scorer = albertine.fill_mask_pipeline(folder, device="cpu").scorer
    for text, encoded in zip(TEXTS, scorer.encode(TEXTS), strict=True):
        words = tokenizer(text).word_ids()
        expected = [
            next(
                (index for index in range(position, len(words)) if words[index] != words[position]),
                len(words),
            )
            for position in range(1, len(words) - 1)
        ]
        assert encoded.word_ends.tolist() == expected
        assert encoded.num_words == len({word for word in words if word is not None})


def test_each_token_of_a_script_without_spaces_is_a_word(tokenizer: Path) -> None:
    vocabulary = ("<pad>", "▁the", "door", ".", "漢字", "の", "▁漢", "ไทย")

    class Vocabulary:
        marks_continuations = False

    fake: Any = Vocabulary()
    fake.vocabulary = vocabulary
    assert spaced_word_starts(fake).tolist() == [False, True, False, False, True, True, True, True]


def test_means_are_per_token_and_per_word() -> None:
    score = TextScore(("▁a", "b", "▁c"), (-1.0, -2.0, -3.0), 2)
    assert (score.pll, score.pll_per_token, score.pll_per_word) == (-6, -2, -3)
    empty = TextScore((), (), 0)
    assert (empty.pll, empty.pll_per_token, empty.pll_per_word) == (0, None, None)


class CountingEngine(TorchEngine):
    """Counts the sequences and the largest strip that it runs."""

    num_sequences = 0
    largest_strip = 0
    most_sequences = 0

    def masked_lm_logits(
        self, strip: Strip, indices: torch.Tensor, *, depth: int | None = None
    ) -> torch.Tensor:
        self.num_sequences += len(strip)
        self.largest_strip = max(self.largest_strip, len(strip.tokens))
        self.most_sequences = max(self.most_sequences, len(strip))
        return super().masked_lm_logits(strip, indices, depth=depth)


def counting_scorer(
    folder: Path, micro_batch_tokens: int = 4096
) -> tuple[CountingEngine, PseudoLikelihoodScorer]:
    engine = CountingEngine(albertine.load(folder), torch.device("cpu"), micro_batch_tokens)
    return engine, PseudoLikelihoodScorer(engine, albertine.load_tokenizer(folder))


def test_equal_masked_copies_are_computed_once(albert: Path) -> None:
    engine, scorer = counting_scorer(albert)
    words = [token[1:] for token in scorer.tokenizer.vocabulary if token.startswith("▁") and len(token) > 2]
    good, bad = scorer.encode([f"kalo {words[0]} tas", f"kalo {words[1]} tas"])
    differences = np.flatnonzero(good.ids != bad.ids)
    assert len(good.ids) == len(bad.ids)
    assert len(differences) == 1, "the sentences must differ in one token"
    scorer.log_likelihoods([good, bad, good], ("token",))
    assert engine.num_sequences == len(good) + len(bad) - 1
    scorer.log_likelihoods([good, bad], ("token",))
    assert engine.num_sequences == len(good) + len(bad) - 1, "scored before"


def test_both_methods_share_words_of_one_token(albert: Path) -> None:
    engine, scorer = counting_scorer(albert)
    (text,) = scorer.encode(["kalo mi ren tas"])
    last_of_word = sum(end == position + 1 for position, end in enumerate(text.word_ends, start=1))
    assert 0 < last_of_word < len(text)
    both = scorer.log_likelihoods([text], MASKED_METHODS)[0]
    assert engine.num_sequences == 2 * len(text) - last_of_word
    for method, values in zip(MASKED_METHODS, both, strict=True):
        _, alone = counting_scorer(albert)
        assert values == pytest.approx(alone.log_likelihoods([text], (method,))[0][0], abs=1e-5)


def test_small_batches_give_the_same_scores(albert: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, scorer = counting_scorer(albert)
    expected = [score.log_likelihoods for score in scorer.score(TEXTS)]
    monkeypatch.setattr(masked_copies, "_MAX_COPIES", 7)
    monkeypatch.setattr(pseudo_likelihood, "_MAX_LOGITS", 3 * MODEL.vocab_size)
    monkeypatch.setattr(pseudo_likelihood, "_MAX_CACHED_TOKENS", 10)
    engine, scorer = counting_scorer(albert, micro_batch_tokens=40)
    actual = [score.log_likelihoods for score in scorer.score(TEXTS)]
    for values, expected_values in zip(actual, expected, strict=True):
        assert values == pytest.approx(expected_values, abs=1e-5)
    longest = max(len(text.ids) for text in scorer.encode(TEXTS))
    assert engine.most_sequences == 3
    assert engine.largest_strip <= max(40, longest)
    assert sum(len(values) for arrays in scorer.cache._entries.values() for values in arrays) <= 10


def test_padded_vocabulary_rows_take_no_probability(tokenizer: Path) -> None:
    """Some checkpoints round the vocabulary size up; here the additional rows have the highest logits."""
    model = Model(replace(MODEL, vocab_size=MODEL.vocab_size + 24)).eval()
    tokens = load_tokenizer(tokenizer)
    expected = PseudoLikelihoodScorer(TorchEngine(model, torch.device("cpu")), tokens).score(["kalo mi"])
    with torch.no_grad():
        dict(model.named_parameters())["head.masked.bias"][-24:] = 100.0
    actual = PseudoLikelihoodScorer(TorchEngine(model, torch.device("cpu")), tokens).score(["kalo mi"])
    assert actual[0].log_likelihoods == pytest.approx(expected[0].log_likelihoods, abs=1e-5)


def strip_of(lengths: Sequence[int]) -> Strip:
    generator = torch.Generator().manual_seed(1)
    return Strip.from_sequences(
        torch.randint(5, MODEL.vocab_size, (length,), generator=generator).tolist() for length in lengths
    )


@pytest.mark.parametrize("lengths", [[3], [2, 5, 9], [9, 3, 3, 1, 30, 2, 9], [4, 4, 4]])
@pytest.mark.parametrize("kernels", [True, False])
def test_logits_at_chosen_tokens_are_those_of_all_tokens(lengths: list[int], kernels: bool) -> None:
    strip = strip_of(lengths)
    indices = strip.offsets[:-1] + torch.tensor([length // 2 for length in lengths])
    for settings in (MODEL, replace(MODEL, share="none", layers=3), replace(MODEL, layers=1)):
        model = with_large_weights(Model(settings))
        model.configure(ComputeOptions(kernels=kernels))
        with torch.no_grad():
            expected = model(strip).masked.logits[indices]
            torch.testing.assert_close(model.masked_lm_logits(strip, indices), expected, atol=1e-4, rtol=1e-5)
            shallow = model(strip, depth=1).masked.logits[indices]
            actual = model.masked_lm_logits(strip, indices, depth=1)
            torch.testing.assert_close(actual, shallow, atol=1e-4, rtol=1e-5)


@pytest.mark.parametrize("depth", [1, 5])
def test_a_depth_scores_as_a_model_with_so_many_layers(depth: int, albert: Path, tmp_path: Path) -> None:
    pipeline = albertine.fill_mask_pipeline(albert, device="cpu")
    other = Model(replace(MODEL, layers=depth))
    other.load_state_dict(albertine.load(albert).state_dict())
    save_folder(other, tmp_path / "other", tokenizer=load_tokenizer(albert))
    expected = albertine.fill_mask_pipeline(tmp_path / "other", device="cpu").score(TEXTS)
    for score, expected_score in zip(pipeline.score(TEXTS, depth=depth), expected, strict=True):
        assert score.log_likelihoods == pytest.approx(expected_score.log_likelihoods, abs=1e-5)
    assert pipeline.score(TEXTS)[0] != expected[0]
    unshared = Model(replace(MODEL, share="none"))
    save_folder(unshared, tmp_path / "bert", tokenizer=load_tokenizer(albert))
    with pytest.raises(InputError, match="depth 9: more than the 2 layers"):
        albertine.fill_mask_pipeline(tmp_path / "bert", device="cpu").score(["kalo"], depth=9)


def test_logits_at_chosen_tokens_in_bf16() -> None:
    """The strip has spare rows then, which no result contains."""
    strip = strip_of([9, 3, 3, 1, 30, 2, 9])
    model = Model(MODEL).eval()
    with torch.no_grad():
        expected = model.masked_lm_logits(strip, strip.cls_indices)
        model.configure(ComputeOptions(torch.bfloat16))
        actual = model.masked_lm_logits(strip, strip.cls_indices).float()
    torch.testing.assert_close(actual, expected, atol=0.02, rtol=0.02)


def test_scores_in_bf16_are_close(albert: Path) -> None:
    tokens = albertine.load_tokenizer(albert)
    model = Model(MODEL).eval()
    expected = PseudoLikelihoodScorer(prepare_torch_engine(model, "cpu", "fp32"), tokens).score(TEXTS)
    actual = PseudoLikelihoodScorer(prepare_torch_engine(model, "cpu", "bf16"), tokens).score(TEXTS)
    for score, expected_score in zip(actual, expected, strict=True):
        assert score.log_likelihoods == pytest.approx(expected_score.log_likelihoods, abs=0.05)


def test_wrong_use_raises(albert: Path, tokenizer: Path) -> None:
    pipeline = albertine.fill_mask_pipeline(albert, device="cpu")
    with pytest.raises(InputError, match=r"text 1: .* tokens with \[CLS\] and \[SEP\]; the model takes 64"):
        pipeline.score(["mi", "kalo " * 100])
    with pytest.raises(InputError, match="text 0: an unpaired surrogate"):
        pipeline.score(["\ud800"])
    with pytest.raises(InputError, match="text 0: must be text, not int"):
        pipeline.score([1])  # type: ignore[list-item]
    with pytest.raises(InputError, match="must be a list of texts, not one text"):
        pipeline.score("mi")
    with pytest.raises(InputError, match="method letters: unknown"):
        pipeline.score(["mi"], method="letters")  # type: ignore[arg-type]
    classifier = Model(ModelSettings(vocab_size=220, hidden_size=32, heads=2), HeadSettings(kind="classify"))
    with pytest.raises(InputError, match="the head is classify"):
        classifier.masked_lm_logits(strip_of([3]), torch.tensor([1]))


def test_special_tokens_in_a_text_are_ordinary_text(albert: Path) -> None:
    scorer = albertine.fill_mask_pipeline(albert, device="cpu").scorer
    special = scorer.tokenizer.special_ids
    (text,) = scorer.encode(["mi [MASK] [SEP] ren"])
    assert not {special.mask, special.sep, special.cls} & set(text.ids[1:-1].tolist())
