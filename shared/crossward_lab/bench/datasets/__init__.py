"""Public data that benchmarks run on: where the files are, and how each becomes records and labels.

files.py        found in CROSSWARD_DATA or in the cache, or fetched from their public homes
homes.py        the public homes, and the conversion from their form into ours
mnist.py, news20.py, covertype.py, brfss.py
"""
