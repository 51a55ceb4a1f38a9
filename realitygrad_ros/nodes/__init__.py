"""The ROS 2 graph: one node a file, no algorithm in it."""
