// The page: a form for each task of the model, and the prediction after each step of depth.

import { depthChart } from "./chart.js";
import { InputProblem, TASKS } from "./tasks.js";
import { Tokenizer } from "./tokenizer.js";

const VERBS = { classify: "Classify", "multi-label": "Classify", regress: "Predict", choice: "Choose", tag: "Tag", span: "Answer", "fill-mask": "Fill", order: "Check" };
const MAX_LINES = 5; // of the chart
const PLAY_MILLISECONDS = 220; // for each step

const $ = (id) => document.getElementById(id);
const percent = (share) => (100 * share).toFixed(1) + "%";

function element(tag, className, ...children) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  node.append(...children);
  return node;
}

// model: the settings of the model. page: these with the task that is shown. fields: the form of each task.
// steps: the prediction after each step.
const state = { model: null, page: null, fields: [], tokenizer: null, worker: null, run: 0, ready: false, details: null, steps: [], times: [], shown: 1, follows: true, timer: null };

start().catch((error) => showError(error));

async function start() {
  const [model, pipeline] = await Promise.all(["page.json", "tokenizer.json"].map(async (name) => {
    const response = await fetch(name);
    if (!response.ok) throw new Error(`${name}: cannot be loaded`);
    return response.json();
  }));
  state.model = model;
  state.tokenizer = new Tokenizer(pipeline, model.special);
  describe(model);
  $("depth").max = model.blocks.length;
  if (model.tasks.length > 1) {
    $("tasks").append(...model.tasks.map(tab));
    $("tasks").hidden = false;
  }
  showTask(0);
  listen();
  const adapter = model.gpu ? await navigator.gpu?.requestAdapter().catch(() => null) : null;
  $("device-choice").hidden = !adapter;
  // A fallback adapter is a slow imitation on the CPU.
  load(adapter && !adapter.info?.isFallbackAdapter ? "gpu" : "cpu");
}

function describe(model) {
  document.title = `${model.name} · Albertine`;
  $("name").textContent = model.name;
  const deeper = model.blocks.length > model.trained;
  $("depth-note").textContent = sharesBlocks(model)
    ? `The network applies one and the same layer ${model.trained} times.${deeper ? ` Beyond, it is applied more often than in training.` : ""}`
    : `The network has ${model.trained} steps of depth.`;
  $("about").textContent = "Everything runs in this browser: no text leaves it. Made with Albertine; computed by ONNX Runtime Web.";
}

const sharesBlocks = (model) => new Set(model.blocks.map((files) => files.join())).size === 1;

function tab({ title }, index) {
  const input = element("input");
  Object.assign(input, { type: "radio", name: "task", value: index, checked: index === 0 });
  input.addEventListener("change", () => showTask(index));
  return element("label", "tab", input, element("span", "", title));
}

function showTask(index) {
  pause();
  // With a new number of the run, steps that the worker still computes for the task before are ignored.
  Object.assign(state, { page: { ...state.model, ...state.model.tasks[index] }, run: state.run + 1, steps: [], times: [] });
  const { page } = state;
  const labels = page.labels.length ? ` Labels: ${page.labels.slice(0, 12).join(", ")}${page.labels.length > 12 ? " and others" : ""}.` : "";
  $("summary").textContent = `An ALBERT that predicts ${page.predicts}.${labels}`;
  state.fields[index] ??= page.fields.map(field);
  $("fields").replaceChildren(...state.fields[index]);
  $("submit").textContent = VERBS[page.task];
  $("error").hidden = $("result").hidden = true;
  setDepth(page.trained);
  run();
}

function field({ name, label, example, type, required, count }) {
  const input = element("textarea");
  Object.assign(input, { id: `field-${name}`, name, value: example, rows: type === "texts" ? count : name === "context" ? 4 : 2, spellcheck: false });
  const hint = [type === "texts" ? `${count}, one per line` : "", state.page.task === "fill-mask" ? `with ${state.page.mask} for a missing word` : "", required ? "" : "optional"].filter(Boolean).join(", ");
  const title = element("label", "", label, element("span", "", hint && ` (${hint})`));
  title.htmlFor = input.id;
  return element("div", "", title, input);
}

function listen() {
  $("form").addEventListener("submit", (event) => {
    event.preventDefault();
    run();
  });
  $("form").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) $("form").requestSubmit();
  });
  $("depth").addEventListener("input", () => {
    pause();
    state.follows = false;
    setDepth(Number($("depth").value));
  });
  $("play").addEventListener("click", () => (state.timer ? pause() : play()));
  $("device").addEventListener("change", () => load($("device").value));
  new ResizeObserver(() => state.steps.length && showChart()).observe($("chart"));
}

// ---- The model -----------------------------------------------------------------------------------------------------

function load(device) {
  state.worker?.terminate();
  state.ready = false;
  $("device").value = device;
  $("submit").disabled = true;
  $("loading").hidden = false;
  const worker = (state.worker = new Worker("worker.js", { type: "module" }));
  worker.onmessage = ({ data }) => worker === state.worker && receive(data, device);
  worker.onerror = () => showError(new Error("The browser cannot start the model; it may be too old."));
  worker.postMessage({ type: "load", page: state.model, device });
}

function receive(data, device) {
  if (data.type === "progress") {
    $("progress").max = data.total;
    $("progress").value = data.loaded;
    $("loading-text").textContent = `Loading the model: ${(data.loaded / 1e6).toFixed(1)} of ${(data.total / 1e6).toFixed(1)} MB`;
  } else if (data.type === "ready") {
    state.ready = true;
    state.device = `${data.device === "gpu" ? "WebGPU" : "WebAssembly"}${data.threads > 1 ? `, ${data.threads} threads` : ""}, ${state.model.precision}`;
    $("loading").hidden = true;
    $("submit").disabled = false;
    run();
  } else if (data.type === "step" && data.run === state.run) {
    addStep(data);
  } else if (data.type === "done" && data.run === state.run) {
    $("result").dataset.done = "true";
  } else if (data.type === "error" && (data.run === undefined || data.run === state.run)) {
    if (!state.ready && device === "gpu") load("cpu"); // the graphics driver refuses it
    else showError(new Error(data.message));
  }
}

function run() {
  if (!state.ready) return;
  pause();
  const { page } = state;
  const inputs = {};
  for (const { name, type, required } of page.fields) {
    const value = $(`field-${name}`).value;
    if (type === "texts") inputs[name] = value.split("\n").map((line) => line.trim()).filter(Boolean);
    else if (value || required) inputs[name] = value;
  }
  $("error").hidden = true;
  state.run += 1; // the steps of the run before are not shown any more, even if this input has an error
  try {
    const { sequences, details } = TASKS[page.task].encode(inputs, page, state.tokenizer);
    Object.assign(state, { details, inputs, steps: [], times: [], follows: true });
    delete $("result").dataset.done;
    state.worker.postMessage({ type: "run", run: state.run, sequences });
  } catch (error) {
    showError(error);
  }
}

function addStep({ step, outputs, milliseconds }) {
  const { page, details, tokenizer } = state;
  state.steps[step - 1] = TASKS[page.task].predict(outputs, details, page, tokenizer);
  state.times[step - 1] = milliseconds;
  $("result").hidden = false;
  if (state.follows && step <= page.trained) setDepth(step);
  else if (step === state.shown) showPrediction();
  showChart();
}

function showError(error) {
  $("error").textContent = error instanceof InputProblem ? error.message : `${error.message ?? error}`;
  $("error").hidden = false;
  if (!state.ready) $("loading").hidden = true;
}

// ---- Depth ---------------------------------------------------------------------------------------------------------

function setDepth(step) {
  const { page } = state;
  state.shown = step;
  $("depth").value = step;
  const isBeyond = step > page.trained;
  const text = `${step} of ${page.trained} ${page.trained === 1 ? "step" : "steps"}${isBeyond ? ", deeper than trained" : ""}`;
  $("depth-text").textContent = text;
  $("depth-text").classList.toggle("beyond", isBeyond);
  $("depth").setAttribute("aria-valuetext", text);
  if (!state.steps.length) return;
  showPrediction();
  showChart();
}

function play() {
  state.follows = false;
  $("play").textContent = "Pause";
  let step = state.shown >= state.page.trained ? 0 : state.shown;
  const advance = () => {
    step += 1;
    setDepth(step);
    if (step >= state.page.trained) pause();
  };
  state.timer = setInterval(advance, PLAY_MILLISECONDS);
  advance();
}

function pause() {
  clearInterval(state.timer);
  state.timer = null;
  $("play").textContent = "Play";
}

// ---- The prediction ------------------------------------------------------------------------------------------------

// The names that have lines in the chart, with their colors: the largest shares at the trained depth.
function lineNames() {
  const { page, steps, details } = state;
  const reference = steps[Math.min(steps.length, page.trained) - 1] ?? steps.at(-1);
  const shares = TASKS[page.task].shares(reference, details);
  if (page.task !== "tag") shares.sort((one, other) => other[1] - one[1]);
  return shares.slice(0, MAX_LINES).map(([name]) => name);
}

function bars(shares, names, count = 8) {
  return [...shares].sort((one, other) => other[1] - one[1]).slice(0, count).map(([name, share]) => {
    const fill = element("span", "fill");
    fill.style.width = percent(share);
    const line = names.indexOf(name);
    return element("div", `row ${line < 0 ? "rest" : `c${line}`}`, element("span", "", name), element("span", "track", fill), element("span", "", percent(share)));
  });
}

// By task: the elements that show a prediction, above its bars.
const HEADLINES = {
  classify: ({ label }) => [element("p", "answer", label)],
  "multi-label": ({ labels }) => [element("p", "answer", labels.join(", ") || "No label")],
  regress: ({ value }) => [element("p", "number", value.toFixed(3))],
  choice: ({ text }) => [element("p", "answer", text)],
  tag: ({ words, tags }) => [element("div", "words", ...words.map((word, index) => element("span", "word", word, element("span", "tag", tags[index] === "O" ? "" : tags[index]))))],
  span: (prediction, { context }) => {
    const hasAnswer = prediction.start !== undefined;
    const note = prediction.no_answer_probability === undefined ? [] : [element("p", "soft", `Probability that the passage has no answer: ${percent(prediction.no_answer_probability)}`)];
    const answer = element("p", "answer", hasAnswer ? prediction.answer : "No answer in the passage");
    if (!hasAnswer) return [answer, ...note];
    const part = (start, end) => Array.from(context).slice(start, end).join("");
    const { start, end } = prediction;
    const passage = element("p", "text", part(0, start), element("mark", "", part(start, end)), part(end));
    return [answer, passage, ...note];
  },
  order: ({ in_order: share }) => [element("p", "answer", share < 0.5 ? "Swapped" : "In this order")],
  "fill-mask": ({ masks }, { text }) => {
    const parts = text.split(state.page.mask);
    const sentence = element("p", "text", parts[0]);
    masks.forEach((predictions, index) => sentence.append(element("mark", "", predictions[0].text), parts[index + 1] ?? ""));
    return [sentence];
  },
};

function showPrediction() {
  const { page, steps, shown, details, inputs } = state;
  const prediction = steps[shown - 1];
  if (!prediction) return;
  const names = lineNames();
  const nodes = HEADLINES[page.task](prediction, inputs);
  if (page.task === "fill-mask" && prediction.masks.length > 1) {
    prediction.masks.forEach((predictions, index) => {
      nodes.push(element("p", "soft", `${page.mask} ${index + 1}`), ...bars(predictions.map(({ text, score }) => [text, score]), index ? [] : names, 5));
    });
  } else if (page.task !== "tag") {
    nodes.push(...bars(TASKS[page.task].shares(prediction, details), names));
  }
  if (details.lost) nodes.push(element("p", "soft", `Too long for the model: ${details.lost} tokens were cut off.`));
  $("prediction").replaceChildren(...nodes);
  $("json").textContent = JSON.stringify({ depth: shown, ...prediction }, null, 1);
  const total = state.times.slice(0, shown).reduce((sum, time) => sum + time, 0);
  $("time").textContent = `${Math.max(1, Math.round(total))} ms for ${shown} ${shown === 1 ? "step" : "steps"} · ${state.device}`;
}

function showChart() {
  const { page, steps, shown, details } = state;
  const width = Math.floor($("chart").clientWidth);
  if (!width || page.blocks.length < 2) return;
  const shares = steps.map((prediction) => new Map(TASKS[page.task].shares(prediction, details)));
  // An answer that is not among the best ones of a step has no share there.
  let lines = lineNames().map((name) => ({ name, values: shares.map((ofStep, step) => ofStep.get(name) ?? steps[step].shareOf?.(name)) }));
  let limits = [0, 1], format = (share) => `${Math.round(100 * share)}%`;
  if (page.task === "fill-mask") { // the best of thousands of tokens may have a small share
    const largest = Math.max(...lines.flatMap(({ values }) => values));
    limits = [0, [0.2, 0.5, 1].find((top) => largest <= top) ?? 1];
  }
  if (page.task === "regress") {
    const values = steps.map(({ value }) => value);
    limits = [Math.min(...values), Math.max(...values)];
    format = (value) => value.toPrecision(3);
    lines = [{ name: "value", values }];
  }
  $("chart").replaceChildren(depthChart({
    lines, steps: page.blocks.length, trained: page.trained, shown, limits, format, width,
    onSelect: (step) => {
      pause();
      state.follows = false;
      setDepth(step);
    },
  }));
  const title = page.task === "tag" ? ["Probability of the tag: "] : page.task === "fill-mask" && steps[0]?.masks.length > 1 ? [`First ${page.mask}: `] : [];
  $("legend").replaceChildren(...title, ...lines.map(({ name }, index) => element("span", `c${index}`, name)));
}
