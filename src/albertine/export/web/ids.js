// Reads texts as JSON from standard input and writes their ids: `albertine export` compares them with its own.

import { readFileSync } from "node:fs";
import { Tokenizer } from "./tokenizer.js";

const read = (name) => JSON.parse(readFileSync(name, "utf-8"));
const tokenizer = new Tokenizer(read("tokenizer.json"), read("page.json").special);
const answers = read(0).map((text) => {
  const { ids, offsets } = tokenizer.idsWithOffsets(text);
  return { ids: tokenizer.ids(text), special: tokenizer.idsWithSpecialTokens(text), passage: ids, offsets };
});
process.stdout.write(JSON.stringify(answers));
