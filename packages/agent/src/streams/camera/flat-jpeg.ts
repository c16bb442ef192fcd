/** Luminance and the two color differences, each 0 to 255, as in JPEG. */
export type Ycc = readonly [number, number, number];

const BLOCK = 8;
/** The standard's Huffman codes for the size of a DC difference: the number of codes of each length, then their values. */
const DC_COUNTS = [0, 1, 5, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0];
const DC_SIZES = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11];
/** A single code of one bit: there are no AC coefficients. */
const AC_COUNTS = [1, ...Array.from({ length: 15 }, () => 0)];
/** Quantization step with which the DC value of a flat block equals its color. */
const DC_STEP = 8;

/** Codes by the size that they encode, derived from the counts as in the standard. */
const DC_CODES = ((): { code: number; length: number }[] => {
  const codes: { code: number; length: number }[] = [];
  let code = 0;
  DC_COUNTS.forEach((count, index) => {
    for (let i = 0; i < count; i += 1) codes.push({ code: code++, length: index + 1 });
    code <<= 1;
  });
  return codes;
})();

const segment = (marker: number, payload: readonly number[]): number[] => [
  0xff,
  marker,
  (payload.length + 2) >> 8,
  (payload.length + 2) & 0xff,
  ...payload,
];
const pair = (value: number): number[] => [value >> 8, value & 0xff];

function headOf(columns: number, rows: number): number[] {
  const components = [1, 2, 3];
  return [
    0xff,
    0xd8,
    ...segment(0xe0, [...Buffer.from("JFIF\0"), 1, 1, 0, 0, 1, 0, 1, 0, 0]),
    ...segment(0xdb, [0, DC_STEP, ...Array.from({ length: 63 }, () => 1)]),
    ...segment(0xc0, [8, ...pair(rows * BLOCK), ...pair(columns * BLOCK), 3, ...components.flatMap((id) => [id, 0x11, 0])]),
    ...segment(0xc4, [0x00, ...DC_COUNTS, ...DC_SIZES]),
    ...segment(0xc4, [0x10, ...AC_COUNTS, 0]),
    ...segment(0xda, [3, ...components.flatMap((id) => [id, 0x00]), 0, 63, 0]),
  ];
}

/** Encodes a baseline JPEG of flat squares of 8 × 8 pixels: enough for a test picture, and without a transform. About 6 KB for 80 × 60 squares. */
export function flatJpeg(columns: number, rows: number, color: (column: number, row: number) => Ycc): Uint8Array {
  const bytes = headOf(columns, rows);
  let bits = 0;
  let count = 0;
  const put = (code: number, length: number): void => {
    bits = (bits << length) | code;
    count += length;
    while (count >= 8) {
      const byte = (bits >> (count - 8)) & 0xff;
      bytes.push(byte);
      if (byte === 0xff) bytes.push(0);
      count -= 8;
    }
    bits &= (1 << count) - 1;
  };
  const before = [128, 128, 128];
  for (let row = 0; row < rows; row += 1)
    for (let column = 0; column < columns; column += 1)
      color(column, row).forEach((value, component) => {
        const difference = value - before[component]!;
        before[component] = value;
        const size = 32 - Math.clz32(Math.abs(difference));
        const { code, length } = DC_CODES[size]!;
        put(code, length);
        if (size > 0) put(difference > 0 ? difference : difference + (1 << size) - 1, size);
        put(0, 1);
      });
  if (count > 0) put((1 << (8 - count)) - 1, 8 - count);
  bytes.push(0xff, 0xd9);
  return Uint8Array.from(bytes);
}
