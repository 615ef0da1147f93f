"""A site's datasets: records stay where the steward has them, and are read into memory only to be learned from.

service.py   the vault: connecting data, new versions, and rows by cell
places.py    where records lie: files under declared roots, queries on declared connections
connector.py reading them, in a process of its own
units.py     from one unit to another
mapping.py   local columns, units and codes to those of a study
persons.py   the person as the unit of privacy: at most m records of each
seats.py     who sits in which permanent cell
checks.py    what is refused as data are connected
report.py    what the steward should know of the data; never sent
"""
