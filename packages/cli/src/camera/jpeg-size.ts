/** Returns width and height of a JPEG in pixels; undefined if the headers do not contain them. */
export function jpegSize(jpeg: Buffer): { width: number; height: number } | undefined {
  if (jpeg[0] !== 0xff || jpeg[1] !== 0xd8) return undefined;
  for (let at = 2; at + 9 < jpeg.length;) {
    if (jpeg[at] !== 0xff) return undefined;
    const code = jpeg[at + 1]!;
    if (code === 0xff) {
      at += 1;
      continue;
    }
    // SOF0 to SOF15, except DHT, JPG and DAC.
    if (code >= 0xc0 && code <= 0xcf && ![0xc4, 0xc8, 0xcc].includes(code))
      return { height: jpeg.readUInt16BE(at + 5), width: jpeg.readUInt16BE(at + 7) };
    at += 2 + jpeg.readUInt16BE(at + 2);
  }
  return undefined;
}
