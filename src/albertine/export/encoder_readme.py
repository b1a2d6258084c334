"""The README of an exported encoder: how to get vectors of texts from it, with Albertine and without."""

import json
from collections.abc import Mapping
from pathlib import Path

from albertine.export.readme_code import LIBRARIES, code_for_one_graph
from albertine.export.readme_examples import text_example
from albertine.export.settings import ExportSettings
from albertine.inference.embedding import EmbeddingPipeline
from albertine.interop.sentence_transformers_folder import SentenceModules
from albertine.model.sentence_vectors import PoolingMode
from albertine.progress import format_bytes

_TEMPLATE = """# {name}

An ALBERT for {library} that gives vectors of texts.
{files}, {size}, weights in {precision}.
{scores}
## With Albertine

In this folder, after `pip install -e '.[deploy]'` in a copy of its source:

```sh
albertine embed . --data sentences.txt --out vectors.npy
```

`albertine.pipeline(".", task="embed")` in Python and `albertine serve` take this folder too.
If it is on the Hugging Face hub, `OWNER/NAME` takes the place of the folder.

## Without Albertine

In this folder, after `pip install numpy tokenizers {package}`:

```python
{code}
```

| input, int64 | shape | meaning |
|---|---|---|
| `input_ids` | [rows, length] | token ids; 0 at padding |
| `attention_mask` | [rows, length] | 0 at padding, 1 at tokens |
| `token_type_ids` | [rows, length] | 0 |

| output | shape | meaning |
|---|---|---|
| `sentence_embedding` | [rows, {vector_size}] | the vector of each text: {pooling} |
| `token_embeddings` | [rows, length, {hidden_size}] | the hidden state of each token |

Texts have at most {max_length} tokens, with [CLS] and [SEP].{before}

A row may hold several texts, so that less padding is computed. Number them in `attention_mask`:
`1 1 1 2 2 0` are a text of three tokens, one of two, and padding. Tokens see only their own text. Then pool
`token_embeddings` yourself, because `sentence_embedding` takes a row for one text.
"""


def write_encoder_readme(
    folder: Path,
    name: str,
    modules: SentenceModules,
    embed: EmbeddingPipeline,
    settings: ExportSettings,
    files: list[Path],
    scores: str,
) -> None:
    """Write `README.md` into the folder of an exported encoder.

    Args:
        folder: the folder.
        name: name of the export, the title.
        modules: pooling of the hidden states, and the layers after it.
        embed: gives the vectors of the source.
        settings: format and precision.
        files: files of the model.
        scores: what int8 loses, in words; empty in fp32.
    """
    text = f"{modules.prompt}A fine film."
    readme = _TEMPLATE.format(
        name=name,
        library=LIBRARIES[settings.to].title,
        package=LIBRARIES[settings.to].package,
        files=", ".join(f"`{file.name}`" for file in files),
        size=format_bytes(sum(file.stat().st_size for file in files)),
        precision=settings.precision,
        scores=f"\n{scores}\n" if scores else "",
        code=code_for_one_graph(
            settings.to, embed.max_length, text_example(text.lower() if modules.lower_case else text)
        ),
        vector_size=embed.vector_size,
        hidden_size=embed.engine.model_settings.hidden_size,
        pooling=_pooling_in_words(modules),
        max_length=embed.max_length,
        before=_preparation_in_words(modules),
    )
    (folder / "README.md").write_text(readme, encoding="utf-8")


_POOLINGS: Mapping[PoolingMode, str] = {
    "cls": "the hidden state of [CLS]",
    "lasttoken": "that of [SEP]",
    "max": "the largest values of all tokens",
    "mean": "the mean of all tokens",
    "mean_sqrt_len_tokens": "the sum of all tokens, divided by the square root of their number",
    "weightedmean": "the mean of all tokens, weighted by their position",
}


def _pooling_in_words(modules: SentenceModules) -> str:
    """Return how a vector is made from the hidden states of the tokens."""
    parts = [" and ".join(_POOLINGS[mode] for mode in modules.poolings)]
    parts += ["divided by its length" if layer is None else "a linear layer" for layer in modules.layers]
    return ", ".join([*parts, *(["divided by its length"] if modules.normalize else [])])


def _preparation_in_words(modules: SentenceModules) -> str:
    """Return what is done with a text before it is tokenized."""
    prompt = json.dumps(modules.prompt, ensure_ascii=False)
    parts = [f" Put {prompt} before each text."] if modules.prompt else []
    parts += [" Then put it in lower case." if modules.prompt else " Put each text in lower case."] * (
        modules.lower_case
    )
    return "".join(parts)
