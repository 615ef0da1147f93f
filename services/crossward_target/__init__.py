"""A target hospital: learns from sources' releases and its own records, and predicts for its own patients.

app.py        create_app(settings)
settings.py   what its operator can set
routers/      HTTP beyond what every site has: predictions, models, evaluation
main.py       init, join, token, serve
"""
