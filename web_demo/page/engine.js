/** LiteRT.js: compiles a model for the CPU or the GPU and runs it. */

import { Tensor, loadAndCompile, loadLiteRt } from "@litertjs/core";

import { UserError, reasonOf } from "./errors.js";

/** What a model can run on. */
export const BACKENDS = [
  { id: "wasm", label: "CPU (WebAssembly)", isHalf: false, options: { accelerator: "wasm" } },
  {
    id: "webgpu",
    label: "GPU (WebGPU)",
    isHalf: false,
    options: { accelerator: "webgpu", gpuOptions: { precision: "fp32" } },
  },
  {
    id: "webgpu-half",
    label: "GPU, half precision",
    isHalf: true,
    options: { accelerator: "webgpu", gpuOptions: { precision: "fp16" } },
  },
];

let runtime = null;

/**
 * Compiles a model.
 *
 * @param {Uint8Array} model the content of model.tflite
 * @param {number[]} shape of its input
 * @param {object} backend one of `BACKENDS`
 * @returns {Promise<{isWhole: boolean, run: function, close: function}>} `isWhole`: the backend took
 *     all operators; `run`: from an input tensor to the output tensor
 * @throws {UserError} the browser has no such backend, or LiteRT.js refuses the model
 */
export async function compile(model, shape, backend) {
  if (backend.options.accelerator === "webgpu") await requireWebGpu();
  await (runtime ??= load());
  let compiled;
  try {
    compiled = await loadAndCompile(model, backend.options);
  } catch (error) {
    throw new UserError(
      `LiteRT.js refuses this model on the ${backend.label} (${reasonOf(error)}).`,
    );
  }
  return {
    isWhole: compiled.isFullyAccelerated,
    run: (tensor) => run(compiled, tensor, shape),
    close: () => compiled.delete(),
  };
}

async function load() {
  // The runtime writes all its notes to the console as errors.
  const write = (line) => (line.startsWith("ERROR") ? console.warn(line) : console.debug(line));
  globalThis.Module = { print: write, printErr: write };
  try {
    await loadLiteRt("litert/wasm/");
  } catch (error) {
    throw new UserError(`LiteRT.js cannot be loaded (${reasonOf(error)}).`);
  }
}

async function run(compiled, values, shape) {
  const input = new Tensor(values, shape);
  try {
    const outputs = await compiled.run([input]);
    try {
      return await outputs[0].data();
    } finally {
      for (const output of outputs) output.delete();
    }
  } catch (error) {
    throw new UserError(`The model failed (${reasonOf(error)}).`);
  } finally {
    input.delete();
  }
}

async function requireWebGpu() {
  if (!globalThis.isSecureContext) {
    throw new UserError("WebGPU needs a page from https or localhost; choose the CPU.");
  }
  const adapter = await navigator.gpu?.requestAdapter().catch(() => null);
  if (!adapter) throw new UserError("This browser offers no WebGPU here; choose the CPU.");
}
