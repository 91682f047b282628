/*
 * Zoom and pan of the pictures of a panel: buttons, keys, the wheel, a double click, and dragging.
 * Part of one program; see base.js.
 *
 * `setting.view` holds the part of each axis that is shown, as shares of the whole: [[low, high], [low, high]], across
 * and upwards.  Pictures of one panel share it.
 */

const MOST_ZOOM = 1024;
const ZOOM_STEP = 1.6; // of a button or a key
const DRAG_START = 4; // pixels: less is a click

const wholeView = () => [[0, 1], [0, 1]];
const isWhole = ({ view }) => view.every(([low, high]) => low === 0 && high === 1);

/** The part of an axis that is shown. */
function shownPart(axis, [low, high]) {
  const width = axis.high - axis.low;
  return { ...axis, low: axis.low + low * width, high: high === 1 ? axis.high : axis.low + high * width };
}

/** A stretch of an axis of this width, moved inside the whole. */
function inside(low, width) {
  const start = Math.min(1 - width, Math.max(0, low));
  return width === 1 ? [0, 1] : [start, start + width];
}

/** Zoom by a factor around a point, given as shares of what is shown. */
function zoom(panel, factor, at = [0.5, 0.5]) {
  panel.setting.view = panel.setting.view.map(([low, high], i) => {
    const width = Math.min(1, Math.max(1 / MOST_ZOOM, (high - low) / factor));
    return inside(low + at[i] * (high - low - width), width);
  });
  showView(panel);
}

/** Move what is shown, by shares of its size. */
function pan(panel, shares) {
  panel.setting.view = panel.setting.view.map(([low, high], i) => inside(low + shares[i] * (high - low), high - low));
  showView(panel);
}

function showWhole(panel) {
  panel.setting.view = wholeView();
  showView(panel);
}

/** Pan so far that the values of a state are in the picture. */
function keepShown({ setting, ranges }, values) {
  setting.dims.forEach((d, i) => {
    const at = (values[d] - ranges[d].low) / (ranges[d].high - ranges[d].low);
    const [low, high] = setting.view[i];
    if (at < low || at > high) setting.view[i] = inside(at - (high - low) / 2, high - low);
  });
}

function showView(panel) {
  for (const { canvas } of panel.pictures) canvas.classList.toggle("zoomed", !isWhole(panel.setting));
  for (const button of panel.element.querySelectorAll(".zoom .whole, .zoom .out")) {
    button.disabled = isWhole(panel.setting);
  }
  drawSoon(panel);
}

/** Draw the pictures of a panel once before the next frame of the screen, however often it was asked for. */
function drawSoon(panel) {
  if (panel.waiting) return;
  panel.waiting = true;
  requestAnimationFrame(() => {
    panel.waiting = false;
    drawPanel(panel);
  });
}

function zoomButtons(panel) {
  const box = make("div", "zoom");
  box.setAttribute("role", "group");
  box.setAttribute("aria-label", "Zoom");
  const button = (name, text, label, act) => {
    const made = Object.assign(make("button", name, text), { type: "button", title: label });
    made.setAttribute("aria-label", label);
    made.addEventListener("click", act);
    box.append(made);
    return made;
  };
  button("in", "+", "Zoom in", () => zoom(panel, ZOOM_STEP));
  button("out", "\u2212", "Zoom out", () => zoom(panel, 1 / ZOOM_STEP)).disabled = true;
  button("whole", "Reset", "Show the whole space", () => showWhole(panel)).disabled = true;
  return box;
}

/** Where a pointer is, as shares of what is shown across and upwards. */
function shareAt({ canvas, frame }, event) {
  const box = canvas.getBoundingClientRect();
  return [
    (event.clientX - box.left - frame.left) / (frame.right - frame.left),
    (frame.bottom - event.clientY + box.top) / (frame.bottom - frame.top),
  ];
}

/** Zoom with the wheel and Ctrl (alone it scrolls the page) or a double click, and pan by dragging. */
function listenToZoom(picture) {
  const { panel, canvas } = picture;
  canvas.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    zoom(panel, Math.min(2, Math.max(0.5, 2 ** (-event.deltaY / 150))), shareAt(picture, event));
  }, { passive: false });
  canvas.addEventListener("dblclick", (event) => zoom(panel, ZOOM_STEP, shareAt(picture, event)));
  canvas.addEventListener("pointerdown", (event) => {
    picture.dragged = false;
    picture.held = event.button === 0 && !isWhole(panel.setting) ? { from: shareAt(picture, event), event } : null;
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!picture.held || !picture.frame) return;
    const start = picture.held.event;
    const way = Math.hypot(event.clientX - start.clientX, event.clientY - start.clientY);
    if (!picture.dragged && way < DRAG_START) return;
    if (!picture.dragged) canvas.setPointerCapture(event.pointerId);
    picture.dragged = true;
    const now = shareAt(picture, event);
    pan(panel, picture.held.from.map((share, i) => share - now[i]));
    picture.held.from = now;
  });
  for (const name of ["pointerup", "pointercancel"]) canvas.addEventListener(name, () => { picture.held = null; });
}

/** Zoom with + and -, around the cursor or the point explained; 0 shows all again. */
function zoomByKey(picture, key) {
  const { panel } = picture;
  const { setting } = panel;
  if (key === "0") {
    showWhole(panel);
    return true;
  }
  if (!["+", "=", "-"].includes(key)) return false;
  const values = setting.cursor ?? setting.point;
  keepShown(panel, values);
  const at = setting.view.map(([low, high], i) => {
    const d = setting.dims[i];
    if (d === undefined) return 0.5;
    const share = (values[d] - panel.ranges[d].low) / (panel.ranges[d].high - panel.ranges[d].low);
    return Math.min(1, Math.max(0, (share - low) / (high - low)));
  });
  zoom(panel, key === "-" ? 1 / ZOOM_STEP : ZOOM_STEP, at);
  return true;
}
