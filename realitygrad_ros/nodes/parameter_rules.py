"""What a node's parameter may be: its type and its range, and the sentence that says so."""

import math
from dataclasses import dataclass
from typing import Any

from realitygrad_ros.errors import RealityGradError

_KINDS = {float: "a number", int: "an integer", bool: "true or false", str: "a string"}


@dataclass(frozen=True)
class ParameterRule:
    """Type and range of one parameter. `kind` is the type of the value, or of the elements where `is_array`."""

    name: str
    kind: type
    is_array: bool
    lower: float | None
    upper: float | None
    length: int | None = None
    """How many elements a list must have; None for any number."""

    @staticmethod
    def of(
        name: str, default: Any, lower: float | None, upper: float | None, length: int | None = None
    ) -> "ParameterRule":
        """The rule that a default value implies; an empty list stands for strings."""
        if isinstance(default, list):
            return ParameterRule(name, type(default[0]) if default else str, True, lower, upper, length)
        return ParameterRule(name, type(default), False, lower, upper)

    @property
    def sentence(self) -> str:
        """What the parameter must be, in words."""
        size = "" if self.length is None else f" of {self.length}"
        words = f"a list{size}, each element {_KINDS[self.kind]}" if self.is_array else _KINDS[self.kind]
        if self.lower is not None and self.upper is not None:
            return f"{words} from {self.lower:g} to {self.upper:g}"
        if self.lower is not None:
            return f"{words} of at least {self.lower:g}"
        if self.upper is not None:
            return f"{words} of at most {self.upper:g}"
        return words

    def coerce(self, value: Any) -> Any:
        """The value in the declared type: an integer serves where a float is declared, nothing else is converted.

        Raises:
            RealityGradError: wrong type, not finite, or out of range; the message names the parameter and the rule.
        """
        if not self.is_array:
            return self._element(value, value)
        # ROS hands an empty list without a type over as None, and the others as list or array.array.
        value = [] if value is None else value
        if isinstance(value, str | bytes) or not hasattr(value, "__iter__"):
            raise self._refusal(value)
        if self.length is not None and len(value) != self.length:
            raise self._refusal(list(value))
        return [self._element(element, list(value)) for element in value]

    def _element(self, element: Any, value: Any) -> Any:
        if self.kind is float and type(element) is int:
            element = float(element)
        if type(element) is not self.kind:
            raise self._refusal(value)
        if isinstance(element, float | int):
            too_small = self.lower is not None and element < self.lower
            too_large = self.upper is not None and element > self.upper
            if not math.isfinite(element) or too_small or too_large:
                raise self._refusal(value)
        return element

    def _refusal(self, value: Any) -> RealityGradError:
        return RealityGradError(f"parameter '{self.name}' is {value!r}; it must be {self.sentence}")
