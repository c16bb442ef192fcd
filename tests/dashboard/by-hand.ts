import type { Page } from "playwright-core";

/** Drops a file on the page, like a file manager. */
export async function drop(page: Page, file: string): Promise<void> {
  await page.evaluate(`document.body.insertAdjacentHTML("beforeend", '<input type="file" id="hand">')`);
  await page.locator("#hand").setInputFiles(file);
  await page.evaluate(`(() => {
    const hand = document.querySelector("#hand");
    const dataTransfer = new DataTransfer();
    dataTransfer.items.add(hand.files[0]);
    for (const type of ["dragenter", "dragover", "drop"])
      document.querySelector("main").dispatchEvent(new DragEvent(type, { dataTransfer, bubbles: true, cancelable: true }));
    hand.remove();
  })()`);
}

/** Types a line into the focused element and presses Enter. */
export async function type(page: Page, text: string): Promise<void> {
  await page.keyboard.type(text);
  await page.keyboard.press("Enter");
}

/** Returns the text in the terminal. */
export const screen = (page: Page): Promise<string> => page.locator("[data-terminal] .xterm-rows").innerText();

/** Returns a checksum of the picture on the page's canvas. */
export const picture = (page: Page): Promise<number> =>
  page.evaluate<number>(`(() => {
    const canvas = document.querySelector("canvas");
    if (canvas === null || canvas.width === 0) return 0;
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    let sum = 0;
    for (let at = 0; at < data.length; at += 4) sum = (Math.imul(sum, 31) + data[at] + data[at + 1] * 7 + data[at + 2] * 13) | 0;
    return sum;
  })()`);
