"""Tests against `transformers`: equal weights give equal numbers, and files open in both."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor

from albertine import progress
from albertine.errors import InputError
from albertine.interop.huggingface import load_folder, save_folder
from albertine.interop.load import load
from albertine.model.heads import MaskedLMTargets, PretrainingTargets
from albertine.model.model import Model
from albertine.model.span_head import SpanTargets
from albertine.model.strip import Strip
from albertine.settings import HeadSettings, ModelSettings

LENGTHS = (7, 12, 3, 12)
TASKS = {
    "pretrain": "PreTraining",
    "mlm": "MaskedLM",
    "classify": "SequenceClassification",
    "regress": "SequenceClassification",
    "span": "QuestionAnswering",
    "choice": "MultipleChoice",
    "token": "TokenClassification",
}
CASES = [(family, kind) for family in ("Albert", "Bert") for kind in TASKS]


@pytest.fixture(autouse=True)
def quiet_progress() -> Iterator[None]:
    progress.set_quiet(True)
    yield
    progress.set_quiet(False)


def transformers_model(family: str, kind: str, **changes: Any) -> Any:
    """Make a small model of `transformers`, with random norms and biases too."""
    values: dict[str, Any] = {
        "vocab_size": 61,
        "hidden_size": 24,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "intermediate_size": 40,
        "max_position_embeddings": 16,
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
        "classifier_dropout_prob" if family == "Albert" else "classifier_dropout": 0.0,
        "num_labels": 1 if kind == "regress" else 3 if kind in ("classify", "token") else 2,
    }
    if family == "Albert":
        values |= {"embedding_size": 10}
    config = getattr(transformers, f"{family}Config")(**values | changes)
    model = getattr(transformers, f"{family}For{TASKS[kind]}")(config).eval()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.1 * torch.randn(parameter.shape, generator=generator)
    return model


def batch() -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(2)
    longest = max(LENGTHS)
    mask = torch.tensor([[1] * n + [0] * (longest - n) for n in LENGTHS])
    return {
        "input_ids": torch.randint(1, 61, mask.shape, generator=generator) * mask,
        "attention_mask": mask,
        "token_type_ids": torch.randint(0, 2, mask.shape, generator=generator) * mask,
    }


def strip_from_inputs(inputs: dict[str, Tensor]) -> Strip:
    return Strip.from_padded(inputs["input_ids"], inputs["attention_mask"], inputs["token_type_ids"])


def save_transformers(model: Any, folder: Path) -> Path:
    model.save_pretrained(folder)
    return folder


def assert_close(ours: Tensor, theirs: Tensor) -> None:
    """Assert that two tensors agree within 1e-5 of the largest value."""
    assert ours.shape == theirs.shape
    assert (ours - theirs).abs().max() <= 1e-5 * theirs.abs().max()


def both_losses(kind: str, theirs: Any, ours: Model) -> tuple[Tensor, Tensor, list[tuple[Tensor, Tensor]]]:
    """Run both models on the same batch; return their loss, ours, and pairs of logits."""
    inputs = batch()
    strip = strip_from_inputs(inputs)
    real = inputs["attention_mask"].bool()
    if kind in ("mlm", "pretrain"):
        indices = torch.tensor([1, 5, 8, 20, 30])
        masked_labels = torch.tensor([4, 9, 3, 60, 11])
        labels = torch.full_like(inputs["input_ids"], -100)
        flat = labels[real]
        flat[indices] = masked_labels
        labels[real] = flat
        if kind == "mlm":
            out = theirs(**inputs, labels=labels)
            mine = ours(strip, MaskedLMTargets(indices, masked_labels))
            return out.loss, mine.loss, [(out.logits[real][indices], mine.logits)]
        pair = torch.tensor([0, 1, 1, 0])
        name = "sentence_order_label" if "Albert" in type(theirs).__name__ else "next_sentence_label"
        out = theirs(**inputs, labels=labels, **{name: pair})
        mine = ours(strip, PretrainingTargets(MaskedLMTargets(indices, masked_labels), pair))
        pair_logits = out.sop_logits if "Albert" in type(theirs).__name__ else out.seq_relationship_logits
        return (
            out.loss,
            mine.loss,
            [(out.prediction_logits[real][indices], mine.masked.logits), (pair_logits, mine.pair_logits)],
        )
    if kind in ("classify", "regress"):
        labels = torch.tensor([2, 0, 1, 1]) if kind == "classify" else torch.tensor([0.5, -1.0, 2.0, 0.0])
        out = theirs(**inputs, labels=labels)
        mine = ours(strip, labels)
        return out.loss, mine.loss, [(out.logits.squeeze(1), mine.logits)]
    if kind == "choice":
        labels = torch.tensor([1, 0])
        out = theirs(**{name: value.view(2, 2, -1) for name, value in inputs.items()}, labels=labels)
        mine = ours(strip, labels)
        return out.loss, mine.loss, [(out.logits, mine.logits)]
    if kind == "token":
        labels = torch.where(real, inputs["input_ids"] % 3, -100)
        out = theirs(**inputs, labels=labels)
        mine = ours(strip, labels[real])
        return out.loss, mine.loss, [(out.logits[real], mine.logits)]
    # Their span loss includes padding in the softmax, so it is computed here from the logits of real tokens.
    start, end = torch.tensor([2, 0, 1, 5]), torch.tensor([3, 0, 2, 11])
    out = theirs(**inputs)
    masked = [scores.masked_fill(~real, float("-inf")) for scores in (out.start_logits, out.end_logits)]
    cross = torch.nn.functional.cross_entropy
    mine = ours(strip, SpanTargets(start, end))
    pairs = [(out.start_logits[real], mine.start_logits), (out.end_logits[real], mine.end_logits)]
    return (cross(masked[0], start) + cross(masked[1], end)) / 2, mine.loss, pairs


def load_ours(folder: Path, kind: str) -> Model:
    """Load a checkpoint of `transformers`; a question has two options here."""
    model = load_folder(folder)
    if kind == "choice":
        model.head.options = 2  # type: ignore[assignment]  # a plain number
    return model


@pytest.mark.parametrize(("family", "kind"), CASES)
def test_loaded_model_equals_transformers(family: str, kind: str, tmp_path: Path) -> None:
    theirs = transformers_model(family, kind)
    ours = load_ours(save_transformers(theirs, tmp_path / "theirs"), kind)
    assert ours.head_settings.kind == kind
    their_loss, our_loss, scores = both_losses(kind, theirs, ours)
    assert_close(our_loss, their_loss)
    for expected, got in scores:
        assert_close(got, expected)
    their_loss.backward()
    our_loss.backward()
    expected_gradients = gradients_as_ours(theirs, ours, tmp_path)
    for name, parameter in ours.named_parameters():
        assert parameter.grad is not None, name
        largest = max(float(one.abs().max()) for one in expected_gradients.values())
        assert (parameter.grad - expected_gradients[name]).abs().max() <= 1e-5 * largest, name


def gradients_as_ours(theirs: Any, ours: Model, tmp_path: Path) -> dict[str, Tensor]:
    """Return their gradients by our names, through a checkpoint whose weights are the gradients."""
    kind = ours.head_settings.kind
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.copy_(torch.zeros_like(parameter) if parameter.grad is None else parameter.grad)
    carrier = load_ours(save_transformers(theirs, tmp_path / "gradients"), kind)
    return {name: parameter.detach() for name, parameter in carrier.named_parameters()}


@pytest.mark.parametrize(("family", "kind"), CASES)
def test_twenty_training_steps_equal_transformers(family: str, kind: str, tmp_path: Path) -> None:
    theirs = transformers_model(family, kind).train()
    ours = load_ours(save_transformers(theirs, tmp_path), kind).train()
    optimizers = [torch.optim.AdamW(model.parameters(), lr=1e-3) for model in (theirs, ours)]
    for _ in range(20):
        their_loss, our_loss, _ = both_losses(kind, theirs, ours)
        expected, got = their_loss.item(), our_loss.item()
        assert abs(got - expected) <= 1e-4 * max(1.0, abs(expected))
        for loss, optimizer in zip((their_loss, our_loss), optimizers, strict=True):
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


@pytest.mark.parametrize(("family", "kind"), CASES)
def test_saved_model_opens_in_transformers(family: str, kind: str, tmp_path: Path) -> None:
    ours = load_ours(save_transformers(transformers_model(family, kind), tmp_path / "theirs"), kind)
    save_folder(ours, tmp_path / "ours")
    again, loading_info = open_in_transformers(tmp_path / "ours", f"{family}For{TASKS[kind]}")
    assert loading_info == {"missing_keys": [], "unexpected_keys": [], "mismatched_keys": []}
    _, _, scores = both_losses(kind, again.eval(), ours)
    for expected, got in scores:
        assert_close(got, expected)


def open_in_transformers(folder: Path, name: str) -> tuple[Any, dict[str, list[Any]]]:
    model, loading_info = getattr(transformers, name).from_pretrained(folder, output_loading_info=True)
    keys = ("missing_keys", "unexpected_keys", "mismatched_keys")
    return model, {key: sorted(loading_info[key]) for key in keys}


SHARING_CASES = [
    ModelSettings(share="all", layers=4, groups=2),
    ModelSettings(share="attention", layers=4),
    ModelSettings(share="ffn", layers=4),
    ModelSettings(share="attention", layers=4, groups=2),
    ModelSettings(share="none", layers=4),
    ModelSettings(share="all", layers=4, inner_groups=2),
    ModelSettings(share="all", layers=4, embedding_size=24),
    ModelSettings(share="attention", layers=4, embedding_size=24),
    ModelSettings(share="none", layers=4, embedding_size=24, activation="gelu"),
]


def small_settings(plan: ModelSettings) -> ModelSettings:
    from dataclasses import replace

    size = 24 if plan.embedding_size == 24 else 10
    return replace(plan, embedding_size=size, hidden_size=24, heads=4, vocab_size=61, max_length=16)


@pytest.mark.parametrize("plan", SHARING_CASES, ids=str)
def test_round_trip_for_every_sharing(plan: ModelSettings, tmp_path: Path) -> None:
    ours = Model(small_settings(plan), HeadSettings(kind="mlm"), seed=3).eval()
    save_folder(ours, tmp_path / "ours")
    family = json.loads((tmp_path / "ours" / "config.json").read_text())["model_type"].capitalize()
    theirs, loading_info = open_in_transformers(tmp_path / "ours", f"{family}ForMaskedLM")
    assert loading_info == {"missing_keys": [], "unexpected_keys": [], "mismatched_keys": []}
    inputs = batch()
    with torch.no_grad():
        expected = theirs.eval()(**inputs).logits[inputs["attention_mask"].bool()]
        assert_close(ours(strip_from_inputs(inputs)).logits, expected)
    back = load(tmp_path / "ours")
    assert back.settings == ours.settings
    for name, parameter in ours.named_parameters():
        assert torch.equal(dict(back.named_parameters())[name], parameter), name


def test_differing_copies_load_as_groups(tmp_path: Path) -> None:
    ours = Model(
        small_settings(ModelSettings(share="attention", layers=4, embedding_size=24)),
        HeadSettings(kind="mlm"),
    )
    save_folder(ours, tmp_path / "ours")
    theirs, _ = open_in_transformers(tmp_path / "ours", "AlbertForMaskedLM")
    with torch.no_grad():
        theirs.albert.encoder.albert_layer_groups[2].albert_layers[0].attention.dense.weight += 0.5
        theirs.albert.encoder.embedding_hidden_mapping_in.weight += 0.5
    back = load(save_transformers(theirs, tmp_path / "theirs"))
    assert (back.settings.share, back.settings.groups, back.settings.always_project) == ("all", 4, True)
    inputs = batch()
    with torch.no_grad():
        expected = theirs.eval()(**inputs).logits[inputs["attention_mask"].bool()]
        assert_close(back.eval()(strip_from_inputs(inputs)).logits, expected)


def test_another_head_is_initialized_with_a_message(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    progress.set_quiet(False)
    folder = save_transformers(transformers_model("Albert", "pretrain"), tmp_path)
    capsys.readouterr()
    model = load(folder, head="span")
    assert "head span is newly initialized (head.out)" in capsys.readouterr().err
    original = load(folder)
    assert torch.equal(model.encoder.embedding.tokens.weight, original.encoder.embedding.tokens.weight)
    with pytest.raises(InputError, match=r"head spam: unknown \(did you mean span\?\)"):
        load(folder, head="spam")  # type: ignore[arg-type]  # the tested error


def test_encoder_without_head_loads(tmp_path: Path) -> None:
    whole = transformers_model("Albert", "pretrain")
    whole.albert.save_pretrained(tmp_path)
    model = load(tmp_path).eval()
    inputs = batch()
    with torch.no_grad():
        expected = whole.albert(**inputs).last_hidden_state[inputs["attention_mask"].bool()]
        assert_close(model.encoder(strip_from_inputs(inputs)), expected)


def test_answerable_layer_is_saved_in_its_own_file(tmp_path: Path) -> None:
    head = HeadSettings(kind="span", answerable=True)
    ours = Model(small_settings(ModelSettings()), head, seed=5).eval()
    save_folder(ours, tmp_path / "ours")
    _, loading_info = open_in_transformers(tmp_path / "ours", "AlbertForQuestionAnswering")
    assert loading_info["unexpected_keys"] == []
    back = load(tmp_path / "ours").eval()
    strip = strip_from_inputs(batch())
    assert torch.equal(back(strip).answerable_logits, ours(strip).answerable_logits)


Damage = Callable[[Path], None]


def truncate(folder: Path) -> None:
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-100])


def edit(change: Callable[[dict[str, Tensor]], None]) -> Damage:
    def damage(folder: Path) -> None:
        from safetensors.torch import load_file, save_file

        tensors = load_file(folder / "model.safetensors")
        change(tensors)
        save_file(tensors, folder / "model.safetensors")

    return damage


def configure(**changes: Any) -> Damage:
    def damage(folder: Path) -> None:
        file = folder / "config.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | changes))

    return damage


WORDS = "albert.embeddings.word_embeddings.weight"


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (truncate, r"model\.safetensors: damaged, or not a safetensors file"),
        (edit(lambda t: t.__delitem__(WORDS)), rf"model\.safetensors: tensor {WORDS} is missing"),
        (edit(lambda t: t.update(surplus=torch.ones(2))), "unexpected tensor surplus"),
        (
            edit(lambda t: t.update({WORDS: torch.ones(3, 3)})),
            rf"tensor {WORDS} has shape \[3, 3\], but the config requires \[61, 10\]",
        ),
        (configure(model_type="roberta"), r"config\.json: model_type 'roberta' is not supported"),
        (configure(architectures=["AlbertForPoetry"]), "architecture AlbertForPoetry is not supported"),
        (configure(architectures=[5]), r"architectures = \[5\]: must be a list of names"),
        (
            configure(architectures=None),
            r"has predictions\.LayerNorm\.bias, but the config names no architecture",
        ),
        (
            configure(num_hidden_layers=2, num_hidden_groups=1, hidden_act=["gelu"]),
            "hidden_act .* is not supported",
        ),
        (edit(lambda t: t.update({WORDS: t[WORDS].to(torch.int8)})), rf"tensor {WORDS} is torch\.int8"),
        (
            edit(lambda t: t.update({"predictions.decoder.bias": torch.ones(61)})),
            "differs from predictions.bias",
        ),
        (configure(hidden_act="relu"), "hidden_act 'relu' is not supported"),
        (configure(num_attention_heads=5), "must divide hidden_size = 24"),
        (lambda f: (f / "config.json").write_text("{") and None, r"config\.json: not JSON"),
        (lambda f: (f / "config.json").unlink(), r"config\.json: No such file"),
        (lambda f: (f / "model.safetensors").unlink(), "has no model.safetensors"),
    ],
)
def test_damaged_checkpoint_error_is_one_line(damage: Damage, message: str, tmp_path: Path) -> None:
    folder = save_transformers(transformers_model("Albert", "mlm"), tmp_path)
    damage(folder)
    with pytest.raises(InputError, match=message) as caught:
        load(folder)
    assert "\n" not in str(caught.value)


class Exploit:
    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return (eval, ("open('exploited', 'w')",))


def test_pickle_with_code_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = save_transformers(transformers_model("Albert", "mlm"), tmp_path / "m")
    (folder / "model.safetensors").unlink()
    torch.save({"weight": Exploit()}, folder / "pytorch_model.bin")
    with pytest.raises(InputError, match=r"pytorch_model\.bin: refused"):
        load(folder)
    assert not (tmp_path / "exploited").exists()


def test_plain_pickle_and_shards_load(tmp_path: Path) -> None:
    theirs = transformers_model("Bert", "mlm")
    whole = load(save_transformers(theirs, tmp_path / "whole"))
    theirs.save_pretrained(tmp_path / "shards", max_shard_size="8KB")
    assert (tmp_path / "shards" / "model.safetensors.index.json").exists()
    save_transformers(theirs, tmp_path / "pickle")
    (tmp_path / "pickle" / "model.safetensors").unlink()
    torch.save(theirs.state_dict(), tmp_path / "pickle" / "pytorch_model.bin")
    for folder in ("shards", "pickle"):
        for name, parameter in load(tmp_path / folder).named_parameters():
            assert torch.equal(parameter, dict(whole.named_parameters())[name]), name


def test_save_neither_overwrites_nor_leaves_partial_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = Model(small_settings(ModelSettings()))
    save_folder(model, tmp_path / "m")
    with pytest.raises(InputError, match="exists already"):
        save_folder(model, tmp_path / "m")

    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("albertine.interop.huggingface.write_tensors", full)
    with pytest.raises(OSError, match="No space left"):
        save_folder(model, tmp_path / "n")
    assert [one.name for one in tmp_path.iterdir()] == ["m"]


def change_in_transformers(folder: Path, target: Path, name: str, **changes: Any) -> Path:
    """Open our checkpoint in transformers with changes to its config, and save it there."""
    kind = getattr(transformers, name)
    kind.from_pretrained(folder, **changes).save_pretrained(target)
    return target


def test_changes_by_transformers_win_over_saved_settings(tmp_path: Path) -> None:
    save_folder(Model(small_settings(ModelSettings(layers=4)), seed=1), tmp_path / "ours")
    shallow = load(
        change_in_transformers(
            tmp_path / "ours", tmp_path / "shallow", "AlbertForPreTraining", num_hidden_layers=2
        )
    )
    assert shallow.settings.layers == 2
    labelled = change_in_transformers(
        tmp_path / "ours", tmp_path / "labelled", "AlbertForSequenceClassification", num_labels=3
    )
    model = load(labelled)
    assert (model.head_settings.kind, model.head_settings.labels) == ("classify", 3)
    alone = load(change_in_transformers(tmp_path / "ours", tmp_path / "alone", "AlbertModel"))
    assert torch.equal(alone.encoder.embedding.tokens.weight, model.encoder.embedding.tokens.weight)


def test_gamma_beta_names_and_extra_heads_load(tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    folder = save_transformers(transformers_model("Bert", "pretrain"), tmp_path)
    tensors = load_file(folder / "model.safetensors")
    old = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
            "LayerNorm.bias", "LayerNorm.beta"
        ): tensor
        for name, tensor in tensors.items()
    }
    save_file(old, folder / "model.safetensors")
    configure(architectures=["BertForMaskedLM"])(folder)
    model = load(folder)
    assert model.head_settings.kind == "mlm"
    assert torch.equal(model.encoder.embedding.norm.weight, tensors["bert.embeddings.LayerNorm.weight"])


def test_unexpected_layers_are_refused_with_any_head(tmp_path: Path) -> None:
    folder = save_transformers(transformers_model("Bert", "pretrain"), tmp_path)
    configure(num_hidden_layers=2)(folder)
    for head in (None, "span"):
        with pytest.raises(InputError, match=r"unexpected tensor bert\.encoder\.layer\.2\."):
            load(folder, head=head)


def test_task_layers_are_not_reused_for_other_tasks(tmp_path: Path) -> None:
    classifier = save_transformers(transformers_model("Albert", "classify"), tmp_path / "classify")
    fresh = load(classifier, head=HeadSettings(kind="token", labels=3), seed=8)
    again = load(classifier, head=HeadSettings(kind="token", labels=3), seed=9)
    assert not torch.equal(parameter(fresh, "head.out.weight"), parameter(again, "head.out.weight"))
    assert load(classifier, head="classify").head_settings.labels == 2
    pretrained = save_transformers(transformers_model("Albert", "pretrain"), tmp_path / "pretrain")
    taken = parameter(load(pretrained, head="mlm"), "head.dense.weight")
    assert torch.equal(taken, parameter(load(pretrained), "head.masked.dense.weight"))


def parameter(model: Model, name: str) -> Tensor:
    return dict(model.named_parameters())[name]


@pytest.mark.parametrize(("problem", "labels"), [("multi_label_classification", 3), ("regression", 3)])
def test_unsupported_problem_types_are_refused(problem: str, labels: int, tmp_path: Path) -> None:
    folder = save_transformers(transformers_model("Albert", "classify"), tmp_path)
    configure(problem_type=problem)(folder)
    with pytest.raises(InputError, match=f"problem_type {problem} with {labels} labels is not supported"):
        load(folder)


def test_missing_answerable_layer_is_initialized_with_a_message(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    progress.set_quiet(False)
    save_folder(
        Model(small_settings(ModelSettings()), HeadSettings(kind="span", answerable=True)), tmp_path / "ours"
    )
    back = change_in_transformers(tmp_path / "ours", tmp_path / "theirs", "AlbertForQuestionAnswering")
    capsys.readouterr()
    load(back)
    assert "head span is newly initialized (head.answerable)" in capsys.readouterr().err


@pytest.mark.parametrize(
    "content", ["[]", '{"weight_map": [1]}', '{"weight_map": {"a": 5}}', '{"weight_map": {"a": ".."}}']
)
def test_invalid_index_error_is_one_line(content: str, tmp_path: Path) -> None:
    folder = save_transformers(transformers_model("Albert", "mlm"), tmp_path)
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors.index.json").write_text(content)
    with pytest.raises(InputError, match=r"index of shards|missing, but"):
        load(folder)


def test_loaded_model_is_in_evaluation_mode(tmp_path: Path) -> None:
    model = load(save_transformers(transformers_model("Bert", "classify", hidden_dropout_prob=0.3), tmp_path))
    strip = strip_from_inputs(batch())
    assert torch.equal(model(strip).logits, model(strip).logits)
