"""Rewards that come late, out of order or never, on real data."""

import taciturn


def run(data, delay, seed, **options):
    agent = taciturn.make("gcnucb", arms=data.arms, preset="paper", seed=seed, **options)
    trace = taciturn.evaluate(agent, taciturn.Stream(data, missing=0.25, seed=seed, delay=delay, steps=1200))
    return 100 * trace.accuracy, agent.health()


def test_half_of_the_rewards_late_and_a_quarter_missing_cost_less_than_3_points(real):
    """Decisions expire before most late rewards come, so their imputed rewards have to be undone first."""
    data = real("cora", scaling="l1")
    at_once = sum(run(data, 0, seed)[0] for seed in range(2)) / 2
    late, health = zip(*(run(data, "half:100", seed, expire_after=20) for seed in range(2)), strict=True)
    assert abs(sum(late) / 2 - at_once) < 3
    for counts in health:
        assert counts.late > 250
        assert counts.calibration.truths == counts.late
        assert counts.calibration.brier < 0.25, "better than guessing 0.5"
