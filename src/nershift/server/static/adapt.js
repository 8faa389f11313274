// Adaptation: start a job, follow it, tell when the new version serves and when its F1 is known.

import * as api from "./api.js";
import { attempt, byId, count, showError } from "./dom.js";
import { f1Text } from "./versions.js";

const EVERY = 600; // milliseconds between questions
const OVER = ["done", "failed", "cancelled"];
const pause = (time) => new Promise((wake) => setTimeout(wake, time));

export class Adaptation {
  /** `onVersion(name, before)` is called once the new version serves, `onEnd()` when the job is over. */
  constructor({ labels, versions, state, onVersion, onEnd }) {
    Object.assign(this, { labels, versions, state, onVersion, onEnd, following: null });
    byId("adapt-form").addEventListener("submit", (event) => {
      event.preventDefault();
      if (byId("adapt").ariaDisabled !== "true") attempt(() => this.start(), byId("adapt"));
    });
    byId("job-cancel").addEventListener("click", (event) => attempt(() => this.cancel(), event.target));
  }

  render() {
    const { accepted } = this.labels.tally;
    byId("adapt").ariaDisabled = String(accepted === 0 || this.state.job !== null);
    byId("adapt-hint").textContent = accepted > 0 ? `from ${count(accepted, "sentence")}` : "accept a sentence first";
    byId("job").hidden = this.state.job === null;
    this.follow();
  }

  async start() {
    const before = this.versions.current;
    byId("job-result").textContent = "";
    const answer = await api.adapt(this.labels.given(), byId("adapt-note").value.trim(), byId("adapt-validate").checked);
    byId("job-message").textContent = "Waiting";
    byId("job-progress").value = 0;
    this.state.remember({ job: { name: answer.job, before, served: false } });
  }

  cancel() {
    return api.cancelJob(this.state.job.name);
  }

  /** Ask after the job until it is over; picks up after a reload, and only once at a time. */
  async follow() {
    if (this.following || !this.state.job) return;
    this.following = this.state.job.name;
    try {
      let state = await api.job(this.following);
      while (!(await this.report(state))) {
        await pause(EVERY);
        state = await api.job(this.following);
      }
    } catch (error) {
      if (error.status === 404) this.lose();
      else {
        showError(error);
        await pause(5 * EVERY);
      }
    } finally {
      this.following = null;
      this.render();
    }
  }

  /** The server, restarted meanwhile, no longer knows of the job. */
  lose() {
    const served = this.state.job?.served;
    this.state.remember({ job: null });
    if (served) byId("job-result").textContent = "The server was restarted before F1 was estimated.";
    else showError({ message: "The server was restarted before the adaptation was over.", fix: "Press Adapt again." });
  }

  /** Show how a job stands; true when there is no more to come. */
  async report({ state, progress, message, version, f1 }) {
    const over = OVER.includes(state);
    const job = this.state.job;
    if (!job) return this.onEnd().then(() => true); // another tab has seen the end of it
    byId("job-progress").value = progress;
    byId("job-message").textContent = message || state;
    if (version && !job.served) {
      this.state.remember({ job: { ...job, served: true }, compared: { before: job.before, after: version } });
      await this.onVersion(version);
    }
    if (version) byId("job-result").textContent = this.outcome(version, f1, over);
    if (!over) return false;
    this.state.remember({ job: null });
    if (state === "failed") showError({ message: message || "The adaptation failed.", fix: "The version before it still serves." });
    if (!version) byId("job-result").textContent = state === "cancelled" ? "Cancelled; nothing has changed." : "";
    await this.onEnd();
    return true;
  }

  outcome(version, f1, over) {
    if (f1) return `${version} serves. On your labels, cross-validated: ${f1Text(f1)}.`;
    return over ? `${version} serves.` : `${version} serves; its F1 is being estimated.`;
  }
}
