"""The policy bundle: everything that the robot's computer needs to run a policy, as one safetensors file.

A bundle is a few matrices and a text. The text (JSON in the file's metadata, under the key `policy`) maps names to
values: no gain and no limit stands without the name of its joint. The file has exactly one spelling: reading it
writes it again and compares, so that a single wrong byte anywhere is found.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float
from safetensors import SafetensorError
from safetensors.numpy import load as load_tensors

from realitygrad_ros.control.observations import OBSERVATION_TERMS, components
from realitygrad_ros.errors import RealityGradError
from realitygrad_ros.files import write_whole

SCHEMA = 2
"""Version of the text; a reader takes no other."""

ACTIVATIONS = ("tanh", "elu")

_JOINT_ENTRIES = ("action_offset", "action_scale", "kp", "kd", "lower", "upper", "velocity_limit", "effort_limit")
_UNLIMITED = {"lower": -np.inf, "upper": np.inf, "velocity_limit": np.inf, "effort_limit": np.inf}
_NO_DIGEST = "0" * 64


@dataclass(frozen=True, eq=False)
class PolicyBundle:
    """A network with its normaliser, its joints by name, the gains and the limits that it was trained with.

    The law of `act`, which every other implementation must follow:

        previous_action = (previous_command - action_offset) / action_scale
        o = (the terms of `observation_terms`, one after the other)
        h_0 = (o - observation_mean) / observation_scale
        h_l = activation(W_l h_{l-1} + b_l)      for every layer but the last
        y = W_L h_{L-1} + b_L
        a = action_offset + action_scale * y
        a' = min(max(a, lower), upper)
        d = velocity_limit / policy_rate
        command = min(max(a', previous_command - d), previous_command + d)

    with activation tanh(x), or elu(x) = x where x > 0, else exp(x) - 1. The network is evaluated in float32, the rest
    in float64. The rate clamp comes last: where the robot stands outside its limits the command leads back inside at
    the velocity limit, and never jumps.

    Arrays over joints are in the order of `joint_names`; units are rad, or m for a prismatic joint.

    Raises:
        RealityGradError: an entry is missing, has a wrong shape, is not finite or contradicts another.
    """

    robot: str
    """Name of the robot's configuration."""
    joint_names: tuple[str, ...]
    layers: tuple[tuple[Float[np.ndarray, "out in"], Float[np.ndarray, "out"]], ...]
    """Weight and bias of each layer, float32."""
    activation: str
    """One of `ACTIVATIONS`, after every layer but the last."""
    observation_terms: tuple[str, ...]
    """Some of `OBSERVATION_TERMS`, in the order of the network's input."""
    observation_mean: Float[np.ndarray, "observation"]
    observation_scale: Float[np.ndarray, "observation"]
    """Standard deviation in training, positive."""
    action_offset: Float[np.ndarray, "joint"]
    action_scale: Float[np.ndarray, "joint"]
    kp: Float[np.ndarray, "joint"]
    """Position gain of the actuator in training [N m/rad], positive."""
    kd: Float[np.ndarray, "joint"]
    """Velocity gain of the actuator in training [N m s/rad], not negative."""
    lower: Float[np.ndarray, "joint"]
    """Position limit, -inf where there is none."""
    upper: Float[np.ndarray, "joint"]
    """Position limit, inf where there is none."""
    velocity_limit: Float[np.ndarray, "joint"]
    """[rad/s], inf where there is none."""
    effort_limit: Float[np.ndarray, "joint"]
    """[N m], inf where there is none."""
    policy_rate: float
    """Commands per second [Hz]."""
    epoch: int
    """Counts the policies of a run; a robot never goes back to a smaller one by itself."""
    parent: str = field(default="")
    """Digest of the policy before this one, empty for the first."""

    def __post_init__(self) -> None:
        for name in ("observation_mean", "observation_scale", *_JOINT_ENTRIES):
            object.__setattr__(self, name, _read_only(getattr(self, name), np.float64))
        layers = tuple((_read_only(weight, np.float32), _read_only(bias, np.float32)) for weight, bias in self.layers)
        object.__setattr__(self, "layers", layers)
        object.__setattr__(self, "joint_names", tuple(self.joint_names))
        object.__setattr__(self, "observation_terms", tuple(self.observation_terms))
        object.__setattr__(self, "policy_rate", float(self.policy_rate))
        self._check_names()
        self._check_numbers()
        self._check_network()

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the file, in which the digest's own 64 digits are zeros."""
        return sha256(self._spell(_NO_DIGEST)).hexdigest()

    @cached_property
    def _step(self) -> Float[np.ndarray, "joint"]:
        """The farthest that a command may be from the one before it."""
        return self.velocity_limit / self.policy_rate

    def to_bytes(self) -> bytes:
        """The file's content; the same bundle gives the same bytes everywhere."""
        return self._spell(self.digest)

    def write(self, path: Path) -> None:
        """Write the file, whole or not at all."""
        write_whole(path, self.to_bytes())

    @staticmethod
    def read(path: Path) -> "PolicyBundle":
        """Read and check a file.

        Raises:
            RealityGradError: it cannot be read, or is no sound bundle.
        """
        try:
            content = path.read_bytes()
        except OSError as error:
            raise RealityGradError(f"policy bundle '{path}' cannot be read: {error.strerror}") from error
        return PolicyBundle.from_bytes(content, f"'{path}'")

    @staticmethod
    def from_bytes(content: bytes, source: str) -> "PolicyBundle":
        """Read and check a file's content; `source` names it in errors.

        Raises:
            RealityGradError: the content is cut or damaged, has another schema, or an entry is wrong.
        """
        try:
            tensors = load_tensors(content)
            header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
            text = json.loads(header["__metadata__"]["policy"])
            schema = text["schema"]
        except (SafetensorError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise RealityGradError(f"policy bundle {source} is cut, damaged or no bundle: {error}") from error
        if schema != SCHEMA:
            raise RealityGradError(f"policy bundle {source} has schema {schema!r}; this program reads schema {SCHEMA}")
        try:
            bundle = _parse(text, tensors)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise RealityGradError(f"policy bundle {source} is damaged: wrong entry {error}") from error
        except RealityGradError as error:
            raise RealityGradError(f"{error} (read from {source})") from error
        if bundle.to_bytes() != content:
            raise RealityGradError(f"policy bundle {source} is damaged: its content does not match its digest")
        return bundle

    def observe(
        self, terms: Mapping[str, Float[np.ndarray, "component"]], previous_command: Float[np.ndarray, "joint"]
    ) -> Float[np.ndarray, "observation"]:
        """The normalised observation h_0: how many standard deviations of training each entry lies off its mean.

        Args:
            terms: by name, those of `OBSERVATION_TERMS` that the policy observes, perhaps others; `previous_action`
                follows from the previous command.
            previous_command: what was commanded one period of the policy ago; at first the measured position.

        Raises:
            RealityGradError: a term is missing.
        """
        known = {**terms, "previous_action": (previous_command - self.action_offset) / self.action_scale}
        missing = [name for name in self.observation_terms if name not in known]
        if missing:
            raise RealityGradError(f"policy of epoch {self.epoch} observes {', '.join(missing)}, which nobody tells it")
        observation: np.ndarray = np.concatenate([known[name] for name in self.observation_terms])
        return (observation - self.observation_mean) / self.observation_scale

    def act(
        self, terms: Mapping[str, Float[np.ndarray, "component"]], previous_command: Float[np.ndarray, "joint"]
    ) -> Float[np.ndarray, "joint"]:
        """The next command by the law above, finite, within the limits of position and velocity.

        Args:
            terms, previous_command: as for `observe`.

        Raises:
            RealityGradError: a term is missing, or the result is not finite.
        """
        h = self.observe(terms, previous_command).astype(np.float32)
        for weight, bias in self.layers[:-1]:
            h = weight @ h + bias
            # ELU, as e^h - 1 is above h for every h below zero.
            h = np.tanh(h) if self.activation == "tanh" else np.maximum(h, np.expm1(np.minimum(h, 0.0)))
        weight, bias = self.layers[-1]
        action = self.action_offset + self.action_scale * (weight @ h + bias)
        action = np.minimum(np.maximum(action, self.lower), self.upper)
        command: np.ndarray = np.minimum(
            np.maximum(action, previous_command - self._step), previous_command + self._step
        )
        if not np.isfinite(command).all():
            joint = self.joint_names[int(np.argmin(np.isfinite(command)))]
            raise RealityGradError(f"policy of epoch {self.epoch} gave a command for '{joint}' that is not finite")
        return command

    def uniform_range(self, term: str) -> tuple[Float[np.ndarray, "component"], Float[np.ndarray, "component"]]:
        """Lower and upper end of an observed term that was drawn uniformly in training: sqrt(3) deviations either way.

        Args:
            term: one of `observation_terms`.
        """
        before = self.observation_terms[: self.observation_terms.index(term)]
        start = sum(len(components(name, self.joint_names)) for name in before)
        own = slice(start, start + len(components(term, self.joint_names)))
        half = np.sqrt(3.0) * self.observation_scale[own]
        return self.observation_mean[own] - half, self.observation_mean[own] + half

    def _observation_names(self) -> list[tuple[str, tuple[str, ...]]]:
        return [(term, components(term, self.joint_names)) for term in self.observation_terms]

    def _check_names(self) -> None:
        if not isinstance(self.robot, str) or not self.robot:
            raise RealityGradError("policy bundle: 'robot' is empty; give the name of the robot's configuration")
        names = self.joint_names
        if not names or len(set(names)) != len(names) or not all(isinstance(name, str) and name for name in names):
            raise RealityGradError(f"policy bundle: joint names {list(names)} must be given, each once")
        terms = self.observation_terms
        if not terms or len(set(terms)) != len(terms) or not set(terms) <= set(OBSERVATION_TERMS):
            raise RealityGradError(
                f"policy bundle: observation terms {list(terms)} must be some of {', '.join(OBSERVATION_TERMS)}"
            )
        if self.activation not in ACTIVATIONS:
            raise RealityGradError(
                f"policy bundle: activation '{self.activation}' is unknown; known are {', '.join(ACTIVATIONS)}"
            )
        is_digest = (
            isinstance(self.parent, str) and len(self.parent) == 64 and set(self.parent) <= set("0123456789abcdef")
        )
        if self.parent != "" and not is_digest:
            raise RealityGradError(f"policy bundle: parent '{self.parent}' is no digest")

    def _check_numbers(self) -> None:
        if type(self.epoch) is not int or self.epoch < 0:
            raise RealityGradError(f"policy bundle: epoch {self.epoch!r} must be an integer, not negative")
        if not 0.0 < self.policy_rate < np.inf:
            raise RealityGradError(f"policy bundle: policy_rate {self.policy_rate!r} Hz must be positive and finite")
        for name in _JOINT_ENTRIES:
            values = getattr(self, name)
            if values.shape != (len(self.joint_names),):
                raise RealityGradError(
                    f"policy bundle: '{name}' has shape {values.shape}, but there are {len(self.joint_names)} joints"
                )
            unlimited = values == _UNLIMITED.get(name, np.nan)
            self._require(name, np.isfinite(values) | unlimited, "must be finite")
        self._require("kp", self.kp > 0.0, "must be positive")
        self._require("kd", self.kd >= 0.0, "must not be negative")
        self._require("lower", self.lower <= self.upper, "must not be above the upper limit")
        self._require("velocity_limit", self.velocity_limit > 0.0, "must be positive")
        self._require("effort_limit", self.effort_limit > 0.0, "must be positive")
        self._require("action_scale", self.action_scale != 0.0, "must not be zero")

    def _require(self, entry: str, holds: np.ndarray, sentence: str) -> None:
        if not holds.all():
            joint = int(np.argmin(holds))
            value = getattr(self, entry)[joint]
            raise RealityGradError(
                f"policy bundle: '{entry}' of joint '{self.joint_names[joint]}' is {value}; it {sentence}"
            )

    def _check_network(self) -> None:
        size = sum(len(names) for _, names in self._observation_names())
        for name in ("observation_mean", "observation_scale"):
            values = getattr(self, name)
            if values.shape != (size,) or not np.isfinite(values).all():
                raise RealityGradError(
                    f"policy bundle: '{name}' must be {size} finite numbers, it is {values.tolist()}"
                )
        if (self.observation_scale <= 0.0).any():
            raise RealityGradError("policy bundle: every 'observation_scale' must be positive")
        if not self.layers:
            raise RealityGradError("policy bundle: the network has no layer")
        for index, (weight, bias) in enumerate(self.layers):
            if weight.ndim != 2 or weight.shape[1] != size or bias.shape != weight.shape[:1]:
                raise RealityGradError(
                    f"policy bundle: layer {index} has weight {weight.shape} and bias {bias.shape}; its input is {size}"
                )
            if not np.isfinite(weight).all() or not np.isfinite(bias).all():
                raise RealityGradError(f"policy bundle: a weight of layer {index} is not finite")
            size = weight.shape[0]
        if size != len(self.joint_names):
            raise RealityGradError(
                f"policy bundle: the network has {size} outputs, but there are {len(self.joint_names)} joints"
            )

    def _text(self, digest: str) -> dict[str, Any]:
        mean, scale = iter(self.observation_mean.tolist()), iter(self.observation_scale.tolist())
        columns = {name: getattr(self, name).tolist() for name in _JOINT_ENTRIES}
        return {
            "schema": SCHEMA,
            "robot": self.robot,
            "joint_names": list(self.joint_names),
            "joints": {
                # An infinite limit is null: JSON has no infinity.
                joint: {name: value if np.isfinite(value := columns[name][i]) else None for name in _JOINT_ENTRIES}
                for i, joint in enumerate(self.joint_names)
            },
            "observation_terms": list(self.observation_terms),
            "observations": {
                term: {component: {"mean": next(mean), "scale": next(scale)} for component in components}
                for term, components in self._observation_names()
            },
            "activation": self.activation,
            "policy_rate": self.policy_rate,
            "epoch": self.epoch,
            "parent": self.parent,
            "digest": digest,
        }

    def _spell(self, digest: str) -> bytes:
        """The safetensors format, written here so that every release of every library gives the same bytes.

        Eight bytes of length, the header in JSON padded to a multiple of eight, the tensors without gaps.
        """
        header: dict[str, Any] = {"__metadata__": {"policy": _canonical(self._text(digest))}}
        blocks: list[bytes] = []
        offset = 0
        for index, layer in enumerate(self.layers):
            for name, tensor in zip(("weight", "bias"), layer, strict=True):
                block = tensor.astype("<f4").tobytes()
                header[f"layer_{index}.{name}"] = {
                    "dtype": "F32",
                    "shape": list(tensor.shape),
                    "data_offsets": [offset, offset + len(block)],
                }
                blocks.append(block)
                offset += len(block)
        head = _canonical(header).encode()
        head += b" " * (-len(head) % 8)
        return len(head).to_bytes(8, "little") + head + b"".join(blocks)


def _canonical(content: Mapping[str, Any]) -> str:
    return json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _read_only(values: Any, dtype: type) -> np.ndarray:
    array: np.ndarray = np.array(values, dtype=dtype)
    array.setflags(write=False)
    return array


def _parse(text: dict[str, Any], tensors: Mapping[str, np.ndarray]) -> PolicyBundle:
    names = tuple(text["joint_names"])
    joints = text["joints"]

    def column(entry: str) -> np.ndarray:
        values = [joints[name][entry] for name in names]
        return np.array([_UNLIMITED[entry] if value is None else value for value in values])

    order = [text["observations"][term][name] for term in text["observation_terms"] for name in components(term, names)]
    return PolicyBundle(
        robot=text["robot"],
        joint_names=names,
        layers=tuple(
            (tensors[f"layer_{index}.weight"], tensors[f"layer_{index}.bias"]) for index in range(len(tensors) // 2)
        ),
        activation=text["activation"],
        observation_terms=tuple(text["observation_terms"]),
        observation_mean=np.array([entry["mean"] for entry in order]),
        observation_scale=np.array([entry["scale"] for entry in order]),
        **{name: column(name) for name in _JOINT_ENTRIES},
        policy_rate=text["policy_rate"],
        epoch=text["epoch"],
        parent=text["parent"],
    )
