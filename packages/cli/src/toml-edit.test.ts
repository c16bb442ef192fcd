import assert from "node:assert/strict";
import { test } from "node:test";
import { editToml, removeTable } from "./toml-edit.ts";

const values = { token: "new", base_url: "http://x" };

test("adds keys to an empty TOML file", () => {
  assert.equal(editToml("", [], values), 'token = "new"\nbase_url = "http://x"\n');
});

test("changes TOML values in place and keeps comments, order, unknown keys and tables", () => {
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

test("adds a missing TOML key at the end of its section", () => {
  assert.equal(
    editToml('color = 1\n# about lab\n[profiles.lab]\ntoken = "l"\n', [], { token: "t" }),
    'color = 1\ntoken = "t"\n# about lab\n[profiles.lab]\ntoken = "l"\n',
  );
  assert.equal(editToml("a = 1 # no end", [], { token: "t" }), 'a = 1 # no end\ntoken = "t"\n');
});

test("adds a TOML profile at the end of the file or changes it in place", () => {
  const once = editToml('token = "t"\n', ["profiles", "my lab"], values);
  assert.equal(once, 'token = "t"\n\n[profiles."my lab"]\ntoken = "new"\nbase_url = "http://x"\n');
  assert.equal(
    editToml(`${once}\n[other]\nx = 1\n`, ["profiles", "my lab"], { token: "newer" }),
    `${once.replace("new", "newer")}\n[other]\nx = 1\n`,
  );
});

test("replaces multi-line TOML values and ignores tables and keys inside strings", () => {
  const text = 'note = """\n[profiles.x]\ntoken = "inside"\n"""\ntoken = """\nold"""\nlist = [\n  "a", # one\n  "]",\n]\n';
  assert.equal(
    editToml(text, [], { token: "t" }),
    'note = """\n[profiles.x]\ntoken = "inside"\n"""\ntoken = "t"\nlist = [\n  "a", # one\n  "]",\n]\n',
  );
});

test("removes TOML keys and keeps the file's line endings", () => {
  assert.equal(
    editToml('a = 1\r\ntoken = "x"\r\nbase_url = "y"\r\n', [], { token: undefined, base_url: "z" }),
    'a = 1\r\nbase_url = "z"\r\n',
  );
});

test("rejects invalid TOML and text that cannot be edited line by line", () => {
  assert.throws(() => editToml("token = ", [], values));
  assert.throws(() => editToml('profiles = { lab = { token = "x" } }\n', ["profiles", "lab"], values), /without losing/);
});

test("escapes a value so that it cannot inject TOML syntax", () => {
  assert.equal(editToml("", [], { token: 'a"\n[x]\\' }), 'token = "a\\"\\n[x]\\\\"\n');
});

test("removes a TOML table with its subtables and keeps the comments of the next table", () => {
  const text = `# mine\na = 1\n\n[profiles.lab]\ntoken = "x" # old\n[profiles.lab.more]\nb = 1\n\n# production\n[profiles.prod]\ntoken = "y"\n`;
  assert.equal(removeTable(text, ["profiles", "lab"]), `# mine\na = 1\n\n\n# production\n[profiles.prod]\ntoken = "y"\n`);
  assert.equal(removeTable(`a = 1\n[profiles]\n[profiles.lab]\nb = 1\n`, ["profiles", "lab"]), `a = 1\n[profiles]\n`);
});

test("refuses to remove an inline TOML table", () => {
  assert.throws(() => removeTable(`profiles = { lab = { token = "x" } }\n`, ["profiles", "lab"]), /cannot be changed/);
});
