"""A journal of every schema and what the service answered while it was written: a journal once written opens forever.

`python tests/golden/journals.py check JOURNAL` compares the answers after a migration, of a file or a database.
`python tests/golden/journals.py SCHEMA`, with the environment of `traces.py`, writes `journal-schema-N.db` and
`journal-schema-N.json`, the requests with their answers in order, as the code is now. They are never written again; a
new schema gets files of its own beside them. `journal-schema-1` was written by 961636e.
"""

import base64
import json
import os
import sys
import tempfile
from contextlib import closing
from itertools import count
from pathlib import Path

import numpy as np

from golden import files, traces
from service_kit import Web
from taciturn.agents.linucb import LinUCB
from taciturn.agents.viewucb import ViewUCB
from taciturn.service.api.local import create_app
from taciturn.service.core import session as sessions
from taciturn.service.core.schema1 import upgrade
from taciturn.service.core.service import Service
from taciturn.service.journal.base import Key
from taciturn.service.journal.postgres import PostgresJournal
from taciturn.service.journal.repair import backup
from taciturn.service.journal.sqlite import SQLiteJournal

HERE = Path(__file__).parent
IMPORTED = files.FOLDER / "bilinucb-kmeans.taciturn"
"""The file of the agent that is imported; it has pending decisions already."""


EXACT = {"covariance": "exact", "rank": None}
"""What journals do not say that were written when there was no other form of ridge regressions."""


def journal_file(schema):
    """The journal of a schema."""
    return HERE / f"journal-schema-{schema}.db"


def answers(schema):
    """The requests that were acknowledged while that journal was written, with their answers, in order."""
    return json.loads(journal_file(schema).with_suffix(".json").read_text())


class Recorder:
    """Sends requests and keeps those that were acknowledged, with their answers."""

    def __init__(self, web):
        self._web = web
        self.done = []

    def __call__(self, method, path, body=None, file=None):
        given = {"json": body} if file is None else {"content": file, "headers": {"content-type": FILE}}
        answer = self._web(method, f"/v1/agents{path}", **({} if method == "DELETE" else given))
        assert answer.status_code < 300, answer.text
        asked = {"method": method, "path": path, "body": body if file is None else base64.b64encode(file).decode()}
        self.done.append({**asked, "status": answer.status_code, "answer": answer.json() if answer.content else None})
        return self.done[-1]["answer"]


FILE = "application/octet-stream"


def session(ask):
    """Three agents with decisions of every state, requests with ids, changed arms; and a fourth that is deleted."""
    ask("POST", "", {"name": "lin", "kind": "linucb", "arms": ["a", "b", "c"], "params": {"epsilon": 0.3, "seed": 1}})
    ask("POST", "", {"name": "view", "arms": ["left", 7, "right"], "params": {"expire_after": 25.0}})
    ask("POST", "/imported/file", file=IMPORTED.read_bytes())
    ask("POST", "", {"name": "gone", "kind": "linucb", "arms": 2})
    for step in range(60):
        agent = ("lin", "view", "view", "imported")[step % 4]
        decided = decide(ask, agent, step)
        feedback(ask, agent, step, decided)
        if step in (5, 11):
            ask("POST", "/gone/decisions", {"context": {"secret": float(step)}})
        if step == 30:
            ask("POST", "/view/arms", {"arm": "new", "like": "left"})
            ask("DELETE", "/lin/arms/c")
            ask("DELETE", "/gone")


def decide(ask, agent, step):
    """One request to decide: single, in a batch, with an id, with neighbors, or with some arms only."""
    request = {"context": files.context(step)}
    if step % 10 == 3:
        request = {"contexts": [files.context(step + more) for more in range(3)]}
    if step % 6 == 1:
        request["request_id"] = f"request {step}"
    if agent == "view" and step % 10 == 6:
        request["neighbors"] = [0]
    if agent == "lin" and step % 12 == 8:
        request["allowed"] = ["a", "b"]
    answer = ask("POST", f"/{agent}/decisions", request)
    if step % 12 == 1:
        assert ask("POST", f"/{agent}/decisions", request) == answer  # a retry
    return answer.get("decisions", [answer])


def feedback(ask, agent, step, decided):
    """Rewards one by one or in a batch, silence, corrections and a withdrawal; some decisions stay pending."""
    if step % 5 == 4:
        return
    rewards = [(1.0, 0.0, None, 0.5)[(step + number) % 4] for number in range(len(decided))]
    if len(decided) > 1:
        pairs = zip(decided, rewards, strict=True)
        ask("PUT", f"/{agent}/rewards", [{"id": one["id"], "reward": reward} for one, reward in pairs])
    else:
        path = f"/{agent}/decisions/{decided[0]['id']}"
        ask("PUT", f"{path}/reward", {"reward": rewards[0]})
        if step % 9 == 2:
            ask("PUT", f"{path}/reward", {"reward": 0.25})
        if step % 16 == 12:
            ask("DELETE", path)


def write(schema):
    """Write the journal and the answers."""
    seconds = count(1000)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "journal.db"
        with closing(SQLiteJournal(path)) as journal:
            journal.put_key(Key("shop", bytes(range(32)), "write"))
            with (
                closing(Service(journal, clock=lambda: float(next(seconds)))) as service,
                Web(create_app(service)) as web,
            ):
                ask = Recorder(web)
                session(ask)
        backup(path, journal_file(schema))
    lines = ",\n".join(map(json.dumps, ask.done))
    journal_file(schema).with_suffix(".json").write_text(f"[\n{lines}\n]\n")


def check(schema, address):
    """Migrate a copy of that journal, in a file or a database, and compare all that was answered.

    The defaults of today are others: those of then must have been written down.
    """
    LinUCB.__init__.__kwdefaults__["alpha"] = ViewUCB.__init__.__kwdefaults__["alpha"] = 9.0
    sessions.compile_kernels = lambda _: None  # for this processor, what the journal does not use is used by nobody
    kind = SQLiteJournal if address.endswith(".db") else PostgresJournal
    answered = [
        (done["path"].split("/")[1], done["body"], done["answer"])
        for done in answers(schema)
        if done["path"].endswith("/decisions")
    ]
    with closing(kind(address, upgrade=upgrade)) as journal, closing(Service(journal)) as service:
        assert not service.set_aside, service.set_aside
        assert service.differing == 0, "the kernels are those of then, on the processor of then"
        recorded = {}
        for record in journal.read():
            if record.kind == "decide":
                recorded.setdefault(record.agent, []).extend(json.loads(record.body)["decisions"])
        for agent in recorded:
            made = {one["id"]: one for name, _, answer in answered if name == agent for one in decisions_of(answer)}
            assert len(made) == len(recorded[agent])
            assert all(map(same, made.values(), recorded[agent]))
        pending = service.call("lin", lambda session: session.oldest_pending(10**9))
        assert pending == [one["id"] for one in recorded["lin"] if one["id"] not in told(schema, "lin")]
        params = service.call("lin", lambda session: session.about("lin")["params"])
        assert params == answers(schema)[0]["answer"]["params"] | {"features": None, "scaling": "none"} | EXACT
        with Web(create_app(service)) as web:
            for agent, body, answer in answered:
                if "request_id" in body:
                    again = web("POST", f"/v1/agents/{agent}/decisions", json=body)
                    assert again.status_code == 410 or all(  # 410 where it is not held any more
                        map(same, decisions_of(again.json()), decisions_of(answer))
                    )


def same(one, two):
    """Whether decisions are equal but for the last digits of scores, which are sums in single precision."""
    numbers = ("scores", "widths", "propensity")
    exact = [{key: value for key, value in decision.items() if key not in numbers} for decision in (one, two)]
    return exact[0] == exact[1] and all(np.allclose(one[key], two[key], rtol=1e-6, atol=1e-9) for key in numbers)


def decisions_of(answer):
    """The decisions in an answer."""
    return answer.get("decisions", [answer])


def told(schema, agent):
    """Ids of decisions that got feedback or were withdrawn."""
    done = [one for one in answers(schema) if one["path"].startswith(f"/{agent}/")]
    ids = [
        int(one["path"].split("/")[3])
        for one in done
        if one["method"] in ("PUT", "DELETE") and "/decisions/" in one["path"]
    ]
    return {*ids, *(reward["id"] for one in done if one["path"].endswith("/rewards") for reward in one["body"])}


if __name__ == "__main__":
    if any(os.environ.get(name) != value for name, value in traces.ENVIRONMENT.items()):
        os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | traces.ENVIRONMENT)  # noqa: S606
    if sys.argv[1] == "check":
        check(1, sys.argv[2])
    else:
        write(sys.argv[1])
