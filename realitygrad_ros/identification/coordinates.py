"""The coordinates in which a fit searches: some of the parameters, each in units of its natural scale."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from realitygrad_ros.errors import RealityGradError
from realitygrad_ros.robot.parameters import PARAMETER_NAMES, SimulationParameters

DISSIPATION = "dissipation"
"""kd + damping: with a velocity target of zero both oppose the velocity alike."""

SMALLEST_SCALE = 1e-3
"""Least natural scale of a parameter, as a share of the width of its bounds."""


class Variable(NamedTuple):
    """One unknown: `name` is a parameter or `DISSIPATION`, `joint` a joint's index."""

    name: str
    joint: int


VARIABLE_NAMES = (DISSIPATION, "armature", "kp", "friction")


class Coordinates:
    """Maps parameters to a vector x of the free variables, and back; every other parameter stays at its prior.

    The dissipation is kd + damping. It changes the damping alone, and kd only where the damping has reached its lower
    bound and the sum must fall below the prior's kd.

    Natural scales, by which x is a pure number of the order of one: kp and dissipation are compared with their prior,
    armature with the inertia that the joint moves (armature included), friction with `friction_velocity` times the
    dissipation, since that is the friction whose slope at rest equals the dissipation.
    """

    def __init__(
        self,
        variables: Sequence[Variable],
        prior: SimulationParameters,
        bounds: Mapping[str, tuple[float, float]],
        link_inertia: Float[np.ndarray, "joint"],
        friction_velocity: float,
    ) -> None:
        """Set the coordinates up.

        Args:
            variables: what is free.
            prior: the origin; where it lies on a bound, x starts there.
            bounds: lower and upper bound of each parameter.
            link_inertia: the mass matrix's diagonal, without armature [kg m^2 or kg].
            friction_velocity: width of the smooth Coulomb friction [rad/s].

        Raises:
            RealityGradError: the prior is out of bounds; the message names the parameter.
        """
        _check_prior(prior, bounds)
        self.variables = tuple(variables)
        self._prior = prior
        self._least_damping = bounds["damping"][0]
        limits = {name: [np.full_like(prior.kp, bound) for bound in bounds[name]] for name in PARAMETER_NAMES}
        limits[DISSIPATION] = [limits["damping"][0] + limits["kd"][0], limits["damping"][1] + prior.kd]
        dissipation = self._all(prior)[DISSIPATION]
        natural = {
            DISSIPATION: dissipation,
            "armature": prior.armature + link_inertia,
            "kp": prior.kp,
            "friction": friction_velocity * dissipation,
        }
        for name in VARIABLE_NAMES:
            lower, upper = limits[name]
            floor = SMALLEST_SCALE * (upper - lower) * (friction_velocity if name == "friction" else 1.0)
            natural[name] = np.maximum(natural[name], floor)
        self.scale = self._pick(natural)
        """[variable], in the variable's unit."""
        self.lower = self._pick({name: pair[0] for name, pair in limits.items()}) / self.scale
        self.upper = self._pick({name: pair[1] for name, pair in limits.items()}) / self.scale
        """Bounds of x."""

    def _pick(self, arrays: Mapping[str, Float[np.ndarray, "joint"]]) -> Float[np.ndarray, "variable"]:
        return np.array([arrays[name][joint] for name, joint in self.variables])

    @staticmethod
    def _all(parameters: SimulationParameters) -> dict[str, Float[np.ndarray, "joint"]]:
        arrays = {name: getattr(parameters, name) for name in PARAMETER_NAMES}
        return arrays | {DISSIPATION: parameters.kd + parameters.damping}

    def vector(self, parameters: SimulationParameters) -> Float[np.ndarray, "variable"]:
        """x of parameters."""
        return self._pick(self._all(parameters)) / self.scale

    def parameters(self, x: Float[np.ndarray, "variable"]) -> SimulationParameters:
        """Parameters of x."""
        arrays = {name: array.copy() for name, array in self._all(self._prior).items()}
        for (name, joint), value in zip(self.variables, x * self.scale, strict=True):
            arrays[name][joint] = value
        total = arrays.pop(DISSIPATION)
        free = [joint for name, joint in self.variables if name == DISSIPATION]
        arrays["kd"][free] = np.clip(total - self._least_damping, 0.0, self._prior.kd)[free]
        arrays["damping"][free] = (total - arrays["kd"])[free]
        return SimulationParameters(self._prior.joint_names, **arrays)

    def wrt(self, x: Float[np.ndarray, "variable"]) -> list[tuple[str, int]]:
        """Which parameter each variable changes at x: pairs (parameter's name, joint's index)."""
        pairs = []
        for (name, joint), value in zip(self.variables, x * self.scale, strict=True):
            lowered = value < self._prior.kd[joint] + self._least_damping
            pairs.append(("kd" if lowered else "damping", joint) if name == DISSIPATION else (name, joint))
        return pairs


def _check_prior(prior: SimulationParameters, bounds: Mapping[str, tuple[float, float]]) -> None:
    for name in PARAMETER_NAMES:
        lower, upper = bounds[name]
        values = getattr(prior, name)
        outside = (values < lower) | (values > upper)
        if outside.any():
            joint = prior.joint_names[int(np.argmax(outside))]
            raise RealityGradError(
                f"the prior's {name} of joint '{joint}' is {values[outside][0]:g}, outside its bounds "
                f"[{lower:g}, {upper:g}]; correct the calibration or the bounds"
            )
