"""Trajectory optimisation, policy cloning, and the policy bundle that the robot runs."""
