"""Which parameters a recording fixes, and which it leaves open."""

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float

from realitygrad_ros.identification.coordinates import Variable
from realitygrad_ros.identification.windows import Windows
from realitygrad_ros.physics.rigid_body import inverse_dynamics, mass_matrix
from realitygrad_ros.robot.configuration import RobotConfiguration
from realitygrad_ros.robot.model import RobotModel
from realitygrad_ros.robot.parameters import SimulationParameters

LARGEST_ERROR = 1.0
"""A parameter whose standard error exceeds this multiple of its natural scale is held at its prior."""

SMALLEST_WEIGHT = 0.03
"""A servo is weighed against the links only where these make at least this share of its torque."""

SINGULAR = 1e-12
"""Eigenvalues of the information below this share of the largest count as zero."""


def link_inertia(model: RobotModel, windows: Windows) -> Float[np.ndarray, "joint"]:
    """Mean diagonal of the mass matrix over the recorded positions, without armature [kg m^2 or kg]."""
    q = windows.smoothed.position[::10].reshape(-1, model.joint_count)
    H = mass_matrix(model, list(q.T))
    return np.array([np.mean(H[i, i]) for i in range(model.joint_count)])


def link_share(
    configuration: RobotConfiguration, model: RobotModel, windows: Windows, prior: SimulationParameters
) -> Float[np.ndarray, "joint"]:
    """Torque that moves and carries the links, as a share of the position servo's torque (root mean squares).

    Gains, armature, damping and friction of a joint that are all multiplied by one factor move it as before, but for
    the links' own weight and inertia. Where these are a small part of the torque, a payload that the URDF does not
    know would be taken for a factor on the gains.
    """
    q, qd, qdd = (list(signal[:-1].reshape(-1, model.joint_count).T) for signal in windows.smoothed)
    links = inverse_dynamics(model, q, qd, qdd, configuration.gravity.tolist())
    servo = prior.kp * (windows.command - windows.smoothed.position[:-1])
    of_links = np.array([np.mean(np.square(tau)) for tau in links])
    return np.sqrt(of_links / np.maximum(np.mean(servo**2, axis=(0, 1)), np.finfo(float).tiny))


def standard_errors(
    information: Float[np.ndarray, "variable variable"], residual: float, windows: int
) -> Float[np.ndarray, "variable"]:
    r"""Standard error of each variable when all are fitted, \sqrt{ \rho^2 / W [(J^T J / N)^{-1}]_{ii} }.

    What a model cannot explain is much the same from one sample to the next, so a window counts as one observation,
    however many samples it has. Infinite along directions that change nothing.

    Args:
        information: J^T J / N, with the Jacobian J of N residuals.
        residual: their root mean square rho.
        windows: their number W.
    """
    eigenvalues, directions = np.linalg.eigh(information)
    with np.errstate(divide="ignore"):
        inverse = np.where(eigenvalues > SINGULAR * eigenvalues[-1], 1.0 / eigenvalues, np.inf)
    seen = directions**2 > SINGULAR
    variance = np.sum(np.where(seen, directions**2 * np.where(seen, inverse, 0.0), 0.0), axis=1)
    return residual * np.sqrt(variance / windows)


def open_variables(
    variables: Sequence[Variable], information: Float[np.ndarray, "variable variable"], residual: float, windows: int
) -> Mapping[Variable, float]:
    """Variables to hold so that all others have a standard error of at most `LARGEST_ERROR`, with the error they had.

    Taken one after the other, the least certain first; where a joint's kp is uncertain too, it goes first: gains,
    armature and friction of a joint may be uncertain by a common factor alone, and the gain is what is set in a drive.
    """
    kept = list(range(len(variables)))
    held: dict[Variable, float] = {}
    while kept:
        errors = standard_errors(information[np.ix_(kept, kept)], residual, windows)
        worst = int(np.argmax(errors))
        if errors[worst] <= LARGEST_ERROR:
            break
        gain = Variable("kp", variables[kept[worst]].joint)
        for place, index in enumerate(kept):
            if variables[index] == gain and errors[place] > LARGEST_ERROR:
                worst = place
        held[variables[kept[worst]]] = float(errors[worst])
        del kept[worst]
    return held
