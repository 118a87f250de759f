"""The whole service beside a dictionary and the library, with restarts and failed appends at any moment."""

import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, precondition, rule

import taciturn
from service_kit import MemoryJournal, Web
from taciturn.service.api.local import create_app
from taciturn.service.core.service import Service
from taciturn.service.journal.snapshots import Snapshots

NAMES = st.sampled_from(["x", "y"])
KINDS = st.sampled_from(["linucb", "bilinucb-random", "bilinucb-kmeans"])  # which defer no training
NUMBERS = st.sampled_from([0.0, 1.0, -0.5, None])
CONTEXTS = st.fixed_dictionaries(
    {"late": st.sampled_from([0.0, 1.0]), "age": NUMBERS, "country": st.sampled_from(["DE", "FR", None])},
    optional={
        "note": st.sampled_from(["where is my parcel", "parcel came", None]),
        "tags": st.lists(st.sampled_from(["new", "vip"]), max_size=2),
        "at": st.sampled_from(["2026-11-16", "2026-11-17T09:30", None]),
        "shop": st.fixed_dictionaries({"size": NUMBERS, "open": st.booleans()}),
        "vector": st.lists(st.sampled_from([0.5, -1.0]), min_size=2, max_size=2),
    },
)
REWARDS = st.sampled_from([0, 1, 0.25, None])


class Model:
    """The expected state of an agent: an agent of the library and a dictionary."""

    def __init__(self, kind, corrections):
        self.bare = taciturn.make(kind, arms=["a", "b"], epsilon=0.5, max_nodes=40, memory_limit=1e9)
        self.corrections = corrections
        self.feedback = {}  # id: reward, None for silence, "pending" before
        self.requests = {}

    def silence_oldest(self, most):
        """What becomes of the oldest pending decisions where there are too many."""
        waiting = sorted(id for id, known in self.feedback.items() if known == "pending")
        for id in waiting[: max(len(waiting) - most, 0)]:
            self.bare.feedback(id, None)
            self.feedback[id] = None


class ServiceMachine(RuleBasedStateMachine):
    """Every answer must be that of the model."""

    ids = Bundle("ids")

    def __init__(self):
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.journal, self.snapshots = MemoryJournal(), Snapshots(Path(self.folder.name))
        self.models, self.old = {}, []
        self.start(with_snapshots=True)

    def start(self, *, with_snapshots):
        self.service = Service(
            self.journal, self.snapshots if with_snapshots else None, snapshot_every=5, retry_seconds=0
        )
        self.old.append(self.service)
        self.web = Web(create_app(self.service))

    def teardown(self):
        self.web.__exit__()
        for service in self.old:
            service._snapshots = None  # private: those that "crashed" must not write into the folder any more
            service.close()
        self.folder.cleanup()

    def ask(self, method, path, body=None):
        return self.web(method, f"/v1/agents{path}", **({} if body is None else {"json": body}))

    @rule(name=NAMES, kind=KINDS, corrections=st.booleans())
    def create(self, name, kind, corrections):
        body = {"name": name, "kind": kind, "arms": ["a", "b"], "corrections": corrections}
        answer = self.ask("POST", "", body | {"params": {"epsilon": 0.5, "max_nodes": 40}})
        assert answer.status_code == (409 if name in self.models else 201)
        self.models.setdefault(name, Model(kind, corrections))

    @rule(name=NAMES)
    def delete(self, name):
        assert self.ask("DELETE", f"/{name}").status_code == (204 if name in self.models else 404)
        self.models.pop(name, None)

    @rule(
        target=ids,
        name=NAMES,
        contexts=st.lists(CONTEXTS, min_size=1, max_size=3),
        request=st.sampled_from([None, "r", "s"]),
    )
    def decide(self, name, contexts, request):
        answer = self.ask("POST", f"/{name}/decisions", {"contexts": contexts, "request_id": request})
        model = self.models.get(name)
        if model is None:
            assert answer.status_code == 404
            return name, 0
        if request not in model.requests:
            made = [
                (d.id, d.arm, d.scores.tolist(), d.widths.tolist(), d.propensity)
                for d in model.bare.decide_batch(contexts)
            ]
            model.feedback |= {id: "pending" for id, *_ in made}
            model.requests |= {} if request is None else {request: (contexts, made)}
            model.silence_oldest(20)
        else:
            asked, made = model.requests[request]
            if asked != contexts:
                assert answer.status_code == 409
                return name, 0
            if not all(id in model.bare.decisions for id, *_ in made):
                assert answer.status_code == 410
                return name, 0
        assert answer.status_code == 200
        found = answer.json()["decisions"]
        assert [tuple(d[k] for k in ("id", "arm", "scores", "widths", "propensity")) for d in found] == made
        return name, made[-1][0]

    @rule(known=ids, reward=REWARDS)
    def feedback(self, known, reward):
        name, id = known
        answer = self.ask("PUT", f"/{name}/decisions/{id}/reward", {"reward": reward})
        model = self.models.get(name)
        before = "unknown" if model is None else model.feedback.get(id, "unknown")
        status = self.missing(model, id)
        if status is None:
            rewarded = isinstance(before, int | float)
            outcome = "same" if before == reward else "corrected" if rewarded else "taken"
            status = 409 if rewarded and before != reward and not model.corrections else 200
            if status == 200:
                assert answer.json()["outcome"] == outcome
                model.bare.feedback(id, reward)
                model.feedback[id] = reward
        assert answer.status_code == status

    @rule(known=consumes(ids))
    def withdraw(self, known):
        name, id = known
        answer = self.ask("DELETE", f"/{name}/decisions/{id}")
        model = self.models.get(name)
        status = self.missing(model, id)
        if status is None:
            model.bare.withdraw(id)
            del model.feedback[id]
        assert answer.status_code == (status or 204)

    @rule(known=ids)
    def explain(self, known):
        name, id = known
        answer = self.ask("GET", f"/{name}/decisions/{id}")
        status = self.missing(self.models.get(name), id)
        assert answer.status_code == (status or 200)
        if status is None:
            known = self.models[name].feedback[id]
            state = "pending" if known == "pending" else "silent" if known is None else "rewarded"
            assert (answer.json()["state"], answer.json()["reward"]) == (state, known if state == "rewarded" else None)

    def missing(self, model, id):
        """The status of an id that the agent does not hold; None for one that it holds."""
        if model is None or id >= model.bare.health().decisions:
            return 404
        if id not in set(model.bare.log()["ids"].tolist()):
            model.feedback.pop(id, None)
            return 410
        return None

    @rule(name=NAMES, arm=st.sampled_from(["a", "b", "c"]), add=st.booleans())
    def change_arms(self, name, arm, add):
        answer = self.ask("POST", f"/{name}/arms", {"arm": arm}) if add else self.ask("DELETE", f"/{name}/arms/{arm}")
        if name not in self.models:
            assert answer.status_code == 404
            return
        bare = self.models[name].bare
        try:
            bare.add_arm(arm) if add else bare.retire_arm(arm)
        except taciturn.TaciturnError:
            assert answer.status_code == (404 if not add and arm not in bare.arm_names else 422)
        else:
            assert answer.json()["active"] == list(bare.active_arms)

    @rule(graceful=st.booleans(), with_snapshots=st.booleans())
    def restart(self, graceful, with_snapshots):
        self.web.__exit__()
        if graceful:
            self.service.close()
        self.start(with_snapshots=with_snapshots)

    @precondition(lambda self: self.models)
    @rule(context=CONTEXTS, written=st.booleans())
    def fail_an_append(self, context, written):
        name = min(self.models)
        model = self.models[name]
        waiting = sum(known == "pending" for known in model.feedback.values())
        if waiting >= 20:
            return
        setattr(self.journal, "failing_after" if written else "failing", 1)
        answer = self.ask("POST", f"/{name}/decisions", {"context": context})
        assert answer.status_code == 503
        assert self.service.writable.wait(10)
        if written:
            model.feedback[model.bare.decide(context).id] = "pending"

    @invariant()
    def list_is_right(self):
        assert [agent["name"] for agent in self.ask("GET", "").json()["agents"]] == sorted(self.models)


ServiceMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestService = ServiceMachine.TestCase
