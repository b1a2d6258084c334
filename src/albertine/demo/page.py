"""The report of a demo: the model, its scores beside baselines, and the commands for each step."""

import platform
from dataclasses import replace
from html import escape
from typing import Any

from albertine import progress
from albertine.corpus.corpus import Corpus
from albertine.corpus.manifest import Manifest
from albertine.demo.agreement_section import agreement_section
from albertine.demo.claim_blocks import claim_blocks
from albertine.demo.commands import albertine_executable, equivalent_commands, next_commands
from albertine.demo.scores import baseline_scores, task_score
from albertine.demo.settings import BASE_MODEL
from albertine.demo.workspace import DemoWorkspace
from albertine.display import counted
from albertine.inference.fill_mask import fill_mask_pipeline
from albertine.info.transitions import LayerTransition
from albertine.model.cost import count_flops
from albertine.model.parameter_counts import bert_of_same_shape, count_parameters
from albertine.report.architecture_diagram import architecture_diagram
from albertine.report.charts import Bar, bar_chart
from albertine.report.curves import PlottedRun, pretraining_charts
from albertine.report.model_charts import ChartedModel, transition_charts
from albertine.report.page import Page, Section, code_block, html_paragraphs, html_table, side_by_side
from albertine.report.pretraining_page import (
    OUTPUT_LABELS,
    fill_mask_section,
    nearest_sentences_section,
    segment_order_section,
)
from albertine.report.weight_drawing import weight_drawing

_DISPLAY_NAMES = {"albert": "ALBERT", "bert": "BERT", "narrow-bert": "narrow BERT"}
_COLORS = {"albert": 1, "bert": 2, "narrow-bert": 5}
_EXAMPLES = 4
_TASK_TITLES = {
    "squad": "Where is the answer? (SQuAD)",
    "cloze": "Which of four words is the original?",
    "sst-2": "Is the opinion positive? (SST-2)",
}


def demo_page(workspace: DemoWorkspace, seconds: float) -> Page:
    """Return the report of a finished demo."""
    corpus, pipeline = Corpus(workspace.out / "corpus"), fill_mask_pipeline(workspace.out / "albert")
    albert = workspace.model_settings("albert")
    albert_count, bert_count = (
        count_parameters(model).encoder for model in (albert, bert_of_same_shape(albert))
    )
    probe_results, seed = workspace.probe_models(), workspace.settings.seed
    probe, tokens = probe_results["albert"]["probe"], corpus.manifest.tokens["train"]
    key_figures = [
        ("parameters of ALBERT", f"{albert_count:,}"),
        ("times as many in BERT", f"{bert_count / albert_count:.1f}"),
        ("tokens of training text", f"{tokens / 1e6:.1f}M" if tokens >= 1e6 else f"{tokens:,}"),
        ("masked tokens predicted correctly", _value(probe["mask_token_accuracy"], ".0%")),
        ("segment orders recognized", _value(probe["sop_accuracy"], ".0%")),
        ("for all steps", f"{max(1, round(seconds / 60)):,} min"),
    ]
    lead = (
        "ALBERT is a BERT whose layers share one set of weights and whose token embeddings are narrow. "
        "This one was trained from scratch on this machine."
    )
    sections = [
        Section("Architecture", _model_blocks(workspace)),
        Section("Pre-training", _learning_blocks(workspace)),
        Section("Held-out accuracy", _probe_blocks(probe_results, corpus.manifest)),
        *([Section("Fine-tuning", _task_blocks(workspace))] if workspace.task_names() else []),
        fill_mask_section(pipeline, corpus, _EXAMPLES, seed),
        segment_order_section(pipeline, corpus, _EXAMPLES, abs(seed - 1)),  # others than above
        *_grammar_sections(workspace),
        nearest_sentences_section(workspace.out / "albert", corpus, _EXAMPLES, seed + 2),
        Section("Changes from layer to layer", _transition_blocks(workspace, probe_results)),
        Section("The same steps as commands", _code_blocks(workspace)),
        Section("Next steps", _next_blocks(workspace)),
    ]
    return Page("A little ALBERT", lead, key_figures, sections)


def _model_blocks(workspace: DemoWorkspace) -> list[str]:
    albert, bert = (
        ChartedModel(_DISPLAY_NAMES[name], workspace.model_settings(name), _COLORS[name])
        for name in ("albert", "bert")
    )
    costs = {
        model.name: count_flops(model.settings, BASE_MODEL.max_length).forward_per_token
        for model in (albert, bert)
    }
    albert_flops, bert_flops = (progress.format_flops(costs[model.name]) for model in (albert, bert))
    explanation = (
        f"Two things make it small. Token embeddings have {albert.settings.embedding_size} dimensions "
        f"instead of {albert.settings.hidden_size}, and one matrix projects them to the hidden size. And one "
        f"layer is applied {albert.settings.layers} times with the same weights. A token takes about as many "
        f"operations as in BERT ({albert_flops} and {bert_flops}), but the model is a fraction of the size "
        "to store and to transfer, and so are its gradients in training on several machines."
    )
    output_label = OUTPUT_LABELS["sop"]
    diagrams = [
        architecture_diagram(albert.settings, "ALBERT", output_label),
        architecture_diagram(bert.settings, "BERT of the same shape", output_label),
    ]
    models = [albert, replace(bert, name="BERT of the same shape")]
    return [html_paragraphs(explanation), side_by_side(diagrams), weight_drawing(models)]


def _grammar_sections(workspace: DemoWorkspace) -> list[Section]:
    if not workspace.settings.text:
        return []
    names: dict[str, str] = {name: _DISPLAY_NAMES[name] for name in workspace.model_names}
    return [agreement_section(workspace.agreement_test(), names)]


def _learning_blocks(workspace: DemoWorkspace) -> list[str]:
    runs = [
        PlottedRun(_DISPLAY_NAMES[name], workspace.out / name, _COLORS[name])
        for name in workspace.model_names
    ]
    comparison = ""
    if workspace.settings.compare:
        berts = [workspace.model_settings(name) for name in ("bert", "narrow-bert")]
        shape, size = (count_parameters(model).encoder for model in berts)
        comparison = (
            "All models train on the same text for the same time: the ALBERT, a BERT of the same shape with "
            f"{shape:,} parameters, and a narrow BERT, {berts[1].hidden_size} wide, with {size:,}. "
        )
    explanation = comparison + (
        "Pre-training predicts masked tokens, and whether two segments are in order or swapped. Its first "
        "steps apply the shared layer once, later ones up to four times; the loss rises for a moment where "
        "layers are added. The dashed lines are baselines without any context: one knows only the frequency "
        "of each token; the other also sees the token at the masked position, which masking sometimes leaves "
        "unchanged. Pre-training that stays above these lines has learned nothing from context."
    )
    return [html_paragraphs(explanation), side_by_side(pretraining_charts(runs, "sop"))]


def _probe_blocks(probe_results: dict[str, Any], manifest: Manifest) -> list[str]:
    rows = []
    for name in probe_results:
        probe = probe_results[name]["probe"]
        accuracies = [
            _with_interval(probe[f"{objective}_accuracy"]) for objective in ("mask_token", "sop", "nsp")
        ]
        loss = _value(probe["mask_token_loss"], ".3f")
        rows.append([_DISPLAY_NAMES[name], accuracies[0], loss, *accuracies[1:]])
    samples = counted(probe_results["albert"]["probe"]["sequences"], "held-out sample")
    explanation = (
        f"Accuracy on {samples}, with 95% confidence intervals. The last column is BERT's objective, whether "
        "two segments come from the same text, without any training on it."
    )
    return [
        html_paragraphs(_held_out_text(manifest), explanation),
        html_table(("", "masked tokens", "loss", "segment order", "same text"), rows),
    ]


def _held_out_text(manifest: Manifest) -> str:
    """Return a sentence about how much text is held out, which may differ from the requested fraction."""
    tokens, documents = manifest.tokens["dev"], manifest.documents["dev"]
    if manifest.held_out_passages:  # the text around a passage is counted as two documents
        part = manifest.held_out_summary
    else:
        part = f"{counted(documents, 'document')} of {sum(manifest.documents.values()):,}"
    share = tokens / sum(manifest.tokens.values())
    return f"Held out, so no model was trained on it: {share:.0%} of the text, {tokens:,} tokens in {part}."


def _value(estimate: dict[str, float | None], form: str) -> str:
    """Return the value of an estimate; too little held-out text gives no interval, or nothing at all."""
    return "unknown" if estimate["low"] is None else format(estimate["value"], form)


def _with_interval(estimate: dict[str, float | None]) -> str:
    if estimate["value"] is None or estimate["low"] is None or estimate["high"] is None:
        return "unknown"
    interval = f"({100 * estimate['low']:.1f} to {100 * estimate['high']:.1f})"
    return f"{estimate['value']:.1%} {interval.replace(' ', chr(0xA0))}"  # a phone breaks only before it


def _task_blocks(workspace: DemoWorkspace) -> list[str]:
    """Return charts of the scores on dev, next to baselines that do not read the text."""
    charts = []
    for name in workspace.task_names():
        scores = {("pre-trained ALBERT", 1): task_score(workspace.finetune_model(name))}
        if workspace.settings.compare:
            scores[("BERT", 2)] = task_score(workspace.finetune_model(name, "bert"))
            scores[("narrow BERT", 5)] = task_score(workspace.finetune_model(name, "narrow-bert"))
        scores[("without pre-training", 6)] = task_score(workspace.finetune_model(name, "untrained"))
        scores |= {(label, 4): score for label, score in baseline_scores(workspace, name).items()}
        bars = [Bar(label, score, f"{100 * score:.1f}", color) for (label, color), score in scores.items()]
        charts.append(bar_chart(_TASK_TITLES[name], bars))
    explanation = (
        "The pre-trained ALBERT, fine-tuned on each task: percent correct on held-out examples. Beside it, "
        "the same network with the same fine-tuning, but without pre-training. "
    )
    if not workspace.settings.text:
        explanation += (
            "The bag of words is a baseline trained on the same examples, which sees the words but not "
            "their order."
        )
    return [
        html_paragraphs(explanation),
        side_by_side(charts),
        *claim_blocks(workspace),
        *_bag_of_words_note(workspace),
    ]


def _bag_of_words_note(workspace: DemoWorkspace) -> list[str]:
    """Return an explanation if a bag of words scores higher on a task, else nothing."""
    scores = {
        name: (task_score(workspace.finetune_model(name)), baseline_scores(workspace, name))
        for name in workspace.task_names()
    }
    if all(score >= baselines.get("bag of words", 0.0) for score, baselines in scores.values()):
        return []
    parameters = count_parameters(workspace.model_settings("albert")).encoder
    duration = progress.format_duration(workspace.training_seconds("albert"))
    return [
        html_paragraphs(
            "Where the bag of words is ahead, this model may be too small or its training too short: it has "
            f"{parameters:,} parameters and was pre-trained for {duration}. ALBERT improves with more "
            "parameters and more text; a bag of words hardly does. The paper's ALBERT-base, with 12 million "
            "parameters and 16 GB of text, reaches 82.3 on SQuAD and 90.3 on SST-2."
        )
    ]


def _transition_blocks(workspace: DemoWorkspace, probe_results: dict[str, Any]) -> list[str]:
    charted_models = [
        ChartedModel(
            _DISPLAY_NAMES[name],
            workspace.model_settings(name),
            _COLORS[name],
            [LayerTransition(**transition) for transition in probe_results[name]["transitions"]],
        )
        for name in workspace.model_names
    ]
    explanation = (
        "If a shared layer drove the hidden states to a fixed point, later layers would not change them and "
        "the curves would fall to 0. This is Figure 1 of the paper for this model: how far each layer moves "
        "the hidden states."
    )
    return [html_paragraphs(explanation), side_by_side(transition_charts(charted_models))]


def _code_blocks(workspace: DemoWorkspace) -> list[str]:
    explanation = "These commands repeat the steps of the demo. To start your own project, replace the text."
    executable = albertine_executable()
    executable_note = (
        "" if executable == "albertine" else f" On this machine, type {executable} for albertine."
    )
    return [html_paragraphs(explanation + executable_note), code_block(*equivalent_commands(workspace))]


def _next_blocks(workspace: DemoWorkspace) -> list[str]:
    explanation = (
        f"This demo ran on {platform.machine()} with Python {platform.python_version()}. To list the models "
        "of the family with their size and cost, run: albertine info."
    )
    finetuned_folders = ", ".join(str(workspace.out / "tasks" / name) for name in workspace.task_names())
    serving_note = (
        f"The fine-tuned models can be served too: {finetuned_folders}. " if finetuned_folders else ""
    )
    headed_commands = [
        f"<h3>{escape(name)}</h3>{code_block(line)}" for name, line in next_commands(workspace).items()
    ]
    return ["".join(headed_commands), html_paragraphs(serving_note + explanation)]
