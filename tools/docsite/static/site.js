// Opened as a file a page cannot read others, from which the search would show an excerpt for each result.
if (location.protocol === "file:") DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;
