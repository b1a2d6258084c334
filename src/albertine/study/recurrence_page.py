"""The section of a page about the recurrence exponent."""

from albertine.report.charts import Axes, Curve, line_chart
from albertine.report.page import html_table, paragraphs, side_by_side
from albertine.study.measures import find_measure
from albertine.study.recurrence_fit import FORMS, RecurrenceFit
from albertine.study.recurrence_report import RecurrenceReport

_COST_TITLES = {"megabytes": "size", "flops": "number of FLOPs", "seconds": "training time"}
_NUM_COLORS = 6


def recurrence_blocks(report: RecurrenceReport | None) -> list[str]:
    """Return table and charts of the fits, or why there is none."""
    if report is None:
        return [paragraphs("Too many runs have failed for a fit of the exponent.")]
    explanation = (
        "With phi = 0, repetitions of a layer are worth nothing; with phi = 1, as much as layers with "
        "weights of their own. The first form takes a wider layer and one more layer for the same if they "
        "have as many parameters; the second has an exponent for each. A verdict needs both to agree. N is "
        "the number of parameters of all layers, without embeddings, r the number of repetitions of each, D "
        "the number of training tokens; N and D are in millions. Intervals are those of a bootstrap over the "
        "arms."
    )
    header = ("form", "phi", "95% interval", "alpha", "gamma", "beta", "E", "error")
    rows = [_row(FORMS[form], fit) for form, fit in report.fits.items()]
    verdict = f"{report.text[0].upper()}{report.text[1:]}."
    doubled = (
        f"By the first form, twice as many repetitions count as {2**report.fit.phi:.2f} times as many layers."
    )
    return [
        paragraphs(explanation, f"{verdict} {doubled}"),
        html_table(header, rows),
        side_by_side([_fit_chart(report), *_frontier_charts(report)]),
        paragraphs(*_frontier_texts(report)),
    ]


def _row(name: str, fit: RecurrenceFit) -> tuple[str, ...]:
    numbers = (fit.alpha, fit.gamma, fit.beta, fit.irreducible_loss)
    return (name, f"{fit.phi:.3f}", fit.interval, *(f"{value:.3f}" for value in numbers), f"{fit.error:.4f}")


def _fit_chart(report: RecurrenceReport) -> str:
    """Return the loss without its data term, against the fitted size: one curve if the fit is good."""
    fit, curves = report.fit, []
    for number, repeated in enumerate(sorted({one.repetitions for one in report.observations})):
        points = sorted(
            (one.parameters / 1e6 * one.repetitions**fit.phi, one.loss - fit.data_loss(one.tokens))
            for one in report.observations
            if one.repetitions == repeated
        )
        curves.append(Curve(f"r = {repeated:g}", points, number % _NUM_COLORS + 1, dots=True))
    title = "Loss without its data term, against the fitted size: one curve if the first form is right"
    return line_chart(title, Axes("N r^phi, millions", "loss (nats)"), curves)


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
