"""From traced mathematics to compiled Warp kernels.

Each kernel is straight-line code for one robot, with the time loop inside and one thread a world. Warp differentiates
none of it (`enable_backward=False`); the derivatives are traced too. Warp keeps compiled kernels on disk, keyed on
their source, which is the same for the same robot.
"""

import hashlib
import linecache
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import torch
import warp as wp

from realitygrad_ros.physics.integrator import Step
from realitygrad_ros.physics.rigid_body import factor_pattern, frame_pose
from realitygrad_ros.physics.trace import Number, Scalar, Trace, gradient, statements
from realitygrad_ros.robot.model import Frame, RobotModel
from realitygrad_ros.robot.parameters import PARAMETER_NAMES

wp.config.log_level = wp.LOG_ERROR  # Else it tells of each compilation, and of a missing GPU.

SCALAR_TYPES = {torch.float32: "wp.float32", torch.float64: "wp.float64"}


def _function(name: str, arguments: Mapping[str, str], body: Sequence[str]) -> str:
    """Source of a kernel; a body line's own indentation is kept."""
    signature = ",\n    ".join(f"{argument}: {kind}" for argument, kind in arguments.items())
    return f"def {name}(\n    {signature},\n):\n" + "".join(f"    {line}\n" for line in body)


def _indented(lines: Sequence[str]) -> list[str]:
    return [f"    {line}" for line in lines]


def _arrays(names: Sequence[str], dimensions: int, scalar: str) -> dict[str, str]:
    return dict.fromkeys(names, f"wp.array{dimensions}d(dtype={scalar})")


def _loads(prefix: str, element: str, count: int) -> list[str]:
    """`prefix_i = element`, with `{i}` in `element` counted up."""
    return [f"{prefix}_{i} = {element.format(i=i)}" for i in range(count)]


def _targets(element: str, values: Sequence[Number]) -> dict[str, Number]:
    return {element.format(i=i): value for i, value in enumerate(values)}


def _factor_elements(step: Step) -> dict[str, int]:
    """Where each variable of a stored factor lies in the last dimension of the `factor` array."""
    stored = step.stored_factor()
    nodes = [*stored.L.values(), *stored.inverse_D]
    return {node.operands[0]: k for k, node in enumerate(nodes)}


def factor_size(model: RobotModel) -> int:
    """Length of the last dimension of the `factor` array."""
    return len(factor_pattern(model)) + model.joint_count


_LOOP_ARGUMENTS = {"first": "int", "steps": "int", "substeps": "int"}


def _load_step(n: int) -> list[str]:
    return [
        *_loads("q", "position[t, w, {i}]", n),
        *_loads("qd", "velocity[t, w, {i}]", n),
        *_loads("target", "command[t // substeps, w, {i}]", n),
    ]


def _load_parameters(n: int) -> list[str]:
    return [line for name in PARAMETER_NAMES for line in _loads(name, f"{name}[w, {{i}}]", n)]


def _load_solution(step: Step) -> list[str]:
    """The acceleration and the factor that the rollout stored."""
    lines = _loads("acceleration", "acceleration[t, w, {i}]", step.model.joint_count)
    return lines + [f"{name} = factor[t, w, {k}]" for name, k in _factor_elements(step).items()]


def rollout_source(step: Step, scalar: str) -> str:
    """Kernel that steps worlds forward in time, and stores accelerations and factors where `store` is not zero."""
    n = step.model.joint_count
    factor = step.factor()
    qdd = step.acceleration(factor)
    end = step.end_state(qdd)
    states = _targets("position[t + 1, w, {i}]", end.position) | _targets("velocity[t + 1, w, {i}]", end.velocity)
    solution = _targets("qdd_{i}", qdd)
    solution |= dict(zip(_factor_elements(step), [*factor.L.values(), *factor.inverse_D], strict=True))
    stores = [f"acceleration[t, w, {i}] = qdd_{i}" for i in range(n)]
    stores += [f"factor[t, w, {k}] = {name}" for name, k in _factor_elements(step).items()]
    arguments = _LOOP_ARGUMENTS | {"store": "int", "h": scalar} | _arrays(["command"], 3, scalar)
    arguments |= _arrays(PARAMETER_NAMES, 2, scalar)
    arguments |= _arrays(["position", "velocity", "acceleration", "factor"], 3, scalar)
    loop = [*_load_step(n), *statements(states | solution, scalar), "if store != 0:", *_indented(stores)]
    body = ["w = first + wp.tid()", *_load_parameters(n), "for t in range(steps):", *_indented(loop)]
    return _function("rollout", arguments, body)


def adjoint_source(step: Step, scalar: str) -> str:
    """Kernel that carries adjoints backward in time through a stored rollout.

    `q_bar` and `qd_bar` [world, joint] hold the adjoint of the present state and end as that of the initial state;
    the adjoints of commands and parameters are added to what the arrays hold.
    """
    n, trace = step.model.joint_count, step.trace
    bars = step.adjoint(
        step.stored_factor(),
        trace.variables("acceleration", n),
        trace.variables("q_bar", n),
        trace.variables("qd_bar", n),
    )
    # Whatever is added to an array is computed into a local first: an array element is read and written by one thread.
    outputs = _targets("q_bar[w, {i}]", bars["q"]) | _targets("qd_bar[w, {i}]", bars["qd"])
    added = {"target": "command_bar[t // substeps, w, {i}]"}
    added |= {name: f"{name}_bar[w, {{i}}]" for name in PARAMETER_NAMES}
    additions = []
    for name, element in added.items():
        outputs |= _targets(f"added_{name}_{{i}}", bars[name])
        additions += [f"{element.format(i=i)} = {element.format(i=i)} + added_{name}_{i}" for i in range(n)]
    incoming = []
    for bar, name in (("q_bar", "position_bar"), ("qd_bar", "velocity_bar")):
        incoming += [f"{bar}[w, {i}] = {bar}[w, {i}] + {name}[{{slot}}, w, {i}]" for i in range(n)]
    loop = [
        "t = steps - 1 - k",
        "if (t + 1) % substeps == 0:",
        *_indented([line.format(slot="(t + 1) // substeps") for line in incoming]),
        *_load_step(n),
        *_load_solution(step),
        *_loads("q_bar", "q_bar[w, {i}]", n),
        *_loads("qd_bar", "qd_bar[w, {i}]", n),
        *statements(outputs, scalar),
        *additions,
    ]
    arguments = _LOOP_ARGUMENTS | {"h": scalar} | _arrays(["command"], 3, scalar)
    arguments |= _arrays(PARAMETER_NAMES, 2, scalar)
    arguments |= _arrays(["position", "velocity", "acceleration", "factor", "position_bar", "velocity_bar"], 3, scalar)
    arguments |= _arrays(["q_bar", "qd_bar"], 2, scalar) | _arrays(["command_bar"], 3, scalar)
    arguments |= _arrays([f"{name}_bar" for name in PARAMETER_NAMES], 2, scalar)
    body = ["w = first + wp.tid()", *_load_parameters(n), "for k in range(steps):", *_indented(loop)]
    body += [line.format(slot="0") for line in incoming]
    return _function("adjoint", arguments, body)


def tangent_source(step: Step, scalar: str) -> str:
    """Kernel that carries the rates for directions in parameter space forward through a stored rollout.

    One thread a world and direction. A state between two stored slots lies in the later one until that is reached.
    """
    n, trace = step.model.joint_count, step.trace
    rates = step.tangent(
        step.stored_factor(),
        trace.variables("acceleration", n),
        trace.variables("q_dot", n),
        trace.variables("qd_dot", n),
        {name: trace.variables(f"{name}_dot", n) for name in PARAMETER_NAMES},
    )
    outputs = _targets("position_dot[after, w, d, {i}]", rates.position)
    outputs |= _targets("velocity_dot[after, w, d, {i}]", rates.velocity)
    loop = [
        "before = (t + substeps - 1) // substeps",
        "after = (t + substeps) // substeps",
        *_load_step(n),
        *_load_solution(step),
        *_loads("q_dot", "position_dot[before, w, d, {i}]", n),
        *_loads("qd_dot", "velocity_dot[before, w, d, {i}]", n),
        *statements(outputs, scalar),
    ]
    arguments = _LOOP_ARGUMENTS | {"directions": "int", "h": scalar} | _arrays(["command"], 3, scalar)
    arguments |= _arrays(PARAMETER_NAMES, 2, scalar)
    arguments |= _arrays(["position", "velocity", "acceleration", "factor"], 3, scalar)
    arguments |= _arrays([f"{name}_dot" for name in PARAMETER_NAMES], 2, scalar)
    arguments |= _arrays(["position_dot", "velocity_dot"], 4, scalar)
    body = ["thread = first + wp.tid()", "w = thread // directions", "d = thread % directions", *_load_parameters(n)]
    body += [line for name in PARAMETER_NAMES for line in _loads(f"{name}_dot", f"{name}_dot[d, {{i}}]", n)]
    return _function("tangent", arguments, [*body, "for t in range(steps):", *_indented(loop)])


def frame_sources(model: RobotModel, frame: Frame, scalar: str) -> tuple[str, str]:
    """Kernels for the position of a frame's origin [sample, 3], and for its vector-Jacobian product."""
    n, trace = model.joint_count, Trace()
    q = trace.variables("q", n)
    _, origin = frame_pose(model, frame, q)
    bar: list[Scalar] = trace.variables("origin_bar", 3)
    q_bar = gradient(list(zip(origin, bar, strict=True)), q)
    start = ["w = first + wp.tid()", *_loads("q", "position[w, {i}]", n)]
    forward = _function(
        "frame_origin",
        {"first": "int"} | _arrays(["position", "origin"], 2, scalar),
        [*start, *statements(_targets("origin[w, {i}]", origin), scalar)],
    )
    adjoint = _function(
        "frame_origin_adjoint",
        {"first": "int"} | _arrays(["position", "origin_bar", "position_bar"], 2, scalar),
        [
            *start,
            *_loads("origin_bar", "origin_bar[w, {i}]", 3),
            *statements(_targets("position_bar[w, {i}]", q_bar), scalar),
        ],
    )
    return forward, adjoint


@cache
def kernel(source: str) -> Any:
    """The Warp kernel of a source, compiled when it is first launched; the same object for the same source."""
    name = source[len("def ") : source.index("(")]
    digest = hashlib.sha256(source.encode()).hexdigest()[:16]
    file = f"<realitygrad {name} {digest}>"
    # Warp and tracebacks look up a function's lines by its file name.
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    scope: dict[str, Any] = {"wp": wp, "__name__": f"realitygrad_{name}_{digest}"}
    exec(compile(source, file, "exec"), scope)
    return wp.Kernel(
        scope[name],
        key=name,
        module=wp.get_module(scope["__name__"]),
        options={"enable_backward": False},
        source=source,
    )


PIECES = 4
"""Into how many pieces a launch is cut for each thread, so that a core which others use too does not delay the end."""


class Launcher:
    """Launches kernels over worlds, shared among CPU threads: a Warp launch releases the interpreter's lock."""

    def __init__(self, threads: int | None = None) -> None:
        """Prepare `threads` threads; without a number, one a core."""
        wp.init()
        self.threads = threads or os.cpu_count() or 1
        self._pool = ThreadPoolExecutor(self.threads, thread_name_prefix="realitygrad") if self.threads > 1 else None

    def launch(self, source: str, count: int, arguments: Sequence[Any]) -> None:
        """Run `kernel(source)` for threads 0 to count - 1; `arguments` follow the kernel's `first`."""
        compiled = kernel(source)
        # Here, so that the threads need not each compile it; with the block size that Warp launches with on a CPU, for
        # which it would compile anew otherwise.
        compiled.module.load("cpu", block_dim=1)
        share = -(-count // (self.threads * PIECES))
        if self._pool is None or count < 2:
            wp.launch(compiled, dim=count, inputs=[0, *arguments], device="cpu")
            return
        futures = [
            self._pool.submit(
                wp.launch, compiled, dim=min(share, count - first), inputs=[first, *arguments], device="cpu"
            )
            for first in range(0, count, share)
        ]
        for future in futures:
            future.result()
