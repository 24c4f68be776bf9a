"""Predictions over HTTP: a server of the standard library, with limits, and a queue that answers requests together."""

from stratagp.serving.queueing import Busy as Busy
from stratagp.serving.queueing import Queue as Queue
from stratagp.serving.queueing import Wanted as Wanted
from stratagp.serving.server import Limits as Limits
from stratagp.serving.server import Server as Server
