"""A subscription that is looked at when we want, instead of waking an executor at every message.

rclpy's executor builds its set of things to wait for anew at every wake-up, which costs more than the message itself
and, at hundreds of messages a second, holds the interpreter when a control thread needs it.
"""

from collections.abc import Iterator
from typing import Any

from rclpy.callback_groups import CallbackGroup
from rclpy.node import Node
from rclpy.qos import QoSProfile


class _NeverExecuted(CallbackGroup):
    """Keeps its entities out of every executor."""

    def can_execute(self, entity: Any) -> bool:
        """No."""
        return False

    def beginning_execution(self, entity: Any) -> bool:
        """No."""
        return False

    def ending_execution(self, entity: Any) -> None:
        """Never called."""


class PolledSubscription:
    """Messages wait in the middleware's queue, as many as `qos.depth`, until they are taken.

    One thread may take while an executor spins the node; it must have ended before the node is destroyed.
    """

    def __init__(self, node: Node, message_type: Any, topic: str, qos: QoSProfile, raw: bool = False) -> None:
        """Subscribe `node`; with `raw`, messages are taken in serialised form."""
        self._subscription = node.create_subscription(
            message_type, topic, lambda _: None, qos, callback_group=_NeverExecuted(), raw=raw
        )

    def take(self) -> Iterator[tuple[Any, int]]:
        """Every message that waits, oldest first, with the time of its arrival [ns since the epoch].

        The time is 0 where the middleware gives none.
        """
        subscription = self._subscription
        with subscription.handle:
            while (taken := subscription.handle.take_message(subscription.msg_type, subscription.raw)) is not None:
                message, info = taken
                yield message, info["received_timestamp"]
