(function () {
  "use strict";
  document.documentElement.classList.add("js");

  // tablesort answers to Enter; a person who uses a keyboard expects Space as well.
  document.querySelectorAll("main table").forEach(function (table) {
    if (table.rows.length < 3) return;
    table.classList.add("sortable");
    new Tablesort(table, { descending: false });
    table.tHead.addEventListener("keydown", function (event) {
      if (event.key === " " && event.target.tagName === "TH") {
        event.preventDefault();
        event.target.click();
      }
    });
  });

  var filter = document.getElementById("filter");
  if (!filter) return;
  filter.hidden = false;
  var pairs = document.querySelectorAll("details.pair");
  var count = document.getElementById("filter-count");
  function chosen(name) {
    var field = document.getElementById("filter-" + name);
    return field ? field.value : "";
  }
  function apply() {
    var subset = chosen("subset"), scorer = chosen("scorer"), shown = 0;
    pairs.forEach(function (pair) {
      var wrong = (pair.getAttribute("data-wrong") || "").split(" ");
      var hide = (subset !== "" && pair.getAttribute("data-subset") !== subset) ||
        (scorer !== "" && wrong.indexOf(scorer) < 0);
      pair.hidden = hide;
      if (!hide) shown += 1;
    });
    count.textContent = shown + " of " + pairs.length + " pairs";
  }
  filter.addEventListener("change", function () {
    apply();
    document.querySelectorAll("details.more").forEach(function (more) { more.open = true; });
  });
  apply();
})();
