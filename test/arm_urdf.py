"""A small arm as text, of which tests change a word here and there."""

from pathlib import Path


def arm_urdf(extra: str = "") -> str:
    """Two joints, a tool fixed to the last link."""
    return f"""<?xml version="1.0"?>
<robot name="arm">
  <link name="base"/>
  <joint name="shoulder" type="revolute">
    <parent link="base"/><child link="upper"/>
    <origin xyz="0 0 0.1" rpy="1.57079632679 0 0"/><axis xyz="0 0 1"/>
    <limit lower="-1" upper="2" velocity="3" effort="40"/>
  </joint>
  <link name="upper">
    <inertial><origin xyz="0.2 0 0"/><mass value="2"/>
      <inertia ixx="0.01" ixy="0" ixz="0" iyy="0.02" iyz="0" izz="0.02"/></inertial>
  </link>
  <joint name="wrist" type="continuous">
    <parent link="upper"/><child link="hand"/><origin xyz="0.4 0 0"/><axis xyz="1 0 0"/>
    <limit velocity="5" effort="6"/>
  </joint>
  <link name="hand">
    <inertial><mass value="1"/><inertia ixx="0.001" ixy="0" ixz="0" iyy="0.001" iyz="0" izz="0.001"/></inertial>
  </link>
  <joint name="mount" type="fixed"><parent link="hand"/><child link="tool"/><origin xyz="0.1 0 0"/></joint>
  <link name="tool">
    <inertial><mass value="0.5"/><inertia ixx="0.002" ixy="0" ixz="0" iyy="0.002" iyz="0" izz="0.002"/></inertial>
  </link>
  {extra}
</robot>"""


def write_arm(folder: Path, text: str, name: str = "arm.urdf") -> Path:
    """Write a description, and return its path."""
    path = folder / name
    path.write_text(text)
    return path
