"""The composition root: the only package that may know every other one.

Empty on purpose: importing Celery or settings here would load Django into every engine process.
"""
