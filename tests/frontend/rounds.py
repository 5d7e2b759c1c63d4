"""What the scripts of this folder have in common: every case in every type, several times, and a count of those that passed."""

import argparse


def run(doc, cases, kinds, attempt):
    """Calls `attempt(case, kind, seed, spoils)` for all of them; `seed` is a list of numbers of its own for each, and with `spoils` a result
    is to be spoilt, which must be noticed. It returns what is wrong, or None. Returns whether anything was, or nothing ran."""
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--seed", type=int, default=20261126)
    parser.add_argument("--only")
    parser.add_argument("--negative-control", action="store_true")
    options = parser.parse_args()
    passed = failed = 0
    for case in cases:
        if options.only not in (None, case.__name__):
            continue
        for round in range(options.rounds):
            for index, kind in enumerate(kinds):
                try:
                    wrong = attempt(case, kind, [options.seed, round, index, *case.__name__.encode()], options.negative_control)
                    if options.negative_control:
                        wrong = None if wrong else "a wrong element went unnoticed"
                except Exception as error:  # Whatever a package that is not ours makes of a refusal.
                    wrong = f"{type(error).__name__}: {error}"
                passed, failed = passed + (not wrong), failed + bool(wrong)
                if wrong:
                    print(f"FAILED {case.__name__} of {kind}, round {round}: {wrong}", flush=True)
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return failed > 0 or passed == 0
