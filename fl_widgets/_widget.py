"""The live widget for notebooks without our JupyterLab extension."""

from __future__ import annotations

import anywidget

from fl_widgets import _built


class ProfileWidget(anywidget.AnyWidget):
    """Draws one profile live.

    The kernel calls ``send(content, buffers)`` with the messages of docs/profile-format.md and answers
    ``{"type": "replay"}``, which arrives through ``on_msg``, with the bundle so far. The view holds no
    synchronised traits: a saved notebook must not carry the trace twice.
    """

    _esm = _built("widget.js")
