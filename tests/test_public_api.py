"""Tests of the public API: a snapshot of its names and signatures, and the examples of README and docs."""

import contextlib
import inspect
import io
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import transformers

import albertine
from albertine.corpus.corpus import Corpus
from albertine.settings import HeadSettings
from albertine.tasks.card import TaskCard
from tests.task_fixtures import checkpoint, reviews, save_untrained_model, write_csv, write_jsonl

__all__ = ["checkpoint"]

ROOT = Path(__file__).parent.parent
SNAPSHOT = Path(__file__).parent / "public_api.txt"
# Classes whose public methods are part of the API.
CLASSES_WITH_METHODS = ("FinetuneResults", "Model", "Strip", "Tokenizer")


def signature_line(name: str, value: Any) -> str:
    if isinstance(value, property | str) or not callable(value):
        return name
    return name + str(inspect.signature(value)).replace("pathlib._local.", "pathlib.")


def public_api() -> str:
    """Return the names of the public API with their signatures, one per line."""
    lines = []
    for name in albertine.__all__:
        value = getattr(albertine, name)
        is_error = isinstance(value, type) and issubclass(value, Exception)
        lines.append(name if is_error else signature_line(name, value))
        if name in CLASSES_WITH_METHODS:
            lines += [
                signature_line(f"{name}.{key}", getattr(value, key))
                for key, member in vars(value).items()
                if not key.startswith("_")
                and (callable(member) or isinstance(member, property | classmethod | staticmethod))
            ]
    return "".join(f"{line}\n" for line in lines)


def test_public_api_matches_the_snapshot() -> None:
    """If a change is intended, replace tests/public_api.txt by the text that this test prints."""
    api = public_api()
    print(api)
    assert api == SNAPSHOT.read_text(encoding="utf-8")


def test_every_public_name_is_documented() -> None:
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    missing = [name for name in albertine.__all__ if name not in page]
    assert missing == ["__version__"]


@pytest.mark.slow
def test_examples_of_the_api_page_run(
    checkpoint: Path, corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(checkpoint, "runs/first")
    shutil.copytree(corpus.folder, "corpus")
    write_csv(Path("reviews.csv"), reviews(1, 60))
    write_csv(Path("new.csv"), [{"review": row["review"]} for row in reviews(2, 5)])
    pair = {"sentence_good": "Kalo mi.", "sentence_bad": "Kalo ren.", "UID": "a", "linguistics_term": "b"}
    write_jsonl(Path("blimp/a.jsonl"), [pair])
    for folder, head, card in (
        ("rte", HeadSettings("classify"), TaskCard("rte", "classify", ("a", "b"), max_length=64)),
        ("squad", HeadSettings("span"), TaskCard("squad-1.1", "span", max_length=64)),
        ("race", HeadSettings("choice", labels=1, options=4), TaskCard("race", "choice", max_length=64)),
        ("names", HeadSettings("token"), TaskCard("tag", "tag", ("A", "B"), max_length=64)),
    ):
        save_untrained_model(Path("runs") / folder, checkpoint, head, card)
    text = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    namespace: dict[str, Any] = {}
    with contextlib.redirect_stdout(io.StringIO()) as output:
        for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
            exec(block, namespace)
    assert namespace["hidden"].shape[1] == 32
    assert "mlm_loss" in namespace["metrics"]
    assert namespace["step"] == 9
    assert not albertine.load("runs/own").missing_parameters
    assert albertine.fill_mask_pipeline("runs/own").fill("Ka [MASK] lo.")
    assert namespace["results"].task == "classify"
    assert namespace["count"] == 5
    assert len(Path("scores.jsonl").read_text(encoding="utf-8").splitlines()) == 5
    assert namespace["result"].overall.num_pairs == 1
    assert "albert-base: a preset, which has no trained weights" in output.getvalue()


def test_readme_example_runs(tmp_path: Path) -> None:
    code = (ROOT / "README.md").read_text(encoding="utf-8").split("```python\n")[1].split("```")[0]
    completed = subprocess.run(
        [sys.executable, "-c", code + "\nassert hidden.shape == (8, 768)"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert completed.returncode == 0, completed.stderr
    assert (tmp_path / "my-albert" / "model.safetensors").exists()


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = albertine.nothing


def test_functions_are_not_hidden_by_packages() -> None:
    import albertine.finetune.settings
    import albertine.pretrain.settings

    assert inspect.isfunction(albertine.finetune)
    assert inspect.isfunction(albertine.pretrain)


def test_load_refuses_presets_and_create_makes_them() -> None:
    with pytest.raises(albertine.InputError, match=r'albertine.create\("demo"\)'):
        albertine.load("demo")
    assert albertine.create("demo", seed=3).settings.hidden_size == 128
    with pytest.raises(
        albertine.InputError, match=r"albert-lage: unknown preset \(did you mean albert-large"
    ):
        albertine.create("albert-lage")


def test_tokenizer_matches_transformers(tokenizer: Path) -> None:
    actual = albertine.load_tokenizer(str(tokenizer))
    reference: Any = transformers.AutoTokenizer.from_pretrained(tokenizer)
    for texts in (("Kalo mi ren.",), ("Kalo mi ren.", "Tas, vu 1,000 dor!"), ("",)):
        ids = actual.encode(*texts)
        assert ids == reference.encode(*texts)
        plain_ids = actual.encode(*texts, add_special_tokens=False)
        assert plain_ids == reference.encode(*texts, add_special_tokens=False)
        assert actual.decode(ids) == reference.decode(ids, skip_special_tokens=True)


def test_dir_lists_the_public_api() -> None:
    assert dir(albertine) == sorted(albertine.__all__)
