"""TOML and dotted options become settings, and settings become TOML that reads back."""

import tomllib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from albertine.errors import InputError
from albertine.settings import MODELS, Layer, ModelSettings, Settings, layer_from_file, read, setting, write
from albertine.settings.model import Activation, Share


@dataclass(frozen=True)
class Tree(Settings):
    name: str = setting("x", "A name.")
    out: Path | None = setting(None, "A path.")
    rate: float = setting(0.5, "A rate.")
    fast: bool = setting(False, "A flag.")
    model: ModelSettings = setting(ModelSettings(), "The network.")


@dataclass(frozen=True)
class Small(Settings):
    model: ModelSettings = setting(MODELS["demo"], "A network of its own.")


def test_a_tables_default_is_the_one_that_was_declared() -> None:
    assert Small().model == MODELS["demo"] == read(Small).model
    assert read(Small, Layer({"model": {"layers": "2"}})).model == replace(MODELS["demo"], layers=2)
    assert read(Small, Layer({"model": {"preset": "albert-tiny"}})).model == MODELS["albert-tiny"]


@st.composite
def networks(draw: st.DrawFn) -> ModelSettings:
    share = draw(st.sampled_from(get_args(Share)))
    heads, groups = draw(st.integers(1, 16)), 1 if share == "none" else draw(st.integers(1, 4))
    return ModelSettings(
        vocab_size=draw(st.integers(8, 10**6)),
        embedding_size=draw(st.integers(1, 512)),
        hidden_size=heads * draw(st.integers(1, 128)),
        layers=groups * draw(st.integers(1, 12)),
        heads=heads,
        ffn_size=draw(st.none() | st.integers(1, 4096)),
        share=share,
        groups=groups,
        inner_groups=draw(st.integers(1, 3)) if share == "all" else 1,
        max_length=draw(st.integers(2, 2048)),
        segments=draw(st.integers(1, 4)),
        activation=draw(st.sampled_from(get_args(Activation))),
        dropout=draw(st.floats(0, 0.99)),
        attention_dropout=draw(st.floats(0, 0.99)),
    )


# A TOML file is UTF-8, which has no lone surrogates; a path has no NUL.
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=30)
trees = st.builds(
    Tree,
    name=texts,
    out=st.none() | texts.map(Path),
    rate=st.floats(allow_nan=False, allow_infinity=False),
    fast=st.booleans(),
    model=networks(),
)


@given(trees)
def test_written_settings_read_back_the_same(tree: Tree) -> None:
    values = tomllib.loads(write(tree))
    assert read(Tree, Layer(values, "written.toml")) == tree


@given(trees)
def test_settings_typed_as_options_read_back_the_same(tree: Tree) -> None:
    typed: dict[str, Any] = {
        "name": tree.name,
        "rate": str(tree.rate),
        "fast": str(tree.fast).lower(),
        "model": {key: str(getattr(tree.model, key)) for key in tree.model.__dataclass_fields__},
    }
    assert read(Tree, Layer(typed)) == replace(tree, out=None)


def test_later_layers_win_key_by_key() -> None:
    file = Layer({"rate": 0.1, "model": {"layers": 6, "heads": 4}}, "recipe.toml")
    typed = Layer({"model": {"layers": "3"}})
    assert read(Tree, file, typed) == Tree(rate=0.1, model=ModelSettings(layers=3, heads=4))


def test_a_preset_sets_the_whole_table_and_the_layers_own_keys_go_on_top() -> None:
    file = Layer({"model": {"layers": 6, "preset": "bert-large"}}, "recipe.toml")
    assert read(Tree, file).model == replace(MODELS["bert-large"], layers=6)
    later = Layer({"model": {"preset": "albert-tiny", "heads": "2"}})
    assert read(Tree, file, later).model == replace(MODELS["albert-tiny"], heads=2)


@pytest.mark.parametrize(
    ("toml", "message"),
    [
        (
            "naem = 3",
            "FILE: naem = 3: unknown setting (did you mean name?); known: name, out, rate, fast, model",
        ),
        (
            "[model]\nhiden_size = 3",
            "FILE: model.hiden_size = 3: unknown setting (did you mean model.hidden_size?)",
        ),
        ("name = 3", "FILE: name = 3: must be text in quotes"),
        ("fast = 'true'", 'FILE: fast = "true": must be true or false'),
        ("rate = [1]", "FILE: rate = [1]: must be a number"),
        ("rate = inf", "FILE: rate = inf: must be a finite number"),
        ("model = 3", "FILE: model = 3: is a table; set its keys, as in model.NAME"),
        ("[name]\nx = 1", "FILE: name = {...}: must be text in quotes"),
        ("[model]\nlayers = '6'", 'FILE: model.layers = "6": must be a whole number'),
        ("[model]\nshare = 'atention'", "did you mean attention?"),
        ("[model]\nheads = 7", "FILE: model.heads = 7: must divide hidden_size = 768; try 6 or 8"),
        (
            "[model]\nhidden_size = 100",
            "FILE: model.hidden_size = 100: does not fit model.heads = 12, which must divide hidden_size",
        ),
        (
            "[model]\npreset = 'albert-bsae'",
            'FILE: model.preset = "albert-bsae": unknown preset (did you mean',
        ),
        ("preset = 'albert-base'", 'FILE: preset = "albert-base": there are no presets'),
        ("[model", "FILE: not valid TOML: "),
        ("x = " + "[" * 5000, "FILE: not valid TOML: "),
        ("rate = 1" + "0" * 5000, "FILE: not valid TOML: "),
        ('name = 3\n"a\\nb" = 4', "FILE: name = 3: must be text in quotes"),
        ('"a\\nb" = 4', "FILE: a\\U0000000ab = 4: unknown setting"),
        ('fast = "' + "a\\n" * 100 + '"', "must be true or false"),
    ],
)
def test_a_wrong_file_gets_one_line_with_file_and_key(tmp_path: Path, toml: str, message: str) -> None:
    file = tmp_path / "recipe.toml"
    file.write_text(toml)
    with pytest.raises(InputError) as caught:
        read(Tree, layer_from_file(file))
    assert message.replace("FILE", str(file)) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"missing\.toml"):
        layer_from_file(tmp_path / "missing.toml")
    (tmp_path / "latin.toml").write_bytes(b'name = "\xe9"')
    with pytest.raises(InputError, match="byte 8 is not UTF-8"):
        layer_from_file(tmp_path / "latin.toml")


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        ({"model": {"heads": "5"}}, "--model.heads 5: must divide hidden_size = 768; try 4 or 6"),
        ({"rate": "quick"}, "--rate quick: must be a number"),
        (
            {"model": {"preset": "albert-bsae"}},
            "--model albert-bsae: unknown preset (did you mean albert-base?)",
        ),
    ],
)
def test_a_wrong_option_is_named_as_it_was_typed(typed: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        read(Tree, Layer(typed))
    assert str(caught.value).startswith(message)


def test_of_two_that_do_not_fit_the_one_given_last_is_named() -> None:
    file = Layer({"name": "x", "model": {"hidden_size": 100, "heads": 10}}, "recipe.toml")
    with pytest.raises(
        InputError, match=r"^--model\.hidden-size 64: does not fit model\.heads = 10, which must divide"
    ):
        read(Tree, file, Layer({"model": {"hidden_size": "64"}}))
    with pytest.raises(InputError, match=r"^--model\.heads 7: must divide hidden_size = 100"):
        read(Tree, file, Layer({"model": {"heads": "7"}}))


def test_a_wrong_value_is_refused_even_where_a_later_layer_covers_it() -> None:
    file = Layer({"model": {"hidden_size": "wide"}}, "recipe.toml")
    with pytest.raises(InputError, match=r"recipe\.toml: model\.hidden_size"):
        read(Tree, file, Layer({"model": {"preset": "albert-large"}}))


@pytest.mark.parametrize("text", ["1" + "0" * 400, "1" * 5000, "99999999999"])
def test_a_number_beyond_all_bounds_is_refused_at_once(text: str) -> None:
    with pytest.raises(InputError, match=r"--model\.layers 9?1?[0-9]*(\.\.\.)?: must be"):
        read(Tree, Layer({"model": {"layers": text}}))
