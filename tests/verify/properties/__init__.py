"""THE INVARIANT of verification, and the figures by which rules are accepted.

*Degraded truth is never impossible.* True histories (recorded nodes, simulated scenarios, random
nodes) of which evidence is lost in every way a real bundle loses it: no decision is impossible,
and no two sources contradict each other. Two levels:

* files: a copy of a recording is degraded (lines dropped, doubled, cut, swapped, the log cut at
  both ends, snapshots and kinds of files left out), imported and verified;
* records: of a simulated history records are taken out as a log and the files beside it lose
  them. What an importer says of such a loss is said by the importer's own code (``lost_lines``),
  and decisions that it would tell otherwise without a line are told so (``reimported``).

*A lie in a decision whose inputs are all there is caught*: any field of any decision of a whole
history says something else (``lies``), or the decision is not there at all.

::

    python -m tests.verify.properties                         all figures (about 3 minutes)
    python -m tests.verify.properties --kinds images. --show 3 --missed 3
    python -m tests.verify.properties --kinds prober.,lifecycle. --seed 7 --cases 60 --files 3
    python -m tests.verify.properties --how head,drop10 --lies 0
    python -m tests.verify.properties --case random/5:drop10:0    all that is wrong with one case
    python -m tests.verify.properties --case random/1045:pod:1 --shrink    the least loss that is

The first table tells for each kind of decision the share that is decided (match, admissible), of
how many, and behind ``!`` how many are called impossible though they are true. The second tells
the same for each way to lose evidence. The third tells the lies: ``caught`` (impossible at that
record, or a contradiction about it), ``elsewhere`` (something else became impossible), ``open``
(unverifiable), or the kind verdict that the lie got. ``--show N`` prints N wrong cases of each kind
and way, with the argument that brings each back; ``--missed N`` prints N lies of each field that
were not caught.

``test_invariant`` and ``test_lies`` run some of it daily, much of it nightly. ``CAUGHT`` holds the
least share of lies that are caught of each kind; it may only grow.
"""
