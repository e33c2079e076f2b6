"""The engine that asks another server: any that speaks OpenAI's API, by address and key.

`request` writes what is asked, `params` its sampling fields, `chunks` reads what comes back,
`vectors` does both for texts to embed or rate, `failures` says what a failure means; all of these
are pure. `trying` is one request on its way in a thread of its own, `call` an answer's and
`vector_call` the others', `engine` holds the calls, `health` knows whether the server can be
reached.
"""
