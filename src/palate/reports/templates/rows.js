// Rows are made when they are looked at: ten thousand of them are a list of numbers until then.
document.querySelectorAll(".rows").forEach(function (part) {
  "use strict";
  var data = JSON.parse(part.querySelector("script").textContent);
  var VERDICTS = ["right", "wrong", "tie", "unscored"], STEP = 50;
  var form = part.querySelector(".filters"), fields = {}, list = part.querySelector(".list");
  var more = part.querySelector("button"), count = part.querySelector(".count");
  var found = [], shown = 0;

  function add(parent, tag, text, style) {
    var made = parent.appendChild(document.createElement(tag));
    if (text) made.textContent = text;
    if (style) made.className = style;
    if (style && style.indexOf("user-text") === 0) made.dir = "auto";
    return made;
  }

  function listing(box, title, places) {
    if (!places.length) return;
    add(box, "h3", title);
    var items = add(box, "ul", "", "posts");
    places.forEach(function (k) { add(items, "li", data.texts[k], "user-text"); });
  }

  // A row: user, codes, margins, then texts: question, chosen, other, shown, aspects, credit.
  function fill(box, row) {
    var user = data.users[row[0]];
    add(box, "p", data.texts[row[3]], "user-text");
    listing(box, "Shown of " + user + " (" + list.dataset.shown + ")", row[6]);
    listing(box, "What " + user + " looks for (shown to no scorer)", row[7]);
    var two = add(box, "div", "", "two"), left = add(two, "div"), right = add(two, "div");
    add(left, "h3", user + " chose");
    add(left, "p", data.texts[row[4]], "user-text answer chosen");
    add(right, "h3", "The other answer");
    add(right, "p", data.texts[row[5]], "user-text answer");
    var told = add(box, "ul", "", "verdicts");
    data.runs.forEach(function (run, k) {
      var line = add(told, "li", run + ": "), margin = row[2][k];
      add(line, "b", VERDICTS[row[1][2 * k]]);
      if (margin !== null) line.append(", margin " + margin);
    });
    if (data.texts[row[8]]) add(box, "p", data.texts[row[8]], "credit");
  }

  function show() {
    found.slice(shown, shown + STEP).forEach(function (row) {
      var box = add(list, "details", "", "row"), head = add(box, "summary");
      var run = fields.run.value, margin = row[2][run];
      add(head, "b", data.users[row[0]]);
      head.append(" " + data.texts[row[3]].slice(0, 90) + " ");
      add(head, "span", VERDICTS[row[1][2 * run]] + (margin === null ? "" : ", margin " + margin));
      box.addEventListener("toggle", function () {
        if (box.open && box.children.length === 1) fill(box, row);
      });
    });
    shown = Math.min(found.length, shown + STEP);
    more.hidden = shown >= found.length;
    count.textContent = found.length.toLocaleString("en") + " of " +
      data.rows.length.toLocaleString("en") + " rows";
  }

  function apply() {
    var at = 2 * fields.run.value;
    var wanted = fields.verdict.value;
    found = data.rows.filter(function (row, k) {
      return (wanted === "" || row[1][at] === wanted || (wanted === "divided" && k < data.divided)) &&
        (fields.margin.value === "" || row[1][at + 1] === fields.margin.value) &&
        (fields.user.value === "" || row[0] === +fields.user.value);
    });
    shown = 0;
    list.textContent = "";
    show();
  }

  form.querySelectorAll("select").forEach(function (each) { fields[each.name] = each; });
  form.hidden = false;
  form.addEventListener("change", apply);
  more.addEventListener("click", function () {
    var next = list.children.length;
    show();
    list.children[next].querySelector("summary").focus();
  });
  apply();
});
