// Runs the graphs of the model in a worker, so that the page stays responsive.
//
// in   { type: "load", page, device }        out  { type: "progress", loaded, total }, { type: "ready", device, threads }
// in   { type: "run", run, sequences }       out  { type: "step", run, step, outputs, milliseconds }, { type: "done", run }
//                                            out  { type: "error", run, message }
//
// A sequence has ids, segments and rows: the tokens whose logits are needed, null for all. A new run ends the one before.

let model = null;
let currentRun = 0;
let lastRun = Promise.resolve();

// Files of ONNX Runtime for each device.
const RUNTIMES = {
  cpu: { module: "ort.js", loader: "ort-cpu.js", binary: "ort-cpu.wasm", provider: "wasm" },
  gpu: { module: "ort-webgpu.js", loader: "ort-gpu.js", binary: "ort-gpu.wasm", provider: "webgpu" },
};

onmessage = async ({ data }) => {
  const action = { load, run }[data.type];
  try {
    await action(data);
  } catch (error) {
    postMessage({ type: "error", run: data.run, message: error?.message ?? String(error) });
  }
};

async function load({ page, device }) {
  const runtime = RUNTIMES[device];
  const address = (name) => new URL(`lib/${name}`, import.meta.url).href;
  const progress = downloadProgress(Object.values(page.files).reduce((sum, size) => sum + size, 0));
  const names = Object.keys(page.files);
  const [ort, binary, ...contents] = await Promise.all([
    import(address(runtime.module)),
    download(address(runtime.binary), progress),
    ...names.map((name) => download(name, progress)),
  ]);
  ort.env.wasm.wasmPaths = { mjs: address(runtime.loader), wasm: address(runtime.binary) };
  ort.env.wasm.wasmBinary = binary;
  // Threads need memory that workers share, which a page has only with the headers COOP and COEP.
  ort.env.wasm.numThreads = self.crossOriginIsolated ? Math.min(8, navigator.hardwareConcurrency ?? 1) : 1;
  ort.env.logLevel = "error";
  const files = Object.fromEntries(names.map((name, index) => [name, new Uint8Array(contents[index])]));
  const graphs = {};
  for (const name of names.filter((file) => file !== page.table)) {
    graphs[name] = await ort.InferenceSession.create(files[name], {
      executionProviders: [runtime.provider],
      logSeverityLevel: 3, // errors only
      externalData: usesTable(name) ? [{ path: page.table, data: files[page.table] }] : [],
    });
  }
  model = { ort, page, graphs };
  postMessage({ type: "ready", device, threads: ort.env.wasm.numThreads });
}

// The embedding, and the head of a masked LM, whose decoder is the same matrix.
const usesTable = (name) => name === "embed.onnx" || name.startsWith("head");

function downloadProgress(totalOfModel) {
  const state = { loaded: 0, total: totalOfModel };
  return {
    expect: (bytes) => (state.total += bytes),
    add: (bytes) => postMessage({ type: "progress", loaded: (state.loaded += bytes), total: Math.max(state.total, state.loaded) }),
  };
}

async function download(address, progress) {
  const response = await fetch(address).catch(() => null);
  if (!response?.ok) throw new Error(`${address}: cannot be downloaded`);
  if (address.endsWith(".wasm")) progress.expect(Number(response.headers.get("Content-Length")) || 14e6);
  const parts = [];
  for (const reader = response.body.getReader(); ; ) {
    const { done, value } = await reader.read();
    if (done) return new Blob(parts).arrayBuffer();
    parts.push(value);
    progress.add(value.length);
  }
}

// A session computes one thing at a time, so a run waits until the one before has ended.
function run(data) {
  currentRun = data.run;
  lastRun = lastRun.catch(() => {}).then(() => compute(data));
  return lastRun;
}

async function compute({ run, sequences }) {
  const { ort, page, graphs } = model;
  const integers = (values) => {
    const data = BigInt64Array.from(values, BigInt);
    return new ort.Tensor("int64", data, [1, data.length]);
  };
  const states = [];
  for (const { ids, segments } of sequences) {
    if (currentRun !== run) return;
    const inputs = { input_ids: integers(ids), token_type_ids: integers(segments), position_ids: integers(ids.keys()) };
    if (page.marks_matches) inputs.attention_mask = integers(ids.map(() => 1));
    states.push((await graphs["embed.onnx"].run(inputs)).states);
  }
  for (let step = 0; step < page.blocks.length; step++) {
    const started = performance.now();
    const outputs = [];
    for (let index = 0; index < sequences.length; index++) {
      if (currentRun !== run) return;
      for (const name of page.blocks[step]) {
        const { ids } = sequences[index];
        const inputs = { states: states[index], attention_mask: integers(ids.map(() => 1)), position_ids: integers(ids.keys()) };
        if (page.step_signal) inputs.step = new ort.Tensor("int64", BigInt64Array.of(BigInt(step)), []);
        states[index] = (await graphs[name].run(inputs)).next_states;
      }
      const head = graphs[page.heads[step]];
      outputs.push(await (page.compares_pairs ? pairLogits : logits)(head, states[index], sequences[index], integers));
    }
    postMessage({ type: "step", run, step: step + 1, outputs, milliseconds: performance.now() - started });
    await new Promise((resolve) => setTimeout(resolve)); // a new run may have arrived
  }
  if (currentRun === run) postMessage({ type: "done", run });
}

async function logits(head, states, { rows }) {
  const results = await head.run({ states: rows ? selectRows(states, rows) : states });
  return Object.fromEntries(Object.entries(results).map(([name, { data }]) => [name, Float32Array.from(data)]));
}

// A head that compares the tokens of two texts gives logits at every token; those of the sequence are at its first.
async function pairLogits(head, states, { segments }, integers) {
  const mask = integers(segments.map(() => 1));
  const results = await head.run({ states, attention_mask: mask, token_type_ids: integers(segments) });
  const first = ({ data, dims }) => Float32Array.from(data.subarray(0, dims[2] ?? 1)); // a number has no third dimension
  return Object.fromEntries(Object.entries(results).map(([name, tensor]) => [name, first(tensor)]));
}

// Heads of tokens treat every token by itself, so that only the needed ones are computed.
function selectRows(states, rows) {
  const width = states.dims[2];
  const selected = new Float32Array(rows.length * width);
  rows.forEach((row, index) => selected.set(states.data.subarray(row * width, (row + 1) * width), index * width));
  return new model.ort.Tensor("float32", selected, [1, rows.length, width]);
}
