"""Users fitted to recorded conversations, and how far simulated users are from real ones.

Outward names only; inside ConvGym import the file that defines a name.
"""

from convgym.calibration.calibration import Calibration, calibrate
from convgym.calibration.divergences import (
    compute_distribution_divergence,
    compute_js_divergence,
    compute_kl_divergence,
    compute_mmd,
    compute_wasserstein,
)
from convgym.calibration.evaluator import SimToRealEvaluator, SimToRealMetrics
from convgym.calibration.floors import Floor, noise_floors
from convgym.calibration.gap import compute_sim_real_gap
from convgym.calibration.gap_report import GapReport, GapRow, PredictiveCheck, ResponsePoint
from convgym.calibration.log_simulator import LogSimulator
from convgym.calibration.report_html import write_gap_report
from convgym.calibration.two_sample import TwoSampleResult, classifier_two_sample_test

__all__ = [
    "Calibration",
    "Floor",
    "GapReport",
    "GapRow",
    "LogSimulator",
    "PredictiveCheck",
    "ResponsePoint",
    "SimToRealEvaluator",
    "SimToRealMetrics",
    "TwoSampleResult",
    "calibrate",
    "classifier_two_sample_test",
    "compute_distribution_divergence",
    "compute_js_divergence",
    "compute_kl_divergence",
    "compute_mmd",
    "compute_sim_real_gap",
    "compute_wasserstein",
    "noise_floors",
    "write_gap_report",
]
