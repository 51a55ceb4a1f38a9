"""From traced mathematics to the source of Warp kernels.

Each kernel is straight-line code for one robot, with the time loop inside and one thread a world. Every argument that a
kernel takes stands in one `Signature`, in the order in which the simulator passes them.
"""

from collections.abc import Mapping, Sequence

from realitygrad_ros.physics.contact import Sweep
from realitygrad_ros.physics.contact_step import RigidContactStep
from realitygrad_ros.physics.integrator import EndState, Step
from realitygrad_ros.physics.rigid_body import factor_pattern
from realitygrad_ros.physics.trace import Number, Scalar, gradient, statements

Lines = list[str]
"""Statements, without the indentation of the block that they stand in."""


def _function(name: str, arguments: Mapping[str, str], body: Lines) -> str:
    signature = ",\n    ".join(f"{argument}: {kind}" for argument, kind in arguments.items())
    return f"def {name}(\n    {signature},\n):\n" + "".join(f"    {line}\n" for line in body)


def _indented(lines: Sequence[str]) -> Lines:
    return [f"    {line}" for line in lines]


def _arrays(names: Sequence[str], dimensions: int, scalar: str) -> dict[str, str]:
    return dict.fromkeys(names, f"wp.array{dimensions}d(dtype={scalar})")


def _loads(prefix: str, element: str, count: int) -> Lines:
    """`prefix_i = element`, with `{i}` in `element` counted up."""
    return [f"{prefix}_{i} = {element.format(i=i)}" for i in range(count)]


def _targets(element: str, values: Sequence[Number]) -> dict[str, Number]:
    return {element.format(i=i): value for i, value in enumerate(values)}


def _stores(element: str, prefix: str, count: int) -> Lines:
    return [f"{element.format(i=i)} = {prefix}_{i}" for i in range(count)]


def stored_widths(step: Step) -> dict[str, int]:
    """Length of the last dimension of each array in which a rollout keeps what its derivatives need, by name.

    `iterates` is that of one sweep: there is one more than there are sweeps, side by side.
    """
    contacts = 3 * len(step.world.spheres)
    if isinstance(step, RigidContactStep):
        return {"iterates": contacts, "impulse": contacts}
    model = step.model
    kept = {"acceleration": model.velocity_count, "factor": len(factor_pattern(model)) + model.velocity_count}
    return kept | ({"impulse": contacts} if contacts else {})


def _places(blocks: Mapping[str, Sequence[Scalar]]) -> list[str]:
    """The variables of blocks that lie side by side in the last dimension of one array."""
    return [node.operands[0] for nodes in blocks.values() for node in nodes]


class _Source:
    """What the kernels of one step have in common."""

    def __init__(self, step: Step, scalar: str) -> None:
        self.step = step
        self.scalar = scalar
        self.parameters = _places(step.parameters)
        self.held = _places(step.held)
        self.stored = list(stored_widths(step))
        self.rigid = isinstance(step, RigidContactStep)
        self.first_lines = ["w = first + wp.tid()", *self.load_parameters()]

    def arguments(self, extra: Mapping[str, str]) -> dict[str, str]:
        """Those of every kernel of the step; `extra` are whole numbers of one kernel alone."""
        whole = {"first": "int", "steps": "int", "substeps": "int"} | ({"sweeps": "int"} if self.rigid else {})
        real = dict.fromkeys(["h", *self.step.settings], self.scalar)
        arrays = _arrays(["held"], 3, self.scalar) | _arrays(["parameters"], 2, self.scalar)
        arrays |= _arrays(["position", "velocity", *self.stored], 3, self.scalar)
        return whole | dict(extra) | real | arrays

    def load_parameters(self) -> Lines:
        return [f"{variable} = parameters[w, {k}]" for k, variable in enumerate(self.parameters)]

    def load_step(self) -> Lines:
        lines = _loads("q", "position[t, w, {i}]", len(self.step.q))
        lines += _loads("qd", "velocity[t, w, {i}]", len(self.step.qd))
        return lines + [f"{variable} = held[t // substeps, w, {k}]" for k, variable in enumerate(self.held)]

    def load_solution(self) -> Lines:
        """The acceleration and the factor that the rollout stored."""
        lines = _loads("acceleration", "acceleration[t, w, {i}]", len(self.step.qd))
        return lines + [f"{name} = factor[t, w, {k}]" for k, name in enumerate(self.factor_names())]

    def factor_names(self) -> list[str]:
        """The variables of a stored factor, in the order of the `factor` array."""
        stored = self.step.stored_factor()
        nodes = [*stored.L.values(), *stored.inverse_D]
        return [node.operands[0] for node in nodes if isinstance(node, Scalar)]

    def end_targets(self, end: EndState) -> dict[str, Number]:
        states = _targets("position[t + 1, w, {i}]", end.position)
        return states | _targets("velocity[t + 1, w, {i}]", end.velocity)


def rollout_source(step: Step, scalar: str) -> str:
    """Kernel that steps worlds forward in time, and stores what the derivatives need where `store` is not zero."""
    source = _Source(step, scalar)
    loop = _rigid_contact_loop(source, step) if isinstance(step, RigidContactStep) else _smooth_loop(source)
    body = [*source.first_lines, "for t in range(steps):", *_indented([*source.load_step(), *loop])]
    return _function("rollout", source.arguments({"store": "int"}), body)


def _smooth_loop(source: _Source) -> Lines:
    step = source.step
    factor = step.factor()
    qdd = step.acceleration(factor)
    solution = _targets("qdd_{i}", qdd)
    solution |= dict(zip(source.factor_names(), [*factor.L.values(), *factor.inverse_D], strict=True))
    kept = _stores("acceleration[t, w, {i}]", "qdd", len(qdd))
    kept += [f"factor[t, w, {k}] = {name}" for k, name in enumerate(source.factor_names())]
    if step.world.spheres:
        impulse = [step.h * f for force in step.soft_forces() for f in force]
        solution |= _targets("impulse_{i}", impulse)
        kept += _stores("impulse[t, w, {i}]", "impulse", len(impulse))
    ends = source.end_targets(step.end_state(step.end_velocity(qdd)))
    return [*statements(ends | solution, source.scalar), "if store != 0:", *_indented(kept)]


def _rigid_contact_loop(source: _Source, step: RigidContactStep) -> Lines:
    width, known = 3 * step.count, set[int]()
    sweep = Sweep.of(step.count, step.step_size)
    before = statements(step.sweep_inputs(), source.scalar, known)
    in_sweep = ["if store != 0:", *_indented(_stores(f"iterates[t, w, k * {width} + {{i}}]", "p", width))]
    in_sweep += statements(_targets("swept_{i}", sweep.swept), source.scalar)
    in_sweep += _stores("p_{i}", "swept", width)
    behind = statements(source.end_targets(step.end()) | _targets("impulse_{i}", step.impulse()), source.scalar, known)
    kept = _stores(f"iterates[t, w, sweeps * {width} + {{i}}]", "p", width)
    kept += _stores("impulse[t, w, {i}]", "impulse", width)
    return [*before, "for k in range(sweeps):", *_indented(in_sweep), *behind, "if store != 0:", *_indented(kept)]


def adjoint_source(step: Step, scalar: str) -> str:
    """Kernel that carries adjoints backward in time through a stored rollout.

    `q_bar` [world, coordinate] and `qd_bar` [world, dof] hold the adjoint of the present state and end as that of the
    initial state; the adjoints of held inputs and parameters are added to what the arrays hold.
    """
    source = _Source(step, scalar)
    states = {"q": ("position", len(step.q)), "qd": ("velocity", len(step.qd))}
    incoming = [
        f"{name}_bar[w, {i}] = {name}_bar[w, {i}] + {array}_bar[{{slot}}, w, {i}]"
        for name, (array, width) in states.items()
        for i in range(width)
    ]
    loop = [
        "t = steps - 1 - j",
        "if (t + 1) % substeps == 0:",
        *_indented([line.format(slot="(t + 1) // substeps") for line in incoming]),
        *source.load_step(),
        *_loads("q_bar", "q_bar[w, {i}]", len(step.q)),
        *_loads("qd_bar", "qd_bar[w, {i}]", len(step.qd)),
        *(_rigid_contact_adjoint(source, step) if isinstance(step, RigidContactStep) else _smooth_adjoint(source)),
    ]
    arguments = source.arguments({}) | _arrays(["position_bar", "velocity_bar"], 3, scalar)
    arguments |= _arrays(["q_bar", "qd_bar"], 2, scalar)
    arguments |= _arrays(["held_bar"], 3, scalar) | _arrays(["parameters_bar"], 2, scalar)
    body = [*source.first_lines, "for j in range(steps):", *_indented(loop)]
    body += [line.format(slot="0") for line in incoming]
    return _function("adjoint", arguments, body)


def _bar_variables(step: Step) -> tuple[list[Scalar], list[Scalar]]:
    return step.trace.variables("q_bar", len(step.q)), step.trace.variables("qd_bar", len(step.qd))


def _smooth_adjoint(source: _Source) -> Lines:
    step = source.step
    acceleration = step.trace.variables("acceleration", len(step.qd))
    bars = step.adjoint(step.stored_factor(), acceleration, *_bar_variables(step))
    return [*source.load_solution(), *_give_back(source, bars, set())]


def _rigid_contact_adjoint(source: _Source, step: RigidContactStep) -> Lines:
    scalar, width, known = source.scalar, 3 * step.count, set[int]()
    sweep = Sweep.of(step.count, step.step_size)
    inputs = step.sweep_inputs()
    bar = {name: step.trace.variable(f"{name}_bar") for name in inputs}
    behind = step.adjoint_behind(*_bar_variables(step))
    cut, p_bar = behind[:-width], [value for _, value in behind[-width:]]
    start = {f"{name}_bar": 0.0 for name in inputs if not name.startswith("p_")}
    return [
        *_loads("p", f"iterates[t, w, sweeps * {width} + {{i}}]", width),
        *statements({name: value for name, value in inputs.items() if not name.startswith("p_")}, scalar, known),
        *statements(_targets("p_{i}_bar", p_bar) | start, scalar, known),
        *statements({f"behind_{i}": value for i, (_, value) in enumerate(cut)}, scalar, known),
        "for k in range(sweeps):",
        *_indented(_sweep_adjoint(sweep, width, scalar)),
        *_give_back(source, step.adjoint_before(cut, bar), known),
    ]


def _sweep_adjoint(sweep: Sweep, width: int, scalar: str) -> Lines:
    """One sweep back: adjoints `p_i_bar` become those of the impulses before it, the others are added to."""
    constant: list[Scalar] = [*sweep.G.values(), *sweep.c, *sweep.r, *sweep.sigma, *sweep.mu]
    p_bar = [sweep.trace.variable(f"p_{i}_bar") for i in range(width)]
    bars = gradient(list(zip(sweep.swept, p_bar, strict=True)), [*sweep.p, *constant])
    names = [f"{node.operands[0]}_bar" for node in constant]
    sums = [sweep.trace.variable(name) + bar for name, bar in zip(names, bars[width:], strict=True)]
    new = _targets("swept_{i}", bars[:width]) | {f"new_{name}": value for name, value in zip(names, sums, strict=True)}
    return [
        *_loads("p", f"iterates[t, w, (sweeps - 1 - k) * {width} + {{i}}]", width),
        *statements(new, scalar),
        *_stores("p_{i}_bar", "swept", width),
        *[f"{name} = new_{name}" for name in names],
    ]


def _give_back(source: _Source, bars: Mapping[str, Sequence[Number]], known: set[int]) -> Lines:
    """Writes the adjoints of a step's inputs; whatever is added to an array is computed into a local first."""
    outputs = _targets("q_bar[w, {i}]", bars["q"]) | _targets("qd_bar[w, {i}]", bars["qd"])
    additions = []
    for blocks, array in (
        (source.step.held, "held_bar[t // substeps, w, {}]"),
        (source.step.parameters, "parameters_bar[w, {}]"),
    ):
        values = [value for name in blocks for value in bars[name]]
        for k, (variable, value) in enumerate(zip(_places(blocks), values, strict=True)):
            outputs[f"added_{variable}"] = value
            additions.append(f"{array.format(k)} = {array.format(k)} + added_{variable}")
    return [*statements(outputs, source.scalar, known), *additions]


def tangent_source(step: Step, scalar: str) -> str:
    """Kernel that carries the rates for directions in parameter space forward through a stored rollout.

    One thread a world and direction. A state between two stored slots lies in the later one until that is reached.
    """
    source, trace = _Source(step, scalar), step.trace
    rates = step.tangent(
        step.stored_factor(),
        trace.variables("acceleration", len(step.qd)),
        trace.variables("q_dot", len(step.q)),
        trace.variables("qd_dot", len(step.qd)),
        {name: trace.variables(f"{name}_dot", len(nodes)) for name, nodes in step.parameters.items()},
    )
    outputs = _targets("position_dot[after, w, d, {i}]", rates.position)
    outputs |= _targets("velocity_dot[after, w, d, {i}]", rates.velocity)
    loop = [
        "before = (t + substeps - 1) // substeps",
        "after = (t + substeps) // substeps",
        *source.load_step(),
        *source.load_solution(),
        *_loads("q_dot", "position_dot[before, w, d, {i}]", len(step.q)),
        *_loads("qd_dot", "velocity_dot[before, w, d, {i}]", len(step.qd)),
        *statements(outputs, scalar),
    ]
    arguments = source.arguments({"directions": "int"})
    arguments |= _arrays(["parameters_dot"], 2, scalar)
    arguments |= _arrays(["position_dot", "velocity_dot"], 4, scalar)
    body = ["thread = first + wp.tid()", "w = thread // directions", "d = thread % directions"]
    body += source.load_parameters()
    directions = [f"{name}_dot_{i}" for name, nodes in step.parameters.items() for i in range(len(nodes))]
    body += [f"{direction} = parameters_dot[d, {k}]" for k, direction in enumerate(directions)]
    return _function("tangent", arguments, [*body, "for t in range(steps):", *_indented(loop)])


def map_sources(name: str, outputs: Sequence[Number], inputs: Sequence[Scalar], scalar: str) -> tuple[str, str]:
    """Kernels of a function from rows of `inputs`, [sample, in] to [sample, out], and its vector-Jacobian product."""
    trace, m = inputs[0].trace, len(outputs)
    bar = trace.variables("out_bar", m)
    in_bar = gradient(list(zip(outputs, bar, strict=True)), inputs)
    start = ["w = first + wp.tid()", *(f"{node.operands[0]} = row[w, {i}]" for i, node in enumerate(inputs))]
    forward = _function(
        name,
        {"first": "int"} | _arrays(["row", "out"], 2, scalar),
        [*start, *statements(_targets("out[w, {i}]", outputs), scalar)],
    )
    adjoint = _function(
        f"{name}_adjoint",
        {"first": "int"} | _arrays(["row", "out_bar", "row_bar"], 2, scalar),
        [*start, *_loads("out_bar", "out_bar[w, {i}]", m), *statements(_targets("row_bar[w, {i}]", in_bar), scalar)],
    )
    return forward, adjoint
