import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { ExpositionParser, type GivenSample, LINE_CHARACTERS_MAX } from "./exposition.ts";

function parse(chunks: readonly (string | Uint8Array)[], is_open_metrics = false): { samples: GivenSample[]; invalid: string[] } {
  const [samples, invalid]: [GivenSample[], string[]] = [[], []];
  const parser = new ExpositionParser({
    is_open_metrics,
    sample: (sample) => samples.push(sample),
    invalid: (line) => invalid.push(line),
  });
  for (const chunk of chunks) parser.write(Buffer.from(chunk));
  parser.end();
  return { samples, invalid };
}

test("parses the text format of Prometheus", () => {
  const { samples, invalid } = parse([
    `# HELP http_requests_total The total number of HTTP requests.
# TYPE http_requests_total counter
http_requests_total{method="post",code="200"} 1027 1395066363000
http_requests_total{method="post",code="400",}    3 1395066363000

# Escaping in label values:
msdos_file_access_time_seconds{path="C:\\\\DIR\\\\FILE.TXT",error="Cannot find file:\\n\\"FILE.TXT\\""} 1.458255915e9
metric_without_timestamp_and_labels 12.47
something_weird{problem="division by zero}"} +Inf -3982045
not_a_number NaN
  indented{} -.5e-3\r
{"quoted.name", "key"="value"} 1
`,
  ]);
  assert.deepEqual(invalid, []);
  assert.deepEqual(samples, [
    { name: "http_requests_total", labels: { method: "post", code: "200" }, value: 1_027, time: 1_395_066_363_000 },
    { name: "http_requests_total", labels: { method: "post", code: "400" }, value: 3, time: 1_395_066_363_000 },
    {
      name: "msdos_file_access_time_seconds",
      labels: { path: "C:\\DIR\\FILE.TXT", error: 'Cannot find file:\n"FILE.TXT"' },
      value: 1_458_255_915,
    },
    { name: "metric_without_timestamp_and_labels", labels: {}, value: 12.47 },
    { name: "something_weird", labels: { problem: "division by zero}" }, value: Infinity, time: -3_982_045 },
    { name: "not_a_number", labels: {}, value: NaN },
    { name: "indented", labels: {}, value: -0.0005 },
    { name: "quoted.name", labels: { key: "value" }, value: 1 },
  ]);
});

test("parses OpenMetrics, whose timestamps are seconds, and ignores exemplars", () => {
  const { samples, invalid } = parse(
    [
      `# TYPE foo histogram
# UNIT foo seconds
foo_bucket{le="0.1"} 8 # {trace_id="} 1 #"} 0.054 1520879607.789
foo_bucket{le="+Inf"} 17 1520879607.5 # {trace_id="oHg5SJYRHA0"} 9.8
foo_count 17
# EOF
`,
    ],
    true,
  );
  assert.deepEqual(invalid, []);
  assert.deepEqual(
    samples.map(({ name, labels, value, time }) => [name, labels["le"], value, time]),
    [
      ["foo_bucket", "0.1", 8, undefined],
      ["foo_bucket", "+Inf", 17, 1_520_879_607_500],
      ["foo_count", undefined, 17, undefined],
    ],
  );
});

test("reports lines with another format, and continues with the next line", () => {
  const lines = [
    "no_value",
    "{} 1",
    'a{b="c"',
    "a{b=c} 1",
    'a{b="c" d="e"} 1',
    'a{b="1",b="2"} 1',
    "a{b} 1",
    "a 0x10",
    "a 1_000",
    "a 1 2 3",
    "a 1 NaN",
    "a one",
    'a{"b"} 1',
    "<html><body>404</body></html>",
    "x".repeat(LINE_CHARACTERS_MAX + 1),
  ];
  const { samples, invalid } = parse([...lines.map((line) => `${line}\n`), "good 1"]);
  assert.deepEqual(
    samples.map(({ name }) => name),
    ["good"],
  );
  assert.deepEqual(invalid, lines);
});

const labelName = fc.stringMatching(/^[a-z]{1,5}$/);
const sample = fc.record({
  name: fc.stringMatching(/^[a-z_][a-z0-9_]{0,10}$/),
  labels: fc.dictionary(labelName, fc.string({ unit: "binary", maxLength: 12 }), { maxKeys: 4 }),
  value: fc.double(),
  time: fc.option(fc.integer(), { nil: undefined }),
});

function write({ name, labels, value, time }: GivenSample): string {
  const pairs = Object.entries(labels).map(([label, text]) => {
    const escaped = text.replaceAll("\\", "\\\\").replaceAll('"', '\\"').replaceAll("\n", "\\n");
    return `${label}="${escaped}"`;
  });
  return `${name}{${pairs.join(",")}} ${String(value).replace("Infinity", "Inf")}${time === undefined ? "" : ` ${time}`}\n`;
}

/** Cuts bytes at the given positions. */
function cut(bytes: Buffer, positions: readonly number[]): Buffer[] {
  const ends = [...positions.map((at) => at % (bytes.length + 1)), bytes.length].toSorted((a, b) => a - b);
  return ends.map((end, i) => bytes.subarray(ends[i - 1] ?? 0, end));
}

test("reads what was written, wherever the bytes are divided", () => {
  fc.assert(
    fc.property(fc.array(sample, { maxLength: 8 }), fc.array(fc.nat(), { maxLength: 8 }), (given, positions) => {
      const written = given.map(({ time, ...rest }) => ({ ...rest, ...(time === undefined ? {} : { time }) }));
      const { samples, invalid } = parse(cut(Buffer.from(written.map(write).join("")), positions));
      assert.deepEqual(invalid, []);
      const plain = (all: readonly GivenSample[]) =>
        all.map(({ value, labels, ...rest }) => ({ ...rest, labels: Object.entries(labels), value: String(value) }));
      assert.deepEqual(plain(samples), plain(written));
    }),
  );
});

test("any bytes are parsed without an error, and equally wherever they are divided", () => {
  const noise = fc.array(fc.constantFrom("a", "b{", "}", '"', "\\", "=", ",", " 1", "#", "\n", "é", "NaN", "\r", "x".repeat(9_000)), {
    maxLength: 40,
  });
  fc.assert(
    fc.property(noise, fc.array(fc.nat(), { maxLength: 8 }), (parts, positions) => {
      const bytes = Buffer.from(parts.join(""));
      const [whole, divided] = [parse([bytes]), parse(cut(bytes, positions))];
      assert.deepEqual(divided.samples, whole.samples);
      assert.equal(divided.invalid.length, whole.invalid.length);
    }),
  );
});
