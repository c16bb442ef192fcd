export { releaseName } from "./release-name.ts";
