/** A part of an image, referenced by its position in the archive so that its bytes are not stored twice. */
export interface ImagePart {
  sha256: string;
  /** bytes */
  size: number;
  /** Offset of its first byte in the archive. */
  start: number;
}

export interface ImageLayer extends ImagePart {
  /** SHA-256 of the layer's plain tar, lower-case hex. */
  diff_id: string;
}

/** An image as its archive describes it, with every digest verified. */
export interface Image {
  /** `os/architecture` or `os/architecture/variant`; "" if unknown. */
  platform: string;
  config: ImagePart;
  /** From lowest to topmost. */
  layers: ImageLayer[];
}
