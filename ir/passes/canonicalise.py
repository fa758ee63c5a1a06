"""canonicalise: one way of writing each thing, so that later passes meet one pattern and not eighteen.

The rules stand by family in movement_rules, join_rules, index_rules, arithmetic_rules and contract_rules; each says
what it does to bits.
"""

from __future__ import annotations

from collections import Counter

from tinygrad_lite.ir.graph import Graph
from tinygrad_lite.ir.passes import arithmetic_rules, contract_rules, index_rules, join_rules, movement_rules
from tinygrad_lite.ir.passes.base import Pass
from tinygrad_lite.ir.rewrite import Rule, rewrite

_FAMILIES = (movement_rules, join_rules, index_rules, arithmetic_rules, contract_rules)
RULES: tuple[Rule, ...] = tuple(rule for family in _FAMILIES for rule in family.RULES)


def canonicalise(graph: Graph, hits: Counter[str]) -> Graph:
    """`graph` under all rules, to a fixpoint."""
    return rewrite(graph, RULES, hits)


CANONICALISE = Pass("canonicalise", canonicalise)
