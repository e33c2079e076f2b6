"""The engine that asks another server: any that speaks OpenAI's API, by address and key.

`request` writes what is asked, `params` its sampling fields, `chunks` reads what comes back,
`failures` says what a failure means; all of these are pure. `call` is one request on its way in a
thread of its own, `engine` holds the calls, `health` knows whether the server can be reached.
"""
