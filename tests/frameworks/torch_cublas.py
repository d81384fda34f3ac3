"""cuBLAS and cuBLASLt through PyTorch: products in several types and shapes, batched, and with an epilogue."""
import torch
from common import Digest, launches

torch.manual_seed(8)
digest = Digest()
for kind in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
    for m, n, k in ((512, 512, 512), (1000, 37, 129), (1, 4096, 1024)):
        a = torch.randn(m, k, device="cuda").to(kind)
        b = torch.randn(k, n, device="cuda").to(kind)
        for _ in range(launches(50)):
            c = a @ b
        digest.add(c.double().cpu().numpy())
a = torch.randn(16, 64, 128, device="cuda")
digest.add(torch.bmm(a, a.transpose(1, 2)).cpu().numpy())
layer = torch.nn.Linear(128, 256).cuda().half()
digest.add(torch.nn.functional.gelu(layer(a.half())).detach().float().cpu().numpy())
digest.add(torch.linalg.solve(torch.eye(64, device="cuda") * 3 + a[0, :, :64] * 0.01, a[0]).cpu().numpy())  # cuSOLVER
digest.print()
