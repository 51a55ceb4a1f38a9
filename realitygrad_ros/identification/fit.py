"""System identification: the simulator's parameters from recordings, by gradients through the simulator."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.optimize import least_squares

from realitygrad_ros.errors import Cancelled, RealityGradError
from realitygrad_ros.identification.coordinates import VARIABLE_NAMES, Coordinates, Variable
from realitygrad_ros.identification.identifiability import (
    LARGEST_DOUBT,
    information,
    link_inertia,
    open_variables,
    standard_errors,
    tool_doubt,
    unexplained,
)
from realitygrad_ros.identification.recording import UniformRecording
from realitygrad_ros.identification.verdict import ParameterVerdict, verdicts
from realitygrad_ros.identification.windows import Windows, rms
from realitygrad_ros.physics.actuator import servo_torque
from realitygrad_ros.progress import CancelCheck, Progress, never, silent
from realitygrad_ros.robot.configuration import RobotConfiguration
from realitygrad_ros.robot.model import RobotModel
from realitygrad_ros.robot.parameters import SimulationParameters

PRIOR_WEIGHT = 1e-4
"""A parameter that is off its prior by its natural scale costs as much as this root mean square of the residual."""

TOLERANCE = 1e-4
"""Relative change of cost or parameters at which a fit has converged."""

MOST_EVALUATIONS = 60
"""Of the residual in one fit."""


@dataclass(frozen=True, eq=False)
class FitResult:
    """What recordings say about the simulator's parameters."""

    parameters: SimulationParameters
    """The fitted parameters; the prior itself where nothing explains the recordings better."""
    residual_before: float
    """Root mean square residual of the prior, without unit: see `Windows`."""
    residual_after: float
    """The same of `parameters`; never above `residual_before`."""
    verdicts: tuple[ParameterVerdict, ...]
    """One for each parameter of each joint, by parameter, then joint."""
    history: tuple[float, ...]
    """Root mean square residual at each accepted step of the search."""
    saturated: float
    """Share of samples in which a servo is at its effort limit: they tell nothing of its gains."""
    windows: int
    """Number of windows into which the recordings were cut."""
    seconds: float
    """Time that the fit took."""


def fit(
    configuration: RobotConfiguration,
    model: RobotModel,
    recordings: Sequence[UniformRecording],
    prior: SimulationParameters,
    *,
    progress: Progress = silent,
    cancelled: CancelCheck = never,
) -> FitResult:
    r"""Find the parameters whose simulation is nearest to the recordings.

    Minimises, within bounds,

        |r|^2 / N + lambda^2 |x - x_0|^2

    over the coordinates x of `Coordinates`, with the N residuals r of `Windows`, by a trust-region Gauss-Newton
    method with exact derivatives (Branch, Coleman and Li 1999, as in SciPy). The second term only keeps x near the
    prior x_0 where the data say nothing. Then variables which the data do not fix are put back to their prior and
    held, and the others are fitted again: see `identifiability`. RealityGrad (Collins et al. 2021) identifies by
    gradients through the simulator too; the coordinates, the windows and the verdicts are ours.

    Args:
        configuration: gives bounds, gravity and the width of friction.
        model: the robot.
        recordings: of one time step; motions that use every joint, 10 s or more together.
        prior: where the search starts, and the value of every parameter that the data do not fix.
        progress: told the residual after each step.
        cancelled: asked before each evaluation.

    Raises:
        RealityGradError: the recordings hold no motion, or the prior is out of bounds or cannot be simulated.
        Cancelled: `cancelled` said so.
    """
    start = time.monotonic()
    windows = Windows(configuration, model, recordings)
    before = rms(windows.residual(prior))
    if not np.isfinite(before):
        raise RealityGradError("the simulation diverges with the prior's parameters; correct the calibration")
    doubt = tool_doubt(configuration, model, windows)
    unfit = {Variable("kp", int(j)): np.inf for j in np.flatnonzero(doubt > LARGEST_DOUBT)}
    unfit |= {Variable(name, int(j)): np.inf for name in VARIABLE_NAMES for j in np.flatnonzero(windows.resting)}
    search = _Search(configuration, windows, link_inertia(model, windows), prior, progress, cancelled)
    fitted, errors, held = search.run(unfit)
    after = rms(windows.residual(fitted))
    if after > before:
        fitted, after = prior, before
    progress("identify", 1.0, {"residual": after})
    return FitResult(
        parameters=fitted,
        residual_before=before,
        residual_after=after,
        verdicts=verdicts(prior, fitted, configuration.bounds, errors, held, doubt, windows.resting),
        history=tuple(search.history),
        saturated=_saturated(windows, model, fitted),
        windows=len(windows),
        seconds=time.monotonic() - start,
    )


class _Search:
    """Runs least squares on windows, tells of each step, and stops when asked to."""

    def __init__(
        self,
        configuration: RobotConfiguration,
        windows: Windows,
        link_inertia: Float[np.ndarray, "joint"],
        prior: SimulationParameters,
        progress: Progress,
        cancelled: CancelCheck,
    ) -> None:
        self._configuration = configuration
        self._windows = windows
        self._link_inertia = link_inertia
        self._prior = prior
        self._progress = progress
        self._cancelled = cancelled
        self.history: list[float] = []

    def run(
        self, held: Mapping[Variable, float]
    ) -> tuple[SimulationParameters, Mapping[Variable, float], Mapping[Variable, float]]:
        """Fit all variables but those that are held, and hold and fit again until the data fix what is fitted.

        Args:
            held: what is not to be fitted, with its standard error.

        Returns:
            Fitted parameters; the standard error of each variable that was fitted, in its unit; and `held` together
            with what the data leave open.

        Raises:
            RealityGradError: nothing is left to fit.
        """
        fitted, rho = self._prior, None
        while True:
            joints = range(len(self._link_inertia))
            free = [v for name in VARIABLE_NAMES for v in (Variable(name, j) for j in joints) if v not in held]
            if not free:
                raise RealityGradError("the recordings fix no parameter; record longer motions that use every joint")
            space = Coordinates(
                free,
                self._prior,
                self._configuration.bounds,
                self._link_inertia,
                self._configuration.friction_velocity,
            )
            fitted, J, residual = self._minimise(space, fitted)
            # Taken once: parameters that are held later add to the residual what the data do object to.
            rho = unexplained(residual) if rho is None else rho
            known = information(J, rho, len(self._windows))
            newly_held = open_variables(free, known, space.vector(fitted) - space.vector(self._prior))
            if not newly_held:
                return fitted, dict(zip(free, standard_errors(known) * space.scale, strict=True)), held
            held = {**held, **newly_held}

    def _minimise(
        self, space: Coordinates, start: SimulationParameters
    ) -> tuple[SimulationParameters, Float[np.ndarray, "signal sample joint variable"], np.ndarray]:
        """Fitted parameters, and the Jacobian by the coordinates, and the residual of the windows there."""
        x_0 = space.vector(self._prior)
        prior_rows = PRIOR_WEIGHT * np.eye(len(x_0))
        residual = J = np.zeros(0)

        def cost(x: Float[np.ndarray, "variable"]) -> Float[np.ndarray, "row"]:
            nonlocal residual
            if self._cancelled():
                raise Cancelled
            residual = self._windows.residual(space.parameters(x))
            return np.concatenate([residual.ravel() / np.sqrt(residual.size), prior_rows @ (x - x_0)])

        def jacobian(x: Float[np.ndarray, "variable"]) -> Float[np.ndarray, "row variable"]:
            nonlocal J
            # Asked for at accepted steps alone, right after their cost.
            self._tell(rms(residual))
            J = self._windows.jacobian(space.parameters(x), space.wrt(x)) * space.scale
            return np.concatenate([J.reshape(-1, len(x)) / np.sqrt(residual.size), prior_rows])

        solution = least_squares(
            cost,
            np.clip(space.vector(start), space.lower, space.upper),
            jacobian,
            bounds=(space.lower, space.upper),
            ftol=TOLERANCE,
            xtol=TOLERANCE,
            gtol=None,
            max_nfev=MOST_EVALUATIONS,
        )
        fitted = space.parameters(solution.x)
        # J is of the last accepted step, but the residual may be of one that was refused after it.
        return fitted, J, self._windows.residual(fitted)

    def _tell(self, residual: float) -> None:
        self.history.append(residual)
        # How many steps are to come is not known; most fits take about ten.
        self._progress("identify", 1.0 - 0.8 ** len(self.history), {"residual": residual})


def _saturated(windows: Windows, model: RobotModel, parameters: SimulationParameters) -> float:
    q, qd = windows.smoothed.position[:-1], windows.smoothed.velocity[:-1]
    torque = servo_torque(parameters.kp, parameters.kd, windows.command, 0.0, q, qd, np.inf)
    return float(np.mean(np.abs(torque) >= model.limit_array("effort_limit")))
