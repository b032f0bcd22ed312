// Package simcmd is the command "nephele sim": the cloud simulator alone, from a description of an
// account, until it is interrupted.
//
// Concurrency: a command runs once; the simulator that it starts ends with it.
package simcmd
