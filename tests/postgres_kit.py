"""A PostgreSQL server of the tests' own, on a socket in a temporary folder."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path


def server_programs():
    """The folder with initdb and pg_ctl; None without a server."""
    found = shutil.which("initdb")
    folders = [Path(found).resolve().parent] if found else []
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((folder for folder in folders if (folder / "pg_ctl").exists() and (folder / "initdb").exists()), None)


class PostgresServer:
    """A server that runs until it is closed; `socket` is where it listens, `conninfo` how to connect.

    Nothing need be on the disk, since no test stops the machine: waiting for it was most of their time.
    """

    def __init__(self, programs):
        self._programs = programs
        self._folder = Path(tempfile.mkdtemp(prefix="taciturn-pg-"))  # short, as socket paths must be
        self._as_user = []
        if os.getuid() == 0:  # initdb refuses to run as root
            shutil.chown(self._folder, "nobody")
            self._as_user = ["setpriv", "--reuid=nobody", "--clear-groups"]
        self.socket = self._folder / ".s.PGSQL.5432"
        self.conninfo = f"host={self._folder} user=postgres dbname=postgres"
        self._run("initdb", "--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync")
        options = f"-c listen_addresses='' -c fsync=off -c full_page_writes=off -k {self._folder}"
        self._run("pg_ctl", "-w", "-l", str(self._folder / "log"), "-o", options, "start")

    def crash(self):
        """End all of its processes at once, without a checkpoint, and start it again: it recovers from its log."""
        self._run("pg_ctl", "-w", "-m", "immediate", "-l", str(self._folder / "log"), "restart")

    def close(self):
        self._run("pg_ctl", "-w", "-m", "fast", "stop")
        shutil.rmtree(self._folder)

    def _run(self, program, *arguments):
        command = [*self._as_user, str(self._programs / program), "-D", str(self._folder / "data"), *arguments]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=self._folder)
