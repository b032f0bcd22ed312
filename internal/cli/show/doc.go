// Package show writes for people what answers say: explanations, plans, who reaches whom, what
// rules are good for, and how everything is. Programs read the same answers as JSON.
//
// It owns words and layout, and decides nothing: its arguments are the types of api/analysis, and
// of package status. Text that came from elsewhere does nothing to a terminal.
//
// Concurrency: all functions are pure, but that some write to the writer that they are given.
package show
