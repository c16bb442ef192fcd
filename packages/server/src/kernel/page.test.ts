import assert from "node:assert/strict";
import { test } from "node:test";
import { createTestDatabase } from "../engines/db/testing/index.ts";
import { containing } from "./page.ts";
import { bool, row, sql } from "./sql.ts";

const foundRow = row({ found: bool });

test("searches text in any case and language, without treating characters as a pattern", { timeout: 120_000 }, async () => {
  await using database = await createTestDatabase();
  const db = await database.connect();
  const found = async (name: string, q: string) => (await db.one(sql(foundRow)`select ${name}::text ~ ${containing(q)} as found`)).found;
  for (const [name, q] of [
    ["Dock Arm 7", "arm"],
    ["Робот", "рОБ"],
    ["Straße", "STRA"],
    ["100%_sure", "0%_S"],
    ["a.b*c+(d)[e]{f}|g^h$i\\j?", ".B*C+(D)[E]{F}|G^H$I\\J?"],
    ["tab\there", "\tH"],
    ["日本🤖", "本🤖"],
    ["a-b_c/d~e!f@g#h&i=j:k;l'm\"n<o>p,q", "-B_C/D~E!F@G#H&I=J:K;L'M\"N<O>P,Q"],
  ] as const) {
    assert.equal(await found(name, q), true, `${q} in ${name}`);
  }
  assert.equal(await found("abc", "a.c"), false);
  assert.equal(await found("abc", "^a"), false);
});
