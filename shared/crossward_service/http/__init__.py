"""What every service shares at its HTTP edge, in the order a request meets it.

`serve` binds and runs, `app` builds the application, `edge` guards it, `parties` and `tokens` say who is asking,
`transactions` keeps one request to one transaction, `problems` turns every refusal into one shape. `client` is the
other end; `signing` and `keys` are common to both.
"""
