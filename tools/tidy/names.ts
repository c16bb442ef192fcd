import { Visitor } from "oxc-parser";
import { type Finding, lineAt, type SourceFile } from "./source.ts";

const KEBAB_CASE = /^[a-z0-9]+(-[a-z0-9]+)*$/;
// Names that are too general: such a file collects unrelated code.
const EMPTY_WORD = /^(util|helper|common|manager|service)s?$/;
const EMPTY_SUFFIX = /(?:Util|Helper|Manager|Service)s?$/;

/** Finds files and folders that are not in kebab-case, and names that are too general. */
export function findBadNames(files: readonly SourceFile[]): Finding[] {
  return files.flatMap((file) => [...badPath(file.path), ...badDeclarations(file)]);
}

function badPath(file: string): Finding[] {
  const parts = file.split("/").map((part, at, all) => (at === all.length - 1 ? part.replace(/(\.test|\.d)?\.(ts|tsx|mjs)$/, "") : part));
  return parts.flatMap((part) => {
    const findings: Finding[] = [];
    if (!KEBAB_CASE.test(part)) findings.push({ file, line: 1, message: `"${part}" is not kebab-case` });
    const empty = part.split("-").find((word) => EMPTY_WORD.test(word));
    if (empty !== undefined) findings.push({ file, line: 1, message: `"${empty}" does not say what is in it` });
    return findings;
  });
}

function badDeclarations({ path, text, program }: SourceFile): Finding[] {
  const findings: Finding[] = [];
  const check = ({ id, start }: { id: { name: string } | null; start: number }): void => {
    if (id === null || !EMPTY_SUFFIX.test(id.name)) return;
    findings.push({ file: path, line: lineAt(text, start), message: `${id.name}: the last word does not say what it is` });
  };
  new Visitor({ ClassDeclaration: check, TSInterfaceDeclaration: check, TSTypeAliasDeclaration: check }).visit(program);
  return findings;
}
