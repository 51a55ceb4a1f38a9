"""One RealityGrad iteration as plain Python: identify, optimise, train, roll out, measure; resumable from a folder."""
