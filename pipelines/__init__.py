"""Release configuration, plans, Dask runs, certificates, verification and the command line."""

from pipelines.certificate import Certificate, certificate_schema, make_certificate
from pipelines.config import ConfigError, ReleaseConfig, load_config, parse_config
from pipelines.demonstration import demo, demo_truth
from pipelines.forecast import Forecast, forecast
from pipelines.plan_files import load_plan, plan_hash, save_plan
from pipelines.plan_report import PlanReport, report_plan, write_plan_report
from pipelines.planning import ReleasePlan, make_plan
from pipelines.public_inputs import PublicInputs, read_public_inputs
from pipelines.releasing import Release, certified, run
from pipelines.signing import SigningError, check_signatures, generate_keys
from pipelines.tuning import Sweep, draw_frontier, recommend, tune
from pipelines.utility import mean_commute, total_variation
from pipelines.verification import Check, VerificationError, verify

__all__ = [
    "Certificate",
    "Check",
    "ConfigError",
    "Forecast",
    "PlanReport",
    "PublicInputs",
    "Release",
    "ReleaseConfig",
    "ReleasePlan",
    "SigningError",
    "Sweep",
    "VerificationError",
    "certificate_schema",
    "certified",
    "check_signatures",
    "demo",
    "demo_truth",
    "draw_frontier",
    "forecast",
    "generate_keys",
    "load_config",
    "load_plan",
    "make_certificate",
    "make_plan",
    "mean_commute",
    "parse_config",
    "plan_hash",
    "read_public_inputs",
    "recommend",
    "report_plan",
    "run",
    "save_plan",
    "total_variation",
    "tune",
    "verify",
    "write_plan_report",
]
