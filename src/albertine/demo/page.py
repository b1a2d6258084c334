"""The report of a demo: what ALBERT is, what it learned in these minutes, and how to do each step by hand."""

import platform
from html import escape
from typing import Any

from albertine import progress
from albertine.corpus.corpus import Corpus
from albertine.demo.commands import albertine_executable, equivalent_commands, next_commands
from albertine.demo.workspace import BASE_MODEL, MODEL_NAMES, DemoWorkspace
from albertine.inference.fill_mask import fill_mask_pipeline
from albertine.info.transitions import LayerTransition
from albertine.model.cost import count_flops
from albertine.model.parameter_counts import count_parameters
from albertine.report.architecture_diagram import architecture_diagram
from albertine.report.charts import Bar, bar_chart
from albertine.report.curves import PlottedRun, pretraining_charts
from albertine.report.model_charts import ChartedModel, parameter_chart, transition_charts
from albertine.report.page import Page, Section, columns, command_block, html_table, paragraphs
from albertine.report.pretraining_page import OUTPUT_LABELS, fill_mask_section, segment_order_section

_DISPLAY_NAMES = {"albert": "ALBERT", "bert": "BERT"}
_COLORS = {"albert": 1, "bert": 2}
_EXAMPLES = 4
_TASK_TITLES = {
    "squad": "Where is the answer? (SQuAD)",
    "cloze": "Which of four words stood there?",
    "mnli": "Does one follow from the other? (MNLI)",
}


def demo_page(workspace: DemoWorkspace, seconds: float) -> Page:
    """Lay out what a finished demo found."""
    corpus, pipeline = Corpus(workspace.out / "corpus"), fill_mask_pipeline(workspace.out / "albert")
    counts = {name: count_parameters(workspace.model_settings(name)).encoder for name in MODEL_NAMES}
    probe_results, seed = workspace.probe_models(), workspace.settings.seed
    probe = probe_results["albert"]["probe"]
    key_figures = [
        ("parameters of the ALBERT", f"{counts['albert']:,}"),
        ("times as many in the BERT", f"{counts['bert'] / counts['albert']:.1f}"),
        ("pieces of text to learn from", f"{corpus.manifest.tokens['train'] / 1e6:.1f}M"),
        ("hidden pieces right", f"{probe['hidden_accuracy']['value']:.0%}"),
        ("orders right", f"{probe['sop_accuracy']['value']:.0%}"),
        ("for all of it", f"{max(1, round(seconds / 60)):,} min"),
    ]
    lead = (
        "ALBERT is BERT with one layer instead of many: the same weights, applied again and again, on word "
        "pieces that are kept narrow until they are read. Here is one, made from nothing on this machine."
    )
    sections = [
        Section("What was built", _model_blocks(workspace)),
        Section("How it learned", _learning_blocks(workspace)),
        Section("What it knows", _probe_blocks(probe_results)),
        *([Section("What it is good for", _task_blocks(workspace))] if workspace.task_names else []),
        fill_mask_section(pipeline, corpus, _EXAMPLES, seed),
        segment_order_section(pipeline, corpus, _EXAMPLES, seed + 1),
        Section("Inside", _transition_blocks(workspace, probe_results)),
        Section("Each step by hand", _command_blocks(workspace)),
        Section("What to do next", _next_blocks(workspace)),
    ]
    return Page("A little ALBERT", lead, key_figures, sections)


def _model_blocks(workspace: DemoWorkspace) -> list[str]:
    albert, bert = (
        ChartedModel(_DISPLAY_NAMES[name], workspace.model_settings(name), _COLORS[name])
        for name in MODEL_NAMES
    )
    costs = {
        one.name: count_flops(one.settings, BASE_MODEL.max_length).forward_per_token for one in (albert, bert)
    }
    albert_flops, bert_flops = (progress.format_flops(costs[one.name]) for one in (albert, bert))
    explanation = (
        f"Two things make it small. The table of pieces is {albert.settings.embedding_size} wide and not "
        f"{albert.settings.hidden_size}, and one matrix widens what is looked up. And there is one layer: "
        f"what it gives goes in again at the bottom, {albert.settings.layers} times. It costs what BERT costs "
        f"to run ({albert_flops} a piece against {bert_flops}), and a fraction to keep, to send and to add up between "
        "machines."
    )
    output_label = OUTPUT_LABELS["sop"]
    diagrams = [
        architecture_diagram(albert.settings, "ALBERT", output_label),
        architecture_diagram(bert.settings, "BERT of the same shape", output_label),
    ]
    return [paragraphs(explanation), columns(diagrams), parameter_chart([albert, bert])]


def _learning_blocks(workspace: DemoWorkspace) -> list[str]:
    runs = [PlottedRun(_DISPLAY_NAMES[name], workspace.out / name, _COLORS[name]) for name in MODEL_NAMES]
    explanation = (
        "Both read the same text for the same number of steps. They guess hidden pieces, and tell whether "
        "two segments stand in their order or were swapped. The dashed lines are what needs no "
        "understanding: knowing how frequent each piece is, and seeing, besides, what stands at a place "
        "but nothing around it. Many a pre-training never gets below them."
    )
    return [paragraphs(explanation), columns(pretraining_charts(runs, "sop"))]


def _probe_blocks(probe_results: dict[str, Any]) -> list[str]:
    rows = []
    for name in MODEL_NAMES:
        probe = probe_results[name]["probe"]
        accuracies = [
            _with_interval(probe[f"{objective}_accuracy"]) for objective in ("hidden", "sop", "nsp")
        ]
        rows.append(
            [_DISPLAY_NAMES[name], accuracies[0], f"{probe['hidden_loss']['value']:.3f}", *accuracies[1:]]
        )
    explanation = (
        f"Measured on {probe_results['albert']['probe']['samples']:,} held-out samples, with 95% intervals. Company, "
        "whether two segments come from one text, is BERT's objective; neither was trained on it."
    )
    return [
        paragraphs(explanation),
        html_table(("", "hidden pieces right", "loss", "order right", "company right"), rows),
    ]


def _with_interval(estimate: dict[str, float | None]) -> str:
    if estimate["value"] is None or estimate["low"] is None or estimate["high"] is None:
        return "unknown"
    return f"{estimate['value']:.1%} ({100 * estimate['low']:.1f} to {100 * estimate['high']:.1f})"


def _task_blocks(workspace: DemoWorkspace) -> list[str]:
    """Show scores on dev, each beside what takes no reading."""
    charts = []
    for name in workspace.task_names:
        scores = {"tuned ALBERT": _score(workspace.finetune_model(name)), **_baseline_scores(workspace, name)}
        rows = [
            Bar(explanation, score, f"{100 * score:.1f}", 1 if number == 0 else 4)
            for number, (explanation, score) in enumerate(scores.items())
        ]
        charts.append(bar_chart(_TASK_TITLES[name], rows))
    explanation = (
        "The same weights, tuned on examples of each task, in percent right on others that they never saw. "
    )
    if not workspace.settings.text:
        explanation += (
            "A bag of words learned from the same examples: it knows which words are there, and not what "
            "they do to each other."
        )
    return [paragraphs(explanation), columns(charts), *_bag_of_words_note(workspace)]


def _bag_of_words_note(workspace: DemoWorkspace) -> list[str]:
    """Say why, where the bag of words is ahead."""
    scores = {
        name: (_score(workspace.finetune_model(name)), _baseline_scores(workspace, name))
        for name in workspace.task_names
    }
    if all(score >= baselines.get("bag of words", 0.0) for score, baselines in scores.values()):
        return []
    parameters = count_parameters(workspace.model_settings("albert")).encoder
    return [
        paragraphs(
            "Where the bag of words is ahead, this network is too small and has read too little: it has "
            f"{parameters:,} parameters, and some minutes. A bag of words stays where it is; an ALBERT grows "
            "with what it reads. The paper's ALBERT-base, 12 million parameters and 16 GB of text, comes to "
            "82.3 on SQuAD and 81.6 on MNLI."
        )
    ]


def _baseline_scores(workspace: DemoWorkspace, name: str) -> dict[str, float]:
    if name == "cloze":
        most_common_accuracy = workspace.make_cloze_questions()["dev"]["commonest"]
        return {"the commonest word": most_common_accuracy, "guessing": 0.25}
    task_summary = next(one for one in workspace.make_world()["tasks"] if one["name"].lower() == name)
    return {"bag of words": task_summary["words"]} | (
        {"guessing": task_summary["chance"]} if task_summary["chance"] else {}
    )


def _score(result: dict[str, Any]) -> float:
    scores = result["scores"]
    return float(scores.get("exact", scores.get("accuracy", result["headline"])))


def _transition_blocks(workspace: DemoWorkspace, probe_results: dict[str, Any]) -> list[str]:
    charted_models = [
        ChartedModel(
            _DISPLAY_NAMES[name],
            workspace.model_settings(name),
            _COLORS[name],
            [LayerTransition(**one) for one in probe_results[name]["transitions"]],
        )
        for name in MODEL_NAMES
    ]
    explanation = (
        "One layer again and again could drive every state to the same point, where further layers do "
        "nothing: both curves would fall to 0. How far each layer moves the states is Figure 1 of the "
        "paper, here for these two."
    )
    return [paragraphs(explanation), columns(transition_charts(charted_models))]


def _command_blocks(workspace: DemoWorkspace) -> list[str]:
    explanation = (
        "What was done here, in commands. Put your own text where the world's is, and go on from there."
    )
    executable = albertine_executable()
    executable_note = "" if executable == "albertine" else f" On this machine, albertine is {executable}."
    return [paragraphs(explanation + executable_note), command_block(*equivalent_commands(workspace))]


def _next_blocks(workspace: DemoWorkspace) -> list[str]:
    explanation = (
        f"This was the smallest network of the family, on {platform.machine()} with "
        f"Python {platform.python_version()}. The others, and what each needs, are a line each: albertine "
        "info."
    )
    finetuned_folders = ", ".join(str(workspace.out / "tasks" / name) for name in workspace.task_names)
    serving_note = (
        f"What was tuned can be asked in a browser too: {finetuned_folders}. " if finetuned_folders else ""
    )
    headed_commands = [
        f"<h3>{escape(name)}</h3>{command_block(line)}" for name, line in next_commands(workspace).items()
    ]
    return ["".join(headed_commands), paragraphs(serving_note + explanation)]
