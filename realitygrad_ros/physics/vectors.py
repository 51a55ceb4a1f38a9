"""3-vectors and 3x3 matrices of any kind of scalar, as lists, and rotations by quaternions."""

from typing import Any

import numpy as np

from realitygrad_ros.physics.trace import sqrt

Vector = list[Any]
"""Three scalars."""
Matrix = list[list[Any]]
"""Three rows of three scalars."""
Quaternion = list[Any]
"""Four scalars in the order x, y, z, w."""

IDENTITY: Matrix = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]


def dot(a: Vector, b: Vector) -> Any:
    """The scalar product."""
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


def cross(a: Vector, b: Vector) -> Vector:
    """The cross product."""
    return [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]


def total(*vectors: Vector) -> Vector:
    """The sum of vectors."""
    result = vectors[0]
    for vector in vectors[1:]:
        result = [x + y for x, y in zip(result, vector, strict=True)]
    return result


def scale(vector: Vector, factor: Any) -> Vector:
    """A vector times a number."""
    return [x * factor for x in vector]


def difference(a: Vector, b: Vector) -> Vector:
    """The first less the second."""
    return [x - y for x, y in zip(a, b, strict=True)]


def apply(matrix: Matrix, vector: Vector) -> Vector:
    """A matrix times a vector."""
    return [dot(row, vector) for row in matrix]


def transposed(matrix: Matrix) -> Matrix:
    """The transpose."""
    return [list(column) for column in zip(*matrix, strict=True)]


def product(a: Matrix, b: Matrix) -> Matrix:
    """The first matrix times the second."""
    columns = transposed(b)
    return [[dot(row, column) for column in columns] for row in a]


def skew(v: Vector) -> Matrix:
    """The matrix that multiplies a vector w to v x w."""
    return [[0.0, -v[2], v[1]], [v[2], 0.0, -v[0]], [-v[1], v[0], 0.0]]


def plain(array: np.ndarray) -> Any:
    """An array as nested lists of Python floats, which traced arithmetic folds."""
    return array.tolist()


def quaternion_product(r: Quaternion, s: Quaternion) -> Quaternion:
    """The quaternion r s, which rotates by s first; Hamilton's convention."""
    vector = total(scale(s[:3], r[3]), scale(r[:3], s[3]), cross(r[:3], s[:3]))
    return [*vector, r[3] * s[3] - dot(r[:3], s[:3])]


def normalized(r: Quaternion) -> Quaternion:
    """A quaternion divided by its length."""
    factor = 1.0 / sqrt(dot(r[:3], r[:3]) + r[3] * r[3])
    return [x * factor for x in r]


def rotation_matrix(r: Quaternion) -> Matrix:
    """The rotation of a unit quaternion."""
    x, y, z, w = r
    return [
        [1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y - z * w), 2.0 * (x * z + y * w)],
        [2.0 * (x * y + z * w), 1.0 - 2.0 * (x * x + z * z), 2.0 * (y * z - x * w)],
        [2.0 * (x * z - y * w), 2.0 * (y * z + x * w), 1.0 - 2.0 * (x * x + y * y)],
    ]
