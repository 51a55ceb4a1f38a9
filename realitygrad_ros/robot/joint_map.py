"""Joint order by name: the only place that permutes values from outside into the order of this package."""

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from jaxtyping import Float, Int

from realitygrad_ros.errors import RealityGradError

_CACHED_ORDERS = 32
"""Several publishers may share a topic, each with an order of its own."""


class JointMap:
    """Takes values by joint name, in the order of `names`.

    A message may name its joints in any order, may change it from one message to the next, and may name others too.
    """

    def __init__(self, names: Sequence[str]) -> None:
        """Make a map into the order of `names`.

        Raises:
            RealityGradError: a name occurs twice.
        """
        self.names = tuple(names)
        _refuse_duplicates(self.names)
        self._find_cached = lru_cache(maxsize=_CACHED_ORDERS)(self._find)

    def indices(self, message_names: Sequence[str]) -> Int[np.ndarray, "joint"]:
        """Where in a message each of our joints stands.

        Raises:
            RealityGradError: the message lacks one of our joints, or names one twice; the error names it.
        """
        return self._find_cached(tuple(message_names))

    def take(
        self, message_names: Sequence[str], values: Sequence[float] | Float[np.ndarray, "... named"]
    ) -> Float[np.ndarray, "... joint"]:
        """The values of our joints, in our order; the last axis of `values` goes with `message_names`.

        Raises:
            RealityGradError: as `indices`, or there are not as many values as names.
        """
        array = np.asarray(values, dtype=float)
        if array.shape[-1:] != (len(message_names),):
            found = array.shape[-1] if array.ndim else "no"
            raise RealityGradError(f"there are {found} values for the {len(message_names)} joints that are named")
        return array[..., self.indices(message_names)]

    def _find(self, message_names: tuple[str, ...]) -> Int[np.ndarray, "joint"]:
        missing = [name for name in self.names if name not in message_names]
        if missing:
            named = ", ".join(message_names) or "none"
            raise RealityGradError(f"joint {', '.join(missing)} is missing; the joints that are named: {named}")
        _refuse_duplicates(message_names)
        indices = np.array([message_names.index(name) for name in self.names], dtype=np.intp)
        indices.setflags(write=False)
        return indices


def _refuse_duplicates(names: tuple[str, ...]) -> None:
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise RealityGradError(f"joint '{twice[0]}' is named twice")
