"""Cross a robot's reality gap by gradients through differentiable physics, over ROS 2."""
