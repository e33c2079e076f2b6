"""What crosses Redis: frozen dataclasses, standard library only.

`params` and `requests` travel from the callers to an engine, `events` and `results` travel back,
`codec` turns both into JSON text. Every type is versioned through `requests.PROTOCOL_VERSION`.
"""
