"""The report of a pre-training run: architecture, curves, held-out examples and next steps."""

import shlex
from collections.abc import Sequence
from pathlib import Path

from albertine import progress
from albertine.corpus.corpus import Corpus
from albertine.errors import InputError
from albertine.inference.embedding import load_embedding_pipeline
from albertine.inference.fill_mask import FillMaskPipeline, fill_mask_pipeline
from albertine.interop.load import load_checkpoint
from albertine.model.parameter_counts import bert_of_same_shape, count_parameters
from albertine.pretrain.settings import PretrainSettings
from albertine.report import held_out_examples
from albertine.report.architecture_diagram import architecture_diagram, architecture_name
from albertine.report.curves import PlottedRun, pretraining_charts
from albertine.report.depth_slider import depth_slider, depth_slider_script
from albertine.report.examples import fill_mask_html, segment_order_html
from albertine.report.model_charts import ChartedModel, transition_charts
from albertine.report.nearest_sentences import nearest_sentences, nearest_sentences_html
from albertine.report.page import Page, Section, code_block, html_paragraphs, html_table, side_by_side
from albertine.report.weight_drawing import weight_drawing
from albertine.settings import ModelSettings, build_settings, settings_to_toml
from albertine.storage.objects import display_path
from albertine.train.metrics_log import HELD_OUT_PREFIX, MetricsLine, metric_curve, read_metrics
from albertine.train.run_folder import SETTINGS_FILE, read_run_settings

OUTPUT_LABELS = {
    "sop": "masked tokens, segment order",
    "nsp": "masked tokens, next sentence",
    "none": "masked tokens",
}
_NUM_EXAMPLES = 4
_SEED = 0


def pretraining_page(run: Path, source: str) -> Page:
    """Return the report of a run, running or finished.

    Args:
        run: folder of the run.
        source: name of the run in commands.
    """
    settings, metrics = build_settings(PretrainSettings, read_run_settings(run)), read_metrics(run)
    if not any("tokens" in line for line in metrics):
        raise InputError(f"{run}: no training step yet; run the report again later")
    if settings.train.lr is None:  # a run writes it, also where it is the default
        raise InputError(f"{run / SETTINGS_FILE}: train.lr is missing; restore the file")
    pipeline, pair = fill_mask_pipeline(run), settings.objective.pair
    model = pipeline.engine.model_settings
    learning_blocks = [
        side_by_side(pretraining_charts([PlottedRun("", run, 1)], pair)),
        _event_table(metrics),
    ]
    settings_lines = (line for line in settings_to_toml(settings).splitlines() if not line.startswith("#"))
    sections = [
        Section("Architecture", model_blocks(model, OUTPUT_LABELS[pair])),
        Section("Training", learning_blocks),
        *_held_out_sections(run, pipeline, _matching_corpus(settings, pipeline), pair),
        Section("Settings", [code_block(*settings_lines)]),
        Section("Next steps", [_next_commands(source, settings.corpus)]),
    ]
    return Page(run.resolve().name, _summary(settings, metrics), _key_figures(model, metrics), sections)


def _matching_corpus(settings: PretrainSettings, pipeline: FillMaskPipeline) -> Corpus | None:
    """Return the corpus of a run if it still exists, has the same tokenizer and has held-out samples."""
    try:
        corpus = Corpus(settings.corpus) if settings.corpus else None
    except InputError:
        return None
    if corpus is None or corpus.tokenizer.fingerprint != pipeline.tokenizer.fingerprint:
        return None
    return corpus if held_out_examples.can_draw_held_out_samples(corpus, pipeline) else None


def model_blocks(model: ModelSettings, output_label: str) -> list[str]:
    """Return a diagram of the model, and its weights next to those of a BERT of the same shape."""
    bert, name = bert_of_same_shape(model), architecture_name(model)
    diagram = architecture_diagram(model, name, output_label)
    if bert == model:
        return [diagram]
    charted_models = [ChartedModel("this model", model, 1), ChartedModel("BERT of this shape", bert, 2)]
    return [diagram, weight_drawing(charted_models)]


def _key_figures(model: ModelSettings, metrics: Sequence[MetricsLine]) -> list[tuple[str, str]]:
    """Return the figures at the top of the page."""
    steps = [line for line in metrics if "tokens" in line]
    figures = [
        ("encoder parameters", f"{count_parameters(model).encoder:,}"),
        ("training tokens", progress.format_tokens(int(steps[-1]["tokens"]))),
        ("training time", progress.format_duration(steps[-1].get("seconds") or 0.0)),
    ]
    losses, pair_accuracies = (
        metric_curve(metrics, f"{HELD_OUT_PREFIX}{name}") for name in ("mlm_loss", "pair_accuracy")
    )
    if losses:
        figures.append(("held-out loss on masked tokens", f"{losses[-1][1]:.3f}"))
    if pair_accuracies:
        figures.append(("held-out pair accuracy", f"{pair_accuracies[-1][1]:.1%}"))
    return figures


def _held_out_sections(
    run: Path, pipeline: FillMaskPipeline, corpus: Corpus | None, pair: str
) -> list[Section]:
    """Return sections of predictions on held-out text; none without a corpus."""
    if corpus is None:
        return []
    charted_model = ChartedModel(
        "",
        pipeline.engine.model_settings,
        1,
        held_out_examples.held_out_transitions(load_checkpoint(run), corpus, _SEED),
    )
    return [
        fill_mask_section(pipeline, corpus, _NUM_EXAMPLES, _SEED),
        *([segment_order_section(pipeline, corpus, _NUM_EXAMPLES, _SEED + 1)] if pair == "sop" else []),
        nearest_sentences_section(run, corpus, _NUM_EXAMPLES, _SEED + 2),
        Section("Changes from layer to layer", [side_by_side(transition_charts([charted_model]))]),
    ]


def fill_mask_section(pipeline: FillMaskPipeline, corpus: Corpus, count: int, seed: int) -> Section:
    """Return a section of predictions for masked words, with a slider over the depth."""
    examples = held_out_examples.fill_mask_examples(pipeline, corpus, count, seed)
    num_depths = max((len(example.predictions) for example in examples), default=1)
    explanation = "Held-out text with one masked word: the best predictions and their probabilities."
    if num_depths > 1:
        explanation += " The slider shows what the model would predict if it stopped after fewer layers."
    blocks = [side_by_side(map(fill_mask_html, examples))]
    if num_depths > 1:
        slider = depth_slider(num_depths, shares_layers=pipeline.engine.model_settings.shares_all_layers)
        blocks = [slider, *blocks, depth_slider_script()]
    return Section(
        "Predictions for masked words", [html_paragraphs(explanation), *blocks] if examples else []
    )


def segment_order_section(pipeline: FillMaskPipeline, corpus: Corpus, count: int, seed: int) -> Section:
    """Return a section of order predictions for pairs of segments."""
    explanation = (
        "Two held-out segments: the predicted probability that they are in order, for the order of the text "
        "and for the swapped order."
    )
    examples = held_out_examples.segment_order_examples(pipeline, corpus, count, seed)
    return Section(
        "Predictions for segment order",
        [html_paragraphs(explanation), side_by_side(map(segment_order_html, examples))] if examples else [],
    )


def nearest_sentences_section(run: Path, corpus: Corpus, count: int, seed: int) -> Section:
    """Return a section of sentences with similar ones."""
    explanation = (
        "Held-out sentences, each with the three that are nearest by the angle between their vectors (the "
        "mean of the hidden states, minus that of all sentences). The model was not trained for such vectors."
    )
    examples = nearest_sentences(load_embedding_pipeline(run), corpus, count, seed)
    blocks = [html_paragraphs(explanation), side_by_side(map(nearest_sentences_html, examples))]
    return Section("Nearest sentences", blocks if examples else [])


def _summary(settings: PretrainSettings, metrics: Sequence[MetricsLine]) -> str:
    model, train = settings.model, settings.train
    last_step = max(line["step"] for line in metrics)
    progress_note = "" if last_step >= train.steps else f" Step {last_step:,} of {train.steps:,}."
    return (
        f"A pre-training run: {model.layers} layers of width {model.hidden_size} "
        f"({architecture_name(model)}), {_objective_text(settings)}, "
        f"{train.optimizer} at {train.lr:g}, {train.batch_tokens:,} tokens per step.{progress_note}"
    )


def _objective_text(settings: PretrainSettings) -> str:
    names = {"sop": "masked tokens and segment order", "nsp": "masked tokens and next segment"}
    causal = "next tokens, " if settings.objective.causal_fraction else ""
    return f"trained on {causal}{names.get(settings.objective.pair, 'masked tokens')}"


def _event_table(metrics: Sequence[MetricsLine]) -> str:
    rows = [(f"{line['step']:,}", str(line["event"])) for line in metrics if "event" in line]
    return html_table(("step", "event"), rows, wrap_last_column=True) if rows else ""


def _next_commands(source: str, corpus: Path | None) -> str:
    quoted_run, quoted_corpus = shlex.quote(source), shlex.quote(display_path(corpus or Path("CORPUS")))
    return code_block(
        f"albertine fill-mask {quoted_run} --corpus {quoted_corpus}",  # its text is in the right language
        f"albertine finetune {quoted_run} --task classify --data reviews.csv --label stars --out stars",
        "albertine predict stars --data new.csv --out answers.csv",
    )
