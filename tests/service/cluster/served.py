"""The service as a command, on Ray and on a PostgreSQL behind a proxy; and its processes, to do harm to."""

import subprocess
import sys
from contextlib import ExitStack, closing, suppress

import psutil
import psycopg

from postgres_kit import PostgresServer
from service.cluster.history import stored_of
from service.cluster.proxy import Proxy

TITLES = {"shard": ":ShardActor", "front": ":ServeReplica:taciturn:Front", "supervisor": ":SupervisorActor"}
"""What the command lines of the service's processes have in them, as Ray sets them: also while they are starting."""

LEASE_SECONDS = 1.5


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
        found = psutil.Process(self._service.pid).children(recursive=True)
        return sorted((each for each in found if _has_title(each, TITLES[part])), key=psutil.Process.create_time)

    def scale(self, shards):
        """Ask for another number of shards; not through the proxy, since an administrator tries until it succeeds."""
        command = _command("scale", str(shards), "--postgres", self.database.conninfo)
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

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


def _has_title(process, title):
    with suppress(psutil.Error):  # it may have ended
        shown = " ".join(process.cmdline())
        return shown.startswith("ray::") and title in shown
    return False
