"""`asymrl watch`: the report of runs in the browser, while they are trained."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from typing import Annotated

import tyro

from asymrl.cli.usage import AgentFolder, Flag, UsageError, open_runs, run_folder


@dataclass(frozen=True)
class Watch:
    """Follow training in the browser: the page of `asymrl report`, updated as new points arrive.

    Only browsers on this machine can open it, and it shows only these runs. Ctrl-C ends it; training continues.
    """

    folder: AgentFolder

    port: Annotated[int | None, tyro.conf.arg(metavar="N", help_behavior_hint="(default: any that is free)")] = None
    """Port to serve on."""

    open: Flag = False
    """Also open the page in the browser."""

    def run(self) -> int:
        if self.port is not None and not 1 <= self.port <= 65535:
            raise UsageError(f"--port {self.port}: choose a number from 1 to 65535")
        open_runs(self.folder)

        from asymrl.report.html.live import LivePage, PageServer

        live = LivePage(run_folder(self.folder))
        try:
            server = PageServer(live.page, self.port or 0)
        except OSError as error:
            problem = (error.strerror or str(error)).lower()
            raise UsageError(f"--port {self.port}: {problem}; choose another, or leave it out") from error
        # What a shell starts in the background ignores Ctrl-C; a server must still end when it is told to.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        with server:
            print(f"{server.url}  follows {self.folder}; Ctrl-C ends it", flush=True)
            if self.open:
                import webbrowser

                webbrowser.open(server.url)
            server.serve_forever(poll_interval=0.2)
        return 0
