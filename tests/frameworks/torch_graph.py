"""CUDA graphs of PyTorch: a captured training step, replayed."""
import torch
from common import Digest, launches

torch.manual_seed(3)
model = torch.nn.Sequential(torch.nn.Linear(128, 128), torch.nn.ReLU(), torch.nn.Linear(128, 128)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x = torch.randn(512, 128, device="cuda")
y = torch.randn(512, 128, device="cuda")


def step():
    optimizer.zero_grad(set_to_none=True)
    loss = torch.nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    return loss


side = torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    for _ in range(5):
        step()
torch.cuda.current_stream().wait_stream(side)
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    loss = step()
digest = Digest()
for i in range(launches(300)):
    graph.replay()
    if i % 100 == 0:
        digest.add(loss.detach().cpu().numpy())
for p in model.parameters():
    digest.add(p.detach().cpu().numpy())
digest.print()
