import createCode from "qrcode-generator";
import { useMemo } from "react";

/** The quiet zone around the code, in cells. Scanners need it. */
const QUIET = 4;

/** A QR code. Black on white in every theme, because scanners need the contrast. */
export function QrCode({ text, label }: { text: string; label: string }) {
  const { size, path } = useMemo(() => draw(text), [text]);
  return (
    <svg
      role="img"
      aria-label={label}
      viewBox={`0 0 ${size} ${size}`}
      shapeRendering="crispEdges"
      className="w-full max-w-56 rounded-md border border-line"
    >
      <rect width={size} height={size} fill="#ffffff" />
      <path d={path} fill="#000000" />
    </svg>
  );
}

/** Returns the dark cells as one SVG path instead of a thousand elements. */
function draw(text: string): { size: number; path: string } {
  const code = createCode(0, "L");
  code.addData(text, "Byte");
  code.make();
  const count = code.getModuleCount();
  let path = "";
  for (let row = 0; row < count; row += 1)
    for (let column = 0; column < count; column += 1) if (code.isDark(row, column)) path += `M${column + QUIET} ${row + QUIET}h1v1h-1z`;
  return { size: count + 2 * QUIET, path };
}
