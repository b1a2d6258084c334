"""The doctor lets a healthy run alone, leaves out what is no number, and goes back from what runs away."""

import math
import random

import pytest

from albertine.train.doctor import Doctor


def healthy(doctor: Doctor, steps: int, *, start: int = 1, level: float = 6.0, noise: float = 0.1) -> None:
    draw = random.Random(start)
    for step in range(start, start + steps):
        assert doctor.look(step, level + draw.gauss(0, noise), 1.0) == "fine"


@pytest.mark.parametrize("noise", [0.0, 0.02, 0.5])
def test_noise_is_no_illness(noise: float) -> None:
    doctor = Doctor()
    healthy(doctor, 3000, noise=noise)
    assert doctor.healthy > 2900


@pytest.mark.parametrize(
    ("loss", "norm"), [(math.nan, 1.0), (6.0, math.nan), (6.0, math.inf), (math.inf, 1.0)]
)
def test_no_number_is_left_out_then_gone_back_from(loss: float, norm: float) -> None:
    doctor = Doctor()
    healthy(doctor, 100)
    assert [doctor.look(101 + n, loss, norm) for n in range(5)] == ["leave out"] * 4 + ["go back"]
    assert doctor.healthy == 99  # the weights that the last good loss was computed with


def test_one_bad_step_is_forgotten() -> None:
    doctor = Doctor()
    for step in range(1, 400, 2):
        assert doctor.look(step, math.nan, 1.0) == "leave out"
        assert doctor.look(step + 1, 6.0, 1.0) == "fine"


def test_a_spike_that_passes_is_let_pass_and_one_that_stays_is_not() -> None:
    doctor = Doctor()
    healthy(doctor, 200)
    assert [doctor.look(201 + n, 8.0, 5.0) for n in range(10)] == ["fine"] * 10
    healthy(doctor, 50, start=211)
    found = [doctor.look(261 + n, 8.0, 5.0) for n in range(20)]
    assert found == ["fine"] * 19 + ["go back"]
    assert doctor.healthy == 259


def test_every_return_halves_the_rate() -> None:
    doctor = Doctor()
    assert doctor.factor == 1
    doctor.went_back()
    doctor.went_back()
    assert doctor.factor == 0.25
    assert Doctor(**doctor.state()) == doctor


def test_after_a_turn_a_new_level_is_learned() -> None:
    doctor = Doctor()
    healthy(doctor, 200, level=5.0)
    doctor.forget()
    healthy(doctor, 200, start=201, level=8.0)
