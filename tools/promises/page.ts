import { PROMISES } from "./promises.ts";

const cell = (text: string): string => text.replaceAll("|", "\\|").replaceAll("\n", " ");

/** docs/reference/promises.md: each promise, how it is proven, and what the last whole run measured. */
export function renderPage(proven: ReadonlyMap<number, readonly string[]>, machine: string): string {
  const rows = PROMISES.map(
    ({ number, promise, proof }) =>
      `| ${number} | ${cell(promise)} | ${cell(proof)} | ${(proven.get(number) ?? ["**not proven in this run**"]).map(cell).join("<br>")} |`,
  );
  return `# Promises

<!-- Written by \`npm run promises\`, which proves them; a test compares the promises with the code. -->

What Robofleet guarantees, and the figure that the proof of each measured. Run it yourself: \`npm run promises\`, or
\`npm run promises -- 16\` for one of them. \`npm test\` runs the same proofs in smaller sizes.

Measured on ${machine}.

| | promise | how it is proven | measured |
|---|---|---|---|
${rows.join("\n")}
`;
}
