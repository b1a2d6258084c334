"""The report of a demo: what ALBERT is, what it learned in these minutes, and how to do each step by hand."""

import platform
from html import escape
from typing import Any

from albertine import progress
from albertine.corpus.corpus import Corpus
from albertine.demo.commands import as_typed, by_hand, what_next
from albertine.demo.steps import MODEL, NETWORKS, Lab
from albertine.model.cost import count_flops
from albertine.model.parameters import count_parameters
from albertine.pretrain.guess import guesser
from albertine.report.charts import Bar, bars
from albertine.report.curves import Learner, learning
from albertine.report.inside import Shown, movement, parameters
from albertine.report.page import Page, Section, commands, side_by_side, table, text
from albertine.report.picture import picture
from albertine.report.pretrained import ANSWERS, gaps, orders
from albertine.study.transitions import Transition

_NAMES = {"albert": "ALBERT", "bert": "BERT"}
_TONES = {"albert": 1, "bert": 2}
_EXAMPLES = 4
_TITLES = {
    "squad": "Where is the answer? (SQuAD)",
    "cloze": "Which of four words stood there?",
    "mnli": "Does one follow from the other? (MNLI)",
}


def page_of(lab: Lab, seconds: float) -> Page:
    """Lay out what a finished demo found."""
    corpus, guess = Corpus(lab.out / "corpus"), guesser(lab.out / "albert")
    counts = {name: count_parameters(lab.model(name)).encoder for name in NETWORKS}
    known, seed = lab.knowledge(), lab.settings.seed
    probe = known["albert"]["probe"]
    facts = [
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
        Section("What was built", _built(lab)),
        Section("How it learned", _learned(lab)),
        Section("What it knows", _known(known)),
        *([Section("What it is good for", _tasks(lab))] if lab.tasks else []),
        gaps(guess, corpus, _EXAMPLES, seed),
        orders(guess, corpus, _EXAMPLES, seed + 1),
        Section("Inside", _inside(lab, known)),
        Section("Each step by hand", _by_hand(lab)),
        Section("What to do next", _next(lab)),
    ]
    return Page("A little ALBERT", lead, facts, sections)


def _built(lab: Lab) -> list[str]:
    albert, bert = (Shown(_NAMES[name], lab.model(name), _TONES[name]) for name in NETWORKS)
    costs = {one.name: count_flops(one.model, MODEL.max_length).forward_per_token for one in (albert, bert)}
    ours, theirs = (progress.operations(costs[one.name]) for one in (albert, bert))
    said = (
        f"Two things make it small. The table of pieces is {albert.model.embedding_size} wide and not "
        f"{albert.model.hidden_size}, and one matrix widens what is looked up. And there is one layer: "
        f"what it gives goes in again at the bottom, {albert.model.layers} times. It costs what BERT costs "
        f"to run ({ours} a piece against {theirs}), and a fraction to keep, to send and to add up between "
        "machines."
    )
    answers = ANSWERS["sop"]
    drawn = [picture(albert.model, "ALBERT", answers), picture(bert.model, "BERT of the same shape", answers)]
    return [text(said), side_by_side(drawn), parameters([albert, bert])]


def _learned(lab: Lab) -> list[str]:
    learners = [Learner(_NAMES[name], lab.out / name, _TONES[name]) for name in NETWORKS]
    said = (
        "Both read the same text for the same number of steps. They guess hidden pieces, and tell whether "
        "two segments stand in their order or were swapped. The dashed lines are what needs no "
        "understanding: knowing how frequent each piece is, and seeing, besides, what stands at a place "
        "but nothing around it. Many a pre-training never gets below them."
    )
    return [text(said), side_by_side(learning(learners, "sop"))]


def _known(known: dict[str, Any]) -> list[str]:
    rows = []
    for name in NETWORKS:
        probe = known[name]["probe"]
        right = [_estimate(probe[f"{what}_accuracy"]) for what in ("hidden", "sop", "nsp")]
        rows.append([_NAMES[name], right[0], f"{probe['hidden_loss']['value']:.3f}", *right[1:]])
    said = (
        f"Measured on {known['albert']['probe']['samples']:,} held-out samples, with 95% intervals. Company, "
        "whether two segments come from one text, is BERT's objective; neither was trained on it."
    )
    return [text(said), table(("", "hidden pieces right", "loss", "order right", "company right"), rows)]


def _estimate(found: dict[str, float | None]) -> str:
    if found["value"] is None or found["low"] is None or found["high"] is None:
        return "unknown"
    return f"{found['value']:.1%} ({100 * found['low']:.1f} to {100 * found['high']:.1f})"


def _tasks(lab: Lab) -> list[str]:
    """Show scores on dev, each beside what takes no reading."""
    drawn = []
    for name in lab.tasks:
        scores = {"tuned ALBERT": _score(lab.task(name)), **_without_reading(lab, name)}
        rows = [
            Bar(said, score, f"{100 * score:.1f}", 1 if number == 0 else 4)
            for number, (said, score) in enumerate(scores.items())
        ]
        drawn.append(bars(_TITLES[name], rows))
    said = (
        "The same weights, tuned on examples of each task, in percent right on others that they never saw. "
    )
    if not lab.settings.text:
        said += (
            "A bag of words learned from the same examples: it knows which words are there, and not what "
            "they do to each other."
        )
    return [text(said), side_by_side(drawn), *_behind(lab)]


def _behind(lab: Lab) -> list[str]:
    """Say why, where the bag of words is ahead."""
    scores = {name: (_score(lab.task(name)), _without_reading(lab, name)) for name in lab.tasks}
    if all(score >= beside.get("bag of words", 0.0) for score, beside in scores.values()):
        return []
    parameters = count_parameters(lab.model("albert")).encoder
    return [
        text(
            "Where the bag of words is ahead, this network is too small and has read too little: it has "
            f"{parameters:,} parameters, and some minutes. A bag of words stays where it is; an ALBERT grows "
            "with what it reads. The paper's ALBERT-base, 12 million parameters and 16 GB of text, comes to "
            "82.3 on SQuAD and 81.6 on MNLI."
        )
    ]


def _without_reading(lab: Lab, name: str) -> dict[str, float]:
    if name == "cloze":
        commonest = lab.questions()["dev"]["commonest"]
        return {"the commonest word": commonest, "guessing": 0.25}
    told = next(one for one in lab.world()["tasks"] if one["name"].lower() == name)
    return {"bag of words": told["words"]} | ({"guessing": told["chance"]} if told["chance"] else {})


def _score(found: dict[str, Any]) -> float:
    scores = found["scores"]
    return float(scores.get("exact", scores.get("accuracy", found["headline"])))


def _inside(lab: Lab, known: dict[str, Any]) -> list[str]:
    networks = [
        Shown(
            _NAMES[name],
            lab.model(name),
            _TONES[name],
            [Transition(**one) for one in known[name]["transitions"]],
        )
        for name in NETWORKS
    ]
    said = (
        "One layer again and again could drive every state to the same point, where further layers do "
        "nothing: both curves would fall to 0. How far each layer moves the states is Figure 1 of the "
        "paper, here for these two."
    )
    return [text(said), side_by_side(movement(networks))]


def _by_hand(lab: Lab) -> list[str]:
    said = "What was done here, in commands. Put your own text where the world's is, and go on from there."
    typed = as_typed()
    where = "" if typed == "albertine" else f" On this machine, albertine is {typed}."
    return [text(said + where), commands(*by_hand(lab))]


def _next(lab: Lab) -> list[str]:
    said = (
        f"This was the smallest network of the family, on {platform.machine()} with "
        f"Python {platform.python_version()}. The others, and what each needs, are a line each: albertine "
        "info."
    )
    tuned = ", ".join(str(lab.out / "tasks" / name) for name in lab.tasks)
    served = f"What was tuned can be asked in a browser too: {tuned}. " if tuned else ""
    told = [f"<h3>{escape(name)}</h3>{commands(line)}" for name, line in what_next(lab).items()]
    return ["".join(told), text(served + said)]
