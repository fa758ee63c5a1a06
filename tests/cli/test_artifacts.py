"""Sampling and drawing, apart from any model."""

import numpy as np
import pytest

from tinygrad_lite.cli.artifacts import draw_losses, running_mean


def test_running_mean():
    np.testing.assert_allclose(running_mean([2.0, 4.0, 6.0, 8.0], 2), [2, 3, 5, 7])
    np.testing.assert_allclose(running_mean([2.0, 4.0], 50), [2, 3])


@pytest.mark.parametrize("losses", [[3.0], [3.0, 2.0, 1.5]])
def test_the_loss_curve_is_drawn_in_each_format(tmp_path, losses):
    paths = [tmp_path / "loss.png", tmp_path / "loss.svg"]
    draw_losses(losses, [(len(losses), 1.7)], paths)
    assert paths[0].read_bytes().startswith(b"\x89PNG")
    assert "</svg>" in paths[1].read_text()
