"""The model card of a pre-trained model: what it is, its training, its scores and limits, how to use it."""

from dataclasses import dataclass
from statistics import median

from huggingface_hub import ModelCardData

from albertine.corpus.manifest import Manifest
from albertine.pretrain.settings import PretrainSettings
from albertine.report_card.card import ReportCard, TaskScores
from albertine.report_card.display import held_out_rows, interval_text, score_text
from albertine.settings import ModelSettings
from albertine.version import __version__

_TEMPLATE = """---
{metadata}
---

# {name}

An encoder of {parameters:,} parameters for {language} text, pre-trained from random weights with
Albertine {version}. It predicts masked tokens{order}. Fine-tune it for
a task of yours; it does not generate text.

| | |
|---|---|
| layers, width, heads | {layers}, {width}, {heads} |
| weights of the layers | {sharing} |
| vocabulary | {vocabulary:,} tokens, trained on the same text |
| longest sequence | {max_length} tokens |

## Training data

{about}

{documents}{words:,} words, {tokens:,} tokens; {held_out:,} tokens of them were held out for the scores
below. {duplicates:,} duplicates were removed.

## Training

| setting | value |
|---|---|
| steps | {steps:,} of about {batch_tokens:,} tokens |
| longest sample | {sample_length} tokens |
| masked tokens | {masked:.0%} |
| optimizer | {optimizer} |
| seed | {seed} |

`settings.toml` has all settings.

## Scores

{scores}

An interval is 95%, and follows from the number of held-out samples, pairs or dev examples. Other runs
with other seeds would differ too; this is one run.

## Limits

- The model knows what its training text says, and repeats its errors and its prejudices. It was not tested
  for either.
- The held-out text is of the same kind as the training text; on other text, the scores may be lower.
- Texts of more than {max_length} tokens are truncated{short_samples}.

## License

`{license}`, as its author states. The training text has terms of its own: see "Training data".

## Use it

With `transformers`:

```python
from transformers import pipeline

fill_mask = pipeline("fill-mask", model="{name}"{trust})
print(fill_mask("{example}"))
```

With Albertine:

```python
import albertine

fill_mask = albertine.fill_mask_pipeline("{name}")
print(fill_mask.fill("{example}"))
```

```sh
albertine finetune {name} --task classify --data my-rows.csv --text text --label label --out my-model
```
"""


@dataclass(frozen=True)
class Author:
    """What only the author of a model can say.

    Attributes:
        name: name of the model, as OWNER/NAME on a hub, or of a folder.
        license: identifier of the license, such as apache-2.0.
        about: sentences about the training text: what it is, where it is from, under which terms.
        example: a text with [MASK], in the language of the model.
    """

    name: str
    license: str
    about: str
    example: str


def model_card(
    author: Author, settings: PretrainSettings, model: ModelSettings, manifest: Manifest, card: ReportCard
) -> str:
    """Return a model card in Markdown, with the metadata of the hub.

    Args:
        author: what only the author can say.
        settings: those of the run.
        model: settings of the trained model.
        manifest: that of the corpus.
        card: the scores of the model.
    """
    language = manifest.settings.get("language") or "en"
    departs = model.norm_first or model.rotary or model.step_rank or model.step_vectors
    is_short = settings.objective.max_length < model.max_length
    metadata = ModelCardData(
        license=author.license,
        language=language,
        library_name="transformers",
        pipeline_tag="fill-mask",
        tags=["albert", "albertine"],
    )
    return _TEMPLATE.format(
        metadata=metadata.to_yaml(),
        name=author.name,
        about=author.about,
        license=author.license,
        example=author.example,
        version=__version__,
        language=f"`{language}`",
        parameters=card.parameters,
        order=" and the order of two segments" if settings.objective.pair == "sop" else "",
        layers=model.layers,
        width=model.hidden_size,
        heads=model.heads,
        sharing="shared by all layers" if model.shares_all_layers else f"share = {model.share}",
        vocabulary=model.vocab_size,
        max_length=model.max_length,
        documents=_documents(manifest),
        words=manifest.words,
        tokens=sum(manifest.tokens.values()),
        held_out=manifest.tokens.get("dev", 0),
        duplicates=manifest.duplicates,
        steps=settings.train.steps,
        batch_tokens=settings.train.batch_tokens,
        sample_length=settings.objective.max_length,
        masked=settings.objective.mlm_probability,
        optimizer=settings.train.optimizer,
        seed=settings.train.seed,
        scores=_score_tables(card),
        short_samples="; the model has only seen samples of "
        f"{settings.objective.max_length} tokens, and is worse on longer ones"
        if is_short
        else "",
        trust=", trust_remote_code=True" if departs else "",
    )


def _documents(manifest: Manifest) -> str:
    """Return the number of documents; nothing if a held-out passage divides some into several."""
    if manifest.held_out_passages:
        return ""
    return f"{sum(manifest.documents.values()):,} documents, "


def _score_tables(card: ReportCard) -> str:
    """Return the scores as tables, each beside its baseline."""
    rows = []
    if card.held_out is not None:
        unigram = f"{card.held_out.unigram_loss:.3f} with token frequencies alone"
        for name, value, interval, chance in held_out_rows(card.held_out):
            baseline = unigram if name.startswith("loss") else f"{chance} by chance" if chance else ""
            rows.append((f"held-out text: {name}", value, interval, baseline))
    if card.blimp is not None:
        overall = card.blimp.overall
        interval = interval_text(overall.low, overall.high)
        rows.append(("BLiMP, minimal pairs, %", score_text(overall.accuracy), interval, "50.0 by chance"))
    rows += [_task_row(task) for task in card.tasks]
    lines = ["| measure | score | 95% interval | baseline |", "|---|---|---|---|"]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    if card.skipped_parts:
        lines += ["", f"Not measured: {', '.join(card.skipped_parts)}."]
    return "\n".join(lines).strip()


def _task_row(task: TaskScores) -> tuple[str, str, str, str]:
    baselines = [f"{score_text(task.untrained_score)} without pre-training"]
    if task.baselines.tf_idf is not None:
        baselines.append(f"{score_text(task.baselines.tf_idf)} with TF-IDF")
    score = median(task.pretrained)
    return (
        f"{task.recipe.title}, fine-tuned shortly: {task.recipe.metric_title}, %",
        score_text(score),
        interval_text(score - task.margin, score + task.margin),
        ", ".join(baselines),
    )
