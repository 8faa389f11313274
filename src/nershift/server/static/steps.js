// The three steps: get text, correct, adapt. One is shown at a time; how each stands is always in sight.

import { byId } from "./dom.js";

const STEPS = ["text", "correct", "adapt"];

export class Steps {
  /** `onShow(step)` hears which one is shown. */
  constructor(state, onShow) {
    Object.assign(this, { state, onShow });
    for (const step of STEPS) byId(`step-${step}`).addEventListener("click", () => this.show(step));
  }

  show(step) {
    for (const name of STEPS) {
      byId(`view-${name}`).hidden = name !== step;
      byId(`step-${name}`).ariaCurrent = name === step ? "step" : null;
    }
    if (this.state.step !== step) this.state.remember({ step });
    this.onShow(step);
  }

  get current() {
    return this.state.step;
  }

  tell(step, how) {
    byId(`step-${step}-state`).textContent = how;
  }
}
