"""A service as a process of its own, as an operator would run it. It ends with whoever started it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import IO

from crossward.errors import NotReady
from crossward_lab.demo import child
from crossward_service.http.serve import ready_address

LONGEST_START = 300.0  # seconds


class Service:
    """A running service, by the name that `child` knows it by. Its output goes to a log file in its folder."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name, self.folder = name, folder
        self._log = folder / "service.log"
        self._url = ""
        self._ready = threading.Event()
        # Each process computes little and there are many: threads inside numpy would only wait for one another.
        environment = os.environ | {"CROSSWARD_DATA_DIR": str(folder), "CROSSWARD_PORT": "0", "OMP_NUM_THREADS": "1"}
        environment |= {"OPENBLAS_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
        self._process = subprocess.Popen(
            [sys.executable, "-m", child.__name__, name],
            env=environment,
            stdin=subprocess.PIPE,  # nothing is sent: when this process has ended, so has the pipe
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
        )
        assert self._process.stdout is not None
        self._reader = threading.Thread(target=self._read, args=(self._process.stdout,), daemon=True)
        self._reader.start()

    def _read(self, output: IO[str]) -> None:
        with self._log.open("a", encoding="utf-8") as log:
            for line in output:
                log.write(line)
                log.flush()
                if not self._url and (address := ready_address(line)):
                    self._url = address
                    self._ready.set()
        self._ready.set()

    @property
    def url(self) -> str:
        """Where it answers; waits until it does."""
        if not self._ready.wait(LONGEST_START) or not self._url:
            raise NotReady(f"The {self.name} in {self.folder} did not start.", f"See {self._log}.")
        return self._url

    def ask_to_stop(self) -> None:
        """Tell it to end, as an operator would, and go on."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)

    def stop(self) -> None:
        """End it, and make sure it has ended."""
        if self._process.poll() is None:
            self.ask_to_stop()
            try:
                self._process.wait(child.STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._reader.join(60)  # else its pipe would be closed while it reads
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
