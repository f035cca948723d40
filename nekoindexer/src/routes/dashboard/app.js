// The page of an indexer: what it is asked, how fast it answers, what it drops, its neighbors, and the names that it lists.
import { $, ask, bytes, cell, count, el, fill, live, plural, searching, set, span, visible } from "/assets/common.js";
import { bars, curve } from "/assets/charts.js";

/** Seconds that the curve shows. */
const SECONDS = 120;
/** Queries per second, the oldest first. */
const rates = [];

// the adapter is written once the routes exist
