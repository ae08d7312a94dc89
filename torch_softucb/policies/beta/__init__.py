"""Beta as a module: one value per segment, a schedule over the horizon, or a small network over the situation."""

from torch_softucb.policies.beta.base import BetaModule
from torch_softucb.policies.beta.network import PRETRAINED, SituationBeta
from torch_softucb.policies.beta.schedule import ScheduleBeta
from torch_softucb.policies.beta.segment import SegmentBeta
from torch_softucb.policies.beta.situation import SITUATION
from torch_softucb.policies.beta.summary import SummaryBeta

__all__ = ["PRETRAINED", "SITUATION", "BetaModule", "ScheduleBeta", "SegmentBeta", "SituationBeta", "SummaryBeta"]
