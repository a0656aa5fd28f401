"""Computes on the device custom_cpu in Paddle. The program does not depend on how the plug-in was built."""

import paddle

print("devices:", paddle.device.get_all_custom_device_type())

paddle.set_device("custom_cpu")
x = paddle.to_tensor([1])
print(x + x)

a = paddle.to_tensor([[1.0, -2.0], [3.0, -4.0]], stop_gradient=False)
b = paddle.to_tensor([0.5, 1.0], stop_gradient=False)
loss = paddle.nn.functional.relu(a.T + b).sum()
loss.backward()
print("loss:", loss.item(), "gradients:", a.grad.tolist(), b.grad.tolist())
