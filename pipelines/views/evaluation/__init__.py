"""Evaluation of releases: measures of utility, and reports against the truth or against public tables."""

from pipelines.views.evaluation.commute_measures import (
    SHORT_KM,
    add_distance,
    commute_errors,
    earth_movers_distance,
    errors_by_size,
    group_errors,
    in_dense_area,
    mean_distance,
)
from pipelines.views.evaluation.comparison import Comparison, compare_with_public, compare_with_truth
from pipelines.views.evaluation.count_queries import count_queries, query_errors, share_within
from pipelines.views.evaluation.evaluating import evaluate, evaluate_public, evaluation_folder
from pipelines.views.evaluation.flow_measures import (
    common_part_of_commuters,
    implicate_variance,
    jensen_shannon_divergence,
    lost_pairs,
    pair_flows,
    side_error,
    side_variation,
    top_flows_recall,
    total_variation_distance,
)
from pipelines.views.evaluation.measuring import MEASURES, Measure
from pipelines.views.evaluation.propensity import Propensity, propensity

__all__ = [
    "MEASURES",
    "SHORT_KM",
    "Comparison",
    "Measure",
    "Propensity",
    "add_distance",
    "common_part_of_commuters",
    "commute_errors",
    "compare_with_public",
    "compare_with_truth",
    "count_queries",
    "earth_movers_distance",
    "errors_by_size",
    "evaluate",
    "evaluate_public",
    "evaluation_folder",
    "group_errors",
    "implicate_variance",
    "in_dense_area",
    "jensen_shannon_divergence",
    "lost_pairs",
    "mean_distance",
    "pair_flows",
    "propensity",
    "query_errors",
    "share_within",
    "side_error",
    "side_variation",
    "top_flows_recall",
    "total_variation_distance",
]
