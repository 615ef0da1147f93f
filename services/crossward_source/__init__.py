"""A source hospital: trains on its own records under differential privacy, and releases the models' weights.

It is a site (`crossward_site`) with the one role: `settings.py` says so, `app.py` starts it. It serves no route that
other sites do not have.
"""
