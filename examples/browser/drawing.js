// From a drawing to what the network was trained on: 8 x 8 levels from 0 to 16.
//
// The pictures of the training set are drawings of 32 x 32 black or white dots; a level counts the
// dots in a square of 4 x 4.

const DOTS = 32;
const SIDE = 8;
const HEIGHT = 30;

/** Levels of a drawing, given as rows of `size` numbers that are not zero where there is ink. */
export function levels(ink, size) {
  const counts = new Float32Array(SIDE * SIDE);
  const box = bounds(ink, size);
  if (box === null) return counts;
  const scale = Math.max(box.right - box.left, box.bottom - box.top) / HEIGHT;
  const middle = { x: (box.left + box.right) / 2, y: (box.top + box.bottom) / 2 };
  for (let row = 0; row < DOTS; row++) {
    for (let column = 0; column < DOTS; column++) {
      const x = Math.floor(middle.x + (column + 0.5 - DOTS / 2) * scale);
      const y = Math.floor(middle.y + (row + 0.5 - DOTS / 2) * scale);
      const inside = x >= 0 && x < size && y >= 0 && y < size;
      if (inside && ink[y * size + x]) counts[(row >> 2) * SIDE + (column >> 2)] += 1;
    }
  }
  return counts;
}

/** The smallest box around all ink; null if there is none. */
function bounds(ink, size) {
  const box = { left: size, top: size, right: 0, bottom: 0 };
  for (let place = 0; place < size * size; place++) {
    if (!ink[place]) continue;
    const x = place % size;
    const y = Math.floor(place / size);
    box.left = Math.min(box.left, x);
    box.right = Math.max(box.right, x + 1);
    box.top = Math.min(box.top, y);
    box.bottom = Math.max(box.bottom, y + 1);
  }
  return box.right > box.left ? box : null;
}
