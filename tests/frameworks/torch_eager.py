"""PyTorch, eager: the usual kernels one by one, from element-wise ones to sorting."""
import torch
from common import Digest, launches

torch.manual_seed(1)
device = torch.device("cuda")
digest = Digest()
x = torch.rand(1 << 20, device=device)
for _ in range(launches(100)):
    x = (x.sin() * 1.5 + x.roll(1).cos()).sigmoid()
digest.add(x.cpu().numpy())
square = x.view(1024, 1024)
for _ in range(launches(50)):
    square = torch.softmax(square, dim=1) + torch.nn.functional.layer_norm(square, (1024,)) * 0.01
digest.add(square.cpu().numpy())
digest.add(square.sum(0).cpu().numpy())
digest.add(square.cumsum(1).cpu().numpy())
digest.add(torch.sort(square, dim=1).values.cpu().numpy())
index = torch.randint(0, 1024, (4096,), device=device)
digest.add(torch.nn.functional.embedding(index, square).cpu().numpy())
digest.add(torch.where(square > square.mean(), square.half(), 0).float().cpu().numpy())
digest.print()
