"""The section of a page about the recurrence exponent."""

from albertine.report.charts import Axes, Curve, line_chart
from albertine.report.page import html_table, paragraphs, side_by_side
from albertine.study.measures import find_measure
from albertine.study.recurrence import FORMS
from albertine.study.recurrence_report import RecurrenceReport

_COST_TITLES = {"megabytes": "stored megabyte", "flops": "FLOP of training", "seconds": "second of training"}


def recurrence_blocks(report: RecurrenceReport | None) -> list[str]:
    """Return table and charts of the fits, or why there is none."""
    if report is None:
        return [paragraphs("The exponent needs more finished runs, with different sizes and repetitions.")]
    fit = report.fit
    explanation = (
        "The loss is fitted by E + A / (N r^phi)^alpha + B / D^beta: N parameters of the layers in millions, "
        "without embeddings; r repetitions of each layer; D training tokens in millions. With phi = 0, "
        "repetitions are worth nothing; with phi = 1, as much as layers with weights of their own. The "
        "interval is that of a bootstrap over the arms."
    )
    rows = [
        (
            FORMS[form],
            f"{one.phi:.3f}",
            f"{one.low:.3f} to {one.high:.3f}",
            f"{one.alpha:.3f}",
            f"{one.beta:.3f}",
            f"{one.floor:.3f}",
            f"{one.error:.4f}",
        )
        for form, one in report.fits.items()
    ]
    header = ("form", "phi", "95% interval", "alpha", "beta", "E", "error")
    verdict = f"{report.text[0].upper()}{report.text[1:]}."
    doubled = f"Twice as many repetitions count as {2**fit.phi:.2f} times as many parameters."
    return [
        paragraphs(explanation, f"{verdict} {doubled}"),
        html_table(header, rows),
        side_by_side([_collapse_chart(report), *_frontier_charts(report)]),
        paragraphs(*_frontier_texts(report)),
    ]


def _collapse_chart(report: RecurrenceReport) -> str:
    """Return the loss without its data term, against the fitted size: one curve if the fit is good."""
    fit = report.fit
    most = max(one.tokens for one in report.observations)
    curves = []
    for number, repetitions in enumerate(sorted({one.repetitions for one in report.observations})):
        points = sorted(
            (one.parameters / 1e6 * one.repetitions**fit.phi, one.loss)
            for one in report.observations
            if one.repetitions == repetitions and one.tokens > 0.9 * most
        )
        curves.append(Curve(f"r = {repetitions:g}", points, number % 6 + 1, dots=True))
    return line_chart(
        "Loss against the fitted size, with the most tokens", Axes("N r^phi, millions", "loss (nats)"), curves
    )


def _frontier_charts(report: RecurrenceReport) -> list[str]:
    charts = []
    for cost, points in report.frontiers.items():
        curve = Curve("best", [(point.cost, point.loss) for point in points], 1, dots=True)
        title = f"Least loss for a {_COST_TITLES[cost]}"
        charts.append(line_chart(title, Axes(find_measure(cost).title, "loss (nats)"), [curve]))
    return charts


def _frontier_texts(report: RecurrenceReport) -> list[str]:
    """Return for each cost which of the best arms repeat their layers."""
    texts = []
    for cost, points in report.frontiers.items():
        repeated = [point for point in points if point.repetitions > 1]
        texts.append(
            f"Per {_COST_TITLES[cost]}: {len(points)} arms are better than all cheaper ones, and "
            f"{len(repeated)} of these repeat layers. "
            + "; ".join(f"{point.arm} ({point.loss:.3f})" for point in points)
            + "."
        )
    return texts
