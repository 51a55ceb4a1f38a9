"""How long work tells of itself and is told to stop."""

from collections.abc import Callable, Mapping

Progress = Callable[[str, float, Mapping[str, float]], None]
"""Called with the stage's name, the fraction done (0 to 1) and its present figures by name."""

CancelCheck = Callable[[], bool]
"""Asked between steps of long work; true asks it to raise `realitygrad_ros.errors.Cancelled`."""


def silent(stage: str, fraction: float, figures: Mapping[str, float]) -> None:
    """A `Progress` that tells nobody."""


def never() -> bool:
    """A `CancelCheck` that never asks to stop."""
    return False
