"""Where frames and feet of the robot are, for many coordinates at once, as torch autograd functions."""

from collections.abc import Sequence
from typing import Any

import torch
import warp as wp
from jaxtyping import Float
from torch import Tensor

from realitygrad_ros.physics.aligned import aligned
from realitygrad_ros.physics.compile import SCALAR_TYPES, Launcher
from realitygrad_ros.physics.contact import contact_points
from realitygrad_ros.physics.kernel_source import map_sources
from realitygrad_ros.physics.rigid_body import frame_pose
from realitygrad_ros.physics.trace import Number, Scalar, Trace
from realitygrad_ros.robot.contact import ContactSphere
from realitygrad_ros.robot.model import RobotModel


class _CoordinateMap:
    """A traced function of a robot's coordinates."""

    def __init__(self, name: str, inputs: Sequence[Scalar], outputs: Sequence[Number], dtype: torch.dtype) -> None:
        self.input_count = len(inputs)
        self.output_count = len(outputs)
        self.dtype = dtype
        self.source, self.adjoint_source = map_sources(name, outputs, inputs, SCALAR_TYPES[dtype])
        self.launcher = Launcher()

    def __call__(self, position: Float[Tensor, "*batch coordinate"]) -> Float[Tensor, "*batch out"]:
        """The function at coordinates; differentiable.

        Raises:
            ValueError: the shape or the dtype does not fit.
        """
        if position.shape[-1] != self.input_count or position.dtype != self.dtype:
            raise ValueError(f"position must be [..., {self.input_count}] of {self.dtype}")
        flat = position.reshape(-1, self.input_count)
        return _Evaluation.apply(self, flat).reshape(*position.shape[:-1], self.output_count)

    def launch(self, source: str, *arrays: Tensor) -> None:
        """Run one of the two kernels on rows."""
        views = [wp.from_torch(array.detach().contiguous(), requires_grad=False) for array in arrays]
        self.launcher.launch(source, arrays[0].shape[0], views)


class ForwardKinematics(_CoordinateMap):
    """The position of one frame's origin in the base frame [m]."""

    def __init__(self, model: RobotModel, frame: str, dtype: torch.dtype = torch.float32) -> None:
        """Prepare the kernels.

        Args:
            model: the robot.
            frame: a link's name.
            dtype: `torch.float32` or `torch.float64`.

        Raises:
            RealityGradError: the robot has no such link.
        """
        model = aligned(model)
        q = Trace().variables("q", model.coordinate_count)
        super().__init__("frame_origin", q, frame_pose(model, model.frame(frame), q)[1], dtype)


class ContactHeights(_CoordinateMap):
    """The height of each contact sphere's lowest point above the ground [m]."""

    def __init__(self, model: RobotModel, spheres: Sequence[ContactSphere], dtype: torch.dtype = torch.float32) -> None:
        """Prepare the kernels.

        Args:
            model: the robot.
            spheres: what may touch the ground.
            dtype: `torch.float32` or `torch.float64`.

        Raises:
            RealityGradError: the robot lacks a sphere's link.
        """
        model = aligned(model)
        q = Trace().variables("q", model.coordinate_count)
        super().__init__("contact_heights", q, [point.height for point in contact_points(model, q, spheres)], dtype)


class _Evaluation(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, coordinate_map: _CoordinateMap, position: Tensor) -> Tensor:
        out = torch.empty(position.shape[0], coordinate_map.output_count, dtype=position.dtype)
        ctx.coordinate_map = coordinate_map
        ctx.save_for_backward(position)
        coordinate_map.launch(coordinate_map.source, position, out)
        return out

    @staticmethod
    def backward(ctx: Any, out_bar: Tensor) -> tuple[None, Tensor]:
        (position,) = ctx.saved_tensors
        position_bar = torch.empty_like(position, memory_format=torch.contiguous_format)
        ctx.coordinate_map.launch(ctx.coordinate_map.adjoint_source, position, out_bar, position_bar)
        return None, position_bar
