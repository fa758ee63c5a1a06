"""The tree of modules: registration, walking, hooks, modes, versions, printing."""

from __future__ import annotations

import copy
from collections import OrderedDict

import numpy as np
import pytest

import tinygrad_lite as tl
from tinygrad_lite import nn
from tinygrad_lite.guards import module_versions
from tinygrad_lite.ir.record import mode


class Net(nn.Module):
    """Two linear layers, a list, a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(3, 4)
        self.rest = nn.ModuleList([nn.Linear(4, 4, bias=False) for _ in range(2)])
        self.scale = nn.Parameter(tl.ones(4))
        self.register_buffer("count", tl.zeros(1))
        self.register_buffer("scratch", tl.zeros(2), persistent=False)

    def forward(self, x):
        x = self.first(x)
        for layer in self.rest:
            x = layer(x)
        return x * self.scale


def test_names_come_parents_first():
    net = Net()
    names = ["scale", "first.weight", "first.bias", "rest.0.weight", "rest.1.weight"]
    assert [n for n, _ in net.named_parameters()] == names
    assert [n for n, _ in net.named_buffers()] == ["count", "scratch"]
    assert [n for n, _ in net.named_modules()] == ["", "first", "rest", "rest.0", "rest.1"]
    assert [n for n, _ in net.named_children()] == ["first", "rest"]
    assert [n for n, _ in net.named_parameters(prefix="net", recurse=False)] == ["net.scale"]


def test_tied_parameters_and_shared_modules_appear_once():
    net = Net()
    net.rest[1].weight = net.rest[0].weight
    net.again = net.first
    assert [n for n, _ in net.named_parameters()] == ["scale", "first.weight", "first.bias", "rest.0.weight"]
    assert len(list(net.modules())) == 5
    repeated = [n for n, _ in net.named_parameters(remove_duplicate=False)]
    assert {"rest.1.weight", "again.weight"} <= set(repeated)


def test_lookup_by_path():
    net = Net()
    assert net.get_submodule("rest.1") is net.rest[1]
    assert net.get_submodule("") is net
    assert net.get_parameter("first.bias") is net.first.bias
    assert net.get_buffer("count") is net.count
    with pytest.raises(AttributeError, match="`7`"):
        net.get_submodule("rest.7")
    with pytest.raises(AttributeError, match="`slope`"):
        net.get_parameter("first.slope")
    with pytest.raises(AttributeError, match="'Net' object has no attribute 'missing'"):
        _ = net.missing


@pytest.mark.parametrize(
    ("register", "error"),
    [
        (lambda net: net.register_parameter("a.b", None), KeyError),
        (lambda net: net.register_parameter("", None), KeyError),
        (lambda net: net.register_parameter("first", None), KeyError),
        (lambda net: net.register_parameter("x", tl.ones(1)), TypeError),
        (lambda net: net.register_buffer("x", 3), TypeError),
        (lambda net: net.register_buffer("scale", tl.ones(1)), KeyError),
        (lambda net: net.add_module("x", 3), TypeError),
        (lambda net: net.add_module(3, nn.Identity()), TypeError),
        (lambda net: setattr(net, "scale", tl.ones(4)), TypeError),
        (lambda net: setattr(net, "first", 1), TypeError),
        (lambda net: setattr(net, "count", 1), TypeError),
        (lambda net: net.train("yes"), ValueError),
    ],
)
def test_bad_registration_raises(register, error):
    with pytest.raises(error):
        register(Net())


def test_assignment_before_init_raises():
    class Early(nn.Module):
        def __init__(self):
            self.layer = nn.Identity()

    with pytest.raises(AttributeError, match=r"super\(\).__init__"):
        Early()


def test_an_attribute_moves_between_tables():
    net = Net()
    net.first = None
    assert net.first is None and "first.weight" not in net.state_dict()
    net.scale = None
    assert net.scale is None
    net.plain = 3
    net.plain = nn.Identity()
    assert "plain" in dict(net.named_children()) and "plain" not in net.__dict__
    net.count = nn.Parameter(tl.ones(1))
    assert "count" in dict(net.named_parameters()) and not any(n == "count" for n, _ in net.named_buffers())
    del net.count
    assert not hasattr(net, "count")
    with pytest.raises(AttributeError):
        del net.count


def test_modes_apply_to_all():
    net = Net().eval()
    assert not any(m.training for m in net.modules())
    assert all(m.training for m in net.train().modules())
    net.requires_grad_(False)
    assert not any(p.requires_grad for p in net.parameters())


def test_apply_visits_children_first():
    seen = []
    net = Net()
    assert net.apply(lambda m: seen.append(type(m).__name__)) is net
    assert seen == ["Linear", "Linear", "Linear", "ModuleList", "Net"]


def test_zero_grad():
    net = Net()
    net(tl.ones(2, 3)).sum().backward()
    assert net.scale.grad is not None
    net.zero_grad(set_to_none=False)
    assert np.all(net.scale.grad.numpy() == 0)
    net.zero_grad()
    assert all(p.grad is None for p in net.parameters())


def test_dtype_conversion_keeps_identity():
    net = Net()
    weight = net.first.weight
    assert net.double() is net
    assert net.first.weight is weight and weight.dtype == tl.float64 and net.count.dtype == tl.float64
    assert weight.requires_grad and weight.is_leaf
    net.to(tl.float32)
    assert weight.dtype == tl.float32
    assert net.to("cpu").cpu().float() is net


def test_dtype_conversion_changes_floating_point_only():
    net = Net()
    net.register_buffer("steps", tl.tensor([1, 2]))
    net.double()
    assert net.steps.dtype == tl.int64
    with pytest.raises(TypeError):
        net.to(tl.int64)


def test_forward_hooks():
    layer, seen = nn.Linear(2, 2), []

    def before(module, args):
        seen.append("before")
        return args[0] + 1

    def after(module, args, output):
        seen.append("after")
        return output * 2

    first, second = layer.register_forward_pre_hook(before), layer.register_forward_hook(after)
    x = tl.ones(1, 2)
    plain = layer.forward(x + 1) * 2
    np.testing.assert_array_equal(layer(x).detach().numpy(), plain.detach().numpy())
    assert seen == ["before", "after"]
    first.remove()
    second.remove()
    second.remove()
    np.testing.assert_array_equal(layer(x).detach().numpy(), layer.forward(x).detach().numpy())


def test_hooks_with_kwargs_and_order():
    class Add(nn.Module):
        def forward(self, x, *, y):
            return x + y

    add, order = Add(), []
    add.register_forward_pre_hook(lambda m, a, k: (a, {"y": k["y"] * 10}), with_kwargs=True)
    add.register_forward_hook(lambda m, a, k, out: order.append(k["y"]), with_kwargs=True)
    with add.register_forward_hook(lambda m, a, out: order.append("first"), prepend=True):
        assert add(1, y=2) == 21
    assert order == ["first", 20]
    assert add(1, y=1) == 11 and order[2:] == [10]
    add.register_forward_pre_hook(lambda m, a, k: 3, with_kwargs=True)
    with pytest.raises(RuntimeError, match="pre-hook"):
        add(1, y=1)


def test_scope_is_the_path_of_the_running_module():
    scopes = []

    class Probe(nn.Module):
        def forward(self, x):
            scopes.append(mode.scope)
            return x

    inner = nn.Sequential(OrderedDict(act=Probe()))
    net = nn.Module()
    net.stages = nn.ModuleList([nn.ModuleDict({"left": inner, "right": Probe()})])
    net.forward = lambda x: net.stages[0]["right"](net.stages[0]["left"](x))
    net(1)
    assert scopes == ["stages.0.left.act", "stages.0.right"]
    net.forward = lambda x: 1 / 0
    with pytest.raises(ZeroDivisionError):
        net(1)
    assert mode.scope == ""


def test_a_capture_hears_of_every_module_called():
    class Trace:
        def __init__(self):
            self.seen = []

        def saw_module(self, module):
            self.seen.append(module)

    trace = Trace()
    net = nn.Sequential(nn.Identity(), nn.Sequential(nn.Identity()))
    with mode.set(trace=trace):
        net(1)
    assert trace.seen == [net, net[0], net[1], net[1][0]]


@pytest.mark.parametrize(
    "change",
    [
        lambda net: net.eval(),
        lambda net: setattr(net, "size", 5),
        lambda net: setattr(net, "scale", nn.Parameter(tl.ones(4))),
        lambda net: setattr(net, "count", tl.ones(1)),
        lambda net: setattr(net, "first", nn.Linear(3, 4)),
        lambda net: delattr(net, "scale"),
        lambda net: delattr(net, "size"),
        lambda net: net.register_forward_hook(lambda *a: None),
        lambda net: net.register_forward_pre_hook(lambda *a: None),
    ],
)
def test_a_change_raises_the_version_and_the_key(change):
    net = Net()
    net.size = 4
    version, changes, key = net._version, module_versions.changes, net.guard_key()
    assert key == net.guard_key() and hash(key) == hash(net.guard_key())
    change(net)
    assert net._version > version and module_versions.changes > changes
    assert net.guard_key() != key


def test_what_changes_nothing_keeps_the_version():
    net = Net()
    net.size, hook = 4, net.register_forward_hook(lambda *a: None)
    version, changes = net._version, module_versions.changes
    net.train()
    net.size = 4
    net.scale = net.scale
    net.count = net.count
    net.first = net.first
    assert (net._version, module_versions.changes) == (version, changes)
    net.size = 4.0
    assert net._version > version
    version = net._version
    hook.remove()
    assert net._version > version


def test_going_back_restores_the_key():
    net = Net()
    key = net.guard_key()
    net.eval()
    assert net.train().guard_key() == key


def test_deepcopy_is_independent():
    net = Net()
    twin = copy.deepcopy(net)
    assert twin.first.weight is not net.first.weight and twin.first._name == "first"
    with tl.no_grad():
        twin.first.weight.copy_(twin.first.weight + 1)
    np.testing.assert_allclose((twin.first.weight - net.first.weight).detach().numpy(), 1, rtol=1e-6)


def test_repr():
    net = nn.Sequential(OrderedDict(a=nn.Linear(2, 3), b=nn.Sequential(nn.ReLU(), nn.Dropout(0.1))))
    assert repr(net) == (
        "Sequential(\n"
        "  (a): Linear(in_features=2, out_features=3, bias=True)\n"
        "  (b): Sequential(\n"
        "    (0): ReLU()\n"
        "    (1): Dropout(p=0.1, inplace=False)\n"
        "  )\n"
        ")"
    )
    assert repr(nn.Identity()) == "Identity()"
    assert repr(nn.ModuleList()) == "ModuleList()"


def test_no_forward():
    with pytest.raises(NotImplementedError, match="Module defines no forward"):
        nn.Module()(1)


def test_a_parameter_has_memory_of_its_own():
    array = np.ones((3, 2), np.float32)
    source = tl.from_numpy(array)
    one, other = nn.Parameter(source.T), nn.Parameter(source.T)
    assert one.is_leaf and one.requires_grad and one.shape == (2, 3) and one.is_contiguous()
    with tl.no_grad():
        one.copy_(one * 2)
    assert np.all(array == 1) and np.all(other.detach().numpy() == 1)
    assert nn.Parameter(tl.tensor(2.0)).shape == () and not nn.Parameter(source, requires_grad=False).requires_grad
    assert nn.Parameter().numel() == 0 and repr(one).startswith("Parameter containing:\n")
    with pytest.raises(TypeError, match="ndarray"):
        nn.Parameter(array)


class Unprintable(nn.Module):
    def forward(self, x):
        raise KeyError("x")

    def extra_repr(self):
        raise ValueError


BAD_CALLS = {
    "an empty convolution": (
        lambda: nn.Sequential(nn.Conv2d(1, 2, 3), nn.Sequential(nn.ReLU(), nn.Conv2d(2, 2, 5))),
        (1, 1, 5, 5),
        RuntimeError,
        "in 1.1: Conv2d(2, 2, kernel_size=(5, 5), stride=(1, 1))",
    ),
    "one value a channel": (
        lambda: nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3)),
        (1, 2),
        ValueError,
        "in 1: BatchNorm1d(3, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True)",
    ),
    "a width": (lambda: Net(), (2, 4), RuntimeError, "in first: Linear(in_features=3, out_features=4, bias=True)"),
    "a root": (lambda: nn.GroupNorm(2, 4), (2, 5), RuntimeError, "in the module called: GroupNorm(2, 4, "),
    "a repr that fails": (lambda: nn.Sequential(Unprintable()), (1,), KeyError, "in 0: Unprintable"),
}


@pytest.mark.parametrize("name", BAD_CALLS)
@pytest.mark.parametrize("compiled", [False, True])
def test_an_error_names_its_layer(name, compiled):
    """Once, and the innermost: the op's message has the sizes, the note says which of many layers has them."""
    make, shape, kind, note = BAD_CALLS[name]
    net = make()
    with pytest.raises(kind) as error:
        (tl.compile(net) if compiled else net)(tl.zeros(*shape))
    (found,) = error.value.__notes__
    assert found.startswith(note)
    assert mode.scope == ""
