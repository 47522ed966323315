import torch

# Tests run side by side on few cores: threads of tensors would wait for each other.
torch.set_num_threads(1)
