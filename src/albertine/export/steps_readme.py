"""The README of a model that was exported with a graph for each block and head."""

from collections.abc import Mapping

from albertine.export.readme_code import LIBRARIES, code_for_steps
from albertine.export.readme_examples import CodeExample
from albertine.settings import HeadSettings, ModelSettings
from albertine.settings.export import ExportFormat

_TEMPLATE = """# {name}

An ALBERT for {library} whose steps of depth are taken one by one: it predicts {purpose}.
Weights in {precision}, {size}.
{scores}
## With Albertine

In this folder, after `pip install -e '.[deploy]'` in a copy of its source:

```sh
{command}
```

`--depth` works here and, for a fine-tuned model, `--exit`,
also in `albertine.{function}` and `albertine serve`.

## Without Albertine

In this folder, after `pip install numpy tokenizers {package}`, for at most {max_length} tokens:

```python
{code}
```

| graph | input | output |
|---|---|---|
| `embed` | {embed_inputs} [rows, length] | `states` [rows, length, {width}] |
| a block | `states`, `attention_mask`, `position_ids`{step_input} | `next_states` |
| a head | {head_inputs} | {head_outputs} |
{stop}
A row may hold several sequences. In `attention_mask`, padding is 0, and the tokens of each sequence of a row
have a number of their own from 1. In `position_ids`, each sequence counts from 0. {head_advice}
{options}"""

# What the text says of the head: most heads, and one that compares the two texts of a pair.
_HEAD = {
    "head_inputs": "`states` [rows, length, {width}]",
    "head_outputs": "logits of each token, or of the first token of each row",
    "head_advice": "A head treats every token\nby itself, so its rows may be the states of any tokens.",
}
_PAIR_HEAD = {
    "head_inputs": "`states`, `attention_mask`, `token_type_ids` [rows, length]",
    "head_outputs": "logits [rows, length, labels], for regression [rows, length]; those of a sequence are "
    "at its first token",
    "head_advice": "A head compares the\ntwo segments of a sequence, so it needs all tokens of the row.",
}

_STOP = "| `stop` | states of `[CLS]`, `before` and `after` a step [sequences, {width}] | logit to stop |\n"


def steps_readme(
    values: Mapping[str, object],
    to: ExportFormat,
    max_length: int,
    example: CodeExample,
    model: ModelSettings,
    head: HeadSettings,
) -> str:
    """Return the text of the README.

    Args:
        values: title, purpose, size, precision, scores, command and function, by the names of the template.
        to: format of the graphs.
        max_length: number of tokens to which the code truncates.
        example: what the code encodes and prints.
        model: settings of the encoder.
        head: settings of the head.
    """
    of_head = _PAIR_HEAD if head.matching else _HEAD
    return _TEMPLATE.format(
        **values,
        **{name: text.format(width=model.hidden_size) for name, text in of_head.items()},
        library=LIBRARIES[to].title,
        package=LIBRARIES[to].package,
        code=code_for_steps(to, max_length, example, model, head),
        max_length=max_length,
        embed_inputs="`input_ids`, `token_type_ids`, `position_ids`"
        + (", `attention_mask`" if model.mark_matches else ""),
        width=model.hidden_size,
        step_input=", `step` []" if model.step_signal else "",
        stop=_STOP.format(width=model.hidden_size) if head.learned_exit else "",
        options=f"\n{example.note}" if example.note else "",
    )
