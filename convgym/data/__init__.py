"""Recorded conversations: reading logs, describing them, fitting a user to them.

Outward names only; inside ConvGym import the file that defines a name.
"""

from convgym.data.logs import LogFault, LogReader, LogReport, read_log, write_log
from convgym.data.records import from_record, to_record
from convgym.data.reward_model import RewardModelReport, fit_reward_model
from convgym.data.statistics import LogStatistics
from convgym.data.user_fit import fit_user

__all__ = [
    "LogFault",
    "LogReader",
    "LogReport",
    "LogStatistics",
    "RewardModelReport",
    "fit_reward_model",
    "fit_user",
    "from_record",
    "read_log",
    "to_record",
    "write_log",
]
