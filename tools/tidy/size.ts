import { type Function as FunctionNode, type ArrowFunctionExpression, Visitor } from "oxc-parser";
import { type Finding, isTest, lineAt, lineCount, type SourceFile } from "./source.ts";

const FILE_LINES_MAX = 400;
const TEST_FILE_LINES_MAX = 600;
const FUNCTION_LINES_MAX = 70;

/** Finds files and functions that are too long. */
export function findOversize(files: readonly SourceFile[]): Finding[] {
  return files.flatMap((file) => [...oversizeFile(file), ...(isTest(file.path) ? [] : oversizeFunctions(file))]);
}

function oversizeFile({ path, text }: SourceFile): Finding[] {
  const lines_max = isTest(path) ? TEST_FILE_LINES_MAX : FILE_LINES_MAX;
  const lines = lineAt(text.trimEnd(), text.trimEnd().length);
  return lines > lines_max ? [{ file: path, line: lines_max, message: `${lines} lines, at most ${lines_max}` }] : [];
}

function oversizeFunctions({ path, text, program }: SourceFile): Finding[] {
  const findings: Finding[] = [];
  const check = ({ start, end }: FunctionNode | ArrowFunctionExpression): void => {
    const lines = lineCount(text, start, end);
    if (lines <= FUNCTION_LINES_MAX) return;
    findings.push({ file: path, line: lineAt(text, start), message: `a function of ${lines} lines, at most ${FUNCTION_LINES_MAX}` });
  };
  new Visitor({ FunctionDeclaration: check, FunctionExpression: check, ArrowFunctionExpression: check }).visit(program);
  return findings;
}
