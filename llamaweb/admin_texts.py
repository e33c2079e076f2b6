"""Texts of django-unfold, which has no German: here they are found and translated with ours."""

from __future__ import annotations

from django.utils.translation import gettext_noop as _

TEXTS = (
    _("Apply Filters"),
    _("Choose file to upload"),
    _("Clear all filters"),
    _("Clear selection"),
    _("Dark"),
    _("Expand row"),
    _("Filters"),
    _("Go back"),
    _("Light"),
    _("Loading more results..."),
    _("More actions"),
    _("Next"),
    _("No data"),
    _("No results found"),
    _("No results matching your query"),
    _("Previous"),
    _("Reset filters"),
    _("Run"),
    _("Select all rows"),
    _("Select record"),
    _("Submit"),
    _("System"),
    _("This item will be deleted."),
    _("This page yielded into no results. Create a new item or reset your filters."),
    _("Toggle password visibility"),
    _("Type to search"),
)
