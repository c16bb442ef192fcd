/** An uploaded archive claims to contain an image but has none that a robot can run. The message completes "its archive is refused:". */
export class ImageRefused extends Error {
  constructor(message: string) {
    super(message);
    this.name = "ImageRefused";
  }
}
