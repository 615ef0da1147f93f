"""What every service shares at its HTTP edge, in the order a request meets it.

serve        bind, run, stop; one process or several
worker       one of several processes
parent       a process that ends with the one that started it
app          the application: routes for health and metrics, one transaction for one request
readiness    what a service needs to work, asked for by anybody
edge         what holds for each request, whatever the route does
access       who is asking: tokens of people, signatures of parties
signing      signed requests, both ends
views        what every answer and every small body has in common
problems     every refusal in one shape
telemetry    logs and metrics
settings     what an operator tells a service
tls          a private certificate authority for those who have none
healthcheck  whether the service in this container is ready
"""
