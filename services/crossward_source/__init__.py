"""A source hospital: trains on its own records under differential privacy, and releases the models' weights.

app.py        create_app(settings)
settings.py   what its operator can set
routers/      HTTP beyond what every site has: nothing
main.py       init, join, token, serve
"""
