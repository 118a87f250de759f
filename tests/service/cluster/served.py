"""The service as a command, on Ray and on a PostgreSQL behind a proxy; and its processes, to do harm to."""

import subprocess
import sys
from contextlib import ExitStack, closing, suppress

import psutil
import psycopg

from postgres_kit import PostgresServer
from service.cluster.history import Head, Row, Stored, chain_faults
from service.cluster.proxy import Proxy

TITLES = {"shard": "ray::ShardActor", "front": "ray::ServeReplica:taciturn:Front", "supervisor": "ray::Supervisor"}
"""How the command lines of the service's processes begin, as Ray sets them."""

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

    def _announced(self):
        """The address in the line that says that the service is ready."""
        line = self._service.stdout.readline()
        address = next((word for word in line.split() if word.startswith("http://")), None)
        if address is None:
            raise RuntimeError(f"the service did not start: {line}{self._log.read_text()[-2000:]}")
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
        return sorted((each for each in found if _begins(each, TITLES[part])), key=psutil.Process.create_time)

    def scale(self, shards):
        """Ask for another number of shards; not through the proxy, since an administrator tries until it succeeds."""
        subprocess.run(_command("scale", str(shards), "--postgres", self.database.conninfo), check=True)

    def stored(self):
        """What the tables hold."""
        with closing(psycopg.connect(self.database.conninfo)) as db:
            heads = db.execute("SELECT name, last, digest FROM taciturn_agents").fetchall()
            rows = db.execute(
                "SELECT agent, position, kind, body, version, digest FROM taciturn_entries ORDER BY position"
            ).fetchall()
        found = {name: [] for name, _, _ in heads}
        for agent, *columns in rows:
            found.setdefault(agent, []).append(Row(*columns))
        faults = [fault for name, *head in heads for fault in chain_faults(name, found[name], Head(*head))]
        return Stored(found, faults)


def _command(*arguments):
    return [sys.executable, "-m", "taciturn", *arguments]


def _begins(process, title):
    with suppress(psutil.Error):  # it may have ended
        return " ".join(process.cmdline()).startswith(title)
    return False
