/* Cells of recurrent networks. The gates of a row are contiguous, in the order of the weights, each `width` wide, for
 * each of `batch` rows. A missing tensor is null. */

HP_KERNEL(lstm)(HP_GLOBAL T* hy, HP_GLOBAL T* cy, HP_GLOBAL T* workspace, HP_GLOBAL const T* input,
                HP_GLOBAL const T* hidden, HP_GLOBAL const T* cx, HP_GLOBAL const T* input_bias,
                HP_GLOBAL const T* hidden_bias, hp_i64 batch, hp_i64 width) {
  HP_FOR_ELEMENTS(i, batch * width) {
    const hp_i64 row = i / width, j = i % width, first = row * 4 * width + j;
    T_c gate[4];
    for (int k = 0; k < 4; ++k) {
      gate[k] = T_get(input[first + k * width]) + T_get(hidden[first + k * width]);
      if (BIAS) gate[k] += T_get(input_bias[k * width + j]) + T_get(hidden_bias[k * width + j]);
    }
    const T_c in = T_M(sigmoid)(gate[0]), forget = T_M(sigmoid)(gate[1]);
    const T_c cell = T_M(tanh)(gate[2]), out = T_M(sigmoid)(gate[3]);
    const T_c state = forget * T_get(cx[i]) + in * cell;
    cy[i] = T_put(state);
    hy[i] = T_put(out * T_M(tanh)(state));
    workspace[first] = T_put(in);
    workspace[first + width] = T_put(forget);
    workspace[first + 2 * width] = T_put(cell);
    workspace[first + 3 * width] = T_put(out);
  }
}

HP_KERNEL(lstm_backward)(HP_GLOBAL T* grad_gates, HP_GLOBAL T* grad_cx, HP_GLOBAL const T* grad_hy,
                         HP_GLOBAL const T* grad_cy, HP_GLOBAL const T* cx, HP_GLOBAL const T* cy,
                         HP_GLOBAL const T* workspace, hp_i64 batch, hp_i64 width) {
  HP_FOR_ELEMENTS(i, batch * width) {
    const hp_i64 row = i / width, j = i % width, first = row * 4 * width + j;
    const T_c in = T_get(workspace[first]), forget = T_get(workspace[first + width]);
    const T_c cell = T_get(workspace[first + 2 * width]), out = T_get(workspace[first + 3 * width]);
    const T_c state = T_M(tanh)(T_get(cy[i]));
    const T_c hidden = HIDDEN ? T_get(grad_hy[i]) : (T_c)0;
    const T_c through = (CELL ? T_get(grad_cy[i]) : (T_c)0) + hidden * out * (1 - state * state);
    grad_gates[first] = T_put(through * cell * in * (1 - in));
    grad_gates[first + width] = T_put(through * T_get(cx[i]) * forget * (1 - forget));
    grad_gates[first + 2 * width] = T_put(through * in * (1 - cell * cell));
    grad_gates[first + 3 * width] = T_put(hidden * state * out * (1 - out));
    grad_cx[i] = T_put(through * forget);
  }
}

HP_KERNEL(gru)(HP_GLOBAL T* hy, HP_GLOBAL T* workspace, HP_GLOBAL const T* input, HP_GLOBAL const T* hidden,
               HP_GLOBAL const T* hx, HP_GLOBAL const T* input_bias, HP_GLOBAL const T* hidden_bias, hp_i64 batch,
               hp_i64 width) {
  HP_FOR_ELEMENTS(i, batch * width) {
    const hp_i64 row = i / width, j = i % width, first = row * 3 * width + j, kept = row * 5 * width + j;
    T_c a[3], b[3];
    for (int k = 0; k < 3; ++k) {
      a[k] = T_get(input[first + k * width]);
      b[k] = T_get(hidden[first + k * width]);
      if (BIAS) a[k] += T_get(input_bias[k * width + j]), b[k] += T_get(hidden_bias[k * width + j]);
    }
    const T_c reset = T_M(sigmoid)(a[0] + b[0]), update = T_M(sigmoid)(a[1] + b[1]);
    const T_c fresh = T_M(tanh)(a[2] + reset * b[2]), old = T_get(hx[i]);
    hy[i] = T_put(fresh + update * (old - fresh));
    workspace[kept] = T_put(reset);
    workspace[kept + width] = T_put(update);
    workspace[kept + 2 * width] = T_put(fresh);
    workspace[kept + 3 * width] = T_put(old);
    workspace[kept + 4 * width] = T_put(b[2]);
  }
}

HP_KERNEL(gru_backward)(HP_GLOBAL T* grad_input, HP_GLOBAL T* grad_hidden, HP_GLOBAL T* grad_hx,
                        HP_GLOBAL const T* grad_hy, HP_GLOBAL const T* workspace, hp_i64 batch, hp_i64 width) {
  HP_FOR_ELEMENTS(i, batch * width) {
    const hp_i64 row = i / width, j = i % width, first = row * 3 * width + j, kept = row * 5 * width + j;
    const T_c reset = T_get(workspace[kept]), update = T_get(workspace[kept + width]);
    const T_c fresh = T_get(workspace[kept + 2 * width]), old = T_get(workspace[kept + 3 * width]);
    const T_c hidden = T_get(workspace[kept + 4 * width]), grad = T_get(grad_hy[i]);
    const T_c to_update = grad * (old - fresh) * update * (1 - update);
    const T_c to_fresh = grad * (1 - update) * (1 - fresh * fresh);
    const T_c to_reset = to_fresh * hidden * reset * (1 - reset);
    grad_input[first] = grad_hidden[first] = T_put(to_reset);
    grad_input[first + width] = grad_hidden[first + width] = T_put(to_update);
    grad_input[first + 2 * width] = T_put(to_fresh);
    grad_hidden[first + 2 * width] = T_put(to_fresh * reset);
    grad_hx[i] = T_put(grad * update);
  }
}
