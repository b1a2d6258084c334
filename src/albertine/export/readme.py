"""The README of an exported folder: how to run the model in it, with Albertine and without."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from albertine.engines.exported_engine import AT_FIRST_TOKEN, INPUT_NAMES
from albertine.engines.exported_folder import open_export
from albertine.engines.single_graph_engine import SingleGraphEngine
from albertine.export.npm_packages import ORT, TOKENIZERS
from albertine.export.readme_code import (
    MASKED_EXAMPLE,
    WORDS_EXAMPLE,
    CodeExample,
    code_for_options,
    code_without_albertine,
    question_example,
    text_example,
)
from albertine.export.settings import ExportSettings
from albertine.export.steps_readme import steps_readme
from albertine.export.web_page import first_visit_bytes
from albertine.interop.huggingface import TASK_CARD_FILE
from albertine.interop.load import has_masked_head
from albertine.model.model import Model
from albertine.progress import format_bytes
from albertine.settings import HeadSettings
from albertine.tasks.card import TaskCard
from albertine.tasks.checkpoint_card import read_card_file
from albertine.tasks.registry import TASK_TYPES
from albertine.tasks.types.span_extraction import SpanExtraction
from albertine.tasks.types.tagging import Tagging
from albertine.tasks.types.task_type import TaskType
from albertine.tasks.types.text_task import TextTask

_TEMPLATE = """# {name}

An ALBERT for {library}: it predicts {purpose}.
{files}, {size}, weights in {precision}.
{scores}
## With Albertine

In this folder, after `pip install -e '.[deploy]'` in a copy of its source:

```sh
{command}
```

`albertine.{function}` in Python and `albertine serve` take this folder too. If it is on the
Hugging Face hub, `OWNER/NAME` takes the place of the folder.

## Without Albertine

In this folder, after `pip install numpy tokenizers {package}`, for at most {max_length} tokens:

```python
{code}
```

| input, int64 | shape | meaning |
|---|---|---|
| `input_ids` | [rows, length] | token ids; 0 at padding |
| `attention_mask` | [rows, length] | 0 at padding, 1 at tokens |
| `token_type_ids` | [rows, length] | {token_types} |

{rows}

| output | shape |
|---|---|
{outputs}
"""

_TOKEN_TYPES = "0 in the first text, 1 in the second"
_PACKED_ROWS = """A row may hold several sequences, so that less padding is computed. Number them in
`attention_mask`:
`1 1 1 2 2 0` are a sequence of three tokens, one of two, and padding. Tokens see only their own sequence."""

_TYPES_OF_PARTS = "2 in the passage, 5 in the question, 7 in the option, 1 at the last token; else 0"
_ROWS_OF_OPTIONS = """A row is a question with one of its options. The answer is the option with the highest
of the logits."""

_WEB_TEMPLATE = """# {name}

An ALBERT as a web page: it predicts {purpose}, in the browser of its visitor. {files}, {size}, weights in
{precision}; {download} of files for a first visit, {compressed} if the server compresses them.
{scores}
## Serve it

```sh
python -m http.server 8000
```

Run it in this folder, and open http://localhost:8000. Any server of static files will do; let it compress
them. The page loads nothing from elsewhere, and sends no text anywhere.

The page computes with one thread, or with several if the server sends the headers
`Cross-Origin-Opener-Policy: same-origin` and `Cross-Origin-Embedder-Policy: require-corp`.

## With Albertine

In this folder, after `pip install -e '.[deploy]'` in a copy of its source:

```sh
{command}
```

`albertine.{function}` in Python and `albertine serve` take this folder too. If it is on the
Hugging Face hub, `OWNER/NAME` takes the place of the folder.

## Files

| | |
|---|---|
| `index.html`, `style.css`, `*.js`, `page.json` | the page |
| `embed.onnx`, `block*.onnx`, `head*.onnx`, `tokens.bin` | the model: a step of depth applies a block |
| `tokenizer.json` | its tokenizer |
| `lib/` | onnxruntime-web {ort} (MIT license) and @huggingface/tokenizers {tokenizers} (Apache-2.0) |
| the others | for Albertine; the page does not need them |
"""


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
    is_pretrained = has_masked_head(model)
    max_length, example = model.settings.max_length, MASKED_EXAMPLE
    if model.head_settings.kind == "pretrain":
        purpose = "masked tokens, and whether two texts are in order"
    elif is_pretrained:
        purpose = "masked tokens"
    else:
        card = read_card_file(folder / TASK_CARD_FILE)
        task_type = TASK_TYPES[card.type_name]
        purpose, max_length = task_type.prediction_description, card.max_length
        example = _example_of_task(task_type, card, model.head_settings)
    values = {
        "name": name,
        "purpose": purpose,
        "files": ", ".join(f"`{file.name}`" for file in files),
        "size": format_bytes(sum(file.stat().st_size for file in files)),
        "precision": settings.precision,
        "scores": f"\n{scores}\n" if scores else "",
        "command": "albertine fill-mask . 'It was a [MASK].'"
        if is_pretrained
        else "albertine predict . --data new.csv --out answers.csv",
        "function": "fill_mask_pipeline" if is_pretrained else "pipeline",
    }
    library, package = (
        ("OpenVINO", "openvino") if settings.to == "openvino" else ("ONNX Runtime", "onnxruntime")
    )
    if settings.to == "web":
        download, compressed = map(format_bytes, first_visit_bytes(folder))
        text = _WEB_TEMPLATE.format(
            **values,
            download=download,
            compressed=compressed,
            ort=ORT.version,
            tokenizers=TOKENIZERS.version,
        )
    elif settings.exits:
        command = f"{values['command']} {'--depth 2' if is_pretrained else '--exit patience:2'}"
        text = steps_readme(
            values | {"command": command, "library": library, "package": package},
            settings.to,
            model.settings,
            model.head_settings,
            max_length,
            is_pretrained=is_pretrained,
        )
    else:
        reads_parts = model.head_settings.co_matching
        text = _TEMPLATE.format(
            **values,
            library=library,
            package=package,
            code=code_for_options(settings.to, max_length)
            if reads_parts
            else code_without_albertine(settings.to, max_length, example),
            max_length=max_length,
            token_types=_TYPES_OF_PARTS if reads_parts else _TOKEN_TYPES,
            rows=_ROWS_OF_OPTIONS if reads_parts else _PACKED_ROWS,
            outputs="\n".join(_output_rows(_example_outputs(folder))),
        )
    (folder / "README.md").write_text(text, encoding="utf-8")


def _example_of_task(task_type: type[TaskType], card: TaskCard, head: HeadSettings) -> CodeExample:
    """Return what the code encodes and prints for a fine-tuned model."""
    if issubclass(task_type, SpanExtraction):
        return question_example(card, answerable=head.answerable)
    if issubclass(task_type, Tagging):
        return WORDS_EXAMPLE
    return text_example(has_labels=task_type.targets_are_labels and issubclass(task_type, TextTask))


def _example_outputs(folder: Path) -> Mapping[str, NDArray[Any]]:
    """Return the outputs for one row of several tokens."""
    engine = open_export(folder)
    assert isinstance(engine, SingleGraphEngine)
    one_row = dict.fromkeys(INPUT_NAMES, np.ones((1, 3), np.int64))
    one_row["token_type_ids"] = np.zeros((1, 3), np.int64)
    return engine.run_rows(one_row)


def _output_rows(outputs: Mapping[str, NDArray[Any]]) -> list[str]:
    """Return the rows of the table of outputs, from those for one row of several tokens."""
    rows = []
    for name, values in outputs.items():
        is_packed, is_of_sequences = name.startswith(AT_FIRST_TOKEN), AT_FIRST_TOKEN + name in outputs
        meaning = ", at the first token of each sequence" if is_packed else ""
        meaning = ", for one sequence in each row" if is_of_sequences else meaning
        dimensions = ["rows"] if is_of_sequences or values.ndim == 1 else ["rows", "length"]
        dimensions += map(str, values.shape[len(dimensions) :])
        rows.append(f"| `{name}`{meaning} | [{', '.join(dimensions)}] |")
    return rows
