import { fields, type ImageFiles, list } from "./image-files.ts";
import { ImageRefused } from "./image-refused.ts";
import type { Image } from "./image.ts";

/** Reads the image of `docker save`: `manifest.json` names its config and its layers. */
export async function readDockerImage(files: ImageFiles): Promise<Image> {
  const images = list(await files.json(files.file("manifest.json"), "manifest.json"), "manifest.json");
  if (images.length !== 1) throw new ImageRefused(`it contains ${images.length} images, but a release has one`);
  const { Config, Layers } = fields(images[0], "manifest.json[0]");
  const layers = list(Layers ?? [], "manifest.json[0].Layers");
  return await files.image(
    files.file(nameOf(Config, "manifest.json[0].Config")),
    layers.map((layer, index) => files.file(nameOf(layer, `manifest.json[0].Layers[${index}]`))),
  );
}

function nameOf(value: unknown, what: string): string {
  if (typeof value !== "string") throw new ImageRefused(`${what} is not a file name`);
  return value;
}
