"""Tests of reading settings from TOML and command-line options, and of writing them as TOML."""

import tomllib
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from albertine.errors import InputError
from albertine.settings import (
    MODEL_PRESETS,
    ModelSettings,
    Settings,
    SettingsSource,
    build_settings,
    read_settings_file,
    setting,
    settings_to_toml,
)
from albertine.settings.model import Activation, Sharing


@dataclass(frozen=True)
class ExampleSettings(Settings):
    name: str = setting("x", "A name.")
    out: Path | None = setting(None, "A path.")
    rate: float = setting(0.5, "A rate.")
    fast: bool = setting(False, "A flag.")
    model: ModelSettings = setting(ModelSettings(), "The model.")


@dataclass(frozen=True)
class DemoModelSettings(Settings):
    model: ModelSettings = setting(MODEL_PRESETS["demo"], "The model.")


def test_table_has_the_default_that_its_setting_declares() -> None:
    assert DemoModelSettings().model == MODEL_PRESETS["demo"] == build_settings(DemoModelSettings).model
    assert build_settings(DemoModelSettings, SettingsSource({"model": {"layers": "2"}})).model == replace(
        MODEL_PRESETS["demo"], layers=2
    )
    assert (
        build_settings(DemoModelSettings, SettingsSource({"model": {"preset": "albert-tiny"}})).model
        == MODEL_PRESETS["albert-tiny"]
    )


@st.composite
def model_settings(draw: st.DrawFn) -> ModelSettings:
    share = draw(st.sampled_from(get_args(Sharing)))
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


# A TOML file is UTF-8, which cannot encode lone surrogates; a path cannot contain NUL.
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=30)
example_settings = st.builds(
    ExampleSettings,
    name=texts,
    out=st.none() | texts.map(Path),
    rate=st.floats(allow_nan=False, allow_infinity=False),
    fast=st.booleans(),
    model=model_settings(),
)


@given(example_settings)
def test_written_toml_reads_back_equal(settings: ExampleSettings) -> None:
    values = tomllib.loads(settings_to_toml(settings))
    assert build_settings(ExampleSettings, SettingsSource(values, "written.toml")) == settings


@given(example_settings)
def test_command_line_options_read_back_equal(settings: ExampleSettings) -> None:
    options: dict[str, Any] = {
        "name": settings.name,
        "rate": str(settings.rate),
        "fast": str(settings.fast).lower(),
        "model": {key: str(value) for key, value in asdict(settings.model).items()},
    }
    assert build_settings(ExampleSettings, SettingsSource(options)) == replace(settings, out=None)


def test_later_sources_win_key_by_key() -> None:
    file = SettingsSource({"rate": 0.1, "model": {"layers": 6, "heads": 4}}, "recipe.toml")
    options = SettingsSource({"model": {"layers": "3"}})
    assert build_settings(ExampleSettings, file, options) == ExampleSettings(
        rate=0.1, model=ModelSettings(layers=3, heads=4)
    )


def test_preset_sets_its_table_and_keys_of_the_same_source_override_it() -> None:
    file = SettingsSource({"model": {"layers": 6, "preset": "bert-large"}}, "recipe.toml")
    assert build_settings(ExampleSettings, file).model == replace(MODEL_PRESETS["bert-large"], layers=6)
    options = SettingsSource({"model": {"preset": "albert-tiny", "heads": "2"}})
    assert build_settings(ExampleSettings, file, options).model == replace(
        MODEL_PRESETS["albert-tiny"], heads=2
    )


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
        (
            "model = 3",
            "FILE: model = 3: must be a table; set its keys, such as model.preset or",
        ),
        ("[name]\nx = 1", "FILE: name = {...}: must be text in quotes"),
        ("[model]\nlayers = '6'", 'FILE: model.layers = "6": must be an integer'),
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
        ("preset = 'albert-base'", 'FILE: preset = "albert-base": this table has no presets'),
        ("[model", "FILE: not valid TOML: "),
        ("x = " + "[" * 5000, "FILE: not valid TOML: "),
        ("rate = 1" + "0" * 5000, "FILE: not valid TOML: "),
        ('name = 3\n"a\\nb" = 4', "FILE: name = 3: must be text in quotes"),
        ('"a\\nb" = 4', "FILE: a\\nb = 4: unknown setting"),
        ('fast = "' + "a\\n" * 100 + '"', "must be true or false"),
    ],
)
def test_file_error_is_one_line_with_file_and_key(tmp_path: Path, toml: str, message: str) -> None:
    file = tmp_path / "recipe.toml"
    file.write_text(toml)
    with pytest.raises(InputError) as caught:
        build_settings(ExampleSettings, read_settings_file(file))
    assert message.replace("FILE", str(file)) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_byte_order_mark_is_ignored(tmp_path: Path) -> None:
    (tmp_path / "recipe.toml").write_bytes(b'\xef\xbb\xbfname = "a"')
    assert build_settings(ExampleSettings, read_settings_file(tmp_path / "recipe.toml")).name == "a"


def test_unreadable_file_error_names_the_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"missing\.toml"):
        read_settings_file(tmp_path / "missing.toml")
    (tmp_path / "latin.toml").write_bytes(b'name = "\xe9"')
    with pytest.raises(InputError, match="byte 8 is not UTF-8"):
        read_settings_file(tmp_path / "latin.toml")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"model": {"heads": "5"}}, "--model.heads 5: must divide hidden_size = 768; try 4 or 6"),
        ({"rate": "quick"}, "--rate quick: must be a number"),
        (
            {"model": {"preset": "albert-bsae"}},
            "--model albert-bsae: unknown preset (did you mean albert-base?)",
        ),
    ],
)
def test_option_error_names_the_option_as_typed(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        build_settings(ExampleSettings, SettingsSource(options))
    assert str(caught.value).startswith(message)


def test_conflict_error_names_the_latest_value() -> None:
    file = SettingsSource({"name": "x", "model": {"hidden_size": 100, "heads": 10}}, "recipe.toml")
    with pytest.raises(
        InputError, match=r"^--model\.hidden-size 64: does not fit model\.heads = 10, which must divide"
    ):
        build_settings(ExampleSettings, file, SettingsSource({"model": {"hidden_size": "64"}}))
    with pytest.raises(InputError, match=r"^--model\.heads 7: must divide hidden_size = 100"):
        build_settings(ExampleSettings, file, SettingsSource({"model": {"heads": "7"}}))


def test_wrong_value_is_refused_even_if_overridden() -> None:
    file = SettingsSource({"model": {"hidden_size": "wide"}}, "recipe.toml")
    with pytest.raises(InputError, match=r"recipe\.toml: model\.hidden_size"):
        build_settings(ExampleSettings, file, SettingsSource({"model": {"preset": "albert-large"}}))


@pytest.mark.parametrize("text", ["1" + "0" * 400, "1" * 5000, "99999999999"])
def test_huge_number_is_refused(text: str) -> None:
    with pytest.raises(InputError, match=r"--model\.layers 9?1?[0-9]*(\.\.\.)?: must be"):
        build_settings(ExampleSettings, SettingsSource({"model": {"layers": text}}))
