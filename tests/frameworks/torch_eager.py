"""PyTorch, eager: training steps of a small network with autograd, and the usual element-wise kernels."""
import torch
from common import Digest

torch.manual_seed(1)
torch.use_deterministic_algorithms(True, warn_only=True)
device = torch.device("cuda")
model = torch.nn.Sequential(
    torch.nn.Linear(256, 512), torch.nn.GELU(), torch.nn.LayerNorm(512), torch.nn.Linear(512, 10)).to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
data = torch.randn(4096, 256, device=device)
label = torch.randint(0, 10, (4096,), device=device)
digest = Digest()
for step in range(150):
    optimizer.zero_grad(set_to_none=True)
    loss = torch.nn.functional.cross_entropy(model(data), label)
    loss.backward()
    optimizer.step()
    if step % 50 == 49:
        digest.add(loss.detach().cpu().numpy())
image = torch.randn(8, 16, 64, 64, device=device)
conv = torch.nn.Conv2d(16, 32, 3, padding=1).to(device)  # cuDNN
digest.add(conv(image).detach().cpu().numpy())
x = torch.rand(1 << 20, device=device)
for _ in range(100):
    x = (x.sin() * 1.5 + x.roll(1).cos()).sigmoid()
digest.add(x.cpu().numpy())
digest.add(torch.softmax(x.view(1024, 1024), dim=1).sum(0).cpu().numpy())
digest.print()
