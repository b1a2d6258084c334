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
from albertine.export.readme_code import LIBRARIES, code_for_one_graph
from albertine.export.readme_examples import CodeExample, task_example
from albertine.export.settings import ExportSettings
from albertine.export.steps_readme import steps_readme
from albertine.export.web_page import first_visit_bytes
from albertine.interop.hub import TASK_CARD_FILE
from albertine.interop.load import has_masked_head
from albertine.model.model import Model
from albertine.progress import format_bytes
from albertine.settings import HeadSettings
from albertine.settings.export import ExportFormat
from albertine.tasks.card import TaskCard
from albertine.tasks.checkpoint_card import read_card_file
from albertine.tasks.registry import TASK_TYPES

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
`1 1 1 2 2 0` are a sequence of three tokens, one of two, and padding. Tokens see only their own sequence.
"""

_TYPES_OF_PARTS = "2 in the passage, 5 in the question, 7 in the option, 1 at the last token; else 0"

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
    card = None if has_masked_head(model) else read_card_file(folder / TASK_CARD_FILE)
    values = {
        "name": name,
        "purpose": _purpose(model, card),
        "files": ", ".join(f"`{file.name}`" for file in files),
        "size": format_bytes(sum(file.stat().st_size for file in files)),
        "precision": settings.precision,
        "scores": f"\n{scores}\n" if scores else "",
        "command": _command(settings, is_pretrained=card is None),
        "function": "fill_mask_pipeline" if card is None else "pipeline",
    }
    max_length = model.settings.max_length if card is None else card.max_length
    example = task_example(model.head_settings, card)
    if settings.to == "web":
        text = _web_readme(values, folder)
    elif settings.exits:
        text = steps_readme(values, settings.to, max_length, example, model.settings, model.head_settings)
    else:
        text = _one_graph_readme(values, settings.to, max_length, example, model.head_settings, folder)
    (folder / "README.md").write_text(text, encoding="utf-8")


def _purpose(model: Model, card: TaskCard | None) -> str:
    """Return what the model predicts, in words."""
    if card is not None:
        return TASK_TYPES[card.type_name].prediction_description
    has_pairs = model.head_settings.kind == "pretrain"
    return "masked tokens, and whether two texts are in order" if has_pairs else "masked tokens"


def _command(settings: ExportSettings, *, is_pretrained: bool) -> str:
    """Return a command that uses the folder."""
    if is_pretrained:
        return "albertine fill-mask . 'It was a [MASK].'" + (" --depth 2" if settings.exits else "")
    command = "albertine predict . --data new.csv --out answers.csv"
    return command + (" --exit patience:2" if settings.exits else "")


def _web_readme(values: Mapping[str, object], folder: Path) -> str:
    """Return the text for a web page."""
    download, compressed = map(format_bytes, first_visit_bytes(folder))
    return _WEB_TEMPLATE.format(
        **values,
        download=download,
        compressed=compressed,
        ort=ORT.version,
        tokenizers=TOKENIZERS.version,
    )


def _one_graph_readme(
    values: Mapping[str, object],
    to: ExportFormat,
    max_length: int,
    example: CodeExample,
    head: HeadSettings,
    folder: Path,
) -> str:
    """Return the text for a model that is one graph.

    Args:
        values: what all templates have, by name.
        to: format of the graph.
        max_length: number of tokens to which the code truncates.
        example: what the code encodes and prints.
        head: settings of the head.
        folder: the folder of the export.
    """
    notes = [_PACKED_ROWS] * (not head.co_matching) + [example.note] * bool(example.note)
    return _TEMPLATE.format(
        **values,
        library=LIBRARIES[to].title,
        package=LIBRARIES[to].package,
        code=code_for_one_graph(to, max_length, example),
        max_length=max_length,
        token_types=_TYPES_OF_PARTS if head.co_matching else _TOKEN_TYPES,
        rows="\n".join(notes),
        outputs="\n".join(_output_rows(_example_outputs(folder))),
    )


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
