"""DataLoader workers, forked and spawned, under a process that uses the GPU."""
import torch
from common import Digest


class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return 512

    def __getitem__(self, index):
        return torch.full((64,), float(index))


def main():
    digest = Digest()
    total = torch.zeros(64, device="cuda")
    for way in ("fork", "spawn"):
        loader = torch.utils.data.DataLoader(Numbers(), batch_size=32, num_workers=2, multiprocessing_context=way)
        for batch in loader:
            total += batch.cuda().sqrt().sum(0)
    digest.add(total.cpu().numpy())
    digest.print()


if __name__ == "__main__":
    main()
