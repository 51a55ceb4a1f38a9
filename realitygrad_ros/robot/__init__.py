"""What a robot is: its tree of joints, its limits, and the parameters that identification may change."""
