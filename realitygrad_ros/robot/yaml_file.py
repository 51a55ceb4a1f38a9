"""YAML files that people write, looked at entry by entry, so that every error names the file and the entry."""

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from jaxtyping import Float

from realitygrad_ros.errors import RealityGradError


class _Loader(yaml.SafeLoader):
    """Refuses a key that stands twice in a mapping: PyYAML takes the last one without a word."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key in (key for key, _ in node.value if isinstance(key, yaml.ScalarNode)):
            if key.value in seen:
                raise yaml.YAMLError(f"line {key.start_mark.line + 1}: '{key.value}' is there twice")
            seen.add(key.value)
        return super().construct_mapping(node, deep)


def read_yaml(path: Path, what: str) -> "Entry":
    """Read a file; `what` says in errors what it is, such as "configuration".

    Raises:
        RealityGradError: it cannot be read, or is not YAML.
    """
    file = f"{what} '{path}'"
    try:
        content = yaml.load(path.read_bytes(), _Loader)  # a safe loader: see its base
    except OSError as error:
        raise RealityGradError(f"{file} cannot be read: {error.strerror}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise RealityGradError(f"{file} is not YAML: {error}") from error
    return Entry(file, "", content)


@dataclass(frozen=True)
class Entry:
    """One value in a YAML file, and where it stands; every method raises `RealityGradError` where it does not fit."""

    file: str
    """What and which file, for messages."""
    place: str
    """Its keys with dots between; empty for the whole file."""
    value: Any

    def __getitem__(self, key: str) -> "Entry":
        """The entry under a key of this mapping."""
        if key not in self.keys():
            raise RealityGradError(f"{self.file} lacks the entry '{self._below(key)}'")
        return Entry(self.file, self._below(key), self.value[key])

    def optional(self, key: str) -> "Entry | None":
        """The entry under a key of this mapping, if it is there."""
        return self[key] if key in self.keys() else None

    def keys(self) -> tuple[str, ...]:
        """The keys of this mapping."""
        if not isinstance(self.value, dict):
            raise self.refusal("a mapping")
        for key in self.value:
            if not isinstance(key, str):
                raise RealityGradError(f"{self.file}: the name '{self._below(key)}' is no text; put it in quotes")
        return tuple(self.value)

    def text(self) -> str:
        """Words in one line, not empty."""
        if not isinstance(self.value, str) or not self.value or not self.value.isprintable():
            raise self.refusal("a text of one line")
        return self.value

    def texts(self) -> tuple[str, ...]:
        """A list of words."""
        if not isinstance(self.value, list) or not all(isinstance(item, str) and item for item in self.value):
            raise self.refusal("a list of texts")
        return tuple(self.value)

    def number(self) -> float:
        """A number, perhaps not finite."""
        number = _number(self.value)
        if number is None:
            raise self.refusal("a number")
        return number

    def positive(self) -> float:
        """A finite number above zero."""
        if not 0.0 < self.number() < np.inf:
            raise self.refusal("finite and positive")
        return self.number()

    def not_negative(self) -> float:
        """A finite number, zero or above."""
        if not 0.0 <= self.number() < np.inf:
            raise self.refusal("finite and not negative")
        return self.number()

    def count(self, largest: int) -> int:
        """A whole number from 1 to the largest."""
        if isinstance(self.value, bool) or not isinstance(self.value, int) or not 1 <= self.value <= largest:
            raise self.refusal(f"a whole number from 1 to {largest}")
        return self.value

    def one_of(self, words: Collection[str]) -> str:
        """One of these words."""
        if self.value not in words:
            raise self.refusal(f"one of {', '.join(words)}")
        return str(self.value)

    def numbers(self, count: int) -> Float[np.ndarray, "count"]:
        """A list of so many finite numbers."""
        numbers = [_number(item) for item in self.value] if isinstance(self.value, list) else []
        if len(numbers) != count or not all(number is not None and np.isfinite(number) for number in numbers):
            raise self.refusal(f"a list of {count} finite numbers")
        return np.array(numbers, dtype=float)

    def refusal(self, wanted: str) -> RealityGradError:
        """The error that says what this entry must be."""
        shown = repr(self.value)
        shown = shown if len(shown) <= 80 else f"{shown[:77]}..."
        return RealityGradError(f"{self.file}: {self.place or 'the content'} is {shown}; it must be {wanted}")

    def _below(self, key: object) -> str:
        return f"{self.place}.{key}" if self.place else f"{key}"


def _number(value: Any) -> float | None:
    """YAML 1.1 takes 1e-3, which has no dot, for a text; true and false are no numbers."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None
