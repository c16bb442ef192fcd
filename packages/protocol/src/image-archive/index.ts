export { ImageRefused } from "./image-refused.ts";
export type { Image, ImageLayer, ImagePart } from "./image.ts";
export { readImages } from "./read-image.ts";
