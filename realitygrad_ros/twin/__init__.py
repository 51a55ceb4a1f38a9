"""A stand-in for a real robot: MuJoCo with hidden parameters, sharing no dynamics code with `physics`."""
