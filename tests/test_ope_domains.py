"""Off-policy estimates on the project's own data sets, beside what playing gives."""

import importlib.util
from pathlib import Path

import pytest

from convgym.evaluation.ope.selection import selection_quality

pytest.importorskip("minari")

SCRIPT = Path(__file__).parents[1] / "scripts" / "bench_ope.py"


@pytest.fixture(scope="module")
def bench():
    spec = importlib.util.spec_from_file_location("bench_ope", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
@pytest.mark.parametrize("domain", ["customer-service", "technical-support", "sales"])
def test_estimates_rank_policies_as_playing_does(bench, domain):
    """Two minutes each, of which building the data set is half a one."""
    for reports, truth in bench.domain_reports(domain, episodes_played=1_000).values():
        for by, least in (("WIS", 0.9), ("WDR", 0.9), ("FQE", 0.8)):  # linear values are biased
            quality = selection_quality(reports, truth, by)
            assert quality.policies >= 10
            assert quality.spearman >= least, by
        assert all(row.low is None for one in reports for row in one.rows if row.estimator == "FQE")
