"""Recorded conversations: reading logs, describing them, fitting a user to them.

Outward names only; inside ConvGym import the file that defines a name.
"""

from convgym.data.conversations import (
    ConversationDataset,
    ConversationDatasetConfig,
    ConversationStream,
    ReadingReport,
    RewardScale,
)
from convgym.data.formats import from_openai, from_sharegpt, to_openai, to_sharegpt
from convgym.data.logs import LogFault, LogReader, LogReport, read_log, write_log
from convgym.data.quality import QualityReport, quality_report
from convgym.data.records import from_record, to_record
from convgym.data.returns import returns_to_go
from convgym.data.reward_model import RewardModelReport, fit_reward_model
from convgym.data.splits import first_user_turn, leakage_groups
from convgym.data.statistics import LogStatistics
from convgym.data.user_fit import fit_user

__all__ = [
    "ConversationDataset",
    "ConversationDatasetConfig",
    "ConversationStream",
    "LogFault",
    "LogReader",
    "LogReport",
    "LogStatistics",
    "QualityReport",
    "ReadingReport",
    "RewardModelReport",
    "RewardScale",
    "first_user_turn",
    "fit_reward_model",
    "fit_user",
    "from_openai",
    "from_record",
    "from_sharegpt",
    "leakage_groups",
    "quality_report",
    "read_log",
    "returns_to_go",
    "to_openai",
    "to_record",
    "to_sharegpt",
    "write_log",
]
