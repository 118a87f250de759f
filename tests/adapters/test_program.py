"""Programs as agents: the protocol, its limits, and no process left behind."""

import gc
import json
import os
import select
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import taciturn
from cli_kit import taciturn as command_line
from rewards_kit import graded_data
from taciturn.adapters.program import Program
from taciturn.errors import InvalidReward, ProgramFailed, TaciturnError, UnknownArm, UnknownDecision, UnknownName
from taciturn.experiments.checks import toy_data
from taciturn.experiments.recorder import read_runs
from taciturn.experiments.runner import execute
from taciturn.experiments.spec import Experiment, expand

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
COUNTS = f"command:sh {EXAMPLES / 'counts.sh'}"
GRADIENT = f"command:{sys.executable} {EXAMPLES / 'gradient.py'}"


def program(code, **options):
    """An agent that is a Python program; `ask` is each request in turn."""
    loop = f"import sys, os, json\nfor line in sys.stdin:\n    ask = json.loads(line)\n{code}"
    return Program(command=shlex.join([sys.executable, "-c", loop]), **{"arms": ["a", "b"], **options})


def answering(answer, **options):
    """An agent that answers everything but decisions by ok, and those by some text."""
    return program(f"    print('{{\"ok\":true}}' if ask['do'] != 'decide' else {answer!r}, flush=True)\n", **options)


ECHO = """
    print(line, end="", file=open({path!r}, "a"))
    print(json.dumps({{"ok": True, "arm": "b", "scores": [0, 1], "propensity": 0.5}}), flush=True)
"""


def test_what_a_program_is_asked_and_what_becomes_of_its_answers(tmp_path):
    path = tmp_path / "asked"
    agent = program(ECHO.format(path=str(path)), seed=7, one_right_arm=False)
    assert agent.warm_start([{"x": 1.0}, {"x": 2.0}], ["b", "a"], edges=[[0, 1]]) == [0, 1]
    contexts = [np.array([1.0, np.nan]), [1, 2.5], sp.csr_matrix([[0, 3.0]]), "where is it", {"c": "DE", 3: None}]
    decisions = [agent.decide(x, neighbors=[1] if i == 0 else None) for i, x in enumerate(contexts)]
    for decision, reward in zip(decisions, [1, 0, 0.25, None, True], strict=True):
        agent.feedback(decision.id, reward)
    assert [decision.id for decision in decisions] == [2, 3, 4, 5, 6]
    assert {(d.arm, d.propensity, *d.scores, *d.widths) for d in decisions} == {("b", 0.5, 0.0, 1.0, 0.0, 0.0)}
    wire = [
        [1.0, None],
        [1.0, 2.5],
        {"indices": [1], "values": [3.0], "size": 2},
        "where is it",
        {"c": "DE", "3": None},
    ]
    assert path.read_text().splitlines()[0] == '{"do":"start","arms":["a","b"],"seed":7,"one_right_arm":false}'
    assert [json.loads(line) for line in path.read_text().splitlines()[1:]] == [
        {
            "do": "warm_start",
            "ids": [0, 1],
            "contexts": [{"x": 1.0}, {"x": 2.0}],
            "arms": ["b", "a"],
            "edges": [[0, 1]],
        },
        *(
            {"do": "decide", "id": 2 + i, "context": x} | ({"neighbors": [1]} if i == 0 else {})
            for i, x in enumerate(wire)
        ),
        *({"do": "feedback", "id": 2 + i, "reward": r} for i, r in enumerate([1, 0, 0.25, None, 1])),
    ]
    assert '"reward":1}' in path.read_text(), "whole numbers are written as such"


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ("hello", "answered 'hello', which is no answer"),
        ("[" * 100_000, "no answer"),
        ("[1]", "no answer"),
        ("\udcff", "no answer"),
        ("", "no answer"),
        ('{"arm": NaN}', "no answer"),
        ('{"arm": "a", "scores": [NaN, 0]}', "no answer"),
        ('{"arm": "a", "scores": [1e999, 0]}', "no answer"),
        ("{}", "chose the arm None; it was given ..a., .b"),
        ('{"arm": "c"}', "chose the arm 'c'"),
        ('{"arm": ["a"]}', r"chose the arm \['a'\]"),
        ('{"arm": true}', "chose the arm True"),
        ('{"arm": "a", "scores": [1]}', "has the scores"),
        ('{"arm": "a", "scores": [1e300, 0]}', "has the scores"),
        ('{"arm": "a", "propensity": 0}', "has the propensity 0"),
        ('{"arm": "a", "propensity": 1.5}', "has the propensity 1.5"),
        ('{"error": "no more\\nmemory"}', "says: no more memory"),
        ('{"arm": "a"}\n{"arm": "a"}', "more than one line|not asked for"),
    ],
)
def test_a_wrong_answer_ends_the_program_with_one_line(answer, message):
    agent = answering(answer)
    with pytest.raises(ProgramFailed, match=message) as error:
        for _ in range(2):
            agent.feedback(agent.decide([1.0]).id, 1)
    assert len(str(error.value)) < 1000
    assert "\n" not in str(error.value)
    with pytest.raises(ProgramFailed, match="has ended"):
        agent.decide([1.0])


LATE = "did not answer within 0.3 seconds"


@pytest.mark.parametrize(
    ("code", "timeout", "message"),
    [
        (
            "sys.stderr.write('x' * 10**6 + 'why'); sys.exit(3)",
            60,
            r"ended without an answer \(exit code 3\); .*xxwhy$",
        ),
        ("os.close(0); os.close(1); os.close(2); os._exit(0)", 60, "ended without an answer"),
        ("print('x' * (2**20 + 1), flush=True)", 60, "answered with more than 1048576 bytes"),
        ("print('{}', flush=True)", 60, "answered start by '{}'"),
        ("pass", 0.3, f"{LATE}$"),
        ("while True: sys.stderr.write('x')", 0.3, f"{LATE}(; its stderr: xxx)?"),
        ("while True: sys.stdout.write('x')", 0.3, f"more than 1048576 bytes|{LATE}"),
        ("print('{}', end='', flush=True)", 0.3, LATE),
    ],
)
def test_a_program_that_ends_or_hangs_is_ended(code, timeout, message):
    agent = program(f"    {code}\n", timeout=timeout)
    with pytest.raises(ProgramFailed, match=message):
        agent.decide([1.0])


def test_a_program_that_does_not_read_is_ended_too():
    """What it is sent does not fit into a pipe."""
    command = shlex.join([sys.executable, "-c", "import time; time.sleep(1000)"])
    agent = Program(command=command, arms=2, timeout=0.3)
    with pytest.raises(ProgramFailed, match="did not answer within 0.3 seconds"):
        agent.warm_start(np.ones((2000, 200)), np.arange(2000) % 2)


def test_large_requests_and_much_stderr_pass():
    agent = program("    sys.stderr.write('x' * 10**6)\n    print(json.dumps({'ok': True, 'arm': 'a'}), flush=True)\n")
    agent.warm_start(np.ones((2000, 50)), np.arange(2000) % 2)
    assert agent.decide(np.ones(50)).id == 2000


def test_bad_calls_are_refused_and_the_program_goes_on():
    agent = answering('{"arm": "a"}')
    decision = agent.decide([1.0])
    for error, call in (
        (UnknownDecision, lambda: agent.feedback(9, 1)),
        (InvalidReward, lambda: agent.feedback(decision.id, 2)),
        (UnknownDecision, lambda: agent.decide([1.0], neighbors=[5])),
        (UnknownArm, lambda: agent.warm_start([[1.0]], ["c"])),
        (TaciturnError, lambda: agent.decide([float("inf")])),
    ):
        with pytest.raises(error):
            call()
    agent.feedback(decision.id, 1)
    assert agent.decide([1.0]).id == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"command": ""}, "command='' is not allowed"),
        ({"command": "sh 'x"}, "No closing quotation"),
        ({"command": None}, "command=None"),
        ({"timeout": 0}, "timeout=0"),
        ({"arms": [("a", 1), "b"]}, "text and numbers can"),
        ({"arms": [float("nan"), "b"]}, "text and numbers can"),
        ({"arms": ["a"]}, "at least 2 arms"),
    ],
)
def test_wrong_parameters_are_refused_before_anything_starts(options, message):
    with pytest.raises(TaciturnError, match=message):
        Program(**{"command": "false", "arms": 2, **options})


def test_a_program_that_is_not_there_is_an_error_of_one_line():
    agent = taciturn.make("command:./not-there --x", arms=2)
    with pytest.raises(ProgramFailed, match="cannot start './not-there': No such file"):
        agent.decide([1.0])
    with pytest.raises(UnknownName, match="alpha"):
        taciturn.make("command:true", arms=2, alpha=1.0)


REPORTS = "    print(json.dumps({'ok': True, 'arm': 'a', 'scores': [os.getpid(), 0]}), flush=True)\n"


def is_gone(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def test_no_process_is_left_when_an_agent_is_dropped_or_fails():
    agent = program(REPORTS)
    pid = int(agent.decide([1.0]).scores[0])
    assert not is_gone(pid)
    del agent
    gc.collect()
    assert is_gone(pid)
    agent = program(REPORTS + "    if ask.get('id') == 1: sys.exit(1)\n")
    pid = int(agent.decide([1.0]).scores[0])
    agent.decide([1.0])
    with pytest.raises(ProgramFailed):
        agent.decide([1.0])
    assert is_gone(pid)


def test_what_a_program_has_started_ends_with_it(tmp_path):
    """A helper in the background went on when the program itself had ended in time."""
    fifo = tmp_path / "held open by the helper"
    os.mkfifo(fifo)
    helper = f"import os, subprocess\nsubprocess.Popen(['sleep', '60'], stdout=open({str(fifo)!r}, 'w'))\n"
    loop = f"{helper}import sys, json\nfor line in sys.stdin:\n{REPORTS}"
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    agent = Program(command=shlex.join([sys.executable, "-c", loop]), arms=["a", "b"])
    pid = int(agent.decide([1.0]).scores[0])
    del agent
    gc.collect()
    assert is_gone(pid)
    assert select.select([reader], [], [], 20)[0], "nobody writes any more"
    assert os.read(reader, 1) == b""
    os.close(reader)


def test_no_process_is_left_when_the_interpreter_exits():
    """Even of a program that ignores the end of its stdin."""
    code = f"""
import sys, shlex
sys.path.insert(0, {str(Path(__file__).parent)!r})
import taciturn
stays = "import sys, os, json, time\\nfor line in sys.stdin:\\n" + {REPORTS!r} + "time.sleep(1000)"
agent = taciturn.make("command:" + shlex.join([sys.executable, "-c", stays.replace("ask", "line")]), arms=["a", "b"])
print(int(agent.decide([1.0]).scores[0]))
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert is_gone(int(ran.stdout))


@pytest.mark.parametrize("method", [COUNTS, GRADIENT])
@pytest.mark.parametrize(
    "data", [toy_data(60), toy_data(60, edges=True), graded_data()], ids=["plain", "graph", "graded"]
)
def test_the_examples_run_on_every_kind_of_stream_and_learn(method, data, tmp_path):
    lines = shlex.split(method)[-1]
    assert len(Path(lines).read_text().splitlines()) <= 45
    runs = expand(Experiment(datasets=[data], methods=[method], missing=[0.2], delay=[3], restart=[0.5], seeds=[0]))
    (record,) = execute(runs, tmp_path)
    assert record.error is None
    assert record.params["one_right_arm"] == (data.rewards is None)


def test_the_example_in_python_learns_and_that_in_shell_finds_the_best_constant_arm():
    data = toy_data(300)
    trace = taciturn.evaluate(taciturn.make(GRADIENT, arms=data.arms, seed=0), taciturn.Stream(data, 0.2))
    assert trace.accuracy > 0.7
    X, y = np.ones((200, 1)), np.array([0, 1, 2] + [1] * 160 + [2] * 37)
    data = taciturn.Dataset("d", X, y, ["l", "m", "r"])
    trace = taciturn.evaluate(taciturn.make(COUNTS, arms=data.arms), taciturn.Stream(data, 0.2))
    assert trace.accuracy > 0.6
    assert len((EXAMPLES / "counts.sh").read_text().splitlines()) <= 30


def test_runs_in_worker_processes_are_resumed_until_the_script_changes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copy(EXAMPLES / "counts.sh", "mine.sh")

    def runs():
        return expand(Experiment(datasets=[toy_data(40)], methods=["command:sh mine.sh"], seeds=range(3)))

    one = list(execute(runs(), Path("one")))
    two = list(execute(runs(), Path("two"), jobs=2))
    assert {(r.id, r.seed, r.accuracy) for r in one} == {(r.id, r.seed, r.accuracy) for r in two}
    assert all(record.error is None for record in one)
    assert list(execute(runs(), Path("one"))) == one, "nothing ran again"
    before = {run.id for run in runs()}
    with Path("mine.sh").open("a") as script:
        script.write("# changed\n")
    assert not before & {run.id for run in runs()}


def test_a_program_enters_by_the_command_line_and_a_wrong_one_is_one_line(tmp_path):
    shutil.copy(EXAMPLES / "counts.sh", tmp_path / "counts.sh")
    arguments = ["run", "--data", "digits", "--steps", 60, "--seeds", 1, "--jobs", 1, "--out", "o"]
    ran = command_line(tmp_path, *arguments, "--methods", "majority", "--agent", "command:sh counts.sh")
    assert ran.returncode == 0, ran.stderr
    assert [record.method for record in read_runs(tmp_path / "o")] == ["majority", "command:sh counts.sh"]
    for command, message in (("false", "ended without an answer (exit code 1)"), ("no-such-program", "cannot start")):
        ran = command_line(tmp_path, *arguments, "--agent", f"command:{command}")
        assert ran.returncode == 2
        assert message in ran.stderr
        assert len(ran.stderr.strip().splitlines()) == 1
