"""Rigid bodies joined into one, and what makes an inertia impossible."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from realitygrad_ros.errors import RealityGradError
from realitygrad_ros.robot.model import Body, Transform

_RELATIVE = 1e-12
"""What is smaller than this part of the largest entry is rounding."""

_TRIANGLE_SLACK = 1e-6
"""Relative slack of the triangle inequality: printed inertias are rounded."""


@dataclass(frozen=True, eq=False)
class Piece:
    """One link of a merged body: its mass properties, placed in the body's frame."""

    link: str
    placement: Transform
    """Pose of the link's inertial frame in the body's frame."""
    mass: float
    """[kg]"""
    inertia: Float[np.ndarray, "3 3"]
    """About the centre of mass, in the inertial frame [kg m^2]."""


def merge(pieces: Sequence[Piece], what: str = "moving link") -> Body:
    """Join links that do not move against each other into one body.

    Masses and first moments add; inertias add after the parallel-axis theorem has moved them to the common centre of
    mass: I = sum R I R^T + m (d.d 1 - d d^T), with d from the common centre to the link's.

    Args:
        pieces: the links, the joint's own child link first, or a floating base's root link.
        what: what a message calls the body.

    Raises:
        RealityGradError: the body has no mass, or its inertia is not positive definite; the message names the link.
    """
    links = tuple(piece.link for piece in pieces)
    for piece in pieces:
        if piece.mass < 0.0:
            raise RealityGradError(f"link '{piece.link}' has the negative mass {piece.mass:g} kg")
    mass = sum(piece.mass for piece in pieces)
    if mass <= 0.0:
        fixed = f", and neither have the links fixed to it: {', '.join(links[1:])}" if len(links) > 1 else ""
        raise RealityGradError(f"{what} '{links[0]}' has no mass{fixed}; give it an <inertial>")
    center = sum(piece.mass * piece.placement.translation for piece in pieces) / mass
    inertia = np.zeros((3, 3))
    for piece in pieces:
        rotation, d = piece.placement.rotation, piece.placement.translation - center
        inertia += rotation @ piece.inertia @ rotation.T + piece.mass * (d @ d * np.eye(3) - np.outer(d, d))
    inertia = 0.5 * (inertia + inertia.T)
    inertia[np.abs(inertia) < _RELATIVE * np.abs(inertia).max()] = 0.0
    body = Body(mass, np.asarray(center), inertia, links)
    if not _positive_definite(inertia):
        raise RealityGradError(
            f"link '{_culprit(pieces, _positive_definite)}' has an inertia that is not positive definite: the "
            f"principal moments of {what} '{links[0]}' with all that is fixed to it are {_moments_text(inertia)} kg m^2"
        )
    return body


def triangle_warning(pieces: Sequence[Piece], body: Body) -> list[str]:
    """A warning if no distribution of mass has the body's inertia: one principal moment exceeds the others' sum."""
    if _obeys_triangle(body.inertia):
        return []
    return [
        f"link '{_culprit(pieces, _obeys_triangle)}' has an inertia that no body has: of the principal moments "
        f"{_moments_text(body.inertia)} kg m^2 one exceeds the sum of the others"
    ]


def _positive_definite(inertia: Float[np.ndarray, "3 3"]) -> bool:
    moments = np.linalg.eigvalsh(inertia)
    return bool(moments[0] > _RELATIVE * moments[2])


def _obeys_triangle(inertia: Float[np.ndarray, "3 3"]) -> bool:
    moments = np.linalg.eigvalsh(inertia)
    return bool(moments[2] <= (moments[0] + moments[1]) * (1.0 + _TRIANGLE_SLACK))


def _culprit(pieces: Sequence[Piece], is_sound: Callable[[np.ndarray], bool]) -> str:
    """The link whose own inertia is unsound, the heaviest first; the joint's own link where every one is sound."""
    wrong = [piece for piece in pieces if piece.mass > 0.0 and not is_sound(piece.inertia)]
    return max(wrong, key=lambda piece: piece.mass).link if wrong else pieces[0].link


def _moments_text(inertia: Float[np.ndarray, "3 3"]) -> str:
    return ", ".join(f"{moment:.4g}" for moment in np.linalg.eigvalsh(inertia))
