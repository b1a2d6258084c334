"""The report of a pre-training run: what was trained, how it went, what it knows, and how to go on."""

import shlex
from collections.abc import Sequence
from pathlib import Path

from albertine import progress
from albertine.corpus.corpus import Corpus
from albertine.errors import InputError
from albertine.inference.fill_mask import FillMaskPipeline, fill_mask_pipeline
from albertine.model.parameter_counts import bert_of_same_shape, count_parameters
from albertine.pretrain.settings import PretrainSettings
from albertine.report import held_out_examples
from albertine.report.architecture_diagram import architecture_diagram, architecture_name
from albertine.report.curves import PlottedRun, pretraining_charts
from albertine.report.examples import fill_mask_html, segment_order_html
from albertine.report.model_charts import ChartedModel, parameter_chart, transition_charts
from albertine.report.page import Page, Section, columns, command_block, html_table, paragraphs
from albertine.settings import ModelSettings, build_settings, settings_to_toml
from albertine.train.metrics_log import HELD_OUT_PREFIX, MetricsLine, metric_curve, read_metrics
from albertine.train.run_folder import read_run_settings

OUTPUT_LABELS = {
    "sop": "hidden pieces, and their order",
    "nsp": "hidden pieces, and what belongs together",
    "none": "hidden pieces",
}
_NUM_EXAMPLES = 4
_SEED = 0  # of what is asked


def pretraining_page(run: Path) -> Page:
    """Lay out a run, under way or done."""
    settings, metrics = build_settings(PretrainSettings, read_run_settings(run)), read_metrics(run)
    if not any("tokens" in line for line in metrics):
        raise InputError(f"{run}: has taken no step yet; there is nothing to report")
    pipeline, pair = fill_mask_pipeline(run), settings.objective.pair
    model = pipeline.model.settings
    learning_blocks = [columns(pretraining_charts([PlottedRun("", run, 1)], pair)), _event_table(metrics)]
    settings_lines = (line for line in settings_to_toml(settings).splitlines() if not line.startswith("#"))
    sections = [
        Section("The network", model_blocks(model, OUTPUT_LABELS[pair])),
        Section("How it learned", learning_blocks),
        *_held_out_sections(pipeline, _matching_corpus(settings, pipeline), pair),
        Section("The settings", [command_block(*settings_lines)]),
        Section("What to do next", [_next_commands(run)]),
    ]
    return Page(run.resolve().name, _summary(settings, metrics), _key_figures(model, metrics), sections)


def _matching_corpus(settings: PretrainSettings, pipeline: FillMaskPipeline) -> Corpus | None:
    """Return the corpus of a run, if it is still there, with held-out documents in the same pieces."""
    try:
        corpus = Corpus(settings.corpus) if settings.corpus else None
    except InputError:
        return None
    if corpus is None or corpus.tokenizer.fingerprint != pipeline.tokenizer.fingerprint:
        return None
    return corpus if held_out_examples.has_readable_samples(corpus, pipeline) else None


def model_blocks(model: ModelSettings, output_label: str) -> list[str]:
    """Picture a network, and count it beside the BERT of its shape."""
    bert, name = bert_of_same_shape(model), architecture_name(model)
    diagram = architecture_diagram(model, name, output_label)
    if bert == model:
        return [diagram]
    charted_models = [ChartedModel("this one", model, 1), ChartedModel("BERT of its shape", bert, 2)]
    return [columns([diagram, parameter_chart(charted_models)])]


def _key_figures(model: ModelSettings, metrics: Sequence[MetricsLine]) -> list[tuple[str, str]]:
    """Return the numbers that stand at the top."""
    steps = [line for line in metrics if "tokens" in line]
    figures = [
        ("parameters of the encoder", f"{count_parameters(model).encoder:,}"),
        ("tokens seen", f"{steps[-1]['tokens'] / 1e6:,.1f}M"),
        ("of training", progress.format_duration(steps[-1]["seconds"])),
    ]
    losses, pair_accuracies = (
        metric_curve(metrics, f"{HELD_OUT_PREFIX}{name}") for name in ("mlm_loss", "pair_accuracy")
    )
    if losses:
        figures.append(("loss on hidden pieces, held out", f"{losses[-1][1]:.3f}"))
    if pair_accuracies:
        figures.append(("pairs right, held out", f"{pair_accuracies[-1][1]:.1%}"))
    return figures


def _held_out_sections(pipeline: FillMaskPipeline, corpus: Corpus | None, pair: str) -> list[Section]:
    """Ask a model about held-out text; nothing, where there is none."""
    if corpus is None:
        return []
    charted_model = ChartedModel(
        "", pipeline.model.settings, 1, held_out_examples.followed(pipeline, corpus, _SEED)
    )
    return [
        fill_mask_section(pipeline, corpus, _NUM_EXAMPLES, _SEED),
        *([segment_order_section(pipeline, corpus, _NUM_EXAMPLES, _SEED + 1)] if pair == "sop" else []),
        Section("What the layers do", [columns(transition_charts([charted_model]))]),
    ]


def fill_mask_section(pipeline: FillMaskPipeline, corpus: Corpus, count: int, seed: int) -> Section:
    """Show what a model puts in gaps."""
    explanation = (
        "From text that it never saw, one word hidden: its first guesses, and how likely it finds each."
    )
    examples = held_out_examples.fill_mask_examples(pipeline, corpus, count, seed)
    return Section(
        "What it puts in a gap",
        [paragraphs(explanation), columns(map(fill_mask_html, examples))] if examples else [],
    )


def segment_order_section(pipeline: FillMaskPipeline, corpus: Corpus, count: int, seed: int) -> Section:
    """Show how sure a model is of the order of segments."""
    explanation = (
        "Two segments in the order of the text: the chance that it gives this order, asked both ways."
    )
    examples = held_out_examples.segment_order_examples(pipeline, corpus, count, seed)
    return Section(
        "Which comes first",
        [paragraphs(explanation), columns(map(segment_order_html, examples))] if examples else [],
    )


def _summary(settings: PretrainSettings, metrics: Sequence[MetricsLine]) -> str:
    model, train = settings.model, settings.train
    last_step = max(line["step"] for line in metrics)
    progress_note = (
        "" if last_step >= train.steps else f" It has taken {last_step:,} of {train.steps:,} steps."
    )
    return (
        f"A pre-training run: {model.layers} layers of width {model.hidden_size} ({architecture_name(model)}), "
        f"objective {settings.objective.pair}, {train.optimizer} at {train.lr:g}, "
        f"{train.batch_tokens:,} tokens a step.{progress_note}"
    )


def _event_table(metrics: Sequence[MetricsLine]) -> str:
    rows = [(f"{line['step']:,}", str(line["event"])) for line in metrics if "event" in line]
    return html_table(("step", "what happened"), rows, wrap_last_column=True) if rows else ""


def _next_commands(run: Path) -> str:
    quoted_run = shlex.quote(str(run))
    return command_block(
        f'albertine fill {quoted_run} "The old [MASK] was locked."',
        f"albertine finetune {quoted_run} --task classify --data reviews.csv --label stars --out judge",
        "albertine predict judge --data new.csv --out answers.csv",
    )
