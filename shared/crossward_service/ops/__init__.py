"""What keeps a service well, the same for every kind: an examination that changes nothing, backup and restore.

findings        what an examination writes down: ok, warning or fault, what was found, what to fix
machine         the data directory, its disk, the address to listen on
certificates    the service's own certificate and the CA bundle it trusts
peer            another service as seen from here: address, proxy, TLS, clock, version
database        reach, migrations, rights
archive         a backup file: what it holds, and that it is whole
backup          from a running service to a backup, and from a backup into an empty data directory

What a site or a coordinator has beyond that lies with it.
"""
