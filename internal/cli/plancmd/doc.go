// Package plancmd is the command "nephele plan": what would change in the cloud.
//
// It owns the command's flags, its exit code and --strict; package source reads the inputs, package
// preview makes the plan (or the controller, which Command asks first), and package show prints it.
// HistoryPlanner and Preview offer the same plan to other commands and to tests. A command runs
// once and keeps nothing.
package plancmd
