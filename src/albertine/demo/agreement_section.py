"""The section of a demo's report about minimal pairs: accuracies with intervals, and some pairs."""

from collections.abc import Mapping
from html import escape

from albertine.demo.agreement import AgreementTest, ScoredPair
from albertine.inference.minimal_pairs import PairAccuracy
from albertine.report.charts import Interval, interval_chart
from albertine.report.page import Section, html_paragraphs, side_by_side


def agreement_section(test: AgreementTest, names: Mapping[str, str]) -> Section:
    """Return the section; without pairs, it says why.

    Args:
        test: the results.
        names: names of the models for display; the first one is shown in detail.
    """
    if not test.models:
        return Section("Grammar", [html_paragraphs(f"{test.reason[:1].upper()}{test.reason[1:]}.")])
    first = next(iter(names))
    detailed = test.models[first]
    intervals = [_interval(f"{names[name]}, overall", test.models[name].overall) for name in names]
    intervals += [_interval(kind.name, kind) for kind in detailed.kinds]
    explanation = (
        "Minimal pairs: a held-out sentence, and the same sentence with one form that does not agree. The "
        "model, which was not trained for this, prefers the one with the higher pseudo-log-likelihood "
        "(word-l2r). Each form is right in half of the pairs of its kind, so a model that only knows which "
        "form is more frequent is at chance, 50%, the dashed line. The overall accuracy is the mean over the "
        "kinds."
    )
    limits = (
        "The pairs are made by rules, without a parser, and only where the next words leave no doubt. A few "
        "swapped sentences may still be found in a dialect or in older English."
    )
    return Section(
        "Grammar",
        [
            html_paragraphs(explanation),
            interval_chart("Sentences preferred to their swapped form", intervals, 0.5),
            side_by_side(map(_example_html, detailed.examples)),
            html_paragraphs(limits),
        ],
    )


def _interval(name: str, accuracy: PairAccuracy) -> Interval:
    low, high = 100 * accuracy.low, 100 * accuracy.high
    text = f"{accuracy.accuracy:.1%} ({low:.0f} to {high:.0f})"
    name = f"{name} ({accuracy.num_pairs:,} pairs)"
    return Interval(name, accuracy.accuracy, accuracy.low, accuracy.high, text)


def _example_html(scored: ScoredPair) -> str:
    """Return a sentence with its form marked, and the scores with this form and with the other one."""
    pair = scored.pair
    is_correct = scored.good_score > scored.bad_score
    rows = "".join(
        f"<tr><th>{escape(form)}</th><td>{score:.2f}{preferred}</td></tr>"
        for form, score, preferred in (
            (pair.good, scored.good_score, _preferred("correct") if is_correct else ""),
            (pair.bad, scored.bad_score, "" if is_correct else _preferred("wrong")),
        )
    )
    return (
        f"<div><blockquote>{escape(pair.before)}<mark>{escape(pair.good)}</mark>{escape(pair.after)}"
        f'</blockquote><table class="answers"><tbody>{rows}</tbody></table></div>'
    )


def _preferred(css_class: str) -> str:
    return f' <span class="{css_class}">preferred</span>'
