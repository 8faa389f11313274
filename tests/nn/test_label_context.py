"""The fused label context against walks and attention one after the other."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from nershift.nn.label_aware.attention import attend
from nershift.nn.label_aware.prefixes import PrefixLSTM


@pytest.mark.parametrize(
    ("batch", "n", "size", "first"), [(3, 7, 5, 0), (17, 9, 20, 0), (18, 9, 100, 4), (1, 1, 3, 0)]
)
def test_triton_kernel_equals_walks_and_attention(triton_device, batch, n, size, first) -> None:
    from nershift.nn.label_aware import on_gpu

    torch.manual_seed(n)
    prefixes, table = PrefixLSTM(size), torch.randn(6, size)
    for p in prefixes.parameters():
        nn.init.uniform_(p, -0.5, 0.5)
    labels, live = torch.randint(0, 6, (batch, n)), torch.rand(batch, n) < 0.8
    query, scores = torch.randn(batch, n - first, size), torch.randn(batch, n - first, n)
    with torch.no_grad():
        ahead = prefixes.forward_states(table, labels)
        shares, means = attend(*prefixes.backward_states(table, labels, live, first), query, scores, first)
        expected = torch.cat([shares @ ahead, means], -1)
        given = (*prefixes._recurrence(table), labels, ahead, query, scores, live)
        found = on_gpu.run(*(x.to(triton_device) for x in given), first).cpu()
    wanted = live[:, first:]
    torch.testing.assert_close(found[wanted], expected[wanted], atol=2e-5, rtol=1e-4)


def test_the_cpu_and_training_have_their_own_way() -> None:
    prefixes = PrefixLSTM(4)
    labels, live = torch.zeros(2, 3, dtype=torch.long), torch.ones(2, 3, dtype=torch.bool)
    states = torch.zeros(2, 3, 4)
    assert prefixes.attended(torch.zeros(5, 4), labels, states, states, torch.zeros(2, 3, 3), live, 0) is None


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("size", [100, 129])
def test_the_gpu_decodes_with_the_kernel_without_a_warning(size, recwarn) -> None:
    from nershift.data.labels import LabelSpace
    from nershift.nn.label_aware import prefixes
    from nershift.nn.label_aware.decoder import LabelAwareDecoder
    from nershift.nn.label_aware.search import step_by_step

    torch.manual_seed(0)
    decoder = LabelAwareDecoder(LabelSpace.of(["A", "B"], "BIO"), 24, {"label_size": size}).cuda().eval()
    states = 3 * torch.randn(20, 12, 24, device="cuda")
    mask = torch.arange(12, device="cuda") < torch.arange(1, 21, device="cuda")[:, None]
    expected, _ = step_by_step(decoder, states, mask)
    for _ in range(3):  # the third time from recordings
        found = decoder.decode(states, mask)
        assert found == [row[: len(tags)].tolist() for row, tags in zip(expected, found, strict=True)]
    assert not prefixes._fused.failed
