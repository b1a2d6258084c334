"""The recurrence exponent: known ones are found, SciPy finds the same, and the page shows what came out."""

import itertools
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import least_squares

from albertine.errors import InputError
from albertine.settings import ModelSettings
from albertine.study.arm_report import ArmReport
from albertine.study.claim import ExponentRange
from albertine.study.claim_file import parse_claim
from albertine.study.data import find_data
from albertine.study.display import show_reports
from albertine.study.page import claim_page
from albertine.study.protocol import arm_values, check_arms, find_protocol
from albertine.study.recurrence import Observation, check_sizes, repetitions
from albertine.study.recurrence_fit import (
    FORMS,
    PHI_BOUNDS,
    Form,
    RecurrenceFit,
    fit_recurrence,
    fit_with_interval,
    possible_forms,
)
from albertine.study.recurrence_report import RecurrenceReport, make_recurrence_report
from albertine.study.report import ClaimReport, make_report
from albertine.study.settings import StudySettings
from albertine.study.study_run import StudyRun

PUBLISHED = Path(__file__).parents[2] / "docs" / "studies" / "claims" / "recurrence.minutes.json"
_SHAPES = [(blocks, times) for blocks in (1, 2, 3) for times in (1, 2, 3, 4, 6, 12) if blocks * times <= 12]


def _observations(
    phi: float, noise: float, seed: int = 0, alpha: float = 0.25, gamma: float = 0.25
) -> list[Observation]:
    """Return runs in which width has the exponent alpha, and the number of layers gamma."""
    rng = np.random.default_rng(seed)
    return [
        Observation(
            f"{width}, {blocks} x {times}, {tokens}",
            0,  # not fitted
            width,
            blocks,
            times,
            tokens,
            1.2
            + 0.5 * (width / 1e6) ** -alpha * (blocks * times**phi) ** -gamma
            + 0.6 * (tokens / 1e6) ** -0.4
            + noise * rng.normal(),
        )
        for tokens, width in itertools.product((4e5, 1.2e6, 3.6e6), (5e4, 2e5))
        for blocks, times in _SHAPES
    ]


@pytest.mark.parametrize("form", ["sum", "separate"])
@pytest.mark.parametrize("phi", [0.0, 0.4, 1.0])
def test_known_exponents_are_found(phi: float, form: Form) -> None:
    fit = fit_recurrence(_observations(phi, noise=0.0), form)
    assert fit.phi == pytest.approx(phi, abs=2e-3)
    assert (fit.alpha, fit.gamma, fit.beta) == pytest.approx((0.25, 0.25, 0.4), abs=5e-3)
    assert fit.error < 1e-4


@pytest.mark.slow
def test_width_and_depth_of_different_worth_need_the_separate_form() -> None:
    observations = _observations(1.0, noise=0.01, gamma=0.1)
    assert fit_with_interval(observations, "sum", samples=50).high < 0.9
    separate = fit_with_interval(observations, "separate", samples=50)
    assert separate.low < 1.0 < separate.high
    assert (separate.alpha, separate.gamma) == pytest.approx((0.25, 0.1), abs=0.03)


def _published() -> tuple[list[Observation], dict[Form, RecurrenceFit]]:
    """Return the runs of the published page, and its fits, whose phi is at a bound of the search."""
    content = json.loads(PUBLISHED.read_text(encoding="utf-8"))["recurrence"]
    fits = {form: RecurrenceFit(**content["fits"][form]) for form in FORMS}
    return [Observation(**one) for one in content["observations"]], fits


def _scipy_fit(observations: Sequence[Observation], form: Form) -> tuple[float, float]:
    """Return phi and the squared error of the best fit that SciPy finds."""
    has_gamma = form == "separate"

    def errors(values: Sequence[float]) -> list[float]:
        phi, alpha, beta, irreducible, size_term, data_term = values[:6]
        gamma = values[6] if has_gamma else alpha
        fit = RecurrenceFit(phi, alpha, gamma, beta, irreducible, size_term, data_term, error=0.0)
        return [fit.predict(one) - one.loss for one in observations]

    low, high = [-0.5, 0.02, 0.02, 0, 0, 0], [2, 3, 3, 99, 99, 99]
    bounds = ([*low, 0.02], [*high, 3]) if has_gamma else (low, high)
    starts = itertools.product((-0.3, 0.8), (0.1, 0.9), (0.1, 0.5))
    fits = [
        least_squares(errors, [*start, 1, 1, 1, *([start[1]] * has_gamma)], bounds=bounds) for start in starts
    ]
    best = min(fits, key=lambda one: one.cost)
    return best.x[0], 2 * best.cost


@pytest.mark.parametrize("form", ["sum", "separate"])
@pytest.mark.parametrize("phi", [0.4, -1.0, 3.0])
def test_scipy_finds_the_same_fit(phi: float, form: Form) -> None:
    observations = _observations(phi, noise=0.02)
    expected, squared_error = _scipy_fit(observations, form)
    fit = fit_recurrence(observations, form)
    assert fit.phi == pytest.approx(expected, abs=2e-3)
    assert fit.error <= 1.0001 * np.sqrt(squared_error / len(observations))


@pytest.mark.slow
@pytest.mark.parametrize("form", ["sum", "separate"])
def test_scipy_finds_the_same_fit_to_the_published_runs(form: Form) -> None:
    observations, _ = _published()
    expected, squared_error = _scipy_fit(observations, form)
    fit = fit_recurrence(observations, form)
    assert fit.phi == pytest.approx(expected, abs=2e-3)
    assert fit.error <= 1.0001 * np.sqrt(squared_error / len(observations))


def test_a_fit_near_another_is_as_good_as_one_from_all_starts() -> None:
    observations, _ = _published()
    by_arm: dict[str, list[Observation]] = {}
    for one in observations:
        by_arm.setdefault(one.arm, []).append(one)
    arms, rng = list(by_arm.values()), np.random.default_rng(0)
    whole = fit_recurrence(observations, "separate")
    for _ in range(5):
        drawn = [one for index in rng.integers(len(arms), size=len(arms)) for one in arms[index]]
        near, best = (fit_recurrence(drawn, "separate", near=start) for start in (whole, None))
        assert near.error == pytest.approx(best.error, rel=1e-5)


def test_published_fits_are_those_of_the_published_runs() -> None:
    observations, fits = _published()
    for form in ("sum", "separate", "relative", "no_irreducible_loss"):
        fit = fit_recurrence(observations, form)
        assert (fit.phi, fit.alpha, fit.gamma, fit.beta, fit.error) == pytest.approx(
            (fits[form].phi, fits[form].alpha, fits[form].gamma, fits[form].beta, fits[form].error), abs=1e-3
        )


@pytest.mark.slow
def test_intervals_contain_the_exponent() -> None:
    fits = [fit_with_interval(_observations(0.5, 0.02, seed), samples=60) for seed in range(12)]
    assert sum(fit.low <= 0.5 <= fit.high for fit in fits) >= 9
    assert all(fit.low <= fit.phi <= fit.high and fit.high - fit.low < 0.5 for fit in fits)


def test_runs_with_the_same_number_of_tokens_have_no_data_term() -> None:
    same = [replace(one, tokens=1e6) for one in _observations(0.5, 0.0)[: len(_SHAPES) * 2]]
    fit = fit_recurrence(same)
    assert (fit.beta, fit.data_term) == (0.0, 0.0)
    assert fit.phi == pytest.approx(0.5, abs=2e-3)


def test_forms_agree_without_noise_unless_they_are_wrong() -> None:
    observations = _observations(0.5, 0.0)
    fits = {form: fit_with_interval(observations, form, samples=2) for form in FORMS}
    for form in ("sum", "separate", "relative", "fewer_repetitions"):
        assert fits[form].phi == pytest.approx(0.5, abs=5e-3)
    wrong = fits["no_irreducible_loss"]
    assert wrong.irreducible_loss == 0 < wrong.error


@pytest.mark.slow
def test_exponents_outside_of_the_search_are_reported() -> None:
    fit = fit_with_interval(_observations(3.0, 0.01), samples=10)
    assert fit.phi == PHI_BOUNDS[1]
    assert fit.is_at_bound
    assert "at the bound" in fit.interval
    growing = [replace(one, loss=1 + one.parameters / 1e6 + one.repetitions) for one in _observations(0, 0)]
    assert fit_with_interval(growing, samples=2).is_at_bound


def test_too_few_or_equal_sizes_cannot_be_fitted() -> None:
    observations = _observations(0.5, 0.0)
    check_sizes(observations)
    for few in (observations[:12], [*observations[:5]] * 10, []):
        with pytest.raises(InputError, match=r"sizes without those of the most repetitions; a fit needs 12"):
            check_sizes(few)
    twice = [replace(one, repetitions=min(one.repetitions, 2)) for one in observations]
    with pytest.raises(InputError, match=r"needs two numbers of parameters, and two of repetitions besides"):
        check_sizes([replace(one, tokens=one.tokens + number) for number, one in enumerate(twice)])
    assert "separate" not in possible_forms([replace(one, layers=1) for one in observations])


def test_repetitions() -> None:
    assert repetitions(ModelSettings(layers=6, groups=2)) == 3
    assert repetitions(ModelSettings(layers=6, share="none")) == 1
    with pytest.raises(InputError, match=r"the recurrence exponent needs layers that are shared whole"):
        repetitions(ModelSettings(layers=6, share="ffn"))


def _report(tmp_path: Path, above: float, below: float) -> ClaimReport:
    """Return a report of runs whose losses follow an exponent of 0.5."""
    arms = "\n".join(
        f'"{width} wide, {blocks} x {times}" = {{ model.hidden_size = {width}, '
        f"model.layers = {blocks * times}, model.groups = {blocks} }}"
        for width in (32, 48)
        for blocks, times in _SHAPES
    )
    claim = parse_claim(
        f'claim = "a"\nsource = "b"\ncolumns = ["mask_loss"]\nseeds = 1\n[recurrence]\nabove = {above}\n'
        f"below = {below}\n[arms]\n{arms}\n",
        "exponent",
        "exponent.toml",
    )
    protocol = find_protocol(claim, "smoke")
    check_arms(claim, protocol)
    data = find_data(tmp_path, protocol, StudySettings(scale="smoke"))
    runs = {arm: [StudyRun(data, protocol, arm, arm_values(claim, protocol, arm), 0)] for arm in claim.arms}
    report = make_report(claim, "smoke", protocol, runs)
    assert report.recurrence is None  # nothing is computed yet
    assert report.outcome == "undecided"
    rng, measured = np.random.default_rng(0), []
    for arm in report.arms:
        model = arm.runs[0].settings.model
        size = model.hidden_size**2 * 12 * model.groups
        loss = 1 + 0.5 * (size / 1e6 * repetitions(model) ** 0.5) ** -0.25 + 0.005 * rng.normal()
        cost = float(model.layers * model.hidden_size)
        values = {name: [cost] for name in ("megabytes", "flops", "seconds", "parameters")}
        measured.append(ArmReport(arm.name, arm.runs, {**values, "mask_loss": [loss]}, {}))
    assert claim.recurrence is not None
    recurrence = make_recurrence_report(claim.recurrence, measured)
    return replace(report, arms=tuple(measured), recurrence=recurrence)


@pytest.mark.slow
def test_report_of_an_exponent(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = _report(tmp_path, 0, 1)
    assert report.outcome == "confirmed"
    page = claim_page(report, "stories", "albertine study exponent.toml").html()
    assert "Recurrence exponent 0." in page
    assert "Lowest loss at a given training time" in page
    show_reports([report], as_json=False)
    assert "expected between 0 and 1: confirmed" in " ".join(capsys.readouterr().out.split())
    show_reports([report], as_json=True)
    assert '"phi"' in capsys.readouterr().out
    for points in report.recurrence.frontiers.values():  # type: ignore[union-attr]
        losses, costs = [one.loss for one in points], [one.cost for one in points]
        assert losses == sorted(losses, reverse=True)
        assert costs == sorted(costs)


@pytest.mark.slow
def test_exponents_outside_of_the_range(tmp_path: Path) -> None:
    report = _report(tmp_path, 0, 0.2)
    assert report.outcome == "contradicted"
    recurrence = report.recurrence
    assert recurrence is not None
    inside = replace(recurrence, expected=ExponentRange(recurrence.fit.phi, 1.0))
    assert inside.outcome == "undecided"


@pytest.mark.parametrize(
    ("low", "high", "size_term", "outcome"),
    [
        (PHI_BOUNDS[0], -0.3, 1.0, "contradicted"),  # wherever the interval begins, it ends below 0
        (1.2, PHI_BOUNDS[1], 1.0, "contradicted"),
        (PHI_BOUNDS[0], 0.3, 1.0, "undecided"),
        (0.3, PHI_BOUNDS[1], 1.0, "undecided"),
        (0.3, 0.6, 1.0, "confirmed"),
        (PHI_BOUNDS[0], -0.3, 0.0, "undecided"),  # phi has no effect
    ],
)
def test_intervals_at_the_bound_of_the_search(
    low: float, high: float, size_term: float, outcome: str
) -> None:
    fit = RecurrenceFit(low, 1.0, 1.0, 1.0, 0.0, size_term, 1.0, error=0.1, low=low, high=high)
    report = RecurrenceReport(ExponentRange(0.0, 1.0), (), {"sum": fit, "separate": fit}, {})
    assert report.outcome == outcome
    wide = replace(report, expected=ExponentRange(-1.0, 3.0))  # wider than the search
    assert wide.outcome == ("confirmed" if (low, high, size_term) == (0.3, 0.6, 1.0) else "undecided")


def test_a_claim_without_expectation_is_refused() -> None:
    with pytest.raises(InputError, match=r"c.toml: expectations: missing; a claim expects something"):
        parse_claim('claim = "a"\nsource = "b"\ncolumns = []\n[arms]\nx = {}\n', "c", "c.toml")
