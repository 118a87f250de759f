"""Clients that decide, reward and read for as long as faults happen, and write down what was acknowledged."""

import random
import threading
import time
from typing import NamedTuple

from service.cluster.history import Decided, History
from taciturn.agents import storage
from taciturn.client import Client

PATIENCE = 120.0
"""Seconds after which a request without an answer is a violation: every fault is over long before."""

TIMEOUT = 4.0
"""Seconds to wait for one answer; a front that is stopped gives none."""

LONGEST_PAUSE = 0.5
"""Seconds between two attempts, so that the end of an outage is seen soon."""

THINKING = 0.02
"""Mean seconds between two requests of a client: the machine has better things to do than to be saturated."""

ANSWERS = 5
"""Answers that every client has had before there is progress."""

REWARDS = (0, 1, 0.5, None)


class Timing(NamedTuple):
    """When a request began and was answered, by the monotonic clock, and how often it was sent again."""

    begun: float
    answered: float
    retries: int


class Known(NamedTuple):
    """A request that was answered, as it can be sent again."""

    agent: str
    contexts: list[list[float]]
    request_id: str
    ids: list[int]


class Progress:
    """How many answers each client has had; others can wait until all have had more."""

    def __init__(self, clients):
        self._counts = [0] * clients
        self._changed = threading.Condition()

    def count(self, client):
        with self._changed:
            self._counts[client] += 1
            self._changed.notify_all()

    def wait(self, seconds):
        """Wait until every client has had a few answers from now on, but not longer than so many seconds.

        More than one, since the first may be to a request that was sent before, and not all use the same agents.
        """
        with self._changed:
            wanted = [count + ANSWERS for count in self._counts]
            self._changed.wait_for(lambda: all(map(int.__ge__, self._counts, wanted)), seconds)


class LoadClient:
    """One client in a thread of its own; everything that it chooses comes from its seed.

    It is the only one that rewards its own decisions, and that uses its own short-lived agents. `errors` are answers
    that no client should get.
    """

    def __init__(self, url, number, *, agents, seed, progress):
        self.history, self.timings, self.errors = History(), [], []
        self._number, self._progress = number, progress
        self._rng = random.Random(f"{seed}-{number}")  # noqa: S311 - not for secrets
        self._client = Client(url, patience=PATIENCE, timeout=TIMEOUT)
        self._client.connection.sleep = self._pause
        self._client.connection.jitter = lambda: self._rng.uniform(0.5, 1.0)
        self._agents = {name: self._client.agent(name) for name in agents}
        self._known, self._final = [], set()  # requests of which all is known; decisions that are not to be corrected
        self._own = None  # the name of its own agent, while it has one
        self._names = self._resent = self._resent_before = 0
        self._created_once = True
        self._retries = 0
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"client {number}", daemon=True)

    def start(self):
        self._thread.start()

    def stop(self):
        """Finish the request in progress, and no more."""
        self._stopped.set()

    def join(self):
        self._thread.join()
        self._client.close()

    def _run(self):
        shares = {self._decide: 38, self._reward: 35, self._read: 12, self._repeat: 6, self._correct: 5}
        shares |= {self._export: 2, self._live_and_die: 2}
        try:
            while not self._stopped.wait(self._rng.expovariate(1 / THINKING)):
                self._rng.choices(list(shares), shares.values())[0]()
        except Exception as error:  # noqa: BLE001 - whatever it is, a client should not have got it
            self.errors.append(f"client {self._number}: {type(error).__name__}: {error}")

    def _pause(self, seconds):
        self._retries += 1
        time.sleep(min(seconds, LONGEST_PAUSE))

    def _timed(self, call, *arguments, **options):
        """The answer of a call, and whether it was sent only once."""
        self._retries, begun = 0, time.monotonic()
        answer = call(*arguments, **options)
        self.timings.append(Timing(begun, time.monotonic(), self._retries))
        self._progress.count(self._number)
        self._resent += self._retries
        return answer, self._retries == 0

    # What it does.

    def _decide(self):
        name = self._rng.choice(list(self._agents))
        contexts = [[self._rng.random() for _ in range(3)] for _ in range(self._rng.choice([1, 1, 1, 4]))]
        known = Known(name, contexts, f"{self._rng.getrandbits(128):032x}", [])
        known.ids.extend(self._send(known))
        self._known = [*self._known[-40:], known]

    def _send(self, known):
        """The ids of the decisions on a request, which are written down."""
        agent, options = self._agents[known.agent], {"request_id": known.request_id}
        if len(known.contexts) == 1:
            decision, _ = self._timed(agent.decide, known.contexts[0], **options)
            decisions = [decision]
        else:
            decisions, _ = self._timed(agent.decide_batch, known.contexts, **options)
        for made in decisions:
            self.history.decide(known.agent, Decided(made.id, made.arm, made.propensity, known.request_id))
        return [made.id for made in decisions]

    def _repeat(self):
        """Send a request again that was answered long ago; the history complains if the answer is another."""
        if self._known and (ids := self._send(known := self._rng.choice(self._known))) != known.ids:
            self.errors.append(f"{known.agent}: request {known.request_id} was answered {known.ids}, and now {ids}")

    def _reward(self):
        unrewarded = [key for key in self._recent() if key not in self.history.rewarded]
        if not unrewarded:
            return
        name, id = self._rng.choice(unrewarded)
        same = [other for agent, other in unrewarded if agent == name]
        ids = same if self._rng.random() < 0.1 else [id]
        self._give(name, {id: self._rng.choice(REWARDS) for id in ids})

    def _correct(self):
        """Give another reward, where no earlier one can still be on its way.

        An attempt that was not answered may wait in a front that is stopped, and would win if it arrived last.
        """
        correctable = [key for key in self._recent() if key in self.history.rewarded and key not in self._final]
        if correctable:
            name, id = self._rng.choice(correctable)
            self._give(name, {id: self._rng.choice(REWARDS)})

    def _recent(self):
        return [(known.agent, id) for known in self._known for id in known.ids]

    def _give(self, name, rewards):
        agent = self._agents[name]
        if len(rewards) == 1:
            _, once = self._timed(agent.feedback, *next(iter(rewards.items())))
        else:
            refused, once = self._timed(agent.feedback_batch, rewards)
            self.errors += [f"{name}: the reward of decision {id} was refused: {why}" for id, why in refused.items()]
        for id, reward in rewards.items():
            self.history.reward(name, id, reward)
            if not once:
                self._final.add((name, id))

    def _read(self):
        """Read something that was acknowledged: it must be there."""
        if not (recent := self._recent()):
            return
        name, id = self._rng.choice(recent)
        found, _ = self._timed(self._agents[name].explain, id)
        decided = self.history.decided[name, id]
        expected = (decided.arm, decided.propensity, *self._state(name, id))
        if (read := (found.arm, found.propensity, found.state, found.reward)) != expected:
            self.errors.append(f"{name}: decision {id} reads {read}, and {expected} was acknowledged")

    def _export(self):
        """Read an agent's file: it must have the latest decision that was acknowledged."""
        if not self._known:
            return
        name, ids = self._known[-1].agent, self._known[-1].ids
        reply, _ = self._timed(self._client.connection.send, "GET", f"/v1/agents/{name}/file")
        if (held := storage.loads(reply.content(), name).next_id) <= max(ids):
            self.errors.append(f"{name}: its file has {held} decisions, and decision {max(ids)} was acknowledged")

    def _state(self, name, id):
        if (name, id) not in self.history.rewarded:
            return "pending", None
        reward = self.history.rewarded[name, id]
        return ("silent", None) if reward is None else ("rewarded", reward)

    def _live_and_die(self):
        """Create an agent of its own, or delete it.

        Its name is used again only if nothing was sent twice: what is still on its way must not find a new agent. And
        a creation that was sent twice, and is on its way in a front that was stopped, makes one after its deletion.
        """
        if self._own is None:
            self._own, self._resent_before = f"own-{self._number}-{self._names}", self._resent
            agent, self._created_once = self._timed(
                self._client.create, self._own, arms=3, kind="linucb", seed=self._number
            )
            self._agents[self._own] = agent
            self.history.create(self._own)
            return
        name, self._own = self._own, None
        del self._agents[name]
        self._known = [known for known in self._known if known.agent != name]
        self._timed(self._client.delete, name)
        self.history.delete(name, certain=self._created_once)
        self._names += self._resent > self._resent_before
