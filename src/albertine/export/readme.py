"""The README of an exported folder: how to run the model in it, with Albertine and without."""

import shlex
from pathlib import Path

from albertine.engines.exported_engine import AT_FIRST_TOKEN
from albertine.export.settings import ExportSettings
from albertine.model.model import Model
from albertine.progress import format_bytes
from albertine.settings import HeadSettings

_HEADS = {
    "pretrain": "masked tokens, and whether two segments are in order",
    "mlm": "masked tokens",
    "classify": "a label for each sequence",
    "regress": "a number for each sequence",
    "choice": "the right option of a question",
    "token": "a label for each token",
    "span": "the answer to a question, as a span of the text",
}

_TEMPLATE = """# {name}

An ALBERT for {library}: it predicts {purpose}. {files}, {size}, weights in {precision}.
{scores}

## With Albertine

```sh
{command}
```

`albertine.{function}` in Python and `albertine serve` take this folder too.

## Without Albertine

```python
{code}
```

| input, int64 | shape | meaning |
|---|---|---|
| `input_ids` | [rows, length] | token ids; 0 at padding |
| `attention_mask` | [rows, length] | 0 at padding, 1 at tokens |
| `token_type_ids` | [rows, length] | 0 in the first text, 1 in the second |

A row may hold several sequences, so that less padding is computed. Number them in `attention_mask`:
`1 1 1 2 2 0` are a sequence of three tokens, one of two, and padding. Tokens see only their own sequence.

| output | shape |
|---|---|
{outputs}
"""

_ONNX_CODE = """import numpy as np
import onnxruntime
from tokenizers import Tokenizer

session = onnxruntime.InferenceSession("model.onnx")
encoded = Tokenizer.from_file("tokenizer.json").encode("A fine film.")
outputs = session.run(None, {
    "input_ids": np.array([encoded.ids]),
    "attention_mask": np.array([encoded.attention_mask]),
    "token_type_ids": np.array([encoded.type_ids]),
})
print({output.name: values for output, values in zip(session.get_outputs(), outputs)})"""

_OPENVINO_CODE = """import numpy as np
import openvino
from tokenizers import Tokenizer

# Without the hint, products are in bf16 where the processor computes it fast.
hint = {"INFERENCE_PRECISION_HINT": "f32"}
model = openvino.Core().compile_model("model.xml", "CPU", hint)
encoded = Tokenizer.from_file("tokenizer.json").encode("A fine film.")
outputs = model({
    "input_ids": np.array([encoded.ids]),
    "attention_mask": np.array([encoded.attention_mask]),
    "token_type_ids": np.array([encoded.type_ids]),
})
print({output.any_name: values for output, values in outputs.items()})"""


def write_readme(
    folder: Path, name: str, model: Model, settings: ExportSettings, files: list[Path], scores: str
) -> None:
    """Write `README.md` into the folder of an export.

    Args:
        folder: the folder.
        name: name of the export, the title.
        model: the exported model.
        settings: format and precision.
        files: files of the model.
        scores: its scores in words; empty if they are those of the source.
    """
    head = model.head_settings
    is_pretrained, quoted = head.kind in ("pretrain", "mlm"), shlex.quote(name)
    text = _TEMPLATE.format(
        name=name,
        library="ONNX Runtime" if settings.to == "onnx" else "OpenVINO",
        purpose=_HEADS[head.kind],
        files=" and ".join(f"`{file.name}`" for file in files),
        size=format_bytes(sum(file.stat().st_size for file in files)),
        precision=settings.precision,
        scores=f"\n{scores}\n" if scores else "",
        command=f"albertine fill-mask {quoted} 'It was a [MASK].'"
        if is_pretrained
        else f"albertine predict {quoted} --data new.csv --out answers.csv",
        function="fill_mask_pipeline" if is_pretrained else "pipeline",
        code=_ONNX_CODE if settings.to == "onnx" else _OPENVINO_CODE,
        outputs="\n".join(_output_rows(head)),
    )
    (folder / "README.md").write_text(text, encoding="utf-8")


def _output_rows(head: HeadSettings) -> list[str]:
    """Return the rows of the table of outputs."""
    tokens = {
        "pretrain": {"mlm_logits": ", vocabulary"},
        "mlm": {"mlm_logits": ", vocabulary"},
        "token": {"logits": f", {head.labels}"},
        "span": {"start_logits": "", "end_logits": ""},
    }
    sequences = {
        "pretrain": {"pair_logits": ", 2"},
        "classify": {"logits": f", {head.labels}"},
        "regress": {"logits": ""},
        "choice": {"logits": ""},
        "span": {"answerable_logits": ""} if head.answerable else {},
    }
    rows = [f"| `{name}` | [rows, length{rest}] |" for name, rest in tokens.get(head.kind, {}).items()]
    for name, rest in sequences.get(head.kind, {}).items():
        rows.append(f"| `{name}`, for one sequence in each row | [rows{rest}] |")
        rows.append(
            f"| `{AT_FIRST_TOKEN}{name}`, right at the first token of each sequence | [rows, length{rest}] |"
        )
    if head.kind == "choice":
        rows.append(f"| | the {head.options} options of a question are {head.options} sequences |")
    return rows
