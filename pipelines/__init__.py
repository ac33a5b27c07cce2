"""Release configuration, plans, Dask runs, certificates, verification and the command line."""

from pipelines.config.loading import ConfigError, ReleaseConfig, load_config, parse_config
from pipelines.ledger.ledger import Budget, Ledger, LedgerError
from pipelines.planning.form import plan_hash
from pipelines.planning.plan import ReleasePlan
from pipelines.planning.public_inputs import PublicInputs, read_public_inputs
from pipelines.planning.search import make_plan
from pipelines.planning.simulation import Forecast, forecast
from pipelines.planning.storage import load_plan, save_plan
from pipelines.planning.sweep import Sweep, draw_frontier, recommend, tune
from pipelines.planning.utility import mean_commute, total_variation
from pipelines.publishing.publishing import (
    Published,
    PublishError,
    Remark,
    erratum,
    publish,
    published,
    withdraw,
)
from pipelines.release.certificate import Certificate, certificate_schema, make_certificate
from pipelines.release.reader import PublicRelease, PublicReleaseError, read_public_release
from pipelines.release.signing import SigningError, check_signatures, generate_keys
from pipelines.release.verification import Check, VerificationError, verify
from pipelines.running.demo import demo, demo_inputs, demo_truth
from pipelines.running.payment import debits_of
from pipelines.running.report import PlanReport, report_plan, write_plan_report
from pipelines.running.run import Release, certified, resume, run
from pipelines.schedule.due import due
from pipelines.views.combining import CombinedEstimate, combine
from pipelines.views.commutes import Area, add_travel, area_flows, find_area
from pipelines.views.evaluation import evaluate, evaluate_public, evaluation_folder
from pipelines.views.exports import ExportError, export
from pipelines.views.figures import draw_figure
from pipelines.views.maps import build_map, write_map

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
