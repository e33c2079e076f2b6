"""`make run`'s process: starts supervisord, tells what happens, ends everything in time.

    manager ─ supervisord ─┬ redis · supervisor (─ engines) · jobs · beat · web × N
                           └ each started through child.py, so that it dies with its parent

Whoever is killed, nothing is left: a dead manager takes supervisord along, a dead supervisord its
children (Redis gets SIGTERM and saves, all others SIGKILL: they are made for it). The manager
starts a dead supervisord again.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import queue
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from types import FrameType

from llamaweb.boot import EXIT_BAD_CONFIG, Boot, boot
from llamaweb.run import control, tree
from llamaweb.run.config import (
    ConfigError,
    control_socket,
    supervisord_conf,
    supervisord_log,
    write_config,
)
from llamaweb.run.console import Console
from llamaweb.run.first_user import FirstUser
from llamaweb.run.health import Watch
from llamaweb.run.instance import (
    InstanceError,
    child_environment,
    clear_metrics,
    lock_data_dir,
    require_free_address,
)
from llamaweb.run.programs import ROOT, Program
from llamaweb.run.steps import CHILD, Step, StepError, read_tail, run_step, say, stop_signals
from llamaweb.run.watch import SourceWatch

POLL_S = 0.1
# All ends within 10 s: supervisord has STOP_S for an orderly end, what is left then is killed.
STOP_S = 8.0
LAST_S = 1.5
ECHO_S = 0.5
BACKOFF_S = (1.0, 2.0, 4.0, 8.0, 15.0, 30.0)
STEADY_S = 60.0  # a supervisord that lived this long starts again without delay growing
# It ends by itself within this time only when it can't use its configuration or the address.
FIRST_S = 2.0


class Manager:
    """One instance, from start to end."""

    def __init__(self, config: Boot, found: tuple[Program, ...], *, dev: bool, verbose: bool):
        self.boot = config
        self.programs = found
        data_dir = config.data_dir
        self.socket = control_socket(data_dir)
        self.environ = child_environment(config.env)
        self.console = Console(data_dir.logs, supervisord_log(data_dir), found, verbose=verbose)
        self.health = Watch(config.env)
        self.first_user = FirstUser(self.environ, data_dir.logs / "setup_link.log")
        self.is_ready = False
        self.sources = SourceWatch(ROOT) if dev else None
        self.supervisord: subprocess.Popen[bytes] | None = None
        self.started_ts = 0.0
        self.restart_ts = 0.0
        self.deaths = 0
        self.signal_ts: float | None = None
        self.is_impatient = False

    def run(self) -> int:
        """Until a signal; returns the exit status."""
        for number in stop_signals():
            signal.signal(number, self._note_signal)
        tree.adopt_orphans()
        status = 0
        try:
            self._start()
            self.health.start()
            self.first_user.start()
            while self.signal_ts is None and status == 0:
                status = self._tick()
                time.sleep(POLL_S)
        finally:
            self._stop()
        return status

    def _note_signal(self, number: int, frame: FrameType | None) -> None:
        """The first one ends us, a later one at once; make passes the group's signal on to us, so
        the same one may come twice."""
        now_ts = time.monotonic()
        if self.signal_ts is None:
            self.signal_ts = now_ts
        elif now_ts - self.signal_ts > ECHO_S:
            self.is_impatient = True

    # --- while it runs

    def _tick(self) -> int:
        """One look at everything; other than 0 ends the instance."""
        self._reap()
        self.console.poll()
        self._tell_health()
        self._tell_ready()
        self._reload_changed()
        if self.supervisord is None:
            if time.monotonic() >= self.restart_ts:
                self._start()
        elif self.supervisord.returncode is not None:
            return self._supervisord_died(self.supervisord.returncode)
        return 0

    def _start(self) -> None:
        """Start supervisord away from our process group: Ctrl-C is ours alone to handle."""
        error_log = self.boot.data_dir.logs / "supervisord.err"
        command = [sys.executable, "-I", "-S", str(CHILD), "--death-signal", "KILL", "--"]
        command += [sys.executable, "-m", "supervisor.supervisord", "--nodaemon", "--configuration"]
        command += [str(supervisord_conf(self.boot.data_dir))]
        with error_log.open("wb") as output:
            self.supervisord = subprocess.Popen(
                command,
                cwd=ROOT,
                env=self.environ,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self.started_ts = time.monotonic()

    def _supervisord_died(self, status: int) -> int:
        """Start it again later, unless it never came up."""
        how = f"signal {-status}" if status < 0 else f"exit status {status}"
        lived_s = time.monotonic() - self.started_ts
        if status > 0 and lived_s < FIRST_S:
            say(f"The process manager can't start ({how}):")
            say(read_tail(self.boot.data_dir.logs / "supervisord.err"))
            return 1
        self.deaths = 0 if lived_s > STEADY_S else self.deaths
        delay_s = BACKOFF_S[min(self.deaths, len(BACKOFF_S) - 1)]
        self.deaths += 1
        self.console.show("supervisord", f"died ({how}), starting all again in {delay_s:.0f} s")
        self.supervisord = None
        self.restart_ts = time.monotonic() + delay_s
        return 0

    def _tell_health(self) -> None:
        with contextlib.suppress(queue.Empty):
            reason = self.health.news.get_nowait()
            if reason:
                self.console.show("health", f"not ready: {reason}")
            self.is_ready = not reason

    def _tell_ready(self) -> None:
        """Once, when the server answers and we know whether it needs its first user."""
        if not self.is_ready or not self.first_user.is_done:
            return
        self.is_ready = False
        python = sys.executable.removeprefix(f"{ROOT}/")
        say(f"llamaweb is ready at {self.boot.env.url}")
        if line := self.first_user.line(python):
            say(line)
        say(f"  API key:    {python} manage.py create_api_key USER --name NAME")
        say("  stop:       Ctrl-C")

    def _reload_changed(self) -> None:
        names = self.sources.changed() if self.sources is not None else ()
        if not names:
            return
        say(f"code changed, starting again: {', '.join(names)}")
        for act in (control.stop_group_and_wait, control.start_group):
            for name in names:
                with contextlib.suppress(control.ControlError):  # already there, or slow
                    act(self.socket, name)

    def _reap(self) -> None:
        """Take the status of every ended child, adopted ones too."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if self.supervisord is not None and pid == self.supervisord.pid:
                self.supervisord.returncode = os.waitstatus_to_exitcode(status)

    # --- its end

    def _stop(self) -> None:
        """End everything: orderly within STOP_S, or at once after a second signal."""
        self.health.stop()
        deadline_ts = time.monotonic() + STOP_S
        if self.supervisord is not None and self.supervisord.returncode is None:
            say("stopping …")
            self._ask_to_stop(self.supervisord)
            while self.supervisord.returncode is None and time.monotonic() < deadline_ts:
                if self.is_impatient:
                    break
                time.sleep(POLL_S)
                self._reap()
        self._kill_rest()
        self.console.close()
        say("stopped")

    def _ask_to_stop(self, supervisord: subprocess.Popen[bytes]) -> None:
        """All but Redis side by side, then supervisord, which stops Redis last."""
        with contextlib.suppress(control.ControlError):
            for program in self.programs:
                if program.name != "redis":
                    control.stop_group(self.socket, program.name)
        with contextlib.suppress(ProcessLookupError):
            supervisord.send_signal(signal.SIGTERM)

    def _kill_rest(self) -> None:
        """Whatever outlived the orderly end; Redis gets a moment for its file."""
        tree.send(tree.descendants(os.getpid()), signal.SIGTERM)
        deadline_ts = time.monotonic() + LAST_S
        while (pids := tree.descendants(os.getpid())) and time.monotonic() < deadline_ts:
            self._reap()
            time.sleep(POLL_S / 2)
        tree.send(pids, signal.SIGKILL)
        self._reap()


def prepare(config: Boot) -> None:
    """Bring the database to the state of the code, before anything uses it.

    Raises:
        StepError: that failed.
    """
    step = Step(
        title="preparing the database",
        # Django's checks are of the code, load every page, and would make each start slower.
        command=[sys.executable, str(ROOT / "manage.py"), "migrate", "--no-input", "--skip-checks"],
        log=config.data_dir.logs / "migrate.log",
        cwd=ROOT,
        env=child_environment(config.env),
    )
    run_step(step)


def main(arguments: Sequence[str]) -> int:
    """See the module."""
    parser = argparse.ArgumentParser(prog="python -m llamaweb.run")
    parser.add_argument("--dev", action="store_true", help="reload code, start the Vite server")
    parser.add_argument("--verbose", action="store_true", help="show all lines of all processes")
    options = parser.parse_args(arguments)
    config = boot()
    data_dir = config.data_dir
    try:
        with lock_data_dir(data_dir.root, data_dir.run):
            clear_metrics(data_dir.metrics)
            found = write_config(config, dev=options.dev)
            require_free_address(config.env)
            prepare(config)
            manager = Manager(config, found, dev=options.dev, verbose=options.verbose)
            return manager.run()
    except (ConfigError, InstanceError) as error:
        say(f"llamaweb: {error}")
        return EXIT_BAD_CONFIG
    except StepError as error:
        say(str(error))
        return 1
