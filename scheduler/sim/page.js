(() => {
  const facts = JSON.parse(document.getElementById("facts").textContent);
  const slider = document.getElementById("time"), shown = document.getElementById("moment"), play = document.getElementById("play");
  const cells = [...document.querySelectorAll(".gpu")].map((cell) => ({
    cell, title: cell.querySelector("title"),
    stays: (cell.dataset.s || "").split(";").filter(Boolean).map((stay) => stay.split(",").map(Number)),
  }));
  const cursors = [...document.querySelectorAll(".cursor")];
  const two = (number) => String(number).padStart(2, "0");
  const words = (seconds) => {
    const s = Math.round(seconds);
    if (s < 60) return s + "s";
    if (s < 3600) return Math.floor(s / 60) + "m" + two(s % 60) + "s";
    return Math.floor(s / 3600) + "h" + two(Math.floor((s % 3600) / 60)) + "m";
  };
  const show = (seconds) => {
    shown.textContent = words(seconds);
    for (const { cell, title, stays } of cells) {
      const stay = stays.find((entry) => entry[0] <= seconds && seconds < entry[1]);
      const workload = stay && facts.workloads[stay[2]];
      cell.setAttribute("class", "gpu " + (workload ? workload[1] : "idle"));
      title.textContent = cell.dataset.at + (workload ? ": " + workload[0] : ": free");
    }
    const x = facts.left + ((seconds - facts.first) / (facts.last - facts.first)) * facts.width;
    for (const line of cursors) { line.setAttribute("x1", x); line.setAttribute("x2", x); }
  };
  slider.addEventListener("input", () => show(Number(slider.value)));
  let timer = null;
  play.addEventListener("click", () => {
    if (timer) { clearInterval(timer); timer = null; play.textContent = "Play"; return; }
    if (Number(slider.value) >= facts.end) slider.value = 0;
    play.textContent = "Pause";
    timer = setInterval(() => {
      const next = Number(slider.value) + facts.end / 300;
      slider.value = Math.min(next, facts.end);
      show(Number(slider.value));
      if (next >= facts.end) play.click();
    }, 40);
  });
  show(Number(slider.value));
})();
