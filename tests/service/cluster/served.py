"""The service as a command, on Ray and on a PostgreSQL behind a proxy; and its processes, to do harm to."""

import subprocess
import sys
from contextlib import ExitStack, closing, suppress

import psutil
import psycopg

from postgres_kit import PostgresServer
from service.cluster.history import stored_of
from service.cluster.proxy import Proxy
from service_kit import until

TITLES = {"shard": ":ShardActor", "front": ":ServeReplica:taciturn:Front", "supervisor": ":SupervisorActor"}
"""What the command lines of the service's processes have in them, as Ray sets them: also while they are starting."""

LEASE_SECONDS = 1.5
SCALED_WITHIN = 60
"""Seconds within which the number of shards must have been taken; a busy machine's PostgreSQL may be late once."""


class Served:
    """A service that runs until it is closed: `url` is its address, `proxy` stands between it and `database`.

    Its output goes to a file in the folder.
    """

    def __init__(self, programs, folder, *, shards=3, fronts=2):
        self._log = folder / "service.log"
        with ExitStack() as cleanup:
            self.database = cleanup.enter_context(closing(PostgresServer(programs)))
            self.proxy = cleanup.enter_context(closing(Proxy(self.database.socket)))
            conninfo = f"host=127.0.0.1 port={self.proxy.port} user=postgres dbname=postgres sslmode=disable"
            layout = ["--engine", "ray", "--shards", str(shards), "--fronts", str(fronts), "--postgres", conninfo]
            layout += ["--data-dir", str(folder / "data"), "--port", "0", "--lease-seconds", str(LEASE_SECONDS)]
            with self._log.open("w") as log:
                command = _command("serve", *layout)
                self._service = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
            cleanup.callback(self._stop)
            self.url = self._announced()
            self._cleanup = cleanup.pop_all()

    def close(self):
        """Stop the service and the database."""
        self._cleanup.close()

    def log(self):
        """The end of its output."""
        return self._log.read_text(errors="replace")[-4000:]

    def _announced(self):
        """The address in the line that says that the service is ready."""
        line = self._service.stdout.readline()
        address = next((word for word in line.split() if word.startswith("http://")), None)
        if address is None:
            raise RuntimeError(f"the service did not start: {line}{self.log()}")
        return address.rstrip("/;,")

    def _stop(self):
        self._service.terminate()
        try:
            self._service.wait(60)
        except subprocess.TimeoutExpired:
            self._service.kill()
            self._service.wait()
        self._service.stdout.close()

    def processes(self, part):
        """The running processes of a part of the service, oldest first."""
        return oldest_first(psutil.Process(self._service.pid).children(recursive=True), TITLES[part])

    def scale(self, shards):
        """Ask for another number of shards; not through the proxy, and until it succeeds, as an administrator does."""
        command = _command("scale", str(shards), "--postgres", self.database.conninfo)
        until(lambda: subprocess.run(command, check=False, stdout=subprocess.DEVNULL).returncode == 0, SCALED_WITHIN)

    def epochs(self):
        """The epoch of each shard; none while the database does not answer."""
        with suppress(psycopg.Error), closing(psycopg.connect(self.database.conninfo)) as db:
            return dict(db.execute("SELECT shard, epoch FROM taciturn_shards").fetchall())
        return {}

    def stored(self):
        """What the tables hold, all read at one moment: entries of deleted agents are removed in the background."""
        with closing(psycopg.connect(self.database.conninfo)) as db:
            db.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            agents = db.execute("SELECT name, created_at, last, digest FROM taciturn_agents").fetchall()
            deleted = db.execute("SELECT agent, until FROM taciturn_deleted").fetchall()
            entries = db.execute(
                "SELECT agent, position, kind, body, version, digest FROM taciturn_entries ORDER BY position"
            ).fetchall()
        return stored_of(agents, deleted, entries)


def _command(*arguments):
    return [sys.executable, "-m", "taciturn", *arguments]


def oldest_first(processes, title):
    """Those of Ray's processes with such a title, by when they began; any of them may end meanwhile."""
    found = []
    for process in processes:
        with suppress(psutil.Error):
            shown = " ".join(process.cmdline())
            if shown.startswith("ray::") and title in shown:
                found.append((process.create_time(), process.pid, process))
    return [process for _, _, process in sorted(found)]
