// Package show prints answers for people: explanations, plans, reachability, the use of rules, and
// the status of everything. Programs read the same answers as JSON.
//
// It owns words and layout, and decides nothing: its arguments are the types of api/analysis and of
// package status. Control characters in untrusted text do not reach the terminal.
//
// Concurrency: all functions are pure, except that some write to the writer that they are given.
package show
