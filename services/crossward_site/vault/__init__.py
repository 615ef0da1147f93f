"""The data vault: records stay where the steward has them, and are read into memory only to be learned from.

places.py    where records lie: CSV, Parquet, a SQL query
units.py     from one unit to another
mapping.py   local columns, units and codes to those of a study
persons.py   the person as the unit of privacy: at most m records of each
seats.py     who sits in which permanent cell
report.py    what the steward should know of the data; never sent
vault.py     connecting data, new versions, and rows by cell
"""

from crossward_site.vault.mapping import ColumnMap, DataMap
from crossward_site.vault.places import CsvPlace, ParquetPlace, Place, SqlPlace
from crossward_site.vault.vault import Dataset, Rows, Vault

__all__ = ["ColumnMap", "CsvPlace", "DataMap", "Dataset", "ParquetPlace", "Place", "Rows", "SqlPlace", "Vault"]
