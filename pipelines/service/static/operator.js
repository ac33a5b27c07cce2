// Follows a run: adds what happens to it to the table, shows how far it is, and loads the page again when its state is another.
"use strict";

const table = document.getElementById("progress");
const words = document.getElementById("how-far");
const bar = document.getElementById("bar");
const { run, state } = table.dataset;

function row(event) {
  const line = document.createElement("tr");
  const time = document.createElement("time");
  time.dateTime = event.time;
  time.textContent = event.time.slice(0, 19).replace("T", " ");
  for (const content of [time, event.event, event.text]) {
    const cell = document.createElement("td");
    cell.append(content);
    line.append(cell);
  }
  return line;
}

function show(progress) {
  words.textContent = progress ? progress.words : "";
  if (progress && progress.total) {
    bar.max = progress.total;
    bar.value = progress.done;
  } else {
    bar.removeAttribute("value"); // it goes on, and nobody has counted how far
  }
}

async function look() {
  let wait = 1000;
  try {
    const answer = await fetch(`/api/v1/operator/runs/${run}/events?after=${table.dataset.after}`);
    if (answer.status === 401) {
      location.reload(); // the session is over: sign in again
      return;
    }
    if (!answer.ok) throw new Error(answer.statusText);
    const said = await answer.json();
    for (const event of said.events) {
      table.tBodies[0].append(row(event));
      table.dataset.after = event.id;
    }
    show(said.progress);
    if (said.state !== state) {
      location.reload();
      return;
    }
  } catch {
    wait = 5000; // the service is away for a while
  }
  setTimeout(look, wait);
}

setTimeout(look, 500);
