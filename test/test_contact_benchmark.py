"""What `realitygrad bench contact` claims: the figures, and the closed form that it holds them against."""

import json
from dataclasses import replace

import numpy as np
import pytest

from realitygrad_ros.benchmarks import contact, landing
from realitygrad_ros.main import main
from realitygrad_ros.physics.stochastic import GRADIENT_MODES


def test_the_gradient_of_a_rigid_landing_is_that_of_its_objective():
    rigid = landing.rigid_landing(0.8)
    spacing = landing.HEIGHTS[1] - landing.HEIGHTS[0]
    difference = (rigid.objective[:, 2:] - rigid.objective[:, :-2]) / (2.0 * spacing)
    np.testing.assert_allclose(rigid.gradient[:, 1:-1], difference, rtol=0.0, atol=5e-4)


def test_hard_landings_tend_to_the_rigid_one_with_the_time_step():
    rigid = landing.rigid_landing(landing.foot_contact().friction_coefficient)
    errors = []
    for time_step in (0.004, 0.001):
        simulated = landing.simulated_landing("hard", replace(landing.foot_contact(), time_step=time_step))
        errors.append(np.abs(simulated.place - rigid.place).max())
    assert errors[0] < 2.0 * landing.SPEEDS.max() * 0.004  # two steps
    assert errors[1] < 0.3 * errors[0]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bench") / "made"
    return folder, contact.run(folder, lambda *_: None)


def test_analytic_smoothing_alone_has_a_gradient_to_follow(made):
    figures = dict(made[1])
    assert tuple(figures) == GRADIENT_MODES
    smooth = figures.pop("smooth")
    assert smooth["gradient_cosine"] > 0.99
    assert smooth["gradient_error"] < 0.1
    assert smooth["roughness"] < 1.2
    assert smooth["place_error_mm"] < 2.5
    for mode, others in figures.items():
        assert others["gradient_cosine"] < 0.5, mode
        assert others["gradient_error"] > 0.9, mode
        assert others["roughness"] > 20.0, mode


def test_picture_and_curves_are_written(made):
    folder, figures = made
    assert (folder / "contact.png").read_bytes().startswith(b"\x89PNG")
    content = json.loads((folder / "contact.json").read_text())
    assert content["figures"] == figures
    assert set(content["curves"]) == {"rigid", *GRADIENT_MODES}
    for curves in content["curves"].values():
        for name in ("place", "objective", "gradient"):
            assert np.shape(curves[name]) == (len(content["speed"]), len(content["height"]))


def test_a_file_is_no_folder_to_write_to(tmp_path, capsys):
    (tmp_path / "file").touch()
    assert main(["bench", "contact", "--out", str(tmp_path / "file")]) == 2
    assert "--out" in capsys.readouterr().err


def test_a_benchmark_refuses_what_is_not_its_own():
    for arguments in (["contact"], ["contact", "--out", ".", "--robot", "ur5"], ["physics", "--out", "."]):
        with pytest.raises(SystemExit, match="2"):
            main(["bench", *arguments])
