import fs from "node:fs";
import path from "node:path";

export interface Unstartable {
  /** The error that the kernel returns. */
  code: string;
  program: string;
  args?: string[];
  cwd?: string;
}

const PT_INTERP = 3;

/**
 * Copies a dynamically linked program, and sets the path of its interpreter beyond the end of the file. The kernel then reads too few bytes
 * and returns EIO.
 */
function withUnreadableInterpreter(target: string): void {
  const bytes = fs.readFileSync("/bin/true");
  const headers_at = Number(bytes.readBigUInt64LE(32));
  const [size, count] = [bytes.readUInt16LE(54), bytes.readUInt16LE(56)];
  for (let index = 0; index < count; index += 1) {
    const at = headers_at + index * size;
    if (bytes.readUInt32LE(at) === PT_INTERP) bytes.writeBigUInt64LE(BigInt(bytes.length + 4096), at + 8);
  }
  fs.writeFileSync(target, bytes, { mode: 0o755 });
}

/**
 * Creates programs that the kernel refuses to start, each with a different error. `close` closes a file that must stay open for one of
 * these errors.
 */
export function unstartables(directory: string): { all: Unstartable[]; close: () => void } {
  const at = (name: string): string => path.join(directory, name);
  fs.writeFileSync(at("file"), "");
  fs.copyFileSync("/bin/true", at("busy"));
  fs.chmodSync(at("busy"), 0o755);
  const writer = fs.openSync(at("busy"), "r+");
  withUnreadableInterpreter(at("unreadable"));
  fs.symlinkSync(at("loop"), at("loop"));
  fs.writeFileSync(at("denied"), "", { mode: 0o644 });
  return {
    all: [
      { code: "ENOTDIR", program: at("file/program") },
      { code: "ENOTDIR", program: "/bin/true", cwd: at("file/directory") },
      { code: "ETXTBSY", program: at("busy") },
      { code: "EIO", program: at("unreadable") },
      { code: "ELOOP", program: at("loop") },
      { code: "E2BIG", program: "/bin/true", args: ["x".repeat(256 * 1024)] },
      { code: "EACCES", program: at("denied") },
      { code: "ENOENT", program: at("nothing") },
    ],
    close: () => fs.closeSync(writer),
  };
}
