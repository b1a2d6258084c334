"""The section of a page about the recurrence exponent."""

from collections import Counter

from albertine.report.charts import NUM_COLORS, Axes, Curve, line_chart
from albertine.report.page import html_paragraphs, html_table, side_by_side
from albertine.study.measures import find_measure
from albertine.study.recurrence_fit import FORMS, RecurrenceFit
from albertine.study.recurrence_report import RecurrenceReport

_COST_TITLES = {"megabytes": "size", "flops": "number of FLOPs", "seconds": "training time"}


def recurrence_blocks(report: RecurrenceReport | None) -> list[str]:
    """Return table and charts of the fits, or why there is none."""
    if report is None:
        return [html_paragraphs("Too many runs have failed for a fit of the exponent.")]
    explanation = (
        "The loss is fitted by E + A / (N r^phi)^alpha + B / D^beta: N parameters of all layers, without "
        "embeddings, r repetitions of each layer, D training tokens; N and D are in millions. With phi = 0, "
        "repetitions of a layer are worth nothing; with phi = 1, as much as layers with weights of their "
        "own. In this form only the number of parameters counts, in wider layers or in more layers. The form "
        "with separate exponents distinguishes them: its middle term is A / (W^alpha (L r^phi)^gamma), with "
        "L layers of W parameters. A verdict needs both forms to agree. The other rows vary the first form: "
        "one divides each error by the loss, one has E = 0, and one omits the arms with most repetitions. "
        "Intervals are those of a bootstrap over the arms."
    )
    header = ("form", "phi", "95% interval", "alpha", "gamma", "beta", "E", "error")
    rows = [_row(FORMS[form], fit) for form, fit in report.fits.items()]
    verdict = f"{report.text[0].upper()}{report.text[1:]}."
    doubled = (
        f"By the first form, twice as many repetitions count as {2**report.fit.phi:.2f} times as many layers."
    )
    return [
        html_paragraphs(explanation, f"{verdict} {doubled}"),
        html_table(header, rows),
        side_by_side([_layers_chart(report), *_frontier_charts(report)]),
        html_paragraphs(*_frontier_texts(report)),
    ]


def _row(name: str, fit: RecurrenceFit) -> tuple[str, ...]:
    numbers = (fit.alpha, fit.gamma, fit.beta, fit.irreducible_loss)
    return (name, f"{fit.phi:.3f}", fit.interval, *(f"{value:.3f}" for value in numbers), f"{fit.error:.4f}")


def _layers_chart(report: RecurrenceReport) -> str:
    """Return the losses of one repeated layer and of new layers, by the number of applied layers."""
    tokens = Counter(one.tokens for one in report.observations).most_common(1)[0][0]
    alike = [one for one in report.observations if one.tokens == tokens]
    curves: list[Curve] = []
    for width in sorted({one.width for one in alike}):
        repeated = [one for one in alike if one.width == width and one.layers == 1]
        new = [one for one in alike if one.width == width and one.repetitions == 1]
        for name, group in (("repeated", repeated), ("new", new)):
            points = sorted((one.layers * one.repetitions, one.loss) for one in group)
            color = len(curves) % NUM_COLORS + 1
            curves.append(Curve(f"{width} {name}", points, color, dots=True))
    title = "One layer repeated, and new layers, by width"
    return line_chart(title, Axes("applied layers", "loss (nats)"), curves)


def _frontier_charts(report: RecurrenceReport) -> list[str]:
    charts = []
    for cost, points in report.frontiers.items():
        curve = Curve("best", [(point.cost, point.loss) for point in points], 1, dots=True)
        title = f"Lowest loss at a given {_COST_TITLES[cost]}"
        charts.append(line_chart(title, Axes(find_measure(cost).title, "loss (nats)"), [curve]))
    return charts


def _frontier_texts(report: RecurrenceReport) -> list[str]:
    """Return for each cost which of the best arms repeat their layers."""
    texts = []
    for cost, points in report.frontiers.items():
        repeated = [point for point in points if point.repetitions > 1]
        names = "; ".join(f"{point.arm} ({point.loss:.3f})" for point in points)
        same = ", of the same length of training," if cost == "megabytes" else ""
        texts.append(
            f"By {_COST_TITLES[cost]}: {len(points)} arms{same} are better than all cheaper ones, and "
            f"{len(repeated)} of these repeat layers. {names}."
        )
    return texts
