"""The README of a model that was exported with a graph for each block and head."""

from collections.abc import Mapping

from albertine.engines.step_files import block_graphs, head_graphs, step_graphs
from albertine.export.readme_code import LITERAL_TEXT
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
"""

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

_CODE = """import numpy as np
{imports}
from tokenizers import Tokenizer

{open_graphs}
blocks = {blocks}
heads = {heads}
tokenizer = Tokenizer.from_file("tokenizer.json"){literal}
tokenizer.enable_truncation({max_length})
encoded = tokenizer.encode({texts})
segments = np.array([encoded.type_ids])
mask, positions = np.array([encoded.attention_mask]), np.arange(len(encoded.ids))[None]
(states,) = run("embed", {{
    "input_ids": np.array([encoded.ids]),
    "token_type_ids": segments,
    "position_ids": positions,{embed_mask}
}})
for step, (names, head) in enumerate(zip(blocks, heads)):
    for name in names:
        inputs = {{"states": states, "attention_mask": mask, "position_ids": positions}}
        (states,) = run(name, inputs{step_value})
    print(step + 1, {logits})"""

_LOGITS = 'run(head, {"states": states})'
_PAIR_LOGITS = 'run(head, {"states": states, "attention_mask": mask, "token_type_ids": segments})[0][:, 0]'

_OPEN: dict[ExportFormat, tuple[str, str]] = {
    "onnx": (
        "import onnxruntime",
        """graphs = {{name: onnxruntime.InferenceSession(f"{{name}}.onnx") for name in {names}}}
def run(name, inputs):
    return graphs[name].run(None, inputs)
""",
    ),
    "openvino": (
        "import openvino",
        """core = openvino.Core()
# Without the hint, products are in bf16 where the processor computes it fast.
hint = {{"INFERENCE_PRECISION_HINT": "f32"}}
graphs = {{name: core.compile_model(f"{{name}}.xml", "CPU", hint) for name in {names}}}
def run(name, inputs):
    return list(graphs[name](inputs).values())
""",
    ),
}


def steps_readme(
    values: Mapping[str, str],
    to: ExportFormat,
    model: ModelSettings,
    head: HeadSettings,
    max_length: int,
    *,
    is_pretrained: bool,
) -> str:
    """Return the text of the README.

    Args:
        values: title, purpose, size, precision, scores, command, function and package, by the names of the
            template.
        to: format of the graphs.
        model: settings of the encoder.
        head: settings of the head.
        max_length: number of tokens to which the code truncates.
        is_pretrained: whether the model predicts masked tokens, so that a text may have the mask token.
    """
    imports, open_graphs = _OPEN[to]
    names = [name for name in step_graphs(model, head) if name != "stop"]
    code = _CODE.format(
        imports=imports,
        open_graphs=open_graphs.format(names=names),
        blocks=block_graphs(model),
        embed_mask='\n    "attention_mask": mask,' if model.mark_matches else "",
        heads=head_graphs(model, head),
        step_value=' | {"step": np.array(step)}' if model.step_signal else "",
        texts='"A fine film.", "The film is bad."' if head.matching else '"A fine film."',
        logits=_PAIR_LOGITS if head.matching else _LOGITS,
        literal="" if is_pretrained else f"\n{LITERAL_TEXT}",
        max_length=max_length,
    )
    of_head = _PAIR_HEAD if head.matching else _HEAD
    return _TEMPLATE.format(
        **values,
        **{name: text.format(width=model.hidden_size) for name, text in of_head.items()},
        code=code,
        max_length=max_length,
        embed_inputs="`input_ids`, `token_type_ids`, `position_ids`"
        + (", `attention_mask`" if model.mark_matches else ""),
        width=model.hidden_size,
        step_input=", `step` []" if model.step_signal else "",
        stop=_STOP.format(width=model.hidden_size) if head.learned_exit else "",
    )
