/** Joins class names; leaves out `false` and `undefined`. */
export const cx = (...names: (string | false | undefined)[]): string => names.filter(Boolean).join(" ");
