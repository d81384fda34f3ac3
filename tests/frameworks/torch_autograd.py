"""PyTorch, autograd: training steps of a small network with AdamW, and a gradient of a gradient."""
import torch
from common import Digest, launches

torch.manual_seed(1)
torch.use_deterministic_algorithms(True, warn_only=True)
device = torch.device("cuda")
model = torch.nn.Sequential(
    torch.nn.Linear(256, 512), torch.nn.GELU(), torch.nn.LayerNorm(512), torch.nn.Linear(512, 10)).to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
data = torch.randn(4096, 256, device=device)
label = torch.randint(0, 10, (4096,), device=device)
digest = Digest()
for step in range(launches(150)):
    optimizer.zero_grad(set_to_none=True)
    loss = torch.nn.functional.cross_entropy(model(data), label)
    loss.backward()
    optimizer.step()
    if step % 50 == 0:
        digest.add(loss.detach().cpu().numpy())
for p in model.parameters():
    digest.add(p.detach().cpu().numpy())
x = torch.linspace(-2, 2, 1 << 16, device=device, requires_grad=True)
first, = torch.autograd.grad((x.tanh() * x.exp()).sum(), x, create_graph=True)
second, = torch.autograd.grad((first * first).sum(), x)
digest.add(second.cpu().numpy())
digest.print()
