"""A site's datasets: records stay where the steward has them, and are read into memory only to be learned from.

service.py   the vault: connecting data, new versions, and rows by cell
places.py    where records lie: CSV, Parquet, a SQL query
units.py     from one unit to another
mapping.py   local columns, units and codes to those of a study
reading.py   the one way in: Arrow columns or single records become rows of a study
survey.py    `data check`, one pass: counting.py counts, telling.py says it, mending.py proposes a mapping,
             shapes.py knows what is wrong with a text, check_views.py is what is answered
persons.py   the person as the unit of privacy: at most m records of each
seats.py     who sits in which permanent cell
checks.py    what is refused as data are connected
report.py    what the steward should know of the data; never sent
"""
