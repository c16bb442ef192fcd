import assert from "node:assert/strict";
import { test } from "node:test";
import { fileChunks } from "./robot-state.ts";

const file = (sha256: string, bytes: number) => ({ sha256, content: "ü".repeat(bytes / 2) });
const shown = (chunks: { sha256: string }[][]): string => chunks.map((chunk) => chunk.map(({ sha256 }) => sha256).join("")).join(" ");

test("splits config files of many robots into chunks by the size of their distinct contents", () => {
  const [a, b, c, huge] = [file("a", 40), file("b", 40), file("c", 40), file("h", 1_000)];
  assert.equal(shown(fileChunks([], 100)), "");
  assert.equal(shown(fileChunks([a, a, a, a, a, a], 100)), "aaaaaa");
  assert.equal(shown(fileChunks([a, b, a, b, c, a, b], 100)), "abab ca b");
  assert.equal(shown(fileChunks([a, huge, huge, b], 100)), "a hh b");
});
