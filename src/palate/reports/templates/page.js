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
})();
