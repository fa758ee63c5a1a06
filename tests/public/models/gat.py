import math
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parameter import Parameter
from torch.nn import Module


def scatter_softmax(src, index, num_nodes):
    out_max = torch.full((num_nodes, src.size(1)), float("-inf"), dtype=src.dtype, device=src.device)
    out_max = out_max.scatter_reduce(0, index.unsqueeze(-1).expand_as(src), src.detach(), reduce="amax", include_self=True)
    out = (src - out_max.index_select(0, index)).exp()
    out_sum = torch.zeros(num_nodes, src.size(1)).index_add_(0, index, out) + 1e-16
    return out / out_sum[index]


class GraphConvolution(Module):
    def __init__(self, in_features, out_features, bias=True):
        super(GraphConvolution, self).__init__()
        self.in_features = in_features
        self.out_features = out_features
        self.weight = Parameter(torch.FloatTensor(in_features, out_features))
        if bias:
            self.bias = Parameter(torch.FloatTensor(out_features))
        else:
            self.register_parameter('bias', None)
        self.reset_parameters()

    def reset_parameters(self):
        stdv = 1. / math.sqrt(self.weight.size(1))
        self.weight.data.uniform_(-stdv, stdv)
        if self.bias is not None:
            self.bias.data.uniform_(-stdv, stdv)

    def forward(self, input, adj):
        support = torch.mm(input, self.weight)
        output = torch.mm(adj, support)
        if self.bias is not None:
            return output + self.bias
        else:
            return output

    def __repr__(self):
        return self.__class__.__name__ + ' (' + str(self.in_features) + ' -> ' + str(self.out_features) + ')'


class GATConv(nn.Module):
    def __init__(self, in_features, heads, out_features):
        super().__init__()
        self.heads, self.out_features = heads, out_features
        self.lin = nn.Linear(in_features, heads * out_features, bias=False)
        self.att_src = nn.Parameter(torch.empty(1, heads, out_features))
        self.att_dst = nn.Parameter(torch.empty(1, heads, out_features))
        nn.init.xavier_uniform_(self.att_src, gain=1.414)
        nn.init.xavier_uniform_(self.att_dst, gain=1.414)

    def forward(self, x, edge_index):
        N = x.shape[0]
        h = self.lin(x).view(N, self.heads, self.out_features)
        a_src = (h * self.att_src).sum(dim=-1)
        a_dst = (h * self.att_dst).sum(dim=-1)
        src, dst = edge_index
        alpha = F.leaky_relu(a_src[src] + a_dst[dst], 0.2)
        alpha = scatter_softmax(alpha, dst, N)
        out = torch.zeros_like(h).index_add(0, dst, h[src] * alpha.unsqueeze(-1))
        return out.reshape(N, -1)


class GCN(nn.Module):
    def __init__(self, nfeat, nhid, nclass, dropout):
        super(GCN, self).__init__()
        self.gc1 = GraphConvolution(nfeat, nhid)
        self.gat = GATConv(nhid, 2, 4)
        self.gc2 = GraphConvolution(8, nclass)
        self.dropout = dropout

    def forward(self, x, edge_index):
        N = x.size(0)
        adj = torch.zeros(N, N).index_put((edge_index[1], edge_index[0]), torch.tensor(1.0)) + torch.eye(N)
        deg = adj.sum(1)
        d_inv_sqrt = deg.pow(-0.5)
        d_inv_sqrt[d_inv_sqrt == float("inf")] = 0.0
        adj = d_inv_sqrt.view(-1, 1) * adj * d_inv_sqrt.view(1, -1)
        x = F.relu(self.gc1(x, adj))
        x = F.dropout(x, self.dropout, training=self.training)
        x = F.elu(self.gat(x, edge_index))
        x = self.gc2(x, adj)
        return F.log_softmax(x, dim=1)


def make():
    model = GCN(5, 6, 3, 0.0)
    repr(model)
    return model


def inputs(rng):
    return rng.standard_normal((9, 5)).astype("float32"), rng.integers(0, 9, (2, 20))


def loss_fn(model, x, edges):
    idx_train = torch.LongTensor([0, 2, 4, 5])
    labels = torch.LongTensor([0, 1, 2, 1])
    return F.nll_loss(model(x, edges)[idx_train], labels)
