// Package explaincmd is the command "nephele explain": whether a flow is allowed, and by which
// rule.
//
// It owns the command's flags and its exit code, and decides what is read for a question: what
// package source offers, and only the accounts of the two ends (FlowsNeeds reads all accounts in
// the same way for "nephele flows"). Package explain answers, or the controller, or the controller
// of the hub for a question about clusters of a set; package show prints. A command runs once and
// keeps nothing.
package explaincmd
