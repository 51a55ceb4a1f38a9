"""Where a frame of the robot is, for many joint positions at once, as a torch autograd function."""

from typing import Any

import torch
import warp as wp
from jaxtyping import Float
from torch import Tensor

from realitygrad_ros.physics.compile import SCALAR_TYPES, Launcher
from realitygrad_ros.physics.kernel_source import frame_sources
from realitygrad_ros.robot.model import RobotModel


class ForwardKinematics:
    """The position of one frame's origin in the base frame."""

    def __init__(self, model: RobotModel, frame: str, dtype: torch.dtype = torch.float32) -> None:
        """Prepare the kernels.

        Args:
            model: the robot.
            frame: a link's name.
            dtype: `torch.float32` or `torch.float64`.

        Raises:
            RealityGradError: the robot has no such link.
        """
        sources = frame_sources(model, model.frame(frame), SCALAR_TYPES[dtype])
        self.coordinate_count = model.coordinate_count
        self.dtype = dtype
        self.source, self.adjoint_source = sources
        self.launcher = Launcher()

    def __call__(self, position: Float[Tensor, "*batch coordinate"]) -> Float[Tensor, "*batch 3"]:
        """The frame's origin [m] for coordinates; differentiable.

        Raises:
            ValueError: the shape or the dtype does not fit.
        """
        if position.shape[-1] != self.coordinate_count or position.dtype != self.dtype:
            raise ValueError(f"position must be [..., {self.coordinate_count}] of {self.dtype}")
        flat = position.reshape(-1, self.coordinate_count)
        return _FrameOrigin.apply(self, flat).reshape(*position.shape[:-1], 3)


class _FrameOrigin(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, kinematics: ForwardKinematics, position: Tensor) -> Tensor:
        origin = torch.empty(position.shape[0], 3, dtype=position.dtype)
        ctx.kinematics = kinematics
        ctx.save_for_backward(position)
        _launch(kinematics, kinematics.source, position, origin)
        return origin

    @staticmethod
    def backward(ctx: Any, origin_bar: Tensor) -> tuple[None, Tensor]:
        (position,) = ctx.saved_tensors
        position_bar = torch.empty_like(position, memory_format=torch.contiguous_format)
        _launch(ctx.kinematics, ctx.kinematics.adjoint_source, position, origin_bar, position_bar)
        return None, position_bar


def _launch(kinematics: ForwardKinematics, source: str, *arrays: Tensor) -> None:
    views = [wp.from_torch(array.detach().contiguous(), requires_grad=False) for array in arrays]
    kinematics.launcher.launch(source, arrays[0].shape[0], views)
