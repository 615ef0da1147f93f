"""What keeps a service well, the same for every kind: an examination that changes nothing, backup and restore.

findings     what an examination writes down: ok, warning or fault, what is there, what to fix
examination  the machine a service stands on, its certificates, its database
peer         another service as seen from here: address, proxy, TLS, clock, version
backup       from a running service to a backup, and from a backup into an empty data directory
files        files that hold secrets
crash        named points at which a fault test may kill a service

What a site or a coordinator has beyond that lies with it.
"""
