"""Every table of every paper."""

from __future__ import annotations

import experiments.baselines.tables
import experiments.crosslm.choices
import experiments.crosslm.fair
import experiments.crosslm.tables
import experiments.datnet.choices
import experiments.datnet.tables
import experiments.few.tables
import experiments.fit.tables
import experiments.laner.crossner
import experiments.laner.tables
import experiments.laner.vote
import experiments.metacross.tables
import experiments.metaner.fair
import experiments.metaner.tables
import experiments.unlabelled.languages
import experiments.unlabelled.tables
from experiments.table import Table
from nershift.errors import ConfigError, nearest

_MODULES = (
    experiments.baselines.tables,
    experiments.few.tables,
    experiments.fit.tables,
    experiments.unlabelled.tables,
    experiments.unlabelled.languages,
    experiments.metaner.fair,
    experiments.metaner.tables,
    experiments.metacross.tables,
    experiments.crosslm.fair,
    experiments.crosslm.tables,
    experiments.crosslm.choices,
    experiments.datnet.tables,
    experiments.datnet.choices,
    experiments.laner.crossner,
    experiments.laner.tables,
    experiments.laner.vote,
)
# By folder; names of tables begin with that of their folder.
TITLES = {
    "baselines": "Baselines",
    "few": "Few labels",
    "fit": "The choice of `nershift fit`",
    "unlabelled": "Unlabelled text",
    "metaner": "MetaNER",
    "metacross": "MetaCross",
    "crosslm": "CrossLM",
    "datnet": "DATNet",
    "laner": "LANER",
}
TABLES: dict[str, Table] = {table.name: table for module in _MODULES for table in module.TABLES}


def get_table(name: str) -> Table:
    if name not in TABLES:
        raise ConfigError(
            f"there is no table '{name}'{nearest(name, TABLES)}", place="experiments", expected=", ".join(TABLES)
        )
    return TABLES[name]
