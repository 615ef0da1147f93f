"""A target hospital: learns from sources' releases and its own records, and predicts for its own patients.

It is a site (`crossward_site`) with the one role: `settings.py` says so, `app.py` starts it. With that role a site
serves predictions and models too (`crossward_site.models.routes`).
"""
