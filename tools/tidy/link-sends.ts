import { type Expression, Visitor } from "oxc-parser";
import { type Finding, lineAt, type SourceFile } from "./source.ts";

// The folders with the two ends of the link, in the server and in the agent. In each, only one file may write frames to the socket.
const LINK_FOLDER = /^packages\/(agent|server)\/src\/(link|streams)\//;
const WIRE = /^packages\/(agent|server)\/src\/link\/frame-socket\.ts$/;
const SOCKETS = new Set(["socket", "ws"]);
const WRITES = new Set(["send", "write", "ping", "pong"]);

/** Finds code of the link that writes to a socket directly: only the send queue bounds and prioritizes writes. */
export function findLinkSends(files: readonly SourceFile[]): Finding[] {
  return files.filter(({ path, is_product }) => is_product && LINK_FOLDER.test(path) && !WIRE.test(path)).flatMap(sendsIn);
}

function sendsIn({ path, text, program }: SourceFile): Finding[] {
  const findings: Finding[] = [];
  new Visitor({
    CallExpression({ callee, start }) {
      if (callee.type !== "MemberExpression" || callee.computed || callee.property.type !== "Identifier") return;
      const on = nameOf(callee.object);
      if (SOCKETS.has(on) && WRITES.has(callee.property.name))
        findings.push({
          file: path,
          line: lineAt(text, start),
          message: `${on}.${callee.property.name}: everything on a link goes through its SendQueue`,
        });
    },
  }).visit(program);
  return findings;
}

/** Returns the last name of `ws`, `this.socket` or `this.#socket`. */
function nameOf(expression: Expression): string {
  if (expression.type === "Identifier") return expression.name;
  if (expression.type !== "MemberExpression") return "";
  const { property } = expression;
  return property.type === "Identifier" || property.type === "PrivateIdentifier" ? property.name : "";
}
