"""Public geography, public tables and job sources.

Readers return arrays of block or unit numbers of one `Geography`; codes are text at the edges only. The
public side of jobs (`Slots`) and their confidential side (`JobRecords`) are read by different functions.
"""

from geo_data.acs import read_acs
from geo_data.auxiliary import Flows, read_flows
from geo_data.coarsening import (
    Coarsening,
    Rule,
    balanced,
    by_distance,
    by_share,
    by_threshold,
    coarsen,
    retention_grid,
)
from geo_data.crosswalk import read_crosswalk
from geo_data.ctpp import read_ctpp
from geo_data.demo import write_demo_region
from geo_data.demo_nation import simulate_nation
from geo_data.distance import bearing, distance_km
from geo_data.errors import InputError
from geo_data.fetching import LODES_URL, fetch, fetch_lodes
from geo_data.geography import Geography, ordered_geography
from geo_data.jobs import JobRecords, JobSource, Slots
from geo_data.lodes import LODES_CATEGORIES, LODES_COLUMNS, LodesJobs
from geo_data.lodes_flows import read_lodes_flows
from geo_data.microdata import MicrodataJobs
from geo_data.model import PublicModel, build_model
from geo_data.od_files import OD_COLUMNS, count_columns, od_table, write_od_csv
from geo_data.polygons import Polygons, read_polygons
from geo_data.pools import PoolFinder, Pooling, PoolTable, build_pools, group_records
from geo_data.proxy_truth import pseudo_homes
from geo_data.unit_names import clean_names
from geo_data.weights import BlockWeights, read_weights, uniform_weights

__all__ = [
    "LODES_CATEGORIES",
    "LODES_COLUMNS",
    "LODES_URL",
    "OD_COLUMNS",
    "BlockWeights",
    "Coarsening",
    "Flows",
    "Geography",
    "InputError",
    "JobRecords",
    "JobSource",
    "LodesJobs",
    "MicrodataJobs",
    "Polygons",
    "PoolFinder",
    "PoolTable",
    "Pooling",
    "PublicModel",
    "Rule",
    "Slots",
    "balanced",
    "bearing",
    "build_model",
    "build_pools",
    "by_distance",
    "by_share",
    "by_threshold",
    "clean_names",
    "coarsen",
    "count_columns",
    "distance_km",
    "fetch",
    "fetch_lodes",
    "group_records",
    "od_table",
    "ordered_geography",
    "pseudo_homes",
    "read_acs",
    "read_crosswalk",
    "read_ctpp",
    "read_flows",
    "read_lodes_flows",
    "read_polygons",
    "read_weights",
    "retention_grid",
    "simulate_nation",
    "uniform_weights",
    "write_demo_region",
    "write_od_csv",
]
