import path from "node:path";

/** Whether this program is a bundle. Its chunks, `migrations`, `static` and `dashboard` are then in one directory. */
export const IS_BUNDLE = !import.meta.filename.endsWith(".ts");

/** Directory of this package's files: that of the bundle, or packages/server in a clone. */
export const PACKAGE_DIRECTORY = IS_BUNDLE ? import.meta.dirname : path.resolve(import.meta.dirname, "../..");
