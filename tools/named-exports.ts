import path from "node:path";
import { pathToFileURL } from "node:url";
import type { Plugin } from "program-bundler";

const INSTALLED = `${path.sep}node_modules${path.sep}`;

/**
 * Gives `import("package")` of a CommonJS package the same named exports as in Node. The bundler exports only `default`, so `parse` from
 * `await import("yaml")` would be undefined in a bundle.
 */
export const namedExports: Plugin = {
  name: "named-exports",
  setup(bundler) {
    bundler.onResolve({ filter: /^[^./]/ }, async ({ path: name, kind, importer, resolveDir }) => {
      if (kind !== "dynamic-import") return undefined;
      const { path: file, namespace, errors } = await bundler.resolve(name, { kind: "import-statement", importer, resolveDir });
      if (errors.length > 0 || namespace !== "file" || !file.includes(INSTALLED)) return undefined;
      // Some packages have files that only bundlers can load. These are ES modules, whose exports the bundler finds.
      const names = await import(pathToFileURL(file).href).then(
        (found: object) => Object.keys(found),
        (): string[] => [],
      );
      // Node adds this name to CommonJS packages only.
      return names.includes("module.exports") ? { path: file, namespace: "named-exports", pluginData: names } : undefined;
    });
    bundler.onLoad({ filter: /.*/, namespace: "named-exports" }, ({ path: file, pluginData }) => {
      const names = (pluginData as string[]).filter((name) => /^[A-Za-z_$][\w$]*$/.test(name) && name !== "default");
      const lines = names.map((name) => `const $${name} = whole.${name}; export { $${name} as ${name} };`);
      const contents = [`const whole = require(${JSON.stringify(file)});`, ...lines, "export default whole;"].join("\n");
      return { contents, resolveDir: path.dirname(file) };
    });
  },
};
