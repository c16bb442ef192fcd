import assert from "node:assert/strict";
import { test } from "node:test";
import { editToml, removeTable } from "./toml-edit.ts";

const values = { token: "new", base_url: "http://x" };

test("an empty text gets the keys", () => {
  assert.equal(editToml("", [], values), 'token = "new"\nbase_url = "http://x"\n');
});

test("values change in place; comments, order, unknown keys and tables stay", () => {
  const text = `# my file
base_url = "http://old" # the office

  "token" = 'old'
color = "blue"

[profiles.lab]
token = "lab" # do not touch
`;
  assert.equal(
    editToml(text, [], values),
    `# my file
base_url = "http://x" # the office

  "token" = "new"
color = "blue"

[profiles.lab]
token = "lab" # do not touch
`,
  );
});

test("a missing key goes to the end of its section, not into the next table", () => {
  assert.equal(
    editToml('color = 1\n# about lab\n[profiles.lab]\ntoken = "l"\n', [], { token: "t" }),
    'color = 1\ntoken = "t"\n# about lab\n[profiles.lab]\ntoken = "l"\n',
  );
  assert.equal(editToml("a = 1 # no end", [], { token: "t" }), 'a = 1 # no end\ntoken = "t"\n');
});

test("a profile is made at the end, or changed where it is, also with a quoted name", () => {
  const once = editToml('token = "t"\n', ["profiles", "my lab"], values);
  assert.equal(once, 'token = "t"\n\n[profiles."my lab"]\ntoken = "new"\nbase_url = "http://x"\n');
  assert.equal(
    editToml(`${once}\n[other]\nx = 1\n`, ["profiles", "my lab"], { token: "newer" }),
    `${once.replace("new", "newer")}\n[other]\nx = 1\n`,
  );
});

test("values of several lines are replaced whole, and what looks like a table or key inside a string is left", () => {
  const text = 'note = """\n[profiles.x]\ntoken = "inside"\n"""\ntoken = """\nold"""\nlist = [\n  "a", # one\n  "]",\n]\n';
  assert.equal(
    editToml(text, [], { token: "t" }),
    'note = """\n[profiles.x]\ntoken = "inside"\n"""\ntoken = "t"\nlist = [\n  "a", # one\n  "]",\n]\n',
  );
});

test("keys are removed, line ends of the file are kept", () => {
  assert.equal(
    editToml('a = 1\r\ntoken = "x"\r\nbase_url = "y"\r\n', [], { token: undefined, base_url: "z" }),
    'a = 1\r\nbase_url = "z"\r\n',
  );
});

test("a text that is no TOML, or cannot be changed by lines, is refused", () => {
  assert.throws(() => editToml("token = ", [], values));
  assert.throws(() => editToml('profiles = { lab = { token = "x" } }\n', ["profiles", "lab"], values), /without losing/);
});

test("what a value holds is text, never TOML", () => {
  assert.equal(editToml("", [], { token: 'a"\n[x]\\' }), 'token = "a\\"\\n[x]\\\\"\n');
});

test("a table is removed with those in it; comments about the next one and the rest stay", () => {
  const text = `# mine\na = 1\n\n[profiles.lab]\ntoken = "x" # old\n[profiles.lab.more]\nb = 1\n\n# production\n[profiles.prod]\ntoken = "y"\n`;
  assert.equal(removeTable(text, ["profiles", "lab"]), `# mine\na = 1\n\n\n# production\n[profiles.prod]\ntoken = "y"\n`);
  assert.equal(removeTable(`a = 1\n[profiles]\n[profiles.lab]\nb = 1\n`, ["profiles", "lab"]), `a = 1\n[profiles]\n`);
});

test("a table that is written in one line is not torn out of it", () => {
  assert.throws(() => removeTable(`profiles = { lab = { token = "x" } }\n`, ["profiles", "lab"]), /cannot be changed/);
});
