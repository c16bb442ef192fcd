/** Class names that hold, in a row. */
export const cx = (...names: (string | false | undefined)[]): string => names.filter(Boolean).join(" ");
