"""cuDNN through PyTorch: convolutions forwards and backwards, and a recurrent layer."""
import torch
from common import Digest, launches

torch.manual_seed(9)
torch.backends.cudnn.deterministic = True
torch.backends.cudnn.benchmark = False  # it would pick by timing, and the results with it
digest = Digest()
x = torch.randn(8, 16, 64, 64, device="cuda")
net = torch.nn.Sequential(torch.nn.Conv2d(16, 32, 3, padding=1), torch.nn.BatchNorm2d(32), torch.nn.ReLU(),
                          torch.nn.Conv2d(32, 16, 5, stride=2)).cuda()
for _ in range(launches(60)):
    net.zero_grad(set_to_none=True)
    y = net(x)
    y.square().mean().backward()
digest.add(y.detach().cpu().numpy())
for p in net.parameters():
    digest.add(p.grad.cpu().numpy())
rnn = torch.nn.LSTM(64, 128, num_layers=2).cuda()
out, _ = rnn(torch.randn(32, 8, 64, device="cuda"))
out.sum().backward()
digest.add(out.detach().cpu().numpy())
digest.print()
