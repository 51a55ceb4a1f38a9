"""What a policy is asked to do: targets, goal postures and the terms of the cost, one task a file."""
