// What each task type does with its input: token ids for the model, and a prediction from its logits.
//
// encode(inputs, page, tokenizer)         { sequences, details }
// predict(outputs, details, page)         the prediction, with the names that `albertine predict` has
// shares(prediction, details)             [[name, share between 0 and 1], ...] for the bars and the chart
//
// A prediction of tokens also has shareOf(name), since the shares have only its best ones.

export const TASKS = {
  classify: {
    encode: encodeTexts,
    predict: ([{ logits }], _, { labels }) => {
      const probabilities = softmax(logits);
      const best = argmax(probabilities);
      return { label: labels[best], probability: probabilities[best], probabilities: zip(labels, probabilities) };
    },
    shares: ({ probabilities }) => Object.entries(probabilities),
  },
  "multi-label": {
    encode: encodeTexts,
    predict: ([{ logits }], _, { labels, label_threshold: threshold }) => {
      const probabilities = Array.from(logits, (logit) => 1 / (1 + Math.exp(-logit)));
      return { labels: labels.filter((_, index) => probabilities[index] >= threshold), probabilities: zip(labels, probabilities) };
    },
    shares: ({ probabilities }) => Object.entries(probabilities),
  },
  regress: { encode: encodeTexts, predict: ([{ logits }]) => ({ value: logits[0] }), shares: () => [] },
  choice: {
    encode: encodeOptions,
    predict: (outputs, { options }) => {
      const probabilities = softmax(outputs.map(({ logits }) => logits[0]));
      const best = argmax(probabilities);
      const letter = String.fromCharCode("A".charCodeAt(0) + best);
      return { option: best, letter, text: options[best], probability: probabilities[best], probabilities };
    },
    shares: ({ probabilities }, { options }) => distinct(options).map((option, index) => [option, probabilities[index]]),
  },
  tag: {
    encode: encodeWords,
    predict: (outputs, { words, firsts }, { labels }) => {
      const ofWords = outputs.flatMap(({ logits }, index) =>
        firsts[index].map((_, position) => softmax(logits.subarray(position * labels.length, (position + 1) * labels.length))));
      const best = ofWords.map(argmax);
      return { words, tags: best.map((tag) => labels[tag]), probabilities: ofWords.map((values, index) => values[best[index]]) };
    },
    shares: ({ words, probabilities }) => distinct(words).map((word, index) => [word, probabilities[index]]),
  },
  span: {
    encode: encodePassage,
    predict: predictAnswer,
    shares: ({ candidates }) => unique(candidates.map(({ text, probability }) => [text, probability])),
  },
  "fill-mask": {
    encode: encodeMasks,
    predict: predictTokens,
    shares: ({ masks, shareOf }) => [...new Set(masks[0].map(({ text }) => text))].map((name) => [name, shareOf(name)]),
  },
  order: {
    encode: encodeOrder,
    predict: ([{ pair_logits: logits }]) => ({ in_order: softmax(logits)[0] }),
    shares: ({ in_order: share }) => [["in this order", share], ["swapped", 1 - share]],
  },
};

export class InputProblem extends Error {}

// ---- Sequences -----------------------------------------------------------------------------------------------------

// [CLS] first [SEP] or [CLS] first [SEP] second [SEP].
function sequence({ special: { cls, sep } }, first, second) {
  const ids = [cls, ...first, sep], segments = ids.map(() => 0);
  if (second) {
    ids.push(...second, sep);
    segments.push(...second.map(() => 1), 1);
  }
  return { ids, segments, rows: null };
}

function encodeTexts({ text, text_pair: pair }, page, tokenizer) {
  const first = tokenizer.ids(text), second = pair === undefined ? [] : tokenizer.ids(pair);
  const parts = second.length ? truncatedPair(first, second, page.max_length - 3) : [first.slice(0, page.max_length - 2)];
  const lost = first.length + second.length - parts.reduce((sum, part) => sum + part.length, 0);
  return { sequences: [sequence(page, ...parts)], details: { lost } };
}

// Only the longer text loses tokens until both are equally long; then both lose them in turn.
function truncatedPair(first, second, limit) {
  if (first.length + second.length <= limit) return [first, second];
  const shorter = Math.min(first.length, second.length, Math.floor(limit / 2));
  const sizes = first.length > second.length ? [limit - shorter, shorter] : [shorter, limit - shorter];
  return [first.slice(0, sizes[0]), second.slice(0, sizes[1])];
}

function encodeOptions({ context = "", question = "", options }, page, tokenizer) {
  if (options.length !== page.options) throw new InputProblem(`Give ${page.options} options, one per line.`);
  const limit = page.max_length - 3;
  const passage = tokenizer.ids(context), asked = tokenizer.ids(question);
  let lost = 0;
  const sequences = options.map((option) => {
    const end = [...asked, ...tokenizer.ids(option)];
    lost = Math.max(lost, passage.length + end.length - limit);
    const kept = end.slice(-limit); // too long even without the passage
    return sequence(page, passage.slice(0, limit - kept.length), kept);
  });
  return { sequences, details: { options, lost: Math.max(0, lost) } };
}

function encodeWords({ text }, page, tokenizer) {
  const words = text.split(/(?:(?!\ufeff)[\s\x1c-\x1f\x85])+/).filter(Boolean); // as Python splits words
  if (!words.length) throw new InputProblem("Give a sentence.");
  const limit = page.max_length - 2, chunks = [[]];
  let size = 0, lost = 0;
  for (const word of words) {
    const all = tokenizer.ids(word), ids = all.length ? all.slice(0, limit) : [page.special.unk];
    lost = Math.max(lost, all.length - ids.length);
    if (size + ids.length > limit) {
      chunks.push([]);
      size = 0;
    }
    chunks.at(-1).push(ids);
    size += ids.length;
  }
  const firsts = chunks.map((chunk) => {
    let position = 1;
    return chunk.map((ids) => (position += ids.length) - ids.length);
  });
  const sequences = chunks.map((chunk, index) => ({ ...sequence(page, chunk.flat()), rows: firsts[index] }));
  return { sequences, details: { words, firsts, lost } };
}

function encodeMasks({ text }, page, tokenizer) {
  const one = sequence(page, tokenizer.idsWithSpecialTokens(text));
  const masks = one.ids.flatMap((id, position) => (id === page.special.mask ? [position] : []));
  if (!masks.length) throw new InputProblem(`Write ${page.mask} where a word is missing.`);
  refuseLong(one, page);
  return { sequences: [{ ...one, rows: masks }], details: { masks, lost: 0 } };
}

function predictTokens(outputs, { masks }, page, tokenizer) {
  const logits = outputs[0].mlm_logits, size = logits.length / masks.length;
  // Some checkpoints round the vocabulary up.
  const ofMasks = masks.map((_, index) => softmax(logits.subarray(index * size, index * size + page.vocabulary)));
  return {
    masks: ofMasks.map((probabilities) =>
      largest(probabilities, 8).map((id) => ({ token: tokenizer.model.vocab[id], text: tokenizer.show(id), score: probabilities[id] }))),
    shareOf: (name) => tokenizer.idsShownAs(name).reduce((sum, id) => sum + (ofMasks[0][id] ?? 0), 0),
  };
}

function encodeOrder({ first, second }, page, tokenizer) {
  const texts = [first, second].map((text) => tokenizer.idsWithSpecialTokens(text));
  if (!texts.every((ids) => ids.length)) throw new InputProblem("Write two texts.");
  const one = sequence(page, ...texts);
  refuseLong(one, page);
  return { sequences: [{ ...one, rows: [0] }], details: { lost: 0 } }; // the head reads [CLS]
}

function refuseLong({ ids }, { max_length: limit }) {
  if (ids.length > limit) throw new InputProblem(`The input has ${ids.length} tokens; the model takes ${limit}.`);
}

// ---- Questions about a passage -------------------------------------------------------------------------------------

function encodePassage({ context, question }, page, tokenizer) {
  const asked = tokenizer.ids(question);
  const kept = asked.slice(0, Math.min(page.max_question_length, Math.floor((page.max_length - 3) / 2)));
  const size = page.max_length - kept.length - 3;
  const { ids, offsets } = tokenizer.idsWithOffsets(context);
  const starts = [0];
  while (starts.at(-1) + size < ids.length) starts.push(starts.at(-1) + Math.min(size, page.stride));
  const best = windowsWithMostContext(starts, ids.length, size);
  const windows = starts.map((start, index) => ({
    first: kept.length + 2,
    offsets: offsets.slice(start, start + size),
    counts: best.slice(start, start + size).map((window) => window === index),
  }));
  const sequences = starts.map((start) => sequence(page, kept, ids.slice(start, start + size)));
  return { sequences, details: { context, windows, lost: asked.length - kept.length } };
}

// Windows overlap; a token counts in the one in which its side with fewer tokens has most.
function windowsWithMostContext(starts, count, size) {
  const best = Array(count).fill(0), most = Array(count).fill(-1);
  starts.forEach((start, index) => {
    const end = Math.min(start + size, count);
    for (let token = start; token < end; token++) {
      const context = Math.min(token - start, end - 1 - token) + 0.01 * (end - start);
      if (context > most[token]) [best[token], most[token]] = [index, context];
    }
  });
  return best;
}

function predictAnswer(outputs, { context, windows }, page) {
  let noAnswer = Infinity;
  const found = outputs.flatMap(({ start_logits: starts, end_logits: ends, answerable_logits: answerable }, index) => {
    noAnswer = Math.min(noAnswer, page.answerable ? -answerable[0] : starts[0] + ends[0]);
    return candidatesIn(windows[index], starts, ends, page);
  });
  found.sort((one, other) => other.score - one.score);
  for (const candidate of found) extendToWords(candidate, context, page.spaceless_ranges);
  const spans = new Map();
  for (const candidate of found) {
    const key = `${candidate.start} ${candidate.end}`;
    if (!spans.has(key) && spans.size < page.num_candidates) spans.set(key, candidate);
  }
  const best = [...spans.values()];
  if (best.length && !page.answerable) noAnswer -= best[0].score;
  if (!best.length) noAnswer = 1e9;
  const probabilities = softmax(best.map(({ score }) => score));
  const characters = (units) => Array.from(context.slice(0, units)).length; // as Python counts, not UTF-16 units
  const candidates = best.map(({ start, end }, index) => ({
    text: context.slice(start, end), start: characters(start), end: characters(end), probability: probabilities[index],
  }));
  const isUnanswered = page.allows_no_answer && noAnswer > page.no_answer_threshold;
  const prediction = { answer: candidates.length && !isUnanswered ? candidates[0].text : "" };
  if (candidates.length && !isUnanswered) Object.assign(prediction, { start: candidates[0].start, end: candidates[0].end });
  if (page.allows_no_answer) {
    prediction.no_answer_score = noAnswer;
    prediction.no_answer_probability = 1 / (1 + Math.exp(page.no_answer_threshold - noAnswer));
    prediction.best_answer = candidates.length ? candidates[0].text : "";
  }
  return { ...prediction, candidates };
}

function candidatesIn({ first, offsets, counts }, starts, ends, page) {
  const candidates = [];
  for (let token = 0; token < offsets.length; token++) {
    if (!counts[token]) continue;
    for (let last = token; last < Math.min(offsets.length, token + page.max_answer_length); last++) {
      const score = starts[first + token] + ends[first + last];
      candidates.push({ score, start: offsets[token][0], end: offsets[last][1] });
    }
  }
  candidates.sort((one, other) => other.score - one.score);
  return candidates.slice(0, 2 * page.num_candidates).filter(({ start, end }) => start < end);
}

// A span neither begins nor ends inside of a word; as text/whole_words.py has it.
function extendToWords(candidate, context, spacelessRanges) {
  const longest = 64;
  const isSpaceless = (code) => spacelessRanges.some(([first, end]) => code >= first && code < end);
  const isOfWord = (letter) => /[\p{L}\p{M}\u00ad\u200c\u200d]/u.test(letter) && !isSpaceless(letter.codePointAt(0));
  const isDigit = (letter) => /\p{Nd}/u.test(letter);
  const areOfOneWord = (left, right) =>
    isDigit(left) || isDigit(right) ? isDigit(left) && isDigit(right) : isOfWord(left) && isOfWord(right);
  const before = Array.from(context.slice(Math.max(0, candidate.start - 2 * longest - 2), candidate.start)).reverse();
  const after = Array.from(context.slice(candidate.end, candidate.end + 2 * longest + 2));
  const inside = Array.from(context.slice(candidate.start, candidate.end));
  const extension = (letters, edge) => {
    let count = 0;
    while (count <= longest && count < letters.length && areOfOneWord(count ? letters[count - 1] : edge, letters[count])) count++;
    return count > longest ? 0 : letters.slice(0, count).join("").length;
  };
  candidate.start -= extension(before, inside[0]);
  candidate.end += extension(after, inside.at(-1));
}

// ---- Numbers -------------------------------------------------------------------------------------------------------

function softmax(logits) {
  let maximum = -Infinity, sum = 0;
  for (const logit of logits) maximum = Math.max(maximum, logit);
  const result = Float64Array.from(logits, (logit) => Math.exp(logit - maximum));
  for (const value of result) sum += value;
  return Array.from(result, (value) => value / sum);
}

const argmax = (values) => values.reduce((best, value, index) => (value > values[best] ? index : best), 0);

const zip = (names, values) => Object.fromEntries(names.map((name, index) => [name, values[index]]));

function largest(values, count) {
  const best = [];
  values.forEach((value, index) => {
    if (best.length === count && value <= values[best.at(-1)]) return;
    best.splice(best.findIndex((other) => values[other] < value) >>> 0, 0, index);
    best.length = Math.min(best.length, count);
  });
  return best;
}

// Names of lines in the chart: a repeated one has its number.
function distinct(names) {
  const counts = new Map();
  return names.map((name) => {
    counts.set(name, (counts.get(name) ?? 0) + 1);
    return counts.get(name) > 1 ? `${name} (${counts.get(name)})` : name;
  });
}

// The shares of equal names are added up.
function unique(shares) {
  const sums = new Map();
  for (const [name, share] of shares) sums.set(name, (sums.get(name) ?? 0) + share);
  return [...sums];
}
