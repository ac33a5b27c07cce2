"""Release configuration, plans, Dask runs, certificates, verification and the command line."""

from pipelines.accounting import debits_of
from pipelines.certificate import Certificate, certificate_schema, make_certificate
from pipelines.choosing import make_plan
from pipelines.combining import CombinedEstimate, combine
from pipelines.commutes import Area, add_travel, area_flows, find_area
from pipelines.config import ConfigError, ReleaseConfig, load_config, parse_config
from pipelines.demonstration import demo, demo_inputs, demo_truth
from pipelines.due import due
from pipelines.evaluation import evaluate, evaluate_public, evaluation_folder
from pipelines.exports import ExportError, export
from pipelines.figures import draw_figure
from pipelines.forecast import Forecast, forecast
from pipelines.ledger import Budget, Ledger, LedgerError
from pipelines.maps import build_map, write_map
from pipelines.plan_files import load_plan, save_plan
from pipelines.plan_form import plan_hash
from pipelines.plan_report import PlanReport, report_plan, write_plan_report
from pipelines.planning import ReleasePlan
from pipelines.public_inputs import PublicInputs, read_public_inputs
from pipelines.public_release import PublicRelease, PublicReleaseError, read_public_release
from pipelines.publishing import Published, PublishError, Remark, erratum, publish, published, withdraw
from pipelines.releasing import Release, certified, resume, run
from pipelines.signing import SigningError, check_signatures, generate_keys
from pipelines.tuning import Sweep, draw_frontier, recommend, tune
from pipelines.utility import mean_commute, total_variation
from pipelines.verification import Check, VerificationError, verify

__all__ = [
    "Area",
    "Budget",
    "Certificate",
    "Check",
    "CombinedEstimate",
    "ConfigError",
    "ExportError",
    "Forecast",
    "Ledger",
    "LedgerError",
    "PlanReport",
    "PublicInputs",
    "PublicRelease",
    "PublicReleaseError",
    "PublishError",
    "Published",
    "Release",
    "ReleaseConfig",
    "ReleasePlan",
    "Remark",
    "SigningError",
    "Sweep",
    "VerificationError",
    "add_travel",
    "area_flows",
    "build_map",
    "certificate_schema",
    "certified",
    "check_signatures",
    "combine",
    "debits_of",
    "demo",
    "demo_inputs",
    "demo_truth",
    "draw_figure",
    "draw_frontier",
    "due",
    "erratum",
    "evaluate",
    "evaluate_public",
    "evaluation_folder",
    "export",
    "find_area",
    "forecast",
    "generate_keys",
    "load_config",
    "load_plan",
    "make_certificate",
    "make_plan",
    "mean_commute",
    "parse_config",
    "plan_hash",
    "publish",
    "published",
    "read_public_inputs",
    "read_public_release",
    "recommend",
    "report_plan",
    "resume",
    "run",
    "save_plan",
    "total_variation",
    "tune",
    "verify",
    "withdraw",
    "write_map",
    "write_plan_report",
]
