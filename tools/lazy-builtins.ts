import { isBuiltin } from "node:module";
import type { Plugin } from "esbuild";

/**
 * Loads each of Node's built-in modules when it is first used. An import statement would load it at the start and read every property,
 * which loads further modules (one of node:http is all of undici): 8 of the 40 ms of `rf --help`, and 6 of the 70 MB of an idle agent.
 */
export const lazyBuiltins: Plugin = {
  name: "lazy-builtins",
  setup(bundler) {
    // One per importer, so that a start loads nothing that only some commands use.
    bundler.onResolve({ filter: /^[^./]/ }, ({ path: name, importer, kind }) => {
      if (!isBuiltin(name)) return undefined;
      const pluginData = name.replace(/^node:/, "");
      return {
        path: `${pluginData} of ${importer}`,
        pluginData,
        namespace: kind === "require-call" ? "required-builtin" : "imported-builtin",
      };
    });
    bundler.onLoad({ filter: /.*/, namespace: "required-builtin" }, ({ pluginData }) => ({
      contents: `module.exports = ${fetchBuiltin(pluginData)}`,
    }));
    bundler.onLoad({ filter: /.*/, namespace: "imported-builtin" }, ({ pluginData }) => ({ contents: importedBuiltin(pluginData) }));
  },
};

const fetchBuiltin = (name: string): string => `process.getBuiltinModule(${JSON.stringify(`node:${name}`)})`;

/** The bundler omits names that are not imported, because creating them has no side effects. */
function importedBuiltin(name: string): string {
  const names = Object.keys(process.getBuiltinModule(`node:${name}`) as object).filter(
    (key) => /^[A-Za-z_]\w*$/.test(key) && key !== "default",
  );
  const exported = names.map(
    (key) => `const $${key} = /* @__PURE__ */ (() => ${fetchBuiltin(name)}.${key})(); export { $${key} as ${key} };`,
  );
  const whole = name === "process" ? "process" : `/* @__PURE__ */ new Proxy({}, { get: (_, key) => ${fetchBuiltin(name)}[key] })`;
  return [...exported, `export default ${whole};`].join("\n");
}
