// Text to token ids, equal to those of the model's training.
//
// The library has the models (unigram and WordPiece) and the special tokens. Its normalization and its split into
// words differ from those of the Rust library in some characters, so these parts are here.

import { Tokenizer as LibraryTokenizer } from "./lib/tokenizers.js";

const WORD_START = "▁";

let segmenter = null; // some browsers have none, and WordPiece without offsets needs none

function graphemes(text) {
  segmenter ??= new Intl.Segmenter("en", { granularity: "grapheme" });
  return Array.from(segmenter.segment(text), ({ segment }) => segment);
}

// ---- Normalization -------------------------------------------------------------------------------------------------

// Each character by itself: JavaScript would lower-case a final sigma in another way.
const lowercase = (text) => Array.from(text, (character) => character.toLowerCase()).join("");

// By type of a component: a function that returns its normalization.
const NORMALIZERS = {
  Sequence: ({ normalizers }, library) => {
    const steps = normalizers.map((config, index) => normalization(config, library.normalizers[index]));
    return (text) => steps.reduce((normalized, step) => step(normalized), text);
  },
  Lowercase: () => lowercase,
  BertNormalizer: (config) => (text) => bertNormalized(text, config),
  Precompiled: ({ precompiled_charsmap: map }) => precompiled(map),
};

function normalization(config, library) {
  if (!config) return (text) => text;
  return NORMALIZERS[config.type]?.(config, library) ?? ((text) => library.normalize(text));
}

const isIdeograph = (code) =>
  (code >= 0x4e00 && code <= 0x9fff) || (code >= 0x3400 && code <= 0x4dbf) || (code >= 0x20000 && code <= 0x2a6df) ||
  (code >= 0x2a700 && code <= 0x2b81f) ||
  (code >= 0x2b920 && code <= 0x2ceaf) || (code >= 0xf900 && code <= 0xfaff) || (code >= 0x2f800 && code <= 0x2fa1f);

function cleaned(text) {
  let result = "";
  for (const character of text) {
    if (character === "\0" || character === "\ufffd") continue;
    if (/[\t\n\r]/.test(character)) result += " ";
    else if (/[\p{Cc}\p{Cf}\p{Co}\p{Cs}]/u.test(character)) continue; // not what Unicode added later
    else result += /\p{White_Space}/u.test(character) ? " " : character;
  }
  return result;
}

function bertNormalized(text, config) {
  if (config.clean_text) text = cleaned(text);
  if (config.handle_chinese_chars) {
    text = Array.from(text, (character) => (isIdeograph(character.codePointAt(0)) ? ` ${character} ` : character)).join("");
  }
  if (config.strip_accents ?? config.lowercase) text = text.normalize("NFD").replace(/\p{Mn}/gu, "");
  return config.lowercase ? lowercase(text) : text;
}

// SentencePiece's map of characters: a double-array trie of UTF-8 bytes, then the replacements, each with a zero byte.
function precompiled(map) {
  const bytes = Uint8Array.from(atob(map ?? ""), (character) => character.charCodeAt(0));
  if (bytes.length < 4) return (text) => text;
  const view = new DataView(bytes.buffer);
  const size = view.getUint32(0, true);
  const units = Uint32Array.from({ length: size / 4 }, (_, index) => view.getUint32(4 + 4 * index, true));
  const replacements = bytes.subarray(4 + size);
  const encoder = new TextEncoder(), decoder = new TextDecoder();
  const offset = (unit) => (unit >>> 10) << ((unit & 0x200) >>> 6);

  // The replacement of the shortest prefix that has one, as in the Rust library.
  const replacement = (text) => {
    let position = offset(units[0]);
    for (const byte of encoder.encode(text)) {
      position ^= byte;
      const unit = units[position];
      if (byte === 0 || unit === undefined || ((unit & 0x800000ff) >>> 0) !== byte) return null;
      position ^= offset(unit);
      if ((unit >>> 8) & 1) {
        const start = units[position] & 0x7fffffff;
        return decoder.decode(replacements.subarray(start, replacements.indexOf(0, start)));
      }
    }
    return null;
  };
  const ofCluster = (cluster) => {
    const whole = encoder.encode(cluster).length < 6 ? replacement(cluster) : null;
    return whole ?? Array.from(cluster, (character) => replacement(character) ?? character).join("");
  };
  return (text) => graphemes(text).map(ofCluster).join("");
}

// ---- The split into words ------------------------------------------------------------------------------------------

const PRE_TOKENIZERS = {
  Sequence: ({ pretokenizers }, library) => {
    const steps = pretokenizers.map((config, index) => preTokenization(config, library.tokenizers[index]));
    return (text) => steps.reduce((words, step) => words.flatMap(step), [text]);
  },
  WhitespaceSplit: () => (text) => text.match(/\P{White_Space}+/gu) ?? [],
  BertPreTokenizer: () => (text) => text.match(/[\p{P}!-/:-@[-`{-~]|[^\p{White_Space}\p{P}!-/:-@[-`{-~]+/gu) ?? [],
  Metaspace: ({ replacement = WORD_START, prepend_scheme: scheme = "always", split = true }, library) => {
    if (scheme !== "always") return (text) => library.pre_tokenize_text(text, {});
    return (text) => {
      text = text.replaceAll(" ", replacement);
      if (!text.startsWith(replacement)) text = replacement + text;
      return split ? text.split(new RegExp(`(?=${replacement})`, "u")) : [text];
    };
  },
};

function preTokenization(config, library) {
  if (!config) return (text) => [text];
  return PRE_TOKENIZERS[config.type]?.(config, library) ?? ((text) => library.pre_tokenize_text(text, {}));
}

// ---- Ids -----------------------------------------------------------------------------------------------------------

export class Tokenizer {
  // `pipeline` is the content of tokenizer.json, `special` the ids of the special tokens by name.
  constructor(pipeline, special) {
    this.special = special;
    this.library = new LibraryTokenizer(pipeline, {});
    this.model = this.library.model;
    this.normalize = normalization(pipeline.normalizer, this.library.normalizer);
    this.preTokenize = preTokenization(pipeline.pre_tokenizer, this.library.pre_tokenizer);
    this.library.normalizer &&= this.normalize;
    this.library.pre_tokenizer &&= this.preTokenize;
    this.isUnigram = pipeline.model.type === "Unigram";
    this.prefix = pipeline.model.continuing_subword_prefix ?? "";
    if (this.isUnigram) this.model.scores[this.model.unk_token_id] = pipeline.model.vocab[pipeline.model.unk_id][1];
    this.byteIds = pipeline.model.byte_fallback ? byteIds(this.model.tokens_to_ids) : null;
    this.reserved = new Set(Object.entries(special).filter(([name]) => name !== "unk").map(([, id]) => id));
  }

  // Ids of one token of the model: its own, those of its bytes, or the unknown token.
  #idsOf(token) {
    const id = this.model.tokens_to_ids.get(token);
    if (id !== undefined) return [id];
    if (this.byteIds) return Array.from(new TextEncoder().encode(token), (byte) => this.byteIds[byte]);
    return [this.model.unk_token_id ?? this.special.unk];
  }

  // Ids of a text in which "[MASK]" is the special token.
  idsWithSpecialTokens(text) {
    const { tokens } = this.library.encode(text, { add_special_tokens: false });
    return tokens.flatMap((token) => this.library.added_tokens_map.get(token)?.id ?? this.#idsOf(token));
  }

  // Ids of a text in which "[MASK]" is ordinary text.
  ids(text) {
    const tokens = this.preTokenize(this.normalize(text)).flatMap((word) => this.model([word]));
    return this.#withoutSpecialTokens(tokens.flatMap((token) => this.#idsOf(token)));
  }

  // A unigram vocabulary has "<pad>" with a high probability, so that text can match it.
  #withoutSpecialTokens(ids) {
    return ids.map((id) => (this.reserved.has(id) ? this.special.unk : id));
  }

  // Ids of a text, and start and end of each token in the text, in UTF-16 units.
  idsWithOffsets(text) {
    const ids = [], offsets = [];
    for (const { 0: word, index } of text.matchAll(/[^ \t\n\r]+/g)) {
      for (const token of this.#tokensWithOffsets(word)) {
        ids.push(token.id);
        offsets.push([index + token.start, index + token.end]);
      }
    }
    offsets.forEach((span, index) => {
      // A combining accent that normalization removed belongs to the token before it.
      const next = offsets[index + 1]?.[0] ?? text.length;
      while (span[1] < next && /^\p{Mn}/u.test(text.slice(span[1]))) span[1] += 1;
    });
    return { ids: this.#withoutSpecialTokens(ids), offsets };
  }

  #tokensWithOffsets(word) {
    const source = sourceIndices(word, this.normalize);
    const normalized = Array.from(this.normalize(word));
    const result = [];
    let position = 0; // in `normalized`
    const push = (id, length) => {
      const last = position + Math.max(1, length) - 1;
      result.push({ id, start: source.start(position), end: source.end(last) });
    };
    for (const part of this.preTokenize(normalized.join(""))) {
      let isFirst = true;
      for (const token of this.model([part])) {
        const hasId = this.model.tokens_to_ids.has(token);
        const isUnknownWord = !this.isUnigram && token === this.model.unk_token;
        let shown = isUnknownWord ? part : token;
        if (this.isUnigram && isFirst && shown.startsWith(WORD_START)) shown = shown.slice(1);
        if (!this.isUnigram && !isFirst && !isUnknownWord) shown = shown.slice(this.prefix.length);
        const characters = Array.from(shown);
        while (characters.length && position < normalized.length && normalized[position] !== characters[0]) position += 1;
        if (!hasId && this.byteIds) {
          for (const character of characters) {
            for (const id of this.#idsOf(character)) push(id, 1);
            position += 1;
          }
        } else {
          push(this.#idsOf(token)[0], characters.length);
          position += characters.length;
        }
        isFirst = false;
      }
    }
    return result;
  }

  // A token as people read it.
  show(id) {
    const token = this.model.vocab[id] ?? "";
    if (!this.isUnigram) return token;
    return token.startsWith(WORD_START) ? token.slice(1) : token;
  }

  // The tokens that people read as a text: one at the beginning of a word, and one inside of it.
  idsShownAs(text) {
    return [text, WORD_START + text].map((token) => this.model.tokens_to_ids.get(token)).filter((id) => id !== undefined && this.show(id) === text);
  }

  // Whether a token begins a word.
  startsWord(id) {
    const token = this.model.vocab[id] ?? "";
    return this.isUnigram ? token.startsWith(WORD_START) : !token.startsWith(this.prefix);
  }
}

function byteIds(ids) {
  const all = Array.from({ length: 256 }, (_, byte) => ids.get(`<0x${byte.toString(16).toUpperCase().padStart(2, "0")}>`));
  return all.includes(undefined) ? null : all;
}

// Where the characters of a normalized word come from: the lengths of normalized prefixes say it. Clusters of
// characters are treated one by one, because a word may be a passage of a script without spaces.
function sourceIndices(word, normalize) {
  const clusters = graphemes(word);
  const areSeparate = clusters.map(normalize).join("") === normalize(word);
  const starts = [0], sources = []; // by character of the word; by character of the normalized word
  for (const part of areSeparate ? clusters : [word]) {
    const before = sources.length;
    let prefix = "", length = 0;
    for (const character of part) {
      prefix += character;
      length = before + Array.from(normalize(prefix)).length;
      while (sources.length < length) sources.push(starts.length - 1);
      starts.push(starts.at(-1) + character.length);
    }
    sources.length = length;
  }
  const characterAt = (position) => sources[position] ?? Math.max(0, starts.length - 2);
  return { start: (position) => starts[characterAt(position)], end: (position) => starts[characterAt(position) + 1] };
}
