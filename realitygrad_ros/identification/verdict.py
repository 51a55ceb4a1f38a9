"""What is said of each parameter after a fit: its value, how certain it is, and why it was held if it was."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from realitygrad_ros.identification.coordinates import DISSIPATION, Variable
from realitygrad_ros.identification.identifiability import LARGEST_DOUBT, LARGEST_ERROR
from realitygrad_ros.robot.parameters import PARAMETER_NAMES, PARAMETER_UNITS, SimulationParameters

AT_BOUND = 1e-6
"""A value counts as at its bound within this share of the bounds' width."""


@dataclass(frozen=True)
class ParameterVerdict:
    """One parameter of one joint."""

    name: str
    joint: str
    prior: float
    fitted: float
    """The prior where the parameter was held."""
    standard_error: float | None
    """In the parameter's unit, by `identifiability.standard_errors`; None where it was held."""
    identified: bool
    """False: the data do not fix it, and it was held at its prior."""
    reason: str
    """Why it was held, or what else to know; may be empty."""


def verdicts(
    prior: SimulationParameters,
    fitted: SimulationParameters,
    bounds: Mapping[str, tuple[float, float]],
    errors: Mapping[Variable, float],
    held: Mapping[Variable, float],
    doubt: Float[np.ndarray, "joint"],
    resting: Bool[np.ndarray, "joint"],
) -> tuple[ParameterVerdict, ...]:
    """A verdict for every parameter of every joint.

    Args:
        prior: where the fit began.
        fitted: where it ended.
        bounds: of the parameters.
        errors: standard error of each variable that was fitted, in its unit.
        held: variables that were not, with the standard error in units of the natural scale that they would have.
        doubt: share by which an unknown tool would change kp: see `identifiability.tool_doubt`.
        resting: joints that hardly move: see `Windows`.
    """
    found = []
    for name in PARAMETER_NAMES:
        for j, joint in enumerate(prior.joint_names):
            variable = Variable(DISSIPATION if name in ("damping", "kd") else name, j)
            values = float(getattr(prior, name)[j]), float(getattr(fitted, name)[j])
            lowered = bool(fitted.kd[j] < prior.kd[j])
            if name == "kd" and not lowered:
                error, reason = None, f"only kd + damping of {joint} is fixed by this data; kd kept at its prior"
            elif variable in held:
                error, reason = None, _why_held(variable, held[variable], joint, float(doubt[j]), bool(resting[j]))
            else:
                error = float(errors[variable])
                reason = _remark(name, values[1], bounds[name], lowered)
            found.append(ParameterVerdict(name, joint, *values, error, error is not None, reason))
    return tuple(found)


def _why_held(variable: Variable, error: float, joint: str, doubt: float, resting: bool) -> str:
    name = "kd + damping" if variable.name == DISSIPATION else variable.name
    if resting:
        return f"{joint} hardly moves in this data; {name} kept at its prior"
    if variable.name == "kp" and doubt > LARGEST_DOUBT:
        return (
            f"the links beyond {joint} are too light to weigh its gains (a small tool that the URDF does not know "
            f"would change kp {_times(doubt)}): only armature / kp, (kd + damping) / kp and friction / kp are fixed by "
            "this data; kp kept at its prior"
        )
    return (
        f"{name} of {joint} is not fixed by this data (its standard error would be {error:.0%} of its natural scale, "
        f"above {LARGEST_ERROR:.0%}); kept at its prior"
    )


def _times(doubt: float) -> str:
    return f"by {doubt:.0%}" if doubt < 10.0 else "tenfold or more"


def _remark(name: str, value: float, bounds: tuple[float, float], lowered: bool) -> str:
    lower, upper = bounds
    if name in ("kd", "damping") and lowered:
        return "kd + damping is below the prior's kd: damping is at its lower bound, and kd takes what is left"
    for side, bound in (("lower", lower), ("upper", upper)):
        if abs(value - bound) < AT_BOUND * (upper - lower):
            return f"at its {side} bound {bound:g} {PARAMETER_UNITS[name]}"
    return ""
