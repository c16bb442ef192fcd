import tailwindcss from "@tailwindcss/vite";
import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

/** Placeholder that the server replaces with the nonce of each response. */
const NONCE_PLACEHOLDER = "__CSP_NONCE__";
const SERVER = process.env.ROAMFLEET_URL ?? "http://127.0.0.1:7600";

export default defineConfig({
  root: import.meta.dirname,
  plugins: [react(), tailwindcss()],
  html: { cspNonce: NONCE_PLACEHOLDER },
  build: {
    outDir: "dist",
    emptyOutDir: true,
    target: "es2024",
    // A page from before a server update finds that its chunks are missing and reloads: see src/ui/lazy-part.ts.
    manifest: true,
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    // All modules that the first page loads are in one chunk. Otherwise, modules that lazily loaded code also needs would become separate
    // chunks, which compress worse.
    rolldownOptions: { output: { codeSplitting: { groups: [{ name: "first", tags: ["$initial"] }] } } },
  },
  server: {
    port: 7700,
    proxy: {
      "/api": { target: SERVER, changeOrigin: true, ws: true, headers: { origin: SERVER } },
      "/docs": { target: SERVER, changeOrigin: true },
      "/ca.pem": { target: SERVER, changeOrigin: true },
      "/install.sh": { target: SERVER, changeOrigin: true },
    },
  },
});
